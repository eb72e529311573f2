//! Neuroglancer's precomputed volumes: the `info` document, and where its chunks go.
//!
//! ```text
//! info                      the volume: type, channels, scales
//! 8_8_40/00.shard           a shard of the scale `8_8_40`, or
//! 8_8_40/0-64_0-64_0-16     a chunk of it, where there are no shards
//! ```
//!
//! Sources: Neuroglancer, "Precomputed volume format" (`info`, raw chunks, unsharded chunk storage) and "Precomputed sharded
//! format".
//!
//! A scale is an array of [c, z, y, x], or of [z, y, x] where there is one channel: that is the order in which the bytes of a
//! raw chunk lie. Where this crate's writer says which dimensions it had, the array has these, in the writer's order.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::path::Path;

use super::chain::Chain;
use super::metadata::{KeyEncoding, Metadata, Prefix, Sharding};
use super::own::ATTRIBUTE;
use super::region::{for_each_position, linear};
use crate::config::{Codec, Compressor, Dialect, IndexLocation, VolumeHash};
use crate::dialect::volume::{ChunkIds, ShardSpec};
use crate::dtype::Dtype;
use crate::error::{Error, Result};

const TYPE: &str = "neuroglancer_multiscale_volume";
const SHARDED: &str = "neuroglancer_uint64_sharded_v1";

/// The head of a shard, 16 bytes a minishard, is read as a whole.
const MINISHARD_BITS_MAX: u32 = 24;

/// How deep in chunks this crate's writer takes a volume to be that has no end.
const DEPTH_BITS_UNBOUNDED: u32 = 40;

#[derive(Deserialize)]
struct Info {
    data_type: String,
    num_channels: u64,
    scales: Vec<Scale>,
    #[serde(default)]
    attributes: Map<String, Value>,
    #[serde(default)]
    shardwright: Option<Value>,
}

#[derive(Deserialize)]
struct Scale {
    key: String,
    size: [u64; 3],
    chunk_sizes: Vec<[u64; 3]>,
    encoding: String,
    #[serde(default)]
    voxel_offset: [i64; 3],
    #[serde(default)]
    sharding: Option<LiteralSharding>,
}

#[derive(Deserialize)]
struct LiteralSharding {
    #[serde(rename = "@type")]
    kind: String,
    hash: VolumeHash,
    preshift_bits: u32,
    minishard_bits: u32,
    shard_bits: u32,
    #[serde(default)]
    minishard_index_encoding: Encoding,
    #[serde(default)]
    data_encoding: Encoding,
}

#[derive(Deserialize, Default, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Encoding {
    #[default]
    Raw,
    Gzip,
}

/// The four dimensions of a raw chunk, the slowest first.
const CHANNEL: usize = 0;
const Z: usize = 1;
const Y: usize = 2;
const X: usize = 3;

/// How the chunks of a scale are dealt out to files.
#[derive(Debug, Clone)]
pub(super) struct Volume {
    /// Which dimension of a raw chunk each of the array's is.
    roles: Vec<usize>,
    /// Chunks in x, y, z.
    grid: [u64; 3],
    shards: Option<Shards>,
    size: [u64; 3],
    chunk: [u64; 3],
    voxel_offset: [i64; 3],
}

/// Which shard and which entry of its index a chunk is.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Shards {
    pub(super) spec: ShardSpec,
    pub(super) ids: ChunkIds,
    /// Chunks of a shard in x, y, z, where each is a box of them; otherwise a shard may have any of the grid.
    in_box: Option<[u64; 3]>,
}

/// Whether a document is that of a volume.
pub(super) fn is_info(document: &Value) -> bool {
    match document.get("@type") {
        Some(kind) => kind.as_str() == Some(TYPE),
        // Older documents, and those of cloud-volume, have no type.
        None => ["scales", "data_type", "num_channels"].iter().all(|key| document.get(*key).is_some()),
    }
}

