//! Which of the ways of repacking is meant, and whether there is something to do.

use super::array_notes;
use super::change::Change;
use super::design::is_asked_for;
use super::jobs::{ArrayJob, ArrayJobs, Call, TO_SHARDS};
use super::missing;
use super::options::{RepackOptions, Sharding};
use super::refusal::called;
use super::selection::Selection;
use super::{groups, nodes, refusal, zarr2_arrays, zarr2_tree};
use crate::config::OmeVersion;
use crate::error::{Error, Result};
use crate::format::rules;
use crate::offline::array::Array;
use crate::offline::hierarchy::walk::Node;
use crate::offline::levels;
use crate::offline::promises::{self, Broken};
use crate::offline::stale::{self, Stale};
use crate::words::quoted;

/// What documents promise and is not there. A result that holds only one of the arrays promises nothing of others.
pub(super) fn absent(nodes: &[Node], selection: &Selection<'_>) -> Result<Vec<Broken>> {
    let is_tree = rules(selection.options.to()).is_tree || zarr2_tree::is_meant(nodes, selection);
    if is_tree { promises::broken(nodes) } else { Ok(Vec::new()) }
}

/// The options with all that nobody has said, and a note of it. Where a dataset has chunks in files of their own and
/// nothing else, these stay files in a new one if nothing is asked for that concerns them.
pub(super) fn settled(
    nodes: &[Node],
    options: &RepackOptions,
    copied: bool,
) -> Result<(RepackOptions, Option<String>)> {
    let named = options.dialect;
    let options = options.with_dialect(nodes::dialect_of(nodes, options)?);
    options.check(named)?;
    let selection = Selection::new(nodes, &options, copied)?;
    let is_asked = copied || options.ome.is_some();
    let is_open = options.shard.is_empty() && options.index_location.is_none() && options.index_checksum.is_none();
    let some_are_meant = nodes::all_arrays(nodes).any(|(node, array)| selection.is_meant(node, array));
    if !is_asked || !is_open || !rules(options.to()).is_tree || some_are_meant {
        return Ok((options, None));
    }
    let note = || format!("each chunk stays a file of its own; {}", TO_SHARDS);
    Ok((RepackOptions { sharding: Sharding::Unsharded, ..options }, copied.then(note)))
}

/// All that there is to do, with what somebody should know of it. Refuses what lacks arrays that its documents promise,
/// then what holds none, or none that the options are about.
pub(super) fn jobs(nodes: Vec<Node>, call: &Call<'_>) -> Result<ArrayJobs> {
    let (selection, options) = (call.selection, call.options());
    let of_levels = levels::notes(&nodes)?.into_iter().map(|(name, note)| format!("{}: {note}", quoted(name)));
    let of_nodes: Vec<_> = of_levels.chain(stale::among(&nodes).into_iter().map(Stale::note)).collect();
    if options.ome == Some(OmeVersion::V0_4) {
        groups::refuse_old(&nodes)?;
    }
    let has_arrays = nodes.iter().any(|node| node.array().is_some());
    let chosen = nodes.iter().filter(|node| selection.takes(&node.name));
    let chosen: Vec<&Array> = chosen.filter_map(Node::array).collect();
    let ranks: Vec<usize> = chosen.iter().map(|array| array.shape().len()).collect();
    let has_image = chosen.into_iter().any(nodes::is_image);
    let flat: Vec<String> = flat(&nodes, selection).map(|node| called(&node.name)).collect();
    let to_zarr2 = zarr2_tree::is_meant(&nodes, selection);
    let of_zarr2 = !to_zarr2 && zarr2_arrays::is_meant(&nodes, selection);
    if to_zarr2 || of_zarr2 || rules(options.to()).is_tree {
        check_lengths(&nodes, selection)?;
    }
    let mut jobs = if to_zarr2 {
        zarr2_tree::jobs(nodes, call)?
    } else if of_zarr2 {
        zarr2_arrays::jobs(nodes, call)?
    } else {
        ArrayJobs::new(nodes, call)?
    };
    jobs.notes.extend(of_nodes);
    let of_flat = |array| format!("{array} stays as it is: it has no rows and columns, or no element");
    jobs.notes.extend(flat.into_iter().map(of_flat));
    if call.copied {
        jobs.notes.extend(jobs.jobs.iter().filter_map(note_of_image));
        jobs.notes.extend(jobs.jobs.iter().filter_map(|job| note_of_group(job, call)));
    }
    for job in &jobs.jobs {
        jobs.notes.extend(array_notes::of_job(job, &jobs.groups, options)?);
    }
    missing::refuse_absent(call.absent, options)?;
    match (jobs.jobs.is_empty(), has_arrays) {
        (false, _) => Ok(jobs),
        (true, true) => Err(refusal::of_nothing(call.root, &ranks, has_image, options)),
        (true, false) => Err(Error::not_found(call.root, "holds no array that is read here")),
    }
}

