//! The images that the threads of a pool work for.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex as StdMutex, OnceLock, RwLock as StdRwLock};
use std::time::Duration;

use super::cell::LiveCells;
use super::closing_state::ClosingState;
use super::feed::Feed;
use super::messages::Closing;
use super::open_files::OpenFiles;
use super::parked::ParkedState;
use super::pump::{Ends, Engine, try_until_done};
use crate::config::Config;
use crate::dataset::image::ImageWriter;
use crate::sync::Unpoisoned;

/// Files that an image has open at once without more being allowed for it.
const FEW_FILES: usize = 8;

/// How long a closed shard may wait for a checkpoint to become durable and seen.
const CLOSED_UNSEEN_MAX: Duration = Duration::from_secs(1);

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
    /// Which of the workers' kits makes its chunks, once it has a shard.
    pub(super) kit: OnceLock<usize>,
    pub(super) open_files: Arc<OpenFiles>,
    /// Files of a cell of shards that count among those that may be open. 0: they stay open.
    pub(super) files_a_cell: usize,
    /// It is a level of a pyramid above level 0.
    pub(super) is_level: bool,
    /// Of level 0, those above it, in their order.
    pub(super) levels: StdMutex<Vec<Arc<Self>>>,
    /// What leads to the level above, if there is one.
    pub(super) feed: OnceLock<StdMutex<Feed>>,
}

impl Served {
    pub(super) fn new(
        number: u32,
        engine: Arc<Engine>,
        image: Arc<ImageWriter>,
        config: &Config,
        (ends, is_level): (Ends, bool),
        open_files: Arc<OpenFiles>,
    ) -> Self {
        let plan = &engine.plan;
        let storage = image.storage();
        let files = if storage.opens_twice() { 2 } else { 1 };
        let files_a_cell = if storage.parks() { plan.shard.across_frame * files } else { 0 };
        let live = LiveCells::new(plan.ring.shard_blocks_live * plan.shards.cells_a_block);
        let closing = StdMutex::new(ClosingState::new(&engine));
        Self {
            number,
            image,
            ends,
            live,
            checkpoint_every: config.checkpoint_every,
            closing,
            kit: OnceLock::new(),
            engine,
            open_files,
            files_a_cell,
            is_level,
            levels: StdMutex::default(),
            feed: OnceLock::new(),
        }
    }

    /// Whether documents follow when a shard is closed: without checkpoints, and where those are so rare that a closed
    /// shard would wait for one for long. The end of a run has documents of its own.
    pub(super) fn advances_by_shards(&self) -> bool {
        let are_rare = self.checkpoint_every > CLOSED_UNSEEN_MAX && !self.engine.gate.is_closed();
        self.checkpoint_every.is_zero() || are_rare
    }

    /// Files that may be open beside what all images share: where a frame lies in many, those being filled, prepared
    /// and closed would leave others nothing.
    pub(super) fn files_beside(&self) -> usize {
        let files = self.files_a_cell * self.engine.plan.shards.cells_a_block as usize;
        if files > FEW_FILES { 3 * files } else { 0 }
    }

    /// Gives the shards that were closed for a while to the thread that closes.
    fn close_parked(&self) {
        let put = |closing| self.engine.closings.put(closing);
        // A checkpoint may have one of them open, and puts it back.
        let _checkpoint = self.closing.lock().unpoisoned();
        for block in self.engine.parked.take_all() {
            match block {
                ParkedState::Closed(block) => block.cells.into_iter().map(Closing::Parked).for_each(put),
                ParkedState::Open(block) => block.cells.into_iter().map(Closing::Cell).for_each(put),
                ParkedState::Leaving => debug_assert!(false, "the thread that closes is done with it"),
            }
        }
    }

    /// Gives the shards that are still open to the thread that closes.
    fn close_open(&self) {
        let engine = &*self.engine;
        let blocks = engine.sequencer.lock().unpoisoned().take_blocks(engine);
        for cell in blocks.into_iter().flat_map(|block| block.cells) {
            // Those with no layer left were handed over by the last one.
            if cell.layers_left.load(Acquire) > 0 {
                engine.closings.put(Closing::Cell(cell));
            }
        }
    }
}

/// Returns when nothing of the images is with any thread, and all their shards are closed. No frame may come any more,
/// and the sequencers must have been flushed.
pub(super) fn end(images: &[&Served]) {
    // Nobody is bound to tell of it, so that nobody can forget to.
    let wait = |is_over: fn(&Engine) -> bool| {
        while !images.iter().all(|of| is_over(&of.engine)) {
            std::thread::sleep(Duration::from_micros(200));
        }
    };
    images.iter().for_each(|of| of.engine.tickets.wake());
    wait(|engine| engine.layers.in_use() == 0 || engine.is_broken.load(Acquire));
    for of in images {
        of.engine.needs_no_more.store(true, Release);
        of.engine.requests.lane.wake();
    }
    wait(|engine| engine.requests.are_settled());
    images.iter().for_each(|of| of.close_open());
    wait(|engine| engine.closings.are_settled());
    images.iter().for_each(|of| of.close_parked());
    wait(|engine| engine.closings.are_settled());
}

/// Returns when the levels above have all that the images, which have ended, had for them.
pub(super) fn settle_levels(images: &[&Served]) {
    let feeds = images.iter().filter_map(|of| of.feed.get());
    try_until_done(feeds.collect(), |feed| feed.lock().unpoisoned().settle());
}

#[derive(Default)]
pub(super) struct Roster {
    served: StdRwLock<BTreeMap<u32, Arc<Served>>>,
    /// Those of them that are no levels.
    images: AtomicUsize,
}

impl Roster {
    pub(super) fn add(&self, served: Arc<Served>) {
        self.images.fetch_add(usize::from(!served.is_level), Relaxed);
        self.served.write().unpoisoned().insert(served.number, served);
    }

    pub(super) fn remove(&self, number: u32) {
        let removed = self.served.write().unpoisoned().remove(&number);
        self.images.fetch_sub(removed.map_or(0, |of| usize::from(!of.is_level)), Relaxed);
    }

    pub(super) fn count(&self) -> usize {
        self.served.read().unpoisoned().len()
    }

    pub(super) fn images(&self) -> usize {
        self.images.load(Relaxed)
    }

    /// `None`: it has ended.
    pub(super) fn get(&self, number: u32) -> Option<Arc<Served>> {
        self.served.read().unpoisoned().get(&number).cloned()
    }

    pub(super) fn all(&self) -> Vec<Arc<Served>> {
        self.served.read().unpoisoned().values().cloned().collect()
    }
}
