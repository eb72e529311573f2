//! What a repacking is to do, and what it tells.

use serde::Serialize;

use super::order::ChunkOrder;
use crate::config::{Codec, Dialect, IndexLocation, Volume};

/// What [`Repack`](super::Repack) is to do, and with which means.
#[derive(Debug, Clone, PartialEq)]
pub struct RepackOptions {
    /// The on-disk format of the result. In place only where it is the one that the dataset has.
    pub dialect: Dialect,
    /// The order of chunks in their shard.
    pub order: ChunkOrder,
    /// How chunks are encoded from now on. `None`: as they are, but without a checksum where the dialect has none;
    /// their bytes are copied where their shape stays, too.
    pub codec: Option<Codec>,
    /// Chunk length in elements, of all dimensions or only the last ones; 0, or none, keeps what is.
    pub chunk: Vec<u64>,
    /// Shard length in elements, in the same way. With it, arrays whose chunks are files get shards. Of dialects other
    /// than [`Dialect::Zarr3`], shards are chosen where there are none to keep, as are those of a precomputed volume.
    pub shard: Vec<u64>,
    /// Where a shard's index stands. `None`: as it is.
    pub index_location: Option<IndexLocation>,
    /// Whether a shard's index ends with its CRC-32C, which only [`Dialect::Zarr3`] has. `None`: as it is.
    pub index_checksum: Option<bool>,
    /// For a precomputed volume. What is not said stays what it is where a volume becomes another.
    pub volume: Volume,
    /// Bytes for chunks on their way, all threads together.
    pub memory_bytes: u64,
    /// Threads that read, encode and compare. 0: one for each core that the process may use.
    pub workers: usize,
    /// Wait until new files have reached the device before old ones go.
    pub sync: bool,
    /// Let the new dataset share the blocks of shards that are as they should be, where the file system can (XFS,
    /// Btrfs).
    pub reflink: bool,
    /// Take also a dataset in place whose writer didn't finish: chunks that only a recovery would find are lost then.
    pub incomplete: bool,
}

impl Default for RepackOptions {
    fn default() -> Self {
        Self {
            dialect: Dialect::Zarr3,
            order: ChunkOrder::C,
            codec: None,
            chunk: Vec::new(),
            shard: Vec::new(),
            index_location: None,
            index_checksum: None,
            volume: Volume::default(),
            memory_bytes: 512 << 20,
            workers: 0,
            sync: true,
            reflink: true,
            incomplete: false,
        }
    }
}

/// What a repacking did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RepackSummary {
    /// Shards made.
    pub shards_written: u64,
    /// Shards that were as they should be, or were made by an earlier call.
    pub shards_found: u64,
    /// Chunks written.
    pub chunks: u64,
    /// Bytes of these chunks, as they are stored.
    pub bytes: u64,
    /// Pixels of all shards, in bytes.
    pub bytes_pixels: u64,
}
