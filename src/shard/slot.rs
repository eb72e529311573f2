//! The byte range of a shard that one chunk may fill, with a header before the chunk's bytes.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

use super::checksum::{Checksums, Part};
use crate::format::index::table::MISSING;
use crate::format::slot_header::MAGIC;
use crate::format::slot_header::{HEADER_BYTES, Origin, header};
use crate::sync::atomic::{AtomicU64, Ordering};

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
pub(crate) struct Slot<'a> {
    bytes: &'a mut [u8],
    /// Where the slot starts in the file.
    at: u64,
    /// `None`: committed.
    entry: Option<&'a Entry>,
    /// Where the file has a checksum, those of its chunks, and which chunk it is.
    checksums: Option<(&'a Checksums, usize)>,
}

impl<'a> Slot<'a> {
    /// The slot of `len` bytes at `at` of a blob mapped at `map`.
    ///
    /// # Safety
    ///
    /// `map` must be good for `at + len` bytes for `'a`, and the caller must have claimed `entry`, whose slot overlaps
    /// no other entry's.
    pub(crate) unsafe fn new(map: NonNull<u8>, at: u64, len: usize, entry: &'a Entry) -> Self {
        // SAFETY: the range lies within the map; claiming made this the only reference to it.
        let bytes = unsafe { std::slice::from_raw_parts_mut(map.as_ptr().add(at as usize), len) };
        Self { bytes, at, entry: Some(entry), checksums: None }
    }

    /// The file has a checksum: what is written must be the chunk and nothing behind it.
    pub(super) fn sum_up(&mut self, checksums: Option<(&'a Checksums, usize)>) {
        self.checksums = checksums;
    }

    /// Where the chunk's bytes go.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[HEADER_BYTES..]
    }

    /// Declares the first `nbytes` of the room to be the chunk.
    pub(crate) fn commit(mut self, nbytes: usize, origin: &Origin) {
        let (head, payload) = self.bytes.split_at_mut(HEADER_BYTES);
        let header = header(origin, &payload[..nbytes]);
        head[4..].copy_from_slice(&header[4..]);
        let magic = u32::from_ne_bytes(MAGIC);
        // SAFETY: `head` is exclusively borrowed, 4 bytes long at least, and aligned: slots start at multiples of 8 in
        // a page-aligned map.
        let place = unsafe { AtomicU32::from_ptr(head.as_mut_ptr().cast()) };
        // Release: after a kill, the file's pages hold no magic without the header and the payload that it vouches for.
        place.store(magic, Ordering::Release);
        if let Some((checksums, chunk)) = self.checksums {
            checksums.note(chunk, Part::of(self.at, &self.bytes[..HEADER_BYTES + nbytes]));
        }
        if let Some(entry) = self.entry.take() {
            entry.commit(self.at + HEADER_BYTES as u64, nbytes as u64);
        }
    }
}

impl Drop for Slot<'_> {
    /// What an encoder left of a chunk that is none would count where the file has a checksum.
    fn drop(&mut self) {
        if self.entry.is_some() && self.checksums.is_some() {
            self.bytes.fill(0);
        }
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
