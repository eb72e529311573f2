//! How the shards of an image are checkpointed, closed, and closed for a while.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::cell::{ParkedBlock, ParkedCell, ShardBlock, ShardCell};
use super::parked::ParkedState;
use super::pump::Engine;
use super::served::Served;
use crate::dataset::image::ImageWriter;
use crate::error::{Result, caught, logged};
use crate::shard::{Checkpoint, Closed, Shard};
use crate::stats::Stage;
use crate::sync::event;

/// Cells of so many images at least are closed together. For fewer, what others have written would be waited for in
/// vain.
pub(super) const TOGETHER_MIN: usize = 4;
/// And so many at most.
const TOGETHER_MAX: usize = 64;

/// Cells that are to be closed for good.
#[derive(Default)]
pub(super) struct ClosingCells(Vec<(Arc<Served>, Arc<ShardCell>)>);

impl ClosingCells {
    pub(super) fn is_full(&self) -> bool {
        self.0.len() >= TOGETHER_MAX
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn add(&mut self, of: Arc<Served>, cell: Arc<ShardCell>) {
        self.0.push((of, cell));
    }

    /// Adds one whose files are to be opened for that, if so many may be open beside the others.
    pub(super) fn add_parked(&mut self, of: Arc<Served>, cell: ParkedCell) {
        if of.open_files.are_short_of(of.files_a_cell) {
            self.close();
        }
        match of.reopen(cell) {
            Some(cell) => self.add(of, Arc::new(cell)),
            None => of.is_closed(),
        }
    }

    /// Closes them, and settles what was asked for.
    pub(super) fn close(&mut self) {
        let cells = std::mem::take(&mut self.0);
        let images: BTreeSet<_> = cells.iter().map(|(of, _)| of.number).collect();
        let can_together = images.len() >= TOGETHER_MIN;
        let synced = cells.first().filter(|_| can_together).and_then(|(of, _)| of.image.storage().sync_all());
        if synced.is_none_or(|synced| synced.is_err()) {
            for (of, cell) in cells {
                of.caught_closing(|| close_cell(&of.engine, &cell));
                drop(cell);
                of.is_closed();
            }
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
            of.caught_closing(|| settle_cell(&of.engine, cell, closed.into_iter()));
        }
        for (of, cell) in cells {
            // Its files are closed before anybody hears that it is.
            drop(cell);
            of.is_closed();
        }
    }
}

impl Served {
    /// Closes the files of shards for a while. What they hold is durable then.
    pub(super) fn park(&self, block: ShardBlock) {
        let engine = &*self.engine;
        let number = block.number;
        let files = self.files_a_cell * block.cells.len();
        let mut parked = Vec::new();
        for cell in &block.cells {
            let written = cell.frames_written.load(Acquire);
            checkpoint_cell(engine, cell, (written, layers_done(cell)), true);
            engine.open_cells.remove(cell);
        }
        let mut cells = block.cells.into_iter();
        let mut kept = None;
        for cell in cells.by_ref() {
            match alone(cell).and_then(|cell| cell.park().map_err(|cell| Arc::new(*cell))) {
                Ok(cell) => parked.push(cell),
                Err(cell) => {
                    kept = Some(cell);
                    break;
                }
            }
        }
        let state = match kept {
            None => ParkedState::Closed(ParkedBlock { number, cells: parked }),
            Some(kept) => self.keep_open(number, parked, kept, cells),
        };
        engine.parked.put(number, state);
        self.open_files.note_parked(files);
    }

    /// One of a block's cells has to stay open, so all of them do.
    fn keep_open(
        &self,
        number: u64,
        parked: Vec<ParkedCell>,
        kept: Arc<ShardCell>,
        others: impl Iterator<Item = Arc<ShardCell>>,
    ) -> ParkedState {
        let engine = &*self.engine;
        let mut cells = Vec::new();
        for cell in parked {
            cells.extend(self.reopen(cell).map(Arc::new));
        }
        cells.push(kept);
        cells.extend(others);
        engine.open_cells.add(&cells);
        ParkedState::Open(ShardBlock { number, cells })
    }

    /// A panic must not take other images' shards with it.
    fn caught_closing(&self, close: impl FnOnce()) {
        let close = || {
            close();
            Ok(())
        };
        caught(close).unwrap_or_else(|error| self.engine.first_error.set(error));
    }

    /// A cell is closed for good.
    fn is_closed(&self) {
        self.live.remove(1);
        if self.checkpoint_every.is_zero() {
            advance(&self.engine, &self.image, self.engine.newest_end());
        }
        self.engine.closings.settle();
    }

    /// Opens files again to finish them, one more than there may be if need be; if that fails, what they hold is lost.
    fn reopen(&self, cell: ParkedCell) -> Option<ShardCell> {
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

/// Which layers of a cell are done: looked at once for all of its shards, so that a frame shows up in all of them.
pub(super) fn layers_done(cell: &ShardCell) -> Vec<bool> {
    // Acquire: with their chunks' entries.
    cell.layers_done.iter().map(|done| done.load(Acquire)).collect()
}

/// Names the layers that are `done`, and so many frames at least. `all`: whatever is committed is worth a new index.
/// Returns how many indexes were written.
pub(super) fn checkpoint_cell(engine: &Engine, cell: &ShardCell, (written, done): (u64, Vec<bool>), all: bool) -> u64 {
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
        let kept = cell.name_provisional(&done);
        *cell.named.lock().unwrap_or_else(PoisonError::into_inner) = done.into();
        count_synced(engine, cell, written + kept);
    }
    renewed
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

/// The cell itself, once nobody looks at it any more; in vain after a while.
fn alone(mut cell: Arc<ShardCell>) -> std::result::Result<ShardCell, Arc<ShardCell>> {
    const TRIES: u32 = 100;
    for _ in 0..TRIES {
        match Arc::try_unwrap(cell) {
            Ok(cell) => return Ok(cell),
            // Somebody went through the list of open cells just now.
            Err(shared) => cell = shared,
        }
        std::thread::sleep(Duration::from_micros(100));
    }
    Err(cell)
}

fn close_cell(engine: &Engine, cell: &Arc<ShardCell>) {
    let close = |shard: &Shard| {
        let start = Instant::now();
        (caught(|| shard.close()), start.elapsed())
    };
    settle_cell(engine, cell, cell.shards.iter().map(close));
}

/// Tells what became of a cell's shards, and how long each took.
fn settle_cell(engine: &Engine, cell: &Arc<ShardCell>, closed: impl Iterator<Item = (Result<Closed>, Duration)>) {
    let mut whole = true;
    for (shard, (closed, took)) in cell.shards.iter().zip(closed) {
        match closed {
            Ok(closed) if closed.chunks > 0 => {
                let (key, chunks, bytes) = (&shard.key, closed.chunks, closed.bytes);
                logged(|| tracing::debug!(shard = key, chunks, bytes, seconds = took.as_secs_f64(), "closed"));
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

/// Lets the documents catch up. What they don't tell of is not durable, be it on the device: no reader would see it.
pub(super) fn advance(engine: &Engine, image: &ImageWriter, newest_end: u64) {
    let synced = engine.counters.frames_synced.load(Relaxed);
    match caught(|| image.advance(&engine.plan, newest_end)) {
        Ok(()) => engine.note_durable(synced),
        Err(error) => engine.first_error.set(error),
    }
}
