//! The description of a Huffman code (RFC 8878, section 4.2.1.1): a weight for each byte but the last that has a code.

use super::bits::BackwardBits;
use super::fse;

/// The longest code that a decoder takes for literals.
pub(super) const BITS_MAX: u32 = 11;

/// The number of bits of each byte's code; 0: it has none.
pub(super) type Lengths = [u8; 256];

/// The most bytes that the description of a code takes: its length, and at most 127 bytes or 128 weights.
pub(super) const DESCRIPTION_BYTES_MAX: usize = 1 + 127;

/// States of the table by which weights are compressed; more than 6 bits are not allowed.
const TABLE_LOG: u32 = 6;
/// Above it, the first byte says how many weights follow as they are.
const DIRECT_BASE: usize = 127;
/// This many weights can be written as they are.
const DIRECT_WEIGHTS_MAX: usize = 128;
/// A first byte below this is the length of compressed weights.
const COMPRESSED_BYTES_MAX: usize = 127;

/// Writes the description of a complete code whose longest codes have `longest` bits, and returns its bytes. `None`:
/// the format has no way to say it, as with 250 weights that are all the same.
pub(super) fn describe(lengths: &Lengths, longest: u32, target: &mut [u8; DESCRIPTION_BYTES_MAX]) -> Option<usize> {
    let last = lengths.iter().rposition(|length| *length > 0)?;
    let mut weights = [0_u8; 256];
    for (weight, length) in weights.iter_mut().zip(lengths) {
        *weight = if *length > 0 { longest as u8 + 1 - length } else { 0 };
    }
    let weights = &weights[..last];
    let direct_bytes = if last <= DIRECT_WEIGHTS_MAX { last.div_ceil(2) } else { usize::MAX };
    let limit = COMPRESSED_BYTES_MAX.min(direct_bytes - 1);
    if let Some(bytes) = compress(weights, &mut target[1..1 + limit]) {
        target[0] = bytes as u8;
        return Some(1 + bytes);
    }
    if last > DIRECT_WEIGHTS_MAX {
        return None;
    }
    target[0] = (DIRECT_BASE + last) as u8;
    for (byte, pair) in target[1..].iter_mut().zip(weights.chunks(2)) {
        *byte = pair[0] << 4 | pair.get(1).unwrap_or(&0);
    }
    Some(1 + direct_bytes)
}

/// Writes the weights by two states in turns. `None`: they are too few, all the same, or become too long.
fn compress(weights: &[u8], target: &mut [u8]) -> Option<usize> {
    if weights.len() < 2 {
        return None;
    }
    let mut counts = [0_u32; BITS_MAX as usize + 1];
    for weight in weights {
        counts[usize::from(*weight)] += 1;
    }
    let shares = fse::shares(&counts, TABLE_LOG)?;
    let described = fse::describe(TABLE_LOG, &shares, target)?;
    let table = fse::Table::new(TABLE_LOG, &shares);
    let mut bits = BackwardBits::new(&mut target[described..]);
    // The first state reads the weights of even places. A decoder knows no number of weights: it stops when the bits
    // are used up, and takes one more weight from the state that was not read last.
    let (rest, last) = weights.split_at(weights.len() - 2);
    let mut states = [table.start(last[0]), table.start(last[1])];
    if weights.len() % 2 == 1 {
        states.swap(0, 1);
    }
    for (place, weight) in rest.iter().enumerate().rev() {
        table.encode(&mut states[place % 2], *weight, &mut bits);
    }
    table.end(states[1], &mut bits);
    table.end(states[0], &mut bits);
    Some(described + bits.finish()?)
}
