//! Chunks of layers that still wait for frames, so that those that have come are durable, as when a camera pauses for hours.
//!
//! A slot takes one chunk, once. What may become another chunk yet stands behind all slots, in room by which the file grew:
//!
//! ```text
//! | slots | … | index | header, chunk | header, chunk | … | index that names them |
//! ```
//!
//! When its layer is complete, a chunk is in its slot, and the next index names that one; what stood for it is given back later. Where
//! the final chunk could not be stored, the provisional one stays.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

use super::Shard;
use super::open_index::{Committed, OpenIndex, Replacing};
use crate::error::{Result, logged};
use crate::format::slot_header::HEADER_BYTES;
use crate::plan::PAGE;

/// The provisional chunks of a shard.
#[derive(Debug, Default)]
pub(super) struct Provisional {
    /// Offset and length by the chunk's place in the shard.
    chunks: BTreeMap<usize, (u64, u64)>,
    rooms: Vec<Range<u64>>,
    /// How often there were new ones.
    serial: u64,
}

/// Room in the file for the chunks of one layer.
#[derive(Debug)]
pub(crate) struct Room {
    range: Range<u64>,
    used_end: u64,
    chunks: Vec<(usize, (u64, u64))>,
}

impl Provisional {
    pub(super) fn serial(&self) -> u64 {
        self.serial
    }

    /// Puts them beside those that are committed.
    pub(super) fn put_beside(&self, committed: &mut Committed) {
        for (&chunk, &entry) in &self.chunks {
            committed[chunk].get_or_insert(entry);
        }
    }

    /// An index names `committed`: what it doesn't name is not needed any more. Returns the room of it.
    fn settle(&mut self, committed: &Committed) -> Vec<Range<u64>> {
        self.chunks.retain(|&chunk, entry| committed[chunk] == Some(*entry));
        let chunks = &self.chunks;
        let unused = |room: &mut Range<u64>| !chunks.values().any(|(offset, _)| room.contains(offset));
        self.rooms.extract_if(.., unused).collect()
    }
}

impl OpenIndex {
    /// As [`Provisional::settle`].
    pub(super) fn settle_provisional(&mut self, committed: &Committed) {
        for room in self.provisional.settle(committed) {
            self.retire(room);
        }
    }
}

impl Shard {
    /// Room for provisional chunks of so many bytes in all, their headers included; `None` if there is none, or if no index would name
    /// them before the close. `done`: as for [`checkpoint`](Self::checkpoint), of which this is one.
    pub(crate) fn provisional_room(&self, done: &[bool], bytes: u64) -> Result<Option<Room>> {
        let mut open = self.open_index();
        if open.torn || !self.blob.grows() || self.replacing() == Replacing::AtTheClose {
            return Ok(None);
        }
        let start = open.file_end;
        let bytes = bytes.next_multiple_of(PAGE as u64);
        let committed = self.committed_of(done);
        if !self.renew_index(committed, bytes, &mut open)? {
            return Ok(None);
        }
        Ok(Some(Room { range: start..start + bytes, used_end: start, chunks: Vec::new() }))
    }

    /// Writes a chunk, sealed with its header, into room for it.
    pub(crate) fn write_provisional(&self, room: &mut Room, chunk: usize, sealed: &[u8]) -> io::Result<()> {
        let at = room.used_end;
        debug_assert!(at + sealed.len() as u64 <= room.range.end);
        self.blob.write_at(at, sealed)?;
        room.chunks.push((chunk, (at + HEADER_BYTES as u64, (sealed.len() - HEADER_BYTES) as u64)));
        room.used_end = (at + sealed.len() as u64).next_multiple_of(8);
        Ok(())
    }

    /// From now on indexes name the chunks that were written into `room`.
    pub(crate) fn keep_provisional(&self, room: Room) {
        let mut open = self.open_index();
        let unused = room.used_end..room.range.end;
        if self.blob.punch(unused.start, unused.end - unused.start).is_err() {
            logged(|| tracing::debug!(shard = self.key, "room for chunks that is not used can't be given back"));
        }
        open.provisional.serial += 1;
        open.provisional.chunks.extend(room.chunks);
        open.provisional.rooms.push(room.range);
    }

    /// Nobody needs the room.
    pub(crate) fn leave_provisional(&self, room: Room) {
        self.open_index().retire(room.range);
    }
}
