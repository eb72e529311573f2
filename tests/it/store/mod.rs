//! The store shows what is there, takes what is given, and loses nothing else; whatever it is compared with, a dull
//! map, the reader, `verify`, `recover` or the crate zarrs.

mod formats;
#[cfg(feature = "zarrs")]
mod in_zarrs;
mod kills;
mod refusals;

use crate::common::{checked, recovered};
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use crate::common::child::child;
use crate::common::frame;
use crate::common::stopped::{files, finished, sound};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};
use shardwright::offline::{Array, ByteRange, Store};
use shardwright::{
    Acquisition, Codec, Compressor, Config, Dialect, Dim, Dtype, Error, IndexLocation, Placement, Volume, VolumeHash,
};

/// Frames of 8 by 8 bytes in four chunks each, four frames a shard, uncompressed.
fn config(dialect: Dialect, placement: Placement, index_location: IndexLocation) -> Config {
    Config {
        dialect,
        dtype: Dtype::U8,
        dims: vec![Dim::time(6).chunk(1).shard(4), Dim::y(8).chunk(4), Dim::x(8).chunk(4)],
        codec: Codec { compressor: Compressor::None, checksum: dialect == Dialect::Zarr3 },
        placement,
        index_location,
        ring_bytes: 64 * 4096,
        workers: 1,
        sync: false,
        ..Config::default()
    }
}

/// A run of six frames of which the third did not come.
fn acquired(folder: &Path, config: &Config) -> PathBuf {
    let path = folder.join("run.zarr");
    finished(&path, config, &[0, 1, 3, 4, 5]);
    path
}

/// A document of Zarr v3, with the index in this form and place.
fn zarr3(encoding: Value, index: Value, location: &str) -> Value {
    let sharding = json!([{"name": "sharding_indexed", "configuration": {
        "chunk_shape": [1, 4, 4], "codecs": [{"name": "bytes"}], "index_codecs": index, "index_location": location,
    }}]);
    json!({
        "zarr_format": 3, "node_type": "array", "shape": [6, 8, 8], "data_type": "uint8", "fill_value": 0,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 8, 4]}},
        "chunk_key_encoding": encoding, "codecs": sharding, "attributes": {},
    })
}

/// A document of the prototype in Zarr v2.
fn zarr2(separator: &str) -> Value {
    json!({
        "zarr_format": 2, "shape": [6, 8, 8], "chunks": [1, 4, 4], "dtype": "|u1", "compressor": null, "filters": null,
        "fill_value": 0, "order": "C", "dimension_separator": separator, "shards": [4, 2, 1], "shard_format": "indexed",
    })
}

/// A document of the draft of 2022.
fn draft(separator: &str) -> Value {
    json!({
        "shape": [6, 8, 8], "data_type": "u1", "chunk_memory_layout": "C", "fill_value": 0, "extensions": [],
        "chunk_grid": {"type": "regular", "chunk_shape": [1, 4, 4], "separator": separator}, "attributes": {},
        "storage_transformers": [{
            "extension": "https://purl.org/zarr/spec/storage_transformers/sharding/1.0", "type": "indexed",
            "configuration": {"chunks_per_shard": [4, 2, 1]},
        }],
    })
}

