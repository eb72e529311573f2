//! Puts frames into layers, settles the numbers that never come, and gives complete layers to the workers.
//!
//! One thread at a time runs it, so it is plain sequential code. Whatever it lacks (a free layer, the next shard, a
//! record block) makes it stop where it is; whoever provides the thing runs it again.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use super::blocks::{Blocks, Hold};
use super::cell::{ShardBlock, ShardPlace};
use super::layer::Layer;
use super::losses::note_range;
use super::messages::{Arrival, Requests};
use super::numbers::Outcome;
use super::parked::ParkedState;
use super::records::{RecordCopy, Records};
use super::shared::{Shared, relief};
use super::window::Window;
use crate::error::logged;
use crate::format::provenance::MISSING_RANGES_MAX;
use crate::geometry::CellOf;
use crate::plan::Plan;
use crate::sync::{Receiver, RwLockWriteGuard, Unpoisoned};

/// Whoever commits a frame works for others for this many at most: some ten microseconds.
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
    /// Those of them whose shards are closed for a while.
    detached: Vec<(u32, ShardPlace)>,
    /// The one of them that the last frame went to.
    latest: Option<((u64, u64), u32)>,
    pub(super) blocks: Blocks,
    records: Records,
    pub(crate) missing: Vec<Range<u64>>,
    /// How many layers were given to the workers.
    next_turn: u64,
}

/// Frames that would push others out of the window that were taken before and are about to arrive: their threads were
/// put to sleep in between.
struct Early {
    frames: BinaryHeap<Reverse<Arrival>>,
    /// All numbers below were settled when the first of them was last tried; none if something else has changed since.
    tried_at: Option<u64>,
    /// Others were added since.
    has_untried: bool,
}

impl Early {
    fn holds(&self, numbers: &Range<u64>) -> bool {
        let lowest = self.frames.peek().map_or(u64::MAX, |Reverse(lowest)| lowest.number);
        lowest < numbers.end && self.frames.iter().any(|Reverse(arrival)| numbers.contains(&arrival.number))
    }

    /// Takes what is in the queue, so that [`holds`](Self::holds) knows of it.
    fn take_arrivals(&mut self, shared: &Shared) {
        while let Ok(arrival) = shared.arrivals.1.try_recv() {
            self.frames.push(Reverse(arrival));
            self.has_untried = true;
        }
    }

    /// Keeps one that has to wait for an older one.
    fn keep(&mut self, arrival: Arrival, settled_end: u64) {
        self.frames.push(Reverse(arrival));
        self.tried_at = (!std::mem::take(&mut self.has_untried)).then_some(settled_end);
    }

    fn may_go(&self, settled_end: u64) -> bool {
        !self.frames.is_empty() && self.tried_at != Some(settled_end)
    }

    /// The one with the lowest number, if it is worth another try.
    fn next(&mut self, settled_end: u64) -> Option<Arrival> {
        if self.may_go(settled_end) { self.frames.pop().map(|Reverse(arrival)| arrival) } else { None }
    }
}

impl Sequencer {
    pub(crate) fn new(
        plan: Arc<Plan>,
        records: Records,
        requests: Arc<Requests>,
        prepared: Receiver<ShardBlock>,
    ) -> Self {
        let window = plan.ring.window;
        Self {
            waiting: None,
            early: Early { frames: BinaryHeap::with_capacity(plan.ring.frames), tried_at: None, has_untried: false },
            settled_end: 0,
            newest_end: 0,
            newest: (0, 0),
            settled: Window::new(window + 1),
            open: HashMap::with_capacity(2 * plan.ring.layer_slots),
            detached: Vec::new(),
            latest: None,
            blocks: Blocks::new(&plan, requests, prepared),
            records,
            missing: Vec::with_capacity(MISSING_RANGES_MAX),
            next_turn: 0,
            plan,
        }
    }

