//! Zarr v3 documents (Zarr core specification v3.0; sharding codec v1.0).

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::chain::{self, Chain};
use super::document::named;
use super::fill;
use super::metadata::{KeyEncoding, Metadata, Prefix, Sharding};
use crate::config::{Dialect, IndexLocation};
use crate::dtype::Dtype;
use crate::error::{Error, Result};

#[derive(Deserialize)]
struct Document {
    shape: Vec<u64>,
    data_type: Value,
    chunk_grid: Value,
    chunk_key_encoding: Value,
    fill_value: Value,
    codecs: Vec<Value>,
    #[serde(default)]
    attributes: Map<String, Value>,
    #[serde(default)]
    dimension_names: Option<Vec<Option<String>>>,
    #[serde(default)]
    storage_transformers: Vec<Value>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// What kind of node a document describes.
pub(super) enum Node {
    Array,
    Group,
}

pub(super) fn node(path: &Path, document: &Value) -> Result<Node> {
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
pub(super) fn parse(path: &Path, document: Value) -> Result<Metadata> {
    let document: Document =
        serde_json::from_value(document).map_err(|error| Error::format(path, error.to_string()))?;
    metadata(document).map_err(|reason| Error::format(path, reason))?.check(path)
}

fn metadata(document: Document) -> Result<Metadata, String> {
    only_known_fields(&document)?;
    let manifest = manifest(&document.storage_transformers)?;
    let dtype = dtype(&document.data_type)?;
    let file_shape = regular_chunks(&document.chunk_grid)?;
    let (chunk_shape, sharding, chain) = codecs(&document.codecs, &file_shape, dtype)?;
    if manifest.is_some() && sharding.is_some() {
        return Err(
            "a manifest names the chunks, but codecs has sharding_indexed: a chunk is never a shard here".into()
        );
    }
    let names = document.dimension_names.map(|names| names.into_iter().map(Option::unwrap_or_default).collect());
    Ok(Metadata {
        dialect: Dialect::Zarr3,
        fill: fill::element(dtype, &document.fill_value)?,
        keys: key_encoding(&document.chunk_key_encoding)?,
        attributes: Value::Object(document.attributes),
        shape: document.shape,
        dtype,
        names,
        file_shape,
        chunk_shape,
        sharding,
        chain,
        manifest,
        volume: None,
    })
}

/// The manifest that takes the place of the chunks' names, if any (zarr-specs, proposal "Manifest storage transformer", "Array metadata").
fn manifest(transformers: &[Value]) -> Result<Option<Value>, String> {
    let [transformer] = transformers else {
        return match transformers {
            [] => Ok(None),
            several => Err(format!("{} storage transformers on one array are not read here", several.len())),
        };
    };
    match named(transformer) {
        Some(("chunk-manifest-json", Some(configuration))) if configuration.contains_key("manifest") => {
            Ok(Some(configuration["manifest"].clone()))
        }
        Some(("chunk-manifest-json", _)) => Err("chunk-manifest-json has no manifest in its configuration".into()),
        _ => Err(format!("storage transformer {transformer} is not read here; chunk-manifest-json is")),
    }
}

/// The specification lets a reader pass over an unknown field only when the field says so.
fn only_known_fields(document: &Document) -> Result<(), String> {
    for (key, value) in &document.rest {
        let known = matches!(key.as_str(), "zarr_format" | "node_type");
        if !known && value.get("must_understand") != Some(&Value::Bool(false)) {
            return Err(format!("field {key:?} is unknown and must be understood"));
        }
    }
    Ok(())
}

fn dtype(value: &Value) -> Result<Dtype, String> {
    let known = Dtype::ALL.into_iter().find(|dtype| value.as_str() == Some(dtype.zarr_name()));
    known.ok_or_else(|| {
        let names: Vec<_> = Dtype::ALL.iter().map(|dtype| dtype.zarr_name()).collect();
        format!("data_type {value} is not read here; these are: {}", names.join(", "))
    })
}

pub(super) fn regular_chunks(grid: &Value) -> Result<Vec<u64>, String> {
    match named(grid) {
        Some(("regular", Some(configuration))) => numbers(configuration.get("chunk_shape")),
        _ => Err(format!("chunk_grid {grid} is not read here; expected a regular one with its chunk_shape")),
    }
}

fn numbers(value: Option<&Value>) -> Result<Vec<u64>, String> {
    let list = value.and_then(Value::as_array);
    let numbers = list.and_then(|list| list.iter().map(Value::as_u64).collect::<Option<Vec<_>>>());
    numbers.ok_or_else(|| format!("chunk_shape is {}; expected a list of sizes", value.unwrap_or(&Value::Null)))
}

pub(super) fn key_encoding(value: &Value) -> Result<KeyEncoding, String> {
    let refused = || format!("chunk_key_encoding {value} is not read here; expected default or v2 with / or .");
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

fn codecs(codecs: &[Value], file_shape: &[u64], dtype: Dtype) -> Result<(Vec<u64>, Option<Sharding>, Chain), String> {
    let chain = |codecs: &[Value]| Chain::from_zarr3(codecs, dtype.size()).map_err(|error| error.to_string());
    let sharded = codecs.iter().any(|codec| matches!(named(codec), Some(("sharding_indexed", _))));
    if !sharded {
        return Ok((file_shape.to_vec(), None, chain(codecs)?));
    }
    let [codec] = codecs else {
        let names: Vec<_> = codecs.iter().map(chain::describe).collect();
        return Err(format!("sharding_indexed together with other codecs is not read here: {}", names.join(", ")));
    };
    let empty = Map::new();
    let configuration = named(codec).and_then(|(_, configuration)| configuration).unwrap_or(&empty);
    let inner = configuration.get("codecs").and_then(Value::as_array).ok_or("sharding_indexed has no codecs")?;
    let sharding = Sharding { location: index_location(configuration)?, checksum: index_checksum(configuration)? };
    Ok((numbers(configuration.get("chunk_shape"))?, Some(sharding), chain(inner)?))
}

pub(super) fn index_location(configuration: &Map<String, Value>) -> Result<IndexLocation, String> {
    match configuration.get("index_location").map(Value::as_str) {
        None | Some(Some("end")) => Ok(IndexLocation::End),
        Some(Some("start")) => Ok(IndexLocation::Start),
        Some(_) => Err("index_location is neither \"start\" nor \"end\"".to_owned()),
    }
}

/// Whether the index ends with a checksum. Its size must be known without reading it, so nothing may compress it.
pub(super) fn index_checksum(configuration: &Map<String, Value>) -> Result<bool, String> {
    let codecs = configuration.get("index_codecs").and_then(Value::as_array).ok_or("there are no index_codecs")?;
    let names: Vec<_> = codecs.iter().map(|codec| named(codec).map_or("", |(name, _)| name)).collect();
    let endian = codecs.first().and_then(named).and_then(|(_, configuration)| configuration?.get("endian")?.as_str());
    match (names.as_slice(), endian) {
        (["bytes"], Some("little")) => Ok(false),
        (["bytes", "crc32c"], Some("little")) => Ok(true),
        _ => Err(format!(
            "index_codecs {} are not read here; expected little-endian bytes, with or without crc32c",
            Value::from(codecs.clone())
        )),
    }
}
