//! Frames of LZ4 after a bit shuffle, written for camera noise: see [`Runs`].
//!
//! Blocks are small, so that one stays in the first cache on its way through; they are not split, so that a plane can
//! repeat one of the byte before.

use super::encoder::{Encoder, store, store_from};
use super::frame::{HEADER_BYTES, Header, LENGTH_BYTES, MIN_BYTES, NOT_SPLIT, START_BYTES, Settings, bound, check};
use crate::codec::lz4;
use crate::codec::runs::Runs;
use crate::codec::shuffle::Shuffler;
use crate::codec::tile_source::TileSource;
use crate::config::{BloscCname, Shuffle};
use crate::error::Result;

/// Bytes a block when the configuration leaves the choice to us. With the shuffled block and the masks, that fits a
/// first cache of 48 KiB; blocks twice as large gain one part in 1000 of the ratio.
const BLOCK_BYTES: usize = 16 << 10;

/// How many times in a tile the writer is compared with a match finder: in the first block, and in one halfway.
const TRIALS: usize = 2;
/// The most bytes that are tried.
const TRIAL_BYTES: usize = 4 << 10;
/// One byte in this many is tried, where that is less.
const TRIAL_SHARE: usize = 64;
/// Fewer tell nothing.
const TRIAL_BYTES_MIN: usize = 512;
/// Of this many bytes of ours, a match finder must save one to be worth its time.
const WORTH_SEARCHING: usize = 10;

/// Bytes a block for the match finder, when the configuration leaves the choice to us: as c-blosc has it, since what
/// repeats may repeat far away.
const SEARCHED_BYTES: usize = 32 << 10;
const SEARCHED_BYTES_MIN: usize = 64 << 10;

/// Writes frames of one size.
pub(in crate::codec) struct NoiseEncoder {
    header: Header,
    shuffler: Shuffler,
    /// One block whose pixels lay apart.
    gathered: Vec<u8>,
    /// One shuffled block, and [`Runs::SLACK`].
    shuffled: Vec<u8>,
    runs: Runs,
    /// A compressed block where the frame has too little room for the worst one, and what trials write.
    compressed: Vec<u8>,
    search: lz4::Compressor,
    /// For tiles on which a match finder does better.
    searching: Encoder,
}

impl NoiseEncoder {
    pub(in crate::codec) fn new(block_bytes: usize, element_bytes: usize, raw_bytes: usize) -> Result<Self> {
        // What the frames say that they are.
        let lz4 = Settings { cname: BloscCname::Lz4, level: 1, shuffle: Shuffle::Bit, block_bytes };
        check(&lz4, element_bytes, raw_bytes)?;
        let ours = Settings { block_bytes: if block_bytes == 0 { BLOCK_BYTES } else { block_bytes }, ..lz4 };
        let block_bytes = super::frame::block_bytes(&ours, element_bytes, raw_bytes);
        let searched_bytes = (SEARCHED_BYTES * element_bytes).max(SEARCHED_BYTES_MIN);
        let searched =
            Settings { block_bytes: if lz4.block_bytes == 0 { searched_bytes } else { lz4.block_bytes }, ..lz4 };
        let mut header = Header::new(&ours, element_bytes, raw_bytes, block_bytes);
        header.flags |= NOT_SPLIT;
        Ok(Self {
            header,
            shuffler: Shuffler::new(Shuffle::Bit, element_bytes),
            gathered: vec![0; block_bytes],
            shuffled: vec![0; block_bytes + Runs::SLACK],
            runs: Runs::new(block_bytes),
            compressed: vec![0; Runs::bound(block_bytes)],
            search: lz4::Compressor::fast(1),
            searching: Encoder::new(searched, element_bytes, raw_bytes)?,
        })
    }

