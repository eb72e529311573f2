//! Writes frames with an ordinary compressor.

use super::foreign::Blosclz;
use super::frame::{
    HEADER_BYTES, Header, LENGTH_BYTES, MIN_BYTES, START_BYTES, STORED, Settings, block_bytes, bound, check,
};
use crate::codec::shuffle::Shuffler;
use crate::codec::tile_source::TileSource;
use crate::codec::{gzip, lz4, zstd};
use crate::config::{BloscCname, Shuffle};
use crate::error::Result;

/// Writes frames of one size.
pub(in crate::codec) struct Encoder {
    header: Header,
    shuffler: Shuffler,
    /// Shuffled bytes on their way to the compressor: of one block, or of the whole tile for BloscLZ.
    shuffled: Vec<u8>,
    compression: Compression,
}

enum Compression {
    Store,
    Blocks(Compressor),
    Blosclz(Blosclz),
}

/// What compresses the pieces of blocks, with state that is kept.
enum Compressor {
    Lz4(lz4::Compressor),
    Zstd(zstd::Compressor),
    Zlib(libdeflater::Compressor),
}

impl Compressor {
    /// Compresses into at most `target.len()` bytes and returns how many. `None`: they are too few. Any other failure
    /// looks the same, because the caller then stores the piece, which is never wrong.
    fn compress(&mut self, piece: &[u8], target: &mut [u8]) -> Option<usize> {
        match self {
            Self::Lz4(lz4) => lz4.compress(piece, target),
            Self::Zstd(zstd) => zstd.try_compress(piece, target),
            Self::Zlib(zlib) => zlib.zlib_compress(piece, target).ok(),
        }
    }
}

impl Encoder {
    pub(in crate::codec) fn new(settings: Settings, element_bytes: usize, raw_bytes: usize) -> Result<Self> {
        check(&settings, element_bytes, raw_bytes)?;
        let shuffler = Shuffler::new(settings.shuffle, element_bytes);
        let block_bytes = block_bytes(&settings, element_bytes, raw_bytes);
        let mut header = Header::new(&settings, element_bytes, raw_bytes, block_bytes);
        let compression = match settings.cname {
            _ if settings.level == 0 || raw_bytes < MIN_BYTES => Compression::Store,
            BloscCname::Blosclz => {
                let blosclz = Blosclz { settings, element_bytes };
                header.block_bytes = blosclz.probe_block_bytes(raw_bytes)?;
                Compression::Blosclz(blosclz)
            }
            BloscCname::Lz4 => Compression::Blocks(Compressor::Lz4(lz4::Compressor::fast(settings.level))),
            BloscCname::Lz4hc => Compression::Blocks(Compressor::Lz4(lz4::Compressor::high(settings.level))),
            BloscCname::Zstd => {
                let level = zstd::Compressor::blosc_level(settings.level);
                Compression::Blocks(Compressor::Zstd(zstd::Compressor::new(level, block_bytes)?))
            }
            BloscCname::Zlib => Compression::Blocks(Compressor::Zlib(gzip::compressor(settings.level)?)),
        };
        let shuffled_bytes = match &compression {
            _ if shuffler.is_identity() => 0,
            Compression::Store => 0,
            Compression::Blocks(_) => block_bytes,
            Compression::Blosclz(_) => raw_bytes,
        };
        Ok(Self { header, shuffler, shuffled: vec![0; shuffled_bytes], compression })
    }

    /// Shuffles the following frames in this way. Only from a shuffle that needs room for a block to any other.
    pub(super) fn set_shuffle(&mut self, shuffle: Shuffle) {
        self.header.set_shuffle(shuffle);
        self.shuffler = Shuffler::new(shuffle, self.header.element_bytes);
    }

    pub(in crate::codec) fn encode(&mut self, raw: &[u8], room: &mut [u8]) -> Result<usize> {
        let frame = &mut room[..bound(raw.len())];
        let written = match &mut self.compression {
            Compression::Store => None,
            Compression::Blocks(compressor) => encode_blocks(self.header, raw, frame, |block, room| {
                let source = if self.shuffler.is_identity() {
                    block
                } else {
                    let shuffled = &mut self.shuffled[..block.len()];
                    self.shuffler.run(block, shuffled);
                    shuffled
                };
                let mut at = 0;
                for piece in source.chunks(block.len() / self.header.pieces(block.len())) {
                    at += write_piece(piece, room.get_mut(at..)?, |target| compressor.compress(piece, target))?;
                }
                Some(at)
            }),
            Compression::Blosclz(blosclz) => {
                let source = shuffle_all(&self.shuffler, self.header.block_bytes, raw, &mut self.shuffled);
                blosclz.encode(self.header, source, frame)?
            }
        };
        Ok(written.unwrap_or_else(|| store(self.header, raw, frame)))
    }
}

/// Writes a compressed frame by `write`, which gets each block with the room for it and gives the bytes used, and
/// returns the frame's length. `None`: it would not be smaller than the stored one.
pub(super) fn encode_blocks(
    header: Header,
    raw: &[u8],
    frame: &mut [u8],
    mut write: impl FnMut(&[u8], &mut [u8]) -> Option<usize>,
) -> Option<usize> {
    let mut at = HEADER_BYTES + START_BYTES * raw.len().div_ceil(header.block_bytes);
    for (number, block) in raw.chunks(header.block_bytes).enumerate() {
        let start = frame.get_mut(HEADER_BYTES + START_BYTES * number..)?;
        start.get_mut(..START_BYTES)?.copy_from_slice(&(at as u32).to_le_bytes());
        at += write(block, frame.get_mut(at..)?)?;
    }
    header.write(frame, 0, at);
    Some(at)
}

/// Writes a piece, as `compress` makes it smaller or else as it is, and its length, and returns the bytes of both.
/// `None`: it does not fit, not even stored.
pub(super) fn write_piece(
    piece: &[u8],
    room: &mut [u8],
    compress: impl FnOnce(&mut [u8]) -> Option<usize>,
) -> Option<usize> {
    let (length, data) = room.split_at_mut_checked(LENGTH_BYTES)?;
    // One byte less than the piece, since the piece's own length would tell the reader that it is stored.
    let limit = data.len().min(piece.len() - 1);
    let written = match compress(&mut data[..limit]) {
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

/// Writes a stored frame of pixels that may lie apart, and returns its length.
pub(super) fn store_from(header: Header, pixels: &(impl TileSource + ?Sized), frame: &mut [u8]) -> usize {
    let mut at = HEADER_BYTES;
    pixels.show(0..pixels.bytes(), &mut |piece| {
        frame[at..at + piece.len()].copy_from_slice(piece);
        at += piece.len();
    });
    header.write(frame, STORED, at);
    at
}

pub(super) fn store(header: Header, raw: &[u8], frame: &mut [u8]) -> usize {
    frame[HEADER_BYTES..].copy_from_slice(raw);
    header.write(frame, STORED, frame.len());
    frame.len()
}
