//! What all threads of one acquisition share, but for the sequencer: that one and its parts can't reach themselves from
//! here.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Arc, Mutex as StdMutex, OnceLock};
use std::time::Duration;

use super::cell::{OpenCells, ShardCell};
use super::closings::Closings;
use super::counters::{Counters, FirstError, StageTimes};
use super::effort::EffortChanges;
use super::layer::{LayerState, Layers};
use super::losses::Losses;
use super::messages::{Arrival, Closing, ClosingOf, ClosingPort, Listener, PrepareBlock, Requests, StoredOf, Ticket};
use super::numbers::Numbers;
use super::parked::ParkedBlocks;
use super::unstored::UnstoredRecords;
use crate::codec::{Effort, Encoder};
use crate::config::{Codec, Config};
use crate::dataset::image::ImageWriter;
use crate::error::{Error, Result, logged};
use crate::format::part::PartMap;
use crate::format::slot_header::Origin;
use crate::ome::contrast::Contrast;
use crate::plan::Plan;
use crate::ring::Ring;
use crate::stats::{Stage, StageLatency, Stats, report};
use crate::sync::{Gate, Lane, Lanes, Receiver, Sender, Unpoisoned, bounded, event};

/// What callers that find no free buffer want of the sequencer.
pub(super) mod relief {
    pub(in super::super) const NONE: u8 = 0;
    pub(in super::super) const WANTED: u8 = 1;
    pub(in super::super) const FOR_LONG: u8 = 2;
}

pub(crate) struct Shared {
    pub(crate) plan: Arc<Plan>,
    pub(crate) codec: Codec,
    pub(crate) skip_empty_chunks: bool,
    /// Bytes are waited for until they are on the device.
    pub(crate) sync: bool,
    /// For checkpoints.
    pub(crate) open_cells: OpenCells,
    pub(crate) dataset_uuid: [u8; 16],
    /// Of one of several writers, which frames and shards of the run it has.
    pub(crate) part: Option<PartMap>,
    pub(crate) ring: Arc<Ring>,
    pub(crate) numbers: Numbers,
    /// Closed when no more frames are taken.
    pub(crate) gate: Gate,
    pub(crate) arrivals: (Sender<Arrival>, Receiver<Arrival>),
    pub(crate) layers: Layers,
    pub(crate) tickets: Lane<Ticket>,
    pub(crate) requests: Arc<Requests>,
    pub(crate) closings: ClosingPort,
    pub(crate) counters: Counters,
    pub(crate) first_error: Arc<FirstError>,
    pub(crate) losses: Losses,
    pub(crate) unstored_records: UnstoredRecords,
    /// Of a level below another, where layers go when they are stored, to be freed there.
    pub(super) next_level: OnceLock<Arc<Closings<StoredOf>>>,
    /// Who wants to hear of closed shards.
    pub(crate) shard_closed: StdMutex<Option<Listener>>,
    /// How often that panicked, and with what at first.
    pub(crate) listener_failures: StdMutex<(u64, Option<Error>)>,
    /// What is still in the ring shall not be encoded any more, nor in those of the image's levels.
    pub(crate) aborting: Arc<AtomicBool>,
    /// The last block of shards that a frame waits for or has got.
    pub(crate) needed_block: AtomicU64,
    /// The run has ended, and whoever watches was told.
    pub(crate) ended: AtomicBool,
    /// No further shard will be needed.
    pub(crate) needs_no_more: AtomicBool,
    /// That callers find no free buffer, and whether for long: see [`Engine::relieve`](super::pump::Engine::relieve).
    pub(super) relief: AtomicU8,
    /// An [`Effort`]. Relaxed: whichever a worker sees, its chunk is right.
    effort: AtomicU8,
    /// Where windows of channels are to be found.
    pub(super) contrast: Option<Arc<Contrast>>,
    pub(crate) effort_changes: StdMutex<EffortChanges>,
    /// Of all images of the dataset.
    times: Arc<[StageTimes]>,
    pub(super) parked: ParkedBlocks,
    /// When frames came last, by a clock that all images share.
    pub(super) used_at: AtomicU64,
    clock: Arc<AtomicU64>,
    /// Something went wrong that keeps layers for ever.
    pub(super) is_broken: AtomicBool,
}

/// What leads from an image to the threads that work for it and others.
pub(crate) struct Ports {
    /// A number that no other image has.
    pub(super) image: u32,
    pub(super) tickets: Arc<Lanes<Ticket>>,
    pub(super) requests: Arc<Lanes<PrepareBlock>>,
    pub(super) closings: Arc<Closings<ClosingOf>>,
    pub(super) clock: Arc<AtomicU64>,
    /// One for the callers, one for the finalizer's threads, one for each worker.
    pub(super) times: Arc<[StageTimes]>,
    /// Of a level, those of level 0, whose errors and whose abort are this one's.
    pub(super) level_of: Option<(Arc<FirstError>, Arc<AtomicBool>)>,
}

