//! Workers' memory for chunks on their way to whoever writes them.
//!
//! How long a chunk is shows when it is encoded. Until then its worker has room for the longest; then the chunk keeps
//! what it fills, and the next one's room begins right behind it. So the same memory holds more chunks the better they
//! compress, which keeps a device busy with long writes.

use std::ops::{Deref, Range};
use std::sync::Arc;

use crate::aligned_memory::{AlignedMemory, PAGE};
use crate::plan::Plan;
use crate::shard::BATCH_MAX;
use crate::shard::WaitsFor;
use crate::storage::WRITES_AT_ONCE;
use crate::sync::{Condvar, Mutex, MutexGuard, Unpoisoned};

// To spare beside the slots that workers fill. At least this many small ones; who has less memory for frames has less
// for these, too.
const SPARE_SLOTS_MIN: usize = 8;
const SPARE_BYTES_MIN: usize = 16 << 20;
const SHARE_OF_RING: usize = 16;
// For a device, whose writes now and then take many times as long as most: the workers go on meanwhile. With what they
// have for themselves, several times a chunk each, it shall stay below this.
const WORKERS_BYTES: usize = 64 << 20;
const SLOTS_A_WORKER: usize = 6;
const SPARE_BYTES_MAX: usize = 48 << 20;

const TOUCHED_SLOT_BYTES_MAX: usize = 4 << 20;

/// Chunks that wait to be written. Memory is what limits them, unless they are small.
pub(crate) const JOBS_MAX: usize = 4 * BATCH_MAX;
/// Chunks that wait, those that each of the writers has taken from there, and the one that is made.
const SPANS_MAX: usize = JOBS_MAX + WRITES_AT_ONCE * (BATCH_MAX + 1) + 1;

pub(crate) struct Arena {
    shared: Arc<ArenaMemory>,
    /// Where the next chunk is made.
    open: Option<Range<usize>>,
}

impl Arena {
    /// Its pages are there when the first chunk comes; with long slots, which few chunks fill, when they are first
    /// used.
    pub(crate) fn new(plan: &Plan, waits_for: WaitsFor) -> std::io::Result<Self> {
        let bytes = Self::bytes(plan, waits_for);
        let memory = AlignedMemory::new(1, bytes)?;
        // Nobody uses it who encodes into a map.
        let touched = waits_for != WaitsFor::Nothing && plan.shard.slot_bytes <= TOUCHED_SLOT_BYTES_MAX;
        let memory = if touched { memory.touched() } else { memory };
        Ok(Self {
            shared: Arc::new(ArenaMemory { memory, spans: Spans::new(bytes, plan.shard.slot_bytes) }),
            open: None,
        })
    }

    /// How much each worker has: a slot, and its part of what is to spare where a queue leads to whoever writes.
    pub(crate) fn bytes(plan: &Plan, waits_for: WaitsFor) -> usize {
        let slot = Spans::whole(plan.shard.slot_bytes, plan.shard.slot_bytes);
        let slots = plan.workers * slot;
        let few = (SPARE_SLOTS_MIN * slot).min(SPARE_BYTES_MIN).max(slot);
        let spare = match waits_for {
            WaitsFor::Nothing => return slot,
            WaitsFor::OtherWrites => few,
            WaitsFor::Device => {
                let beside_workers = WORKERS_BYTES.saturating_sub(SLOTS_A_WORKER * slots);
                let spare = beside_workers.max(slots).clamp(SPARE_BYTES_MIN, SPARE_BYTES_MAX);
                let ring_bytes = plan.ring.buffers * plan.frame.layout.buffer_bytes;
                few.max(spare.min(ring_bytes / SHARE_OF_RING).min(JOBS_MAX * slot))
            }
        };
        // With less than half a slot to spare, hardly a chunk could be made while the one before is written.
        slot + Spans::whole((spare / plan.workers).max(slot / 2), slot)
    }

    /// Memory for a slot, from its start. Waits for writes to end if there is none.
    #[allow(unsafe_code)]
    pub(crate) fn open(&mut self) -> &mut [u8] {
        let place = self.open.get_or_insert_with(|| self.shared.spans.take()).clone();
        // SAFETY: the place was given to nobody else, and this is borrowed exclusively.
        unsafe { self.shared.memory.write_part(0, place) }
    }

    /// Whether there would be room for a further slot if the open one kept this many bytes.
    pub(crate) fn has_room_beside(&self, bytes: usize) -> bool {
        self.open.as_ref().is_some_and(|open| self.shared.spans.has_room_beside(open.start, bytes))
    }

    /// What was made in the open slot: its first `bytes`.
    pub(crate) fn close(&mut self, bytes: usize) -> Scratch {
        let place = self.open.take().expect("somebody made a chunk in it");
        Scratch { place: self.shared.spans.keep(place.start, bytes), shared: self.shared.clone() }
    }
}

/// What a chunk keeps of a worker's memory, until it is written.
pub(crate) struct Scratch {
    shared: Arc<ArenaMemory>,
    place: Range<usize>,
}

impl Deref for Scratch {
    type Target = [u8];

    #[allow(unsafe_code)]
    fn deref(&self) -> &[u8] {
        // SAFETY: the place is this one's until it is given back, and nobody writes it any more.
        unsafe { self.shared.memory.read_part(0, self.place.clone()) }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.shared.spans.give_back(self.place.start);
    }
}

struct ArenaMemory {
    memory: AlignedMemory,
    spans: Spans,
}

/// Which parts of some memory are in use. One thread takes, others give back.
struct Spans {
    bytes: usize,
    slot_bytes: usize,
    used: Mutex<Used>,
    came_back: Condvar,
}

