//! How levels get their names, in a way that a later call can finish.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::image::{NewLevel, describe};
use super::options::PyramidOptions;
use crate::error::{Error, Result};
use crate::format::keys::is_below;
use crate::format::zarr3;
use crate::fs::{self as os, document};
use crate::offline::array::Array;
use crate::offline::repack::consolidated::Consolidated;
use crate::offline::repack::documents::put;
use crate::offline::repack::groups::RepackedGroup;
use crate::offline::repack::staging::{MARKER, Staging, below};

/// The levels of an image on their way to their names.
pub(super) struct Publication<'a> {
    /// The image's folder.
    pub(super) root: &'a Path,
    pub(super) staging: &'a Path,
    pub(super) levels: &'a [NewLevel],
    pub(super) options: &'a PyramidOptions,
    pub(super) journal: &'a Map<String, Value>,
}

/// How far an earlier call came.
pub(super) struct Earlier {
    /// The levels are complete in the staging folder, or have their names already.
    pub(super) made: bool,
    /// Arrays that go when the new ones come.
    pub(super) replaced: Vec<String>,
}

impl Publication<'_> {
    /// Finds what an earlier call has made, or what is in the way. `named`: the levels beside level 0 that the image's
    /// document names.
    ///
    /// # Errors
    ///
    /// [`Error::Exists`] for levels that are there and shall not be replaced, or what is no level.
    pub(super) fn look_for_earlier(&self, named: &[String]) -> Result<Earlier> {
        let is_own = fs::symlink_metadata(self.staging).is_ok_and(|metadata| metadata.is_dir());
        let marker = if is_own { document::read(&self.staging.join(MARKER))? } else { None };
        if let Some(marker) = marker.filter(|marker| self.is_whole(marker)) {
            let replaced = marker["replaced"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let replaced = replaced.filter(|path| is_below(path)).map(str::to_owned).collect();
            return Ok(Earlier { made: true, replaced });
        }
        let in_the_way = |path: PathBuf| {
            Staging::sweep(self.staging);
            Err(Error::Exists { path })
        };
        if let (Some(level), false) = (named.first(), self.options.overwrite) {
            return in_the_way(self.place(level));
        }
        let mut replaced = named.to_vec();
        for NewLevel { told, .. } in self.levels {
            let (path, place) = (&told.path, self.place(&told.path));
            if named.contains(path) || fs::symlink_metadata(&place).is_err() {
                continue;
            }
            // A call that was killed, and is not repeated, leaves arrays that no document names.
            if !self.options.overwrite || !matches!(Array::open_exactly(&place), Ok(Some(_))) {
                return in_the_way(place);
            }
            replaced.push(path.clone());
        }
        Ok(Earlier { made: false, replaced })
    }

    /// Whether an earlier call made these levels, and none of them has gone.
    fn is_whole(&self, marker: &Value) -> bool {
        let own = self.marker(&[]);
        let same = |key: &str| marker[key] == own[key];
        let is_there = |path: &str| self.staged(path).is_dir() || self.place(path).is_dir();
        same("arrays") && same("synced") && self.levels.iter().all(|level| is_there(&level.told.path))
    }

    fn marker(&self, replaced: &[String]) -> Value {
        json!({"synced": self.options.sync, "arrays": self.journal, "replaced": replaced})
    }

    /// From now on, the levels in the staging folder are no longer for a later call to publish.
    pub(super) fn forget_earlier(&self) -> Result<()> {
        let is_own = fs::symlink_metadata(self.staging).is_ok_and(|metadata| metadata.is_dir());
        let marker = self.staging.join(MARKER);
        match fs::remove_file(&marker) {
            Err(error) if is_own && error.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", marker, error)),
            _ => Ok(()),
        }
    }

    /// Every level is complete: a later call has only to publish them.
    pub(super) fn announce(&self, replaced: &[String]) -> Result<()> {
        put(&self.staging.join(MARKER), &self.marker(replaced))
    }

    /// Gives the levels their names, and lets the image's document name them.
    pub(super) fn publish(&self, replaced: &[String]) -> Result<()> {
        let group = RepackedGroup { name: String::new(), document: Value::Null, is_new: false };
        let consolidated = Consolidated::of(self.root, &[group], self.staging)?;
        let paths: Vec<&str> = self.levels.iter().map(|level| level.told.path.as_str()).collect();
        consolidated.set_aside()?;
        consolidated.expect(&paths.iter().map(|path| self.place(path)).collect::<Vec<_>>())?;
        let waiting: Vec<&str> = paths.iter().copied().filter(|path| self.staged(path).is_dir()).collect();
        if !waiting.is_empty() {
            self.name_levels(0)?;
        }
        let goes = |path: &&String| waiting.contains(&path.as_str()) || !paths.contains(&path.as_str());
        replaced.iter().filter(goes).try_for_each(|path| self.set_apart(path))?;
        for path in waiting {
            let place = self.place(path);
            if let Some(folder) = place.parent() {
                os::folders_below(self.root, folder)?;
            }
            os::publish(&self.staged(path), &place)?;
        }
        self.name_levels(self.levels.len())?;
        consolidated.bring_back()
    }

    /// Lets the image's document name so many levels beside level 0.
    fn name_levels(&self, count: usize) -> Result<()> {
        let file = self.root.join(zarr3::DOCUMENT);
        let before = document::read(&file)?.ok_or_else(|| Error::format(&file, "has gone"))?;
        let mut document = before.clone();
        describe(&mut document, &self.levels[..count], self.options);
        if document == before { Ok(()) } else { put(&file, &document) }
    }

    /// Moves a level that no document names any more into the staging folder.
    fn set_apart(&self, path: &str) -> Result<()> {
        let (place, apart) = (self.place(path), self.staging.join("old").join(path));
        if fs::symlink_metadata(&place).is_err() {
            return Ok(());
        }
        apart.parent().map_or(Ok(()), fs::create_dir_all).map_err(|error| Error::io("move away", &place, error))?;
        os::rename(&place, &apart, true)?;
        // Else it might be at its old place again after the power went, though no document names it.
        os::sync_folder_of(&place)
    }

    fn place(&self, path: &str) -> PathBuf {
        below(self.root, path)
    }

    fn staged(&self, path: &str) -> PathBuf {
        Staging::place(self.staging, path)
    }
}
