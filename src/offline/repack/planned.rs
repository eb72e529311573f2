//! A repacking whose shards other processes make: what they have to know of it, and what they leave.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use serde_json::Value;

use super::change::Change;
use super::jobs::{ArrayJobs, ResultForm};
use crate::error::{Error, Result};
use crate::fs as os;
use crate::fs::look;
use crate::offline::array::Array;

/// An array of the result, and what it is made of.
pub(in crate::offline) struct PlannedArray<'a> {
    /// Its path below the result.
    pub(in crate::offline) name: &'a str,
    /// The path of what it is made of below the dataset.
    pub(in crate::offline) source: &'a Path,
    pub(in crate::offline) change: &'a Change,
    /// The array's document in the result.
    pub(in crate::offline) document: &'a Value,
}

/// What each array becomes.
///
/// # Errors
///
/// [`Error::Unsupported`] where a shard can't be made by who knows nothing but its array's two documents.
pub(super) fn arrays<'a>(root: &Path, plan: &'a ArrayJobs) -> Result<Vec<PlannedArray<'a>>> {
    if plan.form != ResultForm::Zarr3 {
        let reason = "can be planned as tasks only where the result is zarr3; repack it in one call";
        return Err(Error::unsupported(root, reason));
    }
    let planned = plan.jobs.iter().map(|job| {
        let source = &job.change.source;
        refuse_by_itself(source)?;
        let below = source.path().strip_prefix(root);
        let below = below.map_err(|_| Error::unsupported(source.path(), "is not below the dataset"))?;
        let (name, document, change) = (job.name.as_str(), &job.document, &job.change);
        Ok(PlannedArray { name, source: below, change, document })
    });
    planned.collect()
}

/// Refuses an array whose documents stand elsewhere, or whose chunks may lie in any of its files.
fn refuse_by_itself(source: &Array) -> Result<()> {
    let layout = source.layout();
    let why = if source.manifest().is_some() {
        "its chunks are where its manifest says"
    } else if !layout.has_boxes() || layout.packs_files() || source.document().parent() != Some(source.path()) {
        "its files are not found by the document in its own folder"
    } else {
        return Ok(());
    };
    let reason = format!("{why}, which no task knows; repack it in one call, or leave it out by the option `skip`");
    Err(Error::unsupported(source.path(), reason))
}

/// Removes what nobody has finished below a folder.
pub(in crate::offline) fn sweep(folder: &Path) -> Result<()> {
    for path in look::list(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            sweep(&path)?;
        } else if os::is_partial(&name) {
            match fs::remove_file(&path) {
                // Whoever made it was at its end.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                removed => removed.map_err(|error| Error::io("remove", &path, error))?,
            }
        }
    }
    Ok(())
}
