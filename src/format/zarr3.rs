//! Zarr v3 with or without the `sharding_indexed` codec 1.0.
//!
//! Sources: Zarr v3 core specification 3.0, "Array metadata"; sharding codec 1.0, "Configuration parameters";
//! zarr-specs, proposal "Manifest storage transformer", "Array metadata".

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::codecs::{self, Chain};
use super::document::{
    self, Field, INSTEAD, check_attributes, check_fields, check_sizes, is_there, named, names_to_json, sizes, unlike,
};
use super::fill_value;
use super::keys::{KeyEncoding, Prefix};
use super::layout::{Files, Layout};
use super::metadata::Metadata;
use super::record_files;
use super::sharding::{self, ShardingCodec};
use crate::config::Dialect;
use crate::dtype::{Dtype, ElementType};
use crate::error::{Error, Refusal, Result};
use crate::json::{render_line, text};
use crate::words::quoted;

pub(crate) const DOCUMENT: &str = "zarr.json";

pub(crate) fn document_at(name: &str) -> String {
    if name.is_empty() { DOCUMENT.to_owned() } else { format!("{name}/{DOCUMENT}") }
}
const MANIFEST: &str = "chunk-manifest-json";

/// What a document says of the grids.
#[derive(Deserialize)]
struct Zarr3Grids {
    shape: Vec<u64>,
    chunk_grid: Value,
    chunk_key_encoding: Value,
    codecs: Vec<Value>,
    #[serde(default)]
    dimension_names: Option<Vec<Option<String>>>,
}

