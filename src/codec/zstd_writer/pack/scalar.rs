//! One stream, without vectors.

use crate::codec::zstd_writer::huffman::Code;

/// Streams that are packed at once, as many as two blocks have.
pub(in crate::codec::zstd_writer) const STREAMS_MAX: usize = 8;

/// Bytes that one step of vectors takes from each stream.
pub(super) const LANE: usize = 8;

/// A stream as far as it is packed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Packed {
    /// The bits that are not yet written, at the top.
    pub(super) held: u64,
    /// How many, less than eight.
    pub(super) count: u64,
    /// The bytes written.
    pub(super) at: usize,
}

impl Packed {
    /// Packs bytes from the last to the first, as a decoder reads bits from the end.
    ///
    /// An entry has its code at the top and its length in the lowest bits, which shifts take as they are. The lengths
    /// get into what is held, far below the bits that are valid, and fall off there.
    #[inline(always)]
    pub(super) fn more(mut self, bytes: &[u8], code: &Code, target: &mut [u8]) -> Self {
        let entries = &code.entries;
        let entry = |byte: u8| entries[usize::from(byte)];
        let fours = bytes.rchunks_exact(4);
        let first = fours.remainder();
        for four in fours {
            let [d, c, b, a] = [entry(four[0]), entry(four[1]), entry(four[2]), entry(four[3])];
            // Two and two, then all: each of these waits for less than one after the other would.
            let (ab_bits, cd_bits) = (a.wrapping_add(b), c.wrapping_add(d));
            let ab = a.wrapping_shr(b as u32) | b;
            let cd = c.wrapping_shr(d as u32) | d;
            let four_bits = ab_bits.wrapping_add(cd_bits);
            let four = ab.wrapping_shr(cd_bits as u32) | cd;
            self.push(four, four_bits & 0xFF, target);
        }
        for byte in first.iter().rev() {
            self.push(entry(*byte), entry(*byte) & 0xFF, target);
        }
        self
    }

    /// Puts up to 44 bits, from the top of `bits`.
    #[inline(always)]
    fn push(&mut self, bits: u64, count: u64, target: &mut [u8]) {
        self.held = self.held.wrapping_shr(count as u32) | bits;
        self.count += count;
        let valid = self.held.wrapping_shr(64 - self.count as u32);
        target[self.at..self.at + 8].copy_from_slice(&valid.to_le_bytes());
        self.at += (self.count / 8) as usize;
        self.count %= 8;
    }

    /// Ends the stream with the bit that tells a decoder where it begins.
    pub(super) fn finish(mut self, target: &mut [u8]) -> usize {
        self.push(1 << 63, 1, target);
        self.at + usize::from(self.count > 0)
    }
}
