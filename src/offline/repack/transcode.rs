//! One chunk on its way: fetched as it is, or decoded, cut and encoded again; and by what it is known again.

use super::change::{Change, Work};
use super::chunks::Region;
use super::transcoder::{EncodedChunk, Transcoder};
use crate::codec::{CHECKSUM_BYTES, Decoder, Encoder, check_checksum};
use crate::error::Result;
use crate::format::fill_value;
use crate::geometry::{for_each_position, linear};
use crate::offline::array::decode::StoredChunk;

impl Change {
    fn transcoder(&self) -> Result<Transcoder> {
        self.idle.take().map_or_else(|| Transcoder::new(&self.source, &self.target, &self.codec), Ok)
    }

    /// Fetches a chunk's bytes, or makes them of those that it has now.
    pub(super) fn fetch(&self, chunk: StoredChunk<'_>, encoded_chunk: &mut EncodedChunk) -> Result<()> {
        let StoredChunk { file, range, .. } = chunk;
        self.source.check_encoded(range, file.path())?;
        if self.work == Work::Copy {
            file.read(range, &mut encoded_chunk.room)?;
            encoded_chunk.digest = self.vouched(chunk, &encoded_chunk.room)?;
            encoded_chunk.used = encoded_chunk.room.len() - if self.unseal { CHECKSUM_BYTES } else { 0 };
            return Ok(());
        }
        let mut transcoder = self.transcoder()?;
        let Transcoder { source, encoded, raw, .. } = &mut transcoder;
        raw.resize(self.source.metadata().chunk_bytes(), 0);
        file.read(range, encoded)?;
        self.source.check_vouched(chunk, encoded)?;
        source.decode(encoded, raw)?;
        self.encode(&mut transcoder.encoder, &transcoder.raw, encoded_chunk)?;
        self.idle.give_back(transcoder);
        Ok(())
    }

    /// The digest of a chunk that is copied as it is, once something has vouched for its bytes: its checksum, its slot
    /// header, or else that it can be decoded. A copy that nobody can read must not be the last one.
    pub(super) fn vouched(&self, chunk: StoredChunk<'_>, encoded: &[u8]) -> Result<u32> {
        let has_checksum = self.source.metadata().chain.codec.checksum;
        let is_vouched_for = self.source.check_header(chunk, encoded)?;
        if !has_checksum && !is_vouched_for {
            let mut worker = self.idle_workers.take().map_or_else(|| self.source.worker(), Ok)?;
            self.source.decode(&mut worker, chunk)?;
            self.idle_workers.give_back(worker);
        }
        digest(encoded, has_checksum)
    }

    fn encode(&self, encoder: &mut Encoder, raw: &[u8], encoded_chunk: &mut EncodedChunk) -> Result<()> {
        let bound = encoder.bound();
        if encoded_chunk.room.len() < bound {
            encoded_chunk.room.resize(bound, 0);
        }
        encoded_chunk.used = encoder.encode_part(raw, &mut encoded_chunk.room)?;
        // Read back, a chunk is decoded by what its document says, into these bytes.
        debug_assert!(self.target.metadata().chain.is_plain());
        encoded_chunk.digest = crc32c::crc32c(raw);
        Ok(())
    }

    /// Makes the chunk at a place of the grid out of the pixels of a region.
    pub(super) fn cut(
        &self,
        region: &Region,
        pixels: &[u8],
        at: &[u64],
        encoded_chunk: &mut EncodedChunk,
    ) -> Result<()> {
        let (to, layout) = (self.target.metadata(), self.target.layout());
        let element = to.dtype.size();
        let mut transcoder = self.transcoder()?;
        let Transcoder { cut, encoder, stored, .. } = &mut transcoder;
        cut.resize(to.chunk_bytes(), 0);
        fill_value::row(cut, &to.fill);
        let dims = 0..layout.shape.len();
        let first: Vec<u64> = dims.clone().map(|dim| at[dim] * layout.chunk_shape[dim] - region.start[dim]).collect();
        let extent: Vec<u64> = dims.map(|dim| layout.chunk_shape[dim].min(region.shape[dim] - first[dim])).collect();
        let last = extent.len() - 1;
        let row_bytes = extent[last] as usize * element;
        for_each_position(&vec![0; last], &extent[..last], |row| {
            let mut inside: Vec<u64> = row.to_vec();
            inside.push(0);
            let here = linear(&inside, &layout.chunk_shape) as usize * element;
            let there: Vec<u64> = inside.iter().zip(&first).map(|(row, first)| row + first).collect();
            let there = linear(&there, &region.shape) as usize * element;
            cut[here..here + row_bytes].copy_from_slice(&pixels[there..there + row_bytes]);
        });
        encoded_chunk.used = 0;
        // Where nothing is defined, the fill value must be written like any other.
        if to.is_fill_undefined || !cut.chunks_exact(element).all(|pixel| pixel == to.fill) {
            match self.target.layout().expansion(at) {
                None => self.encode(encoder, cut, encoded_chunk)?,
                Some(expansion) => {
                    stored.resize(expansion.bytes(element), 0);
                    expansion.gather(cut, stored, element);
                    self.encode(encoder, stored, encoded_chunk)?;
                }
            }
        }
        self.idle.give_back(transcoder);
        Ok(())
    }

    /// The digest of a chunk of a new shard, read back.
    pub(super) fn digest_of_written(&self, StoredChunk { file, range, at }: StoredChunk<'_>) -> Result<u32> {
        if self.work == Work::Copy {
            let mut room = self.idle_rooms.take().unwrap_or_default();
            file.read(range, &mut room)?;
            let digest = digest(&room, self.target.metadata().chain.codec.checksum);
            self.idle_rooms.give_back(room);
            return digest;
        }
        let mut transcoder = self.transcoder()?;
        let Transcoder { target, partial, encoded, cut, .. } = &mut transcoder;
        file.read(range, encoded)?;
        let element = self.target.dtype().size();
        let whole = self.target.metadata().chunk_bytes();
        let bytes = self.target.layout().expansion(at).map_or(whole, |expansion| expansion.bytes(element));
        cut.resize(bytes, 0);
        let decoder = match partial {
            _ if bytes == whole => target,
            Some((known, decoder)) if *known == bytes => decoder,
            other => &mut other.insert((bytes, Decoder::new(self.target.codec(), element, bytes)?)).1,
        };
        decoder.decode(encoded, cut)?;
        let digest = crc32c::crc32c(cut);
        self.idle.give_back(transcoder);
        Ok(digest)
    }
}

/// By what encoded bytes are known again. Where they end with their checksum, it is compared on the way.
fn digest(encoded: &[u8], checksum: bool) -> Result<u32> {
    if !checksum {
        return Ok(crc32c::crc32c(encoded));
    }
    // A crc over data and its own crc is a constant, so only the data count.
    check_checksum(encoded).map(|(_, checksum)| checksum)
}
