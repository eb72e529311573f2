//! Turns and flips images.

#![allow(unsafe_code)]

use serde::{Deserialize, Serialize};

use super::plane::Plane;
use super::transpose::{copy_line, transpose};
use crate::named::named;
#[cfg(target_arch = "x86_64")]
use crate::processor::has_avx2;

/// Bytes of a row that are turned at once: a cache line, so that none is fetched or written in parts.
const LINE: usize = 64;

/// How an image is turned: its rows become columns first, then the rows' order is reversed, and each row's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Orientation {
    /// Rows become columns.
    pub transpose: bool,
    /// What is reversed after that.
    pub flip: Flip,
}

/// Which order of an image is reversed. There are no more than these: an image has two.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Flip {
    /// None.
    #[default]
    None,
    /// That of the rows: the last becomes the first.
    Rows,
    /// That of the columns.
    Columns,
    /// That of both, which is half a turn.
    Both,
}

named!(Flip, "orientation.flip", {
    None => "none",
    Rows => "rows",
    Columns => "columns",
    Both => "both",
});

impl Flip {
    /// Whether the last row becomes the first.
    pub const fn has_rows(self) -> bool {
        matches!(self, Self::Rows | Self::Both)
    }

    /// Whether the last column becomes the first.
    pub const fn has_columns(self) -> bool {
        matches!(self, Self::Columns | Self::Both)
    }
}

impl Orientation {
    /// Counterclockwise turns by 90 degrees, as `numpy.rot90` makes them. Negative ones are clockwise.
    #[must_use]
    pub fn quarter_turns(turns: i32) -> Self {
        match turns.rem_euclid(4) {
            1 => Self { transpose: true, flip: Flip::Rows },
            2 => Self { transpose: false, flip: Flip::Both },
            3 => Self { transpose: true, flip: Flip::Columns },
            _ => Self::default(),
        }
    }

    /// Where the pixels of a rectangle of the turned image lie in an image of this many rows and columns: the first row
    /// and column, and how many of both.
    ///
    /// # Panics
    /// When the turned image has no such rectangle.
    #[doc(hidden)]
    pub fn source(
        self,
        image: [usize; 2],
        [y, x]: [usize; 2],
        [rows, columns]: [usize; 2],
    ) -> ([usize; 2], [usize; 2]) {
        let sides = if self.transpose { [image[1], image[0]] } else { image };
        let fits = |first: usize, count: usize, side: usize| count <= side && first <= side - count;
        assert!(
            fits(y, rows, sides[0]) && fits(x, columns, sides[1]),
            "{rows} x {columns} pixels at {y}, {x} are not within {} x {}",
            sides[0],
            sides[1]
        );
        let y = if self.flip.has_rows() { sides[0] - y - rows } else { y };
        let x = if self.flip.has_columns() { sides[1] - x - columns } else { x };
        if self.transpose { ([x, y], [columns, rows]) } else { ([y, x], [rows, columns]) }
    }

    /// Where a rectangle of an image of this many rows and columns lies in the turned image: what [`Self::source`] is
    /// asked.
    ///
    /// # Panics
    /// When the image has no such rectangle.
    pub(crate) fn target(
        self,
        [rows, columns]: [usize; 2],
        [y, x]: [usize; 2],
        [height, width]: [usize; 2],
    ) -> ([usize; 2], [usize; 2]) {
        let turn = |[y, x]: [usize; 2]| if self.transpose { [x, y] } else { [y, x] };
        let ([rows, columns], [y, x], [height, width]) = (turn([rows, columns]), turn([y, x]), turn([height, width]));
        let y = if self.flip.has_rows() { rows - height - y } else { y };
        let x = if self.flip.has_columns() { columns - width - x } else { x };
        ([y, x], [height, width])
    }

    /// Copies a rectangle of the turned image to `out`: from the row and column `at` on, this many rows and columns.
    /// The rows of `out` lie `out_stride` bytes apart; between them nothing is written.
    ///
    /// # Panics
    /// When the turned image has no such rectangle, when a pixel does not have 1, 2, 4 or 8 bytes, or when the image's
    /// pixels or `out` are too short for their rows.
    #[doc(hidden)]
    pub fn tile(
        self,
        image: Plane<'_>,
        pixel_bytes: usize,
        at: [usize; 2],
        counts: [usize; 2],
        out: &mut [u8],
        out_stride: usize,
    ) {
        let (first, counts) = self.source([image.rows, image.columns], at, counts);
        let part = Part { image, first, counts, out_stride };
        match pixel_bytes {
            1 => self.copy::<1, 16>(part, out),
            2 => self.copy::<2, 8>(part, out),
            4 => self.copy::<4, 4>(part, out),
            8 => self.copy::<8, 2>(part, out),
            _ => panic!("pixels of {pixel_bytes} bytes, possible are 1, 2, 4 and 8"),
        }
    }

