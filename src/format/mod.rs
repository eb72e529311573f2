//! What bytes mean: documents, keys, indexes and headers, each with both directions in one place. Nothing here reads or
//! writes a file.
//!
//! ```text
//! dialect             the image's documents                                   shards
//! zarr3               zarr.json (group), 0/zarr.json                          0/c/0/0/0
//! zarr3-transformer   zarr.json, meta/root.group.json, meta/root/0.array.json data/root/0/c0/0/0
//! zarr2-sharded       .zarray, .zattrs                                        0/0/0
//! precomputed         info                                                    <key>/0.shard
//! zarr2               .zgroup, .zattrs, 0/.zarray, 0/.zattrs                  none: 0/0/0/0 is a chunk
//! ```
//!
//! Per-frame records are arrays of Zarr v3 beside them in every dialect. Which dialect is which is asked here and at
//! the doors (the configuration, the C interface, the command line).

pub(crate) mod acquisition_map;
pub(crate) mod codecs;
pub(crate) mod consolidated;
mod document;
pub(crate) mod fill_value;
mod half;
mod image;
pub(crate) mod index;
pub(crate) mod keys;
pub(crate) mod layout;
pub(crate) mod level_frames;
pub(crate) mod manifest;
mod metadata;
pub(crate) mod ngff;
pub(crate) mod node;
pub(crate) mod part;
pub(crate) mod precomputed;
pub(crate) mod provenance;
pub(crate) mod record_files;
mod rules;
mod sharding;
pub(crate) mod slot_header;
pub(crate) mod zarr2;
pub(crate) mod zarr3;
pub(crate) mod zarr3_draft;
pub(crate) mod zip;

use serde_json::{Value, json};

use crate::config::Dialect;
pub(crate) use document::{DIMENSION_NAMES, Document};
#[cfg(feature = "offline")]
pub(crate) use document::{named, names_to_json};
pub(crate) use image::{ImageDescription, put_ome};
use layout::Layout;
pub(crate) use metadata::Metadata;
#[cfg(feature = "offline")]
pub(crate) use metadata::bytes;
pub(crate) use rules::rules;
#[cfg(feature = "offline")]
pub(crate) use rules::{OmePlace, holders, holds};

/// Documents by which a folder may be known to be a dataset.
pub(crate) const OF_DATASETS: [&str; 4] = [zarr3::DOCUMENT, zarr2::GROUP, zarr2::ARRAY, precomputed::DOCUMENT];

/// Names of documents that readers look for in the folder of a node.
pub(crate) const DOCUMENTS: [&str; 6] =
    [zarr3::DOCUMENT, zarr2::GROUP, zarr2::ARRAY, zarr2::ATTRIBUTES, consolidated::OF_ZARR2, precomputed::DOCUMENT];

/// Whether a document of this name says that its folder is a dataset.
pub(crate) fn is_of_dataset(name: &str, document: &Value) -> bool {
    match name {
        zarr3::DOCUMENT => document["zarr_format"] == 3 || zarr3_draft::is_entry(document),
        precomputed::DOCUMENT => precomputed::is_info(document),
        _ => document["zarr_format"] == 2,
    }
}

/// Whether a document of this name says that nothing below its folder is a node of its own.
pub(crate) fn leaves_no_room_below(name: &str, document: &Value) -> bool {
    let is_group = match name {
        zarr3::DOCUMENT => document["node_type"] == "group",
        _ => name == zarr2::GROUP,
    };
    is_of_dataset(name, document) && !is_group
}

