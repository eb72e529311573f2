//! The groups around an image that is created at a key of a hierarchy, be it another writer's.
//!
//! What stands there stays as it is, byte for byte: only groups that have no document yet get one.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::archive_file::is_archive_name;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::format::keys::NAME_BYTES_MAX;
use crate::format::node::OF_ZARR2_NODES;
use crate::format::zarr3::DOCUMENT;
use crate::format::{consolidated, rules, zarr3};
use crate::fs::{absolute, folders_above, make_file};
use crate::json;
use crate::words::{plain, quoted};

/// The group of an image's labels, and its list of them.
const LABELS: &str = "labels";

/// Groups that were looked at, and can have the image among them.
#[derive(Debug)]
pub(crate) struct Around {
    /// The image's own path.
    pub(crate) path: PathBuf,
    /// Those that have no document, the outermost first, and whether their folders are there.
    lacking: Vec<(PathBuf, bool)>,
    /// What lists images, and not this one.
    pub(crate) notes: Vec<String>,
}

impl Around {
    /// The groups on the way to `key` in the hierarchy at `root`.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] for a key that no node can have, and for what can't be combined with one; [`Error::Conflict`]
    /// for something in the way that is no group of Zarr v3, and for consolidated metadata, by which readers would not
    /// see the image.
    pub(crate) fn look(root: &Path, key: &str, config: &Config) -> Result<Self> {
        check(root, key, config)?;
        let root = absolute(root)?;
        let mut folders = vec![root.clone()];
        for name in key.split('/') {
            folders.push(folders[folders.len() - 1].join(name));
        }
        let path = folders.pop().unwrap_or_default();
        let (mut lacking, mut notes) = (Vec::new(), Vec::new());
        for folder in folders {
            let document = group(&folder, folder == root)?;
            notes.extend(document.as_ref().and_then(|document| note(&folder, document)));
            notes.extend(note_of_labels(&folder, document.as_ref(), &path, config));
            if document.is_none() {
                let is_there = folder.is_dir();
                lacking.push((folder, is_there));
            }
        }
        for above in folders_above(&root) {
            if !above.join(DOCUMENT).is_file() {
                break;
            }
            if let Some(document) = group(above, true)? {
                notes.extend(note(above, &document));
                notes.extend(note_of_labels(above, Some(&document), &path, config));
            }
        }
        Ok(Self { path, lacking, notes })
    }

    /// Gives documents to the groups that lack one, and adds to `made` those that were made.
    pub(crate) fn make(&self, made: &mut Vec<Made>) -> Result<()> {
        for (folder, was_there) in &self.lacking {
            let file = folder.join(DOCUMENT);
            if put_new(&file)? {
                made.push(Made { file, was_there: *was_there });
            }
        }
        Ok(())
    }
}

/// The document of a group that was made, in a folder that perhaps was there.
#[derive(Debug)]
pub(crate) struct Made {
    file: PathBuf,
    was_there: bool,
}

impl Made {
    /// Takes it back if nothing else came to be in the group.
    pub(crate) fn remove(&self) {
        let Some(folder) = self.file.parent() else { return };
        if fs::read_dir(folder).is_ok_and(|entries| entries.count() == 1) {
            let _ = fs::remove_file(&self.file);
            if !self.was_there {
                let _ = fs::remove_dir(folder);
            }
        }
    }
}

/// Why a node can't have this name, if it can't.
pub(crate) fn refuse_name(name: &str) -> Option<&'static str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let is_reserved = ["ome", DOCUMENT].iter().any(|reserved| name.eq_ignore_ascii_case(reserved));
    let is_hidden = name.starts_with('.') || name.starts_with("__");
    (name.is_empty() || name.len() > NAME_BYTES_MAX || is_hidden || is_reserved || !name.chars().all(plain)).then_some(
        "1 to 200 letters, digits, _, - and . are possible, not starting with a dot or with __, which Zarr reserves, \
         and neither OME nor zarr.json",
    )
}

fn check(root: &Path, key: &str, config: &Config) -> Result<()> {
    let refuse = |reason: String| Err(Error::config("key", quoted(key), reason));
    if let Some(why) = key.split('/').find_map(refuse_name) {
        return refuse(format!("expected names with a / between them; of each, {why}"));
    }
    if !rules(config.dialect).is_tree {
        return refuse(format!("only zarr3 has hierarchies, and the dialect is {}", config.dialect));
    }
    if !config.manifest.is_empty() {
        return refuse("a manifest is written beside a dataset, and would be a part of this hierarchy".to_owned());
    }
    if is_archive_name(root) {
        return refuse("an archive is written as a whole; create a folder, and repack it".to_owned());
    }
    Ok(())
}

