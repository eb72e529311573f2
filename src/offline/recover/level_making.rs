//! What of a level is to be made in a recovery.

use std::collections::{BTreeMap, BTreeSet};

use crate::format::acquisition_map::AcquisitionMap;
use crate::format::slot_header::HEADER_BYTES;
use crate::offline::halving::Halving;
use crate::offline::ranges::Ranges;

/// Outer places of chunks, by those of their shards.
pub(super) type Layers = BTreeMap<Vec<u64>, BTreeSet<Vec<u64>>>;

/// What a level is to get.
#[derive(Debug)]
pub(super) struct LevelMaking {
    /// The name of the array that it is made of.
    pub(super) finer: String,
    pub(super) halving: Halving,
    pub(super) map: AcquisitionMap,
    /// Frames that level 0 has, by their numbers here.
    pub(super) possible: Ranges,
    /// Those of them that the level lacks.
    pub(super) frames: Ranges,
    /// The chunks of these.
    pub(super) layers: Layers,
    pub(super) chunk_bytes: usize,
    /// One past all slots of a shard.
    pub(super) slots_end: u64,
}

impl LevelMaking {
    /// How many bytes it writes at most, if chunks don't become longer than their pixels.
    pub(super) fn bytes_needed(&self) -> u64 {
        let layers = self.layers.values().map(BTreeSet::len).sum::<usize>() as u64;
        layers.saturating_mul(self.map.tiles()).saturating_mul((self.chunk_bytes + HEADER_BYTES) as u64)
    }
}
