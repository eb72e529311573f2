//! What is recorded of each frame beside its pixels.

use crate::config::Config;
use crate::error::{Error, Result};
use crate::format::keys::NAME_BYTES_MAX;
use crate::format::record_files::BLOCKS_A_FILE_MAX;
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
    /// How many such chunks share a file, where the storage writes within files; 1: each is a file.
    pub(crate) blocks_a_file: u64,
}

/// Frames in a block of records, but for arrays that have fewer.
const BLOCK_FRAMES: u64 = 16384;
/// Bytes of frames that come in an hour, at a speed that few machines write.
const BYTES_AN_HOUR: u64 = 4_000_000_000 * 3600;
/// Files of an hour's records, for each field, from which on there are fewer: a user's fields come on top of three.
const FILES_AN_HOUR: u64 = 64;

impl RecordPlan {
    pub(super) fn new(config: &Config, frames_total: Option<u64>, frame_bytes: u64) -> Result<Self> {
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
        let block_frames = frames_total.unwrap_or(u64::MAX).clamp(1, BLOCK_FRAMES);
        let blocks_a_file = blocks_a_file(frames_total, frame_bytes);
        Ok(Self { fields, own: own.len(), bytes: offset, block_frames, blocks_a_file })
    }

    /// The fields that the configuration names.
    pub(crate) fn of_the_caller(&self) -> &[RecordColumn] {
        &self.fields[self.own..]
    }
}

/// Of small frames, an hour's blocks would be a hundred thousand files.
fn blocks_a_file(frames_total: Option<u64>, frame_bytes: u64) -> u64 {
    let an_hour = BYTES_AN_HOUR / frame_bytes.max(1);
    let blocks = frames_total.unwrap_or(u64::MAX).min(an_hour).div_ceil(BLOCK_FRAMES);
    if blocks <= 2 * FILES_AN_HOUR {
        return 1;
    }
    (blocks / FILES_AN_HOUR).next_power_of_two().min(BLOCKS_A_FILE_MAX)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_frames_have_few_files_of_records_and_large_ones_a_file_each_block() {
        let [small, middle, large] = [64 * 64 * 2, 512 * 512 * 2, 2048 * 2048 * 2];
        assert_eq!(blocks_a_file(None, small), 2048);
        assert_eq!(blocks_a_file(None, middle), 32);
        assert_eq!(blocks_a_file(None, large), 1);
        assert_eq!(blocks_a_file(None, 1), BLOCKS_A_FILE_MAX);
        // A short run has few files as it is.
        assert_eq!(blocks_a_file(Some(1_000_000), small), 1);
        for bytes in (12..24).map(|power| 1 << power) {
            let frames_an_hour = BYTES_AN_HOUR / bytes;
            let files = frames_an_hour.div_ceil(BLOCK_FRAMES * blocks_a_file(None, bytes));
            assert!(files <= 2 * FILES_AN_HOUR, "{bytes} bytes: {files} files an hour");
        }
    }
}
