//! Where a frame is, for whoever looks at it while the run goes on.

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use super::numbers::NUMBERS_END;
use super::parked::Whereabouts;
use super::pump::Engine;
use crate::geometry::CellOf;
use crate::ring::View;
use crate::sync::Unpoisoned;

impl Engine {
    pub(crate) fn whereabouts(&self, number: u64) -> Whereabouts {
        self.pump();
        // What is computed with such a number would overflow.
        if number >= NUMBERS_END {
            return Whereabouts::Nowhere;
        }
        let at = self.plan.layers.locate(number);
        if let Some(view) = self.view_in_layer(&at) {
            return Whereabouts::Ring(view);
        }
        // Before the queue: who has claimed it counts it as accepted, and then puts it there.
        let is_on_its_way = self.numbers.is_on_its_way(number);
        let sequencer = self.sequencer.lock().unpoisoned();
        let waits = is_on_its_way || sequencer.keeps(number) || !self.arrivals.1.is_empty();
        let is_settled = sequencer.is_settled(number);
        let shards = self.plan.shards.locate(number);
        let is_parked = sequencer.blocks.has_parked(shards.block);
        drop(sequencer);
        if !is_settled {
            return if waits { Whereabouts::OnItsWay } else { Whereabouts::Nowhere };
        }
        let cells = self.open_cells.all();
        let Some(cell) = cells.into_iter().find(|cell| (cell.block, cell.cell) == (shards.block, shards.cell)) else {
            return match self.parked.find(shards.block, shards.cell) {
                Some(parked) => parked,
                // Just now it is opened again.
                None if is_parked && !self.parked.is_lost.load(Relaxed) => Whereabouts::OnItsWay,
                // It may have left its layer since that was looked at, but not the shard.
                None => Whereabouts::Closed,
            };
        };
        // Acquire: meets the Release with which the layer was done, so its chunks are seen.
        match cell.layers_done[self.plan.layer_of(number)].load(Acquire) {
            true => Whereabouts::Open(cell),
            false => self.view_in_layer(&at).map_or(Whereabouts::OnItsWay, Whereabouts::Ring),
        }
    }

    /// The frame of a layer that gathers, or is with the workers.
    fn view_in_layer(&self, at: &CellOf) -> Option<View> {
        (0..self.layers.count() as u32).find_map(|slot| {
            // It is held for no longer than it takes to become a user of the frame.
            let layer = self.layers.slot(slot).layer.read().unpoisoned();
            // Its shards may be closed for a while.
            let is_there = layer.state.at == (at.block, at.cell);
            let frame = layer.frames.get(at.place as usize).filter(|_| is_there)?.as_ref()?;
            Some(self.ring.view(frame))
        })
    }
}
