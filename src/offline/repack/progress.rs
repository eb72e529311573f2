//! What each shard adds to how far a repacking is.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::offline::progress::ProgressCounters;

/// What one shard has added to the counters so far.
pub(super) struct Tally<'a> {
    pub(super) counters: &'a ProgressCounters,
    pub(super) added: AtomicU64,
}

impl Tally<'_> {
    pub(super) fn read(&self, bytes: u64) {
        self.counters.read.fetch_add(bytes, Relaxed);
    }

    pub(super) fn pixels(&self, bytes: u64) {
        self.added.fetch_add(bytes, Relaxed);
        self.counters.done.fetch_add(bytes, Relaxed);
    }

    /// Counts `bytes` for the whole shard: some of its chunks were missing, or reached beyond the edge.
    pub(super) fn settle(self, bytes: u64) {
        self.counters.done.fetch_add(bytes, Relaxed);
        self.counters.done.fetch_sub(self.added.into_inner(), Relaxed);
    }
}