/// The keys of the scales in the `info` at `path`, the finest first.
pub(super) fn keys(path: &Path, info: &Value) -> Result<Vec<String>> {
    let wrong = || Error::format(path, "has no scales with keys");
    let scales = info.get("scales").and_then(Value::as_array).ok_or_else(wrong)?;
    let keys: Option<Vec<String>> = scales.iter().map(|scale| scale.get("key")?.as_str().map(str::to_owned)).collect();
    let keys = keys.filter(|keys| !keys.is_empty()).ok_or_else(wrong)?;
    match keys.iter().find(|key| !super::is_below(key)) {
        Some(key) => Err(Error::format(path, format!("names a scale {key:?} that is not below it"))),
        None => Ok(keys),
    }
}

/// The attributes of a volume: the user's, and those of this crate's writer.
pub(super) fn attributes(info: &Value) -> Value {
    let mut attributes = info.get("attributes").and_then(Value::as_object).cloned().unwrap_or_default();
    if let Some(own) = info.get(ATTRIBUTE) {
        attributes.insert(ATTRIBUTE.to_owned(), own.clone());
    }
    Value::Object(attributes)
}

/// The `size` in the document of the first scale, as the array's shape says it.
pub(super) fn set_size(info: &mut Value, volume: &Volume, shape: &[u64]) {
    let size = volume.xyz(shape, 1);
    if let Some(scale) = info.pointer_mut("/scales/0") {
        scale["size"] = json!(size);
    }
}

/// The metadata of the scale with this key, from the `info` at `path`.
pub(super) fn parse(path: &Path, info: &Value, key: &str) -> Result<Metadata> {
    let attributes = attributes(info);
    let info = Info::deserialize(info).map_err(|error| Error::format(path, error.to_string()))?;
    metadata(info, attributes, key).map_err(|reason| Error::format(path, reason))?.check(path)
}

fn metadata(info: Info, attributes: Value, key: &str) -> Result<Metadata, String> {
    let own = info.shardwright.unwrap_or_default();
    drop(info.attributes);
    let dtype = Dtype::ALL.into_iter().find(|dtype| dtype.zarr_name() == info.data_type);
    let dtype = dtype.ok_or_else(|| format!("data_type {:?} is not read here", info.data_type))?;
    let scale = info.scales.into_iter().find(|scale| scale.key == key);
    let scale = scale.ok_or_else(|| format!("has no scale {key:?}"))?;
    if scale.encoding != "raw" {
        return Err(format!("encoding {:?} is not read here; raw is, alone or compressed with gzip", scale.encoding));
    }
    // Several chunk sizes are the same pixels cut in several ways, any of which will do.
    let chunk = *scale.chunk_sizes.first().ok_or("has no chunk_sizes")?;
    if chunk.contains(&0) || info.num_channels == 0 {
        return Err(format!("chunks of {chunk:?} with {} channels can't be", info.num_channels));
    }
    let dims = Dims::new(&own, info.num_channels)?;
    if scale.size[2] > 1 && !dims.roles.contains(&Z) {
        return Err(format!("its writer's dimensions are {:?}, of which none is {} deep", dims.names, scale.size[2]));
    }
    let grid = [0, 1, 2].map(|dim| scale.size[dim].div_ceil(chunk[dim]));
    let gzip = scale.sharding.as_ref().is_some_and(|sharding| sharding.data_encoding == Encoding::Gzip);
    let unbounded = own.get("frames_planned").is_some_and(Value::is_null);
    let shards = scale.sharding.map(|sharding| Shards::new(sharding, grid, unbounded)).transpose()?;
    let volume = Volume { roles: dims.roles, grid, shards, size: scale.size, chunk, voxel_offset: scale.voxel_offset };
    let [x, y, z] = match volume.shards.as_ref().map(|shards| shards.in_box.unwrap_or(grid.map(|count| count.max(1)))) {
        Some(in_file) => {
            let lengths = [0, 1, 2].map(|dim| in_file[dim].checked_mul(chunk[dim]));
            let [Some(x), Some(y), Some(z)] = lengths else {
                return Err(format!("shards of {in_file:?} chunks are too large"));
            };
            [x, y, z]
        }
        None => chunk,
    };
    let of = |xyz: [u64; 3]| volume.in_order([info.num_channels, xyz[2], xyz[1], xyz[0]]);
    let compressor = if gzip { Compressor::Gzip { level: 6 } } else { Compressor::None };
    let codec = Codec { compressor, checksum: false };
    let name = Some(if gzip { "raw, gzip" } else { "raw" }.to_owned());
    let sharding = volume.shards.is_some().then_some(Sharding { location: IndexLocation::Start, checksum: false });
    Ok(Metadata {
        dialect: Dialect::Precomputed,
        shape: of(scale.size),
        dtype,
        names: Some(dims.names),
        file_shape: of([x, y, z]),
        chunk_shape: of(chunk),
        sharding,
        chain: Chain::from_zarr2(codec, false, dtype.size(), name),
        fill: vec![0; dtype.size()],
        keys: KeyEncoding { prefix: Prefix::Nothing, separator: '/' },
        attributes,
        manifest: None,
        volume: Some(volume),
    })
}