struct Used {
    /// In order.
    spans: Vec<Range<usize>>,
    is_waited_for: bool,
}

impl Spans {
    fn new(bytes: usize, slot_bytes: usize) -> Self {
        let spans = Vec::with_capacity(SPANS_MAX.min(bytes / Self::whole(1, slot_bytes) + 1));
        let used = Used { spans, is_waited_for: false };
        Self { bytes, slot_bytes, used: Mutex::new(used), came_back: Condvar::new() }
    }

    /// Spans start on pages, for writes past the page cache; small ones on cache lines.
    fn whole(bytes: usize, slot_bytes: usize) -> usize {
        let page = PAGE;
        bytes.max(1).next_multiple_of(if slot_bytes >= page / 2 { page } else { 64 })
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unpoisoned()
    }

    /// A place for a slot. The first that there is: caches may still hold it.
    fn take(&self) -> Range<usize> {
        let mut used = self.used();
        loop {
            if let Some((index, start)) = self.gap(&used.spans) {
                let place = start..start + self.slot_bytes;
                used.spans.insert(index, place.clone());
                return place;
            }
            used.is_waited_for = true;
            used = self.came_back.wait(used).unpoisoned();
        }
    }

    /// Where the first gap for a slot is, and before which of the spans.
    fn gap(&self, spans: &[Range<usize>]) -> Option<(usize, usize)> {
        let starts = spans.iter().map(|place| place.start).chain([self.bytes]);
        let mut gap_start = 0;
        for (index, start) in starts.enumerate() {
            if start - gap_start >= self.slot_bytes {
                return Some((index, gap_start));
            }
            gap_start = spans.get(index).map_or(start, |place| Self::whole(place.end, self.slot_bytes));
        }
        None
    }

    fn index(spans: &[Range<usize>], start: usize) -> usize {
        spans.binary_search_by_key(&start, |place| place.start).expect("it was taken")
    }

    fn keep(&self, start: usize, bytes: usize) -> Range<usize> {
        let mut used = self.used();
        let index = Self::index(&used.spans, start);
        let place = start..start + bytes.min(self.slot_bytes);
        used.spans[index] = place.clone();
        place
    }

    fn has_room_beside(&self, start: usize, bytes: usize) -> bool {
        let mut used = self.used();
        let index = Self::index(&used.spans, start);
        let whole = std::mem::replace(&mut used.spans[index], start..start + bytes);
        let has_room = self.gap(&used.spans).is_some();
        used.spans[index] = whole;
        has_room
    }

    fn give_back(&self, start: usize) {
        let mut used = self.used();
        let index = Self::index(&used.spans, start);
        used.spans.remove(index);
        // Waking costs a call into the kernel, whether somebody waits or not; and who is woken before the lock is given
        // up finds it held.
        let wake = used.is_waited_for && self.gap(&used.spans).is_some();
        used.is_waited_for &= !wake;
        drop(used);
        if wake {
            self.came_back.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_place_begins_right_behind_what_a_chunk_keeps() {
        let spans = Spans::new(3 << 16, 1 << 16);
        let first = spans.take();
        assert_eq!(first, 0..1 << 16);
        assert_eq!(spans.keep(first.start, 5000), 0..5000);
        assert_eq!(spans.take().start, 8192, "spans start on pages");
    }

    #[test]
    fn what_came_back_is_used_again_once_it_is_long_enough() {
        let spans = Spans::new(2 << 16, 1 << 16);
        let [one, two] = [0, 1].map(|_| spans.keep(spans.take().start, 1 << 15));
        let third = spans.take();
        assert_eq!(third.start, 1 << 16, "behind both");
        spans.give_back(one.start);
        assert!(spans.gap(&spans.used().spans).is_none(), "half a slot is none");
        spans.give_back(two.start);
        assert_eq!(spans.take().start, 0);
    }

    #[test]
    fn there_is_room_beside_a_short_chunk_only() {
        let spans = Spans::new(3 << 15, 1 << 16);
        let open = spans.take();
        assert!(spans.has_room_beside(open.start, 1 << 15));
        assert!(!spans.has_room_beside(open.start, (1 << 15) + 1));
        assert_eq!(spans.used().spans, [open], "it was only asked");
    }
}

#[cfg(all(test, loom))]
mod loom {
    use ::loom::cell::UnsafeCell;
    use ::loom::sync::Arc;
    use ::loom::thread;

    use super::*;

    /// Memory for one slot and half of one: the third chunk has none before another came back.
    #[test]
    #[allow(unsafe_code)]
    fn a_place_is_one_chunks_alone_and_who_waits_for_one_gets_it() {
        let mut model = ::loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let cells: [UnsafeCell<usize>; 3] = std::array::from_fn(|_| UnsafeCell::new(0));
            let shared = Arc::new((Spans::new(192, 128), cells));
            let touch = |shared: &(Spans, [UnsafeCell<usize>; 3]), place: Range<usize>| {
                for cell in &shared.1[place.start / 64..place.end / 64] {
                    // SAFETY: one thread at a time; if not, loom fails the test.
                    cell.with_mut(|uses| unsafe { *uses += 1 });
                }
            };
            let writers: Vec<_> = (0..3)
                .map(|_| {
                    let place = shared.0.take();
                    touch(&shared, place.clone());
                    let kept = shared.0.keep(place.start, 64);
                    let shared = shared.clone();
                    thread::spawn(move || {
                        touch(&shared, kept.clone());
                        shared.0.give_back(kept.start);
                    })
                })
                .collect();
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            assert!(shared.0.used().spans.is_empty());
        });
    }
}
