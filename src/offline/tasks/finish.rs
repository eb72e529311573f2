//! The end of all tasks: sees that what each has made or found is there, and is the operation itself, which takes that
//! in place of doing it.

use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use rayon::ThreadPool;
use serde::Serialize;

use super::file::{Header, Operation, TaskFile, TaskLine};
use super::finished::{Finished, Told};
use super::look::{LookAt, Looked, Seen};
use super::plan::{Planned, TaskPlan, put_line, refuse_changed};
use super::receipt::Receipts;
use crate::error::{Error, Result};
use crate::fs as os;
use crate::offline::answers::Answers;
use crate::offline::manifest::{ManifestOptions, ManifestSummary, WriteManifest};
use crate::offline::progress::{Progress, ProgressCounters, pool};
use crate::offline::pyramid::{EarlierLevels, Pyramid, PyramidSummary};
use crate::offline::repack::{Repack, RepackSummary, ShardOutcome, Staging};
use crate::offline::verify::{Verification, Verify, VerifyOptions};

/// Ids that a summary names.
const NAMES_MAX: usize = 20;

/// What became of all tasks.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TasksSummary {
    /// Tasks of the plan.
    pub tasks: u64,
    /// How many of their shards are not there, not what was made, or not read. If there are any, there is no result
    /// yet.
    pub missing: u64,
    /// The first of them, by their ids: at most 20.
    pub missing_ids: Vec<String>,
    /// A file of tasks with nothing but these, if it could be written.
    pub missing_tasks: Option<PathBuf>,
    /// Shards that were made or read twice: a task ran again after it had ended, or twice at once.
    pub redone: u64,
    /// Shards that were made, or read.
    pub shards: u64,
    /// Bytes of the chunks of these, as they are stored, where they were made.
    pub bytes: u64,
    /// The result was there.
    pub already_done: bool,
    /// What the operation tells; of a repacking, there is nothing else to tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<TasksReport>,
}

/// What an operation tells whose tasks are finished.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum TasksReport {
    /// Of [`Verify`].
    Verification(Verification),
    /// Of [`Pyramid`].
    Pyramid(PyramidSummary),
    /// Of [`WriteManifest`].
    Manifest(ManifestSummary),
}

/// Makes the result of what tasks have made or found.
#[derive(Debug)]
pub struct FinishTasks {
    file: TaskFile,
    end: End,
    /// The arrays of the ids in the file.
    arrays: Vec<u32>,
    pool: ThreadPool,
    counters: ProgressCounters,
}

/// What there is to do.
#[derive(Debug)]
enum End {
    /// Nothing, as it was done.
    DoneRepack(Box<Repack>),
    DonePyramid(Box<Pyramid>),
    DoneReadings(Box<TasksReport>),
    /// Shards of these are made.
    Make(Planned),
    /// The shards of arrays with these names were read.
    Verify(Verify, Vec<String>),
    Manifest(Box<WriteManifest>, Vec<String>),
}

impl FinishTasks {
    /// Lets [`run`](Self::run) end as soon as it can, with [`Error::Stopped`]; for another thread to call. It is for
    /// good: what goes on from there is a new one.
    pub fn stop(&self) {
        self.counters.stop();
        match &self.end {
            End::Verify(verify, _) => verify.stop(),
            End::Manifest(manifest, _) => manifest.stop(),
            End::DoneRepack(_) | End::DonePyramid(_) | End::DoneReadings(_) | End::Make(_) => {}
        }
    }

    /// Whether tasks only read: what may be missing are answers, and no shards.
    pub fn only_reads(&self) -> bool {
        self.file.header.operation.only_reads()
    }

    /// How many tasks [`run`](Self::run) has looked at; for another thread to ask.
    pub fn progress(&self) -> Progress {
        self.counters.progress()
    }

