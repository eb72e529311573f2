//! The engine's own threads: how they are started, and how they end.

use std::cell::Cell;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::thread::{Builder, JoinHandle};

use super::arena::Arena;
use super::cell::LiveCells;
use super::finalizer;
use super::messages::{Closing, Preparing, Ticket};
use super::pump::{Ends, Engine};
use super::records::RecordCopy;
use super::worker::Worker;
use super::writers::{self, CombiningWriter, WritePath};
use crate::config::Config;
use crate::dataset::image::ImageWriter;
use crate::error::{Error, Result};
use crate::fs::system::prefer_throughput;
use crate::shard::WaitsFor;
use crate::storage::WRITES_AT_ONCE;

thread_local! {
    static OF_A_RUN: Cell<bool> = const { Cell::new(false) };
}

/// The threads of a run and the ends of their queues.
pub(crate) struct Threads {
    workers: Vec<JoinHandle<()>>,
    writers: Vec<JoinHandle<()>>,
    /// `None` if they could not be started; so with the closer.
    preparer: Option<JoinHandle<()>>,
    closer: Option<JoinHandle<()>>,
    live: Arc<LiveCells>,
}

impl Threads {
    /// Creates the first shards and starts all threads. If one of them can't be had, none is left running.
    pub(crate) fn start(engine: &Arc<Engine>, image: &Arc<ImageWriter>, config: &Config, ends: Ends) -> Result<Self> {
        // Here, so that a full disk or a read-only folder is an error of `create`.
        let mut waits_for = WaitsFor::Nothing;
        if let Preparing::Block(number) = engine.requests.pop() {
            let block = finalizer::create_block(engine, image, number)?;
            waits_for = block.cells[0].shards[0].waits_for();
            let sent = ends.deliver.try_send(block);
            debug_assert!(sent.is_ok(), "the queue is empty");
        }
        let plan = &engine.plan;
        let live = Arc::new(LiveCells::new(plan.ring.shard_blocks_live * plan.shards.cells_a_block));
        let mut threads = Self { workers: Vec::new(), writers: Vec::new(), preparer: None, closer: None, live };
        match threads.start_all(engine, image, config, ends, waits_for) {
            Ok(()) => Ok(threads),
            Err(error) => {
                // Those that run hold the engine, and the engine what they wait for: they would never end by
                // themselves.
                engine.tickets.push(Ticket::End);
                threads.join(engine);
                Err(error)
            }
        }
    }

    fn start_all(
        &mut self,
        engine: &Arc<Engine>,
        image: &Arc<ImageWriter>,
        config: &Config,
        ends: Ends,
        waits_for: WaitsFor,
    ) -> Result<()> {
        let path = image.root().path();
        let plan = &engine.plan;
        let arenas = (0..plan.workers).map(|_| Arena::new(plan, waits_for)).collect::<std::io::Result<Vec<_>>>();
        let arenas = arenas.map_err(|error| Error::io("get memory for the workers of", path, error))?;
        let write_path = match waits_for {
            WaitsFor::Nothing => WritePath::Inline,
            WaitsFor::OtherWrites => WritePath::Combining(CombiningWriter::new()),
            WaitsFor::Device => {
                let (workers_end, jobs) = writers::queue();
                for index in 0..WRITES_AT_ONCE {
                    let (engine, jobs) = (engine.clone(), jobs.clone());
                    self.writers.push(spawn(format!("sw-write-{index}"), path, move || jobs.run(&engine))?);
                }
                WritePath::Threads(workers_end)
            }
        };
        for (index, arena) in arenas.into_iter().enumerate() {
            let worker = Worker::new(engine.clone(), index, arena, write_path.clone())?;
            let core = config.affinity.get(index % config.affinity.len().max(1)).copied();
            let run = move || {
                if let Some(id) = core {
                    core_affinity::set_for_current(core_affinity::CoreId { id });
                }
                worker.run();
            };
            self.workers.push(spawn(format!("sw-worker-{index}"), path, run)?);
        }
        drop(write_path);
        let (shared, of, live) = (engine.clone(), image.clone(), self.live.clone());
        let run = move || finalizer::prepare(&shared, &of, &live, &ends.deliver);
        self.preparer = Some(spawn("sw-prepare".into(), path, run)?);
        let (shared, of, live) = (engine.clone(), image.clone(), self.live.clone());
        let every = config.checkpoint_every;
        let mut copy = RecordCopy::new(&plan.record);
        let run =
            move || finalizer::close(&shared, &of, &live, &ends.to_close, &ends.written_records, &mut copy, every);
        self.closer = Some(spawn("sw-close".into(), path, run)?);
        Ok(())
    }

    /// Whether the calling thread is one of these.
    pub(crate) fn is_one_of_them(&self) -> bool {
        let all = self.workers.iter().chain(&self.writers).chain(&self.preparer).chain(&self.closer);
        let this = std::thread::current().id();
        all.into_iter().any(|thread| thread.thread().id() == this)
    }

    /// Whether the calling thread is one of some run.
    pub(crate) fn is_one_of_any() -> bool {
        OF_A_RUN.get()
    }

    /// Ends all threads in the order in which they feed each other.
    pub(crate) fn join(self, engine: &Engine) {
        // The workers were told to end; they do so when no more tickets are about.
        // The writers end when the last worker has dropped its end of their queue, and it is empty.
        for worker in self.workers.into_iter().chain(self.writers) {
            if worker.join().is_err() {
                engine.first_error.set(Error::Panicked { message: "outside a tile".into() });
            }
        }
        self.live.open_up();
        engine.needs_no_more.store(true, std::sync::atomic::Ordering::Release);
        engine.requests.push(Preparing::End);
        let _ = self.preparer.map(JoinHandle::join);
        let blocks = engine.sequencer.lock().unwrap_or_else(PoisonError::into_inner).take_blocks(engine);
        for cell in blocks.into_iter().flat_map(|block| block.cells) {
            // Those with no layer left were handed over by the last one.
            if cell.layers_left.load(std::sync::atomic::Ordering::Acquire) > 0 {
                engine.closings.put(Closing::Cell(cell));
            }
        }
        engine.closings.put(Closing::End);
        if self.closer.is_some_and(|closer| closer.join().is_err()) {
            engine.first_error.set(Error::Panicked { message: "while closing a shard".into() });
        }
    }
}

/// Starts one of the engine's threads, on behalf of the dataset at `path`.
fn spawn(name: String, path: &Path, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let run = move || {
        OF_A_RUN.set(true);
        prefer_throughput();
        run();
    };
    Builder::new().name(name).spawn(run).map_err(|e| Error::io("start a thread for", path, e))
}
