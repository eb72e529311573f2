//! The flow of frames: from a committed buffer to a closed shard.
//!
//! ```text
//! caller's thread            workers                     preparer          closer
//! commit ─ Numbers::claim
//!        └ arrivals ─ Sequencer: layer complete?
//!                         └ tickets ─ gather, encode, store
//!                                      └ last ticket: frames back to the ring
//!                                         └ last layer of a shard ──────── close, documents
//!                         └ a new block of shards begins ─ create the next
//! ```
//!
//! The sequencer is not a thread: whoever commits a frame, frees a layer or delivers a shard runs it, one at a time, and
//! nobody waits for it, nor does anyone run it for long (see [`Relay`]). Nor does a commit wake anybody while the ring has room: a worker that has nothing to
//! do, and the preparer, look by themselves whether something came (see [`PolledQueue`]).

mod arrival;
mod blocks;
mod cell;
pub(crate) mod closings;
pub(crate) mod finalizer;
mod gather;
pub(crate) mod layer;
pub(crate) mod losses;
pub(crate) mod numbers;
mod pieces;
mod provisional;
pub(crate) mod records;
pub(crate) mod scratch;
pub(crate) mod sequencer;
pub(crate) mod threads;
pub(crate) mod worker;
pub(crate) mod writers;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex as StdMutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::config::{Codec, Config};
use crate::dataset::{Image, RecordBlock};
use crate::error::{Error, Result, caught, logged};
use crate::plan::Plan;
use crate::ring::Ring;
use crate::stats::{Latencies, Stage, StageLatency, Stats, report};
use crate::sync::{Gate, Mutex, PolledQueue, Receiver, Relay, Sender, bounded};
pub(crate) use arrival::Arrival;
pub(crate) use cell::{ShardBlock, ShardCell};
use closings::Closings;
use finalizer::{Closing, OpenCells, Preparing};
use layer::Layers;
use losses::Losses;
use numbers::Numbers;
use records::Records;
use sequencer::Sequencer;

/// What a worker is told to do.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ticket {
    /// Take part in this layer.
    Layer(u32),
    /// Run the sequencer, if nobody has meanwhile.
    Sequence,
    /// Nothing more comes, but for what other workers still pass on.
    End,
}

/// What callers that find no free buffer want of the sequencer.
mod relief {
    pub(super) const NONE: u8 = 0;
    pub(super) const WANTED: u8 = 1;
    pub(super) const FOR_LONG: u8 = 2;
}

/// Hears the key of each closed shard.
pub(crate) type Listener = Box<dyn Fn(&str) + Send + Sync>;

/// Everything that the threads of one acquisition share.
pub(crate) struct Engine {
    pub(crate) plan: Arc<Plan>,
    pub(crate) codec: Codec,
    pub(crate) skip_empty_chunks: bool,
    /// Bytes are waited for until they are on the device.
    pub(crate) sync: bool,
    /// For checkpoints.
    pub(crate) open_cells: OpenCells,
    pub(crate) dataset_uuid: [u8; 16],
    pub(crate) ring: Arc<Ring>,
    pub(crate) numbers: Numbers,
    /// Closed when no more frames are taken.
    pub(crate) gate: Gate,
    pub(crate) arrivals: (Sender<Arrival>, Receiver<Arrival>),
    pub(crate) layers: Layers,
    pub(crate) tickets: PolledQueue<Ticket>,
    /// For the thread that prepares.
    pub(crate) requests: Arc<PolledQueue<Preparing>>,
    pub(crate) closings: Closings<Closing>,
    pub(crate) counters: Counters,
    pub(crate) first_error: FirstError,
    pub(crate) losses: Losses,
    /// Who wants to hear of closed shards.
    pub(crate) shard_closed: OnceLock<Listener>,
    /// How often that panicked, and with what at first.
    pub(crate) listener_failures: StdMutex<(u64, Option<Error>)>,
    /// What is still in the ring shall not be encoded any more.
    pub(crate) aborting: AtomicBool,
    /// The last block of shards that a frame waits for or has got.
    pub(crate) needed_block: AtomicU64,
    /// No further shard will be needed.
    pub(crate) needs_no_more: AtomicBool,
    /// How many frames had been accepted when a caller found no free buffer, and since when that is so.
    starving: StdMutex<Option<(u64, Instant)>>,
    /// Who runs the sequencer.
    relay: Relay,
    /// That callers find no free buffer, and whether for long: see [`Sequencer::relieve`].
    relief: AtomicU8,
    pub(crate) sequencer: Mutex<Sequencer>,
    /// One for the callers, one for the finalizer's threads, one for each worker.
    pub(crate) times: Vec<StageTimes>,
}

/// The other ends of the engine's queues, for its threads.
pub(crate) struct Ends {
    deliver: Sender<ShardBlock>,
    to_close: Receiver<Closing>,
    written_records: Sender<RecordBlock>,
}

