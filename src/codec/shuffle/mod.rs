//! Byte shuffle and bit shuffle of one block, as Blosc 1 lays them out.
//!
//! With `n` elements of `s` bytes, a byte-shuffled block is an `s` × `n` matrix of bytes: row `j` holds byte `j` of
//! every element. A bit-shuffled block is an `8s` × `n/8` matrix of bytes: row `8j + b` holds bit `b` of byte `j` of
//! every element, the first element in the lowest bit of the first byte. Bytes beyond the last whole element follow as
//! they are, and so does a whole block whose number of elements is not a multiple of 8 under the bit shuffle.
//!
//! The scalar functions are the definition; the vector ones are chosen at run time, because a build for every x86-64
//! machine may assume no more than SSE2 while the machine that records nearly always has more. Every AArch64 has NEON.

mod instructions;
#[cfg(target_arch = "aarch64")]
mod neon;
mod scalar;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::config::Shuffle;
use instructions::{Instructions, Transpose, by_size};

/// One shuffle for one element size, with the fastest code that this machine runs.
#[derive(Clone, Copy)]
pub(crate) struct Shuffler {
    transpose: Option<Transpose>,
    element_bytes: usize,
    multiple: usize,
}

impl Shuffler {
    /// The shuffle that a reader will undo for this element size. Single bytes are never byte-shuffled.
    pub(crate) fn new(shuffle: Shuffle, element_bytes: usize) -> Self {
        Self::with(shuffle, element_bytes, Instructions::detect())
    }

    fn with(shuffle: Shuffle, element_bytes: usize, instructions: Instructions) -> Self {
        let transpose = match shuffle {
            Shuffle::None => None,
            Shuffle::Byte if element_bytes == 1 => None,
            shuffle => transpose(shuffle == Shuffle::Bit, element_bytes, instructions),
        };
        Self { transpose, element_bytes, multiple: if shuffle == Shuffle::Bit { 8 } else { 1 } }
    }

    /// Whether blocks stay as they are, so that the copy through [`run`](Self::run) can be spared.
    pub(crate) fn is_identity(&self) -> bool {
        self.transpose.is_none()
    }

    /// Shuffles `block` into `out`, which is just as long.
    pub(crate) fn run(&self, block: &[u8], out: &mut [u8]) {
        assert_eq!(block.len(), out.len(), "a shuffled block is as long as the block");
        let elements = block.len() / self.element_bytes;
        let Some(transpose) = self.transpose.filter(|_| elements.is_multiple_of(self.multiple)) else {
            out.copy_from_slice(block);
            return;
        };
        let whole = elements * self.element_bytes;
        transpose(&block[..whole], &mut out[..whole]);
        out[whole..].copy_from_slice(&block[whole..]);
    }
}

/// The bit shuffle or the byte shuffle for elements of this size.
fn transpose(bits: bool, element_bytes: usize, instructions: Instructions) -> Option<Transpose> {
    match instructions {
        Instructions::Scalar if bits => by_size!(element_bytes, scalar::bits),
        Instructions::Scalar => by_size!(element_bytes, scalar::bytes),
        #[cfg(target_arch = "aarch64")]
        Instructions::Neon if bits => by_size!(element_bytes, neon::bits),
        #[cfg(target_arch = "aarch64")]
        Instructions::Neon => by_size!(element_bytes, neon::bytes),
        #[cfg(target_arch = "x86_64")]
        _ => x86::transpose(bits, element_bytes, instructions),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Bit by bit from the definition at the top of this file.
    fn definition(shuffle: Shuffle, element_bytes: usize, block: &[u8]) -> Vec<u8> {
        let elements = block.len() / element_bytes;
        let mut out = block.to_vec();
        match shuffle {
            Shuffle::Byte => {
                for (i, byte) in block[..elements * element_bytes].iter().enumerate() {
                    out[i % element_bytes * elements + i / element_bytes] = *byte;
                }
            }
            Shuffle::Bit if elements.is_multiple_of(8) => {
                out[..elements * element_bytes].fill(0);
                for (i, byte) in block[..elements * element_bytes].iter().enumerate() {
                    let element = i / element_bytes;
                    for bit in 0..8 {
                        let row = 8 * (i % element_bytes) + bit;
                        out[row * (elements / 8) + element / 8] |= (byte >> bit & 1) << (element % 8);
                    }
                }
            }
            _ => {}
        }
        out
    }

    fn check(shuffle: Shuffle, element_bytes: usize, block: &[u8]) {
        let expected = definition(shuffle, element_bytes, block);
        for instructions in Instructions::all() {
            let mut out = vec![0xAA; block.len()];
            Shuffler::with(shuffle, element_bytes, instructions).run(block, &mut out);
            assert!(out == expected, "{shuffle:?} of {} bytes in {element_bytes}s by {instructions:?}", block.len());
        }
    }

    #[test]
    fn every_length_near_a_vector_is_shuffled_as_defined() {
        let bytes: Vec<u8> = (0..8300_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let large = [127, 128, 136, 256, 504, 512, 520, 1024, 1032];
        // For miri, less than a vector, and more than one.
        let lengths: Vec<usize> = if cfg!(miri) { vec![9, 72] } else { (0..70).chain(large).collect() };
        for shuffle in [Shuffle::None, Shuffle::Byte, Shuffle::Bit] {
            for element_bytes in [1, 2, 4, 8] {
                for &elements in &lengths {
                    for rest in [0, element_bytes - 1] {
                        check(shuffle, element_bytes, &bytes[..elements * element_bytes + rest]);
                    }
                }
            }
        }
    }

    proptest! {
        #[test]
        fn any_block_is_shuffled_as_defined(
            element_bytes in prop::sample::select(vec![1_usize, 2, 4, 8]),
            bit in any::<bool>(),
            block in prop::collection::vec(any::<u8>(), 0..if cfg!(miri) { 100 } else { 9000 }),
        ) {
            check(if bit { Shuffle::Bit } else { Shuffle::Byte }, element_bytes, &block);
        }
    }
}
