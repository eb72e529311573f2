//! What is said of an array whose chunks lie elsewhere: its documents, and where its chunks are.

use std::path::Path;

use serde_json::{Value, json};

use crate::error::{Error, Refusal, Result};
use crate::format::codecs::Packing;
use crate::format::{fill_value, named, zarr2};
use crate::offline::array::Array;
use crate::offline::hierarchy::walk::Node;

/// `0.1.2`: the chunk key encoding `v2`, which manifests and Zarr v2 share.
pub(super) fn key(position: &[u64]) -> String {
    if position.is_empty() {
        return "0".to_owned();
    }
    position.iter().map(u64::to_string).collect::<Vec<_>>().join(".")
}

/// The array's Zarr v3 document, with the inner chunks as its chunks.
pub(super) fn array_document(node: &Node, array: &Array) -> Result<Value> {
    let metadata = array.metadata();
    let mut document = node.document()?;
    document["shape"] = json!(metadata.layout.shape);
    if document["data_type"].is_null() {
        document["data_type"] = json!(metadata.dtype.zarr_name());
    }
    document["chunk_grid"] = json!({"name": "regular", "configuration": {"chunk_shape": metadata.layout.chunk_shape}});
    document["chunk_key_encoding"] = json!({"name": "v2", "configuration": {"separator": "."}});
    document["codecs"] = json!(metadata.chain.document);
    if document["fill_value"].is_null() {
        document["fill_value"] = fill_value::to_json(metadata.dtype, &metadata.fill);
    }
    if let (Some(names), true) = (&metadata.layout.names, document["dimension_names"].is_null()) {
        document["dimension_names"] = json!(names);
    }
    if document["attributes"].is_null() {
        document["attributes"] = json!({});
    }
    document.as_object_mut().map(|document| document.shift_remove("storage_transformers"));
    Ok(document)
}

/// The array's `.zarray`. All codecs are filters, because the last of them would otherwise be the compressor, of which
/// some readers of references expect the one and some the other kind of document.
///
/// # Errors
///
/// [`Error::Unsupported`] for a codec that Zarr v2 lacks.
pub(super) fn zarray(array: &Array) -> Result<Value> {
    let metadata = array.metadata();
    let chain = &metadata.chain;
    let is_reversed = |order: &Vec<usize>| order.iter().rev().copied().eq(0..order.len());
    let order = match &chain.order {
        None => "C",
        Some(order) if is_reversed(order) => "F",
        Some(_) => return refused(array, "has its dimensions in an order that Zarr v2 has no word for"),
    };
    if matches!(chain.packing, Packing::Shard(_)) {
        return refused(array, "has shards in its shards or codecs around them, which Zarr v2 has no words for");
    }
    let filters: Vec<Value> = chain.document.iter().filter_map(numcodecs).collect();
    Ok(json!({
        "zarr_format": 2,
        "shape": metadata.layout.shape,
        "chunks": metadata.layout.chunk_shape,
        "dtype": zarr2::dtype_name(metadata.dtype, chain.big_endian()),
        "fill_value": fill_value::to_json_v2(metadata.dtype, &metadata.fill),
        "order": order,
        "filters": if filters.is_empty() { Value::Null } else { Value::Array(filters) },
        "compressor": null,
        "dimension_separator": ".",
    }))
}

fn refused<T>(array: &Array, what: &str) -> Result<T> {
    Err(Error::format(array.path(), Refusal::Unsupported(format!("{what}; documents of Zarr v3 have"))))
}

/// A Zarr v3 codec in the words of Zarr v2; `None` for the order of bytes and of dimensions, of which the document
/// speaks elsewhere.
fn numcodecs(codec: &Value) -> Option<Value> {
    let (name, configuration) = named(codec)?;
    let name = name.strip_prefix("numcodecs.").unwrap_or(name);
    let mut filter = configuration.cloned().unwrap_or_default();
    match name {
        "bytes" | "transpose" => return None,
        "crc32c" => drop(filter.insert("location".into(), json!("end"))),
        "blosc" => {
            let shuffle = match filter.get("shuffle").and_then(Value::as_str) {
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

/// The URLs of the dataset's files.
pub(super) struct Urls<'a> {
    pub(super) root: &'a Path,
    pub(super) prefix: Option<&'a str>,
}

impl Urls<'_> {
    pub(super) fn of(&self, file: &Path) -> Result<String> {
        let text = |path: &Path| {
            let text = path.to_str().map(str::to_owned);
            text.ok_or_else(|| Error::format(path, "a name that is no UTF-8 can't stand in a manifest"))
        };
        match self.prefix {
            // Not escaped: those who open references take what follows the scheme for the path.
            None => Ok(format!("file://{}", text(file)?)),
            Some(prefix) => match file.strip_prefix(self.root) {
                Ok(below) => Ok(format!("{prefix}/{}", text(below)?)),
                Err(_) => Err(Error::format(file, "is not part of the dataset, so a prefix can't lead to it")),
            },
        }
    }
}
