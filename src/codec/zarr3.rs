//! The codecs as a Zarr v3 document names them.

use serde_json::{Value, json};

use crate::config::{BloscCname, Codec, Compressor, Shuffle};
use crate::error::{Error, Result};
use crate::json::text;

const SUPPORTED: &str =
    "supported are transpose, bytes, then blosc, zstd, gzip, numcodecs.lz4 or numcodecs.zlib, then crc32c";

/// The codecs that follow `bytes` in an array's (or a shard's inner) `codecs`.
///
/// Zarr has no registered codec for bare LZ4 or zlib: of the common readers, only zarr-python opens `numcodecs.lz4` and
/// `numcodecs.zlib`.
pub fn zarr3_codecs(codec: &Codec, element_bytes: usize) -> Vec<Value> {
    let compressor = match codec.compressor {
        special @ (Compressor::Auto | Compressor::BloscNoise { .. }) => {
            return zarr3_codecs(&Codec { compressor: for_readers(special), ..*codec }, element_bytes);
        }
        Compressor::None => None,
        Compressor::Blosc { cname, level, shuffle, block_bytes } => Some(json!({
            "name": "blosc",
            "configuration": {
                "cname": cname.name(),
                "clevel": level,
                "shuffle": shuffle_name(shuffle),
                "typesize": element_bytes,
                "blocksize": block_bytes,
            },
        })),
        // zarrs refuses a document without `checksum`; nobody refuses one that says false.
        Compressor::Zstd { level } => {
            Some(json!({ "name": "zstd", "configuration": { "level": level, "checksum": false } }))
        }
        Compressor::Gzip { level } => Some(json!({ "name": "gzip", "configuration": { "level": level } })),
        Compressor::Lz4 => Some(json!({ "name": "numcodecs.lz4", "configuration": {} })),
        Compressor::Zlib { level } => Some(json!({ "name": "numcodecs.zlib", "configuration": { "level": level } })),
    };
    let checksum = codec.checksum.then(|| json!({ "name": "crc32c" }));
    compressor.into_iter().chain(checksum).collect()
}

/// What made the frames is no concern of their readers; other writers come nearest to it with this.
pub(super) fn for_readers(compressor: Compressor) -> Compressor {
    match compressor {
        Compressor::Auto => Compressor::default(),
        Compressor::BloscNoise { block_bytes } => {
            Compressor::Blosc { cname: BloscCname::Lz4, level: 1, shuffle: Shuffle::Bit, block_bytes }
        }
        other => other,
    }
}

/// The codec that a chain from a Zarr v3 document describes, for reading. A leading `bytes` may be there or not.
///
/// What a document leaves out is assumed, because frames describe themselves; what would change how chunks decode is
/// not.
///
/// # Errors
/// [`Error::Codec`] when a codec, or the order of codecs, is not one that [`Decoder`](super::Decoder) takes.
pub fn from_zarr3(codecs: &[Value]) -> Result<Codec> {
    let mut codec = Codec { compressor: Compressor::None, checksum: false };
    for (position, value) in codecs.iter().enumerate() {
        let name = codec_name(value)?;
        let configuration = value.get("configuration").unwrap_or(&Value::Null);
        if codec.checksum {
            return Err(unsupported(format!("{name} after crc32c")));
        }
        match name {
            "bytes" if position == 0 => check_endian(configuration)?,
            "crc32c" => codec.checksum = true,
            _ if codec.compressor != Compressor::None => {
                return Err(unsupported(format!("{name} after another compressor")));
            }
            _ => codec.compressor = compressor(name, configuration)?,
        }
    }
    Ok(codec)
}

fn unsupported(what: String) -> Error {
    Error::codec("codecs", format!("{what} is not supported; {SUPPORTED}"))
}

/// A codec is an object with a name, or its name alone when it needs no configuration.
fn codec_name(value: &Value) -> Result<&str> {
    let name = text(value).or_else(|| value.get("name").and_then(text));
    name.ok_or_else(|| Error::codec("codecs", format!("{value} has no name; {SUPPORTED}")))
}

fn check_endian(configuration: &Value) -> Result<()> {
    match configuration.get("endian").and_then(text) {
        None | Some("little") => Ok(()),
        Some(endian) => Err(unsupported(format!("bytes with endian {endian}"))),
    }
}

fn compressor(name: &str, configuration: &Value) -> Result<Compressor> {
    match name {
        "blosc" | "numcodecs.blosc" => Ok(Compressor::Blosc {
            cname: cname(configuration)?,
            level: level(configuration, "clevel", 5)?,
            shuffle: shuffle(configuration)?,
            block_bytes: level(configuration, "blocksize", 0)?,
        }),
        "zstd" | "numcodecs.zstd" => Ok(Compressor::Zstd { level: level(configuration, "level", 0)? }),
        "gzip" | "numcodecs.gzip" => Ok(Compressor::Gzip { level: level(configuration, "level", 1)? }),
        "numcodecs.lz4" => Ok(Compressor::Lz4),
        "numcodecs.zlib" => Ok(Compressor::Zlib { level: level(configuration, "level", 1)? }),
        _ => Err(unsupported(name.to_owned())),
    }
}

fn level<N: TryFrom<i64>>(configuration: &Value, key: &str, default: N) -> Result<N> {
    let Some(value) = configuration.get(key).filter(|value| !value.is_null()) else { return Ok(default) };
    let number = value.as_i64().and_then(|number| N::try_from(number).ok());
    number.ok_or_else(|| Error::codec("codecs", format!("{key} = {value} is not a number in its range")))
}

