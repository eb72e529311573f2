//! The shard itself: its file, who may write where, and what was committed.

use std::io::{self, IoSlice};
use std::iter;
use std::ops::Deref;
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use super::checksum::{Checksums, Part, joined};
use super::index_state::OpenIndex;
use super::slot::{self, Entry};
use crate::aligned_memory::PAGE;
use crate::error::{Contained, Error, Result};
use crate::format::slot_header::HEADER_BYTES;
use crate::format::zip::crc32;
use crate::geometry::Outer;
use crate::plan::Plan;
use crate::storage::{Blob, Mapped, Storage};
use crate::sync::Unpoisoned;

/// A shard that workers fill. They share it; each chunk has one writer.
pub(crate) struct Shard {
    pub(super) state: ShardState,
    pub(super) blob: Contained<dyn Blob>,
    pub(super) map: Option<Mapped>,
}

impl Deref for Shard {
    type Target = ShardState;

    fn deref(&self) -> &ShardState {
        &self.state
    }
}

/// All of a shard but its file.
pub(crate) struct ShardState {
    /// Where it is a file.
    pub(super) storage: Arc<dyn Storage>,
    pub(crate) key: String,
    pub(super) plan: Arc<Plan>,
    pub(super) place: ShardPosition,
    pub(super) entries: Box<[Entry]>,
    /// Where the storage wants to know the file's CRC-32.
    pub(super) checksums: Option<Checksums>,
    /// Packed placement: the end of what was claimed.
    pub(super) tail: AtomicU64,
    /// What claimed lengths are multiples of.
    pub(super) grain: u64,
    pub(super) open_index: Mutex<OpenIndex>,
    /// A sync failed. The system tells it once and then may say that all is well, so nothing that is not named yet can
    /// be trusted to be on the device.
    pub(super) poisoned: AtomicBool,
}

/// Which shard it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShardPosition {
    /// Where its cell stands in the grid of shards.
    pub(crate) grid: Outer,
    /// Where it stands beside the other shards of the cell.
    pub(crate) across: usize,
}

/// What keeps a thread that writes into a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitsFor {
    Nothing,
    /// Those to the same shard.
    OtherWrites,
    /// Writes pass the page cache by.
    Device,
}

impl Shard {
    /// Creates and publishes a shard in which every chunk is missing: valid for every reader from birth.
    pub(crate) fn create(
        storage: Arc<dyn Storage>,
        key: String,
        place: ShardPosition,
        plan: Arc<Plan>,
    ) -> Result<Self> {
        let fail = |action, error: io::Error| Error::io(action, storage.path_of(&key), error);
        let shard = &plan.shard;
        let blob = storage.create_growing(&key, shard.reserve_bytes, shard.index.growth_bytes);
        let blob = blob.map_err(|e| fail("reserve space for shard", e))?;
        let blob = Contained::new(blob);
        let map = blob.map();
        if let Some(map) = map.as_ref().filter(|map| (map.len() as u64) < shard.reserve_bytes) {
            let reason = format!("its memory has {} bytes instead of {}", map.len(), shard.reserve_bytes);
            return Err(fail("map shard", io::Error::new(io::ErrorKind::InvalidInput, reason)));
        }
        let (mut index, mut in_order) = (None, false);
        if let Some(table) = shard.index.table {
            let missing = table.encode(iter::empty());
            let at = if shard.index.head_bytes > 0 { 0 } else { shard.index.open_tails_at[0] };
            in_order = blob.write_first(at, &missing).map_err(|e| fail("write the index of shard", e))?;
            index = Some(Part::of(at, &missing));
        }
        let checksums = blob.wants_crc32().then(|| Checksums::new(shard.chunks));
        let entries = (0..shard.chunks).map(|_| Entry::new()).collect();
        let tail = AtomicU64::new(shard.first_slot_at);
        let alignment = if shard.slot_bytes >= PAGE { blob.alignment() } else { 1 };
        let grain = if alignment > 8 { PAGE as u64 } else { 8 };
        let open_index = Mutex::new(OpenIndex::new(shard.reserve_bytes));
        let poisoned = AtomicBool::new(false);
        let state = ShardState { storage, key, plan, place, entries, checksums, tail, grain, open_index, poisoned };
        let new = Self { state, blob, map };
        new.tell_crc32(new.plan.shard.reserve_bytes, index.as_slice());
        if !in_order {
            new.blob.sync().map_err(new.failed("sync new shard"))?;
        }
        new.blob.publish().map_err(new.failed("publish shard"))?;
        Ok(new)
    }

