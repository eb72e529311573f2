//! Chunks that are one frame, as the configuration's `zstd` has them.

use super::match_finder::{SAMPLE_BYTES, Search};
use super::writer::Writer;
use crate::error::{Error, Result};

/// In how many places of a tile the writer is compared with a match finder: at the start, and halfway.
const TRIALS: usize = 2;

/// Writes frames of tiles of single bytes.
///
/// Where pixels have more, their bytes alternate between noise and what hardly changes. One code for both says less
/// than a match finder does, so such tiles are left to one without asking.
pub(in crate::codec) struct BareEncoder {
    writer: Writer,
    samples: [Vec<u8>; TRIALS],
}

impl BareEncoder {
    pub(in crate::codec) fn takes(level: i32, element_bytes: usize) -> bool {
        level == 1 && element_bytes == 1
    }

    pub(in crate::codec) fn new(raw_bytes: usize) -> Result<Self> {
        let sample_bytes = SAMPLE_BYTES.min(raw_bytes) + Writer::SLACK;
        Ok(Self { writer: Writer::new(1, raw_bytes)?, samples: std::array::from_fn(|_| vec![0; sample_bytes]) })
    }

    pub(in crate::codec) fn encode(&mut self, raw: &[u8], room: &mut [u8]) -> Result<usize> {
        for (number, sample) in self.samples.iter_mut().enumerate() {
            let bytes = sample.len() - Writer::SLACK;
            let first = (raw.len() * number / TRIALS).min(raw.len() - bytes);
            sample[..bytes].copy_from_slice(&raw[first..first + bytes]);
        }
        self.writer.begin_tile();
        let places = self.samples.each_ref().map(Vec::as_slice);
        let search = match self.writer.judge(&places, 1, raw.len()) {
            Search::Everything => Search::Planes { first: 0, end: 1 },
            search => search,
        };
        self.writer.search(search);
        let written = self.writer.write(raw, raw.len(), 1, room);
        written.ok_or_else(|| Error::codec("zstd", format!("{} bytes do not fit in their bound", raw.len())))
    }
}

// Miri cannot call libzstd.
#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    fn encode(tile: &[u8]) -> usize {
        let mut room = vec![0; zstd_safe::compress_bound(tile.len())];
        let written = BareEncoder::new(tile.len()).unwrap().encode(tile, &mut room).unwrap();
        let mut decoded = vec![0; tile.len()];
        assert_eq!(zstd_safe::decompress(&mut decoded[..], &room[..written]), Ok(tile.len()));
        assert!(decoded == tile);
        written
    }

    #[test]
    fn tiles_may_end_with_a_few_bytes_in_runs() {
        for before in [0, 128 << 10] {
            for bytes in (2..300).chain([511, 512, 513]) {
                let mut tile = vec![0; before + bytes];
                // Not all of the last group shall be the same.
                tile[before + bytes / 2] = 1;
                encode(&tile);
            }
        }
    }
}
