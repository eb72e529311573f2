//! What happens when all workers are done with a layer.

use std::sync::PoisonError;
use std::sync::atomic::Ordering::{Relaxed, Release};

use super::layer::{LARGE_SLOT_BYTES, LayerSlot};
use super::pump::Engine;

/// The layer's last ticket is back: its frames are free, and perhaps its shards are full.
pub(crate) fn finish_layer(engine: &Engine, slot: u32, layer_slot: &LayerSlot) {
    let mut layer = layer_slot.layer.write().unwrap_or_else(PoisonError::into_inner);
    let failed = layer_slot.failed.load(Relaxed);
    if let Some(cell) = &layer.cell {
        let place = layer.first_chunk / engine.plan.shard.layer_chunks;
        if failed {
            cell.layers_failed.lock().unwrap_or_else(PoisonError::into_inner).push(place);
        }
        cell.layers_done[place].store(true, Release);
    }
    if failed {
        engine.losses.add_layer(layer.numbers(&engine.plan.layers));
    } else {
        engine.counters.frames_written.fetch_add(u64::from(layer.present), Relaxed);
        if let Some(cell) = &layer.cell {
            // Release: whoever sees the frames sees that their layer is done.
            cell.frames_written.fetch_add(u64::from(layer.present), Release);
        }
    }
    for frame in layer.frames.iter_mut().filter_map(Option::take) {
        engine.ring.release(frame);
    }
    let first_chunk = layer.first_chunk;
    let cell = layer.cell.take();
    drop(layer);
    if let Some(cell) = cell {
        if engine.plan.shard.slot_bytes < LARGE_SLOT_BYTES {
            // Where a layer's chunks lie scattered over all shards, they have no range.
            let together = engine.plan.volume.as_ref().is_none_or(|volume| volume.table.is_none());
            for shard in cell.shards.iter().filter(|_| together) {
                shard.done_with(first_chunk..first_chunk + engine.plan.shard.layer_chunks);
            }
        }
        engine.layer_done(cell);
    }
    engine.layers.free(slot);
    engine.pump();
}
