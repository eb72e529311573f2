//! From one level of a pyramid to the next: frames that are stored become frames of half the size.
//!
//! ```text
//! level 0   last ticket of a layer ─ Engine::return_ticket
//! feeder      └ in turn: halve each frame into a buffer of level 1, commit it there; then release the layer
//! level 1         └ as any image's frame: sequencer, workers, closer ─ Engine::return_ticket …
//! ```
//!
//! A layer comes here when all of its chunks are in their slots, so no level has a frame that the one below lacks, and
//! a layer of which a chunk was lost is missing in all levels above. Layers are taken in the order in which they were
//! given to the workers: then a level's frames come as much out of order as those of the level below were allowed to,
//! and by no more than a block of layers beyond that, for which its window has room.
//!
//! Where planes are halved, too, a frame that comes before the other of its pair is copied, unless both are in one
//! layer: its own buffer goes back to the camera. A plane that never comes counts as the fill value, as whoever reads
//! the level below sees it; where neither comes, there is no frame above. Whether one comes is sure once the window has
//! gone by.
//!
//! One thread feeds all levels of all images of a pool. It waits for none of them: a frame for which there is no room
//! above is tried again, and its layer stays where it is, with its buffers. A camera that is too fast so finds the ring
//! of level 0 full, as without levels. A level that gathers frames for its layers has buffers of its own for as many as
//! one block of them has, and what is complete there goes on to the workers and comes back. So nobody waits in a
//! circle.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use super::halves::{Half, Planes, Source, Spares};
use super::layer::Layer;
use super::messages::Arrival;
use super::pump::Engine;
use crate::downsample::halver::Halver;
use crate::error::{Result, caught};
use crate::format::level_frames::LevelFrames;
use crate::record::NUMBER_IN_RECORD;
use crate::ring::{Frame, Loan};
use crate::sync::Unpoisoned;

pub(super) struct Feed {
    below: Arc<Engine>,
    above: Arc<Engine>,
    halver: Halver,
    frames: LevelFrames,
    planes: Planes,
    /// Layers that were stored, perhaps before their turn.
    early: BTreeMap<u64, u32>,
    next: u64,
    /// Frames of the next one that were passed on already.
    passed: usize,
    /// Frames that came before the other of their pair, by the number of what they become.
    halves: BTreeMap<u64, Half>,
    is_over: bool,
}

impl Feed {
    pub(super) fn new(
        below: &Arc<Engine>,
        above: &Arc<Engine>,
        halver: Halver,
        frames: LevelFrames,
        spares: &Arc<Spares>,
    ) -> Self {
        let planes = Planes::new(&below.plan, spares);
        let (below, above) = (below.clone(), above.clone());
        let (early, halves) = Default::default();
        Self { below, above, halver, frames, planes, early, next: 0, passed: 0, halves, is_over: false }
    }

    /// The level below has ended: what a worker that died left behind is not passed on any more.
    pub(super) fn end(&mut self) {
        self.is_over = true;
        self.halves.clear();
    }

    pub(super) fn add(&mut self, turn: u64, slot: u32) {
        self.early.insert(turn, slot);
    }

    /// Passes on the layers whose turn it is. True: one of them waits for room above.
    pub(super) fn pass_on(&mut self) -> bool {
        while let Some(&slot) = self.early.get(&self.next) {
            // A panic must not keep the layer for ever.
            let is_done = caught(|| self.pass_layer(slot)).unwrap_or_else(|error| {
                self.above.first_error.set(error);
                true
            });
            if !is_done {
                return true;
            }
            self.early.remove(&self.next);
            self.next += 1;
            self.passed = 0;
            self.below.free_layer(slot);
        }
        false
    }

    /// The level below has ended, and all of its layers were passed on: what still waits for the other of its pair
    /// waits in vain. False: there is no room for it yet.
    pub(super) fn settle(&mut self) -> bool {
        if self.has_no_use() || self.below.is_broken.load(Acquire) {
            self.halves.clear();
            return true;
        }
        caught(|| self.settle_before(u64::MAX)).unwrap_or_else(|error| {
            self.above.first_error.set(error);
            self.halves.clear();
            true
        })
    }

    /// Such a run has no use for further frames.
    fn has_no_use(&self) -> bool {
        self.is_over || self.above.aborting.load(Relaxed) || self.above.is_broken.load(Acquire)
    }

    /// Makes the frames above of those of a layer. False: there is no room for them yet.
    fn pass_layer(&mut self, slot: u32) -> Result<bool> {
        if self.has_no_use() {
            return Ok(true);
        }
        let below = self.below.clone();
        let layer_slot = below.layers.slot(slot);
        let layer = layer_slot.layer.read().unpoisoned();
        let is_lost = layer_slot.failed.load(Relaxed);
        let (numbers, end) = numbers(&below, &layer);
        for &(number, place) in &numbers[self.passed.min(numbers.len())..] {
            let source = |place: usize| match layer.frames[place].as_ref().filter(|_| !is_lost) {
                Some(frame) => Source::Frame(frame),
                None => Source::Missing,
            };
            // In the same layer, and among those that are passed on.
            let there = |number: u64| {
                let at = below.plan.layers.locate(number);
                (number < end && (at.block, at.cell) == layer.state.at).then_some(at.place as usize)
            };
            if !(self.settle_before(number)? && self.pass_frame(number, place, &source, &there)?) {
                return Ok(false);
            }
            self.passed += 1;
        }
        Ok(true)
    }

