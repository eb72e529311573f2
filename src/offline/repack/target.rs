//! What an array is to become: its document, and from this everything else.

use serde_json::{Value, json};

use super::RepackOptions;
use crate::config::IndexLocation;
use crate::error::{Error, Result};
use crate::offline::chain;
use crate::offline::metadata::{Metadata, Sharding};
use crate::offline::nodes::Node;
use crate::offline::reader::Array;

/// Whether the options concern this array.
pub(super) fn is_meant(array: &Array, options: &RepackOptions) -> bool {
    let may_shard = !options.shard.is_empty() && array.shape().len() > 1;
    array.shard_shape().is_some() || may_shard
}

/// The document of the array after repacking; the same as before where nothing changes in it.
pub(super) fn document(node: &Node, array: &Array, options: &RepackOptions) -> Result<Value> {
    let mut document = node.document()?;
    if !node.path.join("zarr.json").is_file() {
        return Err(Error::format(&node.path, "is an array of Zarr v2, which repack leaves to other tools"));
    }
    let metadata = array.metadata();
    let chunk = sizes("chunk", &options.chunk, &metadata.chunk_shape)?;
    let reshaped = chunk != metadata.chunk_shape;
    let was_sharded = metadata.sharding.is_some();
    let kept = if was_sharded { metadata.file_shape.clone() } else { chunk.clone() };
    let shard = sizes("shard", &options.shard, &kept)?;
    if let Some((shard, chunk)) = shard.iter().zip(&chunk).find(|(shard, chunk)| *shard % *chunk != 0) {
        let reason = format!("is no multiple of the chunk's {chunk} elements");
        return Err(Error::config("shard", shard, reason));
    }
    let codecs = codecs(metadata, options, reshaped);
    let sharding = metadata.sharding.unwrap_or(Sharding { location: IndexLocation::End, checksum: true });
    let location = options.index_location.unwrap_or(sharding.location);
    if !reshaped
        && was_sharded
        && codecs == metadata.chain.document
        && shard == metadata.file_shape
        && location == sharding.location
    {
        return Ok(document);
    }
    let mut index_codecs = vec![json!({"name": "bytes", "configuration": {"endian": "little"}})];
    index_codecs.extend(sharding.checksum.then(|| json!({"name": "crc32c"})));
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

/// Sizes of all dimensions: the wished ones are for the last dimensions, 0 keeps what is.
fn sizes(field: &'static str, wished: &[u64], now: &[u64]) -> Result<Vec<u64>> {
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
