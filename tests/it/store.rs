//! The store shows what is there, takes what is given, and loses nothing else; whatever it is compared with, a dull
//! map, the reader, `verify`, `recover` or the crate zarrs.

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

/// Another writer's array without a shard yet.
fn foreign(folder: &Path, number: usize) -> PathBuf {
    let path = folder.join("foreign.zarr");
    let document = |key: &str, document: Value| {
        fs::create_dir_all(path.join(key).parent().unwrap()).unwrap();
        fs::write(path.join(key), document.to_string()).unwrap();
    };
    let sharding = |index: Value, location: &str| {
        json!([{"name": "sharding_indexed", "configuration": {
            "chunk_shape": [1, 4, 4], "codecs": [{"name": "bytes"}], "index_codecs": index, "index_location": location,
        }}])
    };
    let bytes = json!({"name": "bytes", "configuration": {"endian": "little"}});
    let zarr3 = |encoding: Value, codecs: Value| {
        json!({
            "zarr_format": 3, "node_type": "array", "shape": [6, 8, 8], "data_type": "uint8", "fill_value": 0,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 8, 4]}},
            "chunk_key_encoding": encoding, "codecs": codecs, "attributes": {},
        })
    };
    let zarr2 = |separator: &str| {
        json!({
            "zarr_format": 2, "shape": [6, 8, 8], "chunks": [1, 4, 4], "dtype": "|u1", "compressor": null, "filters": null,
            "fill_value": 0, "order": "C", "dimension_separator": separator, "shards": [4, 2, 1], "shard_format": "indexed",
        })
    };
    let protocol = "https://purl.org/zarr/spec/protocol/core/3.0";
    let draft = |separator: &str| {
        json!({
            "shape": [6, 8, 8], "data_type": "u1", "chunk_memory_layout": "C", "fill_value": 0, "extensions": [],
            "chunk_grid": {"type": "regular", "chunk_shape": [1, 4, 4], "separator": separator}, "attributes": {},
            "storage_transformers": [{
                "extension": "https://purl.org/zarr/spec/storage_transformers/sharding/1.0", "type": "indexed",
                "configuration": {"chunks_per_shard": [4, 2, 1]},
            }],
        })
    };
    match number {
        0 => document(
            "zarr.json",
            zarr3(json!({"name": "v2", "configuration": {"separator": "."}}), sharding(json!([bytes]), "end")),
        ),
        1 => document("a/b/zarr.json", {
            document("zarr.json", json!({"zarr_format": 3, "node_type": "group"}));
            document("a/zarr.json", json!({"zarr_format": 3, "node_type": "group"}));
            zarr3(
                json!({"name": "default", "configuration": {"separator": "."}}),
                sharding(json!([bytes, {"name": "crc32c"}]), "start"),
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
                    "zarr_format": protocol, "metadata_encoding": protocol, "metadata_key_suffix": ".json", "extensions": [],
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
        let left = names.keys().find(|path| path.to_str().unwrap().ends_with(".partial") || path.ends_with(".shardwright.lock"));
        prop_assert_eq!(left, None);
    }

    /// Of chunks that decode, `verify` and `recover` say the best after any edit, and readers see them.
    #[test]
    fn verify_and_recover_vouch_for_what_was_edited(
        number in 0..OWN,
        steps in prop::collection::vec(prop::collection::vec((0..24usize, prop::option::weighted(0.7, any::<u8>())), 1..8), 1..5),
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
                    store.set_many(&values.iter().map(|(key, value)| (*key, value.as_slice())).collect::<Vec<_>>()).unwrap();
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
        let known = ["key \"shards\"", "and are listed as missing"];
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

#[test]
fn documents_are_shown_without_shards() {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..OWN + FOREIGN {
        let folder = folder.path().join(number.to_string());
        fs::create_dir_all(&folder).unwrap();
        let (path, ..) = dataset(&folder, number);
        let store = Store::open(&path).unwrap();
        let keys = store.list().unwrap();
        let key = keys.iter().find(|key| {
            ["0/zarr.json", "a/b/zarr.json", ".zarray", "x/.zarray", "info"].contains(&key.as_str())
                || key.ends_with("array.json")
        });
        let key = key.unwrap_or(&keys[0]);
        let shown: Value = serde_json::from_slice(&store.get(key).unwrap().unwrap()).unwrap();
        if key == "info" {
            let scale = &shown["scales"][0];
            assert_eq!((&scale["chunk_sizes"], scale.get("sharding")), (&json!([[4, 4, 1]]), None));
            continue;
        }
        let text = shown.to_string();
        assert!(!text.contains("shard"), "{key}: {text}");
        let chunk = shown.pointer("/chunk_grid/configuration/chunk_shape");
        let chunk = chunk.or(shown.pointer("/chunk_grid/chunk_shape")).or(shown.get("chunks")).unwrap();
        assert_eq!(*chunk, json!([1, 4, 4]), "{key}");
        assert_eq!(store.size(key).unwrap(), Some(store.get(key).unwrap().unwrap().len() as u64));

        // Back in the same form, it changes nothing but what may change.
        drop(store);
        let before = fs::read(path.join(key)).unwrap();
        let before: Value = serde_json::from_slice(&before).unwrap();
        let store = Store::edit(&path).unwrap();
        let mut larger = shown.clone();
        larger["shape"][0] = json!(9);
        store.set(key, larger.to_string().as_bytes()).unwrap();
        let mut expected = before;
        expected["shape"][0] = json!(9);
        assert_eq!(serde_json::from_slice::<Value>(&fs::read(path.join(key)).unwrap()).unwrap(), expected, "{key}");
        for (field, value) in [("fill_value", json!(7)), ("codecs", json!([])), ("compressor", json!({"id": "zstd"}))] {
            let mut other = shown.clone();
            other[field] = value;
            let error = store.set(key, other.to_string().as_bytes()).unwrap_err();
            assert!(error.to_string().contains(field), "{error}");
        }
    }
}

/// Sharding storage transformer 1.0, "Key & value transformation": `chunks_per_shard` [32, 2].
#[test]
fn chunk_c96_18_lies_in_shard_c3_9() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("draft.zarr");
    let protocol = "https://purl.org/zarr/spec/protocol/core/3.0";
    fs::create_dir_all(path.join("meta/root/foo")).unwrap();
    fs::write(path.join("zarr.json"), json!({"zarr_format": protocol, "metadata_key_suffix": ".json"}).to_string())
        .unwrap();
    let transformer = "https://purl.org/zarr/spec/storage_transformers/sharding/1.0";
    let array = json!({
        "shape": [1280, 200], "data_type": "u1", "fill_value": 0, "attributes": {},
        "chunk_grid": {"type": "regular", "chunk_shape": [10, 10], "separator": "/"},
        "storage_transformers": [
            {"extension": transformer, "type": "indexed", "configuration": {"chunks_per_shard": [32, 2]}},
        ],
    });
    fs::write(path.join("meta/root/foo/baz.array.json"), array.to_string()).unwrap();
    let store = Store::edit(&path).unwrap();
    store.set("data/root/foo/baz/c96/18", b"first").unwrap();
    let shard = path.join("data/root/foo/baz/c3/9");
    let index = |bytes: &[u8], chunk: usize| {
        let at = bytes.len() - 1024 + 16 * chunk;
        [0, 8].map(|word| u64::from_le_bytes(bytes[at + word..at + word + 8].try_into().unwrap()))
    };
    // 16 bytes * 64, at the end, without a checksum; empty chunks have 2^64 - 1 twice.
    let bytes = fs::read(&shard).unwrap();
    assert_eq!(bytes.len(), 5 + 1024);
    assert_eq!((index(&bytes, 0), &bytes[..5]), ([0, 5], &b"first"[..]));
    assert!((1..64).all(|chunk| index(&bytes, chunk) == [u64::MAX; 2]));
    let others = ["c96/19", "c97/18", "c127/19"].map(|key| format!("data/root/foo/baz/{key}"));
    store.set_many(&others.each_ref().map(|key| (key.as_str(), &b"other"[..]))).unwrap();
    let bytes = fs::read(&shard).unwrap();
    assert!([0, 1, 2, 63].iter().all(|&chunk| index(&bytes, chunk)[1] == 5));
    assert_eq!(files(&path.join("data")).len(), 1, "all four lie in one shard");
    let listed = store.list_prefix("data/root/").unwrap();
    assert_eq!(listed, ["c127/19", "c96/18", "c96/19", "c97/18"].map(|key| format!("data/root/foo/baz/{key}")));
    // A prefix of a part of the shard's keys leads to the chunks in it.
    assert_eq!(store.list_dir("data/root/foo/baz/c96/").unwrap().keys.len(), 2);
    assert_eq!(store.list_dir("data/root/foo/baz/").unwrap().prefixes.len(), 32);
    store.erase_prefix("data/root/foo/baz/c96/").unwrap();
    assert_eq!(store.list_prefix("data/root/").unwrap().len(), 2);
    store.erase_values(&["data/root/foo/baz/c97/18", "data/root/foo/baz/c127/19"]).unwrap();
    assert!(!shard.exists(), "a shard without chunks goes");
}

/// Sharding codec 1.0, "Binary shard format": 16 bytes * 4 + 4 = 68.
#[test]
fn an_index_of_four_chunks_with_checksum_has_68_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("array.zarr");
    fs::create_dir_all(&path).unwrap();
    let bytes = json!({"name": "bytes", "configuration": {"endian": "little"}});
    let array = json!({
        "zarr_format": 3, "node_type": "array", "shape": [64, 64], "data_type": "uint8", "fill_value": 0,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [64, 64]}},
        "chunk_key_encoding": {"name": "default"},
        "codecs": [{"name": "sharding_indexed", "configuration": {
            "chunk_shape": [32, 32], "codecs": [{"name": "bytes"}], "index_codecs": [bytes, {"name": "crc32c"}],
        }}],
    });
    fs::write(path.join("zarr.json"), array.to_string()).unwrap();
    let store = Store::edit(&path).unwrap();
    store.set("c/1/0", &[9; 1024]).unwrap();
    let shard = fs::read(path.join("c/0/0")).unwrap();
    assert_eq!(shard.len(), 1024 + 68);
    assert_eq!(
        shard[1024..1088],
        [[0xff; 32], {
            let mut entry = [0xff; 32];
            entry[..16].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0]);
            entry
        }]
        .concat()
    );
    assert_eq!(shard[1088..], crc32c(&shard[1024..1088]).to_le_bytes());
    drop(store);
    let mut pixels = vec![0; 4096];
    Array::open(&path).unwrap().read_region(&[0, 0], &[64, 64], &mut pixels).unwrap();
    assert!(pixels[32 * 64..].chunks(64).all(|row| row[..32] == [9; 32] && row[32..] == [0; 32]));
}

