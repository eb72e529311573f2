//! Which frames the chunks make up that are there, shard by shard.
//!
//! Shards that hold the same frames are looked at together, and of them stay ranges of frame numbers: what an archive
//! takes in memory grows with its gaps, and not with its chunks.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::{Deserialize, Serialize};

use super::ranges::{Gather, Ranges};
use crate::format::acquisition_map::AcquisitionMap;
use crate::format::slot_header::SlotHeader;
use crate::geometry::{linear, position};
use crate::offline::hierarchy::walk::FileAt;

/// This many ranges of frame numbers are looked at for an image. Headers of a few bytes can promise millions of frames
/// each.
const RUNS_MAX: u64 = 1 << 28;
/// More of them are not claimed for one shard.
const RUNS_A_SHARD_MAX: u64 = 1 << 20;

/// Of a layer of more frames it is not looked up which did not come.
const GAPPY_FRAMES_MAX: u64 = 1 << 16;

/// The files of an array in groups, each of which holds all chunks of its frames.
pub(super) fn groups<'a>(files: &'a [FileAt], map: &AcquisitionMap) -> Vec<Vec<&'a FileAt>> {
    // Where a hash deals chunks out, every shard holds some of most frames.
    if !map.has_boxes() {
        return vec![files.iter().collect()];
    }
    let frames = |file: &&'a FileAt| &file.1[..file.1.len().saturating_sub(2)];
    let mut sorted: Vec<&FileAt> = files.iter().collect();
    sorted.sort_by(|a, b| frames(a).cmp(frames(b)));
    sorted.chunk_by(|a, b| frames(a) == frames(b)).map(<[_]>::to_vec).collect()
}

/// The chunks of one group, by the frames that they hold.
#[derive(Debug, Default)]
pub(super) struct FoundLayers(HashMap<Box<[u64]>, FoundLayer>);

/// What was found of the chunks that hold the same frames.
#[derive(Debug)]
struct FoundLayer {
    chunks: u64,
    /// All of them are in shards that the writer closed.
    closed: bool,
    /// Which came, where slot headers tell.
    came: Option<Came>,
}

impl FoundLayer {
    /// Adds what was found of others of its chunks.
    fn join(&mut self, more: Self) {
        self.chunks = self.chunks.saturating_add(more.chunks);
        self.closed &= more.closed;
        // All headers of a layer say the same. Should they not, none of them is believed.
        self.came = self.came.take().filter(|known| Some(known) == more.came.as_ref());
    }
}

/// What slot headers say of the frames of a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Came {
    /// From the lowest to the highest number.
    numbers: RangeInclusive<u64>,
    /// How many; `None` if that is not said.
    count: Option<u64>,
}

impl Came {
    pub(super) fn of(header: &SlotHeader) -> Self {
        let count = Some(u64::from(header.origin.frames_came)).filter(|&count| count > 0);
        Self { numbers: header.origin.first_frame..=header.last_frame(), count }
    }
}

impl FoundLayers {
    /// A chunk at a place in the grid of chunks. `came`: what its header says.
    pub(super) fn add(&mut self, place: &[u64], closed: bool, came: Option<Came>) {
        let outer = &place[..place.len().saturating_sub(2)];
        match self.0.get_mut(outer) {
            None => drop(self.0.insert(outer.into(), FoundLayer { chunks: 1, closed, came })),
            Some(layer) => layer.join(FoundLayer { chunks: 1, closed, came }),
        }
    }
}

/// Layers of one shard that follow each other in its box, in C order of their places, in few numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LayerRun {
    /// The place of the first one.
    first: u64,
    count: u64,
    /// Of each.
    chunks: u64,
    /// What headers say of the first one: the lowest number, by how much the highest is higher, and how many came.
    came: Option<(u64, u64, Option<u64>)>,
    /// By how much the numbers of each are higher than those of the one before.
    step: u64,
}

