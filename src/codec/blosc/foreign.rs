//! What c-blosc does for us: all decoding, and the BloscLZ compressor, which it has no public function for.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_int};

use super::frame::*;
use crate::codec::length::expect_length;
use crate::error::{Error, Result};

/// Compresses with BloscLZ by way of whole frames of c-blosc.
///
/// The tile comes shuffled, block by block, and c-blosc is told not to shuffle; the flag that says otherwise is set
/// afterwards. c-blosc takes memory for each call; this is the only encoder that allocates.
pub(super) struct Blosclz {
    pub(super) settings: Settings,
    pub(super) element_bytes: usize,
}

const BLOSCLZ: &CStr = c"blosclz";

impl Blosclz {
    /// The bytes a block that c-blosc arrives at for tiles of this size. It enlarges what it is asked for, so only a
    /// frame can tell.
    pub(super) fn probe_block_bytes(&self, raw_bytes: usize) -> Result<usize> {
        let mut frame = vec![0; bound(raw_bytes)];
        match self.compress(&vec![0; raw_bytes], &mut frame) {
            Some(_) => Ok(read_u32(&frame, 8)),
            None => Err(Error::codec("blosclz", format!("c-blosc refused {raw_bytes} bytes of zeros"))),
        }
    }

    /// Writes a compressed frame and returns its length. `None`: it would not be smaller than the stored one.
    pub(super) fn encode(&self, header: Header, shuffled: &[u8], frame: &mut [u8]) -> Result<Option<usize>> {
        let Some(written) = self.compress(shuffled, frame) else { return Ok(None) };
        if frame[2] & STORED != 0 {
            return Ok(None);
        }
        let block_bytes = read_u32(frame, 8);
        if block_bytes != header.block_bytes {
            let reason = format!("c-blosc made blocks of {block_bytes} bytes, expected {}", header.block_bytes);
            return Err(Error::codec("blosclz", reason));
        }
        frame[2] |= header.flags & (BYTE_SHUFFLED | BIT_SHUFFLED);
        Ok(Some(written))
    }

    fn compress(&self, source: &[u8], frame: &mut [u8]) -> Option<usize> {
        // SAFETY: both lengths are those of the slices, the name ends with a zero, and the call without a thread pool
        // uses no global state.
        let written = unsafe {
            blosc_src::blosc_compress_ctx(
                c_int::from(self.settings.level),
                blosc_src::BLOSC_NOSHUFFLE as c_int,
                self.element_bytes,
                source.len(),
                source.as_ptr().cast(),
                frame.as_mut_ptr().cast(),
                frame.len(),
                BLOSCLZ.as_ptr(),
                self.settings.block_bytes,
                1,
            )
        };
        usize::try_from(written).ok().filter(|written| *written > 0)
    }
}

/// Decodes a frame of any writer into `raw`, which must be exactly the decoded size.
pub(in crate::codec) fn decode(frame: &[u8], raw: &mut [u8]) -> Result<()> {
    validate(frame, raw.len())?;
    if raw.is_empty() {
        return Ok(());
    }
    if frame[2] & STORED != 0 {
        raw.copy_from_slice(&frame[HEADER_BYTES..]);
        return Ok(());
    }
    // SAFETY: the header's lengths are those of the slices, which c-blosc checks everything else in the frame against.
    let written =
        unsafe { blosc_src::blosc_decompress_ctx(frame.as_ptr().cast(), raw.as_mut_ptr().cast(), raw.len(), 1) };
    match usize::try_from(written) {
        Ok(written) => expect_length(NAME, written, raw.len()),
        Err(_) => Err(Error::codec(NAME, format!("the compressed blocks are damaged (c-blosc says {written})"))),
    }
}

/// Checks the header against the true lengths. c-blosc believes what the header says of the frame's own length, and
/// takes memory for as many bytes as the header says a block has.
fn validate(frame: &[u8], raw_bytes: usize) -> Result<()> {
    let wrong = |what: String| Err(Error::codec(NAME, what));
    if frame.len() < HEADER_BYTES {
        return wrong(format!("{} bytes are too few for a header of {HEADER_BYTES}", frame.len()));
    }
    let (version, flags, element_bytes) = (frame[0], frame[2], usize::from(frame[3]));
    let (says_raw, block_bytes, says_frame) = (read_u32(frame, 4), read_u32(frame, 8), read_u32(frame, 12));
    if version != 2 || flags & FROM_THE_FUTURE != 0 {
        return wrong(format!("frame version {version} with flags {flags:#04x}, expected version 2"));
    }
    if says_raw != raw_bytes || raw_bytes > MAX_RAW_BYTES {
        return wrong(format!("holds {says_raw} bytes, expected {raw_bytes}"));
    }
    if says_frame != frame.len() || says_frame > i32::MAX as usize {
        return wrong(format!("the header says {says_frame} bytes, the chunk has {}", frame.len()));
    }
    if raw_bytes == 0 {
        return Ok(());
    }
    if element_bytes == 0 || block_bytes == 0 || block_bytes > raw_bytes.min(MAX_BLOCK_BYTES) {
        return wrong(format!("blocks of {block_bytes} bytes and elements of {element_bytes} for {raw_bytes} bytes"));
    }
    if flags & STORED != 0 {
        return expect_length(NAME, frame.len() - HEADER_BYTES, raw_bytes);
    }
    if HEADER_BYTES + START_BYTES * raw_bytes.div_ceil(block_bytes) > frame.len() {
        return wrong(format!("{} bytes are too few for the starts of blocks of {block_bytes}", frame.len()));
    }
    match flags >> 5 {
        0 | 1 | 3 | 4 => Ok(()),
        2 => wrong("Snappy inside; supported are blosclz, lz4, lz4hc, zlib and zstd".to_owned()),
        code => wrong(format!("unknown compressor number {code} inside")),
    }
}

fn read_u32(frame: &[u8], at: usize) -> usize {
    u32::from_le_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]]) as usize
}
