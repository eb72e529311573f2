//! The end of a shard: the final index, and the room that its chunks left unused.

use std::io;

use super::file::Shard;
use super::slot::Entry;
use crate::aligned_memory::PAGE;
use crate::error::{Result, logged};
use crate::format::slot_header::HEADER_BYTES;

/// What a closed shard holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Closed {
    pub(crate) chunks: u64,
    /// Those of them that were stored while their layers waited for frames, and never again.
    pub(crate) provisional: u64,
    pub(crate) bytes: u64,
}

impl Shard {
    /// Closes the shard. All its writers must be done.
    ///
    /// The order keeps the file readable at every step: data reach the device before an index names them; a new index
    /// at the end stands inside the reserved range and counts only from the moment the file is cut off behind it.
    pub(crate) fn close(&self) -> Result<Closed> {
        let shard = &self.plan.shard;
        let mut committed: Vec<_> = self.entries.iter().map(Entry::committed).collect();
        let in_slots = committed.iter().flatten().count() as u64;
        self.open_index().provisional.put_beside(&mut committed);
        let chunks = committed.iter().flatten().count() as u64;
        let closed = Closed {
            chunks,
            provisional: chunks - in_slots,
            bytes: committed.iter().flatten().map(|(_, nbytes)| nbytes).sum(),
        };
        if closed.chunks == 0 && !shard.keep_empty {
            self.storage.remove(&self.key).map_err(self.failed("remove empty shard"))?;
            return Ok(closed);
        }
        self.sync().map_err(self.failed("sync shard"))?;
        let data_end = committed.iter().flatten().map(|(at, nbytes)| at + nbytes).max().unwrap_or(shard.first_slot_at);
        self.end_with_index(&committed, data_end)?;
        if let Err(error) = self.give_back_slack(&committed, data_end) {
            logged(|| tracing::debug!(shard = self.key, %error, "unused space can't be given back"));
        }
        self.sync().map_err(self.failed("sync finished shard"))?;
        self.blob.forget();
        Ok(closed)
    }

    /// Punches a hole between each chunk's end and the next one's header.
    fn give_back_slack(&self, committed: &[Option<(u64, u64)>], data_end: u64) -> io::Result<()> {
        let shard = &self.plan.shard;
        if !shard.fixed_slots {
            return Ok(());
        }
        let mut unused_from = shard.first_slot_at;
        let mut committed: Vec<_> = committed.iter().flatten().collect();
        committed.sort_unstable();
        for (at, nbytes) in committed {
            let slot_at = at - HEADER_BYTES as u64;
            self.punch(unused_from, slot_at)?;
            unused_from = at + nbytes;
        }
        self.punch(unused_from, data_end)
    }

    fn punch(&self, from: u64, to: u64) -> io::Result<()> {
        // What is left within a block can't be given back.
        if to > from && to - from >= PAGE as u64 { self.blob.punch(from, to - from) } else { Ok(()) }
    }
}
