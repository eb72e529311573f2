//! TERSE/PROLIX, a lossless codec for diffraction and electron microscopy, as a rival: written from its description
//! (Matinyan and Abrahams, Acta Cryst. A79, 536, 2023), for unsigned pixels.
//!
//! Pixels are taken twelve at a time, and each of them is written with as many bits as the largest of the twelve needs.
//!
//! | bits before the pixels, the first one lowest | bits a pixel |
//! |---|---|
//! | 1 | as in the block before, at first 0 |
//! | 0, then `n` < 7 in 3 bits | n |
//! | 0, 7 in 3 bits, then `n` < 3 in 2 bits | 7 + n |
//! | 0, 7 in 3 bits, 3 in 2 bits, then `n` in 6 bits | 10 + n |

const BLOCK: usize = 12;
/// What fits on top of bits that fill no byte.
const BITS_AT_ONCE: u32 = 56;

/// Bytes that this many bytes of pixels need at most.
pub(crate) fn bound(bytes: usize) -> usize {
    2 * bytes + 64
}

/// Packs pixels of 1, 2 or 4 bytes, little-endian, and returns the bytes.
pub(crate) fn encode(tile: &[u8], element_bytes: usize, target: &mut [u8]) -> usize {
    match element_bytes {
        1 => terse::<1>(tile, target),
        2 => terse::<2>(tile, target),
        4 => terse::<4>(tile, target),
        _ => panic!("pixels of {element_bytes} bytes"),
    }
}

/// Unpacks what [`encode`] packed.
pub(crate) fn decode(encoded: &[u8], element_bytes: usize, tile: &mut [u8]) {
    match element_bytes {
        1 => prolix::<1>(encoded, tile),
        2 => prolix::<2>(encoded, tile),
        4 => prolix::<4>(encoded, tile),
        _ => panic!("pixels of {element_bytes} bytes"),
    }
}

fn terse<const S: usize>(tile: &[u8], target: &mut [u8]) -> usize {
    let (pixels, rest) = tile.as_chunks::<S>();
    assert!(rest.is_empty(), "whole pixels");
    let value = |pixel: &[u8; S]| {
        let mut word = [0; 8];
        word[..S].copy_from_slice(pixel);
        u64::from_le_bytes(word)
    };
    let mut bits = Bits { target, at: 0, held: 0, count: 0 };
    let mut width = 0;
    for block in pixels.chunks(BLOCK) {
        let all = block.iter().fold(0, |all, pixel| all | value(pixel));
        let needed = u64::BITS - all.leading_zeros();
        match u64::from(needed) {
            _ if needed == width => bits.put(1, 1),
            few @ 0..7 => bits.put(few << 1, 4),
            more @ 7..10 => bits.put(7 << 1 | (more - 7) << 4, 6),
            many => bits.put(7 << 1 | 3 << 4 | (many - 10) << 6, 12),
        }
        width = needed;
        if width == 0 {
            continue;
        }
        for piece in block.chunks((BITS_AT_ONCE / width) as usize) {
            let joined = piece.iter().rev().fold(0, |joined, pixel| joined << width | value(pixel));
            bits.put(joined, width * piece.len() as u32);
        }
    }
    bits.at + usize::from(bits.count > 0)
}

struct Bits<'a> {
    target: &'a mut [u8],
    at: usize,
    held: u64,
    /// Less than eight.
    count: u32,
}

impl Bits<'_> {
    #[inline(always)]
    fn put(&mut self, value: u64, bits: u32) {
        self.held |= value << self.count;
        self.count += bits;
        self.target[self.at..self.at + 8].copy_from_slice(&self.held.to_le_bytes());
        let whole = self.count / 8;
        self.at += whole as usize;
        self.held >>= 8 * whole;
        self.count %= 8;
    }
}

fn prolix<const S: usize>(encoded: &[u8], tile: &mut [u8]) {
    let (pixels, rest) = tile.as_chunks_mut::<S>();
    assert!(rest.is_empty(), "whole pixels");
    let mut at = 0;
    let mut get = |bits: u32| {
        let value = word(encoded, at / 8) >> (at % 8) & ((1 << bits) - 1);
        at += bits as usize;
        value
    };
    let mut width = 0;
    for block in pixels.chunks_mut(BLOCK) {
        if get(1) == 0 {
            width = match get(3) {
                7 => match get(2) {
                    3 => 10 + get(6),
                    more => 7 + more,
                },
                few => few,
            } as u32;
        }
        for pixel in block {
            pixel.copy_from_slice(&get(width).to_le_bytes()[..S]);
        }
    }
}

/// Eight bytes from place `at` on, zeros behind the end.
#[inline(always)]
fn word(bytes: &[u8], at: usize) -> u64 {
    if let Some(word) = bytes.get(at..at + 8) {
        return u64::from_le_bytes(word.try_into().expect("eight bytes"));
    }
    let mut word = [0; 8];
    let rest = bytes.get(at..).unwrap_or_default();
    word[..rest.len()].copy_from_slice(rest);
    u64::from_le_bytes(word)
}

/// Sees that pixels of all widths come back, and that each block takes what the description says.
pub(crate) fn check() {
    let bits_of_header = |width: u32, before: u32| match width {
        _ if width == before => 1,
        0..7 => 4,
        7..10 => 6,
        _ => 12,
    };
    for pixels in [1, 11, 12, 13, 240, 10_000_usize] {
        for most in 0..=32_u32 {
            let mut tile: Vec<u8> = Vec::new();
            let (mut expected_bits, mut before) = (0, 0);
            let values: Vec<u32> = (0..pixels as u32)
                .map(
                    |n| if most == 0 { 0 } else { n.wrapping_mul(2_654_435_761) >> (32 - most + n / 12 % most.min(3)) },
                )
                .collect();
            for block in values.chunks(BLOCK) {
                let width = 32 - block.iter().fold(0, |all, value| all | value).leading_zeros();
                expected_bits += bits_of_header(width, before) + width * block.len() as u32;
                before = width;
            }
            values.iter().for_each(|value| tile.extend(value.to_le_bytes()));
            let mut room = vec![0; bound(tile.len())];
            let bytes = encode(&tile, 4, &mut room);
            assert_eq!(bytes, expected_bits.div_ceil(8) as usize, "{pixels} pixels of {most} bits");
            let mut decoded = vec![0; tile.len()];
            decode(&room[..bytes], 4, &mut decoded);
            assert!(decoded == tile, "{pixels} pixels of {most} bits");
        }
    }
}
