//! How encoded chunks get to storages that would keep a worker waiting, so that it goes on encoding meanwhile.
//!
//! A worker hands its scratch over and goes on with a spare one. The layer's ticket count includes the writes under way, so
//! its frames and shards are finished after the last of them. Who writes depends on the storage:
//!
//! - Where a write takes long and several may be under way, threads of their own do it, and join chunks of a shard that wait
//!   for them. When no scratch is spare, a worker waits: there are as many as keep the device busy.
//! - Where writes wait for each other, as those to one file do in the page cache, the workers take turns. The one whose turn
//!   it is also writes what the others leave to it; they would only spin on the file's lock. When no scratch is spare, a
//!   worker that has more to encode waits, and leaves its core to the camera; one that has nothing to do but write does so
//!   beside it.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use super::layer::{Layer, finish_layer};
use super::pieces::in_pieces;
use super::{Engine, ShardCell, caught};
use crate::config::Compressor;
use crate::error::{Error, Result};
use crate::plan::Plan;
use crate::region::Region;
use crate::shard::WaitsFor;
use crate::shard::joined::{JOINED_MAX, Part};
use crate::shard::slot::{Claimed, PIECES_MAX};
use crate::stats::Stage;
use crate::storage::WRITES_AT_ONCE;
use crate::sync::{Doorbell, Receiver, Sender, Shelf, bounded};

// Scratch beyond one for each worker; with large chunks the count shrinks instead of the memory growing.
const SPARE_BYTES_MAX: usize = 32 << 20;
const SPARE_MIN: usize = 8;
// What is spare beyond those is no more than this part of the ring.
const SHARE_OF_RING: usize = 16;

// Longer writes are still faster, but keep scratch from workers that compress. Where none does, the device alone is waited for.
const JOINED_BYTES: usize = 1 << 20;
const JOINED_RAW_BYTES: usize = 3 << 20;
// Slots for the chunks of such a write: encoded, they may fill a small part of theirs.
pub(crate) const JOINED_SLOT_BYTES: usize = 4 << 20;

/// Room for one slot; where that is long, it starts on a page.
pub(crate) struct Scratch {
    all: Arc<Region>,
    /// Which of the pieces is this one's alone.
    index: u32,
}

impl Scratch {
    /// `touched`: its pages are there when the first chunk comes. Untouched, memory is taken when it is first used.
    pub(crate) fn several(count: usize, bytes: usize, touched: bool) -> std::io::Result<Vec<Self>> {
        let all = Region::new(count, bytes)?;
        let all = Arc::new(if touched { all.touched() } else { all });
        Ok((0..count as u32).map(|index| Self { all: all.clone(), index }).collect())
    }

    /// How many to spare there are, beside the workers' own, where a queue leads to whoever writes.
    pub(crate) fn spare(plan: &Plan, waits_for: WaitsFor) -> usize {
        let slots_in = |bytes: usize| bytes / plan.shard.slot_bytes.max(1);
        let few = slots_in(SPARE_BYTES_MAX).clamp(1, SPARE_MIN);
        match waits_for {
            WaitsFor::Nothing => 0,
            WaitsFor::OtherWrites => few,
            WaitsFor::Device => {
                // Those of the writes under way, and of as many to come; but who has little memory for frames has little
                // for these.
                let joined = 2 * WRITES_AT_ONCE * slots_in(JOINED_SLOT_BYTES).clamp(1, JOINED_MAX);
                let ring_bytes = plan.ring.frames * plan.frame.layout.buffer_bytes;
                few.max(joined.min(slots_in(SPARE_BYTES_MAX.min(ring_bytes / SHARE_OF_RING))))
            }
        }
    }
}

impl std::ops::Deref for Scratch {
    type Target = [u8];

    #[allow(unsafe_code)]
    fn deref(&self) -> &[u8] {
        // SAFETY: each index was given out once, so whoever writes the piece has borrowed this exclusively.
        unsafe { self.all.read(self.index) }
    }
}

impl std::ops::DerefMut for Scratch {
    #[allow(unsafe_code)]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; this is borrowed exclusively.
        unsafe { self.all.write(self.index) }
    }
}

/// A chunk, sealed in a scratch: all of it, or what stands round it where it is written from the ring.
pub(crate) struct Sealed {
    pub(crate) nbytes: usize,
    pub(crate) layer: u32,
    /// Which shard of the layer's cell.
    pub(crate) shard: usize,
    pub(crate) claimed: Claimed,
    /// Which tile of the layer it is, where it lies in the ring as it shall be.
    pub(crate) in_ring: Option<usize>,
}

