//! Every size, count, bound and offset of an acquisition, computed once from the wishes in [`Config`], checked, then only
//! read.

#[cfg(all(test, not(loom)))]
mod absurd;
mod auto;
mod dialects;
mod dims;
mod record;
mod ring;
mod volume;

use crate::aligned_memory::PAGE;
use crate::codec::Encoder;
use crate::config::{Compressor, Config, Dialect, FrameLayout, IndexLocation, Placement, StorageKind};
use crate::dtype::Dtype;
use crate::error::{Error, Result};
use crate::format::codecs::Chain;
use crate::format::index::minishards;
use crate::format::index::table::TableLayout;
use crate::format::keys::KeyEncoding;
use crate::format::layout::{Files, Layout};
use crate::format::slot_header::HEADER_BYTES;
use crate::format::{self, Metadata};
use crate::geometry::{Cells, MAX_OUTER, Order, Tile, tiles};
use crate::ome;
pub(crate) use record::{RecordColumn, RecordPlan};
pub(crate) use ring::RingPlan;
pub(crate) use volume::VolumePlan;

// Blosc frames count their bytes in 31 bits.
const CHUNK_BYTES_MAX: u64 = (1 << 31) - (1 << 20);
// Where chunks start on pages, up to two are lost for each: less than one part in a hundred of these.
const LED_CHUNK_BYTES_MIN: usize = 1 << 20;
// An index of 256 MiB.
const CHUNKS_A_SHARD_MAX: u64 = 1 << 24;
const WORKERS_MAX: usize = 1024;
// Of one frame.
const TILES_MAX: u128 = 1 << 20;

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
    /// The array; an unbounded first dimension counts as 0.
    pub(crate) array: Metadata,
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
    /// Each chunk has a slot of its own; else they follow each other.
    pub(crate) fixed_slots: bool,
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
    /// Bytes of a slot before its header: so many that chunks start on a page where they can then be written past the page
    /// cache from the ring itself, else 0.
    pub(crate) lead_bytes: usize,
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
    /// Of a table, only the first stands there; see [`growth_bytes`](Self::growth_bytes).
    pub(crate) open_tails_at: [u64; 2],
    /// By how much an open file grows with each new table at its end, in whole pages: its last bytes are the table.
    pub(crate) growth_bytes: u64,
    /// How many new layers a table must name to be worth it: all of them together let the file grow to twice its length at most.
    pub(crate) layers_a_growth: u64,
}

/// The form of a shard's index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IndexForm {
    /// One table, with or without a checksum.
    Table { location: IndexLocation, checksum: bool },
    /// A table of tables, as a precomputed volume has it.
    Minishards,
}

impl Plan {
    pub(crate) fn new(config: &Config) -> Result<Self> {
        let mut plan = Self::on_disk(config)?;
        let Self { frame, layers, shards, shard, frames_total, workers, tiles, .. } = &plan;
        plan.ring = RingPlan::new(config, frame, layers, shards, shard, *frames_total, *workers, tiles.len())?;
        Ok(plan)
    }

