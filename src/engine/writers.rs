//! How encoded chunks get to storages that would keep a worker waiting, so that it goes on encoding meanwhile.
//!
//! A worker hands over what the chunk fills of its scratch, and goes on behind it. The layer's ticket count includes
//! the writes under way, so its frames and shards are finished after the last of them. Who writes depends on the
//! storage:
//!
//! - Where a write takes long and several may be under way, threads of their own do it, and join chunks of a shard that
//!   wait for them. When no scratch is left, a worker waits: there is as much as keeps the device busy.
//! - Where writes wait for each other, as those to one file do in the page cache, the workers take turns. The one whose
//!   turn it is also writes what the others leave to it; they would only spin on the file's lock. When no scratch is
//!   left, a worker that has more to encode waits, and leaves its core to the camera; one that has nothing to do but
//!   write does so beside it.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use super::arena::{Arena, JOBS_MAX, Scratch};
use super::cell::ShardCell;
use super::layer::Layer;
use super::pump::Engine;
use super::strided::in_pieces;
use crate::config::Compressor;
use crate::error::{Error, Result, caught};
use crate::shard::{BATCH_MAX, BatchEntry, DetachedClaim, PIECES_MAX};
use crate::stats::Stage;
use crate::sync::{Doorbell, Receiver, Sender, Unpoisoned, bounded};

// Longer writes are still faster, but keep scratch from workers that compress. Where none does, the device alone is
// waited for.
const BATCH_BYTES: usize = 2 << 20;
const BATCH_RAW_BYTES: usize = 3 << 20;

/// A chunk, sealed in a scratch: all of it, or what stands round it where it is written from the ring.
pub(crate) struct PendingWrite {
    pub(crate) nbytes: usize,
    pub(crate) layer: u32,
    /// Which shard of the layer's cell.
    pub(crate) shard: usize,
    pub(crate) claimed: DetachedClaim,
    /// Which tile of the layer it is, where it lies in the ring as it shall be.
    pub(crate) in_ring: Option<usize>,
}

impl PendingWrite {
    /// How much of the scratch it fills.
    fn sealed_bytes(&self, cell: &ShardCell) -> usize {
        let shard = &cell.shards[self.shard];
        match self.in_ring {
            None => shard.sealed_bytes(self.nbytes),
            Some(_) => shard.sealed_bytes_round_pieces(),
        }
    }

    fn write(self, engine: &Engine, layer: &Layer, cell: &ShardCell, scratch: &[u8]) -> Result<()> {
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
        written.map_err(|error| Error::io("write a chunk to shard", shard.path(), error))
    }
}

/// A chunk on its way from a worker to whoever writes it.
struct Job {
    engine: Arc<Engine>,
    scratch: Scratch,
    chunk: PendingWrite,
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
pub(crate) enum WritePath {
    Inline,
    Combining(CombiningWriter),
    Threads(Writers),
}

impl WritePath {
    /// Writes a chunk of a layer for which the caller holds a ticket, or leaves it to others and `scratch` exchanged;
    /// true if it is written.
    pub(crate) fn bring(
        &self,
        engine: &Arc<Engine>,
        layer: &Layer,
        cell: &Arc<ShardCell>,
        chunk: PendingWrite,
        arena: &mut Arena,
    ) -> Result<bool> {
        let turns = match self {
            // What lies in the ring waits for nobody's scratch.
            Self::Combining(turns) if chunk.in_ring.is_none() => turns,
            Self::Inline | Self::Combining(_) => {
                return chunk.write(engine, layer, cell, arena.open()).map(|()| true);
            }
            Self::Threads(writers) => {
                writers.hand_over(engine, cell, chunk, arena);
                arena.open();
                return Ok(false);
            }
        };
        let (mut chunk, mut written) = (Some(chunk), Ok(()));
        // A panic would leave the turn with nobody.
        let write =
            || written = caught(|| chunk.take().map_or(Ok(()), |chunk| chunk.write(engine, layer, cell, arena.open())));
        turns.turn.ring_if_idle(write, || turns.found.write_all());
        let Some(chunk) = chunk else { return written.map(|()| true) };
        if engine.codec.compressor == Compressor::None && !arena.has_room_beside(chunk.sealed_bytes(cell)) {
            return chunk.write(engine, layer, cell, arena.open()).map(|()| true);
        }
        turns.left.hand_over(engine, cell, chunk, arena);
        turns.turn.ring(|| turns.found.write_all());
        // What holds the room is in the queue, and somebody is at it.
        arena.open();
        Ok(false)
    }
}

/// The workers' end.
#[derive(Clone)]
pub(crate) struct Writers(Sender<Job>);

/// A writer's end.
#[derive(Clone)]
pub(crate) struct Jobs(Receiver<Job>);

/// A queue of chunks to write.
pub(crate) fn queue() -> (Writers, Jobs) {
    let (writers, jobs) = bounded(JOBS_MAX);
    (Writers(writers), Jobs(jobs))
}

impl Writers {
    fn hand_over(&self, engine: &Arc<Engine>, cell: &Arc<ShardCell>, chunk: PendingWrite, arena: &mut Arena) {
        engine.layers.slot(chunk.layer).add_ticket();
        let scratch = arena.close(chunk.sealed_bytes(cell));
        let _ = self.0.send(Job { engine: engine.clone(), scratch, chunk, cell: cell.clone() });
    }
}

/// The workers' turns to write.
#[derive(Clone)]
pub(crate) struct CombiningWriter {
    turn: Arc<Doorbell>,
    left: Writers,
    found: Jobs,
}

impl CombiningWriter {
    pub(crate) fn new() -> Self {
        let (left, found) = queue();
        Self { turn: Arc::new(Doorbell::default()), left, found }
    }
}

impl Jobs {
    /// Writes until the last worker has ended and nothing is left. What waits for the same shard is one write.
    pub(crate) fn run(&self) {
        let mut batch = Vec::with_capacity(BATCH_MAX);
        let mut next = None;
        while let Some(first) = next.take().or_else(|| self.0.recv().ok()) {
            let compresses = first.engine.codec.compressor != Compressor::None;
            let bytes_max = if compresses { BATCH_BYTES } else { BATCH_RAW_BYTES };
            let mut bytes = first.chunk.nbytes;
            batch.push(first);
            while batch.len() < BATCH_MAX {
                let Ok(job) = self.0.try_recv() else { break };
                bytes += job.chunk.nbytes;
                if bytes > bytes_max || !job.goes_with(&batch[0]) {
                    next = Some(job);
                    break;
                }
                batch.push(job);
            }
            match batch.len() {
                1 => batch.drain(..).for_each(write),
                _ => write_batch(&mut batch),
            }
        }
    }

