//! Where a block repeats itself, one bit a byte.

#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
use crate::processor::x86::{has_avx2_and_bmi, has_avx512_vbmi2};
use crate::processor::{instructions, prefetch_line};

/// Bytes that one word of a mask speaks of.
pub(super) const WORD: usize = 64;

/// The least length that is worth a sequence here: what shorter ones save is less than what they cost to find, to write
/// and to read.
pub(super) const WORTH: usize = 5;
/// The last match begins at least this many bytes before the end.
pub(super) const LAST_START: usize = 12;
/// This many bytes at the end are literals.
pub(super) const LAST_LITERALS: usize = 5;

/// Words after the last one that vectors may read or write.
pub(super) const SPARE: usize = 16;

/// A match, at least [`WORTH`] bytes long.
#[derive(Debug, Clone, Copy)]
pub(super) struct Match {
    pub(super) start: usize,
    pub(super) length: usize,
    pub(super) distance: usize,
}

/// Takes matches in the order of the block. A trait, because closures cannot be told to be inlined, and this must be.
pub(super) trait Visit {
    fn visit(&mut self, found: Match);
}

/// Bit `i % 64` of word `i / 64` speaks of byte `i`.
pub(super) struct Masks {
    /// Bytes that equal the one before.
    pub(super) runs: Vec<u64>,
    /// Bytes that equal the one a plane before.
    pub(super) planes: Vec<u64>,
    /// Bytes where at least [`WORTH`] ones begin in one of the two.
    pub(super) starts: Vec<u64>,
    pub(super) words: usize,
    pub(super) plane: usize,
    pub(super) instructions: Instructions,
}

instructions! {
    /// AVX2 and the bit manipulations that came with it.
    Avx2 if has_avx2_and_bmi(),
    /// The above, and byte compares into mask registers and double shifts of 512 bits.
    Avx512 if has_avx512_vbmi2(),
}

impl Masks {
    pub(super) fn new(block_bytes: usize) -> Self {
        let mask = || vec![0; block_bytes.div_ceil(WORD) + SPARE];
        let instructions = Instructions::detect();
        Self { runs: mask(), planes: mask(), starts: mask(), words: 0, plane: 1, instructions }
    }

    #[inline(always)]
    pub(super) fn walk(&self, visitor: &mut impl Visit) {
        let mut from = 0;
        loop {
            let near = window(&self.starts, from);
            let start = if near != 0 { from + near.trailing_zeros() as usize } else { self.far_start(from) };
            if start >= self.words * WORD {
                return;
            }
            let (run, plane) = (ones(&self.runs, start), ones(&self.planes, start));
            let (length, distance) = if run >= plane { (run, 1) } else { (plane, self.plane) };
            visitor.visit(Match { start, length, distance });
            from = start + length;
        }
    }

    #[inline(never)]
    fn far_start(&self, from: usize) -> usize {
        let mut word = from / WORD;
        let mut bits = self.starts[word] & !0 << (from % WORD);
        while bits == 0 {
            word += 1;
            bits = self.starts[word];
        }
        word * WORD + bits.trailing_zeros() as usize
    }
}

/// How many bits [`window`] gives at least.
const NEAR: usize = WORD - 7;

/// The bits from bit `at` on, [`NEAR`] or a few more, then zeros.
#[inline(always)]
fn window(mask: &[u64], at: usize) -> u64 {
    assert!(at / WORD + 1 < mask.len());
    if cfg!(target_endian = "little") {
        // One load from any byte, rather than two words and three shifts.
        // SAFETY: a word from byte at / 8 on ends within the next word, which is there.
        unsafe { mask.as_ptr().cast::<u8>().add(at / 8).cast::<u64>().read_unaligned() >> (at % 8) }
    } else {
        (mask[at / WORD] >> (at % WORD) | mask[at / WORD + 1] << 1 << (WORD - 1 - at % WORD)) & !0 >> (at % 8)
    }
}

/// The number of ones from bit `at` on.
#[inline(always)]
fn ones(mask: &[u64], at: usize) -> usize {
    let near = window(mask, at).trailing_ones() as usize;
    if near < NEAR { near } else { far_zero(mask, at + NEAR) - at }
}

/// The first zero from bit `at` on.
#[inline(never)]
fn far_zero(mask: &[u64], at: usize) -> usize {
    let mut word = at / WORD;
    let mut bits = mask[word] | !(!0 << (at % WORD));
    while bits == !0 {
        word += 1;
        bits = mask[word];
    }
    word * WORD + bits.trailing_ones() as usize
}

/// Clears all bits from `end` on, and the words from `words` on.
pub(super) fn clear_from(mask: &mut [u64], words: usize, end: usize) {
    let whole = (end / WORD).min(words);
    if whole < words {
        mask[whole] &= !(!0 << (end % WORD));
    }
    mask[(whole + 1).min(words)..].fill(0);
}

/// Fills both masks, `equal` comparing [`WORD`] bytes from the first place on with as many from the second on.
#[inline(always)]
pub(super) fn compare(
    equal: impl Fn(&[u8; WORD], &[u8; WORD]) -> u64,
    padded: &[u8],
    plane: usize,
    runs: &mut [u64],
    planes: &mut [u64],
    prefetched: &[usize],
) {
    let at = |place: usize| padded[place..].first_chunk().expect("a word of slack stands behind the block");
    for ((word, mask), line) in runs.iter_mut().enumerate().zip(prefetched).skip(1) {
        prefetch_line(*line);
        *mask = equal(at(word * WORD), at(word * WORD - 1));
    }
    first_words(&equal, padded, plane, runs, planes);
    for (word, mask) in planes.iter_mut().enumerate().skip(plane.div_ceil(WORD)) {
        *mask = equal(at(word * WORD), at(word * WORD - plane));
    }
}

