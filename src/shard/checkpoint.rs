//! The index of a shard that is being filled: how a checkpoint has it name more chunks, and how the close puts the
//! final one in its place, so that at each moment every reader, and whoever comes after a kill or a loss of power,
//! finds a whole one.
//!
//! A reader takes an index at the end from the last bytes of the file, so the file's length is what switches from one
//! to the next:
//!
//! ```text
//! | slots | room for the final index | index |                            at first: all chunks are missing
//! | slots | room for the final index | index | index |                    after a checkpoint
//! | slots | room for the final index | hole … | index | … | index |       after some more
//! | slots | final index |                                                 closed
//! ```
//!
//! Each new index comes with [`Blob::grow`], which is all or nothing. The last few stay for readers that have looked
//! how long the file is and have not read yet; those before are given back. An index at the start has one place. Where
//! it can be torn there (see `IndexPlan::may_be_replaced_in_place`), it is written once, at the close, and until then
//! nothing of the shard is durable. That of a precomputed shard has a head in one place, of which each part is old or
//! new, and two places for what it points to.
//!
//! Chunks of layers that wait for frames, as when a camera pauses, have no place in their slots yet: see
//! [`provisional`](super::provisional).
//!
//! [`Blob::grow`]: crate::storage::Blob::grow

use std::io;
use std::sync::atomic::Ordering;

use super::checksum::Part;
use super::file::{Shard, ShardPosition};
use super::index_state::{Committed, OpenIndex};
use crate::aligned_memory::PAGE;
use crate::config::IndexLocation;
use crate::error::{Result, caught, logged};
use crate::format::index::Encoded;
use crate::format::index::table::TableLayout;
use crate::fs::system::is_no_room;
use crate::words::of_system;

/// The room of this many latest indexes is not given back: a reader that looked for the file's end may be slow to read
/// what stood there.
const KEPT: u64 = 8;

/// What a checkpoint did to a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Checkpoint {
    /// Nothing was new.
    Unchanged,
    /// The index names all that was asked for.
    Named,
    /// The index stays as it is until a later checkpoint, or the close.
    Postponed,
}

/// How an open shard gets a new index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Replacing {
    /// Behind the one before.
    ByGrowth,
    /// Over the one before.
    InPlace,
    /// Not before the close.
    AtTheClose,
}

/// The next index of a shard that is checkpointed together with others.
enum NextIndex {
    Unchanged,
    /// It names this.
    Shared(Vec<Option<(u64, u64)>>),
    /// It is written by itself.
    Alone,
}

impl NextIndex {
    /// `is_synced`: what was written is on the device.
    fn outcome(self, is_synced: bool) -> Option<Checkpoint> {
        match self {
            Self::Unchanged => Some(Checkpoint::Unchanged),
            Self::Shared(_) if is_synced => Some(Checkpoint::Named),
            Self::Shared(_) | Self::Alone => None,
        }
    }
}

impl Shard {
    pub(super) fn replacing(&self) -> Replacing {
        let index = &self.plan.shard.index;
        match index.table.map(TableLayout::location) {
            Some(IndexLocation::End) if self.blob.grows() => Replacing::ByGrowth,
            _ if index.may_be_replaced_in_place() => Replacing::InPlace,
            _ => Replacing::AtTheClose,
        }
    }

    /// Makes what is committed durable, and has the index name what belongs to layers that are `done`, by their place
    /// in the shard. `all`: be it little.
    ///
    /// The index names only what a successful sync covered: the set of chunks is fixed before the sync, and the index
    /// is written after it.
    pub(crate) fn checkpoint(&self, done: &[bool], all: bool) -> Result<Checkpoint> {
        let mut open = self.open_index();
        let committed = self.committed_of(done);
        let chunks = committed.iter().flatten().count() as u64;
        let layers = done.iter().filter(|done| **done).count() as u64;
        let provisional_serial = open.provisional.serial;
        if (chunks, provisional_serial) == (open.chunks, open.provisional_serial) {
            return Ok(Checkpoint::Unchanged);
        }
        if open.torn
            || self.replacing() == Replacing::AtTheClose
            || !(open.is_due(layers, self.plan.shard.index.layers_a_growth) || all)
        {
            return Ok(Checkpoint::Postponed);
        }
        let renewed = self.renew_index(committed, 0, &mut open)?;
        open.layers = if renewed { layers } else { open.layers };
        Ok(if renewed { Checkpoint::Named } else { Checkpoint::Postponed })
    }

