//! A committed frame.

use crate::ring::Frame;

/// A committed frame on its way to its layer.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) number: u64,
    pub(crate) frame: Frame,
    /// How many frames without a number had been dropped when its buffer was loaned: those that followed come after it.
    pub(crate) dropped_before: u64,
}

/// By their numbers.
impl Ord for Arrival {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.number.cmp(&other.number)
    }
}

impl PartialOrd for Arrival {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Arrival {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Arrival {}
