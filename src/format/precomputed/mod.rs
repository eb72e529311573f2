//! Neuroglancer's precomputed volumes: the `info` document, and where its chunks go.
//!
//! ```text
//! info                      the volume: type, channels, scales
//! 8_8_40/00.shard           a shard of the scale `8_8_40`, or
//! 8_8_40/0-64_0-64_0-16     a chunk of it, where there are no shards
//! ```
//!
//! Sources: Neuroglancer, "Precomputed volume format" (`info`, raw chunks, unsharded chunk storage) and "Precomputed
//! sharded format".
//!
//! A scale is an array of [c, z, y, x], or of [z, y, x] where there is one channel: that is the order in which the
//! bytes of a raw chunk lie. Where this crate's writer says which dimensions it had, the array has these, in the
//! writer's order.

#[cfg(feature = "offline")]
pub(crate) mod carried;
mod dims;
pub(crate) mod ids;
pub(crate) mod place;
pub(crate) mod volume;

use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use super::codecs::Chain;
use super::document::{check_sizes, unlike};
use super::image::ImageDescription;
use super::keys;
use super::layout::{Files, Layout};
use super::metadata::Metadata;
use super::provenance::{self, ATTRIBUTE};
use crate::config::{Codec, Compressor, Dialect, VolumeHash};
use crate::dtype::Dtype;
use crate::error::{Error, Refusal, Result};
use crate::json::text;
use crate::words::quoted;
use dims::Dims;
use ids::ShardSpec;
pub(crate) use place::attributes;
pub(crate) use volume::{CHANNEL, X, Y, Z};
#[cfg(feature = "offline")]
pub(crate) use volume::{GZIP, PACKINGS, packing_of};
pub(crate) use volume::{Shards, Volume, chunk_ids};

pub(crate) const DOCUMENT: &str = "info";
/// Cloud-volume's file beside it, which says who made the volume.
pub(crate) const PROVENANCE: &str = "provenance";

/// The members of the document that name folders of other data beside the scales.
pub(crate) const FOLDERS: [&str; 3] = ["mesh", "skeletons", "segment_properties"];

const TYPE: &str = "neuroglancer_multiscale_volume";
const SHARDED: &str = "neuroglancer_uint64_sharded_v1";

/// The head of a shard, 16 bytes a minishard, is read as a whole.
const MINISHARD_BITS_MAX: u32 = 24;

#[derive(Deserialize)]
struct VolumeInfo {
    data_type: String,
    num_channels: u64,
    scales: Vec<VolumeScale>,
    #[serde(default)]
    shardwright: Option<Value>,
}

