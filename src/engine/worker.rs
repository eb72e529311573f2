//! A worker thread: takes tiles of complete layers, gathers, encodes and stores them.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use super::arena::Arena;
use super::cell::ShardCell;
use super::counters::StageTimes;
use super::gather::{TileShape, gather, is_fill};
use super::layer::{LARGE_SLOT_BYTES, Layer, LayerSlot};
use super::messages::Ticket;
use super::pump::Engine;
use super::strided::{StridedTile, in_one_piece, in_pieces};
use super::writers::{PendingWrite, WritePath};
use crate::codec::Encoder;
use crate::error::{Error, Result, caught};
use crate::format::slot_header::{HEADER_BYTES, Origin};
use crate::geometry::Tile;
use crate::shard::{Claim, PIECES_MAX, StagedSlot};
use crate::stats::Stage;

/// One worker's own things, made once.
pub(crate) struct Worker {
    engine: Arc<Engine>,
    index: usize,
    tile_encoder: TileEncoder,
    /// Header and encoded tile, where they can't be made in place.
    arena: Arena,
    /// Who writes what is made there.
    write_path: WritePath,
}

/// What became of one tile.
enum Stored {
    /// In its slot, with so many bytes.
    Here(usize),
    /// On its way to whoever writes it.
    HandedOver,
    Empty,
}

impl Worker {
    pub(crate) fn new(engine: Arc<Engine>, index: usize, arena: Arena, write_path: WritePath) -> Result<Self> {
        let (plan, codec) = (&engine.plan, &engine.codec);
        let encoder = Encoder::new(codec, plan.frame.dtype.size(), plan.shard.chunk_bytes)?;
        let raw = vec![0; if encoder.copies() { 0 } else { plan.shard.chunk_bytes }].into();
        Ok(Self { index, tile_encoder: TileEncoder { encoder, raw }, arena, write_path, engine })
    }

    /// Works until no more tickets come.
    pub(crate) fn run(mut self) {
        let engine = self.engine.clone();
        loop {
            let ticket = engine.tickets.pop();
            if let Ticket::Sequence = ticket {
                engine.answer();
                continue;
            }
            let Ticket::Layer(slot) = ticket else {
                // Whoever sends a ticket from here on comes back for it, so none is lost; but the last layers shall
                // have as many workers as all others had.
                let done = engine.tickets.is_empty() && !engine.layers.have_unsent();
                engine.tickets.push(Ticket::End);
                if done {
                    return;
                }
                std::thread::yield_now();
                continue;
            };
            let layer_slot = engine.layers.slot(slot);
            if layer_slot.take_unsent() {
                // Behind others it would keep the layer's frames, long encoded, from the ring.
                engine.tickets.push_first(Ticket::Layer(slot));
            }
            self.share_in(&engine, slot, layer_slot);
            engine.return_ticket(slot);
        }
    }

    /// Takes tiles of a layer until none is left.
    fn share_in(&mut self, engine: &Engine, number: u32, slot: &LayerSlot) {
        let layer = slot.layer.read().unwrap_or_else(PoisonError::into_inner);
        let Some(cell) = &layer.state.cell else { return };
        let mut now = Instant::now();
        loop {
            let index = slot.next_tile.fetch_add(1, Relaxed) as usize;
            let Some(tile) = engine.plan.tiles.get(index) else { return };
            if tile.chunk == 0 && tile.shard == 0 {
                engine.counters.frames_begun.fetch_add(u64::from(layer.state.present), Relaxed);
                let waited = now.duration_since(layer.ready_at).as_nanos() as u64;
                engine.worker_times(self.index).of(Stage::Queue).record(waited);
            }
            if engine.aborting.load(Relaxed) {
                slot.failed.store(true, Relaxed);
                continue;
            }
            // A panic must not take the other tiles with it; this one stays missing.
            let stored = caught(|| self.store(engine, number, &layer, cell, index, &mut now));
            if matches!(stored, Err(Error::Panicked { .. })) {
                self.renew_encoder();
            }
            match stored {
                Ok(Stored::Here(nbytes)) => engine.count_chunk(nbytes),
                Ok(Stored::HandedOver) => {}
                Ok(Stored::Empty) => drop(engine.counters.chunks_empty.fetch_add(1, Relaxed)),
                Err(error) => slot.fail(&engine.first_error, error, layer.state.first_frame),
            }
        }
    }

