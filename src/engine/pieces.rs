//! Where a tile lies in the ring as its chunk shall be, so that it need not be gathered.

use std::ops::Range;

use super::layer::Layer;
use crate::geometry::Tile;
use crate::plan::Plan;
use crate::ring::Ring;
use crate::shard::slot::PIECES_MAX;

/// The pieces of the ring's buffers that make up a tile, where it is whole and its rows follow each other without gaps.
pub(super) fn in_pieces<'a, 'b>(
    layer: &Layer,
    ring: &'a Ring,
    plan: &Plan,
    tile: &Tile,
    pieces: &'b mut [&'a [u8]; PIECES_MAX],
) -> Option<&'b [&'a [u8]]> {
    if let Some(whole) = in_one_piece(layer, ring, plan, tile) {
        pieces[0] = whole;
        return Some(&pieces[..1]);
    }
    let place = rows_in_buffer(layer, plan, tile)?;
    let pieces = pieces.get_mut(..layer.frames.len())?;
    for (piece, frame) in pieces.iter_mut().zip(&layer.frames) {
        *piece = &ring.pixels(frame.as_ref()?)[place.clone()];
    }
    Some(pieces)
}

/// The tile, where it lies in the ring as the chunk shall be.
pub(super) fn in_one_piece<'a>(layer: &Layer, ring: &'a Ring, plan: &Plan, tile: &Tile) -> Option<&'a [u8]> {
    let place = rows_in_buffer(layer, plan, tile)?;
    match &layer.frames[..] {
        [frame] => Some(&ring.pixels(frame.as_ref()?)[place]),
        frames => ring.pixels_in_one(frames).filter(|pixels| place.len() * frames.len() == pixels.len()),
    }
}

/// Where a tile's rows are in each buffer, if it is whole and they follow each other without gaps.
fn rows_in_buffer(layer: &Layer, plan: &Plan, tile: &Tile) -> Option<Range<usize>> {
    let [.., rows, _] = plan.chunk_shape[..] else { return None };
    if !plan.shard.rows_touch || tile.rows as u64 != rows || layer.planes_kept != plan.planes_a_stack() {
        return None;
    }
    let layout = &plan.frame.layout;
    let from = layout.offset + tile.y * layout.row_stride;
    Some(from..from + tile.rows * layout.row_stride)
}
