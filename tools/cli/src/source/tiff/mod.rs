//! TIFF: stacks, classic and BigTIFF, and what programs of microscopes make of them.

mod asked;
mod compression;
mod decode;
mod ifd;
pub(crate) mod imagej;
mod imagej_channels;
mod lsm;
mod metamorph;
pub(crate) mod mmstack;
mod ome;
mod ome_xml;
pub(crate) mod page;
mod pages;
pub(crate) mod planes;
mod scanimage;
mod shaped;
mod shaped_description;
mod slides;
pub(crate) mod stack;
#[cfg(test)]
mod tests;
mod values;

use std::path::{Path, PathBuf};

pub(crate) use self::asked::Asked;
pub(crate) use self::decode::reason;
pub(crate) use self::ifd::{ByteOrder, MAGIC};
pub(crate) use self::ome::open_companion;
use self::pages::{in_order, refuse_series};
use self::planes::{PlaneReader, RecordingFacts};
use self::stack::Stack;
pub(crate) use self::values::{to_native, widen};
use super::axes::Axes;
use crate::args::Series;
use crate::failure::Failure;

/// Opens a file, and those that belong to it. `series`: which of several images.
pub(crate) fn open(path: &Path, series: Option<Series>) -> Result<PlaneReader, Failure> {
    read(Stack::open(path)?, Asked { series, folder: &[] })
}

/// The recording to which a file belongs.
fn read(stack: Stack, asked: Asked) -> Result<PlaneReader, Failure> {
    let mut found = if ome_xml::is_ome(&stack.description) {
        ome::find(stack, asked)?
    } else if let Some(index) = mmstack::MmIndex::of(&stack.path)? {
        index.find(stack, asked)?
    } else {
        find_alone(stack, asked.series)?
    };
    found.notes.sort_unstable();
    found.notes.dedup();
    PlaneReader::new(found)
}

/// The TIFF files of a folder, if the first one says that they are a set.
pub(crate) fn open_set(files: &[PathBuf], series: Option<Series>) -> Result<Option<PlaneReader>, Failure> {
    let stack = Stack::open(&files[0])?;
    if is_of_set(&stack)? { read(stack, Asked { series, folder: files }).map(Some) } else { Ok(None) }
}

/// Whether a file says in which files its recording is, or which planes of it are here.
pub(crate) fn is_of_set(stack: &Stack) -> Result<bool, Failure> {
    let names_files = ["<UUID", ":UUID", "MetadataFile="].iter().any(|word| stack.description.contains(word));
    Ok(names_files && ome_xml::is_ome(&stack.description) || mmstack::MmIndex::of(&stack.path)?.is_some())
}

/// A file that says nothing of others.
fn find_alone(mut stack: Stack, series: Option<Series>) -> Result<RecordingFacts, Failure> {
    if let Some(shaped) = stack.entries[0].shaped.clone() {
        return shaped::find(stack, shaped, series);
    }
    refuse_series(series, &stack.path)?;
    if let Some(imagej) = imagej::ImageJ::parse(&stack.description) {
        return imagej.find(stack);
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
