//! One image: what is to be done with its shards, its records and its frames.
//!
//! Of a shard stays what is to become of it, if anything; its chunks are looked up again when it is changed. So a
//! recovery takes no more memory for an archive than for a few shards.

use std::cmp::Reverse;
use std::path::Path;
use std::sync::Mutex;

use rayon::prelude::*;

use super::count;
use super::level_making::LevelMaking;
use super::records::{FrameNumbers, KnownFrames};
use super::report::{ImageRecovered, ShardAction, ShardRecovered};
use super::room::{BLOCK_BYTES, blocks};
use super::shard::{self, Action, DamagedShard, RecoveredSums, ShardRecovery};
use super::source::{WrittenImage, name};
use super::target::RecoveryTarget;
use crate::error::{Error, Result};
use crate::fs::look;
use crate::offline::hierarchy::walk::{FileAt, Tree};
use crate::offline::layers::{Budget, Came, FoundFrames, FoundLayers, groups};
use crate::offline::progress::ProgressCounters;
use crate::offline::ranges::Ranges;
use crate::sync::Unpoisoned;

pub(super) fn file_bytes((path, _): &FileAt) -> u64 {
    look::file_bytes(path).unwrap_or(0)
}

/// Why a shard is removed to which chunks had been committed.
const LOST: &str = "ends before its first chunk does; its chunks are lost";

pub(super) struct ImagePlan<'a> {
    pub(super) image: WrittenImage<'a>,
    /// Shards that change or could not be dealt with, in the order of their paths.
    pub(super) changed: Vec<DamagedShard>,
    pub(super) frames: KnownFrames,
    pub(super) sums: RecoveredSums,
    /// Of a level, the frames that level 0 has and it lacks, and how they are made, if they are.
    pub(super) lacking: Ranges,
    pub(super) making: Option<LevelMaking>,
    /// What to do about those that aren't.
    pub(super) behind: Option<String>,
    /// What no slot header brings back.
    lost: Option<String>,
    records: Option<FrameNumbers<'a>>,
    /// Blocks of frame numbers that are to be written.
    record_blocks: Vec<u64>,
}

/// What some shards came to.
struct RecoveredPart {
    sums: RecoveredSums,
    changed: Vec<DamagedShard>,
    found: FoundFrames,
}

impl<'a> ImagePlan<'a> {
    pub(super) fn new(
        root: &Path,
        tree: &'a Tree,
        image: WrittenImage<'a>,
        counters: &ProgressCounters,
    ) -> Result<Self> {
        let groups = groups(&image.node.files, &image.map);
        let budget = Budget::new();
        let parts = groups.par_iter().map(|group| part(root, &image, group, &budget, counters));
        let RecoveredPart { sums, mut changed, mut found } =
            parts.try_reduce(RecoveredPart::nothing, |one, other| Ok(one.add(other)))?;
        drop(groups);
        if let Some(frames) = image.map.frames().filter(|_| sums.closed && !image.map.has_boxes()) {
            found.closed.add_range(0..frames);
        }
        refuse_all_left(&image, &sums, &changed)?;
        let array = &image.node.array;
        // Where an index can't be read, that is to be mended first.
        let lost = array.lost_of(sums.chunks).and_then(|_| array.lost().ok().flatten());
        let gone = lost.as_ref().and_then(|lost| lost.frames(&image.map)).unwrap_or_default();
        let records = FrameNumbers::of(tree, &image)?;
        let frames = count::count(records.as_ref(), &image, found.ranges(), &sums, &gone)?;
        changed.sort_by(|a, b| a.path.cmp(&b.path));
        let lost = lost.map(|lost| lost.to_string());
        let (lacking, making, behind, record_blocks) = Default::default();
        let mut plan = Self { image, changed, frames, sums, lacking, making, behind, lost, records, record_blocks };
        // As recovery finds a dataset, it may have no records at all: then there is nothing to mend.
        if let Some(records) = plan.records.as_ref().filter(|_| plan.is_incomplete()) {
            plan.record_blocks = records.wrong_blocks(&plan.frames)?;
        }
        plan.complete();
        Ok(plan)
    }

    /// Whether the documents have to say that the run did not end well.
    pub(super) fn is_incomplete(&self) -> bool {
        let is_change = |action: &Action| matches!(action, Action::NewIndex | Action::Empty) || action.is_removal();
        !self.image.own.complete || self.changed.iter().any(|shard| is_change(&shard.action))
    }

