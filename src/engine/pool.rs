//! The threads of a dataset: how they are started, what they work for, and how they end.
//!
//! All images of a dataset share them. An image [begins](Pool::begin) and ends while others go on; workers take the
//! images that have complete layers in turn.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex as StdMutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle, ThreadId};

use super::closings::Closings;
use super::counters::StageTimes;
use super::kits::Kits;
use super::messages::{ClosingOf, PrepareBlock, Ticket};
use super::pump::Engine;
use super::served::{Roster, Served};
use super::shared::Ports;
use super::worker::Worker;
use super::writers::{self, CombiningWriter, WritePath, Writers};
use super::{closer, preparer};
use crate::aligned_memory::RingBuffers;
use crate::config::Config;
use crate::dataset::image::ImageWriter;
use crate::error::{Error, Result, caught};
use crate::fs::system::prefer_throughput;
use crate::plan::Plan;
use crate::shard::WaitsFor;
use crate::storage::WRITES_AT_ONCE;
use crate::sync::{Lanes, Receiver};

/// Images that may be acquired at the same time in one dataset.
pub(crate) const IMAGES_MAX: usize = 1 << 14;
/// What the thread that closes has room for without taking memory.
const CLOSINGS: usize = 1 << 10;

thread_local! {
    static OF_A_RUN: Cell<bool> = const { Cell::new(false) };
}

/// The threads of a dataset and the ends of their queues.
pub(crate) struct Pool {
    /// On behalf of which dataset.
    path: PathBuf,
    pub(crate) workers: usize,
    tickets: Arc<Lanes<Ticket>>,
    requests: Arc<Lanes<PrepareBlock>>,
    closings: Arc<Closings<ClosingOf>>,
    times: Arc<[StageTimes]>,
    roster: Arc<Roster>,
    kits: Arc<Kits>,
    combining: CombiningWriter,
    /// The way to the threads that write, once there are some.
    writers: StdMutex<Option<Writers>>,
    numbers: AtomicU32,
    threads: StdMutex<Threads>,
}

#[derive(Default)]
struct Threads {
    workers: Vec<JoinHandle<()>>,
    writers: Vec<JoinHandle<()>>,
    /// The two that prepare and close.
    others: Vec<JoinHandle<()>>,
}

/// An image that threads work for.
pub(crate) struct Begun {
    served: Arc<Served>,
}

impl Pool {
    /// Starts the threads, for up to so many images at a time. If one of them can't be had, none is left running.
    pub(crate) fn start(path: &Path, config: &Config, workers: usize, images_max: usize) -> Result<Self> {
        let (closings, to_close) = Closings::new(CLOSINGS);
        let pool = Self {
            path: path.to_path_buf(),
            workers,
            // Of the layers that were begun, each worker has sent on one ticket at most.
            tickets: Lanes::new(images_max, 2 * workers + 2),
            requests: Lanes::new(images_max, 1),
            closings: Arc::new(closings),
            times: StageTimes::all(workers),
            roster: Arc::default(),
            kits: Arc::new(Kits::new(workers)),
            combining: CombiningWriter::new(),
            writers: StdMutex::default(),
            numbers: AtomicU32::new(0),
            threads: StdMutex::default(),
        };
        pool.start_all(config, to_close)?;
        Ok(pool)
    }

    fn start_all(&self, config: &Config, to_close: Receiver<ClosingOf>) -> Result<()> {
        let mut threads = self.threads();
        for index in 0..self.workers {
            let worker = Worker::new(index, self.tickets.clone(), self.roster.clone(), self.kits.clone());
            let core = config.affinity.get(index % config.affinity.len().max(1)).copied();
            let run = move || {
                if let Some(id) = core {
                    core_affinity::set_for_current(core_affinity::CoreId { id });
                }
                worker.run();
            };
            threads.workers.push(self.spawn(format!("sw-worker-{index}"), run)?);
        }
        let (requests, roster) = (self.requests.clone(), self.roster.clone());
        threads.others.push(self.spawn("sw-prepare".into(), move || preparer::run(&requests, &roster))?);
        let (closings, roster) = (self.closings.clone(), self.roster.clone());
        threads.others.push(self.spawn("sw-close".into(), move || closer::run(&closings, &to_close, &roster))?);
        Ok(())
    }

