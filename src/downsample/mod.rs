//! Halves images for the levels of a pyramid.
//!
//! Two rows make one, and two columns; with two planes, what was eight pixels becomes one in a single step, so that
//! nothing is rounded twice. An image of `r` × `c` pixels becomes one of `ceil(r / 2)` × `ceil(c / 2)`: where the
//! number of rows, columns or planes is odd, the last of them is reduced by itself, over the pixels that are there.
//!
//! | method | gives | with NumPy, `x` of shape (…, 4) or (…, 8) |
//! |---|---|---|
//! | mean of integers | halves rounded up, also of negative numbers | `np.floor(x.mean(-1) + 0.5)` |
//! | mean of `f32` | sums in `f64`, rounded once | `x.astype("f8").mean(-1).astype("f4")` |
//! | mean of `f64` | `((a + b) + (c + d)) / 4`, rows, then planes | `x.mean(-1)` within the last digit |
//! | min, max | a NaN if there is one | `x.min(-1)`, `x.max(-1)` |
//! | decimate | the first pixel: even row, even column, first plane | `x[..., 0]` |
//! | mode | the most frequent value, of several the smallest | `values[counts.argmax()]` of `np.unique` |
//! | median of integers | the mean of the middle two, rounded up | `np.floor(np.median(x, -1) + 0.5)` |
//! | median of floats | the mean of the middle two; a NaN if there is one | `np.median(x, -1)` |
//!
//! Integers never overflow: their means are exact before they are rounded (NumPy's have 53 bits). Nor do floats: where
//! a sum would pass the largest number, its terms are divided first. To the mode, all NaNs are one value, larger than
//! all others.
//!
//! Zeros of either sign are equal: which of them comes out is not specified. NaNs come out as NaNs, with any payload.
//!
//! The loops are plain Rust, which the compiler turns into vectors: once for every processor, and for one- and two-byte
//! integers again for those with AVX2. For the mode and the median these are written as vectors.

#![allow(unsafe_code)]

pub(crate) mod halver;
mod pixel;
mod reduction;
#[cfg(test)]
mod tests;
mod value;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::ops::Range;

use crate::dtype::Dtype;
use crate::named::named;
use crate::pixels::Plane;
use crate::processor::{has_avx2, prefetch_second};
use pixel::Pixel;
use reduction::{Decimate, Max, Mean, Median, Min, Mode, Reduction, Selection};

/// How several pixels become one. Integers are rounded to the nearest, halves up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Method {
    /// The mean. That of `f32` is computed in `f64`.
    #[default]
    Mean,
    /// The mean of the middle two; of floating point numbers a NaN if there is one.
    Median,
    /// The smallest value; a NaN if there is one.
    Min,
    /// The largest value; a NaN if there is one.
    Max,
    /// The first pixel: of the even row and column, of the first plane.
    Decimate,
    /// The most frequent value, of several the smallest: for labels.
    Mode,
}

named!(Method, "method", {
    Mean => "mean",
    Median => "median",
    Min => "min",
    Max => "max",
    Decimate => "decimate",
    Mode => "mode",
});

/// Bytes of a row that are reduced at once, an even number of pixels.
const PIECE_BYTES: usize = 1024;
/// The same where four rows are read, which is faster by shorter pieces (benches/NOTES.md).
const PIECE_BYTES_OF_FOUR: usize = 256;
/// The same where two rows are read, as long as these or longer.
const PIECE_BYTES_OF_LONG: usize = 512;
const LONG: usize = 4096;
/// This many bytes before its turn each piece is asked for.
const BYTES_AHEAD: usize = 4096;

type Flat = fn([[&[u8]; 2]; 1], &mut [u8]);
type Deep = fn([[&[u8]; 2]; 2], &mut [u8]);

/// Reduces images of one element type by one method.
#[derive(Debug, Clone, Copy)]
pub struct Downsampler {
    flat: Flat,
    deep: Deep,
    pixel_bytes: usize,
    /// Of the rows that make one.
    rows_read: usize,
}

