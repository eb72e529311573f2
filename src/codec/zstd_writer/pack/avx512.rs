//! Packing eight streams at once with AVX-512, one in each lane of 64 bits.

#![allow(unsafe_code)]

use std::arch::asm;

use super::scalar::{LANE, Packed, STREAMS_MAX};
use crate::codec::zstd_writer::huffman::Code;
use crate::codec::zstd_writer::weights::BITS_MAX;

/// Streams that are packed at once.
pub(super) const LANES: usize = STREAMS_MAX;

/// Whether these are pieces that [`pack`] takes: eight that begin at equal distances.
pub(super) fn takes(pieces: &[&[u8]]) -> bool {
    let distance = |pair: &[&[u8]]| (pair[1].as_ptr() as usize).checked_sub(pair[0].as_ptr() as usize);
    let equal = |distance_wanted| pieces.windows(2).all(|pair| distance(pair) == Some(distance_wanted));
    pieces.len() == LANES && distance(pieces).is_some_and(equal)
}

/// What the loop works with, in the order in which it reads it.
#[repr(C, align(64))]
struct Lanes {
    lengths: [u8; 256],
    codes: [u8; 256],
    /// Bits of each stream that are not yet written, in the lowest places; how many; and where the next go.
    held: [u64; STREAMS_MAX],
    counts: [u64; STREAMS_MAX],
    places: [*mut u8; STREAMS_MAX],
    /// What is to be written, and where, on the way from vectors to single stores.
    values: [u64; STREAMS_MAX],
    targets: [u64; STREAMS_MAX],
    second_of_four: [u8; 64],
    third_of_four: [u8; 64],
    third_of_eight: [u8; 64],
}

/// For byte shuffles: in each `width` bytes, byte `which` in the lowest place and zeros.
const fn pick(which: u8, width: usize) -> [u8; 64] {
    let mut picked = [0x80; 64];
    let mut at = 0;
    while at < 64 {
        // Shuffles stay within 16 bytes.
        picked[at] = (at % 16) as u8 + which;
        at += width;
    }
    picked
}

/// Packs the first `common` bytes of each piece, a multiple of eight, behind what is packed. The streams stand `stride`
/// bytes apart in `packed`.
pub(super) fn pack(
    states: &mut [Packed; STREAMS_MAX],
    pieces: &[&[u8]; STREAMS_MAX],
    common: usize,
    code: &Code,
    packed: &mut [u8],
    stride: usize,
) {
    assert!(takes(pieces));
    let distance = pieces[1].as_ptr() as usize - pieces[0].as_ptr() as usize;
    assert!(common.is_multiple_of(LANE) && common > 0 && packed.len() >= STREAMS_MAX * stride);
    for (state, piece) in states.iter().zip(pieces) {
        assert!(piece.len() >= common && state.at + common * BITS_MAX as usize / 8 + 2 * LANE <= stride);
    }
    let base = packed.as_mut_ptr();
    let mut lanes = Lanes {
        lengths: code.lengths,
        codes: code.codes,
        held: states.map(|state| state.held.checked_shr(64 - state.count as u32).unwrap_or(0)),
        counts: states.map(|state| state.count),
        // SAFETY: each stream has `stride` bytes of its own, of which less were written.
        places: std::array::from_fn(|number| unsafe { base.add(number * stride + states[number].at) }),
        values: [0; STREAMS_MAX],
        targets: [0; STREAMS_MAX],
        second_of_four: pick(1, 4),
        third_of_four: pick(2, 4),
        third_of_eight: pick(2, 8),
    };
    // SAFETY: each piece has `common` bytes, and `takes` found them at equal distances; it is called where the
    // processor has AVX-512BW and VBMI. Each stream has room for 11 bits a byte and 8 bytes more, as checked above.
    unsafe { pack_lanes(&mut lanes, pieces[0].as_ptr(), distance, common) };
    for (number, state) in states.iter_mut().enumerate() {
        state.count = lanes.counts[number];
        state.held = lanes.held[number].checked_shl(64 - state.count as u32).unwrap_or(0);
        state.at = lanes.places[number] as usize - base as usize - number * stride;
    }
}

