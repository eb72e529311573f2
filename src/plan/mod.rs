//! Every size, count, bound and offset of an acquisition, computed once from what [`Config`] asks for, checked, then
//! only read.

mod auto;
mod camera;
mod codec;
mod dialects;
mod dims;
mod frame;
mod levels;
pub(crate) mod part;
mod record;
mod ring;
mod roi;
mod shard;
#[cfg(all(test, not(loom)))]
mod tests;
pub(crate) mod volume;

use std::ops::Range;
use std::sync::Arc;

use crate::aligned_memory::PAGE;
use crate::codec::Effort;
use crate::config::{Codec, Compressor, Config, check_workers};
use crate::error::{Error, Result};
use crate::format::Metadata;
use crate::format::codecs::Chain;
use crate::format::keys::KeyEncoding;
use crate::format::layout::{Files, Layout};
use crate::format::level_frames::LevelFrames;
use crate::format::rules;
use crate::fs::system;
use crate::geometry::{Cells, MAX_OUTER, Order, Tile, tiles};
use crate::ome;
use crate::ome::grid::PixelGrid;
use crate::ome::levels::Level;
pub(crate) use camera::CameraFrame;
pub(crate) use codec::CodecPlan;
pub(crate) use frame::FramePlan;
pub(crate) use record::RecordPlan;
#[cfg(feature = "capi")]
pub(crate) use ring::RING_FRAMES_MAX;
pub(crate) use ring::RingPlan;
use ring::Served;
pub(crate) use shard::ShardPlan;
pub(crate) use volume::VolumePlan;

// Of one frame.
const TILES_MAX: u128 = 1 << 20;

#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) frame: FramePlan,
    pub(crate) order: Order,
    /// Cells of one chunk: layers.
    pub(crate) layers: Cells,
    /// Cells of one shard.
    pub(crate) shards: Cells,
    /// How many frames the array holds; `None`: as many as come.
    pub(crate) frames_total: Option<u64>,
    /// The array; an unbounded first dimension counts as 0.
    pub(crate) array: Metadata,
    pub(crate) tiles: Vec<Tile>,
    pub(crate) shard: ShardPlan,
    /// Of a precomputed volume.
    pub(crate) volume: Option<VolumePlan>,
    pub(crate) ring: RingPlan,
    pub(crate) record: RecordPlan,
    pub(crate) workers: usize,
    /// What the codec may be made of, from the least effort on.
    pub(crate) efforts: Vec<Effort>,
    /// Those beside level 0, the finest first.
    pub(crate) levels: Vec<LevelPlan>,
}

/// One level of a pyramid beside level 0.
#[derive(Debug)]
pub(crate) struct LevelPlan {
    /// The array, below the image.
    pub(crate) path: String,
    pub(crate) config: Config,
    pub(crate) plan: Arc<Plan>,
    pub(crate) level: Level,
    /// Which frames of the level before, and of level 0, become which.
    pub(crate) frames: LevelFrames,
    pub(crate) of_finest: LevelFrames,
    /// Frames of the level before that wait for the next plane when all come in their order.
    #[cfg_attr(not(feature = "capi"), allow(dead_code))]
    pub(crate) frames_kept: u64,
}

impl Plan {
    /// Refuses a ring that the machine has no memory for: it would be made all the same, and other programs, or this
    /// one, would be killed for it.
    pub(crate) fn check_memory(&self, config: &Config) -> Result<()> {
        let Some(memory) = system::memory_bytes() else { return Ok(()) };
        let stride = self.frame.layout.buffer_bytes.next_multiple_of(PAGE) as u64;
        let needed = self.frames_total.unwrap_or(u64::MAX).div_ceil(self.frame.samples() as u64);
        let requested = (config.ring_bytes as u64 / stride).min(needed) * stride;
        if requested <= memory {
            return Ok(());
        }
        let reason = format!("more than the memory of this machine, {memory} bytes; the ring takes all of it at once");
        Err(Error::config("ring_bytes", config.ring_bytes, reason))
    }

