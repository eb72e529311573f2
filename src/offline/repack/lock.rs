//! One writer at a time: the locks of the datasets that a repack reads and writes.

use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::fs::Lock;
use crate::offline::hierarchy::central::CentralMetadata;
use crate::offline::hierarchy::{check_documents, has_node};

/// Takes the lock of the dataset that `path` is or belongs to, as its one writer.
pub(crate) fn to_write(path: &Path) -> Result<Lock> {
    Lock::take(&root_of(path)?)
}

/// Makes sure that nobody writes the dataset that `path` is or belongs to. Where there is no lock file, nobody does.
pub(super) fn to_read(path: &Path) -> Result<Option<Lock>> {
    Lock::share(&root_of(path)?)
}

/// The topmost group above `path`, or the dataset whose document describes what is there.
fn root_of(path: &Path) -> Result<PathBuf> {
    let group = path.ancestors().take_while(|above| has_node(above)).last();
    if let Some(group) = group {
        // What they say is read, and changes with what is in them.
        path.ancestors().skip(1).take_while(|above| above.starts_with(group)).try_for_each(check_documents)?;
        return Ok(group.to_path_buf());
    }
    let central = if CentralMetadata::at(path)?.is_some() { None } else { CentralMetadata::of(path)? };
    Ok(central.map_or_else(|| path.to_path_buf(), |(central, _)| central.root))
}