#[test]
fn keys_that_lead_out_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (path, keys) = dataset(folder.path(), 0);
    let outside = folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("file"), b"mine").unwrap();
    std::os::unix::fs::symlink(&outside, path.join("link")).unwrap();
    let store = Store::edit(&path).unwrap();
    for key in
        ["../outside/file", "/etc/passwd", "0/../../outside/file", ".shardwright.lock", "0/c/.0.partial", "0//c", ""]
    {
        assert!(matches!(store.get(key), Err(Error::Format { .. })), "{key}");
        assert!(matches!(store.set(key, b"x"), Err(Error::Format { .. })), "{key}");
        assert!(matches!(store.erase(key), Err(Error::Format { .. })), "{key}");
    }
    for key in ["link/file", "link/new", "link/deep/new"] {
        assert!(store.set(key, b"x").is_err() && store.erase(key).is_err(), "{key}");
    }
    assert_eq!(fs::read(outside.join("file")).unwrap(), b"mine");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    // Outside of the array there are no chunks.
    assert_eq!(store.get("0/c/6/0/0").unwrap(), None);
    assert!(matches!(store.set("0/c/6/0/0", b"x"), Err(Error::Config { field: "key", .. })));
    assert!(matches!(store.get_partial_values(&[(&keys[0], ByteRange::From(21))]), Err(Error::Config { .. })));
    assert_eq!(store.get_partial_values(&[(&keys[0], ByteRange::Last(4))]).unwrap()[0].as_ref().unwrap().len(), 4);
}

