//! The table that makes a shard readable: for each chunk its offset and length, in C order, then a checksum.
//!
//! ```text
//! | chunk 0         | chunk 1         | …  | crc32c of all before |
//! | offset | nbytes | offset | nbytes | …  |                      |
//! | u64 LE | u64 LE | u64 LE | u64 LE | …  | u32 LE               |
//! ```
//!
//! Sources: Zarr v3, sharding codec 1.0, and the sharding storage transformer 1.0 before it, which has no checksum,
//! "Binary shard format". A chunk that is not there has 2^64 − 1 twice.

/// A chunk that is not there, as both its offset and its length.
pub(crate) const MISSING: u64 = u64::MAX;

/// The bytes of an index, with its checksum behind it if it has one.
pub(crate) fn encode(entries: impl Iterator<Item = (u64, u64)>, checksum: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (offset, nbytes) in entries {
        bytes.extend_from_slice(&offset.to_le_bytes());
        bytes.extend_from_slice(&nbytes.to_le_bytes());
    }
    if checksum {
        let crc = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_of_four_chunks_has_68_bytes() {
        let bytes = encode([(0, 10), (MISSING, MISSING), (64, 7), (128, 1)].into_iter(), true);
        assert_eq!(bytes.len(), 68);
        assert_eq!(bytes[16..32], [0xff; 16]);
        assert_eq!(bytes[32..48], [64, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[64..], crc32c::crc32c(&bytes[..64]).to_le_bytes());
    }
}
