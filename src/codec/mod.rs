//! What turns a tile into bytes and back.
//!
//! An [`Encoder`] belongs to one worker for its life: its contexts and scratch are made once and reused, so that
//! encoding allocates nothing. The one exception is BloscLZ, which c-blosc alone has and takes memory for. The checksum
//! is the last codec of the chain.

mod blosc;
mod effort;
mod gzip;
mod length;
mod lz4;
pub(crate) mod numcodecs;
mod runs;
mod shuffle;
pub(crate) mod speed;
mod tile_source;
mod zarr3;
mod zstd;
mod zstd_writer;

pub(crate) use effort::Effort;
#[cfg(feature = "offline")]
pub(crate) use gzip::{gunzip, inflate};
pub use tile_source::TileSource;
use zarr3::for_readers;
pub use zarr3::{from_zarr3, zarr3_codecs};

use crate::config::{BloscCname, Codec, Compressor, Shuffle};
use crate::error::{Error, Result};
#[cfg(all(sw_forms, target_arch = "x86_64"))]
pub use crate::processor::x86::{Generation, allow};
use length::expect_length;

/// Bytes of a CRC-32C.
pub(crate) const CHECKSUM_BYTES: usize = 4;

/// Encodes tiles of one size.
pub struct Encoder {
    context: EncoderContext,
    effort: Effort,
    checksum: bool,
    raw_bytes: usize,
    bound: usize,
}

enum EncoderContext {
    Copy,
    Blosc(blosc::Encoder),
    BloscNoise(Box<blosc::NoiseEncoder>),
    BloscPlanes(Box<blosc::PlanesEncoder>),
    Zstd(zstd::Compressor),
    ZstdNoise(Box<zstd_writer::BareEncoder>),
    Gzip(libdeflater::Compressor),
    Zlib(libdeflater::Compressor),
    Lz4(lz4::NumcodecsEncoder),
}

impl Encoder {
    /// An encoder for tiles of `raw_bytes` bytes of elements of `element_bytes` bytes: 1, 2, 4 or 8.
    ///
    /// # Errors
    /// [`Error::Config`] when a level or a size is out of the compressor's range.
    pub fn new(codec: &Codec, element_bytes: usize, raw_bytes: usize) -> Result<Self> {
        let bound = Self::bound_for(codec, element_bytes, raw_bytes)?;
        let context = EncoderContext::new(codec.compressor, element_bytes, raw_bytes)?;
        Ok(Self { context, effort: Effort::Normal, checksum: codec.checksum, raw_bytes, bound })
    }

    /// With how much effort the following tiles are encoded. Compressors other than those that `auto` chooses among
    /// know only the normal one.
    pub(crate) fn set_effort(&mut self, effort: Effort) {
        self.effort = effort;
    }

    /// [`bound`](Self::bound) of an encoder that need not be made for it: some take memory and time for a whole tile.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub(crate) fn bound_for(codec: &Codec, element_bytes: usize, raw_bytes: usize) -> Result<usize> {
        if !matches!(element_bytes, 1 | 2 | 4 | 8) {
            let reason = format!("elements of {element_bytes} bytes; possible are 1, 2, 4 and 8");
            return Err(Error::codec("bytes", reason));
        }
        let bound = EncoderContext::checked_bound(codec.compressor, element_bytes, raw_bytes)?;
        Ok(if codec.checksum { bound.saturating_add(CHECKSUM_BYTES) } else { bound })
    }

    /// The most bytes that a tile can become, checksum included.
    pub fn bound(&self) -> usize {
        self.bound
    }

    /// Whether tiles become chunks as they are, byte for byte, so that a tile that lies in one piece may be written
    /// from where it stands.
    pub fn is_identity(&self) -> bool {
        matches!(self.context, EncoderContext::Copy) && !self.checksum
    }

    /// Whether tiles become chunks as they are, but perhaps for a checksum behind them: then a tile that was made where
    /// the chunk shall be only needs [`seal`](Self::seal).
    pub(crate) fn copies(&self) -> bool {
        matches!(self.context, EncoderContext::Copy)
    }

    /// Turns the tile of `length` bytes at the start of `room` into a chunk, where tiles become chunks as they are;
    /// returns the chunk's bytes. That is to append the checksum, if there is to be one.
    pub(crate) fn seal(&self, length: usize, room: &mut [u8]) -> usize {
        if !self.checksum {
            return length;
        }
        let crc = crc32c::crc32c(&room[..length]);
        room[length..length + CHECKSUM_BYTES].copy_from_slice(&crc.to_le_bytes());
        length + CHECKSUM_BYTES
    }

    /// Encodes `raw` into the start of `room` and returns the bytes used.
    ///
    /// `room` must hold [`bound`](Self::bound) bytes. Bytes of `room` past the result may be changed.
    ///
    /// # Errors
    /// [`Error::Codec`] when `raw` is not a whole tile, `room` is too small, or the compressor fails.
    pub fn encode(&mut self, raw: &[u8], room: &mut [u8]) -> Result<usize> {
        expect_length("tile", raw.len(), self.raw_bytes)?;
        self.encode_part(raw, room)
    }

    /// Whether it takes a tile's pixels from where they lie, by [`encode_from`](Self::encode_from), so that nothing is
    /// gained by copying them together first.
    pub fn gathers(&self) -> bool {
        matches!(self.context, EncoderContext::BloscNoise(_))
    }

    /// As [`encode_from`](Self::encode_from), in one piece: in some formats chunks end with their array.
    pub(crate) fn encode_part(&mut self, raw: &[u8], room: &mut [u8]) -> Result<usize> {
        self.encode_from(raw, &mut [], room)
    }

    /// As [`encode`](Self::encode), from pixels that may lie apart; then `spare` must have room for the tile. Where the
    /// compressor is none, gzip or zlib, the tile may be a shorter one.
    ///
    /// # Errors
    /// As [`encode`](Self::encode).
    pub fn encode_from(
        &mut self,
        pixels: &(impl TileSource + ?Sized),
        spare: &mut [u8],
        room: &mut [u8],
    ) -> Result<usize> {
        let bytes = pixels.bytes();
        let any_length =
            matches!(self.context, EncoderContext::Copy | EncoderContext::Gzip(_) | EncoderContext::Zlib(_));
        if bytes > self.raw_bytes || !any_length {
            expect_length("tile", bytes, self.raw_bytes)?;
        }
        if room.len() < self.bound {
            return Err(Error::codec("tile", format!("room for {} bytes, expected {}", room.len(), self.bound)));
        }
        let length = self.context.encode(pixels, spare, room, self.effort)?;
        Ok(self.seal(length, room))
    }
}

