//! Images at keys of a hierarchy: what others wrote there stays as it is, and what is in the way is refused.

use std::fs;
use std::path::Path;

use crate::common::stopped::{self, commit, files, sound};
use crate::common::{frame, recovered};
use serde_json::{Value, json};
use shardwright::offline::Array;
use shardwright::{Acquisition, Config, Dataset, Dialect, Dim, Dtype, Error, ManifestForm, Memory};

fn config(key: &str) -> Config {
    Config {
        dtype: Dtype::U8,
        dims: vec![Dim::time(None).chunk(1).shard(4), Dim::y(8).chunk(4), Dim::x(8)],
        key: Some(key.to_owned()),
        ring_bytes: 64 * 4096,
        workers: 1,
        sync: false,
        ..Config::default()
    }
}

fn put(folder: &Path, document: &Value) {
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("zarr.json"), serde_json::to_vec(document).unwrap()).unwrap();
}

fn group(attributes: Value) -> Value {
    json!({"zarr_format": 3, "node_type": "group", "attributes": attributes})
}

fn refused(root: &Path, config: Config) -> String {
    let before = if root.is_dir() { files(root) } else { Default::default() };
    let error = Acquisition::create(root, config).unwrap_err();
    let after = if root.is_dir() { files(root) } else { Default::default() };
    assert!(before == after, "{error}");
    error.to_string()
}

#[test]
fn others_documents_stay_and_groups_on_the_way_are_made() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("study.zarr");
    put(&root, &group(json!({"title": "theirs"})));
    put(&root.join("raw"), &group(json!({"ome": {"version": "0.5", "bioformats2raw.layout": 3}})));
    let before = files(&root);
    for key in ["raw/day-1/camera", "raw/day-1/camera-2", "other"] {
        let config = config(key);
        let acquisition = Acquisition::create(&root, config.clone()).unwrap();
        (0..9).for_each(|number| commit(&acquisition, &config, number));
        let summary = acquisition.finish().unwrap();
        let says = summary.notes.iter().any(|note| note.contains("raw lists images (its bioformats2raw.layout)"));
        assert_eq!(says, key.starts_with("raw"), "{:?}", summary.notes);
        let array = Array::open(root.join(key)).unwrap();
        assert_eq!(array.shape(), [9, 8, 8]);
        assert_eq!(array.read_all().unwrap(), (0..9).flat_map(|number| frame(number, 64)).collect::<Vec<_>>());
    }
    let after = files(&root);
    assert!(before.iter().all(|(path, bytes)| after.get(path) == Some(bytes)));
    let made: Value = serde_json::from_slice(&fs::read(root.join("raw/day-1/zarr.json")).unwrap()).unwrap();
    assert_eq!((&made["zarr_format"], &made["node_type"]), (&json!(3), &json!("group")));
    assert_eq!(sound(&root).arrays.iter().filter(|array| array.path.ends_with("/0")).count(), 3);
}

#[test]
fn a_hierarchy_that_is_not_there_is_made_and_goes_if_nothing_comes() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("new.zarr");
    Acquisition::create(&root, config("a/b/c")).unwrap().abort();
    assert!(!root.exists());
    let empty = folder.path().join("empty.zarr");
    fs::create_dir(&empty).unwrap();
    Acquisition::create(&empty, config("a")).unwrap().abort();
    assert!(files(&empty).is_empty());
    // What another came to be meanwhile keeps its groups.
    let (first, second) = (config("a/b"), config("a/c"));
    let one = Acquisition::create(&root, first).unwrap();
    let other = Acquisition::create(&root, second.clone()).unwrap();
    commit(&other, &second, 0);
    other.finish().unwrap();
    one.abort();
    assert!(root.join("a/zarr.json").is_file() && !root.join("a/b").exists());
    sound(&root);
}

#[test]
fn a_run_that_was_stopped_is_recovered_by_the_hierarchy_s_path() {
    let folder = tempfile::tempdir().unwrap();
    let left = stopped::stopped(folder.path(), &config("deep/down"), &(0..6).collect::<Vec<_>>(), 6);
    let found = recovered(&left, true).unwrap();
    assert_eq!((found.images[0].path.as_str(), found.images[0].frames), ("deep/down/0", 6));
    sound(&left);
}

#[test]
fn what_is_in_the_way_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("study.zarr");
    put(&root, &group(json!({})));
    put(&root.join("array"), &json!({"zarr_format": 3, "node_type": "array"}));
    fs::create_dir(root.join("old")).unwrap();
    fs::write(root.join("old/.zgroup"), "{\"zarr_format\": 2}").unwrap();
    let consolidated = json!({"kind": "inline", "must_understand": false, "metadata": {}});
    let mut document = group(json!({}));
    document["consolidated_metadata"] = consolidated;
    put(&root.join("flat"), &document);
    fs::write(root.join("file"), "x").unwrap();
    fs::create_dir(folder.path().join("plain")).unwrap();
    fs::write(folder.path().join("plain/notes.txt"), "x").unwrap();
    for (key, reason) in [
        ("array/a", "is no group of Zarr v3"),
        ("old/a", "is of Zarr v2 (.zgroup)"),
        ("flat/a", "has consolidated metadata"),
        ("file/a", "is a file"),
        ("a//b", "names with a / between them"),
        ("../a", "names with a / between them"),
        ("", "names with a / between them"),
    ] {
        let message = refused(&root, config(key));
        assert!(message.contains(reason), "{key}: {message}");
    }
    let message = refused(&folder.path().join("plain"), config("a"));
    assert!(message.contains("a folder with files in it"), "{message}");
    // Also around the hierarchy.
    let message = refused(&root.join("flat/inner"), config("a"));
    assert!(message.contains("has consolidated metadata"), "{message}");
    assert!(matches!(Acquisition::create(&root, config("flat")), Err(Error::Exists { .. })));
    let manifest = Config { manifest: vec![ManifestForm::Kerchunk], ..config("a") };
    assert!(refused(&root, manifest).contains("would be a part of this hierarchy"));
    let dialect = Config { dialect: Dialect::Zarr2Sharded, ..config("a") };
    assert!(Acquisition::create(&root, dialect).is_err());
    let elsewhere = "only an image that is created at a path";
    let error = Acquisition::create_in(std::sync::Arc::new(Memory::new()), config("a")).unwrap_err();
    assert!(error.to_string().contains(elsewhere), "{error}");
    let dataset = Dataset::create(folder.path().join("many")).unwrap();
    assert!(dataset.acquisition("a", config("b")).unwrap_err().to_string().contains(elsewhere));
}
