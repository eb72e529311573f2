//! Puts frames into layers, settles the numbers that never come, and gives complete layers to the workers.
//!
//! One thread at a time runs it, so it is plain sequential code. Whatever it lacks (a free layer, the next shard, a record
//! block) makes it stop where it is; whoever provides the thing runs it again.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::ops::Range;
use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use super::blocks::Blocks;
use super::finalizer::Preparing;
use super::layer::Layer;
use super::records::{RecordCopy, Records};
use super::{Arrival, Engine, ShardBlock, relief};
use crate::error::logged;
use crate::geometry::CellOf;
use crate::plan::Plan;
use crate::sync::{PolledQueue, Receiver, RwLockWriteGuard};

/// How many ranges of missing frames are remembered; the count goes on beyond.
pub(super) const MISSING_RANGES_MAX: usize = 10_000;

/// Whoever commits a frame works for others for so many at most: some ten microseconds.
const ARRIVALS_A_RUN: usize = 64;

pub(crate) struct Sequencer {
    plan: Arc<Plan>,
    /// A frame that could not go on yet.
    waiting: Option<Arrival>,
    early: Early,
    /// All numbers below are settled: their frame came, or counts as missing.
    settled_end: u64,
    /// One past the newest number that came, or for which nobody waits any more.
    newest_end: u64,
    /// Of the newest frame that came: one past its number, and how many had been dropped without a number before it.
    newest: (u64, u64),
    /// Which numbers in the window from `settled_end` on are settled.
    settled: Window,
    /// The layers that gather frames, by block and cell.
    open: HashMap<(u64, u64), u32>,
    /// The one of them that the last frame went to.
    latest: Option<((u64, u64), u32)>,
    blocks: Blocks,
    pub(crate) records: Records,
    pub(crate) missing: Vec<Range<u64>>,
}

/// Frames that would push others out of the window that were taken before and are about to arrive: their threads were put to sleep
/// in between.
struct Early {
    frames: BinaryHeap<Reverse<Arrival>>,
    /// All numbers below were settled when the first of them was last tried; none if something else has changed since.
    tried_at: Option<u64>,
}

impl Early {
    fn holds(&self, numbers: &Range<u64>) -> bool {
        self.frames.iter().any(|Reverse(arrival)| numbers.contains(&arrival.number))
    }

    fn may_go(&self, settled_end: u64) -> bool {
        !self.frames.is_empty() && self.tried_at != Some(settled_end)
    }

    /// The one with the lowest number, if it is worth another try.
    fn next(&mut self, settled_end: u64) -> Option<Arrival> {
        if self.may_go(settled_end) { self.frames.pop().map(|Reverse(arrival)| arrival) } else { None }
    }
}

/// Why a frame can't go on.
pub(super) enum Hold {
    /// Something is on its way; try again later.
    Wait,
    /// A frame is that was taken before and has not arrived.
    Older,
    /// What it needs will never come.
    Never,
}

impl Sequencer {
    pub(crate) fn new(
        plan: Arc<Plan>,
        records: Records,
        requests: Arc<PolledQueue<Preparing>>,
        prepared: Receiver<ShardBlock>,
    ) -> Self {
        let window = plan.ring.window;
        Self {
            waiting: None,
            early: Early { frames: BinaryHeap::with_capacity(plan.ring.frames), tried_at: None },
            settled_end: 0,
            newest_end: 0,
            newest: (0, 0),
            settled: Window::new(window + 1),
            open: HashMap::with_capacity(2 * plan.ring.layer_slots),
            latest: None,
            blocks: Blocks::new(&plan, requests, prepared),
            records,
            missing: Vec::with_capacity(MISSING_RANGES_MAX),
            plan,
        }
    }

    /// Handles arrivals until there is none, or one has to wait, or it is enough for one call. True: there are more.
    pub(crate) fn run(&mut self, engine: &Engine) -> bool {
        self.blocks.take_prepared(self.settled_end, engine);
        self.early.tried_at = None;
        for _ in 0..ARRIVALS_A_RUN {
            let early = self.waiting.take().or_else(|| self.early.next(self.settled_end));
            let Some(arrival) = early.or_else(|| engine.arrivals.1.try_recv().ok()) else { break };
            if engine.aborting.load(Relaxed) {
                self.lose(arrival, engine);
                continue;
            }
            self.note_newest(&arrival, engine);
            match self.admit(&arrival, engine) {
                Ok(Some((at, slot))) => self.put(arrival, &at, slot, engine),
                Ok(None) => self.too_late(arrival, engine),
                Err(Hold::Never) => self.lose(arrival, engine),
                Err(Hold::Wait) => {
                    self.waiting = Some(arrival);
                    return false;
                }
                Err(Hold::Older) => {
                    self.early.frames.push(Reverse(arrival));
                    self.early.tried_at = Some(self.settled_end);
                }
            }
        }
        let has_more = !engine.arrivals.1.is_empty() || self.early.may_go(self.settled_end);
        if !has_more && engine.relief.load(Relaxed) != relief::NONE {
            self.relieve(engine, engine.relief.swap(relief::NONE, Relaxed) == relief::FOR_LONG);
        }
        has_more
    }

