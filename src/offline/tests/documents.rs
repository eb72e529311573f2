//! Documents that lie, and errors that say what is there instead.

use super::*;
use crate::ErrorKind;
use crate::offline::{Array, describe};

fn refusal(document: &Value) -> String {
    let root = tempfile::tempdir().expect("a directory");
    put(root.path(), "zarr.json", document.to_string());
    Array::open(root.path()).expect_err("refused").to_string()
}

fn plain() -> Value {
    document("uint16", &[4, 4], &[2, 2], json!([little()]))
}

#[test]
fn impossible_documents_are_refused_with_the_reason() {
    let changed = |pointer: &str, value: Value| {
        let mut document = plain();
        *document.pointer_mut(pointer).expect("a place") = value;
        document
    };
    let index = || json!([little(), {"name": "crc32c"}]);
    let shard = |chunk: &[u64], codecs| sharded(chunk, codecs, index(), "end");
    let deep = (0..6).fold(json!([little()]), |codecs, _| shard(&[1, 1], codecs));
    let uneven = shard(&[1, 2], shard(&[2, 1], json!([little()])));
    let mut packed = shard(&[1, 1], json!([little()]));
    packed.as_array_mut().expect("a list").push(json!({"name": "gzip", "configuration": {"level": 1}}));
    let transpose = |order: Value| json!({"name": "transpose", "configuration": {"order": order}});
    let cases = [
        (changed("/zarr_format", json!(4)), "zarr_format is 4; expected 3"),
        (changed("/node_type", json!("table")), "node_type is \"table\"; expected \"array\" or \"group\""),
        (changed("/data_type", json!("a\u{1}b")), "data_type \"a\\u0001b\" is not read here"),
        (changed("/shape", json!([4])), "chunk_shape"),
        (changed("/data_type", json!("r12")), "data_type \"r12\" is not read here"),
        (changed("/fill_value", json!(65536)), "fill_value 65536 is no uint16"),
        (changed("/fill_value", json!(null)), "fill_value is null"),
        (changed("/chunk_grid/name", json!("rectilinear")), "chunk_grid"),
        (changed("/chunk_grid/configuration/chunk_shape", json!([0, 2])), "numbers above 0"),
        (changed("/chunk_grid/configuration/chunk_shape", json!([u64::MAX, 2])), "over 4294967296 bytes"),
        (changed("/chunk_key_encoding", json!("fancy")), "chunk_key_encoding"),
        (changed("/codecs", json!({"name": "bytes"})), "expected a list"),
        (changed("/codecs", json!([])), "has no codec, such as `bytes`"),
        (changed("/codecs", json!(["bytes"])), "endian"),
        (changed("/codecs", json!([transpose(json!([1, 1])), little()])), "expected 2 dimensions, each once"),
        (changed("/codecs", json!([transpose(json!([1, 0, 2])), little()])), "expected 2 dimensions, each once"),
        (changed("/codecs", json!([transpose(json!("f")), little()])), "expected 2 dimensions, each once"),
        (changed("/codecs", json!([transpose(json!([1, 0]))])), "has no codec, such as `bytes`"),
        (changed("/codecs", json!([little(), transpose(json!([1, 0]))])), "transpose"),
        (changed("/codecs", json!([little(), {"name": "unheard-of"}])), "unheard-of"),
        (changed("/codecs", deep), "shards within shards are read 4 deep"),
        (changed("/codecs", uneven), "chunks of [2, 1] don't divide shards of [1, 2]"),
        (changed("/codecs", packed), "compressed as a whole"),
        (changed("/codecs", sharded(&[2, 2], json!([little()]), index(), "middle")), "index_location"),
        (
            changed("/codecs", sharded(&[2, 2], json!([little()]), json!([little(), {"name": "gzip"}]), "end")),
            "index_codecs",
        ),
        (changed("/codecs", sharded(&[2, 2], json!([little()]), json!([]), "end")), "index_codecs"),
    ];
    for (document, expected) in cases {
        let message = refusal(&document);
        assert!(message.contains(expected), "{message:?} lacks {expected:?}");
    }
}