#[test]
fn one_writer_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(Dialect::Zarr3, Placement::Fixed, IndexLocation::End);
    let path = folder.path().join("live.zarr");
    let acquisition = Acquisition::create(&path, config.clone()).unwrap();
    assert!(matches!(Store::edit(&path), Err(Error::Locked { .. })));
    assert_eq!(Store::open(&path).unwrap().list_prefix("0/c/").unwrap(), [""; 0]);
    let _ = acquisition.append(&frame(0, 64)).unwrap();
    acquisition.finish().unwrap();
    let store = Store::edit(&path).unwrap();
    assert!(matches!(Store::edit(&path), Err(Error::Locked { .. })));
    assert!(matches!(checked(&path), Err(Error::Locked { .. })));
    assert!(matches!(Store::edit(path.join("0")), Err(Error::Format { .. })));
    let reader = Store::open(&path).unwrap();
    store.set("0/c/0/1/1", &chunk(5)).unwrap();
    assert_eq!(reader.get("0/c/0/1/1").unwrap(), Some(chunk(5)), "readers see what is there");
    assert!(matches!(reader.set("0/c/0/1/1", b""), Err(Error::Config { field: "store", .. })));
    drop(store);
    Store::edit(&path).unwrap();
    // A writer that was killed may have left chunks that no index names.
    let document = path.join("zarr.json");
    let text = fs::read_to_string(&document).unwrap().replace("\"complete\": true", "\"complete\": false");
    fs::write(&document, text).unwrap();
    assert!(Store::edit(&path).unwrap_err().to_string().contains("recover it first"));
}

