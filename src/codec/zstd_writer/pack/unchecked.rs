//! One stream, without vectors and with one check for all places.

#![allow(unsafe_code)]

use super::scalar::{LANE, Packed};
use crate::codec::zstd_writer::huffman::Code;
use crate::codec::zstd_writer::weights::BITS_MAX;

/// As [`Packed::more`].
#[cfg(target_arch = "aarch64")]
pub(super) fn more(state: Packed, bytes: &[u8], code: &Code, target: &mut [u8]) -> Packed {
    assert!(has_room(state, bytes, target));
    // SAFETY: there is room for the longest codes.
    unsafe { more_unchecked(state, bytes, code, target) }
}

/// As [`Packed::more`], with shifts that need no certain register; to be called where the processor has BMI2.
#[cfg(target_arch = "x86_64")]
pub(super) fn more_bmi2(state: Packed, bytes: &[u8], code: &Code, target: &mut [u8]) -> Packed {
    assert!(has_room(state, bytes, target));
    // SAFETY: the caller found that the processor has them, and there is room for the longest codes.
    unsafe { with_bmi2(state, bytes, code, target) }
}

fn has_room(state: Packed, bytes: &[u8], target: &[u8]) -> bool {
    target.len() >= state.at + bytes.len() * BITS_MAX as usize / 8 + 2 * LANE
}

/// # Safety
/// As of [`more_unchecked`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "bmi2")]
unsafe fn with_bmi2(state: Packed, bytes: &[u8], code: &Code, target: &mut [u8]) -> Packed {
    // SAFETY: the caller's promise.
    unsafe { more_unchecked(state, bytes, code, target) }
}

/// # Safety
/// Behind what is packed, `target` must have room for the longest codes, and for 8 bytes more.
#[inline(always)]
unsafe fn more_unchecked(mut state: Packed, bytes: &[u8], code: &Code, target: &mut [u8]) -> Packed {
    let eights = bytes.rchunks_exact(8);
    let first = eights.remainder();
    let (mut held, mut count) = (state.held, state.count);
    // SAFETY: as much is packed.
    let mut place = unsafe { target.as_mut_ptr().add(state.at) };
    for eight in eights {
        for four in [&eight[4..], &eight[..4]] {
            let [d, c, b, a] = [0, 1, 2, 3].map(|place| code.entries[usize::from(four[place])]);
            let (ab_bits, cd_bits) = (a.wrapping_add(b), c.wrapping_add(d));
            let ab = a.wrapping_shr(b as u32) | b;
            let cd = c.wrapping_shr(d as u32) | d;
            let four_bits = ab_bits.wrapping_add(cd_bits);
            held = held.wrapping_shr(four_bits as u32) | (ab.wrapping_shr(cd_bits as u32) | cd);
            // Only the lowest byte is a number of bits; that is all that counts below.
            count = count.wrapping_add(four_bits);
            let valid = held.wrapping_shr(count.wrapping_neg() as u32);
            // SAFETY: the place advances by at most 11 bits a byte, so that the caller's promise holds.
            unsafe {
                place.cast::<u64>().write_unaligned(valid.to_le());
                place = place.add(usize::from(count as u8 >> 3));
            }
            count &= 7;
        }
    }
    let at = place as usize - target.as_ptr() as usize;
    (state.held, state.count, state.at) = (held, count, at);
    state.more(first, code, target)
}