impl Sealed {
    fn write(self, engine: &Engine, layer: &Layer, cell: &ShardCell, scratch: &Scratch) -> Result<()> {
        let (shard, plan) = (&cell.shards[self.shard], &engine.plan);
        let place = shard.resume(self.claimed);
        let written = match self.in_ring {
            None => place.commit(scratch, self.nbytes),
            Some(tile) => {
                let mut pieces = [&[][..]; PIECES_MAX];
                let pieces = in_pieces(layer, &engine.ring, plan, &plan.tiles[tile], &mut pieces);
                place.commit_pieces(scratch, pieces.expect("it was sealed as such"), self.nbytes)
            }
        };
        written.map_err(|error| Error::io("write a chunk to shard", shard.key(), error))
    }
}

/// A chunk on its way from a worker to whoever writes it.
struct Job {
    scratch: Scratch,
    chunk: Sealed,
    cell: Arc<ShardCell>,
}

impl Job {
    /// Whether both can be one write.
    fn goes_with(&self, other: &Self) -> bool {
        let in_scratch = self.chunk.in_ring.is_none() && other.chunk.in_ring.is_none();
        in_scratch && self.chunk.shard == other.chunk.shard && Arc::ptr_eq(&self.cell, &other.cell)
    }
}

/// Who writes what a worker encodes.
#[derive(Clone)]
pub(crate) enum Way {
    Itself,
    ByTurns(Turns),
    Others(Writers),
}

