//! What is not in the result: arrays that are not repacked and can't stay what they are in another format, and
//! documents of another format than what they are about.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::nodes::{self, all_arrays, converted_groups, groups_above, is_above};
use super::refusal::{NAMES_MAX, called};
use super::selection::Selection;
use super::target::changes_format;
use crate::error::{Error, Result};
use crate::format::keys::RECORDS;
use crate::format::node::{self, NodeFormat, OF_ZARR2_NODES};
use crate::format::{zarr2, zarr3};
use crate::fs::look;
use crate::offline::array::manifest::KERCHUNK;
use crate::offline::hierarchy::central::CentralMetadata;
use crate::offline::hierarchy::walk::{Node, NodeKind};
use crate::offline::hierarchy::{below, format_at, has_node};
use crate::offline::promises::Broken;
use crate::words::{count, quoted, quoted_list};

/// The arrays that are not in the result.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    /// Their names and folders.
    missing: Vec<(String, PathBuf)>,
    names: HashSet<String>,
    /// Groups that hold some of them, and no other array.
    emptied: HashSet<String>,
    /// What is promised, and was not there before.
    absent: Vec<String>,
}

impl LeftOut {
    /// Those without a place among groups of Zarr v3.
    pub(super) fn of_zarr3(nodes: &[Node], selection: &Selection<'_>) -> Self {
        let converted: Vec<&str> = converted_groups(nodes, selection).map(|group| group.name.as_str()).collect();
        let from_central = nodes.first().is_some_and(Node::is_central);
        Self::new(nodes, |node| {
            let in_group = groups_above(nodes, &node.name).any(|group| converted.contains(&group.name.as_str()));
            let is_central = from_central && !has_node(&node.path);
            !selection.takes(&node.name) && ((in_group && !is_zarr3(node)) || is_central)
        })
    }

    /// Those without a place among groups of Zarr v2.
    pub(super) fn of_zarr2(nodes: &[Node], selection: &Selection<'_>) -> Self {
        Self::new(nodes, |node| !selection.takes(&node.name) && !selection.is_record(&node.name) && is_zarr3(node))
    }

    /// Those beside the only array of a dataset, but for those in the group of its `records`.
    pub(super) fn of_designed(nodes: &[Node], only: &str, records: Option<&str>) -> Self {
        let is_record = |node: &Node| records.is_some_and(|records| is_above(records, &node.name)) && is_zarr3(node);
        Self::new(nodes, |node| node.name != only && !is_record(node))
    }

    fn new(nodes: &[Node], is_missing: impl Fn(&Node) -> bool) -> Self {
        let arrays = nodes.iter().filter(|node| !node.is_group());
        let (missing, kept): (Vec<_>, Vec<_>) = arrays.partition(|node| is_missing(node));
        let groups = |nodes: &[&Node]| -> HashSet<String> {
            let above = |name: &str| Path::new(name).ancestors().skip(1).map(PathBuf::from).collect::<Vec<_>>();
            nodes.iter().flat_map(|node| above(&node.name)).map(|path| path.to_string_lossy().into_owned()).collect()
        };
        let emptied = groups(&missing).difference(&groups(&kept)).cloned().collect();
        let names = missing.iter().map(|node| node.name.clone()).collect();
        let missing = missing.into_iter().map(|node| (node.name.clone(), node.path.clone())).collect();
        Self { missing, names, emptied, absent: Vec::new() }
    }

    /// The same with what documents promise and is not there. `copied`: in a new dataset they promise it no more.
    pub(super) fn with(mut self, absent: &[Broken], copied: bool) -> Self {
        self.absent = absent.iter().map(|broken| broken.node.clone()).collect();
        if copied {
            self.names.extend(self.absent.iter().cloned());
        }
        self
    }

    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.missing.iter().map(|(name, _)| name.as_str())
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Whether a group held arrays, and all of them are left out.
    pub(super) fn empties(&self, group: &str) -> bool {
        self.emptied.contains(group)
    }

    /// Their folders, of which nothing is copied.
    pub(super) fn paths(&self) -> impl Iterator<Item = PathBuf> {
        self.missing.iter().map(|(_, path)| path.clone())
    }

    /// `to`: the format of the result.
    pub(super) fn notes(&self, to: &str) -> Vec<String> {
        let absent = |name: &String| format!("{} is not there, although documents promise it", quoted(name));
        self.note_of_missing(to).into_iter().chain(self.absent.iter().map(absent)).collect()
    }

