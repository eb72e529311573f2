//! Every size, count, bound and offset of an acquisition, computed once from the wishes in [`Config`], checked, then only
//! read.

mod dialects;
mod volume;

use rustix::process::{Resource, getrlimit};

use crate::codec::Encoder;
use crate::config::{Config, Dialect, Dim, FrameLayout, IndexLocation, Placement};
use crate::dtype::Dtype;
use crate::error::{Error, Result};
use crate::geometry::{Cells, MAX_OUTER, Order, Tile, tiles};
use crate::ome;
use crate::shard::index::minishards;
use crate::shard::slot::HEADER_BYTES;
pub(crate) use volume::VolumePlan;

/// Disk blocks and memory pages: what holes and buffers are aligned to.
pub(crate) const PAGE: usize = 4096;

// What the automatic sizes aim at: chunks that a reader likes to fetch, shards that a file system likes to hold.
const AUTO_CHUNK_BYTES: u64 = 512 << 10;
const AUTO_SHARD_BYTES: u64 = 512 << 20;
// Readers load a shard's index as a whole, 16 bytes a chunk: an index of millions of tiny chunks would outweigh them.
const AUTO_SHARD_CHUNKS: u64 = 1 << 16;

// Blosc frames count their bytes in 31 bits.
const CHUNK_BYTES_MAX: u64 = (1 << 31) - (1 << 20);
// An index of 256 MiB.
const CHUNKS_A_SHARD_MAX: u64 = 1 << 24;
const FRAME_BYTES_MAX: u64 = 1 << 40;
const FRAMES_MAX: u64 = 1 << 56;
const WORKERS_MAX: usize = 1024;
const RING_FRAMES_MAX: usize = 1 << 22;
const WINDOW_MAX: u64 = 1 << 14;
// Shards being filled, closed and prepared keep their worst case reserved on the disk.
const RESERVED_BYTES_MAX: u64 = 4 << 30;
/// Fields of the caller's own in a frame's record.
pub(crate) const RECORD_FIELDS_MAX: usize = 16;

/// How far beyond the newest frame a number may leap.
pub(crate) const LEAP_MAX: u64 = 1 << 24;

/// The facts of one acquisition.
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
    /// The array's shape; an unbounded first dimension counts as 0.
    pub(crate) shape: Vec<u64>,
    pub(crate) chunk_shape: Vec<u64>,
    pub(crate) shard_shape: Vec<u64>,
    pub(crate) tiles: Vec<Tile>,
    pub(crate) shard: ShardPlan,
    /// Of a precomputed volume.
    pub(crate) volume: Option<VolumePlan>,
    pub(crate) ring: RingPlan,
    pub(crate) record: RecordPlan,
    /// Worker threads.
    pub(crate) workers: usize,
}

/// One frame, and how it lies in a ring buffer.
#[derive(Debug)]
pub(crate) struct FramePlan {
    pub(crate) dtype: Dtype,
    pub(crate) rows: usize,
    pub(crate) row_bytes: usize,
    /// All rows without gaps.
    pub(crate) bytes: usize,
    pub(crate) layout: FrameLayout,
    /// One element of the fill value, as stored.
    pub(crate) fill: Vec<u8>,
}

/// One chunk and one shard, in bytes.
#[derive(Debug)]
pub(crate) struct ShardPlan {
    pub(crate) placement: Placement,
    pub(crate) index: IndexPlan,
    /// Whether a whole tile of a frame is one piece of the ring's buffer.
    pub(crate) rows_touch: bool,
    /// Decoded bytes of a whole chunk.
    pub(crate) chunk_bytes: usize,
    /// Chunks at the array's edge end there, rather than being filled up.
    pub(crate) cut_at_edge: bool,
    /// A shard without chunks is a file all the same.
    pub(crate) keep_empty: bool,
    /// Whether a chunk's last 4 bytes are a CRC-32C of those before.
    pub(crate) checksum: bool,
    /// Chunks of one shard file.
    pub(crate) chunks: usize,
    /// Chunks a shard in each outer dimension.
    pub(crate) outer_chunks: Vec<u64>,
    /// Chunks of one layer in one cell's row of shards, where these are boxes in one of them.
    pub(crate) layer_chunks: usize,
    /// Layers that a cell of shards has room for.
    pub(crate) layers: usize,
    /// Shards side by side that cover a frame.
    pub(crate) across_frame: usize,
    /// From one slot's start to the next.
    pub(crate) slot_bytes: usize,
    pub(crate) first_slot_at: u64,
    /// The length of a shard file while it is being filled.
    pub(crate) reserve_bytes: u64,
}