    /// As [`checkpoint`](Self::checkpoint) of these shards, each with its layers that are done and be it little, with
    /// what has to reach the device brought there for all of them at once, by `sync_all`. `None`: a shard has to be
    /// checkpointed by itself, which tells its own error.
    pub(crate) fn checkpoint_together(
        shards: &[(&Self, &[bool])],
        sync_all: &dyn Fn() -> Option<io::Result<()>>,
    ) -> Vec<Option<Checkpoint>> {
        let is_synced = || caught(|| Ok(sync_all())).is_ok_and(|synced| synced.is_some_and(|synced| synced.is_ok()));
        let mut indexes: Vec<_> = shards.iter().map(|(shard, done)| shard.next_index(done)).collect();
        if !indexes.iter().any(|index| matches!(index, NextIndex::Shared(_))) || !is_synced() {
            return indexes.into_iter().map(|index| index.outcome(false)).collect();
        }
        for ((shard, _), index) in shards.iter().zip(&mut indexes) {
            if let NextIndex::Shared(committed) = index
                && !caught(|| shard.append_named(committed)).unwrap_or(false)
            {
                *index = NextIndex::Alone;
            }
        }
        let are_synced = is_synced();
        for ((shard, done), index) in shards.iter().zip(&indexes) {
            if let NextIndex::Shared(committed) = index {
                shard.settle_named(committed, done, are_synced);
            }
        }
        indexes.into_iter().map(|index| index.outcome(are_synced)).collect()
    }

    /// What a checkpoint that is shared with others has to do.
    fn next_index(&self, done: &[bool]) -> NextIndex {
        let open = self.open_index();
        let committed = self.committed_of(done);
        let chunks = committed.iter().flatten().count() as u64;
        if (chunks, open.provisional.serial) == (open.chunks, open.provisional_serial) {
            return NextIndex::Unchanged;
        }
        let is_sound = !open.torn && !self.poisoned.load(Ordering::Relaxed);
        // What waits for frames is for those checkpoints that are not in a hurry.
        let is_plain = is_sound && self.replacing() == Replacing::ByGrowth && open.provisional.chunks.is_empty();
        if is_plain { NextIndex::Shared(committed) } else { NextIndex::Alone }
    }

    /// Appends an index that counts when [`settle_named`](Self::settle_named) says so; the data were synced. False if
    /// there is no room.
    fn append_named(&self, committed: &Committed) -> Result<bool> {
        self.blob.check_intact().map_err(self.failed("sync shard"))?;
        self.append_index(committed, 0, &mut self.open_index())
    }

    fn settle_named(&self, committed: &Committed, done: &[bool], is_synced: bool) {
        let mut open = self.open_index();
        if !is_synced {
            // The device may have it or not: the one before is the last again, and another one follows.
            open.torn = !caught(|| Ok(self.blob.truncate(open.file_end))).is_ok_and(|cut| cut.is_ok());
            return;
        }
        self.note_appended(0, &mut open);
        self.note_renewed(committed.iter().flatten().count() as u64, committed, &mut open);
        open.layers = done.iter().filter(|done| **done).count() as u64;
    }

    /// What is committed of the layers that are `done`.
    pub(super) fn committed_of(&self, done: &[bool]) -> Vec<Option<(u64, u64)>> {
        let is_done = |chunk: usize| done[self.plan.layer_in_cell(self.place.across, chunk)];
        let entries = self.entries.iter().enumerate();
        entries.map(|(at, entry)| entry.committed().filter(|_| is_done(at))).collect()
    }