    /// Opens the file of tasks at `path`, and looks at the dataset and the result as the plan did. Of a file of tasks
    /// that were missing, it is that of the whole plan, which stands beside it. `workers`: threads that look at shards,
    /// and with which a dataset is checked; 0 for one for each core.
    ///
    /// # Errors
    ///
    /// As for [`RunTasks::open`](super::RunTasks::open) and those of [`TaskPlan`]; [`Error::Conflict`] when what would
    /// be planned now is not what the file says: the source was changed.
    pub fn new(path: impl AsRef<Path>, workers: usize) -> Result<Self> {
        let file = TaskFile::open(path.as_ref())?.whole()?;
        let Header { operation, tasks, .. } = &file.header;
        let (pool, counters) = (pool(workers)?, ProgressCounters::of(*tasks));
        let (end, arrays) = match operation {
            Operation::Repack(_) => Self::repack(&file)?,
            Operation::Pyramid(_) => Self::pyramid(&file)?,
            Operation::Verify | Operation::Manifest(_) => Self::readings(&file, workers)?,
        };
        Ok(Self { file, end, arrays, pool, counters })
    }

    fn repack(file: &TaskFile) -> Result<(End, Vec<u32>)> {
        let Header { operation: Operation::Repack(options), source, out, .. } = &file.header else {
            return Err(file.is_other());
        };
        match TaskPlan::repack(source, out, options) {
            Err(Error::Exists { .. }) => {
                let repack = Repack::new(source, Some(out), options)?;
                Ok((End::DoneRepack(Box::new(repack)), Vec::new()))
            }
            plan => same_plan(plan?, file).map(|(planned, arrays)| (End::Make(planned), arrays)),
        }
    }

    fn pyramid(file: &TaskFile) -> Result<(End, Vec<u32>)> {
        let Header { operation: Operation::Pyramid(options), source, .. } = &file.header else {
            return Err(file.is_other());
        };
        let pyramid = Pyramid::new(source, options)?;
        // Of a call that may replace levels, those that are there are not the result, unless they have come since.
        let is_done = || -> Result<bool> {
            let lines = file.arrays()?;
            let has_names = lines.iter().map(|line| line.has_its_name(source)).collect::<Result<Vec<_>>>()?;
            Ok(has_names.into_iter().all(|has_name| has_name) && pyramid.has_levels()?)
        };
        match pyramid.earlier() {
            EarlierLevels::Complete => Ok((End::Make(Planned::Pyramid(Box::new(pyramid), Vec::new())), Vec::new())),
            earlier if earlier == EarlierLevels::Done || is_done()? => {
                Ok((End::DonePyramid(Box::new(pyramid)), Vec::new()))
            }
            _ => {
                let (planned, arrays) = same_plan(TaskPlan::of_pyramid(pyramid)?, file)?;
                Ok((End::Make(planned), arrays))
            }
        }
    }

    fn readings(file: &TaskFile, workers: usize) -> Result<(End, Vec<u32>)> {
        let Header { operation, source, out, .. } = &file.header;
        let done = told_before(file);
        let (manifest, plan) = match operation {
            Operation::Manifest(options) => {
                // What an earlier call has written is in no way.
                let overwrite = options.overwrite || done.is_some();
                let allowed = ManifestOptions { overwrite, ..options.clone() };
                let manifest = WriteManifest::new(source, Some(out), &allowed)?;
                let plan = TaskPlan::of_manifest(&manifest, options)?;
                (Some(manifest), plan)
            }
            _ => (None, TaskPlan::verify(source)?),
        };
        let (Planned::Readings(names), arrays) = same_plan(plan, file)? else { return Err(file.is_other()) };
        let end = match (done, manifest) {
            (Some(report), _) => End::DoneReadings(Box::new(report)),
            (None, Some(manifest)) => End::Manifest(Box::new(manifest), names),
            (None, None) => End::Verify(Verify::new(source, &VerifyOptions { workers })?, names),
        };
        Ok((end, arrays))
    }

