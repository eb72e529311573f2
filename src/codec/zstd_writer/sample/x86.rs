//! Looking at bytes with the vectors of x86-64.

#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::scalar;

/// As [`scalar::upper_halves`]; to be called where the processor has AVX2.
pub(super) fn upper_halves(group: &[u8]) -> u32 {
    // SAFETY: the caller found that it has.
    let seen = unsafe { upper_halves_avx2(group) };
    seen | scalar::upper_halves(group.chunks_exact(32).remainder())
}

/// Of the whole vectors of the group.
#[target_feature(enable = "avx2")]
fn upper_halves_avx2(group: &[u8]) -> u32 {
    // For the upper half of a byte one bit: of the first eight in one vector, of the others in another.
    let bits = _mm256_broadcastsi128_si256(_mm_setr_epi8(1, 2, 4, 8, 16, 32, 64, -128, 0, 0, 0, 0, 0, 0, 0, 0));
    let later_bits = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 64, -128));
    let low = _mm256_set1_epi8(0x0F);
    let (mut seen, mut seen_later) = (_mm256_setzero_si256(), _mm256_setzero_si256());
    for vector in group.chunks_exact(32) {
        // SAFETY: the vector's bytes are there.
        let bytes = unsafe { _mm256_loadu_si256(vector.as_ptr().cast()) };
        let upper = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), low);
        seen = _mm256_or_si256(seen, _mm256_shuffle_epi8(bits, upper));
        seen_later = _mm256_or_si256(seen_later, _mm256_shuffle_epi8(later_bits, upper));
    }
    fold(seen) | fold(seen_later) << 8
}

/// The bits that are in any byte.
#[target_feature(enable = "avx2")]
fn fold(vector: __m256i) -> u32 {
    let mut bytes = [0_u8; 32];
    // SAFETY: there is room for a vector.
    unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), vector) };
    u32::from(bytes.iter().fold(0, |seen, byte| seen | byte))
}

/// As [`scalar::differences`], compiled with wider vectors; to be called where the processor has AVX2.
pub(super) fn differences(a: &[u8], b: &[u8]) -> usize {
    // SAFETY: the caller found that it has.
    unsafe { differences_avx2(a, b) }
}

#[target_feature(enable = "avx2")]
fn differences_avx2(a: &[u8], b: &[u8]) -> usize {
    scalar::differences(a, b)
}