impl EncoderContext {
    fn new(compressor: Compressor, element_bytes: usize, raw_bytes: usize) -> Result<Self> {
        Ok(match compressor {
            Compressor::Auto => Self::new(Compressor::default(), element_bytes, raw_bytes)?,
            Compressor::None => Self::Copy,
            // The fastest setting: nobody who wants another byte saved would choose it.
            Compressor::BloscNoise { block_bytes }
            | Compressor::Blosc { cname: BloscCname::Lz4, level: 1, shuffle: Shuffle::Bit, block_bytes } => {
                Self::BloscNoise(Box::new(blosc::NoiseEncoder::new(block_bytes, element_bytes, raw_bytes)?))
            }
            Compressor::Blosc { cname, level, shuffle, block_bytes } => {
                let settings = blosc::Settings { cname, level, shuffle, block_bytes };
                if blosc::PlanesEncoder::takes(&settings, element_bytes) {
                    Self::BloscPlanes(Box::new(blosc::PlanesEncoder::new(settings, element_bytes, raw_bytes)?))
                } else {
                    Self::Blosc(blosc::Encoder::new(settings, element_bytes, raw_bytes)?)
                }
            }
            Compressor::Zstd { level } if zstd_writer::BareEncoder::takes(level, element_bytes) => {
                Self::ZstdNoise(Box::new(zstd_writer::BareEncoder::new(level, raw_bytes)?))
            }
            Compressor::Zstd { level } => Self::Zstd(zstd::Compressor::new(level, raw_bytes)?),
            Compressor::Gzip { level } => Self::Gzip(gzip::compressor(level)?),
            Compressor::Zlib { level } => Self::Zlib(gzip::compressor(level)?),
            Compressor::Lz4 => Self::Lz4(lz4::NumcodecsEncoder::new(raw_bytes)),
        })
    }

    /// The most bytes that a tile can become; refuses levels and sizes that the compressor does not have.
    fn checked_bound(compressor: Compressor, element_bytes: usize, raw_bytes: usize) -> Result<usize> {
        let level_is = |level: i32, reason: String| Err(Error::config("codec.compressor.level", level, reason));
        Ok(match compressor {
            special @ (Compressor::Auto | Compressor::BloscNoise { .. }) => {
                Self::checked_bound(for_readers(special), element_bytes, raw_bytes)?
            }
            Compressor::None => raw_bytes,
            Compressor::Blosc { cname, level, shuffle, block_bytes } => {
                blosc::check(&blosc::Settings { cname, level, shuffle, block_bytes }, element_bytes, raw_bytes)?;
                blosc::bound(raw_bytes)
            }
            Compressor::Zstd { level } => {
                let levels = zstd::Compressor::levels();
                if !levels.contains(&level) {
                    let (least, most) = levels.into_inner();
                    return level_is(level, format!("Zstandard has levels {least} (fastest) to {most} (smallest)"));
                }
                zstd::Compressor::bound(raw_bytes)
            }
            Compressor::Gzip { level } | Compressor::Zlib { level } if level > 9 => {
                return level_is(level.into(), "gzip and zlib have levels 0 (store) to 9 (smallest)".to_owned());
            }
            Compressor::Gzip { level } => gzip::compressor(level)?.gzip_compress_bound(raw_bytes),
            Compressor::Zlib { level } => gzip::compressor(level)?.zlib_compress_bound(raw_bytes),
            Compressor::Lz4 => lz4::NumcodecsEncoder::checked_bound(raw_bytes)?,
        })
    }

