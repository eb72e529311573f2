//! Codec chains in documents: the byte order, and what [`Codec`] says about the rest.

use serde_json::Value;

use super::document::named;
use crate::config::Codec;
use crate::error::{Error, Result};

/// An array-to-bytes codec and what follows it.
#[derive(Debug, Clone)]
pub(super) struct Chain {
    pub(super) codec: Codec,
    /// Elements are stored with their highest byte first.
    pub(super) big_endian: bool,
    /// The codecs with their configurations, for people.
    pub(super) names: Vec<String>,
}

impl Chain {
    /// Reads the chain of a Zarr v3 document for elements of `element_bytes` bytes.
    pub(super) fn from_zarr3(codecs: &[Value], element_bytes: usize) -> Result<Self> {
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
        // MERGE: replace `stand_in::from_zarr3` by `crate::codec::from_zarr3` and delete the module `stand_in`.
        let codec = stand_in::from_zarr3(rest)?;
        Ok(Self { codec, big_endian, names: codecs.iter().map(describe).collect() })
    }
}

/// `blosc(cname=lz4, clevel=1, shuffle=bitshuffle)`.
pub(super) fn describe(codec: &Value) -> String {
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

mod stand_in {
    use serde_json::Value;

    use super::named;
    use crate::config::{BloscCname, Codec, Compressor, Shuffle};
    use crate::error::{Error, Result};

    pub(super) fn from_zarr3(codecs: &[Value]) -> Result<Codec> {
        let mut codec = Codec { compressor: Compressor::None, checksum: false };
        for value in codecs {
            let (name, configuration) = named(value).unwrap_or(("", None));
            let setting = |key: &str| configuration.and_then(|configuration| configuration.get(key));
            match name {
                _ if codec.checksum => return refused(name, "nothing may follow crc32c"),
                "crc32c" => codec.checksum = true,
                _ if codec.compressor != Compressor::None => return refused(name, "only one compressor is read"),
                "zstd" => codec.compressor = Compressor::Zstd { level: 1 },
                "gzip" => codec.compressor = Compressor::Gzip { level: 1 },
                "numcodecs.lz4" => codec.compressor = Compressor::Lz4,
                "blosc" => {
                    let shuffle = match setting("shuffle").and_then(Value::as_str) {
                        Some("bitshuffle") => Shuffle::Bit,
                        Some("shuffle") => Shuffle::Byte,
                        _ => Shuffle::None,
                    };
                    // A frame names its own compressor; a reader needs none of this.
                    codec.compressor = Compressor::Blosc { cname: BloscCname::Lz4, level: 1, shuffle, block_bytes: 0 };
                }
                _ => return refused(name, "is not a codec that is read here"),
            }
        }
        Ok(codec)
    }

    fn refused(name: &str, why: &str) -> Result<Codec> {
        Err(Error::codec("codecs", format!("{name}: {why}")))
    }
}
