//! Looks at what each task has made or found.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

use rayon::prelude::*;

use super::file::{TaskFile, TaskLine};
use super::plan::{key_in, refuse_changed};
use super::receipt::{MadeIs, MadeShard, Receipts};
use crate::error::{Error, Result};
use crate::offline::answers::Answers;
use crate::offline::progress::ProgressCounters;
use crate::offline::repack::{Change, ShardOutcome, Staging};

/// Tasks that are looked at together.
const BATCH: usize = 4096;

/// What is looked for.
pub(super) enum LookAt<'a> {
    /// Shards of these arrays, as their receipts say, in this folder.
    Made(&'a [(&'a str, &'a Change)], &'a Receipts, &'a Path),
    /// What was found in shards of arrays with these names.
    Read(&'a [String], &'a Answers),
}

/// The number of an array, and what became of one of its shards.
pub(super) type MadeOf = (usize, ShardOutcome);

/// What was found.
#[derive(Default)]
pub(super) struct Looked {
    /// Of shards that were made.
    pub(super) made: Vec<MadeOf>,
    /// The tasks whose shards are missing.
    pub(super) missing: Vec<TaskLine>,
}

/// What became of one task.
enum Found {
    Made(ShardOutcome),
    Read,
    Missing,
    /// Its shard was not what was made, and what others have made of it may not be either.
    Spoiled,
}

/// What there is to look through.
pub(super) struct Seen<'a> {
    pub(super) file: &'a TaskFile,
    /// The arrays of the tasks, as they are planned now.
    pub(super) arrays: &'a [u32],
    pub(super) counters: &'a ProgressCounters,
}

impl Seen<'_> {
    pub(super) fn look(&self, at: &LookAt<'_>) -> Result<Looked> {
        let (mut looked, mut spoiled, mut seen) = (Looked::default(), HashSet::new(), 0);
        let mut last = String::new();
        let mut tasks = self.file.tasks()?;
        loop {
            let batch = tasks.by_ref().take(BATCH).collect::<Result<Vec<_>>>()?;
            let Some(arrays) = self.arrays.get(seen..seen + batch.len()).filter(|_| !batch.is_empty()) else { break };
            let one = |(task, array): (&TaskLine, &u32)| self.task(at, task, *array as usize);
            let found = batch.par_iter().zip(arrays).map(one).collect::<Result<Vec<_>>>()?;
            seen += batch.len();
            for ((task, array), mut found) in batch.into_iter().zip(arrays).zip(found) {
                // Two of one id would hide that another is not there.
                if task.id <= last {
                    return Err(self.file.is_other());
                }
                last.clone_from(&task.id);
                // The tasks of the level before have come before.
                if task.inputs.iter().any(|input| spoiled.contains(input)) {
                    self.remove(at, &task, *array as usize)?;
                    found = Found::Spoiled;
                }
                match found {
                    Found::Made(outcome) => looked.made.push((*array as usize, outcome)),
                    Found::Read => {}
                    Found::Missing => looked.missing.push(task),
                    Found::Spoiled => {
                        spoiled.insert(task.id.clone());
                        looked.missing.push(task);
                    }
                }
            }
        }
        if seen != self.arrays.len() {
            return Err(Error::format(&self.file.path, "lacks tasks of its plan; it was cut off or changed"));
        }
        Ok(looked)
    }

    fn task(&self, at: &LookAt<'_>, task: &TaskLine, array: usize) -> Result<Found> {
        self.counters.go_on()?;
        refuse_changed(&self.file.header.source, &task.sources)?;
        self.counters.done.fetch_add(1, Relaxed);
        let (changes, receipts, staging) = match at {
            LookAt::Read(names, answers) => {
                if names[array] != task.array {
                    return Err(self.file.is_other());
                }
                return Ok(if answers.has(&task.id) { Found::Read } else { Found::Missing });
            }
            LookAt::Made(changes, receipts, staging) => (changes, receipts, staging),
        };
        let (change, position) = self.place(changes, task, array)?;
        if Staging::remove_planted(staging, &task.id)? {
            return Ok(Found::Spoiled);
        }
        let Some(known) = receipts.of(&task.id) else { return Ok(Found::Missing) };
        match MadeShard::is_as(known, change.target(), &position) {
            Ok(MadeIs::So(outcome)) => Ok(Found::Made(outcome)),
            Ok(MadeIs::Gone) => Ok(Found::Missing),
            Ok(MadeIs::Other) | Err(Error::Format { .. }) => {
                self.remove(at, task, array)?;
                Ok(Found::Spoiled)
            }
            Err(error) => Err(error),
        }
    }

    fn place<'a>(
        &self,
        changes: &[(&str, &'a Change)],
        task: &TaskLine,
        array: usize,
    ) -> Result<(&'a Change, Vec<u64>)> {
        let (name, change) = changes[array];
        let position = change.target_position(key_in(&task.id, name)).filter(|_| name == task.array);
        Ok((change, position.ok_or_else(|| self.file.is_other())?))
    }

    /// Removes a shard that is not what was made: of those of a plan, nobody but its tasks has put anything there.
    fn remove(&self, at: &LookAt<'_>, task: &TaskLine, array: usize) -> Result<()> {
        if let LookAt::Made(changes, ..) = at {
            let (change, position) = self.place(changes, task, array)?;
            let _ = fs::remove_file(change.target_path(&position));
        }
        Ok(())
    }
}