impl Downsampler {
    /// The fastest code for this machine.
    pub fn new(method: Method, dtype: Dtype) -> Self {
        Self::with(method, dtype, has_avx2())
    }

    fn with(method: Method, dtype: Dtype, avx2: bool) -> Self {
        let (flat, deep) = match method {
            Method::Mean => kernels::<Mean>(dtype, avx2),
            Method::Min => kernels::<Min>(dtype, avx2),
            Method::Max => kernels::<Max>(dtype, avx2),
            Method::Decimate => kernels::<Decimate>(dtype, avx2),
            Method::Mode => selections::<Mode>(dtype, avx2),
            Method::Median => selections::<Median>(dtype, avx2),
        };
        let rows_read = if method == Method::Decimate { 1 } else { 4 };
        Self { flat, deep, pixel_bytes: dtype.size(), rows_read }
    }

    /// Reduces two rows to one. The last row of an odd number of them is passed twice.
    ///
    /// # Panics
    /// When the rows are not equally long, or `out` does not have half as many pixels, rounded up.
    pub fn rows(&self, upper: &[u8], lower: &[u8], out: &mut [u8]) {
        self.check(&[upper, lower], out);
        (self.flat)([[upper, lower]], out);
    }

    /// Reduces two rows of each of two planes to one row. What has no neighbour is passed twice.
    ///
    /// # Panics
    /// As [`rows`](Self::rows).
    pub fn rows_of_two(&self, planes: [[&[u8]; 2]; 2], out: &mut [u8]) {
        self.check(planes.as_flattened(), out);
        (self.deep)(planes, out);
    }

    /// Reduces a plane. The rows of `out` lie `out_stride` bytes apart; between them nothing is written.
    ///
    /// # Panics
    /// When the pixels or `out` are too short for their rows.
    pub fn plane(&self, plane: Plane<'_>, out: &mut [u8], out_stride: usize) {
        self.each_piece([plane], self.flat, out, out_stride);
    }

