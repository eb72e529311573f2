//! The images that the threads of a pool work for.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Mutex as StdMutex, PoisonError, RwLock as StdRwLock};
use std::time::Duration;

use super::cell::LiveCells;
use super::closing_state::ClosingState;
use super::messages::Closing;
use super::pump::{Ends, Engine};
use crate::config::Config;
use crate::dataset::image::ImageWriter;

/// One image, with what its threads need to know of it.
pub(super) struct Served {
    /// A number that no other image of the pool has.
    pub(super) number: u32,
    pub(super) engine: Arc<Engine>,
    pub(super) image: Arc<ImageWriter>,
    pub(super) ends: Ends,
    pub(super) live: LiveCells,
    pub(super) checkpoint_every: Duration,
    /// Only the thread that closes uses it.
    pub(super) closing: StdMutex<ClosingState>,
    /// Which of the workers' kits makes its chunks.
    pub(super) kit: usize,
    /// It is a level of a pyramid above level 0.
    pub(super) is_level: bool,
    /// Of level 0, those above it, in their order.
    pub(super) levels: StdMutex<Vec<Arc<Self>>>,
}

impl Served {
    pub(super) fn new(
        number: u32,
        engine: Arc<Engine>,
        image: Arc<ImageWriter>,
        config: &Config,
        ends: Ends,
        kit: usize,
        is_level: bool,
    ) -> Self {
        let plan = &engine.plan;
        let live = LiveCells::new(plan.ring.shard_blocks_live * plan.shards.cells_a_block);
        let closing = StdMutex::new(ClosingState::new(&engine));
        let (checkpoint_every, levels) = (config.checkpoint_every, StdMutex::default());
        Self { number, image, ends, live, checkpoint_every, closing, kit, is_level, levels, engine }
    }

    /// Returns when nothing of the image is with any thread, and all its shards are closed. No frame may come any more,
    /// and the sequencer must have been flushed.
    pub(super) fn end(&self) {
        let engine = &*self.engine;
        // Nobody is bound to tell of it, so that nobody can forget to.
        let wait = |is_over: &dyn Fn() -> bool| {
            while !is_over() {
                std::thread::sleep(Duration::from_micros(200));
            }
        };
        engine.tickets.wake();
        wait(&|| engine.layers.in_use() == 0 || engine.is_broken.load(Acquire));
        engine.needs_no_more.store(true, Release);
        engine.requests.wake();
        wait(&|| engine.requests.are_settled());
        let blocks = engine.sequencer.lock().unwrap_or_else(PoisonError::into_inner).take_blocks(engine);
        for cell in blocks.into_iter().flat_map(|block| block.cells) {
            // Those with no layer left were handed over by the last one.
            if cell.layers_left.load(Acquire) > 0 {
                engine.closings.put(Closing::Cell(cell));
            }
        }
        wait(&|| engine.closings.are_settled());
    }
}

/// All images of a pool.
#[derive(Default)]
pub(super) struct Roster(StdRwLock<BTreeMap<u32, Arc<Served>>>);

impl Roster {
    pub(super) fn add(&self, served: Arc<Served>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(served.number, served);
    }

    pub(super) fn remove(&self, number: u32) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(&number);
    }

    /// `None`: it has ended.
    pub(super) fn get(&self, number: u32) -> Option<Arc<Served>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(&number).cloned()
    }

    pub(super) fn all(&self) -> Vec<Arc<Served>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}
