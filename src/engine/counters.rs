//! What is counted and timed while the engine runs, and what went wrong first.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

use crate::error::{Error, Result, logged};
use crate::stats::{Latencies, Stage};

/// What is counted while the engine runs. Relaxed throughout: readers want a recent value, not an order.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) frames_accepted: AtomicU64,
    pub(crate) frames_written: AtomicU64,
    /// Named by indexes on the device.
    pub(crate) frames_synced: AtomicU64,
    /// Those of them that the documents there tell of, too.
    pub(crate) frames_durable: AtomicU64,
    /// Settled without a frame.
    pub(crate) frames_missing: AtomicU64,
    pub(crate) frames_dropped: AtomicU64,
    /// Those of them whose numbers nobody gave.
    pub(crate) dropped_unnumbered: AtomicU64,
    pub(crate) bytes_out: AtomicU64,
    pub(crate) chunks_written: AtomicU64,
    pub(crate) chunks_empty: AtomicU64,
    pub(crate) shards_closed: AtomicU64,
    /// One past the newest frame that has come.
    pub(crate) newest_end: AtomicU64,
}

/// The first error of the run, kept for every later call.
#[derive(Debug, Default)]
pub(crate) struct FirstError(OnceLock<Error>);

impl FirstError {
    pub(crate) fn set(&self, error: Error) {
        let _ = self.0.set(error.clone());
        logged(|| tracing::error!(%error, "the acquisition failed"));
    }

    pub(crate) fn get(&self) -> Option<&Error> {
        self.0.get()
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        self.get().map_or(Ok(()), |error| Err(error.clone()))
    }
}

/// The latencies of all stages, as one thread or a few see them.
pub(crate) struct StageTimes([Latencies; Stage::ALL.len()]);

impl StageTimes {
    pub(crate) fn new() -> Self {
        Self(std::array::from_fn(|_| Latencies::new()))
    }

    pub(crate) fn of(&self, stage: Stage) -> &Latencies {
        &self.0[stage as usize]
    }
}