    /// Reduces two planes of one size to one.
    ///
    /// # Panics
    /// As [`plane`](Self::plane), and when the planes differ in size.
    pub fn two_planes(&self, planes: [Plane<'_>; 2], out: &mut [u8], out_stride: usize) {
        let [first, second] = planes.map(|plane| (plane.rows, plane.columns));
        assert_eq!(first, second, "planes of one size");
        self.each_piece(planes, self.deep, out, out_stride);
    }

    /// Piece by piece, while memory brings the next ones: the processor itself foresees only what follows within a
    /// page, and rows lie on different ones.
    fn each_piece<const PLANES: usize>(
        &self,
        planes: [Plane<'_>; PLANES],
        kernel: fn([[&[u8]; 2]; PLANES], &mut [u8]),
        out: &mut [u8],
        out_stride: usize,
    ) {
        let Plane { rows, columns, .. } = planes[0];
        let [row_bytes, out_row_bytes] = [columns, columns.div_ceil(2)].map(|columns| columns * self.pixel_bytes);
        let rows_read = self.rows_read.min(2 * PLANES);
        let piece_bytes = match rows_read {
            4 => PIECE_BYTES_OF_FOUR,
            2 if row_bytes >= LONG => PIECE_BYTES_OF_LONG,
            _ => PIECE_BYTES,
        };
        let pieces_of_row = row_bytes.div_ceil(piece_bytes).max(1);
        let pieces_ahead = BYTES_AHEAD / piece_bytes;
        let (mut ahead_y, mut ahead_at) = (pieces_ahead / pieces_of_row, pieces_ahead % pieces_of_row * piece_bytes);
        for y in 0..rows.div_ceil(2) {
            let mut pair = [[&[][..]; 2]; PLANES];
            for (two, plane) in pair.iter_mut().zip(&planes) {
                *two = [2 * y, (2 * y + 1).min(rows - 1)].map(|y| plane.row(y, self.pixel_bytes));
            }
            for at in (0..row_bytes).step_by(piece_bytes) {
                let ahead_end = row_bytes.min(ahead_at + piece_bytes);
                ask(&planes, 2 * ahead_y, rows_read, ahead_at..ahead_end);
                (ahead_y, ahead_at) = if ahead_end < row_bytes { (ahead_y, ahead_end) } else { (ahead_y + 1, 0) };
                let mut piece = pair;
                for row in piece.as_flattened_mut() {
                    *row = &row[at..row_bytes.min(at + piece_bytes)];
                }
                let places = at / 2..out_row_bytes.min((at + piece_bytes) / 2);
                kernel(piece, &mut out[y * out_stride..][places]);
            }
        }
    }

    fn check(&self, rows: &[&[u8]], out: &[u8]) {
        let columns = rows[0].len() / self.pixel_bytes;
        for row in rows {
            assert_eq!(row.len(), columns * self.pixel_bytes, "rows of whole pixels, equally many");
        }
        assert_eq!(out.len(), columns.div_ceil(2) * self.pixel_bytes, "half of {columns} columns, rounded up");
    }
}

/// Asks for bytes of two rows of each plane, or of one row alone, if there are such rows. It goes by addresses, for
/// slices would be checked for every few bytes.
#[inline(always)]
fn ask<const PLANES: usize>(planes: &[Plane<'_>; PLANES], upper: usize, rows_read: usize, bytes: Range<usize>) {
    let rows = planes[0].rows;
    if upper >= rows {
        return;
    }
    for nth in 0..rows_read {
        let plane = &planes[nth / 2];
        let start = plane.pixels.as_ptr().addr() + (upper + nth % 2).min(rows - 1) * plane.row_stride;
        prefetch_second(start, bytes.clone());
    }
}

/// What is chosen by many comparisons.
fn selections<S: Selection>(dtype: Dtype, avx2: bool) -> (Flat, Deep) {
    #[cfg(target_arch = "x86_64")]
    if avx2 {
        match dtype {
            Dtype::U8 => return avx2_selections::<u8, S>(),
            Dtype::I8 => return avx2_selections::<i8, S>(),
            Dtype::U16 => return avx2_selections::<u16, S>(),
            Dtype::I16 => return avx2_selections::<i16, S>(),
            _ => {}
        }
    }
    kernels::<S>(dtype, avx2)
}

/// For pixels of one and two bytes, on processors with AVX2.
#[cfg(target_arch = "x86_64")]
fn avx2_selections<P: Pixel, S: Selection>() -> (Flat, Deep)
where
    x86::Lanes<P>: value::Value,
{
    #[target_feature(enable = "avx2")]
    fn flat_avx2<P: Pixel, S: Selection>(planes: [[&[u8]; 2]; 1], out: &mut [u8])
    where
        x86::Lanes<P>: value::Value,
    {
        let done = x86::select::<P, S, 1>(planes, out);
        flat::<P, S>(rest(planes, done), &mut out[done / 2..]);
    }
    #[target_feature(enable = "avx2")]
    fn deep_avx2<P: Pixel, S: Selection>(planes: [[&[u8]; 2]; 2], out: &mut [u8])
    where
        x86::Lanes<P>: value::Value,
    {
        let done = x86::select::<P, S, 2>(planes, out);
        deep::<P, S>(rest(planes, done), &mut out[done / 2..]);
    }
    // SAFETY: the caller found AVX2.
    let flat: Flat = |planes, out| unsafe { flat_avx2::<P, S>(planes, out) };
    // SAFETY: as above.
    let deep: Deep = |planes, out| unsafe { deep_avx2::<P, S>(planes, out) };
    (flat, deep)
}

/// What is left of the rows.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn rest<const PLANES: usize>(mut planes: [[&[u8]; 2]; PLANES], done: usize) -> [[&[u8]; 2]; PLANES] {
    planes.as_flattened_mut().iter_mut().for_each(|row| *row = &row[done..]);
    planes
}

fn kernels<R: Reduction>(dtype: Dtype, avx2: bool) -> (Flat, Deep) {
    #[cfg(target_arch = "x86_64")]
    if avx2 {
        match dtype {
            Dtype::U8 => return avx2_kernels::<u8, R>(),
            Dtype::I8 => return avx2_kernels::<i8, R>(),
            Dtype::U16 => return avx2_kernels::<u16, R>(),
            Dtype::I16 => return avx2_kernels::<i16, R>(),
            _ => {}
        }
    }
    let _ = avx2;
    match dtype {
        Dtype::U8 => (flat::<u8, R>, deep::<u8, R>),
        Dtype::I8 => (flat::<i8, R>, deep::<i8, R>),
        Dtype::U16 => (flat::<u16, R>, deep::<u16, R>),
        Dtype::I16 => (flat::<i16, R>, deep::<i16, R>),
        Dtype::U32 => (flat::<u32, R>, deep::<u32, R>),
        Dtype::I32 => (flat::<i32, R>, deep::<i32, R>),
        Dtype::U64 => (flat::<u64, R>, deep::<u64, R>),
        Dtype::I64 => (flat::<i64, R>, deep::<i64, R>),
        Dtype::F32 => (flat::<f32, R>, deep::<f32, R>),
        Dtype::F64 => (flat::<f64, R>, deep::<f64, R>),
    }
}

#[cfg(target_arch = "x86_64")]
fn avx2_kernels<P: Pixel, R: Reduction>() -> (Flat, Deep) {
    #[target_feature(enable = "avx2")]
    fn flat_avx2<P: Pixel, R: Reduction>(rows: [[&[u8]; 2]; 1], out: &mut [u8]) {
        flat::<P, R>(rows, out);
    }
    #[target_feature(enable = "avx2")]
    fn deep_avx2<P: Pixel, R: Reduction>(rows: [[&[u8]; 2]; 2], out: &mut [u8]) {
        deep::<P, R>(rows, out);
    }
    // SAFETY: the caller found AVX2.
    let flat: Flat = |rows, out| unsafe { flat_avx2::<P, R>(rows, out) };
    // SAFETY: as above.
    let deep: Deep = |rows, out| unsafe { deep_avx2::<P, R>(rows, out) };
    (flat, deep)
}

/// Two rows to one.
#[inline(always)]
fn flat<P: Pixel, R: Reduction>([[upper, lower]]: [[&[u8]; 2]; 1], out: &mut [u8]) {
    let ((uppers, last_upper), (lowers, last_lower)) = (P::pairs(upper), P::pairs(lower));
    let (places, end) = P::whole(out).split_at_mut(uppers.len());
    for ((upper, lower), place) in uppers.iter().zip(lowers).zip(places) {
        *place = R::reduce([four(P::split(*upper), P::split(*lower))]).bytes();
    }
    if let ([place], Some(upper), Some(lower)) = (end, last_upper, last_lower) {
        *place = R::reduce([four(upper, lower)]).bytes();
    }
}

/// Two rows of each of two planes to one.
#[inline(always)]
fn deep<P: Pixel, R: Reduction>([first, second]: [[&[u8]; 2]; 2], out: &mut [u8]) {
    let ((uppers, last_upper), (lowers, last_lower)) = (P::pairs(first[0]), P::pairs(first[1]));
    let ((uppers_2, last_upper_2), (lowers_2, last_lower_2)) = (P::pairs(second[0]), P::pairs(second[1]));
    let (places, end) = P::whole(out).split_at_mut(uppers.len());
    for ((((upper, lower), upper_2), lower_2), place) in
        uppers.iter().zip(lowers).zip(uppers_2).zip(lowers_2).zip(places)
    {
        let (first, second) = (four(P::split(*upper), P::split(*lower)), four(P::split(*upper_2), P::split(*lower_2)));
        *place = R::reduce([first, second]).bytes();
    }
    if let ([place], Some(upper), Some(lower), Some(upper_2), Some(lower_2)) =
        (end, last_upper, last_lower, last_upper_2, last_lower_2)
    {
        *place = R::reduce([four(upper, lower), four(upper_2, lower_2)]).bytes();
    }
}

#[inline(always)]
fn four<P: Copy>([a, b]: [P; 2], [c, d]: [P; 2]) -> [P; 4] {
    [a, b, c, d]
}
