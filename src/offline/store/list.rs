//! Which keys there are: files under their own names, and of shards the chunks that their indexes name.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::Path;

use super::view::{ArrayView, ArrayViews, listed};
use crate::error::{Error, Result};
use crate::fs::Identity;
use crate::fs::look::DEPTH_MAX;

/// Keys and prefixes right below a prefix.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listing {
    /// Whole keys; there is a value for each.
    pub keys: Vec<String>,
    /// Prefixes, each with a slash at its end. Some may hold no key, because shards are listed by all chunks that they
    /// can hold.
    pub prefixes: Vec<String>,
}

/// All that is listed for one root.
pub(super) struct Lister<'a> {
    pub(super) root: &'a Path,
    pub(super) views: &'a ArrayViews,
}

impl Lister<'_> {
    pub(super) fn list_prefix(&self, prefix: &str) -> Result<Vec<String>> {
        let mut keys = Vec::new();
        self.walk("", prefix, 0, &mut HashSet::new(), &mut keys)?;
        for view in self.views.all() {
            let Some((start, below)) = start_of(view, prefix) else { continue };
            for shard in self.shards(view)?.into_iter().filter(|shard| view.meets(&start, shard)) {
                keys.extend(self.chunks(view, &shard, below)?);
            }
        }
        keys.sort();
        Ok(keys)
    }

    pub(super) fn list_dir(&self, prefix: &str) -> Result<Listing> {
        let mut keys = BTreeSet::new();
        let mut prefixes = BTreeSet::new();
        let folder = self.root.join(prefix);
        if folder.is_dir() {
            let (files, folders) = listed(&folder)?;
            keys.extend(files.iter().map(|name| format!("{prefix}{name}")).filter(|key| !self.is_shard(key)));
            let below = folders.iter().map(|name| format!("{prefix}{name}/"));
            prefixes.extend(below.filter(|folder| !self.is_of_shards(folder)));
        }
        for view in self.views.all() {
            let Some((start, below)) = start_of(view, prefix) else { continue };
            if prefix.len() < view.base.len() {
                continue;
            }
            for shard in self.shards(view)?.into_iter().filter(|shard| view.meets(&start, shard)) {
                if let Some(names) = view.folders(&start, below, &shard) {
                    prefixes.extend(names.into_iter().map(|name| format!("{prefix}{name}")));
                    continue;
                }
                keys.extend(self.chunks(view, &shard, below)?);
            }
        }
        Ok(Listing { keys: keys.into_iter().collect(), prefixes: prefixes.into_iter().collect() })
    }

    /// The shards of an array whose files are there.
    pub(super) fn shards(&self, view: &ArrayView) -> Result<Vec<Vec<u64>>> {
        let mut found = Vec::new();
        self.shards_below(view, "", 0, &mut found)?;
        found.sort();
        Ok(found)
    }

    fn shards_below(&self, view: &ArrayView, below: &str, depth: usize, found: &mut Vec<Vec<u64>>) -> Result<()> {
        let (files, folders) = listed(&self.root.join(format!("{}{below}", view.base)))?;
        found.extend(files.iter().filter_map(|name| view.layout.file_position(&format!("{below}{name}"))));
        for name in folders {
            let below = format!("{below}{name}/");
            if depth < DEPTH_MAX && view.has_folder(&below) {
                self.shards_below(view, &below, depth + 1, found)?;
            }
        }
        Ok(())
    }

    /// The keys of a shard's chunks that start with `prefix` below the array.
    fn chunks(&self, view: &ArrayView, shard: &[u64], prefix: &str) -> Result<Vec<String>> {
        let Some((_, index)) = view.open_shard(self.root, shard, None)? else { return Ok(Vec::new()) };
        // An entry that points nowhere is a chunk all the same, if a damaged one.
        let key = |(chunk, _)| Some(view.layout.chunk_key(&view.layout.chunk_at(shard, chunk)?));
        let keys = index.entries().filter_map(key).filter(|key| key.starts_with(prefix));
        Ok(keys.map(|key| view.base.clone() + &key).collect())
    }

    /// Whether a file is a shard, rather than something with a key of its own.
    pub(super) fn is_shard(&self, key: &str) -> bool {
        self.views.above(key).any(|(view, below)| view.layout.file_position(below).is_some())
    }

    /// Whether a folder, named with a slash at its end, holds shards and nothing else.
    fn is_of_shards(&self, folder: &str) -> bool {
        let inner = folder.trim_end_matches('/');
        self.views.above(inner).any(|(view, _)| view.has_folder(&folder[view.base.len()..]))
    }

    /// The files below a folder that are no shards.
    fn walk(
        &self,
        folder: &str,
        prefix: &str,
        depth: usize,
        visited: &mut HashSet<Identity>,
        keys: &mut Vec<String>,
    ) -> Result<()> {
        let path = self.root.join(folder);
        let metadata = fs::metadata(&path).map_err(|error| Error::io("look at", &path, error))?;
        // A symbolic link may lead back up.
        if depth > DEPTH_MAX || !visited.insert(Identity::from(&metadata)) {
            return Ok(());
        }
        let (files, folders) = listed(&path)?;
        let names = files.iter().map(|name| format!("{folder}{name}"));
        keys.extend(names.filter(|key| key.starts_with(prefix) && !self.is_shard(key)));
        for name in folders {
            let below = format!("{folder}{name}/");
            let leads = below.starts_with(prefix) || prefix.starts_with(&below);
            if leads && !self.is_of_shards(&below) {
                self.walk(&below, prefix, depth + 1, visited, keys)?;
            }
        }
        Ok(())
    }
}

/// What keys of an array's chunks that start with `prefix` have in common, and what of the prefix lies below the array.
fn start_of<'p>(view: &ArrayView, prefix: &'p str) -> Option<(Vec<u64>, &'p str)> {
    let below = match prefix.strip_prefix(view.base.as_str()) {
        Some(below) => below,
        None if view.base.starts_with(prefix) => "",
        None => return None,
    };
    view.layout.start_of_keys(below).map(|start| (start, below))
}
