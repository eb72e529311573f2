//! The engine: what its threads share, and whose turn it is to run the sequencer.

use std::collections::BTreeSet;
use std::ops::{Deref, Range};
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::{Arc, Mutex as StdMutex};
use std::time::{Duration, Instant};

use super::cell::ShardBlock;
use super::contrast;
use super::layer::LARGE_SLOT_BYTES;
use super::messages::Ticket;
use super::records::Records;
use super::sequencer::Sequencer;
use super::shared::{Ports, Shared, relief};
use crate::config::Config;
use crate::dataset::image::ImageWriter;
use crate::dataset::records::RecordBlock;
use crate::error::{Result, caught, caught_call};
use crate::plan::Plan;
use crate::ring::Ring;
use crate::sync::{Mutex, Relay, Sender, Unpoisoned, bounded};

pub(crate) struct Engine {
    shared: Shared,
    pub(crate) sequencer: Mutex<Sequencer>,
    /// Who runs it.
    relay: Relay,
    /// How many frames had been accepted when a caller found no free buffer, and since when that is so.
    starving: StdMutex<Option<(u64, Instant)>>,
}

/// The engine is what its threads share, with a sequencer that is given no more than that.
impl Deref for Engine {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

/// The other ends of the engine's queues, for its threads.
pub(crate) struct Ends {
    pub(super) deliver: Sender<ShardBlock>,
    pub(super) written_records: Sender<RecordBlock>,
}

impl Engine {
    /// Everything that a run needs is taken here: the ring's memory, all queues, all layers.
    pub(crate) fn new(
        image: &ImageWriter,
        plan: &Arc<Plan>,
        config: &Config,
        ring: Arc<Ring>,
        ports: &Ports,
    ) -> Result<(Arc<Self>, Ends)> {
        let (records, written_records) = Records::new(&plan.record, plan.ring.window, ring.is_shared());
        let shared = Shared::new(image, plan, config, ring, ports);
        let (deliver, prepared) = bounded(2 * plan.ring.shard_blocks_max());
        let sequencer = Sequencer::new(plan.clone(), records, shared.requests.clone(), prepared);
        let (sequencer, relay, starving) = (Mutex::new(sequencer), Relay::default(), StdMutex::default());
        Ok((Arc::new(Self { shared, sequencer, relay, starving }), Ends { deliver, written_records }))
    }

    /// Brings forward whatever can go forward now, or a part of it: the rest is for the next that comes, or a worker.
    pub(crate) fn pump(&self) {
        if self.relay.ring(|| self.run_sequencer()) {
            self.tickets.push_quietly(Ticket::Sequence);
        }
    }

    /// A worker found that it shall run the sequencer.
    pub(crate) fn answer(&self) {
        if self.relay.answer(|| self.run_sequencer()) {
            self.tickets.push_quietly(Ticket::Sequence);
        }
    }

    /// True: there is more to do.
    fn run_sequencer(&self) -> bool {
        // The relay lets one thread in at a time; the lock is never waited for but at the very end.
        let run = || Ok(self.sequencer.lock().unpoisoned().run(self));
        // A panic would leave the relay to nobody, and everybody waiting.
        caught(run).unwrap_or_else(|error| {
            self.first_error.set(error);
            !self.arrivals.1.is_empty()
        })
    }

