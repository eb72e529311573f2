//! Brings a dataset whose writer was stopped into the state that the writer would have left.
//!
//! The order makes it safe to stop at any moment and to run again: what is missing is written down before anything is
//! changed from which it could be told; then each shard gets its index as the writer's own close does it. Nothing is ever
//! read from what this changes but the slot headers and the payloads, and these are never changed.

mod documents;
mod frames;
mod shard;

use std::fs;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rayon::prelude::*;
use serde::Serialize;

use super::leftovers;
use super::own::{Own, Places};
use super::tree::{Group, Node, Tree};
use crate::error::{Error, Result};
use crate::fs::Lock;
use crate::storage::{Directory, Storage, Way};
use documents::Change;
use shard::{Action, ShardPlan};

/// What a recovery found, and what it did or would do.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Recovery {
    /// Whether the changes were made, rather than only found.
    pub applied: bool,
    /// The images that this crate's writer made.
    pub images: Vec<ImageRecovered>,
    /// Documents that change, below the root.
    pub documents: Vec<String>,
    /// Files that a writer had begun and not given their name, below the root. They are removed.
    pub partial: Vec<String>,
    /// Datasets beside this one that it was to replace. They stay.
    pub replaced: Vec<PathBuf>,
}

/// What becomes of one image.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct ImageRecovered {
    /// The path of its array below the root.
    pub path: String,
    /// The array's shape as the document had it.
    pub shape_before: Vec<u64>,
    /// The array's shape.
    pub shape: Vec<u64>,
    /// One past the highest frame number that is known of.
    pub frames: u64,
    /// How many frames below that are missing, wholly or in part.
    pub frames_missing: u64,
    /// Their numbers, as the first 10,000 ranges.
    pub missing: Vec<Range<u64>>,
    /// Chunks whose header and payload agree. All of them are readable afterwards, and nothing else.
    pub chunks: u64,
    /// How many of these no index named.
    pub chunks_salvaged: u64,
    /// Chunks that an index named, but whose header and payload don't agree.
    pub chunks_dropped: u64,
    /// Chunks that were begun and never finished, or damaged since.
    pub chunks_torn: u64,
    /// Shards that change or could not be dealt with.
    pub shards: Vec<ShardRecovered>,
}

/// What becomes of one shard.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct ShardRecovered {
    /// The file, below the root.
    pub path: String,
    /// What becomes of it.
    pub action: ShardAction,
    /// Chunks that the index named before; `None` if it was unreadable.
    pub chunks_before: Option<u64>,
    /// Chunks that it names.
    pub chunks: u64,
    /// Why, where that is not plain.
    pub reason: Option<String>,
}

/// What becomes of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ShardAction {
    /// It gets a new index, and the space that is not needed is given back.
    NewIndex,
    /// It is removed: nothing was ever committed to it.
    Remove,
    /// It can't be dealt with, and stays as it is.
    Leave,
}

impl Recovery {
    /// Whether anything had to be changed.
    pub fn is_needed(&self) -> bool {
        let changes = |image: &ImageRecovered| image.shards.iter().any(|shard| shard.action != ShardAction::Leave);
        !self.documents.is_empty() || !self.partial.is_empty() || self.images.iter().any(changes)
    }
}

