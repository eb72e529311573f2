//! The shuffles without vectors: for every machine, and for the few elements that fill no vector.

/// Byte shuffle of elements of `S` bytes.
pub(super) fn bytes<const S: usize>(block: &[u8], out: &mut [u8]) {
    bytes_from::<S>(block, out, 0);
}

/// Bit shuffle of elements of `S` bytes, a multiple of 8 of them.
pub(super) fn bits<const S: usize>(block: &[u8], out: &mut [u8]) {
    bits_from::<S>(block, out, 0);
}

/// Byte shuffle of the elements from number `first` on.
pub(super) fn bytes_from<const S: usize>(block: &[u8], out: &mut [u8], first: usize) {
    let elements = block.len() / S;
    for i in first..elements {
        for j in 0..S {
            out[j * elements + i] = block[i * S + j];
        }
    }
}

/// Bit shuffle of the elements from number `first` on, a multiple of 8.
pub(super) fn bits_from<const S: usize>(block: &[u8], out: &mut [u8], first: usize) {
    let row_bytes = block.len() / S / 8;
    for (k, eight) in block.chunks_exact(8 * S).enumerate().skip(first / 8) {
        for j in 0..S {
            let column = std::array::from_fn(|i| eight[i * S + j]);
            for (bit, byte) in transpose_8x8(column).into_iter().enumerate() {
                out[(8 * j + bit) * row_bytes + k] = byte;
            }
        }
    }
}

/// Byte `b` of the result holds bit `b` of each byte, the first byte's in the lowest place.
///
/// Swaps the off-diagonal quarters of the 8 × 8 bit matrix, then of its 4 × 4 quarters, then of their 2 × 2 quarters.
fn transpose_8x8(rows: [u8; 8]) -> [u8; 8] {
    let mut x = u64::from_le_bytes(rows);
    for (shift, mask) in [(7, 0x00AA_00AA_00AA_00AA), (14, 0x0000_CCCC_0000_CCCC), (28, 0x0000_0000_F0F0_F0F0)] {
        let swapped = (x ^ (x >> shift)) & mask;
        x ^= swapped ^ (swapped << shift);
    }
    x.to_le_bytes()
}
