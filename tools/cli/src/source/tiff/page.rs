//! What a page's directory says of its pixels: their shape, their encoding, and where they are.
//!
//! Sources: TIFF 6.0, sections 3 to 10, 14, 15 and 22; Adobe Photoshop TIFF technical notes 2 and 3.

use std::fmt;
use std::sync::Arc;

use shardwright::Dtype;

use super::super::why::Why;
use super::ifd::{ByteOrder, Ifd, TiffBytes};

pub(crate) mod tag {
    pub(crate) const NEW_SUBFILE_TYPE: u16 = 254;
    pub(crate) const WIDTH: u16 = 256;
    pub(crate) const HEIGHT: u16 = 257;
    pub(crate) const BITS_PER_SAMPLE: u16 = 258;
    pub(crate) const COMPRESSION: u16 = 259;
    pub(crate) const PHOTOMETRIC: u16 = 262;
    pub(crate) const FILL_ORDER: u16 = 266;
    pub(crate) const DESCRIPTION: u16 = 270;
    pub(crate) const STRIP_OFFSETS: u16 = 273;
    pub(crate) const ORIENTATION: u16 = 274;
    pub(crate) const SAMPLES_PER_PIXEL: u16 = 277;
    pub(crate) const ROWS_PER_STRIP: u16 = 278;
    pub(crate) const STRIP_BYTES: u16 = 279;
    pub(crate) const X_RESOLUTION: u16 = 282;
    pub(crate) const Y_RESOLUTION: u16 = 283;
    pub(crate) const PLANAR: u16 = 284;
    pub(crate) const SOFTWARE: u16 = 305;
    pub(crate) const PREDICTOR: u16 = 317;
    pub(crate) const TILE_WIDTH: u16 = 322;
    pub(crate) const TILE_HEIGHT: u16 = 323;
    pub(crate) const TILE_OFFSETS: u16 = 324;
    pub(crate) const TILE_BYTES: u16 = 325;
    pub(crate) const SUB_IFDS: u16 = 330;
    pub(crate) const SAMPLE_FORMAT: u16 = 339;
    pub(crate) const JPEG_TABLES: u16 = 347;
    pub(crate) const YCBCR_SUBSAMPLING: u16 = 530;
    /// UIC2Tag of MetaMorph's STK files; its count is the number of planes.
    pub(crate) const UIC2: u16 = 33629;
    /// What Micro-Manager says of a page, as JSON.
    pub(crate) const MICRO_MANAGER: u16 = 51123;
    /// CZ_LSMINFO of Zeiss' LSM files.
    pub(crate) const LSM_INFO: u16 = 34412;
    // ImageJ's own.
    pub(crate) const IMAGEJ_LENGTHS: u16 = 50838;
    pub(crate) const IMAGEJ_DATA: u16 = 50839;
    // Of Silicon Graphics.
    pub(crate) const IMAGE_DEPTH: u16 = 32997;
    pub(crate) const TILE_DEPTH: u16 = 32998;
}

pub(crate) const WHITE_IS_ZERO: u64 = 0;
pub(crate) const RGB: u64 = 2;
pub(crate) const PALETTE: u64 = 3;
pub(crate) const CMYK: u64 = 5;
pub(crate) const YCBCR: u64 = 6;

/// Pixels along one side of a page: no product of sizes overflows below it.
const SIDE_MAX: u64 = 1 << 28;

/// What all frames of a recording must agree in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) width: u64,
    pub(crate) height: u64,
    /// Values a pixel, such as red, green and blue.
    pub(crate) samples: u64,
    pub(crate) dtype: Dtype,
}

impl Shape {
    /// Bytes of one sample of all pixels.
    pub(crate) fn frame_bytes(self) -> u64 {
        self.width * self.height * self.dtype.size() as u64
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {} {}", self.width, self.height, self.dtype)?;
        if self.samples > 1 { write!(f, " of {} samples", self.samples) } else { Ok(()) }
    }
}

/// How the bytes of a strip or tile are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TiffCompression {
    None,
    Lzw,
    Jpeg,
    Deflate,
    PackBits,
    Zstd,
}