    /// Buffers without which the image can't go on.
    pub(crate) fn ring_needed(&self) -> usize {
        self.ring.buffers.min(self.buffers_a_block().saturating_add(2))
    }

    /// Buffers that are kept for the image in a ring that it shares: a layer that waits for frames holds some until
    /// these come. Where chunks are one frame deep, none waits.
    pub(crate) fn ring_floor(&self) -> usize {
        if self.layers.frames_a_block() > 1 { self.ring_needed() } else { 0 }
    }

    /// Bytes of this many buffers.
    pub(crate) fn ring_bytes(&self, buffers: usize) -> u64 {
        let stride = self.frame.layout.buffer_bytes.next_multiple_of(PAGE) as u64;
        stride.saturating_mul(buffers as u64)
    }

    /// About as many bytes as the last documents of the image take, with those of its levels and a block of records.
    pub(crate) fn documents_bytes(&self) -> u64 {
        const DOCUMENT_BYTES: u64 = 8 << 10;
        let Self { record, levels, .. } = self;
        let documents = (2 * record.fields.len() + levels.len() + 2) as u64;
        documents * DOCUMENT_BYTES + record.bytes as u64 * record.block_frames
    }

    /// Bytes of the disk that its first shards reserve, with those of its levels; also those that are prepared `ahead`.
    pub(crate) fn reserved_bytes(&self, ahead: bool) -> u64 {
        let Self { shards, shard, levels, .. } = self;
        let blocks = if ahead { 1 + self.ring.shard_blocks_ahead } else { 1 };
        let all = self.frames_total.map_or(u64::MAX, |frames| frames.div_ceil(shards.frames_a_block()));
        let files = shards.cells_a_block.saturating_mul(shard.across_frame as u64).saturating_mul(blocks.min(all));
        let of_levels = levels.iter().map(|level| level.plan.reserved_bytes(ahead));
        of_levels.fold(files.saturating_mul(shard.reserve_bytes), u64::saturating_add)
    }

    pub(crate) fn new(config: &Config) -> Result<Self> {
        if !rules(config.dialect).shares_files {
            let reason = "is made by a repacking alone; acquire into another dialect, and repack what came";
            return Err(Error::config("dialect", config.dialect, reason));
        }
        let mut plan = Self::on_disk(config)?;
        dims::check_names(config)?;
        plan.check_samples(config)?;
        let Self { frame, layers, shards, shard, frames_total, workers, .. } = &plan;
        let (frames_total, workers, tiles) = (*frames_total, *workers, plan.tiles.len());
        plan.ring = RingPlan::new(config, &Served { frame, layers, shards, shard, frames_total, workers, tiles })?;
        plan.levels = plan.plan_levels(config)?;
        Ok(plan)
    }

    /// Where a buffer holds a frame of each channel, these follow each other.
    fn check_samples(&self, config: &Config) -> Result<()> {
        let (samples, fastest) = (self.frame.samples() as u64, self.order.fastest());
        if samples == 1 || fastest == samples {
            return Ok(());
        }
        let elements = if fastest == u64::MAX { "no end".to_owned() } else { format!("{fastest} elements") };
        let reason = format!(
            "a pixel has {samples} samples, so that the outer dimension that changes fastest, the channel, has as many \
             elements, but it has {elements}"
        );
        Err(Error::config("pixel_format", config.pixel_format, reason))
    }

    /// Buffers of the ring that hold what the layers of one block need.
    pub(crate) fn buffers_a_block(&self) -> usize {
        let buffers = self.layers.frames_a_block().div_ceil(self.frame.samples() as u64);
        usize::try_from(buffers).unwrap_or(usize::MAX)
    }

