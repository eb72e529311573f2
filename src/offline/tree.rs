//! What stands in a dataset's folders: groups, arrays with their files, and what belongs to neither.
//!
//! Unlike a reader, a walk goes on behind a broken document: whoever checks or repairs wants to know of all of them.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::hosted::Host;
use super::reader::Array;
use crate::config::Dialect;
use crate::error::{Error, Result};
use crate::format::provenance::ATTRIBUTE;
use crate::fs::document;
use crate::fs::links;

const DEPTH_MAX: usize = 32;
const NODES_MAX: usize = 1 << 16;

const DOCUMENTS: [&str; 3] = ["zarr.json", ".zarray", ".zgroup"];
const BESIDE_DOCUMENTS: [&str; 6] =
    [".zattrs", ".zmetadata", crate::fs::LOCK_FILE, "METADATA.ome.xml", "manifest.json", "kerchunk.json"];

/// All that a walk found.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) groups: Vec<Group>,
    pub(super) arrays: Vec<Node>,
    /// Documents that can't be understood.
    pub(super) broken: Vec<Error>,
    /// Files that a writer had begun and not yet given their name.
    pub(super) partial: Vec<PathBuf>,
    /// What no document speaks of.
    pub(super) unexpected: Vec<PathBuf>,
}

/// A group, or an array that speaks for the dataset like one, because its format has no groups.
#[derive(Debug)]
pub(super) struct Group {
    /// The path below the root; empty for the root itself.
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) attributes: Value,
    /// The file with the attributes.
    pub(super) document: PathBuf,
    /// Where the attributes stand in that document, as a JSON pointer.
    pub(super) pointer: &'static str,
    /// The name of the array that its writer's attributes are about.
    pub(super) image: String,
}

/// An array and the files whose names are places in a grid like its own, inside its shape or not.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) array: Array,
    pub(super) files: Vec<(PathBuf, Vec<u64>)>,
}

impl Tree {
    /// Walks the dataset at `root`.
    ///
    /// # Errors
    ///
    /// When there is none, or a folder can't be listed.
    pub(super) fn walk(root: &Path) -> Result<Self> {
        links::enter(root);
        let mut walk = Walk { visited: HashSet::new(), nodes: 0, tree: Self::default() };
        // The reader's own words for what is there instead of a document.
        let elsewhere = if has_document(root) { None } else { Array::open_exactly(root)? };
        match elsewhere {
            Some(array) => walk.array(array, "", 0)?,
            None => walk.node(root, "", 0)?,
        }
        let mut tree = walk.tree;
        tree.groups.sort_by(|a, b| a.name.cmp(&b.name));
        tree.arrays.sort_by(|a, b| a.name.cmp(&b.name));
        tree.arrays.iter_mut().for_each(|node| node.files.sort());
        tree.partial.sort();
        tree.unexpected.sort();
        Ok(tree)
    }

    pub(super) fn group(&self, name: &str) -> Option<&Group> {
        self.groups.iter().find(|group| group.name == name)
    }

    pub(super) fn array(&self, name: &str) -> Option<&Node> {
        self.arrays.iter().find(|node| node.name == name)
    }
}

/// The name of a node below another.
pub(super) fn below(group: &str, name: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{group}/{name}") }
}

fn has_document(path: &Path) -> bool {
    DOCUMENTS.iter().any(|name| fs::symlink_metadata(path.join(name)).is_ok())
}

fn is_partial(name: &str) -> bool {
    name.starts_with('.') && name.ends_with(".partial")
}

struct Walk {
    /// Device and inode of folders seen, since a symbolic link may lead back up.
    visited: HashSet<(u64, u64)>,
    nodes: usize,
    tree: Tree,
}

impl Walk {
    /// Whether this folder was not seen before.
    fn enter(&mut self, path: &Path, depth: usize) -> Result<bool> {
        let metadata = fs::metadata(path).map_err(|error| Error::io("look at", path, error))?;
        if depth > DEPTH_MAX {
            return Err(Error::format(path, format!("the tree is deeper than {DEPTH_MAX}")));
        }
        Ok(self.visited.insert((metadata.dev(), metadata.ino())))
    }

