//! What `overwrite` takes within a hierarchy: an image of this writer, and nothing that is a part of something else.

use std::fs;
use std::path::Path;

use crate::common::stopped::{commit, files};
use crate::common::{frame, tiny};
use serde_json::{Value, json};
use shardwright::offline::Array;
use shardwright::{Acquisition, Config, Dataset, Downsampling};

fn config(key: Option<&str>) -> Config {
    Config { key: key.map(str::to_owned), overwrite: true, ..tiny(None, 32) }
}

fn put(node: &Path, document: &Value) {
    fs::create_dir_all(node).unwrap();
    fs::write(node.join("zarr.json"), serde_json::to_vec(document).unwrap()).unwrap();
}

fn group(attributes: Value) -> Value {
    json!({"zarr_format": 3, "node_type": "group", "attributes": attributes})
}

fn array() -> Value {
    json!({"zarr_format": 3, "node_type": "array", "shape": [4], "data_type": "uint8"})
}

/// Writes an image of so many frames.
fn image(path: &Path, config: &Config, frames: u64) {
    let acquisition = Acquisition::create(path, config.clone()).unwrap();
    (0..frames).for_each(|number| commit(&acquisition, config, number));
    acquisition.finish().unwrap();
}

/// Checks that nothing below `root` is replaced, and that the refusal says why and what to do.
fn refused(root: &Path, path: &Path, key: Option<&str>, says: &[&str]) {
    let before = files(root);
    match Acquisition::create(path, config(key)) {
        Ok(run) => {
            run.abort();
            panic!("{} {key:?} was replaced", path.display());
        }
        Err(error) => says.iter().for_each(|part| assert!(error.to_string().contains(part), "{error}")),
    }
    assert!(files(root) == before);
}

/// As zarr-python leaves it: a group, in it a group with two arrays.
fn foreign(root: &Path) {
    put(root, &group(json!({})));
    put(&root.join("raw"), &group(json!({})));
    for name in ["raw/irreplaceable", "raw/other"] {
        put(&root.join(name), &array());
        fs::create_dir_all(root.join(name).join("c")).unwrap();
        fs::write(root.join(name).join("c/0"), "data").unwrap();
    }
}

#[test]
fn another_writer_s_arrays_and_groups_stay() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("lab.zarr");
    foreign(&root);
    let only = "overwrite replaces nothing else within a hierarchy; choose another key";
    refused(&root, &root, Some("raw/irreplaceable"), &["raw/irreplaceable: is an array", "no image of this", only]);
    refused(&root, &root, Some("raw"), &["raw: is a group with irreplaceable, other in it", "no image of this", only]);
    // Said as a path, it is the same node.
    let elsewhere = "within a hierarchy; choose another path";
    refused(&root, &root.join("raw/other"), None, &["is an array", elsewhere]);
    refused(&root, &root.join("raw"), None, &["is a group with irreplaceable, other in it", elsewhere]);
    assert!(Dataset::create_or_replace(root.join("raw")).unwrap_err().to_string().contains(elsewhere));
    put(&root.join("noted"), &group(json!({"operator": "Ada"})));
    refused(&root, &root, Some("noted"), &["noted: is a group with attributes"]);
    fs::create_dir(root.join("old")).unwrap();
    fs::write(root.join("old/.zarray"), r#"{"zarr_format": 2, "shape": [1]}"#).unwrap();
    refused(&root, &root, Some("old"), &["old: is a node of Zarr v2"]);
    // As a whole, and as a path of its own, it is a dataset like others.
    image(&root, &config(None), 3);
    assert!(!root.join("raw").exists());
}

#[test]
fn a_group_of_images_and_a_level_stay() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("h1");
    for key in ["raw/camera-1", "raw/camera-2"] {
        image(&root, &config(Some(key)), 5);
    }
    refused(&root, &root, Some("raw"), &["is a group with camera-1, camera-2 in it"]);
    let pyramid = Some(Downsampling { levels: Some(1), ..Downsampling::default() });
    image(&root, &Config { pyramid, ..config(Some("raw/camera-2")) }, 5);
    for level in ["0", "1"] {
        let says = ["of the image", "raw/camera-2"];
        refused(&root, &root.join("raw/camera-2").join(level), None, &says);
        refused(&root, &root, Some(&format!("raw/camera-2/{level}")), &says);
    }
}

#[test]
fn an_image_of_this_writer_and_an_empty_group_are_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("lab.zarr");
    foreign(&root);
    image(&root, &config(Some("mine")), 5);
    image(&root, &config(Some("mine")), 3);
    assert_eq!(Array::open(root.join("mine/0")).unwrap().shape()[0], 3);
    image(&root.join("mine"), &config(None), 2);
    let array = Array::open(root.join("mine/0")).unwrap();
    assert_eq!(array.read_all().unwrap(), (0..2).flat_map(|number| frame(number, 256)).collect::<Vec<_>>());
    put(&root.join("empty"), &group(json!({})));
    image(&root, &config(Some("empty")), 1);
    // What a writer left that was killed before its first document.
    fs::create_dir(root.join("stopped")).unwrap();
    fs::write(root.join("stopped/.shardwright.lock"), "").unwrap();
    image(&root, &config(Some("stopped")), 1);
}
