//! What a run leaves that was killed while it began: nothing to be read yet, and perhaps what it was to replace.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use crate::common::fault_log::{FaultLog, Op};
use crate::common::stopped::{check, files, finished, restore, sound};
use crate::common::{checked, recovered, tiny};
use serde_json::{Value, json};
use shardwright::offline::{Array, Finding, Severity, describe};
use shardwright::{Acquisition, Config, Dataset, Downsampling, Error, Plate};

type Files = BTreeMap<PathBuf, Vec<u8>>;

fn config() -> Config {
    let pyramid = Some(Downsampling { levels: Some(1), ..Downsampling::default() });
    Config { overwrite: true, pyramid, ..tiny(None, 32) }
}

/// What is there of a run before the document at its root.
fn begun(path: &Path) -> Files {
    let mut found = files(path);
    found.remove(Path::new("zarr.json")).unwrap();
    // They come behind it.
    found.retain(|path, _| !path.iter().any(|part| part == "c"));
    assert_eq!(found[Path::new(".shardwright.lock")], b"");
    found
}

/// The same when none of the documents has its name yet.
fn partial(begun: &Files) -> Files {
    let name = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        let is_named = name.starts_with('.');
        if is_named { path.clone() } else { path.with_file_name(format!(".{name}.partial")) }
    };
    begun.iter().map(|(path, bytes)| (name(path), bytes.clone())).collect()
}

/// What one image, several images and a plate begin with.
fn all_begun(folder: &Path) -> Vec<(&'static str, Files)> {
    let path = folder.join("begins.zarr");
    let image = Acquisition::create(&path, config()).unwrap();
    let mut found = vec![("image", begun(&path))];
    image.abort();
    let dataset = Dataset::create(&path).unwrap();
    let runs = ["left", "right", "left/labels/cells"].map(|name| dataset.acquisition(name, tiny(None, 32)).unwrap());
    found.push(("images", begun(&path)));
    drop((dataset, runs));
    let dataset = Dataset::create(&path).unwrap().with_plate(Plate::new(2, 3)).unwrap();
    let runs = dataset.acquisitions(["A/1/0", "A/1/1", "B/3/0"].map(|name| (name, config()))).unwrap();
    found.push(("plate", begun(&path)));
    drop((dataset, runs));
    assert!(!path.exists());
    let partials: Vec<_> = found.iter().map(|(kind, begun)| (*kind, partial(begun))).collect();
    found.into_iter().chain(partials).collect()
}

/// What recovery, check and description say of a dataset that can't be opened.
fn refused(path: &Path) -> [Error; 3] {
    let described = describe(path).map(drop).unwrap_err();
    [recovered(path, false).map(drop).unwrap_err(), checked(path).map(drop).unwrap_err(), described]
}

/// The documents of a dataset of several images, after each of them that its runs put before their first frames.
fn moments(begin: impl FnOnce(&Dataset) -> Vec<Acquisition>) -> Vec<Files> {
    let log = FaultLog::default();
    let dataset = Dataset::create_in(Arc::new(log.clone())).unwrap();
    let runs = begin(&dataset);
    let ops = log.ops();
    drop((dataset, runs));
    let mut there = Files::from([(PathBuf::from(".shardwright.lock"), Vec::new())]);
    let put = |op: &Op| match op {
        Op::Put { key, bytes } => Some((PathBuf::from(key), bytes.clone())),
        _ => None,
    };
    let mut moments = vec![there.clone()];
    for (key, bytes) in ops.iter().filter_map(put) {
        there.insert(key, bytes);
        moments.push(there.clone());
    }
    moments
}

#[test]
fn is_told_and_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    for (kind, begun) in all_begun(folder.path()) {
        restore(&path, &begun);
        for error in refused(&path) {
            assert!(matches!(error, Error::NotFound { .. }), "{kind}: {error:?}");
            let says = ["its run was killed while it began, so no frame is lost", "remove it, or begin again with"];
            says.iter().for_each(|says| assert!(error.to_string().contains(says), "{kind}: {error}"));
        }
        assert!(files(&path) == begun, "{kind}");
        finished(&path, &config(), &[0]);
        assert_eq!(Array::open(&path).unwrap().shape(), [1, 16, 16], "{kind}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "{kind}");
    }
}

