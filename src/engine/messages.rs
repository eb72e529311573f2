//! What the threads tell each other.

use std::sync::Arc;

use super::cell::ShardCell;
use crate::dataset::image::RecordBlock;
use crate::error::Contained;
use crate::ring::Frame;

/// A committed frame on its way to its layer. The order is that of the numbers.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Arrival {
    pub(crate) number: u64,
    pub(crate) frame: Frame,
    /// How many frames without a number had been dropped when its buffer was loaned: those that followed come after it.
    pub(crate) dropped_before: u64,
}

/// What a worker is told to do.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ticket {
    /// Take part in this layer.
    Layer(u32),
    /// Run the sequencer, if nobody has meanwhile.
    Sequence,
    /// Nothing more comes, but for what other workers still pass on.
    End,
}

/// Work for the thread that prepares.
#[derive(Debug)]
pub(crate) enum Preparing {
    /// The shards of this block will be needed.
    Block(u64),
    /// No more will be needed.
    End,
}

/// Work for the thread that closes.
#[derive(Debug)]
pub(crate) enum Closing {
    /// All layers of these shards are done.
    Cell(Arc<ShardCell>),
    /// These records are complete.
    Records(RecordBlock),
    /// Somebody watches the ring from now on.
    Look,
    /// Nothing more comes.
    End,
}

/// Hears the key of each closed shard.
pub(crate) type Listener = Arc<Contained<dyn Fn(&str) + Send + Sync>>;
