//! The byte range of a shard that one chunk may fill, with a header before the chunk's bytes.
#![allow(unsafe_code)]

use std::io::{self, IoSlice};
use std::iter;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

use crate::format::index::table::MISSING;
use crate::format::slot_header::MAGIC;
use crate::format::slot_header::{HEADER_BYTES, Origin, header, header_with};
use crate::sync::atomic::{AtomicU64, Ordering};

/// The most pieces of which [`Elsewhere::commit_pieces`] makes a chunk.
pub(crate) const PIECES_MAX: usize = 64;

/// One chunk's line in the index under construction.
#[derive(Debug)]
pub(crate) struct Entry {
    offset: AtomicU64,
    nbytes: AtomicU64,
}

/// A length that no chunk has: a worker owns the slot and has not committed it.
const CLAIMED: u64 = MISSING - 1;

impl Entry {
    pub(crate) fn new() -> Self {
        Self { offset: AtomicU64::new(MISSING), nbytes: AtomicU64::new(MISSING) }
    }

    /// Makes the caller the slot's one writer; false if there was one before.
    pub(crate) fn claim(&self) -> bool {
        self.nbytes.compare_exchange(MISSING, CLAIMED, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Release: whoever sees the length (Acquire in `committed`) sees the offset and the bytes.
    pub(crate) fn commit(&self, offset: u64, nbytes: u64) {
        self.offset.store(offset, Ordering::Relaxed);
        self.nbytes.store(nbytes, Ordering::Release);
    }

    /// Offset and length, once committed.
    pub(crate) fn committed(&self) -> Option<(u64, u64)> {
        let nbytes = self.nbytes.load(Ordering::Acquire);
        (nbytes < CLAIMED).then(|| (self.offset.load(Ordering::Relaxed), nbytes))
    }
}

/// A slot in mapped memory with its one writer. Dropping it uncommitted leaves the chunk missing.
#[derive(Debug)]
pub(crate) struct Slot<'a> {
    bytes: &'a mut [u8],
    /// Where the slot starts in the file.
    at: u64,
    entry: &'a Entry,
}

impl<'a> Slot<'a> {
    /// The slot of `len` bytes at `at` of a blob mapped at `map`.
    ///
    /// # Safety
    ///
    /// `map` must be good for `at + len` bytes for `'a`, and the caller must have claimed `entry`, whose slot overlaps no
    /// other entry's.
    pub(crate) unsafe fn new(map: NonNull<u8>, at: u64, len: usize, entry: &'a Entry) -> Self {
        // SAFETY: the range lies within the map; claiming made this the only reference to it.
        let bytes = unsafe { std::slice::from_raw_parts_mut(map.as_ptr().add(at as usize), len) };
        Self { bytes, at, entry }
    }

    /// Where the chunk's bytes go.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[HEADER_BYTES..]
    }

    /// Declares the first `nbytes` of the room to be the chunk.
    pub(crate) fn commit(self, nbytes: usize, origin: &Origin) {
        let (head, payload) = self.bytes.split_at_mut(HEADER_BYTES);
        let header = header(origin, &payload[..nbytes]);
        head[4..].copy_from_slice(&header[4..]);
        let magic = u32::from_ne_bytes(MAGIC);
        // SAFETY: `head` is exclusively borrowed, 4 bytes long at least, and aligned: slots start at multiples of 8 in a
        // page-aligned map.
        let place = unsafe { AtomicU32::from_ptr(head.as_mut_ptr().cast()) };
        // Release: after a kill, the file's pages hold no magic without the header and the payload that it vouches for.
        place.store(magic, Ordering::Release);
        self.entry.commit(self.at + HEADER_BYTES as u64, nbytes as u64);
    }
}

/// A slot whose bytes are made elsewhere and written at once.
#[derive(Debug)]
pub(crate) struct Elsewhere<'a> {
    pub(super) entry: &'a Entry,
    pub(super) shard: &'a super::Shard,
    pub(super) chunk: usize,
}

/// A claim on its way to the thread that will write it. It is neither `Clone` nor made anywhere else.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Claimed {
    pub(super) chunk: usize,
}

