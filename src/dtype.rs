//! The types of elements: of frames, and of arrays, whoever wrote them.
//!
//! A camera gives numbers of a type in [`Dtype`]: these are what the writer takes, what the C interface has constants
//! for, and what names in a configuration mean. Arrays of other programs may have further types of elements, which
//! [`ElementType`] adds; they are read, checked, exported and repacked, and never written by a run.

use std::borrow::Cow;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::words::quoted;

/// The type of one pixel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs)]
#[non_exhaustive]
pub enum Dtype {
    #[serde(rename = "uint8", alias = "u8")]
    U8,
    #[serde(rename = "int8", alias = "i8")]
    I8,
    #[serde(rename = "uint16", alias = "u16")]
    U16,
    #[serde(rename = "int16", alias = "i16")]
    I16,
    #[serde(rename = "uint32", alias = "u32")]
    U32,
    #[serde(rename = "int32", alias = "i32")]
    I32,
    #[serde(rename = "uint64", alias = "u64")]
    U64,
    #[serde(rename = "int64", alias = "i64")]
    I64,
    #[serde(rename = "float32", alias = "f32")]
    F32,
    #[serde(rename = "float64", alias = "f64")]
    F64,
}

/// short name, Zarr v3 name, bytes an element
const TABLE: [(Dtype, &str, &str, usize); 10] = [
    (Dtype::U8, "u8", "uint8", 1),
    (Dtype::I8, "i8", "int8", 1),
    (Dtype::U16, "u16", "uint16", 2),
    (Dtype::I16, "i16", "int16", 2),
    (Dtype::U32, "u32", "uint32", 4),
    (Dtype::I32, "i32", "int32", 4),
    (Dtype::U64, "u64", "uint64", 8),
    (Dtype::I64, "i64", "int64", 8),
    (Dtype::F32, "f32", "float32", 4),
    (Dtype::F64, "f64", "float64", 8),
];

impl Dtype {
    /// All element types.
    pub const ALL: &'static [Self] = &[
        Dtype::U8,
        Dtype::I8,
        Dtype::U16,
        Dtype::I16,
        Dtype::U32,
        Dtype::I32,
        Dtype::U64,
        Dtype::I64,
        Dtype::F32,
        Dtype::F64,
    ];

    fn row(self) -> &'static (Dtype, &'static str, &'static str, usize) {
        &TABLE[self as usize]
    }

    /// Bytes an element.
    pub fn size(self) -> usize {
        self.row().3
    }

    /// The name in a Zarr v3 document, for example `uint16`.
    pub fn zarr_name(self) -> &'static str {
        self.row().2
    }

    /// Whether this is a floating-point type.
    pub fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64)
    }

    fn is_signed(self) -> bool {
        matches!(self, Self::I8 | Self::I16 | Self::I32 | Self::I64 | Self::F32 | Self::F64)
    }

    /// The numbers that an integer type holds; `None` for a floating-point type.
    pub(crate) fn integers(self) -> Option<RangeInclusive<i128>> {
        let values = 1_i128 << (8 * self.size());
        match self.is_float() {
            true => None,
            false if self.is_signed() => Some(-values / 2..=values / 2 - 1),
            false => Some(0..=values - 1),
        }
    }

    /// A number as an element in the byte order of the machine, which has the first [`size`](Self::size) of the bytes;
    /// `None` if the type does not hold it. `whole`: the number, if it is a whole one.
    pub(crate) fn element(self, float: f64, whole: Option<i128>) -> Option<[u8; 8]> {
        let bits = match self.integers() {
            Some(integers) => whole.filter(|whole| integers.contains(whole))? as u64,
            None if self == Self::F64 => float.to_bits(),
            None if float.is_finite() && (float as f32).is_infinite() => return None,
            None => (float as f32).to_bits().into(),
        };
        let little_endian = bits.to_le_bytes();
        let mut element = [0; 8];
        element[..self.size()].copy_from_slice(&little_endian[..self.size()]);
        if cfg!(target_endian = "big") {
            element[..self.size()].reverse();
        }
        Some(element)
    }

    /// The number of an element in the byte order of the machine.
    pub(crate) fn value(self, element: &[u8]) -> f64 {
        let mut bytes = [0; 8];
        bytes[..element.len()].copy_from_slice(element);
        if cfg!(target_endian = "big") {
            bytes[..element.len()].reverse();
        }
        let (bits, unused) = (u64::from_le_bytes(bytes), 64 - 8 * self.size());
        match self {
            Self::F32 => f32::from_bits(bits as u32).into(),
            Self::F64 => f64::from_bits(bits),
            _ if self.is_signed() => ((bits << unused).cast_signed() >> unused) as f64,
            _ => bits as f64,
        }
    }

    /// What [`element`](Self::element) takes, for messages.
    pub(crate) fn holds(self) -> String {
        match self.integers() {
            Some(integers) => format!("whole numbers from {} to {}", integers.start(), integers.end()),
            None if self == Self::F32 => format!("infinities and numbers from {:e} to {:e}", f32::MIN, f32::MAX),
            None => format!("infinities and numbers from {:e} to {:e}", f64::MIN, f64::MAX),
        }
    }
}

