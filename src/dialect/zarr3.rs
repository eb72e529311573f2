//! Zarr v3 with the `sharding_indexed` codec 1.0.
//!
//! Source: Zarr v3 core specification 3.0, "Array metadata"; sharding codec 1.0, "Configuration parameters".

use serde_json::{Value, json};

use super::{fill_value, names};
use crate::codec;
use crate::config::{Config, IndexLocation};
use crate::dtype::Dtype;
use crate::plan::Plan;

/// The key of a shard below its array, by its place in the grid of shards.
pub(crate) fn shard_key(grid: &[u64]) -> String {
    grid.iter().fold(String::from("c"), |key, at| format!("{key}/{at}"))
}

/// A group's `zarr.json`.
pub(crate) fn group(attributes: Value) -> Value {
    json!({"zarr_format": 3, "node_type": "group", "attributes": attributes})
}

/// The image array's `zarr.json`.
pub(crate) fn image(config: &Config, plan: &Plan, shape: &[u64]) -> Value {
    let mut codecs = vec![bytes_codec(config.dtype)];
    codecs.extend(codec::zarr3_codecs(&config.codec, config.dtype.size()));
    let mut index_codecs = vec![little_endian()];
    index_codecs.extend(config.index_checksum.then(|| json!({"name": "crc32c"})));
    let sharding = json!({
        "name": "sharding_indexed",
        "configuration": {
            "chunk_shape": plan.chunk_shape,
            "codecs": codecs,
            "index_codecs": index_codecs,
            "index_location": match config.index_location {
                IndexLocation::Start => "start",
                IndexLocation::End => "end",
            },
        },
    });
    array(config.dtype, shape, &plan.shard_shape, fill_value(config), vec![sharding], &names(config))
}

/// A per-frame record array's `zarr.json`: one dimension, uncompressed.
pub(crate) fn record(dtype: Dtype, frames: u64, chunk: u64, fill: Value) -> Value {
    array(dtype, &[frames], &[chunk], fill, vec![bytes_codec(dtype)], &["frame"])
}

fn array(dtype: Dtype, shape: &[u64], chunk: &[u64], fill: Value, codecs: Vec<Value>, names: &[&str]) -> Value {
    json!({
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": dtype.zarr_name(),
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": fill,
        "codecs": codecs,
        "dimension_names": names,
        "attributes": {},
    })
}

/// Frames are stored in the byte order of the machine that they arrive on.
fn bytes_codec(dtype: Dtype) -> Value {
    if dtype.size() == 1 {
        return json!({"name": "bytes"});
    }
    json!({"name": "bytes", "configuration": {"endian": if cfg!(target_endian = "big") { "big" } else { "little" }}})
}

fn little_endian() -> Value {
    json!({"name": "bytes", "configuration": {"endian": "little"}})
}