    /// `spare` has room for the tile if that does not lie in one piece.
    pub(in crate::codec) fn encode(
        &mut self,
        pixels: &(impl TileSource + ?Sized),
        spare: &mut [u8],
        room: &mut [u8],
    ) -> Result<usize> {
        let bytes = pixels.bytes();
        let frame = &mut room[..bound(bytes)];
        let outcome = if bytes < MIN_BYTES { Outcome::TooLarge } else { self.encode_blocks(pixels, frame) };
        if let Outcome::Written(bytes) = outcome {
            return Ok(bytes);
        }
        let raw = pixels.gathered(0..bytes, spare);
        match outcome {
            Outcome::WorthSearching => self.searching.encode(raw, frame),
            _ => Ok(store(self.header, raw, frame)),
        }
    }

    /// As [`encode`](Self::encode), without compressing anything.
    pub(in crate::codec) fn store(&self, pixels: &(impl TileSource + ?Sized), room: &mut [u8]) -> usize {
        store_from(self.header, pixels, room)
    }

    fn encode_blocks(&mut self, pixels: &(impl TileSource + ?Sized), frame: &mut [u8]) -> Outcome {
        let bytes = pixels.bytes();
        let most = self.header.block_bytes;
        let blocks = bytes.div_ceil(most);
        let block = |number: usize| (number * most).min(bytes)..((number + 1) * most).min(bytes);
        let mut at = HEADER_BYTES + START_BYTES * blocks;
        let mut trial = Trial::default();
        for number in 0..blocks {
            let Some(start) =
                frame.get_mut(HEADER_BYTES + START_BYTES * number..).and_then(|rest| rest.first_chunk_mut())
            else {
                return Outcome::TooLarge;
            };
            *start = (at as u32).to_le_bytes();
            let block_bytes = block(number).len();
            let raw = pixels.gathered(block(number), &mut self.gathered);
            self.shuffler.run(raw, &mut self.shuffled[..block_bytes]);
            self.runs.prefetch(|prefetched| pixels.show(block(number + 1), prefetched));
            let Some((written, informative)) = frame.get_mut(at..).and_then(|room| self.write_block(block_bytes, room))
            else {
                return Outcome::TooLarge;
            };
            at += written;
            if number == 0 || number == blocks / TRIALS {
                self.try_search(block_bytes, informative, bytes, &mut trial);
                if trial.worth_searching() {
                    return Outcome::WorthSearching;
                }
            }
        }
        self.header.write(frame, 0, at);
        Outcome::Written(at)
    }

    /// Writes the shuffled block and its length, and returns the bytes of both and how far the block goes before the
    /// rest of it says nothing new. `None`: it does not fit, not even stored.
    fn write_block(&mut self, block_bytes: usize, room: &mut [u8]) -> Option<(usize, usize)> {
        let (length, data) = room.split_at_mut_checked(LENGTH_BYTES)?;
        let plane = plane_bytes(self.header, block_bytes);
        let in_place = data.len() >= Runs::bound(block_bytes);
        let target = if in_place { &mut *data } else { &mut self.compressed[..] };
        let (mut written, informative) = self.runs.compress(&self.shuffled, block_bytes, plane, target);
        if written >= block_bytes {
            // A length equal to the block's own tells the reader that it is stored.
            written = block_bytes;
            data.get_mut(..written)?.copy_from_slice(&self.shuffled[..written]);
        } else if !in_place {
            data.get_mut(..written)?.copy_from_slice(&self.compressed[..written]);
        }
        length.copy_from_slice(&(written as u32).to_le_bytes());
        Some((LENGTH_BYTES + written, informative))
    }