impl Engine {
    /// Everything that a run needs is taken here: the ring's memory, all queues, all layers.
    pub(crate) fn new(image: &Image, plan: &Arc<Plan>, config: &Config) -> Result<(Arc<Self>, Ends)> {
        let ring = Arc::new(Ring::new(plan.ring.frames, plan.frame.layout.buffer_bytes, plan.record.bytes)?);
        let blocks = (plan.ring.shard_blocks + plan.ring.shard_blocks_ahead + 2) as usize;
        let requests = Arc::new(PolledQueue::new(2 * blocks));
        let (deliver, prepared) = bounded(2 * blocks);
        let tickets = PolledQueue::new(plan.ring.layer_slots * plan.ring.tickets_a_layer as usize + 2);
        let (records, written_records) = Records::new(&plan.record, plan.ring.window);
        let (closings, to_close) = Closings::new(blocks * plan.shards.cells_a_block as usize + 64);
        let engine = Arc::new(Self {
            codec: config.codec.clone(),
            skip_empty_chunks: config.skip_empty_chunks,
            sync: config.sync,
            open_cells: OpenCells::default(),
            dataset_uuid: image.uuid,
            numbers: Numbers::new(plan.ring.window, plan.ring.frames, plan.frames_total, plan.ring.leap_max),
            gate: Gate::new(),
            arrivals: bounded(plan.ring.frames),
            layers: Layers::new(plan.ring.layer_slots, plan.layers.frames_a_cell() as usize),
            tickets,
            requests: requests.clone(),
            closings,
            counters: Counters::default(),
            first_error: FirstError::default(),
            losses: Losses::default(),
            shard_closed: OnceLock::new(),
            listener_failures: StdMutex::default(),
            aborting: AtomicBool::new(false),
            needed_block: AtomicU64::new(0),
            needs_no_more: AtomicBool::new(false),
            starving: StdMutex::default(),
            relay: Relay::new(),
            relief: AtomicU8::new(relief::NONE),
            sequencer: Mutex::new(Sequencer::new(plan.clone(), records, requests, prepared)),
            times: (0..plan.workers + 2).map(|_| StageTimes::new()).collect(),
            ring,
            plan: plan.clone(),
        });
        let ends = Ends { deliver, to_close, written_records };
        Ok((engine, ends))
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
        let run = || Ok(self.sequencer.lock().unwrap_or_else(PoisonError::into_inner).run(self));
        // A panic would leave the relay to nobody, and everybody waiting.
        caught(run).unwrap_or_else(|error| {
            self.first_error.set(error);
            !self.arrivals.1.is_empty()
        })
    }

