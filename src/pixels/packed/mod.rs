//! Unpacks 10 to 16 bits a pixel to `u16`.

#![allow(unsafe_code)]

mod layout;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(test)]
mod tests;
mod words;
#[cfg(target_arch = "x86_64")]
mod x86;

use layout::{LsbFirst, Packed, SharedByte};

use crate::processor::instructions;
#[cfg(target_arch = "x86_64")]
use crate::processor::{has_avx2, x86::has_avx512_vbmi};

instructions! {
    Avx2 if has_avx2(),
    /// AVX-512 with bytes and words, and with the permutation of bytes (VBMI).
    Avx512 if has_avx512_vbmi(),
}

/// How pixels lie in a camera's bytes, by the names of GenICam's Pixel Format Naming Convention; `layout.rs` has the
/// maps of their bytes. Bayer patterns with one sample a pixel are packed in the same ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Packing {
    Mono10p,
    Mono12p,
    Mono14p,
    Mono10Packed,
    Mono12Packed,
    /// Two bytes a pixel, of whose bits the lowest are unused: 4 where 12 bits are aligned to the left. 0 to 15.
    Mono16 {
        big_endian: bool,
        unused_low_bits: u32,
    },
}

/// Unpacks pixels of one packing, with the fastest code that this machine runs.
#[derive(Debug, Clone, Copy)]
pub struct Unpacker {
    packing: Packing,
    instructions: Instructions,
}

impl Unpacker {
    /// # Panics
    /// When 16 bits or more are to be unused.
    pub fn new(packing: Packing) -> Self {
        Self::with(packing, Instructions::detect())
    }

    fn with(packing: Packing, instructions: Instructions) -> Self {
        if let Packing::Mono16 { unused_low_bits, .. } = packing {
            assert!(unused_low_bits < 16, "{unused_low_bits} of 16 bits unused, of which at most 15 can be");
        }
        Self { packing, instructions }
    }

    /// Bytes that hold this many pixels, up to the last one that does.
    pub fn packed_bytes(&self, pixels: usize) -> usize {
        match self.packing {
            Packing::Mono10p => LsbFirst::<10>::LAYOUT.bytes(pixels),
            Packing::Mono12p => LsbFirst::<12>::LAYOUT.bytes(pixels),
            Packing::Mono14p => LsbFirst::<14>::LAYOUT.bytes(pixels),
            Packing::Mono10Packed => SharedByte::<10>::LAYOUT.bytes(pixels),
            Packing::Mono12Packed => SharedByte::<12>::LAYOUT.bytes(pixels),
            Packing::Mono16 { .. } => 2 * pixels,
        }
    }

    /// Unpacks as many pixels as `out` has, from pixel number `first` of `packed` on. It need not be the first of a
    /// group that lies in whole bytes.
    ///
    /// Cameras leave no gap between rows, unless told to pad lines: with an odd width, the second row of `Mono12p` or
    /// `Mono12Packed` begins within a byte or a group. Then pass the whole frame, and `y * width + x`. Where each row
    /// begins on a byte of its own, pass the frame from that byte on, and `x`.
    ///
    /// # Panics
    /// When `packed` ends before the last of these pixels.
    pub fn unpack(&self, packed: &[u8], first: usize, out: &mut [u16]) {
        let (needed, there) = (self.packed_bytes(first + out.len()), packed.len());
        assert!(there >= needed, "{there} bytes, where pixels {first} to {} need {needed}", first + out.len());
        match self.packing {
            Packing::Mono10p => self.unpack_as::<LsbFirst<10>>(packed, first, out),
            Packing::Mono12p => self.unpack_as::<LsbFirst<12>>(packed, first, out),
            Packing::Mono14p => self.unpack_as::<LsbFirst<14>>(packed, first, out),
            Packing::Mono10Packed => self.unpack_as::<SharedByte<10>>(packed, first, out),
            Packing::Mono12Packed => self.unpack_as::<SharedByte<12>>(packed, first, out),
            Packing::Mono16 { big_endian, unused_low_bits } => {
                self.shift_down(&packed[2 * first..], big_endian, unused_low_bits, out);
            }
        }
    }

    fn shift_down(&self, words: &[u8], big_endian: bool, unused_low_bits: u32, out: &mut [u16]) {
        match self.instructions {
            // SAFETY: only made by `detect`, which found that the processor has AVX2 with both.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 | Instructions::Avx512 => unsafe {
                x86::shift_down_avx2(words, big_endian, unused_low_bits, out);
            },
            _ => words::shift_down(words, big_endian, unused_low_bits, out),
        }
    }

    /// One by one up to the next group, then by vectors, and one by one what these leave.
    fn unpack_as<P: Packed>(&self, packed: &[u8], first: usize, out: &mut [u16]) {
        let group = const { P::LAYOUT.group };
        let head = (first.next_multiple_of(group) - first).min(out.len());
        one_by_one::<P>(packed, first, &mut out[..head]);
        let (groups, rest) = (&packed[P::LAYOUT.bytes(first + head)..], &mut out[head..]);
        let done = match self.instructions {
            Instructions::Scalar => 0,
            #[cfg(target_arch = "aarch64")]
            Instructions::Neon => neon::unpack::<P>(groups, rest),
            // SAFETY: only made by `detect`, which found that the processor has them.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => unsafe { x86::unpack_avx2::<P>(groups, rest) },
            // SAFETY: as above; there are as many bytes as the pixels need.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => unsafe { x86::unpack_avx512::<P>(groups, rest) },
        };
        one_by_one::<P>(groups, done, &mut rest[done..]);
    }
}

fn one_by_one<P: Packed>(packed: &[u8], first: usize, out: &mut [u16]) {
    let layout = const { &P::LAYOUT };
    for (number, place) in (first..).zip(out) {
        let block = &packed[number / 8 * layout.block_bytes()..];
        let field = |first: usize, bits: usize| {
            let second = if first % 8 + bits > 8 { block[first / 8 + 1] } else { 0 };
            u16::from_le_bytes([block[first / 8], second]) >> (first % 8) & ((1 << bits) - 1)
        };
        *place = field(layout.low[number % 8], layout.low_bits);
        if layout.high_bits > 0 {
            *place |= field(layout.high[number % 8], layout.high_bits) << layout.low_bits;
        }
    }
}