/// Another writer's array without a shard yet.
fn foreign(folder: &Path, number: usize) -> PathBuf {
    let path = folder.join("foreign.zarr");
    let document = |key: &str, document: Value| {
        fs::create_dir_all(path.join(key).parent().unwrap()).unwrap();
        fs::write(path.join(key), document.to_string()).unwrap();
    };
    let bytes = json!({"name": "bytes", "configuration": {"endian": "little"}});
    let protocol = "https://purl.org/zarr/spec/protocol/core/3.0";
    match number {
        0 => document(
            "zarr.json",
            zarr3(json!({"name": "v2", "configuration": {"separator": "."}}), json!([bytes]), "end"),
        ),
        1 => document("a/b/zarr.json", {
            document("zarr.json", json!({"zarr_format": 3, "node_type": "group"}));
            document("a/zarr.json", json!({"zarr_format": 3, "node_type": "group"}));
            zarr3(
                json!({"name": "default", "configuration": {"separator": "."}}),
                json!([bytes, {"name": "crc32c"}]),
                "start",
            )
        }),
        2 => document(".zarray", zarr2(".")),
        3 => document("x/.zarray", {
            document(".zgroup", json!({"zarr_format": 2}));
            zarr2("/")
        }),
        _ => {
            document(
                "zarr.json",
                json!({
                    "zarr_format": protocol, "metadata_encoding": protocol, "metadata_key_suffix": ".json",
                    "extensions": [],
                }),
            );
            document("meta/root/foo/baz.array.json", draft(if number == 4 { "." } else { "/" }));
        }
    }
    path
}

const FOREIGN: usize = 6;
const OWN: usize = 8;

/// One of the datasets that the tests run over, and its chunks' keys.
fn dataset(folder: &Path, number: usize) -> (PathBuf, Vec<String>) {
    let (path, base, separator) = match number {
        0..OWN => {
            let (dialect, placement, location) = [
                (Dialect::Zarr3, Placement::Fixed, IndexLocation::End),
                (Dialect::Zarr3, Placement::Fixed, IndexLocation::Start),
                (Dialect::Zarr3, Placement::Packed, IndexLocation::End),
                (Dialect::Zarr3, Placement::Packed, IndexLocation::Start),
                (Dialect::Zarr3Transformer, Placement::Fixed, IndexLocation::End),
                (Dialect::Zarr2Sharded, Placement::Packed, IndexLocation::End),
                (Dialect::Precomputed, Placement::Fixed, IndexLocation::End),
                (Dialect::Precomputed, Placement::Packed, IndexLocation::End),
            ][number];
            let mut config = config(dialect, placement, location);
            if number == 7 {
                // Shards that are no boxes.
                let hash = VolumeHash::Murmurhash3X86_128;
                config.volume = Volume { hash, shard_bits: Some(1), gzip_indexes: true, ..Volume::default() };
                config.dims[0] = Dim::time(6).chunk(1);
            }
            let path = acquired(folder, &config);
            if dialect == Dialect::Precomputed {
                return (path, volume_keys());
            }
            let base = match dialect {
                Dialect::Zarr3 => "0/c/",
                Dialect::Zarr3Transformer => "data/root/0/c",
                _ => "",
            };
            (path, base, "/")
        }
        _ => {
            let (base, separator) = [
                ("", "."),
                ("a/b/c.", "."),
                ("", "."),
                ("x/", "/"),
                ("data/root/foo/baz/c", "."),
                ("data/root/foo/baz/c", "/"),
            ][number - OWN];
            (foreign(folder, number - OWN), base, separator)
        }
    };
    let mut keys = Vec::new();
    for t in 0..6 {
        keys.extend((0..4).map(|at| format!("{base}{t}{separator}{}{separator}{}", at / 2, at % 2)));
    }
    (path, keys)
}

/// Without shards, chunks of a volume are named by their bounds in x, y and z.
fn volume_keys() -> Vec<String> {
    let bounds = |at: usize, size: usize| format!("{}-{}", at * size, (at + 1) * size);
    let key = |at: usize| format!("1_1_1/{}_{}_{}", bounds(at % 2, 4), bounds(at % 4 / 2, 4), bounds(at / 4, 1));
    (0..24).map(key).collect()
}

/// All keys and values as the store tells them one by one.
fn contents(store: &Store) -> BTreeMap<String, Vec<u8>> {
    let keys = store.list().unwrap();
    keys.into_iter().map(|key| (key.clone(), store.get(&key).unwrap().unwrap_or_else(|| panic!("{key}")))).collect()
}

