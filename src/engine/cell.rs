//! The shards that are open at the same time.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Acquire};
use std::sync::{Arc, Mutex as StdMutex};

use super::open_files::Permit;
use crate::error::{Error, Result};
use crate::shard::{ParkedFile, ParkedShard, ReopenedFile, Shard};
use crate::sync::Unpoisoned;

/// The shards that cover the same frames: one, or several side by side.
#[derive(Default)]
pub(crate) struct ShardCell {
    pub(crate) shards: Vec<Shard>,
    /// Where it stands among the cells of its unit.
    pub(crate) block: u64,
    pub(crate) cell: u64,
    /// The first one's place among all shards.
    pub(crate) first_number: u64,
    /// Layers that are yet to be encoded or given up.
    pub(crate) layers_left: crate::sync::atomic::AtomicU64,
    /// Which layers are done, by their place in a shard: a checkpoint names no half frames.
    pub(crate) layers_done: Box<[AtomicBool]>,
    /// Which layers the last checkpoint named. Only the thread that closes uses it.
    pub(crate) named: StdMutex<Box<[bool]>>,
    /// Which layers are, though a chunk of theirs could not be stored.
    pub(crate) layers_failed: StdMutex<Vec<usize>>,
    /// By their place, the layers of which provisional chunks were stored. Only the thread that closes uses it.
    pub(crate) provisional: StdMutex<BTreeMap<usize, ProvisionalLayer>>,
    /// Frames of which every chunk is in its slot.
    pub(crate) frames_written: AtomicU64,
    /// Those of them that indexes on the device name. Only the thread that closes changes it.
    pub(crate) frames_synced: AtomicU64,
    /// For its files.
    pub(super) permit: Option<Permit>,
}

/// The frames of a cell that are written, and which layers are done, those of these frames among them.
pub(super) type Progress = (u64, Vec<bool>);

/// Where a cell of shards stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ShardPlace {
    pub(super) block: u64,
    pub(super) cell: u64,
}

/// Cells of which the files are closed for a while.
pub(crate) struct ParkedBlock {
    pub(super) number: u64,
    pub(super) cells: Vec<ParkedCell>,
}

impl ParkedBlock {
    /// Opens the files again, all of them; after an error, none is open.
    pub(super) fn reopen(self, permit: Option<Permit>) -> std::result::Result<ShardBlock, (Error, Self)> {
        let opened = match self.cells.iter().map(ParkedCell::open).collect::<Result<Vec<_>>>() {
            Ok(opened) => opened,
            Err(error) => return Err((error, self)),
        };
        let (count, mut permit) = (self.cells.len(), permit);
        let with = |(at, (cell, files)): (usize, (ParkedCell, _))| {
            let permit = permit.as_mut().map(|permit| permit.split(count - at));
            Arc::new(cell.with(files, permit))
        };
        let cells = self.cells.into_iter().zip(opened).enumerate().map(with).collect();
        Ok(ShardBlock { number: self.number, cells })
    }

    pub(super) fn places(&self) -> impl Iterator<Item = (u64, u64)> {
        self.cells.iter().map(ParkedCell::at)
    }
}

/// One of them.
pub(crate) struct ParkedCell {
    /// All but its shards.
    cell: ShardCell,
    shards: Vec<ParkedShard>,
}

impl ParkedCell {
    pub(super) fn at(&self) -> (u64, u64) {
        (self.cell.block, self.cell.cell)
    }

    #[cfg(feature = "offline")]
    pub(super) fn shards(&self) -> &[ParkedShard] {
        &self.shards
    }

    pub(super) fn reopen(self, permit: Option<Permit>) -> Result<ShardCell> {
        let files = self.open()?;
        Ok(self.with(files, permit))
    }

    fn open(&self) -> Result<Vec<ReopenedFile>> {
        self.shards.iter().map(ParkedShard::open).collect()
    }

    fn with(self, files: Vec<ReopenedFile>, permit: Option<Permit>) -> ShardCell {
        let shards = self.shards.into_iter().zip(files).map(|(shard, file)| shard.with(file)).collect();
        ShardCell { shards, permit, ..self.cell }
    }
}

/// The frames of a layer that are in provisional chunks.
#[derive(Debug, Default)]
pub(crate) struct ProvisionalLayer {
    pub(super) numbers: Vec<u64>,
    /// Those that an index on the device names.
    named: Vec<u64>,
}

impl ShardCell {
    /// By what the files are known again when they are closed; `None` if one has to stay open. Nobody else may use
    /// them. `is_synced`: as of [`Shard::parked_file`].
    pub(super) fn parked_files(&self, is_synced: bool) -> Option<Vec<ParkedFile>> {
        self.shards.iter().map(|shard| shard.parked_file(is_synced)).collect()
    }

