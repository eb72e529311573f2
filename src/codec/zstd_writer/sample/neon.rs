//! Looking at bytes with the vectors of AArch64, which all of its processors have.

#![allow(unsafe_code)]

use std::arch::aarch64::*;

use super::scalar;

/// As [`scalar::upper_halves`].
pub(super) fn upper_halves(group: &[u8]) -> u32 {
    // SAFETY: every AArch64 has NEON.
    let seen = unsafe { upper_halves_neon(group) };
    seen | scalar::upper_halves(group.chunks_exact(16).remainder())
}

/// Of the whole vectors of the group.
#[target_feature(enable = "neon")]
fn upper_halves_neon(group: &[u8]) -> u32 {
    const BITS: [u8; 16] = [1, 2, 4, 8, 16, 32, 64, 128, 0, 0, 0, 0, 0, 0, 0, 0];
    // SAFETY: there are 16 bytes.
    let bits = unsafe { vld1q_u8(BITS.as_ptr()) };
    // For the upper half of a byte one bit: of the first eight in one vector, of the others in another.
    let later_bits = vextq_u8::<8>(bits, bits);
    let (mut seen, mut seen_later) = (vdupq_n_u8(0), vdupq_n_u8(0));
    for vector in group.chunks_exact(16) {
        // SAFETY: the vector's bytes are there.
        let upper = vshrq_n_u8::<4>(unsafe { vld1q_u8(vector.as_ptr()) });
        seen = vorrq_u8(seen, vqtbl1q_u8(bits, upper));
        seen_later = vorrq_u8(seen_later, vqtbl1q_u8(later_bits, upper));
    }
    fold(seen) | fold(seen_later) << 8
}

/// The bits that are in any byte.
#[target_feature(enable = "neon")]
fn fold(vector: uint8x16_t) -> u32 {
    let mut bytes = [0_u8; 16];
    // SAFETY: there is room for a vector.
    unsafe { vst1q_u8(bytes.as_mut_ptr(), vector) };
    u32::from(bytes.iter().fold(0, |seen, byte| seen | byte))
}
