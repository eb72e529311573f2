//! Huffman codes of bytes, at most 11 bits long (RFC 8878, section 4.2.1).

use super::weights::{self, BITS_MAX, DESCRIPTION_BYTES_MAX, Lengths};
use super::window::{Width, Window};

/// How often each byte occurs.
pub(super) type Counts = [u32; 256];

/// A code, as it is described and as it is used.
pub(super) struct Code {
    pub(super) lengths: Lengths,
    /// The codes themselves. Any of them is less than 256: those of `n` bits are numbered from where the longer ones
    /// end, and 256 symbols of more than 8 bits take at most the first 256 numbers of 9 bits, and so on.
    pub(super) codes: [u8; 256],
    /// For each byte its code in the highest bits and its length in the lowest.
    pub(super) entries: [u64; 256],
    /// Where most of the bytes are expected, for vectors.
    #[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), allow(dead_code))]
    pub(super) window: Window,
    description: [u8; DESCRIPTION_BYTES_MAX],
    description_bytes: usize,
}

impl Code {
    pub(super) fn new() -> Self {
        Self {
            lengths: [0; 256],
            codes: [0; 256],
            entries: [0; 256],
            window: Window { first: 0, width: Width::Narrow },
            description: [0; DESCRIPTION_BYTES_MAX],
            description_bytes: 0,
        }
    }

    /// The shortest code for bytes that occur so often, or nearly. `false`: there is none, or none that can be
    /// described; what the code is then is undefined.
    pub(super) fn make(&mut self, counts: &Counts) -> bool {
        let Some(longest) = lengths(counts, &mut self.lengths) else { return false };
        self.number(longest);
        self.window = Window::of(&self.lengths);
        let described = weights::describe(&self.lengths, longest, &mut self.description);
        self.description_bytes = described.unwrap_or(0);
        described.is_some()
    }

    pub(super) fn description(&self) -> &[u8] {
        &self.description[..self.description_bytes]
    }

    /// The bits that bytes of such counts become.
    pub(super) fn cost_bits(&self, counts: &Counts) -> u64 {
        let costs = counts.iter().zip(&self.lengths).map(|(count, length)| u64::from(*count) * u64::from(*length));
        costs.sum()
    }

    /// Whether every byte that occurs has a code.
    pub(super) fn covers(&self, counts: &Counts) -> bool {
        counts.iter().zip(&self.lengths).all(|(count, length)| *count == 0 || *length > 0)
    }

    /// Whether every byte there is has a code.
    pub(super) fn covers_all(&self) -> bool {
        !self.lengths.contains(&0)
    }

    /// Gives the codes: in the order of symbols, the longest first.
    fn number(&mut self, longest: u32) {
        let mut of_length = [0_u32; BITS_MAX as usize + 1];
        for length in self.lengths {
            of_length[usize::from(length)] += 1;
        }
        let mut next = [0_u32; BITS_MAX as usize + 1];
        for length in (1..longest as usize).rev() {
            next[length] = (next[length + 1] + of_length[length + 1]) >> 1;
        }
        for symbol in 0..256 {
            let length = u32::from(self.lengths[symbol]);
            if length == 0 {
                (self.codes[symbol], self.entries[symbol]) = (0, 0);
                continue;
            }
            let code = &mut next[length as usize];
            self.codes[symbol] = *code as u8;
            self.entries[symbol] = u64::from(*code) << (64 - length) | u64::from(length);
            *code += 1;
        }
    }
}

/// Finds the lengths, and returns the longest. `None`: fewer than two bytes occur.
fn lengths(counts: &Counts, lengths: &mut Lengths) -> Option<u32> {
    lengths.fill(0);
    let mut keys = [0_u32; 256];
    let mut symbols = 0;
    for (symbol, count) in counts.iter().enumerate() {
        keys[symbols] = count << 8 | symbol as u32;
        symbols += usize::from(*count > 0);
    }
    if symbols < 2 {
        return None;
    }
    let keys = &mut keys[..symbols];
    keys.sort_unstable();
    let mut of_length = depths(keys);
    limit(keys, &mut of_length);
    let mut rarest_first = keys.iter();
    for length in (1..=BITS_MAX as usize).rev() {
        for key in rarest_first.by_ref().take(of_length[length] as usize) {
            lengths[(key & 0xFF) as usize] = length as u8;
        }
    }
    (1..=BITS_MAX).rev().find(|length| of_length[*length as usize] > 0)
}