    pub(crate) fn waits_for(&self) -> WaitsFor {
        match self.map {
            Some(_) => WaitsFor::Nothing,
            None if self.grain >= PAGE as u64 => WaitsFor::Device,
            None if self.blob.one_write_at_a_time() => WaitsFor::OtherWrites,
            None => WaitsFor::Nothing,
        }
    }

    pub(super) fn open_index(&self) -> MutexGuard<'_, OpenIndex> {
        self.open_index.lock().unpoisoned()
    }

    pub(super) fn map(&self) -> Option<NonNull<u8>> {
        self.map.as_ref().map(Mapped::start)
    }

    /// Bytes from a slot's start to its payload.
    pub(super) fn before_payload(&self) -> usize {
        self.plan.shard.lead_bytes + HEADER_BYTES
    }

    /// Where `len` bytes of `chunk`, all before the payload included, go. No two calls give overlapping ranges.
    pub(super) fn place(&self, chunk: usize, len: usize) -> u64 {
        let shard = &self.plan.shard;
        if shard.fixed_slots {
            return shard.first_slot_at + (chunk * shard.slot_bytes) as u64;
        }
        // Relaxed: the sum itself keeps the ranges apart; their contents are published by the entries.
        self.tail.fetch_add((len as u64).next_multiple_of(self.grain), Ordering::Relaxed)
    }

    #[allow(unsafe_code)]
    pub(super) fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        debug_assert!(at + bytes.len() as u64 <= self.plan.shard.reserve_bytes);
        // A copy waits for each page of a map, and a write for none. Where there are checksums, chunks that are
        // compressed come here though the shard is mapped.
        match self.map().filter(|_| self.checksums.is_none()) {
            // SAFETY: callers write where `place` put a chunk, which gave the range to them alone: a slot in fixed
            // placement, of which each has one claim; else what the tail was moved on by. All ranges together fit the
            // reserved length, because each is at most a slot long and each chunk is claimed once; `create` saw that
            // much to be mapped, and the map is this shard's alone.
            Some(map) => unsafe { slot::copy_into(map, at, bytes) },
            None => self.blob.write_at(at, bytes).inspect_err(|_| self.note_failed_write())?,
        }
        self.check_map()
    }

    #[allow(unsafe_code)]
    pub(super) fn write_slices(&self, at: u64, slices: &mut [IoSlice]) -> io::Result<()> {
        let Some(map) = self.map() else { return self.blob.write_slices_at(at, slices) };
        let mut to = at;
        for slice in slices.iter() {
            // SAFETY: as in `write`.
            unsafe { slot::copy_into(map, to, slice) };
            to += slice.len() as u64;
        }
        self.check_map()
    }

    /// Reads an encoded chunk, while others are being filled in; false if there is none.
    #[cfg(feature = "offline")]
    pub(crate) fn read_chunk(&self, chunk: usize, encoded: &mut Vec<u8>) -> Result<bool> {
        let Some((offset, nbytes)) = self.entries[chunk].committed() else { return Ok(false) };
        encoded.resize(nbytes as usize, 0);
        self.blob.read_at(offset, encoded).map_err(self.failed("read a chunk of shard"))?;
        Ok(true)
    }

    /// Fails if a chunk that was stored in mapped memory is known to be lost.
    pub(crate) fn check_map(&self) -> io::Result<()> {
        self.blob.check_map()
    }

    /// Says that the slots of `chunks` will not be touched again before the close.
    pub(crate) fn done_with(&self, chunks: std::ops::Range<usize>) {
        let shard = &self.plan.shard;
        if shard.fixed_slots {
            let start = shard.first_slot_at + (chunks.start * shard.slot_bytes) as u64;
            self.blob.done_with(start, (chunks.len() * shard.slot_bytes) as u64);
        }
    }

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

    /// No sync is tried again after one that failed.
    pub(super) fn sync(&self) -> io::Result<()> {
        if self.poisoned.load(Ordering::Relaxed) {
            return Err(io::Error::other("a sync failed before, so the device may lack what was written"));
        }
        self.blob.sync().inspect_err(|_| self.poisoned.store(true, Ordering::Relaxed))
    }

    /// What errors call it.
    pub(crate) fn path(&self) -> PathBuf {
        self.storage.path_of(&self.key)
    }

    /// Makes an error of this shard of one of its blob.
    pub(super) fn failed<'a>(&'a self, action: &'static str) -> impl Fn(io::Error) -> Error + 'a {
        move |error| Error::io(action, self.path(), error)
    }
}
