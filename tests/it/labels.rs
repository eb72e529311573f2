//! Label images: beside their image, listed as long as something came to them, and nothing that does not fit.

use std::fs;
use std::path::Path;

use crate::common::stopped::{files, restore, sound, written};
use crate::common::{frame, recovered, tiny};
use serde_json::{Value, json};
use shardwright::offline::{Repack, RepackOptions};
use shardwright::{Acquisition, Config, Dataset, Dim, Downsampling, Dtype, Error, OmeVersion, Plate, Record};

const FRAME_BYTES: usize = 64;

fn config() -> Config {
    let dims = vec![Dim::time(None).chunk(1).shard(4), Dim::y(8), Dim::x(8)];
    Config { dims, workers: 2, ..tiny(None, FRAME_BYTES) }
}

fn write(acquisition: &Acquisition, frames: u64) {
    for number in 0..frames {
        let mut slot = acquisition.acquire().unwrap();
        slot.copy_from_slice(&frame(number, FRAME_BYTES));
        slot.commit(number, Record::default()).unwrap();
    }
}

fn ome(folder: &Path) -> Value {
    let document: Value = serde_json::from_slice(&fs::read(folder.join("zarr.json")).unwrap()).unwrap();
    document["attributes"]["ome"].clone()
}

fn refused(dataset: &Dataset, name: &str, config: Config) -> String {
    match dataset.acquisition(name, config) {
        Err(error @ Error::Config { .. }) => error.to_string(),
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn labels_have_the_levels_of_their_image_by_the_most_frequent_pixel() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("two.ome.zarr");
    let dataset = Dataset::create(&path).unwrap();
    let with_levels = Config { pyramid: Some(Downsampling { levels: Some(2), ..Downsampling::default() }), ..config() };
    assert!(refused(&dataset, "left/labels/cells", config()).contains("no image \"left\""));
    let runs = dataset.acquisitions([("left", with_levels), ("left/labels/cells", config())]).unwrap();
    runs.iter().for_each(|run| write(run, 3));
    assert!(Acquisition::finish_all(runs).into_iter().all(|run| run.is_ok()));
    let said = ome(&path.join("left/labels/cells"));
    assert_eq!(said["multiscales"][0]["datasets"].as_array().map(Vec::len), Some(3));
    assert_eq!(said["multiscales"][0]["type"], "mode");
    assert_eq!(said["image-label"], json!({"version": "0.5", "source": {"image": "../../"}}));
    assert_eq!(ome(&path.join("left/labels")), json!({"version": "0.5", "labels": ["cells"]}));
    assert_eq!(ome(&path.join("OME"))["series"], json!(["left"]), "labels are no images of the collection");
    drop(dataset);
    sound(&path);
}

#[test]
fn a_dataset_with_labels_is_said_in_another_version_and_back_in_place() {
    let folder = tempfile::tempdir().unwrap();
    let (path, out) = (folder.path().join("two.ome.zarr"), folder.path().join("out.ome.zarr"));
    let dataset = Dataset::create(&path).unwrap();
    let runs = dataset.acquisitions([("left", config()), ("left/labels/cells", config())]).unwrap();
    runs.iter().for_each(|run| write(run, 3));
    assert!(Acquisition::finish_all(runs).into_iter().all(|run| run.is_ok()));
    drop(dataset);
    let groups = ["", "left", "left/labels", "left/labels/cells", "OME"];
    let said = |path: &Path| groups.map(|group| ome(&path.join(group)));
    let before = said(&path);
    let say = |path: &Path, out: Option<&Path>, version| {
        let options = RepackOptions { ome: Some(version), ..RepackOptions::default() };
        Repack::new(path, out, &options).unwrap().run().unwrap()
    };
    say(&path, Some(&out), OmeVersion::V0_6);
    assert!(said(&out).iter().all(|ome| ome["version"] == "0.6"));
    let label = &said(&out)[3];
    assert!(label["multiscales"][0].get("axes").is_none() && label["image-label"].get("version").is_none());
    assert_eq!(label["multiscales"][0]["coordinateSystems"][0]["axes"], before[3]["multiscales"][0]["axes"]);
    sound(&out);
    say(&out, None, OmeVersion::V0_5);
    for (now, before) in said(&out).iter().zip(&before) {
        assert_eq!(now, before);
    }
    sound(&out);
}

#[test]
fn what_does_not_fit_the_image_is_refused_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one.ome.zarr");
    let dataset = Dataset::create(&path).unwrap();
    let left = dataset.acquisition("left", config()).unwrap();
    assert!(refused(&dataset, "left/labels/cells", Config { dtype: Dtype::F32, ..config() }).contains("integers"));
    let other = Config { dims: vec![Dim::time(None), Dim::y(8), Dim::x(9)], ..config() };
    assert!(refused(&dataset, "left/labels/cells", other).contains("the image the size 8"));
    assert!(refused(&dataset, "left/labels/__x", config()).contains("name"));
    assert!(refused(&dataset, "right/labels/cells", config()).contains("no image \"right\""));
    assert!(refused(&dataset, "right", Config { label: Some(Default::default()), ..config() }).contains("labels"));
    let newer = Config { ome: OmeVersion::V0_6, ..config() };
    assert!(refused(&dataset, "left/labels/cells", newer).contains("0.5"));
    let older = Config { ome: OmeVersion::V0_4, ..config() };
    assert!(refused(&dataset, "right", older).contains("repack"));
    write(&left, 1);
    left.finish().unwrap();
    assert!(!path.join("left/labels").exists() && !path.join("right").exists());
    drop(dataset);
    sound(&path);
}

