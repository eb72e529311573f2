//! What the reductions need to know of an element type.

/// An element type, read from and written to bytes that need no alignment.
pub(super) trait Pixel: Copy + PartialOrd {
    /// The bytes of one pixel, and of two that follow each other.
    type Bytes: Copy;
    type Pair: Copy;

    fn whole(row: &mut [u8]) -> &mut [Self::Bytes];
    /// The pairs of a row, and the last pixel where their number is odd.
    fn pairs(row: &[u8]) -> (&[Self::Pair], Option<[Self; 2]>);
    fn split(pair: Self::Pair) -> [Self; 2];
    fn bytes(self) -> Self::Bytes;

    /// The mean of 4 or 8 pixels, four of a plane, upper row first.
    fn mean(planes: &[[Self; 4]]) -> Self;
    /// The mean of two pixels, rounded in the same way.
    fn middle(self, other: Self) -> Self;
    #[inline(always)]
    fn is_nan(self) -> bool {
        false
    }
}

macro_rules! pixel {
    ($type:ty, $bytes:literal, $pair:literal, $bits:ty, $word:ty, $from_bits:expr) => {
        type Bytes = [u8; $bytes];
        type Pair = [u8; $pair];

        #[inline(always)]
        fn whole(row: &mut [u8]) -> &mut [Self::Bytes] {
            row.as_chunks_mut().0
        }

        #[inline(always)]
        fn pairs(row: &[u8]) -> (&[Self::Pair], Option<[Self; 2]>) {
            let (pairs, last) = row.as_chunks();
            (pairs, last.first_chunk().map(|last| [<$type>::from_ne_bytes(*last); 2]))
        }

        // One word of twice the width: halves of a vector's lanes cost less than every other one of its lanes.
        #[inline(always)]
        fn split(pair: Self::Pair) -> [Self; 2] {
            let word = <$word>::from_le_bytes(pair);
            [word as $bits, (word >> <$bits>::BITS) as $bits].map(|bits| $from_bits(<$bits>::from_le(bits)))
        }

        #[inline(always)]
        fn bytes(self) -> Self::Bytes {
            self.to_ne_bytes()
        }
    };
}

/// Integers whose sums fit into a wider type.
macro_rules! narrow {
    ($($type:ident $bytes:literal $pair:literal $bits:ident $word:ident $sum:ident),+) => { $(
        impl Pixel for $type {
            pixel!($type, $bytes, $pair, $bits, $word, |bits: $bits| bits as $type);

            #[inline(always)]
            fn mean(planes: &[[Self; 4]]) -> Self {
                let pixels = planes.as_flattened();
                let sum: $sum = pixels.iter().map(|pixel| $sum::from(*pixel)).sum();
                ((sum + pixels.len() as $sum / 2) >> pixels.len().ilog2()) as Self
            }

            #[inline(always)]
            fn middle(self, other: Self) -> Self {
                (($sum::from(self) + $sum::from(other) + 1) >> 1) as Self
            }
        }
    )+ };
}

/// Integers for whose sums there is no wider type that is fast: quotients and remainders are added by themselves.
macro_rules! wide {
    ($($type:ident),+) => { $(
        impl Pixel for $type {
            pixel!($type, 8, 16, u64, u128, |bits: u64| bits as $type);

            #[inline(always)]
            fn mean(planes: &[[Self; 4]]) -> Self {
                let pixels = planes.as_flattened();
                let (shift, mask) = (pixels.len().ilog2(), pixels.len() as Self - 1);
                let quotients: Self = pixels.iter().map(|pixel| pixel >> shift).sum();
                let remainders: Self = pixels.iter().map(|pixel| pixel & mask).sum();
                quotients + ((remainders + pixels.len() as Self / 2) >> shift)
            }

            #[inline(always)]
            fn middle(self, other: Self) -> Self {
                (self >> 1) + (other >> 1) + (((self & 1) + (other & 1) + 1) >> 1)
            }
        }
    )+ };
}

/// Floating point numbers, whose sums are `f64`.
trait Float: Sized {
    /// The mean of some, or, where their sum is not finite, that of `parts`: a sum may pass the largest number, and
    /// that of parts can't. Parts alone would not do: the smallest numbers have none.
    fn finite(mean: f64, parts: impl FnOnce() -> f64) -> Self;
}

impl Float for f32 {
    #[inline(always)]
    fn finite(mean: f64, _: impl FnOnce() -> f64) -> Self {
        // No sum of eight of them is too large.
        mean as Self
    }
}

impl Float for f64 {
    #[inline(always)]
    fn finite(mean: f64, parts: impl FnOnce() -> f64) -> Self {
        if mean.is_finite() { mean } else { parts() }
    }
}

macro_rules! float {
    ($($type:ident $bytes:literal $pair:literal $bits:ident $word:ident),+) => { $(
        impl Pixel for $type {
            pixel!($type, $bytes, $pair, $bits, $word, $type::from_bits);

            #[inline(always)]
            fn mean(planes: &[[Self; 4]]) -> Self {
                let sum = |plane: &[Self; 4], part: f64| {
                    let [a, b, c, d] = plane.map(|pixel| f64::from(pixel) * part);
                    (a + b) + (c + d)
                };
                let mean = |part: f64, rest: f64| match planes {
                    [first, second] => (sum(first, part) + sum(second, part)) * rest,
                    _ => sum(&planes[0], part) * rest,
                };
                let part = 0.25 / planes.len() as f64;
                Self::finite(mean(1.0, part), || mean(part, 1.0))
            }

            #[inline(always)]
            fn middle(self, other: Self) -> Self {
                let (first, second) = (f64::from(self), f64::from(other));
                Self::finite((first + second) * 0.5, || first * 0.5 + second * 0.5)
            }

            #[inline(always)]
            fn is_nan(self) -> bool {
                self.is_nan()
            }
        }
    )+ };
}

narrow! {
    u8 1 2 u8 u16 u16, i8 1 2 u8 u16 i16, u16 2 4 u16 u32 u32, i16 2 4 u16 u32 i32, u32 4 8 u32 u64 u64,
    i32 4 8 u32 u64 i64
}
wide! { u64, i64 }
float! { f32 4 8 u32 u64, f64 8 16 u64 u128 }
