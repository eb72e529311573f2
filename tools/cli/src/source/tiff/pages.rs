//! Which page of a file is which plane, where a file says nothing of others.

use std::path::Path;

use super::super::axes::Axes;
use super::super::why::cannot;
use super::planes::{PlaneSource, RecordingFacts};
use super::stack::Stack;
use crate::args::Series;
use crate::failure::Failure;

/// The pages of a file in their order, as the planes of `axes`. Planes without a page are missing.
pub(super) fn in_order(stack: Stack, axes: Axes) -> Result<RecordingFacts, Failure> {
    let pages: Vec<_> = stack.full_pages().collect();
    let there = stack.planes(&pages)?;
    laid(stack, there, axes)
}

/// These planes of a file, as the first ones of `axes`.
pub(super) fn laid(mut stack: Stack, there: Vec<PlaneSource>, axes: Axes) -> Result<RecordingFacts, Failure> {
    let mut planes = RecordingFacts::room(&axes, there.len() as u64).map_err(|why| cannot("read", &stack.path, why))?;
    for (plane, there) in planes.iter_mut().zip(there) {
        *plane = Some(there);
    }
    let (notes, defect) = (stack.notes(), stack.defect.take());
    Ok(RecordingFacts { axes, files: vec![stack.path], planes, notes, defect, series: vec![0] })
}

/// The planes of a file with one page, which lie one after the other from where the page's pixels begin.
pub(super) fn behind_first(stack: Stack, axes: Axes, wanted: u64) -> Result<RecordingFacts, Failure> {
    let first = stack.plane(0, 0)?;
    behind(stack, &first, axes, wanted)
}

/// The same of the planes that begin with this one.
pub(super) fn behind(
    mut stack: Stack,
    first: &PlaneSource,
    axes: Axes,
    wanted: u64,
) -> Result<RecordingFacts, Failure> {
    let there = first.page.planes_behind(stack.len).min(wanted);
    if there < wanted {
        let why = format!("it holds {there} of the {wanted} planes that it claims");
        stack.defect = Some(cannot("read", &stack.path, why).to_string());
    }
    let planes = (0..there).map(|number| PlaneSource { page: first.page.behind(number), ..first.clone() });
    laid(stack, planes.collect(), axes)
}

/// A file with one image has no series to choose from.
pub(super) fn refuse_series(series: Option<Series>, path: &Path) -> Result<(), Failure> {
    match series {
        None | Some(Series::Number(0) | Series::All(_)) => Ok(()),
        Some(Series::Number(series)) => {
            Err(Failure::Usage(format!("--series {series}: {} holds one image, which is --series 0", path.display())))
        }
    }
}
