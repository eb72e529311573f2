//! A program that changes its working directory, or its folders, while a run goes on. A process of its own, because the
//! working directory is the process's.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::child::{child_path, in_child};
use crate::common::{frame, tiny};
use shardwright::offline::Array;
use shardwright::{Acquisition, Config, Dataset, ManifestForm};

/// Every file below `folder` and its bytes.
pub(crate) fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(contents(&path)),
            false => drop(found.insert(path.clone(), fs::read(&path).unwrap())),
        }
    }
    found
}

fn append(acquisition: &Acquisition, numbers: std::ops::Range<u64>) {
    numbers.for_each(|number| assert_eq!(acquisition.append(&frame(number, 256)).unwrap().frames, 1));
}

fn check(array: &Path, frames: u64) {
    let expected: Vec<u8> = (0..frames).flat_map(|number| frame(number, 256)).collect();
    assert!(Array::open(array).unwrap().read_all().unwrap() == expected, "{}", array.display());
}

#[test]
fn a_run_stays_where_it_was_begun() {
    let folder = tempfile::tempdir().unwrap();
    in_child("working_directory::child_goes_elsewhere", folder.path());
}

#[test]
#[ignore = "another test runs it in a process of its own"]
fn child_goes_elsewhere() {
    let folder = child_path();
    let [day1, day2] = ["day1", "day2"].map(|day| folder.join(day));
    [&day1, &day2].into_iter().for_each(|day| fs::create_dir(day).unwrap());
    let config = || Config { sync: true, ..tiny(None, 32) };
    let yesterday = Acquisition::create(day2.join("run.zarr"), config()).unwrap();
    append(&yesterday, 0..40);
    yesterday.finish().unwrap();
    let before = contents(&day2);

    env::set_current_dir(&day1).unwrap();
    let acquisition = Acquisition::create("run.zarr", config()).unwrap();
    env::set_current_dir(&day2).unwrap();
    append(&acquisition, 0..100);
    acquisition.finish().unwrap();
    check(&day1.join("run.zarr/0"), 100);

    // Images that begin later, and a run of which nothing comes.
    env::set_current_dir(&day1).unwrap();
    let dataset = Dataset::create("many.zarr").unwrap();
    env::set_current_dir(&day2).unwrap();
    let left = dataset.acquisition("left", config()).unwrap();
    append(&left, 0..10);
    left.finish().unwrap();
    drop(dataset);
    check(&day1.join("many.zarr/left/0"), 10);
    env::set_current_dir(&day1).unwrap();
    let nothing = Acquisition::create("deep/er/run.zarr", config()).unwrap();
    env::set_current_dir(&day2).unwrap();
    nothing.abort();
    assert!(!day1.join("deep").exists());
    assert!(contents(&day2) == before, "yesterday's data are as they were");
    env::set_current_dir("/").unwrap();

    moved_while_it_is_written(&day1, &config);
    moved_and_replaced(&day1, &config);
    moved_and_replaced_before_its_manifest(&day1, &config);
}

/// Somebody renames the folder, and begins another dataset under the old name.
fn moved_while_it_is_written(folder: &Path, config: &dyn Fn() -> Config) {
    let (path, moved) = (folder.join("moved.zarr"), folder.join("away.zarr"));
    let acquisition = Acquisition::create(&path, config()).unwrap();
    append(&acquisition, 0..10);
    fs::rename(&path, &moved).unwrap();
    let other = Acquisition::create(&path, config()).unwrap();
    append(&other, 0..6);
    append(&acquisition, 10..50);
    acquisition.finish().unwrap();
    other.finish().unwrap();
    check(&moved.join("0"), 50);
    check(&path.join("0"), 6);
}

/// Somebody moves the folder of a run that comes to nothing, and puts another in its place.
fn moved_and_replaced(folder: &Path, config: &dyn Fn() -> Config) {
    let (path, moved) = (folder.join("none.zarr"), folder.join("elsewhere.zarr"));
    let acquisition = Acquisition::create(&path, config()).unwrap();
    fs::rename(&path, &moved).unwrap();
    fs::create_dir(&path).unwrap();
    fs::write(path.join("thesis.tex"), "five years").unwrap();
    drop(acquisition);
    assert_eq!(fs::read_to_string(path.join("thesis.tex")).unwrap(), "five years");
    assert_eq!(fs::read_dir(&path).unwrap().count(), 1);
    assert_eq!(fs::read_dir(&moved).unwrap().count(), 0, "what the run had made is removed where it is");
}

/// A manifest goes by names: it can't be written for a folder that has lost its own to another dataset.
fn moved_and_replaced_before_its_manifest(folder: &Path, config: &dyn Fn() -> Config) {
    let (path, moved) = (folder.join("listed.zarr"), folder.join("unlisted.zarr"));
    let config = || Config { manifest: vec![ManifestForm::Manifest], ..config() };
    let acquisition = Acquisition::create(&path, config()).unwrap();
    append(&acquisition, 0..10);
    fs::rename(&path, &moved).unwrap();
    let other = Acquisition::create(&path, Config { manifest: Vec::new(), ..config() }).unwrap();
    append(&other, 0..6);
    other.finish().unwrap();
    let (summary, error) = match acquisition.finish() {
        Ok(summary) => (summary, None),
        Err(unfinished) => (*unfinished.summary, Some(unfinished.error.to_string())),
    };
    let told = [error, Some(summary.notes.join(" "))].into_iter().flatten().collect::<String>();
    assert!(told.contains("moved"), "{told}");
    assert!(!folder.join("listed.manifest.zarr").exists());
    check(&moved.join("0"), 10);
}