/// Stores values at their targets, which stand 64 bytes behind them.
macro_rules! store {
    ($($value:literal),+) => {
        concat!($("mov r10, [rdi + ", $value, " + 64]\nmov r11, [rdi + ", $value, "]\nmov [r10], r11\n"),+)
    };
}

/// Appends `bits` bits, whose number is in `count`, to each stream: at most 57. Uses zmm9 to zmm11.
macro_rules! push {
    ($bits:literal, $count:literal) => {
        concat!(
            "vpsllvq zmm9, ",
            $bits,
            ", zmm14\n",
            "vporq zmm13, zmm13, zmm9\n",
            "vmovdqa64 [rdi + 704], zmm13\n",
            "vmovdqa64 [rdi + 768], zmm15\n",
            "vpaddq zmm14, zmm14, ",
            $count,
            "\n",
            // Whole bytes are done with.
            "vpsrlq zmm10, zmm14, 3\n",
            "vpaddq zmm15, zmm15, zmm10\n",
            "vpsllq zmm10, zmm10, 3\n",
            "vpsrlvq zmm13, zmm13, zmm10\n",
            "vpsubq zmm14, zmm14, zmm10\n",
            store!(704, 712, 720, 728, 736, 744, 752, 760),
        )
    };
}

/// Loads the tables, the constants and what is held.
macro_rules! load {
    () => {
        "
    vmovdqa64 zmm16, [rdi]
    vmovdqa64 zmm17, [rdi + 64]
    vmovdqa64 zmm18, [rdi + 128]
    vmovdqa64 zmm19, [rdi + 192]
    vmovdqa64 zmm20, [rdi + 256]
    vmovdqa64 zmm21, [rdi + 320]
    vmovdqa64 zmm22, [rdi + 384]
    vmovdqa64 zmm23, [rdi + 448]
    vmovdqa64 zmm13, [rdi + 512]
    vmovdqa64 zmm14, [rdi + 576]
    vmovdqa64 zmm15, [rdi + 640]
    vmovdqa64 zmm25, [rdi + 832]
    vmovdqa64 zmm26, [rdi + 896]
    vmovdqa64 zmm30, [rdi + 960]
    mov r10d, 0xFF
    vpbroadcastd zmm24, r10d
    mov r10d, 0x01010101
    vpbroadcastd zmm27, r10d
    mov r10d, 0x00010001
    vpbroadcastd zmm28, r10d
    mov r10d, 0xFFFFFFFF
    vpbroadcastq zmm29, r10
    mov r10d, 57
    vpbroadcastq zmm31, r10
"
    };
}

/// Eight bytes of each stream, looked up: lengths in zmm1, codes in zmm3.
macro_rules! look_up {
    () => {
        "
    vmovq xmm0, [rsi]
    vmovhps xmm0, xmm0, [rsi + rcx]
    vmovq xmm1, [rsi + 2*rcx]
    vmovhps xmm1, xmm1, [rsi + r8]
    vmovq xmm2, [rdx]
    vmovhps xmm2, xmm2, [rdx + rcx]
    vmovq xmm3, [rdx + 2*rcx]
    vmovhps xmm3, xmm3, [rdx + r8]
    vinserti128 ymm0, ymm0, xmm1, 1
    vinserti128 ymm2, ymm2, xmm3, 1
    vinserti64x4 zmm0, zmm0, ymm2, 1
    vpmovb2m k1, zmm0
    vmovdqa64 zmm1, zmm0
    vpermi2b zmm1, zmm16, zmm17
    vmovdqa64 zmm2, zmm0
    vpermi2b zmm2, zmm18, zmm19
    vmovdqa64 zmm3, zmm0
    vpermi2b zmm3, zmm20, zmm21
    vpermi2b zmm0, zmm22, zmm23
    vmovdqu8 zmm1{{k1}}, zmm2
    vmovdqu8 zmm3{{k1}}, zmm0
"
    };
}

