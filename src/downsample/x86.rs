//! Selections with the vectors of x86-64, for which no compiler finds good code by itself: all pixels that become one
//! are brought into the same lane of several vectors, and nothing is moved between lanes but the result.

use std::arch::x86_64::*;
use std::marker::PhantomData;
use std::ops::{BitAnd, BitOr};

use super::pixel::Pixel;
use super::reduction::Selection;
use super::value::Value;

/// Bytes of a row that are read at once, and those of the result.
const BLOCK: usize = 64;
const PLACES: usize = BLOCK / 2;

/// The pixels of a vector. There are values of it only where AVX2 was found.
#[derive(Clone, Copy)]
pub(super) struct Lanes<P>(__m256i, PhantomData<P>);

/// Of each lane, all bits or none.
#[derive(Clone, Copy)]
pub(super) struct Mask(__m256i);

impl BitAnd for Mask {
    type Output = Self;

    #[inline(always)]
    fn bitand(self, other: Self) -> Self {
        // SAFETY: who has a vector has AVX2.
        Self(unsafe { _mm256_and_si256(self.0, other.0) })
    }
}

impl BitOr for Mask {
    type Output = Self;

    #[inline(always)]
    fn bitor(self, other: Self) -> Self {
        // SAFETY: as above.
        Self(unsafe { _mm256_or_si256(self.0, other.0) })
    }
}

macro_rules! lanes {
    ($($pixel:ident $min:ident $max:ident $same:ident $mean:ident $unsigned:expr),+ $(,)?) => { $(
        impl Value for Lanes<$pixel> {
            type Mask = Mask;

            #[inline(always)]
            fn ordered(first: Self, second: Self) -> (Self, Self) {
                // SAFETY: who has a vector has AVX2.
                unsafe { (lanes($min(first.0, second.0)), lanes($max(first.0, second.0))) }
            }

            #[inline(always)]
            fn same(first: Self, second: Self) -> Mask {
                // SAFETY: as above.
                Mask(unsafe { $same(first.0, second.0) })
            }

            #[inline(always)]
            fn pick(mask: Mask, then: Self, otherwise: Self) -> Self {
                // SAFETY: as above.
                lanes(unsafe { _mm256_blendv_epi8(otherwise.0, then.0, mask.0) })
            }

            #[inline(always)]
            fn middle(first: Self, second: Self) -> Self {
                // SAFETY: as above.
                unsafe {
                    // There is a mean of unsigned numbers alone. Signed ones are in their order without the sign.
                    let unsigned = $unsigned;
                    let [first, second] = [first, second].map(|value| _mm256_xor_si256(value.0, unsigned));
                    lanes(_mm256_xor_si256($mean(first, second), unsigned))
                }
            }

            #[inline(always)]
            fn unless_nan(self, _: Self) -> Self {
                self
            }
        }
    )+ };
}

lanes! {
    u8 _mm256_min_epu8 _mm256_max_epu8 _mm256_cmpeq_epi8 _mm256_avg_epu8 _mm256_setzero_si256(),
    i8 _mm256_min_epi8 _mm256_max_epi8 _mm256_cmpeq_epi8 _mm256_avg_epu8 _mm256_set1_epi8(i8::MIN),
    u16 _mm256_min_epu16 _mm256_max_epu16 _mm256_cmpeq_epi16 _mm256_avg_epu16 _mm256_setzero_si256(),
    i16 _mm256_min_epi16 _mm256_max_epi16 _mm256_cmpeq_epi16 _mm256_avg_epu16 _mm256_set1_epi16(i16::MIN),
}

#[inline(always)]
fn lanes<P>(vector: __m256i) -> Lanes<P> {
    Lanes(vector, PhantomData)
}

/// Reduces all pairs of the rows if they fill a block, and gives how many bytes of a row these are.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn select<P: Pixel, S: Selection, const PLANES: usize>(
    mut planes: [[&[u8]; 2]; PLANES],
    out: &mut [u8],
) -> usize
where
    Lanes<P>: Value,
{
    let whole = planes[0][0].len() / (2 * size_of::<P>()) * (2 * size_of::<P>());
    if whole < BLOCK {
        return 0;
    }
    // Of one length, they need one check in the loop.
    planes.as_flattened_mut().iter_mut().for_each(|row| *row = &row[..whole]);
    let out = &mut out[..whole / 2];
    for at in (0..whole).step_by(BLOCK) {
        // The last block may overlap the one before, which gives the same again.
        let at = at.min(whole - BLOCK);
        let mut pixels = [[lanes(_mm256_setzero_si256()); 4]; PLANES];
        for (four, rows) in pixels.iter_mut().zip(&planes) {
            let block = |row: &[u8]| columns::<P>(row[at..].first_chunk().expect("a block"));
            let ([a, b], [c, d]) = (block(rows[0]), block(rows[1]));
            *four = [a, b, c, d];
        }
        place(S::select(pixels), out[at / 2..].first_chunk_mut().expect("half a block"));
    }
    whole
}

/// The pixels of even and those of odd columns: of the first half of the block in every other lane, of the second half
/// in the lanes between. A pixel is brought into the lane beside its own by where it is read from.
#[inline]
#[target_feature(enable = "avx2")]
fn columns<P>(block: &[u8; BLOCK]) -> [Lanes<P>; 2] {
    let second = if size_of::<P>() == 1 { _mm256_set1_epi16(-1 << 8) } else { _mm256_set1_epi32(-1 << 16) };
    // SAFETY: a vector of 32 bytes at each of these places lies within the block.
    let vector = |at: usize| unsafe { _mm256_loadu_si256(block[at..][..PLACES].as_ptr().cast()) };
    let (even, odd) = ([0, PLACES - size_of::<P>()].map(vector), [size_of::<P>(), PLACES].map(vector));
    [even, odd].map(|[first_half, second_half]| lanes(_mm256_blendv_epi8(first_half, second_half, second)))
}

/// Writes what became of the two halves of a block one after the other.
#[inline]
#[target_feature(enable = "avx2")]
fn place<P>(pixels: Lanes<P>, out: &mut [u8; PLACES]) {
    let halves = if size_of::<P>() == 1 {
        _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15)
    } else {
        _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15)
    };
    let within = _mm256_shuffle_epi8(pixels.0, _mm256_broadcastsi128_si256(halves));
    let whole = _mm256_permute4x64_epi64::<0b11_01_10_00>(within);
    // SAFETY: the place has the 32 bytes of a vector.
    unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), whole) };
}
