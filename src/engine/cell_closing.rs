//! How the shards of an image are checkpointed and closed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

use super::cell::{ParkedCell, Progress, ShardCell};
use super::pump::Engine;
use super::records::RecordCopy;
use super::served::Served;
use crate::dataset::image::ImageWriter;
use crate::error::{Result, caught, caught_call, logged};
use crate::shard::{Checkpoint, Closed, Shard};
use crate::stats::Stage;
use crate::sync::{Unpoisoned, event};

/// Cells of this many images at least are closed together. For fewer, what others have written would be waited for in
/// vain.
pub(super) const TOGETHER_MIN: usize = 4;
/// And this many at most.
const TOGETHER_MAX: usize = 64;

/// Cells that are to be closed for good.
#[derive(Default)]
pub(super) struct ClosingCells(pub(super) Vec<(Arc<Served>, Arc<ShardCell>)>);

impl ClosingCells {
    pub(super) fn is_full(&self) -> bool {
        self.0.len() >= TOGETHER_MAX
    }

    /// Adds one whose files are to be opened for that, if this many may be open beside the others.
    pub(super) fn add_parked(&mut self, of: Arc<Served>, cell: ParkedCell) {
        if of.open_files.are_short_of(of.files_a_cell) {
            self.close();
        }
        match of.reopen(cell) {
            Some(cell) => self.0.push((of, Arc::new(cell))),
            None => are_closed(std::iter::once(of)),
        }
    }

    /// Closes them, and settles what was asked for.
    pub(super) fn close(&mut self) {
        let cells = std::mem::take(&mut self.0);
        let images: BTreeSet<_> = cells.iter().map(|(of, _)| of.number).collect();
        let can_together = images.len() >= TOGETHER_MIN;
        let synced = cells.first().filter(|_| can_together).and_then(|(of, _)| of.image.storage().sync_all());
        if synced.is_none_or(|synced| synced.is_err()) {
            are_closed(cells.into_iter().map(|(of, cell)| {
                of.caught_closing(|| close_cell(&of, &cell));
                of
            }));
            return;
        }
        let start = Instant::now();
        let shards: Vec<&Shard> = cells.iter().flat_map(|(_, cell)| &cell.shards).collect();
        let sync_all = || cells[0].0.image.storage().sync_all().unwrap_or(Ok(()));
        let mut closed = Shard::close_together(&shards, &sync_all).into_iter();
        let took = start.elapsed() / shards.len().max(1) as u32;
        drop(shards);
        for (of, cell) in &cells {
            let closed: Vec<_> = closed.by_ref().take(cell.shards.len()).map(|closed| (closed, took)).collect();
            of.caught_closing(|| settle_cell(of, cell, closed.into_iter()));
        }
        // Its files are closed before anybody hears that it is.
        are_closed(cells.into_iter().map(|(of, _)| of));
    }
}

/// Cells of these images are closed for good.
fn are_closed(images: impl Iterator<Item = Arc<Served>>) {
    let images: Vec<_> = images.inspect(|of| of.live.remove(1)).collect();
    // Once for all cells of an image: an archive's directory names all that is in it.
    let waiting = images.iter().filter(|of| of.advances_by_shards());
    let distinct: BTreeMap<_, _> = waiting.map(|of| (of.number, of)).collect();
    distinct.values().for_each(|of| {
        if !of.is_level {
            let copy = &mut of.closing.lock().unpoisoned().copy;
            let copy = copy.get_or_insert_with(|| RecordCopy::new(&of.engine.plan.record));
            write_open_records(&of.engine, &of.image, copy);
        }
        advance(&of.engine, &of.image, of.engine.newest_end());
    });
    images.iter().for_each(|of| of.engine.closings.settle());
}

impl Served {
    /// A panic must not take other images' shards with it.
    fn caught_closing(&self, close: impl FnOnce()) {
        caught_call(close).unwrap_or_else(|error| self.engine.first_error.set(error));
    }

    /// Opens files again to finish them, one more than there may be if need be; if that fails, what they hold is lost.
    pub(super) fn reopen(&self, cell: ParkedCell) -> Option<ShardCell> {
        let ((block, place), engine) = (cell.at(), &*self.engine);
        let reopened = caught(|| cell.reopen(Some(self.open_files.take_beyond(self.files_a_cell))));
        reopened
            .map_err(|error| {
                engine.first_error.set_about(error, Some(engine.plan.shards.block_frames(block).start));
                engine.losses.add_cell(block, place, Box::default());
            })
            .ok()
    }
}

