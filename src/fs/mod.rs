//! What the crate asks of the operating system beside plain files: locks, names that appear at once, names that last,
//! removals that take nothing else along, room on the disk, leases, lost pages, memory and cores. No other module knows
//! the system.

pub(crate) mod archives;
pub(crate) mod attributes;
pub(crate) mod bell;
pub(crate) mod beneath;
#[cfg(feature = "offline")]
pub(crate) mod document;
mod forks;
pub(crate) mod growth;
mod identity;
pub(crate) mod lease;
pub(crate) mod links;
mod lock;
#[cfg(feature = "offline")]
pub(crate) mod look;
pub(crate) mod lost_pages;
pub(crate) mod memory;
mod output;
mod publish;
#[cfg(feature = "offline")]
pub(crate) mod publish_once;
pub(crate) mod system;

use std::path::Path;

pub(crate) use identity::Identity;
#[cfg(feature = "offline")]
pub(crate) use lock::is_work;
pub(crate) use lock::{FileLock, LOCK_FILE, Lock, is_partial};
pub use output::OutputFile;
pub(crate) use output::make_file;
#[cfg(feature = "offline")]
pub(crate) use output::{OutputFolder, remove_leftovers};
pub(crate) use publish::{
    absolute, create_new, exchange, finish_exchange, hidden, make_folders, remove_empty_folders, remove_folder, swap,
    sync_folder_of, take_name,
};
#[cfg(feature = "offline")]
pub(crate) use publish::{folders_below, publish, publish_new, put, remove_links, rename};

/// Groups around a dataset, or a node, that are looked at.
const ABOVE_MAX: usize = 16;

/// The names in a folder, in order.
#[cfg(all(test, not(miri)))]
fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

/// The folders above a path that may be groups around it, the nearest first.
pub(crate) fn folders_above(path: &Path) -> impl Iterator<Item = &Path> {
    path.ancestors().skip(1).take(ABOVE_MAX)
}