impl TiffCompression {
    fn of(code: u64) -> Result<Self, Why> {
        let name = match code {
            1 => return Ok(Self::None),
            5 => return Ok(Self::Lzw),
            7 => return Ok(Self::Jpeg),
            8 | 32946 => return Ok(Self::Deflate),
            32773 => return Ok(Self::PackBits),
            50000 => return Ok(Self::Zstd),
            2..=4 => "CCITT fax",
            6 => "JPEG of before 1995",
            33003..=33005 | 34712 => "JPEG 2000",
            34887 => "LERC",
            34892 => "lossy JPEG of DNG",
            34925 => "LZMA",
            22610 | 34934 => "JPEG XR",
            34926 => "Zstandard, by a number given up",
            34927 | 50001 => "WebP",
            50002 | 52546 => "JPEG XL",
            _ => "unknown",
        };
        Why::unread(format!(
            "its compression {code} ({name}) is not read here; none, LZW, Deflate, PackBits, Zstandard and JPEG are"
        ))
    }
}

/// What is done to values before they are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Predictor {
    None,
    /// Differences between neighbours in a row.
    Horizontal,
    /// Bytes of one significance together, then differences between them.
    FloatingPoint,
}

/// How the pixels of a page are encoded. Pages of a stack mostly share one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PixelEncoding {
    pub(crate) shape: Shape,
    /// Bits of a sample as they are stored.
    pub(crate) bits: u64,
    pub(crate) compression: TiffCompression,
    pub(crate) predictor: Predictor,
    pub(crate) photometric: u64,
    /// The samples of a pixel are not together: the page holds an image of each sample, one after the other.
    pub(crate) is_planar: bool,
    /// The first pixel of a byte is in its lowest bit.
    pub(crate) is_reversed: bool,
    pub(crate) is_tiled: bool,
    pub(crate) order: ByteOrder,
    /// Columns and rows of a piece; a strip is as wide as the page.
    pub(crate) piece_width: u64,
    pub(crate) piece_height: u64,
    pub(crate) jpeg_tables: Option<Vec<u8>>,
}

/// A strip or tile: where its bytes are and how many.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct StripOrTile {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// Where a page's bytes are.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PageData {
    /// All together, uncompressed and in the pixels' order, from here on.
    Together(u64),
    Pieces(Arc<[StripOrTile]>),
}

/// A page that can be read.
#[derive(Debug, Clone)]
pub(crate) struct Page {
    pub(crate) form: Arc<PixelEncoding>,
    pub(crate) place: PageData,
}

impl Page {
    /// Understands a directory. `Err` says why the page can't be read. `before`: the form of the page before.
    pub(crate) fn read(bytes: &mut TiffBytes, ifd: &Ifd, order: ByteOrder, before: Option<&Page>) -> Result<Self, Why> {
        let form = PixelEncoding::read(bytes, ifd, order)?;
        let pieces = pieces(bytes, ifd, &form)?;
        let place = match form.together(&pieces) {
            Some(offset) => PageData::Together(offset),
            None => PageData::Pieces(pieces.into()),
        };
        let shared = before.filter(|before| *before.form == form).map(|before| before.form.clone());
        Ok(Self { form: shared.unwrap_or_else(|| Arc::new(form)), place })
    }

    /// The image of one sample of a planar page, as a page of its own.
    pub(crate) fn sample(&self, sample: u64) -> Self {
        let shape = self.form.shape;
        let form = PixelEncoding { shape: Shape { samples: 1, ..shape }, is_planar: false, ..(*self.form).clone() };
        let place = match &self.place {
            PageData::Together(offset) => PageData::Together(offset + sample * shape.frame_bytes()),
            PageData::Pieces(pieces) => {
                let each = pieces.len() / shape.samples as usize;
                PageData::Pieces(pieces[sample as usize * each..][..each].into())
            }
        };
        Self { form: Arc::new(form), place }
    }

    /// Bytes of a page whose pixels are together.
    fn bytes(&self) -> u64 {
        self.form.shape.frame_bytes() * self.form.shape.samples
    }