    fn encode(
        &mut self,
        pixels: &(impl TileSource + ?Sized),
        spare: &mut [u8],
        room: &mut [u8],
        effort: Effort,
    ) -> Result<usize> {
        let tile = 0..pixels.bytes();
        match self {
            Self::BloscNoise(encoder) if effort == Effort::Stored => Ok(encoder.store(pixels, room)),
            Self::BloscPlanes(encoder) if effort == Effort::Stored => Ok(encoder.store(pixels, room)),
            Self::Copy => {
                let raw = pixels.gathered(tile, spare);
                room[..raw.len()].copy_from_slice(raw);
                Ok(raw.len())
            }
            Self::Blosc(encoder) => encoder.encode(pixels.gathered(tile, spare), room),
            Self::BloscNoise(encoder) => encoder.encode(pixels, spare, room),
            Self::BloscPlanes(encoder) => encoder.encode(pixels.gathered(tile, spare), room, effort == Effort::Normal),
            Self::Zstd(compressor) => compressor.compress(pixels.gathered(tile, spare), room),
            Self::ZstdNoise(encoder) => encoder.encode(pixels.gathered(tile, spare), room),
            Self::Gzip(compressor) => gzip::encode(compressor, pixels.gathered(tile, spare), room),
            Self::Zlib(compressor) => gzip::encode_zlib(compressor, pixels.gathered(tile, spare), room),
            Self::Lz4(encoder) => encoder.encode(pixels.gathered(tile, spare), room),
        }
    }
}

/// Decodes chunks of one size.
///
/// It reads what any writer wrote with the same codecs, not only what [`Encoder`] did. A damaged or hostile chunk gives
/// an error: nothing outside the given slices is touched, and memory is taken for at most a few tiles.
pub struct Decoder {
    context: DecoderContext,
    checksum: bool,
    raw_bytes: usize,
}

enum DecoderContext {
    Copy,
    Blosc,
    Zstd(zstd::Decompressor),
    Gzip(gzip::Decompressor),
    Zlib(gzip::Decompressor),
    Lz4,
}

impl Decoder {
    /// A decoder for chunks that decode to `raw_bytes` bytes.
    ///
    /// # Errors
    /// [`Error::Codec`] when there is no memory for the decompressor.
    pub fn new(codec: &Codec, element_bytes: usize, raw_bytes: usize) -> Result<Self> {
        // Blosc frames name the element size that they were shuffled with, which need not be the array's.
        let _ = element_bytes;
        let context = match codec.compressor {
            Compressor::None => DecoderContext::Copy,
            Compressor::Auto | Compressor::Blosc { .. } | Compressor::BloscNoise { .. } => DecoderContext::Blosc,
            Compressor::Zstd { .. } => DecoderContext::Zstd(zstd::Decompressor::new()?),
            Compressor::Gzip { .. } => DecoderContext::Gzip(gzip::Decompressor::new()?),
            Compressor::Zlib { .. } => DecoderContext::Zlib(gzip::Decompressor::new()?),
            Compressor::Lz4 => DecoderContext::Lz4,
        };
        Ok(Self { context, checksum: codec.checksum, raw_bytes })
    }

    /// Decodes `encoded` into `raw`, which must be exactly the decoded size. Nothing in `encoded` is trusted.
    ///
    /// # Errors
    /// [`Error::Codec`] when the checksum does not match, or `encoded` does not decode to exactly this many bytes. What
    /// `raw` holds is then undefined.
    pub fn decode(&mut self, encoded: &[u8], raw: &mut [u8]) -> Result<()> {
        expect_length("tile", raw.len(), self.raw_bytes)?;
        let data = if self.checksum { check_checksum(encoded)?.0 } else { encoded };
        match &mut self.context {
            DecoderContext::Copy => {
                expect_length("bytes", data.len(), raw.len())?;
                raw.copy_from_slice(data);
                Ok(())
            }
            DecoderContext::Blosc => blosc::decode(data, raw),
            DecoderContext::Zstd(decompressor) => decompressor.decompress(data, raw),
            DecoderContext::Gzip(decompressor) => gzip::decode(decompressor, data, raw),
            DecoderContext::Zlib(decompressor) => gzip::decode_zlib(decompressor, data, raw),
            DecoderContext::Lz4 => lz4::decode_numcodecs(data, raw),
        }
    }
}

/// The bytes before the checksum, if it is theirs, and the checksum.
pub(crate) fn check_checksum(encoded: &[u8]) -> Result<(&[u8], u32)> {
    let Some((data, stored)) = encoded.split_last_chunk::<CHECKSUM_BYTES>() else {
        return Err(Error::codec("crc32c", format!("{} bytes are too few for a checksum", encoded.len())));
    };
    let (stored, computed) = (u32::from_le_bytes(*stored), crc32c::crc32c(data));
    if stored == computed {
        return Ok((data, computed));
    }
    Err(Error::codec("crc32c", format!("stored {stored:#010x}, computed {computed:#010x}: the bytes were changed")))
}
