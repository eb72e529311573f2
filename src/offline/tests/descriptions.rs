//! What `describe` adds up.

use super::*;
use crate::offline::describe;

/// Two shards along the first dimension, of which the second sticks out of the array; the first is there.
fn dataset(root: &Path, shard: &[u8]) {
    let attributes = json!({"ome": {"version": "0.5"}, "shardwright": {"complete": true}});
    put(root, "zarr.json", json!({"zarr_format": 3, "node_type": "group", "attributes": attributes}).to_string());
    let codecs = sharded(&[2, 2], json!([little()]), json!([little(), {"name": "crc32c"}]), "end");
    let mut array = document("uint16", &[6, 3], &[4, 4], codecs);
    array["dimension_names"] = json!(["y", null]);
    put(root, "0/zarr.json", array.to_string());
    put(root, "0/c/0/0", shard);
    put(root, "0/c/0/0.tmp", "left behind");
    put(root, "0/c/9/0", "beyond the grid");
}

#[test]
fn bytes_and_chunks_are_counted() {
    let root = tempfile::tempdir().expect("a directory");
    // 3 bytes of gap, a chunk of 8, an overlap of 4 with the next, 5 bytes of gap, the index.
    let entries = [(3, 8), (7, 8), MISSING, MISSING];
    dataset(root.path(), &[vec![0; 20], with_crc(index(&entries))].concat());
    let description = describe(root.path()).expect("a description");
    assert!(description.ome && description.complete == Some(true));
    assert_eq!(description.attributes["ome"]["version"], "0.5");
    let [array] = description.arrays.as_slice() else { panic!("one array, not {:?}", description.arrays) };
    assert_eq!((array.path.as_str(), array.shard_files, array.index_location.as_deref()), ("0", 1, Some("end")));
    assert_eq!((array.chunks_present, array.chunks_empty), (2, 4));
    assert_eq!((array.bytes_logical, array.bytes_payload, array.bytes_files), (36, 16, 88));
    assert_eq!(array.gap_bytes, 3 + 5);
    assert!(array.bytes_on_disk > 0 && array.damaged.is_empty());
    assert_eq!(array.dimension_names.as_deref(), Some(["y".to_owned(), String::new()].as_slice()));
    assert_eq!(array.codecs, ["bytes(endian=little)"]);
    let json = serde_json::to_value(&description).expect("JSON");
    assert_eq!(json["arrays"][0]["dtype"], "uint16");
}

#[test]
fn damage_is_told_and_does_not_end_the_walk() {
    let root = tempfile::tempdir().expect("a directory");
    dataset(root.path(), &[vec![0; 20], with_crc(index(&[(3, 8), (19, 8), (u64::MAX, 1), MISSING]))].concat());
    let array = describe(root.path()).expect("a description").arrays.remove(0);
    assert_eq!((array.chunks_present, array.damaged.len(), array.gap_bytes), (1, 2, 12));
    assert_eq!((array.chunks_empty, array.chunks_unknown), (3, 2));
    assert!(array.damaged[0].contains("0/c/0/0: chunk 1 of the shard"), "{:?}", array.damaged);
    dataset(root.path(), &[0; 88]);
    let array = describe(root.path()).expect("a description").arrays.remove(0);
    assert_eq!((array.shard_files, array.chunks_present), (1, 0));
    assert_eq!((array.chunks_empty, array.chunks_unknown), (2, 4));
    assert!(array.damaged[0].contains("the index is damaged"), "{:?}", array.damaged);
}

#[test]
fn one_array_is_a_dataset_too() {
    let root = tempfile::tempdir().expect("a directory");
    dataset(root.path(), &[vec![0; 8], with_crc(index(&[(0, 8), MISSING, MISSING, MISSING]))].concat());
    let description = describe(root.path().join("0")).expect("a description");
    assert_eq!((description.arrays[0].path.as_str(), description.complete), ("", None));
    assert!(!description.ome);
    assert!(describe(root.path().join("0/c")).is_err());
}
