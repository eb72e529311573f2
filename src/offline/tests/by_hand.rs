//! Shards whose bytes follow the specification's picture, with gaps, in any order, and broken in every way.

use super::*;
use crate::offline::{Array, Store, describe};

/// An array of 4×4 bytes in one shard of four 2×2 chunks.
fn array(root: &Path, location: &str, index_crc: bool, shard: &[u8]) {
    let index_codecs = if index_crc { json!([little(), {"name": "crc32c"}]) } else { json!([little()]) };
    let codecs = sharded(&[2, 2], json!([{"name": "bytes"}]), index_codecs, location);
    put(root, "zarr.json", document("uint8", &[4, 4], &[4, 4], codecs).to_string());
    put(root, "c/0/0", shard);
}

/// Chunks 3, 0 and 1 in that order with gaps between them; chunk 2 is missing.
fn chunks() -> Vec<u8> {
    b"junk\x30\x31\x32\x33--\x00\x01\x02\x03\x10\x11\x12\x13trailing".to_vec()
}

const ENTRIES: [(u64, u64); 4] = [(10, 4), (14, 4), MISSING, (4, 4)];

const PIXELS: [u8; 16] = [0x00, 0x01, 0x10, 0x11, 0x02, 0x03, 0x12, 0x13, 7, 7, 0x30, 0x31, 7, 7, 0x32, 0x33];

fn shard_with_index_at_end(entries: &[(u64, u64)]) -> Vec<u8> {
    [chunks(), with_crc(index(entries))].concat()
}

fn failure(root: &Path) -> String {
    let error = Array::open(root).and_then(|array| array.read_all()).expect_err("a broken shard");
    error.to_string()
}

#[test]
fn gaps_and_any_order_and_missing_chunks_read_right_with_any_index() {
    for (location, crc) in [("end", true), ("end", false), ("start", true), ("start", false)] {
        let root = tempfile::tempdir().expect("a directory");
        let head = if location == "end" { 0 } else { 64 + if crc { 4 } else { 0 } };
        let entries = ENTRIES.map(|entry| if entry == MISSING { entry } else { (entry.0 + head, entry.1) });
        let index = if crc { with_crc(index(&entries)) } else { index(&entries) };
        let shard = if location == "end" { [chunks(), index] } else { [index, chunks()] };
        array(root.path(), location, crc, &shard.concat());
        assert_eq!(Array::open(root.path()).expect("an array").read_all().expect("pixels"), PIXELS);
    }
}

#[test]
fn every_flipped_bit_of_the_index_is_noticed() {
    let root = tempfile::tempdir().expect("a directory");
    let shard = shard_with_index_at_end(&ENTRIES);
    for bit in (shard.len() - 68) * 8..shard.len() * 8 {
        let mut flipped = shard.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        array(root.path(), "end", true, &flipped);
        let message = failure(root.path());
        assert!(message.contains("c/0/0") && message.contains("the index is damaged"), "{message}");
    }
}

#[test]
fn a_file_shorter_than_its_index_is_an_error() {
    let root = tempfile::tempdir().expect("a directory");
    for length in [0, 1, 67] {
        array(root.path(), "end", true, &vec![0; length]);
        assert!(failure(root.path()).contains(&format!("{length} bytes are too few")));
    }
}

#[test]
fn a_chunk_behind_an_index_at_the_start_that_claims_a_sparse_file_is_refused() {
    let root = tempfile::tempdir().expect("a directory");
    let bytes = 1u64 << 40;
    array(root.path(), "start", true, &with_crc(index(&[(68, bytes), MISSING, MISSING, MISSING])));
    let file = fs::File::options().write(true).open(root.path().join("c/0/0")).expect("the shard");
    file.set_len(68 + bytes).expect("a sparse file");
    assert!(failure(root.path()).contains("encoded bytes for a chunk of 4 bytes"));
}