/// Fills the first word of `runs`, and `planes` up to and including the word that the second plane begins in, if it
/// does so within the word.
#[inline(always)]
pub(super) fn first_words(
    equal: impl Fn(&[u8; WORD], &[u8; WORD]) -> u64,
    padded: &[u8],
    plane: usize,
    runs: &mut [u64],
    planes: &mut [u64],
) {
    let at = |place: usize| padded[place..].first_chunk().expect("a word of slack stands behind the block");
    // The first byte has none before it.
    runs[0] = equal(at(1), at(0)) << 1;
    let (word, bit) = (plane / WORD, plane % WORD);
    let none = word.min(planes.len());
    planes[..none].fill(0);
    if bit > 0 && word < planes.len() {
        planes[word] = equal(at(plane), at(0)) << bit;
    }
}

/// One bit for each equal byte, without vectors.
pub(super) fn equal(a: &[u8; WORD], b: &[u8; WORD]) -> u64 {
    let mut mask = 0;
    for (i, (a, b)) in a.chunks_exact(8).zip(b.chunks_exact(8)).enumerate() {
        let [a, b] = [a, b].map(|bytes| u64::from_le_bytes(*bytes.first_chunk().expect("chunks of eight")));
        let differ = a ^ b;
        const LOW: u64 = 0x7F7F_7F7F_7F7F_7F7F;
        // The top bit of each byte that differs: by itself, or by a carry from the others.
        let differ = (((differ & LOW) + LOW) | differ) & !LOW;
        let equal = (!differ & !LOW) >> 7;
        // Each product of two single bits lands in a place of its own; those in the top byte are wanted.
        mask |= (equal.wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * i);
    }
    mask
}

/// Fills `starts`, which has fewer words than the others.
#[inline(always)]
pub(super) fn begin(runs: &[u64], planes: &[u64], starts: &mut [u64]) {
    let words = starts.len();
    let (runs, next_runs) = (&runs[..words], &runs[1..=words]);
    let (planes, next_planes) = (&planes[..words], &planes[1..=words]);
    for i in 0..words {
        starts[i] = worth(runs[i], next_runs[i]) | worth(planes[i], next_planes[i]);
    }
}

/// The bits of `word` from which at least [`WORTH`] ones go on, if need be into the next word.
#[inline(always)]
fn worth(mut word: u64, mut next: u64) -> u64 {
    let mut known = 1;
    while known < WORTH {
        let step = known.min(WORTH - known);
        word &= word >> step | next << (WORD - step);
        next &= next >> step;
        known += step;
    }
    word
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::codec::runs::Runs;

    impl Visit for Vec<(usize, usize, usize)> {
        fn visit(&mut self, found: Match) {
            self.push((found.start, found.length, found.distance));
        }
    }

    /// The matches by their definition, byte by byte.
    fn definition(block: &[u8], plane: usize) -> Vec<(usize, usize, usize)> {
        let length = |start: usize, distance: usize| {
            let equal = |at: usize| at >= distance && block[at] == block[at - distance];
            (start..block.len() - LAST_LITERALS).take_while(|at| equal(*at)).count()
        };
        let (mut all, mut at) = (Vec::new(), 0);
        while at <= block.len() - LAST_START {
            let (run, repeat) = (length(at, 1), length(at, plane));
            if run.max(repeat) < WORTH {
                at += 1;
                continue;
            }
            let (length, distance) = if run >= repeat { (run, 1) } else { (repeat, plane) };
            all.push((at, length, distance));
            at += length;
        }
        all
    }

    fn check(block: &[u8], plane: usize) {
        let expected = definition(block, plane);
        let mut padded = block.to_vec();
        // What stands behind continues the block as temptingly as possible.
        padded.extend(std::iter::repeat_n(*block.last().unwrap(), Runs::SLACK));
        for instructions in Instructions::all() {
            let mut masks = Masks { instructions, ..Masks::new(block.len() + 500) };
            for mask in [&mut masks.runs, &mut masks.planes, &mut masks.starts] {
                mask.fill(!0);
            }
            masks.compare(&padded, block.len(), plane, &vec![0; block.len().div_ceil(WORD)]);
            let mut found = Vec::new();
            masks.show(&mut found);
            assert_eq!(found, expected, "{} bytes, planes of {plane}, {instructions:?}", block.len());
        }
    }

    #[test]
    fn matches_are_found_to_the_last_that_may_be() {
        for bytes in (LAST_START + 1..150).chain([191, 192, 193, 1000, 1024, 4096]) {
            for plane in [1, 2, 7, 8, 63, 64, 65, 128, 500, bytes] {
                check(&vec![7; bytes], plane);
                check(&(0..bytes).map(|i| ((i % plane * 37) >> 3) as u8).collect::<Vec<_>>(), plane);
                check(&(0..bytes).map(|i| (i % 191 / 7) as u8).collect::<Vec<_>>(), plane);
            }
        }
    }

    proptest! {
        #[test]
        fn any_block_gives_the_same_matches_everywhere(
            block in prop::collection::vec(prop_oneof![9 => Just(0_u8), 1 => any::<u8>()], LAST_START + 1..3000),
            plane in prop_oneof![1_usize..70, (1_usize..20).prop_map(|words| words * 64)],
        ) {
            check(&block, plane);
        }
    }
}