#[test]
fn a_damaged_index_is_no_reason_to_lose_chunks() {
    let folder = tempfile::tempdir().unwrap();
    let (path, keys) = dataset(folder.path(), 0);
    let shard = path.join("0/c/0/0/0");
    let mut bytes = fs::read(&shard).unwrap();
    let last = bytes.len() - 10;
    bytes[last] ^= 1;
    fs::write(&shard, &bytes).unwrap();
    let store = Store::edit(&path).unwrap();
    for change in
        [store.set(&keys[0], b"x"), store.erase(&keys[0]), store.list().map(drop), store.get(&keys[0]).map(drop)]
    {
        assert!(change.unwrap_err().to_string().contains("index is damaged"));
    }
    assert!(fs::read(&shard).unwrap() == bytes);
    // All chunks at once need nothing of what was there.
    let values: Vec<_> = keys[..16].iter().map(|key| (key.as_str(), chunk(3))).collect();
    store.set_many(&values.iter().map(|(key, value)| (*key, value.as_slice())).collect::<Vec<_>>()).unwrap();
    store.finish().unwrap();
    sound(&path);
}

#[test]
fn a_chunk_larger_than_its_slot_moves_the_others_together() {
    let folder = tempfile::tempdir().unwrap();
    for number in [0, 1, 4, 6] {
        let folder = folder.path().join(number.to_string());
        fs::create_dir(&folder).unwrap();
        let (path, keys) = dataset(&folder, number);
        let store = Store::edit(&path).unwrap();
        let before: Vec<_> = keys.iter().map(|key| store.get(key).unwrap()).collect();
        let large = vec![7; 5000];
        store.set(&keys[1], &large).unwrap();
        store.set(&keys[20], &large).unwrap();
        for (at, key) in keys.iter().enumerate() {
            let expected = if [1, 20].contains(&at) { Some(large.clone()) } else { before[at].clone() };
            assert_eq!(store.get(key).unwrap(), expected, "{key}");
        }
        store.finish().unwrap();
        if number < 4 {
            // They do not decode, but their headers and the index say the same of them.
            let verified = checked(&path).unwrap();
            assert_eq!(verified.damage, 2, "{:?}", verified.findings);
            assert!(
                verified.findings.iter().all(|finding| !finding.what.contains("header")),
                "{:?}",
                verified.findings
            );
            let found = recovered(&path, false).unwrap();
            assert!(!found.is_needed(), "{found:?}");
        }
    }
}

/// Where the child writes.
const PATH: &str = "SHARDWRIGHT_STORE_KILL_PATH";

