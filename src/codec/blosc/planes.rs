//! Frames of Zstandard after a byte shuffle, written without a match finder where there is nothing to find: see
//! [`Writer`].
//!
//! Each frame says by which shuffle it is to be undone, so that the byte shuffle may stand in for the bit shuffle: of
//! noise, a code of whole bytes makes less than a match finder makes of single bits; and what repeats by whole bytes,
//! as an 8-bit video does, a match finder does not see in single bits.

use super::encoder::{Encoder, encode_blocks, store, store_from, write_piece};
use super::frame::{Header, MIN_BYTES, Settings, block_bytes, bound, check};
use crate::codec::shuffle::Shuffler;
use crate::codec::tile_source::TileSource;
use crate::codec::zstd_writer::{SAMPLE_BYTES, Search, WORTH_TRYING_BYTES, Writer};
use crate::config::{BloscCname, Shuffle};
use crate::error::Result;

/// Bytes of a plane in a block when the configuration leaves the choice to us: two of Zstandard's blocks, whose streams
/// are long enough that their headers take less than one part in 1000.
const PLANE_BYTES: usize = 64 << 10;

/// In how many places of a tile the writer is compared with a match finder: at the start, and halfway.
const TRIALS: usize = 2;

/// Of this many bytes that a match finder makes of single bits, whole bytes must save one to be taken instead: it is
/// slower on them.
const WORTH_WHOLE_BYTES: usize = 16;

/// Writes frames of one size.
pub(in crate::codec) struct PlanesEncoder {
    header: Header,
    shuffler: Shuffler,
    /// One shuffled block, and [`Writer::SLACK`].
    shuffled: Vec<u8>,
    /// Shuffled parts of a tile, each with as much behind it.
    samples: [Vec<u8>; TRIALS],
    writer: Writer,
    /// For tiles on which a match finder does better.
    searching: Encoder,
    /// The bit shuffle, where the settings say that: what it is compared by.
    bits: Option<Shuffler>,
}

impl PlanesEncoder {
    /// What this one writes, at least where it is faster. Without a shuffle, bytes of one place do not stand together.
    pub(in crate::codec) fn takes(settings: &Settings, element_bytes: usize) -> bool {
        settings.cname == BloscCname::Zstd
            && settings.level == 1
            && (settings.shuffle != Shuffle::None || element_bytes == 1)
    }

    /// `settings` are what documents say; they also hold for tiles that are left to a match finder.
    pub(in crate::codec) fn new(settings: Settings, element_bytes: usize, raw_bytes: usize) -> Result<Self> {
        check(&settings, element_bytes, raw_bytes)?;
        let planes_bytes = if settings.block_bytes == 0 { PLANE_BYTES * element_bytes } else { settings.block_bytes };
        let ours = Settings { shuffle: Shuffle::Byte, block_bytes: planes_bytes, ..settings };
        let block_bytes = block_bytes(&ours, element_bytes, raw_bytes);
        let sample_bytes = (SAMPLE_BYTES * element_bytes).min(block_bytes / element_bytes * element_bytes);
        Ok(Self {
            header: Header::new(&ours, element_bytes, raw_bytes, block_bytes),
            shuffler: Shuffler::new(Shuffle::Byte, element_bytes),
            shuffled: vec![0; block_bytes + Writer::SLACK],
            samples: std::array::from_fn(|_| vec![0; sample_bytes + Writer::SLACK]),
            writer: Writer::new(1, element_bytes, block_bytes.div_ceil(element_bytes))?,
            searching: Encoder::new(settings, element_bytes, raw_bytes)?,
            bits: (settings.shuffle == Shuffle::Bit && raw_bytes >= WORTH_TRYING_BYTES)
                .then(|| Shuffler::new(Shuffle::Bit, element_bytes)),
        })
    }

    /// As [`encode`](Self::encode), without compressing anything.
    pub(in crate::codec) fn store(&self, pixels: &(impl TileSource + ?Sized), room: &mut [u8]) -> usize {
        store_from(self.header, pixels, room)
    }

