//! Which frames of an image are there.

use std::ops::Range;

use crate::offline::ranges::Ranges;

/// How many ranges of missing frames the documents name, as the writer does; the count goes on beyond.
const MISSING_RANGES_MAX: usize = 10_000;

/// What is known of the frames below `end`: each is missing, or it is there. Of those that are there, `named` are sure
/// to have come; others lie in a chunk of several frames, of which the header names the first and the last.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// One past the highest number that is known of.
    pub(super) end: u64,
    pub(super) missing: Ranges,
    pub(super) missing_count: u64,
    pub(super) named: Ranges,
}

impl Frames {
    /// The ranges that documents name.
    pub(super) fn told(&self) -> Vec<Range<u64>> {
        self.missing.iter().take(MISSING_RANGES_MAX).cloned().collect()
    }

    pub(super) fn present(&self) -> Ranges {
        Ranges::from(0..self.end).minus(&self.missing)
    }
}
