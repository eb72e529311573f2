//! A whole tree of Zarr v3 in the words of Zarr v2: images with their levels and labels, plates, collections. Each
//! array becomes one of files, each group says OME-Zarr's metadata in version 0.4. The records of frames stay what they
//! are, as beside an image of any format.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;

use super::change::Change;
use super::consolidated;
use super::design::refuse_lacking;
use super::documents::{forget_slots, forget_slots_of_level, put};
use super::groups::{Group, OME};
use super::jobs::{Form, Job, Jobs, Roots, group_of_zarr3};
use super::left_out::LeftOut;
use super::selection::Selection;
use super::staging::{Staging, below};
use super::{nodes, ome_lists, refusal, target};
use crate::config::{Codec, OmeVersion};
use crate::error::{Error, Result};
use crate::format::codecs::Chain;
use crate::format::keys::KeyEncoding;
use crate::format::layout::{Files, Layout};
use crate::format::{Metadata, rules, zarr2};
use crate::fs::look;
use crate::offline::array::Array;
use crate::offline::hierarchy::walk::{Kind, Node};

/// Whether several arrays of a tree become such, rather than one the image of a dataset.
pub(super) fn is_meant(nodes: &[Node], selection: &Selection<'_>) -> bool {
    let taken: Vec<_> = nodes::all_arrays(nodes).filter(|(node, _)| is_taken(node, selection)).collect();
    let is_zarr3 = |array: &Array| array.layout().rules().is_tree;
    let is_of_tree = |array: &Array| is_zarr3(array) || !array.layout().rules().shares_files;
    !rules(selection.options.dialect).shares_files
        && taken.len() > 1
        && taken.iter().any(|(_, array)| is_zarr3(array))
        && taken.iter().all(|(_, array)| is_of_tree(array))
}

fn is_taken(node: &Node, selection: &Selection<'_>) -> bool {
    selection.takes(&node.name) && !selection.is_record(&node.name)
}

/// The arrays and the groups that become others. Arrays that are of Zarr v2 already go along as they are.
pub(super) fn jobs(
    nodes: Vec<Node>,
    place: &Roots<'_>,
    selection: &Selection<'_>,
    pool: &Arc<rayon::ThreadPool>,
) -> Result<Jobs> {
    let options = selection.options;
    if !place.copied {
        let from = nodes::all_arrays(&nodes).find(|(_, array)| array.layout().rules().is_tree);
        let reason = format!(
            "{} is of {}, whose documents have other names; write the result to a new dataset",
            place.root.display(),
            from.map_or(options.dialect, |(_, array)| array.layout().dialect)
        );
        return Err(Error::config("dialect", options.dialect, reason));
    }
    let left_out = LeftOut::of_zarr2(&nodes, selection).with(place.absent, true);
    let (mut jobs, mut groups) = (Vec::new(), Vec::new());
    let mut left: Vec<PathBuf> = left_out.paths().collect();
    let mut notes = left_out.notes(options.dialect.name());
    for node in nodes {
        let is_zarr3 = look::is_file(&node.path.join("zarr.json"));
        match node.kind {
            Kind::Group(None) if is_zarr3 && !selection.is_record(&node.name) => {
                left.extend(["zarr.json", ".zattrs", ".zgroup", ".zmetadata"].map(|name| node.path.join(name)));
                groups.push(group_of_zarr3(&node, false, &left_out)?);
            }
            Kind::Array(ref source) if source.layout().rules().is_tree && is_taken(&node, selection) => {
                left.extend([".zarray", ".zattrs"].map(|name| node.path.join(name)));
                let target =
                    metadata(source, selection).map_err(|error| refusal::of_array(error, &node.name, options))?;
                jobs.push(job(node, target, place, selection, pool)?);
            }
            _ => {}
        }
    }
    let lists = ome_lists::correct(&left_out, &mut groups, place.root)?;
    left.extend(lists.left);
    notes.extend(lists.notes);
    // What 0.6 has and 0.5 has not, 0.4 has not either.
    notes.extend(groups.iter_mut().filter_map(|group| group.say_in(Some(OmeVersion::V0_5))));
    Ok(Jobs { jobs, form: Form::Zarr2, groups, left, files: lists.files, notes })
}

