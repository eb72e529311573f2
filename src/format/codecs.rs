//! Codec chains in documents: the byte order, and what [`Codec`] says about the rest.

use serde_json::{Value, json};

use super::document::named;
use crate::config::Codec;
use crate::error::{Error, Result};

/// An array-to-bytes codec and what follows it.
#[derive(Debug, Clone)]
pub(crate) struct Chain {
    pub(crate) codec: Codec,
    /// Elements are stored with their highest byte first.
    pub(crate) big_endian: bool,
    /// The codecs with their configurations, for people.
    pub(crate) names: Vec<String>,
    /// The chain as a Zarr v3 document has it.
    pub(crate) document: Vec<Value>,
}

impl Chain {
    /// A chain whose compressor people know as `name`.
    pub(crate) fn new(codec: Codec, big_endian: bool, element_bytes: usize, name: Option<String>) -> Self {
        let document = documented(&codec, big_endian, element_bytes);
        Self { codec, big_endian, names: name.into_iter().collect(), document }
    }

    /// Reads the chain of a Zarr v3 document for elements of `element_bytes` bytes.
    pub(crate) fn from_zarr3(codecs: &[Value], element_bytes: usize) -> Result<Self> {
        let refused = |name: &str, why: &str| Err(Error::codec("codecs", format!("{name}: {why}")));
        let Some((first, rest)) = codecs.split_first() else {
            return refused("[]", "a chain starts with the codec `bytes`");
        };
        let big_endian = match named(first) {
            Some(("bytes", configuration)) => {
                let endian = configuration.and_then(|configuration| configuration.get("endian"));
                match endian.and_then(Value::as_str) {
                    Some("little") => false,
                    Some("big") => element_bytes > 1,
                    None if element_bytes == 1 && endian.is_none() => false,
                    _ => return refused("bytes", "endian is `little` or `big`"),
                }
            }
            Some(("sharding_indexed", _)) => return refused("sharding_indexed", "shards within shards are not read"),
            Some((name, _)) => return refused(name, "is not read here; a chain starts with the codec `bytes`"),
            None => return refused(&first.to_string(), "a codec has a name"),
        };
        let codec = crate::codec::from_zarr3(rest)?;
        Ok(Self { codec, big_endian, names: codecs.iter().map(describe).collect(), document: codecs.to_vec() })
    }
}

/// A chain as a Zarr v3 document has it: the byte order first.
fn documented(codec: &Codec, big_endian: bool, element_bytes: usize) -> Vec<Value> {
    let compressed = crate::codec::zarr3_codecs(codec, element_bytes);
    std::iter::once(bytes(big_endian, element_bytes)).chain(compressed).collect()
}

/// The codec that says in which order bytes stand. Of one byte, there is no order.
pub(crate) fn bytes(big_endian: bool, element_bytes: usize) -> Value {
    match (element_bytes, big_endian) {
        (1, _) => json!({"name": "bytes"}),
        (_, true) => json!({"name": "bytes", "configuration": {"endian": "big"}}),
        (_, false) => json!({"name": "bytes", "configuration": {"endian": "little"}}),
    }
}

/// `blosc(cname=lz4, clevel=1, shuffle=bitshuffle)`.
pub(crate) fn describe(codec: &Value) -> String {
    let Some((name, configuration)) = named(codec) else { return codec.to_string() };
    let settings: Vec<_> = configuration
        .into_iter()
        .flatten()
        .map(|(key, value)| match value {
            Value::String(text) => format!("{key}={text}"),
            _ => format!("{key}={value}"),
        })
        .collect();
    if settings.is_empty() { name.to_owned() } else { format!("{name}({})", settings.join(", ")) }
}
