//! The records of an image's frames: an array for each field, whose chunks are blocks of frames.

use serde_json::json;

use crate::format::keys::record_array;
use crate::format::{Document, zarr3};
use crate::plan::RecordPlan;
use crate::record::{FieldValue, RecordColumn};

/// The records of a run of frame numbers: one column a field, each a whole chunk of its array.
#[derive(Debug)]
pub(crate) struct RecordBlock {
    pub(crate) number: u64,
    pub(crate) columns: Vec<Vec<u8>>,
}

impl RecordBlock {
    /// A block whose memory has been written, not just zeroed: the first commit shall not pay for its page faults.
    pub(crate) fn new(plan: &RecordPlan) -> Self {
        let column = |field: &RecordColumn| vec![0xff; field.dtype.size() * plan.block_frames as usize];
        Self { number: 0, columns: plan.fields.iter().map(column).collect() }
    }
}

/// The documents of the arrays that hold `frames` records.
pub(super) fn documents(plan: &RecordPlan, frames: u64) -> impl Iterator<Item = Document> {
    plan.fields.iter().map(move |field| {
        let fill = match field.fill() {
            FieldValue::Int(value) => json!(value),
            FieldValue::Uint(value) => json!(value),
            FieldValue::Float(_) => json!("NaN"),
        };
        let document = zarr3::record(field.dtype, frames, plan.block_frames, &fill);
        (zarr3::document_at(&record_array(&field.name)), document)
    })
}
