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
//! One thread feeds all levels of all images of a pool. It waits for none of them: a layer for whose frames there is no
//! room above stays where it is, with its buffers, and is tried again. A camera that is too fast so finds the ring of
//! level 0 full, as without levels. A level takes all frames of a layer or none, and these are a whole layer there:
//! what it holds goes on to the workers and comes back. So nobody waits in a circle.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::{Arc, PoisonError};

use super::layer::Layer;
use super::messages::Arrival;
use super::pump::Engine;
use super::unpack::gather_camera;
use crate::downsample::halver::Halver;
use crate::error::{Result, caught};
use crate::geometry::Tile;
use crate::pixels::Plane;
use crate::record::NUMBER_IN_RECORD;
use crate::ring::{Frame, Loan};

/// What leads from one level to the next.
pub(super) struct Feed {
    below: Arc<Engine>,
    above: Arc<Engine>,
    halver: Halver,
    /// Layers that were stored, perhaps before their turn.
    early: BTreeMap<u64, u32>,
    next: u64,
    loans: Vec<Loan>,
    is_over: bool,
    /// A frame as it is in the array, and before it is turned, where a camera gives it otherwise.
    gathered: Vec<u8>,
    unpacked: Vec<u8>,
}

impl Feed {
    pub(super) fn new(below: &Arc<Engine>, above: &Arc<Engine>, halver: Halver) -> Self {
        let (below, above) = (below.clone(), above.clone());
        let (gathered, unpacked) = Default::default();
        let (early, loans) = Default::default();
        Self { below, above, halver, early, next: 0, loans, is_over: false, gathered, unpacked }
    }

    /// The level below has ended: what a worker that died left behind is not passed on any more.
    pub(super) fn end(&mut self) {
        self.is_over = true;
    }

    /// A layer was stored, perhaps before its turn.
    pub(super) fn add(&mut self, turn: u64, slot: u32) {
        self.early.insert(turn, slot);
    }

    /// Passes on the layers whose turn it is. True: one of them waits for room above.
    pub(super) fn pass_on(&mut self) -> bool {
        while let Some(&slot) = self.early.get(&self.next) {
            let (below, above) = (self.below.clone(), self.above.clone());
            // A panic must not keep the layer for ever.
            let is_done = caught(|| self.halve_layer(&below, &above, slot)).unwrap_or_else(|error| {
                above.first_error.set(error);
                true
            });
            if !is_done {
                return true;
            }
            self.early.remove(&self.next);
            self.next += 1;
            below.free_layer(slot);
        }
        false
    }

    /// Makes the frames above of those of a layer. False: there is no room for them yet.
    fn halve_layer(&mut self, below: &Engine, above: &Engine, slot: u32) -> Result<bool> {
        // Such a run has no use for them.
        if self.is_over || above.aborting.load(Relaxed) || above.is_broken.load(Acquire) {
            return Ok(true);
        }
        let layer_slot = below.layers.slot(slot);
        let layer = layer_slot.layer.read().unwrap_or_else(PoisonError::into_inner);
        let is_lost = layer_slot.failed.load(Relaxed);
        let frames = if is_lost { 0 } else { layer.state.present as usize };
        let numbers = numbers(below, &layer);
        if !self.has_room(above, frames, numbers.len()) {
            return Ok(false);
        }
        for (number, place) in numbers {
            let frame = layer.frames[place].as_ref().filter(|_| !is_lost);
            let loan = frame.and_then(|frame| Some((frame, self.loans.pop()?)));
            let made = loan.map(|(frame, mut loan)| {
                self.halve(frame, &mut loan);
                loan.record_mut()[NUMBER_IN_RECORD].copy_from_slice(&(number as i64).to_ne_bytes());
                loan.commit()
            });
            give(above, number, made)?;
        }
        Ok(true)
    }

    /// Whether a level can take so many frames, of so many numbers, at once; their buffers are on loan then. All or
    /// none: with some of them it might wait for the others for ever.
    fn has_room(&mut self, above: &Engine, frames: usize, numbers: usize) -> bool {
        // Nobody else sends arrivals there.
        let room = above.plan.ring.frames.saturating_sub(above.arrivals.1.len());
        if room >= numbers && above.ring.free_frames() >= frames {
            self.loans.extend(std::iter::from_fn(|| above.ring.try_loan()).take(frames));
            if self.loans.len() == frames {
                return true;
            }
            self.loans.clear();
        }
        above.pump();
        above.wake_if_work_waits();
        false
    }

    fn halve(&mut self, frame: &Frame, loan: &mut Loan) {
        let (from, to) = (&self.below.plan, &self.above.plan.frame);
        let (pixels, layout) = (self.below.ring.pixels(frame), &from.frame.layout);
        let [.., rows, columns] = from.array.layout.shape[..] else { unreachable!("an array has rows and columns") };
        let (rows, columns) = (rows as usize, columns as usize);
        let plane = match &from.frame.camera {
            None => Plane { pixels: &pixels[layout.offset..], row_stride: layout.row_stride, rows, columns },
            // As the array has them.
            Some(camera) => {
                let row_stride = columns * from.frame.dtype.size();
                let whole = Tile { y: 0, x: 0, rows, columns, shard: 0, chunk: 0 };
                self.gathered.resize(from.frame.array_bytes, 0);
                let out = &mut self.gathered[..];
                gather_camera(camera, &from.frame, pixels, &whole, out, row_stride, &mut self.unpacked);
                Plane { pixels: &self.gathered, row_stride, rows, columns }
            }
        };
        self.halver.halve(&[plane], &mut loan.pixels_mut()[..to.bytes]);
    }
}

/// The numbers of a layer's frames, each with its place in the layer. What never came behind the newest frame is not
/// missing.
fn numbers(below: &Engine, layer: &Layer) -> Vec<(u64, usize)> {
    let (block, cell) = layer.state.at;
    let end = below.counters.newest_end.load(Relaxed);
    let layers = &below.plan.layers;
    let block_frames = layers.block_frames(block);
    let numbers = block_frames.start..block_frames.end.min(end);
    let located = numbers.map(|number| (number, layers.locate(number))).filter(|(_, at)| at.cell == cell);
    located.map(|(number, at)| (number, at.place as usize)).collect()
}

/// Gives a level its frame, or the word that there is none.
fn give(above: &Engine, number: u64, frame: Option<Frame>) -> Result<()> {
    if let Err(error) = above.numbers.claim(number) {
        frame.into_iter().for_each(|frame| above.ring.release(frame));
        return Err(error);
    }
    above.counters.frames_accepted.fetch_add(u64::from(frame.is_some()), Relaxed);
    let sent = above.arrivals.0.try_send(Arrival { number, frame, dropped_before: 0 });
    debug_assert!(sent.is_ok(), "there is room for all frames of a layer");
    above.numbers.sent(number);
    above.pump();
    Ok(())
}
