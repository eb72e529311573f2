//! What is known about one frame beside its pixels.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::dtype::{Dtype, of_numbers};
use crate::error::{Error, Result};
use crate::format::fill_value;
use crate::pixels::Roi;
use crate::words::quoted;

/// Fields of the caller's own in a frame's record.
pub(crate) const RECORD_FIELDS_MAX: usize = 16;

/// Fields that every record has: the frame's number (−1 where no frame came), the device's time stamp, and the host's,
/// in nanoseconds since 1970.
pub(crate) const FIXED_FIELDS: [(&str, Dtype); 3] =
    [("frame_number", Dtype::I64), ("device_timestamp", Dtype::U64), ("host_timestamp", Dtype::I64)];

/// Fields of records that say where in the image a frame's pixels are; all of it is the fill value where they are 0.
pub(crate) const ROI_FIELDS: [(&str, Dtype); 4] =
    [("roi_y", Dtype::U64), ("roi_x", Dtype::U64), ("roi_height", Dtype::U64), ("roi_width", Dtype::U64)];

const ROI_IN_RECORD: std::ops::Range<usize> = 24..56;

/// One field of a record: an array beside the image.
#[derive(Debug)]
pub(crate) struct RecordColumn {
    pub(crate) name: String,
    pub(crate) dtype: Dtype,
    pub(crate) offset: usize,
}

impl RecordColumn {
    /// What it holds where nothing was recorded: of a measurement that nobody made, 0 would be a value.
    pub(crate) fn fill(&self) -> FieldValue {
        match self.dtype {
            _ if self.offset == NUMBER_IN_RECORD.start => FieldValue::Int(NO_FRAME),
            dtype if dtype.is_float() => FieldValue::Float(f64::NAN),
            _ => FieldValue::Int(0),
        }
    }

    pub(crate) fn fill_elements(&self, elements: &mut [u8]) {
        let element = element(self.fill(), self).unwrap_or_default();
        fill_value::row(elements, &element[..self.dtype.size()]);
    }
}

/// What the instrument says about one frame.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Record {
    /// The device's own time stamp, in whatever unit the device counts.
    pub device_timestamp: Option<u64>,
    /// The host's time of the frame in nanoseconds since 1970. `None`: the moment of the commit.
    pub host_timestamp: Option<i64>,
    fields: [Option<FieldValue>; RECORD_FIELDS_MAX],
    /// The first place that was set and that no configuration can have.
    beyond: Option<usize>,
}

/// The value of a record field, which is stored as the field's own type.
///
/// A field of integers takes whole numbers within its type's range, of whatever kind they are: `3.0` is one. A
/// floating-point field takes every number, rounded to the nearest that its type has, and infinities and NaN; only a
/// finite number beyond the range of `f32` does not fit. What does not fit is refused when the frame is committed, and
/// nothing is converted otherwise: see [`FrameMut::try_commit`](crate::FrameMut::try_commit).
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum FieldValue {
    /// A whole number.
    Int(i64),
    /// A whole number that may pass `i64`.
    Uint(u64),
    /// A floating-point number.
    Float(f64),
}

of_numbers!(FieldValue, { Int: i8 i16 i32 i64; Uint: u8 u16 u32 u64; Float: f32 f64 });

impl fmt::Display for FieldValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(value) => value.fmt(f),
            Self::Uint(value) => value.fmt(f),
            // Not with hundreds of digits.
            Self::Float(value) => write!(f, "{value:?}"),
        }
    }
}

impl Record {
    /// A record with the device's time stamp.
    pub fn stamped(device_timestamp: u64) -> Self {
        Self { device_timestamp: Some(device_timestamp), ..Self::default() }
    }

    /// Sets the value of a record field by its place in [`Config::record_fields`](crate::Config::record_fields). A
    /// field that is not set holds 0, or NaN if it is a floating-point one. Places beyond the configured fields, and
    /// [values that do not fit](FieldValue), are refused when the frame is committed.
    pub fn set(&mut self, field: usize, value: impl Into<FieldValue>) -> &mut Self {
        match self.fields.get_mut(field) {
            Some(place) => *place = Some(value.into()),
            None => self.beyond = self.beyond.or(Some(field)),
        }
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

pub(crate) const NUMBER_IN_RECORD: std::ops::Range<usize> = 0..8;

impl Record {
    /// Refuses values that [`write_record`] would refuse. `fields`: those of the caller's own.
    pub(crate) fn check(&self, fields: &[RecordColumn]) -> Result<()> {
        self.check_places(fields)?;
        self.fields.iter().zip(fields).try_for_each(|(value, field)| match value {
            Some(value) => element(*value, field).map(drop),
            None => Ok(()),
        })
    }

    fn check_places(&self, fields: &[RecordColumn]) -> Result<()> {
        let count = fields.len();
        let configurable = (count..RECORD_FIELDS_MAX).find(|&place| self.fields[place].is_some());
        let Some(beyond) = configurable.or(self.beyond) else { return Ok(()) };
        let reason = format!("the configuration has {count} record fields, whose places count from 0");
        Err(Error::Record { field: beyond.to_string(), reason })
    }
}

/// Lays a record out as the plan's columns expect it, but for the number. `roi`: where in the image the pixels are, if
/// that is recorded. `fields`: those of the caller's own.
pub(crate) fn write_record(bytes: &mut [u8], record: &Record, roi: Option<Roi>, fields: &[RecordColumn]) -> Result<()> {
    record.check_places(fields)?;
    let host = record
        .host_timestamp
        .unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64));
    bytes[8..16].copy_from_slice(&record.device_timestamp.unwrap_or(0).to_ne_bytes());
    bytes[16..24].copy_from_slice(&host.to_ne_bytes());
    if let Some(Roi { y, x, height, width }) = roi {
        let places = bytes[ROI_IN_RECORD].chunks_exact_mut(8).zip([y, x, height, width]);
        places.for_each(|(place, value)| place.copy_from_slice(&(value as u64).to_ne_bytes()));
    }
    for (value, field) in record.fields.iter().zip(fields) {
        let (element, size) = (element(value.unwrap_or(field.fill()), field)?, field.dtype.size());
        bytes[field.offset..][..size].copy_from_slice(&element[..size]);
    }
    Ok(())
}

/// A value as an element of the field's type, in as many bytes as that has.
fn element(value: FieldValue, field: &RecordColumn) -> Result<[u8; 8]> {
    let float = match value {
        FieldValue::Int(value) => value as f64,
        FieldValue::Uint(value) => value as f64,
        FieldValue::Float(value) => value,
    };
    field.dtype.element(float, whole_number(value)).ok_or_else(|| does_not_fit(value, field))
}

fn whole_number(value: FieldValue) -> Option<i128> {
    match value {
        FieldValue::Int(value) => Some(value.into()),
        FieldValue::Uint(value) => Some(value.into()),
        // Neither NaN nor an infinity has a fraction of 0; what `i128` can't hold, none of the types can.
        FieldValue::Float(value) => (value.fract() == 0.0).then_some(value as i128),
    }
}

#[cold]
fn does_not_fit(value: FieldValue, field: &RecordColumn) -> Error {
    let reason = format!("{value} does not fit {}, which holds {}", field.dtype, field.dtype.holds());
    Error::Record { field: quoted(&field.name), reason }
}