    /// Handles arrivals until there is none, or one has to wait, or it is enough for one call. True: there are more.
    pub(crate) fn run(&mut self, shared: &Shared) -> bool {
        self.take_prepared(shared);
        shared.note_use();
        self.early.tried_at = None;
        for _ in 0..ARRIVALS_A_RUN {
            let early = self.waiting.take().or_else(|| self.early.next(self.settled_end));
            let Some(arrival) = early.or_else(|| shared.arrivals.1.try_recv().ok()) else { break };
            if shared.aborting.load(Relaxed) {
                self.lose(arrival, shared);
                continue;
            }
            self.note_newest(&arrival, shared);
            match self.admit(&arrival, shared) {
                Ok(Some((at, slot))) => self.put(arrival, &at, slot, shared),
                Ok(None) => self.too_late(arrival, shared),
                Err(Hold::Never) => self.lose(arrival, shared),
                Err(Hold::Wait) => {
                    self.waiting = Some(arrival);
                    return false;
                }
                Err(Hold::Older) => self.early.keep(arrival, self.settled_end),
            }
        }
        let has_more = !shared.arrivals.1.is_empty() || self.early.may_go(self.settled_end);
        if !has_more && shared.relief.load(Relaxed) != relief::NONE {
            self.relieve(shared, shared.relief.swap(relief::NONE, Relaxed) == relief::FOR_LONG);
        }
        has_more
    }

    /// Whether the frame with this number came to its layer, or counts as missing.
    #[cfg(feature = "offline")]
    pub(crate) fn is_settled(&self, number: u64) -> bool {
        number < self.settled_end || self.settled.has(number, self.settled_end)
    }

    /// Whether the frame with this number waits for its turn.
    #[cfg(feature = "offline")]
    pub(crate) fn keeps(&self, number: u64) -> bool {
        self.waiting.as_ref().is_some_and(|arrival| arrival.number == number) || self.early.holds(&(number..number + 1))
    }

    fn take_prepared(&mut self, shared: &Shared) {
        if !self.blocks.take_prepared(self.settled_end, shared) {
            return;
        }
        let blocks = &self.blocks;
        self.detached.retain(|(slot, at)| {
            let cell = blocks.open_cell(at);
            let is_open = cell.is_some();
            if is_open {
                let mut layer = shared.layers.slot(*slot).layer.write().unpoisoned();
                (layer.state.cell, layer.state.is_detached) = (cell, false);
            }
            !is_open
        });
    }

    /// Gives up a block of shards that nobody uses now, so that its files can be closed for a while; `may_wait`: even
    /// one of which layers wait for frames.
    pub(crate) fn park_idle(&mut self, shared: &Shared, may_wait: bool) -> Option<ShardBlock> {
        let of = |slot: u32| {
            let layer = shared.layers.slot(slot).layer.read().unpoisoned();
            let cell = layer.state.cell.as_ref()?;
            Some((slot, ShardPlace { block: cell.block, cell: cell.cell }))
        };
        let gathering: Vec<_> = self.open.values().filter_map(|&slot| of(slot)).collect();
        let waiting = |of: &ShardPlace| gathering.iter().filter(|(_, at)| at == of).count();
        let block = self.blocks.park_idle(waiting, may_wait)?;
        for (slot, at) in gathering.into_iter().filter(|(_, at)| at.block == block.number) {
            let mut layer = shared.layers.slot(slot).layer.write().unpoisoned();
            (layer.state.cell, layer.state.is_detached) = (None, true);
            self.detached.push((slot, at));
        }
        self.latest = None;
        shared.parked.put(block.number, ParkedState::Leaving);
        Some(block)
    }

    pub(crate) fn layers_gathering(&self) -> usize {
        self.open.len()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_none() && self.early.frames.is_empty()
    }

