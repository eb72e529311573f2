//! Sorted ranges of frame numbers.

use std::ops::Range;

/// How many ranges of missing frames are remembered; the count goes on beyond.
pub(crate) const MISSING_RANGES_MAX: usize = 10_000;

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