/// What a document says beside.
#[derive(Deserialize)]
struct Zarr3Said {
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

const CODECS: Field = Field { name: "codecs", holds: Value::is_array, expected: "a list of codecs" };

/// What an array's document has, of the grids.
const FIELDS_OF_GRIDS: [Field; 5] = [
    CODECS,
    Field { name: "shape", holds: Value::is_array, expected: "a list of sizes" },
    Field { name: "chunk_grid", holds: is_there, expected: "a grid, such as the regular one" },
    Field { name: "chunk_key_encoding", holds: is_there, expected: "an encoding, such as default" },
    Field { name: "dimension_names", holds: are_names, expected: "a list of texts, or of null where there is no name" },
];

/// What it has beside.
const FIELDS: [Field; 3] = [
    CODECS,
    Field { name: "data_type", holds: is_there, expected: "the name of a type" },
    Field { name: "fill_value", holds: is_there, expected: "the element that is read where none was written" },
];

fn are_names(value: &Value) -> bool {
    let is_name = |name: &Value| text(name).is_some() || name.is_null();
    value.is_null() || value.as_array().is_some_and(|names| names.iter().all(is_name))
}

pub(crate) enum NodeType {
    Array,
    Group,
}

pub(crate) fn node(path: &Path, document: &Value) -> Result<NodeType> {
    let format = document.get("zarr_format");
    if format.and_then(Value::as_u64) != Some(3) {
        let got = format.map_or("missing".to_owned(), Value::to_string);
        let reason = format!("zarr_format is {got}; expected 3");
        // What comes after it may be as it should be.
        let is_later = format.and_then(Value::as_u64).is_some_and(|format| format > 3);
        return Err(if is_later { Error::unsupported(path, reason) } else { Error::format(path, reason) });
    }
    match document.get("node_type").and_then(text) {
        Some("array") => Ok(NodeType::Array),
        Some("group") => Ok(NodeType::Group),
        _ => {
            let got = document.get("node_type").map_or("missing".to_owned(), render_line);
            Err(Error::format(path, format!("node_type is {got}; expected \"array\" or \"group\"")))
        }
    }
}

/// An array's metadata from its `zarr.json` at `path`.
pub(crate) fn parse(path: &Path, document: &Value) -> Result<Metadata> {
    metadata(document).map_err(|reason| Error::format(path, reason))?.check(path)
}

fn metadata(document: &Value) -> Result<Metadata, Refusal> {
    check_attributes(document.get("attributes"))?;
    check_fields(document, &FIELDS)?;
    let said = Zarr3Said::deserialize(document).map_err(|error| unlike(&error))?;
    only_known_fields(&said)?;
    let manifest = manifest(&said.storage_transformers)?;
    let dtype = dtype(&said.data_type)?;
    let layout = layout(document)?;
    let chain = Chain::from_zarr3(&chunk_codecs(&said.codecs)?, dtype, &layout.chunk_shape)?;
    let fill = fill_value::element(dtype, &said.fill_value)?;
    let attributes = Value::Object(said.attributes);
    Ok(Metadata { layout, dtype, chain, fill, is_fill_undefined: false, attributes, manifest })
}

/// The grids of an array, whatever its elements and codecs.
///
/// # Errors
///
/// A reason when files, or the chunks in them, can't be told.
pub(crate) fn layout(document: &Value) -> Result<Layout, Refusal> {
    check_sizes(document, &["shape"])?;
    check_fields(document, &FIELDS_OF_GRIDS)?;
    let Zarr3Grids { shape, chunk_grid, chunk_key_encoding, codecs, dimension_names } =
        Zarr3Grids::deserialize(document).map_err(|error| unlike(&error))?;
    let file_shape = match named(&chunk_grid) {
        Some(("regular", Some(configuration))) => sizes(configuration.get("chunk_shape"), "chunk_shape")?,
        Some(("regular", None)) => {
            return Err("the regular chunk_grid has no configuration; expected one with a chunk_shape".into());
        }
        _ => {
            return Refusal::unsupported(format!(
                "chunk_grid {chunk_grid} is not read here; expected a regular one with its chunk_shape; {INSTEAD}"
            ));
        }
    };
    let keys = key_encoding(&chunk_key_encoding)?;
    let mut chunk_shape = file_shape.clone();
    let mut index_order = None;
    let sharding = codecs.last().map(ShardingCodec::parse).transpose()?.flatten();
    if let Some(sharding) = &sharding {
        // Behind a transposition, the shard has the dimensions in that order.
        let (order, _) = codecs::transposes(&codecs, shape.len())?;
        index_order = order.filter(|order| !codecs::is_c(order));
        chunk_shape = sharding.chunk_shape.clone();
        if let Some(order) = index_order.as_ref().filter(|order| order.len() == chunk_shape.len()) {
            order.iter().zip(&sharding.chunk_shape).for_each(|(&dim, &length)| chunk_shape[dim] = length);
        }
    }
    let names = dimension_names.map(|names| names.into_iter().map(Option::unwrap_or_default).collect());
    let files = Files::Grid { keys, index: None };
    let layout = Layout { dialect: Dialect::Zarr3, shape, names, chunk_shape, file_shape, files, index_order };
    let mut layout = layout.check()?;
    if let Some(sharding) = sharding {
        let per_shard = layout.chunks_per_file();
        layout.files = Files::Grid { keys, index: Some(sharding.table(&per_shard)?) };
    }
    Ok(layout)
}

/// The codecs of a chunk: of an array with shards, those of the codec at the end, behind what stands before it.
fn chunk_codecs(codecs: &[Value]) -> Result<Vec<Value>, Refusal> {
    let Some((last, before)) = codecs.split_last() else { return Ok(Vec::new()) };
    Ok(match ShardingCodec::parse(last)? {
        None => codecs.to_vec(),
        Some(sharding) => [before, sharding.codecs].concat(),
    })
}

/// The manifest that takes the place of the chunks' names, if any.
fn manifest(transformers: &[Value]) -> Result<Option<Value>, Refusal> {
    let Some(transformer) = document::transformer(transformers)? else { return Ok(None) };
    match named(transformer) {
        Some((MANIFEST, Some(configuration))) if configuration.contains_key("manifest") => {
            Ok(Some(configuration["manifest"].clone()))
        }
        Some((MANIFEST, _)) => Err(format!("{MANIFEST} has no manifest in its configuration").into()),
        _ => Refusal::unsupported(format!("storage transformer {transformer} is not read here; {MANIFEST} is")),
    }
}

/// The specification lets a reader pass over an unknown field only when the field says so.
fn only_known_fields(document: &Zarr3Said) -> Result<(), Refusal> {
    const GRIDS: [&str; 6] =
        ["zarr_format", "node_type", "shape", "chunk_grid", "chunk_key_encoding", "dimension_names"];
    for (key, value) in &document.rest {
        if !GRIDS.contains(&key.as_str()) && value.get("must_understand") != Some(&Value::Bool(false)) {
            return Refusal::unsupported(format!("field {} is not known here, and says that it must be", quoted(key)));
        }
    }
    Ok(())
}

/// An element's type; that of raw bytes also as zarr-python names it.
fn dtype(value: &Value) -> Result<ElementType, Refusal> {
    let known = match named(value) {
        None => return Err(format!("data_type is {}; expected the name of a type", render_line(value)).into()),
        Some((name, None)) => ElementType::of_zarr(name),
        Some(("raw_bytes", Some(configuration))) => {
            let length = configuration.get("length_bytes").and_then(Value::as_u64).filter(|length| *length > 0);
            length.and_then(|length| u16::try_from(length).ok()).map(ElementType::Raw)
        }
        _ => None,
    };
    known.ok_or_else(|| {
        let names: Vec<_> = ElementType::all().map(ElementType::zarr_name).collect();
        let instead = named(value).and_then(|(name, _)| wider(name)).unwrap_or_else(|| INSTEAD.to_owned());
        Refusal::Unsupported(format!(
            "data_type {} is not read here; these are: {}, r8, r16 and so on; {instead}",
            render_line(value),
            names.join(", ")
        ))
    })
}

/// What to do about numbers of a type that programs for machine learning have, and zarr-python has not.
fn wider(name: &str) -> Option<String> {
    let is = |start: &str| name.strip_prefix(start).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let holds = match name {
        "int2" | "int4" => "int8",
        "uint2" | "uint4" => "uint8",
        name if name.starts_with("complex_") => "complex64",
        _ if is("bfloat") || ["float4", "float6", "float8"].iter().any(|start| name.starts_with(start)) => "float32",
        _ => return None,
    };
    Some(format!("{holds} holds all of its numbers, and what reads it, as tensorstore does, can write it so"))
}

fn key_encoding(value: &Value) -> Result<KeyEncoding, Refusal> {
    let refused = || {
        let value = render_line(value);
        Refusal::Unsupported(format!("chunk_key_encoding {value} is not read here; expected default or v2 with / or ."))
    };
    let (name, configuration) = named(value).ok_or_else(refused)?;
    let (prefix, usual) = match name {
        "default" => (Prefix::Part, "/"),
        "v2" => (Prefix::Nothing, "."),
        _ => return Err(refused()),
    };
    let separator = configuration.and_then(|configuration| configuration.get("separator"));
    match separator.map_or(Some(usual), text) {
        Some("/") => Ok(KeyEncoding { prefix, separator: '/' }),
        Some(".") => Ok(KeyEncoding { prefix, separator: '.' }),
        _ => Err(refused()),
    }
}

/// The grids of an array in whose document shards are; `None` if there are none.
///
/// # Errors
///
/// A reason when there are, and their chunks can't be told.
pub(crate) fn sharded_layout(document: &Value) -> Result<Option<Layout>, Refusal> {
    let list = |key: &str| document.get(key).and_then(Value::as_array);
    // With a manifest, shards are parts of files that others have.
    let has_files = list("storage_transformers").is_none_or(Vec::is_empty);
    let has_shards = list("codecs").and_then(|codecs| codecs.last()).is_some_and(sharding::is_sharding);
    (has_files && has_shards).then(|| layout(document)).transpose()
}

pub(super) fn remove_shards(document: &mut Value) {
    let codecs = document.get("codecs").and_then(Value::as_array);
    let chunks = codecs.and_then(|codecs| chunk_codecs(codecs).ok()).zip(layout(document).ok());
    if let Some((codecs, layout)) = chunks {
        document["chunk_grid"]["configuration"]["chunk_shape"] = json!(layout.chunk_shape);
        document["codecs"] = json!(codecs);
    }
}

/// A group's `zarr.json`.
pub(crate) fn group(attributes: Value) -> Value {
    document_of("group", attributes)
}

/// What a group's `zarr.json` says, and an array's among other things.
pub(crate) fn document_of(kind: &str, attributes: Value) -> Value {
    json!({"zarr_format": 3, "node_type": kind, "attributes": attributes})
}

/// Completes the document of an array whose chunks are files, or are told by a manifest. What it says already stays, as
/// far as it is no matter of chunks.
pub(crate) fn set_chunk_files(document: &mut Value, array: &Metadata) {
    let Metadata { layout, dtype, chain, fill, .. } = array;
    let or = |document: &mut Value, key: &str, value: Value| {
        if document[key].is_null() {
            document[key] = value;
        }
    };
    document["shape"] = json!(layout.shape);
    or(document, "data_type", json!(dtype.zarr_name()));
    document["chunk_grid"] = json!({"name": "regular", "configuration": {"chunk_shape": layout.chunk_shape}});
    document["chunk_key_encoding"] = json!({"name": "v2", "configuration": {"separator": "."}});
    document["codecs"] = json!(chain.document);
    or(document, "fill_value", fill_value::to_json_v3(*dtype, fill));
    if let Some(names) = &layout.names {
        or(document, "dimension_names", names_to_json(names));
    }
    or(document, "attributes", json!({}));
    remove_manifest(document);
}

pub(crate) fn has_manifest(document: &Value) -> bool {
    document.pointer("/storage_transformers/0/name").is_some_and(|name| name == MANIFEST)
}

/// Says where the manifest of an array is, or what stands in it.
pub(crate) fn set_manifest(document: &mut Value, manifest: &Value) {
    document["storage_transformers"] = json!([{"name": MANIFEST, "configuration": {"manifest": manifest}}]);
}

/// Has files by the keys that this crate writes take the place of an array's manifest.
pub(crate) fn replace_manifest(document: &mut Value) {
    document["chunk_key_encoding"] = default_keys();
    remove_manifest(document);
}

pub(crate) fn remove_manifest(document: &mut Value) {
    document.as_object_mut().map(|document| document.shift_remove("storage_transformers"));
}

/// An array's `zarr.json`, without attributes.
pub(crate) fn array(array: &Metadata, shape: &[u64]) -> Value {
    let mut document = json!({
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": array.dtype.zarr_name(),
        "chunk_grid": chunk_grid(&array.layout),
        "chunk_key_encoding": default_keys(),
        "fill_value": fill_value::to_json_v3(array.dtype, &array.fill),
        "codecs": file_codecs(array),
        "dimension_names": array.layout.names.as_deref().map(names_to_json),
        "attributes": {},
    });
    if array.layout.names.is_none() {
        // tensorstore takes no null for it.
        document.as_object_mut().map(|document| document.shift_remove("dimension_names"));
    }
    document
}

/// The keys that this crate writes.
fn default_keys() -> Value {
    json!({"name": "default", "configuration": {"separator": "/"}})
}

/// Writes into an array's document how its chunks and shards are cut and encoded.
pub(crate) fn set_chunks(document: &mut Value, array: &Metadata) {
    document["chunk_grid"] = chunk_grid(&array.layout);
    document["codecs"] = file_codecs(array);
}

fn chunk_grid(layout: &Layout) -> Value {
    json!({"name": "regular", "configuration": {"chunk_shape": layout.file_shape}})
}

/// The codecs of a file. Shards have the dimensions as the array has them, whatever their chunks do.
fn file_codecs(Metadata { layout, chain, .. }: &Metadata) -> Value {
    match layout.table() {
        None => json!(chain.document),
        Some(index) => json!([sharding::document(&layout.chunk_shape, &chain.document, index)]),
    }
}

/// A per-frame record array's `zarr.json`: one dimension, uncompressed.
pub(crate) fn record(dtype: Dtype, frames: u64, chunk: u64, chunks_a_file: u64, fill: &Value) -> Value {
    let plain = vec![codecs::bytes(cfg!(target_endian = "big"), dtype.size())];
    let (file, codecs) = match record_files::table(chunks_a_file) {
        None => (chunk, plain),
        Some(table) => (chunk * chunks_a_file, vec![sharding::document(&[chunk], &plain, table)]),
    };
    json!({
        "zarr_format": 3,
        "node_type": "array",
        "shape": [frames],
        "data_type": dtype.zarr_name(),
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [file]}},
        "chunk_key_encoding": default_keys(),
        "fill_value": fill,
        "codecs": codecs,
        "dimension_names": ["frame"],
        "attributes": {},
    })
}