    /// Makes an array whole whose readers want every shard to be there: adds some, and keeps those that would go.
    fn complete(&mut self) {
        let (array, shape) = (&self.image.node.array, self.shape());
        // A dataset that was complete has lost what it lacks, and empty shards would hide that.
        let lacking = match self.is_incomplete() {
            true => shard::empty_shards(array, &shape, &self.image.node.files),
            false => Vec::new(),
        };
        for shard in self.changed.iter_mut().filter(|shard| shard.action.is_removal()) {
            if shard::is_wanted(array, &shape, &shard.position) {
                shard.action = Action::Empty;
            }
        }
        self.changed.extend(lacking.into_iter().map(|position| {
            let (path, action) = (array.file_path(&position), Action::Create);
            DamagedShard { path, position, action, ..DamagedShard::default() }
        }));
    }

    /// The frames that the level lacked are made, or would be, which are this many chunks more.
    pub(super) fn note_made(&mut self, chunks: u64) {
        let Some(making) = &self.making else { return };
        self.frames.missing = self.frames.missing.minus(&making.frames);
        self.frames.missing_count = self.frames.missing_count.saturating_sub(making.frames.count());
        self.sums.chunks += chunks;
    }

    pub(super) fn shape(&self) -> Vec<u64> {
        let array = &self.image.node.array;
        let mut shape = array.shape().to_vec();
        let declared = self.image.extent.unwrap_or(shape[0]);
        if let Some(extent) = self.image.map.recovered_extent(self.frames.end, declared, self.sums.deepest) {
            shape[0] = extent;
        }
        shape
    }

    pub(super) fn write_records(&self, root: &Path, target: &RecoveryTarget) -> Result<()> {
        let Some(records) = &self.records else { return Ok(()) };
        self.record_blocks.iter().try_for_each(|block| records.mend(*block, &self.frames, root, target))
    }

    /// How many bytes the changes of its files take at most.
    pub(super) fn bytes_needed(&self) -> u64 {
        let table = self.image.node.array.layout().table();
        let index = |chunks: u64| table.as_ref().map_or(24 * chunks, |table| table.bytes());
        let is_written = |action: &Action| matches!(action, Action::NewIndex | Action::Empty | Action::Create);
        let indexes = self.changed.iter().filter(|shard| is_written(&shard.action));
        let indexes = indexes.map(|shard| blocks(index(shard.chunks)) + BLOCK_BYTES).sum::<u64>();
        let of_level = self.making.as_ref().map_or(0, |making| making.bytes_needed());
        let block = self.records.as_ref().map_or(0, |records| blocks(records.block_bytes()));
        (indexes + (block + BLOCK_BYTES) * self.record_blocks.len() as u64).saturating_add(of_level)
    }

    /// Gives back to the disk what is in no chunk, nor in any index: a writer has reserved its shards as a whole. Best
    /// effort.
    pub(super) fn make_room(&self, root: &Path, target: &RecoveryTarget) {
        let is_open = |action: &Action| matches!(action, Action::NewIndex | Action::Remove);
        // Of one that is damaged, somebody may make something of any byte.
        let open = self.changed.par_iter().filter(|shard| is_open(&shard.action) && !shard.damaged);
        open.for_each(|shard| {
            if let Ok(plan) = shard::plan(root, &self.image, &shard.path, &shard.position) {
                let _ = target.give_back(&shard.path, &plan.unused);
            }
        });
    }

    /// Makes the change of a shard. All that it needs stays there, so that it can be stopped anywhere and planned
    /// again.
    pub(super) fn apply(&self, root: &Path, target: &RecoveryTarget, shard: &DamagedShard) -> Result<()> {
        let path = &shard.path;
        let empty = || {
            let reason = "has no index, and its readers want one";
            shard::empty(&self.image.node.array).ok_or_else(|| Error::format(path, reason))
        };
        match &shard.action {
            Action::Nothing | Action::Leave(_) => Ok(()),
            Action::Remove | Action::RemoveLost => target.remove(path),
            Action::Empty => target.write_index(path, &empty()?),
            Action::Create => target.create(path, &empty()?),
            Action::NewIndex => match shard::plan(root, &self.image, path, &shard.position)?.index {
                Some(index) => target.write_index(path, &index),
                None => Err(Error::conflict(path, "changed while it was recovered: another program writes to it")),
            },
        }
    }

    /// The files of records that are written, below the root.
    pub(super) fn record_files(&self, root: &Path) -> Vec<String> {
        let file = |block: &u64| Some(name(root, &self.records.as_ref()?.path(*block)));
        let mut files: Vec<String> = self.record_blocks.iter().filter_map(file).collect();
        files.dedup();
        files
    }

