//! Where the chunks of a scale go: which shard and which minishard, and how a stored chunk becomes one of the array's.
//!
//! Sources: Neuroglancer, "Precomputed volume format" (raw chunks, unsharded chunk storage) and "Precomputed sharded
//! format".

use std::collections::BTreeMap;

use super::ids::{ChunkIds, ShardSpec};
use crate::config::VolumeHash;
use crate::geometry::{for_each_position, linear};

/// The four dimensions of a raw chunk, the slowest first.
pub(crate) const CHANNEL: usize = 0;
pub(crate) const Z: usize = 1;
pub(crate) const Y: usize = 2;
pub(crate) const X: usize = 3;

/// How deep in chunks a volume is taken to be that has no end.
const DEPTH_BITS_UNBOUNDED: u32 = 40;

/// More chunks no writer deals out to shards that are no boxes.
pub(crate) const DEALT_MAX: u64 = 1 << 24;

/// How the chunks of a scale are dealt out to files.
#[derive(Debug, Clone)]
pub(crate) struct Volume {
    /// Which dimension of a raw chunk each of the array's is.
    pub(crate) roles: Vec<usize>,
    pub(crate) shards: Option<Shards>,
    /// The scale's folder below the volume's.
    pub(crate) key: String,
    /// Voxels of the volume in x, y, z.
    pub(crate) size: [u64; 3],
    pub(crate) chunk: [u64; 3],
    pub(crate) voxel_offset: [i64; 3],
    /// Nanometers from voxel to voxel.
    pub(crate) resolution: Option<[f64; 3]>,
}

/// Which shard and which entry of its index a chunk is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Shards {
    pub(crate) spec: ShardSpec,
    pub(crate) ids: ChunkIds,
    /// Chunks of a shard in x, y, z, where each is a box of them; otherwise a shard may have any of the grid.
    pub(crate) in_box: Option<[u64; 3]>,
}

/// The ids of the chunks of a volume of these many in x, y, z; `None` where 64 bits don't suffice. Of one without an
/// end, the ids of chunks that are there say the same at any depth, and those to come have some.
pub(crate) fn chunk_ids([x, y, z]: [u64; 3], unbounded: bool) -> Option<ChunkIds> {
    if !unbounded {
        return ChunkIds::new([x, y, z]);
    }
    let across = ChunkIds::new([x, y, 1]).map_or(u64::BITS, ChunkIds::total);
    ChunkIds::new([x, y, z.max(1 << DEPTH_BITS_UNBOUNDED.min(63 - across.min(62)))])
}

impl Shards {
    pub(crate) fn new(spec: ShardSpec, ids: ChunkIds, unbounded: bool) -> Self {
        let covered = spec.preshift_bits + spec.minishard_bits + spec.shard_bits;
        let boxes = spec.hash == VolumeHash::Identity && (unbounded || covered >= ids.total());
        let in_box = boxes.then(|| ids.of_lowest(spec.preshift_bits + spec.minishard_bits).map(|bits| 1u64 << bits));
        Self { spec, ids, in_box }
    }

    pub(crate) fn chunks_a_minishard(&self) -> u64 {
        let bits = if self.in_box.is_some() { self.spec.preshift_bits } else { self.ids.total() };
        1u64.checked_shl(bits).unwrap_or(u64::MAX)
    }
}

/// How cloud-volume compresses files of chunks, by the end of their names. A web server would say it in a header
/// (`Content-Encoding`); a folder has only the names.
pub(crate) const PACKINGS: [(&str, &str); 5] =
    [(".gz", GZIP), (".br", "Brotli"), (".zstd", "Zstandard"), (".xz", "xz"), (".bz2", "bzip2")];

/// The one of them that is read.
pub(crate) const GZIP: &str = "gzip";

/// The chunk's own name in that of a compressed file, and what the file is compressed with.
pub(crate) fn packing_of(name: &str) -> Option<(&str, &'static str)> {
    PACKINGS.iter().find_map(|(end, packing)| Some((name.strip_suffix(end)?, *packing)))
}

impl Volume {
    pub(crate) fn shards(&self) -> Option<&Shards> {
        self.shards.as_ref()
    }

    pub(crate) fn has_boxes(&self) -> bool {
        self.shards.as_ref().is_none_or(|shards| shards.in_box.is_some())
    }

    /// Chunks in x, y, z.
    pub(crate) fn grid(&self) -> [u64; 3] {
        [0, 1, 2].map(|dim| self.size[dim].div_ceil(self.chunk[dim]))
    }

    /// The least depth in chunks at which all ids of a volume that grows mean what they say: z has a bit wherever x or
    /// y has one above it.
    pub(crate) fn depth_min(&self) -> u64 {
        let [x, y, _] = self.grid().map(|chunks| u64::BITS - chunks.saturating_sub(1).leading_zeros());
        match x.max(y).saturating_sub(1) {
            0 => 1,
            bits => (1 << (bits - 1)) + 1,
        }
    }

