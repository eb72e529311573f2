//! Arrays of plain Zarr v2 that stay such, each in its place, with chunks that are re-encoded or cut otherwise: the
//! levels of an image, its labels, the fields of a plate. Only their `.zarray` changes, and what `.zmetadata` say of
//! it.

use std::collections::HashSet;

use super::change::is_same;
use super::design::{self, Design};
use super::image_attributes::ImageAttributes;
use super::jobs::{ArrayJob, ArrayJobs, Call, ResultForm};
use super::selection::Selection;
use super::{nodes, refusal};
use crate::error::Result;
use crate::format::rules;
use crate::offline::array::Array;
use crate::offline::hierarchy::walk::{Node, NodeKind};

/// Whether several are there, no other images beside them, and something is asked for that changes them.
pub(super) fn is_meant(nodes: &[Node], selection: &Selection<'_>) -> bool {
    let to = selection.options.to();
    let images: Vec<_> = images(nodes, selection).collect();
    !rules(to).shares_files
        && design::is_asked_for(selection.options)
        && images.len() > 1
        && images.iter().all(|(_, array)| array.layout().dialect == to)
}

/// The arrays that may be images. Others stay as they are, as beside one image.
fn images<'a>(nodes: &'a [Node], selection: &Selection<'_>) -> impl Iterator<Item = (&'a Node, &'a Array)> {
    nodes::all_arrays(nodes)
        .filter(|(node, _)| selection.takes(&node.name) && !selection.is_record(&node.name))
        .filter(|(_, array)| nodes::is_image(array))
}

pub(super) fn jobs(nodes: Vec<Node>, call: &Call<'_>) -> Result<ArrayJobs> {
    let options = call.options();
    let names: HashSet<String> = images(&nodes, call.selection).map(|(node, _)| node.name.clone()).collect();
    let mut arrays = Vec::new();
    for Node { name, kind, .. } in nodes {
        let NodeKind::Array(source) = kind else { continue };
        if !names.contains(&name) {
            continue;
        }
        call.refuse_part(&source)?;
        let design = Design::new(&source, &ImageAttributes::default(), options, Some(&name));
        let design = design.map_err(|error| refusal::of_array(error, &name, options))?;
        arrays.push((name, *source, design));
    }
    if !call.copied && arrays.iter().all(|(_, source, design)| is_same(source, &design.array(call.root))) {
        let kept = arrays.into_iter().map(|(name, source, _)| ArrayJob::in_its_place(name, source, call));
        return Ok(ArrayJobs::of_kept(kept.collect::<Result<_>>()?));
    }
    let left = arrays.iter().map(|(_, source, _)| source.document().to_path_buf()).collect();
    let notes = arrays.iter().flat_map(|(_, _, design)| design.notes.clone()).collect();
    let jobs = arrays.into_iter().map(|(name, source, design)| ArrayJob::of_design(name, source, design, call));
    let jobs = jobs.collect::<Result<_>>()?;
    Ok(ArrayJobs { form: ResultForm::Designed, left, notes, ..ArrayJobs::of_kept(jobs) })
}
