//! What a check says of a dataset that is changed while it is checked.

use std::fs;
use std::path::{Path, PathBuf};

use super::{document, little, put};
use crate::error::Error;
use crate::fs::Lock;
use crate::offline::hierarchy::walk::Tree;
use crate::offline::{Array, Verify, VerifyOptions};
use serde_json::json;

fn array(folder: &Path) -> PathBuf {
    let path = folder.join("a.zarr");
    put(&path, "zarr.json", document("uint16", &[2], &[2], json!([little()])).to_string());
    put(&path, "c/0", [1, 0, 2, 0]);
    path
}

#[test]
#[cfg_attr(miri, ignore = "miri has no locks")]
fn a_check_is_of_one_dataset_that_stood_still() {
    let folder = tempfile::tempdir().unwrap();
    let path = array(folder.path());
    let verify = Verify::new(&path, &VerifyOptions::default()).unwrap();
    let tree = Tree::walk(&path).unwrap();
    let lock = Lock::take(&path).unwrap();
    for is_sound in [true, false] {
        assert!(matches!(verify.refuse_changed(&tree, is_sound), Err(Error::Locked { .. })));
    }
    drop(lock);
    verify.refuse_changed(&tree, false).unwrap();
    // A writer has come and gone: what is sound is so still, and what seems damaged may only be new.
    std::thread::sleep(std::time::Duration::from_millis(20));
    put(&path, "zarr.json", document("uint16", &[2], &[2], json!([little()])).to_string() + " ");
    verify.refuse_changed(&tree, true).unwrap();
    assert!(matches!(verify.refuse_changed(&tree, false), Err(Error::Conflict { .. })));
    fs::rename(&path, folder.path().join("elsewhere")).unwrap();
    array(folder.path());
    assert!(matches!(verify.refuse_changed(&tree, true), Err(Error::Conflict { .. })));
}

#[test]
#[cfg_attr(miri, ignore = "miri has no files of its own")]
fn what_an_array_was_replaced_by_is_not_called_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let path = array(folder.path());
    let opened = Array::open(&path).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(20));
    put(&path, "c/0", [1, 0]);
    let told = opened.read_all().unwrap_err();
    assert!(matches!(told, Error::Format { .. }), "{told}");
    // Its chunks are shorter by now, and its document says so.
    put(&path, "zarr.json", document("uint8", &[2], &[2], json!([little()])).to_string());
    let told = opened.read_all().unwrap_err();
    assert!(told.to_string().contains("changed while it was read"), "{told}");
}
