//! By what a finished new dataset is known again, when the same call is made once more: a small hidden file beside the
//! chunks of the first of its arrays, where readers don't look.
//!
//! It has hashes of which dataset and which options the result was made with, and of what the files of both were like
//! then: how many, their names, lengths and times of change, or checksums in an archive. A result can be given away
//! without telling where it was made. No pixel need be read to compare this with what is there now. What was changed
//! since on either side, moved, or copied without its times, is not taken for a finished result.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::jobs::ArrayJob;
use super::listing::FileListing;
use super::options::RepackOptions;
use crate::error::{Error, Result};
use crate::fnv;
use crate::fs::{self as os, document};
use crate::offline::hierarchy::RECEIPT;

const VERSION: u64 = 3;

/// Whether `out` is what the call would make.
pub(super) fn is_of(out: &Path, source: &Path, jobs: &[ArrayJob], options: &RepackOptions) -> Result<bool> {
    let mut result = FileListing::of(out)?;
    let [receipt] = &result.receipts[..] else { return Ok(false) };
    let Some(known) = document::read(receipt)? else { return Ok(false) };
    // What reached the device before it got its name is as good as what needn't.
    let synced = !options.sync || known["synced"] == Value::Bool(true);
    Ok(synced
        && known["version"] == VERSION
        && known["call"] == call(source, options)
        && known["files"] == result.fingerprint()
        && known["source_files"] == of_source(source, jobs)?)
}

/// What the files of a dataset, and those of others that its manifests name, are like now.
pub(super) fn of_source(source: &Path, jobs: &[ArrayJob]) -> Result<String> {
    let mut listing = FileListing::of(source)?;
    jobs.iter().try_for_each(|job| listing.add_references(&job.change.source))?;
    Ok(listing.fingerprint())
}

/// What a result is made of, for its receipt.
pub(super) struct Origin<'a> {
    pub(super) source: &'a Path,
    /// What the source was like before any of it was read.
    pub(super) source_files: &'a str,
    pub(super) options: &'a RepackOptions,
}

impl Origin<'_> {
    /// Leaves the receipt in the finished `tree`, as its last file. `folder`: of its first array.
    pub(super) fn leave(&self, tree: &Path, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder).map_err(|error| Error::io("create", folder, error))?;
        os::put(&folder.join(RECEIPT), &self.receipt(&mut FileListing::of(tree)?))
    }

    /// The receipt of a result of these files.
    pub(super) fn receipt(&self, files: &mut FileListing) -> Vec<u8> {
        document::render(&json!({
            "version": VERSION,
            "call": call(self.source, self.options),
            "synced": self.options.sync,
            "source_files": self.source_files,
            "files": files.fingerprint(),
        }))
    }
}

/// A hash of the dataset's path and of the options that matter, only to be compared.
fn call(source: &Path, options: &RepackOptions) -> String {
    let of_path = fnv::append(fnv::BASIS, source.as_os_str().as_encoded_bytes());
    // A path has no zero byte.
    format!("{:032x}", fnv::append(of_path, format!("\0{:?}", options.of_result()).as_bytes()))
}
