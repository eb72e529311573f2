//! The end of all tasks: sees that every shard is there, and makes the result of them.

use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

use rayon::ThreadPool;
use rayon::prelude::*;
use serde::Serialize;

use super::file::{Header, TaskFile, TaskLine};
use super::plan::{TaskPlan, key_in, put_line, refuse_changed};
use super::receipt::{MadeShard, Receipts, outcome_of};
use crate::error::{Error, Result};
use crate::fs as os;
use crate::offline::progress::{Progress, ProgressCounters, controls, pool};
use crate::offline::repack::{Repack, ShardOutcome, Staging};

/// Ids that a summary names.
const NAMES_MAX: usize = 20;

/// What became of all tasks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TasksSummary {
    /// Tasks of the plan.
    pub tasks: u64,
    /// How many of their shards are not there, or not what was made. If there are any, there is no result yet.
    pub missing: u64,
    /// The first of them, by their ids: at most 20.
    pub missing_ids: Vec<String>,
    /// A file of tasks with nothing but these.
    pub missing_tasks: Option<PathBuf>,
    /// Shards that were made twice: a task ran again after it had ended, or twice at once.
    pub redone: u64,
    /// Shards in the result.
    pub shards: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// The result was there.
    pub already_done: bool,
}

/// The number of an array, and what became of one of its shards.
type MadeOf = (usize, ShardOutcome);

/// Makes the result of what tasks have made.
#[derive(Debug)]
pub struct FinishTasks {
    file: TaskFile,
    repack: Repack,
    /// The arrays of the ids in the file.
    arrays: Vec<u32>,
    pool: ThreadPool,
    counters: ProgressCounters,
}

controls!(FinishTasks);

impl FinishTasks {
    /// Opens the file of tasks at `path`, and looks at the dataset and the result as the plan did. `workers`: threads
    /// that look at shards, 0 for one for each core.
    ///
    /// # Errors
    ///
    /// As for [`RunTasks::open`](super::RunTasks::open) and [`TaskPlan::repack`]; [`Error::Conflict`] when what would
    /// be planned now is not what the file says: the source was changed.
    pub fn new(path: impl AsRef<Path>, workers: usize) -> Result<Self> {
        let file = TaskFile::open(path.as_ref())?;
        let Header { source, out, options, tasks, of, .. } = &file.header;
        if tasks != of {
            let reason = "has only those tasks that were missing; finish the file of the whole plan";
            return Err(Error::format(path, reason));
        }
        let (pool, counters) = (pool(workers)?, ProgressCounters::of(*tasks));
        let plan = TaskPlan::repack(source, out, options);
        if let Err(Error::Exists { .. }) = &plan {
            let repack = Repack::new(source, Some(out), options)?;
            return Ok(Self { file, repack, arrays: Vec::new(), pool, counters });
        }
        let plan = plan?;
        if !plan.is_of(&file.header) {
            let reason = "is not what it was when the tasks were planned; plan them again, to another output";
            return Err(Error::conflict(source, reason));
        }
        let (repack, ids) = plan.into_parts();
        let arrays = ids.into_iter().map(|(_, array)| array).collect();
        Ok(Self { file, repack, arrays, pool, counters })
    }

