//! What is counted and timed while the engine runs, and what went wrong first.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use crate::error::{Error, Result, logged};
use crate::stats::{Latencies, Stage};
use crate::sync::{Watchers, event};

/// What is counted while the engine runs. Relaxed throughout: readers want a recent value, not an order.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) frames_accepted: AtomicU64,
    pub(crate) frames_written: AtomicU64,
    /// Of layers that a worker has begun with, and of those that all are done with, stored or not.
    pub(crate) frames_begun: AtomicU64,
    pub(crate) frames_done: AtomicU64,
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

/// The first error of the run, kept for every later call, and the frame that it was about.
pub(crate) struct FirstError {
    first: OnceLock<(Error, Option<u64>)>,
    watchers: Arc<Watchers>,
}

impl FirstError {
    pub(crate) fn new(watchers: Arc<Watchers>) -> Self {
        Self { first: OnceLock::new(), watchers }
    }

    pub(crate) fn set(&self, error: Error) {
        self.set_about(error, None);
    }

    /// `frame`: the first that it is about, if it is about any.
    pub(crate) fn set_about(&self, error: Error, frame: Option<u64>) {
        let is_first = self.first.set((error.clone(), frame)).is_ok();
        logged(|| match error {
            // Whoever aborts it knows that frames are lost.
            Error::Aborted => tracing::warn!(%error, "the acquisition was aborted"),
            _ if is_first => tracing::error!(%error, frame, "the acquisition failed"),
            // There is one for each frame that waits, as a rule.
            _ => tracing::debug!(%error, frame, "another error of an acquisition that has failed"),
        });
        if is_first {
            // Whoever waits for a buffer does so in vain: the next call tells this error.
            self.watchers.tell(event::ERROR | event::BUFFER_FREE);
        }
    }

    pub(crate) fn get(&self) -> Option<&Error> {
        self.first.get().map(|(error, _)| error)
    }

    /// Of the first error, if there is one and it is about a frame.
    pub(crate) fn frame(&self) -> Option<u64> {
        self.first.get().and_then(|(_, frame)| *frame)
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        self.get().map_or(Ok(()), |error| Err(error.clone()))
    }
}

/// The latencies of all stages, as one thread or a few see them.
pub(crate) struct StageTimes([Latencies; Stage::ALL.len()]);

impl StageTimes {
    /// One for the callers, one for the finalizer's threads, one for each worker.
    pub(crate) fn all(workers: usize) -> Arc<[Self]> {
        (0..workers + 2).map(|_| Self(std::array::from_fn(|_| Latencies::new()))).collect()
    }

    pub(crate) fn of(&self, stage: Stage) -> &Latencies {
        &self.0[stage as usize]
    }
}