/// Documents in which the writer speaks of what was edited.
fn is_spoken(key: &str) -> bool {
    ["zarr.json", "meta/root.group.json", ".zattrs", "info"].contains(&key)
}

#[derive(Debug, Clone)]
enum Operation {
    Set(Index, Vec<u8>),
    SetMany(Vec<(Index, Vec<u8>)>),
    SetPartial(Vec<(Index, u64, Vec<u8>)>),
    Erase(Index),
    EraseMany(Vec<Index>),
    ErasePrefix(Index),
    Reopen,
}

fn operation() -> impl Strategy<Value = Operation> {
    let value = || prop::collection::vec(any::<u8>(), 0..40);
    // Some are larger than any slot.
    let large = prop::collection::vec(any::<u8>(), 200..6000);
    let values = || prop::collection::vec((any::<Index>(), value()), 0..12);
    let parts = prop::collection::vec((any::<Index>(), 0u64..30, value()), 0..8);
    prop_oneof![
        4 => (any::<Index>(), value()).prop_map(|(key, value)| Operation::Set(key, value)),
        1 => (any::<Index>(), large).prop_map(|(key, value)| Operation::Set(key, value)),
        3 => values().prop_map(Operation::SetMany),
        3 => parts.prop_map(Operation::SetPartial),
        2 => any::<Index>().prop_map(Operation::Erase),
        2 => prop::collection::vec(any::<Index>(), 0..16).prop_map(Operation::EraseMany),
        1 => any::<Index>().prop_map(Operation::ErasePrefix),
        1 => Just(Operation::Reopen),
    ]
}

/// All prefixes of keys, and some that no key has.
fn prefixes(keys: &[String]) -> Vec<String> {
    let mut found = BTreeSet::from(["nothing/".to_owned(), "0/c/7/".to_owned(), "data/root/0/c77/".to_owned()]);
    for key in keys {
        found.extend(key.match_indices('/').map(|(at, _)| key[..=at].to_owned()));
    }
    found.into_iter().collect()
}

/// The key of a chunk that the same shard can hold behind the last frame: of frame 6 instead of 4, or 7 instead of 5.
fn beyond(key: &str) -> String {
    let (base, numbers) = key.split_at(key.len().saturating_sub(5));
    match numbers.as_bytes().first() {
        Some(first @ (b'4' | b'5')) => format!("{base}{}{}", (first + 2) as char, &numbers[1..]),
        _ => key.to_owned(),
    }
}

fn check_reads(store: &Store, model: &BTreeMap<String, Vec<u8>>, keys: &[String]) {
    assert_eq!(store.list().unwrap(), model.keys().cloned().collect::<Vec<_>>());
    for key in keys.iter().filter(|key| !is_spoken(key)) {
        assert_eq!(store.get(key).unwrap().as_ref(), model.get(key), "{key}");
        assert_eq!(store.size(key).unwrap(), model.get(key).map(|value| value.len() as u64), "{key}");
    }
    let present: Vec<_> = model.keys().filter(|key| !is_spoken(key)).collect();
    let halves: Vec<_> =
        present.iter().map(|key| (key.as_str(), ByteRange::From(model[*key].len() as u64 / 2))).collect();
    let got = store.get_partial_values(&halves).unwrap();
    for ((key, _), got) in halves.iter().zip(got) {
        assert_eq!(got.as_deref(), Some(&model[*key][model[*key].len() / 2..]), "{key}");
    }
    for prefix in prefixes(keys).iter().map(String::as_str).chain([""]) {
        let below: Vec<&String> = model.keys().filter(|key| key.starts_with(prefix)).collect();
        assert_eq!(store.list_prefix(prefix).unwrap().iter().collect::<Vec<_>>(), below, "{prefix}");
        let listing = store.list_dir(prefix).unwrap();
        let (folders, whole): (Vec<&String>, Vec<&String>) =
            below.iter().partition(|key| key[prefix.len()..].contains('/'));
        assert_eq!(listing.keys.iter().collect::<Vec<_>>(), whole, "{prefix}");
        let folder = |key: &&String| format!("{prefix}{}/", key[prefix.len()..].split('/').next().unwrap());
        let expected: BTreeSet<String> = folders.iter().map(folder).collect();
        let listed: BTreeSet<String> = listing.prefixes.into_iter().collect();
        assert!(listed.is_superset(&expected), "{prefix}: {listed:?} instead of {expected:?}");
        // Of chunks only: those that a shard could hold, without a look into it.
        for more in listed.difference(&expected) {
            assert!(keys.iter().any(|key| key.starts_with(more) || beyond(key).starts_with(more)), "{prefix}: {more}");
        }
    }
}