    fn plan_levels(&self, config: &Config) -> Result<Vec<LevelPlan>> {
        let mut planned: Vec<LevelPlan> = Vec::new();
        let levels = levels::levels(config, &self.array.layout, self.layers.frames_a_block())?;
        let mut factor = 1;
        for ((level, mut config), number) in levels.into_iter().zip(1..) {
            let below = planned.last().map_or(self, |level| &level.plan);
            let frames = levels::frames_of(&below.order, level.halves_depth());
            factor *= level.halves_depth();
            let of_finest = levels::frames_of(&self.order, factor);
            let frames_kept = levels::frames_kept(below.ring.frames, &below.array.layout, &frames)?;
            let (window, block) = (below.ring.window, below.layers.frames_a_block());
            config.ring_bytes = config.ring_bytes.max(levels::ring_bytes(window, block, &frames, &config));
            let mut plan = Self::new(&config)?;
            plan.ring.follow(&below.ring, &below.layers, (&plan.layers, &plan.shards), !frames.is_same());
            let (path, plan) = (format!("{number}"), Arc::new(plan));
            planned.push(LevelPlan { path, config, plan, level, frames, of_finest, frames_kept });
        }
        Ok(planned)
    }

    /// What follows for files and documents alone: for those who write them without a camera. There is no ring.
    pub(crate) fn on_disk(config: &Config) -> Result<Self> {
        if config.codec.compressor == Compressor::Auto {
            // For what has to be known before the choice, any that it may become will do.
            let codec = Codec { compressor: codec::candidates(config)[0], ..config.codec };
            return Self::on_disk(&Config { codec, ..config.clone() });
        }
        let dims = dims::check(config)?;
        ome::validate(config)?;
        let outer = dims.len() - 2;
        let acquired = dims::acquisition_order(config)?;
        dialects::check(config)?;
        let (chunk_shape, shard_shape, volume) = dims::chunks_and_shards(config, &acquired)?;
        let sizes = dims[..outer].iter().map(|dim| dim.size.unwrap_or(u64::MAX)).collect();
        let order = Order::new(sizes, acquired);
        let mut layers = Cells::new(&order, chunk_shape[..outer].to_vec());
        if let Some(VolumePlan { z: Some(z), channel: Some(channel), .. }) = volume {
            layers = layers.stacked(vec![channel, z]);
        }
        let shards = Cells::new(&order, shard_shape[..outer].to_vec());
        let frames_total = dims[..outer].iter().try_fold(1u64, |frames, dim| Some(frames.saturating_mul(dim.size?)));

        let frame = FramePlan::new(config)?;
        let size = [dims[outer].size.unwrap_or(0), dims[outer + 1].size.unwrap_or(0)];
        check_tiles(size, &chunk_shape[outer..])?;
        let tiles =
            tiles(size, [chunk_shape[outer], chunk_shape[outer + 1]], [shard_shape[outer], shard_shape[outer + 1]]);
        let shard = ShardPlan::new(config, &frame, size, &chunk_shape, &shard_shape, volume.as_ref())?;
        let workers = workers(config)?;
        let record = RecordPlan::new(config, frames_total, frame.array_bytes as u64)?;
        let ring = RingPlan::default();
        let efforts = vec![Effort::Normal];
        let array = described(config, &frame, &shard, chunk_shape, shard_shape, volume.as_ref());
        Ok(Self {
            frame,
            order,
            layers,
            shards,
            frames_total,
            array,
            tiles,
            shard,
            volume,
            ring,
            record,
            workers,
            efforts,
            levels: Vec::new(),
        })
    }

    /// The arrays beside level 0, and where their pixels are.
    pub(crate) fn other_levels(&self) -> Vec<(&str, &PixelGrid)> {
        self.levels.iter().map(|level| (level.path.as_str(), &level.level.grid)).collect()
    }

    /// The first chunk of a layer in its shards, by the layer's place in the grid of chunks.
    pub(crate) fn first_chunk(&self, grid: &[u64; MAX_OUTER]) -> usize {
        let outer = &self.shard.outer_chunks;
        let index = outer.iter().zip(grid).fold(0, |index, (&chunks, &at)| index * chunks + at % chunks);
        index as usize * self.shard.layer_chunks
    }

