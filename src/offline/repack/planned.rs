//! A repacking whose shards other processes make: what they have to know of it, and its end once all are there.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::change::Change;
use super::jobs::ResultForm;
use super::shard::ShardOutcome;
use super::staging::{self, Staging};
use super::{EarlierResult, Repack, RepackSummary};
use crate::error::{Error, Result};
use crate::fs as os;
use crate::fs::look;
use crate::offline::array::Array;
use crate::sync::Unpoisoned;

/// An array of the result, and what it is made of.
pub(in crate::offline) struct PlannedArray<'a> {
    /// Its path below the result.
    pub(in crate::offline) name: &'a str,
    /// The path of what it is made of below the dataset.
    pub(in crate::offline) source: &'a Path,
    pub(in crate::offline) change: &'a Change,
    /// The array's document in the result.
    pub(in crate::offline) document: &'a Value,
    /// What the files of the source are like: see [`staging::fingerprint`].
    pub(in crate::offline) fingerprint: String,
}

impl Repack {
    /// What each array becomes.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] where a shard can't be made by who knows nothing but its array's two documents.
    pub(in crate::offline) fn planned(&self) -> Result<Vec<PlannedArray<'_>>> {
        if self.plan.form != ResultForm::Zarr3 {
            let reason = "can be planned as tasks only where the result is zarr3; repack it in one call";
            return Err(Error::unsupported(&self.root, reason));
        }
        let planned = self.plan.jobs.iter().map(|job| {
            let source = &job.change.source;
            refuse_by_itself(source)?;
            let below = source.path().strip_prefix(&self.root);
            let below = below.map_err(|_| Error::unsupported(source.path(), "is not below the dataset"))?;
            let (name, document, change) = (job.name.as_str(), &job.document, &job.change);
            Ok(PlannedArray { name, source: below, change, document, fingerprint: staging::fingerprint(source)? })
        });
        planned.collect()
    }

    /// The shards of the result that may hold something: which of the arrays, and the position in it.
    pub(in crate::offline) fn planned_shards(&self) -> &[(usize, Vec<u64>)] {
        &self.todo
    }

    /// Whether the result is there, and made of the same files with the same options.
    pub(in crate::offline) fn is_done(&self) -> bool {
        self.done.is_some()
    }

    /// The dataset, the result, and the folder where that comes into being.
    pub(in crate::offline) fn places(&self) -> (&Path, Option<&Path>, &Path) {
        (&self.root, self.out.as_deref(), &self.staging)
    }

    /// Makes the result of shards that others have made. `made`: what became of each, by its array.
    ///
    /// # Errors
    ///
    /// As for [`run`](Self::run).
    pub(in crate::offline) fn finish_planned(&self, made: &[(usize, ShardOutcome)]) -> Result<RepackSummary> {
        self.counters.begin_only_run("Repack", &self.root)?;
        let _lock = self.lock.lock().unpoisoned().take();
        if let Some(done) = self.done {
            return self.summary_of(done);
        }
        Staging::adopt(&self.staging, &self.journal()?, self.options.sync)?;
        let summary = self.work(true, &|| {
            let mut summary = self.new_summary();
            made.iter().for_each(|(job, outcome)| self.count(*job, *outcome, &mut summary));
            sweep(&self.staging.join("tree"))?;
            Ok(summary)
        })?;
        self.counters.find_all();
        // One that was made twice, and late, may have begun while the first result was put together.
        self.out.as_deref().filter(|out| out.is_dir()).map_or(Ok(()), sweep)?;
        Ok(summary)
    }

    pub(super) fn summary_of(&self, done: EarlierResult) -> Result<RepackSummary> {
        self.counters.find_all();
        if done == EarlierResult::Untidy {
            Staging::discard(&self.staging)?;
        }
        let shards_found = self.todo.len() as u64;
        Ok(RepackSummary { shards_found, already_done: true, ..self.new_summary() })
    }
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
fn sweep(folder: &Path) -> Result<()> {
    for path in look::list(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            sweep(&path)?;
        } else if os::is_partial(&name) {
            fs::remove_file(&path).map_err(|error| Error::io("remove", &path, error))?;
        }
    }
    Ok(())
}
