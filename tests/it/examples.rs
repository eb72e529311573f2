//! Examples that show more than calls: they run, and what they write is read back.

#[allow(unreachable_pub)]
#[path = "../../examples/labels.rs"]
mod labels;
#[allow(unreachable_pub)]
#[path = "../../examples/storage.rs"]
mod storage;

use serde_json::{Value, json};
use shardwright::offline::Array;

use crate::common::checked;

#[test]
fn a_storage_of_ones_own_gives_the_frames_that_went_in() {
    let folder = tempfile::tempdir().unwrap();
    storage::run(folder.path(), 100).unwrap();
    let expected: Vec<u8> = (1..=100).flat_map(|number| [number; 64 * 64]).collect();
    assert!(Array::open(folder.path().join("0")).unwrap().read_all().unwrap() == expected);
    assert!(checked(folder.path()).unwrap().is_sound());
    // Seven shards, and each was put when it was whole.
    assert_eq!(std::fs::read_dir(folder.path().join("0/c")).unwrap().count(), 7);
    // What is there is not written over.
    assert!(storage::run(folder.path(), 1).unwrap_err().to_string().contains("already holds something"));
}

#[test]
fn labels_are_those_of_the_frames_that_they_came_with() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("labels.ome.zarr");
    labels::run(&path).unwrap();
    let read = |name: &str| Array::open(path.join(name)).unwrap().read_all().unwrap();
    let (image, found) = (read("division/0"), read("division/labels/cells/0"));
    let pixels = image.as_chunks().0.iter().map(|pixel| u16::from_le_bytes(*pixel));
    let label_of = |pixel| [100, 900, 2_000].iter().position(|value| *value == pixel).unwrap() as u8;
    assert!(found.iter().copied().eq(pixels.map(label_of)));
    assert!((0..3).all(|label| found.contains(&label)));
    assert_eq!(read("division/1").len(), 2 * read("division/labels/cells/1").len());
    let document = std::fs::read(path.join("division/labels/cells/zarr.json")).unwrap();
    let document: Value = serde_json::from_slice(&document).unwrap();
    let label = &document["attributes"]["ome"]["image-label"];
    assert_eq!(label["colors"][1], json!({"label-value": 2, "rgba": [0, 160, 255, 160]}));
    assert_eq!(label["properties"][0], json!({"label-value": 1, "class": "mother"}));
    assert!(checked(&path).unwrap().is_sound());
}
