//! Repacking: closes the gaps in shards, puts chunks in order, and where asked for encodes them again or cuts them
//! otherwise.
//!
//! Shards are made one by one: read, written beside their place, synced, read back and compared, and only then named.
//! So that a call which was killed can be repeated, and goes on where the last one stopped:
//!
//! - In place, if only the places of chunks change, each new shard replaces the old one by a rename. What is done is
//!   seen from the shards themselves: one whose chunks stand in order and without gaps is left alone. Readers see a
//!   whole shard at any time.
//! - Otherwise the new arrays come into being in a hidden folder beside the dataset, and take the old ones' places when
//!   all of their shards are there. Shards that a killed call has finished have their names already; a journal in that
//!   folder says what they were made of, so that they are not used for something else.
//!
//! In every case the old files are whole until the new ones were compared.

mod array_notes;
pub(super) mod change;
mod choice;
mod chunks;
pub(super) mod consolidated;
mod copied;
mod design;
pub(super) mod documents;
pub(super) mod groups;
mod image_attributes;
mod jobs;
pub(super) mod lanes;
mod left_out;
mod listing;
pub(super) mod lock;
mod missing;
mod nodes;
mod ome_lists;
mod options;
mod order;
mod pack;
mod places;
pub(super) mod planned;
mod receipt;
mod refusal;
mod rest;
mod selection;
mod settle;
pub(super) mod shard;
mod source_file;
pub(super) mod space;
pub(super) mod staging;
mod target;
mod transcode;
mod transcoder;
mod volume;
mod writer;
mod zarr2_arrays;
mod zarr2_tree;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use serde_json::{Map, Value, json};

use crate::archive_file::is_archive_name;
use crate::error::{Error, Result};
use crate::format::provenance::ProvenanceMut;
use crate::format::zarr3;
use crate::fs::{self as os, Lock};
use crate::offline::hierarchy::walk;
use crate::offline::not_fetched;
use crate::offline::progress::{Progress, ProgressCounters, controls, pool};
use crate::replaceable::refuse_consolidated;
use crate::sync::Unpoisoned;
pub(super) use change::Change;
use consolidated::Consolidated;
use copied::CopiedArrays;
use jobs::{ArrayJob, ArrayJobs, Call, ResultForm};
pub(super) use lanes::ShardLanes;
pub use options::{RepackOptions, RepackSummary, Sharding, SpaceCheck};
pub use order::ChunkOrder;
pub(super) use planned::PlannedArray;
use rest::{Rest, copy_document};
use selection::Selection;
use settle::Mentions;
pub(super) use shard::ShardOutcome;
use staging::below;
pub(super) use staging::{RECEIPTS, Staging};

/// A repacking that was checked and can be run.
///
/// ```no_run
/// use shardwright::offline::{Repack, RepackOptions};
/// use shardwright::{Codec, Compressor};
///
/// let archive = RepackOptions { codec: Some(Codec::from(Compressor::Zstd { level: 9 })), ..RepackOptions::default() };
/// let summary = Repack::new("run.ome.zarr", Some("archive.ome.zarr".as_ref()), &archive)?.run()?;
/// println!("{} shards", summary.shards_written);
/// # Ok::<(), shardwright::Error>(())
/// ```
#[derive(Debug)]
pub struct Repack {
    root: PathBuf,
    out: Option<PathBuf>,
    staging: PathBuf,
    options: RepackOptions,
    plan: ArrayJobs,
    /// Links that become what they lead to.
    followed: HashSet<PathBuf>,
    /// The shards of all jobs, by job and position.
    todo: Vec<(usize, Vec<u64>)>,
    counters: ProgressCounters,
    done: Option<EarlierResult>,
    /// Until the end of its run.
    lock: Mutex<Option<Lock>>,
}

/// A new dataset that an earlier call has made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EarlierResult {
    /// That call was killed when nothing was left to do but to tidy up.
    Untidy,
    /// All is as that call left it.
    Tidy,
}

controls!(Repack);

