//! Threads that bring encoded chunks to storages whose writes take long, so that the workers go on encoding.
//!
//! A worker hands its scratch over and goes on with a spare one; when none is left, it waits: there are as many as keep
//! the device busy. The layer's ticket count includes the writes under way, so its frames and shards are finished after
//! the last of them.

use std::sync::PoisonError;
use std::time::Instant;

use super::worker::finish_layer;
use super::{Engine, caught};
use crate::error::Error;
use crate::shard::slot::{Claimed, Origin};
use crate::stats::Stage;
use crate::sync::{Receiver, Sender, bounded};

/// Writes in flight, for storages that pass the page cache by.
pub(crate) const WRITERS: usize = 4;

// Scratch beyond one for each worker and writer; with large chunks the count shrinks instead of the memory growing.
const SPARE_BYTES_MAX: usize = 32 << 20;

/// Room for one slot, starting on a page.
pub(crate) struct Scratch(memmap2::MmapMut);

impl Scratch {
    pub(crate) fn new(bytes: usize) -> std::io::Result<Self> {
        memmap2::MmapMut::map_anon(bytes.max(1)).map(Self)
    }
}

impl std::ops::Deref for Scratch {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl std::ops::DerefMut for Scratch {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

/// A chunk on its way from a worker to a writer.
pub(crate) struct Job {
    pub(crate) scratch: Scratch,
    pub(crate) nbytes: usize,
    pub(crate) layer: u32,
    /// Which shard of the layer's cell.
    pub(crate) shard: usize,
    pub(crate) claimed: Claimed,
    pub(crate) origin: Origin,
}

/// The workers' end.
#[derive(Clone)]
pub(crate) struct Writers {
    jobs: Sender<Job>,
    spare: Receiver<Scratch>,
}

/// A writer's end.
#[derive(Clone)]
pub(crate) struct Jobs {
    jobs: Receiver<Job>,
    done: Sender<Scratch>,
}

/// Queues and scratch for slots of `slot_bytes`.
pub(crate) fn queues(slot_bytes: usize) -> std::io::Result<(Writers, Jobs)> {
    let count = (SPARE_BYTES_MAX / slot_bytes.max(1)).clamp(1, 2 * WRITERS);
    let (send_job, jobs) = bounded(count);
    let (done, spare) = bounded(count);
    for _ in 0..count {
        let sent = done.try_send(Scratch::new(slot_bytes)?);
        debug_assert!(sent.is_ok(), "the queue holds all scratch");
    }
    Ok((Writers { jobs: send_job, spare }, Jobs { jobs, done }))
}

impl Writers {
    /// Hands a job over, and returns a scratch to go on with, in which the job's chunk was not made.
    pub(crate) fn hand_over(&self, job: impl FnOnce(Scratch) -> Job, scratch: &mut Scratch) {
        // Both ends live as long as the workers: neither queue is ever disconnected here.
        let Ok(spare) = self.spare.recv() else { return };
        let full = std::mem::replace(scratch, spare);
        let _ = self.jobs.send(job(full));
    }
}

impl Jobs {
    /// Writes until the last worker has ended and nothing is left.
    pub(crate) fn run(&self, engine: &Engine) {
        while let Ok(Job { mut scratch, nbytes, layer, shard, claimed, origin }) = self.jobs.recv() {
            let start = Instant::now();
            let slot = engine.layers.slot(layer);
            let write = || {
                let layer = slot.layer.read().unwrap_or_else(PoisonError::into_inner);
                let Some(cell) = &layer.cell else { return Ok(()) };
                let shard = &cell.shards[shard];
                let written = shard.resume(claimed).commit(&mut scratch, nbytes, &origin);
                written.map_err(|error| Error::io("write a chunk to shard", shard.key(), error))
            };
            // A panic in a storage of the caller's own must not keep the layer open for ever.
            match caught(write) {
                Ok(()) => engine.count_chunk(nbytes),
                Err(error) => slot.fail(&engine.first_error, error),
            }
            engine.finalizer_times().of(Stage::Write).since(start);
            let _ = self.done.send(scratch);
            if slot.return_ticket() {
                finish_layer(engine, layer, slot);
            }
        }
    }
}
