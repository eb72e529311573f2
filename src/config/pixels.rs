//! How a camera's pixels lie in frame buffers.

use crate::named::named;
use crate::pixels::{Interleaved, Packing, Unpacker};

/// How a camera's pixels lie in frame buffers. The packed ones are called as in GenICam's Pixel Format Naming
/// Convention; Bayer patterns are packed in the same ways (`BayerRG12p` as `Mono12p`), and become what the sensor saw,
/// one number a pixel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum PixelFormat {
    /// As in the array: numbers of the machine's byte order.
    #[default]
    Plain,
    /// 16-bit numbers whose high byte comes first.
    BigEndian,
    /// 10 bits a pixel, lowest bit first: four pixels in five bytes.
    Mono10p,
    /// 12 bits a pixel, lowest bit first: two pixels in three bytes.
    Mono12p,
    /// 14 bits a pixel, lowest bit first: four pixels in seven bytes.
    Mono14p,
    /// Two 10-bit pixels in three bytes, their lowest bits in the second one (GigE Vision).
    Mono10Packed,
    /// Two 12-bit pixels in three bytes, their lowest bits in the second one (GigE Vision).
    Mono12Packed,
    /// Three samples a pixel, which follow each other, each as in the array: RGB, BGR. A buffer holds a picture, which
    /// is a frame of each channel, under numbers that follow each other.
    Rgb,
    /// Four samples a pixel, as of `Rgb`: RGBA, BGRA.
    Rgba,
}

named!(PixelFormat, "pixel_format", {
    Plain => "plain",
    BigEndian => "big-endian",
    Mono10p => "mono10p",
    Mono12p => "mono12p",
    Mono14p => "mono14p",
    Mono10Packed => "mono10packed",
    Mono12Packed => "mono12packed",
    Rgb => "rgb",
    Rgba => "rgba",
});

impl PixelFormat {
    /// Samples of a pixel that follow each other, each of which stands in a frame of its own.
    pub fn samples(self) -> usize {
        self.interleaved().map_or(1, Interleaved::samples)
    }

    pub(crate) fn interleaved(self) -> Option<Interleaved> {
        match self {
            Self::Rgb => Some(Interleaved::Three),
            Self::Rgba => Some(Interleaved::Four),
            _ => None,
        }
    }

    /// The bytes of `pixels` pixels that follow each other; `None` for those that have the bytes of the array's type.
    pub fn bytes(self, pixels: usize) -> Option<usize> {
        self.packing(0).map(|packing| Unpacker::new(packing).packed_bytes(pixels))
    }

    /// How pixels are made plain 16-bit numbers; `None`: they are what they are.
    pub(crate) fn packing(self, unused_low_bits: u32) -> Option<Packing> {
        Some(match self {
            Self::Plain if unused_low_bits == 0 => return None,
            Self::Rgb | Self::Rgba => return None,
            Self::Plain => Packing::Mono16 { big_endian: cfg!(target_endian = "big"), unused_low_bits },
            Self::BigEndian => Packing::Mono16 { big_endian: true, unused_low_bits },
            Self::Mono10p => Packing::Mono10p,
            Self::Mono12p => Packing::Mono12p,
            Self::Mono14p => Packing::Mono14p,
            Self::Mono10Packed => Packing::Mono10Packed,
            Self::Mono12Packed => Packing::Mono12Packed,
        })
    }
}