    /// Passes on the frame `number`, which stands at `place` in its layer. False: there is no room yet.
    fn pass_frame<'a>(
        &mut self,
        number: u64,
        place: usize,
        source: &impl Fn(usize) -> Source<'a>,
        there: &impl Fn(u64) -> Option<usize>,
    ) -> Result<bool> {
        let above = self.frames.number(number);
        let (first, count) = self.frames.sources(above);
        if count == 1 {
            return self.make(above, &[source(place)]);
        }
        let is_first = number == first;
        let other = if is_first { first + self.frames.apart() } else { first };
        if self.halves.contains_key(&above) {
            return self.make_of_half(above, Some(source(place)));
        }
        match there(other) {
            // They become one when the other's turn comes.
            Some(_) if is_first => {}
            Some(first) => return self.make(above, &[source(first), source(place)]),
            None => {
                let pixels = self.planes.keep(&self.below, source(place));
                self.halves.insert(above, Half { pixels, is_first });
            }
        }
        Ok(true)
    }

    /// Makes those frames whose missing half can't come any more now that the frame `newest` came. False: there is no
    /// room yet.
    fn settle_before(&mut self, newest: u64) -> Result<bool> {
        let plan = self.below.plan.clone();
        let patience = plan.ring.window.saturating_add(plan.layers.frames_a_block());
        while let Some((&number, half)) = self.halves.first_key_value() {
            let last = self.frames.sources(number).0 + self.frames.apart();
            if last.saturating_add(patience) >= newest {
                break;
            }
            // A stack that goes on for as long as frames come may have ended with the first.
            let is_beyond = newest == u64::MAX
                && half.is_first
                && plan.places_end(self.below.counters.newest_end.load(Relaxed)).is_some_and(|end| last >= end);
            if !self.make_of_half(number, (!is_beyond).then_some(Source::Missing))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Makes a frame of the half that waits, and of the other one, if the level below has it.
    fn make_of_half(&mut self, number: u64, other: Option<Source<'_>>) -> Result<bool> {
        let Some(half) = self.halves.remove(&number) else { return Ok(true) };
        let kept = half.pixels.as_deref().map_or(Source::Missing, Source::Kept);
        let is_made = match other {
            None => self.make(number, &[kept])?,
            Some(other) if half.is_first => self.make(number, &[kept, other])?,
            Some(other) => self.make(number, &[other, kept])?,
        };
        if is_made {
            self.planes.give_back(half);
        } else {
            self.halves.insert(number, half);
        }
        Ok(is_made)
    }

    /// Makes the frame `number` of the planes that become it. False: there is no room for it yet.
    fn make(&mut self, number: u64, sources: &[Source<'_>]) -> Result<bool> {
        let is_there = sources.iter().any(|source| !matches!(source, Source::Missing));
        let Some(loan) = self.room(is_there) else {
            self.above.pump();
            self.above.wake_if_work_waits();
            if !self.frames.is_same() && self.above.ring.is_shared() {
                // Layers that gather here, and in other images, may hold all buffers.
                self.above.relieve();
            }
            return Ok(false);
        };
        let frame = loan.map(|mut loan| {
            let bytes = self.above.plan.frame.bytes;
            self.planes.halve(&self.below, &mut self.halver, sources, &mut loan.pixels_mut()[..bytes]);
            loan.record_mut()[NUMBER_IN_RECORD].copy_from_slice(&(number as i64).to_ne_bytes());
            loan.commit()
        });
        give(&self.above, number, frame).map(|()| true)
    }

    /// Room for one more frame of the level, with its buffer if it is to have one.
    fn room(&self, with_buffer: bool) -> Option<Option<Loan>> {
        // Nobody else sends arrivals there.
        let room = self.above.plan.ring.frames.saturating_sub(self.above.arrivals.1.len());
        match with_buffer {
            _ if room == 0 => None,
            true => self.above.ring.try_loan().map(Some),
            false => Some(None),
        }
    }
}

/// The numbers of a layer's frames, each with its place in the layer, and where those end that came. What never came
/// behind the newest frame is not missing.
fn numbers(below: &Engine, layer: &Layer) -> (Vec<(u64, usize)>, u64) {
    let (block, cell) = layer.state.at;
    let end = below.counters.newest_end.load(Relaxed);
    let layers = &below.plan.layers;
    let block_frames = layers.block_frames(block);
    let numbers = block_frames.start..block_frames.end.min(end);
    let located = numbers.map(|number| (number, layers.locate(number))).filter(|(_, at)| at.cell == cell);
    (located.map(|(number, at)| (number, at.place as usize)).collect(), end)
}

/// Gives a level its frame, or the word that there is none.
fn give(above: &Engine, number: u64, frame: Option<Frame>) -> Result<()> {
    if let Err(error) = above.numbers.claim(number) {
        frame.into_iter().for_each(|frame| above.ring.release(frame));
        return Err(error);
    }
    above.counters.frames_accepted.fetch_add(u64::from(frame.is_some()), Relaxed);
    let sent = above.arrivals.0.try_send(Arrival { number, frame, dropped_before: 0 });
    debug_assert!(sent.is_ok(), "there is room for it");
    above.numbers.sent(number);
    above.pump();
    Ok(())
}
