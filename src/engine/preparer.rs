//! The thread that creates shards ahead of need, for all images of a pool. It may be slow; no frame waits for it as
//! long as it keeps up on average.

use std::sync::atomic::Ordering::Acquire;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::cell::{ShardBlock, ShardCell};
use super::messages::PrepareBlock;
use super::pump::Engine;
use super::served::{Roster, Served};
use crate::dataset::image::ImageWriter;
use crate::error::{Result, caught, logged};
use crate::shard::ShardPosition;
use crate::stats::Stage;
use crate::sync::{Lanes, Turn};

// How long a shard that can't be created is left alone before the next try, at first and at most.
const SPARE_PAUSE_MIN: Duration = Duration::from_millis(20);
const SPARE_PAUSE_MAX: Duration = Duration::from_secs(2);
// How often it is looked whether what has to wait can go on.
const LOOK_EVERY: Duration = Duration::from_millis(5);

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
pub(super) fn run(requests: &Lanes<PrepareBlock>, roster: &Roster) {
    let mut pending: Vec<Pending> = Vec::new();
    loop {
        let turn = if pending.is_empty() { Some(requests.pop()) } else { requests.pop_within(LOOK_EVERY) };
        let asked = match turn {
            Some(Turn::End) => return,
            Some(Turn::Lane(image)) => roster.get(image).and_then(|of| Some((of.engine.requests.take()?, of))),
            Some(Turn::First(image, request)) => roster.get(image).map(|of| (request, of)),
            None => None,
        };
        if let Some((PrepareBlock(number), of)) = asked {
            let (pause, until) = (SPARE_PAUSE_MIN, None);
            pending.push(Pending { of, number, is_live: false, pause, until, is_told: false });
        }
        let mut images_behind: Vec<u32> = Vec::new();
        pending.retain_mut(|block| {
            let waits = images_behind.contains(&block.of.number) || !block.is_settled();
            if waits {
                images_behind.push(block.of.number);
            }
            waits
        });
    }
}

impl Pending {
    /// Creates the shards, if that can be now. False: it is to be tried again.
    fn is_settled(&mut self) -> bool {
        let engine = self.of.engine.clone();
        // A panic must not take other images' shards with it.
        let settled = caught(|| self.try_once()).unwrap_or_else(|error| {
            engine.first_error.set(error);
            true
        });
        if settled {
            engine.pump();
            engine.requests.settle();
        }
        settled
    }

    /// As long as no frame needs the shards, a failure is no error: the disk may have room again by then. Nor is it one
    /// as long as older shards are on their way, which give back what they have reserved in vain.
    fn try_once(&mut self) -> Result<bool> {
        let Served { engine, image, live, ends, .. } = &*self.of;
        let cells = engine.plan.shards.cells_a_block;
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
        let error = match create_block(engine, image, self.number) {
            Ok(block) => {
                drop(ends.deliver.send(block));
                return Ok(true);
            }
            Err(error) if is_needed && !may_get_room => {
                image.root().note_full(&error);
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

/// Whether a shard may be closed without further frames: something is with the workers, or with the closer.
fn may_get_room(engine: &Engine) -> bool {
    let gather = engine.sequencer.lock().unwrap_or_else(PoisonError::into_inner).layers_gathering();
    // In this order: a cell's last layer is counted as done before it is free.
    engine.layers.in_use() > gather || engine.open_cells.all().iter().any(|cell| cell.layers_left.load(Acquire) == 0)
}

/// Creates the shards of one block.
pub(super) fn create_block(engine: &Engine, image: &ImageWriter, number: u64) -> Result<ShardBlock> {
    let mut begun = Vec::new();
    let block = caught(|| create_shards(engine, image, number, &mut begun));
    if block.is_err() {
        // On a full disk those that could be made take the room that others need.
        begun.iter().for_each(|key| drop(caught(|| Ok(image.storage().remove(key)))));
    }
    block.inspect(|block| engine.open_cells.add(&block.cells))
}

fn create_shards(engine: &Engine, image: &ImageWriter, number: u64, begun: &mut Vec<String>) -> Result<ShardBlock> {
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
        let layers = [plan.shard.layers as u64, plan.layers_of_shard(&grid)];
        cells.push(Arc::new(ShardCell::new(shards, [number, cell], first_number, layers)));
    }
    Ok(ShardBlock { number, cells })
}