    pub(super) fn report(&self, root: &Path) -> ImageRecovered {
        let shards = self.changed.iter().filter_map(|shard| {
            let (action, reason) = match &shard.action {
                Action::Nothing => return None,
                Action::NewIndex | Action::Empty | Action::Create => (ShardAction::NewIndex, None),
                Action::Remove => (ShardAction::Remove, None),
                Action::RemoveLost => (ShardAction::Remove, Some(LOST.to_owned())),
                Action::Leave(reason) => (ShardAction::Leave, Some(reason.clone())),
            };
            let (chunks, chunks_before) = (shard.chunks, shard.chunks_before);
            Some(ShardRecovered { path: name(root, &shard.path), action, chunks_before, chunks, reason })
        });
        ImageRecovered {
            path: self.image.node.name.clone(),
            shape_before: self.image.node.array.shape().to_vec(),
            shape: self.shape(),
            frames: self.frames.end,
            frames_missing: self.frames.missing_count,
            missing: self.frames.told(),
            frames_made: self.making.as_ref().map_or(0, |making| making.frames.count()),
            behind: self.behind.clone(),
            chunks: self.sums.chunks,
            chunks_salvaged: self.sums.salvaged,
            chunks_dropped: self.sums.dropped,
            chunks_ahead: self.sums.ahead,
            chunks_torn: self.sums.torn,
            lost: self.lost.clone(),
            shards: shards.collect(),
        }
    }
}

/// Refuses an image whose shards are all left alone: its documents would call all frames lost that are there.
fn refuse_all_left(image: &WrittenImage, sums: &RecoveredSums, changed: &[DamagedShard]) -> Result<()> {
    let names_chunks = |shard: &&DamagedShard| shard.chunks_before.is_some_and(|chunks| chunks > 0);
    let left = changed.iter().filter(names_chunks).find_map(|shard| match &shard.action {
        Action::Leave(reason) => Some((shard, reason)),
        _ => None,
    });
    // What a run that came to its end says stays as it is.
    match left.filter(|_| sums.chunks == 0 && !image.own.complete) {
        Some((shard, reason)) => Err(image.unlike(&shard.path, reason)),
        None => Ok(()),
    }
}

/// Looks through the shards that hold the same frames.
fn part(
    root: &Path,
    image: &WrittenImage,
    group: &[&FileAt],
    budget: &Budget,
    counters: &ProgressCounters,
) -> Result<RecoveredPart> {
    let layers = Mutex::new(FoundLayers::default());
    let look = |file: &&FileAt| {
        counters.go_on()?;
        let (path, position) = *file;
        let plan = shard::plan(root, image, path, position)?;
        counters.add(file_bytes(file));
        let mut layers = layers.lock().unpoisoned();
        for seen in &plan.chunks {
            let place = image.map.chunk_position(position, seen.header.origin.chunk.into());
            let place = place.ok_or_else(|| Error::format(path, "holds a chunk outside the array"))?;
            layers.add(&place, plan.sums.closed, Some(Came::of(&seen.header)));
        }
        drop(layers);
        let mut found = FoundFrames::default();
        if plan.sums.closed && image.map.has_boxes() {
            found.add_closed(&image.map, position);
        }
        Ok(RecoveredPart::of(plan, found))
    };
    let mut part = group.par_iter().map(look).try_reduce(RecoveredPart::nothing, |one, other| Ok(one.add(other)))?;
    let layers = layers.into_inner().unpoisoned();
    let counted = part.found.add_layers(layers, &image.map, budget);
    counted.map_err(|reason| Error::format(image.node.array.path(), reason))?;
    Ok(part)
}

impl RecoveredPart {
    fn nothing() -> Self {
        let sums = RecoveredSums { closed: true, ..RecoveredSums::default() };
        Self { sums, changed: Vec::new(), found: FoundFrames::default() }
    }

    fn of(plan: ShardRecovery, found: FoundFrames) -> Self {
        let tell = plan.shard.damaged || plan.shard.action != Action::Nothing;
        Self { sums: plan.sums, changed: if tell { vec![plan.shard] } else { Vec::new() }, found }
    }

    fn add(mut self, mut other: Self) -> Self {
        self.sums = self.sums.add(&other.sums);
        self.changed.append(&mut other.changed);
        self.found = self.found.add(other.found);
        self
    }
}

impl RecoveredSums {
    fn add(self, other: &Self) -> Self {
        let deepest = [self.deepest, other.deepest].into_iter().flatten();
        Self {
            chunks: self.chunks + other.chunks,
            salvaged: self.salvaged + other.salvaged,
            dropped: self.dropped + other.dropped,
            ahead: self.ahead + other.ahead,
            torn: self.torn + other.torn,
            frames_end: self.frames_end.max(other.frames_end),
            deepest: deepest.max_by_key(|&(layer, planes)| (layer, Reverse(planes))),
            closed: self.closed && other.closed,
        }
    }
}