    fn note_of_missing(&self, to: &str) -> Option<String> {
        match &self.missing[..] {
            [] => None,
            [(name, _)] => {
                Some(format!("{} is not repacked, and left out: it can't stay what it is in {to}", called(name)))
            }
            several => {
                let listed = quoted_list(self.names().take(NAMES_MAX));
                let more = match several.len().saturating_sub(NAMES_MAX) {
                    0 => String::new(),
                    more => format!(" and {}", count(more, "other")),
                };
                Some(format!(
                    "the arrays {listed}{more} are not repacked, and left out: they can't stay what they are in {to}"
                ))
            }
        }
    }
}

/// Documents that others take the place of.
pub(super) fn left_of_designed(root: &Path, nodes: &[Node], name: &str) -> Result<Vec<PathBuf>> {
    let mut left = node::ALL.map(|document| root.join(document)).to_vec();
    left.extend(nodes.iter().filter(|node| node.name == name).map(|node| node.path.join(zarr2::ATTRIBUTES)));
    if let Some(central) = CentralMetadata::at(root)? {
        left.extend(central.folders());
    }
    Ok(left)
}

/// Files and folders that are of another format than Zarr v3.
pub(super) fn left_of_others(root: &Path, nodes: &[Node], selection: &Selection<'_>) -> Result<Vec<PathBuf>> {
    let changed = all_arrays(nodes).filter(|(node, array)| changes_format(array) && selection.is_meant(node, array));
    let changed = changed.map(|(node, _)| node).chain(nodes::carried(nodes, selection));
    let mut left: Vec<_> = changed.map(|node| node.path.join(zarr2::ATTRIBUTES)).collect();
    if all_arrays(nodes).any(|(node, array)| array.manifest().is_some() && selection.is_meant(node, array)) {
        // It names chunks in the files that the manifests name.
        left.push(root.join(KERCHUNK));
    }
    for group in converted_groups(nodes, selection) {
        left.extend(OF_ZARR2_NODES.map(|document| group.path.join(document)));
    }
    if let Some(central) = CentralMetadata::at(root)? {
        left.extend(central.folders());
        left.push(root.join(zarr3::DOCUMENT));
    }
    Ok(left)
}

/// The documents of Zarr v2 beside the `zarr.json` in a folder, as zarr-python's migration leaves them. The `zarr.json`
/// counts, as for zarr-python. What the others say would not be true of what it becomes.
fn older(folder: &Path) -> Vec<PathBuf> {
    if format_at(folder) != Some(NodeFormat::Zarr3) {
        return Vec::new();
    }
    OF_ZARR2_NODES.map(|name| folder.join(name)).into_iter().filter(|document| look::is_file(document)).collect()
}

/// Such documents that a new dataset is not to have, and notes that say so.
pub(super) fn left_of_older(nodes: &[Node], selection: &Selection<'_>) -> (Vec<PathBuf>, Vec<String>) {
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

/// Refuses to change in place what has such documents: readers that take these would see other data.
pub(super) fn refuse_older(mut changed: impl Iterator<Item = PathBuf>) -> Result<()> {
    match changed.find(|folder| !older(folder).is_empty()) {
        Some(folder) => {
            let reason = "has documents of Zarr v2 beside its zarr.json, which would say of it what is no more so; \
                          remove them, or write to a new dataset, which is made without";
            Err(Error::config("path", folder.display(), reason))
        }
        None => Ok(()),
    }
}

/// The group of the arrays in which this crate's writer keeps what came with each frame of an image. They look the same
/// beside an image of any format.
pub(super) fn records_of<'a>(nodes: &'a [Node], image: &str) -> Option<&'a Node> {
    let group = image.rsplit_once('/').map_or("", |(group, _)| group);
    // In Zarr v2 they stand below the array.
    let places = [group, image].map(|place| below(place, RECORDS));
    let is_group = |node: &Node| node.is_group() && format_at(&node.path) == Some(NodeFormat::Zarr3);
    places.iter().find_map(|place| nodes.iter().find(|node| node.name == *place && is_group(node)))
}

fn is_zarr3(node: &Node) -> bool {
    match &node.kind {
        NodeKind::Array(array) => !changes_format(array),
        _ => format_at(&node.path) == Some(NodeFormat::Zarr3),
    }
}
