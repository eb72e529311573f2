//! Which arrays and groups of a dataset are concerned, and by what.

use super::options::RepackOptions;
use super::refusal::called;
use super::selection::Selection;
use super::target::changes_format;
use crate::config::Dialect;
use crate::error::Result;
use crate::format::node::NodeFormat;
use crate::format::{consolidated, rules};
use crate::offline::array::Array;
use crate::offline::hierarchy::format_at;
use crate::offline::hierarchy::walk::Node;
use crate::offline::shared_records::has_shards;
use crate::words;

/// The arrays of a dataset that hold images: those with shards, or where there are none, all with rows and columns.
pub(super) fn arrays(nodes: &[Node]) -> impl Iterator<Item = (&Node, &Array)> {
    let sharded = all_arrays(nodes).any(|(_, array)| has_shards(array));
    all_arrays(nodes).filter(move |(_, array)| has_shards(array) || (!sharded && is_image(array)))
}

/// Whether an array has rows and columns, and elements in them, as an image has that a writer writes.
pub(super) fn is_image(array: &Array) -> bool {
    array.shape().len() > 1 && !array.shape().contains(&0)
}

pub(super) fn all_arrays(nodes: &[Node]) -> impl Iterator<Item = (&Node, &Array)> + Clone {
    nodes.iter().filter_map(|node| Some((node, node.array()?)))
}

/// The format of the images that are repacked, if all have the same.
pub(super) fn dialect_of(nodes: &[Node], options: &RepackOptions) -> Result<Option<Dialect>> {
    let selection = Selection::new(nodes, options, false)?;
    let taken = arrays(nodes).filter(|(node, _)| selection.takes(&node.name));
    let dialects: Vec<Dialect> = taken.map(|(_, array)| array.layout().dialect).collect();
    Ok(dialects.first().copied().filter(|first| dialects.iter().all(|dialect| dialect == first)))
}

/// The groups above an array, from the root down.
pub(super) fn groups_above<'a>(nodes: &'a [Node], name: &'a str) -> impl Iterator<Item = &'a Node> {
    nodes.iter().filter(move |node| node.is_group() && is_above(&node.name, name))
}

/// Whether a group of this name is above the array `name`.
pub(super) fn is_above(group: &str, name: &str) -> bool {
    group.is_empty() || name.strip_prefix(group).is_some_and(|rest| rest.starts_with('/'))
}

/// The groups of Zarr v2 that become those of Zarr v3: those around arrays that do, where no reader would find these,
/// and all that are in one of these.
pub(super) fn converted_groups<'a>(nodes: &'a [Node], selection: &'a Selection<'_>) -> impl Iterator<Item = &'a Node> {
    let groups = || nodes.iter().filter(|node| node.is_group() && format_at(&node.path) == Some(NodeFormat::Zarr2));
    let is_around = |node: &&Node| {
        all_arrays(nodes).any(|(below, array)| {
            let is_above = groups_above(nodes, &below.name).any(|group| group.name == node.name);
            is_above && changes_format(array) && selection.is_meant(below, array)
        })
    };
    let around: Vec<&str> = groups().filter(is_around).map(|node| node.name.as_str()).collect();
    let is_converted = move |node: &&Node| {
        around.contains(&node.name.as_str())
            || groups_above(nodes, &node.name).any(|group| around.contains(&group.name.as_str()))
    };
    groups().filter(is_converted)
}

/// The arrays that nobody asked for, but that go along: those that no reader would find any more in a group of Zarr v3,
/// and those beside repacked ones that are manifests, whose chunks are files of another dataset.
pub(super) fn carried<'a>(nodes: &'a [Node], selection: &'a Selection<'_>) -> impl Iterator<Item = &'a Node> {
    let groups: Vec<&str> = converted_groups(nodes, selection).map(|group| group.name.as_str()).collect();
    let is_within = move |name: &str| groups_above(nodes, name).any(|group| groups.contains(&group.name.as_str()));
    let some_are_meant = all_arrays(nodes).any(|(node, array)| selection.is_meant(node, array));
    let others = all_arrays(nodes)
        .filter(|(node, array)| selection.takes(&node.name) && !selection.is_meant(node, array))
        .filter(move |(node, array)| match array.manifest() {
            Some(_) => some_are_meant,
            None => changes_format(array) && is_within(&node.name),
        });
    others.map(|(node, _)| node)
}

/// What to say of manifests that stay what they are in a copy: all but those of which `is_rebuilt`.
pub(super) fn notes_of_manifests(nodes: &[Node], is_rebuilt: impl Fn(&Node, &Array) -> bool) -> Vec<String> {
    let stay = all_arrays(nodes).filter(|(node, array)| array.manifest().is_some() && !is_rebuilt(node, array));
    let note = |(node, _): (&Node, &Array)| {
        format!(
            "{} stays a manifest: its chunks are not copied, and lie in the files that it names",
            words::node(&node.name)
        )
    };
    stay.map(note).collect()
}

/// What is not kept of the tree around an array that becomes the image of a dataset of Zarr v2, where it could be.
pub(super) fn note_of_tree(nodes: &[Node], name: &str, to: Dialect) -> Option<String> {
    let is_tree = all_arrays(nodes).any(|(node, array)| node.name == name && array.layout().rules().is_tree);
    if !is_tree || rules(to).shares_files || name.is_empty() {
        return None;
    }
    let is_consolidated = |node: &Node| node.document().is_ok_and(|said| consolidated::nodes(&said).is_some());
    let renamed = (name != "0").then(|| format!("{} becomes \"0\" in one group", called(name)));
    let consolidated = nodes.iter().any(is_consolidated).then(|| "consolidated metadata are left out".to_owned());
    let changes: Vec<_> = renamed.into_iter().chain(consolidated).collect();
    (!changes.is_empty()).then(|| format!("{}; the option `ome` 0.4 keeps the tree as it is", changes.join(", and ")))
}
