//! The compressors inside a Blosc frame, each with its state kept.

use crate::codec::{gzip, lz4, zstd};
use crate::config::BloscCname;
use crate::error::{Error, Result};

/// Compresses one piece of a block.
pub(super) enum Compressor {
    Lz4(lz4::Compressor),
    Zstd(zstd::Compressor),
    Zlib(libdeflater::Compressor),
}

impl Compressor {
    /// A compressor for pieces of at most `block_bytes` bytes, at a level of Blosc, 1 to 9.
    pub(super) fn new(cname: BloscCname, level: u8, block_bytes: usize) -> Result<Self> {
        Ok(match cname {
            BloscCname::Lz4 => Self::Lz4(lz4::Compressor::fast(level)),
            BloscCname::Lz4hc => Self::Lz4(lz4::Compressor::high(level)),
            BloscCname::Zstd => Self::Zstd(zstd::Compressor::new(zstd::Compressor::blosc_level(level), block_bytes)?),
            BloscCname::Zlib => Self::Zlib(gzip::compressor(level)?),
            BloscCname::Blosclz => return Err(Error::codec("blosclz", "is not a compressor of single pieces")),
        })
    }

    /// Compresses into at most `target.len()` bytes and returns how many. `None`: they are too few. Any other failure
    /// looks the same, because the caller then stores the piece, which is never wrong.
    pub(super) fn compress(&mut self, piece: &[u8], target: &mut [u8]) -> Option<usize> {
        match self {
            Self::Lz4(lz4) => lz4.compress(piece, target),
            Self::Zstd(zstd) => zstd.try_compress(piece, target),
            Self::Zlib(zlib) => zlib.zlib_compress(piece, target).ok(),
        }
    }
}
