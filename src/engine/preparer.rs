//! The thread that creates shards ahead of need, for all images of a pool. It may be slow; no frame waits for it as
//! long as it keeps up on average.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::cell::{ShardBlock, ShardCell};
use super::kits::KitSupply;
use super::messages::{Closing, PrepareBlock};
use super::open_files::{OpenFiles, Permit};
use super::pump::Engine;
use super::served::{Roster, Served};
use crate::dataset::image::ImageWriter;
use crate::error::{Result, caught, logged};
use crate::shard::ShardPosition;
use crate::stats::Stage;
use crate::sync::{Lanes, Turn, Unpoisoned};

// How long a shard that can't be created is left alone before the next try, at first and at most.
const SPARE_PAUSE_MIN: Duration = Duration::from_millis(20);
const SPARE_PAUSE_MAX: Duration = Duration::from_secs(2);
// How often it is looked whether what has to wait can go on.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// A block of shards that was asked for.
struct Pending {
    of: Arc<Served>,
    number: u64,
    /// It counts among those that exist.
    is_live: bool,
    /// How long it is left alone after a failure, until when, and whether a frame needed it by then.
    pause: Duration,
    until: Option<(Instant, bool)>,
    is_told: bool,
}

/// Creates blocks of shards as they are asked for, those of an image in the order in which it asks.
pub(super) fn run(requests: &Lanes<PrepareBlock>, roster: &Roster, supply: &KitSupply, open_files: &OpenFiles) {
    let mut pending: Vec<Pending> = Vec::new();
    loop {
        let turn = if pending.is_empty() { Some(requests.pop()) } else { requests.pop_within(LOOK_EVERY) };
        let asked = match turn {
            Some(Turn::End) => return,
            Some(Turn::Lane(image)) => roster.get(image).and_then(|of| Some((of.engine.requests.lane.take()?, of))),
            Some(Turn::First(image, request)) => roster.get(image).map(|of| (request, of)),
            None => None,
        };
        if let Some((PrepareBlock(number), of)) = asked {
            let (pause, until) = (SPARE_PAUSE_MIN, None);
            pending.push(Pending { of, number, is_live: false, pause, until, is_told: false });
        }
        let mut images_behind: Vec<u32> = Vec::new();
        let mut wanted = 0;
        pending.retain_mut(|block| {
            // What was closed for a while waits for no new one, which may wait for it.
            let is_new = !block.of.engine.parked.has(block.number);
            let is_behind = is_new && images_behind.contains(&block.of.number);
            let waits = is_behind || !block.is_settled(supply);
            if waits {
                wanted += if block.is_live { block.of.files_a_block() } else { 0 };
                images_behind.extend(is_new.then_some(block.of.number));
            }
            waits
        });
        // Some ahead of need: the next image shall not have to wait until the device has what another one wrote.
        let wanted = wanted.max(open_files.headroom());
        if open_files.are_short_of(wanted) {
            make_room(roster, open_files, wanted);
        }
    }
}

/// Has files closed for a while that this many others may be open: of those that nobody uses just now, the ones of the
/// images that got no frame for the longest time.
fn make_room(roster: &Roster, open_files: &OpenFiles, files: usize) {
    let mut images = roster.all();
    images.retain(|of| of.files_a_cell > 0);
    // Each is looked at once: frames come meanwhile, and a sort whose keys change panics.
    images.sort_by_cached_key(|of| of.engine.used_at.load(Relaxed));
    // Layers that wait for frames keep what they have durable only as long as their shards are open.
    for may_wait in [false, true] {
        for of in &images {
            while open_files.are_short_of(files) {
                let engine = &*of.engine;
                let mut sequencer = engine.sequencer.lock().unpoisoned();
                let Some(block) = sequencer.park_idle(engine, may_wait) else { break };
                drop(sequencer);
                open_files.note_leaving(of.files_a_cell * block.cells.len());
                engine.closings.put(Closing::Park(block));
            }
        }
    }
}

impl Pending {
    /// Creates the shards, if that can be now. False: it is to be tried again.
    fn is_settled(&mut self, supply: &KitSupply) -> bool {
        let engine = self.of.engine.clone();
        // A panic must not take other images' shards with it.
        let settled = caught(|| self.try_once(supply)).unwrap_or_else(|error| {
            engine.first_error.set(error);
            true
        });
        if settled {
            engine.pump();
            engine.requests.settle();
        }
        settled
    }

    /// Opens shards again whose files were closed for a while. Not before the thread that closes has done so.
    fn reopen(&self) -> Result<bool> {
        let Served { engine, ends, .. } = &*self.of;
        if engine.needs_no_more.load(Acquire) {
            return Ok(true);
        }
        // What had to stay open has its permit.
        let block = match engine.parked.take_open(self.number) {
            Some(block) => Ok(block),
            None => {
                let Some(permit) = self.of.permit() else { return Ok(false) };
                let Some(block) = engine.parked.take_closed(self.number) else { return Ok(false) };
                block.reopen(permit)
            }
        };
        match block {
            Ok(block) => {
                engine.open_cells.add(&block.cells);
                drop(ends.deliver.send(block));
            }
            Err((error, lost)) => {
                engine.parked.is_lost.store(true, Relaxed);
                lost.places().for_each(|(block, cell)| engine.losses.add_cell(block, cell, Box::default()));
                engine.first_error.set_about(error, Some(engine.plan.shards.block_frames(self.number).start));
            }
        }
        Ok(true)
    }