    /// The shard of a cell, and the slot in it, of a tile of the layer that starts at `first_chunk`.
    pub(crate) fn slot_of(&self, first_chunk: usize, tile: &Tile) -> (usize, usize) {
        let chunk = first_chunk + tile.chunk;
        self.volume.as_ref().and_then(|volume| volume.of_table(chunk)).unwrap_or((tile.shard, chunk))
    }

    /// Which layer of its cell of shards a frame belongs to.
    pub(crate) fn layer_of(&self, number: u64) -> usize {
        let at = self.layers.locate(number);
        self.first_chunk(&self.layers.grid_position(at.block, at.cell)) / self.shard.layer_chunks
    }

    /// Which layer of its cell a chunk of a shard belongs to.
    pub(crate) fn layer_in_cell(&self, across: usize, chunk: usize) -> usize {
        let scattered = self.volume.as_ref().and_then(|volume| volume.layer_of_table(across, chunk));
        scattered.unwrap_or(chunk / self.shard.layer_chunks)
    }

    /// The entry of a chunk in its shard's index: its place in the shard or, in a volume, its id.
    pub(crate) fn entry_of(&self, grid: &[u64; MAX_OUTER], across: usize, chunk: usize) -> u64 {
        self.volume.as_ref().map_or(chunk as u64, |volume| volume.id(grid, across, chunk))
    }

    /// The position of a shard in the grid of shards, or its number where shards are no boxes. `across`: its place
    /// beside the others of its cell.
    pub(crate) fn shard_position(&self, grid: &[u64; MAX_OUTER], across: usize) -> Vec<u64> {
        let Layout { shape, file_shape, .. } = &self.array.layout;
        if !self.array.layout.has_boxes() {
            return vec![across as u64];
        }
        let outer = self.order.outer_dims();
        let columns = shape[outer + 1].div_ceil(file_shape[outer + 1]);
        let mut position = grid[..outer].to_vec();
        position.extend([across as u64 / columns, across as u64 % columns]);
        position
    }

    /// The array's shape before the first frame.
    pub(crate) fn first_shape(&self) -> Vec<u64> {
        let mut shape = self.array.layout.shape.clone();
        if let Some(extent) = self.extent(0, false) {
            shape[0] = extent;
        }
        shape
    }

    /// How long documents say that the array's first dimension is once `frames` frames have come; `None` if they don't
    /// change it. `last`: no more will come.
    pub(crate) fn extent(&self, frames: u64, last: bool) -> Option<u64> {
        if last {
            return self.declared_extent(frames);
        }
        if self.frames_total.is_some() {
            return None;
        }
        let Some(volume) = &self.volume else { return self.order.first_dim_extent(frames) };
        // A chunk that a volume cuts off is shorter, and that of a run in progress may be whole already.
        let depth = self.array.layout.chunk_shape[0];
        Some((self.order.first_dim_extent(frames)? / depth).max(volume.volume.depth_min()) * depth)
    }

    /// How long the array's first dimension is declared to be once `frames` frames have come and no more will; `None`
    /// if they don't change it.
    fn declared_extent(&self, frames: u64) -> Option<u64> {
        let extent = self.order.first_dim_extent(frames)?;
        match &self.volume {
            Some(volume) if self.frames_total.is_none() => {
                Some(volume.volume.declared_extent(extent, self.array.layout.chunk_shape[0]))
            }
            // A smaller volume's chunks would have other ids.
            Some(_) => None,
            None => Some(extent),
        }
    }

    /// One past the last number that has a place in the array once `frames` frames have come and no more will: a run
    /// that ends within a stack leaves places without frames. `None`: all that were planned have one.
    pub(crate) fn places_end(&self, frames: u64) -> Option<u64> {
        self.declared_extent(frames)?;
        self.order.places_end(frames)
    }

    /// The numbers below `frames` that have no place in an array whose documents say that it is so long.
    pub(crate) fn hidden(&self, extent: u64, frames: u64) -> Range<u64> {
        let a_place = if self.frames_total.is_none() { self.places_end(1) } else { None };
        let shown = a_place.map_or(frames, |frames_a_place| extent.saturating_mul(frames_a_place));
        shown.min(frames)..frames
    }

