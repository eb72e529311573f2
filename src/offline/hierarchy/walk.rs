//! The one walk through a dataset's folders.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::central::CentralMetadata;
pub(crate) use super::node::{Node, NodeKind};
use super::{DEPTH_MAX, GroupAttributes, NODES_MAX, RECEIPT, Speaker, Visited, below, format_at, leads_to_documents};
use crate::error::{Error, Result};
use crate::format::node::{self, NodeFormat, OF_NODES};
use crate::format::{provenance, zarr2};
use crate::fs::{self as os, Lock, document, is_partial, links, look};
use crate::offline::array::Array;
pub(crate) use crate::offline::array::files::FileAt;

const BESIDE_DOCUMENTS: [&str; 5] = [os::LOCK_FILE, RECEIPT, "METADATA.ome.xml", "manifest.json", "kerchunk.json"];

/// An array and the files whose names are places in a grid like its own, inside its shape or not.
#[derive(Debug)]
pub(crate) struct ArrayNode {
    pub(crate) name: String,
    pub(crate) array: Array,
    pub(crate) files: Vec<FileAt>,
    /// Files of chunks that others are read of.
    pub(crate) doubles: Vec<PathBuf>,
}

/// All that a walk found, groups and arrays by their names.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) groups: Vec<GroupAttributes>,
    pub(crate) arrays: Vec<ArrayNode>,
    /// Documents that can't be understood.
    pub(crate) broken: Vec<Error>,
    /// Files that a writer had begun and not yet given their name.
    pub(crate) partial: Vec<PathBuf>,
    /// Links in arrays to folders that were looked at by another name.
    pub(crate) again: Vec<PathBuf>,
    /// What no document speaks of.
    pub(crate) unexpected: Vec<PathBuf>,
}

/// All nodes from `root` down, parents before their children, siblings by name, scales from the finest. What can't be
/// understood below the root is one of them, so that it does not hide the others.
///
/// # Errors
///
/// When there is no dataset, or the root itself can't be understood.
pub(crate) fn nodes(root: &Path) -> Result<Vec<Node>> {
    nodes_for(root, WalkPurpose::Nodes)
}

/// The same of a folder that need not be a dataset itself, nor one that can be understood.
pub(crate) fn all_nodes(root: &Path) -> Result<Vec<Node>> {
    nodes_for(root, WalkPurpose::Folder)
}

fn nodes_for(root: &Path, purpose: WalkPurpose) -> Result<Vec<Node>> {
    let node = |entry| match entry {
        FolderEntry::Group(GroupAttributes { speaker: Speaker::Array, .. }) => None,
        FolderEntry::Group(GroupAttributes { name, path, attributes, speaker, .. }) => {
            let central = (speaker == Speaker::CentralMetadata).then_some(attributes);
            Some(Node { name, path, kind: NodeKind::Group(central) })
        }
        FolderEntry::Array(node) => {
            let ArrayNode { name, array, .. } = *node;
            Some(Node { name, path: array.path().to_path_buf(), kind: NodeKind::Array(Box::new(array)) })
        }
        FolderEntry::Unreadable(node) => Some(node),
    };
    Ok(Walk::from(root, purpose)?.entries.into_iter().filter_map(node).collect())
}

impl Tree {
    /// Walks the dataset at `root`.
    ///
    /// # Errors
    ///
    /// When there is none, or a folder can't be listed.
    pub(crate) fn walk(root: &Path) -> Result<Self> {
        let Walk { entries, mut tree, .. } = Walk::from(root, WalkPurpose::Tree)?;
        for entry in entries {
            match entry {
                FolderEntry::Group(group) => tree.groups.push(group),
                FolderEntry::Array(node) => tree.arrays.push(*node),
                // Of these, a tree has the errors.
                FolderEntry::Unreadable(_) => {}
            }
        }
        tree.groups.sort_by(|a, b| a.name.cmp(&b.name));
        tree.arrays.sort_by(|a, b| a.name.cmp(&b.name));
        tree.arrays.iter_mut().for_each(|node| node.doubles = node.array.take_doubles(&mut node.files));
        tree.partial.sort();
        tree.unexpected.sort();
        Ok(tree)
    }

    /// Refuses a dataset while a writer is at work in one that lies inside, or that a link inside leads to, where
    /// [`Lock::look_below`] does not go.
    pub(crate) fn check_unwritten(&self) -> Result<()> {
        let groups = self.groups.iter().map(|group| group.path.as_path());
        groups.chain(self.arrays.iter().map(|node| node.array.path())).try_for_each(Lock::look)
    }

    pub(crate) fn group(&self, name: &str) -> Option<&GroupAttributes> {
        let at = self.groups.binary_search_by(|group| group.name.as_str().cmp(name));
        at.ok().map(|at| &self.groups[at])
    }

