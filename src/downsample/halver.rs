//! Halves planes, each or two to one, in some directions and not in others.

use super::{Downsampler, Method};
use crate::dtype::Dtype;
use crate::pixels::Plane;

#[derive(Debug, Clone)]
pub(crate) struct Halver {
    downsampler: Downsampler,
    /// Whether rows and columns are halved.
    halved: [bool; 2],
    /// Rows in which every pixel stands twice.
    doubled: [Vec<u8>; 4],
}

impl Halver {
    pub(crate) fn new(method: Method, dtype: Dtype, halved: [bool; 2]) -> Self {
        Self { downsampler: Downsampler::new(method, dtype), halved, doubled: Default::default() }
    }

    /// Reduces one plane, or two of one size to one. `out` has rows without gaps.
    ///
    /// # Panics
    /// When there are other than one or two planes, or these or `out` are too short for their rows.
    pub(crate) fn halve(&mut self, planes: &[Plane<'_>], out: &mut [u8]) {
        let Plane { rows, columns, .. } = planes[0];
        let [keeps_rows, keeps_columns] = [!self.halved[0] && rows > 1, !self.halved[1] && columns > 1];
        let out_columns = if keeps_columns { columns } else { columns.div_ceil(2) };
        let out_row_bytes = out_columns * self.downsampler.pixel_bytes;
        match *planes {
            [plane] if !keeps_rows && !keeps_columns => self.downsampler.plane(plane, out, out_row_bytes),
            [first, second] if !keeps_rows && !keeps_columns => {
                self.downsampler.two_planes([first, second], out, out_row_bytes);
            }
            _ => {
                let step = if keeps_rows { 1 } else { 2 };
                for (y, out) in out.chunks_exact_mut(out_row_bytes).take(rows.div_ceil(step)).enumerate() {
                    let pair = [y * step, (y * step + step - 1).min(rows - 1)];
                    self.row(planes, pair, keeps_columns, out);
                }
            }
        }
    }

    /// Makes a row of two rows of each plane. What is not halved is taken twice, which changes nothing: no reduction
    /// tells a pixel from two that are equal.
    fn row(&mut self, planes: &[Plane<'_>], pair: [usize; 2], keeps_columns: bool, out: &mut [u8]) {
        let pixel_bytes = self.downsampler.pixel_bytes;
        let rows = || planes.iter().flat_map(|plane| pair.map(|y| plane.row(y, pixel_bytes)));
        if keeps_columns {
            for (row, doubled) in rows().zip(&mut self.doubled) {
                doubled.clear();
                row.chunks_exact(pixel_bytes).for_each(|pixel| doubled.extend([pixel, pixel].into_iter().flatten()));
            }
        }
        let mut of = [&[][..]; 4];
        for (at, row) in rows().enumerate() {
            of[at] = if keeps_columns { &self.doubled[at] } else { row };
        }
        let [upper, lower, upper_2, lower_2] = of;
        match planes.len() {
            1 => self.downsampler.rows(upper, lower, out),
            2 => self.downsampler.rows_of_two([[upper, lower], [upper_2, lower_2]], out),
            other => panic!("{other} planes can't become one"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn halved(method: Method, halved: [bool; 2], planes: &[[u8; 15]]) -> Vec<u8> {
        let planes: Vec<_> = planes.iter().map(|pixels| Plane { pixels, row_stride: 5, rows: 3, columns: 5 }).collect();
        let rows = if halved[0] { 2 } else { 3 };
        let columns = if halved[1] { 3 } else { 5 };
        let mut out = vec![0; rows * columns];
        Halver::new(method, Dtype::U8, halved).halve(&planes, &mut out);
        out
    }

    #[rustfmt::skip]
    const PIXELS: [u8; 15] = [
        1, 3, 9, 9, 7,
        5, 8, 2, 0, 7,
        4, 4, 6, 1, 3,
    ];

    #[test]
    #[rustfmt::skip]
    fn each_direction_by_itself() {
        assert_eq!(halved(Method::Mean, [true, true], &[PIXELS]), [4, 5, 7, 4, 4, 3]);
        assert_eq!(halved(Method::Max, [false, true], &[PIXELS]), [3, 9, 7, 8, 2, 7, 4, 6, 3]);
        assert_eq!(halved(Method::Mean, [true, false], &[PIXELS]), [3, 6, 6, 5, 7, 4, 4, 6, 1, 3]);
        assert_eq!(halved(Method::Min, [false, false], &[PIXELS]), PIXELS);
    }

    #[test]
    #[rustfmt::skip]
    fn two_planes_become_one() {
        let planes = [PIXELS, [10; 15]];
        assert_eq!(halved(Method::Max, [true, false], &planes), [10; 10]);
        assert_eq!(halved(Method::Mean, [false, false], &planes),
            [6, 7, 10, 10, 9, 8, 9, 6, 5, 9, 7, 7, 8, 6, 7]);
        assert_eq!(halved(Method::Decimate, [false, true], &planes), [1, 9, 7, 5, 2, 7, 4, 6, 3]);
    }
}
