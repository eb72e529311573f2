//! What a frame says of itself, and how it is cut.

use crate::config::{BloscCname, Shuffle};
use crate::error::{Error, Result};

pub(super) const NAME: &str = "blosc";

pub(super) const HEADER_BYTES: usize = 16;
pub(super) const START_BYTES: usize = 4;
pub(super) const LENGTH_BYTES: usize = 4;

/// The most bytes that readers accept in one frame and in one block: their arithmetic is in i32.
pub(super) const MAX_RAW_BYTES: usize = i32::MAX as usize - HEADER_BYTES;
pub(super) const MAX_BLOCK_BYTES: usize = (i32::MAX as usize - 255 * 4) / 3;

/// Smaller buffers are stored, smaller splits are not made.
pub(super) const MIN_BYTES: usize = 128;
/// Wider elements are not split.
pub(super) const MAX_SPLITS: usize = 16;

pub(super) const BYTE_SHUFFLED: u8 = 0x01;
pub(super) const STORED: u8 = 0x02;
pub(super) const BIT_SHUFFLED: u8 = 0x04;
pub(super) const FROM_THE_FUTURE: u8 = 0x08;
pub(super) const NOT_SPLIT: u8 = 0x10;

/// What the configuration says about Blosc.
#[derive(Debug, Clone, Copy)]
pub(in crate::codec) struct Settings {
    pub(in crate::codec) cname: BloscCname,
    pub(in crate::codec) level: u8,
    pub(in crate::codec) shuffle: Shuffle,
    pub(in crate::codec) block_bytes: usize,
}

/// A frame is never larger than its header and the raw bytes.
pub(in crate::codec) fn bound(raw_bytes: usize) -> usize {
    HEADER_BYTES + raw_bytes
}

/// The header but for what each frame decides: whether it is stored, and its length.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    pub(super) flags: u8,
    pub(super) element_bytes: usize,
    pub(super) raw_bytes: usize,
    pub(super) block_bytes: usize,
}

impl Header {
    pub(super) fn new(settings: &Settings, element_bytes: usize, raw_bytes: usize, block_bytes: usize) -> Self {
        let shuffle = shuffle_flag(settings.shuffle);
        let split = if splits(settings.cname, element_bytes, block_bytes) { 0 } else { NOT_SPLIT };
        Self { flags: shuffle | split | format_code(settings.cname) << 5, element_bytes, raw_bytes, block_bytes }
    }

    /// Says that blocks are shuffled in this way.
    pub(super) fn set_shuffle(&mut self, shuffle: Shuffle) {
        self.flags = self.flags & !(BYTE_SHUFFLED | BIT_SHUFFLED) | shuffle_flag(shuffle);
    }

    pub(super) fn pieces(&self, block_bytes: usize) -> usize {
        if self.flags & NOT_SPLIT == 0 && block_bytes == self.block_bytes { self.element_bytes } else { 1 }
    }

    pub(super) fn write(&self, frame: &mut [u8], more_flags: u8, frame_bytes: usize) {
        frame[..4].copy_from_slice(&[2, 1, self.flags | more_flags, self.element_bytes as u8]);
        frame[4..8].copy_from_slice(&(self.raw_bytes as u32).to_le_bytes());
        frame[8..12].copy_from_slice(&(self.block_bytes as u32).to_le_bytes());
        frame[12..16].copy_from_slice(&(frame_bytes as u32).to_le_bytes());
    }
}

fn shuffle_flag(shuffle: Shuffle) -> u8 {
    match shuffle {
        Shuffle::None => 0,
        Shuffle::Byte => BYTE_SHUFFLED,
        Shuffle::Bit => BIT_SHUFFLED,
    }
}

/// The inner compressor's number; both variants of LZ4 have the same format.
pub(super) fn format_code(cname: BloscCname) -> u8 {
    match cname {
        BloscCname::Blosclz => 0,
        BloscCname::Lz4 | BloscCname::Lz4hc => 1,
        BloscCname::Zlib => 3,
        BloscCname::Zstd => 4,
    }
}

/// Whether whole blocks are split. Readers from before the flag split all but zstd's blocks under the same conditions.
pub(super) fn splits(cname: BloscCname, element_bytes: usize, block_bytes: usize) -> bool {
    cname != BloscCname::Zstd && element_bytes <= MAX_SPLITS && block_bytes / element_bytes >= MIN_BYTES
}

/// Bytes a block: a multiple of what the shuffle takes, as long as the tile is that long.
pub(super) fn block_bytes(settings: &Settings, element_bytes: usize, raw_bytes: usize) -> usize {
    let wanted = match settings.block_bytes {
        0 => default_block_bytes(settings.cname, settings.level, element_bytes),
        wanted => wanted,
    };
    let unit = if settings.shuffle == Shuffle::Bit { 8 * element_bytes } else { element_bytes };
    match wanted.min(raw_bytes) / unit * unit {
        0 => raw_bytes.max(1),
        bytes => bytes,
    }
}

/// Bytes a block when the configuration leaves the choice to us.
///
/// Measured on tiles of camera noise. LZ4 at its fastest does best when a shuffled block stays in the first cache, and
/// loses less than one part in 200 of the ratio of c-blosc's blocks, which are twice as large; at higher levels each
/// piece is longer than the 64 KiB that LZ4 looks back, which also lets it hash 5 bytes instead of 4. The others gain
/// from longer blocks at every level, and for them the sizes are those of c-blosc or twice that.
pub(super) fn default_block_bytes(cname: BloscCname, level: u8, element_bytes: usize) -> usize {
    let kib = match (cname, level) {
        (BloscCname::Lz4, 0..=2) => (16 * element_bytes).max(32),
        (BloscCname::Lz4, _) => 128 * element_bytes,
        (BloscCname::Lz4hc, level) => ((16 << level.min(4)) * element_bytes).max(64),
        (_, 0..=2) => 64,
        (_, 3) => 128,
        (_, 4..=5) => 256,
        (_, 6..=8) => 512,
        _ => 1024,
    };
    kib << 10
}

pub(in crate::codec) fn check(settings: &Settings, element_bytes: usize, raw_bytes: usize) -> Result<()> {
    if settings.level > 9 {
        let reason = "Blosc has levels 0 (store) to 9 (smallest)";
        return Err(Error::config("codec.compressor.level", settings.level, reason));
    }
    if settings.block_bytes != 0 && !(MIN_BYTES..=MAX_BLOCK_BYTES).contains(&settings.block_bytes) {
        let reason = format!("a Blosc block has {MIN_BYTES} to {MAX_BLOCK_BYTES} bytes; 0 chooses a good size");
        return Err(Error::config("codec.compressor.block_bytes", settings.block_bytes, reason));
    }
    if !settings.block_bytes.is_multiple_of(element_bytes) {
        let reason = format!("a Blosc block holds whole elements, here of {element_bytes} bytes");
        return Err(Error::config("codec.compressor.block_bytes", settings.block_bytes, reason));
    }
    if raw_bytes > MAX_RAW_BYTES {
        let reason = format!("{raw_bytes} bytes a chunk are too many; Blosc takes at most {MAX_RAW_BYTES}");
        return Err(Error::config("codec.compressor", NAME, reason));
    }
    Ok(())
}