    fn copy<const S: usize, const N: usize>(self, part: Part<'_>, out: &mut [u8]) {
        if self.transpose { self.turn::<S, N>(part, out) } else { self.flip::<S>(part, out) }
    }

    fn flip<const S: usize>(self, part: Part<'_>, out: &mut [u8]) {
        let [rows, columns] = part.counts;
        for i in 0..rows {
            let row = part.row(if self.flip.has_rows() { rows - 1 - i } else { i }, 0, columns * S, S);
            let place = &mut out[i * part.out_stride..][..columns * S];
            if self.flip.has_columns() { reverse::<S>(row, place) } else { place.copy_from_slice(row) }
        }
    }

    /// Block by block: its rows are collected in the order of the result's columns, transposed, and copied to their
    /// places in the order of the result's rows. Where blocks reach over the edge, what is there is copied.
    fn turn<const S: usize, const N: usize>(self, part: Part<'_>, out: &mut [u8]) {
        let [rows, columns] = part.counts;
        let side = LINE / S;
        let (mut block, mut turned) = (Block([[0; LINE]; LINE]), Block([[0; LINE]; LINE]));
        for left in (0..columns).step_by(side) {
            let width = side.min(columns - left);
            for top in (0..rows).step_by(side) {
                let height = side.min(rows - top);
                for j in 0..height {
                    let row = if self.flip.has_columns() { rows - 1 - top - j } else { top + j };
                    copy_start(part.row(row, left, width * S, S), &mut block.0[j]);
                }
                transpose::<S, N>(&block.0, &mut turned.0);
                for i in 0..width {
                    let row = if self.flip.has_rows() { columns - 1 - left - i } else { left + i };
                    copy_start(&turned.0[i][..height * S], &mut out[row * part.out_stride + top * S..]);
                }
            }
        }
    }
}

/// What of an image is copied: from this row and column on, a number of both.
#[derive(Clone, Copy)]
struct Part<'a> {
    image: Plane<'a>,
    first: [usize; 2],
    counts: [usize; 2],
    out_stride: usize,
}

impl<'a> Part<'a> {
    fn row(&self, row: usize, column: usize, bytes: usize, pixel_bytes: usize) -> &'a [u8] {
        let [y, x] = self.first;
        &self.image.row(y + row, pixel_bytes)[(x + column) * pixel_bytes..][..bytes]
    }
}

#[repr(align(64))]
struct Block([[u8; LINE]; LINE]);

/// Copies the first slice to the start of the second.
#[inline(always)]
fn copy_start(from: &[u8], to: &mut [u8]) {
    match (from.try_into().ok(), to.first_chunk_mut()) {
        (Some(line), Some(place)) => copy_line(line, place),
        _ => to[..from.len()].copy_from_slice(from),
    }
}

fn reverse<const S: usize>(row: &[u8], out: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn reverse_avx2<const S: usize>(row: &[u8], out: &mut [u8]) {
        reverse_all::<S>(row, out);
    }
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        // SAFETY: it was just found.
        return unsafe { reverse_avx2::<S>(row, out) };
    }
    reverse_all::<S>(row, out);
}

