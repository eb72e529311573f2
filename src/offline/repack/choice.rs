//! Which of the ways of repacking is meant, and whether there is something to do.

use std::sync::Arc;

use super::array_notes;
use super::jobs::{ArrayJobs, Roots};
use super::missing;
use super::selection::Selection;
use super::{refusal, zarr2_tree};
use crate::error::{Error, Result};
use crate::format::rules;
use crate::offline::hierarchy::walk::Node;
use crate::offline::levels;
use crate::offline::promises::{self, Broken};
use crate::offline::stale::{self, Stale};

/// What documents promise and is not there. A result that holds only one of the arrays promises nothing of others.
pub(super) fn absent(nodes: &[Node], selection: &Selection<'_>) -> Result<Vec<Broken>> {
    let is_tree = rules(selection.options.to()).is_tree || zarr2_tree::is_meant(nodes, selection);
    if is_tree { promises::broken(nodes) } else { Ok(Vec::new()) }
}

/// All that there is to do, with what somebody should know of it. Refuses what lacks arrays that its documents promise,
/// then what holds none, or none that the options are about.
pub(super) fn jobs(
    nodes: Vec<Node>,
    roots: &Roots<'_>,
    selection: &Selection<'_>,
    pool: &Arc<rayon::ThreadPool>,
) -> Result<ArrayJobs> {
    let of_levels = levels::notes(&nodes)?.into_iter().map(|(name, note)| format!("{name:?}: {note}"));
    let of_nodes: Vec<_> = of_levels.chain(stale::among(&nodes).into_iter().map(Stale::note)).collect();
    let has_arrays = nodes.iter().any(|node| node.array().is_some());
    let chosen = nodes.iter().filter(|node| selection.takes(&node.name));
    let ranks: Vec<usize> = chosen.filter_map(|node| Some(node.array()?.shape().len())).collect();
    let mut jobs = match zarr2_tree::is_meant(&nodes, selection) {
        true => zarr2_tree::jobs(nodes, roots, selection, pool)?,
        false => ArrayJobs::new(nodes, roots, selection, pool)?,
    };
    jobs.notes.extend(of_nodes);
    for job in &jobs.jobs {
        jobs.notes.extend(array_notes::of_job(job, selection.options)?);
    }
    missing::refuse_absent(roots.absent, selection.options)?;
    match (jobs.jobs.is_empty(), has_arrays) {
        (false, _) => Ok(jobs),
        (true, true) => Err(refusal::of_nothing(roots.root, &ranks, selection.options)),
        (true, false) => Err(Error::not_found(roots.root, "holds no array that is read here")),
    }
}
