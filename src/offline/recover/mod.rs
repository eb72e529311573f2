//! Brings a dataset whose writer was stopped into the state that the writer would have left.
//!
//! The order makes it safe to stop at any moment and to run again: what is missing is written down before anything is
//! changed from which it could be told; then each shard gets its index as the writer's own close does it. Nothing is
//! ever read from what this changes but the slot headers and the payloads, and these are never changed. Last, levels of
//! pyramids get what they lack: see [`levels`].

mod archive;
mod count;
mod documents;
mod image;
mod level_making;
mod levels;
mod records;
mod report;
mod room;
mod series;
mod shard;
mod source;
mod target;
mod wells;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rayon::ThreadPool;
use rayon::prelude::*;

use crate::archive_file::is_archive_name;
use crate::error::{Error, Result};
use crate::fs::{Lock, archives};
use crate::offline::hierarchy;
use crate::offline::hierarchy::walk::Tree;
use crate::offline::progress::{Progress, ProgressCounters, controls, pool};
use crate::offline::unfinished_parts::refuse_moving;
use crate::replaceable;
use crate::sync::Unpoisoned;
use crate::words::shell_word;
use archive::FoundArchive;
use documents::DocumentChange;
use image::ImagePlan;
pub use report::{ImageRecovered, Recovery, ShardAction, ShardRecovered};
use room::{BLOCK_BYTES, blocks, how_to_go_on};
use source::{WrittenImage, images, name};
use target::RecoveryTarget;

/// What [`Recover`] may do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecoverOptions {
    /// Make the changes. Without it, nothing is changed, and [`Recovery`] says what would be.
    pub apply: bool,
    /// Threads that look through shards. 0: one for each core that the process may use.
    pub workers: usize,
}

/// Finds what can be saved of a dataset after its writer was stopped, be it by a kill or a power cut, and, if the
/// options say so, saves it: shards get indexes that name exactly the chunks whose slot header and payload agree;
/// documents say how many frames there are and which are missing; files that were never finished are removed. Levels of
/// a pyramid get the frames that level 0 has and they lack, made of the level before; not in an archive.
///
/// It may be stopped at any moment and run again, and where nothing is to be done, it changes nothing.
///
/// ```no_run
/// use shardwright::offline::{Recover, RecoverOptions};
///
/// let options = RecoverOptions { apply: true, ..RecoverOptions::default() };
/// let recovery = Recover::new("run.ome.zarr", &options)?.run()?;
/// println!("{} frames", recovery.images[0].frames);
/// # Ok::<(), shardwright::Error>(())
/// ```
#[derive(Debug)]
pub struct Recover {
    root: PathBuf,
    apply: bool,
    pool: ThreadPool,
    counters: ProgressCounters,
    /// Where the dataset is one file.
    archive: Option<FoundArchive>,
    /// Until the end of a run that changes it.
    lock: Mutex<Option<Lock>>,
}

controls!(Recover);

impl Recover {
    /// Looks whether the dataset at `path` can be recovered. Who is to change it is its only writer from now on.
    ///
    /// # Errors
    ///
    /// [`Error::Locked`] while a writer is at work; [`Error::Io`] of the kind `NotFound` when nothing is at `path`;
    /// [`Error::NotFound`] when it was stopped while it began, and there is nothing to be read yet;
    /// [`Error::Unsupported`] when there is no image of this crate's writer with shards, but for one that was finished
    /// and then repacked; [`Error::Format`] when a document is broken; [`Error::Io`] when the system refuses something;
    /// [`Error::Config`] for threads that can't be had.
    pub fn new(path: impl AsRef<Path>, options: &RecoverOptions) -> Result<Self> {
        let root = path.as_ref();
        let root = fs::canonicalize(root).map_err(|error| Error::io("open", root, error))?;
        // A writer's documents come one by one.
        Lock::look_around(&root)?;
        refuse_begun(&root)?;
        refuse_moving(&root)?;
        let take = || match options.apply {
            true => Lock::take(&root).map(Some),
            false => Lock::look(&root).map(|()| None),
        };
        // An archive must stay what it is between the look at its headers and the change.
        let mut lock = if root.is_file() { take()? } else { None };
        let archive = if root.is_file() { Some(FoundArchive::open(&root)?) } else { None };
        // A folder that is no dataset gets no lock file.
        let tree = Tree::walk(&root)?;
        images(&root, &tree)?;
        if archive.is_none() {
            tree.check_unwritten()?;
            lock = take()?;
            Lock::look_below(&root)?;
        }
        let pool = pool(options.workers)?;
        let (counters, lock) = (ProgressCounters::default(), Mutex::new(lock));
        Ok(Self { root, apply: options.apply, pool, counters, archive, lock })
    }