    fn node(&mut self, path: &Path, name: &str, depth: usize) -> Result<()> {
        if !self.enter(path, depth)? {
            return Ok(());
        }
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            return Err(Error::format(path, format!("the tree has more than {NODES_MAX} nodes")));
        }
        match Array::open_exactly(path) {
            Ok(Some(array)) => self.array(array, name, depth),
            Ok(None) => match Host::at(path) {
                Ok(Some(host)) => self.hosted(&host, path, name, depth),
                Ok(None) => self.group(path, name, depth),
                Err(error) => self.broken(error),
            },
            Err(error) => self.broken(error),
        }
    }

    /// What is below a broken document can't be told from what is not its own.
    fn broken(&mut self, error: Error) -> Result<()> {
        self.tree.broken.push(error);
        Ok(())
    }

    fn array(&mut self, array: Array, name: &str, depth: usize) -> Result<()> {
        if array.layout().dialect == Dialect::Zarr2Sharded && array.attributes().get(ATTRIBUTE).is_some() {
            self.tree.groups.push(Group {
                name: name.to_owned(),
                path: array.path().to_path_buf(),
                attributes: array.attributes().clone(),
                document: array.path().join(".zattrs"),
                pointer: "",
                image: name.to_owned(),
            });
        }
        let mut files = Vec::new();
        if array.folder().is_dir() {
            self.files(&array, name, array.folder(), "", depth, &mut files)?;
        }
        self.tree.arrays.push(Node { name: name.to_owned(), array, files });
        Ok(())
    }

    fn group(&mut self, path: &Path, name: &str, depth: usize) -> Result<()> {
        match attributes(path) {
            Ok(attributes) => self.tree.groups.push(Group {
                name: name.to_owned(),
                path: path.to_path_buf(),
                attributes,
                document: path.join("zarr.json"),
                pointer: "/attributes",
                image: below(name, "0"),
            }),
            Err(error) => self.tree.broken.push(error),
        }
        self.children(path, name, depth, &[])
    }

    /// What stands in a group's folder, but for `known`, which was looked at.
    fn children(&mut self, path: &Path, name: &str, depth: usize, known: &[PathBuf]) -> Result<()> {
        for child in list(path)? {
            let last = child.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if known.contains(&child) {
                continue;
            } else if child.is_dir() && has_document(&child) {
                self.node(&child, &below(name, &last), depth + 1)?;
            } else if !child.is_dir() && is_partial(&last) {
                self.tree.partial.push(child);
            } else if !is_beside_array(&last) {
                self.tree.unexpected.push(child);
            }
        }
        Ok(())
    }

    /// A dataset whose documents stand in one place.
    fn hosted(&mut self, host: &Host, path: &Path, name: &str, depth: usize) -> Result<()> {
        for group in host.groups() {
            match host.group(group) {
                Ok(said) => self.tree.groups.push(Group {
                    name: below(name, group),
                    path: path.join(group),
                    attributes: said.attributes,
                    document: said.document,
                    pointer: said.pointer,
                    image: below(name, &said.image),
                }),
                Err(error) => self.tree.broken.push(error),
            }
        }
        let mut folders = Vec::new();
        for node in host.arrays() {
            match host.array(node) {
                Ok(Some(array)) => {
                    folders.push(array.folder().to_path_buf());
                    self.array(array, &below(name, node), depth)?;
                }
                Ok(None) => {}
                Err(error) => self.tree.broken.push(error),
            }
        }
        for other in host.others() {
            let last = other.file_name().unwrap_or_default().to_string_lossy();
            let found = if is_partial(&last) { &mut self.tree.partial } else { &mut self.tree.unexpected };
            found.push(other.clone());
        }
        // What is no document among these was told by the host.
        let meta = path.join("meta");
        for folder in host.folders().iter().filter(|folder| **folder != meta) {
            self.strays(folder, &folders, depth)?;
        }
        self.children(path, name, depth, &host.folders())
    }

    /// Files below a folder that are in no array's folder.
    fn strays(&mut self, folder: &Path, known: &[PathBuf], depth: usize) -> Result<()> {
        if known.iter().any(|known| known == folder) || !folder.is_dir() || !self.enter(folder, depth)? {
            return Ok(());
        }
        for path in list(folder)? {
            if path.is_dir() {
                self.strays(&path, known, depth + 1)?;
            } else if path.file_name().is_some_and(|name| is_partial(&name.to_string_lossy())) {
                self.tree.partial.push(path);
            } else {
                self.tree.unexpected.push(path);
            }
        }
        Ok(())
    }

    /// All files below a folder of an array.
    fn files(
        &mut self,
        array: &Array,
        node: &str,
        folder: &Path,
        key: &str,
        depth: usize,
        files: &mut Vec<(PathBuf, Vec<u64>)>,
    ) -> Result<()> {
        for path in list(folder)? {
            let name = path.file_name().and_then(OsStr::to_str);
            let key = name.map(|name| below(key, name));
            let position = key.as_deref().and_then(|key| array.layout().file_position(key));
            match (position, name, &key) {
                (Some(position), ..) if !path.is_dir() => files.push((path, position)),
                (_, Some(name), _) if !path.is_dir() && is_partial(name) => self.tree.partial.push(path),
                (_, Some(name), _) if folder == array.folder() && is_beside_array(name) => {}
                // As in the walk of nodes: in Zarr v2, this crate's writer puts its records below the array.
                (_, Some(name), _) if array.layout().dialect == Dialect::Zarr2Sharded && has_document(&path) => {
                    self.node(&path, &below(node, name), depth + 1)?;
                }
                (_, _, Some(key)) if path.is_dir() && key.split('/').count() <= array.shape().len() + 1 => {
                    if self.enter(&path, depth)? {
                        self.files(array, node, &path, key, depth + 1, files)?;
                    }
                }
                _ => self.tree.unexpected.push(path),
            }
        }
        Ok(())
    }
}

fn is_beside_array(name: &str) -> bool {
    DOCUMENTS.contains(&name) || BESIDE_DOCUMENTS.contains(&name)
}

/// The attributes of the group at `path`: an object, if they are there.
fn attributes(path: &Path) -> Result<Value> {
    let attributes = match document::read(&path.join("zarr.json"))? {
        Some(document) => document.get("attributes").cloned().unwrap_or_default(),
        None => document::read(&path.join(".zattrs"))?.unwrap_or_default(),
    };
    if attributes.is_null() || attributes.is_object() {
        return Ok(attributes);
    }
    Err(Error::format(path, format!("its attributes are {attributes}; expected an object")))
}

fn list(path: &Path) -> Result<Vec<PathBuf>> {
    let failed = |error| Error::io("list", path, error);
    links::check(path).map_err(|reason| Error::format(path, reason))?;
    let entries = fs::read_dir(path).map_err(failed)?;
    entries.map(|entry| entry.map(|entry| entry.path()).map_err(failed)).collect()
}