impl Shared {
    pub(super) fn new(image: &ImageWriter, plan: &Arc<Plan>, config: &Config, ring: Arc<Ring>, ports: &Ports) -> Self {
        let blocks = plan.ring.shard_blocks_max();
        let (first_error, aborting) = ports.level_of.clone().unzip();
        Self {
            codec: config.codec.clone(),
            skip_empty_chunks: config.skip_empty_chunks,
            sync: config.sync,
            open_cells: OpenCells::default(),
            dataset_uuid: image.uuid,
            part: image.root().part,
            numbers: Numbers::new(plan.ring.window, plan.ring.frames, plan.frames_total, plan.ring.leap_max),
            gate: Gate::default(),
            arrivals: bounded(plan.ring.frames),
            layers: Layers::new(plan.ring.layer_slots, plan.layers.frames_a_cell() as usize),
            // The first ticket of each layer, and one to run the sequencer.
            tickets: Lane::new(&ports.tickets, ports.image, plan.ring.layer_slots + 2),
            requests: Arc::new(Requests::new(&ports.requests, ports.image, 2 * blocks)),
            closings: ClosingPort::new(&ports.closings, ports.image),
            counters: Counters::default(),
            first_error: first_error.unwrap_or_else(|| Arc::new(FirstError::new(ring.watchers.clone()))),
            next_level: OnceLock::new(),
            losses: Losses::default(),
            unstored_records: UnstoredRecords::default(),
            shard_closed: StdMutex::default(),
            listener_failures: StdMutex::default(),
            aborting: aborting.unwrap_or_default(),
            needed_block: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            needs_no_more: AtomicBool::new(false),
            relief: AtomicU8::new(relief::NONE),
            effort: AtomicU8::new(plan.efforts.last().copied().unwrap_or(Effort::Normal) as u8),
            contrast: image.contrast.clone(),
            effort_changes: StdMutex::default(),
            times: ports.times.clone(),
            parked: ParkedBlocks::default(),
            used_at: AtomicU64::new(0),
            clock: ports.clock.clone(),
            is_broken: AtomicBool::new(false),
            ring,
            plan: plan.clone(),
        }
    }

    /// What makes chunks of tiles that are copied together.
    pub(super) fn encoder(&self) -> Result<Encoder> {
        Encoder::new(&self.codec, self.plan.frame.dtype.size(), self.plan.shard.chunk_bytes)
    }

    /// With how much effort the next chunk is to be made.
    pub(super) fn effort(&self) -> Effort {
        Effort::ALL[usize::from(self.effort.load(Relaxed))]
    }

    pub(super) fn set_effort(&self, effort: Effort) {
        self.effort.store(effort as u8, Relaxed);
    }

    /// A layer is complete. Whoever committed its last frame wakes a worker for it only if layers take half of the ring
    /// already.
    pub(super) fn offer_layer(&self, slot: u32) {
        let frames_waiting = self.layers.in_use() * self.plan.layers.frames_a_cell() as usize;
        match 2 * frames_waiting > self.ring.frames() * self.plan.frame.samples() {
            true => self.tickets.push(Ticket::Layer(slot)),
            false => self.tickets.push_quietly(Ticket::Layer(slot)),
        }
    }

    /// The caller needs a buffer: frames that hold some shall not wait until a worker looks by itself.
    pub(crate) fn wake_if_work_waits(&self) {
        if !self.tickets.is_empty() {
            self.tickets.wake();
        }
    }

    /// The error of a caller that found no free buffer.
    pub(crate) fn ring_full(&self, waited: Duration) -> Error {
        let (frames, free, counters) = (self.ring.frames(), self.ring.free_frames(), &self.counters);
        let samples = self.plan.frame.samples() as u64;
        let within = |frames: u64, to: u64, limit: usize| {
            usize::try_from((frames / samples).saturating_sub(to)).unwrap_or(0).min(limit)
        };
        // Each of a moment of its own, but never more than there are.
        let released = self.ring.released.load(Relaxed);
        let busy = frames - free.min(frames);
        let own = self.ring.share_held().map_or(busy, |held| held.min(busy));
        let committed = within(counters.frames_accepted.load(Relaxed), released, own);
        let done = counters.frames_done.load(Relaxed) / samples;
        let in_work = within(counters.frames_begun.load(Relaxed), done, committed);
        let (on_loan, others) = (own - committed, busy - own);
        Error::RingFull { frames, on_loan, waiting: committed - in_work, in_work, others, waited }
    }

    /// Somebody wants to hear of the ring: what waits for nothing but that is looked after from now on.
    pub(crate) fn look_at_the_ring(&self) {
        self.ring.note_level();
        self.closings.put(Closing::Look);
    }