#[test]
fn labels_to_which_nothing_came_are_taken_back_and_killed_ones_recovered() {
    let folder = tempfile::tempdir().unwrap();
    let (live, left) = (folder.path().join("live"), folder.path().join("left.ome.zarr"));
    let dataset = Dataset::create(&live).unwrap().with_plate(Plate::new(1, 2)).unwrap();
    let names = ["A/1/0", "A/1/0/labels/cells", "A/1/0/labels/nuclei"];
    let runs = dataset.acquisitions(names.map(|name| (name, config()))).unwrap();
    for (run, frames) in runs.iter().zip([3, 2, 0]) {
        write(run, frames);
        written(run, frames);
    }
    restore(&left, &files(&live));
    let found = recovered(&left, true).unwrap();
    let frames = |path: &str| found.images.iter().find(|image| image.path == path).unwrap().frames;
    assert_eq!(names.map(|name| frames(&format!("{name}/0"))), [3, 2, 0]);
    assert_eq!(ome(&left.join("A/1/0/labels"))["labels"], json!(["cells", "nuclei"]));
    sound(&left);
    Acquisition::finish_all(runs).into_iter().for_each(|run| assert!(run.is_ok()));
    assert_eq!(ome(&live.join("A/1/0/labels"))["labels"], json!(["cells"]));
    assert!(!live.join("A/1/0/labels/nuclei").exists());
    drop(dataset);
    sound(&live);
}

/// The names of the wells' fields by the plate's documents, and those of the images.
fn fields(path: &Path) -> Vec<String> {
    let list = |of: &Value| -> Vec<String> {
        of.as_array().unwrap().iter().map(|of| of["path"].as_str().unwrap().to_owned()).collect()
    };
    let mut fields = Vec::new();
    for well in list(&ome(path)["plate"]["wells"]) {
        let images = list(&ome(&path.join(&well))["well"]["images"]);
        fields.extend(images.into_iter().map(|field| format!("{well}/{field}")));
    }
    let mut series: Vec<String> = serde_json::from_value(ome(&path.join("OME"))["series"].clone()).unwrap();
    series.sort();
    assert_eq!(series, fields);
    fields
}

/// Of each field, which of the image, `cells` and `nuclei` end first.
const ENDS: [[usize; 3]; 4] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [2, 1, 0]];