    /// How deep the array of a volume that grows is declared to be when it is so deep, in chunks of `depth` planes: the
    /// ids of its chunks must mean what they say.
    pub(crate) fn declared_extent(&self, extent: u64, depth: u64) -> u64 {
        let least = self.depth_min();
        if extent.div_ceil(depth) < least { least.saturating_mul(depth) } else { extent }
    }

    /// The ids of the chunks of each shard that has some, in order, where shards are no boxes: slot headers number a
    /// shard's chunks by their ranks among these. `None`: they are more than [`DEALT_MAX`].
    pub(crate) fn ids_by_shard(&self) -> Option<BTreeMap<u64, Vec<u64>>> {
        let [x, y, z] = self.grid();
        let chunks = x.checked_mul(y)?.checked_mul(z).filter(|&chunks| chunks <= DEALT_MAX)?;
        let mut by_shard: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        if let Some(Shards { spec, ids, in_box: None }) = &self.shards {
            for at in 0..chunks {
                let id = ids.id([at % x, at / x % y, at / (x * y)]);
                by_shard.entry(spec.place(id).0).or_default().push(id);
            }
        }
        by_shard.values_mut().for_each(|ids| ids.sort_unstable());
        Some(by_shard)
    }

    /// What belongs to [c, z, y, x], in the order of the array's dimensions.
    pub(crate) fn in_order(&self, czyx: [u64; 4]) -> Vec<u64> {
        self.roles.iter().map(|&role| czyx[role]).collect()
    }

    /// x, y and z of a place or a shape; `missing` for a dimension that the array has not.
    pub(crate) fn xyz(&self, of: &[u64], missing: u64) -> [u64; 3] {
        [X, Y, Z].map(|role| self.roles.iter().position(|&other| other == role).map_or(missing, |dim| of[dim]))
    }

    /// The array's place of the chunk at x, y, z.
    fn place([x, y, z]: [u64; 3]) -> [u64; 4] {
        [0, z, y, x]
    }

    pub(crate) fn file_of(&self, chunk: &[u64]) -> (Vec<u64>, u64) {
        let Some(Shards { spec, ids, in_box }) = &self.shards else { return (chunk.to_vec(), 0) };
        let at = self.xyz(chunk, 0);
        let id = ids.id(at);
        let file = match in_box {
            Some(in_box) => self.in_order(Self::place([0, 1, 2].map(|dim| at[dim] / in_box[dim]))),
            None => vec![spec.place(id).0],
        };
        (file, id)
    }

    /// The place of the chunk with an id; `None` if there can't be one.
    pub(crate) fn chunk_of(&self, id: u64) -> Option<Vec<u64>> {
        let ids = &self.shards.as_ref()?.ids;
        let at = ids.position(id);
        (ids.id(at) == id).then(|| self.in_order(Self::place(at)))
    }

    pub(crate) fn shard_number(&self, file: &[u64]) -> Option<u64> {
        let Shards { spec, ids, in_box } = self.shards.as_ref()?;
        match in_box {
            Some(in_box) => {
                let at = self.xyz(file, 0);
                let first = [0, 1, 2].map(|dim| at[dim].checked_mul(in_box[dim]));
                let [Some(x), Some(y), Some(z)] = first else { return None };
                Some(spec.place(ids.id([x, y, z])).0)
            }
            None => file.first().copied(),
        }
    }

    pub(crate) fn file_name(&self, file: &[u64]) -> String {
        match &self.shards {
            Some(Shards { spec, .. }) => spec.file_name(self.shard_number(file).unwrap_or(u64::MAX)),
            None => self.chunk_name(file),
        }
    }

    /// The name of a chunk where each is a file: its bounds.
    pub(crate) fn chunk_name(&self, chunk: &[u64]) -> String {
        let at = self.xyz(chunk, 0);
        let bounds = |dim: usize| {
            let start = at[dim].saturating_mul(self.chunk[dim]);
            let end = start.saturating_add(self.chunk[dim]).min(self.size[dim]);
            let offset = i128::from(self.voxel_offset[dim]);
            format!("{}-{}", offset + i128::from(start), offset + i128::from(end))
        };
        [0, 1, 2].map(bounds).join("_")
    }

