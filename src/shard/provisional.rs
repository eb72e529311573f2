//! Chunks of layers that still wait for frames, so that those that have come are durable, as when a camera pauses for
//! hours.
//!
//! A slot takes one chunk, once. What may become another chunk yet stands behind all slots, in room by which the file
//! grew:
//!
//! ```text
//! | slots | … | index | header, chunk | header, chunk | … | index that names them |
//! ```
//!
//! When its layer is complete, a chunk is in its slot, and the next index names that one; what stood for it is given
//! back later. Where the final chunk could not be stored, the provisional one stays.

use std::io;
use std::ops::Range;

use super::checkpoint::Replacing;
use super::file::Shard;
use crate::aligned_memory::PAGE;
use crate::error::{Result, logged};
use crate::format::slot_header::HEADER_BYTES;

/// Room in the file for the chunks of one layer.
pub(crate) struct ProvisionalRoom {
    range: Range<u64>,
    used_end: u64,
    chunks: Vec<(usize, (u64, u64))>,
}

impl Shard {
    /// Room for provisional chunks of this many bytes in all, their headers included; `None` if there is none, or if no
    /// index would name them before the close. `done`: as for [`checkpoint`](Self::checkpoint), of which this is one.
    pub(crate) fn provisional_room(&self, done: &[bool], bytes: u64) -> Result<Option<ProvisionalRoom>> {
        let mut open = self.open_index();
        if open.torn || !self.blob.grows_with_room() || self.replacing() == Replacing::AtTheClose {
            return Ok(None);
        }
        let start = open.file_end;
        let bytes = bytes.next_multiple_of(PAGE as u64);
        let committed = self.committed_of(done);
        if !self.renew_index(committed, bytes, &mut open)? {
            return Ok(None);
        }
        Ok(Some(ProvisionalRoom { range: start..start + bytes, used_end: start, chunks: Vec::new() }))
    }

    /// Writes a chunk, sealed with its header, into room for it.
    pub(crate) fn write_provisional(&self, room: &mut ProvisionalRoom, chunk: usize, sealed: &[u8]) -> io::Result<()> {
        let at = room.used_end;
        debug_assert!(at + sealed.len() as u64 <= room.range.end);
        self.blob.write_at(at, sealed)?;
        room.chunks.push((chunk, (at + HEADER_BYTES as u64, (sealed.len() - HEADER_BYTES) as u64)));
        room.used_end = (at + sealed.len() as u64).next_multiple_of(8);
        Ok(())
    }

    /// From now on indexes name the chunks that were written into `room`.
    pub(crate) fn keep_provisional(&self, room: ProvisionalRoom) {
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
    pub(crate) fn leave_provisional(&self, room: ProvisionalRoom) {
        self.open_index().retire(room.range);
    }
}
