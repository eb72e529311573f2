//! Transposes blocks of pixels with vectors that every processor of the architecture has.

#![allow(unsafe_code)]

#[cfg(target_arch = "aarch64")]
use aarch64::{load, store, zip};
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
use scalar::{load, store, zip};
#[cfg(target_arch = "x86_64")]
use x86_64::{load, store, zip};

const VECTOR: usize = 16;

/// Copies a line in the parts in which [`transpose`] reads and writes it. A processor does not hand on what it has just
/// stored in parts to a wider load, as `memcpy` has it, but waits until it is in the cache.
#[inline(always)]
pub(super) fn copy_line(from: &[u8; 64], to: &mut [u8; 64]) {
    for (place, part) in to.as_chunks_mut().0.iter_mut().zip(from.as_chunks().0) {
        store(load(part), place);
    }
}

/// Transposes the first `4 * N` rows of 64 bytes, as pixels of `S` bytes, of which a vector has `N`.
#[inline(always)]
pub(super) fn transpose<const S: usize, const N: usize>(block: &[[u8; 64]; 64], out: &mut [[u8; 64]; 64]) {
    const { assert!(S * N == VECTOR) };
    for (row, column) in (0..4).flat_map(|row| (0..4).map(move |column| (row, column))) {
        let line = |i: usize| block[row * N + i][column * VECTOR..].first_chunk().expect("a quarter of a line");
        let mut vectors: [_; N] = std::array::from_fn(|i| load(line(i)));
        // To interleave the first half of the vectors with the second rotates the bits of each pixel's number by one.
        // With as many steps as the number of its vector has bits, that one and the place in it are exchanged.
        for _ in 0..N.ilog2() {
            let from = vectors;
            for i in 0..N / 2 {
                (vectors[2 * i], vectors[2 * i + 1]) = zip::<S>(from[i], from[i + N / 2]);
            }
        }
        for (vector, line) in vectors.into_iter().zip(&mut out[column * N..]) {
            store(vector, line[row * VECTOR..].first_chunk_mut().expect("a quarter of a line"));
        }
    }
}

/// Every x86-64 has SSE2.
#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use std::arch::x86_64::*;

    use super::VECTOR;

    #[inline(always)]
    pub(super) fn load(bytes: &[u8; VECTOR]) -> __m128i {
        // SAFETY: 16 bytes are there.
        unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
    }

    #[inline(always)]
    pub(super) fn store(vector: __m128i, place: &mut [u8; VECTOR]) {
        // SAFETY: 16 bytes are there.
        unsafe { _mm_storeu_si128(place.as_mut_ptr().cast(), vector) };
    }

    #[inline(always)]
    pub(super) fn zip<const S: usize>(a: __m128i, b: __m128i) -> (__m128i, __m128i) {
        // SAFETY: SSE2 is part of x86-64.
        unsafe {
            match S {
                1 => (_mm_unpacklo_epi8(a, b), _mm_unpackhi_epi8(a, b)),
                2 => (_mm_unpacklo_epi16(a, b), _mm_unpackhi_epi16(a, b)),
                4 => (_mm_unpacklo_epi32(a, b), _mm_unpackhi_epi32(a, b)),
                _ => (_mm_unpacklo_epi64(a, b), _mm_unpackhi_epi64(a, b)),
            }
        }
    }
}

/// Every AArch64 has NEON.
#[cfg(target_arch = "aarch64")]
mod aarch64 {
    use std::arch::aarch64::*;

    use super::VECTOR;

    #[inline(always)]
    pub(super) fn load(bytes: &[u8; VECTOR]) -> uint8x16_t {
        // SAFETY: 16 bytes are there.
        unsafe { vld1q_u8(bytes.as_ptr()) }
    }

    #[inline(always)]
    pub(super) fn store(vector: uint8x16_t, place: &mut [u8; VECTOR]) {
        // SAFETY: 16 bytes are there.
        unsafe { vst1q_u8(place.as_mut_ptr(), vector) };
    }

    #[inline(always)]
    pub(super) fn zip<const S: usize>(a: uint8x16_t, b: uint8x16_t) -> (uint8x16_t, uint8x16_t) {
        macro_rules! zip {
            ($of:ident, $to:ident, $low:ident, $high:ident) => {
                ($to($low($of(a), $of(b))), $to($high($of(a), $of(b))))
            };
        }
        // SAFETY: every AArch64 has these instructions.
        unsafe {
            match S {
                1 => (vzip1q_u8(a, b), vzip2q_u8(a, b)),
                2 => zip!(vreinterpretq_u16_u8, vreinterpretq_u8_u16, vzip1q_u16, vzip2q_u16),
                4 => zip!(vreinterpretq_u32_u8, vreinterpretq_u8_u32, vzip1q_u32, vzip2q_u32),
                _ => zip!(vreinterpretq_u64_u8, vreinterpretq_u8_u64, vzip1q_u64, vzip2q_u64),
            }
        }
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod scalar {
    use super::VECTOR;

    pub(super) fn load(bytes: &[u8; VECTOR]) -> [u8; VECTOR] {
        *bytes
    }

    pub(super) fn store(vector: [u8; VECTOR], place: &mut [u8; VECTOR]) {
        *place = vector;
    }

    pub(super) fn zip<const S: usize>(a: [u8; VECTOR], b: [u8; VECTOR]) -> ([u8; VECTOR], [u8; VECTOR]) {
        let half = |first: usize| {
            std::array::from_fn(|i| {
                let from = if i / S % 2 == 0 { &a } else { &b };
                from[first + i / S / 2 * S + i % S]
            })
        };
        (half(0), half(VECTOR / 2))
    }
}
