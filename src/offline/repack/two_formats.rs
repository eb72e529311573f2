//! Nodes with documents of Zarr v2 beside their `zarr.json`, as zarr-python's migration leaves them. The `zarr.json`
//! counts, as for zarr-python. What the others say would not be true of what it becomes.

use std::path::{Path, PathBuf};

use super::selection::Selection;
use crate::error::{Error, Result};
use crate::format::node::{NodeFormat, OF_ZARR2_NODES};
use crate::fs::look;
use crate::offline::hierarchy::format_at;
use crate::offline::hierarchy::walk::{Node, NodeKind};

/// The documents of Zarr v2 beside the `zarr.json` in a folder.
fn older(folder: &Path) -> Vec<PathBuf> {
    if format_at(folder) != Some(NodeFormat::Zarr3) {
        return Vec::new();
    }
    OF_ZARR2_NODES.map(|name| folder.join(name)).into_iter().filter(|document| look::is_file(document)).collect()
}

/// Documents that a new dataset is not to have, and notes that say so.
pub(super) fn left_out(nodes: &[Node], selection: &Selection<'_>) -> (Vec<PathBuf>, Vec<String>) {
    let (mut left, mut notes) = (Vec::new(), Vec::new());
    for node in nodes {
        let is_changed = match &node.kind {
            NodeKind::Group(said) => said.is_none(),
            NodeKind::Array(array) => array.layout().rules().is_tree && selection.takes(&node.name),
            NodeKind::Unreadable(_) => false,
        };
        let documents = if is_changed { older(&node.path) } else { Vec::new() };
        if !documents.is_empty() {
            let of = node.path.display();
            notes.push(format!("{of} has documents of Zarr v2 beside its zarr.json, which counts: they are left out"));
        }
        left.extend(documents);
    }
    (left, notes)
}

/// Refuses to change in place what has them: readers that take these would see other data.
pub(super) fn refuse_in_place(mut changed: impl Iterator<Item = PathBuf>) -> Result<()> {
    match changed.find(|folder| !older(folder).is_empty()) {
        Some(folder) => {
            let reason = "has documents of Zarr v2 beside its zarr.json, which would say of it what is no more so; \
                          remove them, or write to a new dataset, which is made without";
            Err(Error::config("path", folder.display(), reason))
        }
        None => Ok(()),
    }
}
