//! The match finder of libzstd, and what tells beforehand that it would find nothing.

use super::frame::Frame;
use super::sample::changes;
use crate::codec::zstd::Compressor;
use crate::error::Result;

/// Bytes of a plane that are tried in one place.
pub(in crate::codec) const SAMPLE_BYTES: usize = 2048;
/// Trials are made at this level, whatever is written at: below it, libzstd has no codes for what it does not find, so
/// that what it finds would not show.
const TRIAL_LEVEL: i32 = 1;
/// Words that repeat are looked for before anything is compressed. Six bytes of noise are hardly ever the same.
const WORD: usize = 6;
const TABLE_LOG: u32 = 11;
/// With fewer repeats than one in this many places, there is nothing to find.
const PLACES_A_REPEAT: usize = 32;
/// With fewer changes than one in this many bytes, there is nothing to save.
const BYTES_A_CHANGE: usize = 64;

/// What is to be left to a match finder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::codec) enum Search {
    Nothing,
    /// These planes, which stand side by side.
    Planes {
        first: usize,
        end: usize,
    },
    Everything,
}

/// A match finder, with memory that is kept.
pub(super) struct MatchFinder {
    compressor: Compressor,
    words: Box<[u16; 1 << TABLE_LOG]>,
    pub(super) room: Vec<u8>,
}

impl MatchFinder {
    /// To compress pieces of at most this many bytes at a level of libzstd.
    pub(super) fn new(level: i32, most_bytes: usize) -> Result<Self> {
        let room_bytes = Compressor::bound(most_bytes.max(SAMPLE_BYTES));
        Ok(Self {
            compressor: Compressor::new(level, most_bytes)?,
            words: Box::new([0; 1 << TABLE_LOG]),
            room: vec![0; room_bytes],
        })
    }

    /// Has the match finder compress `source` and appends its blocks to `frame`.
    pub(super) fn write(&mut self, source: &[u8], frame: &mut Frame) -> Option<()> {
        let bytes = self.compressor.try_compress(source, &mut self.room)?;
        frame.blocks_of(&self.room[..bytes])
    }

    /// The bytes that a match finder makes of a sample.
    pub(super) fn trial(&mut self, sample: &[u8]) -> usize {
        self.compressor.try_compress_at(TRIAL_LEVEL, sample, &mut self.room).unwrap_or(sample.len())
    }

    /// Whether words of the sample repeat, other than in long runs.
    pub(super) fn may_repeat(&mut self, sample: &[u8]) -> bool {
        if changes(sample) * BYTES_A_CHANGE < sample.len() {
            return false;
        }
        self.words.fill(0);
        let mut found = 0;
        for (place, word) in sample.windows(8).enumerate() {
            let word = u64::from_le_bytes(*word.first_chunk().expect("windows of eight")) << (64 - 8 * WORD);
            let slot = &mut self.words[(word.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - TABLE_LOG)) as usize];
            let before = usize::from(*slot);
            let same = before > 0 && sample[before - 1..][..WORD] == sample[place..][..WORD];
            found += usize::from(same);
            *slot = place as u16 + 1;
        }
        found * PLACES_A_REPEAT > sample.len()
    }
}