/// The array's dimensions.
struct Dims {
    names: Vec<String>,
    roles: Vec<usize>,
}

impl Dims {
    /// Those that the writer had, if it says so.
    fn new(own: &Value, channels: u64) -> Result<Self, String> {
        let usual = || {
            let dims = [("c", CHANNEL), ("z", Z), ("y", Y), ("x", X)];
            let (names, roles) =
                dims.into_iter().skip(usize::from(channels == 1)).map(|(name, role)| (name.to_owned(), role)).unzip();
            Self { names, roles }
        };
        let Some(names) = own.get("dimensions") else { return Ok(usual()) };
        let wrong = || format!("the writer's dimensions are {names}, which a volume can't have");
        let names: Option<Vec<String>> =
            names.as_array().and_then(|names| names.iter().map(|name| name.as_str().map(str::to_owned)).collect());
        let names = names.ok_or_else(wrong)?;
        let channel = own.get("channel_dimension").and_then(Value::as_str);
        let channel = channel.and_then(|channel| names.iter().position(|name| name == channel));
        let outer = names.len().checked_sub(2).filter(|&outer| outer <= 2).ok_or_else(wrong)?;
        let mut roles: Vec<usize> =
            (0..outer).map(|dim| if Some(dim) == channel { CHANNEL } else { Z }).chain([Y, X]).collect();
        roles.dedup();
        // Channels that no dimension has would be lost.
        if roles.len() != names.len() || (channels > 1 && !roles.contains(&CHANNEL)) {
            return Err(wrong());
        }
        Ok(Self { names, roles })
    }
}

impl Shards {
    fn new(literal: LiteralSharding, grid: [u64; 3], unbounded: bool) -> Result<Self, String> {
        let LiteralSharding { kind, hash, preshift_bits, minishard_bits, shard_bits, .. } = literal;
        if kind != SHARDED {
            return Err(format!("sharding {kind:?} is not read here; {SHARDED} is"));
        }
        let sum = u64::from(preshift_bits) + u64::from(minishard_bits) + u64::from(shard_bits);
        if minishard_bits > MINISHARD_BITS_MAX || preshift_bits > 64 || sum > 64 {
            return Err(format!(
                "{preshift_bits} preshift_bits, {minishard_bits} minishard_bits and {shard_bits} shard_bits can't be: they are \
                 at most 64 together, and here at most {MINISHARD_BITS_MAX} for minishards"
            ));
        }
        let gzip_indexes = literal.minishard_index_encoding == Encoding::Gzip;
        let spec = ShardSpec { hash, preshift_bits, minishard_bits, shard_bits, gzip_indexes };
        let mut depth = grid[2];
        if unbounded {
            // As the writer counts: the ids of chunks that are there say the same, and those to come have some.
            let across = ChunkIds::new([grid[0], grid[1], 1]).map_or(64, total);
            depth = 1 << DEPTH_BITS_UNBOUNDED.min(63 - across.min(62));
        }
        let ids = ChunkIds::new([grid[0], grid[1], depth.max(grid[2])]);
        let ids = ids.ok_or_else(|| format!("a grid of {grid:?} chunks has more than 64 bits can number"))?;
        let boxes = hash == VolumeHash::Identity && (unbounded || sum >= u64::from(total(ids)));
        let in_box = boxes.then(|| ids.of_lowest(preshift_bits + minishard_bits).map(|bits| 1u64 << bits));
        Ok(Self { spec, ids, in_box })
    }
}