    /// What follows for files and documents alone: for those who write them without a camera. There is no ring.
    pub(crate) fn on_disk(config: &Config) -> Result<Self> {
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
        let record = RecordPlan::new(config, frames_total)?;
        let ring = RingPlan::default();
        let array = described(config, &frame, &shard, chunk_shape, shard_shape, volume.as_ref());
        Ok(Self { frame, order, layers, shards, frames_total, array, tiles, shard, volume, ring, record, workers })
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

    /// The position of a shard in the grid of shards, or its number where shards are no boxes. `across`: its place beside the others
    /// of its cell.
    pub(crate) fn shard_position(&self, grid: &[u64; MAX_OUTER], across: usize) -> Vec<u64> {
        let Layout { shape, file_shape, .. } = &self.array.layout;
        if self.volume.as_ref().is_some_and(|volume| volume.table.is_some()) {
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
        let depth = self.array.layout.chunk_shape[0];
        Some((self.order.first_dim_extent(frames)? / depth).max(volume.volume.depth_min()) * depth)
    }

    /// How long the array's first dimension is declared to be once `frames` frames have come and no more will; `None` if they
    /// don't change it.
    fn declared_extent(&self, frames: u64) -> Option<u64> {
        let extent = self.order.first_dim_extent(frames)?;
        match &self.volume {
            // The ids of chunks mean what they say only in a volume of so many bits.
            Some(volume) if self.frames_total.is_none() => {
                let depth = self.array.layout.chunk_shape[0];
                Some(if extent.div_ceil(depth) >= volume.volume.depth_min() {
                    extent
                } else {
                    volume.volume.depth_min() * depth
                })
            }
            // A smaller volume's chunks would have other ids.
            Some(_) => None,
            None => Some(extent),
        }
    }

    /// One past the last number that has a place in the array once `frames` frames have come and no more will: a run that ends
    /// within a stack leaves places without frames. `None`: all that were planned have one.
    pub(crate) fn places_end(&self, frames: u64) -> Option<u64> {
        self.declared_extent(frames)?;
        self.order.places_end(frames)
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
        let extent = self.shards.extent(grid);
        extent
            .iter()
            .zip(&self.array.layout.chunk_shape[..self.order.outer_dims()])
            .map(|(&e, &chunk)| e.div_ceil(chunk))
            .product()
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
    let index = match shard.index.form {
        IndexForm::Table { location, checksum } => TableLayout::new(shard.chunks as u64, location, checksum),
        IndexForm::Minishards => None,
    };
    let files = match volume {
        Some(volume) => Files::Volume(volume.volume.clone()),
        None => Files::Grid { keys: KeyEncoding::of_writer(config.dialect), index },
    };
    let layout = Layout {
        dialect: config.dialect,
        shape: config.dims.iter().map(|dim| dim.size.unwrap_or(0)).collect(),
        names: Some(config.dims.iter().map(|dim| dim.name.clone()).collect()),
        chunk_shape,
        file_shape,
        files,
    };
    // Frames are stored in the byte order of the machine that they arrive on.
    let big_endian = cfg!(target_endian = "big") && config.dtype.size() > 1;
    let chain = Chain::new(config.codec.clone(), big_endian, config.dtype.size(), None);
    let mut fill = frame.fill.clone();
    if cfg!(target_endian = "big") {
        fill.reverse();
    }
    Metadata { layout, dtype: config.dtype, chain, fill, attributes: serde_json::Value::Null, manifest: None }
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

impl FramePlan {
    fn new(config: &Config) -> Result<Self> {
        let [.., y, x] = &config.dims[..] else { unreachable!("dims::check saw at least two dimensions") };
        let (rows, columns) = (y.size.unwrap_or(0), x.size.unwrap_or(0));
        let in_memory = || {
            let (rows, columns) = (usize::try_from(rows).ok()?, usize::try_from(columns).ok()?);
            let row_bytes = columns.checked_mul(config.dtype.size())?;
            let bytes = row_bytes.checked_mul(rows).filter(|&bytes| bytes < isize::MAX as usize)?;
            Some((rows, row_bytes, bytes))
        };
        let (rows, row_bytes, bytes) = in_memory().ok_or_else(|| {
            let reason = format!("a frame of {rows} rows and {columns} columns is more than the address space holds");
            Error::config("dims", format_args!("[{rows}, {columns}]"), reason)
        })?;
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
        let encoded_bytes_max = Encoder::bound_for(&config.codec, element, chunk_bytes)?;
        let outer = chunk_shape.len() - 2;
        let rows_touch =
            chunk_shape[outer + 1] as usize * element == frame.layout.row_stride && size[1] == chunk_shape[outer + 1];
        let fixed_slots = config.placement_in_use() == Placement::Fixed;
        let in_ring_whole = fixed_slots && rows_touch && config.codec.compressor == Compressor::None;
        let piece_bytes = (chunk_shape[outer] as usize).checked_mul(frame.layout.row_stride);
        let led = in_ring_whole
            && matches!(config.storage, StorageKind::Auto | StorageKind::Direct)
            && chunk_bytes >= LED_CHUNK_BYTES_MIN
            && frame.layout.offset.is_multiple_of(PAGE)
            && piece_bytes.is_some_and(|bytes| bytes.is_multiple_of(PAGE));
        let lead_bytes = if led { PAGE - HEADER_BYTES } else { 0 };
        let filled = lead_bytes + HEADER_BYTES + encoded_bytes_max;
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
        let layers = counts[..outer].iter().product::<u64>();
        let reserve_bytes = index.place_tails(first_slot_at + slots, layers);
        Ok(Self {
            fixed_slots,
            index,
            rows_touch,
            chunk_bytes,
            cut_at_edge: volume.is_some(),
            keep_empty: format::keeps_empty(config.dialect),
            checksum: config.codec.checksum,
            chunks,
            layer_chunks: (counts[outer] * counts[outer + 1]) as usize,
            layers: layers as usize,
            outer_chunks: counts[..outer].to_vec(),
            across_frame: volume
                .and_then(VolumePlan::shards_at_once)
                .unwrap_or((size[0].div_ceil(shard_shape[outer]) * size[1].div_ceil(shard_shape[outer + 1])) as usize),
            slot_bytes,
            lead_bytes,
            first_slot_at,
            reserve_bytes,
        })
    }
}

impl IndexPlan {
    fn new(config: &Config, chunks: u64, volume: Option<&VolumePlan>) -> Self {
        let open_tails_at = [0; 2];
        if let Some(volume) = volume {
            let tail_bytes_max = minishards::tail_bytes_max(&volume.shards.spec, chunks);
            return Self {
                form: IndexForm::Minishards,
                head_bytes: volume.shards.spec.head_bytes(),
                tail_bytes_max,
                open_tails_at,
                growth_bytes: 0,
                layers_a_growth: 1,
            };
        }
        let (location, checksum) = (config.index_location, config.index_checksum && config.dialect == Dialect::Zarr3);
        let bytes = 16 * chunks + if checksum { 4 } else { 0 };
        let (head_bytes, tail_bytes_max) = match location {
            IndexLocation::Start => (bytes, 0),
            IndexLocation::End => (0, bytes),
        };
        let form = IndexForm::Table { location, checksum };
        Self { form, head_bytes, tail_bytes_max, open_tails_at, growth_bytes: 0, layers_a_growth: 1 }
    }

    /// Finds the places of the part behind the chunks while a shard is open, and returns the length of its file.
    ///
    /// The final one, which follows the last chunk, must not touch the one before until the file is cut off. A table ends with
    /// the file, on a page, and what replaces it lets the file grow. In a precomputed shard the head says where the tail is:
    /// there are two places.
    fn place_tails(&mut self, slots_end: u64, layers: u64) -> u64 {
        if self.tail_bytes_max == 0 {
            return slots_end;
        }
        let page = PAGE as u64;
        let first = (slots_end + self.tail_bytes_max).next_multiple_of(page);
        if self.form == IndexForm::Minishards {
            let second = (first + self.tail_bytes_max).next_multiple_of(page);
            self.open_tails_at = [first, second];
            return second + self.tail_bytes_max;
        }
        self.growth_bytes = self.tail_bytes_max.next_multiple_of(page);
        let end = first + self.growth_bytes;
        self.open_tails_at = [end - self.tail_bytes_max; 2];
        self.layers_a_growth = layers.saturating_mul(self.growth_bytes).div_ceil(end).max(1);
        end
    }

    /// Whether a new table may take the place of the one before: of each sector of 512 bytes, a loss of power leaves the old or
    /// the new one. Without a checksum over all of it, each of its entries stands for itself.
    pub(crate) fn may_be_replaced_in_place(&self) -> bool {
        const SECTOR: u64 = 512;
        match self.form {
            IndexForm::Table { checksum, .. } => !checksum || self.head_bytes.max(self.tail_bytes_max) <= SECTOR,
            IndexForm::Minishards => true,
        }
    }
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