    /// How many layers wait for frames.
    pub(crate) fn layers_gathering(&self) -> usize {
        self.open.len()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_none() && self.early.frames.is_empty()
    }

    /// Makes room for a frame: settles what falls out of the window, opens its layer. `None` if it was settled before.
    fn admit(&mut self, arrival: &Arrival, engine: &Engine) -> Result<Option<(CellOf, u32)>, Hold> {
        self.settle_missing((arrival.number + 1).saturating_sub(engine.numbers.window()), engine)?;
        if arrival.number < self.settled_end {
            return Ok(None);
        }
        if !self.records.ready(arrival.number) {
            return Err(Hold::Wait);
        }
        let at = self.plan.layers.locate(arrival.number);
        let slot = self.open_layer(arrival.number, &at, engine)?;
        Ok(Some((at, slot)))
    }

    fn put(&mut self, arrival: Arrival, at: &CellOf, slot: u32, engine: &Engine) {
        self.records.put(arrival.number, engine.ring.record(&arrival.frame));
        let mut layer = engine.layers.slot(slot).layer.write().unwrap_or_else(PoisonError::into_inner);
        layer.put(at.place as usize, arrival.number, arrival.frame);
        if layer.unsettled == 0 {
            self.hand_on(slot, at, layer, engine);
        } else {
            drop(layer);
        }
        self.settle(arrival.number, engine);
    }

    /// Marks one number as settled, and moves the window on if it was the oldest one.
    fn settle(&mut self, number: u64, engine: &Engine) {
        self.settled.set(number);
        if number == self.settled_end {
            self.move_window(number, engine);
        }
    }

    /// Lets the window begin at `to`, or behind the settled numbers that follow.
    fn move_window(&mut self, to: u64, engine: &Engine) {
        self.settled_end = to;
        while self.settled.take(self.settled_end) {
            self.settled_end += 1;
        }
        engine.numbers.settle(self.settled_end);
        self.records.settle(self.settled_end, engine);
        self.blocks.forget_before(self.settled_end);
    }

    /// Gives up numbers that nobody has brought; false if somebody has one of them.
    fn give_up(&self, numbers: Range<u64>, engine: &Engine) -> bool {
        !self.early.holds(&numbers)
            && match numbers.end - numbers.start {
                1 => engine.numbers.give_up(numbers.start),
                _ => engine.numbers.give_up_range(numbers),
            }
    }

    /// Counts every unsettled number below `end` as missing.
    fn settle_missing(&mut self, end: u64, engine: &Engine) -> Result<(), Hold> {
        while self.settled_end < end {
            let number = self.settled_end;
            let block = self.plan.shards.locate(number).block;
            let frames = self.plan.shards.block_frames(block);
            if number == frames.start && frames.end <= end && !self.blocks.is_touched(block) {
                // Nothing of these shards came, and nothing will; so with those that follow. One by one, the shards of a plan
                // that nobody meant would take for ever.
                let to = self.blocks.untouched_end(block, end);
                if self.give_up(number..to, engine) {
                    self.blocks.skip(block, to, engine);
                    self.note_missing(number, to, engine);
                    self.move_window(to, engine);
                    continue;
                }
            }
            if !self.give_up(number..number + 1, engine) {
                return Err(Hold::Older);
            }
            let at = self.plan.layers.locate(number);
            match self.open_layer(number, &at, engine) {
                Ok(slot) => {
                    let mut layer = engine.layers.slot(slot).layer.write().unwrap_or_else(PoisonError::into_inner);
                    layer.unsettled -= 1;
                    if layer.unsettled == 0 {
                        self.hand_on(slot, &at, layer, engine);
                    }
                }
                // Its shard can't be had; then nobody waits for it either.
                Err(Hold::Never) => {}
                Err(hold) => return Err(hold),
            }
            self.note_missing(number, number + 1, engine);
            self.settle(number, engine);
        }
        Ok(())
    }

