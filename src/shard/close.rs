//! The end of a shard: the final index, and the room that its chunks left unused.

use std::io;
use std::sync::atomic::Ordering;

use super::checkpoint::Replacing;
use super::file::Shard;
use super::slot::Entry;
use crate::aligned_memory::PAGE;
use crate::error::{Result, caught, logged};
use crate::format::slot_header::HEADER_BYTES;
use crate::words::of_system;

/// What a closed shard holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Closed {
    pub(crate) chunks: u64,
    /// Those of them that were stored while their layers waited for frames, and never again.
    pub(crate) provisional: u64,
    pub(crate) bytes: u64,
}

/// How a shard ends together with others.
struct SharedEnd {
    committed: Vec<Option<(u64, u64)>>,
    closed: Closed,
    data_end: u64,
}

impl Shard {
    /// Closes the shard. All its writers must be done.
    ///
    /// The order keeps the file readable at every step: data reach the device before an index names them; a new index
    /// at the end stands inside the reserved range and counts only from the moment the file is cut off behind it.
    pub(crate) fn close(&self) -> Result<Closed> {
        let shard = &self.plan.shard;
        let (committed, closed) = self.ending();
        if closed.chunks == 0 && !shard.keep_empty {
            self.storage.remove(&self.key).map_err(self.failed("remove empty shard"))?;
            return Ok(closed);
        }
        self.sync().map_err(self.failed("sync shard"))?;
        let data_end = self.data_end(&committed);
        self.end_with_index(&committed, data_end)?;
        if let Err(error) = self.give_back_slack(&committed, data_end) {
            let error = of_system(error);
            logged(|| tracing::debug!(shard = self.key, %error, "unused space can't be given back"));
        }
        self.sync().map_err(self.failed("sync finished shard"))?;
        self.blob.forget();
        Ok(closed)
    }

    /// As [`close`](Self::close), with what has to reach the device brought there for all of these shards at once, by
    /// `sync_all`. A shard for which that can't be, or failed, is closed by itself, which tells its own error.
    pub(crate) fn close_together(shards: &[&Self], sync_all: &dyn Fn() -> io::Result<()>) -> Vec<Result<Closed>> {
        let mut ends: Vec<Option<SharedEnd>> = shards.iter().map(|shard| shard.shared_end()).collect();
        let steps: [fn(&Self, &SharedEnd) -> Result<()>; 3] = [
            |shard, _| shard.blob.check_intact().map_err(shard.failed("sync shard")),
            |shard, end| shard.write_tail(&end.committed, end.data_end),
            |shard, end| {
                shard.cut_behind_tail(end.data_end)?;
                let given_back = shard.give_back_slack(&end.committed, end.data_end);
                given_back.map_err(shard.failed("give back unused space of shard"))
            },
        ];
        for step in steps {
            for (shard, end) in shards.iter().zip(&mut ends) {
                *end = end.take().filter(|end| caught(|| step(shard, end)).is_ok());
            }
            if ends.iter().all(Option::is_none) || caught(|| Ok(sync_all())).is_ok_and(|synced| synced.is_ok()) {
                continue;
            }
            ends.fill_with(|| None);
        }
        let close = |(shard, end): (&&Self, Option<SharedEnd>)| match end {
            Some(end) => {
                shard.blob.forget();
                Ok(end.closed)
            }
            None => caught(|| shard.close()),
        };
        shards.iter().zip(ends).map(close).collect()
    }

    /// How it ends together with others; `None`: by itself.
    fn shared_end(&self) -> Option<SharedEnd> {
        let (committed, closed) = self.ending();
        let data_end = self.data_end(&committed);
        // What stands at the start is written over an older one, and so would be what stands behind the last index.
        let is_behind_data = self.plan.shard.index.head_bytes == 0 && data_end <= self.plan.shard.reserve_bytes;
        let is_sound = !self.poisoned.load(Ordering::Relaxed) && self.replacing() == Replacing::ByGrowth;
        let is_one = closed.chunks > 0 && is_behind_data && is_sound;
        is_one.then_some(SharedEnd { committed, closed, data_end })
    }

    /// What is committed, provisional chunks included, and what that is in all.
    fn ending(&self) -> (Vec<Option<(u64, u64)>>, Closed) {
        let mut committed: Vec<_> = self.entries.iter().map(Entry::committed).collect();
        let in_slots = committed.iter().flatten().count() as u64;
        self.open_index().provisional.put_beside(&mut committed);
        let chunks = committed.iter().flatten().count() as u64;
        let bytes = committed.iter().flatten().map(|(_, nbytes)| nbytes).sum();
        (committed, Closed { chunks, provisional: chunks - in_slots, bytes })
    }

    fn data_end(&self, committed: &[Option<(u64, u64)>]) -> u64 {
        committed.iter().flatten().map(|(at, nbytes)| at + nbytes).max().unwrap_or(self.plan.shard.first_slot_at)
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
