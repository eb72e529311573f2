//! Zarr v2, plain and with the key `shards` of the prototype in zarr-python's pull request 876.
//!
//! The prototype's reader finds shards only in an array that stands at the root of its store, and takes a shard that is
//! not there for an error.
//!
//! Source: Zarr v2 specification, "Arrays"; of shards, the pull request itself.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::codecs::{BytesCodec, Chain};
use super::document::{
    self, Document, Field, INSTEAD, check_attributes, check_fields, check_sizes, dimension_names, is_there, named,
    put_dimension_names, unlike,
};
use super::fill_value;
use super::keys::{KeyEncoding, Prefix};
use super::layout::{Files, Layout};
use super::metadata::Metadata;
use super::ngff;
use crate::codec::numcodecs;
use crate::config::{Codec, Compressor, Dialect};
use crate::dtype::{Dtype, ElementType};
use crate::error::{Error, Refusal, Result};
use crate::json::{render_line, text};
use crate::words::quoted;

pub(crate) const ARRAY: &str = ".zarray";
pub(crate) const GROUP: &str = ".zgroup";
pub(crate) const ATTRIBUTES: &str = ".zattrs";

/// What a document says of the grids.
#[derive(Deserialize)]
struct Zarr2Grids {
    shape: Vec<u64>,
    chunks: Vec<u64>,
    #[serde(default)]
    dimension_separator: Option<char>,
    #[serde(default)]
    shards: Option<Vec<u64>>,
    #[serde(default)]
    shard_format: Option<String>,
}

/// What a document says beside.
#[derive(Deserialize)]
struct Zarr2Said {
    zarr_format: u64,
    dtype: Value,
    compressor: Option<Value>,
    fill_value: Value,
    order: String,
    filters: Option<Vec<Value>>,
}

/// What a document has whose kind is not looked at elsewhere.
const FIELDS: [Field; 4] = [
    Field { name: "shape", holds: Value::is_array, expected: "a list of sizes" },
    Field { name: "chunks", holds: Value::is_array, expected: "a list of sizes" },
    Field { name: "dtype", holds: is_there, expected: "the name of a type" },
    Field { name: "filters", holds: |filters| filters.is_null() || filters.is_array(), expected: "a list, or null" },
];

/// An array's metadata from its `.zarray` at `path` and its `.zattrs`.
pub(crate) fn parse(path: &Path, document: &Value, attributes: Value) -> Result<Metadata> {
    metadata(document, attributes).map_err(|reason| Error::format(path, reason))?.check(path)
}

fn metadata(document: &Value, attributes: Value) -> Result<Metadata, Refusal> {
    check_fields(document, &FIELDS)?;
    let said = Zarr2Said::deserialize(document).map_err(|error| unlike(&error))?;
    check_attributes(Some(&attributes))?;
    let layout = layout(document, &attributes)?;
    if said.zarr_format != 2 {
        return Err(format!("zarr_format is {}; expected 2", said.zarr_format).into());
    }
    if let Some(filter) = said.filters.iter().flatten().next() {
        return Refusal::unsupported(format!("filter {} is not read here; {INSTEAD}", render_line(filter)));
    }
    let (dtype, big_endian) = dtype(&said.dtype)?;
    let is_fill_undefined = said.fill_value.is_null();
    let fill = if is_fill_undefined { vec![0; dtype.size()] } else { fill_value::element(dtype, &said.fill_value)? };
    let (compressor, name) = compressor(said.compressor.as_ref())?;
    let chain = Chain::new(Codec { compressor, checksum: false }, big_endian, dtype, name);
    let chain = in_order(chain, &said.order, layout.shape.len())?;
    Ok(Metadata { layout, dtype, chain, fill, is_fill_undefined, attributes, manifest: None })
}

/// A chain whose chunks have their elements in the order of NumPy's name, `C` or `F`.
pub(super) fn in_order(chain: Chain, order: &str, dimensions: usize) -> Result<Chain, Refusal> {
    match order {
        "C" => Ok(chain),
        "F" => Ok(chain.reversed(dimensions)),
        _ => Err(format!("the order of elements is {}; expected \"C\" or \"F\"", quoted(order)).into()),
    }
}

