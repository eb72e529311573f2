//! Whether a match finder would do better, by trying it on a sample.

use super::frame::Frame;
use super::sample::changes;
use super::{PLANES_MAX, Writer};
use crate::codec::zstd::Compressor;
use crate::error::Result;

/// Bytes of a plane that are tried in one place.
pub(in crate::codec) const SAMPLE_BYTES: usize = 2048;
/// Words that repeat are looked for before anything is compressed. Six bytes of noise are hardly ever the same.
const WORD: usize = 6;
const TABLE_LOG: u32 = 11;
/// With smaller tiles, to try takes longer than a match finder takes for all, which then has what may repeat.
const WORTH_TRYING_BYTES: usize = 96 << 10;
/// With fewer repeats than one in so many places, there is nothing to find.
const PLACES_A_REPEAT: usize = 32;
/// With fewer changes than one in so many bytes, there is nothing to save.
const BYTES_A_CHANGE: usize = 64;
/// Of so many bytes of ours, a match finder must save one to be worth its time.
const WORTH_SEARCHING: usize = 40;
/// If what is left to the match finder takes all but one in so many of our bytes, it shall have the rest as well.
const WORTH_SHARING: usize = 4;

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

/// A match finder, and what it is compared by.
pub(super) struct Trial {
    compressor: Compressor,
    words: Box<[u16; 1 << TABLE_LOG]>,
    room: Vec<u8>,
}

impl Trial {
    /// To compress pieces of at most so many bytes.
    pub(super) fn new(most_bytes: usize) -> Result<Self> {
        let room_bytes = Compressor::bound(most_bytes.max(SAMPLE_BYTES));
        Ok(Self {
            compressor: Compressor::new(1, most_bytes)?,
            words: Box::new([0; 1 << TABLE_LOG]),
            room: vec![0; room_bytes],
        })
    }

    /// Has the match finder compress `source` and appends its blocks to `frame`.
    pub(super) fn write(&mut self, source: &[u8], frame: &mut Frame) -> Option<()> {
        let bytes = self.compressor.try_compress(source, &mut self.room)?;
        frame.blocks_of(&self.room[..bytes])
    }

    /// Whether words of the sample repeat, other than in long runs.
    fn may_repeat(&mut self, sample: &[u8]) -> bool {
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

impl Writer {
    /// Decides what is left to a match finder in a tile of `tile_bytes`. `places` are parts of it, in `planes` planes
    /// each, with [`SLACK`](Self::SLACK) bytes behind them.
    pub(in crate::codec) fn judge(&mut self, places: &[&[u8]], planes: usize, tile_bytes: usize) -> Search {
        let plane_bytes = |place: &[u8]| (place.len() - Self::SLACK) / planes;
        let samples = places.iter().flat_map(|place| {
            let bytes = plane_bytes(place);
            (0..planes).map(move |plane| (plane, &place[plane * bytes..], bytes))
        });
        if !samples.clone().any(|(_, padded, bytes)| self.trial.may_repeat(&padded[..bytes])) {
            return Search::Nothing;
        }
        if tile_bytes < WORTH_TRYING_BYTES {
            return Search::Everything;
        }
        let (mut ours, mut theirs) = ([0; PLANES_MAX], [0; PLANES_MAX]);
        self.searched = Search::Nothing;
        for (plane, padded, bytes) in samples {
            let sample = &padded[..bytes];
            let mut room = std::mem::take(&mut self.trial.room);
            let written = self.write(padded, bytes, 1, &mut room).unwrap_or(bytes);
            let found = if self.trial.may_repeat(sample) {
                self.trial.compressor.try_compress(sample, &mut room).unwrap_or(bytes)
            } else {
                written
            };
            self.trial.room = room;
            ours[plane] += written;
            theirs[plane] += found;
        }
        self.begin_tile();
        compare(&ours, &theirs)
    }
}

fn compare(ours: &[usize; PLANES_MAX], theirs: &[usize; PLANES_MAX]) -> Search {
    let mut worth = (0..PLANES_MAX).filter(|plane| theirs[*plane] + ours[*plane] / WORTH_SEARCHING < ours[*plane]);
    let Some(first) = worth.next() else { return Search::Nothing };
    let end = worth.next_back().unwrap_or(first) + 1;
    let (all, searched) = (ours.iter().sum::<usize>(), ours[first..end].iter().sum::<usize>());
    if (all - searched) * WORTH_SHARING < all { Search::Everything } else { Search::Planes { first, end } }
}
