//! Unpacking with the vectors of x86-64: each pixel's bytes are brought into its lane, then shifted.
//!
//! The names of the 512-bit instructions in Rust are younger than the oldest compiler that this crate supports, so that
//! loop is written out.

use std::arch::asm;
use std::arch::x86_64::*;

use super::layout::{Field, Packed};
use super::words;

/// Pixels of a 256-bit vector. Each of its lanes works on a block of its own.
const STEP: usize = 16;

/// Unpacks from the start of a group on, and gives the number of pixels that are done.
#[target_feature(enable = "avx2")]
pub(super) fn unpack_avx2<P: Packed>(packed: &[u8], out: &mut [u16]) -> usize {
    let (layout, tables) = const { (&P::LAYOUT, &P::TABLES) };
    let (low_bytes, high_bytes) = (lanes_avx2(tables.low.bytes), lanes_avx2(tables.high.bytes));
    // There is no shift of each word by its own count, but a multiplication. The lower field goes to the top first,
    // which cuts off what is above it.
    let to_top = lanes_avx2(factors(&tables.low.shifts.map(|shift| 16 - layout.low_bits as u16 - shift)));
    let down = _mm_cvtsi32_si128(16 - layout.low_bits as i32);
    let up = lanes_avx2(factors(&tables.high.shifts));
    let high_mask = _mm256_set1_epi16(tables.high.mask as i16);
    let (block_bytes, pixels) = (layout.block_bytes(), out.len());
    let mut step = |at: usize| {
        let from = layout.bytes(at);
        let (blocks, place) = (packed.get(from..from + block_bytes + 16)?, out.get_mut(at..at + STEP)?);
        // SAFETY: 16 bytes are there from the start of each block on.
        let bytes = unsafe { _mm256_loadu2_m128i(blocks.as_ptr().add(block_bytes).cast(), blocks.as_ptr().cast()) };
        let low = _mm256_mullo_epi16(_mm256_shuffle_epi8(bytes, low_bytes), to_top);
        let mut unpacked = _mm256_srl_epi16(low, down);
        if layout.high_bits > 0 {
            let high = _mm256_mullo_epi16(_mm256_shuffle_epi8(bytes, high_bytes), up);
            unpacked = _mm256_or_si256(unpacked, _mm256_and_si256(high, high_mask));
        }
        // SAFETY: the place has 16 words.
        unsafe { _mm256_storeu_si256(place.as_mut_ptr().cast(), unpacked) };
        Some(at + STEP)
    };
    let mut done = 0;
    while let Some(next) = step(done) {
        done = next;
    }
    // What is left is less than a vector: the last one overlaps with the one before.
    match pixels.checked_sub(STEP) {
        Some(last) if done < pixels => step(last / layout.group * layout.group).unwrap_or(done),
        _ => done,
    }
}

fn factors(shifts: &[u16; 8]) -> [u8; 16] {
    let mut bytes = [0; 16];
    for (place, shift) in bytes.as_chunks_mut().0.iter_mut().zip(shifts) {
        *place = (1_u16 << shift).to_le_bytes();
    }
    bytes
}

#[target_feature(enable = "avx2")]
fn lanes_avx2(bytes: [u8; 16]) -> __m256i {
    // SAFETY: 16 bytes are there.
    _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) })
}

/// What the 512-bit loop needs of a field of 32 pixels.
#[repr(C, align(64))]
struct Lanes {
    bytes: [u8; 64],
    shifts: [u16; 32],
    masks: [u16; 32],
}

impl Lanes {
    const fn of(field: &Field, block_bytes: usize) -> Self {
        let mut lanes = Self { bytes: [0; 64], shifts: [0; 32], masks: [field.mask; 32] };
        let mut i = 0;
        while i < 32 {
            let (block, pixel) = (i / 8 * block_bytes, i % 8);
            lanes.bytes[2 * i] = field.bytes[2 * pixel] + block as u8;
            lanes.bytes[2 * i + 1] = field.bytes[2 * pixel + 1] + block as u8;
            lanes.shifts[i] = field.shifts[pixel];
            i += 1;
        }
        lanes
    }
}

