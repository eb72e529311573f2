//! Which frames and shards of a run the parts have that several processes write.
//!
//! A part is a dataset by itself, below the run's: it counts its frames and shards from 0 on, without gaps. The headers
//! in its shards say what they are of the whole run, so that a shard need only be moved when the run is finished.
//!
//! ```text
//! run.ome.zarr/zarr.json          image group: how many parts there are
//! run.ome.zarr/0/zarr.json        the array, without shards until the run is finished
//! run.ome.zarr/parts/2/zarr.json  image group of part 2, with the uuid of the run
//! run.ome.zarr/parts/2/0/…        its array and its shards
//! run.ome.zarr/parts/2/records/…  its records
//! ```

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::slot_header::{HEADER_BYTES, Origin, SlotHeader, parse};
use crate::config::PartBy;

/// The group of a run's parts.
pub(crate) const PARTS: &str = "parts";
/// More parts no run has.
pub(crate) const PARTS_MAX: u32 = 4096;

/// Where a part is, below its run.
pub(crate) fn part_key(index: u32) -> String {
    format!("{PARTS}/{index}")
}

/// What the image of a run says of its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Parts {
    pub(crate) of: u32,
    pub(crate) by: PartBy,
    /// Shards are being moved: no part may begin or be changed any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) finishing: bool,
}

/// Which of the whole run's frames and shards a part has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PartMap {
    pub(crate) index: u32,
    pub(crate) of: u32,
    pub(crate) by: PartBy,
    /// Frames of the run, if that is known.
    pub(crate) frames: Option<u64>,
    /// Frames in one row of shards along the first dimension, and shards in it that a frame has one pixel of.
    pub(crate) row_frames: u64,
    pub(crate) row_cells: u64,
    /// Rows and columns of shards that a frame of the part has, where they begin in that of the run, and how many there
    /// are.
    pub(crate) shards: [u64; 2],
    pub(crate) first: [u64; 2],
    pub(crate) grid: [u64; 2],
}

impl PartMap {
    /// Of a document, which may say anything.
    pub(crate) fn check(self) -> Result<Self, String> {
        let Self { index, of, row_frames, row_cells, shards, first, grid, .. } = self;
        let fits = |dim: usize| first[dim].checked_add(shards[dim]).is_some_and(|end| end <= grid[dim]);
        let counts = [row_frames, row_cells, shards[0], shards[1]];
        let counts_all = grid[0].checked_mul(grid[1]).is_some();
        let is_one = counts_all && index < of && of <= PARTS_MAX && !counts.contains(&0) && fits(0) && fits(1);
        if is_one { Ok(self) } else { Err(format!("part {index} of {of} can't be")) }
    }

    /// How far apart rows of shards of the part are, and which is its first.
    fn turn(&self) -> (u64, u64) {
        match self.by {
            PartBy::Time => (self.of.into(), self.index.into()),
            PartBy::Frame => (1, 0),
        }
    }

    /// The number that one of the part's frames has in the run.
    pub(crate) fn frame(&self, own: u64) -> Option<u64> {
        let row_frames = self.row_frames;
        self.row(own / row_frames)?.checked_mul(row_frames)?.checked_add(own % row_frames)
    }

    /// The number that one of the part's rows of shards has in the run.
    pub(crate) fn row(&self, own: u64) -> Option<u64> {
        let (parts, index) = self.turn();
        own.checked_mul(parts)?.checked_add(index)
    }

    /// The part's number of a frame of the run, or the part that has it.
    pub(crate) fn own_frame(&self, frame: u64) -> Result<u64, u32> {
        let ((parts, index), row) = (self.turn(), frame / self.row_frames);
        if row % parts == index {
            Ok(row / parts * self.row_frames + frame % self.row_frames)
        } else {
            Err((row % parts) as u32)
        }
    }

    /// How many of the first `end` frames of the run the part has.
    pub(crate) fn frames_below(&self, end: u64) -> u64 {
        let (parts, index) = self.turn();
        let round = u128::from(self.row_frames) * u128::from(parts);
        let (rounds, rest) = (u128::from(end) / round, (u128::from(end) % round) as u64);
        let in_last = rest.saturating_sub(index.saturating_mul(self.row_frames)).min(self.row_frames);
        rounds as u64 * self.row_frames + in_last
    }

    /// Calls `visit` with the numbers in the run of a range of the part's frames, as ranges that go up.
    pub(crate) fn frames(&self, own: Range<u64>, mut visit: impl FnMut(Range<u64>)) {
        let mut at = own.start;
        while at < own.end {
            let end = match self.turn() {
                (1, _) => own.end,
                _ => (at / self.row_frames + 1).saturating_mul(self.row_frames).min(own.end),
            };
            if let Some(first) = self.frame(at) {
                visit(first..first.saturating_add(end - at));
            }
            at = end;
        }
    }

    /// The numbers in the run of some of the part's frames.
    pub(crate) fn ranges(&self, own: &[Range<u64>]) -> Vec<Range<u64>> {
        let mut all = Vec::new();
        own.iter().for_each(|range| self.frames(range.clone(), |range| all.push(range)));
        all
    }

    /// The number that one of the part's shards has in the run.
    pub(crate) fn shard(&self, own: u64) -> Option<u64> {
        let [rows, columns] = self.shards;
        let (cell, across) = (own / (rows * columns), own % (rows * columns));
        let (row, in_row) = (cell / self.row_cells, cell % self.row_cells);
        let cell = self.row(row)?.checked_mul(self.row_cells)?.checked_add(in_row)?;
        let [y, x] = [across / columns + self.first[0], across % columns + self.first[1]];
        cell.checked_mul(self.grid[0])?.checked_add(y)?.checked_mul(self.grid[1])?.checked_add(x)
    }

