//! An array that is repacked by its own path: what stands around it is true of it all the same.

use super::*;

/// What this crate's writer says in a document.
fn said(file: &Path) -> Value {
    let document: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let attributes = document.get("attributes").cloned().unwrap_or(document);
    attributes["shardwright"].clone()
}

fn assert_told(path: &Path, document: &str) {
    let said = said(&path.join(document));
    assert_eq!(said.get("slots"), None);
    assert_eq!(said["chunks"], image(path).chunks_present);
    let verified = checked(path).unwrap();
    assert!(verified.is_sound(), "{:?}", verified.findings);
    assert!(!recovered(path, false).unwrap().is_needed());
}

#[test]
fn the_group_around_an_array_knows_what_became_of_it() {
    for change in [
        options(),
        RepackOptions { chunk: vec![1, 8, 8], ..options() },
        RepackOptions { codec: Some(Codec::from(Compressor::Zstd { level: 1 })), ..options() },
        RepackOptions { sharding: Sharding::Unsharded, ..options() },
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = movie(folder.path(), &config());
        let expected = pixels(&path);
        repack(&path.join("0"), None, &change);
        assert_told(&path, "zarr.json");
        assert!(pixels(&path) == expected);
    }
}

#[test]
fn consolidated_metadata_around_both_follow() {
    let folder = tempfile::tempdir().unwrap();
    let path = movie(folder.path(), &config());
    let read = |file: &Path| -> Value { serde_json::from_slice(&fs::read(file).unwrap()).unwrap() };
    let metadata = json!({
        "movie.ome.zarr": read(&path.join("zarr.json")), "movie.ome.zarr/0": read(&path.join("0/zarr.json")),
    });
    let consolidated = json!({"kind": "inline", "must_understand": false, "metadata": metadata});
    let group = json!({"zarr_format": 3, "node_type": "group", "consolidated_metadata": consolidated});
    fs::write(folder.path().join("zarr.json"), group.to_string()).unwrap();
    for (place, change) in [("", options()), ("0", RepackOptions { chunk: vec![1, 8, 8], ..options() })] {
        repack(&path.join(place), None, &change);
        let metadata = read(&folder.path().join("zarr.json"))["consolidated_metadata"]["metadata"].clone();
        assert_eq!(metadata["movie.ome.zarr"]["attributes"], read(&path.join("zarr.json"))["attributes"]);
        assert_eq!(metadata["movie.ome.zarr/0"], read(&path.join("0/zarr.json")));
    }
}

#[test]
fn what_is_given_up_of_an_array_is_missing_in_the_books_around_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = movie(folder.path(), &config());
    fs::remove_file(path.join("0/c/0/0/0")).unwrap();
    repack(&path.join("0"), None, &RepackOptions { incomplete: true, ..options() });
    assert_told(&path, "zarr.json");
    // Of nine frames, 4, 5 and 6 did not come, and 0 to 3 lack chunks.
    assert_eq!(said(&path.join("zarr.json"))["missing"], json!([[0, 7]]));
    let numbers = Array::open(path.join("records/frame_number")).unwrap().read_all().unwrap();
    let (numbers, _) = numbers.as_chunks::<8>();
    let numbers: Vec<i64> = numbers.iter().map(|number| i64::from_le_bytes(*number)).collect();
    assert_eq!(numbers, [-3, -3, -3, -3, -1, -1, -1, 7, 8]);
}

#[test]
fn an_array_of_zarr_v2_has_its_books_in_the_group_too() {
    let folder = tempfile::tempdir().unwrap();
    let movie = movie(folder.path(), &config());
    let (path, zarr2) = (folder.path().join("v2.zarr"), RepackOptions { dialect: Some(Dialect::Zarr2), ..options() });
    repack(&movie, Some(&path), &zarr2);
    repack(&path.join("0"), None, &RepackOptions { chunk: vec![1, 8, 8], ..zarr2 });
    assert_eq!(said(&path.join(".zattrs"))["chunks"], image(&path).chunks_present);
    assert_sound(&path);
}

#[test]
fn whoever_repacks_an_array_keeps_others_from_the_dataset_around_it() {
    let folder = tempfile::tempdir().unwrap();
    let movie = movie(folder.path(), &config());
    let path = folder.path().join("v2.zarr");
    let zarr2 = RepackOptions { dialect: Some(Dialect::Zarr2), ..options() };
    repack(&movie, Some(&path), &zarr2);
    for path in [&movie, &path] {
        let change = |path: &Path| {
            let dialect =
                if path.ends_with("v2.zarr") || path.ends_with("v2.zarr/0") { Dialect::Zarr2 } else { Dialect::Zarr3 };
            Repack::new(path, None, &RepackOptions { dialect: Some(dialect), chunk: vec![1, 8, 8], ..options() })
        };
        let (whole, array) = (|| change(path), || change(&path.join("0")));
        let held = array().unwrap();
        assert!(matches!(whole().unwrap_err(), Error::Locked { .. }));
        drop(held);
        let held = whole().unwrap();
        assert!(matches!(array().unwrap_err(), Error::Locked { .. }));
        drop(held);
    }
}
