//! Datasets whose documents stand in one place: what they hold, by the names of its nodes.
//!
//! Their arrays have paths like all others, the dataset's and then the array's name, though nothing need stand there.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{DEPTH_MAX, GroupAttributes, NODES_MAX, Speaker, below, has_node};
use crate::error::{Error, Result};
use crate::format::keys::is_below;
use crate::format::layout::Layout;
use crate::format::{precomputed, zarr3, zarr3_draft};
use crate::fs::look::FolderStamp;
use crate::fs::{document, look};
use crate::offline::array::Array;

/// Names that an error message lists.
const NAMES_MAX: usize = 20;

/// A dataset whose arrays have no documents of their own beside their files.
#[derive(Debug, Default)]
pub(crate) struct CentralMetadata {
    pub(crate) root: PathBuf,
    /// Its groups, parents before their children. The root is one, named with nothing.
    pub(super) groups: Vec<String>,
    pub(crate) arrays: Vec<String>,
    /// What stands among the documents and is none.
    pub(super) others: Vec<PathBuf>,
    /// The one document of a precomputed volume.
    info: Option<Value>,
    /// Of the root, before anything of it was read.
    stamp: Option<FolderStamp>,
}

/// An array with shards of a dataset whose documents stand in one place.
pub(crate) struct ShardedArray {
    pub(crate) layout: Layout,
    pub(crate) folder: PathBuf,
    pub(crate) document: PathBuf,
    pub(crate) group: Option<GroupAttributes>,
}

/// Whether a folder is a dataset, or a group or an array of one, by the documents in it, readable or not.
pub fn is_dataset(path: impl AsRef<Path>) -> bool {
    let path = path.as_ref();
    has_node(path) || !matches!(CentralMetadata::at(path), Ok(None))
}

impl CentralMetadata {
    /// The dataset at exactly this path; `None` if it is of another kind.
    pub(crate) fn at(root: &Path) -> Result<Option<Self>> {
        let (file, stamp) = (root.join(zarr3::DOCUMENT), FolderStamp::at(root).ok());
        let Some(entry) = document::read(&file)?.filter(zarr3_draft::is_entry) else {
            return Self::volume(root, stamp);
        };
        zarr3_draft::check_entry(&file, &entry)?;
        let mut found = Self { root: root.to_path_buf(), stamp, ..Self::default() };
        found.list(&root.join("meta"), "", 0)?;
        found.groups.sort();
        found.arrays.sort();
        found.others.sort();
        if !found.groups.iter().chain(&found.arrays).any(String::is_empty) {
            found.groups.insert(0, String::new());
        }
        Ok(Some(found))
    }

    /// The precomputed volume at exactly this path.
    fn volume(root: &Path, stamp: Option<FolderStamp>) -> Result<Option<Self>> {
        let Some((file, info)) = info(root)? else { return Ok(None) };
        let (groups, arrays) = (vec![String::new()], precomputed::keys(&file, &info)?);
        Ok(Some(Self { root: root.to_path_buf(), groups, arrays, info: Some(info), stamp, ..Self::default() }))
    }

