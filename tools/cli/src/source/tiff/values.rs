//! Values of pixels: their order of bytes, their differences, their bits.

use super::ifd::ByteOrder;
use super::page::PixelEncoding;

/// Turns numbers of `bytes` bytes round if they are not in this machine's order.
pub(crate) fn to_native(values: &mut [u8], bytes: usize, order: ByteOrder) {
    if !order.is_foreign() {
        return;
    }
    // Of a fixed length each, so that the compiler makes vectors of them.
    match bytes {
        2 => values.as_chunks_mut::<2>().0.iter_mut().for_each(|value| value.reverse()),
        4 => values.as_chunks_mut::<4>().0.iter_mut().for_each(|value| value.reverse()),
        8 => values.as_chunks_mut::<8>().0.iter_mut().for_each(|value| value.reverse()),
        _ => {}
    }
}

/// Adds up the differences of a row, of each sample for itself. (TIFF 6.0, section 14.)
pub(crate) fn add_up(row: &mut [u8], bytes: usize, samples: usize) {
    macro_rules! add_up {
        ($number:ty) => {{
            let (values, _) = row.as_chunks_mut::<{ size_of::<$number>() }>();
            for index in samples..values.len() {
                let before = <$number>::from_ne_bytes(values[index - samples]);
                values[index] = <$number>::from_ne_bytes(values[index]).wrapping_add(before).to_ne_bytes();
            }
        }};
    }
    match bytes {
        1 => add_up!(u8),
        2 => add_up!(u16),
        4 => add_up!(u32),
        _ => add_up!(u64),
    }
}

/// Undoes the predictor of floating-point numbers: the row holds the highest bytes of all values, then the next ones,
/// as differences. (Adobe Photoshop TIFF technical note 3.)
pub(crate) fn join_bytes(row: &mut [u8], bytes: usize, samples: usize, planes: &mut Vec<u8>) {
    add_up(row, 1, samples);
    planes.clear();
    planes.extend_from_slice(row);
    let count = row.len() / bytes;
    for (index, value) in row.chunks_exact_mut(bytes).enumerate() {
        for (significance, byte) in value.iter_mut().enumerate() {
            *byte = planes[significance * count + index];
        }
        if cfg!(target_endian = "little") {
            value.reverse();
        }
    }
}

/// For files whose first pixel is in a byte's lowest bit.
pub(crate) fn reverse_bits(bytes: &mut [u8]) {
    bytes.iter_mut().for_each(|byte| *byte = byte.reverse_bits());
}

/// Copies the part of a piece that is on the page to its place in a row of pieces, each value as the array has it.
pub(crate) fn place(form: &PixelEncoding, piece: &[u8], column: u64, out: &mut [u8]) {
    let size = form.shape.dtype.size();
    let samples = form.samples_together() as usize;
    let left = (column * form.piece_width) as usize;
    let values = (form.piece_width as usize).min(form.shape.width as usize - left) * samples;
    let out_rows = out.chunks_exact_mut(form.shape.width as usize * samples * size);
    for (row, out) in piece.chunks_exact(form.row_bytes() as usize).zip(out_rows) {
        let out = &mut out[left * samples * size..][..values * size];
        match (form.is_plain() || form.bits as usize == size * 8, form.bits) {
            (true, _) => out.copy_from_slice(&row[..values * size]),
            (false, 16) => widen(row, out),
            (false, bits) => unpack(row, bits as u32, size, out),
        }
    }
}

/// Half-precision numbers as single-precision ones.
pub(crate) fn widen(row: &[u8], out: &mut [u8]) {
    for (half, single) in row.as_chunks::<2>().0.iter().zip(out.as_chunks_mut::<4>().0) {
        *single = single_of_half(u16::from_ne_bytes(*half)).to_ne_bytes();
    }
}

/// IEEE 754: 1 bit sign, 5 bits exponent, 10 bits fraction. Exact, NaNs keep their payload.
fn single_of_half(half: u16) -> f32 {
    let sign = u32::from(half >> 15) << 31;
    let (exponent, fraction) = (u32::from(half >> 10 & 0x1f), u32::from(half & 0x3ff));
    match exponent {
        // The smallest half is 2^-24.
        0 => f32::from_bits((fraction as f32 * 2.0f32.powi(-24)).to_bits() | sign),
        0x1f => f32::from_bits(sign | 0x7f80_0000 | fraction << 13),
        _ => f32::from_bits(sign | (exponent + 127 - 15) << 23 | fraction << 13),
    }
}

/// Values of `bits` bits that follow each other without gaps, the highest bit first, as values of `size` bytes.
fn unpack(row: &[u8], bits: u32, size: usize, out: &mut [u8]) {
    let (mut pending, mut pending_bits) = (0u64, 0);
    let mut bytes = row.iter();
    for value in out.chunks_exact_mut(size) {
        while pending_bits < bits {
            pending = pending << 8 | u64::from(bytes.next().copied().unwrap_or(0));
            pending_bits += 8;
        }
        pending_bits -= bits;
        let number = pending >> pending_bits & ((1 << bits) - 1);
        pending &= (1 << pending_bits) - 1;
        match size {
            1 => value[0] = number as u8,
            2 => value.copy_from_slice(&(number as u16).to_ne_bytes()),
            _ => value.copy_from_slice(&(number as u32).to_ne_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_become_the_same_numbers() {
        let cases = [
            (0x0000, 0.0),
            (0x8000, -0.0),
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x3555, 0.333_251_95),
            (0x7bff, 65504.0),
            (0x0001, 2.0f32.powi(-24)),
            (0x83ff, -1023.0 * 2.0f32.powi(-24)),
            (0x0400, 2.0f32.powi(-14)),
            (0x7c00, f32::INFINITY),
            (0xfc00, f32::NEG_INFINITY),
        ];
        for (half, single) in cases {
            assert_eq!(single_of_half(half).to_bits(), f32::to_bits(single), "{half:#06x}");
        }
        assert!(single_of_half(0x7e00).is_nan());
    }

    #[test]
    fn packed_values_are_unpacked_from_the_highest_bit_on() {
        let mut twelve = [0; 4];
        unpack(&[0xab, 0xc1, 0x23], 12, 2, &mut twelve);
        assert_eq!(twelve, [0xabcu16.to_ne_bytes(), 0x123u16.to_ne_bytes()].concat()[..]);
        let mut ones = [0; 9];
        unpack(&[0b1010_0001, 0b1000_0000], 1, 1, &mut ones);
        assert_eq!(ones, [1, 0, 1, 0, 0, 0, 0, 1, 1]);
    }

    #[test]
    fn differences_add_up_within_their_sample() {
        let mut row = [1, 10, 1, 1, 255, 2];
        add_up(&mut row, 1, 2);
        assert_eq!(row, [1, 10, 2, 11, 1, 13]);
    }
}
