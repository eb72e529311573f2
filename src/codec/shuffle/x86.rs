//! The shuffles with the vectors of x86-64.
//!
//! Both begin the same way: the bytes of as many elements as a vector has bytes are sorted into one vector for each
//! byte of an element. The byte shuffle stores these; the bit shuffle stores the top bits of all bytes, shifts them up
//! by one, and repeats until the lowest bit has been at the top.
//!
//! With AVX2, each 128-bit lane works on 16 elements of its own, since unpack instructions do not cross lanes: the low
//! lanes are loaded from the first 16 elements and the high lanes from the next 16.

#![allow(unsafe_code)]

use std::arch::asm;
use std::arch::x86_64::*;

use super::instructions::{Instructions, Transpose, by_size};
use super::scalar;

/// A safe function pointer to one with AVX2, or with AVX2 and GFNI.
macro_rules! avx2 {
    ($function:expr) => {
        // SAFETY: `Instructions::Avx2` and `Instructions::Gfni` are made by `Instructions::detect` alone, which found
        // that the processor has them; each arm that comes here is one of these.
        |block, out| unsafe { $function(block, out) }
    };
}

/// The bit shuffle or the byte shuffle for elements of this size.
pub(super) fn transpose(bits: bool, element_bytes: usize, instructions: Instructions) -> Option<Transpose> {
    match (instructions, bits) {
        (Instructions::Gfni, true) => by_size!(element_bytes, bits_gfni, avx2!),
        (Instructions::Avx2, true) => by_size!(element_bytes, bits_avx2, avx2!),
        (Instructions::Gfni | Instructions::Avx2, false) => by_size!(element_bytes, bytes_avx2, avx2!),
        (_, true) => by_size!(element_bytes, bits_sse2),
        (_, false) => by_size!(element_bytes, bytes_sse2),
    }
}

fn bytes_sse2<const S: usize>(block: &[u8], out: &mut [u8]) {
    let elements = block.len() / S;
    let vectors = elements / 16;
    for i in 0..vectors {
        let rows = sort_sse2::<S>(&block[i * 16 * S..(i + 1) * 16 * S]);
        for (j, row) in rows.into_iter().enumerate() {
            let place = &mut out[j * elements + i * 16..][..16];
            // SAFETY: `place` has 16 bytes; SSE2 is part of x86-64.
            unsafe { _mm_storeu_si128(place.as_mut_ptr().cast(), row) };
        }
    }
    scalar::bytes_from::<S>(block, out, vectors * 16);
}

fn bits_sse2<const S: usize>(block: &[u8], out: &mut [u8]) {
    let row_bytes = block.len() / S / 8;
    let vectors = row_bytes / 2;
    for i in 0..vectors {
        let rows = sort_sse2::<S>(&block[i * 16 * S..(i + 1) * 16 * S]);
        for (j, mut row) in rows.into_iter().enumerate() {
            for bit in (0..8).rev() {
                // SAFETY: SSE2 is part of x86-64.
                let top_bits = unsafe { _mm_movemask_epi8(row) } as u16;
                out[(8 * j + bit) * row_bytes + 2 * i..][..2].copy_from_slice(&top_bits.to_le_bytes());
                // SAFETY: as above.
                row = unsafe { _mm_add_epi8(row, row) };
            }
        }
    }
    scalar::bits_from::<S>(block, out, vectors * 16);
}

/// Vector `j` of the result holds byte `j` of 16 elements.
///
/// To interleave the first half of the bytes with the second half rotates the bits of each byte's position left by one.
/// Four times does it: what was the element's number is the place in a vector, what was the byte's the vector's number.
#[inline(always)]
fn sort_sse2<const S: usize>(elements: &[u8]) -> [__m128i; S] {
    assert_eq!(elements.len(), 16 * S);
    // SAFETY: 16 * S bytes are there; SSE2 is part of x86-64.
    unsafe {
        let mut rows: [__m128i; S] = std::array::from_fn(|i| _mm_loadu_si128(elements.as_ptr().add(16 * i).cast()));
        if S == 1 {
            return rows;
        }
        for _ in 0..4 {
            let from = rows;
            for i in 0..S / 2 {
                rows[2 * i] = _mm_unpacklo_epi8(from[i], from[i + S / 2]);
                rows[2 * i + 1] = _mm_unpackhi_epi8(from[i], from[i + S / 2]);
            }
        }
        rows
    }
}