    /// How many pages like this one lie in a file of `len` bytes from this one on, one after the other; 1 if it is not
    /// of that kind.
    pub(crate) fn planes_behind(&self, len: u64) -> u64 {
        match &self.place {
            PageData::Together(offset) => len.saturating_sub(*offset) / self.bytes(),
            PageData::Pieces(_) => 1,
        }
    }

    /// Page `number` of these.
    pub(crate) fn behind(&self, number: u64) -> Self {
        let place = match &self.place {
            PageData::Together(offset) => PageData::Together(offset + number * self.bytes()),
            pieces => pieces.clone(),
        };
        Self { place, ..self.clone() }
    }
}

impl PixelEncoding {
    fn read(bytes: &mut TiffBytes, ifd: &Ifd, order: ByteOrder) -> Result<Self, Why> {
        let required = |value: Option<u64>, what| match value {
            Some(value @ 1..) => Ok(value),
            Some(0) => Err(format!("its {what} is 0")),
            None => Err(format!("it has no {what}")),
        };
        let width = required(ifd.number(bytes, tag::WIDTH)?, "width")?;
        let height = required(ifd.number(bytes, tag::HEIGHT)?, "height")?;
        let samples = ifd.number(bytes, tag::SAMPLES_PER_PIXEL)?.unwrap_or(1).max(1);
        if width > SIDE_MAX || height > SIDE_MAX || samples > 1 << 16 || width * height * samples > 1 << 50 {
            return Err(format!("it claims {width} x {height} pixels of {samples} samples").into());
        }
        for (tag, what) in [(tag::IMAGE_DEPTH, "a volume"), (tag::TILE_DEPTH, "tiles")] {
            if let Some(depth @ 2..) = ifd.number(bytes, tag)? {
                return Why::unread(format!(
                    "it holds {what} of {depth} planes, which is not read here; write each plane as a page of its own"
                ));
            }
        }
        let bits = one_value(&ifd.numbers(bytes, tag::BITS_PER_SAMPLE, samples)?, 1, "bits a sample")?;
        let format = one_value(&ifd.numbers(bytes, tag::SAMPLE_FORMAT, samples)?, 1, "sample formats")?;
        let dtype = dtype(format, bits)?;
        let is_tiled = ifd.has(tag::TILE_WIDTH);
        let (piece_width, piece_height) = if is_tiled {
            let tile_width = required(ifd.number(bytes, tag::TILE_WIDTH)?, "tile width")?;
            let tile_height = required(ifd.number(bytes, tag::TILE_HEIGHT)?, "tile height")?;
            (tile_width.min(SIDE_MAX), tile_height.min(SIDE_MAX))
        } else {
            (width, ifd.number(bytes, tag::ROWS_PER_STRIP)?.unwrap_or(height).clamp(1, height))
        };
        let form = Self {
            shape: Shape { width, height, samples, dtype },
            bits,
            compression: TiffCompression::of(ifd.number(bytes, tag::COMPRESSION)?.unwrap_or(1))?,
            predictor: match ifd.number(bytes, tag::PREDICTOR)?.unwrap_or(1) {
                1 => Predictor::None,
                2 => Predictor::Horizontal,
                3 => Predictor::FloatingPoint,
                other => return Why::unread(format!("its predictor {other} is not read here; 1, 2 and 3 are")),
            },
            photometric: ifd.number(bytes, tag::PHOTOMETRIC)?.unwrap_or(1),
            is_planar: samples > 1 && ifd.number(bytes, tag::PLANAR)? == Some(2),
            is_reversed: ifd.number(bytes, tag::FILL_ORDER)? == Some(2),
            is_tiled,
            order,
            piece_width,
            piece_height,
            jpeg_tables: ifd.bytes(bytes, tag::JPEG_TABLES)?,
        };
        form.check(bytes, ifd)?;
        Ok(form)
    }