fn total(ids: ChunkIds) -> u32 {
    ids.bits().iter().sum()
}

impl Shards {
    /// The most chunks that one minishard has.
    pub(super) fn chunks_a_minishard(&self) -> u64 {
        let bits = if self.in_box.is_some() { self.spec.preshift_bits } else { total(self.ids) };
        1u64.checked_shl(bits).unwrap_or(u64::MAX)
    }
}

impl Volume {
    pub(super) fn shards(&self) -> Option<&Shards> {
        self.shards.as_ref()
    }

    /// Where the first voxel stands: x, y, z.
    pub(super) fn voxel_offset(&self) -> [i64; 3] {
        self.voxel_offset
    }

    /// Whether the chunks of another volume with chunks of this shape are stored as this one's are: cut off at the same
    /// places, the dimensions in the same order.
    pub(super) fn stores_as(&self, other: &Self) -> bool {
        (self.size, self.chunk, &self.roles) == (other.size, other.chunk, &other.roles)
    }

    /// Whether the chunks of a file are a box of the grid.
    pub(super) fn has_boxes(&self) -> bool {
        self.shards.as_ref().is_none_or(|shards| shards.in_box.is_some())
    }

    /// The same volume with a file for each chunk.
    pub(super) fn without_shards(&self) -> Self {
        Self { shards: None, ..self.clone() }
    }

    /// Chunks in x, y, z.
    pub(super) fn grid(&self) -> [u64; 3] {
        self.grid
    }

    /// What belongs to [c, z, y, x], in the order of the array's dimensions.
    fn in_order(&self, czyx: [u64; 4]) -> Vec<u64> {
        self.roles.iter().map(|&role| czyx[role]).collect()
    }

    /// x, y and z of a place or a shape; `missing` for a dimension that the array has not.
    fn xyz(&self, of: &[u64], missing: u64) -> [u64; 3] {
        [X, Y, Z].map(|role| self.roles.iter().position(|&other| other == role).map_or(missing, |dim| of[dim]))
    }

    /// The array's place of the chunk at x, y, z.
    fn place([x, y, z]: [u64; 3]) -> [u64; 4] {
        [0, z, y, x]
    }

