//! Huffman codes of bytes, at most 11 bits long (RFC 8878, section 4.2.1).

use super::weights;

/// The longest code that a decoder takes for literals.
pub(super) const BITS_MAX: u32 = 11;

/// How often each byte occurs.
pub(super) type Counts = [u32; 256];

/// The number of bits of each byte's code; 0: it has none.
pub(super) type Lengths = [u8; 256];

/// The most bytes that the description of a code takes: its length, and at most 127 bytes or 128 weights.
pub(super) const DESCRIPTION_BYTES_MAX: usize = 1 + 127;

/// A code, as it is described and as it is used.
pub(super) struct Code {
    pub(super) lengths: Lengths,
    /// The codes themselves. Any of them is less than 256: those of `n` bits are numbered from where the longer ones
    /// end, and 256 symbols of more than 8 bits take at most the first 256 numbers of 9 bits, and so on.
    pub(super) codes: [u8; 256],
    /// For each byte its code in the highest bits and its length in the lowest.
    pub(super) entries: [u64; 256],
    description: [u8; DESCRIPTION_BYTES_MAX],
    description_bytes: usize,
}

impl Code {
    pub(super) fn new() -> Self {
        Self {
            lengths: [0; 256],
            codes: [0; 256],
            entries: [0; 256],
            description: [0; DESCRIPTION_BYTES_MAX],
            description_bytes: 0,
        }
    }

    /// The shortest code for bytes that occur so often, or nearly. `false`: there is none, or none that can be
    /// described; what the code is then is undefined.
    pub(super) fn make(&mut self, counts: &Counts) -> bool {
        let Some(longest) = lengths(counts, &mut self.lengths) else { return false };
        self.number(longest);
        match weights::describe(&self.lengths, longest, &mut self.description) {
            Some(bytes) => {
                self.description_bytes = bytes;
                true
            }
            None => false,
        }
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
    limit(&mut of_length);
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

/// Makes the lengths those of a complete code again, after some were cut.
fn limit(of_length: &mut [u32; BITS_MAX as usize + 1]) {
    let lengths = 1..=BITS_MAX as usize;
    let taken: u32 = lengths.map(|length| of_length[length] << (BITS_MAX as usize - length)).sum();
    // Each step takes a code of the greatest length away and puts it beside a shorter one, which so becomes longer by a
    // bit: that frees one code of the greatest length.
    for _ in 1 << BITS_MAX..taken {
        let shorter = (1..BITS_MAX as usize).rev().find(|length| of_length[*length] > 0);
        let shorter = shorter.expect("256 codes of 11 bits alone are not too many");
        of_length[BITS_MAX as usize] -= 1;
        of_length[shorter] -= 1;
        of_length[shorter + 1] += 2;
    }
}