/// Where a shard's index stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IndexPlan {
    pub(crate) form: IndexForm,
    /// Its bytes before the slots.
    pub(crate) head_bytes: u64,
    /// The most bytes that it has behind the chunks.
    pub(crate) tail_bytes_max: u64,
    /// While the shard is open, where the part behind the chunks stands: each new one in the other place than the one before.
    pub(crate) open_tails_at: [u64; 2],
}

/// The form of a shard's index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IndexForm {
    /// One table, with or without a checksum.
    Table { location: IndexLocation, checksum: bool },
    /// A table of tables, as a precomputed volume has it.
    Minishards,
}

/// The ring and everything whose number follows from it.
#[derive(Debug, Default)]
pub(crate) struct RingPlan {
    pub(crate) frames: usize,
    /// How many numbers behind the newest one a missing frame is still waited for.
    pub(crate) window: u64,
    pub(crate) layer_slots: usize,
    /// Blocks of shards that may be open at once, and that are prepared ahead.
    pub(crate) shard_blocks: u64,
    pub(crate) shard_blocks_ahead: u64,
    /// Blocks of shards that exist at once, those being closed included.
    pub(crate) shard_blocks_live: u64,
    /// Work tickets that a layer gives out: one for each worker that it can feed.
    pub(crate) tickets_a_layer: u32,
}

/// The fields of a frame's record, in the order in which they lie in it.
#[derive(Debug)]
pub(crate) struct RecordPlan {
    pub(crate) fields: Vec<RecordColumn>,
    pub(crate) bytes: usize,
    /// Frames in one chunk of a record array.
    pub(crate) block_frames: u64,
}

/// One field of a record: an array beside the image.
#[derive(Debug)]
pub(crate) struct RecordColumn {
    pub(crate) name: String,
    pub(crate) dtype: Dtype,
    /// Where it lies in a record.
    pub(crate) offset: usize,
}

/// Fields that every record has: the frame's number (−1 where no frame came), the device's time stamp, and the host's, in
/// nanoseconds since 1970.
pub(crate) const FIXED_FIELDS: [(&str, Dtype); 3] =
    [("frame_number", Dtype::I64), ("device_timestamp", Dtype::U64), ("host_timestamp", Dtype::I64)];

impl Plan {
    pub(crate) fn new(config: &Config) -> Result<Self> {
        let mut plan = Self::on_disk(config)?;
        let Self { frame, layers, shards, shard, frames_total, workers, tiles, .. } = &plan;
        plan.ring = RingPlan::new(config, frame, layers, shards, shard, *frames_total, *workers, tiles.len())?;
        Ok(plan)
    }

