//! Brings a dataset whose writer was stopped into the state that the writer would have left.
//!
//! The order makes it safe to stop at any moment and to run again: what is missing is written down before anything is
//! changed from which it could be told; then each shard gets its index as the writer's own close does it. Nothing is
//! ever read from what this changes but the slot headers and the payloads, and these are never changed.

mod count;
mod documents;
mod empty;
mod frames;
mod image;
mod records;
mod report;
mod shard;
mod source;

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicU64;

use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::fs::Lock;
use crate::fs::beneath::Root;
use crate::offline::hierarchy::leftovers;
use crate::offline::hierarchy::walk::Tree;
use crate::storage::{Access, Directory, Storage};
use documents::Change;
use image::{ImagePlan, Progress};
pub use report::{ImageRecovered, Recovery, ShardAction, ShardRecovered};
use source::{Image, images, name, stays_below};

/// Finds what can be saved of the dataset at `path` after its writer was stopped, be it by a kill or a power cut. With
/// `apply`, also makes the changes: shards get indexes that name exactly the chunks whose slot header and payload
/// agree; documents say how many frames there are and which are missing; files that were never finished are removed.
///
/// It may be stopped at any moment and run again, and where nothing is to be done, it changes nothing. `progress` is
/// called from several threads with the bytes that were looked through and those in all.
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
    let progress = Progress { progress, done: AtomicU64::new(0), total };
    let images = images.into_iter().map(|image| ImagePlan::new(root, tree, image, &progress));
    let images: Vec<_> = images.collect::<Result<_>>()?;
    let documents = documents::changes(root, tree, &images)?;
    Ok(Plan { images, documents })
}

impl Plan<'_> {
    fn apply(&self, root: &Path, tree: &Tree) -> Result<()> {
        let storage = Directory::open(root, Access::Buffered, true);
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
