//! What new levels may take the places of: levels that the image's document lists, and nothing that is, or holds,
//! anything else. Level 0 is only read.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::image::MultiscaleImage;
use crate::error::{Error, Result};
use crate::format::keys::is_below;
use crate::format::provenance::{ATTRIBUTE, is_own};
use crate::format::{DIMENSION_NAMES, zarr3};
use crate::fs::{LOCK_FILE, document, is_partial, look};
use crate::offline::array::Array;
use crate::offline::hierarchy::{below, groups_around};
use crate::offline::repack::staging::is_behind_link;
use crate::ome::multiscales;
use crate::words::quoted;

impl MultiscaleImage {
    /// Refuses a document whose datasets can't be told apart from level 0, which would go with them.
    pub(super) fn check_datasets(&self) -> Result<()> {
        for path in &self.datasets {
            let plain: PathBuf = Path::new(path).components().collect();
            if !is_below(path) || plain.as_os_str() != path.as_str() {
                let reason = format!("names a dataset {}; expected a path below it, such as \"0\"", quoted(path));
                return Err(Error::format(&self.root, reason));
            }
        }
        self.datasets[1..].iter().try_for_each(|path| self.check_apart(path))
    }

    /// Refuses a level that is level 0, holds it, or lies in it, be it behind a link.
    pub(super) fn check_apart(&self, path: &str) -> Result<()> {
        let finest = &self.datasets[0];
        if touch(&self.root, path, finest) {
            let (path, finest) = (quoted(path), quoted(finest));
            let reason = format!("its level {path} is, holds, or lies in level 0 ({finest}), which is only read");
            return Err(Error::format(&self.root, reason));
        }
        Ok(())
    }

    /// Refuses the name of a new level that would not be beside level 0.
    pub(super) fn check_new(&self, path: &str) -> Result<()> {
        self.check_apart(path)?;
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        match is_behind_link(&self.root, folder) {
            true => Err(Error::conflict(self.root.join(folder), "lies behind a link, where no levels are made")),
            false => Ok(()),
        }
    }

    /// Refuses a listed level that is not this image's alone, or that holds what would be lost with it.
    pub(super) fn check_replaceable(&self, path: &str) -> Result<()> {
        let place = self.root.join(path);
        if !look::exists(&place)? {
            return Ok(());
        }
        match self.why_to_keep(path, &place)? {
            Some(reason) => {
                let help = "and is not replaced: take it out of the image's datasets, or move it away";
                Err(Error::conflict(place, format!("{reason}, {help}")))
            }
            None => Ok(()),
        }
    }

    /// Of the levels that the document lists, each in turn, the attributes that somebody has put there. A new level
    /// does without those that say what it is made of, and what its dimensions are called.
    pub(super) fn own_attributes(&self) -> Vec<Map<String, Value>> {
        let of_level = |path: &String| {
            let array = Array::open_exactly(&self.root.join(path)).ok().flatten();
            let mut said = array.and_then(|array| array.attributes().as_object().cloned()).unwrap_or_default();
            said.retain(|key, said| key != DIMENSION_NAMES && !(key == ATTRIBUTE && is_own(said)));
            said
        };
        self.datasets[1..].iter().map(of_level).collect()
    }

    fn why_to_keep(&self, path: &str, place: &Path) -> Result<Option<String>> {
        let say = |reason: &str| Ok(Some(reason.to_owned()));
        if is_behind_link(&self.root, path) {
            return say("is, or lies behind, a link");
        }
        let is_other_s = |other: &String| is_below(other) && touch(&self.root, other, path);
        if self.others.iter().any(is_other_s) || is_of_inner_image(&self.root, place) {
            return say("belongs to another image, too");
        }
        let array = match place.is_dir() {
            true => Array::open_exactly(place)?.filter(|array| array.layout().rules().is_tree),
            false => None,
        };
        let Some(array) = array else { return say("is no array of Zarr v3") };
        let finest = &self.finest;
        if array.dtype() != finest.dtype() || array.shape().len() != finest.shape().len() {
            return say("has other elements or dimensions than level 0");
        }
        let is_larger = array.shape().iter().zip(finest.shape()).any(|(length, finest)| length > finest);
        if is_larger || array.shape() == finest.shape() {
            return say("is no smaller than level 0, which should be the finest");
        }
        let other = other_file(&array, place, "")?;
        Ok(other.map(|file| format!("holds {}, which is no chunk of it", file.display())))
    }
}

/// Whether two paths are one place, or one of them lies in the other.
fn touch(root: &Path, one: &str, other: &str) -> bool {
    let is_one = |one: &Path, other: &Path| one.starts_with(other) || other.starts_with(one);
    let (one, other) = (root.join(one), root.join(other));
    is_one(&one, &other) || is_one(&resolved(&one), &resolved(&other))
}

/// A path without links, as far as it is there.
fn resolved(path: &Path) -> PathBuf {
    let real = |above: &Path| Some(above.canonicalize().ok()?.join(path.strip_prefix(above).ok()?));
    path.ancestors().find_map(real).unwrap_or_else(|| path.to_path_buf())
}

/// Whether a group between the image and its level is an image itself.
fn is_of_inner_image(root: &Path, place: &Path) -> bool {
    groups_around(place).take_while(|folder| *folder != root).any(|folder| {
        let document = document::read(&folder.join(zarr3::DOCUMENT)).ok().flatten().unwrap_or_default();
        multiscales::images(multiscales::ome_of(&document["attributes"])).next().is_some()
    })
}

/// A file below a folder of an array that is no part of it.
fn other_file(array: &Array, folder: &Path, key: &str) -> Result<Option<PathBuf>> {
    for path in look::list(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let inner = below(key, &name);
        let is_folder = fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_dir());
        let is_deep = inner.split('/').count() > array.shape().len() + 1;
        let is_own = is_partial(&name) || key.is_empty() && [zarr3::DOCUMENT, LOCK_FILE].contains(&name.as_str());
        let other = match is_folder {
            true if !is_deep => other_file(array, &path, &inner)?,
            false if is_own || array.file_position(&inner).is_some() => None,
            _ => Some(path),
        };
        if other.is_some() {
            return Ok(other);
        }
    }
    Ok(None)
}