/// As [`zarr3::layout`](super::zarr3::layout).
pub(crate) fn layout(document: &Value, attributes: &Value) -> Result<Layout, Refusal> {
    check_sizes(document, &["shape", "chunks"])?;
    let Zarr2Grids { shape, chunks, dimension_separator, shards, shard_format } =
        Zarr2Grids::deserialize(document).map_err(|error| unlike(&error))?;
    let separator = match dimension_separator {
        None | Some('.') => '.',
        Some('/') => '/',
        Some(other) => {
            return Err(format!("dimension_separator is {}; expected \".\" or \"/\"", quoted(other.to_string())).into());
        }
    };
    let dialect = if shards.is_some() { Dialect::Zarr2Sharded } else { Dialect::Zarr2 };
    let (file_shape, index) = match &shards {
        None => (chunks.clone(), None),
        Some(shards) => {
            if shard_format.as_deref() != Some("indexed") {
                let said = shard_format.as_deref().map_or_else(|| "no format".into(), quoted);
                return Refusal::unsupported(format!("shards {shards:?} of {said} are not read here; \"indexed\" is"));
            }
            let (shape, table) = document::shards(shards, &chunks, "shards")?;
            (shape, Some(table))
        }
    };
    let names = dimension_names(attributes, shape.len());
    let files = Files::Grid { keys: KeyEncoding { prefix: Prefix::Nothing, separator }, index };
    Layout { dialect, shape, names, chunk_shape: chunks, file_shape, files, index_order: None }.check()
}

/// A type and whether its numbers are stored with their highest byte first.
pub(super) fn dtype(value: &Value) -> Result<(ElementType, bool), Refusal> {
    let refused = || {
        Refusal::Unsupported(format!(
            "type {} is not read here; expected numbers, booleans or raw bytes, such as \"<u2\", \"|b1\" or \"|V3\"; \
             {INSTEAD}",
            render_line(value)
        ))
    };
    let text = text(value).filter(|text| text.is_char_boundary(1)).ok_or_else(refused)?;
    let (order, name) = text.split_at(1);
    let raw = || name.strip_prefix('V').and_then(|length| length.parse().ok().filter(|length| *length > 0));
    let known = ElementType::all().find(|element| dtype_name(*element, false)[1..] == *name);
    let element = known.or_else(|| raw().map(ElementType::Raw)).ok_or_else(refused)?;
    match order {
        "<" => Ok((element, false)),
        ">" => Ok((element, element.number_bytes() > 1)),
        "|" if element.number_bytes() == 1 => Ok((element, false)),
        _ => Err(refused()),
    }
}

/// An element's type as NumPy spells it.
pub(crate) fn dtype_name(element: ElementType, big_endian: bool) -> String {
    let kind = match element {
        ElementType::Number(Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64) => 'u',
        ElementType::Number(Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64) => 'i',
        ElementType::Number(Dtype::F32 | Dtype::F64) | ElementType::F16 => 'f',
        ElementType::Bool => 'b',
        ElementType::C64 | ElementType::C128 => 'c',
        ElementType::Raw(_) => 'V',
    };
    let order = match element.number_bytes() {
        1 => '|',
        _ if big_endian => '>',
        _ => '<',
    };
    format!("{order}{kind}{}", element.size())
}

fn compressor(value: Option<&Value>) -> Result<(Compressor, Option<String>), Refusal> {
    let Some(value) = value else { return Ok((Compressor::None, None)) };
    let id = value.get("id").and_then(text).unwrap_or_default();
    let mut settings = value.as_object().cloned().unwrap_or_default();
    settings.shift_remove("id");
    let compressor = numcodecs::named(id, &settings).ok_or_else(|| numcodecs::unsupported(value))?;
    Ok((compressor, Some(numcodecs::display(id, settings.iter()))))
}

/// As [`zarr3::sharded_layout`](super::zarr3::sharded_layout).
pub(crate) fn sharded_layout(document: &Value, attributes: &Value) -> Result<Option<Layout>, Refusal> {
    let has_shards = document.get("shards").is_some_and(|shards| !shards.is_null());
    has_shards.then(|| layout(document, attributes)).transpose()
}

pub(super) fn remove_shards(document: &mut Value) {
    for key in ["shards", "shard_format"] {
        document.as_object_mut().map(|document| document.shift_remove(key));
    }
}