    /// What follows for files and documents alone: for those who write them without a camera. There is no ring.
    pub(crate) fn on_disk(config: &Config) -> Result<Self> {
        let dims = check_dims(config)?;
        ome::validate(config)?;
        let outer = dims.len() - 2;
        let acquired = acquisition_order(config)?;
        dialects::check(config)?;
        let (chunk_shape, shard_shape, volume) = chunks_and_shards(config, &acquired)?;
        let sizes = dims[..outer].iter().map(|dim| dim.size.unwrap_or(u64::MAX)).collect();
        let order = Order::new(sizes, acquired);
        let mut layers = Cells::new(&order, chunk_shape[..outer].to_vec());
        if let Some(VolumePlan { z: Some(z), channel: Some(channel), .. }) = volume {
            layers = layers.stacked(vec![channel, z]);
        }
        let shards = Cells::new(&order, shard_shape[..outer].to_vec());
        let frames_total = dims[..outer].iter().try_fold(1u64, |frames, dim| Some(frames * dim.size?));

        let frame = FramePlan::new(config)?;
        let size = [dims[outer].size.unwrap_or(0), dims[outer + 1].size.unwrap_or(0)];
        let tiles =
            tiles(size, [chunk_shape[outer], chunk_shape[outer + 1]], [shard_shape[outer], shard_shape[outer + 1]]);
        let shard = ShardPlan::new(config, &frame, size, &chunk_shape, &shard_shape, volume.as_ref())?;
        let workers = workers(config)?;
        let record = RecordPlan::new(config, frames_total)?;
        let ring = RingPlan::default();
        let shape = dims.iter().map(|dim| dim.size.unwrap_or(0)).collect();
        Ok(Self {
            frame,
            order,
            layers,
            shards,
            frames_total,
            shape,
            chunk_shape,
            shard_shape,
            tiles,
            shard,
            volume,
            ring,
            record,
            workers,
        })
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

    /// Which layer of its cell a chunk of a shard belongs to.
    pub(crate) fn layer_in_cell(&self, across: usize, chunk: usize) -> usize {
        let scattered = self.volume.as_ref().and_then(|volume| volume.layer_of_table(across, chunk));
        scattered.unwrap_or(chunk / self.shard.layer_chunks)
    }

    /// The array's shape before the first frame.
    pub(crate) fn first_shape(&self) -> Vec<u64> {
        let mut shape = self.shape.clone();
        if let Some(extent) = self.extent(0, false) {
            shape[0] = extent;
        }
        shape
    }

    /// How long documents say that the array's first dimension is once `frames` frames have come; `None` if they don't change
    /// it. `last`: no more will come.
    pub(crate) fn extent(&self, frames: u64, last: bool) -> Option<u64> {
        if last {
            return self.declared_extent(frames);
        }
        if self.frames_total.is_some() {
            return None;
        }
        let Some(volume) = &self.volume else { return self.order.first_dim_extent(frames) };
        // A chunk that a volume cuts off is shorter, and that of a run in progress may be whole already.
        let depth = self.chunk_shape[0];
        Some((self.order.first_dim_extent(frames)? / depth).max(volume.depth_min) * depth)
    }

    /// How long the array's first dimension is declared to be once `frames` frames have come and no more will; `None` if they
    /// don't change it.
    fn declared_extent(&self, frames: u64) -> Option<u64> {
        let extent = self.order.first_dim_extent(frames)?;
        match &self.volume {
            // The ids of chunks mean what they say only in a volume of so many bits.
            Some(volume) if self.frames_total.is_none() => {
                let depth = self.chunk_shape[0];
                Some(if extent.div_ceil(depth) >= volume.depth_min { extent } else { volume.depth_min * depth })
            }
            // A smaller volume's chunks would have other ids.
            Some(_) => None,
            None => Some(extent),
        }
    }

    /// How many planes of each stack of a layer are kept: fewer than a chunk is deep where chunks end with the array.
    /// `frames_end`: how many frames there are, when no more will come.
    pub(crate) fn planes_kept(&self, grid: &[u64; MAX_OUTER], frames_end: Option<u64>) -> u64 {
        let Some(z) = self.volume.as_ref().and_then(|volume| volume.z) else { return self.planes_a_stack() };
        let depth = self.chunk_shape[z];
        match frames_end.filter(|_| self.frames_total.is_none()).and_then(|frames| self.declared_extent(frames)) {
            Some(extent) => extent.saturating_sub(grid[z] * depth).clamp(1, depth),
            None => self.layers.extent(grid)[z],
        }
    }

    /// Planes that follow each other in a chunk until the next channel's.
    pub(crate) fn planes_a_stack(&self) -> u64 {
        match &self.volume {
            Some(volume) => volume.z.map_or(1, |z| self.chunk_shape[z]),
            None => self.layers.frames_a_cell(),
        }
    }

    /// How many layers a cell of shards will get when all frames come.
    pub(crate) fn layers_of_shard(&self, grid: &[u64; MAX_OUTER]) -> u64 {
        let extent = self.shards.extent(grid);
        extent.iter().zip(&self.chunk_shape[..self.order.outer_dims()]).map(|(&e, &chunk)| e.div_ceil(chunk)).product()
    }
}

impl FramePlan {
    fn new(config: &Config) -> Result<Self> {
        let [.., y, x] = &config.dims[..] else { unreachable!("check_dims saw at least two dimensions") };
        let (rows, columns) = (y.size.unwrap_or(0) as usize, x.size.unwrap_or(0) as usize);
        let row_bytes = columns * config.dtype.size();
        let bytes = rows * row_bytes;
        let layout =
            config.frame_layout.unwrap_or(FrameLayout { buffer_bytes: bytes, offset: 0, row_stride: row_bytes });
        let needed = (rows - 1)
            .checked_mul(layout.row_stride)
            .and_then(|last| last.checked_add(layout.offset)?.checked_add(row_bytes));
        if layout.row_stride < row_bytes || needed.is_none_or(|needed| needed > layout.buffer_bytes) {
            return Err(Error::config(
                "frame_layout",
                format_args!("{layout:?}"),
                format!(
                    "{rows} rows of {row_bytes} bytes must lie within the buffer, a row_stride of at least {row_bytes} apart"
                ),
            ));
        }
        Ok(Self { dtype: config.dtype, rows, row_bytes, bytes, layout, fill: fill_element(config)? })
    }
}

impl ShardPlan {
    fn new(
        config: &Config,
        frame: &FramePlan,
        size: [u64; 2],
        chunk_shape: &[u64],
        shard_shape: &[u64],
        volume: Option<&VolumePlan>,
    ) -> Result<Self> {
        let element = config.dtype.size();
        let shape = || format!("{chunk_shape:?}");
        let chunk_bytes = chunk_shape
            .iter()
            .try_fold(element as u64, |bytes, &n| bytes.checked_mul(n))
            .filter(|&bytes| bytes <= CHUNK_BYTES_MAX)
            .ok_or_else(|| {
                Error::config("dims.chunk", shape(), "a chunk may hold at most 2 GiB; choose smaller chunks")
            })?;
        let chunk_bytes = chunk_bytes as usize;
        let counts: Vec<u64> = shard_shape.iter().zip(chunk_shape).map(|(shard, chunk)| shard / chunk).collect();
        let chunks = counts
            .iter()
            .try_fold(1u64, |chunks, &n| chunks.checked_mul(n))
            .filter(|&chunks| chunks <= CHUNKS_A_SHARD_MAX)
            .ok_or_else(|| {
                let reason = format!("a shard may hold at most {CHUNKS_A_SHARD_MAX} chunks of {chunk_shape:?}; choose smaller shards or larger chunks");
                Error::config("dims.shard", format_args!("{shard_shape:?}"), reason)
            })? as usize;
        let chunks = volume.and_then(VolumePlan::chunks_max).unwrap_or(chunks);
        let encoded_bytes_max = Encoder::new(&config.codec, element, chunk_bytes)?.bound();
        let filled = HEADER_BYTES + encoded_bytes_max;
        // Holes are punched, and direct writes done, in whole blocks, so a slot that spans some starts on one.
        let slot_bytes = filled.next_multiple_of(if filled >= PAGE { PAGE } else { 8 });
        let mut index = IndexPlan::new(config, chunks as u64, volume);
        let first_slot_at = index.head_bytes.next_multiple_of(PAGE as u64);
        let slots =
            (slot_bytes as u64).checked_mul(chunks as u64).filter(|&bytes| bytes < 1 << 62).ok_or_else(|| {
                Error::config(
                    "dims.shard",
                    format_args!("{shard_shape:?}"),
                    "a shard file would pass 4 EiB; choose smaller shards",
                )
            })?;
        let reserve_bytes = index.place_tails(first_slot_at + slots);
        let outer = chunk_shape.len() - 2;
        let rows_touch =
            chunk_shape[outer + 1] as usize * element == frame.layout.row_stride && size[1] == chunk_shape[outer + 1];
        Ok(Self {
            placement: config.placement,
            index,
            rows_touch,
            chunk_bytes,
            cut_at_edge: volume.is_some(),
            keep_empty: config.dialect == Dialect::Zarr2Sharded,
            checksum: config.codec.checksum,
            chunks,
            layer_chunks: (counts[outer] * counts[outer + 1]) as usize,
            layers: counts[..outer].iter().product::<u64>() as usize,
            outer_chunks: counts[..outer].to_vec(),
            across_frame: volume
                .and_then(VolumePlan::shards_at_once)
                .unwrap_or((size[0].div_ceil(shard_shape[outer]) * size[1].div_ceil(shard_shape[outer + 1])) as usize),
            slot_bytes,
            first_slot_at,
            reserve_bytes,
        })
    }
}

impl IndexPlan {
    fn new(config: &Config, chunks: u64, volume: Option<&VolumePlan>) -> Self {
        let open_tails_at = [0; 2];
        if let Some(volume) = volume {
            let tail_bytes_max = minishards::tail_bytes_max(&volume.spec, chunks);
            return Self {
                form: IndexForm::Minishards,
                head_bytes: volume.spec.head_bytes(),
                tail_bytes_max,
                open_tails_at,
            };
        }
        let (location, checksum) = (config.index_location, config.index_checksum && config.dialect == Dialect::Zarr3);
        let bytes = 16 * chunks + if checksum { 4 } else { 0 };
        let (head_bytes, tail_bytes_max) = match location {
            IndexLocation::Start => (bytes, 0),
            IndexLocation::End => (0, bytes),
        };
        Self { form: IndexForm::Table { location, checksum }, head_bytes, tail_bytes_max, open_tails_at }
    }

