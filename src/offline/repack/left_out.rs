//! Arrays that are not repacked and can't stay what they are in a result of another format.

use std::path::PathBuf;

use serde_json::{Map, Value};

use super::nodes::{converted_groups, groups_above};
use super::selection::Selection;
use crate::config::Dialect;
use crate::format::rules;
use crate::offline::hierarchy::walk::{Kind, Node};
use crate::offline::hierarchy::{below, has_node};

/// The arrays that are not in the result.
#[derive(Debug, Default)]
pub(super) struct LeftOut(Vec<Missing>);

#[derive(Debug)]
struct Missing {
    name: String,
    /// What it would be called in the result.
    new_name: String,
    path: PathBuf,
}

impl LeftOut {
    /// Those without a place among groups of Zarr v3.
    pub(super) fn of_zarr3(nodes: &[Node], selection: &Selection<'_>) -> Self {
        let converted: Vec<&str> = converted_groups(nodes, selection).map(|group| group.name.as_str()).collect();
        let from_central = nodes.first().is_some_and(Node::is_central);
        let mut missing = Vec::new();
        let mut scales = 0;
        for node in nodes.iter().filter(|node| !matches!(node.kind, Kind::Group(_))) {
            let is_scale = is_scale(node);
            let new_name = if is_scale { scales.to_string() } else { node.name.clone() };
            scales += usize::from(is_scale);
            let in_group = groups_above(nodes, &node.name).any(|group| converted.contains(&group.name.as_str()));
            let is_central = from_central && !has_node(&node.path);
            if !selection.takes(&node.name) && ((in_group && !is_zarr3(node)) || is_central) {
                missing.push(Missing { name: node.name.clone(), new_name, path: node.path.clone() });
            }
        }
        Self(missing)
    }

    /// Those beside the only array of a dataset, but for the records of its frames.
    pub(super) fn of_designed(nodes: &[Node], only: &str) -> Self {
        let others = nodes.iter().filter(|node| !matches!(node.kind, Kind::Group(_)) && node.name != only);
        let others = others.filter(|node| !is_record(node, only));
        let missing = |node: &Node| {
            let name = node.name.clone();
            Missing { new_name: name.clone(), name, path: node.path.clone() }
        };
        Self(others.map(missing).collect())
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|missing| missing.name.as_str())
    }

    /// Their folders, of which nothing is copied.
    pub(super) fn paths(&self) -> impl Iterator<Item = PathBuf> {
        self.0.iter().map(|missing| missing.path.clone())
    }

    /// `to`: the format of the result.
    pub(super) fn notes(&self, to: &str) -> Vec<String> {
        let note = |name| format!("{name:?} is not repacked, and left out: it can't stay what it is in {to}");
        self.names().map(note).collect()
    }

    /// Takes them out of what a group's OME-Zarr metadata promises.
    pub(super) fn forget(&self, group: &str, attributes: &mut Map<String, Value>) {
        let images = attributes.get_mut("ome").and_then(|ome| ome.get_mut("multiscales")).and_then(Value::as_array_mut);
        let Some(images) = images.filter(|_| !self.0.is_empty()) else { return };
        let is_missing = |dataset: &Value| {
            let Some(path) = dataset.get("path").and_then(Value::as_str) else { return false };
            let name = crate::offline::hierarchy::below(group, path);
            self.0.iter().any(|missing| missing.new_name == name)
        };
        for image in images.iter_mut() {
            let datasets = image.get_mut("datasets").and_then(Value::as_array_mut);
            datasets.into_iter().for_each(|datasets| datasets.retain(|dataset| !is_missing(dataset)));
        }
        let is_empty = |image: &Value| image.get("datasets").and_then(Value::as_array).is_some_and(Vec::is_empty);
        images.retain(|image| !is_empty(image));
        if images.is_empty() {
            attributes.shift_remove("ome");
        }
    }
}

/// Whether an array is a scale of a volume, which gets its number for a name.
pub(super) fn is_scale(node: &Node) -> bool {
    match &node.kind {
        Kind::Array(array) => rules(array.layout().dialect).numbers_chunks,
        Kind::Unreadable(_) => !has_node(&node.path),
        Kind::Group(_) => false,
    }
}

/// Whether an array is one of those in which this crate's writer keeps what came with each frame of the image: these
/// look the same beside an image of any format.
fn is_record(node: &Node, image: &str) -> bool {
    let group = image.rsplit_once('/').map_or("", |(group, _)| group);
    let is_in = |place: &str| node.name.starts_with(&below(place, "records/"));
    (is_in(group) || is_in(image)) && is_zarr3(node)
}

fn is_zarr3(node: &Node) -> bool {
    match &node.kind {
        Kind::Array(array) => array.layout().dialect == Dialect::Zarr3,
        _ => node.path.join("zarr.json").exists(),
    }
}
