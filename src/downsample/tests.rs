//! Every method, element type and shape against a model that looks at one pixel after the other.

use std::cmp::Ordering;
use std::fmt::Debug;

use proptest::prelude::*;

use super::*;

/// What the model knows of an element type.
trait Value: Copy + PartialOrd + Debug {
    const DTYPE: Dtype;
    /// Any value, more often one of a few, the extremes among them.
    fn any(random: u64) -> Self;
    /// Of what is there of each row.
    fn mean(rows: &[Vec<Self>]) -> Self;
    fn to_bytes(self) -> Vec<u8>;
    fn of_bytes(bytes: &[u8]) -> Self;

    #[allow(clippy::eq_op)]
    fn is_unordered(&self) -> bool {
        self != self
    }

    /// NaNs last, as NumPy sorts.
    fn compare(&self, other: &Self) -> Ordering {
        self.partial_cmp(other).unwrap_or_else(|| self.is_unordered().cmp(&other.is_unordered()))
    }

    fn is_same(&self, other: &Self) -> bool {
        self.compare(other) == Ordering::Equal
    }
}

macro_rules! bytes {
    ($type:ident) => {
        fn to_bytes(self) -> Vec<u8> {
            self.to_ne_bytes().to_vec()
        }

        fn of_bytes(bytes: &[u8]) -> Self {
            Self::from_ne_bytes(bytes.try_into().unwrap())
        }
    };
}

macro_rules! integers {
    ($($type:ident $dtype:ident),+) => { $(
        impl Value for $type {
            const DTYPE: Dtype = Dtype::$dtype;

            fn any(random: u64) -> Self {
                match random % 8 {
                    0 => Self::MIN,
                    1 => Self::MAX,
                    2 => Self::MAX - 1,
                    3..6 => ((random >> 8) % 4) as Self,
                    _ => (random >> 8) as Self,
                }
            }

            fn mean(rows: &[Vec<Self>]) -> Self {
                let values: Vec<i128> = rows.concat().into_iter().map(i128::from).collect();
                // floor(sum / n + 1 / 2)
                let n = values.len() as i128;
                (2 * values.iter().sum::<i128>() + n).div_euclid(2 * n) as Self
            }

            bytes!($type);
        }
    )+ };
}

macro_rules! floats {
    ($($type:ident $dtype:ident),+) => { $(
        impl Value for $type {
            const DTYPE: Dtype = Dtype::$dtype;

            fn any(random: u64) -> Self {
                match random % 16 {
                    0 => Self::NAN,
                    1 => Self::INFINITY,
                    2 => Self::NEG_INFINITY,
                    3 => -0.0,
                    4 => Self::MAX,
                    5 => Self::MIN / 1.5,
                    6..12 => ((random >> 8) % 4) as Self,
                    _ => (random as i64 >> 8) as Self / 1e9,
                }
            }

            fn mean(rows: &[Vec<Self>]) -> Self {
                // Divided first, no sum is too large. There are 1, 2, 4 or 8, so that nothing is rounded by that.
                let n = rows.concat().len() as f64;
                let sums = rows.iter().map(|row| row.iter().map(|value| f64::from(*value) / n).sum::<f64>());
                let planes: Vec<f64> = sums.collect::<Vec<_>>().chunks(2).map(|plane| plane.iter().sum()).collect();
                planes.iter().sum::<f64>() as Self
            }

            bytes!($type);
        }
    )+ };
}

integers! { u8 U8, i8 I8, u16 U16, i16 I16, u32 U32, i32 I32, u64 U64, i64 I64 }
floats! { f32 F32, f64 F64 }

/// One pixel, from the pixels of the rows of one or two planes that are there.
fn model<T: Value>(method: Method, rows: &[Vec<T>]) -> T {
    let mut sorted = rows.concat();
    let (n, first) = (sorted.len(), sorted[0]);
    sorted.sort_by(T::compare);
    let last = sorted[n - 1];
    let count = |value: &T| sorted.iter().filter(|other| other.is_same(value)).count();
    match method {
        Method::Mean => T::mean(rows),
        Method::Min | Method::Median if last.is_unordered() => last,
        Method::Min => sorted[0],
        Method::Max => last,
        Method::Decimate => first,
        Method::Mode => *sorted.iter().rev().max_by_key(|value| count(value)).unwrap(),
        Method::Median => T::mean(&[vec![sorted[(n - 1) / 2], sorted[n / 2]]]),
    }
}

#[derive(Debug, Clone, Copy)]
struct Shape {
    planes: usize,
    rows: usize,
    columns: usize,
    /// Bytes before the first pixel, between rows, and between rows of the result.
    offset: usize,
    gap: usize,
    out_gap: usize,
}

fn all_code() -> Vec<bool> {
    if has_avx2() { vec![false, true] } else { vec![false] }
}

