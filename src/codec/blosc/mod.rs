//! Blosc 1 frames, written here and read by c-blosc.
//!
//! ```text
//! byte  0   version of the frame format: 2
//!       1   version of the inner compressor's format: 1
//!       2   flags: 0x01 byte-shuffled, 0x02 stored, 0x04 bit-shuffled, 0x10 blocks not split, 0xE0 inner compressor
//!       3   bytes an element
//!       4   u32 decoded bytes
//!       8   u32 bytes a block
//!      12   u32 bytes of the frame, this header included
//!      16   stored: the raw bytes
//!           else:   u32 start of each block in the frame, then the blocks
//! ```
//!
//! A block is shuffled by itself. It consists of one piece, or of as many as an element has bytes where blocks are split
//! (never the last block, when it is shorter). A piece is its length as an i32 and so many bytes; a length equal to that
//! of the raw piece says that the piece is stored. All numbers are little-endian. (c-blosc 1.21, README_CHUNK_FORMAT.)
//!
//! c-blosc could write these as well, but a default build of it shuffles with SSE2 only, takes memory for each call, and
//! chooses blocks that do not stay in the first cache.

mod block;
mod foreign;
mod noise;

pub(super) use foreign::decode;
pub(super) use noise::NoiseEncoder;

use self::block::Compressor;
use self::foreign::Blosclz;
use super::shuffle::Shuffler;
use crate::config::{BloscCname, Shuffle};
use crate::error::{Error, Result};

const NAME: &str = "blosc";

const HEADER_BYTES: usize = 16;
const START_BYTES: usize = 4;
const LENGTH_BYTES: usize = 4;

/// The most bytes that readers accept in one frame and in one block: their arithmetic is in i32.
const MAX_RAW_BYTES: usize = i32::MAX as usize - HEADER_BYTES;
const MAX_BLOCK_BYTES: usize = (i32::MAX as usize - 255 * 4) / 3;

/// Smaller buffers are stored, smaller splits are not made.
const MIN_BYTES: usize = 128;
/// Wider elements are not split.
const MAX_SPLITS: usize = 16;

const BYTE_SHUFFLED: u8 = 0x01;
const STORED: u8 = 0x02;
const BIT_SHUFFLED: u8 = 0x04;
const FROM_THE_FUTURE: u8 = 0x08;
const NOT_SPLIT: u8 = 0x10;

/// What the configuration says about Blosc.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings {
    pub(super) cname: BloscCname,
    pub(super) level: u8,
    pub(super) shuffle: Shuffle,
    pub(super) block_bytes: usize,
}

/// Writes frames of one size.
pub(super) struct Encoder {
    header: Header,
    shuffler: Shuffler,
    /// Shuffled bytes on their way to the compressor: of one block, or of the whole tile for BloscLZ.
    shuffled: Vec<u8>,
    means: Means,
}

enum Means {
    Store,
    Blocks(Compressor),
    Blosclz(Blosclz),
}

impl Encoder {
    pub(super) fn new(settings: Settings, element_bytes: usize, raw_bytes: usize) -> Result<Self> {
        check(&settings, element_bytes, raw_bytes)?;
        let shuffler = Shuffler::new(settings.shuffle, element_bytes);
        let block_bytes = block_bytes(&settings, element_bytes, raw_bytes);
        let mut header = Header::new(&settings, element_bytes, raw_bytes, block_bytes);
        let means = match settings.cname {
            _ if settings.level == 0 || raw_bytes < MIN_BYTES => Means::Store,
            BloscCname::Blosclz => {
                let blosclz = Blosclz::new(settings, element_bytes);
                header.block_bytes = blosclz.probe_block_bytes(raw_bytes)?;
                Means::Blosclz(blosclz)
            }
            cname => Means::Blocks(Compressor::new(cname, settings.level, block_bytes)?),
        };
        let shuffled_bytes = match &means {
            _ if shuffler.is_identity() => 0,
            Means::Store => 0,
            Means::Blocks(_) => block_bytes,
            Means::Blosclz(_) => raw_bytes,
        };
        Ok(Self { header, shuffler, shuffled: vec![0; shuffled_bytes], means })
    }

    /// A frame is never larger than its header and the raw bytes.
    pub(super) fn bound(raw_bytes: usize) -> usize {
        HEADER_BYTES + raw_bytes
    }

    pub(super) fn encode(&mut self, raw: &[u8], room: &mut [u8]) -> Result<usize> {
        let frame = &mut room[..Self::bound(raw.len())];
        let written = match &mut self.means {
            Means::Store => None,
            Means::Blocks(compressor) => {
                encode_blocks(self.header, &self.shuffler, &mut self.shuffled, compressor, raw, frame)
            }
            Means::Blosclz(blosclz) => {
                let source = shuffle_all(&self.shuffler, self.header.block_bytes, raw, &mut self.shuffled);
                blosclz.encode(self.header, source, frame)?
            }
        };
        Ok(written.unwrap_or_else(|| store(self.header, raw, frame)))
    }
}

