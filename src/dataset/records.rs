//! The records of an image's frames: an array for each field, whose chunks are blocks of frames.
//!
//! Each block is a file or, where frames are so small that these would be very many, and the storage writes within
//! files, many share one: see [`record_files`](crate::format::record_files).

use std::collections::BTreeSet;
use std::io;
use std::sync::Mutex;

use serde_json::json;

use crate::error::{Result, caught};
use crate::format::keys::{record_array, record_file};
use crate::format::record_files::{RecordFiles, TableEntry};
use crate::format::{Document, zarr3};
use crate::plan::RecordPlan;
use crate::record::{FieldValue, RecordColumn};
use crate::storage::Storage;
use crate::sync::Unpoisoned;

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
pub(super) fn documents(plan: &RecordPlan, blocks_a_file: u64, frames: u64) -> impl Iterator<Item = Document> {
    plan.fields.iter().map(move |field| {
        let fill = match field.fill() {
            FieldValue::Int(value) => json!(value),
            FieldValue::Uint(value) => json!(value),
            FieldValue::Float(_) => json!("NaN"),
        };
        let document = zarr3::record(field.dtype, frames, plan.block_frames, blocks_a_file, &fill);
        (zarr3::document_at(&record_array(&field.name)), document)
    })
}

/// Tables name the newest blocks, among which are all that are not full: of so many it is known.
const NAMED_MAX: usize = 64;

/// Files that blocks of an image's records share.
#[derive(Debug)]
pub(super) struct SharedFiles {
    /// 1: none does.
    pub(super) blocks_a_file: u64,
    state: Mutex<SharedState>,
}

#[derive(Debug, Default)]
struct SharedState {
    /// The numbers of those that are there.
    files: BTreeSet<u64>,
    /// Blocks that the tables of all fields name.
    named: BTreeSet<u64>,
}

impl SharedFiles {
    pub(super) fn new(plan: &RecordPlan, storage: &dyn Storage) -> Result<Self> {
        let writes_within = plan.blocks_a_file > 1 && caught(|| Ok(storage.writes_within()))?;
        Ok(Self::of(if writes_within { plan.blocks_a_file } else { 1 }))
    }

    pub(super) fn none() -> Self {
        Self::of(1)
    }

    fn of(blocks_a_file: u64) -> Self {
        Self { blocks_a_file, state: Mutex::default() }
    }
}

/// What writes blocks of records, perhaps of many images.
#[derive(Default)]
pub(crate) struct RecordWrites<'a> {
    whole: Vec<(String, &'a [u8])>,
    within: Vec<(String, u64, &'a [u8])>,
    entries: Vec<(String, TableEntry)>,
    /// Those in files that are shared, and whether all fields are written.
    shared: Vec<(&'a SharedFiles, u64, bool)>,
}

impl<'a> RecordWrites<'a> {
    /// Adds the columns of a block, those of the first fields. `prefix`: of the image's keys.
    pub(super) fn add(
        &mut self,
        prefix: &str,
        plan: &RecordPlan,
        shared: &'a SharedFiles,
        (number, columns): (u64, &[&'a [u8]]),
    ) {
        let key = |field: &RecordColumn, file| format!("{prefix}{}", record_file(&record_array(&field.name), file));
        let files = |field: &RecordColumn| {
            RecordFiles::shared(shared.blocks_a_file, plan.block_frames * field.dtype.size() as u64)
        };
        let file = number / shared.blocks_a_file;
        let is_being_made = |writes: &Self| {
            let is_of =
                |of: &(&SharedFiles, u64, bool)| std::ptr::eq(of.0, shared) && of.1 / shared.blocks_a_file == file;
            writes.shared.iter().any(is_of)
        };
        let state = shared.state.lock().unpoisoned();
        let is_new = !state.files.contains(&file) && !is_being_made(self);
        for field in plan.fields.iter().filter(|_| is_new) {
            self.whole.extend(files(field).map(|files| (key(field, file), files.empty_table())));
        }
        for (field, column) in plan.fields.iter().zip(columns) {
            let Some(files) = files(field) else {
                self.whole.push((key(field, number), column));
                continue;
            };
            self.within.push((key(field, file), files.place(number).offset, column));
            if !state.named.contains(&number) {
                self.entries.push((key(field, file), files.entry(number)));
            }
        }
        if shared.blocks_a_file > 1 {
            self.shared.push((shared, number, columns.len() == plan.fields.len()));
        }
    }

    /// Makes them all. A table names a block that is there, whatever happens meanwhile.
    pub(crate) fn make(&self, storage: &dyn Storage) -> io::Result<()> {
        let Self { whole, within, entries, shared } = self;
        if !whole.is_empty() {
            storage.put_all(&whole.iter().map(|(key, bytes)| (key.as_str(), *bytes)).collect::<Vec<_>>())?;
        }
        if !within.is_empty() {
            let within = within.iter().map(|(key, at, bytes)| (key.as_str(), *at, *bytes));
            storage.write_within(&within.collect::<Vec<_>>())?;
        }
        if !entries.is_empty() {
            let entries = entries.iter().map(|(key, (at, entry))| (key.as_str(), *at, &entry[..]));
            storage.write_within(&entries.collect::<Vec<_>>())?;
        }
        for (shared, block, is_whole) in shared {
            let mut state = shared.state.lock().unpoisoned();
            state.files.insert(block / shared.blocks_a_file);
            if *is_whole {
                state.named.insert(*block);
            }
            while state.named.len() > NAMED_MAX {
                state.named.pop_first();
            }
        }
        Ok(())
    }
}