    pub(crate) fn file_position(&self, name: &str) -> Option<Vec<u64>> {
        let Some(Shards { spec, ids, in_box }) = &self.shards else {
            return self.chunk_named(packing_of(name).map_or(name, |(name, _)| name));
        };
        let shard = spec.shard_of(name)?;
        let found = match in_box {
            Some(in_box) => {
                let lowest = spec.preshift_bits + spec.minishard_bits;
                let first = shard.checked_shl(lowest).filter(|first| first >> lowest == shard);
                let first = if lowest >= 64 { 0 } else { first? };
                let at = ids.position(first);
                (ids.id(at) == first).then(|| self.in_order(Self::place([0, 1, 2].map(|dim| at[dim] / in_box[dim]))))?
            }
            None => vec![shard],
        };
        // Only the one spelling counts.
        (self.file_name(&found) == name).then_some(found)
    }

    pub(crate) fn chunk_named(&self, name: &str) -> Option<Vec<u64>> {
        let parts: Vec<&str> = name.split('_').collect();
        let [x, y, z] = parts[..] else { return None };
        let start = |(dim, part): (usize, &str)| {
            // The first number may be negative.
            let start = &part[..=part.get(1..)?.find('-')?];
            let start = i128::from(start.parse::<i64>().ok()?) - i128::from(self.voxel_offset[dim]);
            Some(u64::try_from(start).ok()? / self.chunk[dim])
        };
        let found = self.in_order(Self::place([start((0, x))?, start((1, y))?, start((2, z))?]));
        (self.chunk_name(&found) == name).then_some(found)
    }

    /// Elements of the chunk at a place in the grid as it is stored, in [c, z, y, x]: less than a chunk at the volume's
    /// end.
    fn stored(&self, chunk: &[u64], shape: &[u64], chunk_shape: &[u64]) -> Option<[u64; 4]> {
        let mut stored = [1; 4];
        for (dim, &role) in self.roles.iter().enumerate() {
            let start = chunk[dim].checked_mul(chunk_shape[dim])?;
            // Beyond the end, as in shards of a run in progress, chunks are whole.
            stored[role] = match shape[dim].saturating_sub(start) {
                0 => chunk_shape[dim],
                left => left.min(chunk_shape[dim]),
            };
        }
        Some(stored)
    }

    pub(crate) fn expansion(&self, chunk: &[u64], shape: &[u64], chunk_shape: &[u64]) -> Option<Expansion> {
        let stored = self.stored(chunk, shape, chunk_shape)?;
        let mut whole = [1; 4];
        let mut strides = [0; 4];
        let mut stride = 1;
        for (dim, &role) in self.roles.iter().enumerate().rev() {
            (whole[role], strides[role]) = (chunk_shape[dim], stride);
            stride *= chunk_shape[dim];
        }
        let in_order = self.roles.is_sorted() || stored[CHANNEL] == 1 || stored[Z] == 1;
        (stored != whole || !in_order).then_some(Expansion { stored, strides })
    }

    /// Planes in the chunk of this many bytes at a place in the grid, of which only the last may be cut off.
    pub(crate) fn planes(
        &self,
        bytes: u64,
        chunk: &[u64],
        shape: &[u64],
        chunk_shape: &[u64],
        element: u64,
    ) -> Option<u64> {
        let [c, _, y, x] = self.stored(chunk, shape, chunk_shape)?;
        let plane = c.checked_mul(y)?.checked_mul(x)?.checked_mul(element)?;
        (plane > 0 && bytes.is_multiple_of(plane)).then(|| bytes / plane)
    }
}

/// How a stored chunk becomes one of the array's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expansion {
    stored: [u64; 4],
    /// Elements from neighbour to neighbour in the array's chunk, of [c, z, y, x].
    strides: [u64; 4],
}

impl Expansion {
    pub(crate) fn bytes(&self, element: usize) -> usize {
        self.stored.iter().product::<u64>() as usize * element
    }

    /// Puts the rows of a stored chunk where they belong. What the volume's end cuts off becomes zero.
    pub(crate) fn expand(&self, stored: &[u8], chunk: &mut [u8], element: usize) {
        chunk.fill(0);
        self.each_row(element, |from, to, bytes| chunk[to..to + bytes].copy_from_slice(&stored[from..from + bytes]));
    }

    /// Takes a stored chunk's rows from where they are in one of the array's: the reverse of [`expand`](Self::expand).
    pub(crate) fn gather(&self, chunk: &[u8], stored: &mut [u8], element: usize) {
        self.each_row(element, |to, from, bytes| stored[to..to + bytes].copy_from_slice(&chunk[from..from + bytes]));
    }

    /// Visits each row: where it stands in the stored chunk and in the array's, and its bytes.
    fn each_row(&self, element: usize, mut visit: impl FnMut(usize, usize, usize)) {
        let bytes = self.stored[X] as usize * element;
        let (rows, strides) = (&self.stored[..X], &self.strides[..X]);
        for_each_position(&[0; X], rows, |at| {
            let whole = at.iter().zip(strides).map(|(at, stride)| at * stride).sum::<u64>() as usize * element;
            visit(linear(at, rows) as usize * bytes, whole, bytes);
        });
    }
}
