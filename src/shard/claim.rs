//! A claim to a chunk's place in the shard, and chunks whose bytes are made in a worker's own memory before they are
//! written there.

use std::io::{self, IoSlice};
use std::iter;

use super::file::Shard;
use super::slot::{Entry, Slot};
use crate::aligned_memory::PAGE;
use crate::format::slot_header::{HEADER_BYTES, Origin, header, header_with};

/// The most pieces of which [`StagedSlot::commit_pieces`] makes a chunk.
pub(crate) const PIECES_MAX: usize = 64;

/// Where a chunk's bytes are to be made.
pub(crate) enum Claim<'a> {
    /// In the shard itself.
    InPlace(Slot<'a>),
    /// In the worker's scratch, to be written when their length is known.
    Staged(StagedSlot<'a>),
}

impl Shard {
    /// Makes the caller the one writer of `chunk`; `None` if it has one.
    #[allow(unsafe_code)]
    pub(crate) fn claim(&self, chunk: usize) -> Option<Claim<'_>> {
        let entry = self.entries.get(chunk).filter(|entry| entry.claim())?;
        let shard = &self.plan.shard;
        match self.map() {
            // What an encoder leaves behind a chunk would count, where the file has a checksum.
            Some(map) if shard.fixed_slots && (self.checksums.is_none() || shard.is_exact) => {
                let at = self.place(chunk, shard.slot_bytes) + shard.lead_bytes as u64;
                // SAFETY: fixed slots are disjoint and lie within the reserved length, all of which `create` saw to be
                // mapped; the map lives as long as `self`, and is this shard's alone; and the entry was claimed just
                // above, so no other slot of this chunk exists.
                let mut slot = unsafe { Slot::new(map, at, shard.slot_bytes - shard.lead_bytes, entry) };
                slot.sum_up(self.checksums.as_ref().map(|checksums| (checksums, chunk)));
                Some(Claim::InPlace(slot))
            }
            _ => Some(Claim::Staged(StagedSlot { entry, shard: self, chunk, crc32: 0 })),
        }
    }

    /// Goes on with a claim on another thread.
    pub(crate) fn resume(&self, claimed: DetachedClaim) -> StagedSlot<'_> {
        let DetachedClaim { chunk, crc32 } = claimed;
        StagedSlot { entry: &self.entries[chunk], shard: self, chunk, crc32 }
    }

    /// How much is written of a chunk of `nbytes`: what stands before the payload, and that up to the next whole block.
    pub(crate) fn sealed_bytes(&self, nbytes: usize) -> usize {
        (self.before_payload() + nbytes).next_multiple_of(self.grain as usize)
    }

    /// How much of a scratch is written round a payload that stays where it is.
    pub(crate) fn sealed_bytes_round_pieces(&self) -> usize {
        self.before_payload() + self.behind_pieces(size_of::<u32>())
    }

    /// How much is written behind pieces that end with a checksum of this many bytes. Where the payload starts on a
    /// page, the whole last page is the slot's own.
    fn behind_pieces(&self, checksum_bytes: usize) -> usize {
        let grain = if self.plan.shard.lead_bytes > 0 { PAGE } else { 1 };
        checksum_bytes.next_multiple_of(grain)
    }
}

/// A slot whose bytes are made elsewhere and written at once.
pub(crate) struct StagedSlot<'a> {
    pub(super) entry: &'a Entry,
    pub(super) shard: &'a Shard,
    pub(super) chunk: usize,
    /// Of what was sealed, where the shard has checksums.
    crc32: u32,
}

/// A claim on its way to the thread that will write it. It is neither `Clone` nor made anywhere else.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DetachedClaim {
    pub(super) chunk: usize,
    pub(super) crc32: u32,
}

impl StagedSlot<'_> {
    /// Lets another thread write the chunk; the shard goes on there with `resume`.
    pub(crate) fn detach(self) -> DetachedClaim {
        DetachedClaim { chunk: self.chunk, crc32: self.crc32 }
    }

    /// Puts the header before `nbytes` of payload, which stand in `scratch` where they stand in a slot.
    ///
    /// `scratch` is a slot long, so that what is written can be rounded up to whole blocks; those are zeros.
    pub(crate) fn seal(&mut self, scratch: &mut [u8], nbytes: usize, origin: &Origin) {
        let before = self.shard.before_payload();
        let used = before + nbytes;
        let header = header(origin, &scratch[before..used]);
        scratch[before - HEADER_BYTES..before].copy_from_slice(&header);
        scratch[used..self.shard.sealed_bytes(nbytes)].fill(0);
        self.crc32 = self.shard.crc32_of([&scratch[..used]]);
    }

    /// Writes the chunk: `nbytes` of payload and their header, sealed in `scratch`.
    pub(crate) fn commit(self, scratch: &[u8], nbytes: usize) -> io::Result<()> {
        let before = self.shard.before_payload();
        let at = self.shard.place(self.chunk, before + nbytes);
        self.shard.write(at, &scratch[..self.shard.sealed_bytes(nbytes)])?;
        self.shard.note_written(self.chunk, at, nbytes, self.crc32);
        self.entry.commit(at + before as u64, nbytes as u64);
        Ok(())
    }

    /// Makes in `scratch` what stands before and behind a payload that stays where it is, in `pieces`: its header, and
    /// its checksum if the chunk shall end with one. Returns the chunk's bytes.
    pub(crate) fn seal_pieces(&mut self, scratch: &mut [u8], pieces: &[&[u8]], origin: &Origin) -> usize {
        let crc = pieces.iter().fold(0, |crc, piece| crc32c::crc32c_append(crc, piece));
        let checksum_bytes = if origin.checksum_in_payload { size_of_val(&crc) } else { 0 };
        let nbytes = pieces.iter().map(|piece| piece.len()).sum::<usize>() + checksum_bytes;
        let before = self.shard.before_payload();
        scratch[before - HEADER_BYTES..before].copy_from_slice(&header_with(origin, nbytes, crc));
        let behind = &mut scratch[before..before + self.shard.behind_pieces(checksum_bytes)];
        behind.fill(0);
        behind[..checksum_bytes].copy_from_slice(&crc.to_le_bytes()[..checksum_bytes]);
        let (head, behind) = scratch[..before + checksum_bytes].split_at(before);
        self.crc32 = self.shard.crc32_of(iter::once(head).chain(pieces.iter().copied()).chain(iter::once(behind)));
        nbytes
    }

    /// Writes the chunk whose payload is in `pieces`, with what was sealed in `scratch` for them.
    pub(crate) fn commit_pieces(self, scratch: &[u8], pieces: &[&[u8]], nbytes: usize) -> io::Result<()> {
        let before = self.shard.before_payload();
        let checksum_bytes = nbytes - pieces.iter().map(|piece| piece.len()).sum::<usize>();
        let behind = &scratch[before..before + self.shard.behind_pieces(checksum_bytes)];
        let mut slices = [IoSlice::new(&[]); PIECES_MAX + 2];
        let all = iter::once(&scratch[..before]).chain(pieces.iter().copied()).chain(iter::once(behind));
        let all = all.filter(|bytes| !bytes.is_empty());
        let used = slices.iter_mut().zip(all).map(|(slice, bytes)| *slice = IoSlice::new(bytes)).count();
        let at = self.shard.place(self.chunk, before + nbytes);
        self.shard.write_slices(at, &mut slices[..used]).inspect_err(|_| self.shard.note_failed_write())?;
        self.shard.note_written(self.chunk, at, nbytes, self.crc32);
        self.entry.commit(at + before as u64, nbytes as u64);
        Ok(())
    }
}