    /// Refuses combinations that nobody writes or that mean a loss.
    fn check(&self, bytes: &mut TiffBytes, ifd: &Ifd) -> Result<(), Why> {
        let is_packed = !matches!(self.bits, 8 | 16 | 32 | 64);
        let is_float = matches!(self.shape.dtype, Dtype::F32 | Dtype::F64);
        if self.predictor != Predictor::None && (is_packed || self.compression == TiffCompression::Jpeg) {
            return Why::unread(format!("a predictor of samples of {} bits is not read here", self.bits));
        }
        if self.predictor == Predictor::FloatingPoint && !is_float {
            return Err("the predictor of floating-point numbers stands before whole numbers".into());
        }
        if self.compression == TiffCompression::Jpeg && self.bits != 8 {
            return Why::unread(format!("JPEG of {} bits a sample is not read here; 8 bits are", self.bits));
        }
        if self.photometric == YCBCR && self.compression != TiffCompression::Jpeg {
            let subsampling = ifd.numbers(bytes, tag::YCBCR_SUBSAMPLING, 2)?;
            if subsampling != [1, 1] {
                return Why::unread("YCbCr pixels that are not JPEG are not read here where colours have fewer pixels");
            }
        }
        if self.is_tiled && self.piece_bytes(self.piece_height).is_none_or(|bytes| bytes > self.tile_bytes_max()) {
            return Err(format!("it claims tiles of {} x {} pixels", self.piece_width, self.piece_height).into());
        }
        Ok(())
    }

    /// A tile of a large page is small, and a small page has no large tiles: one takes memory to be decoded, however
    /// few bytes it has in the file.
    fn tile_bytes_max(&self) -> u64 {
        let page_bytes = self.shape.width * self.shape.height * self.samples_together() * self.bits / 8;
        // Twice its sides, as where sides are powers of two.
        (4 * page_bytes).clamp(64 << 20, 1 << 30)
    }

    /// Samples of a pixel that stand together in a piece.
    pub(crate) fn samples_together(&self) -> u64 {
        if self.is_planar { 1 } else { self.shape.samples }
    }

    /// Bytes of a stored row of a piece; rows begin at a byte.
    pub(crate) fn row_bytes(&self) -> u64 {
        (self.piece_width * self.samples_together() * self.bits).div_ceil(8)
    }

    /// Bytes of a piece with this many rows before compression.
    pub(crate) fn piece_bytes(&self, rows: u64) -> Option<u64> {
        self.row_bytes().checked_mul(rows)
    }

    /// Pieces side by side, and one above the other.
    pub(crate) fn pieces(&self) -> [u64; 2] {
        [self.shape.width.div_ceil(self.piece_width), self.shape.height.div_ceil(self.piece_height)]
    }

    /// Rows that a piece in this row of pieces has in the file.
    pub(crate) fn stored_rows(&self, row: u64) -> u64 {
        if self.is_tiled { self.piece_height } else { self.shown_rows(row) }
    }

    /// Rows that a piece in this row of pieces has on the page.
    pub(crate) fn shown_rows(&self, row: u64) -> u64 {
        self.piece_height.min(self.shape.height - row * self.piece_height)
    }

    /// Whether the bytes of pixels are those of the array, but for their order in numbers.
    pub(crate) fn is_plain(&self) -> bool {
        self.bits == self.shape.dtype.size() as u64 * 8 && !self.is_reversed
    }

    /// Where the pixels begin, if they are all together and need nothing done but perhaps their bytes' order.
    fn together(&self, pieces: &[StripOrTile]) -> Option<u64> {
        let is_fit = self.compression == TiffCompression::None && self.predictor == Predictor::None && self.is_plain();
        let is_row_wise = self.piece_width == self.shape.width;
        if !is_fit || !is_row_wise {
            return None;
        }
        let rows = self.pieces()[1];
        let mut next = pieces.first()?.offset;
        for (piece, index) in pieces.iter().zip(0..) {
            let is_last = index + 1 == pieces.len() as u64;
            let rows_needed = if is_last { self.shown_rows(index % rows) } else { self.stored_rows(index % rows) };
            let needed = self.piece_bytes(rows_needed)?;
            // A tile that reaches beyond the page leaves a gap before the next sample's.
            let is_whole = is_last || self.stored_rows(index % rows) == self.shown_rows(index % rows);
            if piece.offset != next || piece.bytes < needed || !is_whole || piece.offset == 0 {
                return None;
            }
            next = piece.offset.checked_add(needed)?;
        }
        Some(pieces[0].offset)
    }
}