    /// Has a new index name `committed`, and provisional chunks, once all of that is on the device, and lets the file
    /// grow by this many bytes of room before the new end; false if there is no room.
    pub(super) fn renew_index(
        &self,
        mut committed: Vec<Option<(u64, u64)>>,
        room: u64,
        open: &mut OpenIndex,
    ) -> Result<bool> {
        self.sync().map_err(self.failed("sync shard"))?;
        let chunks = committed.iter().flatten().count() as u64;
        open.provisional.put_beside(&mut committed);
        let renewed = match self.replacing() {
            Replacing::ByGrowth => self.grow_index(&committed, room, open)?,
            _ => self.replace_index(&committed, open).map(|()| self.grow_empty(room, open))?,
        };
        if renewed {
            self.note_renewed(chunks, &committed, open);
        }
        Ok(renewed)
    }

    /// The index names `committed` from now on, of which this many `chunks` are in their slots.
    fn note_renewed(&self, chunks: u64, committed: &Committed, open: &mut OpenIndex) {
        open.serial += 1;
        (open.chunks, open.provisional_serial) = (chunks, open.provisional.serial);
        open.settle_provisional(committed);
        while open.retired.front().is_some_and(|(serial, _)| serial + KEPT <= open.serial) {
            let Some((_, range)) = open.retired.pop_front() else { break };
            // Best effort: it goes with the close.
            open.keeps_retired |= self.blob.punch(range.start, range.end - range.start).is_err();
        }
    }

    /// Makes room behind an index that does not stand at the end.
    fn grow_empty(&self, room: u64, open: &mut OpenIndex) -> bool {
        let grown = room == 0 || self.blob.grow(open.file_end + room, &[0; PAGE]).is_ok();
        open.file_end += if grown && room > 0 { room + PAGE as u64 } else { 0 };
        grown
    }

    /// Appends a new index to the file; false if there is no room for it.
    pub(super) fn grow_index(&self, committed: &Committed, room: u64, open: &mut OpenIndex) -> Result<bool> {
        if !self.append_index(committed, room, open)? {
            return Ok(false);
        }
        if let Err(error) = self.sync() {
            // Whether the device has the new one is not known: the one before shall be the last again.
            open.torn = self.blob.truncate(open.file_end).is_err();
            return Err(self.failed("sync the index of shard")(error));
        }
        self.note_appended(room, open);
        Ok(true)
    }

    /// The same, but for the sync and what is noted after that.
    fn append_index(&self, committed: &Committed, room: u64, open: &mut OpenIndex) -> Result<bool> {
        let index = &self.plan.shard.index;
        let table = self.index(committed, 0)?.tail;
        let mut block = vec![0; index.growth_bytes as usize];
        let table_at = block.len() - table.len();
        block[table_at..].copy_from_slice(&table);
        let at = open.file_end + room;
        self.tell_crc32(self.plan.shard.reserve_bytes - index.growth_bytes, &[]);
        match self.blob.grow(at, &block) {
            Ok(()) => Ok(true),
            Err(error) if is_no_room(&error) || error.kind() == io::ErrorKind::FileTooLarge => {
                let error = of_system(error);
                logged(|| tracing::warn!(shard = self.key, %error, "no room for a newer index; the old one stays"));
                Ok(false)
            }
            Err(error) => Err(self.failed("write the index of shard")(error)),
        }
    }

    /// The index that was appended behind `room` is on the device.
    fn note_appended(&self, room: u64, open: &mut OpenIndex) {
        let growth_bytes = self.plan.shard.index.growth_bytes;
        let last = open.file_end - growth_bytes;
        open.retire(last..open.file_end);
        open.file_end += room + growth_bytes;
    }