/// Finds what can be saved of the dataset at `path` after its writer was stopped, be it by a kill or a power cut. With
/// `apply`, also makes the changes: shards get indexes that name exactly the chunks whose slot header and payload agree;
/// documents say how many frames there are and which are missing; files that were never finished are removed.
///
/// It may be stopped at any moment and run again, and where nothing is to be done, it changes nothing. `progress` is called
/// from several threads with the bytes that were looked through and those in all.
///
/// # Errors
///
/// [`Error::Locked`] while a writer is at work; [`Error::Format`] when there is no dataset of this crate's writer, or a
/// document is broken; [`Error::Io`] when the system refuses something.
pub fn recover(path: impl AsRef<Path>, apply: bool, progress: impl Fn(u64, u64) + Sync) -> Result<Recovery> {
    let root = path.as_ref();
    let root = &fs::canonicalize(root).map_err(|error| Error::io("open", root, error))?;
    // A folder that is no dataset gets no lock file.
    images(root, &Tree::walk(root)?)?;
    let _lock = if apply {
        Some(Lock::take(root)?)
    } else {
        Lock::look(root)?;
        None
    };
    // A writer may have ended in between.
    let tree = Tree::walk(root)?;
    let images = images(root, &tree)?;
    let plan = plan(root, &tree, images, &progress)?;
    if apply {
        plan.apply(root, &tree)?;
    }
    Ok(plan.report(root, &tree, apply))
}

/// An image of this crate's writer.
struct Image<'a> {
    own: Own,
    group: &'a Group,
    node: &'a Node,
    places: Places,
}

fn images<'a>(root: &Path, tree: &'a Tree) -> Result<Vec<Image<'a>>> {
    // Without its documents nothing about a shard is sure.
    if let Some(error) = tree.broken.first() {
        return Err(error.clone());
    }
    let mut images = Vec::new();
    for group in &tree.groups {
        let Some(own) = Own::read(&group.path, &group.attributes)? else { continue };
        let missing = || {
            Error::format(&group.path, format!("its writer made an array {} in it, which is not there", group.image))
        };
        let node = tree.array(&group.image).ok_or_else(missing)?;
        let places = Places::new(&node.array, &own)?;
        images.push(Image { own, group, node, places });
    }
    if images.is_empty() {
        let reason = "no image in it was made by shardwright: only its own slot headers can tell what was written";
        return Err(Error::format(root, reason));
    }
    Ok(images)
}

/// What is to be done.
struct Plan<'a> {
    images: Vec<ImagePlan<'a>>,
    documents: Vec<Change>,
}

struct ImagePlan<'a> {
    image: Image<'a>,
    shards: Vec<ShardPlan>,
    frames: frames::Frames,
}

fn plan<'a>(
    root: &Path,
    tree: &Tree,
    images: Vec<Image<'a>>,
    progress: &(impl Fn(u64, u64) + Sync),
) -> Result<Plan<'a>> {
    let all = images.iter().flat_map(|image| &image.node.files);
    let len = |(path, _): &(PathBuf, Vec<u64>)| path.metadata().map_or(0, |file| file.len());
    let total = all.map(len).fold(0, u64::saturating_add);
    let done = AtomicU64::new(0);
    let mut plans = Vec::new();
    for image in images {
        let shards = image.node.files.par_iter().map(|file| {
            let plan = shard::plan(root, &image, &file.0, &file.1);
            let bytes = len(file);
            progress(done.fetch_add(bytes, Relaxed).saturating_add(bytes).min(total), total);
            plan
        });
        let shards: Vec<_> = shards.collect::<Result<_>>()?;
        let frames = frames::count(tree, &image, &shards)?;
        let mut plan = ImagePlan { image, shards, frames };
        let (shape, incomplete) = (plan.shape(), plan.is_incomplete());
        shard::complete(&plan.image.node.array, &shape, incomplete, &mut plan.shards);
        plans.push(plan);
    }
    let documents = documents::changes(root, tree, &plans)?;
    Ok(Plan { images: plans, documents })
}

