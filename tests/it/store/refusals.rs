//! What the store refuses, and that it changes nothing then.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use shardwright::offline::{Array, Store, Verify, VerifyOptions};
use shardwright::{Acquisition, Config, Dim, Error, ErrorKind};

fn make(path: &Path) {
    let dims = vec![Dim::time(None).chunk(4).shard(16), Dim::y(16), Dim::x(16)];
    let acquisition = Acquisition::create(path, Config { dims, ring_bytes: 1 << 20, ..Config::default() }).unwrap();
    assert_eq!(acquisition.append(&[1; 512 * 40]).unwrap().frames, 40);
    acquisition.finish().unwrap();
}

/// All files below a folder but its lock.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if !path.ends_with(".shardwright.lock") {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    found
}

fn write(path: PathBuf) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, "mine").unwrap();
}

#[test]
fn a_folder_that_is_no_dataset_is_not_edited() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    write(home.join("letters/to_mother.txt"));
    write(home.join(".profile"));
    let before = files(&home);
    let error = Store::edit(&home).unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error}");
    assert_eq!(Store::edit(home.join(".profile")).unwrap_err().kind(), ErrorKind::NotFound);
    assert!(!home.join(".shardwright.lock").exists());
    assert_eq!(files(&home), before);
    // A dataset may begin in an empty one.
    let empty = folder.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let store = Store::edit(&empty).unwrap();
    store.set("zarr.json", br#"{"zarr_format": 3, "node_type": "group"}"#).unwrap();
    store.finish().unwrap();
    Store::edit(&empty).unwrap();
}

#[test]
fn what_is_no_key_of_a_dataset_is_never_erased() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    make(&home.join("data/run.zarr"));
    for name in ["letters/to_mother.txt", "notes.txt", ".git/config", "data/run.zarr/.git/config"] {
        write(home.join(name));
    }
    for (path, left) in [("data/run.zarr", 4), ("", 4)] {
        let store = Store::edit(home.join(path)).unwrap();
        assert!(store.list().unwrap().iter().all(|key| !key.contains(".git")));
        assert!(store.get(".git/config").is_err() && store.set(".git/config", b"x").is_err());
        store.erase_prefix("").unwrap();
        store.finish().unwrap();
        assert_eq!(files(&home).len(), left, "{:?}", files(&home).keys());
        if path.is_empty() {
            break;
        }
        make(&home.join("data/other.zarr"));
    }
}

#[test]
fn a_document_that_is_refused_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    make(&path);
    let store = Store::edit(&path).unwrap();
    let before = files(&path);
    let bad: [&[u8]; 6] =
        [b"garbage", b"{}", b"[]", b"", br#"{"zarr_format": 3}"#, br#"{"zarr_format": 3, "node_type": "array"}"#];
    for key in ["zarr.json", "0/zarr.json", "records/zarr.json", "records/frame_number/zarr.json", "new/zarr.json"] {
        for value in bad {
            let error = store.set(key, value).expect_err(key);
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{key}: {error}");
            assert_eq!(files(&path), before, "{key}");
        }
    }
    // Readable by itself, but not what is said of the image in it.
    let own = br#"{"zarr_format": 3, "node_type": "group", "attributes": {"shardwright": {"version": 1, "slots": 7}}}"#;
    if let Err(error) = store.set("zarr.json", own) {
        assert_eq!(files(&path), before, "{error}");
    } else {
        store.set("zarr.json", &before[&path.join("zarr.json")]).unwrap();
    }
    let mut group: serde_json::Value = serde_json::from_slice(&before[&path.join("zarr.json")]).unwrap();
    group["attributes"]["mine"] = 7.into();
    store.set("zarr.json", group.to_string().as_bytes()).unwrap();
    store.finish().unwrap();
    assert_eq!(Array::open(&path).unwrap().shape(), [40, 16, 16]);
    assert!(Verify::new(&path, &VerifyOptions::default()).unwrap().run().unwrap().findings.is_empty());
}

#[test]
fn what_is_almost_the_key_of_a_chunk_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    make(&path);
    let store = Store::edit(&path).unwrap();
    let before = files(&path);
    for key in ["0/c/1/0/0x", "0/c/x", "0/c/1/x", "0/c/1/0/0/0", "0/c/01/0/0", "0/c/1/0/zarr.json", "0/c/-1/0/0"] {
        let error = store.set(key, b"x").expect_err(key);
        assert!(matches!(error, Error::Config { field: "key", .. }), "{key}: {error}");
    }
    assert_eq!(files(&path), before);
    store.set("0/notes", b"x").unwrap();
    assert!(store.list().unwrap().contains(&"0/notes".to_owned()));
    store.erase_prefix("").unwrap();
    assert_eq!(files(&path).len(), 0);
}