/// By the name that Zarr and numpy have for it: to numpy, `u8` is an integer of 64 bits.
impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.zarr_name())
    }
}

impl FromStr for Dtype {
    type Err = Error;

    /// Takes the short names (`u16`) and the Zarr and numpy ones (`uint16`).
    fn from_str(text: &str) -> Result<Self> {
        let found = TABLE.iter().find(|row| row.1 == text || row.2 == text);
        found.map(|row| row.0).ok_or_else(|| {
            let names: Vec<_> = TABLE.iter().map(|(_, short, name, _)| format!("{name} ({short})")).collect();
            Error::config("dtype", quoted(text), format!("possible are {}", names.join(", ")))
        })
    }
}

/// The type of an element of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ElementType {
    /// A number as cameras give them.
    Number(Dtype),
    /// A boolean in one byte, 0 or 1: Zarr's `bool`.
    Bool,
    /// A floating-point number of 16 bits: Zarr's `float16`.
    F16,
    /// A complex number of two [`F32`](Dtype::F32), the real part first: Zarr's `complex64`.
    C64,
    /// A complex number of two [`F64`](Dtype::F64), the real part first: Zarr's `complex128`.
    C128,
    /// This many bytes of which nothing else is known: Zarr's `r8`, `r16`, `r24` and so on, by their bits.
    Raw(u16),
}

impl ElementType {
    /// All types but raw bytes, of which there are as many as there are lengths.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        Dtype::ALL.iter().map(|&dtype| Self::Number(dtype)).chain([Self::Bool, Self::F16, Self::C64, Self::C128])
    }

    /// Zarr v3 name, bytes an element, bytes of each number in it
    fn row(self) -> (Cow<'static, str>, usize, usize) {
        match self {
            Self::Number(dtype) => (dtype.zarr_name().into(), dtype.size(), dtype.size()),
            Self::Bool => ("bool".into(), 1, 1),
            Self::F16 => ("float16".into(), 2, 2),
            Self::C64 => ("complex64".into(), 8, 4),
            Self::C128 => ("complex128".into(), 16, 8),
            Self::Raw(bytes) => (format!("r{}", 8 * usize::from(bytes)).into(), bytes.into(), 1),
        }
    }

    /// Bytes an element.
    pub fn size(self) -> usize {
        self.row().1
    }

    /// Bytes of each number in an element, whose order a document declares: half of a complex number, one raw byte.
    pub fn number_bytes(self) -> usize {
        self.row().2
    }

    /// The name in a Zarr v3 document, for example `uint16` or `r24`.
    pub fn zarr_name(self) -> Cow<'static, str> {
        self.row().0
    }

    /// The type of a frame's pixels, if frames can have it.
    pub fn number(self) -> Option<Dtype> {
        match self {
            Self::Number(dtype) => Some(dtype),
            _ => None,
        }
    }

    /// The type with this name in a Zarr v3 document.
    pub(crate) fn of_zarr(name: &str) -> Option<Self> {
        if let Some(found) = Self::all().find(|element| element.zarr_name() == name) {
            return Some(found);
        }
        let digits = name.strip_prefix('r').filter(|digits| !digits.starts_with(['0', '+']))?;
        let bits = digits.parse::<u32>().ok().filter(|bits| bits.is_multiple_of(8))?;
        u16::try_from(bits / 8).ok().map(Self::Raw)
    }

    /// Bytes of an element to a compressor, which only knows elements of 1, 2, 4 and 8 bytes: the most that divide it.
    pub(crate) fn codec_bytes(self) -> usize {
        1 << self.size().trailing_zeros().min(3)
    }
}

