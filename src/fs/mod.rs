//! What the crate asks of the operating system beside plain files: locks, names that appear at once, names that last,
//! removals that take nothing else along, room on the disk, leases and lost pages. No other module knows the system.

pub(crate) mod archives;
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
#[cfg(feature = "offline")]
pub(crate) mod look;
pub(crate) mod lost_pages;
mod names;
mod publish;
pub(crate) mod system;

use std::path::{Component, Path};

pub(crate) use identity::Identity;
pub(crate) use lock::{FileLock, LOCK_FILE, Lock};
pub(crate) use names::is_partial;
#[cfg(feature = "offline")]
pub(crate) use names::is_work;
pub(crate) use publish::{
    absolute, create_new, exchange, finish_exchange, hidden, make_file, make_folders, remove_empty_folders, swap,
    sync_folder_of,
};
#[cfg(feature = "offline")]
pub(crate) use publish::{folders_below, publish, put, remove_folder, remove_links, rename};

/// Whether a path that a document names leads to something below, and not out of its dataset.
pub(crate) fn is_below(path: &str) -> bool {
    !path.is_empty() && Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
}
