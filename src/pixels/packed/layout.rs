//! Where the bits of packed pixels lie.
//!
//! GenICam's Pixel Format Naming Convention knows one packing, whose names end in `p`: the pixels are a stream of bits,
//! the lowest bit of the first pixel in the lowest bit of the first byte. `P1 5..0` are bits 5 to 0 of the second
//! pixel; a byte's higher bits stand on the left.
//!
//! | byte | `Mono10p` | `Mono12p` | `Mono14p` |
//! |---|---|---|---|
//! | 0 | P0 7..0 | P0 7..0 | P0 7..0 |
//! | 1 | P1 5..0, P0 9..8 | P1 3..0, P0 11..8 | P1 1..0, P0 13..8 |
//! | 2 | P2 3..0, P1 9..6 | P1 11..4 | P1 9..2 |
//! | 3 | P3 1..0, P2 9..4 | | P2 3..0, P1 13..10 |
//! | 4 | P3 9..2 | | P2 11..4 |
//! | 5 | | | P3 5..0, P2 13..12 |
//! | 6 | | | P3 13..6 |
//!
//! GigE Vision had packings of its own before, whose names end in `Packed`: two pixels in three bytes, their lowest
//! bits in the one in the middle.
//!
//! | byte | `Mono10Packed` | `Mono12Packed` |
//! |---|---|---|
//! | 0 | P0 9..2 | P0 11..4 |
//! | 1 | unused 7..6, P1 1..0, unused 3..2, P0 1..0 | P1 3..0, P0 3..0 |
//! | 2 | P1 9..2 | P1 11..4 |
//!
//! `BayerXX10p` and their like, with one sample a pixel, are laid out as the `Mono` ones.

/// A packing of eight pixels in whole bytes. A pixel is one field of bits, or two where it lies in three bytes or in
/// bytes that are out of order.
pub(super) struct Layout {
    /// Bits from one pixel to the next, on average.
    pub(super) stride_bits: usize,
    /// This many pixels lie in whole bytes.
    pub(super) group: usize,
    /// Bits of a pixel's lower and upper field, and the first bit of each field of eight pixels.
    pub(super) low_bits: usize,
    pub(super) high_bits: usize,
    pub(super) low: [usize; 8],
    pub(super) high: [usize; 8],
}

/// A packing as a type, so that its code is compiled for it alone.
pub(super) trait Packed {
    const LAYOUT: Layout;
    const TABLES: Tables = Tables::of(&Self::LAYOUT);
}

pub(super) struct LsbFirst<const BITS: usize>;
pub(super) struct SharedByte<const BITS: usize>;

impl<const BITS: usize> Packed for LsbFirst<BITS> {
    const LAYOUT: Layout = {
        // Twelve bits at an even place lie in two bytes, if they begin in the upper half of the first at most.
        let low_bits = if BITS > 12 { 8 } else { BITS };
        let (mut low, mut high, mut i) = ([0; 8], [0; 8], 0);
        while i < 8 {
            (low[i], high[i]) = (i * BITS, i * BITS + low_bits);
            i += 1;
        }
        let group = if BITS.is_multiple_of(4) { 2 } else { 4 };
        Layout { stride_bits: BITS, group, low_bits, high_bits: BITS - low_bits, low, high }
    };
}

impl<const BITS: usize> Packed for SharedByte<BITS> {
    const LAYOUT: Layout = {
        let (mut low, mut high, mut i) = ([0; 8], [0; 8], 0);
        while i < 8 {
            let first = i / 2 * 24;
            (low[i], high[i]) = (first + 8 + i % 2 * 4, first + i % 2 * 16);
            i += 1;
        }
        Layout { stride_bits: 12, group: 2, low_bits: BITS - 8, high_bits: 8, low, high }
    };
}

impl Layout {
    pub(super) const fn block_bytes(&self) -> usize {
        self.stride_bits
    }

    /// Bytes up to the last one in which this many pixels have bits.
    pub(super) const fn bytes(&self, pixels: usize) -> usize {
        (pixels * self.stride_bits).div_ceil(8)
    }
}

/// How vectors find a field of eight pixels: two bytes of the block for each, and by how much these are shifted.
pub(super) struct Field {
    pub(super) bytes: [u8; 16],
    pub(super) shifts: [u16; 8],
    /// What the field is of the pixel.
    pub(super) mask: u16,
}

/// Both fields: the lower one is shifted down to bit 0, the upper one up to its place.
pub(super) struct Tables {
    pub(super) low: Field,
    pub(super) high: Field,
}

impl Tables {
    const fn of(layout: &Layout) -> Self {
        let (mut low, mut high) = (Field::empty(layout.low_bits, 0), Field::empty(layout.high_bits, layout.low_bits));
        let mut i = 0;
        while i < 8 {
            low.shifts[i] = low.find(i, layout.low[i]) as u16;
            high.shifts[i] = (layout.low_bits - high.find(i, layout.high[i]) % 8) as u16;
            i += 1;
        }
        Self { low, high }
    }
}

impl Field {
    const fn empty(bits: usize, first: usize) -> Self {
        Self { bytes: [0; 16], shifts: [0; 8], mask: ((1 << bits) - 1) << first }
    }

    /// Takes two bytes from the one with this bit on, and gives the bit's number in it. A field that ends in the first
    /// takes no second one, which may be past the end.
    const fn find(&mut self, i: usize, bit: usize) -> usize {
        let (byte, bits) = (bit / 8, self.mask.count_ones() as usize);
        self.bytes[2 * i] = byte as u8;
        self.bytes[2 * i + 1] = (byte + (bit % 8 + bits > 8) as usize) as u8;
        bit % 8
    }
}
