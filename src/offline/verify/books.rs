//! Whether the records, the chunks and the list of missing frames say the same.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::check::{Check, CheckedImage, Severity};
use crate::format::keys::FRAME_NUMBERS;
use crate::format::provenance::Provenance;
use crate::offline::hierarchy::below;
use crate::offline::hierarchy::walk::{ArrayNode, Tree};
use crate::offline::layers::FoundRanges;
use crate::offline::ranges::{Gather, Ranges};
use crate::record::{LOST, NO_FRAME};
use crate::words::{IS, of_number};

/// What a writer said about its frames at the end of a run.
#[derive(Debug)]
pub(super) struct Books {
    missing: Ranges,
    /// One past the last frame of which something is said: a list of ranges has an end.
    end: u64,
    severity: Severity,
}

/// The books of all images, by the folders of their frame numbers.
pub(super) fn all(tree: &Tree) -> HashMap<PathBuf, Books> {
    let books = tree.groups.iter().filter_map(|group| {
        let own = Provenance::parse(&group.path, &group.attributes).ok()??;
        let records = tree.array(&below(&group.name, FRAME_NUMBERS))?;
        Some((records.array.path().to_path_buf(), Books::of(&own)?))
    });
    books.collect()
}

/// A level lacks at least what level 0 lacked when the run ended.
pub(super) fn of_level(check: &Check, level: &CheckedImage, path: &Path) {
    let around = level.group.unwrap_or_default().rsplit_once('/').map_or("", |(group, _)| group);
    let Some(group) = check.tree.group(around) else { return };
    let Ok(Some(finest)) = Provenance::parse(&group.path, &group.attributes) else { return };
    let ranges = |own: &Provenance| Ranges::new(own.missing.clone());
    let frames = &level.own.level_frames;
    let all = finest.frames.map_or(0, |all| frames.end(all));
    let there = Ranges::from(0..finest.frames.unwrap_or(0)).minus(&ranges(&finest));
    let there = Ranges::new(there.iter().flat_map(|range| frames.ranges(range)).collect());
    // What is behind its end is missing, too: a copy of a run that did not finish has what there was of each level.
    let is_whole = level.own.complete || level.own.slots.is_some();
    let end = level.own.frames.filter(|_| !is_whole).unwrap_or(u64::MAX);
    let more = Ranges::from(0..all.min(end)).minus(&there).minus(&ranges(&level.own)).count();
    let is_told_whole = |own: &Provenance| ranges(own).count() >= own.frames_missing;
    // What level 0 lost after the end of the run, or of a recovery, a level may have all the same.
    let keeps_more = finest.recovered && (level.own.complete || level.own.recovered);
    if (more > 0 && !keeps_more && is_told_whole(&level.own))
        || (is_whole && finest.frames.map(|_| all) != level.own.frames)
    {
        let count = |own: &Provenance| own.frames.map_or("no".to_owned(), |frames| frames.to_string());
        let (frames, all) = (count(&level.own), count(&finest));
        let what = format!(
            "has {frames} frames, and {more} of them {} missing in level 0, which has {all}",
            of_number(&more, IS)
        );
        check.damage(path, what);
    }
}

impl Books {
    /// `None` while nobody said how many frames there are.
    pub(super) fn of(own: &Provenance) -> Option<Self> {
        let frames = own.frames?;
        let missing = Ranges::new(own.missing.clone());
        let is_whole = missing.count() >= own.frames_missing;
        let told = if is_whole { frames } else { own.missing.iter().map(|range| range.end).max().unwrap_or(0) };
        // A writer that failed may have failed at its books, too, and recover puts them right.
        let severity = if own.complete || own.recovered { Severity::Damage } else { Severity::Note };
        Some(Self { missing, end: told.min(frames), severity })
    }

