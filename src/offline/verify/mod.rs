//! Checks everything about a dataset that can be checked without its original.

mod books;
mod check;
mod documents;
mod file;
mod found;
mod level_documents;
mod levels;
mod plan;
mod separate;
mod shard;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;

use rayon::ThreadPool;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::answers::Answers;
use super::layers::{Budget, FoundFrames, FoundLayers, groups};
use crate::error::{Error, Result};
use crate::format::acquisition_map::AcquisitionMap;
use crate::format::keys::FRAME_NUMBERS;
use crate::format::layout::product;
use crate::format::provenance::Provenance;
use crate::fs::{Lock, look};
use crate::offline::array::Array;
use crate::offline::array::memory::on_fitting_threads;
use crate::offline::hierarchy::below;
use crate::offline::hierarchy::walk::{ArrayNode, FileAt, Tree};
use crate::offline::progress::{Progress, ProgressCounters, controls, pool};
use crate::offline::recover::refuse_begun;
use crate::offline::unfinished_parts::{refuse_unfinished_parts, unfinished};
use crate::sync::Unpoisoned;
use crate::words::{HAS, IS, count, count_that, of_number, quoted};
use books::Books;
use check::{Check, CheckedImage, Findings, reason};
pub use check::{Finding, Severity};
use file::FileCheck;
pub(super) use separate::ShardChecker;
use shard::CheckedSums;

/// What a check of a dataset came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Verification {
    /// The arrays, in the order of their paths.
    pub arrays: Vec<ArrayVerified>,
    /// What was found: damage first, each kind in the order of paths. At most 1000; the counts go on.
    pub findings: Vec<Finding>,
    /// How many findings are damage.
    pub damage: u64,
    /// How many findings are of things that could not be checked.
    pub unchecked: u64,
    /// How many findings are worth knowing, but no damage.
    pub notes: u64,
}

/// One array that was checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ArrayVerified {
    /// The path below the root; empty for the root itself.
    pub path: String,
    /// Files that hold chunks.
    pub files: u64,
    /// Chunks that are there, each of which was read, decoded and compared with its checksums.
    pub chunks: u64,
    /// Chunks in files that are not read here, such as those that a manifest names on a server; not those of shards,
    /// which may be any number.
    pub unchecked: u64,
    /// Places of chunks in shards whose index can't be read, or whose entry is damaged: nobody knows what is there.
    pub unknown: u64,
    /// Chunks that are not there, and read as the fill value.
    pub absent: u64,
    /// Bytes of the chunks that are there, as they are stored.
    pub bytes: u64,
    /// Chunks whose slot header was compared with the index and the chunk.
    pub headers: u64,
    /// Chunks without a slot header: another writer's.
    pub without_header: u64,
    /// Chunks that decode, but that no checksum, of their own or of their archive, and no slot header vouches for.
    pub without_checksum: u64,
    /// Pieces of damage in it.
    pub damage: u64,
}

impl Verification {
    /// Whether all of it could be checked, and no damage was found.
    pub fn is_sound(&self) -> bool {
        self.damage == 0 && self.unchecked == 0
    }

    /// Chunks that decode, but of which nothing says that their bytes are those that were written.
    pub fn without_checksum(&self) -> u64 {
        self.arrays.iter().map(|array| array.without_checksum).sum()
    }
}

/// How [`Verify`] checks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VerifyOptions {
    /// Threads that read and decode. 0: one for each core that the process may use.
    pub workers: usize,
}

/// Checks a dataset or an array: documents; the index of each shard, its bounds, its checksum and overlaps in it; the
/// checksum of each chunk, and that it decodes to its size; the checksums that an archive has of its files; slot
/// headers against index and chunk; committed chunks that no index names; frame numbers in the records against the
/// frames that are listed as missing, and both against the chunks that are there; files that belong to nothing.
///
/// It never writes.
///
/// ```no_run
/// use shardwright::offline::{Verify, VerifyOptions};
///
/// let found = Verify::new("run.ome.zarr", &VerifyOptions::default())?.run()?;
/// assert!(found.is_sound(), "{} pieces of damage", found.damage);
/// # Ok::<(), shardwright::Error>(())
/// ```
#[derive(Debug)]
pub struct Verify {
    root: PathBuf,
    pool: ThreadPool,
    counters: ProgressCounters,
}

