//! What a manifest says of one chunk.
//!
//! ```json
//! {"path": "file:///data/run.ome.zarr/0/c/0/0/0", "offset": 64, "length": 1234}
//! ```
//!
//! Source: zarr-specs, proposal "Manifest storage transformer", "Manifest object". Only `path` is required.

use std::fmt;

use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::{Value, json};

use super::index::Range;
use crate::json::Text;

/// As text, in the order of the proposal, which some readers take for granted.
pub(crate) fn chunk(url: &str, Range { offset, nbytes }: Range) -> String {
    format!("{{\"path\": {}, \"offset\": {offset}, \"length\": {nbytes}}}", json!(url))
}

/// The same as part of a document.
pub(crate) fn chunk_value(url: &str, Range { offset, nbytes }: Range) -> Value {
    json!({"path": url, "offset": offset, "length": nbytes})
}

/// The same as it was read.
pub(crate) struct ChunkReference {
    /// `None` where the pixels stand instead.
    pub(crate) path: Option<String>,
    pub(crate) offset: u64,
    pub(crate) length: Option<u64>,
}

impl<'de> serde::Deserialize<'de> for ChunkReference {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = ChunkReference;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with a path")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ChunkReference, A::Error> {
                let (mut path, mut offset, mut length, mut has_pixels) = (None, None, None, false);
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "path" => path = Some(map.next_value::<Text>()?.0),
                        "offset" => offset = map.next_value()?,
                        "length" => length = map.next_value()?,
                        key => {
                            has_pixels |= key == "data";
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                if path.is_none() && !has_pixels {
                    return Err(A::Error::missing_field("path"));
                }
                let path = path.filter(|_| !has_pixels);
                Ok(ChunkReference { path, offset: offset.unwrap_or(0), length })
            }
        }
        deserializer.deserialize_map(Fields)
    }
}
