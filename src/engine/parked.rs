//! The shards of an image whose files are closed for a while, so that those of other images may be open.
//!
//! The sequencer gives a block up, the thread that closes makes it durable and closes its files, and the thread that
//! prepares opens them again when frames need it.

use std::collections::BTreeMap;
#[cfg(feature = "offline")]
use std::sync::Arc;
use std::sync::Mutex as StdMutex;
use std::sync::atomic::AtomicBool;

#[cfg(feature = "offline")]
use super::cell::ShardCell;
use super::cell::{ParkedBlock, ShardBlock};
#[cfg(feature = "offline")]
use crate::ring::View;
#[cfg(feature = "offline")]
use crate::shard::{ParkedChunks, ParkedShard};
use crate::sync::Unpoisoned;

/// What became of a block that was given up.
pub(super) enum ParkedState {
    /// It is on its way to the thread that closes.
    Leaving,
    Closed(ParkedBlock),
    /// Its files have to stay open.
    Open(ShardBlock),
}

/// Where the pixels of a frame can be read.
#[cfg(feature = "offline")]
pub(crate) enum Whereabouts {
    /// Nowhere: no frame with the number came.
    Nowhere,
    /// In the ring.
    Ring(View),
    /// In shards that are being filled.
    Open(Arc<ShardCell>),
    /// In shards that are closed for a while: the chunks of each.
    Parked(Vec<ParkedChunks>),
    /// In closed shards.
    Closed,
    /// Between two of these: it may be looked for again at once.
    OnItsWay,
}

/// By the blocks' numbers.
#[derive(Default)]
pub(crate) struct ParkedBlocks {
    blocks: StdMutex<BTreeMap<u64, ParkedState>>,
    /// One could not be opened again.
    pub(super) is_lost: AtomicBool,
}

impl ParkedBlocks {
    pub(super) fn put(&self, number: u64, state: ParkedState) {
        self.blocks.lock().unpoisoned().insert(number, state);
    }

    pub(super) fn has(&self, number: u64) -> bool {
        self.blocks.lock().unpoisoned().contains_key(&number)
    }

    #[cfg(feature = "offline")]
    pub(super) fn find(&self, block: u64, cell: u64) -> Option<Whereabouts> {
        Some(match self.blocks.lock().unpoisoned().get(&block)? {
            ParkedState::Leaving => Whereabouts::OnItsWay,
            ParkedState::Open(block) => Whereabouts::Open(block.cells.get(cell as usize)?.clone()),
            ParkedState::Closed(block) => {
                let shards = block.cells.get(cell as usize)?.shards();
                Whereabouts::Parked(shards.iter().map(ParkedShard::chunks).collect())
            }
        })
    }

    /// Takes the block, if its files had to stay open.
    pub(super) fn take_open(&self, number: u64) -> Option<ShardBlock> {
        self.take(number, |state| if let ParkedState::Open(block) = state { Ok(block) } else { Err(state) })
    }

    /// Takes the block, if its files are closed.
    pub(super) fn take_closed(&self, number: u64) -> Option<ParkedBlock> {
        self.take(number, |state| if let ParkedState::Closed(block) = state { Ok(block) } else { Err(state) })
    }

    /// Takes what `of` wants of the block's state; what it gives back stays.
    fn take<T>(&self, number: u64, of: impl FnOnce(ParkedState) -> Result<T, ParkedState>) -> Option<T> {
        let mut blocks = self.blocks.lock().unpoisoned();
        of(blocks.remove(&number)?).map_err(|state| blocks.insert(number, state)).ok()
    }

    /// Takes the block for a moment, in which nobody else can, if it does not leave just now.
    pub(super) fn borrow(&self, number: u64) -> Option<ParkedState> {
        let mut blocks = self.blocks.lock().unpoisoned();
        Some(std::mem::replace(blocks.get_mut(&number)?, ParkedState::Leaving))
    }

    /// Takes all of them, of which none may be leaving.
    pub(super) fn take_all(&self) -> Vec<ParkedState> {
        std::mem::take(&mut *self.blocks.lock().unpoisoned()).into_values().collect()
    }
}