impl ImagePlan<'_> {
    /// Whether the documents have to say that the run did not end well.
    fn is_incomplete(&self) -> bool {
        !self.image.own.complete || self.shards.iter().any(|shard| shard.action.is_change())
    }

    fn chunks(&self) -> u64 {
        self.shards.iter().map(|shard| shard.chunks.len() as u64).sum()
    }

    fn shape(&self) -> Vec<u64> {
        let array = &self.image.node.array;
        let mut shape = array.shape().to_vec();
        let Some(extent) = self.image.places.extent(self.frames.end) else { return shape };
        if array.metadata().volume.is_none() {
            shape[0] = shape[0].max(extent);
            return shape;
        }
        // A volume's last chunks end where it does: a size that cuts them elsewhere makes them unreadable.
        let depth = array.chunk_shape()[0];
        let deepest = self.shards.iter().filter_map(|shard| shard.deepest);
        let last = deepest.max_by_key(|&(layer, planes)| (layer, std::cmp::Reverse(planes)));
        let end = last.map_or(0, |(layer, planes)| layer.saturating_mul(depth).saturating_add(planes));
        let is_cut = last.is_some_and(|(_, planes)| planes < depth);
        shape[0] = if is_cut { end } else { self.image.places.declared(end.max(extent)) };
        shape
    }

    fn report(&self, root: &Path) -> ImageRecovered {
        let count = |of: fn(&ShardPlan) -> u64| self.shards.iter().map(of).sum();
        let shards = self.shards.iter().filter_map(|shard| {
            let (action, reason) = match &shard.action {
                Action::Nothing => return None,
                Action::NewIndex(_) => (ShardAction::NewIndex, None),
                Action::Remove => (ShardAction::Remove, None),
                Action::Leave(reason) => (ShardAction::Leave, Some(reason.clone())),
            };
            let (chunks, chunks_before) = (shard.chunks.len() as u64, shard.named_before);
            Some(ShardRecovered { path: name(root, &shard.path), action, chunks_before, chunks, reason })
        });
        ImageRecovered {
            path: self.image.node.name.clone(),
            shape_before: self.image.node.array.shape().to_vec(),
            shape: self.shape(),
            frames: self.frames.end,
            frames_missing: self.frames.missing_count,
            missing: self.frames.missing.clone(),
            chunks: self.chunks(),
            chunks_salvaged: count(|shard| shard.salvaged),
            chunks_dropped: count(|shard| shard.dropped),
            chunks_torn: count(|shard| shard.torn),
            shards: shards.collect(),
        }
    }
}

fn name(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned()
}

impl Plan<'_> {
    fn apply(&self, root: &Path, tree: &Tree) -> Result<()> {
        let storage = Directory::open(root, Way::Buffered, true);
        let storage = storage.map_err(|error| Error::io("look at", root, error))?;
        for change in &self.documents {
            stays_below(root, &root.join(&change.key))?;
            storage.put(&change.key, &change.bytes).map_err(|error| Error::io("write", &change.key, error))?;
        }
        // Shards don't depend on each other.
        let shards: Vec<_> = self.images.iter().flat_map(|image| &image.shards).collect();
        shards.par_iter().try_for_each(|shard| shard.apply())?;
        for path in &tree.partial {
            stays_below(root, path)?;
            match fs::remove_file(path) {
                // A new document was made under this name, and has its own by now.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                removed => removed.map_err(|error| Error::io("remove", path, error))?,
            }
        }
        Ok(())
    }

    fn report(&self, root: &Path, tree: &Tree, applied: bool) -> Recovery {
        Recovery {
            applied,
            images: self.images.iter().map(|image| image.report(root)).collect(),
            documents: self.documents.iter().map(|change| change.key.clone()).collect(),
            partial: tree.partial.iter().map(|path| name(root, path)).collect(),
            replaced: leftovers::replaced(root),
        }
    }
}

/// Refuses to change what only a symbolic link makes part of the dataset.
fn stays_below(root: &Path, path: &Path) -> Result<()> {
    let folder = path.parent().unwrap_or(root);
    let folder = fs::canonicalize(folder).map_err(|error| Error::io("look at", folder, error))?;
    let is_link = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
    if is_link || !folder.starts_with(root) {
        return Err(Error::format(
            path,
            "is a symbolic link or behind one; only what is in the dataset itself is changed",
        ));
    }
    Ok(())
}
