//! Gzip members (RFC 1952) and zlib streams (RFC 1950), by libdeflate with kept state.

#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ptr::NonNull;

use super::length::expect_length;
use libdeflate_sys as sys;
use libdeflater::{CompressionLvl, Compressor};

use crate::error::{Error, Result};

const NAME: &str = "gzip";
const ZLIB: &str = "zlib";
/// By which a member of gzip begins.
const MAGIC: [u8; 2] = [0x1f, 0x8b];

/// A compressor of libdeflate. Levels are those of gzip and zlib; libdeflate's own 10 to 12 are out of their range and
/// far too slow for live data.
pub(super) fn compressor(level: u8) -> Result<Compressor> {
    let level = CompressionLvl::new(i32::from(level))
        .map_err(|_| Error::codec(NAME, format_args!("there is no level {level}")))?;
    Ok(Compressor::new(level))
}

pub(super) fn encode(compressor: &mut Compressor, raw: &[u8], room: &mut [u8]) -> Result<usize> {
    compressor.gzip_compress(raw, room).map_err(|error| Error::codec(NAME, error))
}

/// libdeflate's state for decompression, kept from call to call. Its interface in Rust does not tell where a stream
/// ends, and what stands behind must not pass unseen.
pub(super) struct Decompressor(NonNull<sys::libdeflate_decompressor>);

// SAFETY: libdeflate's state belongs to no thread, and calls need it for themselves.
unsafe impl Send for Decompressor {}

/// One of libdeflate's functions for the kinds of streams.
type Stream = unsafe extern "C" fn(
    *mut sys::libdeflate_decompressor,
    *const c_void,
    usize,
    *mut c_void,
    usize,
    *mut usize,
    *mut usize,
) -> sys::libdeflate_result;

impl Decompressor {
    pub(super) fn new() -> Result<Self> {
        // SAFETY: it takes nothing, and returns what is its own or null.
        let state = NonNull::new(unsafe { sys::libdeflate_alloc_decompressor() });
        state.map(Self).ok_or_else(|| Error::codec(NAME, "no memory for the decompressor"))
    }

    /// Decompresses one stream, and returns how many bytes it has and how many become of it.
    fn stream(
        &mut self,
        codec: &'static str,
        stream: Stream,
        encoded: &[u8],
        raw: &mut [u8],
    ) -> Result<(usize, usize)> {
        let (mut taken, mut made) = (0, 0);
        let (from, to) = (encoded.as_ptr().cast(), raw.as_mut_ptr().cast());
        // SAFETY: the state is allocated, both buffers are as long as is said, and the numbers outlive the call.
        let result =
            unsafe { stream(self.0.as_ptr(), from, encoded.len(), to, raw.len(), &raw mut taken, &raw mut made) };
        match result {
            sys::libdeflate_result_LIBDEFLATE_SUCCESS => Ok((taken, made)),
            sys::libdeflate_result_LIBDEFLATE_INSUFFICIENT_SPACE => {
                Err(Error::codec(codec, format!("more than {} bytes are in it", raw.len())))
            }
            _ => Err(Error::codec(codec, "the data are no stream of its, or were changed")),
        }
    }

    /// Decompresses members, of which there may be several, and returns how long all are together. Zeros may follow a
    /// member, as gzip and zlib's readers take them for padding.
    fn members(&mut self, encoded: &[u8], raw: &mut [u8]) -> Result<usize> {
        let (mut rest, mut length) = (encoded, 0);
        loop {
            let (taken, made) = self.stream(NAME, sys::libdeflate_gzip_decompress_ex, rest, &mut raw[length..])?;
            (rest, length) = (&rest[taken..], length + made);
            let padding = rest.iter().take_while(|&&byte| byte == 0).count();
            rest = &rest[padding..];
            if !rest.starts_with(&MAGIC) {
                expect_end(NAME, rest)?;
                return Ok(length);
            }
        }
    }
}

impl Drop for Decompressor {
    fn drop(&mut self) {
        // SAFETY: it was allocated by libdeflate, and nobody has it any more.
        unsafe { sys::libdeflate_free_decompressor(self.0.as_ptr()) }
    }
}

pub(super) fn decode(decompressor: &mut Decompressor, encoded: &[u8], raw: &mut [u8]) -> Result<()> {
    let length = decompressor.members(encoded, raw)?;
    expect_length(NAME, length, raw.len())
}

/// Nothing may follow a stream: some readers refuse what stands behind, and others pass over it.
fn expect_end(codec: &'static str, rest: &[u8]) -> Result<()> {
    if rest.is_empty() { Ok(()) } else { Err(Error::codec(codec, "other bytes follow the compressed data")) }
}

/// Decompresses members of unknown length into `raw`, and returns how long they are.
#[cfg(feature = "offline")]
pub(crate) fn gunzip(encoded: &[u8], raw: &mut [u8]) -> Result<usize> {
    Decompressor::new()?.members(encoded, raw)
}

/// Decompresses a bare deflate stream into `raw`, and returns how long it is.
#[cfg(feature = "offline")]
pub(crate) fn inflate(encoded: &[u8], raw: &mut [u8]) -> Result<usize> {
    let (_, length) = Decompressor::new()?.stream("deflate", sys::libdeflate_deflate_decompress_ex, encoded, raw)?;
    Ok(length)
}

pub(super) fn encode_zlib(compressor: &mut Compressor, raw: &[u8], room: &mut [u8]) -> Result<usize> {
    compressor.zlib_compress(raw, room).map_err(|error| Error::codec(ZLIB, error))
}

pub(super) fn decode_zlib(decompressor: &mut Decompressor, encoded: &[u8], raw: &mut [u8]) -> Result<()> {
    let (taken, made) = decompressor.stream(ZLIB, sys::libdeflate_zlib_decompress_ex, encoded, raw)?;
    expect_length(ZLIB, made, raw.len())?;
    expect_end(ZLIB, &encoded[taken..])
}
