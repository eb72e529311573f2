//! How levels get their names, in a way that a later call can finish.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::{Map, Value, json};

use super::image::{MultiscaleImage, NewLevel, describe};
use super::options::PyramidOptions;
use crate::error::{Error, Result};
use crate::format::keys::is_below;
use crate::format::{DIMENSION_NAMES, zarr3};
use crate::fs::{self as os, document, look};
use crate::offline::repack::consolidated::Consolidated;
use crate::offline::repack::documents::{change, put};
use crate::offline::repack::groups::RepackedGroup;
use crate::offline::repack::staging::{MARKER, Staging, below};
use crate::words::{count, quoted};

const OLD: &str = "old";
/// Where the marker has attributes of levels.
const OWN: &str = "own";

/// The levels of an image on their way to their names.
#[derive(Debug)]
pub(super) struct Publication {
    pub(super) image: MultiscaleImage,
    pub(super) staging: PathBuf,
    pub(super) levels: Vec<NewLevel>,
    pub(super) options: PyramidOptions,
    pub(super) journal: Map<String, Value>,
    /// Of each level in turn, the attributes that go on to be its own.
    pub(super) own: Vec<Map<String, Value>>,
}

/// How far an earlier call came.
#[derive(Debug)]
pub(super) struct Earlier {
    /// The levels are complete in the staging folder, or have their names already.
    pub(super) made: bool,
    /// Arrays that go when the new ones come.
    pub(super) replaced: Vec<String>,
    /// All is as this call would leave it.
    pub(super) done: bool,
}

/// Of each level in turn, the attributes that somebody gave it: the image's levels say them, or, if a call was killed
/// after it had moved these away, what it has left.
pub(super) fn own_attributes(image: &MultiscaleImage, staging: &Path) -> Result<Vec<Map<String, Value>>> {
    if image.datasets.len() > 1 {
        return Ok(image.own_attributes());
    }
    let marker = if is_folder(staging) { document::read(&staging.join(MARKER))? } else { None };
    let said = marker.as_ref().and_then(|marker| marker[OWN].as_array());
    Ok(said.into_iter().flatten().map(|said| said.as_object().cloned().unwrap_or_default()).collect())
}

impl Publication {
    /// Refuses to make so few levels that attributes of others would be lost.
    fn check_own(&self) -> Result<()> {
        let lost =
            self.own.iter().enumerate().skip(self.levels.len()).find_map(|(at, said)| Some((at, said.keys().next()?)));
        match lost {
            Some((at, key)) if !self.levels.is_empty() => {
                let reason = format!(
                    "level {} has attributes of its own ({}), and would go, as the image gets {} beside level 0; \
                     ask for more with the option `levels`, or take the attributes out",
                    at + 1,
                    quoted(key),
                    count(self.levels.len(), "level")
                );
                Err(Error::conflict(&self.image.root, reason))
            }
            _ => Ok(()),
        }
    }

    /// Finds what an earlier call has made, or what is in the way.
    pub(super) fn look_for_earlier(&self) -> Result<Earlier> {
        let image = &self.image;
        let marker = if is_folder(&self.staging) { document::read(&self.staging.join(MARKER))? } else { None };
        self.levels.iter().try_for_each(|level| image.check_new(&level.told.path))?;
        if let Some(marker) = marker.as_ref().filter(|marker| self.is_whole(marker)) {
            let replaced: Vec<_> = replaced(marker).filter(|path| is_below(path)).map(str::to_owned).collect();
            replaced.iter().try_for_each(|path| image.check_apart(path))?;
            return Ok(Earlier { made: true, replaced, done: false });
        }
        let in_the_way = |path: PathBuf, help| Err(Error::Exists { path, help });
        let named = &image.datasets[1..];
        // An image that is small enough without more keeps what it has.
        let none_goes = self.options.overwrite || self.levels.is_empty();
        if let (Some(level), false) = (named.first(), none_goes) {
            if marker.is_none() && self.is_done()? {
                return Ok(Earlier { made: true, replaced: Vec::new(), done: true });
            }
            return in_the_way(self.place(level), "allow overwriting, which replaces the levels");
        }
        named.iter().try_for_each(|path| image.check_replaceable(path))?;
        self.check_own()?;
        let mut replaced = named.to_vec();
        for NewLevel { told, .. } in &self.levels {
            let (path, place) = (&told.path, self.place(&told.path));
            if named.contains(path) || fs::symlink_metadata(&place).is_err() {
                continue;
            }
            // A call that was killed, and is not repeated, leaves arrays that no document names.
            let is_left = marker.as_ref().is_some_and(|marker| self.is_left(marker, path));
            if !self.options.overwrite || !is_left {
                return in_the_way(place, "it is no level that the image lists; move it away");
            }
            image.check_replaceable(path)?;
            replaced.push(path.clone());
        }
        Ok(Earlier { made: false, replaced, done: false })
    }

    /// Whether the levels that the image lists are those of this call: documents say so, and that `pyramid` made them
    /// by the same method. Where files of level 0 are newer, its pixels may have changed since.
    pub(super) fn is_done(&self) -> Result<bool> {
        let image = &self.image;
        let said = document::read(&image.root.join(zarr3::DOCUMENT))?.unwrap_or_default();
        let mut meant = said.clone();
        describe(&mut meant, &self.levels, &self.options);
        if meant != said {
            return Ok(false);
        }
        let mut made: Option<SystemTime> = None;
        for NewLevel { told, document: meant, .. } in &self.levels {
            let file = self.place(&told.path).join(zarr3::DOCUMENT);
            if document::read(&file)?.as_ref() != Some(meant) {
                return Ok(false);
            }
            let written = changed(&file)?;
            made = Some(made.map_or(written, |made| made.min(written)));
        }
        let Some(made) = made else { return Ok(false) };
        let files = image.finest.files()?.into_iter().map(|(path, _)| path);
        let mut of_finest = files.chain([image.finest.document().to_path_buf()]);
        of_finest.try_fold(true, |is_older, path| Ok(is_older && changed(&path)? <= made))
    }

