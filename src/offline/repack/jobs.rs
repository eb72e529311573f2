//! What there is to do: which arrays become what, where, and what is said of them beside their own documents.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use serde_json::{Map, Value, json};

use super::change::{Change, is_laid_out_as};
use super::design::{self, Design};
use super::groups::{self, Group};
use super::options::RepackOptions;
use super::staging::Staging;
use super::target;
use crate::config::{Dialect, Volume};
use crate::error::{Error, Result};
use crate::format::precomputed::{self, carried};
use crate::format::rules;
use crate::fs::document;
use crate::offline::array::Array;
use crate::offline::hierarchy::central::CentralMetadata;
use crate::offline::hierarchy::walk::{Kind, Node};

/// Names that an error message lists.
const NAMES_MAX: usize = 20;

/// One array.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) name: String,
    /// What describes it from now on; only compared where there are several.
    pub(super) document: Value,
    /// The files that are there are replaced one by one.
    pub(super) in_place: bool,
    pub(super) change: Change,
    /// Chunks in its shards, as far as they are known.
    pub(super) chunks: AtomicU64,
}

/// How the result is described.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// By the documents of Zarr v3, which each array has of its own.
    Zarr3,
    /// As it is, in another dialect.
    Kept,
    /// By the writer's documents of another dialect.
    Designed,
}

/// From where to where.
#[derive(Debug)]
pub(super) struct Roots<'a> {
    pub(super) root: &'a Path,
    /// The result is a new dataset.
    pub(super) copied: bool,
    pub(super) staging: &'a Path,
}

/// All that there is to do.
#[derive(Debug)]
pub(super) struct Jobs {
    pub(super) jobs: Vec<Job>,
    pub(super) form: Form,
    pub(super) groups: Vec<Group>,
    /// What is there only in the old format, and not copied.
    pub(super) left: Vec<PathBuf>,
}

impl Jobs {
    pub(super) fn new(
        nodes: Vec<Node>,
        place: &Roots<'_>,
        options: &RepackOptions,
        pool: &Arc<rayon::ThreadPool>,
    ) -> Result<Self> {
        if options.dialect == Dialect::Zarr3 {
            if options.volume != Volume::default() {
                let reason = "only the dialect precomputed has these settings; leave them out";
                return Err(Error::config("volume", format_args!("{:?}", options.volume), reason));
            }
            let left = left_of_others(place.root, &nodes, options)?;
            let (jobs, groups) = of_zarr3(nodes, place, options, pool)?;
            return Ok(Self { jobs, form: Form::Zarr3, groups, left });
        }
        let is_kept = |array: &Array| array.layout().dialect == options.dialect;
        if !design::is_asked_for(options) && arrays(&nodes).all(|(_, array)| is_kept(array)) {
            return kept(nodes, place, options, pool);
        }
        designed(nodes, place, options, pool)
    }
}

/// The arrays of a dataset that hold images: those with shards, or where there are none, all with rows and columns.
fn arrays(nodes: &[Node]) -> impl Iterator<Item = (&Node, &Array)> {
    let sharded = all_arrays(nodes).any(|(_, array)| array.layout().has_index());
    all_arrays(nodes).filter(move |(_, array)| array.layout().has_index() || (!sharded && array.shape().len() > 1))
}

fn all_arrays(nodes: &[Node]) -> impl Iterator<Item = (&Node, &Array)> {
    nodes.iter().filter_map(|node| match &node.kind {
        Kind::Array(array) => Some((node, &**array)),
        Kind::Group(_) => None,
    })
}

/// Arrays of which only chunks change their places. Documents stay as they are.
fn kept(nodes: Vec<Node>, place: &Roots<'_>, options: &RepackOptions, pool: &Arc<rayon::ThreadPool>) -> Result<Jobs> {
    let mut jobs = Vec::new();
    for node in nodes {
        let Kind::Array(source) = node.kind else { continue };
        if !source.layout().has_index() {
            continue;
        }
        let root = if place.copied { Staging::place(place.staging, "") } else { place.root.to_path_buf() };
        if place.copied && !source.document().starts_with(place.root) {
            return Err(Error::format(
                &node.path,
                "is described by a document of the dataset around it; name that dataset",
            ));
        }
        let target = source.moved(place.root, &root);
        let change = Change::new(*source, target, None, options, pool.clone())?;
        let (document, chunks) = (Value::Null, AtomicU64::new(0));
        jobs.push(Job { name: node.name, document, in_place: !place.copied, change, chunks });
    }
    Ok(Jobs { jobs, form: Form::Kept, groups: Vec::new(), left: Vec::new() })
}