    /// The file of a chunk, by its place in the grid of boxes or, where shards are no boxes, its number; and the chunk's entry
    /// in there: its id.
    pub(super) fn file_of(&self, chunk: &[u64]) -> (Vec<u64>, u64) {
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
    pub(super) fn chunk_of(&self, id: u64) -> Option<Vec<u64>> {
        let ids = &self.shards.as_ref()?.ids;
        let at = ids.position(id);
        (ids.id(at) == id).then(|| self.in_order(Self::place(at)))
    }

    /// The number of the shard at a place in the grid of boxes.
    pub(super) fn shard_number(&self, file: &[u64]) -> Option<u64> {
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

    /// The name of a file below the scale's folder.
    pub(super) fn file_name(&self, file: &[u64]) -> String {
        match &self.shards {
            Some(Shards { spec, .. }) => spec.file_name(self.shard_number(file).unwrap_or(u64::MAX)),
            None => {
                let at = self.xyz(file, 0);
                let bounds = |dim: usize| {
                    let start = at[dim].saturating_mul(self.chunk[dim]);
                    let end = start.saturating_add(self.chunk[dim]).min(self.size[dim]);
                    let offset = i128::from(self.voxel_offset[dim]);
                    format!("{}-{}", offset + i128::from(start), offset + i128::from(end))
                };
                [0, 1, 2].map(bounds).join("_")
            }
        }
    }

    /// The file with this name below the scale's folder, if it is one of the volume's.
    pub(super) fn file_position(&self, name: &str) -> Option<Vec<u64>> {
        let found = match &self.shards {
            Some(Shards { spec, ids, in_box }) => {
                let shard = spec.shard_of(name)?;
                match in_box {
                    Some(in_box) => {
                        let lowest = spec.preshift_bits + spec.minishard_bits;
                        let first = shard.checked_shl(lowest).filter(|first| first >> lowest == shard);
                        let first = if lowest >= 64 { 0 } else { first? };
                        let at = ids.position(first);
                        (ids.id(at) == first)
                            .then(|| self.in_order(Self::place([0, 1, 2].map(|dim| at[dim] / in_box[dim]))))?
                    }
                    None => vec![shard],
                }
            }
            None => {
                let parts: Vec<&str> = name.split('_').collect();
                let [x, y, z] = parts[..] else { return None };
                let start = |(dim, part): (usize, &str)| {
                    // The first number may be negative.
                    let (start, _) = part.get(1..)?.split_once('-').map(|(start, _)| (&part[..=start.len()], ()))?;
                    let start = i128::from(start.parse::<i64>().ok()?) - i128::from(self.voxel_offset[dim]);
                    Some(u64::try_from(start).ok()? / self.chunk[dim])
                };
                let at = [start((0, x))?, start((1, y))?, start((2, z))?];
                self.in_order(Self::place(at))
            }
        };
        // Only the one spelling counts.
        (self.file_name(&found) == name).then_some(found)
    }

    /// Elements of the chunk at a place in the grid as it is stored, in [c, z, y, x]: less than a chunk at the volume's end.
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

    /// How a stored chunk becomes one of the array's; `None` where it is one already.
    pub(super) fn expansion(&self, chunk: &[u64], shape: &[u64], chunk_shape: &[u64]) -> Option<Expansion> {
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

    /// Planes in the chunk of so many bytes at a place in the grid, of which only the last may be cut off.
    pub(super) fn planes(
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
pub(super) struct Expansion {
    stored: [u64; 4],
    /// Elements from neighbour to neighbour in the array's chunk, of [c, z, y, x].
    strides: [u64; 4],
}

impl Expansion {
    /// Bytes of the stored chunk.
    pub(super) fn bytes(&self, element: usize) -> usize {
        self.stored.iter().product::<u64>() as usize * element
    }

    /// Puts the rows of a stored chunk where they belong. What the volume's end cuts off becomes zero.
    pub(super) fn expand(&self, stored: &[u8], chunk: &mut [u8], element: usize) {
        chunk.fill(0);
        let [_, _, _, columns] = self.stored;
        let row = columns as usize * element;
        let (rows, strides) = (&self.stored[..X], &self.strides[..X]);
        for_each_position(&[0; X], rows, |at| {
            let from = linear(at, rows) as usize * row;
            let to = at.iter().zip(strides).map(|(at, stride)| at * stride).sum::<u64>() as usize * element;
            chunk[to..to + row].copy_from_slice(&stored[from..from + row]);
        });
    }

    /// Takes a stored chunk's rows from where they are in one of the array's: the reverse of [`expand`](Self::expand).
    pub(super) fn gather(&self, chunk: &[u8], stored: &mut [u8], element: usize) {
        let [_, _, _, columns] = self.stored;
        let row = columns as usize * element;
        let (rows, strides) = (&self.stored[..X], &self.strides[..X]);
        for_each_position(&[0; X], rows, |at| {
            let to = linear(at, rows) as usize * row;
            let from = at.iter().zip(strides).map(|(at, stride)| at * stride).sum::<u64>() as usize * element;
            stored[to..to + row].copy_from_slice(&chunk[from..from + row]);
        });
    }
}