#[derive(Deserialize)]
struct VolumeScale {
    key: String,
    size: [u64; 3],
    chunk_sizes: Vec<[u64; 3]>,
    encoding: String,
    #[serde(default)]
    voxel_offset: [i64; 3],
    #[serde(default)]
    resolution: Value,
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

pub(crate) fn is_info(document: &Value) -> bool {
    match document.get("@type") {
        Some(kind) => text(kind) == Some(TYPE),
        // Older documents, and those of cloud-volume, have no type.
        None => ["scales", "data_type", "num_channels"].iter().all(|key| document.get(*key).is_some()),
    }
}

/// The keys of the scales in the `info` at `path`, the finest first.
pub(crate) fn keys(path: &Path, info: &Value) -> Result<Vec<String>> {
    let wrong = || Error::format(path, "has no scales with keys");
    let scales = info.get("scales").and_then(Value::as_array).ok_or_else(wrong)?;
    let keys: Option<Vec<String>> = scales.iter().map(|scale| text(scale.get("key")?).map(str::to_owned)).collect();
    let keys = keys.filter(|keys| !keys.is_empty()).ok_or_else(wrong)?;
    match keys.iter().find(|key| !keys::is_below(key)) {
        Some(key) => Err(Error::format(path, format!("names a scale {} that is not below it", quoted(key)))),
        None => Ok(keys),
    }
}

/// What the `info` says of the shape and the type of a scale, which need not be one that is read, in the words of Zarr.
pub(crate) fn said_of_scale(info: &Value, key: &str) -> Option<Value> {
    let scale = info["scales"].as_array()?.iter().find(|scale| scale["key"] == key)?;
    let mut shape: Vec<u64> = scale["size"].as_array()?.iter().rev().map(Value::as_u64).collect::<Option<_>>()?;
    let channels = info["num_channels"].as_u64().filter(|channels| *channels != 1);
    channels.into_iter().for_each(|channels| shape.insert(0, channels));
    Some(json!({"shape": shape, "data_type": info["data_type"]}))
}

pub(crate) fn set_size(info: &mut Value, volume: &Volume, shape: &[u64]) {
    let size = volume.xyz(shape, 1);
    if let Some(scale) = info.pointer_mut("/scales/0") {
        scale["size"] = json!(size);
    }
}

/// The metadata of the scale with this key, from the `info` at `path`.
pub(crate) fn parse(path: &Path, info: &Value, key: &str) -> Result<Metadata> {
    let attributes = attributes(info);
    for scale in info.get("scales").and_then(Value::as_array).into_iter().flatten() {
        check_sizes(scale, &["size"]).map_err(|reason| Error::format(path, reason))?;
    }
    let info = VolumeInfo::deserialize(info).map_err(|error| Error::format(path, unlike(&error)))?;
    metadata(info, attributes, key).map_err(|reason| Error::format(path, reason))?.check(path)
}

fn metadata(info: VolumeInfo, attributes: Value, key: &str) -> Result<Metadata, Refusal> {
    let own = info.shardwright.filter(provenance::is_own).unwrap_or_default();
    let dtype = Dtype::ALL.iter().copied().find(|dtype| dtype.zarr_name() == info.data_type);
    let unread = || Refusal::Unsupported(format!("data_type {} is not read here", quoted(&info.data_type)));
    let dtype = dtype.ok_or_else(unread)?;
    let scale = info.scales.into_iter().find(|scale| scale.key == key);
    let scale = scale.ok_or_else(|| format!("has no scale {}", quoted(key)))?;
    if scale.encoding != "raw" {
        return Refusal::unsupported(format!(
            "encoding {} is not read here; raw is, alone or compressed with gzip, as which CloudVolume can write the \
             volume again",
            quoted(&scale.encoding)
        ));
    }
    // Several chunk sizes are the same pixels cut in several ways, any of which will do.
    let chunk = *scale.chunk_sizes.first().ok_or("has no chunk_sizes")?;
    if chunk.contains(&0) || info.num_channels == 0 {
        return Err(format!("chunks of {chunk:?} with {} channels can't be", info.num_channels).into());
    }
    let dims = Dims::new(&own, info.num_channels)?;
    if scale.size[2] > 1 && !dims.roles.contains(&Z) {
        return Err(
            format!("its writer's dimensions are {:?}, of which none is {} deep", dims.names, scale.size[2]).into()
        );
    }
    let grid = [0, 1, 2].map(|dim| scale.size[dim].div_ceil(chunk[dim]));
    let gzip = scale.sharding.as_ref().is_some_and(|sharding| sharding.data_encoding == Encoding::Gzip);
    let unbounded = provenance::is_unbounded(&own);
    let shards = scale.sharding.map(|sharding| sharding.shards(grid, unbounded)).transpose()?;
    let resolution = place::said_resolution(&scale.resolution);
    let volume = Volume {
        roles: dims.roles,
        shards,
        key: scale.key,
        size: scale.size,
        chunk,
        voxel_offset: scale.voxel_offset,
        resolution,
    };
    let [x, y, z] = file_voxels(&volume, grid)?;
    let of = |xyz: [u64; 3]| volume.in_order([info.num_channels, xyz[2], xyz[1], xyz[0]]);
    let layout = Layout {
        dialect: Dialect::Precomputed,
        shape: of(scale.size),
        names: Some(dims.names),
        chunk_shape: of(chunk),
        file_shape: of([x, y, z]),
        files: Files::Volume(volume),
        index_order: None,
    };
    let layout = layout.check()?;
    let (chain, fill) = (chain(gzip, dtype), vec![0; dtype.size()]);
    let dtype = dtype.into();
    Ok(Metadata { layout, dtype, chain, fill, is_fill_undefined: false, attributes, manifest: None })
}

/// Voxels that a file spans: a shard's, or a chunk's where there are none.
fn file_voxels(volume: &Volume, grid: [u64; 3]) -> Result<[u64; 3], Refusal> {
    let Some(shards) = &volume.shards else { return Ok(volume.chunk) };
    let chunks = shards.in_box.unwrap_or(grid.map(|count| count.max(1)));
    match [0, 1, 2].map(|dim| chunks[dim].checked_mul(volume.chunk[dim])) {
        [Some(x), Some(y), Some(z)] => Ok([x, y, z]),
        _ => Refusal::unsupported(format!("shards of {chunks:?} chunks are too large")),
    }
}

pub(crate) fn chain(gzip: bool, dtype: Dtype) -> Chain {
    let compressor = if gzip { Compressor::Gzip { level: 6 } } else { Compressor::None };
    let name = if gzip { "raw, gzip" } else { "raw" };
    Chain::new(Codec { compressor, checksum: false }, false, dtype.into(), Some(name.to_owned()))
}

impl LiteralSharding {
    fn shards(self, grid: [u64; 3], unbounded: bool) -> Result<Shards, Refusal> {
        let Self { kind, hash, preshift_bits, minishard_bits, shard_bits, minishard_index_encoding, .. } = self;
        if kind != SHARDED {
            return Refusal::unsupported(format!("sharding {} is not read here; {SHARDED} is", quoted(kind)));
        }
        let sum = u64::from(preshift_bits) + u64::from(minishard_bits) + u64::from(shard_bits);
        if minishard_bits > MINISHARD_BITS_MAX || sum > 64 {
            return Err(format!(
                "{preshift_bits} preshift_bits, {minishard_bits} minishard_bits and {shard_bits} shard_bits can't be: \
                 they are at most 64 together, and here at most {MINISHARD_BITS_MAX} for minishards"
            )
            .into());
        }
        let gzip_indexes = minishard_index_encoding == Encoding::Gzip;
        let spec = ShardSpec { hash, preshift_bits, minishard_bits, shard_bits, gzip_indexes };
        let ids = chunk_ids(grid, unbounded);
        let ids = ids.ok_or_else(|| format!("a grid of {grid:?} chunks has more than 64 bits can number"))?;
        Ok(Shards::new(spec, ids, unbounded))
    }
}

pub(super) fn remove_shards(info: &mut Value) {
    for scale in info["scales"].as_array_mut().into_iter().flatten() {
        scale.as_object_mut().map(|scale| scale.shift_remove("sharding"));
    }
}

/// The one document of a volume. Readers pass over what they don't know, so the attributes are in there, too.
pub(super) fn info(image: &ImageDescription) -> Value {
    let Metadata { layout, dtype, chain, .. } = image.array;
    let Some(volume) = layout.volume() else { return Value::Null };
    let encoding = |gzip| if gzip { "gzip" } else { "raw" };
    let channel = volume.roles.iter().position(|&role| role == CHANNEL);
    let names = layout.names.as_deref().unwrap_or_default();
    let mut document = json!({
        "@type": TYPE,
        "type": "image",
        "data_type": dtype.zarr_name(),
        "num_channels": channel.map_or(1, |channel| image.shape[channel]),
        "scales": [{
            "key": volume.key,
            "size": volume.xyz(image.shape, 1),
            "chunk_sizes": [volume.xyz(&layout.chunk_shape, 1)],
            "voxel_offset": volume.voxel_offset,
            "resolution": volume.resolution,
            "encoding": "raw",
        }],
        "attributes": image.user,
    });
    if let Some(Shards { spec, .. }) = volume.shards() {
        document["scales"][0]["sharding"] = json!({
            "@type": SHARDED,
            "hash": spec.hash,
            "preshift_bits": spec.preshift_bits,
            "minishard_bits": spec.minishard_bits,
            "shard_bits": spec.shard_bits,
            "minishard_index_encoding": encoding(spec.gzip_indexes),
            "data_encoding": encoding(matches!(chain.codec.compressor, Compressor::Gzip { .. })),
        });
    }
    document[ATTRIBUTE] = image.own.clone();
    // The volume's x, y, z and channels need not be in the order in which frames lie in it.
    provenance::put_dimensions(&mut document[ATTRIBUTE], names, channel);
    document
}
