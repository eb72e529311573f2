//! From one level of a pyramid to the next: frames that are stored become frames of half the size.
//!
//! ```text
//! level 0   last ticket of a layer ─ NextLevel::offer
//! feeder      └ in turn: halve each frame into a buffer of level 1, commit it there; then release the layer
//! level 1         └ as any image's frame: sequencer, workers, closer ─ NextLevel::offer …
//! ```
//!
//! A layer comes here when all of its chunks are in their slots, so no level has a frame that the one below lacks, and
//! a layer of which a chunk was lost is missing in all levels above. Layers are taken in the order in which they were
//! given to the workers: then a level's frames come as much out of order as those of the level below were allowed to,
//! and by no more than a block of layers beyond that, for which its window has room.
//!
//! The feeder waits for free buffers of the level above, and holds those of the level below meanwhile: a camera that is
//! too fast finds the ring of level 0 full, as without levels. What gives buffers back above are the threads of the
//! pool, none of which waits for a feeder. So nobody waits in a circle. Whoever lets workers do this instead of
//! a thread must let a layer lie until there is room for all of its frames above.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::messages::{Arrival, NextLevel, Stored};
use super::pool::Pool;
use super::pump::Engine;
use crate::downsample::halver::Halver;
use crate::error::{Result, caught};
use crate::pixels::Plane;
use crate::record::NUMBER_IN_RECORD;
use crate::ring::{Frame, Loan};
use crate::sync::{Receiver, bounded};

/// How often a feeder that finds no room looks whether the run was aborted.
const LOOK_UP_EVERY: Duration = Duration::from_millis(20);
/// How long it waits for a sequencer that has not taken what was sent.
const ARRIVALS_FULL_PAUSE: Duration = Duration::from_micros(200);

/// The thread that feeds a level.
pub(crate) struct Feeder {
    thread: JoinHandle<()>,
    below: Arc<Engine>,
}

impl Feeder {
    /// Lets the layers of `below` go to `above` from now on, by a thread of `pool`.
    pub(crate) fn start(pool: &Pool, below: &Arc<Engine>, above: &Arc<Engine>, halver: Halver) -> Result<Self> {
        let (offered, stored) = bounded(below.layers.count() + 1);
        let feed = Feed { below: below.clone(), above: above.clone(), halver, early: BTreeMap::new(), next: 0 };
        let thread = pool.spawn("sw-level".into(), move || feed.run(&stored))?;
        let is_first = below.next_level.set(NextLevel(offered)).is_ok();
        debug_assert!(is_first, "a level has one above");
        Ok(Self { thread, below: below.clone() })
    }

    pub(crate) fn is_this_thread(&self) -> bool {
        self.thread.thread().id() == std::thread::current().id()
    }

    /// Ends it, after the workers of the level below have ended and everything stored there was handed on.
    pub(crate) fn join(self) {
        if let Some(NextLevel(offered)) = self.below.next_level.get() {
            let _ = offered.send(Stored::End);
        }
        if self.thread.join().is_err() {
            self.below.first_error.set(crate::Error::Panicked { message: "between two levels".into() });
        }
    }
}

/// What a feeder does.
struct Feed {
    below: Arc<Engine>,
    above: Arc<Engine>,
    halver: Halver,
    /// Layers that were stored before their turn.
    early: BTreeMap<u64, u32>,
    next: u64,
}

impl Feed {
    fn run(mut self, stored: &Receiver<Stored>) {
        while let Ok(Stored::Layer { turn, slot }) = stored.recv() {
            self.early.insert(turn, slot);
            while let Some(slot) = self.early.remove(&self.next) {
                self.pass_on(slot);
                self.next += 1;
            }
        }
        // None, unless a worker died with the one before.
        while let Some((_, slot)) = self.early.pop_first() {
            self.pass_on(slot);
        }
    }

    /// Makes the frames above of those of a layer, and frees it.
    fn pass_on(&mut self, slot: u32) {
        let below = self.below.clone();
        let halved = caught(|| self.halve_layer(&below, slot));
        halved.unwrap_or_else(|error| self.above.first_error.set(error));
        below.free_layer(slot);
    }

    fn halve_layer(&mut self, below: &Engine, slot: u32) -> Result<()> {
        let layer_slot = below.layers.slot(slot);
        let layer = layer_slot.layer.read().unwrap_or_else(PoisonError::into_inner);
        let is_lost = layer_slot.failed.load(Relaxed);
        let (block, cell) = layer.state.at;
        // Of the last layer, what never came is not missing.
        let end = below.counters.newest_end.load(Relaxed);
        let layers = &below.plan.layers;
        let block_frames = layers.block_frames(block);
        for number in block_frames.start..block_frames.end.min(end) {
            let at = layers.locate(number);
            if at.cell == cell {
                let frame = layer.frames[at.place as usize].as_ref().filter(|_| !is_lost);
                self.give(number, frame)?;
            }
        }
        Ok(())
    }

    /// Gives the level above its frame, or the word that there is none.
    fn give(&mut self, number: u64, frame: Option<&Frame>) -> Result<()> {
        let above = self.above.clone();
        let made = match frame {
            None => None,
            Some(frame) => {
                // An aborted run has no use for it.
                let Some(mut loan) = self.loan() else { return Ok(()) };
                self.halve(frame, &mut loan);
                loan.record_mut()[NUMBER_IN_RECORD].copy_from_slice(&(number as i64).to_ne_bytes());
                Some(loan)
            }
        };
        above.numbers.claim(number)?;
        let is_frame = made.is_some();
        let mut arrival = Arrival { number, frame: made.map(Loan::commit), dropped_before: 0 };
        above.counters.frames_accepted.fetch_add(u64::from(is_frame), Relaxed);
        while let Err(unsent) = above.arrivals.0.try_send(arrival) {
            // Frames alone would find room.
            arrival = unsent.into_inner();
            above.pump();
            std::thread::sleep(ARRIVALS_FULL_PAUSE);
        }
        above.numbers.sent(number);
        above.pump();
        Ok(())
    }

    /// A free buffer above; `None` if the run is aborted.
    fn loan(&self) -> Option<Loan> {
        let above = &self.above;
        loop {
            if above.aborting.load(Relaxed) {
                return None;
            }
            if let Some(loan) = above.ring.try_loan() {
                return Some(loan);
            }
            above.wake_if_work_waits();
            if let Some(loan) = above.ring.loan_within(LOOK_UP_EVERY) {
                return Some(loan);
            }
        }
    }

    fn halve(&mut self, frame: &Frame, loan: &mut Loan) {
        let (from, to) = (&self.below.plan.frame, &self.above.plan.frame);
        let plane = Plane {
            pixels: &self.below.ring.pixels(frame)[from.layout.offset..],
            row_stride: from.layout.row_stride,
            rows: from.rows,
            columns: from.row_bytes / from.dtype.size(),
        };
        self.halver.halve(&[plane], &mut loan.pixels_mut()[..to.bytes]);
    }
}
