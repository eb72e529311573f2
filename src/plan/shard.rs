//! One chunk and one shard, in bytes.

use super::frame::FramePlan;
use super::volume::VolumePlan;
use crate::aligned_memory::PAGE;
use crate::codec::Encoder;
use crate::config::{Compressor, Config, IndexLocation, Placement, StorageKind};
use crate::error::{Error, Result};
use crate::format::index::minishards;
use crate::format::index::table::{CHUNKS_MAX, TableLayout};
use crate::format::precomputed::Shards;
use crate::format::rules;
use crate::format::slot_header::HEADER_BYTES;

// Blosc frames count their bytes in 31 bits.
const CHUNK_BYTES_MAX: u64 = (1 << 31) - (1 << 20);
// Where chunks start on pages, up to two are lost for each: less than one part in a hundred of these.
const LED_CHUNK_BYTES_MIN: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct ShardPlan {
    /// Each chunk has a slot of its own; else they follow each other.
    pub(crate) fixed_slots: bool,
    /// Whoever encodes a chunk writes nothing behind it.
    pub(crate) is_exact: bool,
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
    /// Bytes of a slot before its header. Where chunks can be written past the page cache from the ring itself, these
    /// let each start on a page; else 0.
    pub(crate) lead_bytes: usize,
    pub(crate) first_slot_at: u64,
    /// The length of a shard file while it is being filled.
    pub(crate) reserve_bytes: u64,
}

/// Where a shard's index stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IndexPlan {
    /// `None`: it is a table of tables, as a precomputed volume has it.
    pub(crate) table: Option<TableLayout>,
    /// Its bytes before the slots.
    pub(crate) head_bytes: u64,
    /// The most bytes that it has behind the chunks.
    pub(crate) tail_bytes_max: u64,
    /// While the shard is open, where the part behind the chunks stands: each new one in the other place than the one
    /// before. Of a table, only the first stands there; see [`growth_bytes`](Self::growth_bytes).
    pub(crate) open_tails_at: [u64; 2],
    /// By how much an open file grows with each new table at its end, in whole pages: its last bytes are the table.
    pub(crate) growth_bytes: u64,
    /// Where older tables can't be given back, how many new layers one must name to be worth its place: all of them
    /// together let the file grow to twice its length at most.
    pub(crate) layers_a_growth: u64,
}

impl ShardPlan {
    pub(super) fn new(
        config: &Config,
        frame: &FramePlan,
        size: [u64; 2],
        chunk_shape: &[u64],
        shard_shape: &[u64],
        volume: Option<&VolumePlan>,
    ) -> Result<Self> {
        let element = config.dtype.size();
        let chunk_bytes = chunk_bytes(element, chunk_shape)?;
        let counts: Vec<u64> = shard_shape.iter().zip(chunk_shape).map(|(shard, chunk)| shard / chunk).collect();
        let chunks = chunks_of_shard(&counts, chunk_shape, shard_shape)?;
        let table = volume.and_then(|volume| volume.table.as_ref());
        let chunks = table.map_or(chunks, |table| table.ids.iter().map(Vec::len).max().unwrap_or(0));
        let encoded_bytes_max = Encoder::bound_for(&config.codec, element, chunk_bytes)?;
        let outer = chunk_shape.len() - 2;
        let rows_touch = frame.camera.is_none()
            && chunk_shape[outer + 1] as usize * element == frame.layout.row_stride
            && size[1] == chunk_shape[outer + 1];
        let fixed_slots = config.placement_in_use() == Placement::Fixed;
        let in_ring_whole = fixed_slots && rows_touch && config.codec.compressor == Compressor::None;
        let led = in_ring_whole && chunk_bytes >= LED_CHUNK_BYTES_MIN && may_lead(config, frame, chunk_shape[outer]);
        let lead_bytes = if led { PAGE - HEADER_BYTES } else { 0 };
        let filled = lead_bytes + HEADER_BYTES + encoded_bytes_max;
        // Holes are punched, and direct writes done, in whole blocks, so a slot that spans some starts on one.
        let slot_bytes = filled.next_multiple_of(if filled >= PAGE { PAGE } else { 8 });
        let mut index = IndexPlan::new(config, chunks as u64, volume);
        let first_slot_at = index.head_bytes.next_multiple_of(PAGE as u64);
        let slots = (slot_bytes as u64).checked_mul(chunks as u64).filter(|&bytes| bytes < 1 << 62);
        let slots = slots.ok_or_else(|| {
            let reason = "a shard file would pass 4 EiB; choose smaller shards";
            Error::config("dims.shard", format_args!("{shard_shape:?}"), reason)
        })?;
        let across_frame = size[0].div_ceil(shard_shape[outer]) * size[1].div_ceil(shard_shape[outer + 1]);
        let layers = counts[..outer].iter().product::<u64>();
        let reserve_bytes = index.place_tails(first_slot_at + slots, layers);
        Ok(Self {
            fixed_slots,
            is_exact: config.codec.compressor == Compressor::None,
            index,
            rows_touch,
            chunk_bytes,
            cut_at_edge: volume.is_some(),
            keep_empty: rules(config.dialect).keeps_empty,
            checksum: config.codec.checksum,
            chunks,
            layer_chunks: (counts[outer] * counts[outer + 1]) as usize,
            layers: layers as usize,
            outer_chunks: counts[..outer].to_vec(),
            across_frame: table.map_or(across_frame as usize, |table| table.ids.len()),
            slot_bytes,
            lead_bytes,
            first_slot_at,
            reserve_bytes,
        })
    }
}

