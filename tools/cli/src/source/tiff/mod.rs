//! TIFF: stacks, classic and BigTIFF, and what programs of microscopes make of them.

mod compression;
mod decode;
mod ifd;
pub(crate) mod imagej;
mod lsm;
mod metamorph;
pub(crate) mod mmstack;
mod ome;
mod ome_xml;
pub(crate) mod page;
pub(crate) mod planes;
mod scanimage;
mod shaped;
mod slides;
pub(crate) mod stack;
#[cfg(test)]
mod tests;
mod values;

use std::path::Path;

pub(crate) use self::decode::reason;
pub(crate) use self::ifd::{ByteOrder, MAGIC};
pub(crate) use self::ome::open_companion;
use self::planes::{Found, Planes};
use self::stack::Stack;
pub(crate) use self::values::{to_native, widen};
use super::axes::Axes;
use crate::failure::Failure;

/// Opens a file, and those that belong to it. `series`: which of several images.
pub(crate) fn open(path: &Path, series: Option<u64>) -> Result<Planes, Failure> {
    let stack = Stack::open(path)?;
    let mut found = if ome_xml::is_ome(&stack.description) {
        ome::find(stack, series)?
    } else if let Some(index) = mmstack::Index::of(path)? {
        index.find(stack, series)?
    } else {
        refuse_series(series, path)?;
        find_alone(stack)?
    };
    found.notes.sort_unstable();
    found.notes.dedup();
    Planes::new(found)
}

/// A file that says nothing of others.
fn find_alone(mut stack: Stack) -> Result<Found, Failure> {
    if let Some(imagej) = imagej::ImageJ::parse(&stack.description) {
        return imagej.find(stack);
    }
    if let Some(axes) = shaped::axes(&stack.description) {
        return shaped::find(axes, stack);
    }
    if let Some(info) = stack.lsm.take() {
        return lsm::find(stack, &info);
    }
    if slides::is_aperio(&stack.description) {
        return slides::find(stack);
    }
    if scanimage::is_scanimage(&stack.software) {
        return scanimage::find(stack);
    }
    if let (1, Some((planes, table))) = (stack.entries.len(), stack.metamorph.take()) {
        return metamorph::find(stack, planes, &table);
    }
    let planes = stack.full_pages().count() as u64;
    in_order(stack, Axes::movie(planes))
}

/// The pages of a file in their order, as the planes of `axes`. Planes without a page are missing.
fn in_order(mut stack: Stack, axes: Axes) -> Result<Found, Failure> {
    let pages: Vec<_> = stack.full_pages().collect();
    let mut planes = Found::room(&axes, pages.len() as u64).map_err(|why| super::cannot("read", &stack.path, why))?;
    for (plane, page) in planes.iter_mut().zip(pages) {
        *plane = Some(stack.plane(0, page)?);
    }
    let (notes, defect) = (stack.notes(), stack.defect.take());
    Ok(Found { axes, files: vec![stack.path], planes, notes, defect })
}

/// The planes of a file with one page, which lie one after the other from where the page's pixels begin.
fn behind_first(mut stack: Stack, axes: Axes, wanted: u64) -> Result<Found, Failure> {
    let there = stack.planes_behind_first(wanted);
    let mut planes = Found::room(&axes, there).map_err(|why| super::cannot("read", &stack.path, why))?;
    for (plane, number) in planes.iter_mut().zip(0..there) {
        *plane = Some(stack.plane_behind_first(number)?);
    }
    if there < wanted {
        let why = format!("it holds {there} of the {wanted} planes that it claims");
        stack.defect = Some(super::cannot("read", &stack.path, why).to_string());
    }
    let (notes, defect) = (stack.notes(), stack.defect.take());
    Ok(Found { axes, files: vec![stack.path], planes, notes, defect })
}

/// A file with one image has no series to choose from.
fn refuse_series(series: Option<u64>, path: &Path) -> Result<(), Failure> {
    match series {
        None | Some(0) => Ok(()),
        Some(series) => {
            Err(Failure::Usage(format!("--series {series}: {} holds one image, which is --series 0", path.display())))
        }
    }
}
