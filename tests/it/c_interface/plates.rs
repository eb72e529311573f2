//! A plate as a program in C writes it.

use std::fs;

use super::building::{Program, folder};
use serde_json::{Value, json};

#[test]
fn a_plate_has_the_wells_that_were_visited() {
    let folder = folder();
    let path = folder.path().join("plate.ome.zarr");
    assert_eq!(Program::new("tests/it/c_interface/plate.c").run(&[&path]), "one well\n");
    let ome = |key: &str| -> Value {
        let document: Value = serde_json::from_slice(&fs::read(path.join(key)).unwrap()).unwrap();
        document["attributes"]["ome"].clone()
    };
    assert_eq!(ome("zarr.json")["plate"]["wells"], json!([{"path": "B/2", "rowIndex": 1, "columnIndex": 1}]));
    assert_eq!(ome("B/2/zarr.json")["well"]["images"], json!([{"path": "0", "acquisition": 5}]));
    let place = &ome("B/2/0/zarr.json")["multiscales"][0]["datasets"][0]["coordinateTransformations"][1];
    assert_eq!(place["translation"], json!([0.0, 7.0, 0.0]));
    assert!(!path.join("A").exists());
}
