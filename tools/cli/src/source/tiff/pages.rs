//! Which page of a file is which plane, where a file says nothing of others.

use std::path::Path;

use super::super::axes::Axes;
use super::super::why::cannot;
use super::planes::RecordingFacts;
use super::stack::Stack;
use crate::args::Series;
use crate::failure::Failure;

/// The pages of a file in their order, as the planes of `axes`. Planes without a page are missing.
pub(super) fn in_order(mut stack: Stack, axes: Axes) -> Result<RecordingFacts, Failure> {
    let pages: Vec<_> = stack.full_pages().collect();
    let mut planes = RecordingFacts::room(&axes, pages.len() as u64).map_err(|why| cannot("read", &stack.path, why))?;
    for (plane, page) in planes.iter_mut().zip(pages) {
        *plane = Some(stack.plane(0, page)?);
    }
    let (notes, defect) = (stack.notes(), stack.defect.take());
    Ok(RecordingFacts { axes, files: vec![stack.path], planes, notes, defect, series: vec![0] })
}

/// The planes of a file with one page, which lie one after the other from where the page's pixels begin.
pub(super) fn behind_first(mut stack: Stack, axes: Axes, wanted: u64) -> Result<RecordingFacts, Failure> {
    let there = stack.planes_behind_first(wanted);
    let mut planes = RecordingFacts::room(&axes, there).map_err(|why| cannot("read", &stack.path, why))?;
    for (plane, number) in planes.iter_mut().zip(0..there) {
        *plane = Some(stack.plane_behind_first(number)?);
    }
    if there < wanted {
        let why = format!("it holds {there} of the {wanted} planes that it claims");
        stack.defect = Some(cannot("read", &stack.path, why).to_string());
    }
    let (notes, defect) = (stack.notes(), stack.defect.take());
    Ok(RecordingFacts { axes, files: vec![stack.path], planes, notes, defect, series: vec![0] })
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