    fn note_missing(&mut self, from: u64, to: u64, engine: &Engine) {
        engine.counters.frames_missing.fetch_add(to - from, Relaxed);
        note_range(&mut self.missing, from..to);
    }

    /// The layer that gathers the frames around `number`, which stands `at` there.
    fn open_layer(&mut self, number: u64, at: &CellOf, engine: &Engine) -> Result<u32, Hold> {
        let key = (at.block, at.cell);
        // Most frames go where the one before went.
        if let Some((_, slot)) = self.latest.filter(|(latest, _)| *latest == key) {
            return Ok(slot);
        }
        if let Some(&slot) = self.open.get(&key) {
            self.latest = Some((key, slot));
            return Ok(slot);
        }
        let cell = self.blocks.cell_of(number, engine)?;
        let slot = engine.layers.free.try_recv().map_err(|_| Hold::Wait)?;
        let grid = self.plan.layers.grid_position(at.block, at.cell);
        let frames = self.plan.layers.extent(&grid).iter().product();
        let mut layer = engine.layers.slot(slot).layer.write().unwrap_or_else(PoisonError::into_inner);
        layer.begin(at, cell, self.plan.first_chunk(&grid), frames);
        layer.planes_kept = self.plan.planes_kept(&grid, None);
        self.open.insert(key, slot);
        self.latest = Some((key, slot));
        Ok(slot)
    }

    /// Gives a layer, of which nothing more will come, to the workers.
    fn hand_on(&mut self, slot: u32, at: &CellOf, mut layer: RwLockWriteGuard<Layer>, engine: &Engine) {
        self.open.remove(&(at.block, at.cell));
        self.latest = None;
        if layer.present == 0 {
            if let Some(cell) = layer.cell.take() {
                engine.layer_done(cell);
            }
            engine.layers.free(slot);
            return;
        }
        layer.ready_at = Instant::now();
        engine.layers.slot(slot).open_to_workers(self.plan.ring.tickets_a_layer);
        // A worker that takes it at once shall not find the layer locked.
        drop(layer);
        engine.offer_layer(slot);
    }

    /// Its number was given up, which is refused for numbers that were taken.
    fn too_late(&mut self, arrival: Arrival, engine: &Engine) {
        debug_assert!(false, "frame {} came after its number was given up", arrival.number);
        logged(|| tracing::error!(number = arrival.number, "a frame came after its number was given up"));
        engine.ring.release(arrival.frame);
    }

    /// Its number, unsettled, will count as missing in the end.
    fn lose(&mut self, arrival: Arrival, engine: &Engine) {
        self.note_newest(&arrival, engine);
        engine.numbers.let_go(arrival.number);
        self.early.tried_at = None;
        engine.ring.release(arrival.frame);
    }

    fn note_newest(&mut self, arrival: &Arrival, engine: &Engine) {
        self.newest = self.newest.max((arrival.number + 1, arrival.dropped_before));
        self.newest_end = self.newest_end.max(self.newest.0);
        engine.counters.newest_end.store(self.newest_end, Relaxed);
    }

    /// Nothing more will come: settles every number and hands on every layer. False if something has to be waited for.
    pub(crate) fn flush(&mut self, engine: &Engine) -> bool {
        self.blocks.take_prepared(self.settled_end, engine);
        self.newest_end = self.last_end(engine);
        engine.counters.newest_end.store(self.newest_end, Relaxed);
        if self.settle_missing(self.newest_end, engine).is_err() {
            return false;
        }
        let open: Vec<_> = self.open.iter().map(|(&at, &slot)| (at, slot)).collect();
        for ((block, cell), slot) in open {
            let mut layer = engine.layers.slot(slot).layer.write().unwrap_or_else(PoisonError::into_inner);
            let grid = self.plan.layers.grid_position(block, cell);
            layer.planes_kept = self.plan.planes_kept(&grid, Some(self.newest_end));
            self.hand_on(slot, &CellOf { block, cell, place: 0 }, layer, engine);
        }
        self.records.finish(engine);
        true
    }

