//! Packing four streams at once with AVX2, one in each lane of 64 bits.
//!
//! A byte shuffle looks 16 values up. The values of a [window](crate::codec::zstd_writer::window) take one shuffle for
//! each 16 of them: row 0 is looked up for all bytes by their lowest four bits, and each further row holds the
//! difference from the row before it, which bytes below that row do not get. Where a byte lies outside of the window,
//! all sixteen rows of all values are gone through.

#![allow(unsafe_code)]

use std::arch::asm;
use std::arch::x86_64::*;
use std::array::from_fn;

use super::scalar::{LANE, Packed};
use crate::codec::zstd_writer::huffman::Code;
use crate::codec::zstd_writer::weights::BITS_MAX;
use crate::codec::zstd_writer::window::Width;

/// Streams that are packed at once.
pub(super) const LANES: usize = 4;
/// Values of one row.
const ROW: usize = 16;
/// What fits on top of bits that fill no byte.
const BITS_AT_ONCE: i32 = 57;

/// Packs the first `common` bytes of each piece, a multiple of eight, behind what is packed. The streams stand `stride`
/// bytes apart in `packed`. To be called where the processor has AVX2.
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
    let sources = pieces.map(<[u8]>::as_ptr);
    let mut streams = Streams {
        held: from_fn(|number| states[number].held.checked_shr(64 - states[number].count as u32).unwrap_or(0)),
        counts: states.map(|state| state.count),
        places: from_fn(|number| (number * stride + states[number].at) as u64),
    };
    // SAFETY: the caller found that the processor has AVX2. Each piece has `common` bytes; each stream has room for 11
    // bits a byte and 8 bytes more, as checked above.
    unsafe {
        match code.window.width {
            Width::Narrow => streams.pack::<4>(sources, common, code, packed.as_mut_ptr()),
            Width::Wide => streams.pack::<8>(sources, common, code, packed.as_mut_ptr()),
        }
    }
    for (number, state) in states.iter_mut().enumerate() {
        state.count = streams.counts[number];
        state.held = streams.held[number].checked_shl(64 - state.count as u32).unwrap_or(0);
        state.at = streams.places[number] as usize - number * stride;
    }
}

/// The streams as far as they are packed.
struct Streams {
    /// Bits of each stream that are not yet written, in the lowest places; how many; and where the next go.
    held: [u64; LANES],
    counts: [u64; LANES],
    places: [u64; LANES],
}

impl Streams {
    /// # Safety
    /// The processor must have AVX2. Each of `sources` must have `common` bytes, a multiple of eight. At each place
    /// from `target` on there must be room for 11 bits a byte, and for 8 bytes more.
    #[target_feature(enable = "avx2")]
    unsafe fn pack<const ROWS: usize>(
        &mut self,
        sources: [*const u8; LANES],
        common: usize,
        code: &Code,
        target: *mut u8,
    ) {
        let tables = Tables::<ROWS>::new(code);
        // SAFETY: the arrays have as many bytes as a vector.
        let (held, counts, places) = unsafe {
            let load = |from: &[u64; LANES]| _mm256_loadu_si256(from.as_ptr().cast());
            (load(&self.held), load(&self.counts), load(&self.places))
        };
        let mut bits = Bits { held, counts, places };
        for at in (0..common).step_by(LANE).rev() {
            // SAFETY: each piece has eight bytes from there on. The places advance by at most 11 bits a byte.
            unsafe {
                let joined = Joined::new(tables.look_up(load(sources, at), code));
                joined.put(&mut bits, target);
            }
        }
        // SAFETY: as above.
        unsafe {
            let store = |vector, to: &mut [u64; LANES]| _mm256_storeu_si256(to.as_mut_ptr().cast(), vector);
            store(bits.held, &mut self.held);
            store(bits.counts, &mut self.counts);
            store(bits.places, &mut self.places);
        }
    }
}

/// Eight bytes of each stream.
///
/// # Safety
/// They must be there.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load(sources: [*const u8; LANES], at: usize) -> __m256i {
    // SAFETY: the caller promises it.
    let lane = |number: usize| unsafe { sources[number].add(at).cast::<i64>().read_unaligned() };
    _mm256_set_epi64x(lane(3), lane(2), lane(1), lane(0))
}

