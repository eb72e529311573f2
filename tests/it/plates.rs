//! Plates: wells in any order, fewer frames in some than in others, and a plate that is stopped before its end.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::common::stopped::{files, restore, sound, written};
use crate::common::{frame, recovered, tiny};
use serde_json::{Value, json};
use shardwright::offline::{Array, Repack, RepackOptions};
use shardwright::{Acquisition, Config, Dataset, Dim, Error, OmeVersion, Plate, Record};

const FRAME_BYTES: usize = 64;

fn config(acquisition: Option<u64>) -> Config {
    let place = |dim: Dim, at: f64| dim.scale(0.5, "micrometer").translation(at);
    let dims = vec![Dim::time(None).chunk(1).shard(4), place(Dim::y(8), 10.0), place(Dim::x(8), -3.5)];
    Config { dims, plate_acquisition: acquisition, workers: 2, ..tiny(None, FRAME_BYTES) }
}

fn write(acquisition: &Acquisition, from: u64, to: u64) {
    for number in from..to {
        let mut slot = acquisition.acquire().unwrap();
        slot.copy_from_slice(&frame(number, FRAME_BYTES));
        slot.commit(number, Record::default()).unwrap();
    }
}

fn ome(folder: &Path) -> Value {
    let document: Value = serde_json::from_slice(&fs::read(folder.join("zarr.json")).unwrap()).unwrap();
    document["attributes"]["ome"].clone()
}

fn paths(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|entry| entry["path"].as_str().unwrap()).collect()
}

/// The names in a folder.
fn names(folder: &Path) -> BTreeSet<String> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_plate_lists_the_wells_that_were_written_whatever_the_order_of_the_stage() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plate.ome.zarr");
    let plate = Plate::new(3, 4).named("assay").acquisition(3, "before").acquisition(8, "after");
    let dataset = Dataset::create(&path).unwrap().with_plate(plate).unwrap();
    // Some begin together, some when the stage gets there; of these some never see a frame.
    let planned = ["C/4/0", "A/1/0", "A/1/1", "B/2/0", "A/3/0"];
    let mut runs = dataset.acquisitions(planned.map(|name| (name, config(Some(3))))).unwrap();
    runs.push(dataset.acquisition("A/1/2", config(Some(8))).unwrap());
    runs.push(dataset.acquisition("B/4/0", config(Some(8))).unwrap());
    for (at, frames) in [(1, 5), (0, 2), (5, 3), (1, 7), (0, 3)] {
        let from = runs[at].next_number();
        write(&runs[at], from, from + frames);
    }
    let last = runs.pop().unwrap();
    let summaries = Acquisition::finish_all(runs);
    let written: Vec<u64> = summaries.into_iter().map(|summary| summary.unwrap().frames_written).collect();
    assert_eq!(written, [5, 12, 0, 0, 0, 3]);
    last.finish().unwrap();
    drop(dataset);

    let root = ome(&path);
    assert_eq!(paths(&root["plate"]["wells"]), ["A/1", "C/4"]);
    assert_eq!((&root["plate"]["field_count"], &root["plate"]["name"]), (&json!(2), &json!("assay")));
    let fields: Vec<_> = root["plate"]["acquisitions"].as_array().unwrap().iter().collect();
    assert_eq!((fields.len(), &fields[0]["maximumfieldcount"], &fields[1]["id"]), (2, &json!(1), &json!(8)));
    let images = &ome(&path.join("A/1"))["well"]["images"];
    assert_eq!(*images, json!([{"path": "0", "acquisition": 3}, {"path": "2", "acquisition": 8}]));
    // In the order of the XML, which is that in which they were begun.
    assert_eq!(root["bioformats2raw.layout"], 3);
    assert_eq!(ome(&path.join("OME"))["series"], json!(["C/4/0", "A/1/0", "A/1/2"]));
    let xml = fs::read_to_string(path.join("OME/METADATA.ome.xml")).unwrap();
    let at = |name: &str| xml.find(&format!("Name=\"{name}\"")).unwrap();
    assert!(at("C/4/0") < at("A/1/0") && at("A/1/0") < at("A/1/2"));
    assert_eq!((xml.matches("<Image ").count(), xml.matches("SizeT=\"12\"").count()), (3, 1));
    assert!(xml.contains("PositionX=\"-3.5\" PositionXUnit=\"µm\" PositionY=\"10\""), "{xml}");
    // Nothing is left of the others.
    assert_eq!(names(&path), ["A", "C", "OME", "zarr.json"].map(String::from).into());
    assert_eq!(names(&path.join("A")), ["1", "zarr.json"].map(String::from).into());
    assert_eq!(names(&path.join("A/1")), ["0", "2", "zarr.json"].map(String::from).into());
    let read = |name: &str| Array::open(path.join(name).join("0")).unwrap().read_all().unwrap();
    assert_eq!(read("A/1/0"), (0..12).flat_map(|number| frame(number, FRAME_BYTES)).collect::<Vec<_>>());
    assert_eq!(read("C/4/0").len(), 5 * FRAME_BYTES);
    sound(&path);
}