impl Way {
    /// Writes a chunk of a layer for which the caller holds a ticket, or leaves it to others and `scratch` exchanged; true if
    /// it is written.
    pub(crate) fn bring(
        &self,
        engine: &Engine,
        layer: &Layer,
        cell: &Arc<ShardCell>,
        chunk: Sealed,
        scratch: &mut Scratch,
    ) -> Result<bool> {
        match self {
            // What lies in the ring waits for nobody's scratch.
            Self::ByTurns(turns) if chunk.in_ring.is_none() => return turns.bring(engine, layer, cell, chunk, scratch),
            Self::Itself | Self::ByTurns(_) => chunk.write(engine, layer, cell, scratch)?,
            Self::Others(writers) => {
                writers.hand_over(engine, cell, writers.spare.take_newest(), chunk, scratch);
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The workers' end.
#[derive(Clone)]
pub(crate) struct Writers {
    jobs: Sender<Job>,
    spare: Arc<Shelf<Scratch>>,
}

/// A writer's end.
#[derive(Clone)]
pub(crate) struct Jobs {
    jobs: Receiver<Job>,
    spare: Arc<Shelf<Scratch>>,
}

/// A queue of chunks to write, which has room for as many as there is scratch.
pub(crate) fn queue(scratch: Vec<Scratch>) -> (Writers, Jobs) {
    let (send_job, jobs) = bounded(scratch.len());
    let spare = Arc::new(scratch.into_iter().collect::<Shelf<_>>());
    (Writers { jobs: send_job, spare: spare.clone() }, Jobs { jobs, spare })
}

impl Writers {
    fn hand_over(&self, engine: &Engine, cell: &Arc<ShardCell>, spare: Scratch, chunk: Sealed, scratch: &mut Scratch) {
        engine.layers.slot(chunk.layer).add_ticket();
        let scratch = std::mem::replace(scratch, spare);
        let _ = self.jobs.send(Job { scratch, chunk, cell: cell.clone() });
    }
}

/// The workers' turns to write.
#[derive(Clone)]
pub(crate) struct Turns {
    turn: Arc<Doorbell>,
    left: Writers,
    found: Jobs,
}

impl Turns {
    pub(crate) fn new(scratch: Vec<Scratch>) -> Self {
        let (left, found) = queue(scratch);
        Self { turn: Arc::new(Doorbell::new()), left, found }
    }

    fn bring(
        &self,
        engine: &Engine,
        layer: &Layer,
        cell: &Arc<ShardCell>,
        chunk: Sealed,
        scratch: &mut Scratch,
    ) -> Result<bool> {
        let (mut chunk, mut written) = (Some(chunk), Ok(()));
        let write_chunk = |chunk: Sealed| chunk.write(engine, layer, cell, scratch);
        // A panic would leave the turn with nobody.
        let write = || written = caught(|| chunk.take().map_or(Ok(()), &write_chunk));
        self.turn.ring_if_idle(write, || self.found.write_all(engine));
        let Some(chunk) = chunk else { return written.map(|()| true) };
        let spare = match engine.codec.compressor {
            Compressor::None => self.left.spare.try_take_newest(),
            // Whatever is not spare is in the queue, and somebody is at it.
            _ => Some(self.left.spare.take_newest()),
        };
        let Some(spare) = spare else { return write_chunk(chunk).map(|()| true) };
        self.left.hand_over(engine, cell, spare, chunk, scratch);
        self.turn.ring(|| self.found.write_all(engine));
        Ok(false)
    }
}

impl Jobs {
    /// Writes until the last worker has ended and nothing is left. What waits for the same shard is one write.
    pub(crate) fn run(&self, engine: &Engine) {
        let compresses = engine.codec.compressor != Compressor::None;
        let bytes_max = if compresses { JOINED_BYTES } else { JOINED_RAW_BYTES };
        let mut batch = Vec::with_capacity(JOINED_MAX);
        let mut next = None;
        while let Some(first) = next.take().or_else(|| self.jobs.recv().ok()) {
            let mut bytes = first.chunk.nbytes;
            batch.push(first);
            while batch.len() < JOINED_MAX {
                let Ok(job) = self.jobs.try_recv() else { break };
                bytes += job.chunk.nbytes;
                if bytes > bytes_max || !job.goes_with(&batch[0]) {
                    next = Some(job);
                    break;
                }
                batch.push(job);
            }
            match batch.len() {
                1 => batch.drain(..).for_each(|job| self.write(engine, job)),
                _ => self.write_joined(engine, &mut batch),
            }
        }
    }

    /// Writes what is there.
    fn write_all(&self, engine: &Engine) {
        while let Ok(job) = self.jobs.try_recv() {
            self.write(engine, job);
        }
    }

    fn write(&self, engine: &Engine, job: Job) {
        let start = Instant::now();
        let Job { scratch, chunk, cell } = job;
        let (nbytes, layer) = (chunk.nbytes, chunk.layer);
        let write = || {
            // This thread may read the layer already. It does not wait for itself: the chunk's ticket keeps everyone from
            // wanting to change the layer.
            let layer = engine.layers.slot(layer).layer.read().unwrap_or_else(PoisonError::into_inner);
            chunk.write(engine, &layer, &cell, &scratch)
        };
        // A panic in a storage of the caller's own must not keep the layer open for ever.
        let written = caught(write).map_err(|error| engine.first_error.set(error)).is_ok();
        engine.finalizer_times().of(Stage::Write).since(start);
        self.end(engine, scratch, layer, written.then_some(nbytes));
    }

    /// Writes chunks of one shard, which lie in their scratch, and leaves `batch` empty.
    fn write_joined(&self, engine: &Engine, batch: &mut Vec<Job>) {
        let start = Instant::now();
        // In fixed slots only those that follow each other can be one write.
        batch.sort_unstable_by(|one, other| one.chunk.claimed.cmp(&other.chunk.claimed));
        let shard = &batch[0].cell.shards[batch[0].chunk.shard];
        let mut parts = [const { Part::NONE }; JOINED_MAX];
        for (part, Job { chunk, scratch, .. }) in parts.iter_mut().zip(&*batch) {
            *part = shard.part(&chunk.claimed, scratch, chunk.nbytes);
        }
        let parts_used = &mut parts[..batch.len()];
        let fail = |error| Error::io("write chunks to shard", shard.key(), error);
        if let Err(error) = caught(|| shard.commit_together(parts_used).map_err(fail)) {
            engine.first_error.set(error);
        }
        engine.finalizer_times().of(Stage::Write).since(start);
        let written = parts.map(|part| part.written);
        for (Job { scratch, chunk, cell }, written) in batch.drain(..).zip(written) {
            drop(cell);
            self.end(engine, scratch, chunk.layer, written.then_some(chunk.nbytes));
        }
    }

    /// Ends a chunk's way: with its bytes, if it is written.
    fn end(&self, engine: &Engine, scratch: Scratch, layer: u32, written: Option<usize>) {
        let slot = engine.layers.slot(layer);
        match written {
            Some(nbytes) => engine.count_chunk(nbytes),
            None => slot.failed.store(true, Relaxed),
        }
        self.spare.put(scratch);
        if slot.return_ticket() {
            finish_layer(engine, layer, slot);
        }
    }
}
