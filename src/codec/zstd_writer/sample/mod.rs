//! What a group of bytes is like, by a look at some of them.

#[cfg(target_arch = "aarch64")]
mod neon;
mod scalar;
#[cfg(target_arch = "x86_64")]
mod x86;

use super::huffman::Counts;

/// Bytes that are counted together, so that a look at a few in a row costs one load.
const WORD: usize = 8;
/// Tables that bytes are counted in, one after the other.
const TURNS: usize = 4;

/// How closely a group is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// Enough to see whether a code still fits.
    Brief,
    /// Enough to make a code, whose flaws all later groups bear.
    Close,
    /// At all bytes.
    Full,
}

impl Look {
    /// Of how many words one is looked at.
    fn step(self, bytes: usize) -> usize {
        match self {
            Self::Brief => (bytes >> 12).max(1),
            Self::Close => (bytes >> 14).max(1),
            Self::Full => 1,
        }
    }
}

/// How often bytes occur among those that were looked at.
pub(super) struct Sample {
    pub(super) counts: Counts,
    /// The bytes that were looked at.
    pub(super) bytes: u32,
    /// Whether that were all.
    complete: bool,
}

impl Sample {
    pub(super) fn new() -> Self {
        Self { counts: [0; 256], bytes: 0, complete: true }
    }

    pub(super) fn look_at(&mut self, group: &[u8], look: Look) {
        let step = look.step(group.len());
        self.complete = step == 1;
        // Counts in turns, because to count the same byte twice in a row waits for the first.
        let mut turns = [[0_u32; 256]; TURNS];
        let mut words = group.chunks_exact(WORD * step);
        for stretch in words.by_ref() {
            let word = u64::from_le_bytes(*stretch.first_chunk().expect("a stretch has a word"));
            for place in 0..WORD {
                turns[place % TURNS][(word >> (8 * place)) as u8 as usize] += 1;
            }
        }
        for byte in words.remainder() {
            turns[0][usize::from(*byte)] += 1;
        }
        self.bytes = 0;
        for (symbol, count) in self.counts.iter_mut().enumerate() {
            *count = turns.iter().map(|counts| counts[symbol]).sum();
            self.bytes += *count;
        }
    }

    /// The counts, where every byte that may occur in the group without having been looked at has the least. What is
    /// looked at instead are the upper four bits of all bytes.
    pub(super) fn completed(&self, group: &[u8]) -> Counts {
        if self.complete {
            return self.counts;
        }
        let upper = upper_halves(group);
        std::array::from_fn(|symbol| self.counts[symbol].max(upper >> (symbol / 16) & 1))
    }

    /// The least number of bits, in 1/256, that any code of whole bytes needs for what was looked at.
    pub(super) fn entropy(&self) -> u64 {
        let total = u64::from(log2(self.bytes.max(1)));
        let costs = self.counts.iter().filter(|count| **count > 0);
        costs.map(|count| u64::from(*count) * (total.saturating_sub(u64::from(log2(*count))))).sum()
    }
}

/// Bit `n` says whether there is a byte with `n` in its upper four bits.
fn upper_halves(group: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if crate::processor::has_avx2() {
        return x86::upper_halves(group);
    }
    #[cfg(target_arch = "aarch64")]
    return neon::upper_halves(group);
    #[cfg(not(target_arch = "aarch64"))]
    scalar::upper_halves(group)
}

/// The logarithm to base 2, in 1/256.
fn log2(number: u32) -> u32 {
    let whole = number.ilog2();
    let fraction = (u64::from(number) << 32 >> whole) as u32 >> 24;
    whole << 8 | u32::from(FRACTIONS[fraction as usize])
}

/// 256 times the logarithm to base 2 of 1 + (n + 1/2) / 256.
const FRACTIONS: [u8; 256] = fractions();

const fn fractions() -> [u8; 256] {
    let mut table = [0; 256];
    let mut n = 0;
    while n < 256 {
        // The bits of a logarithm, one after the other: a square has twice the logarithm.
        let mut number = ((512 + 2 * n as u64) + 1) << 22;
        let mut bit = 0;
        while bit < 8 {
            number = (number * number) >> 31;
            table[n] <<= 1;
            if number >> 32 == 1 {
                number >>= 1;
                table[n] |= 1;
            }
            bit += 1;
        }
        n += 1;
    }
    table
}

/// How often a byte differs from the one before.
pub(super) fn changes(group: &[u8]) -> usize {
    let (before, after) = (group, group.get(1..).unwrap_or(&[]));
    #[cfg(target_arch = "x86_64")]
    if crate::processor::has_avx2() {
        return x86::differences(&before[..after.len()], after);
    }
    scalar::differences(&before[..after.len()], after)
}

/// Whether all bytes are the same.
pub(super) fn is_constant(group: &[u8]) -> bool {
    group.get(1..).is_none_or(|rest| rest == &group[..group.len() - 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_see_the_same_upper_halves() {
        let (step, lengths) = if cfg!(miri) { (85, 63..66) } else { (1, 0..140) };
        for bytes in lengths.chain([255]) {
            for value in (0..=255_u8).step_by(step) {
                let mut group = vec![0x77; bytes];
                if let Some(last) = group.last_mut() {
                    *last = value;
                }
                assert_eq!(upper_halves(&group), scalar::upper_halves(&group), "{value} after {bytes} bytes");
                group.reverse();
                assert_eq!(upper_halves(&group), scalar::upper_halves(&group), "{value} before {bytes} bytes");
            }
        }
    }

    #[test]
    fn changes_are_counted() {
        for bytes in [0, 1, 2, 127, 128, 129, 256, 257, 1000] {
            let group: Vec<u8> = (0..bytes).map(|place: usize| (place * place / 7) as u8).collect();
            assert_eq!(changes(&group), group.windows(2).filter(|pair| pair[0] != pair[1]).count());
            assert_eq!(is_constant(&group), changes(&group) == 0);
        }
    }

    #[test]
    fn logarithms_are_right_to_1_in_256() {
        for number in (1..2000).chain((2000..131_072).step_by(997)) {
            let expected = f64::from(number).log2() * 256.0;
            assert!((f64::from(log2(number)) - expected).abs() < 1.6, "{number}");
        }
    }
}