    /// A ticket of a layer comes back. If it is the last one, the layer's frames are free, and perhaps its shards full.
    pub(super) fn return_ticket(&self, slot: u32) {
        let layer_slot = self.layers.slot(slot);
        if !layer_slot.return_ticket() {
            return;
        }
        let mut layer = layer_slot.layer.write().unpoisoned();
        // Without its shards, nobody could store anything.
        let failed = layer_slot.failed.load(Relaxed) || layer.state.cell.is_none();
        if let Some(contrast) = self.contrast.as_ref().filter(|contrast| contrast.is_open()) {
            contrast::look(contrast, self, &layer);
        }
        let (present, first_chunk) = (u64::from(layer.state.present), layer.state.first_chunk);
        let first_frame = layer.state.first_frame;
        let shard = &self.plan.shard;
        if let Some(cell) = &layer.state.cell {
            let place = first_chunk / shard.layer_chunks;
            if failed {
                cell.layers_failed.lock().unpoisoned().push(place);
            }
            cell.layers_done[place].store(true, Release);
        }
        if failed {
            self.losses.add_layer(layer.numbers(&self.plan.layers));
        } else {
            self.counters.frames_written.fetch_add(present, Relaxed);
            if let Some(cell) = &layer.state.cell {
                // Release: whoever sees the frames sees that their layer is done.
                cell.frames_written.fetch_add(present, Release);
            }
        }
        self.counters.frames_done.fetch_add(u64::from(layer.state.present), Relaxed);
        let next_level = self.next_level.get();
        if next_level.is_none() {
            layer.frames.iter_mut().filter_map(Option::take).for_each(|frame| self.ring.release(frame));
        }
        let (cell, turn) = (layer.state.cell.take(), layer.state.turn);
        drop(layer);
        if let Some(cell) = cell {
            // Where a layer's chunks lie scattered over all shards, they have no range.
            let together = self.plan.array.layout.has_boxes();
            if shard.slot_bytes < LARGE_SLOT_BYTES && together {
                let chunks = first_chunk..first_chunk + shard.layer_chunks;
                // A panic in a storage of the caller's own must not keep the layer for ever.
                let tell = || cell.shards.iter().for_each(|of| of.done_with(chunks.clone()));
                caught_call(tell).unwrap_or_else(|error| self.first_error.set_about(error, Some(first_frame)));
            }
            self.layer_done(cell);
        }
        match next_level {
            Some(stored) => stored.put(Some((self.closings.image, turn, slot))),
            None => {
                self.layers.free(slot);
                self.pump();
            }
        }
    }

    /// A layer whose frames went to the next level: nobody reads them any more.
    pub(super) fn free_layer(&self, slot: u32) {
        let mut layer = self.layers.slot(slot).layer.write().unpoisoned();
        layer.frames.iter_mut().filter_map(Option::take).for_each(|frame| self.ring.release(frame));
        drop(layer);
        self.layers.free(slot);
        self.pump();
    }

    /// Brings every frame to the workers, and every layer that will not be complete as well. No more may come. False:
    /// it has to be tried again.
    pub(crate) fn try_drain(&self) -> bool {
        self.pump();
        let mut sequencer = self.sequencer.lock().unpoisoned();
        sequencer.is_idle() && self.arrivals.1.is_empty() && sequencer.flush(self)
    }

    /// Returns when that is done of all these.
    pub(crate) fn drain<'a>(engines: impl IntoIterator<Item = &'a Arc<Self>>) {
        try_until_done(engines.into_iter().collect(), |engine| engine.try_drain());
    }

    /// The numbers below `end` that never came, and those that came and could not be stored.
    pub(crate) fn missing_and_lost(&self, end: u64) -> (Vec<Range<u64>>, BTreeSet<u64>) {
        let missing = self.sequencer.lock().unpoisoned().missing.clone();
        let lost = self.losses.numbers(&self.plan, &missing, end);
        (missing, lost)
    }

    /// As many frames came to the level below as these, before nothing more comes.
    pub(crate) fn reach(&self, frames: u64) {
        self.sequencer.lock().unpoisoned().reach(frames);
    }

    /// A caller finds no free buffer. See [`Sequencer::relieve`]; it is not called before nothing has been committed
    /// for a while, because another thread's commit is the better help.
    pub(crate) fn relieve(&self) {
        const AFTER: Duration = Duration::from_millis(200);
        const FOR_LONG: Duration = Duration::from_secs(1);
        let (accepted, now) = (self.counters.frames_accepted.load(Relaxed), Instant::now());
        let since = {
            let mut starving = self.starving.lock().unpoisoned();
            match *starving {
                Some((of, since)) if of == accepted => since,
                _ => starving.insert((accepted, now)).1,
            }
        };
        let time = now - since;
        if time >= AFTER {
            self.relief.fetch_max(if time >= FOR_LONG { relief::FOR_LONG } else { relief::WANTED }, Relaxed);
            self.pump();
        }
    }
}

/// Tries each of these again and again until it is done.
pub(super) fn try_until_done<T>(mut left: Vec<T>, is_done: impl Fn(&T) -> bool) {
    loop {
        left.retain(|thing| !is_done(thing));
        if left.is_empty() {
            return;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}
