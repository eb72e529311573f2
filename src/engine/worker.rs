//! A worker thread: takes tiles of complete layers, gathers, encodes and stores them.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::time::Instant;

use super::cell::ShardCell;
use super::counters::StageTimes;
use super::gather::is_fill;
use super::kits::{Kit, KitSupply};
use super::layer::{LARGE_SLOT_BYTES, Layer, LayerSlot};
use super::messages::Ticket;
use super::pump::Engine;
use super::served::{Roster, Served};
use super::strided::in_pieces;
use super::writers::{PendingWrite, WritePath};
use crate::error::{Error, Result, caught, caught_call};
use crate::format::slot_header::{HEADER_BYTES, Origin};
use crate::geometry::Tile;
use crate::shard::{Claim, PIECES_MAX, StagedSlot};
use crate::stats::Stage;
use crate::sync::{Lanes, Turn, Unpoisoned};

/// For more, a worker takes memory once more.
const KITS_EXPECTED: usize = 16;

pub(crate) struct Worker {
    index: usize,
    tickets: Arc<Lanes<Ticket>>,
    roster: Arc<Roster>,
    supply: Arc<KitSupply>,
    /// By their number.
    kits: Vec<Option<Kit>>,
}

/// What became of one tile.
enum Stored {
    /// In its slot, with this many bytes.
    Here(usize),
    /// On its way to whoever writes it.
    HandedOver,
    Empty,
}

impl Worker {
    pub(super) fn new(index: usize, tickets: Arc<Lanes<Ticket>>, roster: Arc<Roster>, supply: Arc<KitSupply>) -> Self {
        Self { index, tickets, roster, supply, kits: Vec::with_capacity(KITS_EXPECTED) }
    }

    /// Works until no more tickets come.
    pub(super) fn run(mut self) {
        loop {
            let (image, ticket) = match self.tickets.pop() {
                Turn::Lane(image) => (image, None),
                Turn::First(image, ticket) => (image, Some(ticket)),
                Turn::End => return self.tickets.end(),
            };
            let Some(of) = self.roster.get(image) else { continue };
            let Some(ticket) = ticket.or_else(|| of.engine.tickets.take()) else { continue };
            if let Err(error) = caught_call(|| self.serve(&of, ticket)) {
                // What it held is lost; other images must not be.
                of.engine.first_error.set(error);
                of.engine.is_broken.store(true, Release);
            }
        }
    }

    fn serve(&mut self, of: &Served, ticket: Ticket) {
        let engine = &of.engine;
        let Ticket::Layer(slot) = ticket else { return engine.answer() };
        let layer_slot = engine.layers.slot(slot);
        if layer_slot.take_unsent() {
            // Behind others it would keep the layer's frames, long encoded, from the ring.
            engine.tickets.push_first(Ticket::Layer(slot));
        }
        let index = self.index;
        // It was made before the shard of any layer.
        let kit = of.kit.get().and_then(|&kit| self.kit(kit)).expect("an image has a kit before it has a shard");
        TileWorker { index, kit }.share_in(engine, slot, layer_slot);
        engine.return_ticket(slot);
    }

    fn kit(&mut self, number: usize) -> Option<&mut Kit> {
        if self.kits.get(number).is_none_or(Option::is_none) {
            for (made, kit) in self.supply.fetch(self.index) {
                if self.kits.len() <= made {
                    self.kits.resize_with(made + 1, || None);
                }
                self.kits[made] = Some(kit);
            }
        }
        self.kits.get_mut(number)?.as_mut()
    }
}

/// A worker, with what it encodes the tiles of one image with.
struct TileWorker<'a> {
    index: usize,
    kit: &'a mut Kit,
}

impl TileWorker<'_> {
    /// Takes tiles of a layer until none is left.
    fn share_in(&mut self, engine: &Arc<Engine>, number: u32, slot: &LayerSlot) {
        let layer = slot.layer.read().unpoisoned();
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
                self.kit.encoder.renew(engine);
            }
            match stored {
                Ok(Stored::Here(nbytes)) => engine.count_chunk(nbytes),
                Ok(Stored::HandedOver) => {}
                Ok(Stored::Empty) => drop(engine.counters.chunks_empty.fetch_add(1, Relaxed)),
                Err(error) => {
                    slot.failed.store(true, Relaxed);
                    engine.first_error.set_about(error, Some(layer.state.first_frame));
                }
            }
        }
    }

    fn store(
        &mut self,
        engine: &Arc<Engine>,
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
        let fail = |error| Error::io("write a chunk to shard", shard.path(), error);
        self.kit.encoder.encoder.set_effort(engine.effort());
        let stored = match shard.claim(chunk).expect("a chunk belongs to one tile of one layer") {
            Claim::InPlace(mut slot) => {
                let Some(bytes) = self.kit.encoder.make(engine, layer, tile, slot.room(), times, now)? else {
                    return Ok(Stored::Empty);
                };
                slot.commit(bytes, &origin);
                shard.check_map().map_err(fail)?;
                if engine.plan.shard.slot_bytes >= LARGE_SLOT_BYTES {
                    shard.done_with(chunk..chunk + 1);
                }
                Stored::Here(bytes)
            }
            Claim::Staged(mut place) => {
                let Some((nbytes, from_ring)) = self.seal(engine, &mut place, layer, tile, &origin, now)? else {
                    return Ok(Stored::Empty);
                };
                let in_ring = from_ring.then_some(index);
                let sealed = PendingWrite { nbytes, layer: number, shard: across, claimed: place.detach(), in_ring };
                match self.kit.write_path.bring(engine, layer, cell, sealed, &mut self.kit.arena)? {
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
        engine: &Arc<Engine>,
        place: &mut StagedSlot,
        layer: &Layer,
        tile: &Tile,
        origin: &Origin,
        now: &mut Instant,
    ) -> Result<Option<(usize, bool)>> {
        let plan = &engine.plan;
        let mut pieces = [&[][..]; PIECES_MAX];
        let pieces = match self.kit.write_path {
            // Past the page cache go whole pages alone.
            WritePath::Threads(_) if plan.shard.lead_bytes == 0 => None,
            _ if !self.kit.encoder.encoder.copies() => None,
            _ => in_pieces(layer, &engine.ring, plan, tile, &mut pieces),
        };
        if let Some(pieces) = pieces {
            let empty = engine.skip_empty_chunks && pieces.iter().all(|piece| is_fill(piece, &plan.frame.fill));
            return Ok((!empty).then(|| (place.seal_pieces(self.kit.arena.open(), pieces, origin), true)));
        }
        let times = engine.worker_times(self.index);
        let scratch = self.kit.arena.open();
        let room = &mut scratch[plan.shard.lead_bytes + HEADER_BYTES..];
        let Some(nbytes) = self.kit.encoder.make(engine, layer, tile, room, times, now)? else { return Ok(None) };
        place.seal(scratch, nbytes, origin);
        Ok(Some((nbytes, false)))
    }
}