controls!(Verify);

impl Verify {
    /// Looks whether the dataset or array at `path` can be checked.
    ///
    /// # Errors
    ///
    /// [`Error::Locked`] while a writer is at work; [`Error::Config`] for threads that can't be had.
    pub fn new(path: impl AsRef<Path>, options: &VerifyOptions) -> Result<Self> {
        let root = path.as_ref();
        Lock::look_around(root)?;
        Ok(Self { root: root.to_path_buf(), pool: pool(options.workers)?, counters: ProgressCounters::default() })
    }

    /// Checks. It may be called again, and looks at everything again.
    ///
    /// # Errors
    ///
    /// When it can't be checked: there is no dataset, a file can't be read, a writer is at work, there or in a dataset
    /// inside ([`Error::Locked`]), or one has changed it while it was checked ([`Error::Conflict`]).
    /// Damage is no error: see [`Verification::findings`].
    pub fn run(&self) -> Result<Verification> {
        self.run_with(None)
    }

    /// The same, which takes what others have found in shards in place of reading them.
    pub(super) fn run_with(&self, answers: Option<&Answers>) -> Result<Verification> {
        let tree = self.tree()?;
        let run = self.begun(&tree, answers);
        self.counters.begin(run.bytes());
        let verification = self.pool.install(|| run.all());
        self.refuse_changed(&tree, verification.as_ref().is_ok_and(Verification::is_sound))?;
        verification
    }

    fn tree(&self) -> Result<Tree> {
        Lock::look_around(&self.root)?;
        Lock::look_below(&self.root)?;
        refuse_begun(&self.root)?;
        refuse_unfinished_parts(&self.root)?;
        let tree = Tree::walk(&self.root)?;
        tree.check_unwritten()?;
        Ok(tree)
    }

    fn begun<'a>(&'a self, tree: &'a Tree, answers: Option<&'a Answers>) -> CheckRun<'a> {
        let check = Check { root: &self.root, tree, findings: Findings::default(), counters: &self.counters };
        CheckRun { check, books: books::all(tree), answers }
    }

    /// Refuses what was found where it may come of a change meanwhile: what is said of a dataset is said of one that
    /// stood still.
    pub(in crate::offline) fn refuse_changed(&self, tree: &Tree, is_sound: bool) -> Result<()> {
        Lock::look_around(&self.root)?;
        let mut arrays = tree.arrays.iter().map(|node| &node.array);
        if is_sound {
            return arrays.try_for_each(Array::check_in_place);
        }
        Lock::look_below(&self.root)?;
        if arrays.any(Array::is_changed) { Err(Error::changed(&self.root)) } else { Ok(()) }
    }
}

/// A check under way.
struct CheckRun<'a> {
    check: Check<'a>,
    /// What the writers say about frames, by the folders of the frame numbers.
    books: HashMap<PathBuf, Books>,
    /// What others have found.
    answers: Option<&'a Answers>,
}

impl<'a> CheckRun<'a> {
    fn all(self) -> Result<Verification> {
        self.check.documents();
        self.check.leftovers();
        let images = self.images();
        let nodes = self.check.tree.arrays.iter();
        let mut arrays: Vec<_> = nodes.map(|node| self.array(node, images.get(&node.name))).collect::<Result<_>>()?;
        for (name, image) in &images {
            if let Some(array) = arrays.iter().find(|array| array.path == *name) {
                self.totals(image, array);
            }
        }
        self.levels(&images, &mut arrays)?;
        drop(images);
        let (findings, [damage, unchecked, notes]) = self.check.findings.sorted();
        Ok(Verification { arrays, findings, damage, unchecked, notes })
    }

    /// Bytes of all files of chunks. Those that can't be looked at will say so when they are read.
    fn bytes(&self) -> u64 {
        let files = self.check.tree.arrays.iter().flat_map(|node| &node.files);
        files.filter_map(|(path, _)| look::file_bytes(path)).fold(0, u64::saturating_add)
    }