    /// As long as no frame needs the shards, a failure is no error: the disk may have room again by then. Nor is it one
    /// as long as older shards are on their way, which give back what they have reserved in vain.
    fn try_once(&mut self, supply: &KitSupply) -> Result<bool> {
        let Served { engine, live, ends, .. } = &*self.of;
        let cells = engine.plan.shards.cells_a_block;
        if engine.parked.has(self.number) {
            self.is_live = true;
            return self.reopen();
        }
        if engine.needs_no_more.load(Acquire) {
            live.remove(if self.is_live { cells } else { 0 });
            return Ok(true);
        }
        self.is_live = self.is_live || live.add(cells);
        if !self.is_live {
            return Ok(false);
        }
        // Before the try: who needs it from now on, and what is given back from now on, shows by the next one.
        let is_needed = engine.needed_block.load(Acquire) >= self.number;
        if self.until.is_some_and(|(until, was_needed)| was_needed == is_needed && Instant::now() < until) {
            return Ok(false);
        }
        let may_get_room = may_get_room(engine);
        let Some(permit) = self.of.permit() else { return Ok(false) };
        let created = create_block(&self.of, self.number, permit)
            .and_then(|block| self.of.provide_kit(supply, &block).map(|()| block));
        let error = match created {
            Ok(block) => {
                logged(|| tracing::trace!(block = self.number, is_needed, "the shards of a block are prepared"));
                drop(ends.deliver.send(block));
                return Ok(true);
            }
            Err(error) if is_needed && !may_get_room => {
                self.of.image.root().note_full(&error);
                let frame = engine.plan.shards.block_frames(self.number).start;
                engine.first_error.set_about(error, Some(frame));
                return Ok(true);
            }
            Err(error) => error,
        };
        if !std::mem::replace(&mut self.is_told, true) {
            let block = self.number;
            logged(|| tracing::warn!(%error, block, "a shard can't be prepared; trying again"));
        }
        self.until = Some((Instant::now() + if is_needed { SPARE_PAUSE_MIN } else { self.pause }, is_needed));
        self.pause = (2 * self.pause).min(SPARE_PAUSE_MAX);
        Ok(false)
    }
}

impl Served {
    /// Files that count among those that may be open.
    fn files_a_block(&self) -> usize {
        self.files_a_cell * self.engine.plan.shards.cells_a_block as usize
    }

    /// The right to open a block's files; `None`: others have to be closed first.
    pub(super) fn permit(&self) -> Option<Option<Permit>> {
        match self.files_a_block() {
            0 => Some(None),
            files => self.open_files.take(files).map(Some),
        }
    }

    /// Sees to it that workers can make chunks for the image's first shards.
    pub(super) fn provide_kit(&self, supply: &KitSupply, block: &ShardBlock) -> Result<()> {
        if self.kit.get().is_some() {
            return Ok(());
        }
        let kit = supply.provide(&self.engine, block.cells[0].shards[0].waits_for());
        let kit = kit.inspect_err(|_| {
            block.cells.iter().for_each(|cell| self.engine.open_cells.remove(cell));
            let shards = block.cells.iter().flat_map(|cell| &cell.shards);
            shards.for_each(|shard| drop(caught(|| Ok(self.image.storage().remove(&shard.key)))));
        })?;
        let _ = self.kit.set(kit);
        Ok(())
    }
}

/// Whether a shard may be closed without further frames: something is with the workers, or with the closer.
fn may_get_room(engine: &Engine) -> bool {
    let gather = engine.sequencer.lock().unpoisoned().layers_gathering();
    // In this order: a cell's last layer is counted as done before it is free.
    engine.layers.in_use() > gather || engine.open_cells.all().iter().any(|cell| cell.layers_left.load(Acquire) == 0)
}

pub(super) fn create_block(of: &Served, number: u64, permit: Option<Permit>) -> Result<ShardBlock> {
    let (engine, image) = (&*of.engine, &*of.image);
    let mut begun = Vec::new();
    let block = caught(|| create_shards(engine, image, number, permit, &mut begun));
    if block.is_err() {
        // On a full disk those that could be made take the room that others need.
        begun.iter().for_each(|key| drop(caught(|| Ok(image.storage().remove(key)))));
    }
    block.inspect(|block| engine.open_cells.add(&block.cells))
}

fn create_shards(
    engine: &Engine,
    image: &ImageWriter,
    number: u64,
    mut permit: Option<Permit>,
    begun: &mut Vec<String>,
) -> Result<ShardBlock> {
    let plan = &engine.plan;
    let mut cells = Vec::new();
    for cell in 0..plan.shards.cells_a_block {
        let grid = plan.shards.grid_position(number, cell);
        let mut shards = Vec::new();
        for across in 0..plan.shard.across_frame {
            let start = Instant::now();
            let place = ShardPosition { grid, across };
            let key = image.shard_key(plan, &place);
            begun.push(key.clone());
            shards.push(image.create_shard(plan, place, key)?);
            engine.finalizer_times().of(Stage::PrepareShard).since(start);
        }
        let first_number = (number * plan.shards.cells_a_block + cell) * plan.shard.across_frame as u64;
        let permit = permit.as_mut().map(|permit| permit.split((plan.shards.cells_a_block - cell) as usize));
        cells.push(Arc::new(ShardCell {
            shards,
            block: number,
            cell,
            first_number,
            layers_left: plan.layers_of_shard(&grid).into(),
            layers_done: (0..plan.shard.layers).map(|_| AtomicBool::new(false)).collect(),
            permit,
            ..ShardCell::default()
        }));
    }
    Ok(ShardBlock { number, cells })
}
