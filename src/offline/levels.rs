//! Levels of an image against each other: chunks that a level lacks where the one before has some. Nobody counts the
//! chunks of levels, so that a file of theirs which is lost is noticed in no other way.

use std::collections::{HashMap, HashSet};

use rayon::prelude::*;
use serde_json::Value;

use super::array::Array;
use super::halving::Halving;
use super::hierarchy::below;
use super::hierarchy::walk::Node;
use crate::downsample::Method;
use crate::error::Result;
use crate::format;
use crate::format::keys::is_below;
use crate::fs::look;
use crate::geometry::{cells, for_each_position};
use crate::ome::multiscales::{self, Dataset, ome_of};
use crate::words::{HAS, IS, count_that, of_number};

/// A level's dimension is not smaller by more than this.
const FACTOR_MAX: u64 = 16;
/// Of larger levels nobody looks which chunks they have.
const CHUNKS_MAX: u64 = 1 << 24;

/// A level and the one before.
pub(super) struct LevelPair<'a> {
    /// The name of the level below the root.
    pub(super) name: String,
    pub(super) level: &'a Array,
    finer: &'a Array,
    /// This many pixels of the finer one become one, in each dimension.
    factors: Vec<u64>,
    /// How they do, if this crate has made the level.
    method: Option<Method>,
}

/// The levels of the images of a group. `find`: the array of a name.
pub(super) fn pairs<'a>(
    group: &str,
    attributes: &Value,
    find: impl Fn(&str) -> Option<&'a Array>,
) -> Vec<LevelPair<'a>> {
    let mut pairs = Vec::new();
    for image in multiscales::images(ome_of(attributes)) {
        let method = image.method(multiscales::PYRAMID);
        let paths = image.levels().filter_map(Dataset::path);
        let names: Vec<String> = paths.filter(|path| is_below(path)).map(|path| below(group, path)).collect();
        for (finer, name) in names.iter().zip(names.iter().skip(1)) {
            if let (Some(finer), Some(level)) = (find(finer), find(name))
                && let Some(factors) = factors(finer.shape(), level.shape())
            {
                pairs.push(LevelPair { name: name.clone(), level, finer, factors, method });
            }
        }
    }
    pairs
}

/// By what each dimension of a level is smaller, if it is one that was halved or divided by another number.
fn factors(finer: &[u64], level: &[u64]) -> Option<Vec<u64>> {
    steps(finer, level).filter(|factors| factors.iter().any(|factor| *factor > 1))
}

/// The same also of one that is not smaller, as where z alone is halved and one plane has come.
pub(super) fn steps(finer: &[u64], level: &[u64]) -> Option<Vec<u64>> {
    let factor = |(finer, level): (&u64, &u64)| (1..=FACTOR_MAX).find(|factor| finer.div_ceil(*factor) == *level);
    (finer.len() == level.len()).then(|| finer.iter().zip(level).map(factor).collect()).flatten()
}

/// Why this can't be the shape of a level that this crate's writer made of an array of the shape `finest`. `extent`:
/// how long its first dimension then is, where that is known.
pub(super) fn misfit(level: &[u64], finest: &[u64], extent: Option<u64>) -> Option<String> {
    if level.len() != finest.len() {
        return Some("the one has other dimensions than the other".to_owned());
    }
    if let Some(extent) = extent.filter(|extent| level.first() != Some(extent)) {
        return Some(format!("the first number should be {extent}"));
    }
    let is_halved = |level: u64, finest: u64| (0..u64::BITS).any(|times| finest.div_ceil(1 << times) == level);
    let (level, finest) = level.iter().zip(finest).find(|(level, finest)| !is_halved(**level, **finest))?;
    Some(format!("{finest} halved, once or more, never is {level}"))
}

