//! What is known about one frame beside its pixels.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::dtype::Dtype;
use crate::error::{Error, Result};

/// Fields of the caller's own in a frame's record.
pub(crate) const RECORD_FIELDS_MAX: usize = 16;

/// Fields that every record has: the frame's number (−1 where no frame came), the device's time stamp, and the host's,
/// in nanoseconds since 1970.
pub(crate) const FIXED_FIELDS: [(&str, Dtype); 3] =
    [("frame_number", Dtype::I64), ("device_timestamp", Dtype::U64), ("host_timestamp", Dtype::I64)];

/// What the instrument says about one frame.
#[derive(Debug, Clone, Copy, Default)]
pub struct Record {
    /// The device's own time stamp, in whatever unit the device counts.
    pub device_timestamp: Option<u64>,
    /// The host's time of the frame in nanoseconds since 1970. `None`: the moment of the commit.
    pub host_timestamp: Option<i64>,
    fields: [Option<FieldValue>; RECORD_FIELDS_MAX],
}

/// The value of a record field; stored as the field's own type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FieldValue {
    /// A whole number.
    Int(i64),
    /// A whole number that may pass `i64`.
    Uint(u64),
    /// A floating-point number.
    Float(f64),
}

macro_rules! field_values {
    ($($number:ty => $kind:ident),*) => {
        $(impl From<$number> for FieldValue {
            fn from(value: $number) -> Self {
                Self::$kind(value.into())
            }
        })*
    };
}

field_values!(i8 => Int, i16 => Int, i32 => Int, i64 => Int);
field_values!(u8 => Uint, u16 => Uint, u32 => Uint, u64 => Uint);
field_values!(f32 => Float, f64 => Float);

impl Record {
    /// A record with the device's time stamp.
    pub fn stamped(device_timestamp: u64) -> Self {
        Self { device_timestamp: Some(device_timestamp), ..Self::default() }
    }

    /// Sets the value of a record field by its place in [`Config::record_fields`](crate::Config::record_fields). A
    /// field that is not set holds 0, or NaN if it is a floating-point one; a value that does not fit its type becomes
    /// the nearest that does, because no frame shall be lost for it. Places beyond the configured fields are refused
    /// when the frame is committed.
    ///
    /// # Panics
    ///
    /// For places beyond the most that are possible, 16.
    pub fn set(&mut self, field: usize, value: impl Into<FieldValue>) -> &mut Self {
        assert!(field < RECORD_FIELDS_MAX, "record field {field}: at most {RECORD_FIELDS_MAX} are possible");
        self.fields[field] = Some(value.into());
        self
    }

    /// The record with one more value; see [`set`](Self::set) and
    /// [`Acquisition::record_field`](crate::Acquisition::record_field).
    ///
    /// ```
    /// use shardwright::Record;
    ///
    /// let (position, filter, exposure): (f64, u8, f32) = (1.5, 3, 0.01);
    /// let record = Record::stamped(1_000).with(0, position).with(1, filter).with(2, exposure);
    /// ```
    #[must_use]
    pub fn with(mut self, field: usize, value: impl Into<FieldValue>) -> Self {
        self.set(field, value);
        self
    }
}

/// The number in the record of a frame that never came.
pub(crate) const NO_FRAME: i64 = -1;
/// The number in the record of a frame of which it was not known yet, when its record was last written, whether it
/// would come.
pub(crate) const NOT_KNOWN: i64 = -2;
/// The number in the record of a frame that came, and whose pixels could not be stored.
pub(crate) const LOST: i64 = -3;

/// Where a record holds its frame's number.
pub(crate) const NUMBER_IN_RECORD: std::ops::Range<usize> = 0..8;

/// Lays a record out as the plan's columns expect it, but for the number.
pub(crate) fn write_record(bytes: &mut [u8], record: &Record, dtypes: &[Dtype]) -> Result<()> {
    let host = record
        .host_timestamp
        .unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64));
    bytes[8..16].copy_from_slice(&record.device_timestamp.unwrap_or(0).to_ne_bytes());
    bytes[16..24].copy_from_slice(&host.to_ne_bytes());
    let mut at = FIXED_FIELDS.iter().map(|(_, dtype)| dtype.size()).sum();
    for (field, value) in record.fields.iter().enumerate() {
        let Some(&dtype) = dtypes.get(field) else {
            if value.is_some() {
                let reason =
                    format!("the configuration has {} record fields, 0 to {}", dtypes.len(), dtypes.len().max(1) - 1);
                return Err(Error::Record { field: field.to_string(), reason });
            }
            continue;
        };
        let place: &mut [u8] = &mut bytes[at..at + dtype.size()];
        // Of a measurement that nobody made, 0 would be a value.
        let unset =
            if matches!(dtype, Dtype::F32 | Dtype::F64) { FieldValue::Float(f64::NAN) } else { FieldValue::Int(0) };
        write_element(place, dtype, value.unwrap_or(unset));
        at += dtype.size();
    }
    Ok(())
}

/// Stores a value as an element of `dtype`; what does not fit becomes the nearest value that does.
fn write_element(place: &mut [u8], dtype: Dtype, value: FieldValue) {
    macro_rules! element {
        ($int:ty) => {
            place.copy_from_slice(
                &match value {
                    FieldValue::Int(value) => {
                        value.clamp(<$int>::MIN as i64, i64::try_from(<$int>::MAX).unwrap_or(i64::MAX)) as $int
                    }
                    FieldValue::Uint(value) => value.min(<$int>::MAX as u64) as $int,
                    FieldValue::Float(value) => value.round() as $int,
                }
                .to_ne_bytes(),
            )
        };
    }
    let float = match value {
        FieldValue::Int(value) => value as f64,
        FieldValue::Uint(value) => value as f64,
        FieldValue::Float(value) => value,
    };
    match dtype {
        Dtype::U8 => element!(u8),
        Dtype::I8 => element!(i8),
        Dtype::U16 => element!(u16),
        Dtype::I16 => element!(i16),
        Dtype::U32 => element!(u32),
        Dtype::I32 => element!(i32),
        Dtype::U64 => element!(u64),
        Dtype::I64 => element!(i64),
        Dtype::F32 => place.copy_from_slice(&(float as f32).to_ne_bytes()),
        Dtype::F64 => place.copy_from_slice(&float.to_ne_bytes()),
    }
}
