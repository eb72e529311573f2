//! The thread that closes full shards, writes records, and keeps indexes and documents up to date, for all images of a
//! pool. It may be slow; no frame waits for it as long as it keeps up on average.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::cell::{Progress, ShardCell};
use super::cell_closing::{ClosingCells, TOGETHER_MIN, advance, checkpoint_cell, note_released, write_open_records};
use super::closing_state::ClosingState;
use super::closings::Closings;
use super::index_budget::IndexBudget;
use super::messages::{Closing, ClosingOf};
use super::parking::park;
use super::pump::Engine;
use super::records::RecordCopy;
use super::served::{Roster, Served};
use crate::dataset::records::{RecordBlock, RecordWrites};
use crate::error::caught;
use crate::sync::{Receiver, Unpoisoned, event};

const CHECKPOINT_EVERY_MIN: Duration = Duration::from_millis(10);
const CHECKPOINT_EVERY_MAX: Duration = Duration::from_secs(365 * 24 * 3600);
// Checkpoints take at most one part in this many of the closer's time, plus one.
const CHECKPOINT_REST: u32 = 4;
// Those of many images at a time, but for the last one's.
const CHECKPOINTS_AT_ONCE: Duration = Duration::from_millis(50);

// How often the closer does what a caller does that waits for a buffer, where one waits for an event instead; and how
// often it looks whether chunks are to be made with another effort.
const LOOK_AT_RING_EVERY: Duration = Duration::from_millis(50);

/// Closes shards, writes records, and between whiles brings open shards and documents up to date.
pub(super) fn run(closings: &Closings<ClosingOf>, to_close: &Receiver<ClosingOf>, roster: &Roster) {
    let (mut is_end, mut rest_until, mut budget) = (false, Instant::now(), IndexBudget::new(Instant::now()));
    // When an image needs to be looked at: doing so for each shard that is closed would take longer than to close it,
    // where hundreds are there.
    let mut look_at = Instant::now();
    while !is_end {
        let mut closing = match to_close.recv_timeout(look_at.saturating_duration_since(Instant::now())) {
            Ok(closing) => Some(closing),
            Err(error) if error.is_disconnected() => return,
            Err(_) => None,
        };
        let (mut cells, mut records, mut parks) = (ClosingCells::default(), Vec::new(), Vec::new());
        while let Some(thing) = closing {
            match thing.map(|(image, thing)| (roster.get(image), thing)) {
                Some((Some(of), Closing::Cell(cell))) => cells.0.push((of, cell)),
                Some((Some(of), Closing::Parked(cell))) => cells.add_parked(of, cell),
                Some((Some(of), Closing::Records(block))) => records.push((of, block)),
                Some((Some(of), Closing::Park(block))) => parks.push((of, block)),
                Some((Some(of), Closing::Look)) => {
                    look_at = Instant::now();
                    of.engine.closings.settle();
                }
                Some((None, _)) => {}
                // What lies beside may be older.
                None => is_end = true,
            }
            // What waits to be closed or written is closed and written together.
            let some = !(cells.0.is_empty() && records.is_empty() && parks.is_empty());
            let next = || if some && !cells.is_full() { to_close.try_recv().ok() } else { None };
            closing = closings.beside().or_else(next);
        }
        // First, because other images wait for their files.
        park(parks);
        write_records(records);
        cells.close();
        if !is_end && Instant::now() >= look_at {
            look_at_all(roster, &mut rest_until, &mut budget);
            let waits = roster.all().into_iter().map(|of| of.looked_at_in(rest_until));
            look_at = Instant::now() + waits.min().unwrap_or(CHECKPOINT_EVERY_MAX);
        }
    }
}

/// Looks at all images, and makes the checkpoints that are due, the oldest first, until it is enough for one time: the
/// shards that wait to be closed come first.
fn look_at_all(roster: &Roster, rest_until: &mut Instant, budget: &mut IndexBudget) {
    let mut images = roster.all();
    images.iter().for_each(|of| of.look());
    let start = Instant::now();
    if start < *rest_until {
        return;
    }
    images.sort_by_cached_key(|of| of.closing.lock().unpoisoned().next);
    for of in &images {
        if start.elapsed() >= CHECKPOINTS_AT_ONCE || !of.checkpoint_if_due(budget) {
            break;
        }
    }
    *rest_until = Instant::now() + CHECKPOINT_REST * start.elapsed();
}