fn apply(store: &Store, model: &mut BTreeMap<String, Vec<u8>>, keys: &[String], operation: &Operation) {
    let key = |index: &Index| index.get(keys).as_str();
    match operation {
        Operation::Set(at, value) => {
            store.set(key(at), value).unwrap();
            model.insert(key(at).to_owned(), value.clone());
        }
        Operation::SetMany(values) => {
            let values: Vec<_> = values.iter().map(|(at, value)| (key(at), value.as_slice())).collect();
            store.set_many(&values).unwrap();
            model.extend(values.iter().map(|(key, value)| ((*key).to_owned(), value.to_vec())));
        }
        Operation::SetPartial(parts) => {
            let parts: Vec<_> = parts.iter().map(|(at, offset, part)| (key(at), *offset, part.as_slice())).collect();
            store.set_partial_values(&parts).unwrap();
            for (key, offset, part) in parts {
                let value = model.entry(key.to_owned()).or_default();
                value.resize(value.len().max(offset as usize + part.len()), 0);
                value[offset as usize..][..part.len()].copy_from_slice(part);
            }
        }
        Operation::Erase(at) => {
            store.erase(key(at)).unwrap();
            model.remove(key(at));
        }
        Operation::EraseMany(at) => {
            store.erase_values(&at.iter().map(key).collect::<Vec<_>>()).unwrap();
            at.iter().for_each(|at| drop(model.remove(key(at))));
        }
        Operation::ErasePrefix(at) => {
            let all = prefixes(keys);
            let prefix = at.get(&all);
            store.erase_prefix(prefix).unwrap();
            model.retain(|key, _| !key.starts_with(prefix.as_str()));
        }
        Operation::Reopen => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn a_store_is_a_map(number in 0..OWN + FOREIGN, operations in prop::collection::vec(operation(), 1..12)) {
        let folder = tempfile::tempdir().unwrap();
        let (path, mut keys) = dataset(folder.path(), number);
        keys.extend(["notes.txt", "more/notes.txt"].map(str::to_owned));
        let mut store = Store::edit(&path).unwrap().without_sync();
        let mut model = contents(&store);
        for operation in &operations {
            apply(&store, &mut model, &keys, operation);
            if matches!(operation, Operation::Reopen) {
                store.finish().unwrap();
                check_reads(&Store::open(&path).unwrap(), &model, &keys);
                store = Store::edit(&path).unwrap().without_sync();
            }
        }
        check_reads(&store, &model, &keys);
        store.finish().unwrap();
        let names = files(&path);
        let is_left =
            |path: &&PathBuf| path.to_str().unwrap().ends_with(".partial") || path.ends_with(".shardwright.lock");
        let left = names.keys().find(is_left);
        prop_assert_eq!(left, None);
    }

    /// Of chunks that decode, `verify` and `recover` say the best after any edit, and readers see them.
    #[test]
    fn verify_and_recover_vouch_for_what_was_edited(
        number in 0..OWN,
        steps in prop::collection::vec(
            prop::collection::vec((0..24usize, prop::option::weighted(0.7, any::<u8>())), 1..8), 1..5),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let (path, keys) = dataset(folder.path(), number);
        let store = Store::edit(&path).unwrap().without_sync();
        let mut pixels = Array::open(&path).unwrap().read_all().unwrap();
        for step in steps {
            for erased in [false, true] {
                let some: Vec<_> = step.iter().filter(|(_, value)| value.is_none() == erased).collect();
                let values: Vec<_> =
                    some.iter().map(|(at, value)| (keys[*at].as_str(), chunk_of(number, value.unwrap_or(0)))).collect();
                if erased {
                    store.erase_values(&values.iter().map(|(key, _)| *key).collect::<Vec<_>>()).unwrap();
                } else {
                    let values: Vec<_> = values.iter().map(|(key, value)| (*key, value.as_slice())).collect();
                    store.set_many(&values).unwrap();
                }
                for (at, value) in some {
                    paint(&mut pixels, *at, value.unwrap_or(0));
                }
            }
        }
        store.finish().unwrap();
        prop_assert!(Array::open(&path).unwrap().read_all().unwrap() == pixels);
        let verified = sound(&path);
        // Of the prototype, that other readers misread it; and that a frame that never came has been painted.
        let known = ["key \"shards\"", "frames that have all their chunks are listed as missing"];
        let is_news = |what: &str| !known.iter().any(|known| what.contains(known));
        let notes = verified.findings.iter().filter(|finding| is_news(&finding.what)).count();
        prop_assert_eq!(notes, 0, "{:?}", verified.findings);
        prop_assert_eq!(verified.arrays.iter().map(|array| array.without_header).sum::<u64>(), 0);
        let found = recovered(&path, false).unwrap();
        prop_assert!(!found.is_needed(), "{:?}", found);
        let (torn, dropped) = (found.images[0].chunks_torn, found.images[0].chunks_dropped);
        prop_assert_eq!((torn, dropped), (0, 0));
    }
}

fn cases() -> u32 {
    env::var("SHARDWRIGHT_STORE_CASES").ok().map_or(48, |cases| cases.parse().unwrap())
}

/// A chunk of one value as the codec leaves it.
fn chunk(value: u8) -> Vec<u8> {
    let pixels = [value; 16];
    [&pixels[..], &crc32c(&pixels).to_le_bytes()].concat()
}

/// The same in a dataset of the table: only the usual dialect has checksums.
fn chunk_of(number: usize, value: u8) -> Vec<u8> {
    let mut chunk = chunk(value);
    chunk.truncate(if number < 4 { 20 } else { 16 });
    chunk
}

/// CRC-32C bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 })
    })
}