    /// Takes no more frames, and returns when those that are being committed are in the queue.
    pub(crate) fn close_gate(&self) {
        self.gate.close();
        // Whoever waits for a buffer does so in vain.
        self.ring.watchers.tell(event::BUFFER_FREE);
    }

    /// The run has ended; nothing more happens. What the caller's functions own is let go of: it may be a handle that
    /// would keep this alive.
    pub(crate) fn tell_end(&self) {
        self.ended.store(true, Release);
        self.ring.watchers.tell(event::ENDED);
        self.ring.watchers.end();
        let listener = self.shard_closed.lock().unpoisoned().take();
        drop(listener);
    }

    pub(crate) fn caller_times(&self) -> &StageTimes {
        &self.times[0]
    }

    pub(crate) fn finalizer_times(&self) -> &StageTimes {
        &self.times[1]
    }

    pub(crate) fn worker_times(&self, worker: usize) -> &StageTimes {
        &self.times[2 + worker]
    }

    pub(crate) fn count_chunk(&self, nbytes: usize) {
        self.counters.bytes_out.fetch_add(nbytes as u64, Relaxed);
        self.counters.chunks_written.fetch_add(1, Relaxed);
    }

    /// What the header of a chunk says: the one of a layer in a shard of its cell.
    pub(super) fn origin(&self, layer: &LayerState, cell: &ShardCell, across: usize, chunk: usize) -> Origin {
        let origin = Origin {
            dataset: self.dataset_uuid,
            shard: cell.first_number + across as u64,
            chunk: chunk as u32,
            first_frame: layer.first_frame,
            frames: (layer.last_frame - layer.first_frame).min(u64::from(u32::MAX)) as u32,
            frames_came: u16::try_from(layer.present).unwrap_or(0),
            checksum_in_payload: self.plan.shard.checksum,
        };
        self.part.map_or(origin, |part| part.of_run(origin))
    }

    /// Who listens for closed shards panicked, as an upload may; the shard itself is whole.
    pub(super) fn note_listener_failure(&self, key: &str, error: Error) {
        logged(|| tracing::error!(shard = key, %error, "on_shard_closed panicked"));
        let mut failures = self.listener_failures.lock().unpoisoned();
        failures.0 += 1;
        failures.1.get_or_insert(error);
    }

    /// Frames came.
    pub(super) fn note_use(&self) {
        self.used_at.store(self.clock.load(Relaxed), Relaxed);
    }

    /// How long each stage took, over all threads.
    pub(crate) fn latencies(&self) -> Vec<StageLatency> {
        Stage::ALL.iter().map(|&stage| report(stage, self.times.iter().map(|times| times.of(stage)))).collect()
    }

    pub(crate) fn stats(&self) -> Stats {
        let counters = &self.counters;
        // The counters are read one after the other, while they grow: a frame that is durable counts as written, also
        // where that was done for a layer that waits for more, and one that is written was accepted.
        let frames_durable = counters.frames_durable.load(Relaxed);
        let frames_written = counters.frames_written.load(Relaxed).max(frames_durable);
        let frames_accepted = counters.frames_accepted.load(Acquire).max(frames_written);
        let ring_frames = self.ring.frames();
        Stats {
            frames_accepted,
            frames_written,
            frames_durable,
            frames_missing: counters.frames_missing.load(Relaxed),
            frames_dropped: counters.frames_dropped.load(Relaxed),
            bytes_in: frames_accepted * (self.plan.frame.bytes / self.plan.frame.samples()) as u64,
            bytes_out: counters.bytes_out.load(Relaxed),
            // An image that shares the ring may end in between.
            ring_free: self.ring.free_frames().min(ring_frames),
            ring_frames,
            shards_closed: counters.shards_closed.load(Relaxed),
        }
    }

    /// This many frames are durable, as many as before or more.
    pub(crate) fn note_durable(&self, frames: u64) {
        if self.counters.frames_durable.fetch_max(frames, Relaxed) < frames {
            self.ring.watchers.tell(event::DURABLE);
        }
    }

    /// Counts a layer of a cell as done and closes the cell after its last one.
    pub(crate) fn layer_done(&self, cell: Arc<ShardCell>) {
        if cell.layer_done() {
            self.closings.put(Closing::Cell(cell));
        }
    }

    /// The first frame that the first error is about. None if no frame so new has come: a place in a chunk that nothing
    /// filled has a number as well.
    pub(crate) fn first_error_frame(&self) -> Option<u64> {
        let frame = self.first_error.frame().filter(|&frame| frame < self.counters.newest_end.load(Relaxed));
        frame.map(|frame| self.told(frame))
    }

    pub(super) fn newest_end(&self) -> u64 {
        self.counters.newest_end.load(Relaxed)
    }
}
