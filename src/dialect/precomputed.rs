//! Neuroglancer's precomputed volume, in shards.
//!
//! Sources: Neuroglancer, "Precomputed volume format" (`info`, chunks) and "Precomputed sharded format".

use serde_json::{Value, json};

use super::{Document, Image, OWN};
use crate::config::{Compressor, Config, DimKind, VolumeHash};
use crate::dtype::Dtype;

/// The one document of a volume. Readers pass over what they don't know, so the attributes are in there, too.
pub(super) fn info(image: &Image) -> Document {
    let Image { config, plan, .. } = image;
    let volume = plan.volume.as_ref().expect("the plan of this dialect has a volume");
    let [y, x] = [config.dims.len() - 2, config.dims.len() - 1];
    let xyz = |shape: &[u64]| json!([shape[x], shape[y], volume.z.map_or(1, |z| shape[z])]);
    let encoding = |gzip| if gzip { "gzip" } else { "raw" };
    let spec = &volume.spec;
    let mut document = json!({
        "@type": "neuroglancer_multiscale_volume",
        "type": "image",
        "data_type": data_type(config.dtype),
        "num_channels": volume.channel.map_or(1, |channel| image.shape[channel]),
        "scales": [{
            "key": key(config),
            "size": xyz(image.shape),
            "chunk_sizes": [xyz(&plan.chunk_shape)],
            "voxel_offset": config.volume.voxel_offset,
            "resolution": resolution(config),
            "encoding": "raw",
            "sharding": {
                "@type": "neuroglancer_uint64_sharded_v1",
                "hash": match spec.hash {
                    VolumeHash::Identity => "identity",
                    VolumeHash::Murmurhash3X86_128 => "murmurhash3_x86_128",
                },
                "preshift_bits": spec.preshift_bits,
                "minishard_bits": spec.minishard_bits,
                "shard_bits": spec.shard_bits,
                "minishard_index_encoding": encoding(spec.gzip_indexes),
                "data_encoding": encoding(matches!(config.codec.compressor, Compressor::Gzip { .. })),
            },
        }],
        "attributes": image.user,
    });
    document[OWN] = image.own.clone();
    // The volume's x, y, z and channels need not be in the order in which frames lie in it.
    document[OWN]["dimensions"] = config.dims.iter().map(|dim| Value::from(dim.name.as_str())).collect();
    document[OWN]["channel_dimension"] = json!(volume.channel.map(|channel| &config.dims[channel].name));
    ("info".into(), document)
}

/// The folder of the shards.
pub(super) fn key(config: &Config) -> String {
    config.volume.key.clone().unwrap_or_else(|| resolution(config).map(|r| r.to_string()).join("_"))
}

/// Nanometers from voxel to voxel, x, y, z.
fn resolution(config: &Config) -> [f64; 3] {
    config.volume.resolution.unwrap_or_else(|| {
        let (outer, frame) = config.dims.split_at(config.dims.len() - 2);
        let nanometers = |dim: &crate::config::Dim| {
            let unit = match dim.unit.as_deref() {
                Some("angstrom") => 0.1,
                Some("micrometer") => 1e3,
                Some("millimeter") => 1e6,
                Some("meter") => 1e9,
                Some("nanometer") | None => 1.0,
                // Seconds, for example: the format knows no name for them.
                Some(_) => return 1.0,
            };
            // A product such as 0.325 * 1000 shall not be spelled with sixteen digits.
            (dim.scale * unit * 1e6).round() / 1e6
        };
        let z = outer.iter().find(|dim| dim.kind != DimKind::Channel);
        [nanometers(&frame[1]), nanometers(&frame[0]), z.map_or(1.0, nanometers)]
    })
}

fn data_type(dtype: Dtype) -> &'static str {
    dtype.zarr_name()
}