/// At no moment does a document name what is not there.
#[test]
fn several_images_are_begun_or_empty_at_any_moment() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    let of_plate = |dataset: &Dataset| dataset.clone().with_plate(Plate::new(2, 3)).unwrap();
    let together = moments(|dataset| {
        let (dataset, names) = (of_plate(dataset), ["A/1/0", "A/1/1", "B/3/0"]);
        let mut runs = dataset.acquisitions(names.map(|name| (name, config()))).unwrap();
        runs.extend(dataset.acquisitions(["A/1/2", "A/2/0"].map(|name| (name, config()))).unwrap());
        runs
    });
    let one_by_one = moments(|dataset| {
        let dataset = of_plate(dataset);
        let mut runs: Vec<_> =
            ["A/1/0", "A/1/1", "B/3/0"].map(|name| dataset.acquisition(name, config()).unwrap()).into();
        runs.push(dataset.acquisition("B/3/0/labels/cells", tiny(None, 32)).unwrap());
        runs
    });
    let listed = moments(|dataset| ["left", "right"].map(|name| dataset.acquisition(name, config()).unwrap()).into());
    for (kind, moments) in [("together", together), ("one by one", one_by_one), ("listed", listed)] {
        let mut begun = 0;
        for (number, files) in moments.iter().enumerate() {
            restore(&path, files);
            if !files.contains_key(Path::new("zarr.json")) {
                begun += 1;
                let told = refused(&path).map(|error| error.to_string());
                assert!(told.iter().all(|told| told.contains("no frame is lost")), "{kind}, {number}: {told:?}");
                continue;
            }
            sound(&path);
            let unreadable = describe(&path).unwrap().unreadable;
            assert!(unreadable.is_empty(), "{kind}, {number}: {unreadable:?}");
            recovered(&path, true).unwrap();
            sound(&path);
        }
        assert!(begun > 1 && begun < moments.len(), "{kind}: {begun}");
    }
}

/// The documents of many images are written by several threads, which must not meet at one of them.
#[test]
fn no_document_is_written_twice_when_a_plate_begins() {
    let log = FaultLog::default();
    let dataset = Dataset::create_in(Arc::new(log.clone())).unwrap().with_plate(Plate::new(2, 3)).unwrap();
    let names = ["A/1/0", "A/1/1", "A/2/0", "A/3/0", "B/1/0", "A/1/0/labels/cells"];
    let runs = dataset.acquisitions(names.map(|name| (name, tiny(None, 32)))).unwrap();
    let mut keys: Vec<_> =
        log.ops().into_iter().filter_map(|op| if let Op::Put { key, .. } = op { Some(key) } else { None }).collect();
    keys.sort();
    let all = keys.len();
    keys.dedup();
    assert_eq!(keys.len(), all, "{keys:?}");
    drop(runs);
}

/// The images that the documents of a plate name.
fn named(files: &Files) -> Vec<PathBuf> {
    let read = |path: &Path| -> Value {
        let bytes = files.get(&path.join("zarr.json")).unwrap_or_else(|| panic!("{} is named", path.display()));
        serde_json::from_slice(bytes).unwrap()
    };
    let paths = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|entry| entry["path"].as_str().unwrap().to_owned()).collect()
    };
    let wells = paths(&read(Path::new(""))["attributes"]["ome"]["plate"]["wells"]);
    let of_well = |well: &String| {
        let images = paths(&read(Path::new(well))["attributes"]["ome"]["well"]["images"]);
        images.into_iter().map(|image| Path::new(well).join(image)).collect::<Vec<_>>()
    };
    wells.iter().flat_map(of_well).collect()
}

