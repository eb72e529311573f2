//! The nodes of a dataset: its groups and arrays, found by the documents beside them.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::hosted::Host;
use super::reader::Array;
use super::tree::below;
use crate::config::Dialect;
use crate::error::{Error, Result};
use crate::format::zarr3_draft;
use crate::fs::document;
use crate::fs::links;

const DEPTH_MAX: usize = 32;
const NODES_MAX: usize = 1 << 16;

/// A group or an array of a dataset.
pub(super) struct Node {
    /// The path below the root; empty for the root itself.
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) kind: Kind,
    /// What a group says whose document stands elsewhere.
    hosted: Option<Value>,
}

pub(super) enum Kind {
    Group,
    Array(Box<Array>),
}

impl Node {
    /// Whether it is a scale of a precomputed volume.
    pub(super) fn is_volume(&self) -> bool {
        matches!(&self.kind, Kind::Array(array) if array.layout().dialect == Dialect::Precomputed)
    }

    /// Whether it is a group whose document stands elsewhere, or is none of a group.
    pub(super) fn is_hosted(&self) -> bool {
        self.hosted.is_some()
    }

    /// The node's `zarr.json`, or what it would say if the node were of Zarr v3. An array of another format has only attributes
    /// in it.
    pub(super) fn document(&self) -> Result<Value> {
        let own = document::read(&self.path.join("zarr.json"))?;
        if let Some(document) = own.filter(|document| !zarr3_draft::is_entry(document)) {
            return Ok(document);
        }
        let (kind, attributes) = match (&self.kind, &self.hosted) {
            (Kind::Array(array), _) => ("array", array.attributes().clone()),
            (Kind::Group, Some(attributes)) => ("group", attributes.clone()),
            (Kind::Group, None) => ("group", document::read(&self.path.join(".zattrs"))?.unwrap_or_else(|| json!({}))),
        };
        Ok(json!({"zarr_format": 3, "node_type": kind, "attributes": attributes}))
    }
}

/// All nodes from `root` down, parents before their children, siblings by name.
pub(super) fn nodes(root: &Path) -> Result<Vec<Node>> {
    links::enter(root);
    let mut walk = Walk { visited: HashSet::new(), nodes: Vec::new() };
    // Documents that all stand in one place leave arrays without folders of their own.
    if !root.exists()
        && let Some(array) = Array::open_exactly(root)?
    {
        walk.push("", root, Kind::Array(Box::new(array)), None)?;
        return Ok(walk.nodes);
    }
    walk.node(root, "", 0)?;
    Ok(walk.nodes)
}

struct Walk {
    /// Device and inode of directories seen, since a symbolic link may lead back up.
    visited: HashSet<(u64, u64)>,
    nodes: Vec<Node>,
}

impl Walk {
    fn node(&mut self, path: &Path, name: &str, depth: usize) -> Result<()> {
        let metadata = fs::metadata(path).map_err(|error| Error::io("look at", path, error))?;
        if !self.visited.insert((metadata.dev(), metadata.ino())) {
            return Ok(());
        }
        if depth > DEPTH_MAX {
            return Err(too_many(path));
        }
        let array = Array::open_exactly(path)?;
        // Zarr v2 has nothing below an array, so what this crate's writer puts there is in nobody's way.
        let is_leaf = array.as_ref().is_some_and(|array| array.layout().dialect != Dialect::Zarr2Sharded);
        match (array, Host::at(path)?) {
            (Some(array), _) => self.push(name, path, Kind::Array(Box::new(array)), None)?,
            (None, Some(host)) => self.hosted(&host, path, name)?,
            (None, None) => self.push(name, path, Kind::Group, None)?,
        }
        if is_leaf {
            return Ok(());
        }
        let mut children = directory(path)?;
        children.sort();
        for child in children {
            let is_node = super::has_node(&child);
            let Some(last) = child.file_name().map(|last| last.to_string_lossy()) else { continue };
            // What is hidden is work in progress, or what it has replaced.
            if is_node && !last.starts_with('.') {
                self.node(&child, &below(name, &last), depth + 1)?;
            }
        }
        Ok(())
    }

    /// The nodes whose documents stand in one place.
    fn hosted(&mut self, host: &Host, path: &Path, name: &str) -> Result<()> {
        let at = |node: &str| if node.is_empty() { path.to_path_buf() } else { path.join(node) };
        for group in host.groups() {
            let attributes = host.group(group)?.attributes;
            self.push(&below(name, group), &at(group), Kind::Group, Some(attributes))?;
        }
        for node in host.arrays() {
            if let Some(array) = host.array(node)? {
                self.push(&below(name, node), &at(node), Kind::Array(Box::new(array)), None)?;
            }
        }
        Ok(())
    }

    fn push(&mut self, name: &str, path: &Path, kind: Kind, hosted: Option<Value>) -> Result<()> {
        if self.nodes.len() >= NODES_MAX {
            return Err(too_many(path));
        }
        self.nodes.push(Node { name: name.to_owned(), path: path.to_path_buf(), kind, hosted });
        Ok(())
    }
}

fn too_many(path: &Path) -> Error {
    Error::format(path, format!("the tree is deeper than {DEPTH_MAX} or has more than {NODES_MAX} nodes"))
}

/// What a directory holds.
pub(super) fn directory(path: &Path) -> Result<Vec<PathBuf>> {
    let failed = |error| Error::io("list", path, error);
    links::check(path).map_err(|reason| Error::format(path, reason))?;
    let entries = fs::read_dir(path).map_err(failed)?;
    entries.map(|entry| entry.map(|entry| entry.path()).map_err(failed)).collect()
}