    /// Makes room for a frame: settles what falls out of the window, opens its layer. `None` if it was settled before.
    fn admit(&mut self, arrival: &Arrival, shared: &Shared) -> Result<Option<(CellOf, u32)>, Hold> {
        self.settle_missing(arrival.number.saturating_sub(shared.numbers.patience()), shared)?;
        if arrival.number < self.settled_end {
            return Ok(None);
        }
        if !self.records.ready(arrival.number, &self.plan.record) {
            return Err(Hold::Wait);
        }
        let at = self.plan.layers.locate(arrival.number);
        let slot = self.open_layer(arrival.number, &at, shared)?;
        Ok(Some((at, slot)))
    }

    fn put(&mut self, arrival: Arrival, at: &CellOf, slot: u32, shared: &Shared) {
        if let Some(frame) = &arrival.frame {
            self.records.put(arrival.number, shared.ring.record(frame));
        }
        let mut layer = shared.layers.slot(slot).layer.write().unpoisoned();
        match arrival.frame {
            Some(frame) => layer.put(at.place as usize, arrival.number, frame),
            None => {
                layer.unsettled -= 1;
                self.note_missing(arrival.number, arrival.number + 1, shared);
            }
        }
        if layer.unsettled == 0 {
            self.hand_on(slot, at, layer, shared);
        } else {
            drop(layer);
        }
        self.settle(arrival.number, shared);
    }

    /// Marks one number as settled, and moves the window on if it was the oldest one.
    fn settle(&mut self, number: u64, shared: &Shared) {
        self.settled.set(number);
        if number == self.settled_end {
            self.move_window(number, shared);
        }
    }

    /// Lets the window begin at `to`, or behind the settled numbers that follow.
    fn move_window(&mut self, to: u64, shared: &Shared) {
        self.settled_end = to;
        while self.settled.take(self.settled_end) {
            self.settled_end += 1;
        }
        shared.numbers.settle(self.settled_end);
        self.records.settle(self.settled_end, shared);
        self.blocks.forget_before(self.settled_end);
    }

    /// Gives up numbers that nobody has brought; false if somebody has one of them.
    fn give_up(&mut self, numbers: Range<u64>, shared: &Shared) -> bool {
        if self.early.holds(&numbers) {
            return false;
        }
        let outcome = match numbers.end - numbers.start {
            1 => shared.numbers.give_up(numbers.start),
            _ => shared.numbers.give_up_range(numbers.clone()),
        };
        match outcome {
            Outcome::GivenUp => true,
            Outcome::Brought => false,
            // A leap behind one that is still in the queue, where a frame that came later stands before it.
            Outcome::Displaced => {
                self.early.take_arrivals(shared);
                !self.early.holds(&numbers)
            }
        }
    }

    /// Counts every unsettled number below `end` as missing.
    fn settle_missing(&mut self, end: u64, shared: &Shared) -> Result<(), Hold> {
        while self.settled_end < end {
            let number = self.settled_end;
            let block = self.plan.shards.locate(number).block;
            let frames = self.plan.shards.block_frames(block);
            if number == frames.start && frames.end <= end && !self.blocks.is_touched(block) {
                // Nothing of these shards came, and nothing will; so with those that follow. One by one, the shards of
                // a plan that nobody meant would take for ever.
                let to = self.blocks.untouched_end(block, end);
                if self.give_up(number..to, shared) {
                    self.blocks.skip(block, to, shared);
                    self.note_missing(number, to, shared);
                    self.move_window(to, shared);
                    continue;
                }
            }
            if !self.give_up(number..number + 1, shared) {
                return Err(Hold::Older);
            }
            let at = self.plan.layers.locate(number);
            match self.open_layer(number, &at, shared) {
                Ok(slot) => {
                    let mut layer = shared.layers.slot(slot).layer.write().unpoisoned();
                    layer.unsettled -= 1;
                    if layer.unsettled == 0 {
                        self.hand_on(slot, &at, layer, shared);
                    }
                }
                // Its shard can't be had; then nobody waits for it either.
                Err(Hold::Never) => {}
                Err(hold) => return Err(hold),
            }
            self.note_missing(number, number + 1, shared);
            self.settle(number, shared);
        }
        Ok(())
    }

