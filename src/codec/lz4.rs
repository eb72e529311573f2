//! LZ4 blocks: by the C library with kept state for Blosc frames, by `lz4_flex` for `numcodecs.lz4`.

#![allow(unsafe_code)]

use super::length::expect_length;
use std::ffi::{c_char, c_int, c_void};

use lz4_flex::block::{CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size};

use crate::error::{Error, Result};

// `lz4-sys` compiles these functions of lz4.h and lz4hc.h, but does not declare them.
unsafe extern "C" {
    fn LZ4_sizeofState() -> c_int;
    fn LZ4_sizeofStateHC() -> c_int;
    fn LZ4_compress_fast_extState(
        state: *mut c_void,
        source: *const c_char,
        target: *mut c_char,
        source_bytes: c_int,
        target_bytes: c_int,
        acceleration: c_int,
    ) -> c_int;
    fn LZ4_compress_HC_extStateHC(
        state: *mut c_void,
        source: *const c_char,
        target: *mut c_char,
        source_bytes: c_int,
        target_bytes: c_int,
        level: c_int,
    ) -> c_int;
}

/// A compressor of liblz4, which works in memory that is kept.
pub(super) struct Compressor {
    /// `u64`, because liblz4 wants its state aligned to 8 bytes.
    state: Vec<u64>,
    compress: unsafe extern "C" fn(*mut c_void, *const c_char, *mut c_char, c_int, c_int, c_int) -> c_int,
    /// Its acceleration or its level.
    setting: c_int,
}

impl Compressor {
    /// The fast one. As Blosc maps levels: the higher the level, the fewer positions are skipped.
    pub(super) fn fast(level: u8) -> Self {
        // Names the crate whose library the declarations above refer to, so that it is linked.
        // SAFETY: without arguments, they return constants.
        let (state_bytes, _) = unsafe { (LZ4_sizeofState(), lz4_sys::LZ4_versionNumber()) };
        let (compress, setting) = (LZ4_compress_fast_extState, c_int::from(10 - level.min(9)).max(1));
        Self { state: vec![0; state_words(state_bytes)], compress, setting }
    }

    /// The high-compression variant. Levels are passed as they are, as Blosc does.
    pub(super) fn high(level: u8) -> Self {
        // SAFETY: without arguments, it returns a constant.
        let state_bytes = unsafe { LZ4_sizeofStateHC() };
        let (compress, setting) = (LZ4_compress_HC_extStateHC, level.into());
        Self { state: vec![0; state_words(state_bytes)], compress, setting }
    }

    /// Compresses into at most `target.len()` bytes. `None`: they are too few.
    pub(super) fn compress(&mut self, source: &[u8], target: &mut [u8]) -> Option<usize> {
        let (source_bytes, target_bytes) = (source.len().try_into().ok()?, target.len().try_into().ok()?);
        let (state, from, to) = (self.state.as_mut_ptr(), source.as_ptr(), target.as_mut_ptr());
        // SAFETY: the state is as large and aligned as liblz4 asks, and both lengths are those of the slices.
        let written =
            unsafe { (self.compress)(state.cast(), from.cast(), to.cast(), source_bytes, target_bytes, self.setting) };
        usize::try_from(written).ok().filter(|written| *written > 0)
    }
}

fn state_words(bytes: c_int) -> usize {
    usize::try_from(bytes).unwrap_or(0).div_ceil(8)
}

const NAME: &str = "numcodecs.lz4";

/// Bytes before the block: the decoded size, little-endian.
const SIZE_BYTES: usize = 4;

/// The writer of `numcodecs.lz4`. Its hash table is kept from tile to tile.
pub(super) struct NumcodecsEncoder {
    table: CompressTable,
}

impl NumcodecsEncoder {
    /// For tiles of this many bytes, which have a [bound](Self::checked_bound).
    pub(super) fn new(raw_bytes: usize) -> Self {
        // The small table holds 16-bit positions and would be exchanged for a large one during the first call.
        let small = raw_bytes < usize::from(u16::MAX);
        Self { table: if small { CompressTable::small() } else { CompressTable::large() } }
    }

    /// The most bytes that this many become; refuses more than LZ4 takes.
    pub(super) fn checked_bound(raw_bytes: usize) -> Result<usize> {
        if c_int::try_from(raw_bytes).is_err() {
            let reason = format!("{raw_bytes} bytes a chunk are too many; LZ4 takes at most {}", c_int::MAX);
            return Err(Error::config("codec.compressor", "lz4", reason));
        }
        Ok(SIZE_BYTES + get_maximum_output_size(raw_bytes))
    }

    pub(super) fn encode(&mut self, raw: &[u8], room: &mut [u8]) -> Result<usize> {
        let (size, block) = room.split_at_mut(SIZE_BYTES);
        size.copy_from_slice(&(raw.len() as u32).to_le_bytes());
        let written =
            compress_into_with_table(raw, block, &mut self.table).map_err(|error| Error::codec(NAME, error))?;
        Ok(SIZE_BYTES + written)
    }
}

/// Decodes what [`NumcodecsEncoder`] or numcodecs wrote.
pub(super) fn decode_numcodecs(encoded: &[u8], raw: &mut [u8]) -> Result<()> {
    let Some((size, block)) = encoded.split_first_chunk::<SIZE_BYTES>() else {
        return Err(Error::codec(NAME, format!("{} bytes are too few for the decoded size", encoded.len())));
    };
    let size = u32::from_le_bytes(*size) as usize;
    if size != raw.len() {
        return Err(Error::codec(NAME, format!("holds {size} bytes, expected {}", raw.len())));
    }
    let written = decompress_into(block, raw).map_err(|error| Error::codec(NAME, error))?;
    expect_length(NAME, written, raw.len())
}
