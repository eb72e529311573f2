//! Consolidated metadata that say something else than the nodes' own documents. Which of the two a reader believes is
//! its own affair, so that two readers see two datasets.

use std::fmt::Debug;
use std::mem::discriminant;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::hierarchy::walk::{Node, Tree};
use super::hierarchy::{below, groups_around, has_all_above, has_node};
use crate::error::Result;
use crate::format::codecs::{BytesCodec, Chain};
use crate::format::consolidated::{ConsolidatedMetadata, NO_METADATA};
use crate::format::keys::is_below;
use crate::format::layout::{Files, Layout};
use crate::format::{Metadata, fill_value, zarr2, zarr3};
use crate::fs::document::render_line;
use crate::fs::{document, look};
use crate::words::{quoted, quoted_list};

/// A group whose consolidated metadata are wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stale {
    pub(super) group: PathBuf,
    /// What is wrong, as a sentence about the group.
    pub(super) what: String,
}

impl Stale {
    /// What somebody should know who reads the nodes by their own documents.
    pub(super) fn note(self) -> String {
        format!("{}: {}; here, the nodes' own documents count", self.group.display(), self.what)
    }
}

/// Of all groups of a dataset.
pub(super) fn in_tree(tree: &Tree) -> Vec<Stale> {
    let arrays = tree.arrays.iter().map(|node| node.array.path());
    let nodes: Vec<&Path> = tree.groups.iter().map(|group| group.path.as_path()).chain(arrays).collect();
    tree.groups.iter().flat_map(|group| of_group(&group.path, &group.path, &nodes)).collect()
}

/// Of all groups among these nodes, and of those around the first of them.
pub(super) fn among(nodes: &[Node]) -> Vec<Stale> {
    let paths: Vec<&Path> = nodes.iter().map(|node| node.path.as_path()).collect();
    let groups = nodes.iter().filter(|node| node.is_group());
    let within = groups.flat_map(|group| of_group(&group.path, &group.path, &paths));
    let around = paths.first().into_iter().flat_map(|root| around(root, &paths));
    within.chain(around).collect()
}

/// What the groups around a node say of these, which are it or in it.
pub(super) fn around(root: &Path, nodes: &[&Path]) -> Vec<Stale> {
    groups_around(root).flat_map(|folder| of_group(folder, root, nodes)).collect()
}

/// What a group says of nodes in the folder `within`. `nodes`: all that are there.
fn of_group(group: &Path, within: &Path, nodes: &[&Path]) -> Vec<Stale> {
    // What can't be read is told as such by whoever looks at the nodes.
    let Ok(Some(said)) = document::consolidated(group) else { return Vec::new() };
    let mut all = if within == group { faults(group, &said) } else { Vec::new() };
    let is_within = |name: &str| is_below(name) && group.join(name).starts_with(within);
    let names = said.nodes().map(|(name, _)| name);
    let names = names.filter(|name| is_within(name) || (name.is_empty() && within == group));
    all.extend(names.filter_map(|name| {
        let what = different(&said, group, name).ok()??;
        let node = if name.is_empty() { "the group itself".to_owned() } else { quoted(name) };
        Some(format!("say that {node} has {what}"))
    }));
    let of_nodes = nodes.iter().filter_map(|node| Some((node, node.strip_prefix(group).ok()?.to_str()?)));
    for (node, name) in of_nodes.filter(|(_, name)| is_within(name)) {
        let is_one = said.documents(name).iter().any(|key| look::is_file(&group.join(key)));
        if is_one && has_all_above(name, |above| has_node(&group.join(above))) && !said.names(name) {
            let (name, place) = (quoted(name), node.display());
            all.push(format!("don't name {name}, which is at {place}, and readers by them don't see it"));
        }
    }
    all.sort();
    all.dedup();
    let stale = |what| Stale {
        group: group.to_path_buf(),
        what: format!("its consolidated metadata {what}; consolidate them again"),
    };
    all.into_iter().map(stale).collect()
}

/// For what readers of consolidated metadata refuse them, or see nodes that nobody else sees.
fn faults(group: &Path, said: &ConsolidatedMetadata) -> Vec<String> {
    let Some(metadata) = said.metadata() else {
        return vec![NO_METADATA.to_owned()];
    };
    let mut all: Vec<String> = said.fault().into_iter().collect();
    if !said.is_zarr2 {
        let is_path = |key: &&String| key.split('/').all(is_below);
        let keys = metadata.keys().filter(|key| !key.is_empty() && !is_path(key));
        all.extend(keys.map(|key| format!("name {}, which is no path of a node", quoted(key))));
        return all;
    }
    if look::is_file(&group.join(zarr2::GROUP)) && !metadata.contains_key(zarr2::GROUP) {
        all.push("lack \".zgroup\", by which the group itself is one".to_owned());
    }
    all.extend(metadata.keys().filter_map(|key| fault_of_key(group, metadata, key)));
    all
}

/// What is wrong with a key of Zarr v2.
fn fault_of_key(group: &Path, metadata: &Map<String, Value>, key: &str) -> Option<String> {
    let (node, document) = key.rsplit_once('/').unwrap_or(("", key));
    let is_there = |document: &str| look::is_file(&group.join(below(node, document)));
    match document {
        _ if !node.is_empty() && !node.split('/').all(is_below) => {
            Some(format!("name {}, which is no path of a document", quoted(key)))
        }
        zarr2::ATTRIBUTES if !is_there(zarr2::ARRAY) && !is_there(zarr2::GROUP) => {
            Some(format!("name {}, of a node that is not there", quoted(key)))
        }
        zarr2::GROUP if is_there(zarr2::ARRAY) && !metadata.contains_key(&below(node, zarr2::ARRAY)) => {
            Some(format!("say that {} is a group, and it is an array", quoted(node)))
        }
        _ => None,
    }
}

