//! Frames of Zstandard after a byte shuffle, written without a match finder where there is nothing to find: see
//! [`Writer`].
//!
//! Each frame says by which shuffle it is to be undone, so that the byte shuffle may stand in for the bit shuffle: of
//! noise, a code of whole bytes makes less than a match finder makes of single bits.

use super::encoder::{Encoder, store};
use super::frame::{HEADER_BYTES, Header, LENGTH_BYTES, MIN_BYTES, START_BYTES, Settings, block_bytes, bound, check};
use crate::codec::shuffle::Shuffler;
use crate::codec::zstd_writer::{SAMPLE_BYTES, Search, Writer};
use crate::config::{BloscCname, Shuffle};
use crate::error::Result;

/// Bytes of a plane in a block when the configuration leaves the choice to us: two of Zstandard's blocks, whose streams
/// are long enough that their headers take less than one part in 1000.
const PLANE_BYTES: usize = 64 << 10;

/// In how many places of a tile the writer is compared with a match finder: at the start, and halfway.
const TRIALS: usize = 2;

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
    stores: bool,
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
        let stores = raw_bytes < MIN_BYTES;
        Ok(Self {
            header: Header::new(&ours, element_bytes, raw_bytes, block_bytes),
            shuffler: Shuffler::new(Shuffle::Byte, element_bytes),
            shuffled: vec![0; block_bytes + Writer::SLACK],
            samples: std::array::from_fn(|_| vec![0; sample_bytes + Writer::SLACK]),
            writer: Writer::new(element_bytes, block_bytes.div_ceil(element_bytes))?,
            searching: Encoder::new(settings, element_bytes, raw_bytes)?,
            stores,
        })
    }

    pub(in crate::codec) fn encode(&mut self, raw: &[u8], room: &mut [u8]) -> Result<usize> {
        let frame = &mut room[..bound(raw.len())];
        if self.stores {
            return Ok(store(self.header, raw, frame));
        }
        self.writer.begin_tile();
        let search = self.judge(raw);
        if search == Search::Everything {
            return self.searching.encode(raw, frame);
        }
        self.writer.search(search);
        Ok(self.encode_blocks(raw, frame).unwrap_or_else(|| store(self.header, raw, frame)))
    }

    fn judge(&mut self, raw: &[u8]) -> Search {
        let elements = raw.len() / self.header.element_bytes;
        for (number, sample) in self.samples.iter_mut().enumerate() {
            let bytes = sample.len() - Writer::SLACK;
            let first = (elements * number / TRIALS * self.header.element_bytes).min(raw.len() - bytes);
            self.shuffler.run(&raw[first..first + bytes], &mut sample[..bytes]);
        }
        let places = self.samples.each_ref().map(Vec::as_slice);
        self.writer.judge(&places, self.header.element_bytes, raw.len())
    }

    /// Writes a compressed frame and returns its length. `None`: it would not be smaller than the stored one.
    fn encode_blocks(&mut self, raw: &[u8], frame: &mut [u8]) -> Option<usize> {
        let mut at = HEADER_BYTES + START_BYTES * raw.len().div_ceil(self.header.block_bytes);
        for (number, block) in raw.chunks(self.header.block_bytes).enumerate() {
            let start = frame.get_mut(HEADER_BYTES + START_BYTES * number..)?;
            start.get_mut(..START_BYTES)?.copy_from_slice(&(at as u32).to_le_bytes());
            self.shuffler.run(block, &mut self.shuffled[..block.len()]);
            at += self.write_block(block.len(), frame.get_mut(at..)?)?;
        }
        self.header.write(frame, 0, at);
        Some(at)
    }

    /// Writes the shuffled block and its length, and returns the bytes of both. `None`: it does not fit, not even
    /// stored.
    fn write_block(&mut self, block_bytes: usize, room: &mut [u8]) -> Option<usize> {
        let (length, data) = room.split_at_mut_checked(LENGTH_BYTES)?;
        // One byte less than the block, since the block's own length would tell the reader that it is stored.
        let limit = data.len().min(block_bytes - 1);
        let planes = self.header.element_bytes;
        let written = match self.writer.write(&self.shuffled, block_bytes, planes, &mut data[..limit]) {
            Some(written) => written,
            None => {
                data.get_mut(..block_bytes)?.copy_from_slice(&self.shuffled[..block_bytes]);
                block_bytes
            }
        };
        length.copy_from_slice(&(written as u32).to_le_bytes());
        Some(LENGTH_BYTES + written)
    }
}