/// Writes blocks of records, those of many images together.
fn write_records(mut blocks: Vec<(Arc<Served>, RecordBlock)>) {
    let images: BTreeSet<_> = blocks.iter().map(|(of, _)| of.number).collect();
    let together = || {
        let Some((first, _)) = blocks.first().filter(|_| images.len() >= TOGETHER_MIN) else { return Ok(false) };
        let mut writes = RecordWrites::default();
        blocks.iter().for_each(|(of, block)| of.image.add_records(&of.engine.plan, block, &mut writes));
        Ok(writes.make(first.image.storage()).is_ok())
    };
    // What failed together is written one by one, which tells whose error it is.
    let are_written = caught(together).unwrap_or(false);
    for (of, mut block) in blocks.drain(..) {
        let written = if are_written { Ok(()) } else { caught(|| of.image.write_records(&of.engine.plan, &block)) };
        of.engine.unstored_records.note_whole(block.number, written.is_ok());
        if let Err(error) = written {
            of.engine.first_error.set(error);
            // Once the shards have given back what they don't need, there may be room for it. Frames that still wait
            // need a block in its place; behind the error, they are only those that are in the ring.
            let failed = std::mem::replace(&mut block, RecordBlock::new(&of.engine.plan.record));
            of.engine.unstored_records.keep(failed);
        }
        note_released(&of.engine);
        let _ = of.ends.written_records.send(block);
        of.engine.pump();
        of.engine.closings.settle();
    }
}

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
        self.closing.lock().unpoisoned().next = Instant::now() + self.checkpoints_are_apart();
        self.engine.closings.put(Closing::Look);
    }

    fn watches_ring(&self) -> bool {
        self.engine.ring.watchers.want(event::BUFFER_FREE | event::RING_HIGH)
    }

    /// How long the image needs no look, if no checkpoint is made before `rest_until`.
    fn looked_at_in(&self, rest_until: Instant) -> Duration {
        let closing = self.closing.lock().unpoisoned();
        let to_checkpoint = closing.next.max(rest_until).saturating_duration_since(Instant::now());
        let looks = self.watches_ring() || closing.effort.is_needed();
        if looks { to_checkpoint.min(LOOK_AT_RING_EVERY) } else { to_checkpoint }
    }

    fn look(&self) {
        let engine = &*self.engine;
        let mut closing = self.closing.lock().unpoisoned();
        if self.watches_ring() {
            look_at_ring(engine);
        }
        closing.effort.look(engine);
    }

    /// False: the next checkpoint is not due yet.
    fn checkpoint_if_due(&self, budget: &mut IndexBudget) -> bool {
        let engine = &*self.engine;
        let mut closing = self.closing.lock().unpoisoned();
        let start = Instant::now();
        if start < closing.next {
            return false;
        }
        let every = self.checkpoints_are_apart();
        let ClosingState { paused, watch, copy, indexes_from, .. } = &mut *closing;
        let run = || {
            // What is done of a level is done below, too: looked at before, it is named by the levels below already
            // when its own indexes are.
            let levels = self.levels.lock().unpoisoned().clone();
            let mut done: Vec<Done> = levels.iter().rev().map(|level| Done::of(&level.engine)).collect();
            let copy = copy.get_or_insert_with(|| RecordCopy::new(&engine.plan.record));
            let renews_indexes = start >= *indexes_from;
            let mut bytes = match renews_indexes {
                true => paused.keep(engine, |number, work| self.with_parked(number, work)),
                false => 0,
            };
            bytes *= engine.plan.shard.index.renewal_bytes();
            bytes += checkpoint(self, Done::of(engine), Some(copy), renews_indexes);
            for level in &levels {
                bytes += done.pop().map_or(0, |done| checkpoint(level, done, None, renews_indexes));
            }
            *indexes_from = (*indexes_from).max(budget.spend(bytes, Instant::now()));
            watch.look(engine, start.elapsed(), every);
            Ok(())
        };
        caught(run).unwrap_or_else(|error| engine.first_error.set(error));
        // On a slow device the shards that wait to be closed come first.
        closing.next = Instant::now() + every.max(CHECKPOINT_REST * start.elapsed());
        true
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

/// What is in the slots of the open shards, in whole layers.
struct Done {
    cells: Vec<(Arc<ShardCell>, Progress)>,
    newest_end: u64,
}

impl Done {
    fn of(engine: &Engine) -> Self {
        let done = |cell: Arc<ShardCell>| {
            let progress = cell.progress();
            (cell, progress)
        };
        let cells = engine.open_cells.all().into_iter().map(done).collect();
        // After that, so that the shape holds all these frames; before the indexes, so that it does not promise many
        // more.
        Self { cells, newest_end: engine.newest_end() }
    }
}

/// Lets records and documents catch up with what is in the slots, and indexes, if these are to be renewed. `copy`: for
/// records, if there are any. Returns how many bytes of indexes were written.
fn checkpoint(of: &Served, done: Done, copy: Option<&mut RecordCopy>, renews_indexes: bool) -> u64 {
    let engine = &*of.engine;
    let mut renewed = 0;
    for (cell, progress) in done.cells.into_iter().filter(|_| renews_indexes) {
        renewed += checkpoint_cell(engine, &cell, progress, false);
    }
    if let Some(copy) = copy {
        write_open_records(engine, &of.image, copy);
    }
    advance(engine, &of.image, done.newest_end);
    renewed * engine.plan.shard.index.renewal_bytes()
}
