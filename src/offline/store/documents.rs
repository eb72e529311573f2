//! What the documents of sharded arrays say about shards, and the same documents without it.
//!
//! | dialect | an array's document | of shards | keys of chunks and shards |
//! |---|---|---|---|
//! | Zarr v3, codec `sharding_indexed` | `<array>/zarr.json` | the one codec | `<array>/c/3/9` |
//! | Zarr v3, draft of 2022 with the sharding storage transformer | `meta/root/<array>.array.json` | the one storage transformer | `data/root/<array>/c3/9` |
//! | Zarr v2, prototype with `shards` | `<array>/.zarray` | `shards`, `shard_format` | `<array>/3/9` or `<array>/3.9` |
//! | Neuroglancer's precomputed volume | `info` | `sharding` of a scale | `<scale>/0-64_0-64_0-16`, shards `<scale>/0a.shard` |

use std::path::Path;

use serde_json::{Map, Value, json};

use super::grid::{Grid, Kind};
use crate::config::IndexLocation;
use crate::error::{Error, Result};
use crate::offline::document::named;
use crate::offline::metadata::{DIMENSIONS_MAX, KeyEncoding, Metadata, Prefix, product};
use crate::offline::shard_file::IndexLayout;
use crate::offline::{volume, zarr3};

const TRANSFORMER: &str = "https://purl.org/zarr/spec/storage_transformers/sharding/1.0";

/// Which of the formats with shards in a grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Zarr v3 with the codec `sharding_indexed`.
    Codec,
    /// The draft of Zarr v3 of 2022 with the sharding storage transformer.
    Transformer,
    /// Zarr v2 with the keys `shards` and `shard_format`.
    Prototype,
    /// Neuroglancer's precomputed volume.
    Volume,
}

impl Form {
    /// The grid of an array; `None` if it has no shards. Scales of a volume have grids of their own: see [`scale`].
    ///
    /// # Errors
    ///
    /// [`Error::Format`] when it has shards of which chunks can't be told: to take a shard for a chunk would be worse.
    pub(super) fn grid(self, path: &Path, document: &Value) -> Result<Option<Grid>> {
        let grid = match self {
            Self::Codec => codec(document),
            Self::Transformer => transformer(document),
            Self::Prototype => prototype(document),
            Self::Volume => Ok(None),
        };
        let Some(grid) = grid.map_err(|reason| Error::format(path, reason))? else { return Ok(None) };
        grid.check().map(Some).map_err(|reason| Error::format(path, reason))
    }

    /// The document as it were without shards.
    pub(super) fn shown(self, document: &Value) -> Value {
        let mut shown = document.clone();
        match self {
            Self::Codec => {
                let configuration = &document["codecs"][0]["configuration"];
                shown["chunk_grid"]["configuration"]["chunk_shape"] = configuration["chunk_shape"].clone();
                shown["codecs"] = configuration["codecs"].clone();
            }
            Self::Transformer => {
                shown.as_object_mut().map(|document| document.remove("storage_transformers"));
            }
            Self::Prototype => {
                if let Some(document) = shown.as_object_mut() {
                    document.remove("shards");
                    document.remove("shard_format");
                }
            }
            Self::Volume => {
                for scale in shown["scales"].as_array_mut().into_iter().flatten() {
                    scale.as_object_mut().map(|scale| scale.remove("sharding"));
                }
            }
        }
        shown
    }

    /// What may become otherwise while the chunks stay what they are.
    fn free(self) -> &'static [&'static str] {
        match self {
            Self::Codec => &["shape", "attributes", "dimension_names"],
            Self::Transformer => &["shape", "attributes"],
            Self::Prototype => &["shape"],
            // The size is part of what the ids of chunks mean.
            Self::Volume => &["attributes"],
        }
    }

    /// The document that `shown` becomes with the shards of `stored`.
    pub(super) fn stored(self, path: &Path, shown: &Value, stored: &Value) -> Result<Value> {
        let mut result = stored.clone();
        let mut kept = self.shown(stored);
        for key in self.free() {
            for document in [&mut result, &mut kept] {
                match (shown.get(key), document.as_object_mut()) {
                    (Some(value), Some(document)) => drop(document.insert((*key).to_owned(), value.clone())),
                    (None, Some(document)) => drop(document.remove(*key)),
                    _ => {}
                }
            }
        }
        if kept == *shown {
            return Ok(result);
        }
        let differs = |key: &&String| shown.get(key.as_str()) != kept.get(key.as_str());
        let keys = |value: &Value| value.as_object().map(|map| map.keys().cloned().collect::<Vec<_>>());
        let (a, b) = (keys(shown).unwrap_or_default(), keys(&kept).unwrap_or_default());
        let other: Vec<_> = a.iter().chain(&b).filter(differs).map(String::as_str).collect();
        let free = self.free().join(", ");
        let reason = format!("the new document differs in {}; of a sharded array only {free} may", other.join(", "));
        Err(Error::format(path, reason))
    }
}

fn list<'a>(document: &'a Value, key: &str) -> Option<&'a Vec<Value>> {
    document.get(key).and_then(Value::as_array)
}

fn numbers(value: Option<&Value>, what: &str) -> Result<Vec<u64>, String> {
    let list = value.and_then(Value::as_array);
    let numbers = list.and_then(|list| list.iter().map(Value::as_u64).collect::<Option<Vec<_>>>());
    numbers.ok_or_else(|| format!("{what} is {}; expected a list of sizes", value.unwrap_or(&Value::Null)))
}

fn layout(per: &[u64], location: IndexLocation, checksum: bool) -> Result<IndexLayout, String> {
    let layout = product(per).and_then(|chunks| IndexLayout::new(chunks, location, checksum));
    layout.ok_or_else(|| format!("a shard of {per:?} chunks holds too many"))
}