impl LayerRun {
    /// Whether a layer that stands behind this run goes on with it, which it does then.
    fn takes(&mut self, at: u64, layer: &FoundLayer) -> bool {
        if self.first + self.count != at || self.chunks != layer.chunks {
            return false;
        }
        match (self.came, layer.came.as_ref().map(Came::numbers)) {
            (None, None) => {}
            (Some((low, span, count)), Some(next)) => {
                let Some(step) = next.0.checked_sub(low).filter(|_| (span, count) == (next.1, next.2)) else {
                    return false;
                };
                if self.count > 1 && self.step.checked_mul(self.count) != Some(step) {
                    return false;
                }
                self.step = step / self.count;
            }
            _ => return false,
        }
        self.count += 1;
        true
    }
}

impl Came {
    fn numbers(&self) -> (u64, u64, Option<u64>) {
        (*self.numbers.start(), self.numbers.end() - self.numbers.start(), self.count)
    }
}

impl FoundLayers {
    /// The layers of a shard as runs. `first`, `counts`: the box of its chunks, inside the array's shape or not.
    pub(super) fn runs(&self, first: &[u64], counts: &[u64]) -> Vec<LayerRun> {
        let counts = &counts[..counts.len().saturating_sub(2)];
        let place = |outer: &[u64]| {
            let inner: Vec<u64> = outer.iter().zip(first).map(|(at, first)| at - first).collect();
            linear(&inner, counts)
        };
        let mut layers: Vec<_> = self.0.iter().map(|(outer, layer)| (place(outer), layer)).collect();
        layers.sort_by_key(|(at, _)| *at);
        let mut runs: Vec<LayerRun> = Vec::new();
        for (at, layer) in layers {
            if !runs.last_mut().is_some_and(|run| run.takes(at, layer)) {
                let came = layer.came.as_ref().map(Came::numbers);
                runs.push(LayerRun { first: at, count: 1, chunks: layer.chunks, came, step: 0 });
            }
        }
        runs
    }

    /// Whether runs are of layers that a shard can have, and of no more than `most`.
    pub(super) fn can_have(runs: &[LayerRun], counts: &[u64], most: u64) -> bool {
        let all = counts[..counts.len().saturating_sub(2)].iter().fold(1, |all: u64, count| all.saturating_mul(*count));
        let is_inside = |run: &LayerRun| run.first.checked_add(run.count).is_some_and(|end| end <= all);
        let layers = runs.iter().fold(0, |sum: u64, run| sum.saturating_add(run.count));
        runs.iter().all(is_inside) && layers <= most
    }

    /// Adds those of a shard that [can have](Self::can_have) them.
    pub(super) fn add_runs(&mut self, runs: &[LayerRun], first: &[u64], counts: &[u64]) {
        let counts = &counts[..counts.len().saturating_sub(2)];
        for LayerRun { first: start, count, chunks, came, step } in runs {
            for number in 0..*count {
                let outer = position(start + number, counts);
                let outer: Box<[u64]> = outer.iter().zip(first).map(|(at, first)| first.saturating_add(*at)).collect();
                let came = came.map(|(low, span, count)| {
                    let low = low.saturating_add(step.saturating_mul(number));
                    Came { numbers: low..=low.saturating_add(span), count }
                });
                let layer = FoundLayer { chunks: *chunks, closed: false, came };
                match self.0.get_mut(&outer) {
                    None => drop(self.0.insert(outer, layer)),
                    Some(known) => known.join(layer),
                }
            }
        }
    }
}

/// How many ranges of frame numbers may still be looked at.
#[derive(Debug)]
pub(super) struct Budget(AtomicU64);

impl Budget {
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(RUNS_MAX))
    }

    fn take(&self, runs: u64) -> Result<(), String> {
        let left = self.0.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(runs));
        let reason = || format!("its chunks promise frames in more than {RUNS_MAX} ranges, as no writer's do");
        left.map(drop).map_err(|_| reason())
    }
}

