//! The two threads beside the workers: one creates shards ahead of need, one closes full ones and keeps the documents
//! up to date. Both may be slow; neither is waited for by a frame, as long as it keeps up on average.

use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::cell::{LiveCells, ShardBlock, ShardCell};
use super::effort_watch::EffortWatch;
use super::messages::{Closing, Preparing};
use super::paused::Paused;
use super::pump::Engine;
use super::records::RecordCopy;
use crate::dataset::image::{ImageWriter, RecordBlock};
use crate::error::{Result, caught, logged};
use crate::shard::{Checkpoint, Shard, ShardPosition};
use crate::stats::Stage;
use crate::sync::{Receiver, Sender, event};

const CHECKPOINT_EVERY_MIN: Duration = Duration::from_millis(10);
const CHECKPOINT_EVERY_MAX: Duration = Duration::from_secs(365 * 24 * 3600);
// Checkpoints take at most one part in so many of the closer's time, plus one.
const CHECKPOINT_REST: u32 = 4;

// How often the closer does what a caller does that waits for a buffer, where one waits for an event instead; and how
// often it looks whether chunks are to be made with another effort.
const LOOK_AT_RING_EVERY: Duration = Duration::from_millis(50);

// How long a shard that can't be created is left alone before the next try, at first and at most.
const SPARE_PAUSE_MIN: Duration = Duration::from_millis(20);
const SPARE_PAUSE_MAX: Duration = Duration::from_secs(2);

/// Creates blocks of shards as they are asked for.
pub(crate) fn prepare(engine: &Engine, image: &ImageWriter, live: &LiveCells, prepared: &Sender<ShardBlock>) {
    while let Preparing::Block(number) = engine.requests.pop() {
        live.add(engine.plan.shards.cells_a_block);
        match create_when_possible(engine, image, number) {
            Ok(Some(block)) => drop(prepared.send(block)),
            Ok(None) => live.remove(engine.plan.shards.cells_a_block),
            Err(error) => {
                let frame = engine.plan.shards.block_frames(number).start;
                engine.first_error.set_about(error, Some(frame));
            }
        }
        engine.pump();
    }
}

/// Creates the shards of one block. As long as no frame needs them, a failure is no error: the disk may have room again
/// by then. Nor is it one as long as older shards are on their way, which give back what they have reserved in vain.
/// `None`: the run ended without them.
fn create_when_possible(engine: &Engine, image: &ImageWriter, number: u64) -> Result<Option<ShardBlock>> {
    let (mut pause, mut is_told) = (SPARE_PAUSE_MIN, false);
    loop {
        // Before the try: who needs it from now on, and what is given back from now on, shows by the next one.
        let is_needed = engine.needed_block.load(Acquire) >= number;
        let may_get_room = may_get_room(engine);
        let error = match create_block(engine, image, number) {
            Ok(block) => return Ok(Some(block)),
            Err(error) if is_needed && !may_get_room => {
                image.root().note_full(&error);
                return Err(error);
            }
            Err(error) => error,
        };
        if !std::mem::replace(&mut is_told, true) {
            logged(|| tracing::warn!(%error, block = number, "a shard can't be prepared; trying again"));
        }
        let until = Instant::now() + if is_needed { SPARE_PAUSE_MIN } else { pause };
        while Instant::now() < until && (is_needed || engine.needed_block.load(Acquire) < number) {
            if engine.needs_no_more.load(Acquire) {
                return Ok(None);
            }
            std::thread::sleep(SPARE_PAUSE_MIN / 4);
        }
        pause = (2 * pause).min(SPARE_PAUSE_MAX);
    }
}

/// Whether a shard may be closed without further frames: something is with the workers, or with the closer.
fn may_get_room(engine: &Engine) -> bool {
    let gather = engine.sequencer.lock().unwrap_or_else(PoisonError::into_inner).layers_gathering();
    // In this order: a cell's last layer is counted as done before it is free.
    engine.layers.in_use() > gather || engine.open_cells.all().iter().any(|cell| cell.layers_left.load(Acquire) == 0)
}

