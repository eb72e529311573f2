//! How far an operation is, for other threads to ask; and the threads that it works with.

use std::num::NonZero;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::config::check_workers;
use crate::error::{Error, Result};

/// How far an operation has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Bytes that are done with: of pixels for a [`Repack`](super::Repack), of the new levels' pixels for a
    /// [`Pyramid`](super::Pyramid), else of files with chunks; frames for a [`FinishParts`](super::FinishParts), which
    /// reads no pixel.
    pub done: u64,
    /// The same bytes in all; 0 until it is known.
    pub total: u64,
    /// Of these done, the bytes that an earlier call had finished: this one only found them.
    pub found: u64,
    /// Bytes of files that were looked through so far, at most: not all of them may have to be read. Where
    /// chunks get another shape, and for a [`Pyramid`](super::Pyramid), bytes of the pixels of new chunks instead; 0
    /// for a [`WriteManifest`](super::WriteManifest), which reads nothing but indexes.
    pub bytes_read: u64,
}

impl Progress {
    /// What is done, and what there is in all: for a bar.
    pub fn bytes(&self) -> (u64, u64) {
        (self.done, self.total)
    }
}

/// Gives an operation with `counters` the calls by which other threads look after its `run`.
macro_rules! controls {
    ($operation:ident) => {
        impl $operation {
            /// Lets [`run`](Self::run) end as soon as it can, with [`Error::Stopped`]; for another thread to call. It
            /// is for good: what goes on from there is a new one.
            pub fn stop(&self) {
                self.counters.stop();
            }

            /// How far [`run`](Self::run) has come; for another thread to ask.
            pub fn progress(&self) -> Progress {
                self.counters.progress()
            }
        }
    };
}
pub(super) use controls;

#[derive(Debug, Default)]
pub(super) struct ProgressCounters {
    total: AtomicU64,
    pub(super) done: AtomicU64,
    pub(super) found: AtomicU64,
    pub(super) read: AtomicU64,
    stopped: AtomicBool,
    begun: AtomicBool,
}

impl ProgressCounters {
    pub(super) fn of(total: u64) -> Self {
        Self { total: total.into(), ..Self::default() }
    }

    /// Begins again, with what is known to be to do.
    pub(super) fn begin(&self, total: u64) {
        [&self.done, &self.found, &self.read].into_iter().for_each(|counter| counter.store(0, Relaxed));
        self.total.store(total, Relaxed);
    }

    /// An earlier call has done all of it.
    pub(super) fn find_all(&self) {
        [&self.done, &self.found].into_iter().for_each(|counter| counter.store(self.total(), Relaxed));
    }

    /// Refuses a second run of an operation that changes what it looked at.
    pub(super) fn begin_only_run(&self, operation: &str, root: &Path) -> Result<()> {
        if self.begun.swap(true, Relaxed) {
            let reason = format!("a {operation} of it runs once; a new one goes on after what this one has finished");
            return Err(Error::conflict(root, reason));
        }
        Ok(())
    }

    pub(super) fn total(&self) -> u64 {
        self.total.load(Relaxed)
    }

    /// Lets the operation end as soon as it can.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Relaxed);
    }

    /// Fails once the operation was stopped.
    pub(super) fn go_on(&self) -> Result<()> {
        if self.stopped.load(Relaxed) { Err(Error::Stopped) } else { Ok(()) }
    }

    /// This many bytes were read, and are done with.
    pub(super) fn add(&self, bytes: u64) {
        self.read.fetch_add(bytes, Relaxed);
        self.done.fetch_add(bytes, Relaxed);
    }

    pub(super) fn progress(&self) -> Progress {
        let total = self.total();
        let done = self.done.load(Relaxed).min(total);
        Progress { done, total, found: self.found.load(Relaxed).min(done), bytes_read: self.read.load(Relaxed) }
    }
}

/// What one shard of a repacking has added to the counters so far.
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

/// How many threads `workers` stands for: 0 is one for each core that the process may use.
pub(super) fn threads(workers: usize) -> usize {
    if workers > 0 { workers } else { thread::available_parallelism().map_or(1, NonZero::get) }
}

/// The threads of an operation.
pub(super) fn pool(workers: usize) -> Result<ThreadPool> {
    check_workers(workers)?;
    let pool = ThreadPoolBuilder::new().num_threads(threads(workers)).build();
    pool.map_err(|error| Error::config("workers", workers, error.to_string()))
}