/// The frames that were found.
#[derive(Debug, Default)]
pub(super) struct FoundFrames {
    /// Of which every chunk is there and no header says that they did not come.
    whole: Gather,
    /// Of which the chunks that are there are in shards that the writer closed, so that those that are not are dark.
    dark: Gather,
    /// Those among the whole ones whose numbers headers name.
    proven: Gather,
    /// Those that shards have room for that the writer closed.
    pub(super) closed: Gather,
    gaps: Vec<Gaps>,
}

/// Frames of a whole layer of which some did not come.
#[derive(Debug)]
struct Gaps {
    /// Those between the lowest and the highest that came.
    between: Ranges,
    /// How many of them did not.
    count: u64,
}

impl FoundFrames {
    pub(super) fn add_layers(
        &mut self,
        layers: FoundLayers,
        map: &AcquisitionMap,
        budget: &Budget,
    ) -> Result<(), String> {
        let tiles = map.tiles();
        let mut layers: Vec<_> = layers.0.into_iter().collect();
        layers.sort_by(|a, b| a.0.cmp(&b.0));
        for (place, FoundLayer { chunks, closed, came }) in layers {
            let is_whole = chunks == tiles;
            if !is_whole && !closed {
                continue;
            }
            budget.take(map.chunk_runs(&place))?;
            let mut between = Gather::default();
            map.chunk_frames(&place, |frames| {
                let (low, high) = match &came {
                    Some(Came { numbers, .. }) => {
                        (frames.start.max(*numbers.start()), frames.end.min(numbers.end().saturating_add(1)))
                    }
                    None => (frames.start, frames.end),
                };
                if low < high {
                    (if is_whole { &mut self.whole } else { &mut self.dark }).add_range(low..high);
                    between.add_range(low..high);
                }
            });
            if let Some(came) = came.filter(|_| is_whole) {
                self.add_proven(&came, between.ranges());
            }
        }
        Ok(())
    }

    /// The frames of a whole layer of which headers say how many came.
    fn add_proven(&mut self, came: &Came, between: Ranges) {
        let count = came.count.and_then(|count| between.count().checked_sub(count));
        if count == Some(0) {
            between.iter().for_each(|range| self.proven.add_range(range.clone()));
            return;
        }
        self.proven.add(*came.numbers.start());
        if came.numbers.start() != came.numbers.end() {
            self.proven.add(*came.numbers.end());
        }
        let count = count.filter(|_| between.count() <= GAPPY_FRAMES_MAX);
        self.gaps.extend(count.map(|count| Gaps { between, count }));
    }

    /// A shard that the writer closed, at a place in the grid.
    pub(super) fn add_closed(&mut self, map: &AcquisitionMap, shard: &[u64]) {
        // What can't be counted is not claimed: then a dark frame counts as missing.
        map.shard_frames(shard, RUNS_A_SHARD_MAX, |frames| self.closed.add_range(frames));
    }

    pub(super) fn add(mut self, other: Self) -> Self {
        self.whole.extend(&other.whole);
        self.dark.extend(&other.dark);
        self.proven.extend(&other.proven);
        self.closed.extend(&other.closed);
        self.gaps.extend(other.gaps);
        self
    }

    pub(super) fn ranges(self) -> FoundRanges {
        let Self { whole, dark, proven, closed, gaps } = self;
        let (whole, dark, proven, closed) = (whole.ranges(), dark.ranges(), proven.ranges(), closed.ranges());
        FoundRanges { whole, dark, proven, closed, gaps }
    }
}

/// As [`FoundFrames`], in order.
#[derive(Debug)]
pub(super) struct FoundRanges {
    pub(super) whole: Ranges,
    pub(super) dark: Ranges,
    pub(super) proven: Ranges,
    pub(super) closed: Ranges,
    gaps: Vec<Gaps>,
}

impl FoundRanges {
    /// The numbers that did not come, of layers that are whole, as far as those that are recorded tell which.
    pub(super) fn absent(&self, recorded: &Ranges) -> Ranges {
        let is_known = |number: &u64| recorded.contains(*number) || self.proven.contains(*number);
        let mut absent = Gather::default();
        for Gaps { between, count } in &self.gaps {
            let unknown = || between.iter().flat_map(Clone::clone).filter(|number| !is_known(number));
            if unknown().count() as u64 == *count {
                unknown().for_each(|number| absent.add(number));
            }
        }
        absent.ranges()
    }

