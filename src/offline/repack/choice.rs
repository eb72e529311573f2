//! Which of the ways of repacking is meant, and whether there is something to do.

use std::path::Path;
use std::sync::Arc;

use super::array_notes;
use super::jobs::{ArrayJobs, Roots};
use super::missing;
use super::options::RepackOptions;
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

/// All that there is to do, with what somebody should know of it.
pub(super) fn jobs(
    nodes: Vec<Node>,
    roots: &Roots<'_>,
    selection: &Selection<'_>,
    pool: &Arc<rayon::ThreadPool>,
) -> Result<ArrayJobs> {
    let of_levels = levels::notes(&nodes)?.into_iter().map(|(name, note)| format!("{name:?}: {note}"));
    let of_nodes: Vec<_> = of_levels.chain(stale::among(&nodes).into_iter().map(Stale::note)).collect();
    let has_arrays = nodes.iter().any(|node| node.array().is_some());
    let mut jobs = match zarr2_tree::is_meant(&nodes, selection) {
        true => zarr2_tree::jobs(nodes, roots, selection, pool)?,
        false => ArrayJobs::new(nodes, roots, selection, pool)?,
    };
    jobs.notes.extend(of_nodes);
    for job in &jobs.jobs {
        jobs.notes.extend(array_notes::of_job(job, selection.options)?);
    }
    refuse_lacking(roots.root, jobs.jobs.is_empty().then_some(has_arrays), roots.absent, selection.options)?;
    Ok(jobs)
}

/// Refuses what lacks arrays that its documents promise, then what holds none, or none that the options are about.
/// `nothing`: nothing is to be done, though the dataset has arrays, or has none.
fn refuse_lacking(root: &Path, nothing: Option<bool>, absent: &[Broken], options: &RepackOptions) -> Result<()> {
    missing::refuse_absent(absent, options)?;
    match nothing {
        None => Ok(()),
        Some(true) => Err(refusal::of_nothing(root, options)),
        Some(false) => Err(Error::not_found(root, "holds no array that is read here")),
    }
}
