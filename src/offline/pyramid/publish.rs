//! How levels get their names, in a way that a later call can finish.

use std::fs;
use std::io;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::Pyramid;
use super::image::{MultiscaleImage, describe};
use crate::error::{Error, Result};
use crate::fs::{self as os, document};
use crate::offline::array::Array;
use crate::offline::repack::consolidated::Consolidated;
use crate::offline::repack::documents::put;
use crate::offline::repack::groups::Group;
use crate::offline::repack::staging::{Staging, below};

/// In the staging folder: what is about to get its name, and what it replaces.
const MARKER: &str = "publish.json";

impl Pyramid {
    /// Finds what an earlier call has made, or what is in the way.
    ///
    /// # Errors
    ///
    /// [`Error::Exists`] for levels that are there and shall not be replaced, or what is no level.
    pub(super) fn look_for_earlier(&mut self) -> Result<()> {
        let is_own = fs::symlink_metadata(&self.staging).is_ok_and(|metadata| metadata.is_dir());
        let marker = if is_own { document::read(&self.staging.join(MARKER))? } else { None };
        if let Some(marker) = marker.filter(|marker| self.is_whole(marker)) {
            let replaced = marker["replaced"].as_array().into_iter().flatten().filter_map(Value::as_str);
            self.replaced = replaced.filter(|path| os::is_below(path)).map(str::to_owned).collect();
            self.made = true;
            return Ok(());
        }
        let in_the_way = |path: PathBuf| {
            Staging::sweep(&self.staging);
            Err(Error::Exists { path })
        };
        if let (Some(level), false) = (self.replaced.first(), self.options.overwrite) {
            return in_the_way(self.place(level));
        }
        let mut more = Vec::new();
        for (level, ..) in &self.levels {
            let (path, place) = (&level.told.path, self.place(&level.told.path));
            if self.replaced.contains(path) || fs::symlink_metadata(&place).is_err() {
                continue;
            }
            // A call that was killed, and is not repeated, leaves arrays that no document names.
            if !self.options.overwrite || !matches!(Array::open_exactly(&place), Ok(Some(_))) {
                return in_the_way(place);
            }
            more.push(path.clone());
        }
        self.replaced.extend(more);
        Ok(())
    }

    /// What somebody should know before the levels are made, as sentences: which others are removed.
    pub fn notes(&self) -> Vec<String> {
        let stays = |path: &&String| self.levels.iter().any(|(level, ..)| level.told.path == **path);
        let removed: Vec<_> =
            self.replaced.iter().filter(|path| !stays(path)).map(|path| format!("{path:?}")).collect();
        match removed.len() {
            0 => Vec::new(),
            _ if self.levels.is_empty() => Vec::new(),
            count => {
                let (of, are) = if count == 1 { ("level", "is") } else { ("levels", "are") };
                vec![format!("the {of} {} {are} removed: the image gets fewer than it has", removed.join(", "))]
            }
        }
    }

    /// Whether an earlier call made these levels, and none of them has gone.
    fn is_whole(&self, marker: &Value) -> bool {
        let same = |key: &str| marker[key] == self.marker()[key];
        let is_there = |path: &str| self.staged(path).is_dir() || self.place(path).is_dir();
        same("arrays") && same("synced") && self.levels.iter().all(|(level, ..)| is_there(&level.told.path))
    }

    fn marker(&self) -> Value {
        json!({"synced": self.options.sync, "arrays": self.journal, "replaced": self.replaced})
    }

    /// From now on, the levels in the staging folder are no longer for a later call to publish.
    pub(super) fn forget_earlier(&self) -> Result<()> {
        let is_own = fs::symlink_metadata(&self.staging).is_ok_and(|metadata| metadata.is_dir());
        let marker = self.staging.join(MARKER);
        match fs::remove_file(&marker) {
            Err(error) if is_own && error.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", marker, error)),
            _ => Ok(()),
        }
    }

    /// Every level is complete: a later call has only to publish them.
    pub(super) fn announce(&self) -> Result<()> {
        put(&self.staging.join(MARKER), &self.marker())
    }

    /// Gives the levels their names, and lets the image's document name them.
    pub(super) fn publish(&self) -> Result<()> {
        let MultiscaleImage { root, .. } = &self.image;
        let group = Group { name: String::new(), document: Value::Null, is_new: false };
        let consolidated = Consolidated::of(root, &[group], &self.staging)?;
        let paths: Vec<&str> = self.levels.iter().map(|(level, ..)| level.told.path.as_str()).collect();
        consolidated.set_aside()?;
        consolidated.expect(&paths.iter().map(|path| self.place(path)).collect::<Vec<_>>())?;
        let waiting: Vec<&str> = paths.iter().copied().filter(|path| self.staged(path).is_dir()).collect();
        if !waiting.is_empty() {
            self.name_levels(0)?;
        }
        for path in
            self.replaced.iter().filter(|path| waiting.contains(&path.as_str()) || !paths.contains(&path.as_str()))
        {
            self.set_apart(path)?;
        }
        for path in waiting {
            let place = self.place(path);
            if let Some(folder) = place.parent() {
                os::folders_below(root, folder)?;
            }
            os::publish(&self.staged(path), &place)?;
        }
        self.name_levels(self.levels.len())?;
        consolidated.bring_back()
    }

    /// Lets the image's document name so many levels beside level 0.
    fn name_levels(&self, count: usize) -> Result<()> {
        let file = self.image.root.join("zarr.json");
        let before = document::read(&file)?.ok_or_else(|| Error::format(&file, "has gone"))?;
        let mut document = before.clone();
        describe(&mut document, self.levels[..count].iter().map(|(level, ..)| level), &self.options);
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
        below(&self.image.root, path)
    }

    fn staged(&self, path: &str) -> PathBuf {
        Staging::place(&self.staging, path)
    }
}
