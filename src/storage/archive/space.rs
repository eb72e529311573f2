//! Which ranges of an archive are free, and which will be.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// For this many directories, what an older one names is left as it is: a reader that has read that one may be slow to
/// read what it names.
const KEPT: u64 = 8;

/// For more lengths than these it is not kept where to look.
const LENGTHS_MAX: usize = 8;

/// Free ranges, in whole pages.
#[derive(Debug, Clone, Default)]
pub(super) struct Space {
    /// Ends by starts; no two touch.
    free: BTreeMap<u64, u64>,
    free_bytes: u64,
    /// By lengths that were looked for: before this place nothing is free that is as long. Of many closed shards there
    /// are as many gaps, which would be looked through for each new one.
    looked: BTreeMap<u64, u64>,
    /// What the next directory will not name, with the number of the last one that does.
    retired: VecDeque<(u64, Range<u64>)>,
    /// Directories written, but for those that say what the one before did.
    directories: u64,
    /// What the next one names is settled, and it is being written.
    is_writing: bool,
}

impl Space {
    pub(super) fn free_bytes(&self) -> u64 {
        self.free_bytes
    }

    /// Free ranges, for whoever gives them back to the disk.
    pub(super) fn free(&self) -> impl Iterator<Item = Range<u64>> {
        self.free.iter().map(|(&start, &end)| start..end)
    }

    /// Takes `len` bytes, as near to the start of the file as can be.
    pub(super) fn take(&mut self, len: u64) -> Option<u64> {
        let from = self.looked.range(..=len).map(|(_, &from)| from).max().unwrap_or(0);
        let found = self.free.range(from..).find(|&(start, end)| end - start >= len).map(|(&start, &end)| (start, end));
        if self.looked.len() > LENGTHS_MAX {
            self.looked.clear();
        }
        self.looked.insert(len, found.map_or(u64::MAX, |(start, _)| start));
        let (start, end) = found?;
        self.free.remove(&start);
        if start + len < end {
            self.free.insert(start + len, end);
        }
        self.free_bytes -= len;
        Some(start)
    }

    /// Whether [`take`](Self::take) would find a place before `limit`.
    pub(super) fn has_before(&self, len: u64, limit: u64) -> bool {
        self.free.iter().find(|&(start, end)| end - start >= len).is_some_and(|(&start, _)| start < limit)
    }

    /// Nothing needs a range.
    pub(super) fn give(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        self.free_bytes += range.end - range.start;
        let (mut start, mut end) = (range.start, range.end);
        if let Some((&before, _)) = self.free.range(..=start).next_back().filter(|(_, end)| **end == start) {
            self.free.remove(&before);
            start = before;
        }
        if let Some(after) = self.free.remove(&end) {
            end = after;
        }
        self.free.insert(start, end);
        self.looked.range_mut(..=end - start).for_each(|(_, from)| *from = start.min(*from));
    }

    /// No directory needs a range whose names are yet to be settled.
    pub(super) fn retire(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        // One that is being written may name it, too.
        let last = self.directories + u64::from(self.is_writing);
        let at = self.retired.partition_point(|(known, _)| *known <= last);
        self.retired.insert(at, (last, range));
    }

    pub(super) fn is_writing(&self) -> bool {
        self.is_writing
    }

    /// What the next directory names is settled.
    pub(super) fn begin_directory(&mut self) {
        self.is_writing = true;
    }

    /// The directory that was begun is in the file, and yet to be [counted](Self::next_directory). Until then, what is
    /// retired is what it does not name.
    pub(super) fn end_directory(&mut self) {
        self.is_writing = false;
    }

    /// The directory that was begun could not be written, so it names nothing.
    pub(super) fn give_directory_up(&mut self) {
        self.is_writing = false;
        self.retired.iter_mut().for_each(|(last, _)| *last = self.directories.min(*last));
    }

    /// A directory was written that says something new. Returns what has become free.
    pub(super) fn next_directory(&mut self) -> Vec<Range<u64>> {
        self.directories += 1;
        self.release(KEPT)
    }

    /// Frees what none of the newest `kept` directories names, at least the newest one.
    pub(super) fn release(&mut self, kept: u64) -> Vec<Range<u64>> {
        let mut freed = Vec::new();
        while self.retired.front().is_some_and(|(last, _)| *last + kept <= self.directories) {
            let Some((_, range)) = self.retired.pop_front() else { break };
            self.give(range.clone());
            freed.push(range);
        }
        freed
    }
}

#[cfg(test)]
// Lists of one range are meant.
#[allow(clippy::single_range_in_vec_init)]
mod tests {
    use super::*;

    #[test]
    fn free_ranges_that_touch_are_one() {
        let mut space = Space::default();
        space.give(10..20);
        space.give(30..40);
        assert_eq!(space.take(15), None);
        space.give(20..30);
        assert_eq!(space.free().collect::<Vec<_>>(), [10..40]);
        space.give(40..41);
        space.give(5..5);
        assert_eq!((space.free_bytes(), space.take(15), space.take(16), space.take(1)), (31, Some(10), Some(25), None));
    }

    #[test]
    fn the_lowest_place_that_is_large_enough_is_taken() {
        let mut space = Space::default();
        [100..104, 0..2, 50..60].into_iter().for_each(|range| space.give(range));
        assert_eq!(
            (space.take(3), space.take(3), space.take(4), space.take(2)),
            (Some(50), Some(53), Some(56), Some(0))
        );
        assert_eq!(space.free().collect::<Vec<_>>(), [100..104]);
    }

    #[test]
    fn a_place_that_was_passed_over_is_found_when_it_is_large_enough() {
        let mut space = Space::default();
        (0..20).for_each(|at| space.give(10 * at..10 * at + 4));
        assert_eq!((space.take(6), space.take(7), space.take(4)), (None, None, Some(0)));
        space.give(34..40);
        assert_eq!((space.take(7), space.take(6), space.take(3)), (Some(30), Some(37), Some(10)));
        space.give(14..20);
        assert_eq!((space.take(12), space.take(11), space.take(1)), (None, Some(13), Some(43)));
        // Of many lengths, too.
        assert!((101..140).all(|len| space.take(len).is_none()));
        space.give(200..400);
        assert_eq!(space.take(139), Some(200));
    }

    #[test]
    fn what_a_directory_names_is_free_when_enough_others_have_come() {
        let mut space = Space::default();
        space.next_directory();
        space.retire(0..8);
        for _ in 1..KEPT {
            assert!(space.next_directory().is_empty());
        }
        space.retire(8..16);
        assert_eq!(space.next_directory(), [0..8]);
        assert_eq!(space.release(1), [8..16]);
        // What the newest one names stays, however often it is written.
        space.retire(16..24);
        assert!(space.release(1).is_empty());
        assert_eq!(space.free().collect::<Vec<_>>(), [0..16]);
    }
}
