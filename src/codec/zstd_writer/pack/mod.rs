//! Bytes into the bits of their codes.
//!
//! The scalar code is the definition. Vectors pack several streams at once, one in each lane; all ways pack the same
//! bits.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod scalar;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod unchecked;

pub(super) use self::scalar::STREAMS_MAX;
use self::scalar::{LANE, Packed};
use super::huffman::Code;
use super::weights::BITS_MAX;
use crate::processor::instructions;
#[cfg(target_arch = "x86_64")]
use crate::processor::x86::{has_avx2_and_bmi, has_avx512_vbmi};

/// Bytes that may be written behind a stream.
const SPARE: usize = 64;

/// Packed streams, each in a place of its own.
pub(super) struct Streams {
    packed: Vec<u8>,
    stride: usize,
    instructions: Instructions,
}

instructions! {
    /// Four lanes, look-ups of 16 values, and shifts by any register.
    Avx2 if has_avx2_and_bmi(),
    /// The above, and eight lanes with look-ups of 128 values.
    Avx512 if has_avx2_and_bmi() && has_avx512_vbmi(),
}

impl Streams {
    /// For streams of at most this many bytes.
    pub(super) fn new(most_bytes: usize) -> Self {
        Self::with(most_bytes, Instructions::detect())
    }

    pub(super) fn with(most_bytes: usize, instructions: Instructions) -> Self {
        let stride = (most_bytes * BITS_MAX as usize).div_ceil(8) + SPARE;
        Self { packed: vec![0; STREAMS_MAX * stride], stride, instructions }
    }

    /// Packs each of `pieces`, all bytes of which must have codes, and returns the stream of each.
    pub(super) fn pack(&mut self, pieces: &[&[u8]], code: &Code) -> [&[u8]; STREAMS_MAX] {
        let mut states = [Packed::default(); STREAMS_MAX];
        let (instructions, stride) = (self.instructions, self.stride);
        let lanes = instructions.lanes(pieces);
        let groups = pieces.chunks(lanes).zip(states.chunks_mut(lanes)).zip(self.packed.chunks_mut(lanes * stride));
        for ((pieces, states), packed) in groups {
            // What the vectors do not take are the ends of streams, which come first.
            let common = instructions.common_bytes(pieces);
            for ((piece, state), place) in pieces.iter().zip(&mut *states).zip(packed.chunks_exact_mut(stride)) {
                *state = instructions.pack(*state, &piece[common..], code, place);
            }
            if common > 0 {
                pack_lanes(states, pieces, common, code, packed, stride);
            }
        }
        let mut streams: [&[u8]; STREAMS_MAX] = [&[]; STREAMS_MAX];
        let places = self.packed.chunks_exact_mut(stride);
        for ((state, place), stream) in states.into_iter().zip(places).zip(&mut streams).take(pieces.len()) {
            let bytes = state.finish(place);
            *stream = &place[..bytes];
        }
        streams
    }
}

impl Instructions {
    /// Packs the bytes of one stream that come before those that were packed.
    fn pack(self, state: Packed, bytes: &[u8], code: &Code, target: &mut [u8]) -> Packed {
        match self {
            Self::Scalar => state.more(bytes, code, target),
            #[cfg(target_arch = "aarch64")]
            Self::Neon => unchecked::more(state, bytes, code, target),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 | Self::Avx512 => unchecked::more_bmi2(state, bytes, code, target),
        }
    }

    /// How many of the pieces are packed at once.
    fn lanes(self, pieces: &[&[u8]]) -> usize {
        let _ = pieces;
        match self {
            Self::Scalar => 1,
            #[cfg(target_arch = "aarch64")]
            Self::Neon => neon::LANES,
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 if avx512::takes(pieces) => avx512::LANES,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 | Self::Avx512 => avx2::LANES,
        }
    }

    /// How many bytes of each piece vectors can take. There are at most as many pieces as lanes.
    fn common_bytes(self, pieces: &[&[u8]]) -> usize {
        if self == Self::Scalar || pieces.len() < self.lanes(pieces) {
            return 0;
        }
        pieces.iter().map(|piece| piece.len()).min().unwrap_or(0) / LANE * LANE
    }
}

