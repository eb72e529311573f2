//! The codecs as numcodecs configures them, which is how Zarr v2 and the drafts of v3 name them.

use serde_json::{Map, Value, json};

use super::zarr3::{for_readers, from_zarr3};
use crate::config::{Codec, Compressor, Shuffle};
use crate::error::Refusal;

/// The compressors of numcodecs that are read here.
const READ: [&str; 5] = ["blosc", "zstd", "gzip", "zlib", "lz4"];

/// The compressor's name and settings; `None` for none. A checksum has no place there.
pub(crate) fn compressor(codec: &Codec) -> Option<(&'static str, Map<String, Value>)> {
    let (name, settings) = match codec.compressor {
        special @ (Compressor::Auto | Compressor::BloscNoise { .. }) => {
            return self::compressor(&for_readers(special).into());
        }
        Compressor::None => return None,
        Compressor::Blosc { cname, level, shuffle, block_bytes } => {
            let shuffle = match shuffle {
                Shuffle::None => 0,
                Shuffle::Byte => 1,
                Shuffle::Bit => 2,
            };
            ("blosc", json!({"cname": cname.name(), "clevel": level, "shuffle": shuffle, "blocksize": block_bytes}))
        }
        Compressor::Zstd { level } => ("zstd", json!({"level": level})),
        Compressor::Gzip { level } => ("gzip", json!({"level": level})),
        Compressor::Lz4 => ("lz4", json!({"acceleration": 1})),
        Compressor::Zlib { level } => ("zlib", json!({"level": level})),
    };
    settings.as_object().map(|settings| (name, settings.clone()))
}

/// The compressor that numcodecs calls so. A frame names its own compressor and shuffle; settings only matter to a
/// writer, so unknown ones are no error.
pub(crate) fn named(id: &str, settings: &Map<String, Value>) -> Option<Compressor> {
    if !READ.contains(&id) {
        return None;
    }
    let codec = |settings: &Map<String, Value>| {
        let codec = json!({"name": format!("numcodecs.{id}"), "configuration": settings});
        from_zarr3(&[codec]).ok().map(|codec| codec.compressor)
    };
    codec(settings).or_else(|| codec(&Map::new()))
}

pub(crate) fn unsupported(compressor: &Value) -> Refusal {
    let read = READ.join(", ");
    Refusal::Unsupported(format!(
        "compressor {compressor} is not read here; these are: {read}. zarr-python can write the array again with one"
    ))
}

/// `blosc(cname=lz4, clevel=1)`.
pub(crate) fn display<'a>(id: &str, settings: impl Iterator<Item = (&'a String, &'a Value)>) -> String {
    let settings: Vec<_> = settings.map(|(key, value)| format!("{key}={value}")).collect();
    format!("{id}({})", settings.join(", ").replace('"', ""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::BloscCname;

    #[test]
    fn compressors_have_their_settings() {
        let blosc = Compressor::Blosc { cname: BloscCname::Zstd, level: 3, shuffle: Shuffle::Byte, block_bytes: 0 };
        let (name, settings) = compressor(&blosc.into()).unwrap();
        assert_eq!(name, "blosc");
        assert_eq!(Value::from(settings), json!({"cname": "zstd", "clevel": 3, "shuffle": 1, "blocksize": 0}));
        assert_eq!(compressor(&Compressor::None.into()), None);
    }
}
