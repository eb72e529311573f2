//! What comes with a frame beside its pixels.
#![allow(unsafe_code)]

use super::pointer::{grows, read, slice};
use super::status::{Outcome, SW_ERROR_ARGUMENT, refuse};
use crate::record::{FieldValue, RECORD_FIELDS_MAX, Record, RecordColumn};

/// What a record's value is.
pub type sw_value_kind = u32;
/// Nothing: the field is 0, or NaN if it is a floating-point one.
pub const SW_VALUE_NONE: sw_value_kind = 0;
/// `i`.
pub const SW_VALUE_INT: sw_value_kind = 1;
/// `u`.
pub const SW_VALUE_UINT: sw_value_kind = 2;
/// `f`.
pub const SW_VALUE_FLOAT: sw_value_kind = 3;

/// A number of one of three types.
#[repr(C)]
#[derive(Clone, Copy)]
pub union sw_number {
    /// With SW_VALUE_INT.
    pub i: i64,
    /// With SW_VALUE_UINT.
    pub u: u64,
    /// With SW_VALUE_FLOAT.
    pub f: f64,
}

/// The value of a record field. It is stored as the field's own type. A field of integers takes whole numbers within
/// its type's range, of whatever kind they are: 3.0 is one. A floating-point field takes every number, rounded to the
/// nearest that its type has, and infinities and NaN; only a finite number beyond the range of SW_F32 does not fit.
/// What does not fit is refused with SW_ERROR_RECORD, and the frame stays on loan.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sw_value {
    /// Which member of `number` counts.
    pub kind: sw_value_kind,
    /// 0.
    pub reserved: u32,
    /// The value.
    pub number: sw_number,
}

/// The record has a device_timestamp.
pub const SW_HAS_DEVICE_TIMESTAMP: u32 = 1;
/// The record has a host_timestamp.
pub const SW_HAS_HOST_TIMESTAMP: u32 = 2;

/// What the instrument says about one frame. Set `size` to sizeof(sw_record) and all else to 0 before filling it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sw_record {
    /// sizeof(sw_record).
    pub size: usize,
    /// Which of the timestamps are given: SW_HAS_DEVICE_TIMESTAMP, SW_HAS_HOST_TIMESTAMP, or both added.
    pub has: u32,
    /// How many values; at most as many as the configuration has record fields. The fields beyond hold 0, or NaN.
    pub value_count: u32,
    /// The device's own time stamp, in whatever unit the device counts.
    pub device_timestamp: u64,
    /// The host's time of the frame in nanoseconds since 1970. Not given: the moment of the commit.
    pub host_timestamp: i64,
    /// The values of the configuration's record fields, in their order. Needed only during the call.
    pub values: *const sw_value,
}

grows!(sw_record);

/// Values that the fields can't hold are refused here, where a frame is still the caller's.
///
/// # Safety
/// `record` and its values must be good for reads, unless null or misaligned.
pub(super) unsafe fn record(record: *const sw_record, fields: &[RecordColumn]) -> Outcome<Record> {
    let mut value = Record::default();
    if record.is_null() {
        return Ok(value);
    }
    let none =
        sw_record { size: 0, has: 0, value_count: 0, device_timestamp: 0, host_timestamp: 0, values: std::ptr::null() };
    // SAFETY: as the caller promises; the struct begins with its size.
    let given = unsafe { read(record, none) }?;
    if given.has & !(SW_HAS_DEVICE_TIMESTAMP | SW_HAS_HOST_TIMESTAMP) != 0 {
        return refuse!(SW_ERROR_ARGUMENT, "sw_record.has = {:#x}: only the two lowest bits have a meaning", given.has);
    }
    value.device_timestamp = (given.has & SW_HAS_DEVICE_TIMESTAMP != 0).then_some(given.device_timestamp);
    value.host_timestamp = (given.has & SW_HAS_HOST_TIMESTAMP != 0).then_some(given.host_timestamp);
    let count = given.value_count as usize;
    if count > RECORD_FIELDS_MAX {
        return refuse!(SW_ERROR_ARGUMENT, "sw_record.value_count = {count}: at most {RECORD_FIELDS_MAX}");
    }
    // SAFETY: as the caller promises.
    let values = unsafe { slice(given.values, count, ["sw_record.values", "sw_record.value_count"]) }?;
    for (field, given) in values.iter().enumerate() {
        // SAFETY: all members are eight bytes of which any are a value.
        let (i, u, f) = unsafe { (given.number.i, given.number.u, given.number.f) };
        if given.reserved != 0 {
            return refuse!(SW_ERROR_ARGUMENT, "sw_value.reserved = {} of value {field}: it must be 0", given.reserved);
        }
        match given.kind {
            // Beyond the configured fields it is refused as any value is.
            SW_VALUE_NONE if field >= fields.len() => drop(value.set(field, FieldValue::Int(0))),
            SW_VALUE_NONE => {}
            SW_VALUE_INT => drop(value.set(field, FieldValue::Int(i))),
            SW_VALUE_UINT => drop(value.set(field, FieldValue::Uint(u))),
            SW_VALUE_FLOAT => drop(value.set(field, FieldValue::Float(f))),
            other => return refuse!(SW_ERROR_ARGUMENT, "sw_value.kind = {other} of value {field}: 0 to 3"),
        }
    }
    value.check(fields)?;
    Ok(value)
}