/// How many leaves Huffman's tree has in each depth, those that are too deep counted at the greatest that is allowed.
/// The keys are sorted; the count stands above the lowest 8 bits.
fn depths(keys: &[u32]) -> [u32; BITS_MAX as usize + 1] {
    let leaves = keys.len();
    let (mut weights, mut parents) = ([0_u32; 256], [0_u8; 512]);
    // Inner nodes are made in the order of their weights, so both queues are sorted.
    let (mut leaf, mut inner) = (0, 0);
    for node in 0..leaves - 1 {
        let mut weight = 0;
        for _ in 0..2 {
            let take_leaf = leaf < leaves && (inner == node || keys[leaf] >> 8 <= weights[inner]);
            if take_leaf {
                weight += keys[leaf] >> 8;
                parents[leaf] = node as u8;
                leaf += 1;
            } else {
                weight += weights[inner];
                parents[256 + inner] = node as u8;
                inner += 1;
            }
        }
        weights[node] = weight;
    }
    let mut depth = [0_u8; 256];
    for node in (0..leaves - 2).rev() {
        depth[node] = depth[usize::from(parents[256 + node])].saturating_add(1);
    }
    let mut of_length = [0; BITS_MAX as usize + 1];
    for parent in &parents[..leaves] {
        let length = u32::from(depth[usize::from(*parent)]) + 1;
        of_length[length.min(BITS_MAX) as usize] += 1;
    }
    of_length
}

/// Makes the lengths those of a complete code again, after some were cut. The keys are sorted as for [`depths`]; the
/// rarest bytes have the longest codes.
fn limit(keys: &[u32], of_length: &mut [u32; BITS_MAX as usize + 1]) {
    const LONGEST: usize = BITS_MAX as usize;
    // In units of the longest code. A code that becomes longer by a bit frees half of what it took.
    let half = |length: usize| 1_i32 << (LONGEST - 1 - length);
    let taken: i32 = (1..=LONGEST).map(|length| (of_length[length] as i32) << (LONGEST - length)).sum();
    let mut excess = taken - (1 << LONGEST);
    // The rarest byte of each length stands behind all of the greater lengths.
    let mut rarest = [0; LONGEST + 2];
    for length in (1..LONGEST).rev() {
        rarest[length] = rarest[length + 1] + of_length[length + 1] as usize;
    }
    while excess > 0 {
        // What costs the least bits for the room it gives; among equals, what gives the least.
        let cost = |length: usize| u64::from(keys[rarest[length]] >> 8) << length;
        let shorter = (1..LONGEST).rev().filter(|length| of_length[*length] > 0);
        let length = shorter.min_by_key(|length| cost(*length)).expect("256 codes of 11 bits fit");
        of_length[length] -= 1;
        of_length[length + 1] += 1;
        rarest[length] += 1;
        excess -= half(length);
    }
    while excess < 0 {
        // What saves the most bits for the room it takes, and fits: the longest codes always do.
        let fitting = (1..LONGEST).filter(|length| of_length[*length + 1] > 0 && half(*length) <= -excess);
        let saved = |length: usize| u64::from(keys[rarest[length] - 1] >> 8) << length;
        let best = fitting.max_by_key(|length| saved(*length));
        let length = best.expect("half of the room of a longest code is left, or a multiple of it");
        of_length[length + 1] -= 1;
        of_length[length] += 1;
        rarest[length] -= 1;
        excess += half(length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bits of the best code with the limit: the coins of package-merge.
    fn limited_bits(counts: &Counts) -> u64 {
        let mut leaves: Vec<u64> = counts.iter().filter(|count| **count > 0).map(|count| u64::from(*count)).collect();
        leaves.sort_unstable();
        let mut packages = leaves.clone();
        for _ in 1..BITS_MAX {
            let pairs = packages.chunks_exact(2).map(|pair| pair[0] + pair[1]);
            packages = leaves.iter().copied().chain(pairs).collect();
            packages.sort_unstable();
        }
        packages[..2 * leaves.len() - 2].iter().sum()
    }

    fn check(counts: &Counts, more: f64) {
        let mut code = Code::new();
        let Some(longest) = lengths(counts, &mut code.lengths) else { panic!("two bytes occur") };
        let taken: u32 =
            code.lengths.iter().filter(|bits| **bits > 0).map(|bits| 1 << (BITS_MAX - u32::from(*bits))).sum();
        assert_eq!(taken, 1 << BITS_MAX, "the code is complete");
        assert!(longest <= BITS_MAX);
        let (bits, least) = (code.cost_bits(counts) as f64, limited_bits(counts) as f64);
        assert!(bits >= least && bits <= least * more, "{bits} bits, at best {least}");
    }

    #[test]
    fn codes_are_as_short_as_the_limit_lets_them() {
        let gaussian = |sigma: f64, tail: u32| -> Counts {
            std::array::from_fn(|n| (4000.0 * (-((n as f64 - 110.0) / sigma).powi(2) / 2.0).exp()) as u32 + tail)
        };
        for sigma in [1.0, 3.0, 8.0, 12.0, 30.0] {
            for tail in [0, 1] {
                check(&gaussian(sigma, tail), 1.01);
            }
        }
        check(&std::array::from_fn(|n| 1 << (n % 20)), 1.01);
        check(&std::array::from_fn(|n| if n < 22 { 1 << n } else { 0 }), 1.01);
        check(&std::array::from_fn(|n| n as u32), 1.01);
        check(&std::array::from_fn(|n| u32::from(n > 253)), 1.01);
        check(&std::array::from_fn(|n| if n == 9 { 100_000 } else { 1 }), 1.01);
    }
}