/// Writes the same value into all chunks of both shards again and again, one batch a value, until it is killed.
#[test]
#[ignore = "another test runs it in a process of its own"]
fn child_edits() {
    let store = Store::edit(env::var(PATH).unwrap()).unwrap();
    let keys: Vec<String> = (0..24).map(|at| format!("0/c/{}/{}/{}", at / 4, at % 4 / 2, at % 2)).collect();
    for value in (0..=255u8).cycle() {
        let value = chunk(value);
        store.set_many(&keys[..8].iter().map(|key| (key.as_str(), &value[..])).collect::<Vec<_>>()).unwrap();
        store.erase_values(&keys[20..].iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
        store.set(&keys[20], &value).unwrap();
    }
}

#[test]
fn a_killed_editor_leaves_each_shard_old_or_new() {
    let kills = env::var("SHARDWRIGHT_KILLS").ok().map_or(12, |kills| kills.parse().unwrap());
    let mut leftovers = 0;
    for kill in 0..kills {
        let folder = tempfile::tempdir().unwrap();
        let (path, keys) = dataset(folder.path(), kill % 4);
        let untouched: Vec<_> = Store::open(&path)
            .unwrap()
            .get_partial_values(&keys[8..20].iter().map(|key| (key.as_str(), ByteRange::All)).collect::<Vec<_>>())
            .unwrap();
        let mut child =
            child("store::child_edits").env(PATH, &path).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // A reader beside it never sees anything else than whole shards.
        for _ in 0..20 {
            same_or_none(&Store::open(&path).unwrap(), &keys[..8]);
            thread::sleep(Duration::from_millis(2));
        }
        thread::sleep(Duration::from_micros(7_919 * (kill as u64 * 31 % 17)));
        child.kill().unwrap();
        child.wait().unwrap();
        leftovers += files(&path).keys().filter(|path| path.to_str().unwrap().ends_with(".partial")).count();
        sound(&path);
        let found = recovered(&path, true).unwrap();
        assert!(found.images[0].shards.is_empty(), "{found:?}");
        // The next one goes on.
        let store = Store::edit(&path).unwrap();
        same_or_none(&store, &keys[..8]);
        let wanted: Vec<_> = keys[8..20].iter().map(|key| (key.as_str(), ByteRange::All)).collect();
        assert!(store.get_partial_values(&wanted).unwrap() == untouched);
        store.set(&keys[0], &chunk(1)).unwrap();
        store.finish().unwrap();
        sound(&path);
    }
    println!("{leftovers} files in the making were left behind in {kills} kills");
}

/// Chunks of one batch have one value, or still those of the run.
fn same_or_none(store: &Store, keys: &[String]) {
    let wanted: Vec<_> = keys.iter().map(|key| (key.as_str(), ByteRange::All)).collect();
    let values = store.get_partial_values(&wanted).unwrap();
    let first = values[0].clone().unwrap();
    assert_eq!(first.len(), 20);
    let edited = first[..16].iter().all(|&pixel| pixel == first[0]);
    assert!(!edited || values.iter().all(|value| value.as_ref() == Some(&first)), "{values:?}");
}

/// The store as a storage of zarrs: its arrays read and write elements and know nothing of shards.
#[cfg(feature = "zarrs")]
mod in_zarrs {
    use std::sync::Arc;

    use zarrs::array::{Array as Elements, ArraySubset};
    use zarrs::storage::byte_range::ByteRange;
    use zarrs::storage::{
        ListableStorageTraits, ReadableStorageTraits, StorageError, StoreKey, StorePrefix, WritableStorageTraits,
    };

    use super::*;

    fn subset(start: [u64; 3], shape: [u64; 3]) -> ArraySubset {
        ArraySubset::new_with_start_shape(start.to_vec(), shape.to_vec()).unwrap()
    }

    #[test]
    fn zarrs_reads_and_writes_elements() {
        for compressor in [Compressor::None, Compressor::default(), Compressor::Zstd { level: 1 }] {
            for (placement, location) in
                [(Placement::Fixed, IndexLocation::End), (Placement::Packed, IndexLocation::Start)]
            {
                let folder = tempfile::tempdir().unwrap();
                let codec = Codec { compressor, checksum: true };
                let config = Config { codec, ..config(Dialect::Zarr3, placement, location) };
                let path = acquired(folder.path(), &config);
                let mut expected = Array::open(&path).unwrap().read_all().unwrap();
                let store = Arc::new(Store::edit(&path).unwrap());
                let array = Elements::open(store.clone(), "/0").unwrap();
                let whole: Vec<u8> = array.retrieve_array_subset(&array.subset_all()).unwrap();
                assert!(whole == expected);
                // Across chunks and shards, with parts of chunks, and over the frame that did not come.
                let pixels: Vec<u8> = (0..4 * 5 * 6).map(|at| at as u8).collect();
                array.store_array_subset(&subset([2, 1, 2], [4, 5, 6]), &pixels[..]).unwrap();
                for (at, pixel) in pixels.iter().enumerate() {
                    let (t, y, x) = (at / 30 + 2, at % 30 / 6 + 1, at % 6 + 2);
                    expected[t * 64 + y * 8 + x] = *pixel;
                }
                let whole: Vec<u8> = array.retrieve_array_subset(&array.subset_all()).unwrap();
                assert!(whole == expected);
                array.erase_chunk(&[0, 0, 0]).unwrap();
                paint(&mut expected, 0, 0);
                drop(array);
                Arc::into_inner(store).unwrap().finish().unwrap();
                assert!(Array::open(&path).unwrap().read_all().unwrap() == expected);
                sound(&path);
                assert!(!recovered(&path, false).unwrap().is_needed());
            }
        }
    }

    /// Without `shards`, the prototype's documents are those of any Zarr v2 array.
    #[test]
    fn zarrs_edits_the_prototype_as_zarr_v2() {
        let folder = tempfile::tempdir().unwrap();
        let (path, _) = dataset(folder.path(), 5);
        let mut expected = Array::open(&path).unwrap().read_all().unwrap();
        let store = Arc::new(Store::edit(&path).unwrap());
        let array = Elements::open(store.clone(), "/").unwrap();
        let whole: Vec<u8> = array.retrieve_array_subset(&array.subset_all()).unwrap();
        assert!(whole == expected);
        array.store_array_subset(&subset([1, 0, 0], [2, 8, 8]), &[9u8; 128][..]).unwrap();
        expected[64..192].fill(9);
        assert!(Array::open(&path).unwrap().read_all().unwrap() == expected);
    }

    #[test]
    fn it_is_a_storage_as_zarrs_wants_it() {
        let folder = tempfile::tempdir().unwrap();
        let (path, ..) = dataset(folder.path(), 4);
        let store = Store::edit(&path).unwrap();
        let key = |key: &str| StoreKey::new(key).unwrap();
        let prefix = |prefix: &str| StorePrefix::new(prefix).unwrap();
        let chunk = key("data/root/0/c5/1/1");
        let storage: &dyn WritableStorageTraits = &store;
        storage.set(&chunk, vec![1; 16].into()).unwrap();
        storage.set_partial(&chunk, 8, vec![2; 16].into()).unwrap();
        storage.erase_many(&[key("data/root/0/c0/0/0"), key("data/root/0/c0/0/0"), key("nothing")]).unwrap();
        storage.erase_prefix(&prefix("data/root/0/c4/")).unwrap();
        let storage: &dyn ReadableStorageTraits = &store;
        assert_eq!(storage.get(&chunk).unwrap().unwrap()[..], [[1; 8].as_slice(), &[2; 16]].concat());
        assert_eq!(storage.size_key(&chunk).unwrap(), Some(24));
        let ranges = [ByteRange::Suffix(1), ByteRange::FromStart(7, Some(2)), ByteRange::FromStart(24, None)];
        let parts = storage.get_partial_many(&chunk, Box::new(ranges.into_iter())).unwrap().unwrap();
        assert_eq!(parts.map(|part| part.unwrap().to_vec()).collect::<Vec<_>>(), [vec![2], vec![1, 2], vec![]]);
        let beyond = storage.get_partial(&chunk, ByteRange::Suffix(25));
        assert!(matches!(beyond, Err(StorageError::InvalidByteRangeError(_))));
        assert_eq!(storage.get(&key("data/root/0/c4/0/0")).unwrap(), None);
        let storage: &dyn ListableStorageTraits = &store;
        let listed = storage.list_prefix(&prefix("data/")).unwrap();
        assert_eq!(listed.len(), 24 - 4 - 4 - 1, "a frame that did not come, one erased, and a chunk");
        assert_eq!(
            storage.list().unwrap().iter().filter(|key| key.as_str().starts_with("data/")).count(),
            listed.len()
        );
        let sizes = listed.iter().map(|key| store.size(key.as_str()).unwrap().unwrap()).sum::<u64>();
        assert_eq!(storage.size_prefix(&prefix("data/")).unwrap(), sizes);
        let below = storage.list_dir(&prefix("data/root/0/c5/1/")).unwrap();
        assert_eq!(below.keys(), &[key("data/root/0/c5/1/0"), chunk]);
        assert!(matches!(Store::open(&path).unwrap().erase("x"), Err(Error::Config { .. })));
    }
}