impl ImageDescription<'_> {
    /// The documents that never change.
    pub(crate) fn entry(&self) -> Vec<Document> {
        match self.array.layout.dialect {
            Dialect::Zarr3Transformer => vec![zarr3_draft::entry()],
            Dialect::Zarr2 => zarr2::entry(self.array, self.of_array.cloned().unwrap_or_default()),
            Dialect::Zarr3 | Dialect::Zarr2Sharded | Dialect::Precomputed => Vec::new(),
        }
    }

    /// The document that names the shape.
    pub(crate) fn of_shape(&self) -> Document {
        let document = match self.array.layout.dialect {
            Dialect::Zarr3 => zarr3::array(self.array, self.shape),
            Dialect::Zarr3Transformer => {
                zarr3_draft::array(self.array, self.shape, self.of_array.cloned().unwrap_or_default())
            }
            Dialect::Zarr2 | Dialect::Zarr2Sharded => zarr2::array(self.array, self.shape),
            Dialect::Precomputed => precomputed::info(self),
        };
        (node_paths(&self.array.layout).document, document)
    }

    /// The document that holds the attributes.
    pub(crate) fn of_attributes(&self) -> Document {
        let mut attributes = self.user.clone();
        if self.own.as_object().is_none_or(|own| !own.is_empty()) {
            attributes.insert(provenance::ATTRIBUTE.into(), self.own.clone());
        }
        match self.array.layout.dialect {
            Dialect::Zarr3 => {
                attributes.extend(self.ome.map(|ome| ("ome".into(), ome.clone())));
                ("zarr.json".into(), zarr3::group(Value::Object(attributes)))
            }
            Dialect::Zarr3Transformer => zarr3_draft::group(attributes),
            Dialect::Zarr2Sharded => zarr2::attributes(self.array, attributes),
            Dialect::Zarr2 => zarr2::group_attributes(self.ome, attributes),
            Dialect::Precomputed => self.of_shape(),
        }
    }
}

/// Where an image of this crate's writer has its array, below the image's folder.
#[derive(Debug)]
pub(crate) struct NodePaths {
    /// By which the array is known.
    pub(crate) array: String,
    /// The folder that the names of its files start from.
    pub(crate) folder: String,
    pub(crate) document: String,
}

pub(crate) fn node_paths(layout: &Layout) -> NodePaths {
    let (array, folder, document) = match (layout.dialect, layout.volume()) {
        (Dialect::Zarr3, _) => ("0", "0", "0/zarr.json"),
        (Dialect::Zarr3Transformer, _) => ("0", "data/root/0", "meta/root/0.array.json"),
        (Dialect::Zarr2Sharded, _) => ("", "", ".zarray"),
        (Dialect::Zarr2, _) => ("0", "0", "0/.zarray"),
        (Dialect::Precomputed, volume) => {
            let key = volume.map_or("", |volume| &volume.key);
            (key, key, precomputed::DOCUMENT)
        }
    };
    NodePaths { array: array.into(), folder: folder.into(), document: document.into() }
}

/// The key of a shard of an image, below the image's folder.
pub(crate) fn shard_key(layout: &Layout, file: &[u64]) -> String {
    let NodePaths { folder, .. } = node_paths(layout);
    let key = layout.file_key(file);
    if folder.is_empty() { key } else { format!("{folder}/{key}") }
}

/// What an array is, for people.
pub(crate) fn describe(layout: &Layout) -> &'static str {
    match layout.dialect {
        Dialect::Zarr3 => "Zarr v3",
        Dialect::Zarr3Transformer => "Zarr v3, draft of 2022",
        Dialect::Zarr2 => "Zarr v2",
        Dialect::Zarr2Sharded => "Zarr v2 with shards, prototype of zarr-python's pull request 876",
        Dialect::Precomputed => "precomputed volume",
    }
}

/// The document of an array with shards as it were without them: its chunks are files.
pub(crate) fn without_shards(dialect: Dialect, document: &Value) -> Value {
    let mut shown = document.clone();
    match dialect {
        Dialect::Zarr3 => zarr3::remove_shards(&mut shown),
        Dialect::Zarr3Transformer => zarr3_draft::remove_shards(&mut shown),
        Dialect::Zarr2 | Dialect::Zarr2Sharded => zarr2::remove_shards(&mut shown),
        Dialect::Precomputed => precomputed::remove_shards(&mut shown),
    }
    shown
}

/// Writes the shape of an array into the document that has it.
pub(crate) fn set_shape(layout: &Layout, document: &mut Value, shape: &[u64]) {
    match layout.volume() {
        Some(volume) => precomputed::set_size(document, volume, shape),
        None => document["shape"] = json!(shape),
    }
}
