//! Runs tasks: one shard after the other, each made as if nobody else were there, and named once.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use rayon::ThreadPool;

use super::file::{SourceKey, TaskFile, TaskLine, TaskName};
use super::plan::{key_in, refuse_changed};
use super::receipt::{MadeShard, ReceiptLog, TaskOutcome, TaskReceipt};
use crate::error::{Error, Result};
use crate::fs::links;
use crate::offline::array::Array;
use crate::offline::progress::{Progress, ProgressCounters, Tally, controls, pool};
use crate::offline::repack::{Change, RepackOptions, ShardLanes, ShardOutcome, Staging};
use crate::sync::Unpoisoned;

/// With which resources tasks are run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskOptions {
    /// Threads that read, encode and compare. 0: one for each core that the process may use. The default is 1: who
    /// runs tasks runs several at once.
    pub workers: usize,
    /// Bytes for chunks on their way, all threads together.
    pub memory_bytes: u64,
}

impl Default for TaskOptions {
    fn default() -> Self {
        Self { workers: 1, memory_bytes: 256 << 20 }
    }
}

/// Runs tasks of a file that a [`TaskPlan`](super::TaskPlan) has written.
///
/// A task opens what its line names and nothing else: no folder is listed and no lock is taken. It may be run twice,
/// also at the same time and on several machines: the same bytes come of it, and the first file that is whole and read
/// back has the name.
///
/// ```no_run
/// use shardwright::offline::{RunTasks, TaskName, TaskOptions};
///
/// let tasks = RunTasks::open("tasks.jsonl", &TaskOptions::default())?;
/// let receipt = tasks.run(TaskName::Index(17))?;
/// println!("{}: {} bytes", receipt.id, receipt.bytes);
/// # Ok::<(), shardwright::Error>(())
/// ```
#[derive(Debug)]
pub struct RunTasks {
    file: TaskFile,
    staging: PathBuf,
    options: TaskOptions,
    pool: Arc<ThreadPool>,
    /// Arrays that tasks have needed so far.
    arrays: Mutex<HashMap<String, Arc<OpenedArray>>>,
    log: ReceiptLog,
    counters: ProgressCounters,
}

/// An array of which tasks make shards.
#[derive(Debug)]
struct OpenedArray {
    change: Change,
    chunks_at_once: usize,
}

controls!(RunTasks);

impl RunTasks {
    /// Opens the file of tasks at `path`; nothing else is looked at yet.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when there is none, or it can't be read; [`Error::Format`] and [`Error::Unsupported`] when it is
    /// no file of tasks, or one of another version; [`Error::Config`] for a number of threads that does not go.
    pub fn open(path: impl AsRef<Path>, options: &TaskOptions) -> Result<Self> {
        let file = TaskFile::open(path.as_ref())?;
        links::enter(&file.header.source);
        let staging = Staging::beside(&file.header.out);
        let (log, pool) = (ReceiptLog::new(&staging)?, Arc::new(pool(options.workers)?));
        let (options, arrays, counters) = (options.clone(), Mutex::default(), ProgressCounters::default());
        Ok(Self { file, staging, options, pool, arrays, log, counters })
    }

    /// How many tasks the file has.
    pub fn tasks(&self) -> u64 {
        self.file.header.tasks
    }

    /// Runs a task, and says what it has made: also what was made before.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] for a task that the file has not; [`Error::Conflict`] when a file of the source is not what
    /// it was when the tasks were planned, or becomes another meanwhile; [`Error::Format`] and [`Error::Codec`] for
    /// damaged chunks, and for a shard that reads back otherwise than it was written; [`Error::Io`] as on a full disk;
    /// [`Error::Exists`] where something else is made in place of the result; [`Error::Config`] for a memory that is
    /// too small. Nothing has the task's name then.
    pub fn run(&self, task: TaskName<'_>) -> Result<TaskReceipt> {
        let line = self.file.task(task)?;
        let (plan, out) = (&self.file.header.id, &self.file.header.out);
        let finished = || TaskReceipt::without_file(plan, &line, TaskOutcome::Finished);
        if out.exists() {
            return Ok(finished());
        }
        let made = self.make(&line);
        // Somebody else may have made the shard, and then the result, while this one slept.
        if out.exists() {
            Staging::leave(&self.staging, plan);
            return Ok(finished());
        }
        made
    }

    fn make(&self, line: &TaskLine) -> Result<TaskReceipt> {
        let start = Instant::now();
        let array = self.array(&line.array)?;
        let OpenedArray { change, chunks_at_once } = &*array;
        let key = key_in(&line.id, &line.array);
        let position = change.target_position(key).ok_or_else(|| {
            Error::format(&self.file.path, format!("names the shard {}, which the result has not", line.id))
        })?;
        self.check_sources(&line.sources)?;
        Staging::join(&self.staging, &self.file.header.id)?;
        let tally = Tally { counters: &self.counters, added: AtomicU64::new(0) };
        let check = || self.check_sources(&line.sources);
        let outcome = match change.checked_shard(&position, *chunks_at_once, &tally, &check)? {
            ShardOutcome::Written { .. } => TaskOutcome::Written,
            ShardOutcome::Found { .. } => TaskOutcome::Found,
            ShardOutcome::Empty => TaskOutcome::Empty,
        };
        let receipt = self.receipt(line, outcome, change, &position)?;
        let receipt = TaskReceipt { seconds: start.elapsed().as_secs_f64(), ..receipt };
        self.log.add(&receipt)?;
        Ok(receipt)
    }

    fn receipt(&self, line: &TaskLine, outcome: TaskOutcome, change: &Change, at: &[u64]) -> Result<TaskReceipt> {
        let plan = &self.file.header.id;
        if outcome == TaskOutcome::Empty {
            return Ok(TaskReceipt::without_file(plan, line, outcome));
        }
        let gone = || Error::conflict(change.target_path(at), "has gone since it was made; run the task again");
        let made = MadeShard::read(change.target(), at)?.ok_or_else(gone)?;
        Ok(TaskReceipt::of_file(plan, line, outcome, &made))
    }

    fn check_sources(&self, sources: &[SourceKey]) -> Result<()> {
        refuse_changed(&self.file.header.source, sources)
    }

    fn array(&self, name: &str) -> Result<Arc<OpenedArray>> {
        let mut arrays = self.arrays.lock().unpoisoned();
        if let Some(array) = arrays.get(name) {
            return Ok(array.clone());
        }
        let line = self.file.array(name)?;
        self.check_sources(std::slice::from_ref(&line.described))?;
        let header = &self.file.header;
        let path = if line.source.is_empty() { header.source.clone() } else { header.source.join(&line.source) };
        let source = Array::open_exactly(&path)?.ok_or_else(|| Error::not_found(&path, "is no array any more"))?;
        let target = Array::described(&Staging::place(&self.staging, name), &line.document)?;
        let RepackOptions { order, sync, reflink, .. } = header.options;
        let options = RepackOptions { codec: Some(line.codec), order, sync, reflink, ..RepackOptions::default() };
        let change = Change::of_task(source, target, &options, self.pool.clone())?;
        let lanes = ShardLanes::new(&[&change], 1, self.options.memory_bytes, self.options.workers)?;
        let array = Arc::new(OpenedArray { change, chunks_at_once: lanes.chunks_at_once });
        arrays.insert(name.to_owned(), array.clone());
        Ok(array)
    }
}
