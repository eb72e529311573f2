//! Runs tasks: one shard after the other, each made as if nobody else were there, and named once.

use std::collections::HashMap;
use std::fs;
use std::io::{self, ErrorKind::WouldBlock};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use rayon::ThreadPool;
use serde::Serialize;

use super::file::{ArrayLine, Header, LevelLine, NewArray, Operation, SourceKey, TaskFile, TaskLine, TaskName};
use super::finished::Finished;
use super::plan::{key_in, refuse_changed};
use super::receipt::{MadeShard, ReceiptLog, TaskOutcome, TaskReceipt};
use crate::error::{Error, Result};
use crate::fs::{self as os, links, look, system};
use crate::offline::answers::Answered;
use crate::offline::array::Array;
use crate::offline::manifest::ShardChunks;
use crate::offline::progress::{Progress, ProgressCounters, Tally, controls, pool};
use crate::offline::pyramid;
use crate::offline::repack::{Change, RECEIPTS, RepackOptions, ShardLanes, ShardOutcome, Staging};
use crate::offline::verify::ShardChecker;
use crate::sync::Unpoisoned;
use crate::words::quoted;

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
/// A task opens what its line names and nothing else, and takes no lock; only the first ones of a plan look once
/// whether the folder of the result is empty. It may be run twice, also at the same time and on several machines: the
/// same bytes come of it, and the first file that is whole and read back has the name. Where nothing is made, what a
/// task has found stands in a folder beside the file of tasks, `answers-…`, which
/// [`FinishTasks`](super::FinishTasks) removes; from then on, no task is run, as where the result is there.
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
    /// The path of the file of the whole plan.
    tasks: PathBuf,
    staging: PathBuf,
    options: TaskOptions,
    pool: Arc<ThreadPool>,
    /// Arrays that tasks have needed so far.
    arrays: Mutex<HashMap<String, Arc<Opened>>>,
    log: ReceiptLog,
    counters: ProgressCounters,
}

/// An array and what tasks do with its shards.
#[derive(Debug)]
struct Opened {
    line: ArrayLine,
    work: Work,
}

#[derive(Debug)]
enum Work {
    /// They make those of another.
    Make {
        change: Box<Change>,
        chunks_at_once: usize,
    },
    Check(Box<ShardChecker>),
    List(Box<Array>),
}

/// Below which folders arrays stand.
struct Places {
    /// Levels that others are made of.
    before: PathBuf,
    /// What is made.
    new: PathBuf,
}

controls!(RunTasks);

impl RunTasks {
    /// Opens the file of tasks at `path`, and looks whether its tasks may work in the place of the result.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when there is none, or it can't be read; [`Error::Format`] and [`Error::Unsupported`] when it is
    /// no file of tasks, was changed since it was written, or is of another version; [`Error::Conflict`] when it lies
    /// in one of its datasets, or shards of another plan stand where the result is to be made, which has to be finished
    /// or given up first; [`Error::Config`] for a number of threads that does not go.
    pub fn open(path: impl AsRef<Path>, options: &TaskOptions) -> Result<Self> {
        let file = TaskFile::open(path.as_ref())?;
        links::enter(&file.header.source);
        let out = &file.header.out;
        let (staging, log) = match &file.header.operation {
            Operation::Repack(_) => (Staging::beside(out), None),
            Operation::Pyramid(_) => (os::hidden(out, "pyramid"), None),
            Operation::Verify | Operation::Manifest(_) => (PathBuf::new(), Some(file.answers())),
        };
        let log = ReceiptLog::new(&log.unwrap_or_else(|| staging.join(RECEIPTS)))?;
        let (options, pool) = (options.clone(), Arc::new(pool(options.workers)?));
        let (arrays, counters) = (Mutex::default(), ProgressCounters::default());
        let tasks = file.of_plan();
        let tasks = std::path::absolute(&tasks).map_err(|error| Error::io("find", &tasks, error))?;
        let run = Self { file, tasks, staging, options, pool, arrays, log, counters };
        run.refuse_other_plan().map(|()| run)
    }

