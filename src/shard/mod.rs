//! One shard file under construction: slots, index, close.
//!
//! ```text
//! index at end, fixed placement, while it is being filled:
//! | header, chunk 0, slack | header, chunk 1, slack | … | room for an index | index: all missing |
//! and closed (slack after each chunk is a hole):
//! | header, chunk 0, hole  | header, chunk 1, hole  | … chunk n | index |
//! ```
//!
//! With the index at the start, slots begin at the next whole page after it. Packed chunks follow each other, each with
//! its header, at multiples of 8 bytes.

mod checkpoint;
mod checksum;
mod claim;
mod close;
mod file;
mod index_state;
mod parked;
mod provisional;
mod slot;
mod write_batch;

pub(crate) use checkpoint::Checkpoint;
pub(crate) use claim::{Claim, DetachedClaim, PIECES_MAX, StagedSlot};
pub(crate) use close::Closed;
pub(crate) use file::{Shard, ShardPosition, WaitsFor};
#[cfg(feature = "offline")]
pub(crate) use parked::ParkedChunks;
pub(crate) use parked::{ParkedFile, ParkedShard, ReopenedFile};
pub(crate) use provisional::ProvisionalRoom;
#[cfg(any(feature = "capi", loom))]
pub(crate) use slot::Entry;
pub(crate) use write_batch::{BATCH_MAX, BatchEntry};
