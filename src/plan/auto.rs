//! What automatic sizes aim at.

use crate::config::Dim;

pub(super) const AUTO_SHARD_BYTES: u64 = 512 << 20;
// Readers load a shard's index as a whole, 16 bytes a chunk: an index of millions of tiny chunks would outweigh them.
pub(super) const AUTO_SHARD_CHUNKS: u64 = 1 << 16;

/// The size of a dimension; an unbounded one counts as `u64::MAX`.
pub(super) fn length_of(dims: &[Dim], dim: usize) -> u64 {
    dims[dim].size.unwrap_or(u64::MAX)
}
