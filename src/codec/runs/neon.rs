//! The masks with the vectors of AArch64, which all of its processors have.

#![allow(unsafe_code)]

use std::arch::aarch64::*;

use super::masks::WORD;

/// Which bytes of the two are equal.
#[inline(always)]
pub(super) fn equal(a: &[u8; WORD], b: &[u8; WORD]) -> u64 {
    const WEIGHTS: [u8; 16] = [1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128];
    // SAFETY: both have 64 bytes, the weights 16; every AArch64 has these instructions.
    unsafe {
        let weights = vld1q_u8(WEIGHTS.as_ptr());
        let quarter = |at: usize| {
            let equal = vceqq_u8(vld1q_u8(a.as_ptr().add(at)), vld1q_u8(b.as_ptr().add(at)));
            vandq_u8(equal, weights)
        };
        // Each sum of neighbours halves the bytes: of eight, at last, one is left, with a bit of each.
        let (low, high) = (vpaddq_u8(quarter(0), quarter(16)), vpaddq_u8(quarter(32), quarter(48)));
        let sums = vpaddq_u8(low, high);
        vgetq_lane_u64::<0>(vreinterpretq_u64_u8(vpaddq_u8(sums, sums)))
    }
}
