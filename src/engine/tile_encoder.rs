//! Makes chunks of tiles.

use std::time::Instant;

use super::counters::StageTimes;
use super::gather::{TileShape, gather, is_fill};
use super::layer::Layer;
use super::pump::Engine;
use super::strided::{StridedTile, in_one_piece};
use crate::codec::Encoder;
use crate::error::Result;
use crate::geometry::Tile;
use crate::stats::Stage;

pub(super) struct TileEncoder {
    pub(super) encoder: Encoder,
    /// The tile as gathered, where it is not the chunk already.
    raw: Box<[u8]>,
    /// What is unpacked before it is turned.
    unpacked: Vec<u8>,
}

impl TileEncoder {
    /// For an image's tiles, or those of others like it.
    pub(super) fn new(engine: &Engine) -> Result<Self> {
        let encoder = engine.encoder()?;
        let raw = vec![0; if encoder.copies() { 0 } else { engine.plan.shard.chunk_bytes }].into();
        Ok(Self { encoder, raw, unpacked: Vec::new() })
    }

    /// The encoder may be half-way through something: it starts over.
    pub(super) fn renew(&mut self, engine: &Engine) {
        if let Ok(encoder) = engine.encoder() {
            self.encoder = encoder;
        }
    }

    /// Makes a tile's chunk at the start of `room` and returns its bytes; `None` if it holds nothing but the fill
    /// value.
    pub(super) fn make(
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
            gather(layer, engine, tile, &shape, raw, &mut self.unpacked);
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
                gather(layer, engine, tile, &shape, raw, &mut self.unpacked);
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