#[target_feature(enable = "avx2")]
fn bytes_avx2<const S: usize>(block: &[u8], out: &mut [u8]) {
    let elements = block.len() / S;
    let vectors = elements / 32;
    assert!(out.len() >= elements * S);
    for i in 0..vectors {
        let (low, high) = block[i * 32 * S..(i + 1) * 32 * S].split_at(16 * S);
        let rows = sort_avx2::<S, false>(low, high);
        for (j, row) in rows.into_iter().enumerate() {
            // SAFETY: row j has `elements` bytes, of which 32 are left from 32 * i on, since i < elements / 32.
            unsafe { _mm256_storeu_si256(out.as_mut_ptr().add(j * elements + 32 * i).cast(), row) };
        }
    }
    scalar::bytes_from::<S>(block, out, vectors * 32);
}

/// Bytes of a row that are collected before they go to their place: a cache line.
const LINE: usize = 64;

#[target_feature(enable = "avx2")]
fn bits_avx2<const S: usize>(block: &[u8], out: &mut [u8]) {
    let row_bytes = block.len() / S / 8;
    let (lines, vectors) = (row_bytes / LINE, row_bytes / 4);
    assert!(out.len() >= 8 * S * row_bytes);
    // Rows of large blocks lie a multiple of 4096 bytes apart, where all of them compete for the same few places in the
    // first cache. Four bytes at a time they would evict each other; by whole lines they do not come back.
    let mut collected = Collected([[[0; LINE]; 8]; S]);
    for (line, elements) in block.chunks_exact(8 * LINE * S).enumerate() {
        for i in 0..LINE / 4 {
            let (low, high) = elements[i * 32 * S..(i + 1) * 32 * S].split_at(16 * S);
            let rows = sort_avx2::<S, false>(low, high);
            // SAFETY: 8 * S rows of `LINE` bytes are there, and 4 * i + 4 is at most `LINE`.
            unsafe { store_bits::<S>(rows, collected.0.as_mut_ptr().cast::<u8>().add(4 * i), LINE) };
        }
        for (row, bytes) in collected.0.as_flattened().iter().enumerate() {
            out[row * row_bytes + line * LINE..][..LINE].copy_from_slice(bytes);
        }
    }
    for i in lines * LINE / 4..vectors {
        let (low, high) = block[i * 32 * S..(i + 1) * 32 * S].split_at(16 * S);
        let rows = sort_avx2::<S, false>(low, high);
        // SAFETY: 8 * S rows of `row_bytes` bytes are there, and 4 * i + 4 is at most `row_bytes`.
        unsafe { store_bits::<S>(rows, out.as_mut_ptr().add(4 * i), row_bytes) };
    }
    scalar::bits_from::<S>(block, out, vectors * 32);
}

#[repr(align(64))]
struct Collected<const S: usize>([[[u8; LINE]; 8]; S]);

/// Stores the bits of 32 elements: 4 bytes in each of `8 * S` rows, which begin `row_bytes` bytes apart.
///
/// # Safety
/// `place` and the `8 * S - 1` places at multiples of `row_bytes` after it must have 4 bytes each.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store_bits<const S: usize>(rows: [__m256i; S], place: *mut u8, row_bytes: usize) {
    for (j, mut row) in rows.into_iter().enumerate() {
        for bit in (0..8).rev() {
            let top_bits = _mm256_movemask_epi8(row).to_le_bytes();
            // SAFETY: the caller promises the place.
            unsafe { place.add((8 * j + bit) * row_bytes).cast::<[u8; 4]>().write(top_bits) };
            row = _mm256_add_epi8(row, row);
        }
    }
}

/// Bit shuffle by transposing matrices of 8 × 8 bits in one instruction each, rather than extracting bits row by row.
///
/// # Safety
/// The processor must have GFNI.
#[target_feature(enable = "avx2")]
unsafe fn bits_gfni<const S: usize>(block: &[u8], out: &mut [u8]) {
    let row_bytes = block.len() / S / 8;
    let lines = row_bytes / LINE;
    // By whole lines for the reason given in `bits_avx2`.
    let mut collected = Collected([[[0; LINE]; 8]; S]);
    for (line, elements) in block.chunks_exact(8 * LINE * S).enumerate() {
        for (half, elements) in elements.chunks_exact(256 * S).enumerate() {
            // SAFETY: as the caller promises.
            let planes = unsafe { planes_gfni::<S>(elements) };
            for (j, planes) in planes.into_iter().enumerate() {
                for (place, plane) in collected.0[j].iter_mut().zip(planes) {
                    let place = &mut place[half * 32..][..32];
                    // SAFETY: `place` has 32 bytes.
                    unsafe { _mm256_storeu_si256(place.as_mut_ptr().cast(), plane) };
                }
            }
        }
        for (row, bytes) in collected.0.as_flattened().iter().enumerate() {
            out[row * row_bytes + line * LINE..][..LINE].copy_from_slice(bytes);
        }
    }
    scalar::bits_from::<S>(block, out, lines * LINE * 8);
}

