//! Repacking: closes the gaps in shards, puts chunks in order, and where wished encodes them anew or cuts them otherwise.
//!
//! Shards are made one by one: read, written beside their place, synced, read back and compared, and only then named. So
//! that a call which was killed can be repeated, and goes on where the last one stopped:
//!
//! - In place, if only the places of chunks change, each new shard replaces the old one by a rename. What is done is seen
//!   from the shards themselves: one whose chunks stand in order and without gaps is left alone. Readers see a whole shard
//!   at any time.
//! - Otherwise the new arrays come into being in a hidden folder beside the dataset, and take the old ones' places when
//!   all of their shards are there. Shards that a killed call has finished have their names already; a journal in that
//!   folder says what they were made of, so that they are not used for something else.
//!
//! In every case the old files are whole until the new ones were compared.

mod change;
mod chunks;
mod design;
mod groups;
mod jobs;
mod lock;
mod order;
mod parcel;
mod shard;
mod staging;
mod target;
mod writer;

use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::config::{Codec, Dialect, IndexLocation, Volume};
use crate::error::{Error, Result};
use crate::fs::links;
use crate::fs::{self as os, Lock};
use crate::offline::array::Array;
use crate::offline::hierarchy::walk::{self, Node};
use change::Change;
use groups::Group;
use jobs::{Form, Job, Jobs};
pub use order::ChunkOrder;
use shard::Outcome;
use staging::{Staging, below, copy_document, copy_rest};

/// More chunks on their way in one shard than this help nobody.
const PARCELS_MAX: usize = 256;

/// What [`Repack`] is to do, and with which means.
#[derive(Debug, Clone, PartialEq)]
pub struct RepackOptions {
    /// The on-disk format of the result. In place only where it is the one that the dataset has.
    pub dialect: Dialect,
    /// The order of chunks in their shard.
    pub order: ChunkOrder,
    /// How chunks are encoded from now on. `None`: as they are, but without a checksum where the dialect has none; their bytes
    /// are copied where their shape stays, too.
    pub codec: Option<Codec>,
    /// Elements a chunk, of all dimensions or only the last ones; 0, or none, keeps what is.
    pub chunk: Vec<u64>,
    /// Elements a shard, in the same way. With it, arrays whose chunks are files get shards. Of dialects other than
    /// [`Dialect::Zarr3`], shards are chosen where there are none to keep, as are those of a precomputed volume.
    pub shard: Vec<u64>,
    /// Where a shard's index stands. `None`: as it is.
    pub index_location: Option<IndexLocation>,
    /// Whether a shard's index ends with its CRC-32C, which only [`Dialect::Zarr3`] has. `None`: as it is.
    pub index_checksum: Option<bool>,
    /// What only [`Dialect::Precomputed`] has. What is not said stays what it is where a volume becomes another.
    pub volume: Volume,
    /// Bytes for chunks on their way, all threads together.
    pub memory_bytes: u64,
    /// Threads that read, encode and compare. 0: one for each core that the process may use.
    pub workers: usize,
    /// Wait until new files have reached the device before old ones go.
    pub sync: bool,
    /// Let the new dataset share the blocks of shards that are as they should be, where the file system can (XFS, Btrfs).
    pub reflink: bool,
    /// Take also a dataset in place whose writer didn't finish: chunks that only a recovery would find are lost then.
    pub incomplete: bool,
}

impl Default for RepackOptions {
    fn default() -> Self {
        Self {
            dialect: Dialect::Zarr3,
            order: ChunkOrder::C,
            codec: None,
            chunk: Vec::new(),
            shard: Vec::new(),
            index_location: None,
            index_checksum: None,
            volume: Volume::default(),
            memory_bytes: 512 << 20,
            workers: 0,
            sync: true,
            reflink: true,
            incomplete: false,
        }
    }
}

/// What a repacking did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RepackSummary {
    /// Shards made.
    pub shards_written: u64,
    /// Shards that were as they should be, or were made by an earlier call.
    pub shards_found: u64,
    /// Chunks written.
    pub chunks: u64,
    /// Bytes of these chunks, as they are stored.
    pub bytes: u64,
    /// Pixels of all shards, in bytes.
    pub bytes_pixels: u64,
}

