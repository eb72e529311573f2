//! Room on the disk that shards reserve: said when a run begins, and refused where there is not as much.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use shardwright::{Acquisition, Config, Dataset, Dim, Dtype, Error, ErrorKind, Plate, StorageKind};

use crate::common::on_disk;
use crate::common::stopped::sound;
use crate::common::storage::{scratch, wait_until};

const MIB: u64 = 1 << 20;

/// Frames of a mebibyte, one a chunk, and shards of `deep` frames.
fn config(frames: Option<u64>, deep: u64) -> Config {
    Config {
        dtype: Dtype::U8,
        dims: vec![Dim::time(frames).chunk(1).shard(deep), Dim::y(1024), Dim::x(1024)],
        ring_bytes: 8 << 20,
        workers: 1,
        sync: false,
        ..Config::default()
    }
}

/// More than any disk has, in the shards of 64 images.
const DEEP: u64 = 1 << 18;

fn plate(path: &Path) -> (Dataset, Vec<String>) {
    let names = (1..=8).flat_map(|column| (0..8).map(move |field| format!("A/{column}/{field}")));
    (Dataset::create(path).unwrap().with_plate(Plate::new(1, 8)).unwrap(), names.collect())
}

fn refused(error: &Error, path: &Path, says: &str) {
    assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
    let text = error.to_string();
    assert!(text.contains(says) && text.contains("GB are free"), "{text}");
    assert!(text.contains("smaller shards (the option `dims.shard`) reserve less"), "{text}");
    assert!(!path.exists(), "something is left");
}

#[test]
fn shards_without_room_are_refused_beforehand() {
    let folder = on_disk();
    let path = folder.path().join("plate.zarr");
    let (dataset, names) = plate(&path);
    let all = names.iter().map(|name| (name, config(None, DEEP)));
    let error = dataset.acquisitions(all).map(drop).unwrap_err();
    drop(dataset);
    refused(&error, &path, "the first shards of 64 images reserve 17");

    for name in ["run.zarr", "run.ozx"] {
        let path = folder.path().join(name);
        let error = Acquisition::create(&path, config(None, 1 << 23)).map(drop).unwrap_err();
        refused(&error, &path, "its first shard reserves 8");
    }
}

#[test]
fn much_room_is_told_when_a_run_begins() {
    let folder = on_disk();
    let path = folder.path().join("run.zarr");
    let state = rustix::fs::statvfs(folder.path()).unwrap();
    let free = state.f_bavail * state.f_frsize;
    // With the next one, of what is free a tenth and some.
    for (deep, is_told) in [(free / MIB / 16, true), (free / MIB / 40, false)] {
        let dataset = Dataset::create(&path).unwrap();
        let runs = dataset.acquisitions([("left", config(None, deep))]).unwrap();
        let notes = runs[0].notes();
        let is_said = |note: &String| note.contains("its shards reserve up to ") && !note.contains("finds no room");
        assert_eq!(notes.iter().filter(|note| is_said(note)).count(), usize::from(is_told), "{notes:?}");
        runs.into_iter().for_each(Acquisition::abort);
    }
}

/// Their shards may be full, and closed, before the next image is begun.
#[test]
fn images_that_end_by_themselves_are_taken() {
    let folder = on_disk();
    let path = folder.path().join("plate.zarr");
    let (dataset, names) = plate(&path);
    let runs = dataset.acquisitions(names.iter().map(|name| (name, config(Some(DEEP), DEEP)))).unwrap();
    for run in &runs {
        let notes = run.notes();
        let says = ["the shards of 64 images reserve up to 17", "a frame whose shard finds no room ends the run"];
        assert!(notes.iter().any(|note| says.iter().all(|says| note.contains(says))), "{notes:?}");
    }
    runs.into_iter().for_each(Acquisition::abort);
    drop(dataset);
    assert!(!path.exists());
}

/// Pages of memory are taken when they are written; what is kept for documents moves along with the end.
#[test]
fn shards_of_an_archive_in_memory_take_no_more_than_their_frames() {
    const SHARD: u64 = 4 * MIB;
    let folder = scratch();
    let path = folder.path().join("run.ozx");
    let run = Acquisition::create(&path, Config { storage: StorageKind::Buffered, ..config(None, 4) }).unwrap();
    assert_eq!(run.append(&vec![7; MIB as usize]).unwrap().frames, 1);
    let found = || path.metadata().unwrap();
    wait_until("shards are begun ahead", || found().len() > 4 * SHARD);
    let (taken, len) = (found().blocks() * 512, found().len());
    assert!(taken < 5 * MIB, "one frame of a mebibyte takes {taken} bytes of a file of {len}");
    run.finish().unwrap();
    sound(&path);
}