    /// Sees that the shard of every task is there, with the length and the index that its receipt says and, if it was
    /// touched since, the same bytes; then makes everything else, documents last, and gives the result its name. What
    /// is not what was made is removed, so that its task can run again. Where shards were only read, each must have
    /// been, and then the operation is run, which takes what was found; at its end, that is removed. What the operation
    /// tells is kept beside the file of tasks, in one whose name ends in `.finished.json`: another call tells the same,
    /// until that file is removed, or the tasks are planned again.
    ///
    /// Where shards are missing, there is no result: they are in the summary, and beside the file of tasks is one with
    /// their tasks, whose name ends in `.missing.jsonl`.
    ///
    /// # Errors
    ///
    /// As for the `run` of the operation.
    pub fn run(&self) -> Result<TasksSummary> {
        match &self.end {
            End::DoneRepack(repack) => {
                let shards = repack.finish_planned(&[])?.shards_found;
                self.none_is_missing();
                Ok(TasksSummary { shards, already_done: true, ..self.summary() })
            }
            End::DonePyramid(pyramid) => {
                Staging::leave(pyramid.places().1, &self.file.header.id);
                self.none_is_missing();
                Ok(self.of_pyramid(pyramid.done_summary()))
            }
            End::DoneReadings(report) => {
                self.leave_readings();
                let (shards, report) = (self.file.header.tasks, Some(TasksReport::clone(report)));
                Ok(TasksSummary { shards, already_done: true, report, ..self.summary() })
            }
            End::Make(planned) => self.make(planned),
            End::Verify(verify, names) => self.read(names, &|answers| {
                let told = verify.run_with(Some(answers))?;
                // A full disk is no reason to tell nothing. Another call has what was found, then.
                let is_kept = Finished::put(&self.file, Told::Verify(told.clone()), None).is_ok();
                Ok((TasksReport::Verification(told), is_kept))
            }),
            End::Manifest(manifest, names) => self.read(names, &|answers| {
                let keep = |told: &ManifestSummary, made: &Path| {
                    Finished::put(&self.file, Told::Manifest(told.clone()), Some(made))
                };
                match manifest.run_with(Some(answers), &keep) {
                    // Another call may have written them meanwhile.
                    Err(error @ Error::Exists { .. }) => told_before(&self.file).ok_or(error),
                    told => told.map(TasksReport::Manifest),
                }
                .map(|report| (report, true))
            }),
        }
    }

    fn summary(&self) -> TasksSummary {
        TasksSummary { tasks: self.file.header.tasks, ..TasksSummary::default() }
    }

    fn of_pyramid(&self, told: PyramidSummary) -> TasksSummary {
        let (shards, bytes, already_done) = (told.shards_written, told.bytes, told.already_done);
        TasksSummary { shards, bytes, already_done, report: Some(TasksReport::Pyramid(told)), ..self.summary() }
    }

    /// Finishes what is made of shards.
    fn make(&self, planned: &Planned) -> Result<TasksSummary> {
        let staging = match planned {
            Planned::Pyramid(pyramid, _) => pyramid.places().1,
            Planned::Repack(repack) => repack.places().2,
            Planned::Readings(_) => return Err(self.file.is_other()),
        };
        let plan = &self.file.header.id;
        Staging::refuse_plan(staging, Some(plan))?;
        if let Planned::Pyramid(pyramid, _) = planned
            && pyramid.earlier() == EarlierLevels::Complete
        {
            return Ok(self.of_pyramid(pyramid.finish_planned(&[])?));
        }
        let held = Staging::hold(staging)?;
        let receipts = Receipts::read(staging, plan)?;
        let Looked { made, missing } = self.look_at(LookAt::Made(&planned.changes()?, &receipts, staging))?;
        // Another call may have made it meanwhile.
        let is_made = matches!(planned, Planned::Repack(_)) && self.file.header.out.exists();
        if !missing.is_empty() && is_made {
            return Ok(TasksSummary { already_done: true, ..self.summary() });
        }
        if held.is_some() && !missing.is_empty() {
            Staging::reopen(staging)?;
        }
        drop(held);
        let redone = receipts.redone;
        drop(receipts);
        if !missing.is_empty() {
            return self.missing(missing, redone);
        }
        let summary = match planned {
            Planned::Pyramid(pyramid, _) => {
                let made: Vec<ShardOutcome> = made.into_iter().map(|(_, outcome)| outcome).collect();
                self.of_pyramid(pyramid.finish_planned(&made)?)
            }
            Planned::Repack(repack) => {
                let RepackSummary { shards_written: shards, bytes, .. } = repack.finish_planned(&made)?;
                TasksSummary { shards, bytes, ..self.summary() }
            }
            Planned::Readings(_) => return Err(self.file.is_other()),
        };
        self.none_is_missing();
        Ok(TasksSummary { redone, ..summary })
    }

