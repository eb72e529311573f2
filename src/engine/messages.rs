//! What the threads tell each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::AcqRel, Ordering::Acquire};

use super::cell::{ParkedCell, ShardBlock, ShardCell};
use super::closings::Closings;
use crate::dataset::records::RecordBlock;
use crate::error::Contained;
use crate::ring::Frame;
use crate::sync::{Lane, Lanes};

/// A committed frame on its way to its layer. The order is that of the numbers.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Arrival {
    pub(crate) number: u64,
    /// `None`: of a level, that the level below lacks this frame.
    pub(crate) frame: Option<Frame>,
    /// How many frames without a number had been dropped when its buffer was loaned: those that followed come after it.
    pub(crate) dropped_before: u64,
}

/// What a worker is told to do for an image.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ticket {
    /// Take part in this layer.
    Layer(u32),
    /// Run the sequencer, if nobody has meanwhile.
    Sequence,
}

/// Work for the thread that prepares: the shards of this block will be needed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PrepareBlock(pub(crate) u64);

/// Work for the thread that closes.
pub(crate) enum Closing {
    /// All layers of these shards are done.
    Cell(Arc<ShardCell>),
    /// Nobody uses these shards for a while: their files shall be closed.
    Park(ShardBlock),
    /// So it was with these, and nothing more will come.
    Parked(ParkedCell),
    /// These records are complete.
    Records(RecordBlock),
    /// Something is to be looked after from now on: somebody watches the ring, or an image has begun.
    Look,
}

/// What the thread that closes gets, and from which image; `None`: nothing more comes.
pub(crate) type ClosingOf = Option<(u32, Closing)>;

/// A layer whose chunks are in their slots, or lost: of which image, and when it was given to the workers there.
/// `None`: no more come.
pub(crate) type StoredOf = Option<(u32, u64, u32)>;

/// Hears the key of each closed shard.
pub(crate) type Listener = Arc<Contained<dyn Fn(&str) + Send + Sync>>;

/// An image's way to the thread that prepares.
pub(crate) struct Requests {
    /// Whoever takes one there [settles](Self::settle) it when it is done with it.
    pub(super) lane: Lane<PrepareBlock>,
    unsettled: AtomicUsize,
}

impl Requests {
    pub(crate) fn new(lanes: &Arc<Lanes<PrepareBlock>>, image: u32, capacity: usize) -> Self {
        Self { lane: Lane::new(lanes, image, capacity), unsettled: AtomicUsize::new(0) }
    }

    pub(crate) fn push_quietly(&self, request: PrepareBlock) {
        self.unsettled.fetch_add(1, AcqRel);
        self.lane.push_quietly(request);
    }

    pub(crate) fn settle(&self) {
        self.unsettled.fetch_sub(1, AcqRel);
    }

    pub(crate) fn are_settled(&self) -> bool {
        self.unsettled.load(Acquire) == 0
    }
}

/// An image's way to the thread that closes.
pub(crate) struct ClosingPort {
    pub(super) image: u32,
    all: Arc<Closings<ClosingOf>>,
    unsettled: AtomicUsize,
}

impl ClosingPort {
    pub(crate) fn new(all: &Arc<Closings<ClosingOf>>, image: u32) -> Self {
        Self { image, all: all.clone(), unsettled: AtomicUsize::new(0) }
    }

    pub(crate) fn put(&self, closing: Closing) {
        self.unsettled.fetch_add(1, AcqRel);
        self.all.put(Some((self.image, closing)));
    }

    /// The thread that closes is done with a thing. AcqRel: whoever sees that all are settled sees what it did.
    pub(crate) fn settle(&self) {
        self.unsettled.fetch_sub(1, AcqRel);
    }

    pub(crate) fn are_settled(&self) -> bool {
        self.unsettled.load(Acquire) == 0
    }
}