#[inline(always)]
fn reverse_all<const S: usize>(row: &[u8], out: &mut [u8]) {
    for (place, pixel) in out.as_chunks_mut::<S>().0.iter_mut().zip(row.as_chunks::<S>().0.iter().rev()) {
        *place = *pixel;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all() -> Vec<Orientation> {
        let with = |&flip: &Flip| [false, true].map(|transpose| Orientation { transpose, flip });
        Flip::ALL.iter().flat_map(with).collect()
    }

    /// The whole turned image, pixel by pixel.
    fn definition(orientation: Orientation, image: &[Vec<&[u8]>], columns: usize) -> Vec<Vec<Vec<u8>>> {
        let mut turned: Vec<Vec<Vec<u8>>> =
            image.iter().map(|row| row.iter().map(|pixel| pixel.to_vec()).collect()).collect();
        if orientation.transpose {
            turned = (0..columns).map(|x| turned.iter().map(|row| row[x].clone()).collect()).collect();
        }
        if orientation.flip.has_rows() {
            turned.reverse();
        }
        if orientation.flip.has_columns() {
            turned.iter_mut().for_each(|row| row.reverse());
        }
        turned
    }

    fn check(orientation: Orientation, pixel_bytes: usize, [rows, columns]: [usize; 2], gap: usize, cut: [usize; 4]) {
        let row_stride = columns * pixel_bytes + gap;
        let count = (rows * row_stride).saturating_sub(gap) as u32;
        let pixels: Vec<u8> = (0..count).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let image = Plane { pixels: &pixels, row_stride, rows, columns };
        let split: Vec<Vec<&[u8]>> =
            (0..rows).map(|y| image.row(y, pixel_bytes).chunks(pixel_bytes).collect()).collect();
        let turned = definition(orientation, &split, columns);
        let sides = if orientation.transpose { [columns, rows] } else { [rows, columns] };
        let [top, left] = [cut[0] % (sides[0] + 1), cut[1] % (sides[1] + 1)];
        let [tall, wide] = [(sides[0] - top).saturating_sub(cut[2]), (sides[1] - left).saturating_sub(cut[3])];
        let out_stride = wide * pixel_bytes + gap;
        let mut out = vec![0xAA; (tall * out_stride).saturating_sub(gap)];
        orientation.tile(image, pixel_bytes, [top, left], [tall, wide], &mut out, out_stride);
        let expected: Vec<Vec<u8>> =
            turned[top..top + tall].iter().map(|row| row[left..left + wide].concat()).collect();
        let what =
            format!("{orientation:?} of {rows} x {columns} x {pixel_bytes} bytes, {tall} x {wide} at {top}, {left}");
        assert!(out == expected.join(&vec![0xAA; gap][..]), "{what}");
    }

    #[test]
    fn images_round_the_size_of_blocks_are_turned_as_defined() {
        let sides: &[usize] = if cfg!(miri) { &[5] } else { &[0, 1, 7, 8, 9, 16, 31, 33, 64, 65, 130] };
        for (orientation, pixel_bytes) in all().into_iter().flat_map(|one| [1, 2, 4, 8].map(|bytes| (one, bytes))) {
            for (rows, columns) in sides.iter().flat_map(|rows| sides.iter().map(move |columns| (*rows, *columns))) {
                check(orientation, pixel_bytes, [rows, columns], 0, [0; 4]);
            }
        }
    }

    proptest! {
        #[test]
        fn any_tile_is_turned_as_defined(
            orientation in prop::sample::select(all()),
            pixel_bytes in prop::sample::select(vec![1_usize, 2, 4, 8]),
            sides in [0_usize..if cfg!(miri) { 9 } else { 150 }, 0..if cfg!(miri) { 9 } else { 150 }],
            gap in 0_usize..20,
            cut in [0_usize..150, 0..150, 0..70, 0..70],
        ) {
            check(orientation, pixel_bytes, sides, gap, cut);
        }
    }

    /// `numpy.rot90([[1, 2, 3], [4, 5, 6]], turns)`
    #[test]
    fn quarter_turns_are_those_of_numpy() {
        let image = Plane { pixels: &[1, 2, 3, 4, 5, 6], row_stride: 3, rows: 2, columns: 3 };
        for (turns, sides, expected) in [
            (0, [2, 3], [1, 2, 3, 4, 5, 6]),
            (1, [3, 2], [3, 6, 2, 5, 1, 4]),
            (2, [2, 3], [6, 5, 4, 3, 2, 1]),
            (3, [3, 2], [4, 1, 5, 2, 6, 3]),
            (-1, [3, 2], [4, 1, 5, 2, 6, 3]),
        ] {
            let mut out = [0; 6];
            Orientation::quarter_turns(turns).tile(image, 1, [0, 0], sides, &mut out, sides[1]);
            assert_eq!(out, expected, "{turns} turns");
        }
    }

    #[test]
    #[should_panic(expected = "2 x 2 pixels at 1, 1 are not within 3 x 2")]
    fn a_tile_that_reaches_over_the_edge_is_refused() {
        let image = Plane { pixels: &[0; 6], row_stride: 3, rows: 2, columns: 3 };
        Orientation::quarter_turns(1).tile(image, 1, [1, 1], [2, 2], &mut [0; 4], 2);
    }
}
