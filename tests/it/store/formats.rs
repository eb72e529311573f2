//! What each format shows, and what is refused.

use super::*;

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
    let entry = json!({"zarr_format": protocol, "metadata_encoding": protocol, "metadata_key_suffix": ".json"});
    fs::write(path.join("zarr.json"), entry.to_string()).unwrap();
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
        assert!(matches!(store.get(key), Err(Error::Config { field: "key", .. })), "{key}");
        assert!(matches!(store.set(key, b"x"), Err(Error::Config { field: "key", .. })), "{key}");
        assert!(matches!(store.erase(key), Err(Error::Config { field: "key", .. })), "{key}");
    }
    for key in ["link/file", "link/new", "link/deep/new"] {
        assert!(store.set(key, b"x").is_err() && store.erase(key).is_err(), "{key}");
    }
    assert_eq!(fs::read(outside.join("file")).unwrap(), b"mine");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    // Outside of the array there are no chunks.
    assert_eq!(store.get("0/c/6/0/0").unwrap(), None);
    assert!(matches!(store.set("0/c/6/0/0", b"x"), Err(Error::Config { field: "key", .. })));
    // A file of such a name would lie among the shards, and nobody would read it.
    for key in ["0/c/00/0/0", "0/c/+1/0/0", "0/c/0/0/-1", "0/c/0/0", "0/c/0/0/0/0", "0/c/99999999999999999999/0/0"] {
        let refused = store.set(key, b"x").unwrap_err();
        assert!(matches!(refused, Error::Config { field: "key", .. }), "{key}: {refused}");
        assert!(refused.to_string().contains("3 numbers") && refused.to_string().contains("0/c/0/0/0"), "{refused}");
        assert!(store.get(key).unwrap().is_none() && !path.join(key).is_file(), "{key}");
    }
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
    assert!(matches!(Store::edit(path.join("0")), Err(Error::Config { field: "path", .. })));
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

/// Readers open such an array by its path, and the walk for `info` and `verify` finds it.
#[test]
fn arrays_in_folders_without_documents_have_chunks() {
    let folder = tempfile::tempdir().unwrap();
    let path = acquired(folder.path(), &config(Dialect::Zarr3, Placement::Fixed, IndexLocation::End));
    fs::create_dir(path.join("plain")).unwrap();
    fs::rename(path.join("0"), path.join("plain/a")).unwrap();
    for (place, start) in [(&*path, ""), (folder.path(), "run.zarr/")] {
        let store = Store::open(place).unwrap();
        let chunk = store.get(&format!("{start}plain/a/c/5/1/1")).unwrap();
        assert_eq!(chunk.map(|chunk| chunk.len()), Some(4 * 4 + 4), "{}", place.display());
        let document = store.get(&format!("{start}plain/a/zarr.json")).unwrap().unwrap();
        let document: Value = serde_json::from_slice(&document).unwrap();
        assert_eq!(document["chunk_grid"]["configuration"]["chunk_shape"], json!([1, 4, 4]));
    }
}

/// A volume below another dataset is one of its own: for a store its shards are files, as the walk of `info` and
/// `verify` passes them over.
#[test]
fn volumes_below_a_dataset_are_none_of_its_arrays() {
    let folder = tempfile::tempdir().unwrap();
    let path = acquired(folder.path(), &config(Dialect::Zarr3, Placement::Fixed, IndexLocation::End));
    let volume = acquired(&path.join("below"), &config(Dialect::Precomputed, Placement::Fixed, IndexLocation::End));
    for (place, start) in [(&*path, "below/run.zarr/"), (&*volume, "")] {
        let arrays = shardwright::offline::describe(place).unwrap().arrays;
        let names: Vec<_> = arrays.iter().map(|array| array.path.as_str()).collect();
        let is_volume = start.is_empty();
        assert_eq!(names.iter().any(|name| name.ends_with("1_1_1")), is_volume, "{names:?}");
        let keys = Store::open(place).unwrap().list_prefix(start).unwrap();
        assert_eq!(keys.iter().any(|key| key.ends_with(".shard")), !is_volume, "{keys:?}");
    }
}
