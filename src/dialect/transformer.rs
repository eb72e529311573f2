//! The draft of Zarr v3 of 2022, with the sharding storage transformer 1.0.
//!
//! Sources: Zarr v3 core protocol, editor's draft of 2022, "Entry point metadata" and "Array metadata"; sharding storage
//! transformer 1.0, draft of 18 February 2022. What the drafts leave open is as zarr-python 2.18 has it.

use serde_json::{Map, Value, json};

use super::{Document, Image, fill_value, names, numpy_name};
use crate::codec::numcodecs;

const PROTOCOL: &str = "https://purl.org/zarr/spec/protocol/core/3.0";
const SHARDING: &str = "https://purl.org/zarr/spec/storage_transformers/sharding/1.0";

/// The key of a shard, by its place in the grid of shards.
pub(super) fn shard_key(grid: &[u64]) -> String {
    let grid: Vec<_> = grid.iter().map(u64::to_string).collect();
    format!("data/root/0/c{}", grid.join("/"))
}

/// The document by which a store is known.
pub(super) fn entry() -> Document {
    let document = json!({
        "zarr_format": PROTOCOL,
        "metadata_encoding": PROTOCOL,
        "metadata_key_suffix": ".json",
        "extensions": [],
    });
    ("zarr.json".into(), document)
}

pub(super) fn group(attributes: Map<String, Value>) -> Document {
    ("meta/root.group.json".into(), json!({"extensions": [], "attributes": attributes}))
}

pub(super) fn array(image: &Image) -> Document {
    let Image { config, plan, .. } = image;
    let per_shard: Vec<_> =
        plan.shard_shape.iter().zip(&plan.chunk_shape).map(|(shard, chunk)| shard / chunk).collect();
    // Of one byte, there is no order.
    let data_type = numpy_name(config.dtype).trim_start_matches('|').to_owned();
    let mut document = json!({
        "shape": image.shape,
        "data_type": data_type,
        "chunk_grid": {"type": "regular", "chunk_shape": plan.chunk_shape, "separator": "/"},
        "chunk_memory_layout": "C",
        "fill_value": fill_value(config),
        "extensions": [],
        "attributes": {"_ARRAY_DIMENSIONS": names(config)},
        "storage_transformers": [{
            "extension": SHARDING,
            "type": "indexed",
            "configuration": {"chunks_per_shard": per_shard},
        }],
    });
    if let Some((name, settings)) = numcodecs::compressor(&config.codec) {
        let codec = format!("https://purl.org/zarr/spec/codec/{name}/1.0");
        document["compressor"] = json!({"codec": codec, "configuration": settings});
    }
    ("meta/root/0.array.json".into(), document)
}