    fn note_missing(&mut self, from: u64, to: u64, shared: &Shared) {
        shared.counters.frames_missing.fetch_add(to - from, Relaxed);
        note_range(&mut self.missing, from..to);
    }

    /// The layer that gathers the frames around `number`, which stands `at` there.
    fn open_layer(&mut self, number: u64, at: &CellOf, shared: &Shared) -> Result<u32, Hold> {
        let key = (at.block, at.cell);
        // Most frames go where the one before went.
        if let Some((_, slot)) = self.latest.filter(|(latest, _)| *latest == key) {
            return Ok(slot);
        }
        if let Some(&slot) = self.open.get(&key) {
            if let Some((_, of)) = self.detached.iter().find(|(detached, _)| *detached == slot)
                && self.blocks.is_parked(of.block)
            {
                return Err(if shared.parked.is_lost.load(Relaxed) { Hold::Never } else { Hold::Wait });
            }
            self.latest = Some((key, slot));
            return Ok(slot);
        }
        let cell = self.blocks.cell_of(number, shared)?;
        let slot = shared.layers.free.try_recv().map_err(|_| Hold::Wait)?;
        let grid = self.plan.layers.grid_position(at.block, at.cell);
        let frames = self.plan.layers.extent(&grid).iter().product();
        let mut layer = shared.layers.slot(slot).layer.write().unpoisoned();
        layer.begin(at, cell, self.plan.first_chunk(&grid), frames);
        layer.planes_kept = self.plan.planes_kept(&grid, None);
        self.open.insert(key, slot);
        self.latest = Some((key, slot));
        Ok(slot)
    }

    /// Gives a layer, of which nothing more will come, to the workers.
    fn hand_on(&mut self, slot: u32, at: &CellOf, mut layer: RwLockWriteGuard<Layer>, shared: &Shared) {
        self.open.remove(&(at.block, at.cell));
        self.latest = None;
        layer.state.is_detached = false;
        if layer.state.present == 0 {
            if let Some(cell) = layer.state.cell.take() {
                shared.layer_done(cell);
            }
            shared.layers.free(slot);
            return;
        }
        layer.ready_at = Instant::now();
        layer.state.turn = self.next_turn;
        self.next_turn += 1;
        shared.layers.slot(slot).open_to_workers(self.plan.ring.tickets_a_layer);
        // A worker that takes it at once shall not find the layer locked.
        drop(layer);
        shared.offer_layer(slot);
    }

    /// Its number was given up, which is refused for numbers that were taken.
    fn too_late(&mut self, arrival: Arrival, shared: &Shared) {
        debug_assert!(false, "frame {} came after its number was given up", arrival.number);
        logged(|| tracing::error!(number = arrival.number, "a frame came after its number was given up"));
        arrival.frame.into_iter().for_each(|frame| shared.ring.release(frame));
    }

    /// Its number, unsettled, will count as missing in the end.
    fn lose(&mut self, arrival: Arrival, shared: &Shared) {
        self.note_newest(&arrival, shared);
        shared.numbers.let_go(arrival.number);
        self.early.tried_at = None;
        arrival.frame.into_iter().for_each(|frame| shared.ring.release(frame));
    }

    fn note_newest(&mut self, arrival: &Arrival, shared: &Shared) {
        self.newest = self.newest.max((arrival.number + 1, arrival.dropped_before));
        self.newest_end = self.newest_end.max(self.newest.0);
        shared.counters.newest_end.store(self.newest_end, Relaxed);
    }

    /// As many frames came to the level below as these, the last ones perhaps missing.
    pub(crate) fn reach(&mut self, end: u64) {
        self.newest_end = self.newest_end.max(end);
    }

