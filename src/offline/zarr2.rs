//! Zarr v2 documents, also with the `shards` key of the sharding prototype (zarr-python pull request 876).

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::chain::Chain;
use super::fill;
use super::metadata::{KeyEncoding, Metadata, Prefix, Sharding};
use crate::config::{Codec, Compressor, Dialect, IndexLocation};
use crate::dtype::Dtype;
use crate::error::{Error, Result};

/// The compressors of numcodecs that are read here.
const READ: [&str; 5] = ["blosc", "zstd", "gzip", "zlib", "lz4"];

#[derive(Deserialize)]
struct Document {
    zarr_format: u64,
    shape: Vec<u64>,
    chunks: Vec<u64>,
    dtype: Value,
    compressor: Option<Value>,
    fill_value: Value,
    order: String,
    filters: Option<Vec<Value>>,
    #[serde(default)]
    dimension_separator: Option<char>,
    #[serde(default)]
    shards: Option<Vec<u64>>,
    #[serde(default)]
    shard_format: Option<String>,
}

/// An array's metadata from its `.zarray` at `path` and its `.zattrs`.
pub(super) fn parse(path: &Path, document: Value, attributes: Value) -> Result<Metadata> {
    let document: Document =
        serde_json::from_value(document).map_err(|error| Error::format(path, error.to_string()))?;
    metadata(document, attributes).map_err(|reason| Error::format(path, reason))?.check(path)
}

fn metadata(document: Document, attributes: Value) -> Result<Metadata, String> {
    if document.zarr_format != 2 {
        return Err(format!("zarr_format is {}; expected 2", document.zarr_format));
    }
    if document.order != "C" && document.shape.len() > 1 {
        return Err(format!("order {:?} is not read here; expected \"C\"", document.order));
    }
    if let Some(filter) = document.filters.iter().flatten().next() {
        return Err(format!("filter {filter} is not read here"));
    }
    let (dtype, big_endian) = dtype(&document.dtype)?;
    let separator = match document.dimension_separator {
        None | Some('.') => '.',
        Some('/') => '/',
        Some(other) => return Err(format!("dimension_separator is {other:?}; expected \".\" or \"/\"")),
    };
    let (file_shape, sharding) = shards(&document)?;
    let fill = match &document.fill_value {
        Value::Null => vec![0; dtype.size()],
        value => fill::element(dtype, value)?,
    };
    let (compressor, name) = compressor(document.compressor.as_ref())?;
    Ok(Metadata {
        dialect: Dialect::Zarr2Sharded,
        names: dimension_names(&attributes, document.shape.len()),
        shape: document.shape,
        dtype,
        file_shape,
        chunk_shape: document.chunks,
        sharding,
        chain: Chain::from_zarr2(Codec { compressor, checksum: false }, big_endian, dtype.size(), name),
        fill,
        keys: KeyEncoding { prefix: Prefix::Nothing, separator },
        attributes,
        manifest: None,
        volume: None,
    })
}

/// Elements of one file, and how its chunks are found.
fn shards(document: &Document) -> Result<(Vec<u64>, Option<Sharding>), String> {
    let Some(shards) = &document.shards else { return Ok((document.chunks.clone(), None)) };
    if document.shard_format.as_deref() != Some("indexed") || shards.len() != document.chunks.len() {
        return Err(format!("shards {shards:?} of format {:?} are not read here", document.shard_format));
    }
    let file = shards.iter().zip(&document.chunks).map(|(shard, chunk)| shard.checked_mul(*chunk));
    let file = file.collect::<Option<_>>().ok_or("shards of more than 2^64 elements")?;
    Ok((file, Some(Sharding { location: IndexLocation::End, checksum: false })))
}

/// A type and whether its elements are stored with their highest byte first.
pub(super) fn dtype(value: &Value) -> Result<(Dtype, bool), String> {
    let refused = || format!("type {value} is not read here; expected a number such as \"<u2\" or \"|u1\"");
    let text = value.as_str().ok_or_else(refused)?;
    let dtype = match text.get(1..) {
        Some("u1") => Dtype::U8,
        Some("i1") => Dtype::I8,
        Some("u2") => Dtype::U16,
        Some("i2") => Dtype::I16,
        Some("u4") => Dtype::U32,
        Some("i4") => Dtype::I32,
        Some("u8") => Dtype::U64,
        Some("i8") => Dtype::I64,
        Some("f4") => Dtype::F32,
        Some("f8") => Dtype::F64,
        _ => return Err(refused()),
    };
    match text.as_bytes()[0] {
        b'<' => Ok((dtype, false)),
        b'>' => Ok((dtype, dtype.size() > 1)),
        b'|' if dtype.size() == 1 => Ok((dtype, false)),
        _ => Err(refused()),
    }
}

fn compressor(value: Option<&Value>) -> Result<(Compressor, Option<String>), String> {
    let Some(value) = value else { return Ok((Compressor::None, None)) };
    let id = value.get("id").and_then(Value::as_str).unwrap_or_default();
    let mut settings = value.as_object().cloned().unwrap_or_default();
    settings.remove("id");
    let compressor = named_compressor(id, &settings).ok_or_else(|| not_read(value))?;
    Ok((compressor, Some(for_people(id, settings.iter()))))
}

/// The compressor that numcodecs calls so. A frame names its own compressor and shuffle; settings only matter to a writer, so
/// unknown ones are no error.
pub(super) fn named_compressor(id: &str, settings: &Map<String, Value>) -> Option<Compressor> {
    if !READ.contains(&id) {
        return None;
    }
    let codec = |settings: &Map<String, Value>| {
        let codec = json!({"name": format!("numcodecs.{id}"), "configuration": settings});
        crate::codec::from_zarr3(&[codec]).ok().map(|codec| codec.compressor)
    };
    codec(settings).or_else(|| codec(&Map::new()))
}

pub(super) fn not_read(compressor: &Value) -> String {
    format!("compressor {compressor} is not read here; these are: {}", READ.join(", "))
}

/// `blosc(cname=lz4, clevel=1)`.
pub(super) fn for_people<'a>(id: &str, settings: impl Iterator<Item = (&'a String, &'a Value)>) -> String {
    let settings: Vec<_> = settings.map(|(key, value)| format!("{key}={value}")).collect();
    format!("{id}({})", settings.join(", ").replace('"', ""))
}

/// xarray's names of the dimensions.
pub(super) fn dimension_names(attributes: &Value, dimensions: usize) -> Option<Vec<String>> {
    let names = attributes.get("_ARRAY_DIMENSIONS")?.as_array()?;
    let names: Vec<String> = names.iter().map(|name| name.as_str().map(str::to_owned)).collect::<Option<_>>()?;
    (names.len() == dimensions).then_some(names)
}