    /// Finds the places of the part behind the chunks while a shard is open, and returns the length of its file.
    ///
    /// The final one, which follows the last chunk, must not touch the one before until the file is cut off. That one starts
    /// on a page, because it is rewritten in place: what fits a page is never torn. In a precomputed shard the head says where
    /// it is, so it is never rewritten in place: there are two.
    fn place_tails(&mut self, slots_end: u64) -> u64 {
        if self.tail_bytes_max == 0 {
            return slots_end;
        }
        let page = PAGE as u64;
        let first = (slots_end + self.tail_bytes_max).next_multiple_of(page);
        let second = match self.form {
            IndexForm::Minishards => (first + self.tail_bytes_max).next_multiple_of(page),
            IndexForm::Table { .. } => first,
        };
        self.open_tails_at = [first, second];
        second + self.tail_bytes_max
    }
}

impl RingPlan {
    #[allow(clippy::too_many_arguments)]
    fn new(
        config: &Config,
        frame: &FramePlan,
        layers: &Cells,
        shards: &Cells,
        shard: &ShardPlan,
        frames_total: Option<u64>,
        workers: usize,
        tiles: usize,
    ) -> Result<Self> {
        let frame_stride = frame.layout.buffer_bytes.next_multiple_of(PAGE);
        let affordable = (config.ring_bytes / frame_stride).min(RING_FRAMES_MAX);
        let span = layers.frames_a_block();
        let total = frames_total.unwrap_or(u64::MAX);
        // One frame to fill while the layers of one block are complete, and one to spare.
        let needed = span.saturating_add(2).min(total);
        if (affordable as u64) < needed {
            let bytes = needed.saturating_mul(frame_stride as u64);
            return Err(Error::config(
                "ring_bytes",
                config.ring_bytes,
                format!(
                    "layers of {} frames, {} of them open at once, need a ring of {needed} frames, {bytes} bytes; \
                     allow more memory or make chunks shallower",
                    layers.frames_a_cell(),
                    layers.cells_a_block
                ),
            ));
        }
        let frames = (affordable as u64).min(total) as usize;
        let shards_a_block = shards.cells_a_block.saturating_mul(shard.across_frame as u64);
        let reserve = shards_a_block.saturating_mul(shard.reserve_bytes).max(1);
        let live_blocks_max = check_descriptors(shards_a_block)?;
        let shard_blocks = (256 / shards_a_block).min(RESERVED_BYTES_MAX / reserve).min(live_blocks_max).clamp(4, 64);

        let spare = (frames as u64 / 8).clamp(1, 64);
        let in_ring = (frames as u64).saturating_sub(span + spare).max(1);
        // The window must not reach over more shards than may be open, or the next one would be waited for for ever.
        let whole_blocks = if shards.has_short_blocks() { (shard_blocks - 2) / 2 } else { shard_blocks - 2 };
        let in_shards = shards.frames_a_block().saturating_mul(whole_blocks);
        let window = if frames as u64 == total { total } else { in_ring };
        let window = window.min(in_shards).min(WINDOW_MAX.max(span));
        // Layers that gather: blocks at an edge may be as short as one frame, but then their neighbours are not. And layers
        // that wait for workers; more of them than this just wait in the ring.
        let blocks = 2 * window.div_ceil(span) + 2;
        let waiting = (frames as u64).div_ceil(layers.frames_a_cell().max(1)).min(1024) + 2;
        let layer_slots = blocks * layers.cells_a_block + waiting;
        let shard_blocks_ahead = ((64 << 20) / reserve).clamp(1, 16).min(shard_blocks - 2);
        Ok(Self {
            frames,
            window,
            layer_slots: layer_slots as usize,
            shard_blocks,
            shard_blocks_ahead,
            shard_blocks_live: (shard_blocks + shard_blocks_ahead + 2).min(live_blocks_max),
            tickets_a_layer: workers.min(tiles) as u32,
        })
    }
}

impl RecordPlan {
    fn new(config: &Config, frames_total: Option<u64>) -> Result<Self> {
        if config.record_fields.len() > RECORD_FIELDS_MAX {
            let reason = format!("at most {RECORD_FIELDS_MAX} are possible");
            return Err(Error::config("record_fields", format_args!("{} fields", config.record_fields.len()), reason));
        }
        let mut fields = Vec::new();
        let mut offset = 0;
        let user = config.record_fields.iter().map(|field| (field.name.as_str(), field.dtype));
        for (name, dtype) in FIXED_FIELDS.into_iter().chain(user) {
            check_record_name(name, &fields)?;
            fields.push(RecordColumn { name: name.to_owned(), dtype, offset });
            offset += dtype.size();
        }
        let block_frames = frames_total.unwrap_or(u64::MAX).clamp(1, 16384);
        Ok(Self { fields, bytes: offset, block_frames })
    }
}

fn check_record_name(name: &str, earlier: &[RecordColumn]) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || !name.chars().all(plain) {
        return Err(Error::config(
            "record_fields.name",
            format_args!("{name:?}"),
            "letters, digits, _ and - are possible",
        ));
    }
    if earlier.iter().any(|field| field.name == name) {
        return Err(Error::config(
            "record_fields.name",
            name,
            "each field needs a name of its own; frame_number, device_timestamp and host_timestamp are taken",
        ));
    }
    Ok(())
}

