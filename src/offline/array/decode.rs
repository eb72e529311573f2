//! Decodes the chunks of an array.

use std::path::Path;

use super::Array;
use super::chunk_decoder::ChunkDecoder;
use super::memory;
use super::shard_file::ShardFile;
use crate::codec::Decoder;
use crate::error::{Error, Result};
use crate::format::Metadata;
use crate::format::index::Range;
use crate::format::precomputed::volume::Expansion;
use crate::format::slot_header::{self, HEADER_BYTES};

/// What decodes chunks on one thread: never shared, so never locked.
pub(crate) struct DecodeWorker {
    decoder: ChunkDecoder,
    /// For chunks that end with their volume, the bytes of the last one that was seen and what decodes it.
    partial: Option<(usize, Decoder)>,
    cut: Vec<u8>,
    pub(crate) encoded: Vec<u8>,
    pub(crate) raw: Vec<u8>,
}

/// Where a chunk is stored, and which one it is.
#[derive(Clone, Copy)]
pub(crate) struct StoredChunk<'a> {
    pub(crate) file: &'a ShardFile,
    pub(crate) range: Range,
    /// Its place in the grid of chunks.
    pub(crate) at: &'a [u64],
}

impl Array {
    pub(crate) fn worker(&self) -> Result<DecodeWorker> {
        let (partial, cut, encoded, raw) = Default::default();
        Ok(DecodeWorker { decoder: self.chunk_decoder()?, partial, cut, encoded, raw })
    }

