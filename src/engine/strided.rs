//! Where a tile lies in the ring as its chunk shall be, so that it need not be gathered.

use std::ops::Range;

use super::layer::Layer;
use crate::codec::TileSource;
use crate::geometry::Tile;
use crate::plan::Plan;
use crate::ring::{Frame, Ring};
use crate::shard::PIECES_MAX;

/// The pieces of the ring's buffers that make up a tile, where it is whole and its rows follow each other without gaps.
pub(super) fn in_pieces<'a, 'b>(
    layer: &'a Layer,
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
pub(super) fn in_one_piece<'a>(layer: &'a Layer, ring: &'a Ring, plan: &Plan, tile: &Tile) -> Option<&'a [u8]> {
    let place = rows_in_buffer(layer, plan, tile)?;
    match &layer.frames[..] {
        [frame] => Some(&ring.pixels(frame.as_ref()?)[place]),
        frames => ring.pixels_in_one(frames).filter(|pixels| place.len() * frames.len() == pixels.len()),
    }
}

/// Where a tile's rows are in each buffer, if it is whole and they follow each other without gaps.
fn rows_in_buffer(layer: &Layer, plan: &Plan, tile: &Tile) -> Option<Range<usize>> {
    let [.., rows, _] = plan.array.layout.chunk_shape[..] else { return None };
    if !plan.shard.rows_touch || tile.rows as u64 != rows || layer.planes_kept != plan.planes_a_stack() {
        return None;
    }
    let layout = &plan.frame.layout;
    let from = layout.offset + tile.y * layout.row_stride;
    Some(from..from + tile.rows * layout.row_stride)
}

/// A whole tile, with its rows where they lie in the ring.
pub(super) struct StridedTile<'a> {
    frames: &'a [Option<Frame>],
    ring: &'a Ring,
    /// Of the tile's first row in each buffer.
    offset: usize,
    row_stride: usize,
    /// Bytes that follow each other without gaps, and how many times in a frame.
    row_bytes: usize,
    rows: usize,
}

impl<'a> StridedTile<'a> {
    /// `None` if a part of the tile lies nowhere, because its frame is missing or because it reaches over the frame's
    /// edge.
    pub(super) fn new(layer: &'a Layer, ring: &'a Ring, plan: &Plan, tile: &Tile) -> Option<Self> {
        let [.., rows, columns] = plan.array.layout.chunk_shape[..] else { return None };
        let is_whole = plan.frame.camera.is_none()
            && [tile.rows as u64, tile.columns as u64] == [rows, columns]
            && layer.planes_kept == plan.planes_a_stack()
            && layer.frames.iter().all(Option::is_some);
        let layout = &plan.frame.layout;
        let element = plan.frame.dtype.size();
        let offset = layout.offset + tile.y * layout.row_stride + tile.x * element;
        let row_bytes = tile.columns * element;
        let rows_touch = layout.row_stride == row_bytes;
        let (row_bytes, rows) = if rows_touch { (tile.rows * row_bytes, 1) } else { (row_bytes, tile.rows) };
        is_whole.then_some(Self { frames: &layer.frames, ring, offset, row_stride: layout.row_stride, row_bytes, rows })
    }

    /// Frame, row and column of the tile's byte `at`.
    fn place(&self, at: usize) -> (usize, usize, usize) {
        let (row, column) = (at / self.row_bytes, at % self.row_bytes);
        (row / self.rows, row % self.rows, column)
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = &[u8]> {
        let row = |pixels: &'a [u8], row| &pixels[self.offset + row * self.row_stride..][..self.row_bytes];
        let rows = move |frame| (0..self.rows).map(move |number| row(self.ring.pixels(frame), number));
        self.frames.iter().flatten().flat_map(rows)
    }
}

impl TileSource for StridedTile<'_> {
    fn bytes(&self) -> usize {
        self.frames.len() * self.rows * self.row_bytes
    }

    fn show(&self, range: Range<usize>, to: &mut dyn FnMut(&[u8])) {
        let (frame, mut row, mut column) = self.place(range.start);
        let mut left = range.len();
        for pixels in self.frames[frame..].iter().flatten().map(|frame| self.ring.pixels(frame)) {
            while row < self.rows {
                if left == 0 {
                    return;
                }
                let bytes = left.min(self.row_bytes - column);
                to(&pixels[self.offset + row * self.row_stride + column..][..bytes]);
                (row, column, left) = (row + 1, 0, left - bytes);
            }
            row = 0;
        }
    }

    fn in_one(&self, range: Range<usize>) -> Option<&[u8]> {
        let (frame, row, column) = self.place(range.start);
        let frame = self.frames.get(frame)?.as_ref()?;
        let fits = column + range.len() <= self.row_bytes;
        fits.then(|| &self.ring.pixels(frame)[self.offset + row * self.row_stride + column..][..range.len()])
    }
}