    /// The image arrays of this crate's own writer, by the arrays' names.
    fn images(&self) -> HashMap<String, CheckedImage<'a>> {
        let mut images = HashMap::new();
        for group in &self.check.tree.groups {
            let own = Provenance::parse(&group.path, &group.attributes);
            let Some(own) = self.noted(own, &group.path) else { continue };
            let name = group.image.clone();
            let Some(node) = self.check.tree.array(&name) else {
                if !self.check.is_told_of(&self.check.root.join(&name)) {
                    let what = format!("its writer made an array {name} in it, which is not there");
                    self.check.damage(&group.path, what);
                }
                continue;
            };
            let map = node.array.acquisition_map(&own);
            let map = map.map_err(|error| self.check.damage(&group.path, reason(error))).ok();
            images.insert(name, CheckedImage { group: Some(&group.name), own, map });
        }
        // Alone, it has the name of an image's first array.
        let is_first = |node: &&ArrayNode| node.array.path().canonicalize().is_ok_and(|path| path.ends_with("0"));
        if let (true, Some(node)) = (images.is_empty(), self.check.tree.array("").filter(is_first))
            && let Some(own) = self.noted(node.array.provenance(), node.array.path())
        {
            let map = node.array.acquisition_map(&own).ok();
            images.insert(String::new(), CheckedImage { group: None, own, map });
        }
        images
    }

    /// What a writer says of an image, once it is told what is to be known of it.
    fn noted(&self, own: Result<Option<Provenance>>, group: &Path) -> Option<Provenance> {
        let own = own.map_err(|error| self.check.damage(group, reason(error))).ok()??;
        if own.recovered {
            let missing = count_that(own.frames_missing, "frame", IS);
            self.check.note(group, format!("was recovered; {missing} missing"));
        } else if let Some(parts) = own.parts.filter(|_| !own.complete) {
            self.check.note(group, unfinished(parts));
        } else if !own.complete {
            let why = own.error.as_deref().map_or_else(
                || "was stopped or had an error".to_owned(),
                |error| format!("ended with an error, {}", quoted(error)),
            );
            self.check.note(group, format!("is not complete: its writer {why}; see recover"));
        }
        if let Some(short) = own.shortfall() {
            self.check.note(group, short);
        }
        Some(own)
    }

    fn array(&self, node: &ArrayNode, image: Option<&CheckedImage>) -> Result<ArrayVerified> {
        let before = self.check.findings.damage();
        let sums = CheckedSums::default();
        if !self.check.is_listed(&node.array) {
            sums.unread_shards.fetch_add(1, Relaxed);
        }
        on_fitting_threads(node.array.metadata().chunk_bytes(), || {
            match image.and_then(|image| Some((image, image.map.as_ref()?))) {
                Some((image, map)) => self.frames(node, image, map, &sums)?,
                None => {
                    let files = self.files(node, image, &sums);
                    node.files.par_iter().try_for_each(|file| files.file(file, None))?;
                }
            }
            if node.array.manifest().is_some() { self.manifest(node, &sums) } else { Ok(()) }
        })?;
        for path in &node.doubles {
            let what = "is not read: its chunk is there a second time, in a file that is not compressed, or in another \
                        way; other programs may read this one";
            self.check.note(path, what);
        }
        if let Some(caution) = node.array.caution() {
            self.check.note(node.array.path(), caution);
        }
        let absent = sums.without_header.load(Relaxed);
        if image.is_some() && absent > 0 {
            let chunks = count_that(absent, "chunk", HAS);
            let what = format!("{chunks} no slot headers: another writer's, or a copy; nothing is compared there");
            self.check.note(node.array.path(), what);
        }
        // Of others than the writer's images, too, it may be known how many chunks there were.
        if image.is_none()
            && self.check.is_listed(&node.array)
            && let Some(what) = node.array.lost_of(sums.named())
        {
            self.check.damage(node.array.path(), what);
        }
        let absent_chunks = self.absent(node, image, &sums);
        self.records(node)?;
        let vouched = [&sums.headers, &sums.sealed].map(|chunks| chunks.load(Relaxed)).into_iter().sum();
        let bare = sums.chunks.load(Relaxed).saturating_sub(vouched);
        Ok(ArrayVerified {
            path: node.name.clone(),
            files: sums.files.load(Relaxed),
            chunks: sums.chunks.load(Relaxed),
            unchecked: sums.unchecked.load(Relaxed),
            unknown: sums.unindexed.load(Relaxed),
            absent: absent_chunks,
            bytes: sums.bytes.load(Relaxed),
            headers: sums.headers.load(Relaxed),
            without_header: absent,
            without_checksum: if node.array.metadata().chain.has_checksum() { 0 } else { bare },
            damage: self.check.findings.damage() - before,
        })
    }

    /// How many chunks are not there. Where nobody has counted those that were, only a person can tell what that means.
    fn absent(&self, node: &ArrayNode, image: Option<&CheckedImage>, sums: &CheckedSums) -> u64 {
        let (array, layout) = (&node.array, node.array.layout());
        let all = product(&layout.chunk_grid()).unwrap_or(u64::MAX);
        let there = [&sums.inside, &sums.unchecked, &sums.unindexed].map(|chunks| chunks.load(Relaxed));
        let absent = all.saturating_sub(there.iter().sum());
        // What is in shards that are not read may be any of them.
        let is_known = image.is_some() || self.is_of_writer(node) || array.counted_chunks().is_some();
        if absent == 0 || is_known || sums.unread_shards.load(Relaxed) > 0 {
            return absent;
        }
        let files = match (layout.has_index() && layout.has_boxes(), product(&layout.file_grid())) {
            (true, Some(files)) if array.manifest().is_none() => {
                let there = node.files.iter().filter(|(_, position)| layout.has_file(position)).count() as u64;
                format!(", {} of {files} shards among them", files.saturating_sub(there))
            }
            _ => String::new(),
        };
        let what = format!(
            "{absent} of {all} chunks are not there{files}, and read as the fill value: they hold nothing else, or \
             files are missing"
        );
        self.check.note(array.path(), what);
        absent
    }

    /// Whether the group around an array is one that this crate's writer made.
    fn is_of_writer(&self, node: &ArrayNode) -> bool {
        let name = node.name.rsplit_once('/').map_or("", |(group, _)| group);
        let own = match self.check.tree.group(name) {
            Some(group) if !node.name.is_empty() => Provenance::parse(&group.path, &group.attributes),
            // It is looked at alone.
            _ => node.array.provenance(),
        };
        matches!(own, Ok(Some(_)))
    }

    /// An image's shards, those of the same frames together, and whether what is missing is what its writer says.
    fn frames(&self, node: &ArrayNode, image: &CheckedImage, map: &AcquisitionMap, sums: &CheckedSums) -> Result<()> {
        let (groups, budget) = (groups(&node.files, map), Budget::new());
        let files = self.files(node, Some(image), sums);
        let group = |group: &Vec<&FileAt>| {
            let gathering = Mutex::new(FoundLayers::default());
            group.par_iter().try_for_each(|file| files.file(file, Some(&gathering)))?;
            let mut found = FoundFrames::default();
            let layers = gathering.into_inner().unpoisoned();
            let counted = found.add_layers(layers, map, &budget);
            counted
                .or_else(|reason| self.check.found_in(node.array.path(), Error::format(node.array.path(), reason)))?;
            Ok(found)
        };
        let found = groups.par_iter().map(group).try_reduce(FoundFrames::default, |one, other| Ok(one.add(other)))?;
        if let Some(books) = Books::of(&image.own).filter(|_| self.check.is_listed(&node.array)) {
            books.pixels(&self.check, node.array.path(), &image.own, found.ranges());
        }
        Ok(())
    }

    fn files<'b>(
        &'b self,
        node: &'b ArrayNode,
        image: Option<&'b CheckedImage<'b>>,
        sums: &'b CheckedSums,
    ) -> FileCheck<'b> {
        let (array, name, books) = (&node.array, &*node.name, self.books.get(node.array.path()));
        FileCheck { check: &self.check, books, array, name, image, sums, answers: self.answers }
    }

    /// The chunks that a manifest names, wherever they are on this machine.
    fn manifest(&self, node: &ArrayNode, sums: &CheckedSums) -> Result<()> {
        let (array, read) = (&node.array, self.files(node, None, sums));
        let (elsewhere, files) = (Mutex::<Option<String>>::default(), Mutex::<HashSet<PathBuf>>::default());
        let one = |position: &Vec<u64>| {
            self.check.counters.go_on()?;
            let file = match array.open_file(position) {
                Ok(Some(file)) => file,
                Ok(None) => return Ok(()),
                Err(Error::Unsupported { reason, .. }) => {
                    sums.unchecked.fetch_add(1, Relaxed);
                    elsewhere.lock().unpoisoned().get_or_insert(reason);
                    return Ok(());
                }
                Err(error) => return self.check.found_in(array.path(), error),
            };
            files.lock().unpoisoned().insert(file.path().to_path_buf());
            read.shard(&file, position).check().or_else(|error| self.check.found_in(array.path(), error))
        };
        array.file_positions()?.par_iter().try_for_each(one)?;
        sums.files.fetch_add(files.into_inner().unpoisoned().len() as u64, Relaxed);
        if let Some(reason) = elsewhere.into_inner().unpoisoned() {
            let unchecked = sums.unchecked.load(Relaxed);
            let (chunks, are) = (count(unchecked, "chunk"), of_number(&unchecked, IS));
            let what = format!("{chunks} that its manifest names {are} not read here: {reason}");
            self.check.find(Severity::Unchecked, array.path(), None, what);
        }
        Ok(())
    }

    /// What is known of the frames of an image: each number at its place, and as many as the writer says.
    fn records(&self, node: &ArrayNode) -> Result<()> {
        let Some(group) = node.name.strip_suffix(FRAME_NUMBERS) else { return Ok(()) };
        let group = self.check.tree.group(group.trim_end_matches('/'));
        let Some(own) = group.and_then(|group| Provenance::parse(&group.path, &group.attributes).ok()?) else {
            return Ok(());
        };
        let [frames] = node.array.shape() else {
            self.check.damage(node.array.path(), "is not a list of frames");
            return Ok(());
        };
        if let Some(books) = self.books.get(node.array.path()) {
            books.absent_records(&self.check, node);
        }
        if own.complete && !own.recovered {
            books::absent_blocks(&self.check, node);
        }
        if own.complete && own.frames.is_some_and(|expected| expected != *frames) {
            let expected = own.frames.unwrap_or_default();
            self.check.damage(
                node.array.path(),
                format!("has {}; the writer counted {}", count(*frames, "record"), count(expected, "frame")),
            );
        }
        Ok(())
    }

    /// Compares what was found with what the writer counted.
    fn totals(&self, image: &CheckedImage, array: &ArrayVerified) {
        let Some(node) = self.check.tree.array(&array.path) else { return };
        let path = node.array.path();
        let is_counted = |own: &&Provenance| (own.complete || own.recovered) && self.check.is_listed(&node.array);
        let Some(own) = Some(&image.own).filter(is_counted) else { return };
        // What a damaged index named is no file that is missing.
        let (chunks, most) = (array.chunks + array.unchecked, array.chunks + array.unchecked + array.unknown);
        if let Some(expected) = own.chunks.filter(|expected| !(chunks..=most).contains(expected)) {
            let more = || format!("holds {}, and its writer counted only {expected}", count(chunks, "chunk"));
            self.check.damage(path, node.array.lost_of(most).unwrap_or_else(more));
        }
        let extent = own.frames.zip(image.map.as_ref()).and_then(|(frames, map)| map.extent(frames));
        if let Some(extent) = extent.filter(|extent| own.complete && node.array.shape().first() != Some(extent)) {
            let what = format!("its shape starts with {}; {extent} hold the frames", node.array.shape()[0]);
            self.check.damage(path, what);
        }
        let Some(group) = image.group else { return };
        let records = below(group, FRAME_NUMBERS);
        if image.own.level_of.is_some() {
            books::of_level(&self.check, image, path);
        } else if self.check.tree.array(&records).is_none() {
            self.check.damage(path, format!("its writer made {records}, which is not there"));
        }
    }
}