    /// What decodes chunks on a thread that may have had one before.
    pub(crate) fn worker_in<'w>(&self, worker: &'w mut Option<DecodeWorker>) -> Result<&'w mut DecodeWorker> {
        match worker {
            Some(worker) => Ok(worker),
            None => Ok(worker.insert(self.worker()?)),
        }
    }

    /// What decodes whole chunks.
    pub(crate) fn chunk_decoder(&self) -> Result<ChunkDecoder> {
        let Metadata { layout, dtype, chain, fill, .. } = &self.metadata;
        ChunkDecoder::new(chain, *dtype, &layout.chunk_shape, fill)
    }

    /// More bytes than any chunk's encoded form has.
    pub(crate) fn encoded_bytes_max(&self) -> u64 {
        // No encoder doubles a chunk; without this bound, a sparse file could ask for all of the memory.
        let chunk_bytes = (self.metadata.chunk_bytes() as u64).saturating_mul(2);
        chunk_bytes.saturating_add(self.metadata.chain.index_bytes()).saturating_add(1 << 20)
    }

    /// Refuses an encoded length that no chunk has.
    pub(crate) fn check_encoded(&self, range: Range, path: &Path) -> Result<()> {
        let raw_bytes = self.metadata.chunk_bytes();
        if range.nbytes > self.encoded_bytes_max() {
            let reason = format!("{} encoded bytes for a chunk of {raw_bytes} bytes", range.nbytes);
            return Err(Error::format(path, reason));
        }
        Ok(())
    }

    /// Reads a chunk and decodes it into the worker's `raw`, elements in little-endian byte order.
    pub(crate) fn decode(&self, worker: &mut DecodeWorker, chunk: StoredChunk<'_>) -> Result<()> {
        self.fetch(worker, chunk)?;
        self.check_vouched(chunk, &worker.encoded)?;
        self.unpack(worker, chunk.at)
    }

    /// The same, whatever a slot header before the chunk says.
    pub(crate) fn decode_any(&self, worker: &mut DecodeWorker, chunk: StoredChunk<'_>) -> Result<()> {
        self.fetch(worker, chunk)?;
        self.unpack(worker, chunk.at)
    }

    fn fetch(&self, worker: &mut DecodeWorker, StoredChunk { file, range, .. }: StoredChunk<'_>) -> Result<()> {
        let raw_bytes = self.metadata.chunk_bytes();
        self.check_encoded(range, file.path())?;
        if worker.raw.is_empty() {
            let room = memory::resize(&mut worker.raw, raw_bytes);
            room.map_err(|reason| Error::format(file.path(), format!("a chunk that does not fit: {reason}")))?;
        }
        file.read(range, &mut worker.encoded)
    }

    fn unpack(&self, worker: &mut DecodeWorker, chunk: &[u64]) -> Result<()> {
        match self.layout().expansion(chunk) {
            Some(expansion) => self.decode_cut(worker, &expansion)?,
            None => worker.decoder.decode(&worker.encoded, &mut worker.raw)?,
        }
        Ok(())
    }

    /// The same, and what nothing vouches for but the archive that it is in, if that says otherwise.
    pub(crate) fn check_vouched(&self, chunk: StoredChunk<'_>, encoded: &[u8]) -> Result<()> {
        if self.check_header(chunk, encoded)? || self.metadata.chain.has_checksum() {
            return Ok(());
        }
        chunk.file.check_entry(chunk.range, encoded)
    }

    /// Refuses the bytes of a chunk if the slot header before them was written for others, or for another place:
    /// without a checksum in the chunk, nothing else tells that they were changed, and with one, that they changed
    /// places. Returns whether there is a header, which vouches for them.
    pub(crate) fn check_header(&self, chunk: StoredChunk<'_>, encoded: &[u8]) -> Result<bool> {
        let StoredChunk { file, range, at: chunk } = chunk;
        let at = range.offset.checked_sub(HEADER_BYTES as u64).filter(|_| self.layout().has_index());
        let Some(at) = at else { return Ok(false) };
        let own = self.slots();
        if own.is_none() && self.metadata.chain.has_checksum() {
            return Ok(false);
        }
        let mut bytes = [0; HEADER_BYTES];
        file.read_exactly(at, &mut bytes)?;
        let header = match own {
            Some((_, map)) => map.parse_header(&bytes),
            None => slot_header::parse(&bytes),
        };
        let Some(header) = header else { return Ok(false) };
        if let Some((_, map)) = own.filter(|(own, _)| own.writer == header.origin.dataset) {
            let shard = self.layout().file_of(chunk).0;
            let is_of_chunk = map.chunk_number(&shard, chunk) == Some(header.origin.chunk.into())
                && map.shard_number(&shard) == Some(header.origin.shard)
                && header.nbytes == range.nbytes;
            if !is_of_chunk {
                let reason = format!(
                    "the index names {} bytes of this chunk, and the header before them is that of {} bytes of \
                     chunk {} in shard {}; verify tells more, and recover goes by the headers",
                    range.nbytes, header.nbytes, header.origin.chunk, header.origin.shard
                );
                return Err(Error::codec("slot header", reason));
            }
        }
        match header.nbytes == range.nbytes {
            // The checksum behind the chunk is compared by whoever decodes or copies it.
            true if self.metadata.chain.codec.checksum => Ok(true),
            true if header.vouches_for(encoded) => Ok(true),
            true => Err(Error::codec("slot header", "its bytes are not those that its slot header was written for")),
            false => Ok(false),
        }
    }

    /// Decodes a chunk that is stored otherwise than as a whole one of the array.
    fn decode_cut(&self, worker: &mut DecodeWorker, expansion: &Expansion) -> Result<()> {
        let DecodeWorker { partial, cut, encoded, raw, .. } = worker;
        let element = self.dtype().size();
        let bytes = expansion.bytes(element);
        let decoder = match partial {
            Some((known, decoder)) if *known == bytes => decoder,
            other => &mut other.insert((bytes, Decoder::new(self.codec(), element, bytes)?)).1,
        };
        // Never more than a whole chunk, for which there was memory.
        cut.resize(bytes, 0);
        decoder.decode(encoded, cut)?;
        expansion.expand(cut, raw, element);
        Ok(())
    }
}