/// The one array of a dataset, as the writer would write it.
fn designed(
    nodes: Vec<Node>,
    place: &Roots<'_>,
    options: &RepackOptions,
    pool: &Arc<rayon::ThreadPool>,
) -> Result<Jobs> {
    let to = options.dialect.name();
    let names: Vec<&str> = arrays(&nodes).map(|(node, _)| node.name.as_str()).collect();
    let [name] = names[..] else {
        let listed: Vec<_> = names.iter().take(NAMES_MAX).map(|name| format!("{name:?}")).collect();
        let reason = match names.len() {
            0 => "holds no array with rows and columns".to_owned(),
            count => {
                format!("holds {count} arrays, and a dataset of {to} one; repack each by itself: {}", listed.join(", "))
            }
        };
        return Err(Error::format(place.root, reason));
    };
    let name = name.to_owned();
    let attributes = attributes(&nodes, &name)?;
    let mut left = left_of_designed(place.root, &nodes, &name)?;
    let node = nodes.into_iter().find(|node| node.name == name && matches!(node.kind, Kind::Array(_)));
    let Some(Node { path, kind: Kind::Array(source), .. }) = node else { unreachable!("it was found just above") };
    let from = source.layout().dialect;
    if !place.copied && from != options.dialect {
        let reason = format!(
            "is of {}, whose documents have other names than those of {to}; write the result to a new dataset",
            from.name()
        );
        return Err(Error::format(path, reason));
    }
    let design = Design::new(&source, &attributes, options)?;
    let is_same = |target: &Array| {
        let (from, to) = (source.metadata(), target.metadata());
        is_laid_out_as(&from.layout, &to.layout) && from.chain.document == to.chain.document
    };
    if !place.copied && is_same(&design.array(place.root)) {
        // All is as asked for but perhaps the places of chunks; a call that was killed at its end leaves this.
        let target = source.moved(place.root, place.root);
        let change = Change::new(*source, target, None, options, pool.clone())?;
        let job = Job { name, document: Value::Null, in_place: true, change, chunks: AtomicU64::new(0) };
        return Ok(Jobs { jobs: vec![job], form: Form::Kept, groups: Vec::new(), left: Vec::new() });
    }
    if !place.copied && !source.document().starts_with(place.root) {
        return Err(Error::format(path, "is described by a document of the dataset around it; name that dataset"));
    }
    left.push(source.document().to_path_buf());
    let target = design.array(&Staging::place(place.staging, ""));
    let document = design.documents().iter().map(|(key, document)| (key.clone(), document.clone())).collect();
    let change = Change::new(*source, target, Some(design), options, pool.clone())?;
    let job = Job { name, document: Value::Object(document), in_place: false, change, chunks: AtomicU64::new(0) };
    Ok(Jobs { jobs: vec![job], form: Form::Designed, groups: Vec::new(), left })
}

/// The groups above an array, from the root down.
fn groups_above<'a>(nodes: &'a [Node], name: &'a str) -> impl Iterator<Item = &'a Node> {
    let is_above =
        move |group: &str| group.is_empty() || name.strip_prefix(group).is_some_and(|rest| rest.starts_with('/'));
    nodes.iter().filter(move |node| matches!(node.kind, Kind::Group(_)) && is_above(&node.name))
}

/// What is said of an image: by its array, and by the group around it.
fn attributes(nodes: &[Node], name: &str) -> Result<Map<String, Value>> {
    let array = nodes.iter().find(|node| node.name == name && matches!(node.kind, Kind::Array(_)));
    let mut attributes = Map::new();
    for node in array.into_iter().chain(groups_above(nodes, name).last()) {
        let found = node.document()?.get("attributes").and_then(Value::as_object).cloned().unwrap_or_default();
        attributes.extend(found);
    }
    groups::take_ome_back(&mut attributes);
    if let Some(root) = nodes.iter().find(|node| node.name.is_empty()) {
        carry(root, &mut attributes)?;
    }
    Ok(attributes)
}

/// Carries along what the document of a volume says.
fn carry(root: &Node, attributes: &mut Map<String, Value>) -> Result<()> {
    if root.is_central()
        && let Some(info) = document::read(&root.path.join("info"))?.filter(precomputed::is_info)
    {
        carried::carry(&info, attributes);
    }
    Ok(())
}

/// Documents that others take the place of.
fn left_of_designed(root: &Path, nodes: &[Node], name: &str) -> Result<Vec<PathBuf>> {
    let mut left: Vec<PathBuf> = groups_above(nodes, name).map(|group| group.path.join("zarr.json")).collect();
    for document in ["zarr.json", ".zattrs", ".zgroup", ".zmetadata"] {
        left.push(root.join(document));
    }
    left.extend(nodes.iter().filter(|node| node.name == name).map(|node| node.path.join(".zattrs")));
    if let Some(central) = CentralMetadata::at(root)? {
        left.extend(central.folders());
    }
    Ok(left)
}

