//! The thread that closes full shards, writes records, and keeps indexes and documents up to date, for all images of a
//! pool. It may be slow; no frame waits for it as long as it keeps up on average.

use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::cell::ShardCell;
use super::closing_state::ClosingState;
use super::closings::Closings;
use super::messages::{Closing, ClosingOf};
use super::pump::Engine;
use super::records::RecordCopy;
use super::served::{Roster, Served};
use crate::dataset::image::{ImageWriter, RecordBlock};
use crate::error::{Result, caught, logged};
use crate::shard::{Checkpoint, Shard};
use crate::stats::Stage;
use crate::sync::{Receiver, Sender, event};

const CHECKPOINT_EVERY_MIN: Duration = Duration::from_millis(10);
const CHECKPOINT_EVERY_MAX: Duration = Duration::from_secs(365 * 24 * 3600);
// Checkpoints take at most one part in so many of the closer's time, plus one.
const CHECKPOINT_REST: u32 = 4;

// How often the closer does what a caller does that waits for a buffer, where one waits for an event instead; and how
// often it looks whether chunks are to be made with another effort.
const LOOK_AT_RING_EVERY: Duration = Duration::from_millis(50);

/// Closes shards, writes records, and between whiles brings open shards and documents up to date.
pub(super) fn run(closings: &Closings<ClosingOf>, to_close: &Receiver<ClosingOf>, roster: &Roster) {
    let mut is_end = false;
    while !is_end {
        let images = roster.all();
        let wait = images.iter().map(|of| of.looked_at_in()).min().unwrap_or(CHECKPOINT_EVERY_MAX);
        drop(images);
        let mut closing = match to_close.recv_timeout(wait) {
            Ok(closing) => Some(closing),
            Err(error) if error.is_disconnected() => return,
            Err(_) => None,
        };
        while let Some(thing) = closing {
            match thing {
                Some((image, thing)) => {
                    if let Some(of) = roster.get(image) {
                        of.close(thing);
                    }
                }
                // What lies beside may be older.
                None => is_end = true,
            }
            closing = closings.beside();
        }
        if !is_end {
            roster.all().iter().for_each(|of| of.look());
        }
    }
}

/// What the thread that closes does for an image.
impl Served {
    /// Almost zero would keep a core and the device busy, and the far future has no `Instant`.
    fn checkpoints_are_apart(&self) -> Duration {
        match self.checkpoint_every {
            // Level 0 looks after all levels.
            _ if self.is_level => CHECKPOINT_EVERY_MAX,
            Duration::ZERO => CHECKPOINT_EVERY_MAX,
            every => every.clamp(CHECKPOINT_EVERY_MIN, CHECKPOINT_EVERY_MAX),
        }
    }

    /// The image begins: its first checkpoint is due a while from now on.
    pub(super) fn begin(&self) {
        self.closing.lock().unwrap_or_else(PoisonError::into_inner).next =
            Instant::now() + self.checkpoints_are_apart();
        self.engine.closings.put(Closing::Look);
    }

    fn watches_ring(&self) -> bool {
        self.engine.ring.watchers.want(event::BUFFER_FREE | event::RING_HIGH)
    }

    /// How long the image needs no look.
    fn looked_at_in(&self) -> Duration {
        let closing = self.closing.lock().unwrap_or_else(PoisonError::into_inner);
        let to_checkpoint = closing.next.saturating_duration_since(Instant::now());
        let looks = self.watches_ring() || closing.effort.is_needed();
        if looks { to_checkpoint.min(LOOK_AT_RING_EVERY) } else { to_checkpoint }
    }

    fn close(&self, thing: Closing) {
        let engine = &*self.engine;
        let close = || {
            match thing {
                Closing::Cell(cell) => {
                    close_cell(engine, &cell);
                    self.live.remove(1);
                    if self.checkpoint_every.is_zero() {
                        advance(engine, &self.image, engine.newest_end());
                    }
                }
                Closing::Records(block) => close_records(engine, &self.image, block, &self.ends.written_records),
                Closing::Look => {}
            }
            Ok(())
        };
        // A panic must not take other images' shards with it.
        caught(close).unwrap_or_else(|error| engine.first_error.set(error));
        engine.closings.settle();
    }

    /// Does what is due.
    fn look(&self) {
        let engine = &*self.engine;
        let mut closing = self.closing.lock().unwrap_or_else(PoisonError::into_inner);
        if self.watches_ring() {
            look_at_ring(engine);
        }
        closing.effort.look(engine);
        let start = Instant::now();
        if start < closing.next {
            return;
        }
        let every = self.checkpoints_are_apart();
        let ClosingState { paused, watch, copy, .. } = &mut *closing;
        let run = || {
            // What is done of a level is done below, too: looked at before, it is named by the levels below already
            // when its own indexes are.
            let levels = self.levels.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let mut done: Vec<Done> = levels.iter().rev().map(|level| Done::of(&level.engine)).collect();
            let copy = copy.get_or_insert_with(|| RecordCopy::new(&engine.plan.record));
            paused.keep(engine);
            checkpoint(self, Done::of(engine), Some(copy));
            for level in &levels {
                done.pop().into_iter().for_each(|done| checkpoint(level, done, None));
            }
            watch.look(engine, start.elapsed(), every);
            Ok(())
        };
        caught(run).unwrap_or_else(|error| engine.first_error.set(error));
        // On a slow device the shards that wait to be closed come first.
        closing.next = Instant::now() + every.max(CHECKPOINT_REST * start.elapsed());
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

/// What is in the slots of the open shards, in whole layers.
struct Done {
    /// With each cell, its frames and its layers.
    cells: Vec<(Arc<ShardCell>, u64, Vec<bool>)>,
    newest_end: u64,
}

impl Done {
    fn of(engine: &Engine) -> Self {
        let done = |cell: Arc<ShardCell>| {
            // Acquire: that these frames' layers are done is seen just below.
            let written = cell.frames_written.load(Acquire);
            // Once for all shards of the cell, so that a frame shows up in all of them. Acquire: with its chunks'
            // entries.
            let layers = cell.layers_done.iter().map(|done| done.load(Acquire)).collect();
            (cell, written, layers)
        };
        let cells = engine.open_cells.all().into_iter().map(done).collect();
        // After that, so that the shape holds all these frames; before the indexes, so that it does not promise many
        // more.
        Self { cells, newest_end: engine.newest_end() }
    }
}

/// Lets indexes, records and documents catch up with what is in the slots. `copy`: for records, if there are any.
fn checkpoint(of: &Served, done: Done, copy: Option<&mut RecordCopy>) {
    let engine = &*of.engine;
    for (cell, written, layers) in done.cells {
        checkpoint_cell(engine, &cell, written, layers);
    }
    if let Some(Err(error)) = copy.map(|copy| caught(|| checkpoint_records(engine, &of.image, copy))) {
        engine.first_error.set(error);
    }
    advance(engine, &of.image, done.newest_end);
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

fn checkpoint_cell(engine: &Engine, cell: &ShardCell, written: u64, done: Vec<bool>) {
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