/// Names the layers that are `done`, and this many frames at least. `all`: whatever is committed is worth a new index.
/// Returns how many indexes were written.
pub(super) fn checkpoint_cell(engine: &Engine, cell: &ShardCell, (written, done): Progress, all: bool) -> u64 {
    let (mut all_named, mut renewed) = (true, 0);
    for shard in &cell.shards {
        let start = Instant::now();
        match caught(|| shard.checkpoint(&done, all)) {
            Ok(Checkpoint::Named) => {
                renewed += 1;
                engine.finalizer_times().of(Stage::Checkpoint).since(start);
            }
            Ok(Checkpoint::Unchanged) => {}
            // Then the others' newer indexes make no frame durable either.
            Ok(Checkpoint::Postponed) => all_named = false,
            // What becomes of the shard is seen when it is closed.
            Err(error) => {
                engine.first_error.set_about(error, first_frame(engine, cell));
                return renewed;
            }
        }
    }
    if all_named {
        note_named(engine, cell, written, done);
    }
    renewed
}

/// Indexes on the device name the layers that are `done`, and this many frames at least.
pub(super) fn note_named(engine: &Engine, cell: &ShardCell, written: u64, done: Vec<bool>) {
    let kept = cell.name_provisional(&done);
    *cell.named.lock().unpoisoned() = done.into();
    count_synced(engine, cell, written + kept);
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
    let listener = engine.shard_closed.lock().unpoisoned().clone();
    let Some(tell) = listener else { return };
    if let Err(error) = caught_call(|| tell(key)) {
        engine.note_listener_failure(key, error);
    }
}

fn close_cell(of: &Served, cell: &Arc<ShardCell>) {
    let close = |shard: &Shard| {
        let start = Instant::now();
        (caught(|| shard.close()), start.elapsed())
    };
    settle_cell(of, cell, cell.shards.iter().map(close));
}

/// Tells what became of a cell's shards, and how long each took.
fn settle_cell(of: &Served, cell: &Arc<ShardCell>, closed: impl Iterator<Item = (Result<Closed>, Duration)>) {
    let (engine, mut whole) = (&*of.engine, true);
    for (shard, (closed, took)) in cell.shards.iter().zip(closed) {
        match closed {
            Ok(closed) if closed.chunks > 0 => {
                let (key, chunks, bytes) = (&shard.key, closed.chunks, closed.bytes);
                logged(|| tracing::debug!(shard = key, chunks, bytes, seconds = took.as_secs_f64(), "closed"));
                engine.counters.shards_closed.fetch_add(1, Relaxed);
                engine.counters.chunks_written.fetch_add(closed.provisional, Relaxed);
                of.image.root().note_closed(&shard.key);
                tell_of(engine, &shard.key);
                engine.ring.watchers.tell(event::SHARD_CLOSED);
            }
            Ok(_) => {}
            Err(error) => {
                whole = false;
                engine.first_error.set_about(error, first_frame(engine, cell));
            }
        }
        engine.finalizer_times().of(Stage::CloseShard).record(took.as_nanos() as u64);
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
        let named = std::mem::take(&mut *cell.named.lock().unpoisoned());
        let named = if is_there { named } else { Box::default() };
        if is_there {
            engine.losses.keep(cell.kept_provisional(false));
        }
        engine.losses.add_cell(cell.block, cell.cell, named);
    }
    // Not before its files have given back what they don't need, which somebody may wait for.
    engine.open_cells.remove(cell);
}

/// Lets the documents catch up. What they don't tell of is not durable, be it on the device: no reader would see it.
/// Nor is anything whose record is not there.
pub(super) fn advance(engine: &Engine, image: &ImageWriter, newest_end: u64) {
    let synced = engine.counters.frames_synced.load(Relaxed);
    match caught(|| image.advance(&engine.plan, newest_end)) {
        Ok(()) => {
            engine.unstored_records.hold(synced);
            note_released(engine);
        }
        Err(error) => engine.first_error.set(error),
    }
}

/// Counts the frames as durable that waited for records, if these are stored.
pub(super) fn note_released(engine: &Engine) {
    if let Some(frames) = engine.unstored_records.released() {
        engine.note_durable(frames);
    }
}

/// Writes what is known so far in the blocks of records that are not full. Blocks that become full are written behind
/// this, by the same thread.
pub(super) fn write_open_records(engine: &Engine, image: &ImageWriter, copy: &mut RecordCopy) {
    let mut from = 0;
    let write = || {
        // Its lock is held for a copy of what came since the last time, which is little: commits must not have to wait.
        while engine.sequencer.lock().unpoisoned().copy_records(from, copy) {
            let settled = copy.settled as u64;
            let block = copy.for_file();
            from = block.number + 1;
            let written = caught(|| image.write_records(&engine.plan, block));
            engine.unstored_records.note_part(block.number, settled, written.is_ok());
            written?;
        }
        Ok(())
    };
    caught(write).unwrap_or_else(|error| engine.first_error.set(error));
}