    /// Of layers that are whole, the numbers among these that came, where headers say that as many did.
    pub(super) fn came_of(&self, possible: &Ranges) -> Ranges {
        let mut came = Gather::default();
        for Gaps { between, count } in &self.gaps {
            let there = || between.iter().flat_map(|range| possible.within(range.clone()));
            if there().map(|range| range.end - range.start).sum::<u64>() == between.count() - count {
                there().for_each(|range| came.add_range(range));
            }
        }
        came.ranges()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layers(entries: impl IntoIterator<Item = ([u64; 4], Option<Came>)>) -> FoundLayers {
        let mut layers = FoundLayers::default();
        entries.into_iter().for_each(|(place, came)| layers.add(&place, false, came));
        layers
    }

    fn known(layers: &FoundLayers) -> Vec<(Vec<u64>, u64, Option<Came>)> {
        let mut all: Vec<_> =
            layers.0.iter().map(|(at, layer)| (at.to_vec(), layer.chunks, layer.came.clone())).collect();
        all.sort_by(|one, other| one.0.cmp(&other.0));
        all
    }

    #[test]
    fn runs_are_the_layers_in_few_numbers() {
        let (first, counts) = ([200, 4, 0, 0], [500, 2, 2, 2]);
        let came = |low: u64| Came { numbers: low..=low + 3, count: Some(4) };
        let places = |most: u64| (0..most).map(|at| [200 + at / 8, 4 + at / 4 % 2, at / 2 % 2, at % 2]);
        let whole = layers(places(8 * 500).map(|at| (at, Some(came(4 * (2 * at[0] + at[1]))))));
        let runs = whole.runs(&first, &counts);
        assert_eq!(runs.len(), 1);
        assert!(serde_json::to_string(&runs).unwrap().len() < 100);
        let odd = places(100).map(|at| match at {
            // Two headers of a layer that say otherwise.
            [205, 4, 1, 1] => (at, Some(came(7))),
            [207, ..] => (at, None),
            _ => (at, Some(came(at[0] * (at[0] % 3)))),
        });
        let odd = layers(odd.filter(|(at, _)| !matches!(at, [203, 5, ..] | [210, 4, 0, 1])));
        for found in [whole, odd] {
            let runs = found.runs(&first, &counts);
            let mut again = FoundLayers::default();
            assert!(FoundLayers::can_have(&runs, &counts, 1000));
            again.add_runs(&runs, &first, &counts);
            assert_eq!(known(&again), known(&found));
            // What is found of other chunks of the same layers.
            let (mut one, mut other) = (FoundLayers::default(), layers([([200, 4, 9, 9], Some(came(1)))]));
            one.add_runs(&runs, &first, &counts);
            one.add(&[200, 4, 9, 9], false, Some(came(1)));
            other.add_runs(&runs, &first, &counts);
            assert_eq!(known(&one), known(&other));
        }
    }

    #[test]
    fn runs_that_no_shard_can_have_are_known() {
        let run = |first, count| LayerRun { first, count, chunks: 1, came: Some((u64::MAX, 1, None)), step: u64::MAX };
        let can_have = |runs: &[LayerRun]| FoundLayers::can_have(runs, &[4, 2, 9, 9], 8);
        assert!(can_have(&[run(0, 8)]) && can_have(&[run(7, 1), run(0, 1)]));
        for wrong in [&[run(0, 9)][..], &[run(8, 1)], &[run(1, u64::MAX)], &[run(0, 8), run(0, 8)]] {
            assert!(!can_have(wrong), "{wrong:?}");
        }
        FoundLayers::default().add_runs(&[run(0, 8)], &[u64::MAX; 4], &[4, 2, 9, 9]);
    }
}
