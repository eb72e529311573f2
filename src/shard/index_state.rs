//! What the index of an open shard names by now, and what became of the room in which older ones stood.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// Where older indexes can't be given back, a shard gets a new one for a single layer at the latest this many
/// checkpoints after the last: a camera may have paused.
const POSTPONED_MAX: u32 = 31;

/// Offset and length by chunk; `None`: nothing is there.
pub(super) type Committed = [Option<(u64, u64)>];

/// What the index names by now, and where it stands. Only the thread that closes shards uses it.
#[derive(Debug, Default)]
pub(super) struct OpenIndex {
    pub(super) chunks: u64,
    pub(super) layers: u64,
    /// How often it was told of provisional chunks by then.
    pub(super) provisional_serial: u64,
    /// Checkpoints since then that found too little to be worth a new index.
    pub(super) postponed: u32,
    pub(super) file_end: u64,
    /// What no index from the one with this number on needs, by its place and length: for readers that have an older
    /// one.
    pub(super) retired: VecDeque<(u64, Range<u64>)>,
    /// The storage can't take that back before the close.
    pub(super) keeps_retired: bool,
    /// How many indexes there were.
    pub(super) serial: u64,
    pub(super) provisional: Provisional,
    /// Which of two places the part behind the chunks has, where the head says it.
    pub(super) tail: usize,
    /// It was written over the one before, and the write has not succeeded: neither may be whole.
    pub(super) torn: bool,
}

impl OpenIndex {
    /// Of a new file of this many bytes.
    pub(super) fn new(file_end: u64) -> Self {
        Self { file_end, tail: 1, ..Self::default() }
    }

    /// The file's bytes in `range` are not needed by any newer index.
    pub(super) fn retire(&mut self, range: Range<u64>) {
        self.retired.push_back((self.serial, range));
    }

    /// Whether an index that names this many layers is worth its place.
    pub(super) fn is_due(&mut self, layers: u64, layers_a_growth: u64) -> bool {
        if !self.keeps_retired {
            return true;
        }
        let due = layers.saturating_sub(self.layers) >= layers_a_growth || self.postponed >= POSTPONED_MAX;
        self.postponed = if due { 0 } else { self.postponed + 1 };
        due
    }

    /// An index names `committed`: provisional chunks that it doesn't name are not needed any more, nor is their room.
    pub(super) fn settle_provisional(&mut self, committed: &Committed) {
        let Provisional { chunks, rooms, .. } = &mut self.provisional;
        chunks.retain(|&chunk, entry| committed[chunk] == Some(*entry));
        let is_unused = |room: &mut Range<u64>| !chunks.values().any(|(offset, _)| room.contains(offset));
        let unused: Vec<_> = rooms.extract_if(.., is_unused).collect();
        unused.into_iter().for_each(|room| self.retire(room));
    }
}

/// The provisional chunks of a shard.
#[derive(Debug, Default)]
pub(super) struct Provisional {
    /// Offset and length by the chunk's place in the shard.
    pub(super) chunks: BTreeMap<usize, (u64, u64)>,
    pub(super) rooms: Vec<Range<u64>>,
    /// How often there were new ones.
    pub(super) serial: u64,
}

impl Provisional {
    /// Puts them beside those that are committed.
    pub(super) fn put_beside(&self, committed: &mut Committed) {
        for (&chunk, &entry) in &self.chunks {
            committed[chunk].get_or_insert(entry);
        }
    }
}
