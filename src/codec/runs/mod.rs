//! LZ4 blocks without a match finder, for bit planes.
//!
//! Camera noise after a bit shuffle is a few planes of noise, which nothing makes smaller, and many that are nearly
//! constant or nearly equal to the plane before. A match finder spends its time on the former. This writer knows two
//! distances beforehand: one byte, which makes runs, and one plane. It compares the block with itself at both, by
//! vectors, into bit masks; after that only the masks are read. Everything else is copied as literals.
//!
//! What it writes is an ordinary block (LZ4 block format description): sequences of a token, literals, a 16-bit
//! distance and the match's length, the last of which has literals alone. The last match begins at least 12 bytes
//! before the end and ends at least 5 bytes before it.
//!
//! All instruction sets make the same masks, so all machines write the same bytes.

mod dispatch;
mod masks;
#[cfg(target_arch = "aarch64")]
mod neon;
mod prefetch;
#[cfg(target_arch = "x86_64")]
mod x86;

use self::masks::{LAST_LITERALS, LAST_START, Masks, Match, Visit};
use self::prefetch::PrefetchList;

/// A match's least length in the format.
const MIN_MATCH: usize = 4;
/// The greatest distance that the format holds.
const MAX_DISTANCE: usize = 65_535;
/// This many literals are copied at once, whatever their number.
const WILD: usize = 32;
/// From this excess over the token's least value on, a length takes more than one byte beyond the token.
const LONG: usize = 15 + 255;

/// Finds runs and repeated planes, with memory that is kept.
pub(crate) struct Runs {
    masks: Masks,
    prefetched: PrefetchList,
}

impl Runs {
    /// Bytes that must stand behind a block; their values do not matter.
    pub(crate) const SLACK: usize = 128;

    /// For blocks of at most `block_bytes` bytes.
    pub(crate) fn new(block_bytes: usize) -> Self {
        Self { masks: Masks::new(block_bytes), prefetched: PrefetchList::new(block_bytes) }
    }

    /// Has memory bring the pieces that `show` shows while the next block is compressed.
    pub(crate) fn prefetch(&mut self, show: impl FnOnce(&mut dyn FnMut(&[u8]))) {
        self.prefetched.look_at(show);
    }

    /// The most bytes that this many can become, and what short copies may write beyond.
    pub(crate) fn bound(block_bytes: usize) -> usize {
        block_bytes + block_bytes / 255 + 16 + 2 * WILD + 2
    }

    /// Compresses the first `block_bytes` bytes of `padded`, which has [`SLACK`](Self::SLACK) more, and whose planes
    /// have `plane_bytes` bytes, into `target`, which must have [`bound`](Self::bound) bytes. Returns the bytes used,
    /// which may be more than the block's, and where the last long match begins that nothing but the end follows, or
    /// the block ends.
    pub(crate) fn compress(
        &mut self,
        padded: &[u8],
        block_bytes: usize,
        plane_bytes: usize,
        target: &mut [u8],
    ) -> (usize, usize) {
        assert!(padded.len() >= block_bytes + Self::SLACK && target.len() >= Self::bound(block_bytes));
        let mut out = Sequences { source: padded, target, at: 0, anchor: 0, last: block_bytes };
        if block_bytes > LAST_START {
            // A plane that is too far away is as good as none.
            let plane = if (1..=MAX_DISTANCE).contains(&plane_bytes) { plane_bytes } else { block_bytes };
            self.masks.compare(padded, block_bytes, plane, self.prefetched.lines());
            self.masks.show(&mut out);
        }
        let last = if out.anchor + LAST_LITERALS == block_bytes { out.last } else { block_bytes };
        (out.finish(block_bytes), last)
    }

    /// Shows where bytes of the block equal the one before, and how many of them, at least five, follow each other. The
    /// last bytes of the block are not among them.
    pub(crate) fn show(&mut self, padded: &[u8], block_bytes: usize, to: impl FnMut(usize, usize)) {
        assert!(padded.len() >= block_bytes + Self::SLACK);
        if block_bytes > LAST_START {
            // A plane as long as the block has none before it.
            self.masks.compare(padded, block_bytes, block_bytes, self.prefetched.lines());
            self.masks.show(&mut ShowRuns(to));
        }
    }
}

/// Shows runs to a closure.
struct ShowRuns<F>(F);

impl<F: FnMut(usize, usize)> Visit for ShowRuns<F> {
    #[inline(always)]
    fn visit(&mut self, found: Match) {
        (self.0)(found.start, found.length);
    }
}

/// The block as far as it is written.
struct Sequences<'a> {
    source: &'a [u8],
    target: &'a mut [u8],
    at: usize,
    /// The first byte of the source that is not yet written.
    anchor: usize,
    /// Where the last match begins.
    last: usize,
}

impl Visit for Sequences<'_> {
    /// Writes the literals before a match, and the match.
    #[inline(always)]
    fn visit(&mut self, found: Match) {
        let (literals, more) = (found.start - self.anchor, found.length - MIN_MATCH);
        if literals > WILD || more >= LONG {
            self.push_long(found);
        } else {
            // The bytes after the token and after the distance are written whether the lengths need them or not: a
            // branch would be foreseen wrongly too often.
            let target = &mut self.target[self.at..][..2 * WILD];
            target[0] = (literals.min(15) << 4 | more.min(15)) as u8;
            target[1] = literals.wrapping_sub(15) as u8;
            let at = 1 + usize::from(literals >= 15);
            target[at..at + WILD].copy_from_slice(&self.source[self.anchor..][..WILD]);
            let at = at + literals;
            target[at..at + 2].copy_from_slice(&(found.distance as u16).to_le_bytes());
            target[at + 2] = more.wrapping_sub(15) as u8;
            self.at += at + 2 + usize::from(more >= 15);
        }
        self.last = found.start;
        self.anchor = found.start + found.length;
    }
}

impl Sequences<'_> {
    #[inline(never)]
    fn push_long(&mut self, found: Match) {
        let (token, more) = (self.at, found.length - MIN_MATCH);
        self.literals(found.start);
        self.target[self.at..][..2].copy_from_slice(&(found.distance as u16).to_le_bytes());
        self.at += 2;
        self.target[token] |= more.min(15) as u8;
        self.extend(more);
    }

    /// Writes a token and the literals up to `end`.
    fn literals(&mut self, end: usize) {
        let literals = &self.source[self.anchor..end];
        self.target[self.at] = (literals.len().min(15) << 4) as u8;
        self.at += 1;
        self.extend(literals.len());
        self.target[self.at..][..literals.len()].copy_from_slice(literals);
        self.at += literals.len();
    }

    /// Writes the part of a length that the token has no room for.
    fn extend(&mut self, length: usize) {
        let Some(rest) = length.checked_sub(15) else { return };
        let full = rest / 255;
        self.target[self.at..][..full].fill(255);
        self.target[self.at + full] = (rest % 255) as u8;
        self.at += full + 1;
    }

    fn finish(mut self, end: usize) -> usize {
        self.literals(end);
        self.at
    }
}