#[test]
fn unknown_fields_are_passed_over_only_when_they_allow_it() {
    let mut document = plain();
    document["extension"] = json!({"name": "x", "must_understand": true});
    assert!(refusal(&document).contains("\"extension\" is not known here"));
    document["extension"]["must_understand"] = json!(false);
    let root = tempfile::tempdir().expect("a directory");
    put(root.path(), "zarr.json", document.to_string());
    Array::open(root.path()).expect("an array");
    document["storage_transformers"] = json!([{"name": "chunk-manifest-json"}]);
    assert!(refusal(&document).contains("chunk-manifest-json"));
}

#[test]
fn what_is_no_array_is_named() {
    let root = tempfile::tempdir().expect("a directory");
    let path = root.path();
    let message = || Array::open(path).expect_err("no array").to_string();
    assert!(message().contains("neither zarr.json nor .zarray"));
    put(path, "zarr.json", json!({"zarr_format": 3, "node_type": "group", "attributes": "text"}).to_string());
    assert!(message().contains("is a group; there is nothing in it"));
    put(path, "raw/zarr.json", plain().to_string());
    put(path, "labels/zarr.json", json!({"zarr_format": 3, "node_type": "group"}).to_string());
    assert!(message().contains("is a group and no image; name an array in it: "));
    assert!(Array::open(path.join("zarr.json")).expect_err("a file").to_string().contains("is a file"));
    assert!(Array::open(path.join("nowhere")).expect_err("nothing").to_string().contains("nowhere"));
}

#[test]
fn an_image_must_not_lead_out_of_its_group() {
    let root = tempfile::tempdir().expect("a directory");
    put(root.path(), "secret/zarr.json", plain().to_string());
    for dataset in ["../secret", "/etc", "", "a/../../secret", "."] {
        let ome = json!({"multiscales": [{"datasets": [{"path": dataset}]}]});
        let group = json!({"zarr_format": 3, "node_type": "group", "attributes": {"ome": ome}});
        put(root.path(), "image/zarr.json", group.to_string());
        let error = Array::open(root.path().join("image")).expect_err("out of the group");
        assert!(error.to_string().contains("not below it"), "{error}");
    }
}

#[test]
fn a_link_that_leads_back_up_does_not_trap_the_walk() {
    let root = tempfile::tempdir().expect("a directory");
    put(root.path(), "zarr.json", json!({"zarr_format": 3, "node_type": "group"}).to_string());
    put(root.path(), "0/zarr.json", plain().to_string());
    std::os::unix::fs::symlink(root.path(), root.path().join("again")).expect("a link");
    let description = describe(root.path()).expect("a description");
    assert_eq!(description.arrays.len(), 1);
}

#[test]
fn what_is_not_read_is_described_beside_what_is() {
    let root = tempfile::tempdir().expect("a directory");
    put(root.path(), "zarr.json", json!({"zarr_format": 3, "node_type": "group"}).to_string());
    put(root.path(), "0/zarr.json", plain().to_string());
    let names = document("string", &[7], &[2], json!([{"name": "vlen-utf8"}]));
    put(root.path(), "names/zarr.json", names.to_string());
    let description = describe(root.path()).expect("a description");
    assert_eq!(description.arrays.len(), 1);
    let [unread] = description.unreadable.as_slice() else { panic!("one array, not {:?}", description.unreadable) };
    assert_eq!((unread.path.as_str(), unread.shape.as_deref()), ("names", Some([7].as_slice())));
    assert_eq!(unread.dtype.as_deref(), Some("string"));
    assert!(unread.reason.contains("\"string\" is not read here"), "{}", unread.reason);
    assert!(describe(root.path().join("names")).is_err(), "there is nothing else");
}

#[test]
fn a_later_version_of_zarr_is_not_read_and_no_damage() {
    let root = tempfile::tempdir().expect("a directory");
    put(root.path(), "zarr.json", json!({"zarr_format": 4, "node_type": "group"}).to_string());
    let error = describe(root.path()).expect_err("nothing is known of it");
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
}