/// How far a repacking has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepackHeadway {
    /// Pixels of finished shards and finished parts of others, in bytes.
    pub done: u64,
    /// Pixels of all shards, in bytes.
    pub total: u64,
    /// Encoded bytes, or pixels where chunks are cut anew, that were read so far.
    pub bytes_read: u64,
}

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
    jobs: Vec<Job>,
    form: Form,
    groups: Vec<Group>,
    /// What is there only in the old format, and not copied.
    left: Vec<PathBuf>,
    todo: Vec<(usize, Vec<u64>)>,
    counters: Counters,
    /// [`run`](Repack::run) was called.
    begun: AtomicBool,
    /// An earlier call was killed when nothing was left to do but to tidy up.
    published: bool,
    _lock: Option<Lock>,
}

#[derive(Debug, Default)]
struct Counters {
    total: u64,
    done: AtomicU64,
    read: AtomicU64,
}

/// What one shard has added to the counters so far.
struct Tally<'a> {
    counters: &'a Counters,
    added: AtomicU64,
}

impl Tally<'_> {
    fn read(&self, bytes: u64) {
        self.counters.read.fetch_add(bytes, Relaxed);
    }

    fn pixels(&self, bytes: u64) {
        self.added.fetch_add(bytes, Relaxed);
        self.counters.done.fetch_add(bytes, Relaxed);
    }

    /// Makes up for chunks that were missing, or reached beyond the edge.
    fn settle(self, bytes: u64) {
        self.counters.done.fetch_add(bytes, Relaxed);
        self.counters.done.fetch_sub(self.added.into_inner(), Relaxed);
    }
}

impl Repack {
    /// Looks at the dataset or array at `path` and checks what is asked for; nothing is written yet.
    ///
    /// The result goes to the new dataset `out`, or takes the place of the old one. All arrays with shards are repacked;
    /// everything else is copied as it is, or left as it is. In a dialect other than [`Dialect::Zarr3`], what changes more than the
    /// places of chunks can be only the one array of a dataset.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] for sizes, levels or a memory that don't go, and for what the dialect can't hold; [`Error::Exists`] when `out` is there and
    /// [`Error::Locked`] when somebody writes the dataset or repacks it; [`Error::Format`] when it can't be read, has nothing
    /// to repack, or is not complete and shall be changed in place.
    pub fn new(path: impl AsRef<Path>, out: Option<&Path>, options: &RepackOptions) -> Result<Self> {
        let path = path.as_ref();
        os::finish_exchange(path)?;
        let root = path.canonicalize().map_err(|error| Error::io("open", path, error))?;
        links::enter(&root);
        let out = out.map(os::absolute).transpose()?;
        let staging = Staging::beside(out.as_ref().unwrap_or(&root));
        let published = out.as_ref().is_some_and(|out| out.exists()) && Staging::is_spent(&staging)?;
        if let (Some(out), false) = (&out, published) {
            if out.exists() {
                Staging::sweep(&staging);
            }
            check_out(&root, out)?;
        }
        let lock = match &out {
            None => Some(lock::to_write(&root)?),
            Some(_) => lock::to_read(&root)?,
        };
        let nodes = walk::nodes(&root)?;
        if out.is_none() && !options.incomplete {
            refuse_incomplete(&root, &nodes)?;
        }
        let pool = rayon::ThreadPoolBuilder::new().num_threads(workers(options));
        let pool = pool.build().map_err(|error| Error::config("workers", options.workers, error.to_string()))?;
        let place = jobs::Place { root: &root, copied: out.is_some(), staging: &staging };
        let Jobs { jobs, form, groups, left } = Jobs::new(nodes, &place, options, &Arc::new(pool))?;
        if jobs.is_empty() {
            let reason = "holds no array with shards; a shard shape makes shards of chunks that are files";
            return Err(Error::format(root, reason));
        }
        let mut todo = Vec::new();
        for (number, job) in jobs.iter().enumerate() {
            todo.extend(job.change.positions()?.into_iter().map(|position| (number, position)));
        }
        let pixels = todo.iter().map(|(job, position)| jobs[*job].change.pixel_bytes(position));
        let counters = Counters { total: pixels.fold(0, u64::saturating_add), ..Counters::default() };
        let repack = Self {
            root,
            out,
            staging,
            options: options.clone(),
            jobs,
            form,
            groups,
            left,
            todo,
            counters,
            begun: AtomicBool::new(false),
            published,
            _lock: lock,
        };
        repack.lanes()?;
        Ok(repack)
    }

