//! The sequences of a block (RFC 8878, section 3.1.1.3.2): literals to copy, then a byte to repeat.
//!
//! Only matches with the byte before are written. In a frame, the first of the recent offsets is 1 from the beginning;
//! where something else has been, the offset is said.

use super::bits::BackwardBits;
use super::fse::Table;

const LITERALS_LOG: u32 = 6;
const MATCH_LOG: u32 = 6;
#[rustfmt::skip]
const LITERALS_SHARES: [i8; 36] = [
    4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1,
];
#[rustfmt::skip]
const MATCH_SHARES: [i8; 53] = [
    1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
    1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1,
];

/// The first value of a code, and the bits that add to it.
type LengthCode = (u32, u32);
/// The codes of literal lengths from 16 on. Shorter ones are their own codes.
const LITERALS_CODES: [LengthCode; 20] =
    length_codes(16, [1, 1, 1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
/// Those of match lengths from 35 on.
const MATCH_CODES: [LengthCode; 21] =
    length_codes(35, [1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
const MATCH_MIN: u32 = 3;

/// Each code begins where the one before ends.
const fn length_codes<const N: usize>(mut first: u32, bits: [u32; N]) -> [LengthCode; N] {
    let mut codes = [(0, 0); N];
    let mut number = 0;
    while number < N {
        codes[number] = (first, bits[number]);
        first += 1 << bits[number];
        number += 1;
    }
    codes
}

/// The first of the recent offsets.
const OFFSET_RECENT: u8 = 0;
/// An offset of 1 that is said: 1 and 3, in a code of two more bits.
const OFFSET_SAID: u8 = 2;
/// Literal lengths and match lengths by the tables of the format, offsets all of one code.
const MODES: u8 = 1 << 4;

/// Bytes to copy, at least one, and how often to repeat the last of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sequence {
    pub(super) literals: u32,
    pub(super) repeats: u32,
}

/// The tables that the format has for lengths.
pub(super) struct Tables {
    literals: Table,
    matches: Table,
}

impl Tables {
    pub(super) fn new() -> Self {
        Self { literals: Table::new(LITERALS_LOG, &LITERALS_SHARES), matches: Table::new(MATCH_LOG, &MATCH_SHARES) }
    }

    /// Writes the sequences and returns the bytes. `offset_known`: the first of the recent offsets is 1. `None`: no
    /// room.
    pub(super) fn write(&self, sequences: &[Sequence], offset_known: bool, target: &mut [u8]) -> Option<usize> {
        let count = sequences.len();
        let (head, head_bytes) = match count {
            0 => return target.first_mut().map(|byte| *byte = 0).map(|()| 1),
            1..128 => ([count as u8, 0, 0], 1),
            128..0x7F00 => ([(count >> 8) as u8 + 128, count as u8, 0], 2),
            _ => ([255, (count - 0x7F00) as u8, ((count - 0x7F00) >> 8) as u8], 3),
        };
        let offset = if offset_known { OFFSET_RECENT } else { OFFSET_SAID };
        target.get_mut(..head_bytes)?.copy_from_slice(&head[..head_bytes]);
        target.get_mut(head_bytes..head_bytes + 2)?.copy_from_slice(&[MODES, offset]);
        let bits = BackwardBits::new(&mut target[head_bytes + 2..]);
        Some(head_bytes + 2 + self.stream(sequences, offset, bits)?)
    }

    fn stream(&self, sequences: &[Sequence], offset: u8, mut bits: BackwardBits) -> Option<usize> {
        let mut states = None;
        for sequence in sequences.iter().rev() {
            let literals = code(sequence.literals, 0, &LITERALS_CODES);
            let matched = code(sequence.repeats, MATCH_MIN, &MATCH_CODES);
            match &mut states {
                None => states = Some((self.literals.start(literals.0), self.matches.start(matched.0))),
                Some((literals_state, match_state)) => {
                    self.matches.encode(match_state, matched.0, &mut bits);
                    self.literals.encode(literals_state, literals.0, &mut bits);
                }
            }
            bits.put(literals.1, literals.2);
            bits.put(matched.1, matched.2);
            bits.put(0, u32::from(offset));
        }
        let (literals, matched) = states?;
        self.matches.end(matched, &mut bits);
        self.literals.end(literals, &mut bits);
        bits.finish()
    }
}

/// A length's code, and what is added to the code's first value, in how many bits.
fn code(length: u32, least: u32, codes: &[LengthCode]) -> (u8, u64, u32) {
    let (direct, _) = codes[0];
    if length < direct {
        return ((length - least) as u8, 0, 0);
    }
    let number = codes.partition_point(|(first, _)| *first <= length) - 1;
    let (first, bits) = codes[number];
    ((direct - least) as u8 + number as u8, u64::from(length - first), bits)
}