/// The document of a group, if it has one. `is_outer`: a folder that is no group must be empty.
fn group(folder: &Path, is_outer: bool) -> Result<Option<Value>> {
    let refuse = |reason: &str| Err(Error::conflict(folder, reason));
    let misplaced = |reason: &str| Err(Error::config("path", folder.display(), reason));
    let file = folder.join(DOCUMENT);
    if let Some(document) = read_document(&file)? {
        if document["zarr_format"] != 3 || document["node_type"] != "group" {
            return misplaced("is no group of Zarr v3, so nothing can stand below it; choose another key");
        }
        if consolidated::of(&document).is_some() {
            return misplaced(consolidated::HIDES_NEW);
        }
        return Ok(Some(document));
    }
    if let Some(older) = OF_ZARR2_NODES.iter().find(|name| folder.join(name).exists()) {
        return refuse(&format!("is of Zarr v2 ({older}), and what is written is Zarr v3; choose another path"));
    }
    match fs::read_dir(folder).map(Iterator::count) {
        Ok(1..) if is_outer => refuse("is a folder with files in it, and no group of Zarr v3; choose another path"),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => refuse("is a file; choose another key"),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("look into", folder, error)),
        _ => Ok(None),
    }
}

/// The document at `path`, or `None` where there is no such file.
pub(crate) fn read_document(path: &Path) -> Result<Option<Value>> {
    match fs::metadata(path) {
        // Opening a pipe would wait for ever.
        Ok(found) if !found.is_file() => return Err(Error::format(path, "is not a regular file")),
        Ok(_) => {}
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(Error::io("look at", path, error)),
    }
    let bytes = fs::File::open(path).and_then(|file| json::bounded(&file, json::DOCUMENT_BYTES_MAX));
    let bytes = bytes.map_err(|error| Error::io("read", path, error))?;
    let bytes = bytes.map_err(|len| Error::format(path, format!("has {len} bytes, which no metadata needs")))?;
    json::parse(&bytes).map(Some).map_err(|error| Error::format(path, format!("is not JSON: {}", plain(error))))
}

/// What to say of a group that lists what is in it.
fn note(folder: &Path, document: &Value) -> Option<String> {
    let ome = document.pointer("/attributes/ome")?;
    let list = ["plate", "well", "bioformats2raw.layout", "series"].into_iter().find(|list| ome.get(list).is_some())?;
    Some(format!("{} lists images (its {list}), and not this one", folder.display()))
}

/// What to say of the group of an image's labels, by whose list viewers find them, where it does not name this image.
fn note_of_labels(folder: &Path, document: Option<&Value>, path: &Path, config: &Config) -> Option<String> {
    let ome = document.and_then(|document| document.pointer("/attributes/ome"));
    let listed = ome.and_then(|ome| ome[LABELS].as_array());
    let is_image = |group: &Path| {
        let document = read_document(&group.join(DOCUMENT)).ok().flatten().unwrap_or_default();
        document.pointer("/attributes/ome/multiscales").is_some()
    };
    if listed.is_none() && !(folder.ends_with(LABELS) && folder.parent().is_some_and(is_image)) {
        return None;
    }
    let name = path.strip_prefix(folder).ok()?.to_str()?;
    if listed.is_some_and(|listed| listed.iter().any(|listed| listed == name)) {
        return None;
    }
    let file = folder.join(DOCUMENT);
    let help = match listed {
        Some(_) => format!("add {} to attributes.ome.{LABELS}", quoted(name)),
        None => {
            let entry = json!({"version": config.ome.name(), LABELS: [name]});
            format!("put \"ome\": {entry} into its attributes")
        }
    };
    Some(format!(
        "{} does not list it among the image's labels, so viewers don't show it as such: {help}",
        file.display()
    ))
}

/// Writes the document of a group. False: somebody else has.
fn put_new(file: &Path) -> Result<bool> {
    let bytes = serde_json::to_vec_pretty(&zarr3::group(Value::from(Map::new()))).unwrap_or_default();
    let made = make_file(file, true, |mut new| new.write_all(&bytes).map_err(|error| Error::io("create", file, error)));
    match made {
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        made => made.map(|()| true),
    }
}