    /// How far [`run`](Self::run) has come; for another thread to ask.
    pub fn headway(&self) -> RepackHeadway {
        let Counters { total, done, read } = &self.counters;
        RepackHeadway { done: done.load(Relaxed).min(*total), total: *total, bytes_read: read.load(Relaxed) }
    }

    /// Repacks. Several shards are in the making at once, each with several chunks on their way.
    ///
    /// # Errors
    ///
    /// The first error ends the work: a damaged chunk (with its place), a full disk, a new shard that reads back otherwise
    /// than it was written. The old dataset is whole then, and another call goes on after the shards that are finished.
    /// Only the first call works: what is there afterwards is no longer what [`new`](Self::new) looked at.
    pub fn run(&self) -> Result<RepackSummary> {
        if self.begun.swap(true, Relaxed) {
            return Err(Error::format(
                &self.root,
                "was repacked by an earlier call of run; begin again with a new Repack",
            ));
        }
        if self.published {
            Staging::discard(&self.staging)?;
            let (shards_found, bytes_pixels) = (self.todo.len() as u64, self.counters.total);
            return Ok(RepackSummary { shards_found, bytes_pixels, ..RepackSummary::default() });
        }
        let staged = self.out.is_some() || self.jobs.iter().any(|job| !job.in_place);
        if !staged {
            // A call that was killed after the new arrays had taken their places left the old ones there.
            Staging::discard(&self.staging)?;
            let summary = self.make_shards()?;
            self.put_groups(&self.root)?;
            return Ok(summary);
        }
        let staging = Staging::open(&self.staging, &self.journal()?, self.options.sync)?;
        let summary = self.make_shards()?;
        self.complete(&staging)?;
        match &self.out {
            Some(out) => os::publish(&staging.tree(), out)?,
            None if self.form == Form::Designed => os::exchange(&staging.tree(), &self.root)?,
            None => self.exchange()?,
        }
        staging.finish()?;
        Ok(summary)
    }

    /// Of every array that is made anew, what it becomes, and what of. Where documents and shards don't stand in folders of their
    /// arrays, all are one.
    fn journal(&self) -> Result<Map<String, Value>> {
        let mut arrays = Map::new();
        for job in self.jobs.iter().filter(|job| !job.in_place) {
            let source = &job.change.source;
            let entry = json!({
                "source": source.path(),
                "fingerprint": staging::fingerprint(source)?,
                "document": job.document,
                "codec": job.change.codec,
                "order": self.options.order,
            });
            arrays.insert(job.name.clone(), entry);
        }
        Ok(if self.form == Form::Zarr3 { arrays } else { Map::from_iter([(String::new(), Value::Object(arrays))]) })
    }

    /// How many shards are in the making at once, and how many chunks each has on their way.
    fn lanes(&self) -> Result<(usize, usize)> {
        let threads = workers(&self.options);
        let most = |bytes: fn(&Change) -> u64| self.jobs.iter().map(|job| bytes(&job.change)).max().unwrap_or(0);
        let parcel = most(Change::parcel_bytes).max(1);
        let threads_bytes = most(Change::thread_bytes).saturating_mul(threads as u64);
        let least = threads_bytes.saturating_add(parcel);
        let memory = self.options.memory_bytes;
        if memory < least {
            let reason = format!("chunks of this size need at least {least} bytes with {threads} threads");
            return Err(Error::config("memory_bytes", memory, reason));
        }
        let parcels = ((memory - threads_bytes) / parcel) as usize;
        // One lane more than threads, because writing and syncing leave threads idle.
        let lanes = (threads + 1).min(self.todo.len()).min(parcels).max(1);
        Ok((lanes, (parcels / lanes).clamp(1, PARCELS_MAX)))
    }

