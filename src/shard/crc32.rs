//! The CRC-32 of a shard, for a storage that wants one: put together from those of its chunks, which workers compute
//! while they have them at hand. Nothing is read back.

use std::sync::atomic::Ordering;

use super::checksum::{Part, joined};
use super::file::Shard;
use crate::format::zip::crc32;

impl Shard {
    /// The CRC-32 of what will be written of a chunk, if the storage wants to know.
    pub(super) fn crc32_of<'a>(&self, slices: impl IntoIterator<Item = &'a [u8]>) -> u32 {
        match self.checksums {
            Some(_) => slices.into_iter().fold(0, crc32::append),
            None => 0,
        }
    }

    /// A chunk was written at `at`, and will be committed. `crc32`: of all up to its payload's end; behind that, where
    /// the last index may be put, there are only zeros.
    pub(super) fn note_written(&self, chunk: usize, at: u64, nbytes: usize, crc32: u32) {
        if let Some(checksums) = &self.checksums {
            checksums.note(chunk, Part { at, len: (self.before_payload() + nbytes) as u64, crc32 });
        }
    }

    /// A write into the file failed.
    pub(super) fn note_failed_write(&self) {
        if let Some(checksums) = &self.checksums {
            checksums.spoiled.store(true, Ordering::Relaxed);
        }
    }

    /// Tells the storage the CRC-32 of the first `len` bytes, if it wants to know. `others`: what stands there beside
    /// chunks.
    pub(super) fn tell_crc32(&self, len: u64, others: &[Part]) {
        let Some(checksums) = &self.checksums else { return };
        let committed = self.entries.iter().enumerate().filter(|(_, entry)| entry.committed().is_some());
        let mut parts: Vec<_> = committed.map(|(chunk, _)| checksums.part(chunk)).collect();
        parts.extend(others.iter().filter(|part| part.len > 0));
        parts.sort_unstable();
        // Relaxed: all writers are done where that matters, which is at the close.
        let crc32 = joined(&parts, len).filter(|_| !checksums.spoiled.load(Ordering::Relaxed));
        self.blob.note_crc32(len, crc32);
    }
}
