//! What decodes and encodes chunks on one thread, and what a chunk is on its way.

use crate::codec::{Decoder, Encoder};
use crate::config::Codec;
use crate::error::Result;
use crate::offline::array::Array;
use crate::offline::array::chunk_decoder::ChunkDecoder;

/// An encoded chunk on its way; the room is used again and again.
#[derive(Default)]
pub(super) struct EncodedChunk {
    pub(super) entry: u64,
    pub(super) room: Vec<u8>,
    /// Bytes of the room that are the chunk; none for a chunk that holds only the fill value.
    pub(super) used: usize,
    /// By this the chunk is known again when it is read back.
    pub(super) digest: u32,
}

/// What encodes and decodes on one thread.
pub(super) struct Transcoder {
    pub(super) source: ChunkDecoder,
    pub(super) target: Decoder,
    /// For chunks that end with their volume, the bytes of the last one that was seen and what decodes it.
    pub(super) partial: Option<(usize, Decoder)>,
    pub(super) encoder: Encoder,
    pub(super) encoded: Vec<u8>,
    pub(super) raw: Vec<u8>,
    pub(super) cut: Vec<u8>,
    pub(super) stored: Vec<u8>,
}

impl Transcoder {
    pub(super) fn new(source: &Array, target: &Array, codec: &Codec) -> Result<Self> {
        let (element_bytes, to) = (target.dtype().codec_bytes(), target.metadata().chunk_bytes());
        Ok(Self {
            source: source.chunk_decoder()?,
            target: Decoder::new(target.codec(), element_bytes, to)?,
            partial: None,
            encoder: Encoder::new(codec, element_bytes, to)?,
            encoded: Vec::new(),
            raw: Vec::new(),
            cut: Vec::new(),
            stored: Vec::new(),
        })
    }
}