    /// Starts a thread.
    pub(super) fn spawn(&self, name: String, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
        let run = move || {
            OF_A_RUN.set(true);
            prefer_throughput();
            run();
        };
        Builder::new().name(name).spawn(run).map_err(|e| Error::io("start a thread for", &self.path, e))
    }

    fn threads(&self) -> MutexGuard<'_, Threads> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who writes for workers, given what a write waits for.
    fn write_path(&self, waits_for: WaitsFor) -> Result<WritePath> {
        Ok(match waits_for {
            WaitsFor::Nothing => WritePath::Inline,
            WaitsFor::OtherWrites => WritePath::Combining(self.combining.clone()),
            WaitsFor::Device => {
                let mut way = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(writers) = &*way {
                    return Ok(WritePath::Threads(writers.clone()));
                }
                let (writers, jobs) = writers::queue();
                let mut started = Vec::new();
                for index in 0..WRITES_AT_ONCE {
                    let jobs = jobs.clone();
                    started.push(self.spawn(format!("sw-write-{index}"), move || jobs.run())?);
                }
                self.threads().writers.extend(started);
                WritePath::Threads(way.insert(writers).clone())
            }
        })
    }

    /// Begins with an image whose documents are written: takes everything that its run needs, and creates its first
    /// shards. Here, so that a full disk or a read-only folder is an error of whoever begins. `level_of`: of a level of a
    /// pyramid, its level 0.
    pub(crate) fn begin(
        &self,
        image: &Arc<ImageWriter>,
        plan: &Arc<Plan>,
        config: &Config,
        buffers: Option<RingBuffers>,
        level_of: Option<&Begun>,
    ) -> Result<(Arc<Engine>, Begun)> {
        let number = self.numbers.fetch_add(1, Relaxed);
        let ports = Ports {
            image: number,
            tickets: self.tickets.clone(),
            requests: self.requests.clone(),
            closings: self.closings.clone(),
            times: self.times.clone(),
            first_error: level_of.map(|of| of.served.engine.first_error.clone()),
        };
        let (engine, ends) = Engine::new(image, plan, config, buffers, &ports)?;
        let block = preparer::create_block(&engine, image, 0)?;
        let waits_for = block.cells[0].shards[0].waits_for();
        let kit = self.kits.provide(&engine, waits_for, || self.write_path(waits_for)).inspect_err(|_| {
            let shards = block.cells.iter().flat_map(|cell| &cell.shards);
            shards.for_each(|shard| drop(caught(|| Ok(image.storage().remove(&shard.key)))));
        })?;
        let sent = ends.deliver.try_send(block);
        debug_assert!(sent.is_ok(), "the queue is empty");
        let is_level = level_of.is_some();
        let served = Arc::new(Served::new(number, engine.clone(), image.clone(), config, ends, kit, is_level));
        self.roster.add(served.clone());
        engine.sequencer.lock().unwrap_or_else(PoisonError::into_inner).begin();
        served.begin();
        if let Some(finest) = level_of {
            finest.served.levels.lock().unwrap_or_else(PoisonError::into_inner).push(served.clone());
        }
        Ok((engine, Begun { served }))
    }

    /// Waits until nothing of an image is with any thread, and all its shards are closed. No frame may come any more,
    /// and the sequencer must have been flushed.
    pub(crate) fn end(&self, begun: &Begun) {
        begun.served.end();
        self.roster.remove(begun.served.number);
    }

    /// Whether the calling thread is one of these.
    pub(crate) fn has_this_thread(&self) -> bool {
        let this: ThreadId = std::thread::current().id();
        let Threads { workers, writers, others } = &*self.threads();
        workers.iter().chain(writers).chain(others).any(|thread| thread.thread().id() == this)
    }

    /// Whether the calling thread is one of some run.
    pub(crate) fn is_one_of_any() -> bool {
        OF_A_RUN.get()
    }
}

impl Drop for Pool {
    /// Ends all threads in the order in which they feed each other.
    fn drop(&mut self) {
        self.tickets.end();
        self.requests.end();
        self.closings.put(None);
        // The writers end when the last worker has dropped its end of their queue, and it is empty.
        self.writers.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Threads { workers, writers, others } = std::mem::take(&mut *self.threads());
        // Workers own what they fetched; what they did not is here.
        self.kits = Arc::new(Kits::new(0));
        if Self::is_one_of_any() {
            // It would wait for itself. All images have ended, so they have nothing left to do.
            return;
        }
        workers.into_iter().chain(writers).chain(others).for_each(|thread| drop(thread.join()));
    }
}