    /// Refuses, before any task is run, a place in which another plan's shards are, unless the result is there.
    fn refuse_other_plan(&self) -> Result<()> {
        let Header { id, operation, out, .. } = &self.file.header;
        if operation.only_reads() || Staging::plan(&self.staging)?.is_none_or(|plan| plan == *id) {
            return Ok(());
        }
        let has_result = match operation {
            Operation::Pyramid(_) => self.file.arrays()?.iter().any(|array| array.has_its_name(out).unwrap_or(false)),
            _ => out.exists(),
        };
        if has_result { Ok(()) } else { Staging::refuse_plan(&self.staging, Some(id)) }
    }

    /// How many tasks the file has.
    pub fn tasks(&self) -> u64 {
        self.file.header.tasks
    }

    /// Runs a task, and says what it has made: also what was made before. What is only read is read again, until all of
    /// it was and that was told.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] for a task that the file has not; [`Error::Conflict`] when a file of the source is not what
    /// it was when the tasks were planned, or becomes another meanwhile; [`Error::Format`] and [`Error::Codec`] for
    /// damaged chunks, unless these are what is looked for, and for a shard that reads back otherwise than it was
    /// written; [`Error::Io`] as on a full disk, and when a shard of the level before is not made yet, as `WouldBlock`;
    /// [`Error::Exists`] and [`Error::Conflict`] where something else is made in place of the result;
    /// [`Error::Conflict`] for a shard that has gone from the result; [`Error::Config`] for a memory that is too small.
    /// Nothing has the task's name then. While [`FinishTasks`](super::FinishTasks) is at work, a task whose shard is
    /// not there ends with `WouldBlock`.
    pub fn run(&self, task: TaskName<'_>) -> Result<TaskReceipt> {
        let line = self.file.task(task)?;
        let (plan, only_reads) = (&self.file.header.id, self.file.header.operation.only_reads());
        if self.has_result(&line)? {
            return self.finished(&line);
        }
        let made = if only_reads { self.read(&line) } else { self.make(&line) };
        // Somebody else may have made the shard, and then the result, while this one slept.
        if self.has_result(&line)? {
            match only_reads {
                true => self.log.leave(),
                false => Staging::leave(&self.staging, plan),
            }
            return self.finished(&line);
        }
        made
    }

    /// The receipt of a task whose result is there. Its shard must be, too, unless it would hold nothing.
    fn finished(&self, line: &TaskLine) -> Result<TaskReceipt> {
        let Header { id, operation, out, .. } = &self.file.header;
        let place = out.join(&line.id);
        if !operation.only_reads() && !look::exists(&place)? && !self.is_empty(line)? {
            let (out, again) = (out.display(), "and finish them");
            let reason = match operation {
                Operation::Pyramid(_) => "plan the levels anew with the option `overwrite`".to_owned(),
                _ => "remove that, run all tasks again".to_owned(),
            };
            let gone = "is not there, though the result of the tasks is: it was removed since, or somebody else made";
            return Err(Error::conflict(place, format!("{gone} {out}; {reason}, {again}")));
        }
        Ok(TaskReceipt::without_file(id, line, TaskOutcome::Finished))
    }

    /// Whether the shard of a task would hold nothing: it is made once more, apart.
    fn is_empty(&self, line: &TaskLine) -> Result<bool> {
        let out = &self.file.header.out;
        let array = self.file.array(&line.array)?;
        if array.before().is_some() && !line.inputs.iter().any(|input| out.join(input).exists()) {
            return Ok(true);
        }
        let random = system::random_number().map_err(|error| Error::io("create beside", out, error))?;
        let apart = os::hidden(out, &format!("{random:016x}.partial"));
        let outcome = self.made_apart(line, &array, &apart);
        let _ = os::remove_folder(&apart);
        Ok(outcome? == ShardOutcome::Empty)
    }

    fn made_apart(&self, line: &TaskLine, array: &ArrayLine, apart: &Path) -> Result<ShardOutcome> {
        self.check_sources(&line.sources)?;
        let places = Places { before: self.file.header.out.clone(), new: apart.to_path_buf() };
        let Work::Make { change, chunks_at_once } = self.work(array, &places)? else {
            return Err(self.unlike(line, "makes a shard"));
        };
        let position = self.position(&change, line)?;
        let folder = change.target().folder();
        fs::create_dir_all(folder).map_err(|error| Error::io("create", folder, error))?;
        let tally = Tally { counters: &self.counters, added: AtomicU64::new(0) };
        change.checked_shard(&position, chunks_at_once, &tally, &|| Ok(()))
    }