/// Fields to which no frame came leave the plate; at no moment does a document name what is gone.
#[test]
fn fields_without_a_frame_are_left_out_when_nothing_names_them() {
    type End = fn(Vec<Acquisition>);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    let together: End = |runs| Acquisition::finish_all(runs).into_iter().for_each(|run| drop(run.unwrap()));
    let one_by_one: End = |runs| runs.into_iter().for_each(|run| drop(run.finish().unwrap()));
    for end in [together, one_by_one] {
        let log = FaultLog::default();
        let dataset = Dataset::create_in(Arc::new(log.clone())).unwrap().with_plate(Plate::new(2, 3)).unwrap();
        let names = ["A/1/0", "A/1/1", "A/2/0", "B/3/0"];
        let runs = dataset.acquisitions(names.map(|name| (name, tiny(None, 32)))).unwrap();
        assert_eq!(runs[1].append(&[1; 512]).unwrap().frames, 2);
        let before = log.ops().len();
        end(runs);
        let (mut there, mut fewest) = (Files::new(), names.len());
        for (at, op) in log.ops().into_iter().enumerate() {
            match op {
                Op::Put { key, bytes } => drop(there.insert(PathBuf::from(key), bytes)),
                Op::Remove { key } => drop(there.remove(Path::new(&key))),
                _ => continue,
            }
            if at < before {
                continue;
            }
            restore(&path, &there);
            // The shards are not among the documents.
            let is_damage = |found: &Finding| found.severity == Severity::Damage && found.path != "A/1/1/0";
            let damage: Vec<_> = check(&path).findings.into_iter().filter(is_damage).collect();
            assert!(damage.is_empty(), "{damage:#?}");
            let images = named(&there);
            for image in &images {
                for document in [image.join("zarr.json"), image.join("0/zarr.json")] {
                    assert!(there.contains_key(&document), "{} is named", document.display());
                }
            }
            fewest = fewest.min(images.len());
        }
        assert_eq!(fewest, 1);
        let kept = ["zarr.json", "OME/zarr.json", "A/zarr.json", "A/1/zarr.json"];
        let left: Vec<_> =
            there.keys().map(|key| key.to_str().unwrap()).filter(|key| key.ends_with("zarr.json")).collect();
        assert!(left.iter().all(|key| kept.contains(key) || key.starts_with("A/1/1/")), "{left:?}");
    }
}

#[test]
fn is_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    let group = json!({"zarr_format": 3, "node_type": "group", "attributes": {"operator": "Ada"}});
    let array = json!({"zarr_format": 3, "node_type": "array", "shape": [4], "data_type": "uint8"});
    let foreign = [
        ("notes.txt", "five years".to_owned()),
        ("records/frame_number/c/0", "a record".to_owned()),
        ("0/c/0/0/0", "a shard".to_owned()),
        ("OME/notes.txt", "five years".to_owned()),
        ("A/METADATA.ome.xml", "<OME/>".to_owned()),
        ("A/1/0/0/c/0/0/0", "a shard".to_owned()),
        ("raw/zarr.json", group.to_string()),
        ("raw/image/zarr.json", array.to_string()),
        ("raw/zarr.json", "no document".to_owned()),
    ];
    for (kind, begun) in all_begun(folder.path()) {
        for (name, text) in &foreign {
            restore(&path, &begun);
            fs::create_dir_all(path.join(name).parent().unwrap()).unwrap();
            fs::write(path.join(name), text).unwrap();
            let before = files(&path);
            let error = Acquisition::create(&path, config()).map(Acquisition::abort).unwrap_err();
            assert!(matches!(error, Error::Conflict { .. }), "{kind}, {name}: {error}");
            for error in refused(&path) {
                assert!(!error.to_string().contains("killed"), "{kind}, {name}: {error}");
            }
            assert!(files(&path) == before, "{kind}, {name}");
        }
        // Somebody's links lead anywhere.
        restore(&path, &begun);
        std::os::unix::fs::symlink(folder.path(), path.join("link")).unwrap();
        Acquisition::create(&path, config()).map(Acquisition::abort).unwrap_err();
    }
}

#[test]
fn does_not_hide_what_it_was_to_replace() {
    let folder = tempfile::tempdir().unwrap();
    let image = all_begun(folder.path()).swap_remove(0).1;
    for name in ["run.zarr", "run.ozx"] {
        let [path, aside] =
            [name.to_owned(), format!(".{name}.replaced-0a1b2c3d")].map(|name| folder.path().join(name));
        finished(&path, &config(), &[0, 1, 2]);
        let before = files(&path);
        for again in [false, true] {
            fs::rename(&path, &aside).unwrap();
            match name {
                "run.zarr" => restore(&path, &image),
                _ => fs::write(&path, "").unwrap(),
            }
            for error in refused(&path) {
                let text = error.to_string();
                assert!(text.contains("its run was killed while it began, so no frame is lost"), "{text}");
                assert!(text.contains(aside.to_str().unwrap()) && text.contains("it is whole"), "{text}");
            }
            let text = refused(&path)[usize::from(again)].to_string();
            let shell = text.split_once("no frame: ").unwrap().1.split_once(" brings it back").unwrap().0;
            assert!(Command::new("sh").args(["-c", shell]).status().unwrap().success());
            assert!(files(&path) == before, "{name}");
            let empty = folder.path().join(format!("{name}.empty"));
            if empty.is_dir() { fs::remove_dir_all(empty) } else { fs::remove_file(empty) }.unwrap();
        }
        // Begun twice, neither has anything.
        fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path)).unwrap();
        match name {
            "run.zarr" => [&path, &aside].iter().for_each(|path| restore(path, &image)),
            _ => [&path, &aside].iter().for_each(|path| fs::write(path, "").unwrap()),
        }
        refused(&path).iter().for_each(|error| assert!(error.to_string().contains("remove both"), "{error}"));
    }
}