#[test]
fn entries_outside_the_chunks_are_errors_that_name_the_chunk() {
    let root = tempfile::tempdir().expect("a directory");
    let end = chunks().len() as u64;
    // Past the end, into the index, sums that overflow, half of a missing entry.
    for entry in [
        (1000, 4),
        (end - 3, 4),
        (end, 4),
        (u64::MAX, 4),
        (u64::MAX - 3, 4),
        (4, u64::MAX),
        (u64::MAX, 0),
        (0, u64::MAX),
    ] {
        let mut entries = ENTRIES;
        entries[1] = entry;
        array(root.path(), "end", true, &shard_with_index_at_end(&entries));
        let message = failure(root.path());
        assert!(message.contains("chunk [0, 1]") && message.contains(&format!("{} bytes at {}", entry.1, entry.0)));
        // The chunks beside it are as good as before.
        let array = Array::open(root.path()).expect("an array");
        let mut left = [0; 8];
        array.read_region(&[0, 0], &[4, 2], &mut left).expect("the left half");
        assert_eq!(left, [0, 1, 2, 3, 7, 7, 7, 7]);
    }
}

#[test]
fn entries_in_an_index_at_the_start_are_errors() {
    let root = tempfile::tempdir().expect("a directory");
    let entries = [(64, 4), MISSING, MISSING, MISSING];
    array(root.path(), "start", true, &[with_crc(index(&entries)), chunks()].concat());
    assert!(failure(root.path()).contains("between 68 and"));
}

#[test]
fn chunks_of_the_wrong_length_are_errors() {
    let root = tempfile::tempdir().expect("a directory");
    for nbytes in [0, 3, 5] {
        let mut entries = ENTRIES;
        entries[0].1 = nbytes;
        array(root.path(), "end", true, &shard_with_index_at_end(&entries));
        let message = failure(root.path());
        assert!(message.contains("c/0/0") && message.contains("chunk [0, 0]"), "{message}");
    }
}

#[test]
fn a_huge_array_without_files_reads_as_its_fill_value() {
    let root = tempfile::tempdir().expect("a directory");
    let codecs = sharded(&[1, 1 << 20], json!([little()]), json!([little(), {"name": "crc32c"}]), "end");
    put(root.path(), "zarr.json", document("uint16", &[u64::MAX >> 32, 1 << 31], &[8, 1 << 20], codecs).to_string());
    let array = Array::open(root.path()).expect("an array");
    let mut out = vec![0; 16];
    array.read_region(&[(u64::MAX >> 32) - 2, (1 << 31) - 4], &[2, 4], &mut out).expect("pixels");
    assert_eq!(out, [7, 0].repeat(8));
    assert!(array.read_all().expect_err("too large").to_string().contains("memory"));
    assert_eq!(describe(root.path()).expect("a description").arrays[0].chunks_present, 0);
}

#[test]
fn regions_outside_the_array_are_refused() {
    let root = tempfile::tempdir().expect("a directory");
    array(root.path(), "end", true, &shard_with_index_at_end(&ENTRIES));
    let array = Array::open(root.path()).expect("an array");
    let mut out = [0; 4];
    for (start, shape) in [
        (vec![3, 0], vec![2, 2]),
        (vec![u64::MAX, 0], vec![2, 2]),
        (vec![0], vec![4]),
        (vec![0, 0, 0], vec![1, 2, 2]),
        (vec![0, 0], vec![2, 1]),
    ] {
        assert!(array.read_region(&start, &shape, &mut out).is_err(), "{start:?} {shape:?}");
    }
    array.read_region(&[4, 4], &[0, 0], &mut []).expect("nothing at all");
}

#[test]
fn keys_of_every_encoding_are_found() {
    for (encoding, key) in [
        (json!({"name": "default"}), "c/1/0"),
        (json!({"name": "default", "configuration": {"separator": "."}}), "c.1.0"),
        (json!({"name": "v2"}), "1.0"),
        (json!("v2"), "1.0"),
        (json!({"name": "v2", "configuration": {"separator": "/"}}), "1/0"),
    ] {
        let root = tempfile::tempdir().expect("a directory");
        let mut document = document("uint8", &[2, 1], &[1, 1], json!(["bytes"]));
        document["chunk_key_encoding"] = encoding;
        put(root.path(), "zarr.json", document.to_string());
        put(root.path(), key, [9]);
        assert_eq!(Array::open(root.path()).expect("an array").read_all().expect("pixels"), [7, 9], "{key}");
    }
}