/// What bytes are looked up in: the codes and their lengths.
struct Tables<const ROWS: usize> {
    first: __m256i,
    codes: [__m256i; ROWS],
    lengths: [__m256i; ROWS],
}

impl<const ROWS: usize> Tables<ROWS> {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new(code: &Code) -> Self {
        let first = usize::from(code.window.first);
        Self {
            first: _mm256_set1_epi8(code.window.first as i8),
            codes: rows(&code.codes[first..]),
            lengths: rows(&code.lengths[first..]),
        }
    }

    /// Codes and lengths of bytes.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn look_up(&self, bytes: __m256i, code: &Code) -> (__m256i, __m256i) {
        let values = _mm256_sub_epi8(bytes, self.first);
        let outside = _mm256_set1_epi8(!(ROWS * ROW - 1) as i8);
        if _mm256_testz_si256(values, outside) == 0 {
            return look_up_any(bytes, code);
        }
        let mut codes = _mm256_shuffle_epi8(self.codes[0], values);
        let mut lengths = _mm256_shuffle_epi8(self.lengths[0], values);
        for row in 1..ROWS {
            // Negative below the row, for which a shuffle gives zeros.
            let values = _mm256_sub_epi8(values, _mm256_set1_epi8((ROW * row) as i8));
            codes = _mm256_xor_si256(codes, _mm256_shuffle_epi8(self.codes[row], values));
            lengths = _mm256_xor_si256(lengths, _mm256_shuffle_epi8(self.lengths[row], values));
        }
        (codes, lengths)
    }
}

/// Row 0 of a table, and how each further row differs from the one before, twice side by side: shuffles stay within 16
/// bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn rows<const ROWS: usize>(table: &[u8]) -> [__m256i; ROWS] {
    let row = |number: usize| twice(&table[ROW * number..]);
    from_fn(|number| if number == 0 { row(0) } else { _mm256_xor_si256(row(number), row(number - 1)) })
}

#[inline]
#[target_feature(enable = "avx2")]
fn twice(row: &[u8]) -> __m256i {
    let row = &row[..ROW];
    // SAFETY: the row has 16 bytes.
    _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(row.as_ptr().cast()) })
}

/// Codes and lengths of any bytes, row by row.
#[inline]
#[target_feature(enable = "avx2")]
fn look_up_any(bytes: __m256i, code: &Code) -> (__m256i, __m256i) {
    let (mut codes, mut lengths) = (_mm256_setzero_si256(), _mm256_setzero_si256());
    for row in 0..256 / ROW {
        // Below 16 in this row alone; above that the highest bit is set, for which a shuffle gives zeros.
        let values = _mm256_xor_si256(bytes, _mm256_set1_epi8((ROW * row) as i8));
        let values = _mm256_adds_epu8(values, _mm256_set1_epi8(0x70));
        codes = _mm256_or_si256(codes, _mm256_shuffle_epi8(twice(&code.codes[ROW * row..]), values));
        lengths = _mm256_or_si256(lengths, _mm256_shuffle_epi8(twice(&code.lengths[ROW * row..]), values));
    }
    (codes, lengths)
}

/// Shifts of each lane by its own count. What the standard library has for them tells the compiler what happens to
/// counts that are too great, and then it takes two instructions more for those.
macro_rules! shift {
    ($name:ident, $instruction:literal) => {
        #[inline]
        #[target_feature(enable = "avx2")]
        fn $name(bits: __m256i, counts: __m256i) -> __m256i {
            let shifted;
            // SAFETY: the instruction is one of AVX2 and touches its registers alone.
            unsafe {
                asm!(
                    concat!($instruction, " {}, {}, {}"),
                    lateout(ymm_reg) shifted,
                    in(ymm_reg) bits,
                    in(ymm_reg) counts,
                    options(pure, nomem, nostack, preserves_flags),
                );
            }
            shifted
        }
    };
}

shift!(left_in_32, "vpsllvd");
shift!(left_in_64, "vpsllvq");
shift!(right_in_64, "vpsrlvq");

/// In each lane the joined codes of four bytes, the later one below the earlier, and of the four after them, with their
/// numbers of bits.
struct Joined {
    early: __m256i,
    early_bits: __m256i,
    late: __m256i,
    late_bits: __m256i,
}