fn check<T: Value>(shape: Shape, seed: u64) {
    let Shape { planes, rows, columns, offset, gap, out_gap } = shape;
    let mut state = seed;
    let mut pixel = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        T::any(state >> 20)
    };
    let values: Vec<Vec<Vec<T>>> =
        (0..planes).map(|_| (0..rows).map(|_| (0..columns).map(|_| pixel()).collect()).collect()).collect();
    let size = T::DTYPE.size();
    let row_stride = columns * size + gap;
    let bytes: Vec<Vec<u8>> = values
        .iter()
        .map(|plane| {
            let rows = plane.iter().map(|row| row.iter().flat_map(|value| value.to_bytes()).collect::<Vec<u8>>());
            let body = rows.collect::<Vec<_>>().join(&vec![0xEE; gap][..]);
            [vec![0xEE; offset], body].concat()
        })
        .collect();
    let source = |plane: usize| Plane { pixels: &bytes[plane][offset..], row_stride, rows, columns };
    let (out_rows, out_columns) = (rows.div_ceil(2), columns.div_ceil(2));
    let out_stride = out_columns * size + out_gap;
    for (method, avx2) in
        Method::ALL.iter().copied().flat_map(|method| all_code().into_iter().map(move |avx2| (method, avx2)))
    {
        let mut out = vec![0xAA; offset + (out_rows * out_stride).saturating_sub(out_gap)];
        let downsampler = Downsampler::with(method, T::DTYPE, avx2);
        match planes {
            1 => downsampler.plane(source(0), &mut out[offset..], out_stride),
            _ => downsampler.two_planes([source(0), source(1)], &mut out[offset..], out_stride),
        }
        for (y, row) in out[offset..].chunks(out_stride.max(1)).enumerate() {
            let (pixels, gap) = row.split_at(out_columns * size);
            assert!(gap.iter().all(|byte| *byte == 0xAA), "{method:?} {} writes between rows", T::DTYPE);
            for (x, found) in pixels.chunks(size).map(T::of_bytes).enumerate() {
                let there: Vec<Vec<T>> = values
                    .iter()
                    .flat_map(|plane| plane.iter().skip(2 * y).take(2))
                    .map(|row| row.iter().skip(2 * x).take(2).copied().collect())
                    .collect();
                let expected = model(method, &there);
                assert!(
                    found.is_same(&expected),
                    "{method:?} of {there:?} ({}, AVX2 {avx2}) gave {found:?} instead of {expected:?} at {y}, {x}",
                    T::DTYPE
                );
            }
        }
    }
}

fn check_all(shape: Shape, seed: u64) {
    check::<u8>(shape, seed);
    check::<i16>(shape, seed);
    check::<u64>(shape, seed);
    check::<f32>(shape, seed);
    // Miri is slow, and the others are made by the same macros.
    if cfg!(miri) {
        return;
    }
    check::<i8>(shape, seed);
    check::<u16>(shape, seed);
    check::<u32>(shape, seed);
    check::<i32>(shape, seed);
    check::<i64>(shape, seed);
    check::<f64>(shape, seed);
}

#[test]
fn small_images_are_as_the_model_says() {
    let most = if cfg!(miri) { 2 } else { 7 };
    for (planes, rows) in [1, 2].into_iter().flat_map(|planes| (0..=most).map(move |rows| (planes, rows))) {
        for columns in 0..=most {
            check_all(Shape { planes, rows, columns, offset: 0, gap: 0, out_gap: 0 }, (rows * 8 + columns) as u64);
        }
    }
}

proptest! {
    #[test]
    fn any_image_is_as_the_model_says(
        planes in 1_usize..=2,
        rows in 1_usize..if cfg!(miri) { 3 } else { 12 },
        columns in 1_usize..if cfg!(miri) { 6 } else { 300 },
        gaps in [0_usize..9, 0..9, 0..9],
        seed in any::<u64>(),
    ) {
        let [offset, gap, out_gap] = gaps;
        check_all(Shape { planes, rows, columns, offset, gap, out_gap }, seed);
    }
}

/// What NumPy gave for these, by the expressions in the table on the module's page.
#[test]
fn results_are_those_of_numpy() {
    let reduce = |method, pixels: [i8; 4]| {
        let [a, b, c, d] = pixels.map(|pixel| pixel as u8);
        let mut out = [0];
        Downsampler::new(method, Dtype::I8).rows(&[a, b], &[c, d], &mut out);
        out[0] as i8
    };
    let methods = [Method::Mean, Method::Min, Method::Max, Method::Decimate, Method::Mode, Method::Median];
    let results = |pixels| methods.map(|method| reduce(method, pixels));
    assert_eq!(results([1, 2, 2, 1]), [2, 1, 2, 1, 1, 2]);
    assert_eq!(results([-1, -2, -2, -1]), [-1, -2, -1, -1, -2, -1]);
    assert_eq!(results([-128, -128, -128, 127]), [-64, -128, 127, -128, -128, -128]);
    assert_eq!(results([7, -3, 4, -9]), [0, -9, 7, 7, -9, 1]);
    assert_eq!(results([5, 0, 5, 0]), [3, 0, 5, 5, 0, 3]);
}

#[test]
#[should_panic(expected = "half of 5 columns, rounded up")]
fn a_row_that_is_too_short_is_refused() {
    Downsampler::new(Method::Mean, Dtype::U8).rows(&[0; 5], &[0; 5], &mut [0; 2]);
}

#[test]
#[should_panic(expected = "rows of whole pixels, equally many")]
fn rows_of_different_lengths_are_refused() {
    Downsampler::new(Method::Mean, Dtype::U16).rows(&[0; 8], &[0; 6], &mut [0; 4]);
}