    /// `searches`: tiles on which a match finder does better are left to one.
    pub(in crate::codec) fn encode(&mut self, raw: &[u8], room: &mut [u8], searches: bool) -> Result<usize> {
        let frame = &mut room[..bound(raw.len())];
        if raw.len() < MIN_BYTES {
            return Ok(store(self.header, raw, frame));
        }
        self.writer.begin_tile();
        let search = if searches { self.judge(raw) } else { Search::Nothing };
        if search == Search::Everything {
            if let Some(bits) = self.bits {
                let shuffle = if self.repeats_by_bytes(bits, raw) { Shuffle::Byte } else { Shuffle::Bit };
                self.searching.set_shuffle(shuffle);
            }
            return self.searching.encode(raw, frame);
        }
        let planes = self.header.element_bytes;
        let written = encode_blocks(self.header, raw, frame, |block, room| {
            self.shuffler.run(block, &mut self.shuffled[..block.len()]);
            let (shuffled, writer) = (&self.shuffled, &mut self.writer);
            write_piece(&shuffled[..block.len()], room, |target| {
                writer.write(shuffled, block.len(), planes, search, target)
            })
        });
        Ok(written.unwrap_or_else(|| store(self.header, raw, frame)))
    }

    fn judge(&mut self, raw: &[u8]) -> Search {
        for (number, sample) in self.samples.iter_mut().enumerate() {
            let bytes = sample.len() - Writer::SLACK;
            self.shuffler.run(place(raw, number, bytes, self.header.element_bytes), &mut sample[..bytes]);
        }
        let places = self.samples.each_ref().map(Vec::as_slice);
        self.writer.judge(&places, self.header.element_bytes, raw.len())
    }

    /// Whether a match finder makes clearly less of the samples byte-shuffled than bit-shuffled.
    fn repeats_by_bytes(&mut self, bits: Shuffler, raw: &[u8]) -> bool {
        let (mut of_bits, mut of_bytes) = (0, 0);
        for (number, sample) in self.samples.iter().enumerate() {
            let bytes = sample.len() - Writer::SLACK;
            let shuffled = &mut self.shuffled[..bytes];
            bits.run(place(raw, number, bytes, self.header.element_bytes), shuffled);
            of_bits += self.writer.found_bytes(shuffled);
            of_bytes += self.writer.found_bytes(&sample[..bytes]);
        }
        of_bytes + of_bits / WORTH_WHOLE_BYTES < of_bits
    }
}

/// The part of a tile that trial `number` looks at.
fn place(raw: &[u8], number: usize, bytes: usize, element_bytes: usize) -> &[u8] {
    let elements = raw.len() / element_bytes;
    let first = (elements * number / TRIALS * element_bytes).min(raw.len() - bytes);
    &raw[first..first + bytes]
}

// Miri cannot call libzstd.
#[cfg(all(test, not(miri)))]
mod tests {
    use super::super::frame::{BIT_SHUFFLED, BYTE_SHUFFLED};
    use super::*;

    /// By which shuffle a tile of single bytes was written, where the settings say bit shuffle.
    fn chosen(tile: &[u8]) -> u8 {
        let settings = Settings { cname: BloscCname::Zstd, level: 1, shuffle: Shuffle::Bit, block_bytes: 0 };
        let mut encoder = PlanesEncoder::new(settings, 1, tile.len()).unwrap();
        let mut room = vec![0; bound(tile.len())];
        // What was chosen for the tile before must not stay.
        let mut flags = 0;
        for tile in [&vec![3; tile.len()], tile] {
            let written = encoder.encode(tile, &mut room, true).unwrap();
            let mut decoded = vec![0; tile.len()];
            super::super::decode(&room[..written], &mut decoded).unwrap();
            assert!(decoded == *tile);
            flags = room[2] & (BYTE_SHUFFLED | BIT_SHUFFLED);
        }
        flags
    }

    #[test]
    fn what_repeats_by_bytes_is_not_shuffled_by_bits() {
        let mut state = 1_u32;
        let mut random = move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 24
        };
        // Words from a list of some dozens, which bits of eight neighbours do not show.
        let words: Vec<[u8; 7]> = (0..60).map(|_| std::array::from_fn(|_| random() as u8)).collect();
        let text: Vec<u8> = (0..30_000).flat_map(|_| words[random() as usize % words.len()]).collect();
        assert_eq!(chosen(&text), BYTE_SHUFFLED);
    }
}
