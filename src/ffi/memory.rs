//! What a configuration will need, counted before anything is taken.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::mem::size_of;

use super::config::convert::{Requested, configuration};
use super::config::sw_config;
use super::loans::Loans;
use super::own_buffers::own_buffers;
use super::pointer::{grown_out, grows};
use super::status::{boundary, sw_status};
use crate::acquisition::{plan_with, refuse_bare};
use crate::aligned_memory::PAGE;
use crate::codec::Encoder;
use crate::config::{BloscCname, Compressor, Config, Shuffle, StorageKind};
use crate::engine::arena::Arena;
use crate::engine::layer::{Layer, LayerSlot};
use crate::engine::{Arrival, ShardCell, StageTimes};
use crate::error::Result;
use crate::plan::Plan;
use crate::ring::Frame;
use crate::shard::{Entry, Shard, WaitsFor};
use crate::stats::Stage;
use crate::storage::{PUTS_AT_ONCE, WRITES_AT_ONCE};

/// What an acquisition will need, in bytes: upper bounds, of which everything is taken by sw_create except what is
/// said. Set `size` to sizeof(sw_memory) before the call.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sw_memory {
    /// sizeof(sw_memory).
    pub size: usize,
    /// The frame buffers, also those of levels, mapped and written once by sw_create. Without `own_buffers`.
    pub ring_bytes: u64,
    /// Frame records: in the ring, and gathered for the disk.
    pub record_bytes: u64,
    /// What workers encode with: a tile, its encoded form, the compressor's own memory.
    pub worker_bytes: u64,
    /// Tables of the shards that may exist at once, some of which are made and freed as the run goes on: never more
    /// than this.
    pub shard_bytes: u64,
    /// Queues, layers, counters of latencies; documents, while they are written.
    pub other_bytes: u64,
    /// All of the above.
    pub total_bytes: u64,
    /// Threads that the library starts.
    pub threads: u64,
    /// Addresses reserved for the threads' stacks, of which they touch a small part. Not in the total.
    pub stack_bytes: u64,
    /// Bytes that the shards being filled, closed and prepared may reserve in the storage at once: their number, no
    /// more than the array has, times the room for each of a shard's chunks at its worst and for the index. When a
    /// shard is closed, what its chunks did not need is given back. Not in the total.
    pub storage_bytes: u64,
}

grows!(sw_memory);

// What the allocator and the queues add to each thing in them.
const OVERHEAD: u64 = 32;
/// Buffers through which documents, indexes, keys and the final report pass, and what the standard library keeps.
const PASSING_BYTES: u64 = 4 << 20;
/// The stack that Rust gives a thread.
const STACK_BYTES: u64 = 2 << 20;
/// Buckets of one stage's latencies, with some to spare.
const STAGE_BYTES: u64 = 2048 * 8;
/// Threads beside workers and writers: they prepare, close, finish.
const OTHER_THREADS: u64 = 3;

unsafe extern "C" {
    /// Zstandard's own bound of a context's memory for a level; in its library, though not in its stable header.
    fn ZSTD_estimateCCtxSize(level: c_int) -> usize;
}

/// What a configuration will need, before anything is created. `memory` must have its `size` set.
///
/// Errors: those of a wrong configuration, so that it also tells whether sw_create would accept it, but for what
/// depends on where the image will be: `key`, `manifest`, `plate_acquisition`, `label`, whether `own_buffers` are
/// another run's, and whether the system has the memory for `ring_bytes`, without which sw_create returns
/// SW_ERROR_CONFIG.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sw_memory_needed(config: *const sw_config, memory: *mut sw_memory) -> sw_status {
    boundary(|| {
        // SAFETY: as the caller promises, which is what the header says.
        let (own, requested, place) = unsafe { (own_buffers(config)?, configuration(config)?, grown_out(memory)?) };
        let Requested { mut config, spelling } = requested;
        let needed = plan_with(&mut config, own.as_ref().map(|own| &own.buffers))
            .and_then(|_| refuse_bare(None, &config))
            .and_then(|()| needed(&config, own.is_some()))
            .map_err(|error| spelling.told(error))?;
        place.set(needed);
        Ok(())
    })
}

