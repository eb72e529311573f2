//! The draft of Zarr v3 of 2022 with the sharding storage transformer 1.0: documents stand below `meta/`, shards below
//! `data/`.
//!
//! ```text
//! zarr.json                     the entry point
//! meta/root.group.json          the root group; a group without a document is one all the same
//! meta/root/0.array.json        the array `0`
//! data/root/0/c0/0/0            one of its shards
//! ```
//!
//! Sources: Zarr v3 core protocol, editor's draft of 2022, "Entry point metadata", "Array metadata" and "Storage keys";
//! sharding storage transformer 1.0, draft of 18 February 2022, "Configuration" and "Binary shard format". What the
//! drafts leave open is as zarr-python 2.18 has it; what zarr-python 2.14 to 2.18 write and leave out is read, too.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::codecs::Chain;
use super::document::{self, Document, check_sizes, dimension_names, put_dimension_names, unlike};
use super::keys::{KeyEncoding, Prefix};
use super::layout::{Files, Layout};
use super::metadata::Metadata;
use super::{fill_value, zarr2};
use crate::codec::numcodecs;
use crate::config::{Codec, Compressor, Dialect};
use crate::dtype::ElementType;
use crate::error::{Error, Refusal, Result};
use crate::json::{render_line, text};
use crate::words::{plain, quoted};

/// What an entry point document calls the format.
const PROTOCOL: &str = "https://purl.org/zarr/spec/protocol/core/3.0";
const CODECS: &str = "https://purl.org/zarr/spec/codec/";
const SHARDING: &str = "https://purl.org/zarr/spec/storage_transformers/sharding/1.0";
const COMPLEX: &str =
    "https://zarr-specs.readthedocs.io/en/core-protocol-v3.0-dev/protocol/extensions/complex-dtypes/v1.0.html";

const ARRAY: &str = ".array.json";
const GROUP: &str = ".group.json";

/// What a document says of the grids.
#[derive(Deserialize)]
struct DraftGrids {
    shape: Vec<u64>,
    chunk_grid: ChunkGrid,
    #[serde(default)]
    storage_transformers: Vec<Value>,
    #[serde(default)]
    attributes: Map<String, Value>,
}

/// What a document says beside.
#[derive(Deserialize)]
struct DraftSaid {
    data_type: Value,
    chunk_memory_layout: String,
    fill_value: Value,
    #[serde(default)]
    compressor: Option<NamedCodec>,
    #[serde(default)]
    extensions: Vec<Value>,
    #[serde(default)]
    attributes: Map<String, Value>,
}

#[derive(Deserialize)]
struct ChunkGrid {
    #[serde(rename = "type")]
    kind: String,
    chunk_shape: Vec<u64>,
    #[serde(default = "slash")]
    separator: char,
}

fn slash() -> char {
    '/'
}

#[derive(Deserialize)]
struct NamedCodec {
    codec: String,
    #[serde(default)]
    configuration: Map<String, Value>,
}

#[derive(Deserialize)]
struct Transformer {
    extension: String,
    #[serde(rename = "type")]
    kind: String,
    configuration: ChunksPerShard,
}

#[derive(Deserialize)]
struct ChunksPerShard {
    chunks_per_shard: Vec<u64>,
}

/// Whether a `zarr.json` is an entry point of the draft rather than a node of the final Zarr v3.
pub(crate) fn is_entry(document: &Value) -> bool {
    document.get("zarr_format").and_then(text) == Some(PROTOCOL)
}

/// Checks what an entry point at `path` says of the other documents.
pub(crate) fn check_entry(path: &Path, document: &Value) -> Result<()> {
    let says = |key: &str, expected: &str| match document.get(key).and_then(text) {
        Some(found) if found == expected => Ok(()),
        _ => {
            let got = document.get(key).map_or("missing".to_owned(), render_line);
            Err(Error::format(path, format!("{key} is {got}; expected \"{expected}\"")))
        }
    };
    says("metadata_encoding", PROTOCOL)?;
    says("metadata_key_suffix", ".json")
}

/// The document by which a store is known.
pub(super) fn entry() -> Document {
    let document = json!({
        "zarr_format": PROTOCOL,
        "metadata_encoding": PROTOCOL,
        "metadata_key_suffix": ".json",
        "extensions": [],
    });
    ("zarr.json".into(), document)
}