    /// Whether the result of all tasks is there, or the level of this one.
    fn has_result(&self, line: &TaskLine) -> Result<bool> {
        let out = &self.file.header.out;
        match self.file.header.operation {
            Operation::Pyramid(_) => self.file.array(&line.array)?.has_its_name(out),
            Operation::Repack(_) => Ok(out.exists()),
            Operation::Verify | Operation::Manifest(_) => Ok(Finished::holds(&self.file)),
        }
    }

    /// Looks at a shard of the source, and notes what was found.
    fn read(&self, line: &TaskLine) -> Result<TaskReceipt> {
        let start = Instant::now();
        let opened = self.opened(&line.array)?;
        let [source] = &line.sources[..] else {
            return Err(self.unlike(line, "reads one file"));
        };
        let array = match &opened.work {
            Work::Check(checker) => checker.array(),
            Work::List(array) => array,
            Work::Make { change, .. } => change.source(),
        };
        let position = array.file_position(key_in(&line.id, &line.array)).filter(|_| source.0 == line.id);
        let position = position.ok_or_else(|| self.unlike(line, "is that of a shard of its array"))?;
        self.check_sources(&line.sources)?;
        let (root, counters) = (&self.file.header.source, &self.counters);
        counters.go_on()?;
        let seconds = |receipt| TaskReceipt { seconds: start.elapsed().as_secs_f64(), ..receipt };
        let receipt = |chunks| seconds(TaskReceipt::of_read(&self.file.header.id, line, (source, chunks)));
        if let Work::Check(checker) = &opened.work {
            let found = self.pool.install(|| checker.check(root, &position, counters))?;
            self.answer(line, receipt(found.chunks()), &found)
        } else {
            let gone = || Error::conflict(root.join(&line.id), "has gone since the tasks were planned");
            let found = ShardChunks::read(array, &position)?.ok_or_else(gone)?;
            self.answer(line, receipt(found.count()), &found)
        }
    }

    fn answer(&self, line: &TaskLine, receipt: TaskReceipt, answer: &impl Serialize) -> Result<TaskReceipt> {
        self.check_sources(&line.sources)?;
        self.log.add(&Answered { receipt: &receipt, answer })?;
        Ok(receipt)
    }

    fn unlike(&self, line: &TaskLine, what: &str) -> Error {
        Error::format(&self.file.path, format!("has a task {}, of which it is not so that it {what}", quoted(&line.id)))
    }

    fn make(&self, line: &TaskLine) -> Result<TaskReceipt> {
        let start = Instant::now();
        let opened = self.opened(&line.array)?;
        let Work::Make { change, chunks_at_once } = &opened.work else {
            return Err(self.unlike(line, "makes a shard"));
        };
        let position = self.position(change, line)?;
        self.check_sources(&line.sources)?;
        line.inputs.iter().chain([&line.id]).try_for_each(|name| Staging::refuse_planted(&self.staging, name))?;
        if !Staging::join(&self.staging, &self.file.header.id, &self.tasks)? {
            return self.found(line, change, &position);
        }
        Staging::make_place(&self.staging, change.target().folder())?;
        let outcome = if self.has_inputs(line, &opened.line)? {
            let tally = Tally { counters: &self.counters, added: AtomicU64::new(0) };
            let check = || self.check_sources(&line.sources);
            match change.checked_shard(&position, *chunks_at_once, &tally, &check)? {
                ShardOutcome::Written { .. } => TaskOutcome::Written,
                ShardOutcome::Found { .. } => TaskOutcome::Found,
                ShardOutcome::Empty => TaskOutcome::Empty,
            }
        } else {
            TaskOutcome::Empty
        };
        if outcome == TaskOutcome::Empty {
            Staging::put_empty(&self.staging, &line.id)?;
        }
        let receipt = self.receipt(line, outcome, change, &position)?;
        let receipt = TaskReceipt { seconds: start.elapsed().as_secs_f64(), ..receipt };
        self.log.add(&receipt)?;
        Ok(receipt)
    }