    /// The part's number of a shard of the run, if it is one of the part's.
    fn own_shard(&self, shard: u64) -> Option<u64> {
        let (parts, index) = self.turn();
        let (rest, x) = (shard / self.grid[1], shard % self.grid[1]);
        let (cell, y) = (rest / self.grid[0], rest % self.grid[0]);
        let (row, in_row) = (cell / self.row_cells, cell % self.row_cells);
        let [y, x] = [y.checked_sub(self.first[0])?, x.checked_sub(self.first[1])?];
        if row % parts != index || y >= self.shards[0] || x >= self.shards[1] {
            return None;
        }
        let cell = row / parts * self.row_cells + in_row;
        Some((cell * self.shards[0] + y) * self.shards[1] + x)
    }

    /// What a header of the part says of the run.
    pub(crate) fn of_run(&self, own: Origin) -> Origin {
        let (shard, first_frame) = (self.shard(own.shard), self.frame(own.first_frame));
        // A writer counts no further than it can.
        Origin { shard: shard.unwrap_or(u64::MAX), first_frame: first_frame.unwrap_or(u64::MAX), ..own }
    }

    /// What a header that speaks of the run says of the part. That of another part becomes one of no dataset.
    fn of_part(&self, mut header: SlotHeader) -> SlotHeader {
        let origin = &mut header.origin;
        match (self.own_shard(origin.shard), self.own_frame(origin.first_frame)) {
            (Some(shard), Ok(frame)) => (origin.shard, origin.first_frame) = (shard, frame),
            _ => origin.dataset = [0; 16],
        }
        header
    }
}

/// The header in `bytes`, as [`parse`] reads it, in the numbers of the part that has it, if one has.
pub(crate) fn parse_of(part: Option<&PartMap>, bytes: &[u8; HEADER_BYTES]) -> Option<SlotHeader> {
    let header = parse(bytes)?;
    Some(part.map_or(header, |part| part.of_part(header)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(index: u32, by: PartBy) -> PartMap {
        let (shards, first, grid) = match by {
            PartBy::Time => ([2, 3], [0, 0], [2, 3]),
            PartBy::Frame => ([2, 1], [0, index.into()], [2, 3]),
        };
        PartMap { index, of: 3, by, frames: None, row_frames: 10, row_cells: 2, shards, first, grid }
    }

    #[test]
    fn each_frame_and_each_shard_is_of_one_part_by_time() {
        for number in 0..200 {
            let of = [0, 1, 2].map(|index| map(index, PartBy::Time).own_frame(number));
            let owner = (number / 10 % 3) as usize;
            for (index, own) in of.into_iter().enumerate() {
                assert_eq!(own.map_err(|part| part as usize).is_ok(), index == owner);
                assert_eq!(own.err().map_or(owner, |part| part as usize), owner);
            }
            assert_eq!(map(owner as u32, PartBy::Time).frame(of[owner].unwrap()), Some(number));
            let below = [0, 1, 2].map(|index| map(index, PartBy::Time).frames_below(number));
            assert_eq!(below.iter().sum::<u64>(), number);
            assert!(below[owner] == of[owner].unwrap());
        }
        let mut ranges = Vec::new();
        map(1, PartBy::Time).frames(5..25, |range| ranges.push(range));
        assert_eq!(ranges, [15..20, 40..50, 70..75]);
    }

    #[test]
    fn shards_have_one_owner() {
        for by in [PartBy::Time, PartBy::Frame] {
            for shard in 0..500 {
                let owners: Vec<u32> = (0..3).filter(|&index| map(index, by).own_shard(shard).is_some()).collect();
                let [owner] = owners[..] else { panic!("shard {shard} has {owners:?}") };
                let part = map(owner, by);
                assert_eq!(part.shard(part.own_shard(shard).unwrap()), Some(shard));
            }
            for own in 0..300 {
                let part = map(2, by);
                assert_eq!(part.own_shard(part.shard(own).unwrap()), Some(own));
            }
        }
    }

    #[test]
    fn a_band_has_every_frame() {
        let part = map(1, PartBy::Frame);
        assert_eq!((part.frame(17), part.own_frame(17), part.frames_below(9)), (Some(17), Ok(17), 9));
        assert_eq!(part.ranges(&[Range { start: 3, end: 40 }]), [Range { start: 3, end: 40 }]);
    }

    #[test]
    fn what_a_document_says_is_checked() {
        let good = map(2, PartBy::Frame);
        assert!(good.check().is_ok());
        let bad = [
            PartMap { index: 3, ..good },
            PartMap { row_frames: 0, ..good },
            PartMap { shards: [0, 1], ..good },
            PartMap { first: [0, 3], ..good },
            PartMap { first: [u64::MAX, 0], ..good },
            PartMap { of: PARTS_MAX + 1, ..good },
            PartMap { shards: [1 << 40; 2], first: [0; 2], grid: [1 << 40; 2], ..good },
        ];
        assert!(bad.iter().all(|bad| bad.check().is_err()));
        let far = PartMap { row_frames: u64::MAX, row_cells: u64::MAX, ..map(1, PartBy::Time) };
        let far = far.check().unwrap();
        assert_eq!((far.frame(u64::MAX), far.shard(u64::MAX)), (None, None));
        far.frames_below(u64::MAX);
        assert!(far.own_shard(u64::MAX).is_none());
    }
}