impl From<Dtype> for ElementType {
    fn from(dtype: Dtype) -> Self {
        Self::Number(dtype)
    }
}

impl PartialEq<Dtype> for ElementType {
    fn eq(&self, dtype: &Dtype) -> bool {
        *self == Self::Number(*dtype)
    }
}

/// As a [`Dtype`] is shown.
impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.zarr_name())
    }
}

impl Serialize for ElementType {
    /// The name in a Zarr v3 document.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A Rust type that is an array's type of elements.
///
/// No other crate can add to these: their bytes are taken as they lie in memory.
#[allow(unsafe_code)]
pub trait Element: sealed::Sealed + Copy {
    /// The type in the array.
    const DTYPE: Dtype;

    /// Bytes as elements; those at the end that make no whole one are left out.
    #[doc(hidden)]
    fn of_bytes(bytes: &mut [u8]) -> &mut [Self] {
        // SAFETY: any bytes are a value of a number's type. A buffer of the ring starts on a page; elsewhere, what does
        // not lie on an element's border is left out by this call.
        unsafe { bytes.align_to_mut::<Self>() }.1
    }
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! elements {
    ($($type:ty => $dtype:ident),+ $(,)?) => {
        $(
            impl sealed::Sealed for $type {}
            impl Element for $type {
                const DTYPE: Dtype = Dtype::$dtype;
            }
        )+
    };
}

elements! {
    u8 => U8, i8 => I8, u16 => U16, i16 => I16, u32 => U32, i32 => I32, u64 => U64, i64 => I64, f32 => F32, f64 => F64
}

/// Makes Rust's numbers values of a type, each as the variant for its kind.
macro_rules! of_numbers {
    ($type:ident, { $($variant:ident: $($number:ty)+);+ }) => {
        $($(
            impl From<$number> for $type {
                fn from(number: $number) -> Self {
                    Self::$variant(number.into())
                }
            }
        )+)+
    };
}

pub(crate) use of_numbers;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_rows_stand_in_the_order_of_the_enum() {
        for &dtype in Dtype::ALL {
            assert_eq!(dtype.row().0, dtype);
            assert_eq!(dtype.to_string().parse::<Dtype>().unwrap(), dtype);
            assert_eq!(dtype.zarr_name().parse::<Dtype>().unwrap(), dtype);
        }
    }

    #[test]
    fn elements_are_named_as_in_zarr() {
        for element in ElementType::all().chain([1, 2, 3, 25, 8191].map(ElementType::Raw)) {
            assert_eq!(ElementType::of_zarr(&element.zarr_name()), Some(element));
            assert_eq!(element.size() % element.codec_bytes(), 0);
        }
        assert_eq!(ElementType::of_zarr("r24"), Some(ElementType::Raw(3)));
        assert_eq!(ElementType::Raw(3).to_string(), "r24");
        assert_eq!([ElementType::C128, ElementType::Raw(3)].map(ElementType::codec_bytes), [8, 1]);
        for name in ["r", "r0", "r7", "r08", "r+8", "r-8", "r524288", "r99999999999", "string", "u16", "bool8"] {
            assert_eq!(ElementType::of_zarr(name), None, "{name}");
        }
    }
}