    pub(crate) fn array(&self, name: &str) -> Option<&ArrayNode> {
        let at = self.arrays.binary_search_by(|node| node.name.as_str().cmp(name));
        at.ok().map(|at| &self.arrays[at])
    }
}

/// Whether a folder below the root is a node of the dataset.
fn is_node(path: &Path) -> Result<bool> {
    Ok((!path.is_symlink() || leads_to_documents(path)) && has_document(path)?)
}

/// Whether something stands where a document would.
///
/// # Errors
///
/// When that can't be told, because the system lets nobody look.
fn has_document(path: &Path) -> Result<bool> {
    for document in OF_NODES.map(|name| path.join(name)) {
        if look::exists(&document)? {
            return Ok(true);
        }
    }
    Ok(false)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WalkPurpose {
    /// Nodes alone.
    Nodes,
    /// The same below a folder that is perhaps none.
    Folder,
    /// Everything, also behind what is broken.
    Tree,
}

enum FolderEntry {
    Group(GroupAttributes),
    Array(Box<ArrayNode>),
    Unreadable(Node),
}

struct Walk {
    purpose: WalkPurpose,
    visited: Visited,
    /// Nodes, parents before their children.
    entries: Vec<FolderEntry>,
    /// Links to folders, their names and depths: they wait for all others, so that a node has the name of its folder.
    links: Vec<(PathBuf, String, usize)>,
    /// Folders without a document that were searched for nodes.
    searched: usize,
    tree: Tree,
}

impl Walk {
    fn from(root: &Path, purpose: WalkPurpose) -> Result<Self> {
        links::enter(root);
        let (visited, entries, links, tree) = Default::default();
        let mut walk = Self { purpose, visited, entries, links, searched: 0, tree };
        let has_documents = is_node(root)?;
        if purpose == WalkPurpose::Folder && !has_documents && CentralMetadata::at(root)?.is_none() {
            walk.visited.enter(root, 0)?;
            walk.children(root, "", 0, None)?;
        } else {
            // The reader's own words for what is there instead of a document.
            let elsewhere = if has_documents { None } else { Array::open_exactly(root)? };
            match elsewhere {
                Some(array) => walk.array(array, "", 0)?,
                None => walk.node(root, "", 0)?,
            }
        }
        // Behind a link may be others.
        while !walk.links.is_empty() {
            for (path, name, depth) in std::mem::take(&mut walk.links) {
                walk.node(&path, &name, depth)?;
            }
        }
        Ok(walk)
    }

    fn add(&mut self, entry: FolderEntry) -> Result<()> {
        if self.entries.len() >= NODES_MAX {
            let path = match &entry {
                FolderEntry::Group(group) => &group.path,
                FolderEntry::Array(node) => node.array.path(),
                FolderEntry::Unreadable(node) => &node.path,
            };
            return Err(Error::format(path, format!("the tree has more than {NODES_MAX} nodes")));
        }
        self.entries.push(entry);
        Ok(())
    }

    fn node(&mut self, path: &Path, name: &str, depth: usize) -> Result<()> {
        if !self.visited.enter(path, depth)? {
            return Ok(());
        }
        match Array::open_exactly(path) {
            Ok(Some(array)) => self.array(array, name, depth),
            Ok(None) => match CentralMetadata::at(path) {
                Ok(Some(central)) => self.central(&central, path, name, depth),
                Ok(None) => self.group(path, name, depth),
                Err(error) => self.broken(error, path, name),
            },
            Err(error) => self.broken(error, path, name),
        }
    }

    /// What is in a folder: nothing, where the system lets nobody look into that of the node `name`, or of an array's
    /// chunks.
    fn list(&mut self, folder: &Path, name: &str) -> Result<Vec<PathBuf>> {
        match look::list(folder) {
            Err(error) if look::is_about_a_file(&error) => self.broken(error, folder, name).map(|()| Vec::new()),
            listed => listed,
        }
    }

    /// Whether a folder of the node `name` stands there; `None` where the system lets nobody tell.
    fn is_folder(&mut self, path: &Path, name: &str) -> Result<Option<bool>> {
        match look::is_folder_for_sure(path) {
            Ok(is_folder) => Ok(Some(is_folder)),
            Err(error) => self.broken(error, path, name).map(|()| None),
        }
    }

    /// What is below a broken document can't be told from what is not its own.
    fn broken(&mut self, error: Error, path: &Path, name: &str) -> Result<()> {
        match self.purpose {
            WalkPurpose::Nodes if name.is_empty() => Err(error),
            WalkPurpose::Nodes | WalkPurpose::Folder => {
                let (name, path) = (name.to_owned(), path.to_path_buf());
                self.add(FolderEntry::Unreadable(Node { name, path, kind: NodeKind::Unreadable(error) }))
            }
            WalkPurpose::Tree if self.tree.broken.len() >= NODES_MAX => Err(error),
            WalkPurpose::Tree => {
                self.tree.broken.push(error);
                Ok(())
            }
        }
    }

    fn array(&mut self, array: Array, name: &str, depth: usize) -> Result<()> {
        // As in the walk of nodes: in Zarr v2, this crate's writer puts its records below the array.
        let has_nodes = array.layout().rules().nodes_below_arrays;
        let (document, pointer) = match has_nodes {
            true => (array.path().join(zarr2::ATTRIBUTES), ""),
            false => (array.document().to_path_buf(), "/attributes"),
        };
        // A level of a pyramid speaks for itself, too.
        if provenance::is_level(array.attributes()) || (has_nodes && provenance::own(array.attributes()).is_some()) {
            self.add(FolderEntry::Group(GroupAttributes {
                name: name.to_owned(),
                path: array.path().to_path_buf(),
                attributes: array.attributes().clone(),
                document,
                pointer,
                image: name.to_owned(),
                speaker: Speaker::Array,
            }))?;
        }
        let at = self.entries.len();
        let (path, folder) = (array.path().to_path_buf(), array.folder().to_path_buf());
        self.add(FolderEntry::Array(Box::new(ArrayNode {
            name: name.to_owned(),
            array,
            files: Vec::new(),
            doubles: Vec::new(),
        })))?;
        if self.purpose != WalkPurpose::Tree {
            return if has_nodes { self.children(&path, name, depth, Some(&[])) } else { Ok(()) };
        }
        if look::is_root(&folder) { self.files(at, &folder, "", depth) } else { Ok(()) }
    }

    fn group(&mut self, path: &Path, name: &str, depth: usize) -> Result<()> {
        let (document, pointer) = format_at(path).unwrap_or(NodeFormat::Zarr3).attributes();
        let document = path.join(document);
        match attributes(path) {
            Ok(attributes) => self.add(FolderEntry::Group(GroupAttributes {
                name: name.to_owned(),
                path: path.to_path_buf(),
                attributes,
                document,
                pointer,
                image: below(name, "0"),
                speaker: Speaker::Group,
            }))?,
            Err(error) => self.broken(error, path, name)?,
        }
        self.children(path, name, depth, None)
    }

    /// Whether a folder without a document, below a group, holds nodes all the same: readers open an array by its path
    /// and ask for no document above it. Links and hidden folders may lead to anything, and are not searched; nor is
    /// what lies deeper, or is more, than a dataset can hold.
    fn is_implicit_group(&mut self, path: &Path, name: &str, depth: usize) -> Result<bool> {
        let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        let is_too_much = depth > DEPTH_MAX || self.searched >= NODES_MAX;
        if is_hidden || is_too_much || path.is_symlink() || !self.visited.enter(path, depth)? {
            return Ok(false);
        }
        self.searched += 1;
        let found = |walk: &Self| walk.entries.len() + walk.links.len() + walk.tree.broken.len();
        let (before, unexpected, partial) = (found(self), self.tree.unexpected.len(), self.tree.partial.len());
        self.children(path, name, depth, None)?;
        if found(self) > before {
            return Ok(true);
        }
        // The folder stands for all that is in it.
        self.tree.unexpected.truncate(unexpected);
        self.tree.partial.truncate(partial);
        Ok(false)
    }

    /// What stands in a node's folder. `known`: what was looked at there, where other folders without documents are no
    /// groups but may hold chunks.
    fn children(&mut self, path: &Path, name: &str, depth: usize, known: Option<&[PathBuf]>) -> Result<()> {
        let mut children = self.list(path, name)?;
        children.sort();
        for child in children {
            let last = child.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if known.is_some_and(|known| known.contains(&child)) {
                continue;
            }
            let Some(is_dir) = self.is_folder(&child, &below(name, &last))? else { continue };
            if is_dir && !os::is_work(&last) {
                let node = below(name, &last);
                match is_node(&child) {
                    Ok(false) if known.is_none() && self.is_implicit_group(&child, &node, depth + 1)? => {
                        continue;
                    }
                    Ok(false) => {}
                    Ok(true) if child.is_symlink() => {
                        self.links.push((child, node, depth + 1));
                        continue;
                    }
                    Ok(true) => {
                        self.node(&child, &node, depth + 1)?;
                        continue;
                    }
                    Err(error) => {
                        self.broken(error, &child, &node)?;
                        continue;
                    }
                }
            }
            if self.purpose == WalkPurpose::Tree && !is_dir && is_partial(&last) {
                self.tree.partial.push(child);
            } else if self.purpose == WalkPurpose::Tree && !is_beside_array(&last) {
                self.tree.unexpected.push(child);
            }
        }
        Ok(())
    }

    /// A dataset whose documents stand in one place.
    fn central(&mut self, central: &CentralMetadata, path: &Path, name: &str, depth: usize) -> Result<()> {
        for group in &central.groups {
            match central.group(group) {
                Ok(said) => {
                    let (name, image) = (below(name, group), below(name, &said.image));
                    self.add(FolderEntry::Group(GroupAttributes { name, image, ..said }))?;
                }
                Err(error) => self.broken(error, path, &below(name, group))?,
            }
        }
        let mut folders = Vec::new();
        for node in &central.arrays {
            match central.array(node) {
                Ok(Some(array)) => {
                    folders.push(array.folder().to_path_buf());
                    self.array(array, &below(name, node), depth)?;
                }
                Ok(None) => {}
                Err(error) => {
                    // Its chunks are its own, read here or not.
                    folders.push(path.join(node));
                    self.broken(error, &path.join(node), &below(name, node))?;
                }
            }
        }
        if self.purpose == WalkPurpose::Tree {
            for other in &central.others {
                let last = other.file_name().unwrap_or_default().to_string_lossy();
                let found = if is_partial(&last) { &mut self.tree.partial } else { &mut self.tree.unexpected };
                found.push(other.clone());
            }
            // What is no document among these was told by the central.
            let meta = path.join("meta");
            for folder in central.folders().iter().filter(|folder| **folder != meta) {
                self.strays(folder, &folders, depth)?;
            }
        }
        let mut known = central.folders();
        known.extend(central.companions());
        self.children(path, name, depth, Some(&known))
    }

    /// Files below a folder that are in no array's folder.
    fn strays(&mut self, folder: &Path, known: &[PathBuf], depth: usize) -> Result<()> {
        if known.iter().any(|known| known == folder)
            || !look::is_folder(folder)
            || !self.visited.enter(folder, depth)?
        {
            return Ok(());
        }
        for path in self.list(folder, "")? {
            if look::is_folder(&path) {
                self.strays(&path, known, depth + 1)?;
            } else if path.file_name().is_some_and(|name| is_partial(&name.to_string_lossy())) {
                self.tree.partial.push(path);
            } else {
                self.tree.unexpected.push(path);
            }
        }
        Ok(())
    }

    /// All files below a folder of the array that is entry `at`.
    fn files(&mut self, at: usize, folder: &Path, key: &str, depth: usize) -> Result<()> {
        for path in self.list(folder, "")? {
            let Some(is_folder) = self.is_folder(&path, "")? else { continue };
            let FolderEntry::Array(entry) = &mut self.entries[at] else { return Ok(()) };
            let ArrayNode { name: node, array, files, .. } = &mut **entry;
            let name = path.file_name().and_then(OsStr::to_str);
            let key = name.map(|name| below(key, name));
            let holds_chunks = key.as_deref().is_some_and(|key| array.layout().has_files_in(key));
            let position = key.as_deref().and_then(|key| array.layout().file_position(key));
            match (position, name, &key) {
                // Who opens it is told that a folder is no file.
                (Some(position), ..) => files.push((path, position)),
                (_, Some(name), _) if !is_folder && is_partial(name) => self.tree.partial.push(path),
                (_, Some(name), _) if folder == array.folder() && is_beside_array(name) => {}
                (_, Some(name), _)
                    if array.layout().rules().nodes_below_arrays && has_document(&path).unwrap_or(false) =>
                {
                    let name = below(node, name);
                    self.node(&path, &name, depth + 1)?;
                }
                (_, _, Some(key)) if is_folder && key.split('/').count() <= array.shape().len() + 1 => {
                    if self.visited.enter(&path, depth)? {
                        self.files(at, &path, key, depth + 1)?;
                    } else if path.is_symlink() {
                        self.tree.again.push(path);
                    }
                }
                // A link to what is not here may be one to a folder.
                _ if holds_chunks && !is_folder && links::refuse_dangling(&path).is_ok() => {
                    self.broken(look::not_a_folder(&path), &path, "")?;
                }
                _ => self.tree.unexpected.push(path),
            }
        }
        Ok(())
    }
}

fn is_beside_array(name: &str) -> bool {
    node::ALL.contains(&name) || BESIDE_DOCUMENTS.contains(&name)
}

/// The attributes of the group at `path`: an object, if they are there.
fn attributes(path: &Path) -> Result<Value> {
    let (document, pointer) = format_at(path).unwrap_or(NodeFormat::Zarr2).attributes();
    let mut document = document::read(&path.join(document))?.unwrap_or_default();
    // Not a copy: a list of frames that are missing may be long.
    let attributes = document.pointer_mut(pointer).map(Value::take).unwrap_or_default();
    if attributes.is_null() || attributes.is_object() {
        return Ok(attributes);
    }
    Err(Error::format(path, format!("its attributes are {}; expected an object", document::render_line(&attributes))))
}
