//! What a dataset holds: its groups and arrays, found by their documents, with their files, and what belongs to
//! neither.
//!
//! One walk serves all: who reads asks for the [nodes](walk::nodes), those among them that can't be read too; who
//! checks or repairs asks for the [whole tree](walk::Tree). A precomputed volume in a folder below another dataset is
//! none of its nodes for anybody, as no reader of Zarr takes it for one: it is a dataset of its own, opened by its own
//! path.

pub(crate) mod central;
mod node;
pub(crate) mod open;
pub(crate) mod walk;

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::{Error, Result};
use crate::format::node::{ALL as DOCUMENTS, NodeFormat, OF_NODES};
use crate::format::{provenance, zarr2, zarr3};
use crate::fs::{Identity, document, folders_above, links, look};

/// A tree of more levels, or of more nodes, is none that is looked at as a whole.
const DEPTH_MAX: usize = 32;
const NODES_MAX: usize = 1 << 16;

/// What a group says, or an array that speaks for the dataset like one, because its format has no groups.
#[derive(Debug)]
pub(crate) struct GroupAttributes {
    /// The path below the root; empty for the root itself.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) attributes: Value,
    /// The file with the attributes.
    pub(crate) document: PathBuf,
    /// Where the attributes stand in that document, as a JSON pointer.
    pub(crate) pointer: &'static str,
    /// The name of the array that its writer's attributes are about.
    pub(crate) image: String,
    speaker: Speaker,
}

/// Whose document a group's attributes stand in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Speaker {
    Group,
    /// One place for all documents of a dataset.
    CentralMetadata,
    Array,
}

/// The folders that a walk has looked at, by what they are, since a symbolic link may lead back up.
#[derive(Default)]
struct Visited(HashSet<(Identity, String)>);

impl Visited {
    /// Whether a folder was not seen before. One that lies too deep is an error.
    fn enter(&mut self, path: &Path, depth: usize) -> Result<bool> {
        let identity = look::identity(path).map_err(|error| Error::io("look at", path, error))?;
        if depth > DEPTH_MAX {
            return Err(Error::format(path, format!("the tree is deeper than {DEPTH_MAX}")));
        }
        Ok(self.0.insert(identity))
    }
}

/// By this file, beside the first array of a dataset that was made by a repacking, the repacking knows it again.
pub(crate) const RECEIPT: &str = ".shardwright.repack.json";

/// The name of a node below another.
pub(crate) fn below(group: &str, name: &str) -> String {
    match (group, name) {
        ("", name) | (name, "") => name.to_owned(),
        _ => format!("{group}/{name}"),
    }
}

/// Whether all groups above a node are nodes themselves. Consolidated metadata have no words for a folder without a
/// document, and zarr-python opens none that name a node in one.
pub(crate) fn has_all_above(name: &str, is_node: impl Fn(&str) -> bool) -> bool {
    name.match_indices('/').all(|(at, _)| is_node(&name[..at]))
}

/// The format of the group or the array at `path`, readable or not; `None` where there is none.
pub(crate) fn format_at(path: &Path) -> Option<NodeFormat> {
    NodeFormat::of(|name| look::is_file(&path.join(name)))
}

/// Whether there is a group or an array at `path`, readable or not.
pub(crate) fn has_node(path: &Path) -> bool {
    format_at(path).is_some()
}

/// Whether a link leads to a folder with documents of a node. None is read: it may be anybody's.
pub(crate) fn leads_to_documents(link: &Path) -> bool {
    let has = |name: &str| link.join(name).symlink_metadata().is_ok();
    OF_NODES.into_iter().any(has)
}

/// What the group at `path` says of OME-Zarr, which in Zarr v2 stands among all its attributes.
pub(crate) fn ome_of(path: &Path) -> Result<Option<Value>> {
    Ok(match document::read(&path.join(zarr3::DOCUMENT))? {
        Some(document) => document.pointer("/attributes/ome").cloned(),
        None => document::read(&path.join(zarr2::ATTRIBUTES))?,
    })
}

/// Refuses documents of a group that nobody named, such as one around an array, to which links lead out of the topmost
/// group around it.
pub(crate) fn check_documents(group: &Path) -> Result<()> {
    let root = group.ancestors().take_while(|above| has_node(above)).last().unwrap_or(group);
    DOCUMENTS.iter().try_for_each(|name| links::check_within(root, &group.join(name)))
}

/// The groups around a node, the nearest first. What stands there and is no group is no concern of the node.
pub(crate) fn groups_around(node: &Path) -> impl Iterator<Item = &Path> {
    let is_group = |folder: &&Path| match document::read(&folder.join(zarr3::DOCUMENT)) {
        Ok(Some(document)) => document["node_type"] == "group",
        Ok(None) => look::is_file(&folder.join(zarr2::GROUP)),
        Err(_) => false,
    };
    folders_above(node).take_while(is_group)
}

/// The image of this crate's writer that a node is a part of.
pub(crate) fn image_around(node: &Path) -> Option<PathBuf> {
    let node = fs::canonicalize(node).ok()?;
    let is_own = |folder: &&Path| {
        [(zarr3::DOCUMENT, "/attributes"), (zarr2::ATTRIBUTES, "")].into_iter().any(|(name, pointer)| {
            let document = document::read(&folder.join(name)).ok().flatten();
            let attributes = document.as_ref().and_then(|document| document.pointer(pointer));
            attributes.is_some_and(|attributes| provenance::own(attributes).is_some())
        })
    };
    // Records are two folders below it.
    node.ancestors().skip(1).take(2).find(is_own).map(Path::to_path_buf)
}

/// Whether a node has documents of Zarr v2 beside its `zarr.json`.
pub(crate) fn has_two_formats(path: &Path) -> bool {
    let is_there = |name: &str| look::is_file(&path.join(name));
    let is_zarr3 = is_there(zarr3::DOCUMENT) && !is_there("meta/root.group.json");
    is_zarr3 && [zarr2::ARRAY, zarr2::GROUP].into_iter().any(is_there)
}

/// Datasets that one at `root` was to replace: they stand beside it until it is complete.
pub(crate) fn replaced(root: &Path) -> Vec<PathBuf> {
    let root = fs::canonicalize(root).unwrap_or_else(|_| root.to_path_buf());
    let (Some(folder), Some(name)) = (root.parent(), root.file_name()) else { return Vec::new() };
    let start = format!(".{}.replaced", name.to_string_lossy());
    let is_one = |path: &PathBuf| {
        let rest = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix(&start));
        let is_hex = |digits: &str| digits.len() == 8 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        rest.is_some_and(|rest| rest.is_empty() || rest.strip_prefix('-').is_some_and(is_hex))
    };
    // A folder above that can't be listed is no concern of the dataset.
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    // A writer never puts a link aside, and somebody else's may lead anywhere.
    let is_link = |entry: &fs::DirEntry| entry.file_type().map_or(true, |of| of.is_symlink());
    let mut found: Vec<_> = entries.filter(|entry| !is_link(entry)).map(|entry| entry.path()).filter(is_one).collect();
    found.sort();
    found
}
