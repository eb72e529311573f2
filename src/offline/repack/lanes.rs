//! Shards in the making at once, within the memory that was granted.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::thread;

use super::change::Change;
use super::shard::ShardOutcome;
use crate::error::{Error, Result};
use crate::offline::progress::{ProgressCounters, Tally, threads};
use crate::sync::Unpoisoned;
use crate::words::count;

/// More chunks on their way in one shard than this help nobody.
const CHUNKS_AT_ONCE_MAX: usize = 256;

/// How many shards are in the making at once, and how many chunks each has on their way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShardLanes {
    pub(crate) count: usize,
    pub(crate) chunks_at_once: usize,
}

impl ShardLanes {
    /// For `shards` new shards of these changes. Refuses a memory that is too small for one chunk.
    pub(crate) fn new(changes: &[&Change], shards: usize, memory_bytes: u64, workers: usize) -> Result<Self> {
        let threads = threads(workers);
        let most = |bytes: fn(&Change) -> u64| changes.iter().map(|change| bytes(change)).max().unwrap_or(0);
        let encoded_chunk = most(Change::parcel_bytes).max(1);
        let threads_bytes = most(Change::thread_bytes).saturating_mul(threads as u64);
        let least = threads_bytes.saturating_add(encoded_chunk);
        if memory_bytes < least {
            let reason = format!("chunks of this size need at least {least} bytes with {}", count(threads, "thread"));
            return Err(Error::config("memory_bytes", memory_bytes, reason));
        }
        let chunks_at_once = ((memory_bytes - threads_bytes) / encoded_chunk) as usize;
        // One lane more than threads, because writing and syncing leave threads idle.
        let count = (threads + 1).min(shards).min(chunks_at_once).max(1);
        Ok(Self { count, chunks_at_once: (chunks_at_once / count).clamp(1, CHUNKS_AT_ONCE_MAX) })
    }

    /// Makes the shards in `todo`, each by the number of its change and its position, and tells `made` of each. The
    /// first error ends the work.
    pub(crate) fn make(
        self,
        changes: &[&Change],
        todo: &[(usize, Vec<u64>)],
        counters: &ProgressCounters,
        made: impl Fn(usize, ShardOutcome) + Sync,
    ) -> Result<()> {
        let next = AtomicUsize::new(0);
        let failed = AtomicBool::new(false);
        let first_error = Mutex::new(None);
        let lane = || {
            while !failed.load(Relaxed) {
                let Some((number, position)) = todo.get(next.fetch_add(1, Relaxed)) else { return };
                let change = changes[*number];
                let tally = Tally { counters, added: AtomicU64::new(0) };
                match counters.go_on().and_then(|()| change.shard(position, self.chunks_at_once, &tally)) {
                    Ok(outcome) => {
                        made(*number, outcome);
                        let pixels = change.pixel_bytes(position);
                        if matches!(outcome, ShardOutcome::Found { .. }) {
                            counters.found.fetch_add(pixels, Relaxed);
                        }
                        tally.settle(pixels);
                    }
                    Err(error) => {
                        failed.store(true, Relaxed);
                        first_error.lock().unpoisoned().get_or_insert(error);
                        // What was gathered for it is gathered again by the next call.
                        tally.settle(0);
                    }
                }
            }
        };
        thread::scope(|scope| (0..self.count).for_each(|_| drop(scope.spawn(lane))));
        first_error.into_inner().unpoisoned().map_or(Ok(()), Err)
    }
}
