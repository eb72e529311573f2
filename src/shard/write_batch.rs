//! Several chunks in one write: a device takes a few long writes faster than many short ones.

use std::io::{self, IoSlice};
use std::sync::atomic::Ordering;

use super::claim::DetachedClaim;
use super::file::Shard;

/// The most chunks that are written together.
pub(crate) const BATCH_MAX: usize = 64;

/// A chunk on its way into its shard together with others.
pub(crate) struct BatchEntry<'a> {
    chunk: usize,
    nbytes: usize,
    /// Header and payload, up to the next whole block.
    bytes: &'a [u8],
    at: u64,
    crc32: u32,
    /// It is in its slot.
    pub(crate) written: bool,
}

impl BatchEntry<'_> {
    pub(crate) const NONE: Self = Self { chunk: 0, nbytes: 0, bytes: &[], at: 0, crc32: 0, written: false };

    fn end(&self) -> u64 {
        self.at + self.bytes.len() as u64
    }
}

impl Shard {
    /// A chunk of `nbytes`, sealed in `scratch`.
    pub(crate) fn part<'a>(&self, claimed: &DetachedClaim, scratch: &'a [u8], nbytes: usize) -> BatchEntry<'a> {
        let bytes = &scratch[..self.sealed_bytes(nbytes)];
        BatchEntry { chunk: claimed.chunk, nbytes, bytes, at: 0, crc32: claimed.crc32, written: false }
    }

    /// Writes up to [`BATCH_MAX`] chunks, in one go those that come to lie one behind the other; in fixed slots these
    /// are neighbours, so they should come in order.
    ///
    /// The error is the first one. What failed together is then written one by one, so that no chunk takes others with
    /// it.
    pub(crate) fn commit_batch(&self, parts: &mut [BatchEntry]) -> io::Result<()> {
        self.place_batch(parts);
        let mut outcome = Ok(());
        for run in parts.chunk_by_mut(|one, next| one.end() == next.at) {
            let mut slices = [IoSlice::new(&[]); BATCH_MAX];
            slices.iter_mut().zip(&*run).for_each(|(slice, part)| *slice = IoSlice::new(part.bytes));
            let joint = self.write_slices(run[0].at, &mut slices[..run.len()]);
            let alone = run.len() == 1;
            for part in run {
                part.written = joint.is_ok() || !alone && self.write(part.at, part.bytes).is_ok();
                if part.written {
                    self.note_written(part.chunk, part.at, part.nbytes, part.crc32);
                    self.entries[part.chunk].commit(part.at + self.before_payload() as u64, part.nbytes as u64);
                }
            }
            outcome = outcome.and(joint);
        }
        outcome
    }

    /// Says where chunks go; packed ones one behind the other.
    fn place_batch(&self, parts: &mut [BatchEntry]) {
        if self.plan.shard.fixed_slots {
            return parts.iter_mut().for_each(|part| part.at = self.place(part.chunk, part.bytes.len()));
        }
        // Relaxed: as in `place`.
        let all = parts.iter().map(|part| part.bytes.len() as u64).sum();
        let mut next = self.tail.fetch_add(all, Ordering::Relaxed);
        for part in parts {
            part.at = next;
            next = part.end();
        }
    }
}
