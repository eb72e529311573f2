//! Room on the disk: how much of it a recovery takes, and what a stopped writer has left that can be given back for it.

use crate::error::Error;
use crate::format::index::Range;
use crate::fs::system::is_no_room;
use crate::offline::array::shard_file::ShardFile;
use crate::offline::scan::{ExpectedHeaders, Scan};

/// Beside its bytes, a file takes part of a block that nothing else can have.
pub(super) const BLOCK_BYTES: u64 = 4096;

/// What of a shard is neither in a chunk that a header or its index tells of, nor in the index, which begins at `end`
/// if it is behind the chunks.
pub(super) fn unused<'a>(
    expected: &ExpectedHeaders,
    scan: &Scan,
    in_index: impl Iterator<Item = &'a Range>,
    end: u64,
) -> Vec<Range> {
    let in_index = in_index.map(|range| (range.offset, range.offset.saturating_add(range.nbytes)));
    let seen = scan.seen.iter().chain(&scan.of_others).map(|seen| (seen.at(), seen.end()));
    let mut kept: Vec<_> = seen.chain(in_index).chain([(end, u64::MAX)]).collect();
    kept.sort_unstable();
    let (mut unused, mut free_from) = (Vec::new(), expected.first_slot_at());
    for (start, end) in kept {
        if free_from < start {
            unused.push(Range { offset: free_from, nbytes: start - free_from });
        }
        free_from = free_from.max(end);
    }
    unused
}

/// Whether a file holds nothing.
pub(super) fn is_zeros(file: &ShardFile) -> bool {
    let mut room = Vec::new();
    let mut at = 0;
    while let Some(data) = file.data_from(at) {
        let nbytes = (file.len() - data).min(256 << 10);
        if file.read(Range { offset: data, nbytes }, &mut room).is_err() || room.iter().any(|&byte| byte != 0) {
            return false;
        }
        at = data + nbytes;
    }
    true
}

/// What so many bytes take on the disk.
pub(super) fn blocks(bytes: u64) -> u64 {
    bytes.next_multiple_of(BLOCK_BYTES)
}

/// Says of a full disk how much is needed, and how to go on.
pub(super) fn how_to_go_on(error: Error, needed: u64, free: Option<u64>) -> Error {
    match &error {
        Error::Io { source, .. } if is_no_room(source) => {
            let free = free.map_or_else(String::new, |free| format!(", and {free} are free"));
            error.with(&format!(
                "; at most {needed} bytes are needed{free}: free some room and make the same call again; nothing is \
                 lost by then"
            ))
        }
        _ => error,
    }
}
