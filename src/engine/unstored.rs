//! Records of frames that could not be stored. Such frames look as if they had never come, so they are not durable.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use crate::dataset::records::RecordBlock;
use crate::sync::{Mutex, Unpoisoned};

/// The blocks of records that were not yet written to the end.
#[derive(Debug, Default)]
pub(crate) struct UnstoredRecords {
    /// As far as their last write is known.
    states: Mutex<BTreeMap<u64, BlockState>>,
    /// Those whose last write failed.
    failed: Mutex<Vec<RecordBlock>>,
    queue: Mutex<Queue>,
}

/// What waits for blocks to be written for the last time.
#[derive(Debug, Default)]
struct Queue {
    /// The blocks that were handed on for that.
    blocks: BTreeSet<u64>,
    /// How many frames are durable when each of these blocks is written, the oldest count first.
    counts: VecDeque<(BTreeSet<u64>, u64)>,
}

#[derive(Debug, Clone, Copy, Default)]
struct BlockState {
    /// How many of its first numbers were settled when it was last stored.
    stored: u64,
    /// It could not be stored since.
    failed: bool,
}

impl UnstoredRecords {
    /// A block was written, or could not be, as far as it is known: the first `settled` of its numbers.
    pub(crate) fn note_part(&self, block: u64, settled: u64, is_stored: bool) {
        let mut blocks = self.states.lock().unpoisoned();
        let state = blocks.entry(block).or_default();
        state.failed = !is_stored;
        if is_stored {
            state.stored = settled;
        }
    }

    /// A block is handed on to be written for the last time.
    pub(crate) fn note_handed(&self, block: u64) {
        self.queue.lock().unpoisoned().blocks.insert(block);
    }

    /// So many frames are on the device but for records that were handed on.
    pub(crate) fn hold(&self, frames: u64) {
        let queue = &mut *self.queue.lock().unpoisoned();
        match queue.counts.back_mut().filter(|(blocks, _)| *blocks == queue.blocks) {
            Some((_, count)) => *count = frames,
            None => queue.counts.push_back((queue.blocks.clone(), frames)),
        }
    }

    /// How many frames were [held](Self::hold) of which all records are stored now: none from the moment on when one
    /// could not be, until the end tells which frames that is about.
    pub(crate) fn released(&self) -> Option<u64> {
        if self.are_there() {
            return None;
        }
        let Queue { blocks, counts } = &mut *self.queue.lock().unpoisoned();
        let ready = counts.iter().take_while(|(needed, _)| needed.is_disjoint(blocks)).count();
        counts.drain(..ready).next_back().map(|(_, frames)| frames)
    }

    /// A block was written for the last time, or could not be.
    pub(crate) fn note_whole(&self, block: u64, is_stored: bool) {
        self.queue.lock().unpoisoned().blocks.remove(&block);
        let mut blocks = self.states.lock().unpoisoned();
        if is_stored {
            blocks.remove(&block);
        } else {
            blocks.entry(block).or_default().failed = true;
        }
    }

    /// Keeps a block that could not be written for the last time, for the end of the run.
    pub(crate) fn keep(&self, block: RecordBlock) {
        self.failed.lock().unpoisoned().push(block);
    }

    /// Has each block stored again that was kept. `store`: whether it was.
    pub(crate) fn store_again(&self, store: impl Fn(&RecordBlock) -> bool) {
        let failed = std::mem::take(&mut *self.failed.lock().unpoisoned());
        failed.iter().for_each(|block| self.note_whole(block.number, store(block)));
    }

    fn are_there(&self) -> bool {
        self.states.lock().unpoisoned().values().any(|state| state.failed)
    }

    /// The numbers below `end` of which records may be lacking.
    pub(crate) fn numbers(&self, block_frames: u64, end: u64) -> Vec<Range<u64>> {
        let blocks = self.states.lock().unpoisoned();
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for (block, state) in blocks.iter().filter(|(_, state)| state.failed) {
            let start = block * block_frames;
            let range = start + state.stored..(start + block_frames).min(end);
            match ranges.last_mut().filter(|last| last.end == range.start) {
                Some(last) => last.end = range.end,
                None if range.start < range.end => ranges.push(range),
                None => {}
            }
        }
        ranges
    }
}

/// What to say of frames without records.
pub(crate) fn note(numbers: &[Range<u64>]) -> Option<String> {
    let names: Vec<_> = numbers
        .iter()
        .map(|range| match range.end - range.start {
            1 => range.start.to_string(),
            _ => format!("{} to {}", range.start, range.end - 1),
        })
        .collect();
    let what = match numbers {
        [] => return None,
        [one] if one.end - one.start == 1 => "record of frame",
        _ => "records of frames",
    };
    Some(format!(
        "the {what} {} could not be stored, or not in all fields: what is lacking reads as the fill value, which for \
         frame_number is -1, and the frames do not count as durable",
        names.join(", ")
    ))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn frames_wait_for_the_records_that_were_handed_on_before() {
        let unstored = UnstoredRecords::default();
        unstored.hold(3);
        assert_eq!((unstored.released(), unstored.released()), (Some(3), None));
        unstored.note_handed(0);
        unstored.hold(8);
        unstored.hold(9);
        unstored.note_handed(1);
        assert_eq!(unstored.released(), None);
        unstored.hold(12);
        unstored.note_whole(0, true);
        assert_eq!((unstored.released(), unstored.released()), (Some(9), None));
        unstored.note_whole(1, false);
        assert_eq!(unstored.released(), None, "a record of these could not be stored");
        unstored.note_whole(1, true);
        assert_eq!(unstored.released(), Some(12));
    }

    #[test]
    fn what_was_stored_since_is_no_more_lacking() {
        let unstored = UnstoredRecords::default();
        unstored.note_part(0, 5, true);
        assert!(!unstored.are_there());
        unstored.note_part(0, 7, false);
        unstored.note_whole(1, false);
        unstored.note_part(3, 2, false);
        assert_eq!(unstored.numbers(10, 36), [5..20, 30..36]);
        assert_eq!(unstored.numbers(10, 5), []);
        let told = note(&unstored.numbers(10, 36)).unwrap();
        assert!(told.starts_with("the records of frames 5 to 19, 30 to 35 could not be stored, "), "{told}");
        unstored.note_whole(0, true);
        unstored.note_part(3, 4, true);
        let one = vec![Range { start: 10, end: 20 }];
        assert_eq!(unstored.numbers(10, 36), one);
        unstored.note_whole(1, true);
        assert!(!unstored.are_there() && note(&unstored.numbers(10, 36)).is_none());
        unstored.note_whole(3, false);
        unstored.keep(RecordBlock { number: 3, columns: Vec::new() });
        unstored.store_again(|_| false);
        unstored.store_again(|_| true);
        assert!(unstored.are_there(), "a block is tried again more than once");
        let one = Range { start: 4, end: 5 };
        assert!(note(&[one]).unwrap().starts_with("the record of frame 4 could"));
    }
}