#[test]
fn an_empty_archive_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.ozx");
    fs::write(&path, "").unwrap();
    for error in refused(&path) {
        let text = error.to_string();
        assert!(text.contains("no frame is lost; remove it, or begin again with overwrite"), "{text}");
    }
    finished(&path, &config(), &[0]);
    assert_eq!(Array::open(&path).unwrap().shape()[0], 1);
}

/// Where the directories end that are in an archive.
fn directory_ends(archive: &[u8]) -> Vec<usize> {
    let ends = archive.windows(22).enumerate().filter(|(_, end)| end.starts_with(b"PK\x05\x06"));
    ends.map(|(at, end)| at + 22 + usize::from(u16::from_le_bytes([end[20], end[21]]))).collect()
}

/// As a kill leaves it where a file grows page by page.
#[test]
fn an_archive_that_ends_before_its_first_directory_is_told_and_replaced() {
    const PAGE: usize = 4096;
    let folder = tempfile::tempdir().unwrap();
    let (live, path) = (folder.path().join("live.ozx"), folder.path().join("run.ozx"));
    let run = Acquisition::create(&live, config()).unwrap();
    let image = fs::read(&live).unwrap();
    run.abort();
    let dataset = Dataset::create(&live).unwrap().with_plate(Plate::new(2, 3)).unwrap();
    let runs = dataset.acquisitions(["A/1/0", "B/3/0"].map(|name| (name, config()))).unwrap();
    let plate = fs::read(&live).unwrap();
    drop((dataset, runs));
    // The documents of a plate's images have a directory before the plate's own come.
    for (kind, bytes, directories) in [("image", image, 1), ("plate", plate, 2)] {
        let begun = directory_ends(&bytes)[directories - 1];
        assert!(begun > 4 * PAGE && begun.is_multiple_of(PAGE), "{kind}: {begun}");
        for end in (PAGE..begun).step_by(PAGE) {
            let told = format!("{kind}, {end} of {begun} bytes");
            fs::write(&path, &bytes[..end]).unwrap();
            for error in refused(&path) {
                assert!(matches!(error, Error::NotFound { .. }), "{told}: {error:?}");
                let says = "its run was killed while it began, so no frame is lost; remove it, or begin again with";
                assert!(error.to_string().contains(says), "{told}: {error}");
            }
            let kept = Acquisition::create(&path, Config { overwrite: false, ..config() }).map(Acquisition::abort);
            assert!(matches!(kept, Err(Error::Exists { .. })), "{told}: {kept:?}");
            assert!(fs::read(&path).unwrap() == bytes[..end], "{told}");
            finished(&path, &config(), &[0]);
            assert_eq!(Array::open(&path).unwrap().shape()[0], 1, "{told}");
        }
        fs::write(&path, &bytes[..begun]).unwrap();
        assert!(describe(&path).unwrap().unreadable.is_empty(), "{kind}");
    }
    // Whatever else is behind a document, it is no beginning.
    fs::write(&path, [&fs::read(&path).unwrap()[..PAGE], &[1; 64 * PAGE]].concat()).unwrap();
    refused(&path).iter().for_each(|error| assert!(!error.to_string().contains("killed"), "{error}"));
}

#[test]
fn a_run_that_begins_is_not_killed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    let dataset = Dataset::create(&path).unwrap();
    assert_eq!(files(&path).into_keys().collect::<Vec<_>>(), [Path::new(".shardwright.lock")]);
    refused(&path).iter().for_each(|error| assert!(matches!(error, Error::Locked { .. }), "{error}"));
    drop(dataset);
}