/// The array document of the node of this name; the root's name is empty.
pub(crate) fn array_document(root: &Path, name: &str) -> PathBuf {
    document(root, name, ARRAY)
}

pub(crate) fn group_document(root: &Path, name: &str) -> PathBuf {
    document(root, name, GROUP)
}

fn document(root: &Path, name: &str, suffix: &str) -> PathBuf {
    let name = if name.is_empty() { "root".to_owned() } else { format!("root/{name}") };
    root.join("meta").join(format!("{name}{suffix}"))
}

/// The folder of the shards of the array of this name.
pub(crate) fn data_folder(root: &Path, name: &str) -> PathBuf {
    let folder = root.join("data/root");
    if name.is_empty() { folder } else { folder.join(name) }
}

/// What a document below `meta/` is about, by its path there.
pub(crate) enum DraftNode {
    Array(String),
    Group(String),
}

impl DraftNode {
    /// `None`: no document.
    pub(crate) fn of(key: &str) -> Option<Self> {
        let array = key.strip_suffix(ARRAY).and_then(node_name).map(Self::Array);
        array.or_else(|| key.strip_suffix(GROUP).and_then(node_name).map(Self::Group))
    }
}

/// The name of the node that stands at `root/name` or, for the root itself, at `root`.
fn node_name(key: &str) -> Option<String> {
    let name = key.strip_prefix("root")?;
    if name.is_empty() { Some(String::new()) } else { name.strip_prefix('/').map(str::to_owned) }
}

/// An array's metadata from its document at `path`.
pub(crate) fn parse(path: &Path, document: &Value) -> Result<Metadata> {
    metadata(document).map_err(|reason| Error::format(path, reason))?.check(path)
}

fn metadata(document: &Value) -> Result<Metadata, Refusal> {
    let said = DraftSaid::deserialize(document).map_err(|error| unlike(&error))?;
    let layout = layout(document)?;
    let required = |extension: &&Value| extension.get("must_understand") != Some(&Value::Bool(false));
    if let Some(extension) = said.extensions.iter().find(required) {
        return Refusal::unsupported(format!("extension {} is not read here", render_line(extension)));
    }
    let (dtype, big_endian) = dtype(&said.data_type)?;
    let (compressor, name) = compressor(said.compressor)?;
    let is_fill_undefined = said.fill_value.is_null();
    let fill = if is_fill_undefined { vec![0; dtype.size()] } else { fill_value::element(dtype, &said.fill_value)? };
    let chain = Chain::new(Codec { compressor, checksum: false }, big_endian, dtype, name);
    let chain = zarr2::in_order(chain, &said.chunk_memory_layout, layout.shape.len())?;
    let attributes = Value::Object(said.attributes);
    Ok(Metadata { layout, dtype, chain, fill, is_fill_undefined, attributes, manifest: None })
}

/// As [`zarr3::layout`](super::zarr3::layout).
pub(crate) fn layout(document: &Value) -> Result<Layout, Refusal> {
    check_sizes(document, &["shape"])?;
    check_sizes(&document["chunk_grid"], &["chunk_shape"])?;
    let DraftGrids { shape, chunk_grid, storage_transformers, attributes } =
        DraftGrids::deserialize(document).map_err(|error| unlike(&error))?;
    let ChunkGrid { kind, chunk_shape, separator } = chunk_grid;
    if kind != "regular" || !matches!(separator, '/' | '.') {
        return Refusal::unsupported(format!(
            "a chunk_grid of type {} with separator {} is not read here; expected a regular one with \
             / or .",
            quoted(&kind),
            quoted(separator.to_string())
        ));
    }
    let (file_shape, index) = match shards(&storage_transformers)? {
        None => (chunk_shape.clone(), None),
        Some(per_shard) => {
            let (shape, table) = document::shards(&per_shard, &chunk_shape, "chunks_per_shard")?;
            (shape, Some(table))
        }
    };
    // The draft has no names; those of xarray and of this crate's own writer are attributes.
    let names = dimension_names(&Value::Object(attributes), shape.len());
    let files = Files::Grid { keys: KeyEncoding { prefix: Prefix::Letter, separator }, index };
    Layout { dialect: Dialect::Zarr3Transformer, shape, names, chunk_shape, file_shape, files, index_order: None }
        .check()
}

