//! An OME-Zarr image opens as its finest array, and its units are looked at.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use shardwright::offline::{Array, describe};
use shardwright::{Acquisition, Config, Dim, Memory};

fn put(root: &Path, key: &str, document: &Value) {
    let path = root.join(key);
    fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
    fs::write(path, document.to_string()).expect("a file");
}

fn array(shape: &[u64]) -> Value {
    json!({
        "zarr_format": 3, "node_type": "array", "shape": shape, "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": shape}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 3, "codecs": [{"name": "bytes"}], "dimension_names": ["y", "x"],
    })
}

#[test]
fn the_first_dataset_of_an_image_is_opened() {
    let root = tempfile::tempdir().expect("a directory");
    let ome = json!({"version": "0.5", "multiscales": [{"datasets": [{"path": "full/0"}, {"path": "half"}]}]});
    put(root.path(), "zarr.json", &json!({"zarr_format": 3, "node_type": "group", "attributes": {"ome": ome}}));
    put(root.path(), "full/zarr.json", &json!({"zarr_format": 3, "node_type": "group"}));
    put(root.path(), "full/0/zarr.json", &array(&[4, 2]));
    put(root.path(), "half/zarr.json", &array(&[2, 1]));

    let opened = Array::open(root.path()).expect("an array");
    assert_eq!(opened.shape(), [4, 2]);
    assert_eq!(opened.dimension_names().expect("names"), ["y", "x"]);
    assert_eq!(opened.read_all().expect("pixels"), [3; 8]);

    let description = describe(root.path()).expect("a description");
    let paths: Vec<_> = description.arrays.iter().map(|array| array.path.as_str()).collect();
    assert_eq!(paths, ["full/0", "half"]);
    assert!(description.ome);
    assert_eq!(description.complete, None);
}

#[test]
fn a_dataset_that_is_a_group_is_told_apart() {
    let root = tempfile::tempdir().expect("a directory");
    let ome = json!({"version": "0.5", "multiscales": [{"datasets": [{"path": "0"}]}]});
    put(root.path(), "zarr.json", &json!({"zarr_format": 3, "node_type": "group", "attributes": {"ome": ome}}));
    put(root.path(), "0/zarr.json", &json!({"zarr_format": 3, "node_type": "group"}));
    let message = Array::open(root.path()).expect_err("no array").to_string();
    assert!(message.contains("first dataset \"0\" is a group"), "{message}");
}

#[test]
fn units_that_ome_zarr_does_not_list_are_noted() {
    let noted = |time: Option<&str>, y: &str| {
        let dim = |dim: Dim, unit: Option<&str>| Dim { unit: unit.map(str::to_owned), ..dim };
        let dims = vec![dim(Dim::time(Some(1)), time), dim(Dim::y(4), Some(y)), Dim::x(4)];
        let config = Config { dims, ring_bytes: 1 << 20, ..Config::default() };
        let acquisition = Acquisition::create_in(Arc::new(Memory::new()), config).unwrap();
        assert_eq!(acquisition.append(&[1; 32]).unwrap().frames, 1);
        acquisition.finish().unwrap().notes.into_iter().filter(|note| note.contains("no unit")).collect::<Vec<_>>()
    };
    assert!(noted(None, "micrometer").is_empty() && noted(Some("millisecond"), "inch").is_empty());
    let notes = noted(Some("ms"), "µm");
    assert_eq!(notes.len(), 2);
    assert!(notes[0].starts_with("dimension t: \"ms\"") && notes[0].ends_with("such as millisecond"), "{}", notes[0]);
    assert!(notes[1].starts_with("dimension y: \"µm\"") && notes[1].ends_with("such as micrometer"), "{}", notes[1]);
}
