//! How many files a run opens at once, against the limit of its process.

use std::path::Path;

use crate::common::child::{child_path, in_child};
use crate::common::{frame, on_disk, tiny};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use shardwright::{Acquisition, Config, Dim, Error, Record, StorageKind};

fn refused(folder: &Path, name: &str, config: Config) -> Error {
    let error = Acquisition::create(folder.join(name), config).expect_err("this can't work");
    assert!(!folder.join(name).exists(), "after {error}");
    error
}

fn dims(dims: Vec<Dim>) -> Config {
    Config { dims, ..tiny(None, 8) }
}

fn limit_files(current: u64) {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum }).unwrap();
}

#[test]
fn more_open_files_than_allowed() {
    let folder = on_disk();
    in_child("descriptors::child_has_few_descriptors", folder.path());
}

#[test]
#[ignore = "run by another test, in a process of its own"]
fn child_has_few_descriptors() {
    limit_files(128);
    // A frame lies in 8 times 8 shards.
    let wide =
        vec![Dim::time(None).chunk(1).shard(8), Dim::y(128).chunk(16).shard(16), Dim::x(128).chunk(16).shard(16)];
    let config = Config { ring_bytes: 1 << 20, ..dims(wide) };
    let error = refused(&child_path(), "wide.zarr", config);
    let Error::Limit { limit: "open files", value, reason } = &error else { panic!("{error:?}") };
    assert_eq!(*value, 128, "{error}");
    assert!(reason.contains("64 shards") && reason.contains("shards larger"), "{error}");
    assert!(reason.contains("ulimit -n 256"), "{error}");
    // Where shards are as large as they can be, they are not blamed.
    limit_files(66);
    let one = Config { ring_bytes: 1 << 20, ..dims(vec![Dim::time(None), Dim::y(128), Dim::x(128)]) };
    let error = refused(&child_path(), "narrow.zarr", one);
    assert!(error.to_string().contains("ulimit -n") && !error.to_string().contains("larger"), "{error}");
}

#[test]
fn a_plan_that_passes_never_runs_out_of_descriptors() {
    let folder = on_disk();
    in_child("descriptors::child_opens_as_many_shards_as_it_may", folder.path());
}

#[test]
#[ignore = "run by another test, in a process of its own"]
fn child_opens_as_many_shards_as_it_may() {
    limit_files(100);
    // What passes the page cache by opens each shard twice.
    for storage in [StorageKind::Mapped, StorageKind::Buffered, StorageKind::Direct, StorageKind::Auto] {
        let path = child_path().join(format!("{storage:?}.zarr"));
        // One frame a shard, committed from the newest to the oldest: as many shards are open as ever can be.
        let config = || dims(vec![Dim::time(None).chunk(1).shard(1), Dim::y(16), Dim::x(16)]);
        let config = Config { ring_bytes: 200 * 4096, storage, ..config() };
        let acquisition = Acquisition::create(path, config).unwrap();
        let window = acquisition.reorder_window();
        for start in (0..20 * window).step_by(window as usize) {
            for number in (start..start + window).rev() {
                let mut slot = acquisition.acquire().unwrap();
                slot.copy_from_slice(&frame(number, 256));
                slot.commit(number, Record::default()).unwrap();
            }
        }
        let written =
            acquisition.finish().unwrap_or_else(|failed| panic!("{storage:?}: {}", failed.error)).frames_written;
        assert_eq!(written, 20 * window, "{storage:?}");
    }
}

#[test]
fn shards_too_many_to_be_opened_twice_are_not_written_past_the_page_cache() {
    let folder = on_disk();
    in_child("descriptors::child_may_open_each_shard_once", folder.path());
}

#[test]
#[ignore = "run by another test, in a process of its own"]
fn child_may_open_each_shard_once() {
    // A frame lies in 16 shards, of which there are three generations: 48 files and the spare ones.
    limit_files(130);
    let config = |storage| {
        let wide =
            vec![Dim::time(None).chunk(1).shard(4), Dim::y(64).chunk(16).shard(16), Dim::x(64).chunk(16).shard(16)];
        Config { ring_bytes: 1 << 20, storage, ..dims(wide) }
    };
    let error = refused(&child_path(), "direct.zarr", config(StorageKind::Direct));
    let Error::Limit { limit: "open files", reason, .. } = &error else { panic!("{error:?}") };
    assert!(error.to_string().contains("130") && reason.contains("another storage"), "{error}");
    for storage in [StorageKind::Mapped, StorageKind::Buffered, StorageKind::Auto] {
        let acquisition = Acquisition::create(child_path().join(format!("{storage:?}.zarr")), config(storage)).unwrap();
        for number in 0..40 {
            assert_eq!(acquisition.append(&frame(number, 64 * 64)).unwrap().frames, 1);
        }
        let summary = acquisition.finish().unwrap_or_else(|failed| panic!("{storage:?}: {}", failed.error));
        assert_eq!(summary.frames_written, 40);
        assert!(!summary.storage.starts_with("direct"), "{}", summary.storage);
    }
}
