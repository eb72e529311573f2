//! Brings a dataset whose writer was stopped into the state that the writer would have left.
//!
//! The order makes it safe to stop at any moment and to run again: what is missing is written down before anything is
//! changed from which it could be told; then each shard gets its index as the writer's own close does it. Nothing is ever
//! read from what this changes but the slot headers and the payloads, and these are never changed.

mod documents;
mod empty;
mod frames;
mod image;
mod place;
mod records;
mod shard;

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;

use rayon::prelude::*;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::format::acquisition_map::AcquisitionMap;
use crate::format::provenance::Provenance;
use crate::fs::Lock;
use crate::offline::hierarchy::leftovers;
use crate::offline::hierarchy::walk::{ArrayNode, Group, Tree};
use crate::storage::{Directory, Storage, Way};
use documents::Change;
use image::{Headway, ImagePlan};
use place::Root;

/// What a recovery found, and what it did or would do.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Recovery {
    /// Whether the changes were made, rather than only found.
    pub applied: bool,
    /// The images that this crate's writer made.
    pub images: Vec<ImageRecovered>,
    /// Documents that change, and files of frame numbers, below the root.
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
    /// One past the highest frame number that is known of, or past the last place of its stack or volume, if it lies in one.
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
    own: Provenance,
    group: &'a Group,
    node: &'a ArrayNode,
    places: AcquisitionMap,
}

fn images<'a>(root: &Path, tree: &'a Tree) -> Result<Vec<Image<'a>>> {
    // Without its documents nothing about a shard is sure.
    if let Some(error) = tree.broken.first() {
        return Err(error.clone());
    }
    let mut images = Vec::new();
    for group in &tree.groups {
        let Some(own) = Provenance::parse(&group.path, &group.attributes)? else { continue };
        let missing = || {
            Error::format(&group.path, format!("its writer made an array {} in it, which is not there", group.image))
        };
        let node = tree.array(&group.image).ok_or_else(missing)?;
        let places = node.array.acquisition_map(&own)?;
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

fn plan<'a>(
    root: &Path,
    tree: &Tree,
    images: Vec<Image<'a>>,
    progress: &(impl Fn(u64, u64) + Sync),
) -> Result<Plan<'a>> {
    let all = images.iter().flat_map(|image| &image.node.files);
    let total = all.map(image::file_bytes).fold(0, u64::saturating_add);
    let headway = Headway { progress, done: AtomicU64::new(0), total };
    let images = images.into_iter().map(|image| ImagePlan::new(root, tree, image, &headway));
    let images: Vec<_> = images.collect::<Result<_>>()?;
    let documents = documents::changes(root, tree, &images)?;
    Ok(Plan { images, documents })
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
        let below = Root::open(root)?;
        for image in &self.images {
            image.write_records(root, &below, tree, &storage)?;
        }
        // Shards don't depend on each other.
        for image in &self.images {
            image.changed.par_iter().try_for_each(|shard| image.apply(root, &below, shard))?;
        }
        // A new document was made under such a name, and has its own by now.
        tree.partial.iter().try_for_each(|path| below.remove_file(path))?;
        Ok(())
    }

    fn report(&self, root: &Path, tree: &Tree, applied: bool) -> Recovery {
        let documents = self.documents.iter().map(|change| change.key.clone());
        let records = self.images.iter().flat_map(|image| image.record_files(root, tree));
        let documents = documents.chain(records).collect();
        Recovery {
            applied,
            images: self.images.iter().map(|image| image.report(root)).collect(),
            documents,
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