fn check_dims(config: &Config) -> Result<&[Dim]> {
    let dims = &config.dims[..];
    let names = || dims.iter().map(|dim| dim.name.as_str()).collect::<Vec<_>>().join(", ");
    if dims.len() < 2 || dims.len() > MAX_OUTER + 2 {
        return Err(Error::config(
            "dims",
            format_args!("[{}]", names()),
            format!("2 to {} dimensions are possible; the last two are the rows and columns of a frame", MAX_OUTER + 2),
        ));
    }
    for (at, dim) in dims.iter().enumerate() {
        if dim.name.is_empty() || dims[..at].iter().any(|other| other.name == dim.name) {
            return Err(Error::config(
                "dims.name",
                format_args!("[{}]", names()),
                "each dimension needs a name of its own",
            ));
        }
        if dim.size == Some(0) {
            return Err(Error::config("dims.size", 0, format!("dimension {} needs at least one element", dim.name)));
        }
        if dim.size.is_none() && (at > 0 || dims.len() == 2) {
            return Err(Error::config(
                "dims.size",
                "none",
                format!("only the first dimension before rows and columns may be unbounded; give {} a size", dim.name),
            ));
        }
        if !(dim.scale.is_finite() && dim.scale > 0.0) {
            return Err(Error::config(
                "dims.scale",
                dim.scale,
                format!("dimension {} needs a positive scale", dim.name),
            ));
        }
    }
    let product = |dims: &[Dim]| dims.iter().try_fold(1u64, |product, dim| product.checked_mul(dim.size.unwrap_or(1)));
    let (outer, frame) = dims.split_at(dims.len() - 2);
    if product(outer).is_none_or(|frames| frames > FRAMES_MAX) {
        return Err(Error::config(
            "dims.size",
            format_args!("[{}]", names()),
            format!("at most {FRAMES_MAX} frames are possible"),
        ));
    }
    if product(frame)
        .and_then(|pixels| pixels.checked_mul(config.dtype.size() as u64))
        .is_none_or(|b| b > FRAME_BYTES_MAX)
    {
        return Err(Error::config("dims.size", format_args!("[{}]", names()), "a frame may hold at most 1 TiB"));
    }
    Ok(dims)
}