    /// Whether an earlier call was about to replace what stands at a path, or put it there.
    fn is_left(&self, marker: &Value, path: &str) -> bool {
        let made = &marker["arrays"][path]["document"];
        let there = document::read(&self.place(path).join(zarr3::DOCUMENT)).ok().flatten();
        replaced(marker).any(|known| known == path) || there.is_some_and(|there| there == *made)
    }

    /// Whether an earlier call made these levels, and none of them has gone.
    fn is_whole(&self, marker: &Value) -> bool {
        let own = self.marker(&[]);
        let same = |key: &str| marker[key] == own[key];
        let is_there = |path: &str| self.staged(path).is_dir() || self.place(path).is_dir();
        same("arrays") && same("synced") && self.levels.iter().all(|level| is_there(&level.told.path))
    }

    fn marker(&self, replaced: &[String]) -> Value {
        json!({"synced": self.options.sync, "arrays": self.journal, "replaced": replaced, OWN: self.own})
    }

    /// From now on, the levels in the staging folder are no longer for a later call to publish. What it may replace is
    /// still known to it.
    pub(super) fn forget_earlier(&self, replaced: &[String]) -> Result<()> {
        let marker = self.staging.join(MARKER);
        if !is_folder(&self.staging) || fs::symlink_metadata(&marker).is_err() {
            return Ok(());
        }
        put(&marker, &json!({"replaced": replaced, OWN: self.own}))?;
        // What that call has replaced would stand in the place of what this one replaces.
        os::remove_folder(&self.staging.join(OLD))
    }

    /// Every level is complete: a later call has only to publish them.
    pub(super) fn announce(&self, replaced: &[String]) -> Result<()> {
        put(&self.staging.join(MARKER), &self.marker(replaced))
    }

    /// Gives the levels their names, and lets the image's document name them.
    pub(super) fn publish(&self, replaced: &[String]) -> Result<()> {
        let group = RepackedGroup { name: String::new(), document: Value::Null, is_new: false };
        let root = &self.image.root;
        let consolidated = Consolidated::of(root, &[group], &self.staging)?;
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
                os::folders_below(root, folder)?;
            }
            os::publish(&self.staged(path), &place)?;
        }
        self.name_levels(self.levels.len())?;
        replaced.iter().try_for_each(|path| self.remove_emptied(path))?;
        consolidated.bring_back()
    }

    /// Lets the image's document name this many levels beside level 0.
    fn name_levels(&self, count: usize) -> Result<()> {
        let file = self.image.root.join(zarr3::DOCUMENT);
        let is_there = change(&file, |document| {
            describe(document, &self.levels[..count], &self.options);
            Ok(())
        })?;
        if is_there { Ok(()) } else { Err(Error::conflict(&file, "has gone")) }
    }

    /// Moves a level that no document names any more into the staging folder.
    fn set_apart(&self, path: &str) -> Result<()> {
        let (place, apart) = (self.place(path), self.staging.join(OLD).join(path));
        if fs::symlink_metadata(&place).is_err() {
            return Ok(());
        }
        apart.parent().map_or(Ok(()), fs::create_dir_all).map_err(|error| Error::io("move away", &place, error))?;
        os::rename(&place, &apart, true)?;
        // Else it might be at its old place again after the power went, though no document names it.
        os::sync_folder_of(&place)
    }

    /// Removes groups around a level that has gone which hold nothing else and say nothing.
    fn remove_emptied(&self, path: &str) -> Result<()> {
        let place = self.place(path);
        for folder in place.ancestors().skip(1).take_while(|folder| *folder != self.image.root) {
            let file = folder.join(zarr3::DOCUMENT);
            if !is_folder(folder) || look::list(folder)?.iter().any(|entry| *entry != file) || !says_nothing(&file)? {
                break;
            }
            let removed = match fs::remove_file(&file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => fs::remove_dir(folder),
            };
            removed.map_err(|error| Error::io("remove", folder, error))?;
            os::sync_folder_of(folder)?;
        }
        Ok(())
    }

    fn place(&self, path: &str) -> PathBuf {
        below(&self.image.root, path)
    }

    fn staged(&self, path: &str) -> PathBuf {
        Staging::place(&self.staging, path)
    }
}

fn changed(path: &Path) -> Result<SystemTime> {
    fs::metadata(path).and_then(|file| file.modified()).map_err(|error| Error::io("look at", path, error))
}

/// Whether there is a folder, and no link to one.
fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

fn replaced(marker: &Value) -> impl Iterator<Item = &str> {
    marker["replaced"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// Whether a document is not there, or that of a group without attributes of anybody's own.
fn says_nothing(file: &Path) -> Result<bool> {
    const OF_ALL: [&str; 4] = ["zarr_format", "node_type", "attributes", "consolidated_metadata"];
    let Some(document) = document::read(file)? else { return Ok(true) };
    let has_only = |fields: &Value, known: &[&str]| {
        fields.as_object().is_none_or(|fields| fields.keys().all(|key| known.contains(&key.as_str())))
    };
    let is_plain = has_only(&document, &OF_ALL) && has_only(&document["attributes"], &[DIMENSION_NAMES]);
    Ok(document["node_type"] == "group" && is_plain)
}