impl Repack {
    /// Looks at the dataset or array at `path` and checks what is asked for; nothing is written yet.
    ///
    /// The result goes to the new dataset `out`, or takes the place of the old one. All arrays with shards are
    /// repacked, and arrays whose chunks are files where something is asked for that changes them; these keep their
    /// files unless they are to get shards. Everything else is copied as it is, or left as it is, but for manifests,
    /// which become what they name, and for what would stand where the result has something of its own.
    /// In a dialect other than [`Zarr3`](crate::Dialect::Zarr3), what changes more than the places of chunks can be
    /// only the one array of a dataset; [`Zarr2`](crate::Dialect::Zarr2) takes whole trees of Zarr v3.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] for sizes, levels or a memory that don't go, for options that are about none of its arrays,
    /// for what the dialect can't hold or can't become in place, and for an `out` that is the dataset or lies in it;
    /// [`Error::Exists`] when `out` is there and not what an earlier call made with the same options of the same files;
    /// [`Error::Locked`] when somebody writes the dataset or repacks it; [`Error::Io`] of the kind `NotFound` when
    /// nothing is at `path`; [`Error::NotFound`] when it has no arrays, or not what the options name; [`Error::Format`]
    /// and [`Error::Unsupported`] when it or an array in it can't be read, or lacks chunks that its writer counted;
    /// [`Error::Unfinished`] when its writer did not finish; [`Error::Conflict`] for something else in the way of the
    /// result.
    pub fn new(path: impl AsRef<Path>, out: Option<&Path>, options: &RepackOptions) -> Result<Self> {
        let (root, options) = selection::of_path(places::root_of(path.as_ref(), out.is_none())?, options)?;
        let out = out.map(os::absolute).transpose()?;
        let options = if out.is_some() { options.with_dialect(None) } else { options.into_owned() };
        let staging = Staging::beside(out.as_ref().unwrap_or(&root));
        let is_there = out.as_ref().is_some_and(|out| out.exists());
        if is_there {
            Staging::sweep(&staging);
        }
        out.iter().try_for_each(|out| places::check_out(&root, out, options.to()))?;
        out.iter().filter(|_| !is_there).try_for_each(|out| refuse_consolidated("out", out))?;
        let lock = if out.is_some() { lock::to_read(&root)? } else { Some(lock::to_write(&root)?) };
        Lock::look_below(&root)?;
        let nodes = walk::nodes(&root)?;
        missing::refuse_unfinished(&root, &nodes, options.incomplete)?;
        let not_fetched = not_fetched::notes(&nodes);
        let copied = out.is_some();
        let (options, note) = &choice::settled(&nodes, &options, copied)?;
        let selection = &Selection::new(&nodes, options, copied)?;
        let absent = choice::absent(&nodes, selection)?;
        let pool = Arc::new(pool(options.workers)?);
        let arrays = CopiedArrays::among(&nodes, &root);
        let call = Call { root: &root, copied, staging: &staging, absent: &absent, selection, pool: &pool };
        let mut plan = choice::jobs(nodes, &call)?;
        plan.notes.extend(note.iter().cloned().chain(not_fetched));
        let done = match &out {
            Some(out) if is_there && !receipt::is_of(out, &root, &plan.jobs, options)? => {
                return Err(Error::exists_for_good(out));
            }
            Some(_) if is_there && Staging::is_left(&staging)? => Some(EarlierResult::Untidy),
            Some(_) if is_there => Some(EarlierResult::Tidy),
            _ => None,
        };
        if done.is_none() {
            // A call in place that was killed may have left new chunks beside the old count.
            let was_begun = out.is_none() && staging.exists();
            plan.jobs.iter_mut().try_for_each(|job| job.look_for_lost(options, was_begun))?;
        }
        let mut todo = Vec::new();
        for (number, job) in plan.jobs.iter().enumerate() {
            todo.extend(job.change.positions()?.into_iter().map(|position| (number, position)));
        }
        let pixels = todo.iter().map(|(job, position)| plan.jobs[*job].change.pixel_bytes(position));
        let counters = ProgressCounters::of(pixels.fold(0, u64::saturating_add));
        let (options, followed, lock) = (options.clone(), HashSet::new(), Mutex::new(lock));
        let mut repack = Self { root, out, staging, options, plan, followed, todo, counters, done, lock };
        repack.refuse_at_once(arrays)?;
        Ok(repack)
    }