fn acquisition_order(config: &Config) -> Result<Vec<usize>> {
    let outer = &config.dims[..config.dims.len() - 2];
    let wished = &config.acquisition_order;
    if wished.is_empty() {
        return Ok((0..outer.len()).collect());
    }
    let refuse = |reason: &str| {
        let names: Vec<_> = outer.iter().map(|dim| dim.name.as_str()).collect();
        let reason = format!("{reason}; name each outer dimension once, slowest first: {}", names.join(", "));
        Error::config("acquisition_order", format_args!("[{}]", wished.join(", ")), reason)
    };
    let place = |name: &String| outer.iter().position(|dim| dim.name == *name);
    let order: Option<Vec<usize>> = wished.iter().map(place).collect();
    let order = order.ok_or_else(|| refuse("there is no such dimension"))?;
    let mut sorted = order.clone();
    sorted.sort_unstable();
    if sorted != (0..outer.len()).collect::<Vec<_>>() {
        return Err(refuse("a dimension is missing or named twice"));
    }
    if outer[0].size.is_none() && order[0] != 0 {
        return Err(refuse("an unbounded dimension can only be the slowest to arrive"));
    }
    Ok(order)
}

/// The size of a dimension; an unbounded one counts as `u64::MAX`.
fn dim_size(dims: &[Dim], dim: usize) -> u64 {
    dims[dim].size.unwrap_or(u64::MAX)
}