impl Elsewhere<'_> {
    /// Lets another thread write the chunk; the shard goes on there with `resume`.
    pub(crate) fn detach(self) -> Claimed {
        Claimed { chunk: self.chunk }
    }

    /// Puts the header before `nbytes` of payload, which stand in `scratch` where they stand in a slot.
    ///
    /// `scratch` is a slot long, so that what is written can be rounded up to whole blocks; those are zeros.
    pub(crate) fn seal(&self, scratch: &mut [u8], nbytes: usize, origin: &Origin) {
        let before = self.shard.before_payload();
        let used = before + nbytes;
        let header = header(origin, &scratch[before..used]);
        scratch[before - HEADER_BYTES..before].copy_from_slice(&header);
        scratch[used..self.shard.sealed_bytes(nbytes)].fill(0);
    }

    /// Writes the chunk: `nbytes` of payload and their header, sealed in `scratch`.
    pub(crate) fn commit(self, scratch: &[u8], nbytes: usize) -> io::Result<()> {
        let before = self.shard.before_payload();
        let at = self.shard.place(self.chunk, before + nbytes);
        self.shard.write(at, &scratch[..self.shard.sealed_bytes(nbytes)])?;
        self.entry.commit(at + before as u64, nbytes as u64);
        Ok(())
    }

    /// Makes in `scratch` what stands before and behind a payload that stays where it is, in `pieces`: its header, and its
    /// checksum if the chunk shall end with one. Returns the chunk's bytes.
    pub(crate) fn seal_pieces(&self, scratch: &mut [u8], pieces: &[&[u8]], origin: &Origin) -> usize {
        let crc = pieces.iter().fold(0, |crc, piece| crc32c::crc32c_append(crc, piece));
        let checksum_bytes = if origin.checksum_in_payload { size_of_val(&crc) } else { 0 };
        let nbytes = pieces.iter().map(|piece| piece.len()).sum::<usize>() + checksum_bytes;
        let before = self.shard.before_payload();
        scratch[before - HEADER_BYTES..before].copy_from_slice(&header_with(origin, nbytes, crc));
        let behind = &mut scratch[before..before + self.shard.behind_pieces(checksum_bytes)];
        behind.fill(0);
        behind[..checksum_bytes].copy_from_slice(&crc.to_le_bytes()[..checksum_bytes]);
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
        self.shard.write_slices(at, &mut slices[..used])?;
        self.entry.commit(at + before as u64, nbytes as u64);
        Ok(())
    }
}

/// Copies into a mapped shard what was made elsewhere.
///
/// # Safety
///
/// `map` must be good for `at + bytes.len()` bytes, and nobody else may touch that range during the call.
pub(super) unsafe fn copy_into(map: NonNull<u8>, at: u64, bytes: &[u8]) {
    // SAFETY: as the caller promises; a range that is exclusively the caller's can't overlap `bytes`.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), map.as_ptr().add(at as usize), bytes.len()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_has_one_writer() {
        let entry = Entry::new();
        assert!(entry.claim());
        assert!(!entry.claim());
        assert_eq!(entry.committed(), None);
        entry.commit(64, 9);
        assert_eq!(entry.committed(), Some((64, 9)));
        assert!(!entry.claim());
    }
}

#[cfg(all(test, loom))]
mod loom {
    use super::*;
    use ::loom::cell::UnsafeCell;
    use ::loom::thread;
    use std::sync::Arc;

    #[test]
    fn a_slot_has_one_writer_and_is_whole_when_it_counts() {
        ::loom::model(|| {
            let shared = Arc::new((Entry::new(), UnsafeCell::new(0)));
            let writers: Vec<_> = (0..2)
                .map(|_| {
                    let shared = shared.clone();
                    thread::spawn(move || {
                        let mine = shared.0.claim();
                        if mine {
                            // SAFETY: the one writer's; if not, loom fails the test.
                            shared.1.with_mut(|slot| unsafe { *slot = 9 });
                            shared.0.commit(64, 9);
                        }
                        mine
                    })
                })
                .collect();
            // Whoever makes an index while others write: what counts is whole.
            if let Some(entry) = shared.0.committed() {
                assert_eq!(entry, (64, 9));
                // SAFETY: nobody writes a committed slot.
                shared.1.with(|slot| assert_eq!(unsafe { *slot }, 9));
            }
            let winners = writers.into_iter().map(|writer| writer.join().unwrap());
            assert_eq!(winners.filter(|&mine| mine).count(), 1);
            assert_eq!(shared.0.committed(), Some((64, 9)));
        });
    }
}
