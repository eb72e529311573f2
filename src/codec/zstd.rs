//! Zstandard frames (RFC 8878): one frame a chunk, its content size in the header, no checksum of its own.

use super::length::expect_length;
use zstd_safe::{CCtx, CompressionLevel, DCtx};

use crate::error::{Error, Result};

const NAME: &str = "zstd";

/// The bytes that every frame of today's format begins with; libzstd may also have been built with decoders for the
/// formats before version 0.8, which no chunk was ever written in.
const MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];

/// What a frame that holds no pixels begins with, but for the lower half of its first byte: RFC 8878, section 3.1.2.
const SKIPPABLE: [u8; 4] = [0x50, 0x2A, 0x4D, 0x18];

/// A compressor whose tables are kept from call to call.
pub(super) struct Compressor {
    context: CCtx<'static>,
    level: CompressionLevel,
}

impl Compressor {
    /// A compressor that has already made the tables that pieces of `source_bytes` bytes need.
    pub(super) fn new(level: CompressionLevel, source_bytes: usize) -> Result<Self> {
        let context = CCtx::try_create().ok_or_else(|| Error::codec(NAME, "no memory for a compression context"))?;
        let mut made = Self { context, level };
        let mut room = vec![0; Self::bound(source_bytes)];
        made.compress(&vec![0; source_bytes], &mut room)?;
        Ok(made)
    }

    /// The range of levels that libzstd takes.
    pub(super) fn levels() -> std::ops::RangeInclusive<CompressionLevel> {
        zstd_safe::min_c_level()..=zstd_safe::max_c_level()
    }

    /// As Blosc maps its levels 1 to 9.
    pub(super) fn blosc_level(level: u8) -> CompressionLevel {
        if level < 9 { CompressionLevel::from(level) * 2 - 1 } else { zstd_safe::max_c_level() }
    }

    pub(super) fn bound(source_bytes: usize) -> usize {
        zstd_safe::compress_bound(source_bytes)
    }

    /// Fails when the frame is larger than `target`.
    pub(super) fn compress(&mut self, source: &[u8], target: &mut [u8]) -> Result<usize> {
        self.context.compress(target, source, self.level).map_err(failed)
    }

    /// As [`compress`](Self::compress), where failure is so ordinary that there must be no error to allocate.
    pub(super) fn try_compress(&mut self, source: &[u8], target: &mut [u8]) -> Option<usize> {
        self.try_compress_at(self.level, source, target)
    }

    /// As [`try_compress`](Self::try_compress), at another level, which takes memory if it needs larger tables.
    pub(super) fn try_compress_at(
        &mut self,
        level: CompressionLevel,
        source: &[u8],
        target: &mut [u8],
    ) -> Option<usize> {
        self.context.compress(target, source, level).ok()
    }
}

/// A decompressor whose tables are kept from call to call.
pub(super) struct Decompressor {
    context: DCtx<'static>,
}

impl Decompressor {
    pub(super) fn new() -> Result<Self> {
        let context = DCtx::try_create().ok_or_else(|| Error::codec(NAME, "no memory for a decompression context"))?;
        Ok(Self { context })
    }

    /// Decodes all frames of `encoded`, which must fill `raw`.
    pub(super) fn decompress(&mut self, encoded: &[u8], raw: &mut [u8]) -> Result<()> {
        let encoded = after_skippable(encoded);
        if encoded.is_empty() {
            return Err(Error::codec(NAME, "no bytes, where a frame was expected"));
        }
        if !encoded.starts_with(&MAGIC) {
            let start = &encoded[..encoded.len().min(4)];
            return Err(Error::codec(NAME, format!("begins with {start:02x?}, expected {MAGIC:02x?}")));
        }
        let expected = raw.len();
        let written = self.context.decompress(raw, encoded).map_err(failed)?;
        expect_length(NAME, written, expected)
    }
}

/// What follows the frames at the start that decoders skip. One that is cut off is none.
fn after_skippable(mut encoded: &[u8]) -> &[u8] {
    while let Some(([first, magic @ .., a, b, c, d], rest)) = encoded.split_first_chunk::<8>() {
        let len = u32::from_le_bytes([*a, *b, *c, *d]) as usize;
        match rest.get(len..) {
            Some(next) if first & 0xF0 == SKIPPABLE[0] && magic[..] == SKIPPABLE[1..] => encoded = next,
            _ => break,
        }
    }
    encoded
}

fn failed(code: zstd_safe::ErrorCode) -> Error {
    Error::codec(NAME, zstd_safe::get_error_name(code))
}
