//! The frames that one row of chunks needs, while they gather and while workers encode them.

use std::sync::Arc;
use std::time::Instant;

use super::cell::ShardCell;
use crate::geometry::{CellOf, Cells};
use crate::ring::Frame;
use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use crate::sync::{Receiver, RwLock, Sender, bounded};

// A slot this long is handed back to the system as soon as it is full; shorter ones, a layer's together.
pub(super) const LARGE_SLOT_BYTES: usize = 256 << 10;

/// A fixed number of layers, reused for the whole run.
pub(crate) struct Layers {
    slots: Box<[LayerSlot]>,
    pub(crate) free: Receiver<u32>,
    freed: Sender<u32>,
}

/// One layer and the counters with which workers share it out.
///
/// The lock never makes anyone wait: the sequencer writes before the first ticket is given out, workers read while they
/// hold tickets, and the one that returns the last ticket writes.
pub(crate) struct LayerSlot {
    pub(crate) layer: RwLock<Layer>,
    /// The next tile that nobody has taken.
    pub(crate) next_tile: AtomicU32,
    tickets_left: AtomicU32,
    /// Tickets that are yet to be sent, by the workers that got one: a commit shall not wake them all.
    unsent: AtomicU32,
    /// A tile of it could not be stored.
    pub(crate) failed: AtomicBool,
}

/// Block and cell.
pub(crate) type LayerPlace = (u64, u64);

/// Where a layer stands, and which of its frames came so far.
#[derive(Clone, Default)]
pub(crate) struct LayerState {
    pub(crate) at: LayerPlace,
    pub(crate) present: u32,
    pub(crate) first_frame: u64,
    pub(crate) last_frame: u64,
    pub(crate) cell: Option<Arc<ShardCell>>,
    /// It has none because the shards are closed for a while.
    pub(crate) is_detached: bool,
    /// Its first chunk in each shard of the cell.
    pub(crate) first_chunk: usize,
    /// How many layers were given to the workers before it.
    pub(crate) turn: u64,
}

pub(crate) struct Layer {
    pub(crate) state: LayerState,
    /// The frames that came, by their place in the chunk.
    pub(crate) frames: Box<[Option<Frame>]>,
    /// Planes of each stack that the chunks have: fewer than they are deep where they end with the array.
    pub(crate) planes_kept: u64,
    /// Frames that are neither present nor known to be missing.
    pub(crate) unsettled: u64,
    pub(crate) ready_at: Instant,
}

impl Layers {
    /// `slots` layers of up to `depth` frames.
    pub(crate) fn new(slots: usize, depth: usize) -> Self {
        let (freed, free) = bounded(slots);
        for slot in 0..slots as u32 {
            let sent = freed.try_send(slot);
            debug_assert!(sent.is_ok(), "the queue holds all layers");
        }
        let slot = |_| LayerSlot {
            layer: RwLock::new(Layer::new(depth)),
            next_tile: AtomicU32::new(0),
            tickets_left: AtomicU32::new(0),
            unsent: AtomicU32::new(0),
            failed: AtomicBool::new(false),
        };
        Self { slots: (0..slots).map(slot).collect(), free, freed }
    }

    pub(crate) fn count(&self) -> usize {
        self.slots.len()
    }

    /// How many gather frames or are with the workers.
    pub(crate) fn in_use(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn slot(&self, slot: u32) -> &LayerSlot {
        &self.slots[slot as usize]
    }

    /// The layer may be used for other frames.
    pub(crate) fn free(&self, slot: u32) {
        let sent = self.freed.try_send(slot);
        debug_assert!(sent.is_ok(), "the queue holds all layers");
    }
}

impl LayerSlot {
    /// Makes the layer ready for `tickets` workers, of which the caller sends the first. The queue that carries the
    /// tickets publishes all of it.
    pub(crate) fn open_to_workers(&self, tickets: u32) {
        self.next_tile.store(0, Ordering::Relaxed);
        self.failed.store(false, Ordering::Relaxed);
        self.tickets_left.store(tickets, Ordering::Relaxed);
        self.unsent.store(tickets - 1, Ordering::Relaxed);
    }

    /// Whether the holder of a ticket shall send one more.
    pub(crate) fn take_unsent(&self) -> bool {
        // Only holders of a ticket come here, so the count belongs to their layer. Relaxed: the count says it all.
        self.unsent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |unsent| unsent.checked_sub(1)).is_ok()
    }

    /// One more thread works for the layer, on behalf of one that still holds a ticket.
    pub(crate) fn add_ticket(&self) {
        self.tickets_left.fetch_add(1, Ordering::Relaxed);
    }

    /// Gives a ticket back; true for the last one.
    ///
    /// AcqRel: every worker's reads of the frames happen before the last one releases them.
    pub(crate) fn return_ticket(&self) -> bool {
        self.tickets_left.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

impl Layer {
    fn new(depth: usize) -> Self {
        let frames = (0..depth).map(|_| None).collect();
        Self { state: LayerState::default(), frames, planes_kept: 0, unsettled: 0, ready_at: Instant::now() }
    }

    /// Starts to gather frames of another place.
    pub(crate) fn begin(&mut self, at: &CellOf, cell: Arc<ShardCell>, first_chunk: usize, unsettled: u64) {
        debug_assert!(self.frames.iter().all(Option::is_none));
        let (at, first_frame) = ((at.block, at.cell), u64::MAX);
        self.state = LayerState { at, first_frame, cell: Some(cell), first_chunk, ..LayerState::default() };
        self.unsettled = unsettled;
    }

    /// The numbers of the frames that came.
    pub(crate) fn numbers<'a>(&'a self, layers: &'a Cells) -> impl Iterator<Item = u64> + 'a {
        let (block, cell) = self.state.at;
        layers.block_frames(block).filter(move |&number| {
            let at = layers.locate(number);
            at.cell == cell && self.frames[at.place as usize].is_some()
        })
    }

    pub(crate) fn put(&mut self, place: usize, number: u64, frame: Frame) {
        debug_assert!(self.frames[place].is_none());
        self.frames[place] = Some(frame);
        self.unsettled -= 1;
        self.state.present += 1;
        self.state.first_frame = self.state.first_frame.min(number);
        self.state.last_frame = self.state.last_frame.max(number);
    }
}

#[cfg(all(test, loom))]
mod loom {
    use super::*;
    use ::loom::cell::UnsafeCell;
    use ::loom::thread;

    #[test]
    #[allow(unsafe_code)]
    fn the_last_ticket_takes_the_frames_alone() {
        ::loom::model(|| {
            // The cell stands for the frames: read by whoever has a ticket, taken by whoever returns the last.
            let shared = Arc::new((Layers::new(1, 1), UnsafeCell::new(7)));
            shared.0.slot(shared.0.free.try_recv().unwrap()).open_to_workers(2);
            let work = || {
                let shared = shared.clone();
                move || {
                    let slot = shared.0.slot(0);
                    assert!(slot.next_tile.fetch_add(1, Ordering::Relaxed) < 2);
                    // SAFETY: nobody takes the frames before this ticket is back; if not, loom fails the test.
                    shared.1.with(|frames| assert_eq!(unsafe { *frames }, 7));
                    let last = slot.return_ticket();
                    if last {
                        // SAFETY: all tickets are back.
                        shared.1.with_mut(|frames| unsafe { *frames = 0 });
                        shared.0.free(0);
                    }
                    last
                }
            };
            let (one, two) = (thread::spawn(work()), thread::spawn(work()));
            assert!(one.join().unwrap() != two.join().unwrap());
            assert_eq!(shared.0.free.len(), 1);
        });
    }
}
