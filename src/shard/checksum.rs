//! What is known of the CRC-32 of a shard, for a storage that wants one: that of each chunk, which workers compute
//! while they have it at hand. Nothing is read back.
//!
//! To put them together takes a file in which nothing stands but what was written here: what lies between reads as
//! zeros.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::format::zip::crc32;

/// What was written of each chunk: its header and its payload.
pub(super) struct Checksums {
    chunks: Box<[Written]>,
    /// A write failed, so nobody knows what stands there.
    pub(super) spoiled: AtomicBool,
}

#[derive(Default)]
struct Written {
    at: AtomicU64,
    len: AtomicU64,
    crc32: AtomicU32,
}

/// A range with its CRC-32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Part {
    pub(super) at: u64,
    pub(super) len: u64,
    pub(super) crc32: u32,
}

impl Part {
    pub(super) fn of(at: u64, bytes: &[u8]) -> Self {
        Self { at, len: bytes.len() as u64, crc32: crc32::of(bytes) }
    }
}

impl Checksums {
    pub(super) fn new(chunks: usize) -> Self {
        Self { chunks: (0..chunks).map(|_| Written::default()).collect(), spoiled: AtomicBool::new(false) }
    }

    /// Relaxed: the chunk's entry, committed after this, publishes it.
    pub(super) fn note(&self, chunk: usize, part: Part) {
        let written = &self.chunks[chunk];
        written.at.store(part.at, Ordering::Relaxed);
        written.len.store(part.len, Ordering::Relaxed);
        written.crc32.store(part.crc32, Ordering::Relaxed);
    }

    pub(super) fn part(&self, chunk: usize) -> Part {
        let Written { at, len, crc32 } = &self.chunks[chunk];
        let (at, len) = (at.load(Ordering::Relaxed), len.load(Ordering::Relaxed));
        Part { at, len, crc32: crc32.load(Ordering::Relaxed) }
    }
}

/// The CRC-32 of `len` bytes of which `parts`, in order, are known and all others are zeros; `None` if parts overlap,
/// or end beyond.
pub(super) fn joined(parts: &[Part], len: u64) -> Option<u32> {
    let (mut crc, mut end) = (0, 0);
    for part in parts {
        crc = crc32::append_zeros(crc, part.at.checked_sub(end)?);
        crc = crc32::join(crc, part.crc32, part.len);
        end = part.at + part.len;
    }
    Some(crc32::append_zeros(crc, len.checked_sub(end)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_zeros_between_them_are_the_whole() {
        let mut file = vec![0; 5000];
        file[100..164].fill(7);
        file[164..165].fill(1);
        file[4000..4900].fill(3);
        let parts = [Part::of(100, &[7; 64]), Part::of(164, &[1]), Part::of(4000, &[3; 900])];
        assert_eq!(joined(&parts, 5000), Some(crc32::of(&file)));
        assert_eq!(joined(&parts[..2], 165), Some(crc32::of(&file[..165])));
        assert_eq!(joined(&[], 70), Some(crc32::of(&[0; 70])));
        assert_eq!(joined(&parts, 4899), None);
        assert_eq!(joined(&[Part::of(0, &[1; 9]), Part::of(8, &[1])], 100), None);
    }
}