    /// A caller finds no free buffer. See [`Sequencer::relieve`]; it is not called before nothing has been committed for a while,
    /// because another thread's commit is the better help.
    pub(crate) fn relieve(&self) {
        const AFTER: Duration = Duration::from_millis(200);
        const FOR_LONG: Duration = Duration::from_secs(1);
        let (accepted, now) = (self.counters.frames_accepted.load(Relaxed), Instant::now());
        let since = {
            let mut starving = self.starving.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// A layer is complete. Whoever committed its last frame wakes a worker for it only if layers take half of the ring already.
    fn offer_layer(&self, slot: u32) {
        let frames_waiting = self.layers.in_use() * self.plan.layers.frames_a_cell() as usize;
        match 2 * frames_waiting > self.ring.frames() {
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

    /// Who listens for closed shards panicked, as an upload may; the shard itself is whole.
    fn note_listener_failure(&self, key: &str, error: Error) {
        logged(|| tracing::error!(shard = key, %error, "on_shard_closed panicked"));
        let mut failures = self.listener_failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.0 += 1;
        failures.1.get_or_insert(error);
    }

    /// How long each stage took, over all threads.
    pub(crate) fn latencies(&self) -> Vec<StageLatency> {
        Stage::ALL.map(|stage| report(stage, self.times.iter().map(|times| times.of(stage)))).into()
    }

    pub(crate) fn stats(&self) -> Stats {
        let counters = &self.counters;
        Stats {
            frames_accepted: counters.frames_accepted.load(Relaxed),
            frames_written: counters.frames_written.load(Relaxed),
            frames_durable: counters.frames_durable.load(Relaxed),
            frames_missing: counters.frames_missing.load(Relaxed),
            frames_dropped: counters.frames_dropped.load(Relaxed),
            bytes_in: counters.frames_accepted.load(Relaxed) * self.plan.frame.bytes as u64,
            bytes_out: counters.bytes_out.load(Relaxed),
            ring_free: self.ring.free_frames(),
            ring_frames: self.ring.frames(),
            shards_closed: counters.shards_closed.load(Relaxed),
        }
    }
}

/// What is counted while the engine runs. Relaxed throughout: readers want a recent value, not an order.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) frames_accepted: AtomicU64,
    pub(crate) frames_written: AtomicU64,
    /// Named by indexes on the device.
    pub(crate) frames_synced: AtomicU64,
    /// Those of them that the documents there tell of, too.
    pub(crate) frames_durable: AtomicU64,
    /// Settled without a frame.
    pub(crate) frames_missing: AtomicU64,
    pub(crate) frames_dropped: AtomicU64,
    /// Those of them whose numbers nobody gave.
    pub(crate) dropped_unnumbered: AtomicU64,
    pub(crate) bytes_out: AtomicU64,
    pub(crate) chunks_written: AtomicU64,
    pub(crate) chunks_empty: AtomicU64,
    pub(crate) shards_closed: AtomicU64,
    /// One past the newest frame that has come.
    pub(crate) newest_end: AtomicU64,
}

/// The first error of the run, kept for every later call.
#[derive(Debug, Default)]
pub(crate) struct FirstError(OnceLock<Error>);

impl FirstError {
    pub(crate) fn set(&self, error: Error) {
        let _ = self.0.set(error.clone());
        logged(|| tracing::error!(%error, "the acquisition failed"));
    }

    pub(crate) fn get(&self) -> Option<&Error> {
        self.0.get()
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        self.get().map_or(Ok(()), |error| Err(error.clone()))
    }
}

/// The latencies of all stages, as one thread or a few see them.
pub(crate) struct StageTimes([Latencies; Stage::ALL.len()]);

impl StageTimes {
    pub(crate) fn new() -> Self {
        Self(std::array::from_fn(|_| Latencies::new()))
    }

    pub(crate) fn of(&self, stage: Stage) -> &Latencies {
        &self.0[stage as usize]
    }
}

/// Whole runs without C and without files, which miri can follow: `cargo +nightly miri test --lib whole_run`.
#[cfg(all(test, not(loom)))]
mod tests {
    use crate::{Acquisition, Codec, Compressor, Config, Dim, Dtype, IndexLocation, Memory, Placement, Record};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

    const FRAMES: u64 = if cfg!(miri) { 7 } else { 700 };

    fn pixels(number: u64) -> [u8; 16] {
        std::array::from_fn(|at| (number as u8).wrapping_mul(31).wrapping_add(at as u8) | 1)
    }

    /// Where the index of a shard of 4 says that chunk `at` is.
    fn chunk(shard: &[u8], at: usize, location: IndexLocation) -> &[u8] {
        let index = match location {
            IndexLocation::Start => 0,
            IndexLocation::End => shard.len() - 68,
        };
        let word = |at: usize| u64::from_le_bytes(shard[index + 8 * at..][..8].try_into().unwrap()) as usize;
        &shard[word(2 * at)..][..word(2 * at + 1)]
    }

    fn check(placement: Placement, index_location: IndexLocation, mapped: bool) {
        let memory = Arc::new(Memory::new(mapped));
        // One frame a layer, two chunks a frame, two frames a shard.
        let dims = vec![Dim::time(None).chunk(1).shard(2), Dim::y(4).chunk(2), Dim::x(4)];
        let means = Config { placement, index_location, ring_bytes: 4 * 4096, workers: 2, ..Config::default() };
        let codec = Codec { compressor: Compressor::None, checksum: false };
        let config = Config { dtype: Dtype::U8, dims, codec, ..means };
        let acquisition = Acquisition::create_in(memory.clone(), config).unwrap();
        let committed = AtomicU64::new(0);
        std::thread::scope(|scope| {
            // Two threads swap neighbouring numbers at most.
            for start in [0, 1] {
                let (acquisition, committed) = (&acquisition, &committed);
                scope.spawn(move || {
                    for number in (start..FRAMES).step_by(2) {
                        let mut slot = acquisition.acquire().unwrap();
                        slot.copy_from_slice(&pixels(number));
                        while committed.load(SeqCst) < number.saturating_sub(1) {
                            std::thread::yield_now();
                        }
                        // Without the wall clock, miri stays in a world of its own, and the same seed gives the same run.
                        let mut record = Record::default();
                        record.host_timestamp = Some(0);
                        slot.commit(number, record).unwrap();
                        committed.fetch_add(1, SeqCst);
                    }
                });
            }
        });
        let summary = acquisition.finish().unwrap();
        assert_eq!((summary.frames_written, summary.frames_missing), (FRAMES, 0));
        for number in 0..FRAMES {
            let shard = memory.read(&format!("0/c/{}/0/0", number / 2)).unwrap();
            for half in 0..2 {
                let got = chunk(&shard, (number % 2) as usize * 2 + half, index_location);
                assert_eq!(got, &pixels(number)[8 * half..][..8], "frame {number}");
            }
        }
    }

    #[test]
    fn a_whole_run_in_mapped_memory() {
        check(Placement::Fixed, IndexLocation::End, true);
    }

    #[test]
    fn a_whole_run_packed_into_mapped_memory() {
        check(Placement::Packed, IndexLocation::Start, true);
    }

    #[test]
    fn a_whole_run_through_positioned_writes() {
        check(Placement::Fixed, IndexLocation::End, false);
    }
}