    /// How many planes of each stack of a layer are kept: fewer than a chunk is deep where chunks end with the array.
    /// `frames_end`: how many frames there are, when no more will come.
    pub(crate) fn planes_kept(&self, grid: &[u64; MAX_OUTER], frames_end: Option<u64>) -> u64 {
        let Some(z) = self.volume.as_ref().and_then(|volume| volume.z) else { return self.planes_a_stack() };
        let depth = self.array.layout.chunk_shape[z];
        match frames_end.filter(|_| self.frames_total.is_none()).and_then(|frames| self.declared_extent(frames)) {
            Some(extent) => extent.saturating_sub(grid[z] * depth).clamp(1, depth),
            None => self.layers.extent(grid)[z],
        }
    }

    /// Planes that follow each other in a chunk until the next channel's.
    pub(crate) fn planes_a_stack(&self) -> u64 {
        match &self.volume {
            Some(volume) => volume.z.map_or(1, |z| self.array.layout.chunk_shape[z]),
            None => self.layers.frames_a_cell(),
        }
    }

    /// How many layers a cell of shards will get when all frames come.
    pub(crate) fn layers_of_shard(&self, grid: &[u64; MAX_OUTER]) -> u64 {
        let chunks = &self.array.layout.chunk_shape[..self.order.outer_dims()];
        self.shards.extent(grid).iter().zip(chunks).map(|(extent, chunk)| extent.div_ceil(*chunk)).product()
    }
}

/// The array as its documents will describe it.
fn described(
    config: &Config,
    frame: &FramePlan,
    shard: &ShardPlan,
    chunk_shape: Vec<u64>,
    file_shape: Vec<u64>,
    volume: Option<&VolumePlan>,
) -> Metadata {
    let index = shard.index.table.filter(|_| rules(config.dialect).shares_files);
    let files = match volume {
        Some(volume) => Files::Volume(volume.volume.clone()),
        None => Files::Grid { keys: KeyEncoding::of_writer(rules(config.dialect).key_prefix), index },
    };
    let layout = Layout {
        dialect: config.dialect,
        shape: config.dims.iter().map(|dim| dim.size.unwrap_or(0)).collect(),
        names: Some(config.dims.iter().map(|dim| dim.name.clone()).collect()),
        chunk_shape,
        file_shape,
        files,
        index_order: None,
    };
    // Frames are stored in the byte order of the machine that they arrive on.
    let dtype = config.dtype.into();
    let chain = Chain::new(config.codec.clone(), cfg!(target_endian = "big"), dtype, None);
    let mut fill = frame.fill.clone();
    if cfg!(target_endian = "big") {
        fill.reverse();
    }
    let attributes = serde_json::Value::Null;
    Metadata { layout, dtype, chain, fill, is_fill_undefined: false, attributes, manifest: None }
}

/// A list of all tiles is kept, and walked for each layer.
fn check_tiles(size: [u64; 2], chunk: &[u64]) -> Result<()> {
    let count = size.iter().zip(chunk).map(|(size, chunk)| u128::from(size.div_ceil(*chunk))).product::<u128>();
    if count <= TILES_MAX {
        return Ok(());
    }
    let reason =
        format!("a frame of {size:?} would be {count} chunks, at most {TILES_MAX} are possible; choose larger chunks");
    Err(Error::config("dims.chunk", format_args!("{chunk:?}"), reason))
}

fn workers(config: &Config) -> Result<usize> {
    let workers = match config.workers {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        workers => workers,
    };
    check_workers(workers)?;
    let cores = system::cores();
    if let Some(absent) = config.affinity.iter().find(|&core| !cores.contains(core)) {
        let known: Vec<_> = cores.iter().map(usize::to_string).collect();
        let reason = format!("there is no such core; this process may use {}", known.join(", "));
        return Err(Error::config("affinity", absent, reason));
    }
    Ok(workers)
}
