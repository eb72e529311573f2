//! Chunks that are one frame, as the configuration's `zstd` has them.

use super::match_finder::SAMPLE_BYTES;
use super::writer::Writer;
use crate::error::{Error, Result};

/// In how many places of a tile the writer is compared with a match finder: at the start, and halfway.
const TRIALS: usize = 2;

/// Writes frames of tiles of single bytes at level 1, and of one or two at the levels below 0.
///
/// Where pixels have more than a byte, their bytes alternate between noise and what hardly changes. One code for both
/// makes 8 % more of camera noise than a match finder does at level 1, so there such tiles are left to one. Below 0,
/// libzstd has no code for literals, and makes a third more than ours. Of wider pixels, whose upper bytes hardly
/// change, it still makes less.
pub(in crate::codec) struct BareEncoder {
    writer: Writer,
    samples: [Vec<u8>; TRIALS],
}

impl BareEncoder {
    pub(in crate::codec) fn takes(level: i32, element_bytes: usize) -> bool {
        level < 0 && element_bytes <= 2 || level == 1 && element_bytes == 1
    }

    pub(in crate::codec) fn new(level: i32, raw_bytes: usize) -> Result<Self> {
        let sample_bytes = SAMPLE_BYTES.min(raw_bytes) + Writer::SLACK;
        Ok(Self { writer: Writer::new(level, 1, raw_bytes)?, samples: std::array::from_fn(|_| vec![0; sample_bytes]) })
    }

    pub(in crate::codec) fn encode(&mut self, raw: &[u8], room: &mut [u8]) -> Result<usize> {
        for (number, sample) in self.samples.iter_mut().enumerate() {
            let bytes = sample.len() - Writer::SLACK;
            let first = (raw.len() * number / TRIALS).min(raw.len() - bytes);
            sample[..bytes].copy_from_slice(&raw[first..first + bytes]);
        }
        self.writer.begin_tile();
        let places = self.samples.each_ref().map(Vec::as_slice);
        let search = self.writer.judge(&places, 1, raw.len());
        let written = self.writer.write(raw, raw.len(), 1, search, room);
        written.ok_or_else(|| Error::codec("zstd", format!("{} bytes do not fit in their bound", raw.len())))
    }
}

// Miri cannot call libzstd.
#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    fn encode(level: i32, tile: &[u8]) -> usize {
        let mut room = vec![0; zstd_safe::compress_bound(tile.len())];
        let written = BareEncoder::new(level, tile.len()).unwrap().encode(tile, &mut room).unwrap();
        let mut decoded = vec![0; tile.len()];
        assert_eq!(zstd_safe::decompress(&mut decoded[..], &room[..written]), Ok(tile.len()));
        assert!(decoded == tile);
        written
    }

    #[test]
    fn below_level_0_nothing_is_larger_than_by_libzstd() {
        let mut state = 1_u32;
        let mut random = move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u16
        };
        let noise: Vec<u8> =
            (0..131_072).flat_map(|_| (100 + (random() + random() + random()) % 64).to_le_bytes()).collect();
        let rows: Vec<u8> = noise[..1402].iter().cycle().take(noise.len()).copied().collect();
        let words: Vec<u8> = (0..65_536_u32).flat_map(|place| (place / 3 % 200).to_le_bytes()).collect();
        for level in [-1, -7, -100] {
            let theirs = |tile: &[u8]| {
                let mut room = vec![0; zstd_safe::compress_bound(tile.len())];
                zstd_safe::compress(&mut room[..], tile, level).unwrap()
            };
            let (ours, bound) = (encode(level, &noise), theirs(&noise));
            assert!(ours * 5 < bound * 4, "level {level}: {ours} bytes of noise, {bound} by libzstd");
            for tile in [&rows, &words] {
                let (ours, bound) = (encode(level, tile), theirs(tile));
                assert!(ours <= bound + bound / 50, "level {level}: {ours} bytes, {bound} by libzstd");
            }
        }
    }

    #[test]
    fn tiles_may_end_with_a_few_bytes_in_runs() {
        for before in [0, 128 << 10] {
            for bytes in (2..300).chain([511, 512, 513]) {
                let mut tile = vec![0; before + bytes];
                // Not all of the last group shall be the same.
                tile[before + bytes / 2] = 1;
                encode(1, &tile);
            }
        }
    }

    #[test]
    fn wide_pixels_are_left_to_libzstd() {
        let taken =
            [1, 2, 4, 8].map(|element_bytes| [-7, -1, 0, 1, 2].map(|level| BareEncoder::takes(level, element_bytes)));
        assert_eq!(taken[0], [true, true, false, true, false]);
        assert_eq!(taken[1], [true, true, false, false, false]);
        assert_eq!((taken[2], taken[3]), ([false; 5], [false; 5]));
    }
}