/// The arrays that are meant, and the documents of all groups.
fn of_zarr3(
    nodes: Vec<Node>,
    place: &Roots<'_>,
    options: &RepackOptions,
    pool: &Arc<rayon::ThreadPool>,
) -> Result<(Vec<Job>, Vec<Group>)> {
    let mut jobs = Vec::new();
    let mut groups = Vec::new();
    let several = nodes.len() > 1;
    let converted: Vec<String> = converted_groups(&nodes, options).map(|node| node.name.clone()).collect();
    let carried: Vec<String> = carried(&nodes, options).map(|node| node.name.clone()).collect();
    let mut scales = 0;
    for node in nodes {
        let Kind::Array(source) = &node.kind else {
            let mut document = node.document()?;
            if let Some(attributes) = document.get_mut("attributes").and_then(Value::as_object_mut) {
                groups::take_ome_back(attributes);
                carry(&node, attributes)?;
            }
            let is_new = node.is_central() || converted.contains(&node.name);
            groups.push(Group { name: node.name.clone(), document, is_new });
            continue;
        };
        let is_carried = carried.contains(&node.name);
        if !is_carried && !target::is_meant(source, options) {
            continue;
        }
        // Each of its chunks becomes a shard of one.
        let of_one = || RepackOptions { chunk: Vec::new(), shard: source.chunk_shape().to_vec(), ..options.clone() };
        let options = &if is_carried { of_one() } else { options.clone() };
        let dialect = source.layout().dialect;
        if dialect != Dialect::Zarr3 && !place.copied {
            let reason = "is no array of Zarr v3, which repack makes of it; write the result to a new dataset";
            return Err(Error::format(&node.path, reason));
        }
        let (metadata, mut document) = target::of(&node, source, options)?;
        let mut name = node.name.clone();
        if rules(dialect).numbers_chunks {
            // The keys of scales say how fine they are; the first is the image.
            name = scales.to_string();
            scales += 1;
            document["attributes"] = json!({});
        } else if name.is_empty() && several && dialect != Dialect::Zarr3 {
            // An array can't have others below it in Zarr v3, so it becomes the image of a group.
            name = "0".to_owned();
            let mut attributes = std::mem::replace(&mut document["attributes"], json!({}));
            attributes.as_object_mut().into_iter().for_each(groups::take_ome_back);
            let group = json!({"zarr_format": 3, "node_type": "group", "attributes": attributes});
            groups.push(Group { name: String::new(), document: group, is_new: true });
        }
        let in_place = !place.copied && document == node.document()?;
        let path = if in_place { node.path.clone() } else { Staging::place(place.staging, &name) };
        let target = Array::with(&path, &path, path.join("zarr.json"), metadata);
        let Kind::Array(source) = node.kind else { continue };
        let change = Change::new(*source, target, None, options, pool.clone())?;
        jobs.push(Job { name, document, in_place, change, chunks: AtomicU64::new(0) });
    }
    Ok((jobs, groups))
}

/// The groups of Zarr v2 that arrays stand in which become those of Zarr v3: no reader would find these there.
fn converted_groups<'a>(nodes: &'a [Node], options: &'a RepackOptions) -> impl Iterator<Item = &'a Node> {
    let is_zarr2 = |node: &&Node| node.path.join(".zgroup").exists() && !node.path.join("zarr.json").exists();
    let converted = move |node: &&Node| {
        all_arrays(nodes).any(|(below, array)| {
            let is_above = groups_above(nodes, &below.name).any(|group| group.name == node.name);
            is_above && array.layout().dialect != Dialect::Zarr3 && target::is_meant(array, options)
        })
    };
    nodes.iter().filter(|node| matches!(node.kind, Kind::Group(_))).filter(is_zarr2).filter(converted)
}

/// The arrays that nobody asked for, but that no reader would find any more in a group of Zarr v3.
fn carried<'a>(nodes: &'a [Node], options: &'a RepackOptions) -> impl Iterator<Item = &'a Node> {
    let groups: Vec<&str> = converted_groups(nodes, options).map(|group| group.name.as_str()).collect();
    let is_within = move |name: &str| groups_above(nodes, name).any(|group| groups.contains(&group.name.as_str()));
    let others = all_arrays(nodes)
        .filter(|(_, array)| array.layout().dialect != Dialect::Zarr3 && !target::is_meant(array, options));
    others.map(|(node, _)| node).filter(move |node| is_within(&node.name))
}

/// Files and folders that are of another format than Zarr v3.
fn left_of_others(root: &Path, nodes: &[Node], options: &RepackOptions) -> Result<Vec<PathBuf>> {
    let mut left = Vec::new();
    for (node, array) in all_arrays(nodes) {
        if array.layout().dialect != Dialect::Zarr3 && target::is_meant(array, options) {
            left.push(node.path.join(".zattrs"));
        }
    }
    left.extend(carried(nodes, options).map(|node| node.path.join(".zattrs")));
    for group in converted_groups(nodes, options) {
        left.extend([".zgroup", ".zattrs", ".zmetadata"].map(|document| group.path.join(document)));
    }
    if let Some(central) = CentralMetadata::at(root)? {
        left.extend(central.folders());
        left.push(root.join("zarr.json"));
    }
    Ok(left)
}