    fn make_shards(&self) -> Result<RepackSummary> {
        let (lanes, parcels) = self.lanes()?;
        let next = AtomicUsize::new(0);
        let failed = AtomicBool::new(false);
        let first_error = Mutex::new(None);
        let summary = Mutex::new(RepackSummary { bytes_pixels: self.counters.total, ..RepackSummary::default() });
        let lane = || {
            while !failed.load(Relaxed) {
                let Some((job, position)) = self.todo.get(next.fetch_add(1, Relaxed)) else { return };
                let Job { change, chunks, .. } = &self.jobs[*job];
                let tally = Tally { counters: &self.counters, added: AtomicU64::new(0) };
                match change.shard(position, parcels, &tally) {
                    Ok(outcome) => {
                        chunks.fetch_add(outcome.chunks(), Relaxed);
                        summary.lock().unwrap_or_else(PoisonError::into_inner).add(outcome);
                    }
                    Err(error) => {
                        failed.store(true, Relaxed);
                        first_error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                    }
                }
                tally.settle(change.pixel_bytes(position));
            }
        };
        thread::scope(|scope| (0..lanes).for_each(|_| drop(scope.spawn(lane))));
        match first_error.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error),
            None => Ok(summary.into_inner().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    /// Brings what is no shard into the folder: other files, and at last the documents.
    fn complete(&self, staging: &Staging) -> Result<()> {
        let sync = self.options.sync;
        let tree = staging.tree();
        let sources: Vec<&Array> = self.jobs.iter().map(|job| &job.change.source).collect();
        let is_whole = self.out.is_some() || self.form == Form::Designed;
        if is_whole {
            copy_rest(&self.root, &tree, &sources, &self.left, sync)?;
        }
        for job in self.jobs.iter().filter(|job| !job.in_place) {
            match self.form {
                Form::Zarr3 => {
                    let place = Staging::place(&self.staging, &job.name);
                    if !is_whole {
                        copy_rest(job.change.source.path(), &place, &sources, &[], sync)?;
                    }
                    groups::put(&place.join("zarr.json"), &job.document)?;
                }
                Form::Kept => copy_document(job.change.source.document(), &self.root, &tree)?,
                Form::Designed => {
                    let design = job.change.design.iter();
                    let documents = design.flat_map(|design| design.finished(job.chunks.load(Relaxed)));
                    for (key, document) in documents {
                        groups::put(&tree.join(key), &document)?;
                    }
                }
            }
        }
        if is_whole { self.put_groups(&tree) } else { Ok(()) }
    }

    /// Lets the new arrays take the places of the old ones.
    fn exchange(&self) -> Result<()> {
        for job in self.jobs.iter().filter(|job| !job.in_place) {
            let made = Staging::place(&self.staging, &job.name);
            os::exchange(&made, &below(&self.root, &job.name))?;
        }
        self.put_groups(&self.root)
    }

    /// Corrects what groups in the dataset at `root` say of arrays that have changed.
    fn put_groups(&self, root: &Path) -> Result<()> {
        match self.form {
            Form::Zarr3 => self.groups.iter().try_for_each(|group| group.put(root, &self.jobs)),
            Form::Kept => groups::forget_hosted_slots(root, &self.jobs),
            Form::Designed => Ok(()),
        }
    }
}

impl RepackSummary {
    fn add(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Written { chunks, bytes } => {
                self.shards_written += 1;
                self.chunks += chunks;
                self.bytes += bytes;
            }
            Outcome::Found { .. } => self.shards_found += 1,
            Outcome::Empty => {}
        }
    }
}

fn workers(options: &RepackOptions) -> usize {
    match options.workers {
        0 => thread::available_parallelism().map_or(1, NonZero::get),
        workers => workers,
    }
}

fn check_out(root: &Path, out: &Path) -> Result<()> {
    if out.exists() {
        return Err(Error::Exists { path: out.to_path_buf() });
    }
    if out.starts_with(root) {
        return Err(Error::format(out, "lies in the dataset that is repacked; choose a path beside it"));
    }
    match out.parent() {
        Some(parent) if !parent.is_dir() => {
            fs::create_dir_all(parent).map_err(|error| Error::io("create", parent, error))
        }
        _ => Ok(()),
    }
}

/// Chunks of an open shard are found only by their headers, which stand in what looks like a gap.
fn refuse_incomplete(root: &Path, nodes: &[Node]) -> Result<()> {
    for node in nodes {
        let document = node.document()?;
        let says = |key: &str| document.pointer(&format!("/attributes/shardwright/{key}")).and_then(Value::as_bool);
        if says("complete") == Some(false) && says("recovered") != Some(true) {
            let reason = "its writer did not finish, and repacking in place would remove what a recovery may still find; \
                          recover it first, repack it into a new dataset, or allow incomplete ones";
            return Err(Error::format(root, reason));
        }
    }
    Ok(())
}
