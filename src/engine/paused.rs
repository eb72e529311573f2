//! Makes what came of a layer durable while it waits for more frames: its camera may pause for hours.
//!
//! The thread that closes looks at each checkpoint which layers got nothing since the one before, and stores
//! [provisional chunks](crate::shard::provisional) of them. Their frames stay in the ring, and the layer goes on as if
//! nothing had been. Where its shards are closed for a while, they are opened for that moment.

use std::collections::BTreeMap;

use super::cell::{ShardBlock, ShardCell};
use super::gather::{TileShape, gather_plane, is_fill};
use super::layer::{Layer, LayerPlace, LayerState};
use super::shared::Shared;
use crate::codec::Encoder;
use crate::error::{Result, caught, logged};
use crate::format::slot_header::{HEADER_BYTES, header};
use crate::geometry::Tile;
use crate::shard::ProvisionalRoom;
use crate::sync::{RwLockReadGuard, Unpoisoned};

/// A layer that waits for frames, as it was when it was looked at.
struct PausedLayer<'a> {
    shared: &'a Shared,
    slot: usize,
    state: &'a LayerState,
    cell: &'a ShardCell,
}

impl PausedLayer<'_> {
    /// The layer, if it holds what it held.
    fn read(&self) -> Option<RwLockReadGuard<'_, Layer>> {
        let layer = read(self.shared, self.slot);
        let LayerState { at, present, cell, is_detached, .. } = &layer.state;
        // It has a cell until it is done, unless that is closed for a while.
        let waits = cell.is_some() || *is_detached;
        let is_same = (*at, *present, waits) == (self.state.at, self.state.present, true);
        is_same.then_some(layer)
    }
}

/// The layers that got nothing for a while.
pub(super) struct Paused {
    /// What each layer was at the last checkpoint: where it stands and how many frames it had, and whether these are
    /// kept.
    before: Vec<Option<(LayerPlace, u32, bool)>>,
    encoder: Option<ProvisionalEncoder>,
}

/// Memory for one chunk, got when a camera first pauses.
struct ProvisionalEncoder {
    encoder: Encoder,
    raw: Box<[u8]>,
    sealed: Box<[u8]>,
    /// What is unpacked before it is turned.
    unpacked: Vec<u8>,
}

impl Paused {
    pub(super) fn new(shared: &Shared) -> Self {
        Self { before: vec![None; shared.layers.count()], encoder: None }
    }

    /// Stores provisional chunks of the layers that got nothing since the last call. That it can't be done is no error:
    /// the frames are where they were. Returns how many indexes were written for them.
    ///
    /// `with_parked` does something with the block with a number, whose files are closed for a while.
    pub(super) fn keep(&mut self, shared: &Shared, with_parked: impl Fn(u64, &mut dyn FnMut(&ShardBlock))) -> u64 {
        let plan = &shared.plan;
        // The document of a volume that grows tells of whole chunks only.
        let is_shown = !plan.shard.cut_at_edge || plan.frames_total.is_some();
        let mut renewed = 0;
        if plan.layers.frames_a_cell() == 1 || !is_shown {
            return renewed;
        }
        let mut parked: BTreeMap<u64, Vec<(usize, LayerState)>> = BTreeMap::new();
        for slot in 0..self.before.len() {
            let (state, waits) = {
                let layer = read(shared, slot);
                let gathers = layer.unsettled > 0 && layer.state.present > 0;
                (layer.state.clone(), gathers && (layer.state.cell.is_some() || layer.state.is_detached))
            };
            let before = self.before[slot].take().filter(|_| waits);
            let as_before = before.filter(|&(at, present, _)| (at, present) == (state.at, state.present));
            self.before[slot] =
                waits.then_some((state.at, state.present, as_before.is_some_and(|(.., is_kept)| is_kept)));
            match (as_before, &state.cell) {
                (Some((.., false)), Some(cell)) => renewed += self.try_to_keep(shared, slot, &state, cell),
                (Some((.., false)), None) => {
                    parked.entry(plan.shards.locate(state.first_frame).block).or_default().push((slot, state));
                }
                _ => {}
            }
        }
        for (number, layers) in parked {
            with_parked(number, &mut |block| {
                for (slot, state) in &layers {
                    let cell = plan.shards.locate(state.first_frame).cell;
                    renewed += self.try_to_keep(shared, *slot, state, &block.cells[cell as usize]);
                }
            });
        }
        renewed
    }

    /// Stores provisional chunks of a layer, and remembers whether it has to be tried again. Returns how many indexes
    /// were written.
    fn try_to_keep(&mut self, shared: &Shared, slot: usize, state: &LayerState, cell: &ShardCell) -> u64 {
        let mut renewed = 0;
        let layer = PausedLayer { shared, slot, state, cell };
        let is_kept = caught(|| self.keep_layer(&layer, &mut renewed)).unwrap_or_else(|error| {
            logged(|| tracing::warn!(%error, "frames that wait for others can't be stored before these come"));
            // Once is enough.
            true
        });
        self.before[slot] = Some((state.at, state.present, is_kept));
        renewed
    }