    /// Nothing more will come: settles every number and hands on every layer. False if something has to be waited for.
    pub(crate) fn flush(&mut self, shared: &Shared) -> bool {
        self.take_prepared(shared);
        self.newest_end = self.last_end(shared);
        shared.counters.newest_end.store(self.newest_end, Relaxed);
        if self.settle_missing(self.newest_end, shared).is_err() {
            return false;
        }
        let open: Vec<_> = self.open.iter().map(|(&at, &slot)| (at, slot)).collect();
        // They are asked for all at once.
        let detached = self.detached.iter().filter(|(_, at)| self.blocks.is_parked(at.block)).count();
        if detached > 0 && !shared.parked.is_lost.load(Relaxed) {
            return false;
        }
        for ((block, cell), slot) in open {
            let mut layer = shared.layers.slot(slot).layer.write().unpoisoned();
            let grid = self.plan.layers.grid_position(block, cell);
            layer.planes_kept = self.plan.planes_kept(&grid, Some(self.newest_end));
            self.hand_on(slot, &CellOf { block, cell, place: 0 }, layer, shared);
        }
        self.records.finish(shared);
        true
    }

    /// One past the last number for which the array has a place when no more frames come.
    fn last_end(&self, shared: &Shared) -> u64 {
        // Frames that were let go at the very end count, too: each came after all frames whose buffers had been loaned
        // by then.
        let (_, dropped_before) = self.newest;
        let dropped_last = shared.counters.dropped_unnumbered.load(Relaxed).saturating_sub(dropped_before);
        let end = shared.numbers.claimed_end().saturating_add(dropped_last).max(self.newest_end);
        let total = self.plan.frames_total.unwrap_or(u64::MAX);
        let end = if end == 0 { 0 } else { self.plan.places_end(end).unwrap_or(total) };
        end.min(total).max(self.newest_end)
    }

    /// Called when a caller finds no free buffer: if none is with the workers, nothing but a number that is missing, or
    /// a buffer that is on loan, can bring one back, and neither may ever come. Gives up the oldest missing numbers
    /// until a layer can go on; if there are none, and `for_long`, the rest of the oldest layer.
    fn relieve(&mut self, shared: &Shared, for_long: bool) {
        let mut gaps = 0;
        while self.is_starving(shared) && self.settled_end < self.newest_end {
            if self.settle_missing(self.settled_end + 1, shared).is_err() {
                return;
            }
            gaps += 1;
        }
        if gaps > 0 {
            // Next time without a wait: as many numbers as this ring can hold beside what is on loan.
            shared.numbers.shrink_patience(((self.newest_end - self.settled_end).max(gaps) / 2).saturating_sub(1));
        }
        if !for_long || !self.is_starving(shared) {
            return;
        }
        let oldest =
            self.open.keys().map(|&(block, _)| self.plan.layers.block_frames(block)).min_by_key(|frames| frames.start);
        let Some(frames) = oldest else { return };
        let end = frames.end.min(self.plan.frames_total.unwrap_or(u64::MAX));
        logged(|| {
            let (first, last) = (frames.start, end.saturating_sub(1));
            tracing::warn!(first, last, "all buffers wait for frames that don't come; they are given up as missing");
        });
        self.newest_end = self.newest_end.max(end);
        shared.counters.newest_end.store(self.newest_end, Relaxed);
        let _ = self.settle_missing(end, shared);
    }

    /// Whether every buffer is on loan or in a layer that waits for more frames.
    fn is_starving(&self, shared: &Shared) -> bool {
        // In this order: a worker releases a layer's buffers before the layer.
        !self.open.is_empty()
            && shared.arrivals.1.is_empty()
            && shared.layers.in_use() == self.open.len()
            && shared.ring.free_frames() == 0
    }

    /// As [`Records::copy`].
    pub(crate) fn copy_records(&mut self, from: u64, copy: &mut RecordCopy) -> bool {
        self.records.copy(from, self.settled_end, copy)
    }

    /// The shards that are still open, for the closer.
    pub(crate) fn take_blocks(&mut self, shared: &Shared) -> Vec<ShardBlock> {
        self.blocks.take_prepared(self.settled_end, shared);
        self.blocks.take_all()
    }
}
