//! The nodes of a dataset: its groups and arrays, found by the documents beside them.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::document;
use super::reader::Array;
use crate::error::{Error, Result};

const DEPTH_MAX: usize = 32;
const NODES_MAX: usize = 1 << 16;

/// A group or an array of a dataset.
pub(super) struct Node {
    /// The path below the root; empty for the root itself.
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) kind: Kind,
}

pub(super) enum Kind {
    Group,
    Array(Box<Array>),
}

impl Node {
    /// The node's `zarr.json`, or what it would say if the node were of Zarr v3. An array of Zarr v2 has only attributes in
    /// it.
    pub(super) fn document(&self) -> Result<Value> {
        if let Some(document) = document::read(&self.path.join("zarr.json"))? {
            return Ok(document);
        }
        let attributes = document::read(&self.path.join(".zattrs"))?.unwrap_or_else(|| json!({}));
        let kind = if matches!(self.kind, Kind::Group) { "group" } else { "array" };
        Ok(json!({"zarr_format": 3, "node_type": kind, "attributes": attributes}))
    }
}

/// All nodes from `root` down, parents before their children, siblings by name.
pub(super) fn nodes(root: &Path) -> Result<Vec<Node>> {
    let mut walk = Walk { visited: HashSet::new(), nodes: Vec::new() };
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
        if depth > DEPTH_MAX || self.nodes.len() >= NODES_MAX {
            let reason = format!("the tree is deeper than {DEPTH_MAX} or has more than {NODES_MAX} nodes");
            return Err(Error::format(path, reason));
        }
        let array = Array::open_exactly(path)?;
        let is_array = array.is_some();
        let kind = array.map_or(Kind::Group, |array| Kind::Array(Box::new(array)));
        self.nodes.push(Node { name: name.to_owned(), path: path.to_path_buf(), kind });
        if is_array {
            return Ok(());
        }
        let mut children = directory(path)?;
        children.sort();
        for child in children {
            let is_node = ["zarr.json", ".zarray", ".zgroup"].iter().any(|name| child.join(name).is_file());
            let Some(last) = child.file_name().map(|last| last.to_string_lossy()) else { continue };
            // What is hidden is work in progress, or what it has replaced.
            if is_node && !last.starts_with('.') {
                let name = if name.is_empty() { last.into_owned() } else { format!("{name}/{last}") };
                self.node(&child, &name, depth + 1)?;
            }
        }
        Ok(())
    }
}

/// What a directory holds.
pub(super) fn directory(path: &Path) -> Result<Vec<PathBuf>> {
    let failed = |error| Error::io("list", path, error);
    let entries = fs::read_dir(path).map_err(failed)?;
    entries.map(|entry| entry.map(|entry| entry.path()).map_err(failed)).collect()
}
