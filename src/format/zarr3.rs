//! Zarr v3 with or without the `sharding_indexed` codec 1.0.
//!
//! Sources: Zarr v3 core specification 3.0, "Array metadata"; sharding codec 1.0, "Configuration parameters";
//! zarr-specs, proposal "Manifest storage transformer", "Array metadata".

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::codecs::{self, Chain};
use super::document::{named, sizes};
use super::fill_value;
use super::index::table::TableLayout;
use super::keys::{KeyEncoding, Prefix};
use super::layout::{Files, Layout, product};
use super::metadata::Metadata;
use crate::config::{Dialect, IndexLocation};
use crate::dtype::Dtype;
use crate::error::{Error, Refusal, Result};

const SHARDING: &str = "sharding_indexed";
const MANIFEST: &str = "chunk-manifest-json";

/// What a document says of the grids.
#[derive(Deserialize)]
struct Grids {
    shape: Vec<u64>,
    chunk_grid: Value,
    chunk_key_encoding: Value,
    codecs: Vec<Value>,
    #[serde(default)]
    dimension_names: Option<Vec<Option<String>>>,
}

/// What a document says beside.
#[derive(Deserialize)]
struct Document {
    data_type: Value,
    fill_value: Value,
    codecs: Vec<Value>,
    #[serde(default)]
    attributes: Map<String, Value>,
    #[serde(default)]
    storage_transformers: Vec<Value>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// What kind of node a document describes.
pub(crate) enum Node {
    Array,
    Group,
}

pub(crate) fn node(path: &Path, document: &Value) -> Result<Node> {
    let format = document.get("zarr_format");
    if format.and_then(Value::as_u64) != Some(3) {
        let got = format.map_or("missing".to_owned(), Value::to_string);
        return Err(Error::format(path, format!("zarr_format is {got}; expected 3")));
    }
    match document.get("node_type").and_then(Value::as_str) {
        Some("array") => Ok(Node::Array),
        Some("group") => Ok(Node::Group),
        got => Err(Error::format(path, format!("node_type is {got:?}; expected \"array\" or \"group\""))),
    }
}

/// An array's metadata from its `zarr.json` at `path`.
pub(crate) fn parse(path: &Path, document: &Value) -> Result<Metadata> {
    metadata(document).map_err(|reason| Error::format(path, reason))?.check(path)
}

fn metadata(document: &Value) -> Result<Metadata, Refusal> {
    let said = Document::deserialize(document).map_err(|error| error.to_string())?;
    only_known_fields(&said)?;
    let manifest = manifest(&said.storage_transformers)?;
    let dtype = dtype(&said.data_type)?;
    let layout = layout(document)?;
    if manifest.is_some() && layout.has_index() {
        return Err(
            format!("a manifest names the chunks, but codecs has {SHARDING}: a chunk is never a shard here").into()
        );
    }
    let inner = sharding(&said.codecs)?.map(|configuration| configuration.get("codecs").and_then(Value::as_array));
    let codecs = match inner {
        None => &said.codecs,
        Some(inner) => inner.ok_or(format!("{SHARDING} has no codecs"))?,
    };
    let chain = Chain::from_zarr3(codecs, dtype.size()).map_err(|error| Refusal::Unsupported(error.to_string()))?;
    let fill = fill_value::element(dtype, &said.fill_value)?;
    Ok(Metadata { layout, dtype, chain, fill, attributes: Value::Object(said.attributes), manifest })
}

/// The grids of an array, whatever its elements and codecs.
///
/// # Errors
///
/// A reason when files, or the chunks in them, can't be told.
pub(crate) fn layout(document: &Value) -> Result<Layout, Refusal> {
    let Grids { shape, chunk_grid, chunk_key_encoding, codecs, dimension_names } =
        Grids::deserialize(document).map_err(|error| error.to_string())?;
    let file_shape = match named(&chunk_grid) {
        Some(("regular", Some(configuration))) => sizes(configuration.get("chunk_shape"), "chunk_shape")?,
        _ => {
            return Refusal::unsupported(format!(
                "chunk_grid {chunk_grid} is not read here; expected a regular one with its chunk_shape"
            ));
        }
    };
    let keys = key_encoding(&chunk_key_encoding)?;
    let sharding = sharding(&codecs)?;
    let chunk_shape = match sharding {
        None => file_shape.clone(),
        Some(configuration) => sizes(configuration.get("chunk_shape"), "chunk_shape")?,
    };
    let names = dimension_names.map(|names| names.into_iter().map(Option::unwrap_or_default).collect());
    let files = Files::Grid { keys, index: None };
    let mut layout = Layout { dialect: Dialect::Zarr3, shape, names, chunk_shape, file_shape, files }.check()?;
    if let Some(configuration) = sharding {
        let (location, checksum) = (index_location(configuration)?, index_checksum(configuration)?);
        let index = product(&layout.chunks_per_file()).and_then(|chunks| TableLayout::new(chunks, location, checksum));
        let index = index.ok_or_else(|| {
            format!("shards of {:?} hold too many chunks of {:?}", layout.file_shape, layout.chunk_shape)
        })?;
        layout.files = Files::Grid { keys, index: Some(index) };
    }
    Ok(layout)
}

/// The manifest that takes the place of the chunks' names, if any.
fn manifest(transformers: &[Value]) -> Result<Option<Value>, Refusal> {
    let [transformer] = transformers else {
        return match transformers {
            [] => Ok(None),
            several => {
                Refusal::unsupported(format!("{} storage transformers on one array are not read here", several.len()))
            }
        };
    };
    match named(transformer) {
        Some((MANIFEST, Some(configuration))) if configuration.contains_key("manifest") => {
            Ok(Some(configuration["manifest"].clone()))
        }
        Some((MANIFEST, _)) => Err(format!("{MANIFEST} has no manifest in its configuration").into()),
        _ => Refusal::unsupported(format!("storage transformer {transformer} is not read here; {MANIFEST} is")),
    }
}

/// The specification lets a reader pass over an unknown field only when the field says so.
fn only_known_fields(document: &Document) -> Result<(), Refusal> {
    const GRIDS: [&str; 6] =
        ["zarr_format", "node_type", "shape", "chunk_grid", "chunk_key_encoding", "dimension_names"];
    for (key, value) in &document.rest {
        if !GRIDS.contains(&key.as_str()) && value.get("must_understand") != Some(&Value::Bool(false)) {
            return Err(format!("field {key:?} is unknown and must be understood").into());
        }
    }
    Ok(())
}

fn dtype(value: &Value) -> Result<Dtype, Refusal> {
    let known = Dtype::ALL.iter().copied().find(|dtype| value.as_str() == Some(dtype.zarr_name()));
    known.ok_or_else(|| {
        let names: Vec<_> = Dtype::ALL.iter().map(|dtype| dtype.zarr_name()).collect();
        Refusal::Unsupported(format!("data_type {value} is not read here; these are: {}", names.join(", ")))
    })
}

fn key_encoding(value: &Value) -> Result<KeyEncoding, Refusal> {
    let refused = || {
        Refusal::Unsupported(format!("chunk_key_encoding {value} is not read here; expected default or v2 with / or ."))
    };
    let (name, configuration) = named(value).ok_or_else(refused)?;
    let (prefix, usual) = match name {
        "default" => (Prefix::Part, "/"),
        "v2" => (Prefix::Nothing, "."),
        _ => return Err(refused()),
    };
    let separator = configuration.and_then(|configuration| configuration.get("separator"));
    match separator.map_or(Some(usual), Value::as_str) {
        Some("/") => Ok(KeyEncoding { prefix, separator: '/' }),
        Some(".") => Ok(KeyEncoding { prefix, separator: '.' }),
        _ => Err(refused()),
    }
}

/// The configuration of the sharding codec, if the chain is that.
fn sharding(codecs: &[Value]) -> Result<Option<&Map<String, Value>>, Refusal> {
    let is_sharding = |codec: &Value| matches!(named(codec), Some((SHARDING, _)));
    if !codecs.iter().any(is_sharding) {
        return Ok(None);
    }
    let [codec] = codecs else {
        let names: Vec<_> = codecs.iter().map(codecs::describe).collect();
        return Refusal::unsupported(format!(
            "{SHARDING} together with other codecs is not read here: {}",
            names.join(", ")
        ));
    };
    named(codec)
        .and_then(|(_, configuration)| configuration)
        .map(Some)
        .ok_or_else(|| format!("{SHARDING} has no configuration").into())
}

fn index_location(configuration: &Map<String, Value>) -> Result<IndexLocation, Refusal> {
    match configuration.get("index_location").map(Value::as_str) {
        None | Some(Some("end")) => Ok(IndexLocation::End),
        Some(Some("start")) => Ok(IndexLocation::Start),
        Some(_) => Err("index_location is neither \"start\" nor \"end\"".into()),
    }
}

/// Whether the index ends with a checksum. Its size must be known without reading it, so nothing may compress it.
fn index_checksum(configuration: &Map<String, Value>) -> Result<bool, Refusal> {
    let codecs = configuration.get("index_codecs").and_then(Value::as_array).ok_or("there are no index_codecs")?;
    let names: Vec<_> = codecs.iter().map(|codec| named(codec).map_or("", |(name, _)| name)).collect();
    let endian = codecs.first().and_then(named).and_then(|(_, configuration)| configuration?.get("endian")?.as_str());
    match (names.as_slice(), endian) {
        (["bytes"], Some("little")) => Ok(false),
        (["bytes", "crc32c"], Some("little")) => Ok(true),
        _ => Err(format!(
            "index_codecs {} are not read here; expected little-endian bytes, with or without crc32c",
            Value::from(codecs.clone())
        )
        .into()),
    }
}

pub(super) fn has_shards(document: &Value) -> bool {
    let codecs = document.get("codecs").and_then(Value::as_array);
    codecs.into_iter().flatten().any(|codec| matches!(named(codec), Some((SHARDING, _))))
}

/// Lets the chunks of a document be files.
pub(super) fn remove_shards(document: &mut Value) {
    let configuration = document["codecs"][0]["configuration"].take();
    document["chunk_grid"]["configuration"]["chunk_shape"] = configuration["chunk_shape"].clone();
    document["codecs"] = configuration["codecs"].clone();
}

/// A group's `zarr.json`.
pub(crate) fn group(attributes: Value) -> Value {
    json!({"zarr_format": 3, "node_type": "group", "attributes": attributes})
}

/// An array's `zarr.json`, without attributes.
pub(crate) fn array(array: &Metadata, shape: &[u64]) -> Value {
    json!({
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": array.dtype.zarr_name(),
        "chunk_grid": chunk_grid(&array.layout),
        "chunk_key_encoding": default_keys(),
        "fill_value": fill_value::to_json(array.dtype, &array.fill),
        "codecs": chunk_codecs(array),
        "dimension_names": array.layout.names,
        "attributes": {},
    })
}

/// The keys that this crate writes.
pub(crate) fn default_keys() -> Value {
    json!({"name": "default", "configuration": {"separator": "/"}})
}

/// Writes into an array's document how its chunks and shards are cut and encoded.
pub(crate) fn set_chunks(document: &mut Value, array: &Metadata) {
    document["chunk_grid"] = chunk_grid(&array.layout);
    document["codecs"] = chunk_codecs(array);
}

fn chunk_grid(layout: &Layout) -> Value {
    json!({"name": "regular", "configuration": {"chunk_shape": layout.file_shape}})
}

fn chunk_codecs(Metadata { layout, chain, .. }: &Metadata) -> Value {
    let Some(index) = layout.table() else { return json!(chain.document) };
    let mut index_codecs = vec![codecs::bytes(false, size_of::<u64>())];
    index_codecs.extend(index.has_checksum().then(|| json!({"name": "crc32c"})));
    json!([{
        "name": SHARDING,
        "configuration": {
            "chunk_shape": layout.chunk_shape,
            "codecs": chain.document,
            "index_codecs": index_codecs,
            "index_location": match index.location() {
                IndexLocation::Start => "start",
                IndexLocation::End => "end",
            },
        },
    }])
}

/// A per-frame record array's `zarr.json`: one dimension, uncompressed.
pub(crate) fn record(dtype: Dtype, frames: u64, chunk: u64, fill: &Value) -> Value {
    json!({
        "zarr_format": 3,
        "node_type": "array",
        "shape": [frames],
        "data_type": dtype.zarr_name(),
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [chunk]}},
        "chunk_key_encoding": default_keys(),
        "fill_value": fill,
        "codecs": [codecs::bytes(cfg!(target_endian = "big"), dtype.size())],
        "dimension_names": ["frame"],
        "attributes": {},
    })
}
