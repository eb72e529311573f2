//! Which frames of an image become which of a level that has fewer planes.
//!
//! Frames are numbered as they are acquired: planes lie `apart` frames from each other, as many as the dimensions
//! acquired faster than z have. A level whose planes are halved has `ceil(planes / factor)` of them in a stack, and all
//! other dimensions as the image.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::geometry::Order;

/// Which frames become which. Those of a level with as many planes have the same numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LevelFrames {
    /// This many planes become one.
    factor: u64,
    /// Planes of a stack; `None`: without an end.
    planes: Option<u64>,
    /// Frames from one plane to the next.
    apart: u64,
}

impl LevelFrames {
    /// Of an image of this order, whose z is an outer dimension.
    pub(crate) fn new(order: &Order, z: usize, factor: u64) -> Self {
        let (planes, apart) = order.planes(z);
        Self { factor, planes, apart }
    }

    /// Where all frames have their numbers.
    pub(crate) const fn same() -> Self {
        Self { factor: 1, planes: None, apart: 1 }
    }

    /// What a stranger's document says; `None` if it makes no sense.
    pub(crate) fn check(self) -> Option<Self> {
        let is_some = self.factor > 0 && self.apart > 0 && self.planes != Some(0);
        is_some.then_some(self)
    }

    pub(crate) fn is_same(&self) -> bool {
        self.factor == 1
    }

    pub(crate) fn apart(&self) -> u64 {
        self.apart
    }

    /// The frame's place among the planes of all stacks, and among the frames of its plane.
    fn row(&self, number: u64) -> (u64, u64) {
        (number / self.apart, number % self.apart)
    }

    /// The plane of the level that a plane becomes a part of, both among those of all stacks. It is none that comes
    /// later.
    fn level_row(&self, row: u64) -> u64 {
        match self.planes {
            Some(planes) => row / planes * planes.div_ceil(self.factor) + row % planes / self.factor,
            None => row / self.factor,
        }
    }

    /// The frame of the level that a frame becomes a part of.
    pub(crate) fn number(&self, number: u64) -> u64 {
        let (row, within) = self.row(number);
        self.level_row(row) * self.apart + within
    }

    /// The frames that a frame of the level is made of: the first, and how many there are, [`apart`](Self::apart) from
    /// each other.
    pub(crate) fn sources(&self, number: u64) -> (u64, u64) {
        let (row, within) = self.row(number);
        let (first, count) = match self.planes {
            Some(planes) => {
                let of_level = planes.div_ceil(self.factor);
                let z = row % of_level * self.factor;
                (row / of_level * planes + z, self.factor.min(planes - z))
            }
            None => (row * self.factor, self.factor),
        };
        (first * self.apart + within, count)
    }

    /// The frames of the level that a range of frames becomes a part of, in ranges that go up and may touch.
    pub(crate) fn ranges(&self, range: &Range<u64>) -> [Range<u64>; 3] {
        let Some(last) = range.end.checked_sub(1).filter(|last| *last >= range.start) else {
            return [0..0, 0..0, 0..0];
        };
        let ((first, from), (last, to)) = (self.row(range.start), self.row(last));
        let start = |row: u64| self.level_row(row) * self.apart;
        if first == last {
            return [start(first) + from..start(first) + to + 1, 0..0, 0..0];
        }
        let head = start(first) + from..start(first) + self.apart;
        let tail = start(last)..start(last) + to + 1;
        let between = first + 1..last;
        let whole = if between.is_empty() { 0..0 } else { start(between.start)..start(between.end - 1) + self.apart };
        [head, whole, tail]
    }

    /// One past the last frame of the level when there are this many frames.
    pub(crate) fn end(&self, frames: u64) -> u64 {
        self.ranges(&(0..frames)).into_iter().map(|range| range.end).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_frame_becomes_a_part_of_the_one_at_half_its_plane() {
        // Acquired t, z, c; two channels.
        for (planes, factor) in [(1u64, 2u64), (2, 2), (5, 2), (5, 4), (7, 2), (4, 8), (6, 1)] {
            let of = LevelFrames { factor, planes: Some(planes), apart: 2 };
            let of_level = planes.div_ceil(factor);
            let mut sources = std::collections::BTreeMap::<u64, Vec<u64>>::new();
            for number in 0..6 * planes * 2 {
                let (t, z, c) = (number / 2 / planes, number / 2 % planes, number % 2);
                let expected = (t * of_level + z / factor) * 2 + c;
                assert_eq!(of.number(number), expected, "{number} of {planes}");
                sources.entry(expected).or_default().push(number);
            }
            for (number, made_of) in sources {
                let (first, count) = of.sources(number);
                assert_eq!((0..count).map(|at| first + 2 * at).collect::<Vec<_>>(), made_of);
            }
        }
    }

    #[test]
    fn ranges_are_what_their_numbers_become() {
        for of in [
            LevelFrames { factor: 2, planes: Some(5), apart: 3 },
            LevelFrames { factor: 4, planes: Some(3), apart: 1 },
            LevelFrames { factor: 2, planes: None, apart: 2 },
            LevelFrames::same(),
        ] {
            for (start, end) in (0..50).flat_map(|start| (0..50).map(move |end| (start, end))) {
                let expected: BTreeSet<u64> = (start..end).map(|number| of.number(number)).collect();
                let got: BTreeSet<u64> = of.ranges(&(start..end)).into_iter().flatten().collect();
                assert_eq!(got, expected, "{of:?} {start}..{end}");
                assert_eq!(of.end(end), (0..end).map(|number| of.number(number) + 1).max().unwrap_or(0));
            }
        }
    }

    #[test]
    fn what_a_stranger_says_overflows_nothing() {
        for planes in [None, Some(1), Some(u64::MAX)] {
            let of = LevelFrames { factor: u64::MAX, planes, apart: u64::MAX }.check().unwrap();
            of.ranges(&(0..1 << 56));
        }
        assert_eq!(LevelFrames { factor: 2, planes: Some(0), apart: 1 }.check(), None);
        assert_eq!(LevelFrames { factor: 2, planes: None, apart: 0 }.check(), None);
    }
}