/// What is said of a node that its own documents say otherwise.
fn different(said: &ConsolidatedMetadata, group: &Path, node: &str) -> Result<Option<String>> {
    if !said.is_zarr2 {
        let file = group.join(node).join(zarr3::DOCUMENT);
        let (Some(said), Some(own)) = (said.get(node), document::read(&file)?) else { return Ok(None) };
        let of_array = || difference(&file, said, &own, zarr3::parse);
        let of_array = if own["node_type"] == "array" { of_array() } else { None };
        return Ok(of_array.or_else(|| of_attributes(&said["attributes"], &own["attributes"])));
    }
    let file = group.join(node).join(zarr2::ARRAY);
    let of_array = match (said.get(&below(node, zarr2::ARRAY)), document::read(&file)?) {
        (Some(said), Some(own)) => {
            difference(&file, said, &own, |path, document| zarr2::parse(path, document, Value::Object(Map::default())))
        }
        _ => None,
    };
    let key = below(node, zarr2::ATTRIBUTES);
    let own = document::read(&group.join(&key))?.unwrap_or_default();
    Ok(of_array.or_else(|| of_attributes(said.get(&key).unwrap_or(&Value::Null), &own)))
}

fn of_attributes(said: &Value, own: &Value) -> Option<String> {
    let none = Map::default();
    let (said, own) = (said.as_object().unwrap_or(&none), own.as_object().unwrap_or(&none));
    let key = said.keys().chain(own.keys()).find(|key| said.get(*key) != own.get(*key))?;
    Some(format!("another attribute {} than its own document says", quoted(key)))
}

/// What a document says of an array that its own does not.
fn difference(
    file: &Path,
    said: &Value,
    own: &Value,
    parse: impl Fn(&Path, &Value) -> Result<Metadata>,
) -> Option<String> {
    match (parse(file, said), parse(file, own)) {
        (Ok(said), Ok(own)) => of_arrays(&said, &own),
        (Err(_), Ok(_)) => Some("what can't be read, though its own document can".to_owned()),
        // What its own document says can't be read; perhaps these say the same.
        (_, Err(_)) => {
            let keys = ["shape", "chunks", "dtype", "data_type", "chunk_grid"];
            let key = keys.iter().find(|key| said.get(key) != own.get(key))?;
            Some(format!("the {key} {}, and it has {}", render_line(&said[key]), render_line(&own[key])))
        }
    }
}

/// What of an array would make readers take its pixels for others. Of codecs, programs say the same in many words.
fn of_arrays(said: &Metadata, own: &Metadata) -> Option<String> {
    let (of, is) = (&said.layout, &own.layout);
    let differs = |what: &str, of: &dyn Debug, is: &dyn Debug| Some(format!("{what} {of:?}, and it has {is:?}"));
    let fill = |array: &Metadata| fill_value::to_json(array.dtype, &array.fill).to_string();
    match () {
        () if of.shape != is.shape => differs("the shape", &of.shape, &is.shape),
        () if of.chunk_shape != is.chunk_shape => differs("chunks of", &of.chunk_shape, &is.chunk_shape),
        () if of.file_shape != is.file_shape => differs("shards of", &of.file_shape, &is.file_shape),
        () if said.dtype != own.dtype => Some(format!("elements of {}, and it has {}", said.dtype, own.dtype)),
        () if said.fill != own.fill => Some(format!("the fill value {}, and it has {}", fill(said), fill(own))),
        () if names(of) != names(is) => Some(format!("{}, and it has {}", named(of), named(is))),
        () if !has_same_files(of, is) => Some("chunks or indexes in other places than it has".to_owned()),
        () if said.manifest != own.manifest => Some("another manifest than it has".to_owned()),
        () if !decodes_alike(&said.chain, &own.chain) => {
            let listed = |chain: &Chain| chain.names.join(", ");
            Some(format!("the codecs {}, and it has {}", listed(&said.chain), listed(&own.chain)))
        }
        () => None,
    }
}

/// The names of dimensions, should one have any.
fn names(layout: &Layout) -> Option<&Vec<String>> {
    layout.names.as_ref().filter(|names| names.iter().any(|name| !name.is_empty()))
}

/// The same in words.
fn named(layout: &Layout) -> String {
    names(layout).map_or_else(
        || "dimensions without names".to_owned(),
        |names| format!("dimensions named {}", quoted_list(names)),
    )
}

fn has_same_files(one: &Layout, other: &Layout) -> bool {
    let (Files::Grid { keys, index }, Files::Grid { keys: other_keys, index: other_index }) =
        (&one.files, &other.files)
    else {
        return true;
    };
    // One number has nothing that would part it from others.
    let first = vec![0; one.shape.len()];
    keys.key(&first) == other_keys.key(&first) && index == other_index && one.index_order == other.index_order
}

/// Whether both make the same pixels of the same bytes. How hard an encoder tries is no matter of theirs.
fn decodes_alike(one: &Chain, other: &Chain) -> bool {
    let has_same_packing = match (&one.packing, &other.packing) {
        (BytesCodec::Elements { big_endian: one }, BytesCodec::Elements { big_endian: other }) => one == other,
        (BytesCodec::Shard(one), BytesCodec::Shard(other)) => {
            one.chunk_shape == other.chunk_shape && one.table == other.table && decodes_alike(&one.chain, &other.chain)
        }
        _ => false,
    };
    has_same_packing
        && one.order == other.order
        && one.codec.checksum == other.codec.checksum
        && discriminant(&one.codec.compressor) == discriminant(&other.codec.compressor)
}