fn dtype(value: &Value) -> Result<(ElementType, bool), Refusal> {
    match text(value) {
        // Of one byte there is no order to say.
        Some(text @ ("u1" | "i1")) => zarr2::dtype(&Value::from(format!("|{text}"))),
        Some("bool") => Ok((ElementType::Bool, false)),
        None if text(&value["extension"]).is_some_and(|extension| extension.contains("complex-dtypes")) => {
            zarr2::dtype(&value["type"])
        }
        _ => zarr2::dtype(value),
    }
}

/// A type as zarr-python 2.18 spells it.
fn dtype_name(element: ElementType, big_endian: bool) -> Value {
    let name = zarr2::dtype_name(element, big_endian);
    match element {
        ElementType::Bool => json!("bool"),
        ElementType::C64 | ElementType::C128 => json!({"extension": COMPLEX, "type": name, "fallback": null}),
        // Of one byte, there is no order.
        _ => json!(name.trim_start_matches('|')),
    }
}

/// Chunks of a shard in each dimension; `None` without shards.
fn shards(transformers: &[Value]) -> Result<Option<Vec<u64>>, Refusal> {
    let Some(transformer) = document::transformer(transformers)? else { return Ok(None) };
    let refused = || {
        Refusal::Unsupported(format!(
            "storage transformer {transformer} is not read here; {SHARDING} of type indexed is"
        ))
    };
    let parsed = Transformer::deserialize(transformer).map_err(|error| format!("{}: {}", refused(), plain(error)))?;
    if parsed.extension != SHARDING || parsed.kind != "indexed" {
        return Err(refused());
    }
    Ok(Some(parsed.configuration.chunks_per_shard))
}

fn compressor(codec: Option<NamedCodec>) -> Result<(Compressor, Option<String>), Refusal> {
    let Some(NamedCodec { codec, configuration }) = codec else { return Ok((Compressor::None, None)) };
    let id = codec.strip_prefix(CODECS).and_then(|rest| rest.strip_suffix("/1.0"));
    let known = id.and_then(|id| Some((id, numcodecs::named(id, &configuration)?)));
    let (id, compressor) = known.ok_or_else(|| numcodecs::unsupported(&Value::from(codec.as_str())))?;
    Ok((compressor, Some(numcodecs::display(id, configuration.iter()))))
}

/// As [`zarr3::sharded_layout`](super::zarr3::sharded_layout).
pub(crate) fn sharded_layout(document: &Value) -> Result<Option<Layout>, Refusal> {
    let transformers = document.get("storage_transformers").and_then(Value::as_array);
    transformers.is_some_and(|all| !all.is_empty()).then(|| layout(document)).transpose()
}

pub(super) fn remove_shards(document: &mut Value) {
    document.as_object_mut().map(|document| document.shift_remove("storage_transformers"));
}

pub(super) fn group(attributes: Map<String, Value>) -> Document {
    ("meta/root.group.json".into(), json!({"extensions": [], "attributes": attributes}))
}

/// `own`: the array's attributes.
pub(super) fn array(array: &Metadata, shape: &[u64], mut own: Map<String, Value>) -> Value {
    let Metadata { layout, dtype, chain, fill, .. } = array;
    put_dimension_names(&mut own, layout.names.as_deref());
    let fill = if array.is_fill_undefined { Value::Null } else { fill_value::to_json(*dtype, fill) };
    let mut document = json!({
        "shape": shape,
        "data_type": dtype_name(*dtype, chain.big_endian()),
        "chunk_grid": {"type": "regular", "chunk_shape": layout.chunk_shape, "separator": "/"},
        "chunk_memory_layout": "C",
        "fill_value": fill,
        "extensions": [],
        "attributes": own,
        "storage_transformers": [{
            "extension": SHARDING,
            "type": "indexed",
            "configuration": {"chunks_per_shard": layout.chunks_per_file()},
        }],
    });
    if let Some((name, settings)) = numcodecs::compressor(&chain.codec) {
        document["compressor"] = json!({"codec": format!("{CODECS}{name}/1.0"), "configuration": settings});
    }
    document
}
