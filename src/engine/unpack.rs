//! A tile's part of a frame that does not lie in its buffer as in the array: packed by the camera, among other
//! samples of its pixels, or to be turned.

use crate::config::FrameLayout;
use crate::dtype::Element;
use crate::geometry::Tile;
use crate::pixels::{Interleaved, Plane, Unpacker};
use crate::plan::{CameraFrame, FramePlan};

/// Pixels that are unpacked at once to where numbers can't lie.
const PIXELS_AT_ONCE: usize = 512;

/// Copies a tile's pixels from a frame's buffer to `out`, whose rows lie `stride` bytes apart. `unpacked`: memory for
/// the tile before it is turned.
pub(super) fn gather_camera(
    camera: &CameraFrame,
    frame: &FramePlan,
    buffer: &[u8],
    tile: &Tile,
    out: &mut [u8],
    stride: usize,
    unpacked: &mut Vec<u8>,
) {
    let (at, counts) = ([tile.y, tile.x], [tile.rows, tile.columns]);
    let (layout, element) = (&frame.layout, frame.dtype.size());
    if let Some(interleaved) = camera.interleaved {
        return gather_samples((camera, interleaved), frame, buffer, tile, out, stride, unpacked);
    }
    let Some(unpacker) = &camera.unpacker else {
        let pixels = &buffer[layout.offset..];
        let image = Plane { pixels, row_stride: layout.row_stride, rows: camera.rows, columns: camera.columns };
        return camera.orientation.tile(image, element, at, counts, out, stride);
    };
    let ([y, x], [rows, columns]) = camera.orientation.source([camera.rows, camera.columns], at, counts);
    if camera.orientation == Default::default() {
        return unpack(camera, unpacker, layout, buffer, [y, x], columns, out.chunks_mut(stride).take(rows));
    }
    let row_stride = columns * element;
    unpacked.resize(rows * row_stride, 0);
    unpack(camera, unpacker, layout, buffer, [y, x], columns, unpacked.chunks_mut(row_stride));
    let image = Plane { pixels: unpacked, row_stride, rows, columns };
    camera.orientation.tile(image, element, [0, 0], counts, out, stride);
}

/// The same of pixels with several samples. The first of those that are wanted is that with which `buffer` begins.
fn gather_samples(
    (camera, interleaved): (&CameraFrame, Interleaved),
    frame: &FramePlan,
    buffer: &[u8],
    tile: &Tile,
    out: &mut [u8],
    stride: usize,
    gathered: &mut Vec<u8>,
) {
    let (at, counts) = ([tile.y, tile.x], [tile.rows, tile.columns]);
    let (layout, element) = (&frame.layout, frame.dtype.size());
    let pixel = interleaved.samples() * element;
    let ([y, x], [rows, columns]) = camera.orientation.source([camera.rows, camera.columns], at, counts);
    let row_stride = columns * element;
    let gather_row = |row: usize, out: &mut [u8]| {
        let pixels = &buffer[layout.offset + (y + row) * layout.row_stride + x * pixel..];
        // The buffer may end with the last sample.
        interleaved.first(element, &pixels[..(columns - 1) * pixel + element], &mut out[..row_stride]);
    };
    if camera.orientation == Default::default() {
        return out.chunks_mut(stride).take(rows).enumerate().for_each(|(row, out)| gather_row(row, out));
    }
    gathered.resize(rows * row_stride, 0);
    gathered.chunks_mut(row_stride).enumerate().for_each(|(row, out)| gather_row(row, out));
    let image = Plane { pixels: gathered, row_stride, rows, columns };
    camera.orientation.tile(image, element, [0, 0], counts, out, stride);
}

/// Copies whole rows of a frame from its buffer to `out`, as the array has them, from row `first` on, without gaps.
pub(crate) fn gather_rows(frame: &FramePlan, buffer: &[u8], first: usize, out: &mut [u8]) {
    let (layout, row_bytes) = (&frame.layout, frame.array_row_bytes);
    let Some(camera) = &frame.camera else {
        for (row, to) in (first..).zip(out.chunks_exact_mut(row_bytes)) {
            to.copy_from_slice(&buffer[layout.offset + row * layout.row_stride..][..row_bytes]);
        }
        return;
    };
    let (rows, columns) = (out.len() / row_bytes, row_bytes / frame.dtype.size());
    let tile = Tile { y: first, x: 0, rows, columns, shard: 0, chunk: 0 };
    gather_camera(camera, frame, buffer, &tile, out, row_bytes, &mut Vec::new());
}

/// Unpacks `columns` pixels of each row from row `y` and column `x` on.
fn unpack<'a>(
    camera: &CameraFrame,
    unpacker: &Unpacker,
    layout: &FrameLayout,
    buffer: &[u8],
    [y, x]: [usize; 2],
    columns: usize,
    out: impl Iterator<Item = &'a mut [u8]>,
) {
    for (row, out) in (y..).zip(out) {
        let (start, first) = match camera.rows_apart {
            true => (layout.offset + row * layout.row_stride, x),
            false => (layout.offset, row * camera.columns + x),
        };
        let (packed, out) = (&buffer[start..], &mut out[..columns * 2]);
        let numbers = u16::of_bytes(out);
        if numbers.len() == columns {
            unpacker.unpack(packed, first, numbers);
            continue;
        }
        // A chunk may begin at any byte.
        let mut numbers = [0; PIXELS_AT_ONCE];
        for (out, first) in out.chunks_mut(2 * PIXELS_AT_ONCE).zip((first..).step_by(PIXELS_AT_ONCE)) {
            let numbers = &mut numbers[..out.len() / 2];
            unpacker.unpack(packed, first, numbers);
            out.as_chunks_mut().0.iter_mut().zip(numbers).for_each(|(out, number)| *out = number.to_ne_bytes());
        }
    }
}