/// Vector `b` of array `j` holds bit `b` of byte `j` of 256 elements.
///
/// # Safety
/// The processor must have GFNI.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn planes_gfni<const S: usize>(elements: &[u8]) -> [[__m256i; 8]; S] {
    let (low, high) = elements.split_at(128 * S);
    let mut rows = [[_mm256_setzero_si256(); 8]; S];
    for (i, (low, high)) in low.chunks_exact(16 * S).zip(high.chunks_exact(16 * S)).enumerate() {
        for (j, sorted) in sort_avx2::<S, true>(low, high).into_iter().enumerate() {
            rows[j][i] = sorted;
        }
    }
    // Of two groups of 8 elements, each plane's two bytes next to each other.
    let pairs = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15));
    for row in &mut rows {
        for vector in row.iter_mut() {
            // SAFETY: as the caller promises.
            let transposed = unsafe { transpose_8x8_reversed(*vector) };
            *vector = _mm256_shuffle_epi8(transposed, pairs);
        }
        // Three interleavings exchange the number of the vector and that of the plane, as in `sort_sse2`.
        for _ in 0..3 {
            let from = *row;
            for i in 0..4 {
                row[2 * i] = _mm256_unpacklo_epi16(from[i], from[i + 4]);
                row[2 * i + 1] = _mm256_unpackhi_epi16(from[i], from[i + 4]);
            }
        }
    }
    rows
}

/// Transposes each 8 bytes as 8 × 8 bits: byte `b` of the result holds bit `b` of each byte, that of the *last* byte in
/// the lowest place.
///
/// The instruction multiplies bit matrices; a factor with one bit in each byte makes it pick single bits. The name for
/// it in Rust is younger than the oldest compiler that this crate supports.
///
/// # Safety
/// The processor must have GFNI.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn transpose_8x8_reversed(matrices: __m256i) -> __m256i {
    let single_bits = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
    let transposed;
    // SAFETY: the caller promises GFNI, and with AVX2, which this function has, its form for these registers is there;
    // registers alone are touched.
    unsafe {
        asm!(
            "vgf2p8affineqb {}, {}, {}, 0",
            out(ymm_reg) transposed,
            in(ymm_reg) single_bits,
            in(ymm_reg) matrices,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    transposed
}

/// Vector `j` of the result holds byte `j` of 16 elements in its low lane, and of 16 others in its high lane; where
/// `REVERSED`, with each 8 elements in reverse order.
///
/// Sorts the bytes within each 16 first, so that of the four interleavings of [`sort_sse2`] only the base-2 logarithm
/// of `S` remain, with cells of `16 / S` bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn sort_avx2<const S: usize, const REVERSED: bool>(low: &[u8], high: &[u8]) -> [__m256i; S] {
    assert!(low.len() == 16 * S && high.len() == 16 * S);
    // What 8 elements lie in more than one vector of 16 bytes is reversed by exchanging these.
    let exchanged = if REVERSED { (S / 2).saturating_sub(1) } else { 0 };
    let mut rows: [__m256i; S] = [_mm256_setzero_si256(); S];
    for (i, row) in rows.iter_mut().enumerate() {
        let at = 16 * (i ^ exchanged);
        // SAFETY: i ^ exchanged is less than S, and 16 * S bytes are there.
        *row = unsafe { _mm256_loadu2_m128i(high.as_ptr().add(at).cast(), low.as_ptr().add(at).cast()) };
    }
    if S == 1 && !REVERSED {
        return rows;
    }
    let within_16 = _mm256_broadcastsi128_si256(match (S, REVERSED) {
        (2, false) => _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15),
        (4, false) => _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15),
        (_, false) => _mm_setr_epi8(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15),
        (1, true) => _mm_setr_epi8(7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8),
        (2, true) => _mm_setr_epi8(14, 12, 10, 8, 6, 4, 2, 0, 15, 13, 11, 9, 7, 5, 3, 1),
        (4, true) => _mm_setr_epi8(12, 8, 4, 0, 13, 9, 5, 1, 14, 10, 6, 2, 15, 11, 7, 3),
        (_, true) => _mm_setr_epi8(8, 0, 9, 1, 10, 2, 11, 3, 12, 4, 13, 5, 14, 6, 15, 7),
    });
    for row in &mut rows {
        *row = _mm256_shuffle_epi8(*row, within_16);
    }
    for _ in 0..S.ilog2() {
        let from = rows;
        for i in 0..S / 2 {
            let (first, second) = (from[i], from[i + S / 2]);
            (rows[2 * i], rows[2 * i + 1]) = match S {
                2 => (_mm256_unpacklo_epi64(first, second), _mm256_unpackhi_epi64(first, second)),
                4 => (_mm256_unpacklo_epi32(first, second), _mm256_unpackhi_epi32(first, second)),
                _ => (_mm256_unpacklo_epi16(first, second), _mm256_unpackhi_epi16(first, second)),
            };
        }
    }
    rows
}
