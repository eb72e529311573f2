//! Copies tiles together from the frames of a layer.

use super::layer::Layer;
use super::shared::Shared;
use super::unpack::gather_camera;
use crate::geometry::Tile;
use crate::plan::Plan;
use crate::processor::prefetch;
use crate::ring::Frame;

/// This many rows before its turn a row is asked for: the processor itself foresees only what follows within a page,
/// and each row of a tile lies on another one.
const PREFETCHED_ROWS: usize = 3;
/// Shorter rows gain nothing.
const PREFETCHED_ROW_BYTES_MIN: usize = 1 << 10;

/// How much of a chunk a tile makes: all, but where chunks end with the array.
pub(super) struct TileShape {
    /// Planes kept of each stack, and how many a stack has.
    kept: usize,
    stack: usize,
    planes: usize,
    pub(super) plane_bytes: usize,
    row_bytes: usize,
}

impl TileShape {
    pub(super) fn new(layer: &Layer, plan: &Plan, tile: &Tile) -> Self {
        let element = plan.frame.dtype.size();
        let [.., rows, columns] = plan.array.layout.chunk_shape[..] else {
            unreachable!("an array has rows and columns")
        };
        let cut = plan.shard.cut_at_edge;
        let rows = if cut { tile.rows } else { rows as usize };
        let row_bytes = element * if cut { tile.columns } else { columns as usize };
        let (kept, stack) = (layer.planes_kept as usize, plan.planes_a_stack() as usize);
        Self { kept, stack, planes: layer.frames.len() / stack * kept, plane_bytes: rows * row_bytes, row_bytes }
    }

    pub(super) fn bytes(&self) -> usize {
        self.planes * self.plane_bytes
    }

    /// Where the frame of a plane stands among the layer's.
    pub(super) fn place(&self, plane: usize) -> usize {
        plane / self.kept * self.stack + plane % self.kept
    }
}

/// Copies a tile together from its frames: first frame first, each row by row.
///
/// What no frame covers, because it never came or because the chunk reaches over the array's edge, is the fill value.
pub(super) fn gather(
    layer: &Layer,
    shared: &Shared,
    tile: &Tile,
    shape: &TileShape,
    raw: &mut [u8],
    unpacked: &mut Vec<u8>,
) {
    for (number, plane) in raw.chunks_exact_mut(shape.plane_bytes).enumerate().take(shape.planes) {
        gather_plane(layer.frames[shape.place(number)].as_ref(), shared, tile, shape, plane, unpacked);
    }
}

/// Copies a tile's part of one frame. `unpacked`: memory for what is unpacked before it is turned.
pub(super) fn gather_plane(
    source: Option<&Frame>,
    shared: &Shared,
    tile: &Tile,
    shape: &TileShape,
    plane: &mut [u8],
    unpacked: &mut Vec<u8>,
) {
    let frame = &shared.plan.frame;
    let Some(source) = source else { return fill(plane, &frame.fill) };
    let element = frame.dtype.size();
    let chunk_row_bytes = shape.row_bytes;
    let tile_row_bytes = tile.columns * element;
    let pixels = shared.ring.pixels(source);
    let (rows, below) = plane.split_at_mut(tile.rows * chunk_row_bytes);
    if let Some(camera) = &frame.camera {
        gather_camera(camera, frame, pixels, tile, rows, chunk_row_bytes, unpacked);
        rows.chunks_exact_mut(chunk_row_bytes).for_each(|row| fill(&mut row[tile_row_bytes..], &frame.fill));
        return fill(below, &frame.fill);
    }
    let mut at = frame.layout.offset + tile.y * frame.layout.row_stride + tile.x * element;
    if frame.layout.row_stride == chunk_row_bytes && tile_row_bytes == chunk_row_bytes {
        rows.copy_from_slice(&pixels[at..at + rows.len()]);
    } else {
        let ahead = PREFETCHED_ROWS * frame.layout.row_stride;
        for row in rows.chunks_exact_mut(chunk_row_bytes) {
            if tile_row_bytes >= PREFETCHED_ROW_BYTES_MIN
                && let Some(row_ahead) = pixels.get(at + ahead..at + ahead + tile_row_bytes)
            {
                prefetch(row_ahead);
            }
            let (inside, beyond) = row.split_at_mut(tile_row_bytes);
            inside.copy_from_slice(&pixels[at..at + tile_row_bytes]);
            fill(beyond, &frame.fill);
            at += frame.layout.row_stride;
        }
    }
    fill(below, &frame.fill);
}

fn fill(bytes: &mut [u8], element: &[u8]) {
    bytes.chunks_exact_mut(element.len()).for_each(|place| place.copy_from_slice(element));
}

/// Whether a tile holds nothing but the fill value.
pub(super) fn is_fill(raw: &[u8], element: &[u8]) -> bool {
    // If it starts with the element and equals itself one element on, it is that element throughout. On real frames the
    // comparison ends within the first bytes.
    raw.starts_with(element) && raw[element.len()..] == raw[..raw.len() - element.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_fill_value_throughout_is_empty() {
        assert!(is_fill(&[0; 9], &[0]));
        assert!(is_fill(&[1, 0, 1, 0, 1, 0], &[1, 0]));
        assert!(!is_fill(&[1, 0, 1, 0, 1, 1], &[1, 0]));
        assert!(!is_fill(&[0, 0, 0, 0, 0, 1], &[0, 0]));
        assert!(!is_fill(&[5, 5], &[0]));
    }
}