/// Joins codes, the later one below the earlier, until each lane has one of four bytes in zmm6 and one of the four
/// after them in zmm7, and the numbers of bits in zmm4 and zmm8.
macro_rules! join {
    () => {
        "
    vpandd zmm4, zmm3, zmm24
    vpshufb zmm5, zmm1, zmm25
    vpshufb zmm6, zmm3, zmm25
    vpsllvd zmm4, zmm4, zmm5
    vpord zmm6, zmm6, zmm4
    vpshufb zmm4, zmm3, zmm26
    vpsrld zmm5, zmm1, 24
    vpsrld zmm7, zmm3, 24
    vpsllvd zmm4, zmm4, zmm5
    vpord zmm7, zmm7, zmm4
    vpmaddubsw zmm1, zmm1, zmm27
    vpandq zmm2, zmm6, zmm29
    vpshufb zmm4, zmm1, zmm30
    vpsllvq zmm2, zmm2, zmm4
    vpternlogq zmm2, zmm7, zmm29, 0xF8
    vpsrlq zmm6, zmm6, 32
    vpsrlq zmm4, zmm1, 48
    vpsllvq zmm6, zmm6, zmm4
    vpsrlq zmm7, zmm7, 32
    vporq zmm7, zmm7, zmm6
    vmovdqa64 zmm6, zmm2
    vpmaddwd zmm1, zmm1, zmm28
    vpandq zmm4, zmm1, zmm29
    vpsrlq zmm8, zmm1, 32
"
    };
}

/// # Safety
/// The processor must have AVX-512BW and VBMI. From `first` on, eight times `common` bytes must stand `distance` bytes
/// apart; `common` must be a multiple of eight, and not zero. At each of the places there must be room for 11 bits a
/// byte, and for 8 bytes more.
unsafe fn pack_lanes(lanes: &mut Lanes, first: *const u8, distance: usize, common: usize) {
    const { assert!(std::mem::offset_of!(Lanes, third_of_eight) == 960) };
    // SAFETY: the loop begins with the last eight bytes of the pieces and ends with the first. It writes 8 bytes at
    // each place, which then advances by at most 11 bits a byte. All registers that a caller would not expect to keep
    // are declared.
    unsafe {
        asm!(
            load!(),
            "2:",
            look_up!(),
            join!(),
            "vpaddq zmm5, zmm4, zmm8",
            "vpcmpnleuq k1, zmm5, zmm31",
            "kortestw k1, k1",
            "jnz 3f",
            "vpsllvq zmm6, zmm6, zmm8",
            "vporq zmm6, zmm6, zmm7",
            push!("zmm6", "zmm5"),
            "4:",
            "sub rsi, 8",
            "sub rdx, 8",
            "dec r9",
            "jnz 2b",
            "jmp 5f",
            // Eight codes do not fit in what a lane has left.
            "3:",
            push!("zmm7", "zmm8"),
            push!("zmm6", "zmm4"),
            "jmp 4b",
            "5:",
            "vmovdqa64 [rdi + 512], zmm13",
            "vmovdqa64 [rdi + 576], zmm14",
            "vmovdqa64 [rdi + 640], zmm15",
            "vzeroupper",
            in("rdi") lanes,
            inout("rsi") first.add(common - LANE) => _,
            inout("rdx") first.add(4 * distance + common - LANE) => _,
            in("rcx") distance,
            in("r8") 3 * distance,
            inout("r9") common / LANE => _,
            out("r10") _,
            out("r11") _,
            clobber_abi("sysv64"),
            options(nostack),
        );
    }
}