/// Packs the first `common` bytes of each piece, as many as [`common_bytes`](Instructions::common_bytes) said, behind
/// what is packed.
fn pack_lanes(states: &mut [Packed], pieces: &[&[u8]], common: usize, code: &Code, packed: &mut [u8], stride: usize) {
    #[cfg(target_arch = "x86_64")]
    if let (Ok(states), Ok(pieces)) = ((&mut *states).try_into(), pieces.try_into()) {
        return avx512::pack(states, pieces, common, code, packed, stride);
    }
    #[cfg(target_arch = "x86_64")]
    if let (Ok(states), Ok(pieces)) = ((&mut *states).try_into(), pieces.try_into()) {
        return avx2::pack(states, pieces, common, code, packed, stride);
    }
    #[cfg(target_arch = "aarch64")]
    if let (Ok(states), Ok(pieces)) = ((&mut *states).try_into(), pieces.try_into()) {
        return neon::pack(states, pieces, common, code, packed, stride);
    }
    let _ = (states, pieces, common, code, packed, stride);
    unreachable!("there are as many pieces as lanes");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::speed::random;

    /// The bits by their definition, one after the other.
    fn definition(bytes: &[u8], code: &Code) -> Vec<u8> {
        let mut bits: Vec<bool> = vec![];
        for byte in bytes.iter().rev() {
            let (code, length) = (code.codes[usize::from(*byte)], code.lengths[usize::from(*byte)]);
            bits.extend((0..length).map(|bit| u32::from(code) >> bit & 1 == 1));
        }
        bits.push(true);
        bits.chunks(8).map(|eight| eight.iter().rev().fold(0, |byte, bit| byte << 1 | u8::from(*bit))).collect()
    }

    fn check(counts: &[u32], stream_bytes: usize, last_bytes: usize) {
        let mut code = Code::new();
        let all: [u32; 256] = std::array::from_fn(|symbol| counts.get(symbol).copied().unwrap_or(0));
        assert!(code.make(&all));
        let total: u64 = counts.iter().map(|count| u64::from(*count)).sum();
        let mut random = random(5);
        let bytes: Vec<u8> = std::iter::repeat_with(|| {
            let mut rank = random() % total;
            let drawn = counts.iter().position(|count| {
                let found = rank < u64::from(*count);
                rank = rank.saturating_sub(u64::from(*count));
                found
            });
            drawn.unwrap() as u8
        })
        .take(STREAMS_MAX * stream_bytes)
        .collect();
        let pieces: Vec<&[u8]> = bytes.chunks(stream_bytes.max(1)).map(|piece| &piece[..last_bytes]).collect();
        let pieces = if pieces.is_empty() { vec![&bytes[..0]; STREAMS_MAX] } else { pieces };
        // Also in an order in which they don't begin at equal distances.
        for pieces in [pieces.clone(), [&pieces[1..], &pieces[..1]].concat()] {
            check_pieces(&pieces, stream_bytes, &code);
        }
    }

    fn check_pieces(pieces: &[&[u8]], stream_bytes: usize, code: &Code) {
        let expected: Vec<_> = pieces.iter().map(|piece| definition(piece, code)).collect();
        for instructions in Instructions::all() {
            let mut streams = Streams::with(stream_bytes, instructions);
            for streams_wanted in [STREAMS_MAX, 4, 1] {
                let packed = streams.pack(&pieces[..streams_wanted], code);
                for (number, expected) in expected[..streams_wanted].iter().enumerate() {
                    assert!(packed[number] == expected, "{instructions:?}, {stream_bytes} bytes, stream {number}");
                }
            }
        }
    }

    #[test]
    fn all_instructions_pack_as_defined() {
        let powers: Vec<u32> = (0..20).map(|power| 1 << power).collect();
        let rare: Vec<u32> = (0..256).map(|symbol| if symbol < 3 { 20 } else { 1 }).collect();
        let flat: Vec<u32> = (0..256_u32).map(|symbol| 1 + (symbol % 4).pow(3)).collect();
        let steep: Vec<u32> = (0..256).map(|symbol| 1 + (symbol == 77) as u32 * 400).collect();
        // A narrow window, with bytes on both sides of it that hardly ever come; and places that no window has both of.
        let share = |symbol| match symbol {
            0 | 255 => 1,
            90..150 => 300,
            _ => 0,
        };
        let far: Vec<u32> = (0..256).map(share).collect();
        let apart: Vec<u32> = (0..256).map(|symbol| u32::from(symbol % 160 < 20)).collect();
        let lengths = if cfg!(miri) { vec![40] } else { (0..100).chain([255, 256, 1000, 8192]).collect() };
        let kinds = [&far[..], &flat, &[1, 1], &powers, &rare, &steep, &apart];
        for stream_bytes in lengths {
            for counts in &kinds[..if cfg!(miri) { 1 } else { kinds.len() }] {
                check(counts, stream_bytes, stream_bytes);
                check(counts, stream_bytes, stream_bytes.saturating_sub(3));
            }
        }
    }
}
