//! The masks with the vectors of x86-64.
//!
//! The names of the 512-bit instructions in Rust are younger than the oldest compiler that this crate supports, so
//! those loops are written out.

#![allow(unsafe_code)]

use std::arch::asm;
use std::arch::x86_64::*;

use super::masks::{self, Masks, Visit, WORD, WORTH};

/// [`Masks::walk`] where the compiler may use the bit manipulations of AVX2's time: the walk is little else.
#[target_feature(enable = "avx2,bmi1,bmi2")]
pub(super) fn walk(masks: &Masks, visitor: &mut impl Visit) {
    masks.walk(visitor);
}

#[inline]
#[target_feature(enable = "avx2")]
fn equal(a: &[u8; WORD], b: &[u8; WORD]) -> u64 {
    let half = |at: usize| {
        // SAFETY: both have 32 bytes from 0 and from 32 on.
        let equal = unsafe {
            _mm256_cmpeq_epi8(
                _mm256_loadu_si256(a.as_ptr().add(at).cast()),
                _mm256_loadu_si256(b.as_ptr().add(at).cast()),
            )
        };
        u64::from(_mm256_movemask_epi8(equal) as u32)
    };
    half(0) | half(32) << 32
}

#[target_feature(enable = "avx2")]
pub(super) fn compare(padded: &[u8], plane: usize, runs: &mut [u64], planes: &mut [u64], prefetched: &[usize]) {
    masks::compare(|a, b| equal(a, b), padded, plane, runs, planes, prefetched);
}

#[target_feature(enable = "avx2")]
pub(super) fn begin(runs: &[u64], planes: &[u64], starts: &mut [u64]) {
    masks::begin(runs, planes, starts);
}

/// As [`compare`], with one load for both masks.
///
/// # Safety
/// The processor must have AVX-512BW.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn compare_512(
    padded: &[u8],
    plane: usize,
    runs: &mut [u64],
    planes: &mut [u64],
    prefetched: &[usize],
) {
    let words = runs.len();
    assert!(planes.len() == words && prefetched.len() >= words && padded.len() >= words * WORD);
    masks::first_words(|a, b| equal(a, b), padded, plane, runs, planes);
    let first = plane.div_ceil(WORD).min(words);
    // SAFETY: `first` is at most the number of words, and at least 1, so that the byte before and the one `plane` bytes
    // before are still the block's.
    unsafe {
        compare_words_512(padded, 1, 1..first, runs.as_mut_ptr(), std::ptr::null_mut(), prefetched);
        compare_words_512(padded, plane, first..words, runs.as_mut_ptr(), planes.as_mut_ptr(), prefetched);
    }
}

/// Fills these words of both masks, or of the first alone if the second is null.
///
/// # Safety
/// The processor must have AVX-512BW. The block must have whole words up to the last of these, masks and `prefetched`
/// must have these words, and `plane` bytes and one byte must stand before the first.
#[target_feature(enable = "avx2")]
unsafe fn compare_words_512(
    padded: &[u8],
    plane: usize,
    words: std::ops::Range<usize>,
    runs: *mut u64,
    planes: *mut u64,
    prefetched: &[usize],
) {
    if words.is_empty() {
        return;
    }
    // Where there is nothing to say about planes, it is said into the runs first and written over.
    let planes = if planes.is_null() { runs } else { planes };
    let block = padded.as_ptr();
    // SAFETY: the loop reads words `words` of the block and of `prefetched`, as many bytes one and `plane` bytes
    // before, and writes the masks' words of those numbers; the caller promises all of them. At least one word is left.
    // To ask for a line fails nowhere.
    unsafe {
        asm!(
            "2:",
            "mov {line}, [{prefetched} + {word}]",
            "prefetcht1 [{line}]",
            "vmovdqu64 zmm0, [{block} + 8*{word}]",
            "vpcmpeqb k1, zmm0, [{plane} + 8*{word}]",
            "vpcmpeqb k2, zmm0, [{block} + 8*{word} - 1]",
            "kmovq [{planes} + {word}], k1",
            "kmovq [{runs} + {word}], k2",
            "add {word}, 8",
            "cmp {word}, {end}",
            "jb 2b",
            block = in(reg) block,
            plane = in(reg) block.wrapping_sub(plane),
            runs = in(reg) runs,
            planes = in(reg) planes,
            prefetched = in(reg) prefetched.as_ptr(),
            line = out(reg) _,
            word = inout(reg) words.start * 8 => _,
            end = in(reg) words.end * 8,
            out("xmm0") _,
            out("k1") _,
            out("k2") _,
            options(nostack),
        );
    }
}

/// As [`begin`], for `words` words.
///
/// # Safety
/// The processor must have AVX-512VBMI2, and all slices must have at least 16 words more than `words`.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn begin_512(runs: &[u64], planes: &[u64], starts: &mut [u64], words: usize) {
    assert!(words > 0 && [runs.len(), planes.len(), starts.len()].iter().all(|length| *length >= words + 16));
    const { assert!(WORTH == 5, "the shifts below are by 1, then by 2 and 3") };
    // SAFETY: the loop takes eight words at once, so it reads at most eight and writes at most seven words after the
    // last.
    unsafe {
        asm!(
            "2:",
            "vmovdqu64 zmm0, [{runs} + {at}]",
            "vmovdqu64 zmm1, [{runs} + {at} + 8]",
            "vmovdqu64 zmm2, [{planes} + {at}]",
            "vmovdqu64 zmm3, [{planes} + {at} + 8]",
            // Two ones in a row, also at the start of the next word.
            "vpshrdq zmm4, zmm0, zmm1, 1",
            "vpsrlq zmm5, zmm1, 1",
            "vpshrdq zmm6, zmm2, zmm3, 1",
            "vpsrlq zmm7, zmm3, 1",
            "vpandq zmm0, zmm0, zmm4",
            "vpandq zmm1, zmm1, zmm5",
            "vpandq zmm2, zmm2, zmm6",
            "vpandq zmm3, zmm3, zmm7",
            // Three such pairs, the last two of which share a bit.
            "vpshrdq zmm4, zmm0, zmm1, 2",
            "vpshrdq zmm5, zmm0, zmm1, 3",
            "vpshrdq zmm6, zmm2, zmm3, 2",
            "vpshrdq zmm7, zmm2, zmm3, 3",
            "vpternlogq zmm0, zmm4, zmm5, 0x80",
            "vpternlogq zmm2, zmm6, zmm7, 0x80",
            "vporq zmm0, zmm0, zmm2",
            "vmovdqu64 [{starts} + {at}], zmm0",
            "add {at}, 64",
            "cmp {at}, {end}",
            "jb 2b",
            runs = in(reg) runs.as_ptr(),
            planes = in(reg) planes.as_ptr(),
            starts = in(reg) starts.as_mut_ptr(),
            at = inout(reg) 0_usize => _,
            end = in(reg) words * 8,
            out("xmm0") _,
            out("xmm1") _,
            out("xmm2") _,
            out("xmm3") _,
            out("xmm4") _,
            out("xmm5") _,
            out("xmm6") _,
            out("xmm7") _,
            options(nostack),
        );
    }
}