    fn store(
        &mut self,
        engine: &Engine,
        number: u32,
        layer: &Layer,
        cell: &Arc<ShardCell>,
        index: usize,
        now: &mut Instant,
    ) -> Result<Stored> {
        let tile = &engine.plan.tiles[index];
        let times: &StageTimes = engine.worker_times(self.index);
        let (across, chunk) = engine.plan.slot_of(layer.state.first_chunk, tile);
        let shard = &cell.shards[across];
        let origin = engine.origin(&layer.state, cell, across, chunk);
        let fail = |error| Error::io("write a chunk to shard", &shard.key, error);
        self.tile_encoder.encoder.set_effort(engine.effort());
        let stored = match shard.claim(chunk).expect("a chunk belongs to one tile of one layer") {
            Claim::InPlace(mut slot) => {
                let Some(bytes) = self.tile_encoder.make(engine, layer, tile, slot.room(), times, now)? else {
                    return Ok(Stored::Empty);
                };
                slot.commit(bytes, &origin);
                shard.check_map().map_err(fail)?;
                if engine.plan.shard.slot_bytes >= LARGE_SLOT_BYTES {
                    shard.done_with(chunk..chunk + 1);
                }
                Stored::Here(bytes)
            }
            Claim::Staged(place) => {
                let Some((nbytes, from_ring)) = self.seal(engine, &place, layer, tile, &origin, now)? else {
                    return Ok(Stored::Empty);
                };
                let in_ring = from_ring.then_some(index);
                let sealed = PendingWrite { nbytes, layer: number, shard: across, claimed: place.detach(), in_ring };
                match self.write_path.bring(engine, layer, cell, sealed, &mut self.arena)? {
                    true => Stored::Here(nbytes),
                    false => Stored::HandedOver,
                }
            }
        };
        *now = times.of(Stage::Store).since(*now);
        Ok(stored)
    }

    /// Seals a tile's chunk in the scratch: all of it, or what stands round it where it can be written from the ring.
    /// Returns its bytes, and whether the latter; `None` if it holds nothing but the fill value.
    fn seal(
        &mut self,
        engine: &Engine,
        place: &StagedSlot,
        layer: &Layer,
        tile: &Tile,
        origin: &Origin,
        now: &mut Instant,
    ) -> Result<Option<(usize, bool)>> {
        let plan = &engine.plan;
        let mut pieces = [&[][..]; PIECES_MAX];
        let pieces = match self.write_path {
            // Past the page cache go whole pages alone.
            WritePath::Threads(_) if plan.shard.lead_bytes == 0 => None,
            _ if !self.tile_encoder.encoder.copies() => None,
            _ => in_pieces(layer, &engine.ring, plan, tile, &mut pieces),
        };
        if let Some(pieces) = pieces {
            let empty = engine.skip_empty_chunks && pieces.iter().all(|piece| is_fill(piece, &plan.frame.fill));
            return Ok((!empty).then(|| (place.seal_pieces(self.arena.open(), pieces, origin), true)));
        }
        let times = engine.worker_times(self.index);
        let scratch = self.arena.open();
        let room = &mut scratch[plan.shard.lead_bytes + HEADER_BYTES..];
        let Some(nbytes) = self.tile_encoder.make(engine, layer, tile, room, times, now)? else { return Ok(None) };
        place.seal(scratch, nbytes, origin);
        Ok(Some((nbytes, false)))
    }

    /// The encoder may be half-way through something: it starts over.
    fn renew_encoder(&mut self) {
        let plan = &self.engine.plan;
        if let Ok(encoder) = Encoder::new(&self.engine.codec, plan.frame.dtype.size(), plan.shard.chunk_bytes) {
            self.tile_encoder.encoder = encoder;
        }
    }
}

/// Makes chunks of tiles.
struct TileEncoder {
    encoder: Encoder,
    /// The tile as gathered, where it is not the chunk already.
    raw: Box<[u8]>,
}

impl TileEncoder {
    /// Makes a tile's chunk at the start of `room` and returns its bytes; `None` if it holds nothing but the fill
    /// value.
    fn make(
        &mut self,
        engine: &Engine,
        layer: &Layer,
        tile: &Tile,
        room: &mut [u8],
        times: &StageTimes,
        now: &mut Instant,
    ) -> Result<Option<usize>> {
        let (ring, plan) = (&engine.ring, &*engine.plan);
        let shape = TileShape::new(layer, plan, tile);
        let is_empty = |raw: &[u8]| engine.skip_empty_chunks && is_fill(raw, &plan.frame.fill);
        if self.encoder.copies() {
            let raw = &mut room[..shape.bytes()];
            gather(layer, engine, tile, &shape, raw);
            let empty = is_empty(raw);
            *now = times.of(Stage::Gather).since(*now);
            let bytes = (!empty).then(|| self.encoder.seal(shape.bytes(), room));
            *now = times.of(Stage::Encode).since(*now);
            return Ok(bytes);
        }
        let there = in_one_piece(layer, ring, plan, tile);
        if there.is_none()
            && self.encoder.gathers()
            && let Some(pixels) = StridedTile::new(layer, ring, plan, tile)
        {
            let empty = engine.skip_empty_chunks && pixels.rows().all(|row| is_fill(row, &plan.frame.fill));
            *now = times.of(Stage::Gather).since(*now);
            let bytes = (!empty).then(|| self.encoder.encode_from(&pixels, &mut self.raw, room)).transpose()?;
            *now = times.of(Stage::Encode).since(*now);
            return Ok(bytes);
        }
        let raw = match there {
            Some(there) => there,
            None => {
                let raw = &mut self.raw[..shape.bytes()];
                gather(layer, engine, tile, &shape, raw);
                raw
            }
        };
        let empty = is_empty(raw);
        *now = times.of(Stage::Gather).since(*now);
        if empty {
            return Ok(None);
        }
        let bytes = self.encoder.encode_part(raw, room)?;
        *now = times.of(Stage::Encode).since(*now);
        Ok(Some(bytes))
    }
}
