//! What is recorded of each frame beside its pixels.

use crate::config::Config;
use crate::error::{Error, Result};
use crate::format::keys::NAME_BYTES_MAX;
use crate::record::{FIXED_FIELDS, RECORD_FIELDS_MAX, ROI_FIELDS, RecordColumn};
use crate::words::quoted;

/// The fields of a frame's record, in the order in which they lie in it.
#[derive(Debug)]
pub(crate) struct RecordPlan {
    pub(crate) fields: Vec<RecordColumn>,
    /// How many of them the configuration does not name.
    own: usize,
    pub(crate) bytes: usize,
    /// Frames in one chunk of a record array.
    pub(crate) block_frames: u64,
}

impl RecordPlan {
    pub(super) fn new(config: &Config, frames_total: Option<u64>) -> Result<Self> {
        if config.record_fields.len() > RECORD_FIELDS_MAX {
            let reason = format!("at most {RECORD_FIELDS_MAX} are possible");
            return Err(Error::config("record_fields", format_args!("{} fields", config.record_fields.len()), reason));
        }
        let mut fields = Vec::new();
        let mut offset = 0;
        let user = config.record_fields.iter().map(|field| (field.name.as_str(), field.dtype));
        let roi = ROI_FIELDS.into_iter().filter(|_| config.record_roi);
        let own: Vec<_> = FIXED_FIELDS.into_iter().chain(roi).collect();
        for (name, dtype) in own.iter().copied().chain(user) {
            check_record_name(name, &fields)?;
            fields.push(RecordColumn { name: name.to_owned(), dtype, offset });
            offset += dtype.size();
        }
        let block_frames = frames_total.unwrap_or(u64::MAX).clamp(1, 16384);
        Ok(Self { fields, own: own.len(), bytes: offset, block_frames })
    }

    /// The fields that the configuration names.
    pub(crate) fn of_the_caller(&self) -> &[RecordColumn] {
        &self.fields[self.own..]
    }
}

fn check_record_name(name: &str, earlier: &[RecordColumn]) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || name.starts_with("__") || name.len() > NAME_BYTES_MAX || !name.chars().all(plain) {
        let reason = "1 to 200 letters, digits, _ and - are possible, not starting with __, which Zarr reserves";
        return Err(Error::config("record_fields.name", quoted(name), reason));
    }
    if earlier.iter().any(|field| field.name == name) {
        let reason = "each field needs a name of its own; frame_number, device_timestamp and host_timestamp are taken, \
                      and with record_roi those of regions";
        return Err(Error::config("record_fields.name", name, reason));
    }
    Ok(())
}
