//! How a camera's frame becomes the array's, where it does not lie in its buffer as it shall be.

use crate::config::{Config, PixelFormat};
use crate::dtype::Dtype;
use crate::error::{Error, Result};
use crate::pixels::{Interleaved, Orientation, Packing, Unpacker};

/// The bits of more packed pixels could not be counted.
const PIXELS_MAX: usize = usize::MAX >> 5;

/// What is done to a frame's pixels while tiles are gathered.
#[derive(Debug)]
pub(crate) struct CameraFrame {
    pub(crate) format: PixelFormat,
    /// `None`: pixels lie as in the array.
    pub(crate) unpacker: Option<Unpacker>,
    /// `None`: a pixel has one sample.
    pub(crate) interleaved: Option<Interleaved>,
    pub(crate) orientation: Orientation,
    /// The camera's, before it is turned.
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    /// Each row begins with a byte of its own; else pixels follow each other throughout.
    pub(crate) rows_apart: bool,
    /// Pixels have fewer bits than in the array.
    pub(crate) is_packed: bool,
}

impl CameraFrame {
    /// Of an array with frames of `rows` and `columns`; `None` where frames lie in their buffers as in the array.
    pub(super) fn new(config: &Config, rows: usize, columns: usize) -> Result<Option<Self>> {
        let (format, unused_low_bits) = (config.pixel_format, config.unused_low_bits);
        if unused_low_bits > 15 {
            return Err(Error::config("unused_low_bits", unused_low_bits, "of 16 bits, at most 15 can be unused"));
        }
        let packing = format.packing(unused_low_bits);
        if unused_low_bits > 0 && !matches!(packing, Some(Packing::Mono16 { .. })) {
            let reason = format!("{format} pixels have no unused bits; plain and big-endian ones may have some");
            return Err(Error::config("unused_low_bits", unused_low_bits, reason));
        }
        // Bytes of signed numbers change places as those of others do; their highest bits are no zeros.
        let is_fit = config.dtype == Dtype::U16 || (config.dtype == Dtype::I16 && format == PixelFormat::BigEndian);
        if packing.is_some() && !(is_fit && (unused_low_bits == 0 || config.dtype == Dtype::U16)) {
            let dtype = config.dtype;
            return Err(match unused_low_bits {
                0 => {
                    let reason = format!("pixels of this format become uint16, but dtype is {dtype}");
                    Error::config("pixel_format", format, reason)
                }
                bits => Error::config("unused_low_bits", bits, format!("uint16 may have some, but dtype is {dtype}")),
            });
        }
        let (orientation, interleaved) = (config.orientation, format.interleaved());
        if packing.is_none() && interleaved.is_none() && orientation == Orientation::default() {
            return Ok(None);
        }
        let (rows, columns) = if orientation.transpose { (columns, rows) } else { (rows, columns) };
        let unpacker = packing.map(Unpacker::new);
        // The bytes of all rows can't tell: two rows of 22.75 are 45.5, rounded up as many as twice 23.
        let fills_bytes = |unpacker: &Unpacker| {
            let rest = columns % 8;
            rows == 1 || unpacker.packed_bytes(8 * rest) == 8 * unpacker.packed_bytes(rest)
        };
        let rows_apart = config.frame_layout.is_some() || unpacker.as_ref().is_none_or(fills_bytes);
        let is_packed = packing.is_some_and(|packing| !matches!(packing, Packing::Mono16 { .. }));
        Ok(Some(Self { format, unpacker, interleaved, orientation, rows, columns, rows_apart, is_packed }))
    }

    /// Rows of a frame as it is given, and the bytes of one; a row is the whole frame, where a row need not begin with
    /// a byte of its own.
    pub(super) fn given(&self, element: usize) -> Option<(usize, usize)> {
        let Some(unpacker) = &self.unpacker else {
            let samples = self.columns.checked_mul(self.format.samples())?;
            return Some((self.rows, samples.checked_mul(element)?));
        };
        let pixels = self.rows.checked_mul(self.columns).filter(|&pixels| pixels < PIXELS_MAX)?;
        Some(match self.rows_apart {
            true => (self.rows, unpacker.packed_bytes(self.columns)),
            false => (1, unpacker.packed_bytes(pixels)),
        })
    }
}
