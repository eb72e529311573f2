//! What the crate asks of the operating system's files beside reading and writing them: locks, names that appear at once, names
//! that last, and removals that take nothing else along.

pub(crate) mod document;
mod identity;
#[cfg(feature = "offline")]
pub(crate) mod links;
mod lock;
mod publish;

use std::path::{Component, Path};

pub(crate) use identity::Identity;
pub(crate) use lock::{LOCK_FILE, Lock};
#[cfg(feature = "offline")]
pub(crate) use publish::{absolute, create_new, folders_below, publish, put, remove_links};
pub(crate) use publish::{exchange, finish_exchange, hidden, make_folders, swap, sync_folder_of};

/// Whether a path that a document names leads to something below, and not out of its dataset.
pub(crate) fn is_below(path: &str) -> bool {
    !path.is_empty() && Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
}