fn cname(configuration: &Value) -> Result<BloscCname> {
    let Some(value) = configuration.get("cname") else { return Ok(BloscCname::Zstd) };
    let name = text(value).unwrap_or_default();
    name.parse().map_err(|_| Error::codec("codecs", format!("blosc with cname {value} is not supported")))
}

fn shuffle_name(shuffle: Shuffle) -> &'static str {
    match shuffle {
        Shuffle::None => "noshuffle",
        Shuffle::Byte => "shuffle",
        Shuffle::Bit => "bitshuffle",
    }
}

/// Names as in Zarr v3, or the numbers that numcodecs writes.
fn shuffle(configuration: &Value) -> Result<Shuffle> {
    let Some(value) = configuration.get("shuffle") else { return Ok(Shuffle::None) };
    let all = Shuffle::ALL;
    let found = match value.as_i64() {
        Some(-1) => Some(Shuffle::Byte),
        Some(number) => usize::try_from(number).ok().and_then(|number| all.get(number).copied()),
        None => all.iter().copied().find(|shuffle| text(value) == Some(shuffle_name(*shuffle))),
    };
    let supported = "supported are noshuffle, shuffle and bitshuffle";
    found.ok_or_else(|| Error::codec("codecs", format!("blosc with shuffle {value} is not supported; {supported}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_codec_is_named_as_its_readers_expect_and_read_back() {
        let blosc = Compressor::Blosc { cname: BloscCname::Lz4, level: 1, shuffle: Shuffle::Bit, block_bytes: 0 };
        let expected = [
            (Compressor::None, json!([])),
            (
                blosc,
                json!([{ "name": "blosc", "configuration":
                    { "cname": "lz4", "clevel": 1, "shuffle": "bitshuffle", "typesize": 2, "blocksize": 0 } }]),
            ),
            (
                Compressor::Zstd { level: -3 },
                json!([{ "name": "zstd", "configuration": { "level": -3, "checksum": false } }]),
            ),
            (Compressor::Gzip { level: 6 }, json!([{ "name": "gzip", "configuration": { "level": 6 } }])),
            (Compressor::Lz4, json!([{ "name": "numcodecs.lz4", "configuration": {} }])),
            (Compressor::Zlib { level: 6 }, json!([{ "name": "numcodecs.zlib", "configuration": { "level": 6 } }])),
        ];
        for (compressor, document) in expected {
            for checksum in [false, true] {
                let codec = Codec { compressor, checksum };
                let codecs = zarr3_codecs(&codec, 2);
                let mut document = document.as_array().unwrap().clone();
                document.extend(checksum.then(|| json!({ "name": "crc32c" })));
                assert_eq!(codecs, document);
                assert_eq!(from_zarr3(&codecs).unwrap(), codec);
            }
        }
    }

    #[test]
    fn the_writer_for_noise_is_lz4_to_readers() {
        for block_bytes in [0, 4096] {
            let lz4 = Compressor::Blosc { cname: BloscCname::Lz4, level: 1, shuffle: Shuffle::Bit, block_bytes };
            let codecs = zarr3_codecs(&Compressor::BloscNoise { block_bytes }.into(), 2);
            assert_eq!(codecs, zarr3_codecs(&lz4.into(), 2));
        }
    }

    #[test]
    fn documents_of_other_writers_are_understood() {
        let read = |document: Value| from_zarr3(document.as_array().unwrap());
        let zstd = json!([{ "name": "bytes", "configuration": { "endian": "little" } },
            { "name": "zstd", "configuration": { "level": 3, "checksum": true } }, "crc32c"]);
        assert_eq!(read(zstd).unwrap(), Codec { compressor: Compressor::Zstd { level: 3 }, checksum: true });
        assert_eq!(read(json!([{ "name": "gzip" }])).unwrap().compressor, Compressor::Gzip { level: 1 });
        let blosc = read(json!(["bytes", { "name": "blosc", "configuration": { "cname": "zstd", "shuffle": 2 } }]));
        let Compressor::Blosc { cname: BloscCname::Zstd, shuffle: Shuffle::Bit, .. } = blosc.unwrap().compressor else {
            panic!("not the blosc codec of the document");
        };
    }

    #[test]
    fn what_is_not_supported_is_named() {
        let refused = [
            (json!([{ "name": "packbits" }]), "packbits"),
            (json!([{ "name": "bytes", "configuration": { "endian": "big" } }]), "big"),
            (json!(["crc32c", { "name": "zstd" }]), "zstd after crc32c"),
            (json!([{ "name": "zstd" }, { "name": "gzip" }]), "gzip after another compressor"),
            (json!([{ "name": "blosc", "configuration": { "cname": "snappy" } }]), "snappy"),
            (json!([{ "name": "blosc", "configuration": { "shuffle": "sideways" } }]), "sideways"),
            (json!([{ "name": "gzip", "configuration": { "level": -1 } }]), "level = -1"),
            (json!([42]), "42"),
        ];
        for (document, evidence) in refused {
            let message = from_zarr3(document.as_array().unwrap()).unwrap_err().to_string();
            assert!(message.contains(evidence), "{message:?} does not name {evidence:?}");
        }
    }
}