    /// One past the last number for which the array has a place when no more frames come.
    fn last_end(&self, engine: &Engine) -> u64 {
        // Frames that were let go at the very end count, too: each came after all frames whose buffers had been loaned by then.
        let (_, dropped_before) = self.newest;
        let dropped_last = engine.counters.dropped_unnumbered.load(Relaxed).saturating_sub(dropped_before);
        let end = engine.numbers.next().saturating_add(dropped_last).max(self.newest_end);
        let total = self.plan.frames_total.unwrap_or(u64::MAX);
        let end = if end == 0 { 0 } else { self.plan.places_end(end).unwrap_or(total) };
        end.min(total).max(self.newest_end)
    }

    /// Called when a caller finds no free buffer: if none is with the workers, nothing but a number that is missing, or a buffer that
    /// is on loan, can bring one back, and neither may ever come. Gives up the oldest missing numbers until a layer can go on; if
    /// there are none, and `for_long`, the rest of the oldest layer.
    fn relieve(&mut self, engine: &Engine, for_long: bool) {
        let mut gaps = 0;
        while self.is_starving(engine) && self.settled_end < self.newest_end {
            if self.settle_missing(self.settled_end + 1, engine).is_err() {
                return;
            }
            gaps += 1;
        }
        if gaps > 0 {
            // Next time without a wait: as many numbers as this ring can hold beside what is on loan.
            engine.numbers.shrink_window(((self.newest_end - self.settled_end).max(gaps) / 2).max(1));
        }
        if !for_long || !self.is_starving(engine) {
            return;
        }
        let oldest =
            self.open.keys().map(|&(block, _)| self.plan.layers.block_frames(block)).min_by_key(|frames| frames.start);
        let Some(frames) = oldest else { return };
        let end = frames.end.min(self.plan.frames_total.unwrap_or(u64::MAX));
        logged(|| {
            tracing::warn!(?frames, "all buffers wait for frames that don't come; they are given up as missing");
        });
        self.newest_end = self.newest_end.max(end);
        engine.counters.newest_end.store(self.newest_end, Relaxed);
        let _ = self.settle_missing(end, engine);
    }

    /// Whether every buffer is on loan or in a layer that waits for more frames.
    fn is_starving(&self, engine: &Engine) -> bool {
        // In this order: a worker releases a layer's buffers before the layer.
        !self.open.is_empty()
            && engine.arrivals.1.is_empty()
            && engine.layers.in_use() == self.open.len()
            && engine.ring.free_frames() == 0
    }

    /// As [`Records::copy`].
    pub(crate) fn copy_records(&mut self, from: u64, copy: &mut RecordCopy) -> bool {
        self.records.copy(from, self.settled_end, copy)
    }

    /// The shards that are still open, for the closer.
    pub(crate) fn take_blocks(&mut self, engine: &Engine) -> Vec<ShardBlock> {
        self.blocks.take_prepared(self.settled_end, engine);
        self.blocks.take_all()
    }
}

/// Adds `range` to sorted ranges, which it follows or touches.
pub(crate) fn note_range(ranges: &mut Vec<Range<u64>>, range: Range<u64>) {
    if let Some(last) = ranges.last_mut().filter(|last| last.end == range.start) {
        last.end = range.end;
    } else if ranges.len() < MISSING_RANGES_MAX {
        ranges.push(range);
    }
}

/// One bit a number, for a window that moves.
struct Window {
    bits: Box<[u64]>,
}

impl Window {
    fn new(numbers: u64) -> Self {
        Self { bits: vec![0; numbers.next_power_of_two().max(64) as usize / 64].into() }
    }

    fn place(&self, number: u64) -> (usize, u64) {
        ((number / 64) as usize & (self.bits.len() - 1), 1 << (number % 64))
    }

    fn set(&mut self, number: u64) {
        let (word, bit) = self.place(number);
        self.bits[word] |= bit;
    }

    /// Whether the number's bit was set; it is clear afterwards.
    fn take(&mut self, number: u64) -> bool {
        let (word, bit) = self.place(number);
        let was = self.bits[word] & bit != 0;
        self.bits[word] &= !bit;
        was
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_forgets_what_was_taken() {
        let mut window = Window::new(100);
        window.set(130);
        assert!(!window.take(3));
        assert!(window.take(130));
        assert!(!window.take(130));
        window.set(130 + 128);
        assert!(window.take(258));
    }

    #[test]
    fn neighbouring_missing_frames_are_one_range() {
        let mut ranges = vec![];
        for range in [3..4, 4..9, 11..12] {
            note_range(&mut ranges, range);
        }
        assert_eq!(ranges, [3..9, 11..12]);
    }
}