#[test]
fn an_array_without_dimensions_is_one_element() {
    let root = tempfile::tempdir().expect("a directory");
    put(root.path(), "zarr.json", document("uint16", &[], &[], json!([little()])).to_string());
    let array = Array::open(root.path()).expect("an array");
    assert_eq!(array.read_all().expect("the fill value"), [7, 0]);
    put(root.path(), "c", [3, 4]);
    assert_eq!(array.read_all().expect("the element"), [3, 4]);
}

#[test]
fn zarr_v2_arrays_are_read() {
    let root = tempfile::tempdir().expect("a directory");
    let document = json!({
        "zarr_format": 2, "shape": [3, 2], "chunks": [2, 2], "dtype": ">u2", "compressor": null, "filters": null,
        "fill_value": 5, "order": "C",
    });
    put(root.path(), ".zarray", document.to_string());
    put(root.path(), ".zattrs", json!({"_ARRAY_DIMENSIONS": ["y", "x"]}).to_string());
    put(root.path(), "1.0", [0, 1, 0, 2, 9, 9, 9, 9]);
    let array = Array::open(root.path()).expect("an array");
    assert_eq!(array.read_all().expect("pixels"), [5, 0, 5, 0, 5, 0, 5, 0, 1, 0, 2, 0]);
    assert_eq!(array.dimension_names(), Some(["y".to_owned(), "x".to_owned()].as_slice()));
}

#[test]
fn sharded_zarr_v2_arrays_of_the_prototype_are_read() {
    let root = tempfile::tempdir().expect("a directory");
    let document = json!({
        "zarr_format": 2, "shape": [4, 4], "chunks": [2, 2], "dtype": "|u1", "compressor": null, "filters": null,
        "fill_value": 7, "order": "C", "shards": [2, 2], "shard_format": "indexed",
    });
    put(root.path(), ".zarray", document.to_string());
    put(root.path(), "0.0", [chunks(), index(&ENTRIES)].concat());
    assert_eq!(Array::open(root.path()).expect("an array").read_all().expect("pixels"), PIXELS);
}

#[test]
fn the_store_edits_shards_behind_a_transposition() {
    let root = tempfile::tempdir().expect("a directory");
    let transpose = json!({"name": "transpose", "configuration": {"order": [1, 0]}});
    let mut codecs = sharded(&[3, 2], json!(["bytes"]), json!([little(), {"name": "crc32c"}]), "end");
    codecs.as_array_mut().expect("codecs").insert(0, transpose.clone());
    put(root.path(), "zarr.json", document("uint8", &[4, 6], &[4, 6], codecs.clone()).to_string());
    let store = Store::edit(root.path()).expect("a store");
    let shown = store.get("zarr.json").expect("read").expect("a document");
    let shown: Value = serde_json::from_slice(&shown).expect("JSON");
    assert_eq!(shown["chunk_grid"]["configuration"]["chunk_shape"], json!([2, 3]));
    assert_eq!(shown["codecs"], json!([transpose, "bytes"]));
    // Three columns of two elements each.
    store.set_many(&[("c/1/0", &[1, 4, 2, 5, 3, 6]), ("c/0/1", &[11, 14, 12, 15, 13, 16])]).expect("edited");
    assert_eq!(store.get("c/1/0").expect("read").as_deref(), Some([1, 4, 2, 5, 3, 6].as_slice()));
    store.finish().expect("finished");
    let read = Array::open(root.path()).and_then(|array| array.read_all()).expect("pixels");
    assert_eq!(read, [[7, 7, 7, 11, 12, 13], [7, 7, 7, 14, 15, 16], [1, 2, 3, 7, 7, 7], [4, 5, 6, 7, 7, 7],].concat());
    // In the shard's own order, the chunk below comes before the one to the right.
    let bytes = fs::read(root.path().join("c/0/0")).expect("a shard");
    let entries = &bytes[bytes.len() - 68..];
    let is_there: Vec<bool> = entries[..64].chunks(16).map(|entry| entry != [0xff; 16]).collect();
    assert_eq!(is_there, [false, true, true, false]);
    let stored = fs::read_to_string(root.path().join("zarr.json")).expect("a document");
    assert_eq!(serde_json::from_str::<Value>(&stored).expect("JSON")["codecs"], codecs);
}