/// Writes a compressed frame and returns its length. `None`: it would not be smaller than the stored one.
fn encode_blocks(
    header: Header,
    shuffler: &Shuffler,
    shuffled: &mut [u8],
    compressor: &mut Compressor,
    raw: &[u8],
    frame: &mut [u8],
) -> Option<usize> {
    let mut at = HEADER_BYTES + START_BYTES * raw.len().div_ceil(header.block_bytes);
    for (number, block) in raw.chunks(header.block_bytes).enumerate() {
        let start = frame.get_mut(HEADER_BYTES + START_BYTES * number..)?;
        start.get_mut(..START_BYTES)?.copy_from_slice(&(at as u32).to_le_bytes());
        let source = if shuffler.is_identity() {
            block
        } else {
            let shuffled = &mut shuffled[..block.len()];
            shuffler.run(block, shuffled);
            shuffled
        };
        for piece in source.chunks(block.len() / header.pieces(block.len())) {
            at += write_piece(compressor, piece, frame.get_mut(at..)?)?;
        }
    }
    header.write(frame, 0, at);
    Some(at)
}

/// Writes a piece and its length, and returns the bytes of both. `None`: it does not fit, not even stored.
fn write_piece(compressor: &mut Compressor, piece: &[u8], room: &mut [u8]) -> Option<usize> {
    let (length, data) = room.split_at_mut_checked(LENGTH_BYTES)?;
    // One byte less than the piece, since the piece's own length would tell the reader that it is stored.
    let limit = data.len().min(piece.len() - 1);
    let written = match compressor.compress(piece, &mut data[..limit]) {
        Some(written) => written,
        None => {
            data.get_mut(..piece.len())?.copy_from_slice(piece);
            piece.len()
        }
    };
    length.copy_from_slice(&(written as u32).to_le_bytes());
    Some(LENGTH_BYTES + written)
}

fn shuffle_all<'a>(shuffler: &Shuffler, block_bytes: usize, raw: &'a [u8], shuffled: &'a mut [u8]) -> &'a [u8] {
    if shuffler.is_identity() {
        return raw;
    }
    for (block, out) in raw.chunks(block_bytes).zip(shuffled.chunks_mut(block_bytes)) {
        shuffler.run(block, out);
    }
    shuffled
}

fn store(header: Header, raw: &[u8], frame: &mut [u8]) -> usize {
    frame[HEADER_BYTES..].copy_from_slice(raw);
    header.write(frame, STORED, frame.len());
    frame.len()
}

/// The header but for what each frame decides: whether it is stored, and its length.
#[derive(Debug, Clone, Copy)]
struct Header {
    flags: u8,
    element_bytes: usize,
    raw_bytes: usize,
    block_bytes: usize,
}

impl Header {
    fn new(settings: &Settings, element_bytes: usize, raw_bytes: usize, block_bytes: usize) -> Self {
        let shuffle = match settings.shuffle {
            Shuffle::None => 0,
            Shuffle::Byte => BYTE_SHUFFLED,
            Shuffle::Bit => BIT_SHUFFLED,
        };
        let split = if splits(settings.cname, element_bytes, block_bytes) { 0 } else { NOT_SPLIT };
        Self { flags: shuffle | split | format_code(settings.cname) << 5, element_bytes, raw_bytes, block_bytes }
    }

    fn pieces(&self, block_bytes: usize) -> usize {
        if self.flags & NOT_SPLIT == 0 && block_bytes == self.block_bytes { self.element_bytes } else { 1 }
    }

    fn write(&self, frame: &mut [u8], more_flags: u8, frame_bytes: usize) {
        frame[..4].copy_from_slice(&[2, 1, self.flags | more_flags, self.element_bytes as u8]);
        frame[4..8].copy_from_slice(&(self.raw_bytes as u32).to_le_bytes());
        frame[8..12].copy_from_slice(&(self.block_bytes as u32).to_le_bytes());
        frame[12..16].copy_from_slice(&(frame_bytes as u32).to_le_bytes());
    }
}

/// The inner compressor's number; both variants of LZ4 have the same format.
fn format_code(cname: BloscCname) -> u8 {
    match cname {
        BloscCname::Blosclz => 0,
        BloscCname::Lz4 | BloscCname::Lz4hc => 1,
        BloscCname::Zlib => 3,
        BloscCname::Zstd => 4,
    }
}

/// Whether whole blocks are split. Readers from before the flag split all but zstd's blocks under the same conditions.
fn splits(cname: BloscCname, element_bytes: usize, block_bytes: usize) -> bool {
    cname != BloscCname::Zstd && element_bytes <= MAX_SPLITS && block_bytes / element_bytes >= MIN_BYTES
}

/// Bytes a block: a multiple of what the shuffle takes, as long as the tile is that long.
fn block_bytes(settings: &Settings, element_bytes: usize, raw_bytes: usize) -> usize {
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
/// piece is longer than the 64 KiB that LZ4 looks back, which also lets it hash 5 bytes instead of 4. The others gain from longer blocks at every level, and for them
/// the sizes are those of c-blosc or twice that.
fn default_block_bytes(cname: BloscCname, level: u8, element_bytes: usize) -> usize {
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

pub(super) fn check(settings: &Settings, element_bytes: usize, raw_bytes: usize) -> Result<()> {
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
