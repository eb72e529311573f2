//! The records of an image's frames: an array for each field, whose chunks are blocks of frames.

use serde_json::json;

use super::{ImageWriter, RecordBlock};
use crate::dataset::documents::Documents;
use crate::error::{Error, Result};
use crate::format::keys::{FRAME_NUMBERS, record_array, record_block};
use crate::format::zarr3;
use crate::plan::Plan;
use crate::record::FieldValue;

impl ImageWriter {
    pub(super) fn put_record_documents(&self, plan: &Plan, frames: u64, to: &mut Documents) -> Result<()> {
        for field in &plan.record.fields {
            let fill = match field.fill() {
                FieldValue::Int(value) => json!(value),
                FieldValue::Uint(value) => json!(value),
                FieldValue::Float(_) => json!("NaN"),
            };
            let document = zarr3::record(field.dtype, frames, plan.record.block_frames, &fill);
            self.put(to, &zarr3::document_at(&record_array(&field.name)), &document)?;
        }
        Ok(())
    }

    pub(crate) fn write_records(&self, plan: &Plan, block: &RecordBlock) -> Result<()> {
        let files = self.record_files(plan, block);
        let files: Vec<_> = files.iter().map(|(key, bytes)| (key.as_str(), *bytes)).collect();
        let key = || self.record_key(&record_array("*"), block.number);
        self.storage.put_all(&files).map_err(|e| Error::io("write", self.storage.path_of(&key()), e))
    }

    /// The files that hold a block of records: their keys and their bytes. A level's frames are those of level 0, whose
    /// records stand for all.
    pub(crate) fn record_files<'a>(&self, plan: &Plan, block: &'a RecordBlock) -> Vec<(String, &'a [u8])> {
        if self.level.is_some() {
            return Vec::new();
        }
        let keys = plan.record.fields.iter().map(|field| self.record_key(&record_array(&field.name), block.number));
        keys.zip(block.columns.iter().map(Vec::as_slice)).collect()
    }

    fn record_key(&self, array: &str, block: u64) -> String {
        self.prefix.clone() + &record_block(array, block)
    }

    /// Replaces the frame numbers of a block of records.
    pub(crate) fn write_frame_numbers(&self, block: u64, bytes: &[u8]) -> Result<()> {
        let key = self.record_key(FRAME_NUMBERS, block);
        self.storage.put(&key, bytes).map_err(|error| Error::io("write", self.storage.path_of(&key), error))
    }
}