    /// Lists the documents below a folder in `meta/`, whose path there is `key`.
    fn list(&mut self, folder: &Path, key: &str, depth: usize) -> Result<()> {
        if !look::is_folder(folder) {
            return Ok(());
        }
        for path in look::list(folder)? {
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
                self.others.push(path);
                continue;
            };
            let key = below(key, name);
            if self.groups.len() + self.arrays.len() + self.others.len() >= NODES_MAX {
                return Err(Error::format(folder, format!("there are more than {NODES_MAX} documents")));
            }
            if !path.is_symlink() && look::is_folder(&path) {
                if depth >= DEPTH_MAX {
                    return Err(Error::format(path, format!("the tree is deeper than {DEPTH_MAX}")));
                }
                self.list(&path, &key, depth + 1)?;
                continue;
            }
            match zarr3_draft::DraftNode::of(&key) {
                Some(zarr3_draft::DraftNode::Array(name)) => self.arrays.push(name),
                Some(zarr3_draft::DraftNode::Group(name)) => self.groups.push(name),
                None => self.others.push(path),
            }
        }
        Ok(())
    }

    /// The dataset that `path` lies in, and the name that `path` has there.
    pub(crate) fn of(path: &Path) -> Result<Option<(Self, String)>> {
        for root in path.ancestors().skip(1).take(DEPTH_MAX) {
            let name = path.strip_prefix(root).unwrap_or(path).to_string_lossy();
            if !is_below(&name) {
                return Ok(None);
            }
            // What stands above a path is no concern of those who read something else there.
            let is_entry = document::read(&root.join(zarr3::DOCUMENT))
                .is_ok_and(|document| document.is_some_and(|document| zarr3_draft::is_entry(&document)));
            if is_entry || info(root).is_ok_and(|found| found.is_some()) {
                return Ok(Self::at(root)?.map(|central| (central, name.into_owned())));
            }
        }
        Ok(None)
    }

    /// Whether the dataset is a volume with a scale of this name.
    pub(crate) fn has_scale(&self, name: &str) -> bool {
        self.info.is_some() && self.arrays.iter().any(|array| array == name)
    }

    /// What the document of a volume says of a scale, in the words of Zarr.
    pub(crate) fn said_of_scale(&self, name: &str) -> Option<Value> {
        precomputed::said_of_scale(self.info.as_ref()?, name)
    }

    /// What stands beside a volume's scales by its own word, and cloud-volume's file, which says who made it.
    pub(super) fn companions(&self) -> Vec<PathBuf> {
        let Some(info) = &self.info else { return Vec::new() };
        let names = precomputed::FOLDERS.iter().filter_map(|key| info.get(*key)?.as_str());
        names.filter(|name| is_below(name)).chain([precomputed::PROVENANCE]).map(|name| self.root.join(name)).collect()
    }

    /// The folders below the root that the central's own files stand in.
    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        if self.info.is_none() {
            return vec![self.root.join("meta"), self.root.join("data")];
        }
        let first = |key: &String| key.split('/').next().map(|first| self.root.join(first));
        self.arrays.iter().filter_map(first).chain([self.root.join(precomputed::DOCUMENT)]).collect()
    }

    pub(crate) fn array(&self, name: &str) -> Result<Option<Array>> {
        if !self.arrays.iter().any(|array| array == name) {
            return Ok(None);
        }
        if let Some(info) = &self.info {
            let (file, folder) = (self.root.join(precomputed::DOCUMENT), self.root.join(name));
            let metadata = precomputed::parse(&file, info, name)?;
            let array = Array::with(&folder, &folder, file.clone(), metadata);
            return Ok(Some(array.opened_at(&self.root, self.stamp, [file])));
        }
        let file = zarr3_draft::array_document(&self.root, name);
        let Some(document) = document::read(&file)? else { return Ok(None) };
        let metadata = zarr3_draft::parse(&file, &document)?;
        let path = if name.is_empty() { self.root.clone() } else { self.root.join(name) };
        let array = Array::with(&path, &zarr3_draft::data_folder(&self.root, name), file.clone(), metadata);
        Ok(Some(array.opened_at(&self.root, self.stamp, [file])))
    }

    /// Where the array of this name has its chunks, if it has shards, be they read here or not; also the folder that
    /// the names of its files start from, its document, and the group whose writer's attributes are about it, if one's
    /// are.
    pub(crate) fn sharded(&self, name: &str) -> Result<Option<ShardedArray>> {
        let (layout, folder, document, group) = match &self.info {
            Some(_) => {
                let layout = self.array(name)?.map(|array| array.layout().clone());
                let is_first = self.arrays.first().is_some_and(|first| first == name);
                (layout, self.root.join(name), self.root.join(precomputed::DOCUMENT), is_first.then_some(""))
            }
            None => {
                let file = zarr3_draft::array_document(&self.root, name);
                let parse = |document: &Value| {
                    zarr3_draft::sharded_layout(document).map_err(|reason| Error::format(&file, reason))
                };
                let layout = document::read(&file)?.as_ref().map(parse).transpose()?.flatten();
                let (group, last) = name.rsplit_once('/').unwrap_or(("", name));
                (layout, zarr3_draft::data_folder(&self.root, name), file, (last == "0").then_some(group))
            }
        };
        let Some(layout) = layout.filter(Layout::has_index) else { return Ok(None) };
        Ok(Some(ShardedArray { layout, folder, document, group: group.map(|group| self.group(group)).transpose()? }))
    }

    pub(crate) fn group(&self, name: &str) -> Result<GroupAttributes> {
        let path = if name.is_empty() { self.root.clone() } else { self.root.join(name) };
        let (attributes, document, pointer, image) = match (&self.info, &self.arrays[..]) {
            (Some(info), [first, ..]) => {
                (precomputed::attributes(info), self.root.join(precomputed::DOCUMENT), "", first.clone())
            }
            _ => {
                let document = zarr3_draft::group_document(&self.root, name);
                let attributes = document::read(&document)?.and_then(|document| document.get("attributes").cloned());
                (attributes.unwrap_or_else(|| json!({})), document, "/attributes", below(name, "0"))
            }
        };
        let (name, speaker) = (name.to_owned(), Speaker::CentralMetadata);
        Ok(GroupAttributes { name, path, attributes, document, pointer, image, speaker })
    }

    /// The name of the array that is meant where only the dataset is named.
    pub(crate) fn first(&self) -> Result<String> {
        match &self.arrays[..] {
            // The first scale is the finest.
            [first, ..] if self.info.is_some() => Ok(first.clone()),
            [only] => Ok(only.clone()),
            arrays if arrays.iter().any(|name| name == "0") => Ok("0".to_owned()),
            [] => Err(Error::not_found(&self.root, "is a group; there is nothing in it")),
            arrays => {
                let named = arrays.iter().take(NAMES_MAX);
                let paths: Vec<_> = named.map(|name| self.root.join(name).display().to_string()).collect();
                let reason = format!("is a group and no image; name an array in it: {}", paths.join(", "));
                Err(Error::not_found(&self.root, reason))
            }
        }
    }
}

/// The `info` of the volume at a path, if there is one.
fn info(root: &Path) -> Result<Option<(PathBuf, Value)>> {
    let file = root.join(precomputed::DOCUMENT);
    // Other things are called so, too.
    if !look::is_file(&file) {
        return Ok(None);
    }
    let Some(bytes) = document::bytes(&file, document::DOCUMENT_BYTES_MAX)? else { return Ok(None) };
    let info = document::parse(&bytes).ok().filter(precomputed::is_info);
    Ok(info.map(|info| (file, info)))
}