    /// Refuses what a run would only meet at its end, or not at all. `arrays`: all of the dataset's.
    fn refuse_at_once(&mut self, arrays: CopiedArrays) -> Result<()> {
        self.lanes()?;
        if self.done.is_some() {
            return Ok(());
        }
        let rest = self.rest();
        let copied = arrays.copied_by(&rest);
        let Some(out) = &self.out else {
            let mut jobs = self.plan.jobs.iter();
            jobs.try_for_each(|job| places::refuse_outside(&self.root, &job.change, job.in_place))?;
            copied.refuse_shared(&rest)?;
            return consolidated::refuse_broken(&self.root, &self.plan.groups);
        };
        self.followed = copied.links(&rest)?;
        self.plan.notes.extend(copied.note());
        if is_archive_name(out) { self.rest().refuse_links() } else { Ok(()) }
    }

    /// What is worth knowing of the arrays that are repacked, as sentences: see
    /// [`Array::notes`](super::Array::notes); and which arrays are left out.
    ///
    /// # Errors
    ///
    /// As for [`Array::notes`](super::Array::notes).
    pub fn notes(&self) -> Result<Vec<String>> {
        let mut notes = self.plan.notes.clone();
        let documents = self.plan.jobs.iter().map(|job| job.change.source.document());
        notes.extend(places::note_of_owner(documents.chain([&*self.root])).filter(|_| self.out.is_none()));
        for job in &self.plan.jobs {
            let of = if job.name.is_empty() { String::new() } else { format!("{}: ", job.name) };
            // Nobody else writes it while this holds its lock.
            let said = job.change.source.notes_while(false)?.into_iter().chain(job.given_up.note());
            let beyond = if job.in_place { None } else { job.change.note_of_beyond()? };
            notes.extend(said.chain(beyond).map(|note| of.clone() + &note));
        }
        if self.done.is_none() {
            let of_copied = self.copied().iter().map(Rest::notes).collect::<Result<Vec<_>>>()?;
            notes.extend(of_copied.into_iter().flatten());
        }
        Ok(notes)
    }

