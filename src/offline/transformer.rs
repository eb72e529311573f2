//! The Zarr v3 draft of 2022 with the sharding storage transformer 1.0: documents stand below `meta/`, shards below `data/`.
//!
//! ```text
//! zarr.json                     the entry point
//! meta/root.group.json          the root group; a group without a document is one all the same
//! meta/root/0.array.json        the array `0`
//! data/root/0/c0/0/0            one of its shards
//! ```
//!
//! Sources: Zarr v3 core protocol, editor's draft of 2022, "Entry point metadata", "Array metadata" and "Storage keys";
//! sharding storage transformer 1.0, "Configuration" and "Binary shard format". What zarr-python 2.14 to 2.18 write and leave
//! out is read, too.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value};

use super::chain::Chain;
use super::fill;
use super::metadata::{KeyEncoding, Metadata, Prefix, Sharding};
use super::zarr2;
use crate::config::{Codec, Compressor, Dialect, IndexLocation};
use crate::dtype::Dtype;
use crate::error::{Error, Result};
use crate::fs::links;

/// What an entry point document calls the format.
const FORMAT: &str = "https://purl.org/zarr/spec/protocol/core/3.0";
const CODECS: &str = "https://purl.org/zarr/spec/codec/";
const SHARDING: &str = "https://purl.org/zarr/spec/storage_transformers/sharding/1.0";

const ARRAY: &str = ".array.json";
const GROUP: &str = ".group.json";

/// Deeper and wider trees of documents are broken rather than generous.
const DEPTH_MAX: usize = 32;
const NODES_MAX: usize = 1 << 16;

#[derive(Deserialize)]
struct Document {
    shape: Vec<u64>,
    data_type: Value,
    chunk_grid: ChunkGrid,
    chunk_memory_layout: String,
    fill_value: Value,
    #[serde(default)]
    compressor: Option<NamedCodec>,
    #[serde(default)]
    storage_transformers: Vec<Value>,
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
    separator: char,
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
pub(super) fn is_entry(document: &Value) -> bool {
    document.get("zarr_format").and_then(Value::as_str) == Some(FORMAT)
}

/// Checks what an entry point at `path` says of the other documents.
pub(super) fn check_entry(path: &Path, document: &Value) -> Result<()> {
    let says = |key: &str, expected: &str| match document.get(key).and_then(Value::as_str) {
        Some(found) if found == expected => Ok(()),
        found => Err(Error::format(path, format!("{key} is {found:?}; expected {expected:?}"))),
    };
    says("metadata_encoding", FORMAT)?;
    says("metadata_key_suffix", ".json")
}

/// The array document of the node of this name; the root's name is empty.
pub(super) fn array_document(root: &Path, name: &str) -> PathBuf {
    document(root, name, ARRAY)
}

/// The group document of the node of this name.
pub(super) fn group_document(root: &Path, name: &str) -> PathBuf {
    document(root, name, GROUP)
}

fn document(root: &Path, name: &str, suffix: &str) -> PathBuf {
    let name = if name.is_empty() { "root".to_owned() } else { format!("root/{name}") };
    root.join("meta").join(format!("{name}{suffix}"))
}

/// The folder of the shards of the array of this name.
pub(super) fn data_folder(root: &Path, name: &str) -> PathBuf {
    let folder = root.join("data/root");
    if name.is_empty() { folder } else { folder.join(name) }
}

/// What the documents below `meta/` are about.
#[derive(Debug, Default)]
pub(super) struct Documents {
    /// The names of groups that have a document, in order.
    pub(super) groups: Vec<String>,
    /// The names of arrays, in order.
    pub(super) arrays: Vec<String>,
    /// Files that are neither.
    pub(super) others: Vec<PathBuf>,
}

impl Documents {
    /// Lists the documents of the dataset at `root`.
    pub(super) fn list(root: &Path) -> Result<Self> {
        let mut found = Self::default();
        found.folder(&root.join("meta"), "", 0)?;
        found.groups.sort();
        found.arrays.sort();
        found.others.sort();
        Ok(found)
    }

    fn folder(&mut self, folder: &Path, key: &str, depth: usize) -> Result<()> {
        let failed = |error| Error::io("list", folder, error);
        links::check(folder).map_err(|reason| Error::format(folder, reason))?;
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            entries => entries.map_err(failed)?,
        };
        for entry in entries {
            let path = entry.map_err(failed)?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
                self.others.push(path);
                continue;
            };
            let key = if key.is_empty() { name.to_owned() } else { format!("{key}/{name}") };
            if self.groups.len() + self.arrays.len() + self.others.len() >= NODES_MAX {
                return Err(Error::format(folder, format!("there are more than {NODES_MAX} documents")));
            }
            if !path.is_symlink() && path.is_dir() {
                if depth >= DEPTH_MAX {
                    return Err(Error::format(path, format!("the tree is deeper than {DEPTH_MAX}")));
                }
                self.folder(&path, &key, depth + 1)?;
            } else if let Some(name) = key.strip_suffix(ARRAY).and_then(node_name) {
                self.arrays.push(name);
            } else if let Some(name) = key.strip_suffix(GROUP).and_then(node_name) {
                self.groups.push(name);
            } else {
                self.others.push(path);
            }
        }
        Ok(())
    }
}

