//! Zarr v2 with the key `shards` of the prototype in zarr-python's pull request 876.
//!
//! Its reader finds shards only in an array that stands at the root of its store, and takes a shard that is not there for an
//! error.

use serde_json::{Map, Value, json};

use super::{Document, Image, fill_value, names, numpy_name};
use crate::codec::numcodecs;

/// The key of a shard, by its place in the grid of shards.
pub(super) fn shard_key(grid: &[u64]) -> String {
    let grid: Vec<_> = grid.iter().map(u64::to_string).collect();
    grid.join("/")
}

pub(super) fn array(image: &Image) -> Document {
    let Image { config, plan, .. } = image;
    let per_shard: Vec<_> =
        plan.shard_shape.iter().zip(&plan.chunk_shape).map(|(shard, chunk)| shard / chunk).collect();
    let compressor = numcodecs::compressor(&config.codec).map(|(name, mut settings)| {
        settings.insert("id".into(), json!(name));
        settings
    });
    let document = json!({
        "zarr_format": 2,
        "shape": image.shape,
        "chunks": plan.chunk_shape,
        "dtype": numpy_name(config.dtype),
        "compressor": compressor,
        "fill_value": fill_value(config),
        "order": "C",
        "filters": null,
        "dimension_separator": "/",
        "shards": per_shard,
        "shard_format": "indexed",
    });
    (".zarray".into(), document)
}

pub(super) fn attributes(image: &Image, mut attributes: Map<String, Value>) -> Document {
    attributes.insert("_ARRAY_DIMENSIONS".into(), json!(names(image.config)));
    (".zattrs".into(), Value::Object(attributes))
}