/// The value that all samples share.
fn one_value(values: &[u64], usual: u64, what: &str) -> Result<u64, Why> {
    let first = values.first().copied().unwrap_or(usual);
    if values.iter().any(|&value| value != first) {
        return Why::unread(format!("its samples differ in {what}: {values:?}; all must be the same"));
    }
    Ok(first)
}

/// The type that holds samples of a format and a number of bits.
fn dtype(format: u64, bits: u64) -> Result<Dtype, Why> {
    Ok(match (format, bits) {
        // 4, "undefined", is what old writers put where they meant unsigned.
        (1 | 4, 1..=8) => Dtype::U8,
        (1 | 4, 9..=16) => Dtype::U16,
        (1 | 4, 17..=32) => Dtype::U32,
        (1 | 4, 64) => Dtype::U64,
        (2, 8) => Dtype::I8,
        (2, 16) => Dtype::I16,
        (2, 32) => Dtype::I32,
        (2, 64) => Dtype::I64,
        // Of these there is no array; every one of their values is also one of f32.
        (3, 16 | 32) => Dtype::F32,
        (3, 64) => Dtype::F64,
        _ => {
            let name = match format {
                1 => "unsigned",
                2 => "signed",
                3 => "floating-point",
                5 | 6 => "complex",
                _ => "unknown",
            };
            return Why::unread(format!(
                "{name} samples of {bits} bits can't be replayed; possible are unsigned ones of 1 to 32 and 64 bits, \
                 signed ones of 8, 16, 32 and 64, and floating-point ones of 16, 32 and 64"
            ));
        }
    })
}

/// The table of strips or tiles.
fn pieces(bytes: &mut TiffBytes, ifd: &Ifd, form: &PixelEncoding) -> Result<Vec<StripOrTile>, String> {
    let [across, down] = form.pieces();
    let planes = if form.is_planar { form.shape.samples } else { 1 };
    let count = across.checked_mul(down).and_then(|count| count.checked_mul(planes)).ok_or("its sizes overflow")?;
    let has_tile_offsets = form.is_tiled && ifd.has(tag::TILE_OFFSETS);
    let (offsets_tag, bytes_tag) =
        if has_tile_offsets { (tag::TILE_OFFSETS, tag::TILE_BYTES) } else { (tag::STRIP_OFFSETS, tag::STRIP_BYTES) };
    let offsets = ifd.numbers(bytes, offsets_tag, count)?;
    let lengths = ifd.numbers(bytes, bytes_tag, count)?;
    if (offsets.len() as u64) < count {
        let what = if form.is_tiled { "tiles" } else { "strips" };
        return Err(format!("it says of {} {what} where they are, but it has {count}", offsets.len()));
    }
    let lengths_known = lengths.len() as u64 == count;
    if !lengths_known && form.compression != TiffCompression::None {
        return Err(format!("it says of {} of {count} pieces how long they are", lengths.len()));
    }
    let piece = |(index, offset): (u64, u64)| {
        let computed = form.piece_bytes(form.stored_rows(index / across % down)).unwrap_or(u64::MAX);
        let length = lengths.get(index as usize).copied().filter(|_| lengths_known).unwrap_or(computed);
        // Some writers give 0 bytes of what they did not compress.
        let is_unsaid = length == 0 && offset != 0 && form.compression == TiffCompression::None;
        StripOrTile { offset, bytes: if is_unsaid { computed } else { length } }
    };
    Ok((0..).zip(offsets).map(piece).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By tifffile's table of compressions, which has the numbers that were given up, too.
    #[test]
    fn compressions_that_are_not_read_are_called_what_they_are() {
        for (code, name) in [(34926, "Zstandard, by a number given up"), (34927, "WebP"), (50001, "WebP")] {
            let refused = TiffCompression::of(code).unwrap_err().to_string();
            assert!(refused.contains(&format!("its compression {code} ({name}) is not read here")), "{refused}");
        }
    }
}