    /// True if it need not be tried again. Adds to the indexes that were written.
    fn keep_layer(&mut self, layer: &PausedLayer, renewed: &mut u64) -> Result<bool> {
        let &PausedLayer { shared, state, cell, .. } = layer;
        let plan = &shared.plan;
        let numbers = layer.read().map(|layer| layer.numbers(&plan.layers).collect());
        let Some(numbers) = numbers else { return Ok(false) };
        let encoder = match &mut self.encoder {
            Some(encoder) => encoder,
            none => none.insert(ProvisionalEncoder::new(shared)?),
        };
        let mut rooms = Vec::new();
        let stored = encoder.store_layer(layer, &mut rooms);
        let is_whole = matches!(stored, Ok(true));
        *renewed += rooms.len() as u64;
        for (across, room) in rooms {
            let shard = &cell.shards[across];
            if is_whole { shard.keep_provisional(room) } else { shard.leave_provisional(room) }
        }
        if is_whole {
            let place = state.first_chunk / plan.shard.layer_chunks;
            let mut layers = cell.provisional.lock().unpoisoned();
            layers.entry(place).or_default().numbers = numbers;
        }
        stored
    }
}

impl ProvisionalEncoder {
    fn new(shared: &Shared) -> Result<Self> {
        let encoder = shared.encoder()?;
        let bytes = (HEADER_BYTES + encoder.bound()).next_multiple_of(8);
        Ok(Self {
            encoder,
            raw: vec![0; shared.plan.shard.chunk_bytes].into(),
            sealed: vec![0; bytes].into(),
            unpacked: Vec::new(),
        })
    }

    /// Stores what the chunks of a layer are so far, each shard's in room of its own; false if that can't be, or the
    /// layer has changed.
    fn store_layer(&mut self, layer: &PausedLayer, rooms: &mut Vec<(usize, ProvisionalRoom)>) -> Result<bool> {
        let &PausedLayer { shared, state, cell, .. } = layer;
        let plan = &shared.plan;
        let done = cell.layers_done();
        for (across, shard) in cell.shards.iter().enumerate() {
            let tiles = || plan.tiles.iter().filter(|tile| plan.slot_of(state.first_chunk, tile).0 == across);
            let bytes = tiles().count() * self.sealed.len();
            if bytes == 0 {
                continue;
            }
            let Some(room) = shard.provisional_room(&done, bytes as u64)? else { return Ok(false) };
            rooms.push((across, room));
            let Some((_, room)) = rooms.last_mut() else { continue };
            for tile in tiles() {
                if !self.store(layer, tile, room)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Stores what a tile's chunk is so far; false if the layer has changed meanwhile.
    fn store(&mut self, layer: &PausedLayer, tile: &Tile, room: &mut ProvisionalRoom) -> Result<bool> {
        let &PausedLayer { shared, state, cell, .. } = layer;
        let plan = &shared.plan;
        let Some(raw_bytes) = self.gather(layer, tile) else { return Ok(false) };
        let raw = &self.raw[..raw_bytes];
        if shared.skip_empty_chunks && is_fill(raw, &plan.frame.fill) {
            return Ok(true);
        }
        let payload = &mut self.sealed[HEADER_BYTES..];
        let nbytes = self.encoder.encode_part(raw, payload)?;
        let (across, chunk) = plan.slot_of(state.first_chunk, tile);
        let origin = shared.origin(state, cell, across, chunk);
        let header = header(&origin, &self.sealed[HEADER_BYTES..HEADER_BYTES + nbytes]);
        self.sealed[..HEADER_BYTES].copy_from_slice(&header);
        let shard = &cell.shards[across];
        let written = shard.write_provisional(room, chunk, &self.sealed[..HEADER_BYTES + nbytes]);
        written.map_err(|error| crate::Error::io("write a chunk to shard", shard.path(), error))?;
        Ok(true)
    }

    /// Copies a tile together; returns its bytes, or `None` if the layer has changed meanwhile.
    ///
    /// The layer is locked for one frame at a time: a camera that goes on must not wait for more.
    fn gather(&mut self, paused: &PausedLayer, tile: &Tile) -> Option<usize> {
        let shared = paused.shared;
        let shape = TileShape::new(&read(shared, paused.slot), &shared.plan, tile);
        let raw = self.raw.get_mut(..shape.bytes())?;
        for (number, plane) in raw.chunks_exact_mut(shape.plane_bytes).enumerate() {
            let layer = paused.read()?;
            gather_plane(layer.frames[shape.place(number)].as_ref(), shared, tile, &shape, plane, &mut self.unpacked);
        }
        Some(shape.bytes())
    }
}

fn read(shared: &Shared, slot: usize) -> RwLockReadGuard<'_, Layer> {
    shared.layers.slot(slot as u32).layer.read().unpoisoned()
}
