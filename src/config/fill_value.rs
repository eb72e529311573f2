//! The value of pixels that were never acquired.

use std::fmt;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::dtype::{Dtype, of_numbers};
use crate::words::quoted;

/// A number that pixels can have, which is made of any of Rust's: `fill_value: u64::MAX.into()`.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum FillValue {
    /// This very integer.
    Integer(i128),
    /// A floating-point number. A type of integers takes it if it is a whole one, [`Dtype::F32`] the nearest that it
    /// has.
    Float(f64),
}

/// The names that Zarr has for numbers which JSON has not.
const NAMES: [(&str, f64); 3] = [("NaN", f64::NAN), ("Infinity", f64::INFINITY), ("-Infinity", f64::NEG_INFINITY)];
/// From here on, digits no longer show what a floating-point number is.
const DIGITS_BELOW: f64 = 1e20;

impl FillValue {
    /// The number of an element, lowest byte first.
    pub(crate) fn of_element(dtype: Dtype, element: &[u8]) -> Self {
        let mut bytes = [0; 8];
        bytes[..dtype.size()].copy_from_slice(element);
        let (bits, unused) = (u64::from_le_bytes(bytes), 64 - 8 * dtype.size());
        let is_signed = dtype.integers().is_some_and(|integers| *integers.start() < 0);
        match dtype {
            Dtype::F32 => f32::from_bits(bits as u32).into(),
            Dtype::F64 => f64::from_bits(bits).into(),
            _ if is_signed => ((bits << unused).cast_signed() >> unused).into(),
            _ => bits.into(),
        }
    }
}

impl Default for FillValue {
    fn default() -> Self {
        Self::Float(0.0)
    }
}

of_numbers!(FillValue, { Integer: u8 i8 u16 i16 u32 i32 u64 i64; Float: f32 f64 });

impl fmt::Display for FillValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(number) => number.fmt(f),
            Self::Float(number) if number.fract() == 0.0 && number.abs() < DIGITS_BELOW => write!(f, "{number:.0}"),
            Self::Float(number) => write!(f, "{number:?}"),
        }
    }
}

impl Serialize for FillValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Integer(number) => match (u64::try_from(number), i64::try_from(number)) {
                (Ok(number), _) => serializer.serialize_u64(number),
                (_, Ok(number)) => serializer.serialize_i64(number),
                // Documents have no longer ones, and no type but the floats holds it.
                _ => serializer.serialize_f64(number as f64),
            },
            Self::Float(number) => {
                let is = |named: &f64| *named == number || (named.is_nan() && number.is_nan());
                match NAMES.iter().find(|(_, named)| is(named)) {
                    Some((name, _)) => serializer.serialize_str(name),
                    None => serializer.serialize_f64(number),
                }
            }
        }
    }
}

impl<'de> Deserialize<'de> for FillValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FillValueVisitor)
    }
}

struct FillValueVisitor;

impl Visitor<'_> for FillValueVisitor {
    type Value = FillValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, NaN, Infinity or -Infinity")
    }

    fn visit_i64<E>(self, number: i64) -> Result<FillValue, E> {
        Ok(number.into())
    }

    fn visit_u64<E>(self, number: u64) -> Result<FillValue, E> {
        Ok(number.into())
    }

    fn visit_f64<E>(self, number: f64) -> Result<FillValue, E> {
        Ok(number.into())
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<FillValue, E> {
        let found = NAMES.iter().find(|(known, _)| *known == name);
        let refuse = || E::custom(format!("fill_value {}: a number, NaN, Infinity or -Infinity", quoted(name)));
        found.map(|(_, value)| (*value).into()).ok_or_else(refuse)
    }
}
