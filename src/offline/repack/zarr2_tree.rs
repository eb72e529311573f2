//! A whole tree of Zarr v3 in the words of Zarr v2: images with their levels and labels, plates, collections. Each
//! array becomes one of files, each group says OME-Zarr's metadata in version 0.4. The records of frames stay what they
//! are, as beside an image of any format.

use std::path::PathBuf;

use serde_json::json;

use super::change::Change;
use super::design::refuse_lacking;
use super::groups::RepackedGroup;
use super::jobs::{ArrayJob, ArrayJobs, Call, ResultForm, group_of_zarr3};
use super::left_out::{LeftOut, left_of_older};
use super::selection::Selection;
use super::{groups, nodes, ome_lists, refusal, target};
use crate::config::{Codec, OmeVersion};
use crate::error::Result;
use crate::format::codecs::Chain;
use crate::format::keys::KeyEncoding;
use crate::format::layout::{Files, Layout};
use crate::format::node::{self, NodeFormat};
use crate::format::{Metadata, fill_value, rules, zarr2};
use crate::offline::array::Array;
use crate::offline::hierarchy::format_at;
use crate::offline::hierarchy::walk::{Node, NodeKind};

/// Whether the arrays of a tree become such, rather than one the image of a dataset: several, or one that is no image,
/// or where the words of OME-Zarr 0.4 are asked for, in which its groups speak.
pub(super) fn is_meant(nodes: &[Node], selection: &Selection<'_>) -> bool {
    let taken: Vec<_> = nodes::all_arrays(nodes).filter(|(node, _)| is_taken(&node.name, selection)).collect();
    let is_zarr3 = |array: &Array| array.layout().rules().is_tree;
    let is_of_tree = |array: &Array| is_zarr3(array) || !array.layout().rules().shares_files;
    let is_ome = selection.options.ome == Some(OmeVersion::V0_4);
    let is_alone = |(node, array): &(&Node, &Array)| !nodes::is_image(array) || (is_ome && !node.name.is_empty());
    !rules(selection.options.to()).shares_files
        && (taken.len() > 1 || taken.iter().all(is_alone))
        && taken.iter().any(|(_, array)| is_zarr3(array))
        && taken.iter().all(|(_, array)| is_of_tree(array))
}

fn is_taken(name: &str, selection: &Selection<'_>) -> bool {
    selection.takes(name) && !selection.is_record(name)
}

/// The arrays and the groups that become others. Arrays that are of Zarr v2 already go along as they are.
pub(super) fn jobs(nodes: Vec<Node>, call: &Call<'_>) -> Result<ArrayJobs> {
    let (selection, options) = (call.selection, call.options());
    if !call.copied {
        let from = nodes::all_arrays(&nodes).find(|(_, array)| array.layout().rules().is_tree);
        let from = from.map_or(options.to(), |(_, array)| array.layout().dialect);
        return Err(refusal::of_other_names(call.root, from, options.to()));
    }
    let left_out = LeftOut::of_zarr2(&nodes, selection).with(call.absent, true);
    let (mut jobs, mut groups) = (Vec::new(), Vec::new());
    let mut left: Vec<PathBuf> = left_out.paths().collect();
    let mut notes = left_out.notes(options.to().name());
    notes.extend(left_of_older(&nodes, selection).1);
    for node in nodes {
        let is_zarr3 = format_at(&node.path) == Some(NodeFormat::Zarr3);
        match node.kind {
            NodeKind::Group(None) if is_zarr3 && !selection.is_record(&node.name) => {
                left.extend(node::ALL.map(|name| node.path.join(name)));
                groups.push(group_of_zarr3(&node, false, options, &left_out, &mut notes)?);
            }
            NodeKind::Array(source) if source.layout().rules().is_tree && is_taken(&node.name, selection) => {
                left.extend([zarr2::ARRAY, zarr2::ATTRIBUTES].map(|name| node.path.join(name)));
                let refused = |error| refusal::of_array(error, &node.name, options);
                let group = |name: &str| groups.iter().rev().find(|group: &&RepackedGroup| group.name == name);
                let own = source.dimension_names().filter(|names| groups::is_complete(names, names.len()));
                let axes = || groups::axes_of(&node.name, source.shape().len(), group);
                let names = if own.is_some() { None } else { axes() };
                let target = metadata(&source, names, selection).map_err(refused)?;
                jobs.push(job(node.name, *source, target, call)?);
            }
            _ => {}
        }
    }
    let lists = ome_lists::correct(&left_out, &mut groups, call.root)?;
    left.extend(lists.left);
    notes.extend(lists.notes);
    // What 0.6 has and 0.5 has not, 0.4 has not either.
    notes.extend(groups::say_in(&mut groups, OmeVersion::V0_5, options.ome.is_some(), call.root)?);
    groups::refuse_taken(&groups, call.root)?;
    Ok(ArrayJobs { jobs, form: ResultForm::Zarr2, groups, left, records: None, files: lists.files, notes })
}

fn job(name: String, source: Array, target: Metadata, call: &Call<'_>) -> Result<ArrayJob> {
    let document = json!({
        "array": zarr2::array(&target, &target.layout.shape),
        "attributes": source.attributes(),
    });
    let path = call.place(&name);
    let target = Array::with(&path, &path, path.join(zarr2::ARRAY), target);
    let change = Change::new(source, target, None, call.options(), call.pool.clone())?;
    Ok(ArrayJob::new(name, document, false, change))
}

/// What an array becomes. `names`: of its dimensions, should it not name each itself.
fn metadata(source: &Array, names: Option<Vec<String>>, selection: &Selection<'_>) -> Result<Metadata> {
    let (options, old) = (selection.options, source.metadata());
    refuse_lacking(source, options.to())?;
    refusal::refuse_shards(options)?;
    let innermost = old.chain.innermost_chunk().unwrap_or_else(|| old.layout.chunk_shape.clone());
    let options_of =
        if selection.stays_files(source) { options.of_files(source.shape().len()) } else { options.clone() };
    let chunk_shape = target::sizes("chunk", &options_of.chunk, &innermost)?;
    // Zarr v2 has no checksums of chunks.
    let codec = options.codec.clone().unwrap_or(Codec { checksum: false, ..source.codec().clone() });
    let layout = Layout {
        dialect: options.to(),
        shape: old.layout.shape.clone(),
        names: names.or_else(|| old.layout.names.clone()),
        file_shape: chunk_shape.clone(),
        chunk_shape,
        files: Files::Grid { keys: KeyEncoding::of_writer(rules(options.to()).key_prefix), index: None },
        index_order: None,
    };
    let chain = Chain::new(codec, false, old.dtype, None);
    let fill = fill_value::as_told(old.dtype, &old.fill);
    Metadata { layout, chain, fill, manifest: None, ..old.clone() }.check(source.path())
}