    /// Writes what is there.
    fn write_all(&self) {
        while let Ok(job) = self.0.try_recv() {
            write(job);
        }
    }
}

fn write(job: Job) {
    let start = Instant::now();
    let Job { engine, scratch, chunk, cell } = job;
    let engine = &*engine;
    let (nbytes, layer) = (chunk.nbytes, chunk.layer);
    let write = || {
        // This thread may read the layer already. It does not wait for itself: the chunk's ticket keeps everyone
        // from wanting to change the layer.
        let layer = engine.layers.slot(layer).layer.read().unpoisoned();
        chunk.write(engine, &layer, &cell, &scratch)
    };
    // A panic in a storage of the caller's own must not keep the layer open for ever.
    let fail = |error| engine.first_error.set_about(error, first_frame(engine, layer));
    let written = caught(write).map_err(fail).is_ok();
    engine.finalizer_times().of(Stage::Write).since(start);
    end(engine, scratch, layer, written.then_some(nbytes));
}

/// Writes chunks of one shard, which lie in their scratch, and leaves `batch` empty.
fn write_batch(batch: &mut Vec<Job>) {
    let start = Instant::now();
    let engine = batch[0].engine.clone();
    let engine = &*engine;
    // In fixed slots only those that follow each other can be one write.
    batch.sort_unstable_by(|one, other| one.chunk.claimed.cmp(&other.chunk.claimed));
    let shard = &batch[0].cell.shards[batch[0].chunk.shard];
    let mut parts = [const { BatchEntry::NONE }; BATCH_MAX];
    for (part, Job { chunk, scratch, .. }) in parts.iter_mut().zip(&*batch) {
        *part = shard.part(&chunk.claimed, scratch, chunk.nbytes);
    }
    let parts_used = &mut parts[..batch.len()];
    let fail = |error| Error::io("write chunks to shard", shard.path(), error);
    if let Err(error) = caught(|| shard.commit_batch(parts_used).map_err(fail)) {
        engine.first_error.set_about(error, first_frame(engine, batch[0].chunk.layer));
    }
    engine.finalizer_times().of(Stage::Write).since(start);
    let written = parts.map(|part| part.written);
    for (Job { scratch, chunk, cell, .. }, written) in batch.drain(..).zip(written) {
        drop(cell);
        end(engine, scratch, chunk.layer, written.then_some(chunk.nbytes));
    }
}

/// Ends a chunk's way: with its bytes, if it is written.
fn end(engine: &Engine, scratch: Scratch, layer: u32, written: Option<usize>) {
    match written {
        Some(nbytes) => engine.count_chunk(nbytes),
        None => engine.layers.slot(layer).failed.store(true, Relaxed),
    }
    drop(scratch);
    engine.return_ticket(layer);
}

/// Of a layer of which a chunk is on its way.
fn first_frame(engine: &Engine, layer: u32) -> Option<u64> {
    Some(engine.layers.slot(layer).layer.read().unpoisoned().state.first_frame)
}