/// Which fields a well's scene places in the world; none: it has no scene.
fn placed(well: &Path) -> Vec<String> {
    let scene = &ome(well)["scene"];
    let ways = scene["coordinateTransformations"].as_array().map(Vec::as_slice).unwrap_or_default();
    assert!(ways.iter().all(|way| way["output"]["name"] == scene["coordinateSystems"][0]["name"]), "{scene}");
    ways.iter().map(|way| way["input"]["path"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_fields_of_a_well_are_beside_each_other_in_a_scene_of_the_well() {
    let folder = tempfile::tempdir().unwrap();
    let (live, left) = (folder.path().join("live"), folder.path().join("left.ome.zarr"));
    let dataset = Dataset::create(&live).unwrap().with_plate(Plate::new(2, 2)).unwrap();
    let newer = |place: f64| {
        let mut config = Config { ome: OmeVersion::V0_6, ..config(None) };
        config.dims.iter_mut().skip(1).for_each(|dim| dim.translation = place);
        config
    };
    let fields = [("A/1/0", 0.0), ("A/1/1", 4.0), ("A/1/2", 8.0), ("B/2/0", 0.0), ("A/2/0", 5.0)];
    let runs = dataset.acquisitions(fields.map(|(name, place)| (name, newer(place)))).unwrap();
    assert_eq!(placed(&live.join("A/1")), ["0", "1", "2"]);
    for (run, frames) in runs.iter().zip([2, 0, 3, 1, 0]) {
        write(run, 0, frames);
        written(run, frames);
    }
    restore(&left, &files(&live));
    let ends = |path: &Path| {
        assert_eq!(placed(&path.join("A/1")), ["0", "2"], "nothing came to field 1");
        // Nobody said where the field of the other well is, and the plate itself is no scene.
        assert_eq!((placed(&path.join("B/2")), placed(path)), (Vec::new(), Vec::new()));
        assert_eq!(paths(&ome(path)["plate"]["wells"]), ["A/1", "B/2"]);
        sound(path);
    };
    recovered(&left, true).unwrap();
    ends(&left);
    Acquisition::finish_all(runs).into_iter().for_each(|run| assert!(run.is_ok()));
    drop(dataset);
    ends(&live);
}

/// Of tiles, in a dataset and on a plate, what is repacked says what is written live.
#[test]
fn tiles_that_are_said_in_0_6_have_the_scenes_of_those_that_are_written_so() {
    let folder = tempfile::tempdir().unwrap();
    let tile = |at: usize, ome| {
        let mut config = Config { ome, ..config(None) };
        config.dims.iter_mut().skip(1).for_each(|dim| dim.translation = 4.0 * at as f64);
        config
    };
    for (plate, names) in [(None, ["a", "b", "c"]), (Some(Plate::new(2, 2)), ["A/1/0", "A/1/1", "B/2/0"])] {
        let path = |name: &str| folder.path().join(format!("{}-{name}", names[0].replace('/', "")));
        for ome in [OmeVersion::V0_5, OmeVersion::V0_6] {
            let dataset = Dataset::create(path(ome.name())).unwrap();
            let dataset = plate.iter().fold(dataset, |dataset, plate| dataset.with_plate(plate.clone()).unwrap());
            let places = names.iter().zip([0, 1, 0]);
            let runs = dataset.acquisitions(places.map(|(name, at)| (*name, tile(at, ome)))).unwrap();
            runs.iter().for_each(|run| write(run, 0, 2));
            Acquisition::finish_all(runs).into_iter().for_each(|run| assert!(run.is_ok()));
        }
        let (older, newer, out) = (path("0.5"), path("0.6"), path("out"));
        let options = RepackOptions { ome: Some(OmeVersion::V0_6), ..RepackOptions::default() };
        Repack::new(&older, Some(&out), &options).unwrap().run().unwrap();
        Repack::new(&older, None, &options).unwrap().run().unwrap();
        let above = |name: &&'static str| name.rsplit_once('/').map_or("", |(well, _)| well);
        assert_eq!(placed(&newer.join(above(&names[0]))).len(), if plate.is_some() { 2 } else { 3 });
        for group in names.iter().map(above).chain(["", "OME"]) {
            for path in [&out, &older] {
                assert_eq!(ome(&path.join(group)), ome(&newer.join(group)), "{path:?}: {group}");
                sound(path);
            }
        }
    }
}

#[test]
fn a_plate_to_which_nothing_came_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plate.ome.zarr");
    let dataset = Dataset::create(&path).unwrap().with_plate(Plate::new(1, 1)).unwrap();
    let run = dataset.acquisition("A/1/0", config(None)).unwrap();
    assert_eq!(paths(&ome(&path)["plate"]["wells"]), ["A/1"], "readers see what is begun");
    assert_eq!(run.finish().unwrap().frames_written, 0);
    drop(dataset);
    assert!(!path.exists());
}

#[test]
fn what_is_no_field_of_the_plate_is_refused_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = Dataset::create(folder.path().join("plate.ome.zarr")).unwrap();
    assert!(matches!(dataset.acquisition("A/1/0", config(None)), Err(Error::Config { field: "name", .. })));
    assert!(matches!(
        dataset.acquisition("left", config(Some(1))),
        Err(Error::Config { field: "plate_acquisition", .. })
    ));
    let mut wrong = Plate::new(2, 2);
    wrong.rows[1] = "A".to_owned();
    assert!(matches!(dataset.clone().with_plate(wrong), Err(Error::Config { field: "plate.rows", .. })));
    let dataset = dataset.with_plate(Plate::new(2, 2)).unwrap();
    let second = dataset.clone().with_plate(Plate::new(1, 1)).unwrap_err();
    assert!(matches!(second, Error::Config { field: "plate", .. }), "{second}");
    for name in ["left", "C/1/0", "A/3/0", "A/1/a-b"] {
        assert!(matches!(dataset.acquisition(name, config(None)), Err(Error::Config { field: "name", .. })), "{name}");
    }
    let run = dataset.acquisition("B/2/0", config(None)).unwrap();
    assert!(matches!(dataset.acquisition("B/2/0", config(None)), Err(Error::Exists { .. })));
    let late = dataset.clone().with_plate(Plate::new(2, 2)).unwrap_err();
    assert!(late.to_string().contains("before its first image"), "{late}");
    write(&run, 0, 1);
    run.finish().unwrap();
    let alone = Acquisition::create(folder.path().join("alone.zarr"), config(Some(1))).unwrap_err();
    assert!(
        matches!(alone, Error::Config { field: "plate_acquisition", .. }) && !folder.path().join("alone.zarr").exists()
    );
}

#[test]
fn xml_that_somebody_has_changed_stays_as_it_is_and_so_does_the_list_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let (live, left) = (folder.path().join("live"), folder.path().join("left.ome.zarr"));
    let dataset = Dataset::create(&live).unwrap().with_plate(Plate::new(1, 2)).unwrap();
    let runs = dataset.acquisitions(["A/1/0", "A/2/0"].map(|name| (name, config(None)))).unwrap();
    write(&runs[0], 0, 3);
    written(&runs[0], 3);
    restore(&left, &files(&live));
    let file = left.join("OME/METADATA.ome.xml");
    let xml = fs::read_to_string(&file).unwrap().replace("</OME>", "<Plate><ImageRef ID=\"Image:1\"/></Plate></OME>");
    fs::write(&file, &xml).unwrap();
    recovered(&left, true).unwrap();
    assert_eq!(paths(&ome(&left)["plate"]["wells"]), ["A/1"]);
    assert_eq!(ome(&left.join("OME"))["series"], json!(["A/1/0", "A/2/0"]));
    assert_eq!(fs::read_to_string(&file).unwrap(), xml.replacen("SizeT=\"1\"", "SizeT=\"3\"", 1));
    assert!(recovered(&left, true).unwrap().documents.is_empty(), "nothing is left to do");
}

