//! The codec `sharding_indexed` 1.0 in a chain of codecs of Zarr v3: what it says of a shard's chunks and index.
//!
//! Source: sharding codec 1.0, "Configuration parameters".

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::document::{named, sizes};
use super::index::table::TableLayout;
use super::layout::product;
use crate::config::IndexLocation;
use crate::error::Refusal;
use crate::json::text;

const SHARDING: &str = "sharding_indexed";

#[derive(Debug)]
pub(super) struct ShardingCodec<'a> {
    /// Elements of a chunk in each dimension of the shard.
    pub(super) chunk_shape: Vec<u64>,
    pub(super) codecs: &'a [Value],
    location: IndexLocation,
    checksum: bool,
    big_endian: bool,
}

impl<'a> ShardingCodec<'a> {
    /// `None`: it is another codec.
    pub(super) fn parse(codec: &'a Value) -> Result<Option<Self>, Refusal> {
        if !is_sharding(codec) {
            return Ok(None);
        }
        let configuration = named(codec).and_then(|(_, configuration)| configuration);
        let configuration = configuration.ok_or_else(|| format!("{SHARDING} has no configuration"))?;
        let codecs = configuration.get("codecs").and_then(Value::as_array);
        let (checksum, big_endian) = index_codecs(configuration)?;
        Ok(Some(Self {
            chunk_shape: sizes(configuration.get("chunk_shape"), "chunk_shape")?,
            codecs: codecs.ok_or_else(|| format!("{SHARDING} has no codecs"))?,
            location: index_location(configuration)?,
            checksum,
            big_endian,
        }))
    }

    /// The index of a shard of this many chunks in each dimension.
    pub(super) fn table(&self, chunks: &[u64]) -> Result<TableLayout, Refusal> {
        let table = product(chunks).and_then(|chunks| TableLayout::new(chunks, self.location, self.checksum));
        let table = table.ok_or_else(|| Refusal::Unsupported(format!("shards of {chunks:?} chunks hold too many")))?;
        Ok(table.in_byte_order(self.big_endian))
    }
}

pub(super) fn is_sharding(codec: &Value) -> bool {
    matches!(named(codec), Some((SHARDING, _)))
}

pub(super) fn document(chunk_shape: &[u64], codecs: &[Value], index: TableLayout) -> Value {
    let endian = if index.big_endian { "big" } else { "little" };
    let mut index_codecs = vec![json!({"name": "bytes", "configuration": {"endian": endian}})];
    index_codecs.extend(index.has_checksum().then(|| json!({"name": "crc32c"})));
    json!({
        "name": SHARDING,
        "configuration": {
            "chunk_shape": chunk_shape,
            "codecs": codecs,
            "index_codecs": index_codecs,
            "index_location": index.location(),
        },
    })
}

fn index_location(configuration: &Map<String, Value>) -> Result<IndexLocation, Refusal> {
    let said = configuration.get("index_location").map(IndexLocation::deserialize);
    said.unwrap_or(Ok(IndexLocation::End)).map_err(|_| "index_location is neither \"start\" nor \"end\"".into())
}

/// Whether the index ends with a checksum, and whether its numbers have their highest byte first. Its size must be
/// known without reading it, so nothing may compress it.
fn index_codecs(configuration: &Map<String, Value>) -> Result<(bool, bool), Refusal> {
    let codecs = configuration.get("index_codecs").and_then(Value::as_array).ok_or("there are no index_codecs")?;
    let names: Vec<_> = codecs.iter().map(|codec| named(codec).map_or("", |(name, _)| name)).collect();
    let checksum = match names[..] {
        ["bytes"] => Some(false),
        ["bytes", "crc32c"] => Some(true),
        _ => None,
    };
    let endian = codecs.first().and_then(named).and_then(|(_, configuration)| text(configuration?.get("endian")?));
    match (checksum, endian) {
        (Some(checksum), Some("little")) => Ok((checksum, false)),
        (Some(checksum), Some("big")) => Ok((checksum, true)),
        _ => Refusal::unsupported(format!(
            "index_codecs {} are not read here; expected bytes with an endian, with or without crc32c behind it",
            Value::from(codecs.clone())
        )),
    }
}