/// Chunk and shard shapes, with the automatic ones filled in.
fn chunks_and_shards(config: &Config, acquired: &[usize]) -> Result<(Vec<u64>, Vec<u64>, Option<VolumePlan>)> {
    let dims = &config.dims;
    let outer = dims.len() - 2;
    let element = config.dtype.size() as u64;
    let size = |dim: usize| dim_size(dims, dim);

    let mut chunk: Vec<u64> = dims.iter().map(|dim| dim.chunk).collect();
    dialects::chunk_channels(config, &mut chunk)?;
    let [y, x] = [outer, outer + 1];
    let (auto_y, auto_x) = (chunk[y] == 0, chunk[x] == 0);
    chunk[y] = if auto_y { size(y) } else { chunk[y] };
    chunk[x] = if auto_x { size(x) } else { chunk[x] };
    let deep: u64 = chunk[..outer].iter().map(|&n| n.max(1)).fold(1, u64::saturating_mul);
    let bytes = |chunk: &[u64]| deep.saturating_mul(element).saturating_mul(chunk[y]).saturating_mul(chunk[x]);
    while bytes(&chunk) > AUTO_CHUNK_BYTES && ((auto_y && chunk[y] > 16) || (auto_x && chunk[x] > 16)) {
        let halve = if auto_y && chunk[y] > 16 && (chunk[y] >= chunk[x] || !auto_x || chunk[x] <= 16) { y } else { x };
        chunk[halve] = chunk[halve].div_ceil(2);
    }
    // Small frames: several of them make one chunk, along the dimension that arrives fastest.
    if let Some(&fastest) = acquired.last().filter(|&&dim| chunk[dim] == 0) {
        let fit = AUTO_CHUNK_BYTES / bytes(&chunk).max(1);
        chunk[fastest] = if fit >= 8 { fit.min(size(fastest)) } else { 1 };
    }
    chunk.iter_mut().for_each(|n| *n = (*n).max(1));

    let mut shard: Vec<u64> = dims.iter().map(|dim| dim.shard).collect();
    if let Some(volume) = VolumePlan::new(config, &chunk, &mut shard)? {
        return Ok((chunk, shard, Some(volume)));
    }
    for dim in [y, x] {
        if shard[dim] == 0 {
            shard[dim] = size(dim).next_multiple_of(chunk[dim]);
        }
    }
    for &dim in acquired.iter().rev() {
        if shard[dim] == 0 {
            let others: u64 =
                shard.iter().zip(&chunk).map(|(&s, &c)| if s == 0 { c } else { s }).fold(element, u64::saturating_mul);
            let grid = shard.iter().zip(&chunk).map(|(&s, &c)| if s == 0 { 1 } else { (s / c).max(1) });
            let chunks = grid.fold(1, u64::saturating_mul);
            let fit = (AUTO_SHARD_BYTES / (others / chunk[dim]).max(1))
                .min((AUTO_SHARD_CHUNKS / chunks).max(1).saturating_mul(chunk[dim]))
                .max(1);
            let whole = size(dim).checked_next_multiple_of(chunk[dim]).unwrap_or(u64::MAX);
            shard[dim] = if fit >= whole { whole } else { (fit / chunk[dim]).max(1) * chunk[dim] };
        }
    }
    for (dim, (&shard, &chunk)) in dims.iter().zip(shard.iter().zip(&chunk)) {
        if shard % chunk != 0 {
            let near = (shard / chunk).max(1) * chunk;
            let reason =
                format!("dimension {}: a shard must hold whole chunks of {chunk}; {near} would be possible", dim.name);
            return Err(Error::config("dims.shard", shard, reason));
        }
    }
    Ok((chunk, shard, None))
}

