//! Some pixels of the first frames, for the windows that viewers open channels with.

use super::layer::Layer;
use super::shared::Shared;
use super::unpack::gather_rows;
use crate::ome::contrast::Contrast;

/// Rows of a frame that are looked at, and pixels of each: all, in frames of up to this many.
const ROWS: usize = 256;
const ROW_PIXELS: usize = 256;

/// Looks at those frames of a layer that are wanted.
pub(super) fn look(contrast: &Contrast, shared: &Shared, layer: &Layer) {
    let layers = &shared.plan.layers;
    for number in layer.numbers(layers) {
        let Some(channel) = contrast.wants(&shared.plan.order.position(number)) else { continue };
        let place = layers.locate(number).place as usize;
        if let Some(frame) = &layer.frames[place] {
            contrast.add(channel, sample(shared, shared.ring.pixels(frame)));
        }
    }
}

/// Pixels from all over a frame.
fn sample(shared: &Shared, buffer: &[u8]) -> Vec<f64> {
    let (frame, dtype) = (&shared.plan.frame, shared.plan.frame.dtype);
    let rows = frame.array_bytes / frame.array_row_bytes;
    let columns = frame.array_row_bytes / dtype.size();
    let mut row_bytes = vec![0; frame.array_row_bytes];
    let mut values = Vec::with_capacity(rows.min(ROWS) * columns.min(ROW_PIXELS));
    for row in (0..rows).step_by(rows.div_ceil(ROWS)) {
        gather_rows(frame, buffer, row, &mut row_bytes);
        let elements = row_bytes.chunks_exact(dtype.size()).step_by(columns.div_ceil(ROW_PIXELS));
        values.extend(elements.map(|element| dtype.value(element)));
    }
    values
}