    /// The numbers in a block of the records, each with its place.
    pub(super) fn records(&self, check: &Check, path: &Path, numbers: impl Iterator<Item = (i64, u64)>) {
        let (mut named, mut unnamed) = (Gather::default(), Gather::default());
        for (number, place) in numbers.take_while(|(_, place)| *place < self.end) {
            match self.missing.contains(place) {
                true if number >= 0 => named.add(place),
                false if [NO_FRAME, LOST].contains(&number) => unnamed.add(place),
                _ => {}
            }
        }
        let tell = |numbers: Gather, what| tell(check, self.severity, path, &numbers.ranges(), what);
        tell(named, "frames that have a number in the records are listed as missing");
        tell(unnamed, "frames that have no number in the records are not listed as missing");
    }

    /// Blocks of the records that are not there read as of frames that never came.
    pub(super) fn absent_records(&self, check: &Check, node: &ArrayNode) {
        let frames = node.array.chunk_shape().first().copied().unwrap_or(1);
        let mut there = Gather::default();
        for position in blocks(node) {
            let start = position.first().map_or(0, |block| block.saturating_mul(frames));
            there.add_range(start..start.saturating_add(frames));
        }
        let absent = Ranges::from(0..self.end).minus(&there.ranges()).minus(&self.missing);
        tell(check, self.severity, node.array.path(), &absent, "frames that have no record are not listed as missing");
    }

    /// The frames whose chunks were found.
    pub(super) fn pixels(&self, check: &Check, path: &Path, own: &Provenance, found: FoundRanges) {
        let listed = found.proven.and(&self.missing);
        // An editor may have painted them since the run.
        let severity = if own.complete { Severity::Note } else { self.severity };
        tell(check, severity, path, &listed, "frames that have all their chunks are listed as missing");
        // Elsewhere a frame without chunks is a dark one.
        if own.slots.is_some_and(|slots| slots.empty_chunks) {
            let lost = Ranges::from(0..self.end).minus(&self.missing).minus(&found.whole);
            tell(check, self.severity, path, &lost, "frames that lack chunks are not listed as missing");
        }
    }
}

/// The blocks of records that are there, in files within the array's shape or in a manifest.
fn blocks(node: &ArrayNode) -> Vec<Vec<u64>> {
    let (array, layout) = (&node.array, node.array.layout());
    if let Some(manifest) = array.manifest() {
        return manifest.positions(layout);
    }
    let files = node.files.iter().map(|(_, position)| position).filter(|position| layout.has_file(position));
    // A damaged index is told elsewhere, and nobody knows then what is not there.
    let all = |file: &Vec<u64>| {
        let (first, counts) = layout.chunks_of(file);
        let (first, count) = (first.first().copied().unwrap_or(0), counts.first().copied().unwrap_or(0));
        (first..first + count).map(|block| vec![block]).collect()
    };
    files.flat_map(|file| array.chunk_positions(file).unwrap_or_else(|_| all(file))).collect()
}

/// A writer that came to its end has written each block of frame numbers with those of all other fields.
pub(super) fn absent_blocks(check: &Check, numbers: &ArrayNode) {
    let Some(records) = numbers.name.strip_suffix("frame_number") else { return };
    let is_beside = |node: &&ArrayNode| node.name.strip_prefix(records).is_some_and(|field| !field.contains('/'));
    for field in check.tree.arrays.iter().filter(is_beside) {
        // Somebody else has cut it otherwise.
        let cut = |node: &ArrayNode| (node.array.layout().file_shape.clone(), node.array.layout().chunk_shape.clone());
        if cut(field) != cut(numbers) {
            continue;
        }
        let there: HashSet<_> = blocks(field).into_iter().collect();
        for position in blocks(numbers).iter().filter(|position| !there.contains(*position)) {
            let what = format!("its block {position:?} is not there, and that of the frame numbers is");
            check.damage(field.array.path(), what);
        }
    }
}

fn tell(check: &Check, severity: Severity, path: &Path, frames: &Ranges, what: &str) {
    if let Some(first) = frames.iter().next() {
        let last = if first.end - first.start > 1 { format!(" to {}", first.end - 1) } else { String::new() };
        let what = format!("{what}: {}, the first of them {}{last}", frames.count(), first.start);
        check.find(severity, path, None, what);
    }
}