    /// Runs an operation of which shards of the arrays with these names were read.
    /// `report`: what it tells, and whether another call would find that.
    fn read(&self, names: &[String], report: &dyn Fn(&Answers) -> Result<(TasksReport, bool)>) -> Result<TasksSummary> {
        let folder = self.file.answers();
        let answers = Answers::read(&folder, &self.file.header.id)?;
        let Looked { missing, .. } = self.look_at(LookAt::Read(names, &answers))?;
        if !missing.is_empty() {
            return self.missing(missing, answers.repeated);
        }
        let (report, is_kept) = report(&answers)?;
        if is_kept {
            self.leave_readings();
        }
        let (shards, redone) = (self.file.header.tasks, answers.repeated);
        Ok(TasksSummary { shards, redone, report: Some(report), ..self.summary() })
    }

    /// Removes what tasks have found, of which everything was told. A late one may be about to write there, and removes
    /// that itself.
    fn leave_readings(&self) {
        let _ = os::remove_folder(&self.file.answers());
        if let Operation::Manifest(_) = self.file.header.operation {
            os::remove_leftovers(&self.file.header.out);
        }
        self.none_is_missing();
    }

    fn look_at(&self, at: LookAt<'_>) -> Result<Looked> {
        let seen = Seen { file: &self.file, arrays: &self.arrays, counters: &self.counters };
        self.pool.install(|| seen.look(&at))
    }

    /// Removes what an earlier call has written, which had not all of them.
    fn none_is_missing(&self) {
        let _ = fs::remove_file(self.missing_file());
    }

    fn missing_file(&self) -> PathBuf {
        self.file.path.with_extension("missing.jsonl")
    }

    fn missing(&self, missing: Vec<TaskLine>, redone: u64) -> Result<TasksSummary> {
        let count = missing.len() as u64;
        let missing_ids = missing.iter().take(NAMES_MAX).map(|task| task.id.clone()).collect();
        let file = self.missing_file();
        // What is missing is told, whatever becomes of that file.
        let missing_tasks = self.write_missing(&file, missing).is_ok().then_some(file);
        Ok(TasksSummary { missing: count, missing_ids, missing_tasks, redone, ..self.summary() })
    }

    /// Writes a file of tasks with nothing but these.
    fn write_missing(&self, path: &Path, missing: Vec<TaskLine>) -> Result<()> {
        let failed = |error| Error::io("write", path, error);
        let partial = os::hidden(path, "partial");
        let mut file = BufWriter::new(os::create_new(&partial).map_err(failed)?);
        let whole = self.file.path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
        put_line(&mut file, &Header { tasks: missing.len() as u64, whole, ..self.file.header.clone() })?;
        self.file.arrays()?.iter().try_for_each(|array| put_line(&mut file, array))?;
        for (task, line) in (0..).zip(missing) {
            put_line(&mut file, &TaskLine { task, ..line })?;
        }
        file.flush().map_err(failed)?;
        os::rename(&partial, path, false)
    }
}

/// What an earlier call has told of tasks that only read, if what it has written is there as it was.
fn told_before(file: &TaskFile) -> Option<TasksReport> {
    let earlier = Finished::of(file)?;
    let is_there = file.header.operation == Operation::Verify || earlier.is_of(&file.header.out);
    is_there.then(|| match earlier.told() {
        Told::Verify(told) => TasksReport::Verification(told),
        Told::Manifest(told) => TasksReport::Manifest(told),
    })
}

/// What is planned now, if it is what was planned then.
fn same_plan(plan: TaskPlan, file: &TaskFile) -> Result<(Planned, Vec<u32>)> {
    if !plan.is_of(&file.header) {
        // Which of its files it is, is worth a look at all.
        let source = &file.header.source;
        file.tasks()?.try_for_each(|task| refuse_changed(source, &task?.sources))?;
        return Err(Error::conflict(source, "is not what it was when the tasks were planned; plan them again"));
    }
    if !plan.has_arrays_of(file)? {
        return Err(file.is_other());
    }
    Ok(plan.into_parts())
}
