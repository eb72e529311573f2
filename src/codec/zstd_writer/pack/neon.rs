//! Packing two streams at once with the vectors of AArch64, one in each lane of 64 bits.
//!
//! One instruction looks 64 values up, those of a narrow [window](crate::codec::zstd_writer::window); for bytes outside
//! of the table it gives zeros, and no code has no bits. Where that happens, all values are gone through, 64 at once.

#![allow(unsafe_code)]

use std::arch::aarch64::*;
use std::array::from_fn;

use super::scalar::{LANE, Packed};
use crate::codec::zstd_writer::huffman::Code;
use crate::codec::zstd_writer::weights::BITS_MAX;

/// Streams that are packed at once.
pub(super) const LANES: usize = 2;
/// Values of one look-up.
const TABLE: usize = 64;
/// What fits on top of bits that fill no byte.
const BITS_AT_ONCE: u64 = 57;

/// Packs the first `common` bytes of each piece, a multiple of eight, behind what is packed. The streams stand `stride`
/// bytes apart in `packed`.
pub(super) fn pack(
    states: &mut [Packed; LANES],
    pieces: &[&[u8]; LANES],
    common: usize,
    code: &Code,
    packed: &mut [u8],
    stride: usize,
) {
    assert!(common.is_multiple_of(LANE) && packed.len() >= LANES * stride);
    for (state, piece) in states.iter().zip(pieces) {
        assert!(piece.len() >= common && state.at + common * BITS_MAX as usize / 8 + 2 * LANE <= stride);
    }
    let held = states.map(|state| state.held.checked_shr(64 - state.count as u32).unwrap_or(0));
    let (counts, places) = (states.map(|state| state.count), from_fn(|number| number * stride + states[number].at));
    // SAFETY: every AArch64 has NEON. Each piece has `common` bytes; each stream has room for 11 bits a byte and 8
    // bytes more, as checked above.
    let (held, counts, places) = unsafe {
        let mut bits = Bits { held: vld1q_u64(held.as_ptr()), counts: vld1q_u64(counts.as_ptr()), places };
        bits.pack(pieces.map(<[u8]>::as_ptr), common, code, packed.as_mut_ptr());
        (lanes(bits.held), lanes(bits.counts), bits.places)
    };
    for (number, state) in states.iter_mut().enumerate() {
        state.count = counts[number];
        state.held = held[number].checked_shl(64 - state.count as u32).unwrap_or(0);
        state.at = places[number] - number * stride;
    }
}

#[inline]
#[target_feature(enable = "neon")]
fn lanes(vector: uint64x2_t) -> [u64; LANES] {
    [vgetq_lane_u64::<0>(vector), vgetq_lane_u64::<1>(vector)]
}

/// Streams as far as they are packed.
struct Bits {
    /// Bits of each stream that are not yet written, in the lowest places; how many; and where the next go.
    held: uint64x2_t,
    counts: uint64x2_t,
    places: [usize; LANES],
}

impl Bits {
    /// # Safety
    /// Each of `sources` must have `common` bytes, a multiple of eight. At each place from `target` on there must be
    /// room for 11 bits a byte, and for 8 bytes more.
    #[target_feature(enable = "neon")]
    unsafe fn pack(&mut self, sources: [*const u8; LANES], common: usize, code: &Code, target: *mut u8) {
        let first = vdupq_n_u8(code.window.first);
        let codes = table(&code.codes[usize::from(code.window.first)..]);
        let lengths = table(&code.lengths[usize::from(code.window.first)..]);
        for at in (0..common).step_by(LANE).rev() {
            // SAFETY: each piece has eight bytes from there on.
            let bytes = unsafe { vcombine_u8(vld1_u8(sources[0].add(at)), vld1_u8(sources[1].add(at))) };
            let values = vsubq_u8(bytes, first);
            let mut found = (vqtbl4q_u8(codes, values), vqtbl4q_u8(lengths, values));
            if vminvq_u8(found.1) == 0 {
                found = look_up_any(bytes, code);
            }
            let joined = Joined::new(found);
            // SAFETY: the places advance by at most 11 bits a byte.
            unsafe { joined.put(self, target) };
        }
    }

    /// Appends the lowest `count` bits to each stream, at most 57; those above must be zero.
    ///
    /// # Safety
    /// There must be room for 8 bytes at each place from `target` on.
    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn put(&mut self, bits: uint64x2_t, count: uint64x2_t, target: *mut u8) {
        let held = vorrq_u64(self.held, shift(bits, self.counts));
        let counts = vaddq_u64(self.counts, count);
        let whole = lanes(vshrq_n_u64::<3>(counts));
        for (number, value) in lanes(held).into_iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { target.add(self.places[number]).cast::<u64>().write_unaligned(value.to_le()) };
            self.places[number] += whole[number] as usize;
        }
        // Whole bytes are done with. A shift to the left by less than nothing is one to the right.
        let seven = vdupq_n_u64(7);
        let done = vnegq_s64(vreinterpretq_s64_u64(vbicq_u64(counts, seven)));
        self.held = vshlq_u64(held, done);
        self.counts = vandq_u64(counts, seven);
    }
}