/// Whether pieces of `rows` rows lie in the ring as direct writes want them.
fn may_lead(config: &Config, frame: &FramePlan, rows: u64) -> bool {
    let piece_bytes = (rows as usize).checked_mul(frame.layout.row_stride);
    matches!(config.storage, StorageKind::Auto | StorageKind::Direct)
        && frame.layout.offset.is_multiple_of(PAGE)
        && piece_bytes.is_some_and(|bytes| bytes.is_multiple_of(PAGE))
}

fn chunk_bytes(element: usize, chunk_shape: &[u64]) -> Result<usize> {
    let bytes = chunk_shape.iter().try_fold(element as u64, |bytes, &n| bytes.checked_mul(n));
    let bytes = bytes.filter(|&bytes| bytes <= CHUNK_BYTES_MAX).ok_or_else(|| {
        let reason = "a chunk may hold at most 2 GiB; choose smaller chunks";
        Error::config("dims.chunk", format_args!("{chunk_shape:?}"), reason)
    })?;
    Ok(bytes as usize)
}

fn chunks_of_shard(counts: &[u64], chunk_shape: &[u64], shard_shape: &[u64]) -> Result<usize> {
    let chunks = counts.iter().try_fold(1u64, |chunks, &n| chunks.checked_mul(n));
    let chunks = chunks.filter(|&chunks| chunks <= CHUNKS_MAX).ok_or_else(|| {
        let reason = format!(
            "a shard may hold at most {CHUNKS_MAX} chunks of {chunk_shape:?}; choose smaller shards or larger \
             chunks"
        );
        Error::config("dims.shard", format_args!("{shard_shape:?}"), reason)
    })?;
    Ok(chunks as usize)
}

impl IndexPlan {
    pub(super) fn new(config: &Config, chunks: u64, volume: Option<&VolumePlan>) -> Self {
        let (location, checksum) = (config.index_location, config.index_checksum && rules(config.dialect).checksums);
        // More chunks than a table takes were refused.
        let table = TableLayout::new(chunks, location, checksum).filter(|_| volume.is_none());
        let table_bytes = table.map_or(0, TableLayout::bytes);
        let (head_bytes, tail_bytes_max) = match (volume, location) {
            (Some(VolumePlan { shards: Shards { spec, .. }, .. }), _) => {
                (spec.head_bytes(), minishards::tail_bytes_max(spec, chunks))
            }
            (None, IndexLocation::Start) => (table_bytes, 0),
            (None, IndexLocation::End) => (0, table_bytes),
        };
        Self { table, head_bytes, tail_bytes_max, open_tails_at: [0; 2], growth_bytes: 0, layers_a_growth: 1 }
    }

    /// Finds the places of the part behind the chunks while a shard is open, and returns the length of its file.
    ///
    /// The final one, which follows the last chunk, must not touch the one before until the file is cut off. A table
    /// ends with the file, on a page, and what replaces it lets the file grow. In a precomputed shard the head says
    /// where the tail is: there are two places.
    fn place_tails(&mut self, slots_end: u64, layers: u64) -> u64 {
        if self.tail_bytes_max == 0 {
            return slots_end;
        }
        let page = PAGE as u64;
        let first = (slots_end + self.tail_bytes_max).next_multiple_of(page);
        if self.table.is_none() {
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

    /// About how many bytes are written when an open shard gets another index.
    pub(crate) fn renewal_bytes(&self) -> u64 {
        self.growth_bytes.max(self.head_bytes + self.tail_bytes_max)
    }

    /// Whether a new table may take the place of the one before: of each sector of 512 bytes, a loss of power leaves
    /// the old or the new one. Without a checksum over all of it, each of its entries stands for itself.
    pub(crate) fn may_be_replaced_in_place(&self) -> bool {
        const SECTOR: u64 = 512;
        self.table.is_none_or(|table| !table.has_checksum() || table.bytes() <= SECTOR)
    }
}
