//! Unpacking with the vectors of AArch64, which all of its processors have: each pixel's bytes are brought into its
//! lane, then shifted.

use std::arch::aarch64::*;

use super::layout::Packed;

/// Pixels of a vector: a block.
const STEP: usize = 8;

/// Unpacks from the start of a group on, and gives the number of pixels that are done.
pub(super) fn unpack<P: Packed>(packed: &[u8], out: &mut [u16]) -> usize {
    let (layout, tables) = const { (&P::LAYOUT, &P::TABLES) };
    let down = tables.low.shifts.map(|shift| -(shift as i16));
    let up = tables.high.shifts.map(|shift| shift as i16);
    let mut done = 0;
    while let (Some(bytes), Some(place)) =
        (packed.get(layout.bytes(done)..layout.bytes(done) + 16), out.get_mut(done..done + STEP))
    {
        // SAFETY: the bytes and each table have 16 bytes, the place has 8 words; every AArch64 has these instructions.
        unsafe {
            let bytes = vld1q_u8(bytes.as_ptr());
            let low = vreinterpretq_u16_u8(vqtbl1q_u8(bytes, vld1q_u8(tables.low.bytes.as_ptr())));
            let low = vshlq_u16(low, vld1q_s16(down.as_ptr()));
            let mut pixels = vandq_u16(low, vdupq_n_u16(tables.low.mask));
            if layout.high_bits > 0 {
                let high = vreinterpretq_u16_u8(vqtbl1q_u8(bytes, vld1q_u8(tables.high.bytes.as_ptr())));
                let high = vshlq_u16(high, vld1q_s16(up.as_ptr()));
                pixels = vorrq_u16(pixels, vandq_u16(high, vdupq_n_u16(tables.high.mask)));
            }
            vst1q_u16(place.as_mut_ptr(), pixels);
        }
        done += STEP;
    }
    done
}
