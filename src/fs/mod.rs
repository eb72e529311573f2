//! What the crate asks of the operating system beside plain files: locks, names that appear at once, names that last,
//! removals that take nothing else along, room on the disk, leases and lost pages. No other module knows the system.

pub(crate) mod bell;
pub(crate) mod beneath;
#[cfg(feature = "offline")]
pub(crate) mod document;
mod forks;
pub(crate) mod growth;
mod identity;
pub(crate) mod json;
pub(crate) mod lease;
pub(crate) mod links;
mod lock;
pub(crate) mod lost_pages;
mod names;
mod publish;
pub(crate) mod system;

#[cfg(feature = "offline")]
use std::path::PathBuf;
use std::path::{Component, Path};

#[cfg(feature = "offline")]
use crate::error::{Error, Result};

pub(crate) use identity::Identity;
pub(crate) use lock::{LOCK_FILE, Lock};
pub(crate) use names::is_partial;
#[cfg(feature = "offline")]
pub(crate) use names::is_work;
pub(crate) use publish::{absolute, create_new, exchange, finish_exchange, hidden, make_folders, swap, sync_folder_of};
#[cfg(feature = "offline")]
pub(crate) use publish::{folders_below, publish, put, remove_links};

/// Whether a path that a document names leads to something below, and not out of its dataset.
pub(crate) fn is_below(path: &str) -> bool {
    !path.is_empty() && Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
}

/// What stands in a folder.
#[cfg(feature = "offline")]
pub(crate) fn list(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = |error| Error::io("list", folder, error);
    links::check(folder).map_err(|reason| Error::format(folder, reason))?;
    let entries = std::fs::read_dir(folder).map_err(failed)?;
    entries.map(|entry| entry.map(|entry| entry.path()).map_err(failed)).collect()
}
