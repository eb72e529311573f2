//! The index of a shard of Neuroglancer's precomputed format: at the file's start, for each minishard, where its own
//! index stands, and that index behind the chunks.
//!
//! ```text
//! | minishard 0  | minishard 1  | …  | chunks, gaps | index of a minishard | index of another | …
//! | start | end  | start | end  | …  |              | ids… | offsets… | sizes…                |
//! | u64LE | u64LE                     counted from the end of this head
//! ```
//!
//! Ids are each minus the one before, offsets each minus the end of the chunk before, all modulo 2^64 (Neuroglancer,
//! "Precomputed sharded format", "Shard index format" and "Minishard index format"). A minishard without chunks starts
//! and ends at the same place.

use crate::codec::Encoder;
use crate::config::{Codec, Compressor};
use crate::error::{Error, Result};
use crate::format::precomputed::ids::ShardSpec;

/// Bytes that one chunk takes in its minishard's index before compression.
pub(crate) const ENTRY_BYTES: u64 = 24;

/// What a gzip stream may add to what it holds.
const GZIP_BYTES_MAX: u64 = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) id: u64,
    pub(crate) offset: u64,
    pub(crate) nbytes: u64,
}

/// The most bytes that the indexes of all minishards of a shard take.
pub(crate) fn tail_bytes_max(spec: &ShardSpec, chunks: u64) -> u64 {
    // What can't be compressed is stored, in blocks of at most 64 KiB with 5 bytes before each.
    let raw = ENTRY_BYTES * chunks;
    if spec.gzip_indexes { raw + raw / 4096 + (GZIP_BYTES_MAX << spec.minishard_bits) } else { raw }
}

/// The head of a shard, and the indexes of its minishards, which stand at `tail_at`.
pub(crate) fn encode(spec: &ShardSpec, mut entries: Vec<Entry>, tail_at: u64) -> Result<(Vec<u8>, Vec<u8>)> {
    let base = spec.head_bytes();
    entries.sort_unstable_by_key(|entry| (spec.place(entry.id).1, entry.id));
    let mut head = vec![0; base as usize];
    let mut tail = Vec::new();
    for of_minishard in entries.chunk_by(|a, b| spec.place(a.id).1 == spec.place(b.id).1) {
        let start = tail_at + tail.len() as u64 - base;
        append(spec, of_minishard, base, &mut tail)?;
        let end = tail_at + tail.len() as u64 - base;
        let place = &mut head[16 * spec.place(of_minishard[0].id).1 as usize..][..16];
        place[..8].copy_from_slice(&start.to_le_bytes());
        place[8..].copy_from_slice(&end.to_le_bytes());
    }
    Ok((head, tail))
}

fn append(spec: &ShardSpec, entries: &[Entry], base: u64, tail: &mut Vec<u8>) -> Result<()> {
    let (mut id, mut reached) = (0, base);
    let mut columns = [Vec::new(), Vec::new(), Vec::new()];
    for entry in entries {
        columns[0].extend(entry.id.wrapping_sub(id).to_le_bytes());
        columns[1].extend(entry.offset.wrapping_sub(reached).to_le_bytes());
        columns[2].extend(entry.nbytes.to_le_bytes());
        (id, reached) = (entry.id, entry.offset.wrapping_add(entry.nbytes));
    }
    let raw = columns.concat();
    if !spec.gzip_indexes {
        tail.extend(raw);
        return Ok(());
    }
    let codec = Codec { compressor: Compressor::Gzip { level: 6 }, checksum: false };
    let mut encoder = Encoder::new(&codec, 8, raw.len())?;
    let from = tail.len();
    tail.resize(from + encoder.bound(), 0);
    let length = encoder.encode(&raw, &mut tail[from..])?;
    tail.truncate(from + length);
    Ok(())
}

/// The entries of one minishard, from its index after decompression. Offsets count from the file's start.
///
/// # Errors
///
/// [`Error::Codec`] when the bytes are not whole entries.
pub(crate) fn decode(spec: &ShardSpec, raw: &[u8]) -> Result<Vec<Entry>> {
    if !(raw.len() as u64).is_multiple_of(ENTRY_BYTES) {
        let reason = format!("{} bytes are not a multiple of {ENTRY_BYTES}", raw.len());
        return Err(Error::codec("minishard index", reason));
    }
    let count = raw.len() / ENTRY_BYTES as usize;
    let words: Vec<u64> = raw.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let (mut id, mut reached) = (0u64, spec.head_bytes());
    let entries = (0..count).map(|at| {
        id = id.wrapping_add(words[at]);
        let offset = reached.wrapping_add(words[count + at]);
        let nbytes = words[2 * count + at];
        reached = offset.wrapping_add(nbytes);
        Entry { id, offset, nbytes }
    });
    Ok(entries.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::VolumeHash;

    const SPEC: ShardSpec = ShardSpec {
        hash: VolumeHash::Identity,
        preshift_bits: 1,
        minishard_bits: 2,
        shard_bits: 0,
        gzip_indexes: false,
    };

    fn word(bytes: &[u8], at: usize) -> u64 {
        u64::from_le_bytes(bytes[8 * at..8 * at + 8].try_into().unwrap())
    }

    #[test]
    fn an_index_is_delta_coded_minishard_by_minishard() {
        // Ids 2 and 3 fall into minishard 1, id 6 into 3; the chunks stand in any order.
        let entries = vec![
            Entry { id: 6, offset: 64, nbytes: 10 },
            Entry { id: 3, offset: 100, nbytes: 20 },
            Entry { id: 2, offset: 500, nbytes: 30 },
        ];
        let (head, tail) = encode(&SPEC, entries, 1000).unwrap();
        assert_eq!((head.len(), tail.len()), (64, 72));
        let head: Vec<_> = (0..8).map(|at| word(&head, at)).collect();
        assert_eq!(head, [0, 0, 1000 - 64, 1048 - 64, 0, 0, 1048 - 64, 1072 - 64]);
        let tail: Vec<_> = (0..9).map(|at| word(&tail, at)).collect();
        assert_eq!(tail, [2, 1, 500 - 64, 100u64.wrapping_sub(530), 30, 20, 6, 0, 10]);
    }

    #[test]
    fn what_is_encoded_is_decoded_and_fits_what_was_reserved() {
        // Miri can't run the gzip library.
        for gzip_indexes in [false, true].into_iter().filter(|gzip| !(*gzip && cfg!(miri))) {
            let spec = ShardSpec { gzip_indexes, minishard_bits: 0, preshift_bits: 0, ..SPEC };
            let entry = |id: u64| Entry { id, offset: 16 + id * 7919 % 1001 * 64, nbytes: id * 31 % 97 };
            let entries: Vec<_> = (0..200).map(|id| entry(3 * id)).collect();
            let (head, tail) = encode(&spec, entries.clone(), 70_000).unwrap();
            assert!(tail.len() as u64 <= tail_bytes_max(&spec, 200));
            assert_eq!((word(&head, 0), word(&head, 1)), (70_000 - 16, 70_000 - 16 + tail.len() as u64));
            if gzip_indexes {
                assert_eq!(tail[..2], [0x1f, 0x8b]);
                continue;
            }
            assert_eq!(decode(&spec, &tail).unwrap(), entries);
            assert!(decode(&spec, &tail[1..]).is_err());
        }
    }
}
