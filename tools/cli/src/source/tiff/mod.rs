//! TIFF: stacks, classic and BigTIFF, and what programs of microscopes make of them.

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
mod slides;
pub(crate) mod stack;
#[cfg(test)]
mod tests;
mod values;

use std::path::{Path, PathBuf};

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
    let stack = Stack::open(path)?;
    let mut found = if ome_xml::is_ome(&stack.description) {
        ome::find(stack, series)?
    } else if let Some(index) = mmstack::MmIndex::of(path)? {
        index.find(stack, series)?
    } else {
        refuse_series(series, path)?;
        find_alone(stack)?
    };
    found.notes.sort_unstable();
    found.notes.dedup();
    PlaneReader::new(found)
}

/// Files whose first one says that they are a set.
pub(crate) fn open_set(files: &[PathBuf], series: Option<Series>) -> Result<Option<PlaneReader>, Failure> {
    let stack = Stack::open(&files[0])?;
    let mentions = |word: &str| stack.description.contains(word);
    let is_set = mentions("FileName=") && mentions("UUID") || mentions("MetadataFile=");
    if !is_set && mmstack::MmIndex::of(&files[0])?.is_none() {
        return Ok(None);
    }
    open(&files[0], series).map(Some)
}

/// A file that says nothing of others.
fn find_alone(mut stack: Stack) -> Result<RecordingFacts, Failure> {
    if let Some(imagej) = imagej::ImageJ::parse(&stack.description) {
        return imagej.find(stack);
    }
    if let Some(shaped) = shaped::parse(&stack.description) {
        return shaped::find(shaped, stack);
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
