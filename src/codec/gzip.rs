//! Gzip members (RFC 1952) and zlib streams (RFC 1950), by libdeflate with kept state.

use super::length::expect_length;
use libdeflater::{CompressionLvl, Compressor, Decompressor};

use crate::error::{Error, Result};

const NAME: &str = "gzip";
const ZLIB: &str = "zlib";

/// A compressor of libdeflate. Levels are those of gzip and zlib; libdeflate's own 10 to 12 are out of their range and
/// far too slow for live data.
pub(super) fn compressor(level: u8) -> Result<Compressor> {
    let level = CompressionLvl::new(i32::from(level)).map_err(|error| Error::codec(NAME, format!("{error:?}")))?;
    Ok(Compressor::new(level))
}

pub(super) fn encode(compressor: &mut Compressor, raw: &[u8], room: &mut [u8]) -> Result<usize> {
    compressor.gzip_compress(raw, room).map_err(|error| Error::codec(NAME, error))
}

pub(super) fn decode(decompressor: &mut Decompressor, encoded: &[u8], raw: &mut [u8]) -> Result<()> {
    let written = decompressor.gzip_decompress(encoded, raw).map_err(|error| Error::codec(NAME, error))?;
    expect_length(NAME, written, raw.len())?;
    expect_member_end(encoded, raw)
}

/// Nothing may follow the member: libdeflate stops at its end, and others refuse what stands behind.
fn expect_member_end(encoded: &[u8], raw: &[u8]) -> Result<()> {
    let end = [libdeflater::crc32(raw).to_le_bytes(), (raw.len() as u32).to_le_bytes()];
    expect_end(NAME, encoded, end.as_flattened())
}

/// `end`: the checksum, and what else a stream of these data ends with.
fn expect_end(codec: &'static str, encoded: &[u8], end: &[u8]) -> Result<()> {
    if encoded.ends_with(end) { Ok(()) } else { Err(Error::codec(codec, "other bytes follow the compressed data")) }
}

/// Decompresses a member of unknown length into `raw`, and returns how long it is.
#[cfg(feature = "offline")]
pub(crate) fn gunzip(encoded: &[u8], raw: &mut [u8]) -> Result<usize> {
    let length = Decompressor::new().gzip_decompress(encoded, raw).map_err(|error| Error::codec(NAME, error))?;
    expect_member_end(encoded, &raw[..length])?;
    Ok(length)
}

/// Decompresses a bare deflate stream into `raw`, and returns how long it is.
#[cfg(feature = "offline")]
pub(crate) fn inflate(encoded: &[u8], raw: &mut [u8]) -> Result<usize> {
    Decompressor::new().deflate_decompress(encoded, raw).map_err(|error| Error::codec("deflate", error))
}

pub(super) fn encode_zlib(compressor: &mut Compressor, raw: &[u8], room: &mut [u8]) -> Result<usize> {
    compressor.zlib_compress(raw, room).map_err(|error| Error::codec(ZLIB, error))
}

pub(super) fn decode_zlib(decompressor: &mut Decompressor, encoded: &[u8], raw: &mut [u8]) -> Result<()> {
    let written = decompressor.zlib_decompress(encoded, raw).map_err(|error| Error::codec(ZLIB, error))?;
    expect_length(ZLIB, written, raw.len())?;
    expect_end(ZLIB, encoded, &libdeflater::adler32(raw).to_be_bytes())
}
