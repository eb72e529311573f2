//! How many frames, layers and shards there may be at once.

use super::frame::FramePlan;
use super::shard::ShardPlan;
use crate::aligned_memory::PAGE;
use crate::config::{Config, StorageKind};
use crate::error::{Error, Result};
use crate::fs::system::open_files_max;
use crate::geometry::Cells;

pub(crate) const RING_FRAMES_MAX: usize = 1 << 22;
// A camera that loses a second at 10,000 frames per second has not lost count.
const LEAP_MIN: u64 = 1 << 14;
// Numbers that a leap leaves out are settled one by one in a shard that was begun, some ten million in a second; and
// where readers want each shard as a file, all that it leaves out are made. A run shall not take hours to end for that.
const LEAP_MAX: u64 = 1 << 24;
const WINDOW_MAX: u64 = 1 << 14;
// Shards being filled, closed and prepared keep their worst case reserved on the disk.
const RESERVED_BYTES_MAX: u64 = 4 << 30;

/// The ring and everything whose number follows from it.
#[derive(Debug, Default)]
pub(crate) struct RingPlan {
    pub(crate) buffers: usize,
    /// How many its buffers hold: each, one for every sample of a pixel.
    pub(crate) frames: usize,
    /// That it takes less memory than it was given, if that has no other reason than a bound of the ring's.
    pub(crate) note: Option<String>,
    /// How many numbers behind the newest one a missing frame is still waited for.
    pub(crate) window: u64,
    /// How far beyond the newest frame a number may leap.
    pub(crate) leap_max: u64,
    pub(crate) layer_slots: usize,
    /// Blocks of shards that may be open at once, and that are prepared ahead.
    pub(crate) shard_blocks: u64,
    pub(crate) shard_blocks_ahead: u64,
    /// Blocks of shards that exist at once, those being closed included.
    pub(crate) shard_blocks_live: u64,
    /// Whether each shard may be opened a second time, for writes past the page cache.
    pub(crate) opens_twice: bool,
    /// Work tickets that a layer gives out: one for each worker that it can feed.
    pub(crate) tickets_a_layer: u32,
}

/// What the ring serves.
pub(super) struct Served<'a> {
    pub(super) frame: &'a FramePlan,
    pub(super) layers: &'a Cells,
    pub(super) shards: &'a Cells,
    pub(super) shard: &'a ShardPlan,
    pub(super) frames_total: Option<u64>,
    pub(super) workers: usize,
    /// Tiles of a layer.
    pub(super) tiles: usize,
}

impl RingPlan {
    /// Blocks of shards that can be on their way between the threads at once.
    pub(crate) fn shard_blocks_max(&self) -> usize {
        (self.shard_blocks + self.shard_blocks_ahead + 2) as usize
    }

    pub(super) fn new(config: &Config, served: &Served) -> Result<Self> {
        let &Served { frame, layers, shards, shard, frames_total, workers, tiles } = served;
        let total = frames_total.unwrap_or(u64::MAX);
        let (span, samples) = (layers.frames_a_block(), frame.samples() as u64);
        let (buffers, note) = buffers(config, frame, layers, total)?;
        let frames = buffers * samples as usize;
        let shards_a_block = shards.cells_a_block.saturating_mul(shard.across_frame as u64);
        let reserve = shards_a_block.saturating_mul(shard.reserve_bytes).max(1);
        let (live_blocks_max, opens_twice) = descriptors(shards_a_block, config.storage)?;
        let shard_blocks = (256 / shards_a_block).min(RESERVED_BYTES_MAX / reserve).min(live_blocks_max).clamp(4, 64);

        let spare = (buffers as u64 / 8).clamp(1, 64);
        let in_ring = (buffers as u64).saturating_sub(span.div_ceil(samples) + spare).max(1);
        // From the first frame of a picture to the last of one that is so many later.
        let in_ring = samples * (in_ring + 1) - 1;
        // The window must not reach over more shards than may be open, or the next one would be waited for for ever.
        let whole_blocks = if shards.has_short_blocks() { (shard_blocks - 2) / 2 } else { shard_blocks - 2 };
        let in_shards = shards.frames_a_block().saturating_mul(whole_blocks);
        let window = if frames as u64 == total { total } else { in_ring };
        let window = window.min(in_shards).min(WINDOW_MAX.max(span));
        // Layers that gather: blocks at an edge may be as short as one frame, but then their neighbours are not. And
        // layers that wait for workers; more of them than this just wait in the ring.
        let blocks = 2 * window.div_ceil(span) + 2;
        let waiting = (frames as u64).div_ceil(layers.frames_a_cell().max(1)).min(1024) + 2;
        let layer_slots = blocks * layers.cells_a_block + waiting;
        let shard_blocks_ahead = ((64 << 20) / reserve).clamp(1, 16).min(shard_blocks - 2);
        Ok(Self {
            buffers,
            frames,
            note,
            window,
            leap_max: leap_max(config.leap_max, window)?,
            layer_slots: layer_slots as usize,
            shard_blocks,
            shard_blocks_ahead,
            shard_blocks_live: (shard_blocks + shard_blocks_ahead + 2).min(live_blocks_max),
            opens_twice,
            tickets_a_layer: workers.min(tiles) as u32,
        })
    }