impl Joined {
    /// Joins two and two codes in 32 bits, then these in 64.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new((codes, lengths): (__m256i, __m256i)) -> Self {
        let second_of_four = pick(1, 4);
        let third_of_four = pick(2, 4);
        let third_of_eight = pick(2, 8);
        let low_half = _mm256_set1_epi64x(0xFFFF_FFFF);
        let firsts = _mm256_and_si256(codes, _mm256_set1_epi32(0xFF));
        let firsts = left_in_32(firsts, _mm256_shuffle_epi8(lengths, second_of_four));
        let first_pairs = _mm256_or_si256(firsts, _mm256_shuffle_epi8(codes, second_of_four));
        let thirds = _mm256_shuffle_epi8(codes, third_of_four);
        let thirds = left_in_32(thirds, _mm256_srli_epi32::<24>(lengths));
        let second_pairs = _mm256_or_si256(thirds, _mm256_srli_epi32::<24>(codes));

        let pair_bits = _mm256_maddubs_epi16(lengths, _mm256_set1_epi8(1));
        let early = _mm256_and_si256(first_pairs, low_half);
        let early = left_in_64(early, _mm256_shuffle_epi8(pair_bits, third_of_eight));
        let early = _mm256_or_si256(early, _mm256_and_si256(second_pairs, low_half));
        let late = _mm256_srli_epi64::<32>(first_pairs);
        let late = left_in_64(late, _mm256_srli_epi64::<48>(pair_bits));
        let late = _mm256_or_si256(late, _mm256_srli_epi64::<32>(second_pairs));
        let bits = _mm256_madd_epi16(pair_bits, _mm256_set1_epi16(1));
        let (early_bits, late_bits) = (_mm256_and_si256(bits, low_half), _mm256_srli_epi64::<32>(bits));
        Self { early, early_bits, late, late_bits }
    }

    /// # Safety
    /// As of [`Bits::put`].
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn put(self, streams: &mut Bits, target: *mut u8) {
        let all_bits = _mm256_add_epi64(self.early_bits, self.late_bits);
        let too_many = _mm256_cmpgt_epi32(all_bits, _mm256_set1_epi32(BITS_AT_ONCE));
        // SAFETY: the caller's promise.
        unsafe {
            if _mm256_testz_si256(too_many, too_many) == 1 {
                let all = _mm256_or_si256(left_in_64(self.early, self.late_bits), self.late);
                streams.put(all, all_bits, target);
            } else {
                streams.put(self.late, self.late_bits, target);
                streams.put(self.early, self.early_bits, target);
            }
        }
    }
}

/// For byte shuffles: in each `width` bytes, byte `which` in the lowest place and zeros.
#[inline]
#[target_feature(enable = "avx2")]
fn pick(which: i8, width: usize) -> __m256i {
    let mut picked = [-1_i8; ROW];
    for at in (0..ROW).step_by(width) {
        picked[at] = at as i8 + which;
    }
    // SAFETY: there are 16 bytes.
    _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(picked.as_ptr().cast()) })
}

/// As [`Streams`], in vectors.
struct Bits {
    held: __m256i,
    counts: __m256i,
    places: __m256i,
}

impl Bits {
    /// Appends the lowest `count` bits to each stream, at most 57; those above must be zero.
    ///
    /// # Safety
    /// There must be room for 8 bytes at each place from `target` on.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn put(&mut self, bits: __m256i, count: __m256i, target: *mut u8) {
        let held = _mm256_or_si256(self.held, left_in_64(bits, self.counts));
        let mut places = [0_u64; LANES];
        let mut values = [0_u64; LANES];
        // SAFETY: the arrays have as many bytes as a vector; the places are the caller's promise.
        unsafe {
            _mm256_storeu_si256(places.as_mut_ptr().cast(), self.places);
            _mm256_storeu_si256(values.as_mut_ptr().cast(), held);
            for (place, value) in places.into_iter().zip(values) {
                target.add(place as usize).cast::<u64>().write_unaligned(value);
            }
        }
        let counts = _mm256_add_epi64(self.counts, count);
        self.places = _mm256_add_epi64(self.places, _mm256_srli_epi64::<3>(counts));
        // Whole bytes are done with.
        let seven = _mm256_set1_epi64x(7);
        self.held = right_in_64(held, _mm256_andnot_si256(seven, counts));
        self.counts = _mm256_and_si256(counts, seven);
    }
}