impl LevelPair<'_> {
    /// The places of chunks that the level lacks, though it is made of chunks that are there. They hold nothing but the
    /// fill value, or are lost.
    pub(super) fn lacking(&self) -> Result<Vec<Vec<u64>>> {
        let Self { level, finer, factors, .. } = self;
        let is_large = |array: &Array| {
            format::layout::product(&array.layout().chunk_grid()).is_none_or(|chunks| chunks > CHUNKS_MAX)
        };
        if is_large(level) || is_large(finer) {
            return Ok(Vec::new());
        }
        let there: HashSet<Vec<u64>> = level.all_chunk_positions()?.into_iter().flatten().collect();
        let (from, to) = (finer.layout(), level.layout());
        let of_finer: Vec<u64> =
            to.chunk_shape.iter().zip(factors).map(|(n, factor)| n.saturating_mul(*factor)).collect();
        let mut lacking = HashSet::new();
        for place in finer.all_chunk_positions()?.into_iter().flatten().filter(|place| from.has_chunk(place)) {
            let (start, shape) = from.elements_of(&place, &vec![1; place.len()]);
            let (first, counts) = cells(&start, &shape, &of_finer);
            for_each_position(&first, &counts, |at| {
                if !there.contains(at) {
                    lacking.insert(at.to_vec());
                }
            });
        }
        let mut lacking: Vec<_> = lacking.into_iter().collect();
        lacking.sort();
        Ok(lacking)
    }

    /// How many of these are lost: made again of the level before, they hold other pixels than the fill value. `None`
    /// where it is not known how the level was made.
    pub(super) fn lost(&self, lacking: &[Vec<u64>]) -> Result<Option<u64>> {
        let (Some(method), Some(dtype)) = (self.method, self.level.dtype().number()) else { return Ok(None) };
        let is_halved = self.factors.iter().all(|factor| *factor <= 2);
        if self.finer.dtype().number() != Some(dtype) || !is_halved {
            return Ok(None);
        }
        let halving = Halving::new(method, dtype, &self.factors);
        let (layout, fill) = (self.level.layout(), &self.level.metadata().fill);
        let is_lost = |rooms: &mut (Vec<u8>, Vec<u8>), at: &Vec<u64>| -> Result<u64> {
            let (pixels, whole) = rooms;
            let (start, shape) = layout.elements_of(at, &vec![1; at.len()]);
            let bytes = format::bytes(&shape, self.level.dtype()).unwrap_or(u64::MAX);
            pixels.resize(usize::try_from(bytes).unwrap_or(usize::MAX), 0);
            halving.read(self.finer, &start, &shape, pixels, whole)?;
            Ok(u64::from(pixels.chunks_exact(fill.len()).any(|pixel| pixel != fill)))
        };
        let lost =
            lacking.par_iter().map_init(Default::default, is_lost).try_reduce(|| 0, |one, other| Ok(one + other));
        lost.map(Some)
    }

    /// What to say of this many chunks where it is not known whether they were ever written.
    pub(super) fn note_of(&self, lacking: usize) -> String {
        let note = format!(
            "{} not there of which the level before has some: {} nothing but the fill value, or files are missing",
            count_that(lacking, "chunk", IS),
            of_number(&lacking, ["it holds", "they hold"])
        );
        match self.level.image_provenance() {
            Some(own) if !own.complete => {
                format!("{note}, or its run was stopped, of which recover tells")
            }
            _ => note,
        }
    }
}

/// What to say of this many chunks that were written.
pub(super) fn damage_of(lost: u64) -> String {
    format!(
        "{} not there that {} pixels, as the level before shows: files are missing; pyramid makes them again if it \
         may overwrite",
        count_that(lost, "chunk", IS),
        of_number(&lost, HAS)
    )
}

/// What to say of the levels of a dataset that may have lost files, by the names of the levels. What is damaged is told
/// by whoever reads it.
pub(super) fn notes(nodes: &[Node]) -> Result<Vec<(String, String)>> {
    let arrays: HashMap<&str, &Array> =
        nodes.iter().filter_map(|node| Some((node.name.as_str(), node.array()?))).collect();
    let mut notes = Vec::new();
    for node in nodes.iter().filter(|node| node.is_group()) {
        let attributes = node.document()?.get("attributes").cloned().unwrap_or_default();
        for pair in pairs(&node.name, &attributes, |name| arrays.get(name).copied()) {
            match pair.lacking() {
                Ok(lacking) if lacking.is_empty() => {}
                Ok(lacking) => {
                    let note = pair.note_of(lacking.len());
                    notes.push((pair.name, note));
                }
                Err(error) if look::is_about_a_file(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(notes)
}
