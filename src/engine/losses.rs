//! Frames that were accepted and are not in the dataset, because a chunk or a whole shard of theirs could not be
//! stored.
//!
//! They are noted by the layer or the shard, and only looked up frame by frame at the end: losses are rare, but then
//! they must be told exactly.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::format::provenance::MISSING_RANGES_MAX;
use crate::plan::Plan;
use crate::sync::{Mutex, Unpoisoned};

#[derive(Debug, Default)]
pub(crate) struct Losses(Mutex<Lost>);

#[derive(Debug, Default)]
struct Lost {
    /// Frame numbers of layers of which a chunk is missing.
    numbers: BTreeSet<u64>,
    /// Shard cells, as block and cell, that could not be closed, and which of their layers are there all the same.
    cells: BTreeMap<(u64, u64), Box<[bool]>>,
    /// Frames that are there all the same, in provisional chunks.
    kept: BTreeSet<u64>,
}

impl Losses {
    pub(crate) fn add_layer(&self, numbers: impl Iterator<Item = u64>) {
        self.0.lock().unpoisoned().numbers.extend(numbers);
    }

    /// A cell of shards could not be closed. `named`: which layers it has all the same, by their place in the cell;
    /// those beyond it are lost.
    pub(crate) fn add_cell(&self, block: u64, cell: u64, named: Box<[bool]>) {
        self.0.lock().unpoisoned().cells.insert((block, cell), named);
    }

    /// These frames are there whatever became of their layer.
    pub(crate) fn keep(&self, numbers: Vec<u64>) {
        self.0.lock().unpoisoned().kept.extend(numbers);
    }

    /// The numbers below `end` that were lost, of which none is in `missing`.
    pub(crate) fn numbers(&self, plan: &Plan, missing: &[Range<u64>], end: u64) -> BTreeSet<u64> {
        let lost = self.0.lock().unpoisoned();
        let in_cells = lost.cells.iter().flat_map(|(&(block, cell), named)| {
            let frames = plan.shards.block_frames(block);
            let is_lost = |number| named.get(plan.layer_of(number)) != Some(&true);
            let of_cell = move |number: &u64| plan.shards.locate(*number).cell == cell;
            (frames.start..frames.end.min(end)).filter(of_cell).filter(move |&number| is_lost(number))
        });
        let is_lost = |number: &u64| !holds(missing, *number) && !lost.kept.contains(number);
        lost.numbers.iter().copied().chain(in_cells).filter(is_lost).collect()
    }
}

/// Adds `range` to sorted ranges, which it follows or touches.
pub(crate) fn note_range(ranges: &mut Vec<Range<u64>>, range: Range<u64>) {
    if let Some(last) = ranges.last_mut().filter(|last| last.end == range.start) {
        last.end = range.end;
    } else if ranges.len() < MISSING_RANGES_MAX {
        ranges.push(range);
    }
}

/// Whether one of some sorted ranges holds a number.
pub(crate) fn holds(ranges: &[Range<u64>], number: u64) -> bool {
    let at = ranges.partition_point(|range| range.end <= number);
    ranges.get(at).is_some_and(|range| range.contains(&number))
}

pub(crate) fn merge(missing: &[Range<u64>], lost: &BTreeSet<u64>) -> Vec<Range<u64>> {
    let mut all = missing.to_vec();
    all.extend(lost.iter().map(|&number| number..number + 1));
    all.sort_by_key(|range| range.start);
    let mut ranges = Vec::new();
    all.into_iter().for_each(|range| note_range(&mut ranges, range));
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_missing_frames_are_one_range() {
        let mut ranges = vec![];
        for range in [3..4, 4..9, 11..12] {
            note_range(&mut ranges, range);
        }
        assert_eq!(ranges, [3..9, 11..12]);
    }
}
