//! What an array is to become: its document, and from this everything else.

use serde_json::{Value, json};

use super::RepackOptions;
use crate::config::{Dialect, IndexLocation};
use crate::error::{Error, Result};
use crate::offline::chain;
use crate::offline::fill;
use crate::offline::metadata::{Metadata, Sharding};
use crate::offline::nodes::Node;
use crate::offline::reader::Array;

/// Whether the options concern this array.
pub(super) fn is_meant(array: &Array, options: &RepackOptions) -> bool {
    let may_shard = !options.shard.is_empty() && array.shape().len() > 1;
    // What is no Zarr can't be left as it is in a dataset of Zarr v3.
    let must = matches!(array.metadata().dialect, Dialect::Zarr3Transformer | Dialect::Precomputed);
    array.has_index() || may_shard || must
}

/// The document of the array after repacking; the same as before where nothing changes in it.
pub(super) fn document(node: &Node, array: &Array, options: &RepackOptions) -> Result<Value> {
    let metadata = array.metadata();
    let is_new = metadata.dialect != Dialect::Zarr3;
    let mut document = if is_new { of_another_format(node, array, options)? } else { node.document()? };
    let chunk = sizes("chunk", &options.chunk, &metadata.chunk_shape)?;
    let reshaped = chunk != metadata.chunk_shape;
    let was_sharded = metadata.sharding.is_some();
    let kept = if was_sharded { kept_shard(metadata) } else { chunk.clone() };
    let shard = sizes("shard", &options.shard, &kept)?;
    if let Some((shard, chunk)) = shard.iter().zip(&chunk).find(|(shard, chunk)| *shard % *chunk != 0) {
        let reason = format!("is no multiple of the chunk's {chunk} elements");
        return Err(Error::config("shard", shard, reason));
    }
    let codecs = codecs(metadata, options, reshaped);
    let usual = Sharding { location: IndexLocation::End, checksum: true };
    let sharding = metadata.sharding.filter(|_| !is_new).unwrap_or(usual);
    let location = options.index_location.unwrap_or(sharding.location);
    let checksum = options.index_checksum.unwrap_or(sharding.checksum);
    if !reshaped
        && !is_new
        && was_sharded
        && codecs == metadata.chain.document
        && shard == metadata.file_shape
        && (location, checksum) == (sharding.location, sharding.checksum)
    {
        return Ok(document);
    }
    let mut index_codecs = vec![json!({"name": "bytes", "configuration": {"endian": "little"}})];
    index_codecs.extend(checksum.then(|| json!({"name": "crc32c"})));
    document["chunk_grid"] = json!({"name": "regular", "configuration": {"chunk_shape": shard}});
    document["codecs"] = json!([{
        "name": "sharding_indexed",
        "configuration": {
            "chunk_shape": chunk,
            "codecs": codecs,
            "index_codecs": index_codecs,
            "index_location": match location {
                IndexLocation::Start => "start",
                IndexLocation::End => "end",
            },
        },
    }]);
    if metadata.manifest.is_some() {
        document["chunk_key_encoding"] = json!({"name": "default", "configuration": {"separator": "/"}});
        document.as_object_mut().map(|document| document.remove("storage_transformers"));
    }
    Ok(document)
}

/// What a document of Zarr v3 says of an array of another format, but for its chunks.
fn of_another_format(node: &Node, array: &Array, options: &RepackOptions) -> Result<Value> {
    let metadata = array.metadata();
    let refused = |reason: &str| Err(Error::format(&node.path, reason));
    if array.shard_shape().is_none() && options.shard.is_empty() {
        return refused(match metadata.sharding {
            Some(_) => "its shards are no boxes, as those of Zarr are; say how large shards shall be",
            None => "has no shards; say how large shards shall be",
        });
    }
    let mut attributes = metadata.attributes.clone();
    if let Some(attributes) = attributes.as_object_mut() {
        // The document has a place of its own for them.
        attributes.remove("_ARRAY_DIMENSIONS");
    }
    Ok(json!({
        "zarr_format": 3,
        "node_type": "array",
        "shape": metadata.shape,
        "data_type": metadata.dtype.zarr_name(),
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": fill::to_json(metadata.dtype, &metadata.fill),
        "dimension_names": metadata.names,
        "attributes": attributes,
    }))
}

/// The shards that an array has, but none that reaches beyond its grid of chunks: a box of ids may be far larger.
pub(super) fn kept_shard(metadata: &Metadata) -> Vec<u64> {
    if metadata.volume.is_none() {
        return metadata.file_shape.clone();
    }
    let sizes = metadata.file_shape.iter().zip(&metadata.shape).zip(&metadata.chunk_shape);
    sizes.map(|((file, length), chunk)| length.div_ceil(*chunk).max(1).saturating_mul(*chunk).min(*file)).collect()
}

/// Sizes of all dimensions: the wished ones are for the last dimensions, 0 keeps what is.
pub(super) fn sizes(field: &'static str, wished: &[u64], now: &[u64]) -> Result<Vec<u64>> {
    let Some(skipped) = now.len().checked_sub(wished.len()) else {
        let reason = format!("has {} numbers, but an array has {} dimensions", wished.len(), now.len());
        return Err(Error::config(field, format_args!("{wished:?}"), reason));
    };
    let mut sizes = now.to_vec();
    for (size, &wish) in sizes[skipped..].iter_mut().zip(wished).filter(|(_, wish)| **wish != 0) {
        *size = wish;
    }
    Ok(sizes)
}

fn codecs(metadata: &Metadata, options: &RepackOptions, reshaped: bool) -> Vec<Value> {
    let little = |codec| chain::documented(codec, false, metadata.dtype.size());
    match &options.codec {
        Some(codec) => little(codec),
        // What is encoded anew is written in the order of bytes in which it was read.
        None if reshaped && metadata.chain.big_endian => little(&metadata.chain.codec),
        None => metadata.chain.document.clone(),
    }
}