/// Shifts to the left by what is in the lowest byte of each count.
#[inline]
#[target_feature(enable = "neon")]
fn shift(bits: uint64x2_t, count: uint64x2_t) -> uint64x2_t {
    vshlq_u64(bits, vreinterpretq_s64_u64(count))
}

#[inline]
#[target_feature(enable = "neon")]
fn table(values: &[u8]) -> uint8x16x4_t {
    let values = &values[..TABLE];
    // SAFETY: there are 64 bytes.
    unsafe { vld1q_u8_x4(values.as_ptr()) }
}

/// Codes and lengths of any bytes.
#[inline]
#[target_feature(enable = "neon")]
fn look_up_any(bytes: uint8x16_t, code: &Code) -> (uint8x16_t, uint8x16_t) {
    let (mut codes, mut lengths) = (vdupq_n_u8(0), vdupq_n_u8(0));
    for first in (0..256).step_by(TABLE) {
        let values = vsubq_u8(bytes, vdupq_n_u8(first as u8));
        // Leaves alone what it has no value for.
        codes = vqtbx4q_u8(codes, table(&code.codes[first..]), values);
        lengths = vqtbx4q_u8(lengths, table(&code.lengths[first..]), values);
    }
    (codes, lengths)
}

/// In each lane the joined codes of four bytes, the later one below the earlier, and of the four after them, with their
/// numbers of bits.
struct Joined {
    early: uint64x2_t,
    early_bits: uint64x2_t,
    late: uint64x2_t,
    late_bits: uint64x2_t,
}

impl Joined {
    /// Joins two and two codes in 32 bits, then these in 64. Shifts go by the lowest byte of each count alone.
    #[inline]
    #[target_feature(enable = "neon")]
    fn new((codes, lengths): (uint8x16_t, uint8x16_t)) -> Self {
        let pair_bits = vpaddlq_u8(lengths);
        let (codes, lengths) = (vreinterpretq_u32_u8(codes), vreinterpretq_u32_u8(lengths));
        let by = |count: uint32x4_t| vreinterpretq_s32_u32(count);
        let low_byte = vdupq_n_u32(0xFF);
        let firsts = vshlq_u32(vandq_u32(codes, low_byte), by(vshrq_n_u32::<8>(lengths)));
        let first_pairs = vorrq_u32(firsts, vandq_u32(vshrq_n_u32::<8>(codes), low_byte));
        let thirds = vandq_u32(vshrq_n_u32::<16>(codes), low_byte);
        let thirds = vshlq_u32(thirds, by(vshrq_n_u32::<24>(lengths)));
        let second_pairs = vorrq_u32(thirds, vshrq_n_u32::<24>(codes));

        let (first_pairs, second_pairs) = (vreinterpretq_u64_u32(first_pairs), vreinterpretq_u64_u32(second_pairs));
        let bits = vreinterpretq_u64_u32(vpaddlq_u16(pair_bits));
        let pair_bits = vreinterpretq_u64_u16(pair_bits);
        let low_half = vdupq_n_u64(0xFFFF_FFFF);
        let early = shift(vandq_u64(first_pairs, low_half), vshrq_n_u64::<16>(pair_bits));
        let early = vorrq_u64(early, vandq_u64(second_pairs, low_half));
        let late = shift(vshrq_n_u64::<32>(first_pairs), vshrq_n_u64::<48>(pair_bits));
        let late = vorrq_u64(late, vshrq_n_u64::<32>(second_pairs));
        Self { early, early_bits: vandq_u64(bits, low_half), late, late_bits: vshrq_n_u64::<32>(bits) }
    }

    /// # Safety
    /// As of [`Bits::put`].
    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn put(self, streams: &mut Bits, target: *mut u8) {
        let all_bits = vaddq_u64(self.early_bits, self.late_bits);
        // SAFETY: the caller's promise.
        unsafe {
            if lanes(all_bits).into_iter().all(|bits| bits <= BITS_AT_ONCE) {
                streams.put(vorrq_u64(shift(self.early, self.late_bits), self.late), all_bits, target);
            } else {
                streams.put(self.late, self.late_bits, target);
                streams.put(self.early, self.early_bits, target);
            }
        }
    }
}
