//! Fills and shows the masks with what the processor offers.

#![allow(unsafe_code)]

use super::masks::{
    Instructions, LAST_LITERALS, LAST_START, Masks, SPARE, Visit, WORD, begin, clear_from, compare, equal,
};
#[cfg(target_arch = "aarch64")]
use super::neon;
#[cfg(target_arch = "x86_64")]
use super::x86;

impl Masks {
    /// Compares the first `block_bytes` bytes of `padded` with those one byte and `plane` bytes before, and asks for
    /// one of the lines of `prefetched` with each word.
    pub(super) fn compare(&mut self, padded: &[u8], block_bytes: usize, plane: usize, prefetched: &[usize]) {
        self.words = block_bytes.div_ceil(WORD);
        self.plane = plane;
        assert!(plane > 0 && padded.len() >= (self.words + 1) * WORD);
        let prefetched = &prefetched[..self.words];
        let (runs, planes) = (&mut self.runs[..self.words], &mut self.planes[..self.words]);
        match self.instructions {
            Instructions::Scalar => compare(equal, padded, plane, runs, planes, prefetched),
            #[cfg(target_arch = "aarch64")]
            Instructions::Neon => compare(neon::equal, padded, plane, runs, planes, prefetched),
            // SAFETY: the processor was found to have them; `padded` has a word more than the masks speak of.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => unsafe { x86::compare(padded, plane, runs, planes, prefetched) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => unsafe { x86::compare_512(padded, plane, runs, planes, prefetched) },
        }
        for mask in [&mut self.runs, &mut self.planes] {
            // Old bits after the end would prolong the last match.
            clear_from(&mut mask[..self.words + SPARE], self.words, block_bytes - LAST_LITERALS);
        }
        let padded_words = self.words + SPARE;
        let (runs, planes) = (&self.runs[..padded_words], &self.planes[..padded_words]);
        let starts = &mut self.starts[..padded_words];
        match self.instructions {
            // SAFETY: the processor was found to have it.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => unsafe { x86::begin(runs, planes, &mut starts[..self.words]) },
            // SAFETY: as above; each mask has at least 16 words more than are asked for.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => unsafe { x86::begin_512(runs, planes, starts, self.words) },
            _ => begin(runs, planes, &mut starts[..self.words]),
        }
        clear_from(starts, self.words, block_bytes - LAST_START + 1);
        // Ends the search for the next one.
        starts[self.words] = !0;
    }

    /// Shows one match after the other, each the longer of the two that begin first.
    pub(super) fn show(&self, visitor: &mut impl Visit) {
        match self.instructions {
            // SAFETY: the processor was found to have them.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 | Instructions::Avx512 => unsafe { x86::walk(self, visitor) },
            _ => self.walk(visitor),
        }
    }
}