trait Wide: Packed {
    const LOW: Lanes = Lanes::of(&Self::TABLES.low, Self::LAYOUT.block_bytes());
    const HIGH: Lanes = Lanes::of(&Self::TABLES.high, Self::LAYOUT.block_bytes());
}

impl<P: Packed> Wide for P {}

/// As [`unpack_avx2`], all pixels.
///
/// # Safety
/// The processor must have AVX-512BW and AVX-512VBMI, and `packed` must hold as many pixels as `out`.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn unpack_avx512<P: Packed>(packed: &[u8], out: &mut [u16]) -> usize {
    let pixels = out.len();
    let (whole, rest) = (pixels / 32, pixels % 32);
    let rest_bytes = const { &P::LAYOUT }.bytes(rest);
    let (from, to) = (packed.as_ptr(), out.as_mut_ptr());
    if whole > 0 {
        let bytes = const { !0_u64 >> (64 - 4 * P::LAYOUT.block_bytes()) };
        // SAFETY: this many blocks of 32 pixels are in both.
        unsafe { loop_avx512::<P>(from, to, whole, bytes, !0) };
    }
    if rest > 0 {
        // SAFETY: the first pixels of one more block are in both; the masks let no others be touched.
        unsafe {
            let (from, to) = (from.add(whole * 4 * P::LAYOUT.block_bytes()), to.add(whole * 32));
            loop_avx512::<P>(from, to, 1, (1 << rest_bytes) - 1, (1 << rest) - 1);
        }
    }
    pixels
}

/// Unpacks `count` times 32 pixels, of each of which the bytes and pixels in the masks are read and written.
///
/// # Safety
/// The processor must have AVX-512BW and AVX-512VBMI; the bytes and places must be there; `count` must not be 0.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn loop_avx512<P: Packed>(from: *const u8, to: *mut u16, count: usize, bytes: u64, pixels: u32) {
    macro_rules! unpack {
        ($($high:literal),*) => {
            // SAFETY: what is read and written is in the masks, and the caller promises it; the tables have 64 bytes
            // for each of their vectors.
            unsafe {
                asm!(
                    "kmovq k1, {bytes}",
                    "kmovd k2, {pixels:e}",
                    "vmovdqa64 zmm2, [{low}]",
                    "vmovdqa64 zmm3, [{low} + 64]",
                    "vmovdqa64 zmm4, [{low} + 128]",
                    "vmovdqa64 zmm5, [{high}]",
                    "vmovdqa64 zmm6, [{high} + 64]",
                    "vmovdqa64 zmm7, [{high} + 128]",
                    "2:",
                    "vmovdqu8 zmm0{{k1}}{{z}}, [{from}]",
                    "vpermb zmm1, zmm2, zmm0",
                    "vpsrlvw zmm1, zmm1, zmm3",
                    "vpandq zmm1, zmm1, zmm4",
                    $($high,)*
                    "vmovdqu16 [{to}]{{k2}}, zmm1",
                    "add {from}, {step}",
                    "add {to}, 64",
                    "dec {count}",
                    "jnz 2b",
                    bytes = in(reg) bytes,
                    pixels = in(reg) pixels,
                    low = in(reg) const { &P::LOW },
                    high = in(reg) const { &P::HIGH },
                    from = inout(reg) from => _,
                    to = inout(reg) to => _,
                    count = inout(reg) count => _,
                    step = const 4 * P::LAYOUT.block_bytes(),
                    out("zmm0") _, out("zmm1") _, out("zmm2") _, out("zmm3") _, out("zmm4") _, out("zmm5") _,
                    out("zmm6") _, out("zmm7") _, out("k1") _, out("k2") _,
                    options(nostack),
                );
            }
        };
    }
    if const { P::LAYOUT.high_bits > 0 } {
        // The pixel is its lower field, or what the mask leaves of the upper one.
        unpack!("vpermb zmm0, zmm5, zmm0", "vpsllvw zmm0, zmm0, zmm6", "vpternlogq zmm1, zmm0, zmm7, 0xF8");
    } else {
        unpack!();
    }
}

/// [`words::shift_down`] by wider vectors.
#[target_feature(enable = "avx2")]
pub(super) fn shift_down_avx2(packed: &[u8], big_endian: bool, unused_low_bits: u32, out: &mut [u16]) {
    words::shift_down(packed, big_endian, unused_low_bits, out);
}