/// An array's `.zarray`.
pub(crate) fn array(array: &Metadata, shape: &[u64]) -> Value {
    let Metadata { layout, dtype, chain, .. } = array;
    let compressor = numcodecs::compressor(&chain.codec).map(|(name, mut settings)| {
        settings.insert("id".into(), json!(name));
        settings
    });
    let separator = match &layout.files {
        Files::Grid { keys, .. } => keys.separator,
        Files::Volume(_) => '/',
    };
    let mut document = json!({
        "zarr_format": 2,
        "shape": shape,
        "chunks": layout.chunk_shape,
        "dtype": dtype_name(*dtype, chain.big_endian()),
        "compressor": compressor,
        "fill_value": fill_of(array),
        "order": "C",
        "filters": null,
        "dimension_separator": separator,
    });
    if layout.has_index() {
        document["shards"] = json!(layout.chunks_per_file());
        document["shard_format"] = json!("indexed");
    }
    document
}

fn fill_of(array: &Metadata) -> Value {
    if array.is_fill_undefined { Value::Null } else { fill_value::to_json_v2(array.dtype, &array.fill) }
}

/// The `.zarray` of an array whose chunks are told by references. All codecs are filters, because the last of them
/// would otherwise be the compressor, of which some readers of references expect the one and some the other kind of
/// document.
///
/// # Errors
///
/// A reason for codecs that Zarr v2 lacks.
pub(crate) fn array_of_filters(array: &Metadata) -> Result<Value, Refusal> {
    let Metadata { layout, dtype, chain, .. } = array;
    let is_reversed = |order: &Vec<usize>| order.iter().rev().copied().eq(0..order.len());
    let order = match &chain.order {
        None => "C",
        Some(order) if is_reversed(order) => "F",
        Some(_) => return refused("has its dimensions in an order that Zarr v2 has no word for"),
    };
    if matches!(chain.packing, BytesCodec::Shard(_)) {
        return refused("has shards in its shards or codecs around them, which Zarr v2 has no words for");
    }
    let filters: Vec<Value> = chain.document.iter().filter_map(filter).collect();
    Ok(json!({
        "zarr_format": 2,
        "shape": layout.shape,
        "chunks": layout.chunk_shape,
        "dtype": dtype_name(*dtype, chain.big_endian()),
        "fill_value": fill_of(array),
        "order": order,
        "filters": if filters.is_empty() { Value::Null } else { Value::Array(filters) },
        "compressor": null,
        "dimension_separator": ".",
    }))
}

fn refused<T>(what: &str) -> Result<T, Refusal> {
    Refusal::unsupported(format!("{what}; documents of Zarr v3 have"))
}

/// A Zarr v3 codec in the words of Zarr v2; `None` for the order of bytes and of dimensions, of which the document
/// speaks elsewhere.
fn filter(codec: &Value) -> Option<Value> {
    let (name, configuration) = named(codec)?;
    let name = name.strip_prefix("numcodecs.").unwrap_or(name);
    let mut filter = configuration.cloned().unwrap_or_default();
    match name {
        "bytes" | "transpose" => return None,
        "crc32c" => drop(filter.insert("location".into(), json!("end"))),
        "blosc" => {
            let shuffle = match filter.get("shuffle").and_then(text) {
                Some("shuffle") => json!(1),
                Some("bitshuffle") => json!(2),
                Some(_) => json!(0),
                None => filter.get("shuffle").cloned().unwrap_or(json!(0)),
            };
            filter.insert("shuffle".into(), shuffle);
            filter.shift_remove("typesize");
        }
        _ => {}
    }
    filter.insert("id".into(), json!(name));
    Some(Value::Object(filter))
}

/// The `.zattrs` of an array that is all there is.
pub(crate) fn attributes(array: &Metadata, mut attributes: Map<String, Value>) -> Document {
    put_dimension_names(&mut attributes, array.layout.names.as_deref());
    (ATTRIBUTES.into(), Value::Object(attributes))
}

/// A group's `.zgroup`.
pub(crate) fn group() -> Value {
    json!({"zarr_format": 2})
}

/// The documents of an image group and its array that say nothing of the array's shape. `own`: the array's attributes.
pub(super) fn entry(array: &Metadata, own: Map<String, Value>) -> Vec<Document> {
    let (_, attributes) = attributes(array, own);
    vec![(GROUP.into(), group()), ("0/.zattrs".into(), attributes)]
}

/// The `.zattrs` of an image group. `ome`: what OME-Zarr 0.5 says.
pub(crate) fn group_attributes(ome: Option<&Value>, mut attributes: Map<String, Value>) -> Document {
    match ome {
        Some(ome) if ngff::is_ome(ome) => attributes.extend(ngff::to_0_4(ome)),
        Some(other) => drop(attributes.insert("ome".into(), other.clone())),
        None => {}
    }
    (ATTRIBUTES.into(), Value::Object(attributes))
}
