//! What a dataset holds: its groups and arrays, found by their documents, with their files, and what belongs to
//! neither.
//!
//! One walk serves all: who reads asks for the [nodes](walk::nodes), and hears of the first broken document; who checks
//! or repairs asks for the [whole tree](walk::Tree), with all of them.

pub(crate) mod central;
pub(crate) mod leftovers;
pub(crate) mod open;
pub(crate) mod walk;

use std::path::Path;

/// The documents of Zarr, by which a folder is known to be a node.
pub(crate) const DOCUMENTS: [&str; 3] = ["zarr.json", ".zarray", ".zgroup"];

/// The name of a node below another.
pub(crate) fn below(group: &str, name: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{group}/{name}") }
}

/// Whether there is a group or an array at `path`, readable or not.
pub(crate) fn has_node(path: &Path) -> bool {
    DOCUMENTS.iter().any(|name| path.join(name).is_file())
}
