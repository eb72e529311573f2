//! What bytes mean: documents, keys, indexes and headers, each with both directions in one place. Nothing here reads or writes a file.
//!
//! ```text
//! dialect             the image's documents                                   shards
//! zarr3               zarr.json (group), 0/zarr.json                          0/c/0/0/0
//! zarr3-transformer   zarr.json, meta/root.group.json, meta/root/0.array.json data/root/0/c0/0/0
//! zarr2-sharded       .zarray, .zattrs                                        0/0/0
//! precomputed         info                                                    <key>/0.shard
//! ```
//!
//! Per-frame records are arrays of Zarr v3 beside them in every dialect. Which dialect is which is asked here and at the doors (the
//! configuration, the C interface, the command line).

pub(crate) mod acquisition_map;
pub(crate) mod codecs;
pub(crate) mod fill_value;
pub(crate) mod index;
pub(crate) mod keys;
pub(crate) mod layout;
pub(crate) mod precomputed;
pub(crate) mod provenance;
pub(crate) mod slot_header;
pub(crate) mod zarr2;
pub(crate) mod zarr3;
pub(crate) mod zarr3_draft;

use std::path::Path;

use serde_json::{Map, Value};

use crate::config::Dialect;
use crate::dtype::Dtype;
use crate::error::{Error, Result};
use codecs::Chain;
use layout::{Layout, product};

/// The most bytes that one decoded chunk may have.
pub(crate) const CHUNK_BYTES_MAX: u64 = 4 << 30;

/// An array as its document describes it.
#[derive(Debug, Clone)]
pub(crate) struct Metadata {
    pub(crate) layout: Layout,
    pub(crate) dtype: Dtype,
    pub(crate) chain: Chain,
    /// One element, in little-endian byte order.
    pub(crate) fill: Vec<u8>,
    pub(crate) attributes: Value,
    /// The manifest of the storage transformer `chunk-manifest-json`: its path, or the manifest itself.
    pub(crate) manifest: Option<Value>,
}

impl Metadata {
    /// Checks what a parser of the document at `path` took over as it stood.
    pub(crate) fn check(self, path: &Path) -> Result<Self> {
        let refused = |reason: String| Err(Error::format(path, reason));
        let Self { layout, dtype, .. } = &self;
        match bytes(&layout.chunk_shape, *dtype) {
            Some(bytes) if bytes <= CHUNK_BYTES_MAX => {}
            _ => return refused(format!("chunks of {:?} are over {CHUNK_BYTES_MAX} bytes", layout.chunk_shape)),
        }
        if product(&layout.shape).is_none() {
            return refused(format!("shape {:?} has more than 2^64 elements", layout.shape));
        }
        Ok(self)
    }

    /// Bytes of one decoded chunk.
    pub(crate) fn chunk_bytes(&self) -> usize {
        let bytes = bytes(&self.layout.chunk_shape, self.dtype);
        bytes.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(usize::MAX)
    }
}

/// The bytes of a box of elements, if a `u64` holds their number.
pub(crate) fn bytes(shape: &[u64], dtype: Dtype) -> Option<u64> {
    product(shape)?.checked_mul(dtype.size() as u64)
}

/// A document's key and what it says.
pub(crate) type Document = (String, Value);

/// What the documents of one image say, whatever their form.
#[derive(Clone, Copy)]
pub(crate) struct Image<'a> {
    pub(crate) array: &'a Metadata,
    pub(crate) shape: &'a [u64],
    /// The user's attributes.
    pub(crate) user: &'a Map<String, Value>,
    /// The writer's own.
    pub(crate) own: &'a Value,
    /// What OME-Zarr says, where it has words for the dimensions.
    pub(crate) ome: Option<&'a Value>,
}

impl Image<'_> {
    /// The documents that never change.
    pub(crate) fn entry(&self) -> Vec<Document> {
        match self.array.layout.dialect {
            Dialect::Zarr3Transformer => vec![zarr3_draft::entry()],
            Dialect::Zarr3 | Dialect::Zarr2Sharded | Dialect::Precomputed => Vec::new(),
        }
    }

    /// The document that names the shape.
    pub(crate) fn of_shape(&self) -> Document {
        let document = match self.array.layout.dialect {
            Dialect::Zarr3 => zarr3::array(self.array, self.shape),
            Dialect::Zarr3Transformer => zarr3_draft::array(self.array, self.shape),
            Dialect::Zarr2Sharded => zarr2::array(self.array, self.shape),
            Dialect::Precomputed => precomputed::info(self),
        };
        (places(&self.array.layout).document, document)
    }

    /// The document that holds the attributes.
    pub(crate) fn of_attributes(&self) -> Document {
        let mut attributes = self.user.clone();
        attributes.insert(provenance::ATTRIBUTE.into(), self.own.clone());
        match self.array.layout.dialect {
            Dialect::Zarr3 => {
                attributes.extend(self.ome.map(|ome| ("ome".into(), ome.clone())));
                ("zarr.json".into(), zarr3::group(Value::Object(attributes)))
            }
            Dialect::Zarr3Transformer => zarr3_draft::group(attributes),
            Dialect::Zarr2Sharded => zarr2::attributes(self.array, attributes),
            Dialect::Precomputed => self.of_shape(),
        }
    }
}