/// What is left behind where the dataset is one array, and a level of an image around it.
fn note_of_image(job: &ArrayJob) -> Option<String> {
    let source = &job.change.source;
    // A volume says of each scale where it is, and some formats say it in the array.
    let is_told_above = !source.layout().rules().names_resolutions && !groups::has_ome_aside(source.attributes());
    // What can't be read of an image around the array is no matter of this one's.
    let axes = source.axes().ok().flatten().filter(|_| job.name.is_empty() && is_told_above);
    axes.map(|_| {
        "the array is a level of an image, which says its axes and where its pixels are; these do not go along, unless \
         the image is repacked with the option `only`"
            .to_owned()
    })
}

/// The new place of an array at the root, where the format of the result has groups for images. What waits in an array
/// for such a group made it an image all along.
fn note_of_group(job: &ArrayJob, call: &Call<'_>) -> Option<String> {
    let Change { source, target, .. } = &job.change;
    let is_at_root = source.path() == call.root && !groups::has_ome_aside(source.attributes());
    let has_groups = target.layout().rules().is_tree || !target.layout().rules().shares_files;
    let place = target.path().strip_prefix(call.place("")).ok()?.to_str()?;
    (is_at_root && has_groups && !place.is_empty())
        .then(|| format!("the array at its root becomes {} of a group", quoted(place)))
}

/// The arrays of one dimension, or without an element, in files of their own format, which stay as they are beside
/// images.
fn flat<'a>(nodes: &'a [Node], selection: &'a Selection<'_>) -> impl Iterator<Item = &'a Node> {
    let to = selection.options.to();
    let is_meant = !rules(to).is_tree && !rules(to).shares_files && is_asked_for(selection.options);
    let is_flat = move |array: &Array| {
        is_meant && !array.shape().is_empty() && !nodes::is_image(array) && array.layout().dialect == to
    };
    let is_taken = |node: &Node| selection.takes(&node.name) && !selection.is_record(&node.name);
    nodes::all_arrays(nodes).filter(move |(node, array)| is_taken(node) && is_flat(array)).map(|(node, _)| node)
}

/// Refuses lengths of chunks and shards for more dimensions than some of the arrays have, and not all. One by one, each
/// array says the same of itself.
fn check_lengths(nodes: &[Node], selection: &Selection<'_>) -> Result<()> {
    // Lengths that are for images are not for such.
    let is_left = |array: &Array| array.shape().len() < 2 && selection.stays_files(array);
    let taken = nodes::all_arrays(nodes).filter(|(node, array)| selection.is_meant(node, array) && !is_left(array));
    let taken: Vec<_> = taken.collect();
    for (field, lengths) in [("chunk", &selection.options.chunk), ("shard", &selection.options.shard)] {
        let ranks = taken.iter().map(|(node, array)| (node.name.as_str(), array.shape().len()));
        let lacking: Vec<_> = ranks.filter(|(_, rank)| *rank < lengths.len()).collect();
        if !lacking.is_empty() && lacking.len() < taken.len() {
            return Err(refusal::of_lengths(field, lengths, &lacking));
        }
    }
    Ok(())
}
