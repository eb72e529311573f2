//! What a worker needs to make chunks of one kind: images of the same kind share it.

use std::sync::{Mutex as StdMutex, MutexGuard};
use std::thread::{JoinHandle, ThreadId};

use super::arena::Arena;
use super::pump::Engine;
use super::tile_encoder::TileEncoder;
use super::writers::{self, CombiningWriter, WritePath, Writers};
use crate::config::Codec;
use crate::error::{Error, Result};
use crate::shard::WaitsFor;
use crate::storage::WRITES_AT_ONCE;
use crate::sync::Unpoisoned;

/// What one worker makes chunks of one kind with.
pub(super) struct Kit {
    pub(super) encoder: TileEncoder,
    /// Header and encoded tile, where they can't be made in place.
    pub(super) arena: Arena,
    /// Who writes what is made there.
    pub(super) write_path: WritePath,
}

/// What all chunks of a kind have in common.
#[derive(Debug, PartialEq)]
struct Kind {
    codec: Codec,
    element_bytes: usize,
    chunk_bytes: usize,
    slot_bytes: usize,
    arena_bytes: usize,
    waits_for: WaitsFor,
}

/// Where kits come from, and the threads that write for workers. Kits are made when an image of a new kind begins, so
/// that no frame waits for memory.
pub(super) struct KitSupply {
    kinds: StdMutex<Vec<Kind>>,
    /// By worker, the kits that it has not fetched yet.
    made: Vec<StdMutex<Vec<(usize, Kit)>>>,
    combining: CombiningWriter,
    /// The way to the threads that write, once there are some.
    writers: StdMutex<Option<Writers>>,
    started: StdMutex<Vec<JoinHandle<()>>>,
    start: Box<StartThread>,
}

/// Starts a thread of this name.
pub(super) type StartThread = dyn Fn(String, Box<dyn FnOnce() + Send>) -> Result<JoinHandle<()>> + Send + Sync;

impl KitSupply {
    pub(super) fn new(workers: usize, start: Box<StartThread>) -> Self {
        let (kinds, writers, started) = Default::default();
        let made = (0..workers).map(|_| StdMutex::default()).collect();
        Self { kinds, made, combining: CombiningWriter::new(), writers, started, start }
    }

    /// The number of the kits for an image's chunks, which are made if there are none.
    pub(super) fn provide(&self, engine: &Engine, waits_for: WaitsFor) -> Result<usize> {
        let plan = &engine.plan;
        let kind = Kind {
            codec: engine.codec.clone(),
            element_bytes: plan.frame.dtype.size(),
            chunk_bytes: plan.shard.chunk_bytes,
            slot_bytes: plan.shard.slot_bytes,
            arena_bytes: Arena::bytes(plan, waits_for),
            waits_for,
        };
        let mut kinds = lock(&self.kinds);
        if let Some(number) = kinds.iter().position(|known| *known == kind) {
            return Ok(number);
        }
        let write_path = self.write_path(waits_for)?;
        let kit = |_| {
            let arena = Arena::new(plan, waits_for);
            let arena = arena.map_err(|error| Error::io("get memory for", "the workers", error))?;
            Ok(Kit { encoder: TileEncoder::new(engine)?, arena, write_path: write_path.clone() })
        };
        let kits: Result<Vec<_>> = self.made.iter().map(kit).collect();
        let number = kinds.len();
        for (made, kit) in self.made.iter().zip(kits?) {
            // Room for the next one, too: a worker that fetches takes no memory.
            lock(made).push((number, kit));
        }
        kinds.push(kind);
        Ok(number)
    }

    /// Who writes for workers, given what a write waits for.
    fn write_path(&self, waits_for: WaitsFor) -> Result<WritePath> {
        Ok(match waits_for {
            WaitsFor::Nothing => WritePath::Inline,
            WaitsFor::OtherWrites => WritePath::Combining(self.combining.clone()),
            WaitsFor::Device => {
                let mut way = lock(&self.writers);
                if let Some(writers) = &*way {
                    return Ok(WritePath::Threads(writers.clone()));
                }
                let (writers, jobs) = writers::queue();
                for index in 0..WRITES_AT_ONCE {
                    let jobs = jobs.clone();
                    let thread = (self.start)(format!("sw-write-{index}"), Box::new(move || jobs.run()))?;
                    lock(&self.started).push(thread);
                }
                WritePath::Threads(way.insert(writers).clone())
            }
        })
    }

    /// Whether this is one of the threads that write.
    pub(super) fn has_thread(&self, thread: ThreadId) -> bool {
        lock(&self.started).iter().any(|one| one.thread().id() == thread)
    }

    /// The threads that write, which end when the last worker has ended, and their queue is empty.
    pub(super) fn end(&self) -> Vec<JoinHandle<()>> {
        // Nobody fetches any more.
        self.made.iter().for_each(|made| lock(made).clear());
        lock(&self.writers).take();
        std::mem::take(&mut *lock(&self.started))
    }

    /// For a worker: the kits that were made since it asked last.
    pub(super) fn fetch(&self, worker: usize) -> Vec<(usize, Kit)> {
        std::mem::take(&mut *lock(&self.made[worker]))
    }
}

fn lock<T>(mutex: &StdMutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unpoisoned()
}