    /// Of what the result has the files that are no shards: of the dataset, or of each array that is rebuilt.
    fn copied(&self) -> Vec<Rest<'_>> {
        if self.is_whole() { vec![self.rest()] } else { self.plan.rebuilt().map(|job| self.rest_of(job)).collect() }
    }

    /// Whether all of the dataset is rebuilt: a dialect other than Zarr v3 has its arrays in no folders of their own.
    fn is_whole(&self) -> bool {
        self.out.is_some() || self.plan.form == ResultForm::Designed
    }

    /// Repacks. Several shards are in the making at once, each with several chunks on their way.
    ///
    /// # Errors
    ///
    /// The first error ends the work: a damaged chunk (with its place), a full disk, a new shard that reads back
    /// otherwise than it was written. The old dataset is whole then, and a new `Repack` goes on after the shards that
    /// are finished. Only the first call works, also after [`stop`](Self::stop): what is there afterwards is no longer
    /// what [`new`](Self::new) looked at. Another one is refused with [`Error::Conflict`]. When it ends, the dataset is
    /// locked no longer.
    pub fn run(&self) -> Result<RepackSummary> {
        self.counters.begin_only_run("Repack", &self.root)?;
        let _lock = self.lock.lock().unpoisoned().take();
        if let Some(done) = self.done {
            return self.summary_of(done);
        }
        Staging::refuse_plan(&self.staging, None)?;
        let staged = self.out.is_some() || self.plan.rebuilt().next().is_some();
        if self.options.space == SpaceCheck::Estimated {
            space::SpaceNeeds {
                jobs: &self.plan.jobs,
                todo: &self.todo,
                lanes: self.lanes()?.count as u64,
                copied: self.is_whole().then_some(&self.root),
                result: self.out.as_ref().unwrap_or(&self.root),
            }
            .check()?;
        }
        let worked = self.work(staged, &|| self.make_shards());
        worked.map_err(|error| space::how_to_go_on(error, staged.then_some(&self.staging)))
    }

    fn work(&self, staged: bool, make_shards: &dyn Fn() -> Result<RepackSummary>) -> Result<RepackSummary> {
        if !staged {
            // A call that was killed after the new arrays had taken their places left the old ones there.
            if self.staging.exists() {
                self.consolidated()?.bring_back()?;
            }
            Staging::discard(&self.staging)?;
            let summary = make_shards()?;
            self.mentions().put_groups(&self.root)?;
            self.consolidated()?.refresh()?;
            return Ok(summary);
        }
        let source_files = receipt::of_source(&self.root, &self.plan.jobs)?;
        let staging = Staging::open(&self.staging, &self.journal()?, self.options.sync)?;
        let summary = make_shards()?;
        self.complete(&staging)?;
        match &self.out {
            Some(out) => {
                if receipt::of_source(&self.root, &self.plan.jobs)? != source_files {
                    return Err(Error::changed(&self.root));
                }
                let tree = staging.tree();
                let folder = self.plan.jobs.first().map_or(&*tree, |job| job.change.target.folder());
                let origin =
                    receipt::Origin { source: &self.root, source_files: &source_files, options: &self.options };
                if is_archive_name(out) {
                    pack::pack(&tree, out, &origin, folder)?;
                } else {
                    origin.leave(&tree, folder)?;
                    os::publish_new(&tree, out)?;
                }
            }
            None if self.is_whole() => {
                let consolidated = self.consolidated()?;
                consolidated.set_aside()?;
                places::take(&staging.tree(), &self.root)?;
                self.mentions().put_around()?;
                consolidated.bring_back()?;
            }
            None => self.exchange()?,
        }
        staging.finish()?;
        Ok(summary)
    }

    /// Of every array that is rebuilt, what it becomes, and what of. Where documents and shards don't stand in
    /// folders of their arrays, all are one.
    fn journal(&self) -> Result<Map<String, Value>> {
        let mut arrays = Map::new();
        for job in self.plan.rebuilt() {
            let source = &job.change.source;
            let entry = json!({
                "source": source.path().display().to_string(),
                "fingerprint": staging::fingerprint(source)?,
                "document": job.document,
                "codec": job.change.codec,
                "order": self.options.order,
            });
            arrays.insert(job.name.clone(), entry);
        }
        Ok(if self.plan.form.is_tree() { arrays } else { Map::from_iter([(String::new(), Value::Object(arrays))]) })
    }

    fn mentions(&self) -> Mentions<'_> {
        Mentions { root: &self.root, plan: &self.plan }
    }

    fn consolidated(&self) -> Result<Consolidated> {
        Consolidated::of(&self.root, &self.plan.groups, &self.staging)
    }

    fn changes(&self) -> Vec<&Change> {
        self.plan.jobs.iter().map(|job| &job.change).collect()
    }

    fn lanes(&self) -> Result<ShardLanes> {
        ShardLanes::new(&self.changes(), self.todo.len(), self.options.memory_bytes, self.options.workers)
    }

    fn make_shards(&self) -> Result<RepackSummary> {
        Staging::refuse_plan(&self.staging, None)?;
        let summary = Mutex::new(self.new_summary());
        let made = |job, outcome| self.count(job, outcome, &mut summary.lock().unpoisoned());
        self.lanes()?.make(&self.changes(), &self.todo, &self.counters, made)?;
        Ok(summary.into_inner().unpoisoned())
    }

    fn new_summary(&self) -> RepackSummary {
        let changed = self.plan.groups.iter().filter(|group| self.out.is_none() && group.is_new);
        let (groups_changed, bytes_pixels) = (changed.count() as u64, self.counters.total());
        RepackSummary { groups_changed, bytes_pixels, ..RepackSummary::default() }
    }

    /// Adds what became of a shard.
    fn count(&self, job: usize, outcome: ShardOutcome, summary: &mut RepackSummary) {
        let job = &self.plan.jobs[job];
        if !job.change.target.layout().has_index() && !matches!(outcome, ShardOutcome::Empty) {
            summary.chunk_files += 1;
        }
        job.chunks.fetch_add(outcome.chunks(), Relaxed);
        summary.add(outcome);
    }

    /// What each array becomes: see [`planned::arrays`].
    pub(in crate::offline) fn planned(&self) -> Result<Vec<PlannedArray<'_>>> {
        planned::arrays(&self.root, &self.plan)
    }

    /// Shards of the result that may hold something, by the number of their array.
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
            planned::sweep(&Staging::place(&self.staging, "")).map(|()| summary)
        })?;
        self.counters.find_all();
        // A shard that was made twice, and late, may have been begun meanwhile.
        self.out.as_deref().filter(|out| out.is_dir()).map_or(Ok(()), planned::sweep)?;
        Ok(summary)
    }

    fn summary_of(&self, done: EarlierResult) -> Result<RepackSummary> {
        self.counters.find_all();
        if done == EarlierResult::Untidy {
            Staging::discard(&self.staging)?;
        }
        Ok(RepackSummary { shards_found: self.todo.len() as u64, already_done: true, ..self.new_summary() })
    }

    /// What the result has of the dataset as it is.
    fn rest(&self) -> Rest<'_> {
        let (ArrayJobs { jobs, left, records, .. }, followed) = (&self.plan, &self.followed);
        let (to, records, sync) = (Staging::place(&self.staging, ""), records.as_deref(), self.options.sync);
        Rest { root: &self.root, to, jobs, left, records, followed, sync }
    }

    /// The same of an array that is rebuilt where all around it stays.
    fn rest_of<'a>(&'a self, job: &'a ArrayJob) -> Rest<'a> {
        let to = Staging::place(&self.staging, &job.name);
        Rest { root: job.change.source.path(), to, left: &[], records: None, ..self.rest() }
    }

    /// Brings what is no shard into the folder: other files, and at last the documents.
    fn complete(&self, staging: &Staging) -> Result<()> {
        let tree = staging.tree();
        if self.is_whole() {
            self.rest().copy()?;
            self.plan.files.iter().try_for_each(|(name, bytes)| documents::put_bytes(&tree.join(name), bytes))?;
        }
        for job in self.plan.rebuilt() {
            match self.plan.form {
                ResultForm::Zarr3 => {
                    let place = Staging::place(&self.staging, &job.name);
                    if !self.is_whole() {
                        self.rest_of(job).copy()?;
                    }
                    let old = job.change.source.document();
                    let mut document = job.document.clone();
                    settle::forget_slots_of_level(&mut document, job);
                    documents::put_for(&place.join(zarr3::DOCUMENT), &document, old)?;
                }
                ResultForm::Zarr2 => settle::put_zarr2_array(&Staging::place(&self.staging, &job.name), job)?,
                ResultForm::Kept => copy_document(job.change.source.document(), &self.root, &tree)?,
                ResultForm::Designed => {
                    for (key, document) in job.change.design.iter().flat_map(|design| &design.documents) {
                        let mut document = document.clone();
                        if let Some(mut own) = ProvenanceMut::of(&mut document) {
                            job.settle(&mut own);
                        }
                        documents::put_for(&tree.join(key), &document, job.change.source.document())?;
                    }
                    self.mentions().refresh_around(&tree)?;
                }
            }
        }
        if self.is_whole() {
            self.mentions().put_groups(&tree)?;
            // From the inside out.
            let groups: Vec<_> = self.mentions().groups_in(&tree).collect();
            groups.iter().rev().try_for_each(|group| group.refresh(&tree))?;
            consolidated::renew_zarr2(&tree)?;
        }
        Ok(())
    }

    /// Lets the new arrays take the places of the old ones.
    fn exchange(&self) -> Result<()> {
        let consolidated = self.consolidated()?;
        consolidated.set_aside()?;
        for job in self.plan.rebuilt() {
            let made = Staging::place(&self.staging, &job.name);
            places::take(&made, &below(&self.root, &job.name))?;
        }
        self.mentions().put_groups(&self.root)?;
        consolidated.bring_back()
    }
}