    /// The receipt of a shard that is there while the end of all tasks is at work, which takes no more.
    fn found(&self, line: &TaskLine, change: &Change, at: &[u64]) -> Result<TaskReceipt> {
        let waits = "`finish` has begun, and this shard is not there: call that again, which names what is missing, \
                     and then run this again";
        let not_now = || Error::io("make", self.staging.join(&line.id), io::Error::new(WouldBlock, waits));
        let is_made = Staging::is_made(&self.staging, &line.id)?.ok_or_else(not_now)?;
        let outcome = if is_made { TaskOutcome::Found } else { TaskOutcome::Empty };
        self.receipt(line, outcome, change, at)
    }

    fn position(&self, change: &Change, line: &TaskLine) -> Result<Vec<u64>> {
        let other = || Error::format(&self.file.path, format!("names the shard {}, which the result has not", line.id));
        change.target_position(key_in(&line.id, &line.array)).ok_or_else(other)
    }

    /// Whether anything is there that a shard is made of. Of a level, all of that must be made, or known to be nothing.
    fn has_inputs(&self, line: &TaskLine, array: &ArrayLine) -> Result<bool> {
        if array.before().is_none() {
            return Ok(true);
        }
        let mut has_some = false;
        for input in &line.inputs {
            let waits = "is of the level before, and is not made yet; run its task first, and then this one again";
            let not_yet = || Error::io("read", self.staging.join(input), io::Error::new(WouldBlock, waits));
            has_some |= Staging::is_made(&self.staging, input)?.ok_or_else(not_yet)?;
        }
        Ok(has_some)
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

    fn opened(&self, name: &str) -> Result<Arc<Opened>> {
        let mut arrays = self.arrays.lock().unpoisoned();
        if let Some(array) = arrays.get(name) {
            return Ok(array.clone());
        }
        let line = self.file.array(name)?;
        let tree = Staging::place(&self.staging, "");
        let work = self.work(&line, &Places { before: tree.clone(), new: tree })?;
        let opened = Arc::new(Opened { line, work });
        arrays.insert(name.to_owned(), opened.clone());
        Ok(opened)
    }

    fn work(&self, line: &ArrayLine, places: &Places) -> Result<Work> {
        self.check_sources(std::slice::from_ref(&line.described))?;
        let path = below_root(&self.file.header.source, &line.source);
        let source = Array::open_exactly(&path)?.ok_or_else(|| Error::not_found(&path, "is no array any more"))?;
        match (&self.file.header.operation, &line.new) {
            (Operation::Verify, None) => Ok(Work::Check(Box::new(ShardChecker::new(source, line.said.as_ref())?))),
            (Operation::Manifest(_), None) => Ok(Work::List(Box::new(source))),
            (Operation::Repack(_) | Operation::Pyramid(_), Some(new)) => self.making(&line.array, new, source, places),
            _ => Err(Error::format(&self.file.path, "has arrays of another operation than its own")),
        }
    }

    /// An array of the result, made of one of the source or, if it is a level, perhaps of the level before.
    fn making(&self, name: &str, new: &NewArray, source: Array, places: &Places) -> Result<Work> {
        let described = |place: &Path, name: &str, document| Array::described(&below_root(place, name), document);
        let target = described(&places.new, name, &new.document)?;
        let change = match (&self.file.header.operation, &new.level) {
            (Operation::Repack(options), None) => {
                let RepackOptions { order, sync, reflink, .. } = *options;
                let codec = Some(new.codec.clone());
                let options = RepackOptions { codec, order, sync, reflink, ..RepackOptions::default() };
                Change::of_task(source, target, &options, self.pool.clone())?
            }
            (Operation::Pyramid(options), Some(LevelLine { steps, before, .. })) => {
                let source = match before {
                    None => source,
                    Some(before) => {
                        let line = self.file.array(before)?;
                        let new = line.new.ok_or_else(|| Error::format(&self.file.path, "has a level of nothing"))?;
                        described(&places.before, before, &new.document)?
                    }
                };
                pyramid::level(source, target, (steps, options), &self.file.path, self.pool.clone())?
            }
            _ => return Err(Error::format(&self.file.path, "has arrays of another operation than its own")),
        };
        let lanes = ShardLanes::new(&[&change], 1, self.options.memory_bytes, self.options.workers)?;
        Ok(Work::Make { change: Box::new(change), chunks_at_once: lanes.chunks_at_once })
    }
}

fn below_root(root: &Path, name: &str) -> PathBuf {
    if name.is_empty() { root.to_path_buf() } else { root.join(name) }
}
