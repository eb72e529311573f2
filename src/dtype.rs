//! The element types of a frame.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The type of one pixel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
#[non_exhaustive]
pub enum Dtype {
    #[serde(alias = "uint8")]
    U8,
    #[serde(alias = "int8")]
    I8,
    #[serde(alias = "uint16")]
    U16,
    #[serde(alias = "int16")]
    I16,
    #[serde(alias = "uint32")]
    U32,
    #[serde(alias = "int32")]
    I32,
    #[serde(alias = "uint64")]
    U64,
    #[serde(alias = "int64")]
    I64,
    #[serde(alias = "float32")]
    F32,
    #[serde(alias = "float64")]
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
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().1)
    }
}

impl FromStr for Dtype {
    type Err = Error;

    /// Takes the short names (`u16`) and the Zarr and numpy ones (`uint16`).
    fn from_str(text: &str) -> Result<Self> {
        let found = TABLE.iter().find(|row| row.1 == text || row.2 == text);
        found.map(|row| row.0).ok_or_else(|| {
            let names: Vec<_> = TABLE.iter().map(|row| row.1).collect();
            Error::config("dtype", format_args!("{text:?}"), format!("possible are {}", names.join(", ")))
        })
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

elements! { u8 => U8, i8 => I8, u16 => U16, i16 => I16, u32 => U32, i32 => I32, u64 => U64, i64 => I64, f32 => F32, f64 => F64 }

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
}