    /// Makes it that of a level whose frames come from another one. Whose number is missing there is told with its
    /// layer, so the window only has to be so wide that none is given up before that.
    ///
    /// `before`: the level before, and its layers. Where planes are `halved`, a frame also waits for the next plane,
    /// and a layer gathers frames for as long as the window is wide.
    pub(super) fn follow(&mut self, before: &Self, layers_before: &Cells, own: (&Cells, &Cells), halved: bool) {
        let (layers, shards) = own;
        let block = layers_before.frames_a_block();
        let window = self.window.max(before.window.saturating_add(if halved { 2 * block } else { block }));
        if halved {
            let blocks = 2 * (window - self.window).div_ceil(layers.frames_a_block()) + 2;
            self.layer_slots += (blocks * layers.cells_a_block) as usize;
        }
        self.window = window;
        self.leap_max = u64::MAX;
        // A window that is wider by less than a block of shards reaches over one more, or, where every other block is
        // short, over two.
        let wider = if halved { 2 } else { 1 };
        let blocks =
            before.shard_blocks.max(self.shard_blocks) + if shards.has_short_blocks() { 2 * wider } else { wider };
        self.shard_blocks_live += blocks - self.shard_blocks;
        self.shard_blocks = blocks;
    }
}

/// How far beyond the newest frame a number may leap.
fn leap_max(requested: u64, window: u64) -> Result<u64> {
    let usual = LEAP_MIN.max(4 * window);
    let most = LEAP_MAX.max(usual);
    match requested {
        0 => Ok(usual),
        _ if requested <= most => Ok(requested),
        _ => {
            let reason = format!(
                "at most {most}: each number that a leap leaves out may have to be settled by itself, so the run would \
                 take very long to end after one garbled number"
            );
            Err(Error::config("leap_max", requested, reason))
        }
    }
}

/// How many buffers the ring has: as many as there is memory for, of those of the `total` frames that will come. And a
/// note, if there is memory for more of these than a ring can have.
fn buffers(config: &Config, frame: &FramePlan, layers: &Cells, total: u64) -> Result<(usize, Option<String>)> {
    let buffer_bytes = frame.layout.buffer_bytes;
    let frame_stride = buffer_bytes.checked_next_multiple_of(PAGE).filter(|&stride| stride > 0).ok_or_else(|| {
        Error::config("frame_layout.buffer_bytes", buffer_bytes, "is no length that a buffer can have")
    })?;
    let requested = config.ring_bytes / frame_stride;
    let affordable = requested.min(RING_FRAMES_MAX);
    let (span, samples) = (layers.frames_a_block(), frame.samples() as u64);
    let total = total.div_ceil(samples);
    // One frame to fill while the layers of one block are complete, and one to spare.
    let needed = span.div_ceil(samples).saturating_add(2).min(total);
    if (affordable as u64) < needed {
        let bytes = needed.saturating_mul(frame_stride as u64);
        let what = if samples > 1 { "pictures" } else { "frames" };
        let needs = format!("a ring of {needed} {what} is needed, {bytes} bytes: allow that much");
        let reason = match layers.frames_a_cell() {
            1 => needs,
            deep => format!(
                "chunks are {deep} frames deep, and {span} frames wait in the ring until they are complete; {needs}, \
                 or make chunks shorter along the outer dimensions"
            ),
        };
        return Err(Error::config("ring_bytes", config.ring_bytes, reason));
    }
    let note = (affordable < requested && (affordable as u64) < total).then(|| {
        let (given, used) = (config.ring_bytes, affordable * frame_stride);
        format!("ring_bytes = {given}: a ring has at most {RING_FRAMES_MAX} frames, for which {used} bytes suffice")
    });
    Ok(((affordable as u64).min(total) as usize, note))
}

/// Returns how many blocks of shards may be open at once, and whether each shard may be opened twice.
fn descriptors(shards_a_block: u64, storage: StorageKind) -> Result<(u64, bool)> {
    match storage {
        StorageKind::Mapped | StorageKind::Buffered => Ok((check_descriptors(shards_a_block, 1)?, false)),
        StorageKind::Direct => Ok((check_descriptors(shards_a_block, 2)?, true)),
        // A choice that is ours must not be what the run fails for.
        StorageKind::Auto => match check_descriptors(shards_a_block, 2) {
            Ok(blocks) => Ok((blocks, true)),
            Err(_) => Ok((check_descriptors(shards_a_block, 1)?, false)),
        },
    }
}

/// A run holds the shards being filled, those being closed and those being prepared. Returns how many blocks of them
/// the process's limit allows.
fn check_descriptors(shards_a_block: u64, files_a_shard: u64) -> Result<u64> {
    if cfg!(miri) {
        // Miri knows no limits.
        return Ok(u64::MAX);
    }
    let files_a_block = shards_a_block.saturating_mul(files_a_shard);
    let needed = files_a_block.saturating_mul(3).saturating_add(64);
    let twice = if files_a_shard > 1 { ", use another storage, which opens each shard once" } else { "" };
    let (shards, larger) = match shards_a_block {
        1 => ("one shard".to_owned(), ""),
        many => (format!("{many} shards"), ", or make shards larger, so that a frame lies in fewer of them"),
    };
    match open_files_max() {
        Some(limit) if limit < needed => Err(Error::Limit {
            limit: "open files",
            value: limit,
            reason: format!(
                "the process may have no more, and a run that writes {shards} at a time needs {needed}; raise the \
                 limit (ulimit -n {needed}){twice}{larger}"
            ),
        }),
        Some(limit) => Ok((limit - 64) / files_a_block.max(1)),
        None => Ok(u64::MAX),
    }
}
