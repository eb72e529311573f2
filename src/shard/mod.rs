//! One shard file under construction: slots, index, close.
//!
//! ```text
//! index at end, fixed placement, while it is being filled:
//! | header, chunk 0, slack | header, chunk 1, slack | … | room for an index | index: all missing |
//! and closed (slack after each chunk is a hole):
//! | header, chunk 0, hole  | header, chunk 1, hole  | … chunk n | index |
//! ```
//!
//! With the index at the start, slots begin at the next whole page after it. Packed chunks follow each other, each with
//! its header, at multiples of 8 bytes.

pub(crate) mod joined;
mod open_index;
pub(crate) mod provisional;
pub(crate) mod slot;

use std::io::{self, IoSlice};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::error::{Error, Result};
use crate::format::index::table;
use crate::format::slot_header::HEADER_BYTES;
use crate::geometry::Outer;
use crate::plan::{IndexForm, PAGE, Plan};
use crate::storage::{Blob, Mapped, Storage};
pub(crate) use open_index::Checkpoint;
use open_index::OpenIndex;
use slot::{Claimed, Elsewhere, Entry, Slot};

/// A shard that workers fill. They share it; each chunk has one writer.
pub(crate) struct Shard {
    key: String,
    plan: Arc<Plan>,
    place: Place,
    blob: Box<dyn Blob>,
    map: Option<Mapped>,
    entries: Box<[Entry]>,
    /// Packed placement: the end of what was claimed.
    tail: AtomicU64,
    /// What claimed lengths are multiples of.
    grain: u64,
    open_index: Mutex<OpenIndex>,
    /// A sync failed. The system tells it once and then may say that all is well, so nothing that is not named yet can be
    /// trusted to be on the device.
    poisoned: AtomicBool,
}

/// Which shard it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
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

/// Where a chunk's bytes are to be made.
#[derive(Debug)]
pub(crate) enum Claim<'a> {
    /// In the shard itself.
    InPlace(Slot<'a>),
    /// In the worker's scratch, to be written when their length is known.
    Elsewhere(Elsewhere<'a>),
}

/// What a closed shard holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Closed {
    pub(crate) chunks: u64,
    /// Those of them that were stored while their layers waited for frames, and never anew.
    pub(crate) provisional: u64,
    pub(crate) bytes: u64,
}

impl Shard {
    /// Creates and publishes a shard in which every chunk is missing: valid for every reader from birth.
    pub(crate) fn create(storage: &dyn Storage, key: String, place: Place, plan: Arc<Plan>) -> Result<Self> {
        let fail = |action, error: io::Error| Error::io(action, &key, error);
        let shard = &plan.shard;
        let blob = storage.create(&key, shard.reserve_bytes).map_err(|e| fail("reserve space for shard", e))?;
        let map = blob.map();
        if let Some(map) = map.as_ref().filter(|map| (map.len() as u64) < shard.reserve_bytes) {
            let reason = format!("its memory has {} bytes instead of {}", map.len(), shard.reserve_bytes);
            return Err(fail("map shard", io::Error::new(io::ErrorKind::InvalidInput, reason)));
        }
        if let IndexForm::Table { checksum, .. } = shard.index.form {
            let missing = table::encode((0..shard.chunks).map(|_| (table::MISSING, table::MISSING)), checksum);
            let at = if shard.index.head_bytes > 0 { 0 } else { shard.index.open_tails_at[0] };
            blob.write_at(at, &missing).map_err(|e| fail("write the index of shard", e))?;
        }
        blob.sync().map_err(|e| fail("sync new shard", e))?;
        blob.publish().map_err(|e| fail("publish shard", e))?;
        let entries = (0..shard.chunks).map(|_| Entry::new()).collect();
        let tail = AtomicU64::new(shard.first_slot_at);
        let alignment = if shard.slot_bytes >= PAGE { blob.alignment() } else { 1 };
        let grain = if alignment > 8 { PAGE as u64 } else { 8 };
        let open_index = Mutex::new(OpenIndex::new(shard.reserve_bytes));
        Ok(Self { key, plan, place, blob, map, entries, tail, grain, open_index, poisoned: AtomicBool::new(false) })
    }

    /// What keeps a thread that writes into it.
    pub(crate) fn waits_for(&self) -> WaitsFor {
        match self.map {
            Some(_) => WaitsFor::Nothing,
            None if self.grain >= PAGE as u64 => WaitsFor::Device,
            None if self.blob.one_write_at_a_time() => WaitsFor::OtherWrites,
            None => WaitsFor::Nothing,
        }
    }

    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    fn map(&self) -> Option<NonNull<u8>> {
        self.map.as_ref().map(Mapped::start)
    }