/// The name of the node that stands at `root/name` or, for the root itself, at `root`.
fn node_name(key: &str) -> Option<String> {
    let name = key.strip_prefix("root")?;
    if name.is_empty() { Some(String::new()) } else { name.strip_prefix('/').map(str::to_owned) }
}

/// An array's metadata from its document at `path`.
pub(super) fn parse(path: &Path, document: Value) -> Result<Metadata> {
    let document: Document =
        serde_json::from_value(document).map_err(|error| Error::format(path, error.to_string()))?;
    metadata(document).map_err(|reason| Error::format(path, reason))?.check(path)
}

fn metadata(document: Document) -> Result<Metadata, String> {
    let layout = document.chunk_memory_layout;
    if layout != "C" && document.shape.len() > 1 {
        return Err(format!("chunk_memory_layout {layout:?} is not read here; expected \"C\""));
    }
    let required = |extension: &&Value| extension.get("must_understand") != Some(&Value::Bool(false));
    if let Some(extension) = document.extensions.iter().find(required) {
        return Err(format!("extension {extension} is not read here"));
    }
    let (dtype, big_endian) = dtype(&document.data_type)?;
    let ChunkGrid { kind, chunk_shape, separator } = document.chunk_grid;
    if kind != "regular" || !matches!(separator, '/' | '.') {
        return Err(format!(
            "a chunk_grid of type {kind:?} with separator {separator:?} is not read here; expected a regular one with / or ."
        ));
    }
    let (file_shape, sharding) = shards(&document.storage_transformers, &chunk_shape)?;
    let (compressor, name) = compressor(document.compressor)?;
    let fill = match &document.fill_value {
        Value::Null => vec![0; dtype.size()],
        value => fill::element(dtype, value)?,
    };
    let attributes = Value::Object(document.attributes);
    Ok(Metadata {
        dialect: Dialect::Zarr3Transformer,
        shape: document.shape,
        dtype,
        // The draft has no names; those of xarray and of this crate's own writer are attributes.
        names: zarr2::dimension_names(&attributes, chunk_shape.len()),
        file_shape,
        chunk_shape,
        sharding,
        chain: Chain::from_zarr2(Codec { compressor, checksum: false }, big_endian, dtype.size(), name),
        fill,
        keys: KeyEncoding { prefix: Prefix::Letter, separator },
        attributes,
        manifest: None,
        volume: None,
    })
}

fn dtype(value: &Value) -> Result<(Dtype, bool), String> {
    match value.as_str() {
        // Of one byte there is no order to say.
        Some(text @ ("u1" | "i1")) => zarr2::dtype(&Value::from(format!("|{text}"))),
        _ => zarr2::dtype(value),
    }
}

/// Elements of one file, and how its chunks are found.
fn shards(transformers: &[Value], chunk: &[u64]) -> Result<(Vec<u64>, Option<Sharding>), String> {
    let transformer = match transformers {
        [] => return Ok((chunk.to_vec(), None)),
        [transformer] => transformer,
        several => return Err(format!("{} storage transformers on one array are not read here", several.len())),
    };
    let refused = || format!("storage transformer {transformer} is not read here; {SHARDING} of type indexed is");
    let parsed = Transformer::deserialize(transformer).map_err(|error| format!("{}: {error}", refused()))?;
    if parsed.extension != SHARDING || parsed.kind != "indexed" {
        return Err(refused());
    }
    let per_shard = parsed.configuration.chunks_per_shard;
    if per_shard.len() != chunk.len() {
        return Err(format!("chunks_per_shard is {per_shard:?} for chunks of {chunk:?}"));
    }
    let file = per_shard.iter().zip(chunk).map(|(count, chunk)| count.checked_mul(*chunk));
    let file = file.collect::<Option<_>>().ok_or("shards of more than 2^64 elements")?;
    Ok((file, Some(Sharding { location: IndexLocation::End, checksum: false })))
}

fn compressor(codec: Option<NamedCodec>) -> Result<(Compressor, Option<String>), String> {
    let Some(NamedCodec { codec, configuration }) = codec else { return Ok((Compressor::None, None)) };
    let id = codec.strip_prefix(CODECS).and_then(|rest| rest.strip_suffix("/1.0"));
    let known = id.and_then(|id| Some((id, zarr2::named_compressor(id, &configuration)?)));
    let (id, compressor) = known.ok_or_else(|| zarr2::not_read(&Value::from(codec.as_str())))?;
    Ok((compressor, Some(zarr2::for_people(id, configuration.iter()))))
}