#[test]
fn a_field_without_frames_goes_with_its_labels_whichever_end_first() {
    let folder = tempfile::tempdir().unwrap();
    // `None`: all at once.
    for (at, order) in ENDS.map(Some).into_iter().chain([None]).enumerate() {
        // What comes to the labels of A/2/0, and to B/1/0.
        for came in [[0, 0], [0, 2], [2, 0]] {
            let path = folder.path().join(format!("{at}-{came:?}.zarr"));
            let dataset = Dataset::create(&path).unwrap().with_plate(Plate::new(2, 2)).unwrap();
            let names = ["A/2/0", "A/2/0/labels/cells", "A/2/0/labels/nuclei"];
            let mut runs: Vec<_> = dataset.acquisitions(names.map(|name| (name, config()))).unwrap();
            let other = dataset.acquisition("B/1/0", config()).unwrap();
            write(&runs[1], came[0]);
            write(&other, came[1]);
            match order {
                Some(order) => {
                    let mut runs: Vec<_> = runs.into_iter().map(Some).collect();
                    order.into_iter().for_each(|at| drop(runs[at].take().unwrap().finish().unwrap()));
                    other.finish().unwrap();
                }
                None => {
                    runs.push(other);
                    assert!(Acquisition::finish_all(runs).into_iter().all(|run| run.is_ok()));
                }
            }
            let expected: Vec<_> =
                ["A/2/0", "B/1/0"].into_iter().zip(came).filter(|(_, came)| *came > 0).map(|(name, _)| name).collect();
            if expected.is_empty() {
                drop(dataset);
                assert!(!path.exists(), "{order:?}: nothing came");
                continue;
            }
            assert_eq!(fields(&path), expected, "{order:?}");
            assert_eq!(path.join("A").exists(), came[0] > 0, "{order:?}");
            if came[0] == 0 {
                // Nothing of it is in the way of another.
                let again = dataset.acquisition("A/2/0", config()).unwrap();
                write(&again, 1);
                again.finish().unwrap();
            }
            drop(dataset);
            sound(&path);
        }
    }
}

#[test]
fn a_field_whose_labels_have_frames_stays_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let (live, left) = (folder.path().join("live"), folder.path().join("left.ome.zarr"));
    let dataset = Dataset::create(&live).unwrap().with_plate(Plate::new(1, 4)).unwrap();
    let names = ["A/1/0", "A/1/0/labels/cells", "A/2/0", "A/2/0/labels/cells", "A/3/0", "A/3/0/labels/cells", "A/4/0"];
    let mut runs: Vec<_> = dataset.acquisitions(names.map(|name| (name, config()))).unwrap();
    for (run, frames) in runs.iter().zip([0, 2, 0, 0, 0, 0, 1]) {
        write(run, frames);
        written(run, frames);
    }
    // It waits for its labels.
    runs.remove(4).finish().unwrap();
    restore(&left, &files(&live));
    assert_eq!(fields(&left), ["A/1/0", "A/2/0", "A/3/0", "A/4/0"]);
    recovered(&left, true).unwrap();
    assert_eq!(fields(&left), ["A/1/0", "A/4/0"]);
    sound(&left);
    assert!(recovered(&left, true).unwrap().documents.is_empty(), "nothing is left to do");
    Acquisition::finish_all(runs).into_iter().for_each(|run| assert!(run.is_ok()));
    drop(dataset);
    assert_eq!(fields(&live), ["A/1/0", "A/4/0"]);
    sound(&live);
}

#[test]
fn labels_have_the_acquisition_of_their_image() {
    let folder = tempfile::tempdir().unwrap();
    let plate = Plate::new(1, 1).acquisition(3, "before");
    let dataset = Dataset::create(folder.path().join("plate.zarr")).unwrap().with_plate(plate).unwrap();
    let with_acquisition = || Config { plate_acquisition: Some(3), ..config() };
    let _image = dataset.acquisition("A/1/0", with_acquisition()).unwrap();
    let told = refused(&dataset, "A/1/0/labels/cells", with_acquisition());
    assert_eq!(told, "plate_acquisition = 3: labels have the acquisition of their image; leave it out");
}