    /// Makes the caller the one writer of `chunk`; `None` if it has one.
    #[allow(unsafe_code)]
    pub(crate) fn claim(&self, chunk: usize) -> Option<Claim<'_>> {
        let entry = self.entries.get(chunk).filter(|entry| entry.claim())?;
        let shard = &self.plan.shard;
        match self.map() {
            Some(map) if shard.fixed_slots => {
                let at = self.place(chunk, shard.slot_bytes) + shard.lead_bytes as u64;
                // SAFETY: fixed slots are disjoint and lie within the reserved length, all of which `create` saw to be mapped; the map
                // lives as long as `self`, and is this shard's alone; and the entry was claimed just above, so no other slot of this
                // chunk exists.
                Some(Claim::InPlace(unsafe { Slot::new(map, at, shard.slot_bytes - shard.lead_bytes, entry) }))
            }
            _ => Some(Claim::Elsewhere(Elsewhere { entry, shard: self, chunk })),
        }
    }

    /// Goes on with a claim on another thread.
    pub(crate) fn resume(&self, claimed: Claimed) -> Elsewhere<'_> {
        Elsewhere { entry: &self.entries[claimed.chunk], shard: self, chunk: claimed.chunk }
    }

    /// Bytes from a slot's start to its payload.
    fn before_payload(&self) -> usize {
        self.plan.shard.lead_bytes + HEADER_BYTES
    }

    /// How much is written of a chunk of `nbytes`: what stands before the payload, and that up to the next whole block.
    pub(crate) fn sealed_bytes(&self, nbytes: usize) -> usize {
        (self.before_payload() + nbytes).next_multiple_of(self.grain as usize)
    }

    /// How much of a scratch is written round a payload that stays where it is.
    pub(crate) fn sealed_bytes_round_pieces(&self) -> usize {
        self.before_payload() + self.behind_pieces(size_of::<u32>())
    }

    /// How much is written behind pieces that end with a checksum of so many bytes. Where the payload starts on a page, the
    /// whole last page is the slot's own.
    fn behind_pieces(&self, checksum_bytes: usize) -> usize {
        let grain = if self.plan.shard.lead_bytes > 0 { PAGE } else { 1 };
        checksum_bytes.next_multiple_of(grain)
    }

    /// Where `len` bytes of `chunk`, all before the payload included, go. No two calls give overlapping ranges.
    fn place(&self, chunk: usize, len: usize) -> u64 {
        let shard = &self.plan.shard;
        if shard.fixed_slots {
            return shard.first_slot_at + (chunk * shard.slot_bytes) as u64;
        }
        // Relaxed: the sum itself keeps the ranges apart; their contents are published by the entries.
        self.tail.fetch_add((len as u64).next_multiple_of(self.grain), Ordering::Relaxed)
    }

    #[allow(unsafe_code)]
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        debug_assert!(at + bytes.len() as u64 <= self.plan.shard.reserve_bytes);
        match self.map() {
            // SAFETY: callers write where `place` put a chunk, which gave the range to them alone: a slot in fixed placement, of which each
            // has one claim; else what the tail was moved on by. All ranges together fit the reserved length, because each is at most a
            // slot long and each chunk is claimed once; `create` saw that much to be mapped, and the map is this shard's alone.
            Some(map) => unsafe { slot::copy_into(map, at, bytes) },
            None => self.blob.write_at(at, bytes)?,
        }
        self.check_map()
    }

    #[allow(unsafe_code)]
    fn write_slices(&self, at: u64, slices: &mut [IoSlice]) -> io::Result<()> {
        let Some(map) = self.map() else { return self.blob.write_slices_at(at, slices) };
        let mut to = at;
        for slice in slices.iter() {
            // SAFETY: as in `write`.
            unsafe { slot::copy_into(map, to, slice) };
            to += slice.len() as u64;
        }
        self.check_map()
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

    /// No sync is tried again after one that failed.
    fn sync(&self) -> io::Result<()> {
        if self.poisoned.load(Ordering::Relaxed) {
            return Err(io::Error::other("a sync failed before, so the device may lack what was written"));
        }
        self.blob.sync().inspect_err(|_| self.poisoned.store(true, Ordering::Relaxed))
    }

    /// Closes the shard. All its writers must be done.
    ///
    /// The order keeps the file readable at every step: data reach the device before an index names them; a new index at
    /// the end stands inside the reserved range and counts only from the moment the file is cut off behind it.
    pub(crate) fn close(&self, storage: &dyn Storage) -> Result<Closed> {
        let fail = |action| move |error: io::Error| Error::io(action, &self.key, error);
        let shard = &self.plan.shard;
        let mut committed: Vec<_> = self.entries.iter().map(Entry::committed).collect();
        let in_slots = committed.iter().flatten().count() as u64;
        self.open_index().provisional.put_beside(&mut committed);
        let chunks = committed.iter().flatten().count() as u64;
        let closed = Closed {
            chunks,
            provisional: chunks - in_slots,
            bytes: committed.iter().flatten().map(|(_, nbytes)| nbytes).sum(),
        };
        if closed.chunks == 0 && !shard.keep_empty {
            storage.remove(&self.key).map_err(fail("remove empty shard"))?;
            return Ok(closed);
        }
        self.sync().map_err(fail("sync shard"))?;
        let data_end = committed.iter().flatten().map(|(at, nbytes)| at + nbytes).max().unwrap_or(shard.first_slot_at);
        self.end_with_index(&committed, data_end)?;
        self.give_back_slack(&committed, data_end).map_err(fail("give back unused space of shard"))?;
        self.sync().map_err(fail("sync finished shard"))?;
        self.blob.forget();
        Ok(closed)
    }

    /// Punches a hole between each chunk's end and the next one's header.
    fn give_back_slack(&self, committed: &[Option<(u64, u64)>], data_end: u64) -> io::Result<()> {
        let shard = &self.plan.shard;
        if !shard.fixed_slots {
            return Ok(());
        }
        let mut unused_from = shard.first_slot_at;
        let mut committed: Vec<_> = committed.iter().flatten().collect();
        committed.sort_unstable();
        for (at, nbytes) in committed {
            let slot_at = at - HEADER_BYTES as u64;
            self.punch(unused_from, slot_at)?;
            unused_from = at + nbytes;
        }
        self.punch(unused_from, data_end)
    }

    fn punch(&self, from: u64, to: u64) -> io::Result<()> {
        // What is left within a block can't be given back.
        if to > from && to - from >= PAGE as u64 { self.blob.punch(from, to - from) } else { Ok(()) }
    }
}

impl std::fmt::Debug for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shard").field("key", &self.key).finish_non_exhaustive()
    }
}
