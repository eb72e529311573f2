//! What a finished run says of itself.

use std::ops::Range;
use std::path::Path;

use serde_json::{Map, Value};

use super::part::{FoundPart, Said};
use super::run::Run;
use super::shards::key_in_run;
use crate::config::PartBy;
use crate::error::{Error, Result};
use crate::format;
use crate::format::part::{PartMap, Parts};
use crate::format::provenance::{ATTRIBUTE, Ending, MISSING_RANGES_MAX, OME, ProvenanceMut};
use crate::format::zarr3;
use crate::offline::ranges::Ranges;
use crate::offline::repack::documents::change;
use crate::words::{quoted, quoted_list};

/// What all parts came to.
pub(super) struct Finished {
    pub(super) frames: u64,
    pub(super) missing: Ranges,
    pub(super) frames_missing: u64,
    pub(super) chunks: u64,
    pub(super) shape: Vec<u64>,
    /// All parts came to their ends by themselves.
    pub(super) is_whole: bool,
}

impl Finished {
    pub(super) fn new(run: &Run, found: &[FoundPart]) -> Result<Self> {
        let ended = || found.iter().filter(|part| part.is_ended()).filter_map(|part| Some((part, part.said.as_ref()?)));
        let last = |(part, said): (&FoundPart, &Said)| match part.end() {
            0 => 0,
            end => said.map.frame(end - 1).map_or(0, |last| last.saturating_add(1)),
        };
        let frames = ended().map(last).max().unwrap_or(0);
        // Of parts that did not end, it is only known how far they would have come if others came to the end.
        let all_ended = ended().count() == found.len();
        let is_full = |total: u64, (part, said): (&FoundPart, &Said)| {
            said.own.complete && part.end() > 0 && part.end() >= said.map.frames_below(total)
        };
        let planned = run.own.planned.filter(|&total| !all_ended && ended().any(|part| is_full(total, part)));
        let frames = planned.map_or(frames, |total| frames.max(total));
        let missing = match run.parts.by {
            PartBy::Time => missing_by_time(found, frames)?,
            // Each has some of each frame.
            PartBy::Frame if ended().count() < found.len() => Ranges::from(0..frames),
            PartBy::Frame => {
                let mut missing = Ranges::default();
                for (part, _) in ended() {
                    missing = missing.union(&part.missing()?).union(&Ranges::from(part.end()..frames));
                }
                missing
            }
        };
        let mut shape = run.array.shape().to_vec();
        if let Some(extent) = run.array.acquisition_map(&run.own)?.extent(frames) {
            shape[0] = extent;
        }
        Ok(Self {
            frames,
            frames_missing: missing.count(),
            missing,
            chunks: ended().filter_map(|(_, said)| said.own.chunks).fold(0, u64::saturating_add),
            shape,
            is_whole: found.iter().all(|part| part.said.as_ref().is_some_and(|said| said.own.complete)),
        })
    }

    /// The ranges that documents name.
    pub(super) fn told(&self) -> Vec<Range<u64>> {
        self.missing.iter().take(MISSING_RANGES_MAX).cloned().collect()
    }
}

/// The missing ones of a run whose parts each have some of the frames: also all those of a part that is left out.
fn missing_by_time(found: &[FoundPart], frames: u64) -> Result<Ranges> {
    let Some(any) = found.iter().find_map(|part| Some(part.said.as_ref()?.map)) else { return Ok(Ranges::default()) };
    let mut missing = Vec::new();
    for part in found {
        let map = PartMap { index: part.index, ..any };
        let end = map.frames_below(frames);
        let own = match part.is_ended() {
            true => part.missing()?.union(&Ranges::from(part.end()..end)),
            false => Ranges::from(0..end),
        };
        own.iter().for_each(|range| map.frames(range.clone(), |range| missing.push(range)));
    }
    Ok(Ranges::new(missing))
}

/// Says of a run whether its parts are being put together.
pub(super) fn mark(root: &Path, parts: Parts) -> Result<()> {
    let file = root.join(zarr3::DOCUMENT);
    change(&file, |document| {
        ProvenanceMut::at(document, "/attributes").ok_or_else(|| Error::changed(&file))?.set_parts(&parts);
        Ok(())
    })?;
    Ok(())
}

/// Writes the last documents, the one that says that the run is finished behind all others. Returns what is to be known
/// of attributes.
pub(super) fn write(root: &Path, run: &Run, ended: &[&FoundPart], finished: &Finished) -> Result<Vec<String>> {
    let said: Vec<&Said> = ended.iter().filter_map(|part| part.said.as_ref()).collect();
    let damaged = damaged_shards(&said);
    change(run.array.document(), |document| {
        format::set_shape(run.array.layout(), document, &finished.shape);
        Ok(())
    })?;
    let mut notes = Vec::new();
    if !damaged.is_empty() {
        let shards = quoted_list(&damaged);
        notes.push(format!("the recovery of a part found bytes that it could not account for in {shards}"));
    }
    let file = root.join(zarr3::DOCUMENT);
    change(&file, |document| {
        if let Some(attributes) = document["attributes"].as_object_mut() {
            said.iter().for_each(|said| take_attributes(attributes, said, &mut notes));
        }
        let mut own = ProvenanceMut::at(document, "/attributes").ok_or_else(|| Error::changed(&file))?;
        let (frames_missing, missing) = (finished.frames_missing, &finished.told()[..]);
        let ending = Ending { chunks: finished.chunks, frames_missing, missing, error: None };
        match finished.is_whole {
            true => own.complete(finished.frames, &ending),
            false => own.recover(finished.frames, &ending, &damaged),
        }
        own.set_parts(&Parts { finishing: false, ..run.parts });
        Ok(())
    })?;
    Ok(notes)
}

/// Shards, as they are named in the run, in which a part's recovery found bytes that it could not account for.
fn damaged_shards(said: &[&Said]) -> Vec<String> {
    let of = |said: &&Said| {
        let map = said.map;
        said.own.damaged_shards.iter().filter_map(move |key| key_in_run(&map, key)).collect::<Vec<_>>()
    };
    let mut shards: Vec<_> = said.iter().flat_map(of).collect();
    shards.sort();
    shards
}

/// Takes over what a part's caller said of the image, and the windows that its first frames gave the channels.
fn take_attributes(attributes: &mut Map<String, Value>, said: &Said, notes: &mut Vec<String>) {
    let index = said.map.index;
    for (key, value) in said.attributes.as_object().into_iter().flatten() {
        if key == ATTRIBUTE {
            continue;
        }
        if key == OME {
            let channels = value.get("omero").filter(|_| index == 0);
            let ome = attributes.get_mut(OME).and_then(Value::as_object_mut);
            if let (Some(channels), Some(ome)) = (channels, ome) {
                ome.insert("omero".to_owned(), channels.clone());
            }
            continue;
        }
        match attributes.get(key) {
            None => drop(attributes.insert(key.clone(), value.clone())),
            Some(other) if other != value => {
                notes.push(format!("part {index} has another attribute {}, which is left out", quoted(key)));
            }
            Some(_) => {}
        }
    }
}