fn paint(pixels: &mut [u8], at: usize, value: u8) {
    let (t, y, x) = (at / 4, at % 4 / 2 * 4, at % 2 * 4);
    for row in 0..4 {
        pixels[t * 64 + (y + row) * 8 + x..][..4].fill(value);
    }
}

/// What stands where a shard would and is none is told, rather than read as chunks that nobody wrote.
#[test]
fn what_is_no_file_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = acquired(folder.path(), &config(Dialect::Zarr3, Placement::Fixed, IndexLocation::End));
    let store = Store::open(&path).unwrap();
    let shard = path.join("0/c/0/0/0");
    fs::remove_file(&shard).unwrap();
    let link = |shard: &Path| std::os::unix::fs::symlink("elsewhere", shard).unwrap();
    let pipe = |shard: &Path| rustix::fs::mkfifoat(rustix::fs::CWD, shard, rustix::fs::Mode::RWXU).unwrap();
    for (made, words) in
        [(&link as &dyn Fn(&Path), "is a link to something that is not here"), (&pipe, "is not a regular file")]
    {
        made(&shard);
        let told = [store.list().map(drop), store.list_prefix("0/c/").map(drop), store.get("0/c/0/0/0").map(drop)];
        for told in told {
            let error = told.unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        fs::remove_file(&shard).unwrap();
    }
}
