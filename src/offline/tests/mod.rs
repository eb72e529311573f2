//! Shards laid out by hand, hostile documents, and arrays that `zarrs` wrote.

mod against_zarrs;
mod by_hand;
mod changed;
mod descriptions;
mod documents;

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

/// Writes a file and the directories above it.
fn put(root: &Path, key: &str, bytes: impl AsRef<[u8]>) {
    let path = root.join(key);
    fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
    fs::write(path, bytes).expect("a file");
}

/// The `zarr.json` of an array whose chunks are files.
fn document(dtype: &str, shape: &[u64], chunks: &[u64], codecs: Value) -> Value {
    json!({
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": dtype,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 7,
        "codecs": codecs,
        "attributes": {},
    })
}

fn little() -> Value {
    json!({"name": "bytes", "configuration": {"endian": "little"}})
}

/// The codec chain of a sharded array.
fn sharded(chunk: &[u64], codecs: Value, index_codecs: Value, location: &str) -> Value {
    json!([{
        "name": "sharding_indexed",
        "configuration": {
            "chunk_shape": chunk,
            "codecs": codecs,
            "index_codecs": index_codecs,
            "index_location": location,
        },
    }])
}

const MISSING: (u64, u64) = (u64::MAX, u64::MAX);

/// The index's bytes, without a checksum.
fn index(entries: &[(u64, u64)]) -> Vec<u8> {
    entries.iter().flat_map(|(offset, nbytes)| [offset.to_le_bytes(), nbytes.to_le_bytes()].concat()).collect()
}

fn with_crc(mut bytes: Vec<u8>) -> Vec<u8> {
    let crc = crc32c::crc32c(&bytes);
    bytes.extend(crc.to_le_bytes());
    bytes
}