fn workers(config: &Config) -> Result<usize> {
    let workers = match config.workers {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        workers => workers,
    };
    if workers > WORKERS_MAX {
        return Err(Error::config("workers", workers, format!("at most {WORKERS_MAX} worker threads are possible")));
    }
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    if let Some(absent) = config.affinity.iter().find(|&&core| !cores.iter().any(|known| known.id == core)) {
        let known: Vec<_> = cores.iter().map(|core| core.id.to_string()).collect();
        return Err(Error::config(
            "affinity",
            absent,
            format!("there is no such core; this process may use {}", known.join(", ")),
        ));
    }
    Ok(workers)
}

/// A run holds the shards being filled, those being closed and those being prepared. Returns how many blocks of them the
/// process's limit allows.
fn check_descriptors(shards_a_block: u64) -> Result<u64> {
    if cfg!(miri) {
        // Miri knows no limits.
        return Ok(u64::MAX);
    }
    let needed = shards_a_block.saturating_mul(3).saturating_add(64);
    match getrlimit(Resource::Nofile).current {
        Some(limit) if limit < needed => Err(Error::config(
            "dims.shard",
            format_args!("{shards_a_block} shards open at once"),
            format!(
                "needs {needed} open files, and this process may have {limit}; use larger shards or raise the limit (ulimit -n)"
            ),
        )),
        Some(limit) => Ok((limit - 64) / shards_a_block.max(1)),
        None => Ok(u64::MAX),
    }
}

/// One element of the fill value in the byte order of the machine, which is the one that documents declare.
fn fill_element(config: &Config) -> Result<Vec<u8>> {
    let value = config.fill_value;
    macro_rules! element {
        ($int:ty) => {{
            let element = value as $int;
            // A cast saturates and rounds; only what survives the way back was a value of the type.
            if element as f64 != value {
                let reason = format!("{} holds whole numbers from {} to {}", config.dtype, <$int>::MIN, <$int>::MAX);
                return Err(Error::config("fill_value", value, reason));
            }
            element.to_ne_bytes().to_vec()
        }};
    }
    Ok(match config.dtype {
        Dtype::U8 => element!(u8),
        Dtype::I8 => element!(i8),
        Dtype::U16 => element!(u16),
        Dtype::I16 => element!(i16),
        Dtype::U32 => element!(u32),
        Dtype::I32 => element!(i32),
        Dtype::U64 => element!(u64),
        Dtype::I64 => element!(i64),
        Dtype::F32 => (value as f32).to_ne_bytes().to_vec(),
        Dtype::F64 => value.to_ne_bytes().to_vec(),
    })
}