    /// Looks through all shards, and changes what is to be changed.
    ///
    /// # Errors
    ///
    /// As for [`new`](Self::new). What changes the dataset runs once, and locks it no longer when it ends: another call
    /// is refused with [`Error::Conflict`].
    pub fn run(&self) -> Result<Recovery> {
        if self.apply {
            self.counters.begin_only_run("Recover", &self.root)?;
        }
        let _lock = self.lock.lock().unpoisoned().take();
        // A writer may have ended since `new` looked.
        let tree = Tree::walk(&self.root)?;
        if !self.apply {
            tree.check_unwritten()?;
        }
        let images = images(&self.root, &tree)?;
        self.pool.install(|| {
            let mut plan = plan(&self.root, &tree, images, &self.counters)?;
            match self.apply {
                true => plan.apply(RecoveryTarget::open(&self.root, self.archive.as_ref())?, self, &tree)?,
                false => plan.images.iter_mut().for_each(|image| image.note_made(0)),
            }
            let mut report = plan.report(&self.root, &tree, self.apply);
            let directory = self.archive.as_ref().filter(|archive| archive.is_behind);
            report.documents.extend(directory.map(|_| DIRECTORY.to_owned()));
            Ok(report)
        })
    }
}

/// Datasets that the one at `root` was to replace, each with what to say of it. `tree`: what stands at `root`.
pub(super) fn replaced(root: &Path, tree: &Tree) -> Vec<(PathBuf, String)> {
    let found = hierarchy::replaced(root);
    // Frames are looked for only where there is something to bring back.
    let is_empty = !found.is_empty() && frames(root, tree).is_ok_and(|frames| frames == 0);
    let with_words = |old: PathBuf| {
        let what = told_of(root, &old, is_empty, is_empty && has_no_frame(&old));
        (old, what)
    };
    found.into_iter().map(with_words).collect()
}

/// Refuses what a run left that was killed before its dataset could be opened: no frame had come by then. The error
/// says what to do.
pub(super) fn refuse_begun(root: &Path) -> Result<()> {
    if !is_begun(root) {
        return Ok(());
    }
    Lock::look(root)?;
    let found = hierarchy::replaced(root);
    let told = |old: &PathBuf| {
        let what = told_of(root, old, true, has_no_frame(old));
        format!("; {} {what}", old.display())
    };
    let way_on = match found.is_empty() {
        true => "; remove it, or begin again with overwrite".to_owned(),
        false => found.iter().map(told).collect(),
    };
    let reason = format!("has nothing to be read yet: its run was killed while it began, so no frame is lost{way_on}");
    Err(Error::not_found(root, reason))
}

/// What to say of the dataset `old` beside the one at `root`. Are they known to have no frame?
fn told_of(root: &Path, old: &Path, is_empty: bool, is_old_empty: bool) -> String {
    let by = "that was to be replaced by this one, by a writer that was stopped";
    match (is_empty, is_old_empty) {
        (false, _) => return format!("is a dataset {by}; remove it when you have looked at this one"),
        (true, true) => return format!("is a dataset {by}; neither holds a frame, so remove both"),
        (true, false) => {}
    }
    let name = root.canonicalize().unwrap_or_else(|_| root.to_path_buf());
    let mut aside = name.clone().into_os_string();
    aside.push(".empty");
    let [name, aside, old] = [&name, Path::new(&aside), old].map(shell_word);
    format!(
        "is the dataset {by}; it is whole, and this one holds no frame: mv {name} {aside} && mv {old} {name} brings it \
         back"
    )
}

/// Whether a run began, and no more: a folder without the first document, or an archive without the first directory.
fn is_begun(root: &Path) -> bool {
    replaceable::is_begun(root) || (is_archive_name(root) && is_begun_file(root))
}

fn is_begun_file(path: &Path) -> bool {
    let found = fs::metadata(path).ok().filter(fs::Metadata::is_file);
    found.is_some_and(|found| File::open(path).and_then(|file| archives::is_begun(&file, found.len())).unwrap_or(false))
}

/// Whether the dataset that a run was to replace is known to have no frame. By its hidden name nobody sees what it is.
fn has_no_frame(old: &Path) -> bool {
    let frames = || Tree::walk(old).and_then(|tree| frames(old, &tree));
    replaceable::is_begun(old) || is_begun_file(old) || frames().is_ok_and(|frames| frames == 0)
}

/// How many frames there are in all images of this crate's writer. An error where a recovery could not tell either.
fn frames(root: &Path, tree: &Tree) -> Result<u64> {
    let images = images(root, tree)?;
    if images.iter().all(|image| image.own.complete) {
        // Those of a run that came to its end need not be looked for.
        let said = images.iter().map(|image| image.own.frames.unwrap_or(0).saturating_sub(image.own.frames_missing));
        return Ok(said.sum());
    }
    let plan = plan(root, tree, images, &ProgressCounters::default())?;
    Ok(plan.images.iter().map(|image| image.frames.end.saturating_sub(image.frames.missing_count)).sum())
}

/// In a report, what is no file.
const DIRECTORY: &str = "the archive's directory";

struct RecoveryPlan<'a> {
    images: Vec<ImagePlan<'a>>,
    documents: Vec<DocumentChange>,
}