/// `has_ring`: the ring of level 0 is the caller's own.
fn needed(config: &Config, has_ring: bool) -> Result<sw_memory> {
    let plan = Plan::new(config)?;
    let mut memory = of_array(config, &plan)?;
    if has_ring {
        memory.total_bytes -= std::mem::take(&mut memory.ring_bytes);
    }
    let mut below = &plan;
    for level in &plan.levels {
        // Planes that wait for the next one.
        let kept = level.frames_kept * below.frame.array_bytes as u64;
        memory.other_bytes += kept;
        memory.total_bytes += kept;
        below = &level.plan;
        let of_level = of_array(&level.config, &level.plan)?;
        memory.ring_bytes += of_level.ring_bytes;
        memory.record_bytes += of_level.record_bytes;
        memory.worker_bytes += of_level.worker_bytes;
        memory.shard_bytes += of_level.shard_bytes;
        memory.other_bytes += of_level.other_bytes;
        memory.total_bytes += of_level.total_bytes;
        memory.storage_bytes = memory.storage_bytes.saturating_add(of_level.storage_bytes);
    }
    if !plan.levels.is_empty() {
        // One more than level 0 alone has halves the frames of all levels.
        memory.threads += 1;
        memory.stack_bytes += STACK_BYTES;
    }
    Ok(memory)
}

fn of_array(config: &Config, plan: &Plan) -> Result<sw_memory> {
    let page = PAGE as u64;
    let (buffers, frames) = (plan.ring.buffers as u64, plan.ring.frames as u64);
    let ring_bytes = buffers * (plan.frame.layout.buffer_bytes as u64).next_multiple_of(page);

    let record = plan.record.bytes as u64;
    let record_blocks = plan.ring.window.div_ceil(plan.record.block_frames) + 5;
    let record_bytes = (buffers * record.next_multiple_of(64)).next_multiple_of(page)
        + record_blocks * (plan.record.block_frames * record + plan.record.fields.len() as u64 * OVERHEAD);

    let (workers, writers) = (plan.workers as u64, WRITES_AT_ONCE as u64);
    // Where a device is waited for, most is to spare.
    let waits_for = if config.storage == StorageKind::Mapped { WaitsFor::Nothing } else { WaitsFor::Device };
    let bay = Arena::bytes(plan, waits_for) as u64;
    let tile_bytes = plan.shard.chunk_bytes as u64 + encoder_bytes(config, plan)?;
    // For frames of a chunk that waits for a paused camera, the thread that closes encodes, too.
    let closer_bytes = if plan.layers.frames_a_cell() > 1 { tile_bytes + plan.shard.slot_bytes as u64 } else { 0 };
    let worker_bytes = workers * (bay + tile_bytes) + closer_bytes;

    let cells = plan.ring.shard_blocks_live * plan.shards.cells_a_block;
    let shards = cells * plan.shard.across_frame as u64;
    let index = plan.shard.chunks as u64 * size_of::<Entry>() as u64;
    let a_shard = index + size_of::<Shard>() as u64 + 512;
    // Two threads make an index at a time: the raw pairs, their bytes, and the copy with its checksum.
    let shard_bytes = shards * a_shard + cells * (size_of::<ShardCell>() as u64 + OVERHEAD) + 2 * 4 * index;

    let depth = plan.layers.frames_a_cell();
    let places = depth * size_of::<Option<Frame>>() as u64;
    let layer = size_of::<LayerSlot>() as u64 + size_of::<Layer>() as u64 + places + OVERHEAD;
    let layer_slots = plan.ring.layer_slots as u64;
    let queues =
        frames * (size_of::<Arrival>() as u64 + 3 * OVERHEAD) + layer_slots * 3 * OVERHEAD + (cells * 4 + 256) * 128;
    let numbers = 8 * (2 * (plan.ring.window + frames)).next_power_of_two();
    let tiles = plan.tiles.len() as u64 * size_of::<crate::geometry::Tile>() as u64;
    let times = (workers + 2) * (Stage::ALL.len() as u64 * STAGE_BYTES + size_of::<StageTimes>() as u64);
    // Two plans exist for a moment.
    let other_bytes =
        layer_slots * layer + queues + Loans::bytes(buffers) + numbers + 2 * tiles + times + PASSING_BYTES;

    // A storage of the caller's own can ask for writers, too.
    let may_have_writers = !matches!(config.storage, StorageKind::Mapped | StorageKind::Buffered);
    // A block of records is put by as many as it has files, for a moment.
    let record_threads = plan.record.fields.len().min(PUTS_AT_ONCE) as u64 - 1;
    let threads = workers + if may_have_writers { writers } else { 0 } + record_threads + OTHER_THREADS;
    Ok(sw_memory {
        size: size_of::<sw_memory>(),
        ring_bytes,
        record_bytes,
        worker_bytes,
        shard_bytes,
        other_bytes,
        total_bytes: ring_bytes + record_bytes + worker_bytes + shard_bytes + other_bytes,
        threads,
        stack_bytes: threads * STACK_BYTES,
        storage_bytes: storage_bytes(plan),
    })
}

