//! The shuffles with the vectors of AArch64, which all of its processors have.
//!
//! Both begin as on x86-64: the bytes of 16 elements are sorted into one vector for each byte of an element. The bit
//! shuffle then transposes the bits of eight bytes at a time within 64-bit halves, and sorts the results into rows.

#![allow(unsafe_code)]

use std::arch::aarch64::*;
use std::array::from_fn;

use super::scalar;

/// Elements of one vector of each row of the bit shuffle.
const ELEMENTS: usize = 128;

/// The byte shuffle of elements of `S` bytes.
pub(super) fn bytes<const S: usize>(block: &[u8], out: &mut [u8]) {
    let elements = block.len() / S;
    for (i, sixteen) in block.chunks_exact(16 * S).enumerate() {
        for (j, row) in sort::<S>(sixteen).into_iter().enumerate() {
            store(row, &mut out[j * elements + 16 * i..]);
        }
    }
    scalar::bytes_from::<S>(block, out, elements / 16 * 16);
}

/// The bit shuffle of elements of `S` bytes.
pub(super) fn bits<const S: usize>(block: &[u8], out: &mut [u8]) {
    let row_bytes = block.len() / S / 8;
    for (i, elements) in block.chunks_exact(ELEMENTS * S).enumerate() {
        let sorted: [_; 8] = from_fn(|k| sort::<S>(&elements[16 * S * k..][..16 * S]));
        for j in 0..S {
            for (bit, row) in rows_of_bits(from_fn(|k| sorted[k][j])).into_iter().enumerate() {
                store(row, &mut out[(8 * j + bit) * row_bytes + 16 * i..]);
            }
        }
    }
    scalar::bits_from::<S>(block, out, row_bytes / 16 * ELEMENTS);
}

#[inline(always)]
fn store(vector: uint8x16_t, to: &mut [u8]) {
    let to = &mut to[..16];
    // SAFETY: 16 bytes are there.
    unsafe { vst1q_u8(to.as_mut_ptr(), vector) };
}

/// Vector `j` of the result holds byte `j` of 16 elements.
///
/// To interleave the first half of the bytes with the second half rotates the bits of each byte's position left by one.
/// Four times does it: what was the element's number is the place in a vector, what was the byte's the vector's number.
#[inline(always)]
fn sort<const S: usize>(elements: &[u8]) -> [uint8x16_t; S] {
    assert_eq!(elements.len(), 16 * S);
    // SAFETY: 16 * S bytes are there; every AArch64 has these instructions.
    unsafe {
        let mut rows: [uint8x16_t; S] = from_fn(|i| vld1q_u8(elements.as_ptr().add(16 * i)));
        if S == 1 {
            return rows;
        }
        for _ in 0..4 {
            let from = rows;
            for i in 0..S / 2 {
                rows[2 * i] = vzip1q_u8(from[i], from[i + S / 2]);
                rows[2 * i + 1] = vzip2q_u8(from[i], from[i + S / 2]);
            }
        }
        rows
    }
}

/// Vector `b` of the result holds bit `b` of the 128 bytes.
#[inline(always)]
fn rows_of_bits(columns: [uint8x16_t; 8]) -> [uint8x16_t; 8] {
    // SAFETY: every AArch64 has these instructions.
    unsafe {
        // Each half becomes eight bytes, one for each bit; those of both halves for the same bit are then neighbours.
        let mut rows = columns.map(|column| {
            let mut x = vreinterpretq_u64_u8(column);
            let swapped = vandq_u64(veorq_u64(x, vshrq_n_u64::<7>(x)), vdupq_n_u64(0x00AA_00AA_00AA_00AA));
            x = veorq_u64(x, veorq_u64(swapped, vshlq_n_u64::<7>(swapped)));
            let swapped = vandq_u64(veorq_u64(x, vshrq_n_u64::<14>(x)), vdupq_n_u64(0x0000_CCCC_0000_CCCC));
            x = veorq_u64(x, veorq_u64(swapped, vshlq_n_u64::<14>(swapped)));
            let swapped = vandq_u64(veorq_u64(x, vshrq_n_u64::<28>(x)), vdupq_n_u64(0x0000_0000_F0F0_F0F0));
            x = veorq_u64(x, veorq_u64(swapped, vshlq_n_u64::<28>(swapped)));
            let x = vreinterpretq_u8_u64(x);
            vreinterpretq_u16_u8(vzip1q_u8(x, vextq_u8::<8>(x, x)))
        });
        // Vectors and places change roles after three rotations of the position's six bits: see `sort`.
        for _ in 0..3 {
            let from = rows;
            for i in 0..4 {
                rows[2 * i] = vzip1q_u16(from[i], from[i + 4]);
                rows[2 * i + 1] = vzip2q_u16(from[i], from[i + 4]);
            }
        }
        rows.map(|row| vreinterpretq_u8_u16(row))
    }
}