    /// Writes a new index over the one before, where that can't tear it.
    fn replace_index(&self, committed: &Committed, open: &mut OpenIndex) -> Result<()> {
        let next = 1 - open.tail;
        let tail_at = self.plan.shard.index.open_tails_at[next];
        let (_, parts) = self.write_index(committed, tail_at, open)?;
        self.tell_crc32(self.plan.shard.reserve_bytes, &parts);
        // Only now: the place that the head names must not be written before the head names the other one.
        open.tail = next;
        Ok(())
    }

    /// Writes an index that names `committed`, its part behind the chunks at `tail_at`, and returns where that ends,
    /// and both parts. The data must have been synced.
    fn write_index(&self, committed: &Committed, tail_at: u64, open: &mut OpenIndex) -> Result<(u64, [Part; 2])> {
        let index = self.index(committed, tail_at)?;
        for (at, part) in index.parts() {
            let over_the_last = at == 0 || self.plan.shard.index.open_tails_at == [at; 2];
            open.torn |= over_the_last;
            self.blob.write_at(at, part).map_err(self.failed("write the index of shard"))?;
            self.sync().map_err(self.failed("sync the index of shard"))?;
            open.torn &= !over_the_last;
        }
        Ok((index.file_end(), [Part::of(0, &index.head), Part::of(tail_at, &index.tail)]))
    }

    /// Writes the final index behind the chunks, which end at `data_end`, and cuts the file off behind it: that is the
    /// moment in which it counts, if it stands at the end.
    pub(super) fn end_with_index(&self, committed: &Committed, data_end: u64) -> Result<()> {
        let mut open = self.open_index();
        // Provisional chunks stay, which stand behind indexes: the final one must not be written over the last.
        if data_end > self.plan.shard.reserve_bytes && self.replacing() == Replacing::ByGrowth {
            let grown = self.grow_index(committed, 0, &mut open)?;
            let no_room = || io::Error::new(io::ErrorKind::StorageFull, "no room for its last index");
            return if grown { Ok(()) } else { Err(self.failed("write the index of shard")(no_room())) };
        }
        let (file_end, parts) = self.write_index(committed, data_end, &mut open)?;
        self.tell_crc32(file_end, &parts);
        self.blob.truncate(file_end).map_err(self.failed("truncate shard"))?;
        open.torn = false;
        Ok(())
    }

    /// Writes the final index, which stands behind the chunks. The data must have been synced, and the caller syncs the
    /// index.
    pub(super) fn write_tail(&self, committed: &Committed, data_end: u64) -> Result<()> {
        let mut open = self.open_index();
        let tail = self.index(committed, data_end)?.tail;
        open.torn |= data_end + tail.len() as u64 > self.plan.shard.index.open_tails_at[0];
        self.blob.write_at(data_end, &tail).map_err(self.failed("write the index of shard"))
    }

    /// Cuts the file off behind the final index, a table, which was synced.
    pub(super) fn cut_behind_tail(&self, data_end: u64) -> Result<()> {
        let mut open = self.open_index();
        self.blob.truncate(data_end + self.plan.shard.index.tail_bytes_max).map_err(self.failed("truncate shard"))?;
        open.torn = false;
        Ok(())
    }

    /// Whether the index that was written last, or the one before it, is still there as it was written.
    pub(crate) fn has_whole_index(&self) -> bool {
        !self.open_index().torn && self.blob.check_intact().is_ok()
    }

    /// The index that names `committed`, its part behind the chunks at `tail_at`.
    fn index(&self, committed: &Committed, tail_at: u64) -> Result<Encoded> {
        let ShardPosition { grid, across } = &self.place;
        let chunks = committed.iter().enumerate().filter_map(|(chunk, range)| Some((chunk, (*range)?)));
        let chunks = chunks.map(|(chunk, range)| (self.plan.entry_of(grid, *across, chunk), range));
        self.plan.array.layout.encode_index(chunks, tail_at)
    }
}
