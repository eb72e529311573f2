//! Folders that were made for files which may not stay: shards that are created ahead of need.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard};

use crate::sync::Unpoisoned;

/// Those of files that are neither finished nor removed.
#[derive(Debug, Default)]
pub(super) struct MadeFolders {
    folders: Mutex<HashSet<PathBuf>>,
    /// Held by all who make folders for a file until the file is in them; by one alone who removes folders.
    removal: RwLock<()>,
}

impl MadeFolders {
    fn lock(&self) -> MutexGuard<'_, HashSet<PathBuf>> {
        self.folders.lock().unpoisoned()
    }

    /// While it is held, no folder goes that is empty.
    pub(super) fn keep_empty(&self) -> RwLockReadGuard<'_, ()> {
        self.removal.read().unpoisoned()
    }

    pub(super) fn add(&self, folders: Vec<PathBuf>) {
        self.lock().extend(folders);
    }

    /// The file at `path` stays, and so do the folders around it.
    pub(super) fn keep(&self, path: &Path) {
        let mut folders = self.lock();
        for folder in path.ancestors().skip(1) {
            folders.remove(folder);
        }
    }

    /// The file at `path` has gone; those around it that have nothing else in them go, too.
    pub(super) fn remove_empty(&self, path: &Path) {
        let _alone = self.removal.write().unpoisoned();
        let mut folders = self.lock();
        for folder in path.ancestors().skip(1) {
            if !folders.contains(folder) || fs::remove_dir(folder).is_err() {
                break;
            }
            folders.remove(folder);
        }
    }
}