/// What the shards that exist at once reserve: an array of known length may have fewer than there is room for.
fn storage_bytes(plan: &Plan) -> u64 {
    let blocks_in_all = plan.frames_total.map_or(u64::MAX, |total| total.div_ceil(plan.shards.frames_a_block()));
    let cells = plan.ring.shard_blocks_live.min(blocks_in_all) * plan.shards.cells_a_block;
    cells.saturating_mul(plan.shard.across_frame as u64).saturating_mul(plan.shard.reserve_bytes)
}

/// What an encoder keeps beside its tile. A bound: each allocates its scratch by the size of a tile.
fn encoder_bytes(config: &Config, plan: &Plan) -> Result<u64> {
    // It also refuses levels that there are not.
    let bound = Encoder::bound_for(&config.codec, plan.frame.dtype.size(), plan.shard.chunk_bytes)? as u64;
    let tile = plan.shard.chunk_bytes as u64;
    // SAFETY: the function only computes.
    let zstd = |level: i32| unsafe { ZSTD_estimateCCtxSize(level) } as u64;
    // The writer for noise has two contexts for what it leaves to Zstandard, packed streams, codes and samples.
    let noise = 2 * zstd(1) + 2 * tile + bound + (4 << 20);
    Ok(match config.codec.compressor {
        Compressor::None => 0,
        // What it becomes takes less, if it is not this.
        Compressor::Auto
        | Compressor::Blosc { cname: BloscCname::Zstd, level: 1, .. }
        | Compressor::Zstd { level: 1 } => noise,
        Compressor::Blosc { cname: BloscCname::Zstd, level, .. } => {
            // Blosc's levels are Zstandard's, but the last, which is its highest.
            zstd(if level == 9 { 22 } else { i32::from(level) * 2 }) + 2 * tile.min(4 << 20) + bound.min(4 << 20)
        }
        Compressor::BloscNoise { block_bytes }
        | Compressor::Blosc { cname: BloscCname::Lz4, level: 1, shuffle: Shuffle::Bit, block_bytes } => {
            let block = if block_bytes == 0 { 256 << 10 } else { block_bytes as u64 };
            5 * block.min(tile) + (1 << 20)
        }
        Compressor::Blosc { .. } => 2 * tile + bound + (1 << 20),
        Compressor::Zstd { level } => zstd(level),
        Compressor::Gzip { .. } | Compressor::Zlib { .. } => 4 << 20,
        Compressor::Lz4 => bound + (1 << 20),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Codec, Dim, Dtype};

    #[test]
    fn what_no_disk_could_reserve_is_told_all_the_same() {
        let side = 1 << 15;
        let dims = vec![
            Dim::time(None).chunk(1).shard(1 << 24),
            Dim::channel(300).chunk(1).shard(1),
            Dim::y(side).chunk(side).shard(side),
            Dim::x(side).chunk(side).shard(side),
        ];
        let codec = Codec { compressor: Compressor::Zstd { level: 22 }, checksum: true };
        let config = Config { dims, codec, dtype: Dtype::U8, ring_bytes: 8 << 30, workers: 1, ..Config::default() };
        let needed = needed(&config, false).unwrap();
        assert_eq!(needed.storage_bytes, u64::MAX);
        assert!(needed.worker_bytes > 2 << 30 && needed.total_bytes > needed.worker_bytes, "{needed:?}");
    }
}