    /// Closes the files.
    pub(super) fn park(mut self, files: Vec<ParkedFile>) -> ParkedCell {
        let shards = std::mem::take(&mut self.shards);
        let shards = shards.into_iter().zip(files).map(|(shard, file)| shard.park(file)).collect();
        self.permit = None;
        ParkedCell { cell: self, shards }
    }

    /// Counts one layer as done; true for the last.
    ///
    /// AcqRel: each layer's entries are released here and acquired by the one that hands the cell to the closer.
    pub(crate) fn layer_done(&self) -> bool {
        self.layers_left.fetch_sub(1, std::sync::atomic::Ordering::AcqRel) == 1
    }

    /// Which layers are done: looked at once for all of its shards, so that a frame shows up in all of them.
    pub(super) fn layers_done(&self) -> Vec<bool> {
        // Acquire: with their chunks' entries.
        self.layers_done.iter().map(|done| done.load(Acquire)).collect()
    }

    pub(super) fn progress(&self) -> Progress {
        // Acquire: that these frames' layers are done is seen just below.
        let written = self.frames_written.load(Acquire);
        (written, self.layers_done())
    }

    /// Whether all chunks of a layer are in their slots, of which those that are `done` are known to be.
    fn is_in_place(&self, layer: usize, done: bool) -> bool {
        done && !self.layers_failed.lock().unpoisoned().contains(&layer)
    }

    /// A checkpoint named the layers that are `done`, and provisional chunks. Returns how many frames are in these.
    pub(super) fn name_provisional(&self, done: &[bool]) -> u64 {
        let mut layers = self.provisional.lock().unpoisoned();
        layers.retain(|&layer, _| !self.is_in_place(layer, done[layer]));
        layers.values_mut().for_each(|layer| layer.named.clone_from(&layer.numbers));
        layers.values().map(|layer| layer.numbers.len() as u64).sum()
    }

    /// The frames that only provisional chunks hold once the last index is written, or, if it can't be, that the one
    /// before names, whatever is in the slots.
    pub(super) fn kept_provisional(&self, is_closed: bool) -> Vec<u64> {
        let mut layers = self.provisional.lock().unpoisoned();
        if is_closed {
            layers.retain(|&layer, _| !self.is_in_place(layer, self.layers_done[layer].load(Acquire)));
        }
        layers.values().flat_map(|layer| if is_closed { &layer.numbers } else { &layer.named }).copied().collect()
    }
}

/// Cells that are open at the same time.
pub(crate) struct ShardBlock {
    pub(crate) number: u64,
    pub(crate) cells: Vec<Arc<ShardCell>>,
}

/// How many cells of shards exist, so that those waiting to be closed don't pile up.
pub(crate) struct LiveCells {
    count: StdMutex<u64>,
    max: u64,
}

impl LiveCells {
    pub(crate) fn new(max: u64) -> Self {
        Self { count: StdMutex::new(0), max }
    }

    /// Counts `cells` more, if that many may exist.
    pub(super) fn add(&self, cells: u64) -> bool {
        let mut count = self.count.lock().unpoisoned();
        let is_allowed = *count == 0 || *count + cells <= self.max;
        *count += if is_allowed { cells } else { 0 };
        is_allowed
    }

    pub(super) fn remove(&self, cells: u64) {
        let mut count = self.count.lock().unpoisoned();
        *count = count.saturating_sub(cells);
    }
}

#[derive(Default)]
pub(crate) struct OpenCells(StdMutex<Vec<Arc<ShardCell>>>);

impl OpenCells {
    pub(super) fn add(&self, cells: &[Arc<ShardCell>]) {
        self.0.lock().unpoisoned().extend_from_slice(cells);
    }

    pub(super) fn remove(&self, cell: &Arc<ShardCell>) {
        self.0.lock().unpoisoned().retain(|open| !Arc::ptr_eq(open, cell));
    }

    pub(super) fn all(&self) -> Vec<Arc<ShardCell>> {
        self.0.lock().unpoisoned().clone()
    }
}

#[cfg(all(test, loom))]
mod loom {
    use super::*;
    use crate::shard::Entry;
    use ::loom::thread;

    #[test]
    fn whoever_does_the_last_layer_sees_all_entries() {
        ::loom::model(|| {
            let cell = ShardCell { layers_left: crate::sync::atomic::AtomicU64::new(2), ..ShardCell::default() };
            let shared = Arc::new((cell, [Entry::new(), Entry::new()]));
            let layer = |which: usize| {
                let shared = shared.clone();
                move || {
                    assert!(shared.1[which].claim());
                    shared.1[which].commit(64 * which as u64, 9);
                    let last = shared.0.layer_done();
                    if last {
                        assert_eq!([shared.1[0].committed(), shared.1[1].committed()], [Some((0, 9)), Some((64, 9))]);
                    }
                    last
                }
            };
            let (one, two) = (thread::spawn(layer(0)), thread::spawn(layer(1)));
            assert!(one.join().unwrap() != two.join().unwrap());
        });
    }
}