/// Creates the shards of one block.
pub(crate) fn create_block(engine: &Engine, image: &ImageWriter, number: u64) -> Result<ShardBlock> {
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

/// Closes shards, writes records, and between whiles brings open shards and documents up to date.
pub(crate) fn close(
    engine: &Engine,
    image: &ImageWriter,
    live: &LiveCells,
    closings: &Receiver<Closing>,
    written_records: &Sender<RecordBlock>,
    copy: &mut RecordCopy,
    checkpoint_every: Duration,
) {
    // Almost zero would keep a core and the device busy, and the far future has no `Instant`.
    let every = match checkpoint_every {
        Duration::ZERO => CHECKPOINT_EVERY_MAX,
        every => every.clamp(CHECKPOINT_EVERY_MIN, CHECKPOINT_EVERY_MAX),
    };
    let after_each_cell = || {
        if checkpoint_every.is_zero() {
            advance(engine, image, engine.newest_end());
        }
    };
    let mut next = Instant::now() + every;
    let (mut paused, mut watch, mut effort) = (Paused::new(engine), Watch::default(), EffortWatch::new(engine));
    loop {
        let watches_ring = engine.ring.watchers.want(event::BUFFER_FREE | event::RING_HIGH);
        let look_in = if watches_ring || effort.is_needed() { LOOK_AT_RING_EVERY } else { CHECKPOINT_EVERY_MAX };
        let mut closing = match closings.recv_timeout(next.saturating_duration_since(Instant::now()).min(look_in)) {
            Ok(closing) => Some(closing),
            Err(error) if error.is_disconnected() => return,
            Err(_) => None,
        };
        let mut is_end = false;
        while let Some(thing) = closing {
            match thing {
                Closing::Cell(cell) => {
                    close_cell(engine, &cell);
                    live.remove(1);
                    after_each_cell();
                }
                Closing::Records(block) => close_records(engine, image, block, written_records),
                Closing::Look => {}
                // What lies beside may be older.
                Closing::End => is_end = true,
            }
            closing = engine.closings.beside();
        }
        if is_end {
            return;
        }
        if watches_ring {
            look_at_ring(engine);
        }
        effort.look(engine);
        let start = Instant::now();
        if start >= next {
            checkpoint(engine, image, copy, &mut paused);
            watch.look(engine, start.elapsed(), every);
            // On a slow device the shards that wait to be closed come first.
            next = Instant::now() + every.max(CHECKPOINT_REST * start.elapsed());
        }
    }
}

/// Whoever waits for an event, and not in a call, can't see to it that frames which hold buffers go on.
fn look_at_ring(engine: &Engine) {
    if engine.ring.is_starved() {
        engine.wake_if_work_waits();
        engine.relieve();
    }
    engine.ring.note_level();
}

fn close_records(engine: &Engine, image: &ImageWriter, block: RecordBlock, written: &Sender<RecordBlock>) {
    if let Err(error) = caught(|| image.write_records(&engine.plan, &block)) {
        engine.first_error.set(error);
    }
    let _ = written.send(block);
    engine.pump();
}

/// Lets indexes, records and documents catch up with what is in the slots.
fn checkpoint(engine: &Engine, image: &ImageWriter, copy: &mut RecordCopy, paused: &mut Paused) {
    paused.keep(engine);
    // Acquire: that these frames' layers are done is seen by `checkpoint_cell`.
    let cells = engine.open_cells.all().into_iter().map(|cell| (cell.frames_written.load(Acquire), cell));
    let cells: Vec<_> = cells.collect();
    // After that, so that the shape holds all these frames; before the indexes, so that it does not promise many more.
    let newest_end = engine.newest_end();
    for (written, cell) in cells {
        checkpoint_cell(engine, &cell, written);
    }
    if let Err(error) = caught(|| checkpoint_records(engine, image, copy)) {
        engine.first_error.set(error);
    }
    advance(engine, image, newest_end);
}

/// Writes what is known so far in the blocks of records that are not full. Blocks that become full are written behind
/// this, by the same thread.
fn checkpoint_records(engine: &Engine, image: &ImageWriter, copy: &mut RecordCopy) -> Result<()> {
    let mut from = 0;
    // Its lock is held for a copy of what came since the last checkpoint, which is little: commits must not have to
    // wait.
    while engine.sequencer.lock().unwrap_or_else(PoisonError::into_inner).copy_records(from, copy) {
        let block = copy.for_file();
        from = block.number + 1;
        image.write_records(&engine.plan, block)?;
    }
    Ok(())
}

/// Lets the documents catch up. What they don't tell of is not durable, be it on the device: no reader would see it.
fn advance(engine: &Engine, image: &ImageWriter, newest_end: u64) {
    let synced = engine.counters.frames_synced.load(Relaxed);
    match caught(|| image.advance(&engine.plan, newest_end, false)) {
        Ok(()) => engine.note_durable(synced),
        Err(error) => engine.first_error.set(error),
    }
}

fn checkpoint_cell(engine: &Engine, cell: &ShardCell, written: u64) {
    // Once for all shards of the cell, so that a frame shows up in all of them. Acquire: with its chunks' entries.
    let done: Vec<bool> = cell.layers_done.iter().map(|done| done.load(Acquire)).collect();
    let mut all_named = true;
    for shard in &cell.shards {
        let start = Instant::now();
        match caught(|| shard.checkpoint(&done)) {
            Ok(Checkpoint::Named) => drop(engine.finalizer_times().of(Stage::Checkpoint).since(start)),
            Ok(Checkpoint::Unchanged) => {}
            // Then the others' newer indexes make no frame durable either.
            Ok(Checkpoint::Postponed) => all_named = false,
            // What becomes of the shard is seen when it is closed.
            Err(error) => return engine.first_error.set_about(error, first_frame(engine, cell)),
        }
    }
    if all_named {
        let kept = cell.name_provisional(&done);
        *cell.named.lock().unwrap_or_else(PoisonError::into_inner) = done.into();
        count_synced(engine, cell, written + kept);
    }
}

/// The first of a cell's frames, by their numbers.
fn first_frame(engine: &Engine, cell: &ShardCell) -> Option<u64> {
    let shards = &engine.plan.shards;
    shards.block_frames(cell.block).find(|&number| shards.locate(number).cell == cell.cell)
}

fn count_synced(engine: &Engine, cell: &ShardCell, written: u64) {
    if engine.sync {
        // A layer that has become complete meanwhile counts twice or not at all until the next time.
        let before = cell.frames_synced.fetch_max(written, Relaxed);
        engine.counters.frames_synced.fetch_add(written.saturating_sub(before), Relaxed);
    }
}

/// What a log is told of once when it begins, and once when it is over.
#[derive(Default)]
struct Watch {
    is_slow: bool,
    is_filling: bool,
}

impl Watch {
    /// After a checkpoint that took so long, of those that are due so often.
    fn look(&mut self, engine: &Engine, took: Duration, every: Duration) {
        if std::mem::replace(&mut self.is_slow, took > every) != self.is_slow {
            let (seconds, planned) = (took.as_secs_f64(), every.as_secs_f64());
            logged(|| match took > every {
                true => tracing::warn!(seconds, planned, "checkpoints take longer than they are apart"),
                false => tracing::info!(seconds, planned, "checkpoints keep up again"),
            });
        }
        let stats = engine.stats();
        let (free, frames) = (stats.ring_free, stats.ring_frames);
        // A quarter to begin with, a half to be over: no line each second from a ring that stays about full.
        let is_filling = if self.is_filling { free < frames / 2 } else { free < frames / 4 };
        if std::mem::replace(&mut self.is_filling, is_filling) != is_filling {
            logged(|| match is_filling {
                true => tracing::warn!(free, frames, "less than a quarter of the ring is free"),
                false => tracing::info!(free, frames, "half of the ring is free again"),
            });
        }
    }
}

/// Lets a listener know of a shard that is whole; what it does wrong must not count against the run.
fn tell_of(engine: &Engine, key: &str) {
    // Not under the lock: it may ask for what is there.
    let listener = engine.shard_closed.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let Some(tell) = listener else { return };
    let told = caught(|| {
        tell(key);
        Ok(())
    });
    if let Err(error) = told {
        engine.note_listener_failure(key, error);
    }
}

fn close_cell(engine: &Engine, cell: &Arc<ShardCell>) {
    let mut whole = true;
    for shard in &cell.shards {
        let start = Instant::now();
        match caught(|| shard.close()) {
            Ok(closed) if closed.chunks > 0 => {
                let (key, chunks, bytes) = (&shard.key, closed.chunks, closed.bytes);
                logged(|| {
                    tracing::debug!(shard = key, chunks, bytes, seconds = start.elapsed().as_secs_f64(), "closed")
                });
                engine.counters.shards_closed.fetch_add(1, Relaxed);
                engine.counters.chunks_written.fetch_add(closed.provisional, Relaxed);
                tell_of(engine, &shard.key);
                engine.ring.watchers.tell(event::SHARD_CLOSED);
            }
            Ok(_) => {}
            Err(error) => {
                whole = false;
                engine.first_error.set_about(error, first_frame(engine, cell));
            }
        }
        engine.finalizer_times().of(Stage::CloseShard).since(start);
    }
    if whole {
        let kept = cell.kept_provisional(true);
        let count = kept.len() as u64;
        engine.losses.keep(kept);
        engine.counters.frames_written.fetch_add(count, Relaxed);
        count_synced(engine, cell, cell.frames_written.load(Acquire) + count);
    } else {
        // What the last checkpoint named is there as long as the indexes are that it wrote.
        let is_there = caught(|| Ok(cell.shards.iter().all(Shard::has_whole_index))).unwrap_or(false);
        let named = std::mem::take(&mut *cell.named.lock().unwrap_or_else(PoisonError::into_inner));
        let named = if is_there { named } else { Box::default() };
        if is_there {
            engine.losses.keep(cell.kept_provisional(false));
        }
        engine.losses.add_cell(cell.block, cell.cell, named);
    }
    // Not before its files have given back what they don't need, which somebody may wait for.
    engine.open_cells.remove(cell);
}
