//! What the end of tasks that make no shards has told, in a small file beside that of the tasks: another call tells the
//! same, although what tasks have found is gone by then.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::file::{Operation, TaskFile};
use crate::error::{Error, Result};
use crate::fnv;
use crate::fs::{self as os, document, look};
use crate::offline::answers::time_text;
use crate::offline::manifest::ManifestSummary;
use crate::offline::verify::Verification;

/// The file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Finished {
    /// The plan's id.
    plan: String,
    /// Length and time of the file of tasks. One that was written anew is to be run anew.
    tasks: (u64, String),
    told: Told,
    /// Of what was written, if anything: a text that becomes another when a byte of it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    made: Option<String>,
}

/// What the operation has told.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Told {
    Verify(Verification),
    Manifest(ManifestSummary),
}

impl Finished {
    /// What an earlier call has told of these tasks; `None` where there was none, or what is there is another's. For a
    /// file of those that were missing, too.
    pub(super) fn of(file: &TaskFile) -> Option<Self> {
        let path = path_of(file);
        let finished: Self = serde_json::from_value(document::read(&path).ok()??).ok()?;
        let tasks = look::stamp(&file.of_plan()).ok()?;
        // Where clocks are coarse, one that was written anew may have the same time.
        let is_later = look::stamp(&path).ok()?.1 > tasks.1;
        let is_same = finished.plan == file.header.id && finished.tasks == as_text(tasks);
        let operation = &file.header.operation;
        let is_told = match finished.told {
            Told::Verify(_) => *operation == Operation::Verify,
            Told::Manifest(_) => matches!(operation, Operation::Manifest(_)),
        };
        (is_later && is_same && is_told).then_some(finished)
    }

    /// Whether tasks that only read need not be run: all have been, and what comes of them is there, at a look.
    pub(super) fn holds(file: &TaskFile) -> bool {
        let is_made = file.header.operation == Operation::Verify || file.header.out.exists();
        is_made && Self::of(file).is_some()
    }

    /// Notes what is told, and what was written into the folder `made`, which may still get another name.
    pub(super) fn put(file: &TaskFile, told: Told, made: Option<&Path>) -> Result<()> {
        let (path, plan) = (path_of(file), file.header.id.clone());
        let failed = |error: serde_json::Error| Error::io("write", &path, error);
        let tasks = file.of_plan();
        let tasks = as_text(look::stamp(&tasks).map_err(|error| Error::io("look at", &tasks, error))?);
        let finished = Self { plan, tasks, told, made: made.map(contents).transpose()? };
        os::put(&path, &serde_json::to_vec(&finished).map_err(failed)?)
    }

    /// Whether a folder has in it what was written.
    pub(super) fn is_of(&self, folder: &Path) -> bool {
        folder.is_dir() && !folder.is_symlink() && contents(folder).is_ok_and(|found| Some(found) == self.made)
    }

    pub(super) fn told(self) -> Told {
        self.told
    }
}

fn path_of(file: &TaskFile) -> PathBuf {
    file.of_plan().with_extension("finished.json")
}

fn as_text((len, time): (u64, (i64, i64))) -> (u64, String) {
    (len, time_text(time))
}

/// A text of the names of all files below a folder, and of their bytes. Links are none of them.
fn contents(folder: &Path) -> Result<String> {
    let (mut folders, mut hash, mut count) = (vec![folder.to_path_buf()], 0, 0_u64);
    while let Some(next) = folders.pop() {
        for path in look::list(&next)? {
            let kind = fs::symlink_metadata(&path).map_err(|error| Error::io("look at", &path, error))?.file_type();
            if kind.is_dir() {
                folders.push(path);
                continue;
            }
            if !kind.is_file() {
                return Err(Error::format(path, "is not a regular file"));
            }
            let name = path.strip_prefix(folder).unwrap_or(&path).to_string_lossy();
            let (len, sum) = sum_of(&path)?;
            // In any order.
            hash ^= fnv::append(fnv::BASIS, format!("{name}\0{len} {sum:08x}").as_bytes());
            count += 1;
        }
    }
    Ok(format!("{count} files {hash:032x}"))
}

fn sum_of(path: &Path) -> Result<(u64, u32)> {
    let failed = |error| Error::io("read", path, error);
    let mut reader = BufReader::with_capacity(1 << 20, File::open(path).map_err(failed)?);
    let (mut len, mut sum) = (0, 0);
    loop {
        let bytes = reader.fill_buf().map_err(failed)?;
        if bytes.is_empty() {
            return Ok((len, sum));
        }
        sum = crc32c::crc32c_append(sum, bytes);
        let read = bytes.len();
        len += read as u64;
        reader.consume(read);
    }
}