    /// Sees that the shard of every task is there, with the length and the index that its receipt says and, if it was
    /// touched since, the same bytes; then writes everything else, documents last, and gives the result its name. What
    /// is not what was made is removed, so that its task can run again.
    ///
    /// Where shards are missing, there is no result: they are in the summary, and beside the file of tasks is one with
    /// their tasks, whose name ends in `.missing.jsonl`.
    ///
    /// # Errors
    ///
    /// As for [`Repack::run`].
    pub fn run(&self) -> Result<TasksSummary> {
        let tasks = self.file.header.tasks;
        if self.repack.is_done() {
            let summary = self.repack.finish_planned(&[])?;
            let (shards, already_done) = (summary.shards_found, true);
            return Ok(TasksSummary { tasks, shards, already_done, ..TasksSummary::default() });
        }
        let (_, _, staging) = self.repack.places();
        let plan = &self.file.header.id;
        if let Some(other) = Staging::plan(staging)?.filter(|found| found != plan) {
            let reason = format!("holds the shards of another plan, {other}; finish or remove that first");
            return Err(Error::conflict(staging, reason));
        }
        let held = Staging::hold(staging)?;
        let receipts = Receipts::read(staging, plan)?;
        let (made, missing) = self.look(&receipts)?;
        let out = &self.file.header.out;
        if !missing.is_empty() && out.exists() {
            // Another call has made it meanwhile.
            return Ok(TasksSummary { tasks, already_done: true, ..TasksSummary::default() });
        }
        if held.is_some() && !missing.is_empty() {
            Staging::reopen(staging)?;
        }
        drop(held);
        let mut summary = TasksSummary { tasks, redone: receipts.redone, ..TasksSummary::default() };
        summary.missing = missing.len() as u64;
        let missing_file = self.file.path.with_extension("missing.jsonl");
        if missing.is_empty() {
            let repacked = self.repack.finish_planned(&made)?;
            (summary.shards, summary.bytes) = (repacked.shards_written, repacked.bytes);
            // Of an earlier call, which had not all of them.
            let _ = fs::remove_file(missing_file);
            return Ok(summary);
        }
        summary.missing_ids = missing.iter().take(NAMES_MAX).map(|task| task.id.clone()).collect();
        self.write_missing(&missing_file, missing)?;
        summary.missing_tasks = Some(missing_file);
        Ok(summary)
    }

    /// What became of each task's shard, and the tasks whose shards are missing.
    fn look(&self, receipts: &Receipts) -> Result<(Vec<MadeOf>, Vec<TaskLine>)> {
        const BATCH: usize = 4096;
        let (mut made, mut missing, mut seen) = (Vec::new(), Vec::new(), 0);
        let mut tasks = self.file.tasks()?;
        let planned = self.repack.planned()?;
        loop {
            let batch = tasks.by_ref().take(BATCH).collect::<Result<Vec<_>>>()?;
            let Some(arrays) = self.arrays.get(seen..seen + batch.len()).filter(|_| !batch.is_empty()) else { break };
            let look = |(task, array): (&TaskLine, &u32)| -> Result<Option<MadeOf>> {
                self.counters.go_on()?;
                refuse_changed(&self.file.header.source, &task.sources)?;
                self.counters.done.fetch_add(1, Relaxed);
                let (Some(known), planned) = (receipts.of(&task.id), &planned[*array as usize]) else {
                    return Ok(None);
                };
                let change = planned.change;
                let position =
                    change.target_position(key_in(&task.id, planned.name)).filter(|_| planned.name == task.array);
                let position = position.ok_or_else(|| Error::format(&self.file.path, "is not what was planned"))?;
                match MadeShard::is_as(known, change.target(), &position) {
                    Ok(Some(true)) => Ok(Some((*array as usize, outcome_of(known)))),
                    Ok(None) => Ok(None),
                    Ok(Some(false)) | Err(Error::Format { .. }) => {
                        // Of those of a plan, nobody but its tasks has put anything there.
                        let _ = fs::remove_file(change.target_path(&position));
                        Ok(None)
                    }
                    Err(error) => Err(error),
                }
            };
            let found = self.pool.install(|| batch.par_iter().zip(arrays).map(look).collect::<Result<Vec<_>>>())?;
            seen += batch.len();
            for (task, outcome) in batch.into_iter().zip(found) {
                match outcome {
                    Some(outcome) => made.push(outcome),
                    None => missing.push(task),
                }
            }
        }
        if seen != self.arrays.len() {
            return Err(Error::format(&self.file.path, "lacks tasks of its plan; it was cut off or changed"));
        }
        Ok((made, missing))
    }

    /// Writes a file of tasks with nothing but these.
    fn write_missing(&self, path: &Path, missing: Vec<TaskLine>) -> Result<()> {
        let failed = |error| Error::io("write", path, error);
        let partial = os::hidden(path, "partial");
        let mut file = BufWriter::new(os::create_new(&partial).map_err(failed)?);
        put_line(&mut file, &Header { tasks: missing.len() as u64, ..self.file.header.clone() })?;
        self.file.arrays()?.iter().try_for_each(|array| put_line(&mut file, array))?;
        for (task, line) in (0..).zip(missing) {
            put_line(&mut file, &TaskLine { task, ..line })?;
        }
        file.flush().map_err(failed)?;
        os::rename(&partial, path, false)
    }
}