#[test]
fn a_plate_whose_writer_was_killed_is_recovered_with_the_wells_that_have_frames() {
    let folder = tempfile::tempdir().unwrap();
    let (live, left) = (folder.path().join("live"), folder.path().join("left.ome.zarr"));
    let dataset = Dataset::create(&live).unwrap().with_plate(Plate::new(2, 2)).unwrap();
    let runs = dataset.acquisitions(["B/1/0", "A/2/0", "A/2/1", "A/1/0"].map(|name| (name, config(None)))).unwrap();
    for (run, frames) in runs.iter().zip([6, 3, 0, 0]) {
        write(run, 0, frames);
        written(run, frames);
    }
    restore(&left, &files(&live));
    let described = |path: &Path| -> Vec<String> {
        let xml = fs::read_to_string(path.join("OME/METADATA.ome.xml")).unwrap();
        xml.split("<Image ").skip(1).map(|image| image.split('"').nth(3).unwrap().to_owned()).collect()
    };
    let all = ["B/1/0", "A/2/0", "A/2/1", "A/1/0"];
    assert_eq!(
        (ome(&left.join("OME"))["series"].clone(), described(&left)),
        (json!(all), all.map(String::from).into())
    );
    assert_eq!(paths(&ome(&left)["plate"]["wells"]), ["A/1", "A/2", "B/1"], "those that had begun");
    let found = recovered(&left, true).unwrap();
    let frames = |path: &str| found.images.iter().find(|image| image.path == path).unwrap().frames;
    assert_eq!(["B/1/0/0", "A/2/0/0", "A/2/1/0", "A/1/0/0"].map(frames), [6, 3, 0, 0]);
    sound(&left);
    let plate = &ome(&left)["plate"];
    assert_eq!((paths(&plate["wells"]), &plate["field_count"]), (vec!["A/2", "B/1"], &json!(1)));
    assert_eq!(paths(&ome(&left.join("A/2"))["well"]["images"]), ["0"]);
    let lists = |path: &Path| (ome(&path.join("OME"))["series"].clone(), described(path));
    let expected = (json!(["B/1/0", "A/2/0"]), vec!["B/1/0".to_owned(), "A/2/0".to_owned()]);
    assert_eq!(lists(&left), expected);
    let xml = fs::read_to_string(left.join("OME/METADATA.ome.xml")).unwrap();
    assert!(xml.contains("SizeT=\"6\"") && xml.contains("SizeT=\"3\""), "{xml}");
    assert!(recovered(&left, true).unwrap().documents.is_empty(), "nothing is left to do");
    let read = |name: &str| Array::open(left.join(name).join("0")).unwrap().read_all().unwrap();
    assert_eq!(read("B/1/0"), (0..6).flat_map(|number| frame(number, FRAME_BYTES)).collect::<Vec<_>>());
    Acquisition::finish_all(runs).into_iter().for_each(|run| assert!(run.is_ok()));
    // What went on has the wells that were written.
    assert_eq!(paths(&ome(&live)["plate"]["wells"]), ["A/2", "B/1"]);
    assert_eq!(ome(&live.join("A/2"))["well"]["images"], json!([{"path": "0"}]));
    assert_eq!(lists(&live), expected);
}
