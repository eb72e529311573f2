//! What the crate asks of the operating system beside plain files: locks, names that appear at once, names that last,
//! removals that take nothing else along, room on the disk, leases and lost pages. No other module knows the system.

pub(crate) mod archives;
pub(crate) mod bell;
#[cfg(feature = "offline")]
pub(crate) mod beneath;
#[cfg(feature = "offline")]
pub(crate) mod document;
pub(crate) mod growth;
mod identity;
pub(crate) mod json;
pub(crate) mod lease;
#[cfg(feature = "offline")]
pub(crate) mod links;
mod lock;
#[cfg(feature = "offline")]
pub(crate) mod look;
pub(crate) mod lost_pages;
mod publish;
pub(crate) mod system;

use std::path::{Component, Path};

pub(crate) use identity::Identity;
pub(crate) use lock::{LOCK_FILE, Lock};
#[cfg(feature = "offline")]
pub(crate) use look::list;
pub(crate) use publish::{absolute, create_new, exchange, finish_exchange, hidden, make_folders, swap, sync_folder_of};
#[cfg(feature = "offline")]
pub(crate) use publish::{folders_below, publish, put, remove_links};
#[cfg(feature = "offline")]
pub(crate) use system::rename_new;

/// Whether a path that a document names leads to something below, and not out of its dataset.
pub(crate) fn is_below(path: &str) -> bool {
    !path.is_empty() && Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
}

/// Whether a name is one under which files are made before they appear.
pub(crate) fn is_partial(name: &str) -> bool {
    name.starts_with('.') && name.ends_with(".partial")
}

/// Whether a name is one that this crate gives to what it works at, or has replaced: never a node of a dataset.
#[cfg(feature = "offline")]
pub(crate) fn is_work(name: &str) -> bool {
    let ending = name.strip_prefix('.').and_then(|name| name.rsplit_once('.')).map(|(_, ending)| ending);
    ending.is_some_and(|ending| {
        matches!(ending, "partial" | "repack" | "pyramid" | "replaced") || ending.starts_with("replaced-")
    })
}
