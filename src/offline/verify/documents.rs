//! What the documents of a dataset say of each other, and what no document speaks of.

use std::collections::BTreeSet;
use std::path::Path;

use super::check::{Check, Severity, reason};
use crate::error::Error;
use crate::fs::{links, look};
use crate::offline::array::Array;
use crate::offline::hierarchy;
use crate::offline::promises::{self, Broken};
use crate::offline::recover::replaced;
use crate::offline::stale::{self, Stale};

impl Check<'_> {
    pub(super) fn documents(&self) {
        for error in &self.tree.broken {
            match error {
                Error::Format { path, reason } => self.damage(path, reason),
                Error::Unsupported { path, reason } => self.find(Severity::Unchecked, path, None, reason),
                Error::Io { path, .. } => self.damage(path, error.to_string()),
                other => self.damage(self.root, other.to_string()),
            }
        }
        let unread = |group: &Path, error| {
            self.damage(group, format!("its consolidated metadata can't be read: {}", reason(error)));
        };
        let broken = promises::broken_in_tree(self.tree, unread);
        for Broken { group, what, .. } in broken {
            self.damage(&group, what);
        }
        for Stale { group, what } in stale::in_tree(self.tree) {
            self.damage(&group, what);
        }
    }

    /// Whether all folders of an array's chunks could be listed. Otherwise chunks that were not seen are not lost.
    pub(super) fn is_listed(&self, array: &Array) -> bool {
        !self.broken_paths().any(|path| path.starts_with(array.folder()) && !look::is_file(path))
    }

    /// Whether it is told of something below a folder that it can't be read.
    pub(super) fn is_told_of(&self, folder: &Path) -> bool {
        self.broken_paths().any(|path| path.starts_with(folder))
    }

    fn broken_paths(&self) -> impl Iterator<Item = &Path> {
        self.tree.broken.iter().filter_map(|error| match error {
            Error::Format { path, .. } | Error::Unsupported { path, .. } | Error::Io { path, .. } => Some(&**path),
            _ => None,
        })
    }

    pub(super) fn leftovers(&self) {
        for path in &self.tree.partial {
            let what = "was begun by a writer that was stopped, and is no part of the dataset; recover removes it";
            self.note(path, what);
        }
        for path in &self.tree.unexpected {
            match links::refuse_dangling(path) {
                // A folder of chunks, perhaps.
                Err(error) => self.find(Severity::Unchecked, path, None, reason(error)),
                Ok(()) => self.note(path, "belongs to no array of the dataset"),
            }
        }
        let tree = self.tree;
        let groups = tree.groups.iter().map(|group| group.path.as_path());
        let folders: BTreeSet<&Path> = groups.chain(tree.arrays.iter().map(|node| node.array.path())).collect();
        for folder in folders.into_iter().filter(|folder| hierarchy::has_two_formats(folder)) {
            let what = "has documents of Zarr v2 beside its zarr.json, which counts here; other readers may take those";
            self.note(folder, what);
        }
        for (path, what) in replaced(self.root, self.tree) {
            self.note(&path, what);
        }
    }
}
