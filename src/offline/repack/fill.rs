//! The fill value of an array that becomes another, on its way through a configuration.

use crate::dtype::Dtype;
use crate::error::{Error, Result};
use crate::format::{Metadata, fill_value};
use crate::plan::Plan;

/// The fill value as a configuration has it; of what is no number, 0.
pub(super) fn value(metadata: &Metadata) -> f64 {
    let Some(dtype) = metadata.dtype.number() else { return 0.0 };
    let mut wide = [0; 8];
    wide[..metadata.fill.len()].copy_from_slice(&metadata.fill);
    let bits = u64::from_le_bytes(wide);
    match dtype {
        Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 => bits as f64,
        Dtype::I8 => f64::from(bits as i8),
        Dtype::I16 => f64::from(bits as i16),
        Dtype::I32 => f64::from(bits as i32),
        Dtype::I64 => bits.cast_signed() as f64,
        Dtype::F32 => f64::from(f32::from_bits(bits as u32)),
        Dtype::F64 => f64::from_bits(bits),
    }
}

/// A refusal names the fill value as the array has it, which need not fit into a configuration's number.
pub(super) fn exact(error: Error, metadata: &Metadata) -> Error {
    match error {
        Error::Config { field: field @ "fill_value", reason, .. } => {
            Error::config(field, fill_value::to_json(metadata.dtype, &metadata.fill), reason)
        }
        other => other,
    }
}

/// Refuses a fill value that the planned array does not have.
pub(super) fn check(metadata: &Metadata, plan: &Plan) -> Result<()> {
    // Of a NaN, documents only say that it is one.
    if metadata.fill == plan.frame.fill || value(metadata).is_nan() {
        return Ok(());
    }
    let value = fill_value::to_json(metadata.dtype, &metadata.fill);
    let reason = "needs more than the 53 bits of a number that every reader takes; Zarr v3 can hold it: choose zarr3";
    Err(Error::config("fill_value", value, reason))
}