fn job(
    node: Node,
    target: Metadata,
    place: &Roots<'_>,
    selection: &Selection<'_>,
    pool: &Arc<rayon::ThreadPool>,
) -> Result<Job> {
    let Node { name, kind: Kind::Array(source), .. } = node else { unreachable!("the caller has looked") };
    let document = json!({
        "array": zarr2::array(&target, &target.layout.shape),
        "attributes": source.attributes(),
    });
    let path = Staging::place(place.staging, &name);
    let target = Array::with(&path, &path, path.join(".zarray"), target);
    let change = Change::new(*source, target, None, selection.options, pool.clone())?;
    Ok(Job::new(name, document, false, change))
}

/// What an array becomes.
fn metadata(source: &Array, selection: &Selection<'_>) -> Result<Metadata> {
    let (options, old) = (selection.options, source.metadata());
    refuse_lacking(source, options.dialect)?;
    if !options.shard.is_empty() {
        let reason = format!("each chunk is a file in {}; leave the shape of shards out", options.dialect);
        return Err(Error::config("shard", format_args!("{:?}", options.shard), reason));
    }
    let innermost = old.chain.innermost_chunk().unwrap_or_else(|| old.layout.chunk_shape.clone());
    let options_of =
        if selection.stays_files(source) { options.of_files(source.shape().len()) } else { options.clone() };
    let chunk_shape = target::sizes("chunk", &options_of.chunk, &innermost)?;
    // Zarr v2 has no checksums of chunks.
    let codec = options.codec.clone().unwrap_or(Codec { checksum: false, ..source.codec().clone() });
    let layout = Layout {
        dialect: options.dialect,
        shape: old.layout.shape.clone(),
        names: old.layout.names.clone(),
        file_shape: chunk_shape.clone(),
        chunk_shape,
        files: Files::Grid { keys: KeyEncoding::of_writer(options.dialect), index: None },
        index_order: None,
    };
    let chain = Chain::new(codec, false, old.dtype, None);
    Metadata { layout, chain, manifest: None, ..old.clone() }.check(source.path())
}

/// Writes the documents of an array in the folder `place`.
pub(super) fn put_array(place: &Path, job: &Job) -> Result<()> {
    let mut said = job.document.clone();
    forget_slots_of_level(&mut said, job);
    let attributes = said["attributes"].as_object().cloned().unwrap_or_default();
    let (name, attributes) = zarr2::attributes(job.change.target.metadata(), attributes);
    put(&place.join(name), &attributes)?;
    put(&place.join(".zarray"), &said["array"])
}

/// Writes the documents of all groups in the dataset at `root`, and then what they say of each other's.
pub(super) fn put_groups(root: &Path, groups: &[&Group], jobs: &[Job]) -> Result<()> {
    for group in groups {
        let mut document = group.document.clone();
        forget_slots(&group.name, &mut document, jobs);
        let mut said = document["attributes"].as_object().cloned().unwrap_or_default();
        let ome = said.shift_remove(OME);
        let (name, attributes) = zarr2::group_attributes(ome.as_ref(), said);
        let folder = below(root, &group.name);
        put(&folder.join(name), &attributes)?;
        put(&folder.join(".zgroup"), &zarr2::group())?;
    }
    let names = groups.iter().map(|group| &group.name).chain(jobs.iter().map(|job| &job.name));
    let names: Vec<&String> = names.collect();
    for group in groups.iter().filter(|group| consolidated::is_consolidated(&group.document)) {
        let is_below = |name: &&&String| nodes::is_above(&group.name, name) && ***name != group.name;
        let within = names.iter().filter(is_below).map(|name| name[group.name.len()..].trim_start_matches('/'));
        consolidated::make_zarr2(&below(root, &group.name), within)?;
    }
    Ok(())
}