fn plan<'a>(
    root: &Path,
    tree: &'a Tree,
    images: Vec<WrittenImage<'a>>,
    counters: &ProgressCounters,
) -> Result<RecoveryPlan<'a>> {
    let all = images.iter().flat_map(|image| &image.node.files);
    counters.begin(all.map(image::file_bytes).fold(0, u64::saturating_add));
    let mut planned: Vec<ImagePlan> = Vec::new();
    // The levels of a pyramid come behind the image that they are of.
    for mut image in images {
        if let Some(finest) = image.finest() {
            let of = planned.iter().find(|plan| plan.image.node.name == finest);
            if of.is_none() && image.node.files.is_empty() && !image.node.name.is_empty() {
                // The run was killed while it began with the image, which has no frame.
                continue;
            }
            let of = of.ok_or_else(|| {
                let reason = format!("is a level of {finest}, which decides what frames there are; recover the image");
                Error::unsupported(image.node.array.path(), reason)
            })?;
            image.frames = image.frames_of_level(of.frames.end, &of.frames.present());
            // What a run that came to its end says stays as it is; `verify` compares it.
            let extent = image.map.extent_of_level(&image.own.level_frames, &of.shape());
            image.extent = extent.filter(|_| !image.own.complete);
        }
        let mut image = ImagePlan::new(root, tree, image, counters)?;
        levels::plan(root, tree, &mut image, &planned);
        planned.push(image);
    }
    let images = planned;
    let mut documents = documents::changes(root, tree, &images)?;
    let gone = wells::changes(root, tree, &images, &mut documents)?;
    series::changes(root, tree, &images, &gone, &mut documents)?;
    Ok(RecoveryPlan { images, documents })
}

impl RecoveryPlan<'_> {
    fn apply(&mut self, target: RecoveryTarget, recover: &Recover, tree: &Tree) -> Result<()> {
        let root = &*recover.root;
        // All of it is refused before any of it is changed.
        self.files(root).try_for_each(|key| target.check(&key))?;
        // They never counted for anything, and what a writer keeps for its documents when the disk is full is one of
        // them.
        tree.partial.iter().try_for_each(|path| target.remove(path))?;
        let needed = self.bytes_needed();
        if target.free_bytes().is_some_and(|free| free < needed) {
            self.images.iter().for_each(|image| image.make_room(root, &target));
        }
        let done = self.change(&target, root);
        // What is found in a level's pixels must not keep the rest from being whole.
        let (done, made) = match done {
            Ok(()) => (Ok(()), self.make_levels(&target, recover)),
            Err(error) => (Err(error), Ok(())),
        };
        let groups: Vec<&str> = tree.groups.iter().map(|group| group.name.as_str()).collect();
        let done = done.and_then(|()| target.finish(&groups)).and(made);
        done.map_err(|error| how_to_go_on(error, needed, target.free_bytes()))
    }

    /// The documents and the files of frame numbers that change, below the root.
    fn files(&self, root: &Path) -> impl Iterator<Item = String> {
        let documents = self.documents.iter().map(|change| change.key.clone());
        documents.chain(self.images.iter().flat_map(|image| image.record_files(root)))
    }

    /// How many bytes the changes take at most, for a while or for good.
    fn bytes_needed(&self) -> u64 {
        // In an archive a header stands before each.
        let documents = self.documents.iter().map(|change| blocks(change.bytes.len() as u64) + BLOCK_BYTES);
        documents.chain(self.images.iter().map(ImagePlan::bytes_needed)).sum()
    }

    fn change(&self, target: &RecoveryTarget, root: &Path) -> Result<()> {
        self.documents.iter().try_for_each(|change| target.put(&change.key, &change.bytes))?;
        self.images.iter().try_for_each(|image| image.write_records(root, target))?;
        target.settle()?;
        // Shards don't depend on each other.
        let mut images = self.images.iter();
        images.try_for_each(|image| image.changed.par_iter().try_for_each(|shard| image.apply(root, target, shard)))
    }

    /// Gives levels the frames that they lack. Their documents name these as missing until they are there.
    fn make_levels(&mut self, target: &RecoveryTarget, recover: &Recover) -> Result<()> {
        let root = &*recover.root;
        for image in &mut self.images {
            let Some(making) = &image.making else { continue };
            let chunks = making.make(root, image, target, &|| recover.counters.go_on())?;
            image.note_made(chunks);
            let mut changes = Vec::new();
            documents::books(root, image, &mut changes)?;
            for change in changes {
                target.check(&change.key)?;
                target.put(&change.key, &change.bytes)?;
                if !self.documents.iter().any(|known| known.key == change.key) {
                    self.documents.push(change);
                }
            }
        }
        Ok(())
    }

    fn report(&self, root: &Path, tree: &Tree, applied: bool) -> Recovery {
        let replaced = replaced(root, tree);
        Recovery {
            applied,
            images: self.images.iter().map(|image| image.report(root)).collect(),
            documents: self.files(root).collect(),
            partial: tree.partial.iter().map(|path| name(root, path)).collect(),
            replaced: replaced.iter().map(|(path, _)| path.clone()).collect(),
            notes: replaced.iter().map(|(path, what)| format!("{} {what}", path.display())).collect(),
        }
    }
}