/// Where an image of this crate's writer has its array, below the image's folder.
#[derive(Debug)]
pub(crate) struct Places {
    /// By which the array is known.
    pub(crate) array: String,
    /// The folder that the names of its files start from.
    pub(crate) folder: String,
    /// The key of its document.
    pub(crate) document: String,
}

/// Where the array of an image stands.
pub(crate) fn places(layout: &Layout) -> Places {
    let (array, folder, document) = match (layout.dialect, layout.volume()) {
        (Dialect::Zarr3, _) => ("0", "0", "0/zarr.json"),
        (Dialect::Zarr3Transformer, _) => ("0", "data/root/0", "meta/root/0.array.json"),
        (Dialect::Zarr2Sharded, _) => ("", "", ".zarray"),
        (Dialect::Precomputed, volume) => {
            let key = volume.map_or("", |volume| volume.key());
            (key, key, "info")
        }
    };
    Places { array: array.into(), folder: folder.into(), document: document.into() }
}

/// The key of a shard of an image, below the image's folder.
pub(crate) fn shard_key(layout: &Layout, file: &[u64]) -> String {
    let Places { folder, .. } = places(layout);
    let key = layout.file_key(file);
    if folder.is_empty() { key } else { format!("{folder}/{key}") }
}

/// What an array is, for people.
pub(crate) fn describe(layout: &Layout) -> &'static str {
    match (layout.dialect, layout.has_index()) {
        (Dialect::Zarr3, _) => "Zarr v3",
        (Dialect::Zarr3Transformer, _) => "Zarr v3, draft of 2022",
        (Dialect::Zarr2Sharded, false) => "Zarr v2",
        (Dialect::Zarr2Sharded, true) => "Zarr v2 with shards, prototype of zarr-python's pull request 876",
        (Dialect::Precomputed, _) => "precomputed volume",
    }
}

/// Whether an array's document has shards in it, of which the chunks can be told or not. Scales of a volume say so one by one.
pub(crate) fn has_shards(dialect: Dialect, document: &Value) -> bool {
    match dialect {
        Dialect::Zarr3 => zarr3::has_shards(document),
        Dialect::Zarr3Transformer => zarr3_draft::has_shards(document),
        Dialect::Zarr2Sharded => zarr2::has_shards(document),
        Dialect::Precomputed => true,
    }
}

/// The document of an array with shards as it were without them: its chunks are files.
pub(crate) fn without_shards(dialect: Dialect, document: &Value) -> Value {
    let mut shown = document.clone();
    match dialect {
        Dialect::Zarr3 => zarr3::remove_shards(&mut shown),
        Dialect::Zarr3Transformer => zarr3_draft::remove_shards(&mut shown),
        Dialect::Zarr2Sharded => zarr2::remove_shards(&mut shown),
        Dialect::Precomputed => precomputed::remove_shards(&mut shown),
    }
    shown
}

/// The fields of an array's document that may become otherwise while the chunks stay what they are.
pub(crate) fn free_fields(dialect: Dialect) -> &'static [&'static str] {
    match dialect {
        Dialect::Zarr3 => &["shape", "attributes", "dimension_names"],
        Dialect::Zarr3Transformer => &["shape", "attributes"],
        Dialect::Zarr2Sharded => &["shape"],
        // The size is part of what the ids of chunks mean.
        Dialect::Precomputed => &["attributes"],
    }
}

/// Whether readers want a shard to be there even if nothing is in it.
pub(crate) fn keeps_empty(dialect: Dialect) -> bool {
    dialect == Dialect::Zarr2Sharded
}

/// The name and configuration of an extension: `{"name": …, "configuration": {…}}`, or the bare name.
pub(crate) fn named(value: &Value) -> Option<(&str, Option<&Map<String, Value>>)> {
    match value {
        Value::String(name) => Some((name, None)),
        Value::Object(object) => {
            let name = object.get("name")?.as_str()?;
            Some((name, object.get("configuration").and_then(Value::as_object)))
        }
        _ => None,
    }
}

/// A list of sizes in a document; `what`: what the document calls it.
fn sizes(value: Option<&Value>, what: &str) -> Result<Vec<u64>, String> {
    let list = value.and_then(Value::as_array);
    let sizes = list.and_then(|list| list.iter().map(Value::as_u64).collect::<Option<Vec<_>>>());
    sizes.ok_or_else(|| format!("{what} is {}; expected a list of sizes", value.unwrap_or(&Value::Null)))
}

/// The shape of shards of so many chunks.
fn shard_shape(per_shard: &[u64], chunk: &[u64], what: &str) -> Result<Vec<u64>, String> {
    if per_shard.len() != chunk.len() {
        return Err(format!("{what} is {per_shard:?} for chunks of {chunk:?}"));
    }
    let shape = per_shard.iter().zip(chunk).map(|(count, chunk)| count.checked_mul(*chunk));
    shape.collect::<Option<_>>().ok_or_else(|| "shards of more than 2^64 elements".into())
}

/// xarray's names of the dimensions, which are attributes in formats that have no names.
fn dimension_names(attributes: &Value, dimensions: usize) -> Option<Vec<String>> {
    let names = attributes.get(DIMENSION_NAMES)?.as_array()?;
    let names: Vec<String> = names.iter().map(|name| name.as_str().map(str::to_owned)).collect::<Option<_>>()?;
    (names.len() == dimensions).then_some(names)
}

/// The attribute of xarray that names the dimensions.
pub(crate) const DIMENSION_NAMES: &str = "_ARRAY_DIMENSIONS";