    /// Compresses a part of the shuffled block with both and adds up the results.
    ///
    /// The part lies in the middle of the planes that say something. Those at the start are the noisiest, where nobody
    /// finds anything; those at the end are the emptiest, where everybody does.
    fn try_search(&mut self, block_bytes: usize, informative: usize, raw_bytes: usize, trial: &mut Trial) {
        let bytes = (raw_bytes / TRIAL_SHARE).clamp(TRIAL_BYTES_MIN, TRIAL_BYTES).min(block_bytes);
        let first = (informative / 2).saturating_sub(bytes / 2).min(block_bytes - bytes);
        let part = &self.shuffled[first..];
        let plane = plane_bytes(self.header, block_bytes);
        trial.ours += self.runs.compress(&self.shuffled[first..], bytes, plane, &mut self.compressed).0.min(bytes);
        trial.theirs += self.search.compress(&part[..bytes], &mut self.compressed[..bytes]).unwrap_or(bytes);
    }
}

/// The bytes of one bit of all elements. Blocks that the shuffle leaves alone have no planes.
fn plane_bytes(header: Header, block_bytes: usize) -> usize {
    block_bytes / header.element_bytes / 8
}

enum Outcome {
    Written(usize),
    TooLarge,
    WorthSearching,
}

/// Bytes that either made of the same.
#[derive(Debug, Default)]
struct Trial {
    ours: usize,
    theirs: usize,
}

impl Trial {
    fn worth_searching(&self) -> bool {
        self.theirs + self.ours / WORTH_SEARCHING < self.ours
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;
    use crate::codec::blosc::frame::STORED;
    use crate::codec::speed::random;

    /// Each row in a place of its own.
    struct Rows(Vec<Vec<u8>>);

    impl TileSource for Rows {
        fn bytes(&self) -> usize {
            self.0.iter().map(Vec::len).sum()
        }

        fn show(&self, range: Range<usize>, to: &mut dyn FnMut(&[u8])) {
            let mut first = 0;
            for row in &self.0 {
                let (from, end) = (range.start.max(first), range.end.min(first + row.len()));
                if from < end {
                    to(&row[from - first..end - first]);
                }
                first += row.len();
            }
        }

        fn in_one(&self, range: Range<usize>) -> Option<&[u8]> {
            let row = &self.0[range.start / self.0[0].len()];
            row.get(range.start % self.0[0].len()..)?.get(..range.len())
        }
    }

    /// Elements of two bytes, of which the lowest `bits` are noise.
    fn noise(bytes: usize, bits: u32) -> Vec<u8> {
        let mut random = random(1);
        (0..bytes / 2).flat_map(|_| ((100 + random() % (1 << bits)) as u16).to_le_bytes()).collect()
    }

    /// How the tile was written, by its frame's flags and blocks.
    fn check(raw: &[u8], row_bytes: usize) -> [u32; 2] {
        let mut encoder = NoiseEncoder::new(0, 2, raw.len()).unwrap();
        let (mut expected, mut got) = (vec![1; bound(raw.len())], vec![2; bound(raw.len())]);
        let bytes = encoder.encode(raw, &mut [], &mut expected).unwrap();
        let rows = Rows(raw.chunks(row_bytes).map(<[u8]>::to_vec).collect());
        assert_eq!(encoder.encode(&rows, &mut vec![3; raw.len()], &mut got).unwrap(), bytes);
        assert!(got[..bytes] == expected[..bytes], "rows of {row_bytes} bytes");
        [u32::from(got[2] & STORED), u32::from_le_bytes(*got[8..].first_chunk().unwrap())]
    }

    #[test]
    fn pixels_that_lie_apart_give_the_same_frame() {
        let block_bytes = BLOCK_BYTES as u32;
        for row_bytes in [2, 64, 100, 512, 1000, 1024, 16 << 10, 20_000, 40_000, 100_000] {
            assert_eq!(check(&noise(100_000, 7), row_bytes), [0, block_bytes], "what is written block by block");
            assert_eq!(check(&noise(100_000, 16), row_bytes)[0], u32::from(STORED), "what does not become smaller");
            let ramps: Vec<_> = (0..50_000_u16).flat_map(|x| (x % 999 * 7).to_le_bytes()).collect();
            let [stored, found] = check(&ramps, row_bytes);
            assert!(stored == 0 && found != block_bytes, "what a match finder does better");
        }
    }
}