/// Source: Zarr v3, sharding codec 1.0, "Configuration parameters".
fn codec(document: &Value) -> Result<Option<Grid>, String> {
    let codecs = list(document, "codecs").map(Vec::as_slice).unwrap_or_default();
    let is_sharding = |codec: &Value| matches!(named(codec), Some(("sharding_indexed", _)));
    if !codecs.iter().any(is_sharding) {
        return Ok(None);
    }
    let [codec] = codecs else {
        return Err("sharding_indexed together with other codecs: its chunks have no keys of their own".into());
    };
    let empty = Map::new();
    let configuration = named(codec).and_then(|(_, configuration)| configuration).unwrap_or(&empty);
    let chunk = numbers(configuration.get("chunk_shape"), "chunk_shape")?;
    let shard = zarr3::regular_chunks(&document["chunk_grid"])?;
    let divides = shard.len() == chunk.len()
        && shard.iter().zip(&chunk).all(|(shard, chunk)| *chunk > 0 && *shard > 0 && shard.is_multiple_of(*chunk));
    if !divides {
        return Err(format!("chunks of {chunk:?} don't divide shards of {shard:?}"));
    }
    let per: Vec<u64> = shard.iter().zip(&chunk).map(|(shard, chunk)| shard / chunk).collect();
    let location = zarr3::index_location(configuration)?;
    let spelling = zarr3::key_encoding(&document["chunk_key_encoding"])?;
    let shape = numbers(document.get("shape"), "shape")?;
    let layout = layout(&per, location, zarr3::index_checksum(configuration)?)?;
    Ok(Some(Grid { shape, chunk, per, kind: Kind::Zarr { spelling, layout, location } }))
}

/// Source: sharding storage transformer 1.0 (draft of 18 February 2022), "Configuration".
fn transformer(document: &Value) -> Result<Option<Grid>, String> {
    let transformers = list(document, "storage_transformers").map(Vec::as_slice).unwrap_or_default();
    let [transformer] = transformers else {
        return match transformers {
            [] => Ok(None),
            several => Err(format!("{} storage transformers on one array; expected sharding alone", several.len())),
        };
    };
    if transformer["extension"] != TRANSFORMER || transformer["type"] != "indexed" {
        return Err(format!("storage transformer {transformer}; expected {TRANSFORMER} of type indexed"));
    }
    let per = numbers(transformer.pointer("/configuration/chunks_per_shard"), "chunks_per_shard")?;
    let grid = &document["chunk_grid"];
    let separator = separator(grid.get("separator"), '/')?;
    let layout = layout(&per, IndexLocation::End, false)?;
    Ok(Some(Grid {
        shape: numbers(document.get("shape"), "shape")?,
        chunk: numbers(grid.get("chunk_shape"), "chunk_shape")?,
        per,
        kind: Kind::Zarr {
            spelling: KeyEncoding { prefix: Prefix::Letter, separator },
            layout,
            location: IndexLocation::End,
        },
    }))
}

/// Source: zarr-python, pull request 876.
fn prototype(document: &Value) -> Result<Option<Grid>, String> {
    let Some(shards) = document.get("shards").filter(|shards| !shards.is_null()) else { return Ok(None) };
    if document["shard_format"] != "indexed" {
        return Err(format!("shard_format is {}; expected \"indexed\"", document["shard_format"]));
    }
    let per = numbers(Some(shards), "shards")?;
    let layout = layout(&per, IndexLocation::End, false)?;
    Ok(Some(Grid {
        shape: numbers(document.get("shape"), "shape")?,
        chunk: numbers(document.get("chunks"), "chunks")?,
        per,
        kind: Kind::Zarr {
            spelling: KeyEncoding {
                prefix: Prefix::Nothing,
                separator: separator(document.get("dimension_separator"), '.')?,
            },
            layout,
            location: IndexLocation::End,
        },
    }))
}

/// The grid of the scale with this key in the `info` at `path`, and the names of its dimensions; `None` if it has no shards.
///
/// Sources: Neuroglancer, "Precomputed sharded format"; "Precomputed volume format", "Unsharded chunk storage".
pub(super) fn scale(path: &Path, info: &Value, key: &str) -> Result<Option<(Grid, Vec<String>)>> {
    let Metadata { shape, names, file_shape, chunk_shape, volume, .. } = volume::parse(path, info, key)?;
    let Some(sharded) = volume.filter(|volume| volume.shards().is_some()) else { return Ok(None) };
    let unsharded = Box::new(sharded.without_shards());
    let per = file_shape.iter().zip(&chunk_shape).map(|(file, chunk)| file / chunk).collect();
    let kind = Kind::Volume { sharded: Box::new(sharded), unsharded };
    Ok(Some((Grid { shape, chunk: chunk_shape, per, kind }, names.unwrap_or_default())))
}

fn separator(value: Option<&Value>, usual: char) -> Result<char, String> {
    match value.map(Value::as_str) {
        None => Ok(usual),
        Some(Some("/")) => Ok('/'),
        Some(Some(".")) => Ok('.'),
        Some(_) => Err(format!("the separator is {}; expected / or .", json!(value))),
    }
}

impl Grid {
    fn check(self) -> Result<Self, String> {
        let dimensions = self.shape.len();
        let fits = |sizes: &[u64]| sizes.len() == dimensions && !sizes.contains(&0);
        if dimensions > DIMENSIONS_MAX || !fits(&self.chunk) || !fits(&self.per) {
            let Self { shape, chunk, per, .. } = &self;
            return Err(format!("shape {shape:?}, chunks of {chunk:?} and shards of {per:?} chunks don't go together"));
        }
        Ok(self)
    }
}
