//! How runs end: early, late, twice, half-way, not at all.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use crate::common::storage::{Barrier, Call, Probed, held_up_by, is_worker, read_back, wait_until, within};
use crate::common::{frame, tiny};
use shardwright::offline::Array;
use shardwright::{Acquisition, Config, Dataset, Dim, Error, Record};

const FRAME_BYTES: usize = 256;

fn commit(acquisition: &Acquisition, number: u64) -> Result<(), Error> {
    let mut slot = acquisition.acquire()?;
    slot.copy_from_slice(&frame(number, FRAME_BYTES));
    slot.commit(number, Record::default())
}

/// Checks that whoever prints an error and then its sources says nothing twice.
fn said_once(error: &dyn std::error::Error) {
    let chain: Vec<String> =
        std::iter::successors(Some(error), |error| error.source()).map(ToString::to_string).collect();
    for links in chain.windows(2) {
        assert!(!links[0].contains(&links[1]), "{chain:?}");
    }
}

#[test]
fn what_an_error_says_none_of_its_sources_says_again() {
    let ends = Arc::new(AtomicBool::new(false));
    let ended = ends.clone();
    let storage = Probed::new(move |call, _| match call {
        Call::Put if ended.load(SeqCst) => Err(std::io::Error::other("no room")),
        _ => Ok(()),
    });
    let acquisition = Acquisition::create_in(storage.shared(), tiny(None, 8)).unwrap();
    let commit = || acquisition.acquire().unwrap().try_commit(Some(0), Record::default());
    commit().unwrap();
    said_once(&*commit().unwrap_err());
    ends.store(true, SeqCst);
    let unfinished = acquisition.finish().unwrap_err();
    assert!(matches!(unfinished.error, Error::Io { .. }), "{unfinished}");
    said_once(&unfinished);
    said_once(&unfinished.error);
}

/// Checks that the image at `path` holds the frames `numbers` of `end`, and the fill value elsewhere.
fn holds(path: &Path, numbers: impl IntoIterator<Item = u64>, end: u64) {
    let array = Array::open(path.join("0")).unwrap();
    assert_eq!(array.shape(), [end, 16, 16]);
    let mut expected = vec![0; end as usize * FRAME_BYTES];
    for number in numbers {
        expected[number as usize * FRAME_BYTES..][..FRAME_BYTES].copy_from_slice(&frame(number, FRAME_BYTES));
    }
    assert!(array.read_all().unwrap() == expected);
}

fn is_complete(path: &Path) -> bool {
    let document = std::fs::read(path.join("zarr.json")).unwrap();
    let document: serde_json::Value = serde_json::from_slice(&document).unwrap();
    document["attributes"]["shardwright"]["complete"].as_bool().unwrap()
}

/// Names of what lies in a folder, hidden files included.
fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn dropping_ends_a_run_as_finish_does() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    let acquisition = Acquisition::create(&path, tiny(None, 8)).unwrap();
    (0..10).for_each(|number| commit(&acquisition, number).unwrap());
    assert!(!is_complete(&path));
    drop(acquisition);
    holds(&path, 0..10, 10);
    assert!(is_complete(&path));
    assert_eq!(names(&path), ["0", "records", "zarr.json"]);
}

#[test]
fn dropping_an_empty_run_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    drop(Acquisition::create(folder.path().join("a/run.zarr"), tiny(None, 8)).unwrap());
    assert!(!folder.path().join("a/run.zarr").exists());
    // A folder that was there stays.
    let empty = folder.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    drop(Acquisition::create(&empty, tiny(None, 8)).unwrap());
    assert!(names(&empty).is_empty());
}

#[test]
fn finishing_an_empty_run_leaves_an_empty_array() {
    for frames in [None, Some(10)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.zarr");
        let summary = Acquisition::create(&path, tiny(frames, 8)).unwrap().finish().unwrap();
        assert_eq!((summary.frames_accepted, summary.frames_missing, summary.shards), (0, 0, 0));
        assert_eq!(summary.shape, [0, 16, 16]);
        holds(&path, [], 0);
        assert!(is_complete(&path));
        assert!(!path.join("0/c").join("0/0/0").exists(), "a shard without chunks goes");
    }
}

#[test]
fn aborting_an_empty_run_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    Acquisition::create(&path, tiny(None, 8)).unwrap().abort();
    assert!(names(folder.path()).is_empty());
}

#[test]
fn aborting_keeps_what_is_in_shards_and_loses_what_waits() {
    within(60, || {
        let barrier = Barrier::default();
        barrier.open();
        let storage = held_up_by(&barrier);
        let acquisition = Acquisition::create_in(storage.shared(), tiny(None, 8)).unwrap();
        (0..6).for_each(|number| commit(&acquisition, number).unwrap());
        wait_until("six frames are stored", || acquisition.stats().frames_written == 6);
        barrier.close();
        (6..12).for_each(|number| commit(&acquisition, number).unwrap());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(100));
                barrier.open();
            });
            acquisition.abort();
        });
        let (shape, pixels) = read_back(&storage.memory);
        assert_eq!(shape, [12, 16, 16]);
        for (number, got) in (0..).zip(pixels.chunks_exact(FRAME_BYTES)) {
            let whole = got == frame(number, FRAME_BYTES);
            assert!(whole || number > 5 && got.iter().all(|&byte| byte == 0), "frame {number}");
            // The worker had taken one frame before the abort; nobody takes the others.
            assert!(!whole || number <= 6, "frame {number} was stored after the abort");
        }
    });
}

#[test]
fn a_frame_on_loan_outlives_its_run_and_can_not_be_committed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    let acquisition = Acquisition::create(&path, tiny(None, 8)).unwrap();
    commit(&acquisition, 0).unwrap();
    let mut late = acquisition.acquire().unwrap();
    let dropped = acquisition.acquire().unwrap();
    acquisition.finish().unwrap();
    late.fill(7);
    assert!(late.iter().all(|&byte| byte == 7));
    // The run is over: nothing of it holds the folder any more.
    assert_eq!(names(&path), ["0", "records", "zarr.json"]);
    let again = Acquisition::create(&path, Config { overwrite: true, ..tiny(None, 8) }).unwrap();
    assert!(matches!(late.commit(1, Record::default()), Err(Error::Ended)));
    drop(dropped);
    commit(&again, 0).unwrap();
    again.finish().unwrap();
    holds(&path, [0], 1);
}

#[test]
fn an_abort_that_lost_frames_is_the_end_for_a_frame_on_loan() {
    let folder = tempfile::tempdir().unwrap();
    let dims = vec![Dim::time(None).chunk(4).shard(8), Dim::y(16), Dim::x(16)];
    let acquisition = Acquisition::create(folder.path().join("run.zarr"), Config { dims, ..tiny(None, 8) }).unwrap();
    commit(&acquisition, 0).unwrap();
    let late = acquisition.acquire().unwrap();
    acquisition.abort();
    assert!(matches!(late.commit(1, Record::default()), Err(Error::Ended)));
}

#[test]
fn commits_that_race_with_the_end_are_whole_or_refused() {
    for _ in 0..30 {
        within(60, || {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("run.zarr");
            let acquisition = Acquisition::create(&path, Config { workers: 3, ..tiny(None, 64) }).unwrap();
            let loans: Vec<_> = (0..32).map(|_| acquisition.acquire().unwrap()).collect();
            let committer = std::thread::spawn(move || {
                let mut taken = 0;
                for (number, mut slot) in (0..).zip(loans) {
                    slot.copy_from_slice(&frame(number, FRAME_BYTES));
                    match slot.commit(number, Record::default()) {
                        Ok(()) => taken = number + 1,
                        Err(Error::Ended) => return taken,
                        Err(error) => panic!("{error}"),
                    }
                }
                taken
            });
            let summary = acquisition.finish().unwrap();
            let taken = committer.join().unwrap();
            assert_eq!((summary.frames_accepted, summary.frames_written, summary.frames_missing), (taken, taken, 0));
            holds(&path, 0..taken, taken);
        });
    }
}

#[test]
fn images_of_a_dataset_end_on_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    let dataset = Dataset::create(&path).unwrap();
    let left = dataset.acquisition("left", tiny(None, 8)).unwrap();
    let right = dataset.acquisition("right", tiny(Some(9), 9)).unwrap();
    let never = dataset.acquisition("never", tiny(None, 8)).unwrap();
    drop(dataset);
    for number in 0..9 {
        commit(&left, number).unwrap();
        commit(&right, 8 - number).unwrap();
    }
    left.finish().unwrap();
    holds(&path.join("left"), 0..9, 9);
    drop(never);
    assert!(matches!(Dataset::create_or_replace(&path), Err(Error::Locked { .. })), "one image is still being written");
    right.finish().unwrap();
    holds(&path.join("right"), 0..9, 9);
    let exists = Dataset::create(&path).unwrap_err();
    assert!(matches!(&exists, Error::Exists { path: named, .. } if *named == path), "{exists:?}");
}

#[test]
fn an_image_that_could_not_be_created_is_not_listed() {
    let storage = Probed::new(|call, key| match call {
        Call::Create if key.starts_with("left") => Err(std::io::Error::other("no room")),
        _ => Ok(()),
    });
    let dataset = Dataset::create_in(storage.shared()).unwrap();
    dataset.acquisition("left", tiny(None, 8)).unwrap_err();
    let right = dataset.acquisition("right", tiny(None, 8)).unwrap();
    commit(&right, 0).unwrap();
    right.finish().unwrap();
    let series = storage.memory.read("OME/zarr.json").unwrap();
    let series: serde_json::Value = serde_json::from_slice(&series).unwrap();
    assert_eq!(series["attributes"]["ome"]["series"], serde_json::json!(["right"]));
    let left: Vec<_> = storage.memory.keys().into_iter().filter(|key| key.starts_with("left")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn overwriting_replaces_everything() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    let old = Acquisition::create(&path, tiny(None, 8)).unwrap();
    (0..30).for_each(|number| commit(&old, number).unwrap());
    old.finish().unwrap();
    std::fs::write(path.join("note.txt"), "old").unwrap();
    let new = Acquisition::create(&path, Config { overwrite: true, ..tiny(None, 8) }).unwrap();
    commit(&new, 0).unwrap();
    new.finish().unwrap();
    holds(&path, [0], 1);
    assert!(!path.join("note.txt").exists() && !path.join("0/c/1/0/0").exists());
    assert_eq!(names(folder.path()), ["run.zarr"]);
}

#[test]
fn overwriting_that_comes_to_nothing_leaves_the_old_data() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    let old = Acquisition::create(&path, tiny(None, 8)).unwrap();
    (0..30).for_each(|number| commit(&old, number).unwrap());
    old.finish().unwrap();
    let overwrite = || Config { overwrite: true, ..tiny(None, 8) };
    // Refused by the plan, refused by the disk, aborted, dropped.
    Acquisition::create(&path, Config { ring_bytes: 1, ..overwrite() }).unwrap_err();
    holds(&path, 0..30, 30);
    // 64 TiB: longer than a file may be on most file systems, so that none tries and fills the disk for everybody else.
    let endless = vec![Dim::time(None).chunk(1 << 14).shard(1 << 38), Dim::y(16), Dim::x(16)];
    Acquisition::create(&path, Config { dims: endless, ring_bytes: 1 << 28, ..overwrite() }).unwrap_err();
    holds(&path, 0..30, 30);
    Acquisition::create(&path, overwrite()).unwrap().abort();
    holds(&path, 0..30, 30);
    drop(Acquisition::create(&path, overwrite()).unwrap());
    holds(&path, 0..30, 30);
    assert_eq!(names(folder.path()), ["run.zarr"]);
}

#[test]
fn a_link_to_a_dataset_stays_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let (real, link) = (folder.path().join("disk/run.zarr"), folder.path().join("link.zarr"));
    std::fs::create_dir_all(&real).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    // An empty folder behind the link, and nothing comes of the run.
    drop(Acquisition::create(&link, tiny(None, 8)).unwrap());
    assert!(link.is_symlink() && names(&real).is_empty(), "{:?}", names(&real));
    let old = Acquisition::create(&link, tiny(None, 8)).unwrap();
    commit(&old, 0).unwrap();
    old.finish().unwrap();
    holds(&real, [0], 1);
    let overwrite = || Config { overwrite: true, ..tiny(None, 8) };
    drop(Acquisition::create(&link, overwrite()).unwrap());
    assert!(link.is_symlink());
    holds(&link, [0], 1);
    let new = Acquisition::create(&link, overwrite()).unwrap();
    (0..3).for_each(|number| commit(&new, number).unwrap());
    new.finish().unwrap();
    assert!(link.is_symlink());
    holds(&real, 0..3, 3);
    assert_eq!(names(&folder.path().join("disk")), ["run.zarr"]);
}

#[test]
fn a_partial_layer_and_a_partial_shard_are_closed_with_the_fill_value() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    let dims = vec![Dim::time(None).chunk(4).shard(16), Dim::y(16), Dim::x(16)];
    let acquisition = Acquisition::create(&path, Config { dims, ..tiny(None, 16) }).unwrap();
    (0..37).for_each(|number| commit(&acquisition, number).unwrap());
    let summary = acquisition.finish().unwrap();
    assert_eq!((summary.shards, summary.chunks_written, summary.frames_missing), (3, 10, 0));
    holds(&path, 0..37, 37);
}

#[test]
fn a_frame_that_never_comes_keeps_no_shard_open() {
    within(60, || {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.zarr");
        let acquisition = Acquisition::create(&path, tiny(Some(1000), 16)).unwrap();
        // The reserved shard is longer than the closed one, because each slot has room for the worst case.
        let reserved = std::fs::metadata(path.join("0/c/0/0/0")).unwrap().len();
        (0..400).filter(|&number| number != 2).for_each(|number| commit(&acquisition, number).unwrap());
        let enough = (400 - acquisition.reorder_window()) / 4 - 1;
        wait_until("the shards behind the window are closed", || acquisition.stats().shards_closed >= enough);
        assert!(std::fs::metadata(path.join("0/c/0/0/0")).unwrap().len() <= reserved);
        let first = Array::open(path.join("0")).unwrap();
        let mut pixels = vec![0; 4 * FRAME_BYTES];
        first.read_region(&[0, 0, 0], &[4, 16, 16], &mut pixels).unwrap();
        assert_eq!(pixels[3 * FRAME_BYTES..], frame(3, FRAME_BYTES)[..]);
        assert!(pixels[2 * FRAME_BYTES..][..FRAME_BYTES].iter().all(|&byte| byte == 0));
        assert_eq!(acquisition.stats().frames_missing, 1);
        let summary = acquisition.finish().unwrap();
        assert_eq!(summary.missing, std::slice::from_ref(&(2..3)));
    });
}

#[test]
fn a_leap_of_a_million_frames_costs_nothing_but_the_frames() {
    within(60, || {
        for shard in [1, 4, 1000] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("run.zarr");
            let dims = vec![Dim::time(None).chunk(1).shard(shard), Dim::y(4), Dim::x(4)];
            let acquisition = Acquisition::create(&path, Config { dims, leap_max: 1 << 24, ..tiny(None, 16) }).unwrap();
            for number in [0, 1, 1_000_001, 1_000_003, 3_000_000] {
                let mut slot = acquisition.acquire().unwrap();
                slot.copy_from_slice(&frame(number, 16));
                slot.commit(number, Record::default()).unwrap();
            }
            let summary = acquisition.finish().unwrap();
            assert_eq!(summary.missing, [2..1_000_001, 1_000_002..1_000_003, 1_000_004..3_000_000]);
            let array = Array::open(path.join("0")).unwrap();
            assert_eq!(array.shape(), [3_000_001, 4, 4]);
            for number in [0, 1, 1_000_001, 1_000_003, 3_000_000] {
                let mut pixels = [0; 16];
                array.read_region(&[number, 0, 0], &[1, 4, 4], &mut pixels).unwrap();
                assert_eq!(pixels[..], frame(number, 16)[..], "frame {number}, {shard} a shard");
            }
            let shard = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().path().join("0/0").exists();
            let shards = std::fs::read_dir(path.join("0/c")).unwrap().map(shard).filter(|&there| there);
            assert_eq!(shards.count() as u64, summary.shards, "no empty shards are left");
        }
    });
}

#[test]
fn shards_prepared_for_a_leap_are_given_back_while_the_run_goes_on() {
    within(60, || {
        // The preparer is busy while the leap passes the shards that it was asked for.
        let barrier = Barrier::default();
        let slow = barrier.clone();
        let storage = Probed::new(move |call, key| {
            if call == Call::Create && !key.contains("c/0/") {
                slow.pass();
            }
            Ok(())
        });
        let dims = vec![Dim::time(None).chunk(1).shard(1), Dim::y(16), Dim::x(16)];
        let acquisition = Acquisition::create_in(storage.shared(), Config { dims, ..tiny(None, 16) }).unwrap();
        commit(&acquisition, 0).unwrap();
        commit(&acquisition, 1000).unwrap();
        barrier.open();
        (1001..1200).for_each(|number| commit(&acquisition, number).unwrap());
        wait_until("all but the newest are closed", || acquisition.stats().shards_closed > 150);
        let leapt_over = || storage.memory.keys().iter().filter(|key| is_shard_between(key, 1, 900)).count();
        wait_until("no shard of the leap is left", || leapt_over() == 0);
        assert_eq!(acquisition.finish().unwrap().shards, 201);
    });
}

fn is_shard_between(key: &str, from: u64, to: u64) -> bool {
    let number = key.strip_prefix("0/c/").and_then(|rest| rest.split('/').next()?.parse::<u64>().ok());
    number.is_some_and(|number| (from..to).contains(&number))
}

#[test]
fn all_frames_of_a_bounded_run_may_come_in_any_order_if_they_fit_the_ring() {
    within(60, || {
        // One shard a frame, the newest first: far more shards than the writer keeps open.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.zarr");
        let dims = vec![Dim::time(300).chunk(1).shard(1), Dim::y(16), Dim::x(16)];
        let acquisition = Acquisition::create(&path, Config { dims, ..tiny(None, 300) }).unwrap();
        let window = acquisition.reorder_window();
        let mut numbers: Vec<u64> = (0..300).collect();
        numbers.chunks_mut(window as usize).for_each(<[u64]>::reverse);
        numbers.into_iter().for_each(|number| commit(&acquisition, number).unwrap());
        assert_eq!(acquisition.finish().unwrap().frames_missing, 0);
        holds(&path, 0..300, 300);
    });
}

#[test]
fn shards_of_unequal_length_may_all_be_open() {
    within(60, || {
        // Blocks of 8 frames and of 1 take turns, so a window of this many frames touches twice as many shards.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.zarr");
        let dims = vec![Dim::time(None).chunk(1).shard(1), Dim::z(9).chunk(1).shard(8), Dim::y(16), Dim::x(16)];
        let acquisition = Acquisition::create(&path, Config { dims, ..tiny(None, 2000) }).unwrap();
        let window = acquisition.reorder_window();
        let end = 4 * window;
        let mut numbers: Vec<u64> = (0..end).collect();
        numbers.chunks_mut(window as usize).for_each(<[u64]>::reverse);
        numbers.into_iter().for_each(|number| commit(&acquisition, number).unwrap());
        assert_eq!(acquisition.finish().unwrap().frames_written, end);
    });
}

#[test]
fn progress_may_be_as_rare_or_as_frequent_as_one_likes() {
    for checkpoint_every in [Duration::MAX, Duration::from_secs(u64::MAX / 4), Duration::ZERO, Duration::from_nanos(1)]
    {
        within(60, move || {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("run.zarr");
            let acquisition = Acquisition::create(&path, Config { checkpoint_every, ..tiny(None, 8) }).unwrap();
            (0..10).for_each(|number| commit(&acquisition, number).unwrap());
            acquisition.finish().unwrap();
            holds(&path, 0..10, 10);
        });
    }
}

#[test]
fn a_panic_in_a_worker_costs_one_chunk() {
    within(60, || {
        let storage = Probed::new(|call, key| {
            assert!(!(call == Call::WriteAt && is_worker() && key.contains("c/1/")), "a bug in the storage");
            Ok(())
        });
        let acquisition = Acquisition::create_in(storage.shared(), tiny(None, 16)).unwrap();
        // Shard 1 holds frames 4 to 8; by the first error some of them are on their way, and all come home.
        let taken = (0..40).take_while(|&number| commit(&acquisition, number).is_ok()).count() as u64;
        wait_until("all buffers are home", || acquisition.stats().ring_free == 16);
        let error = commit(&acquisition, taken).unwrap_err();
        assert!(matches!(&error, Error::Panicked { message } if message.contains("a bug in the storage")), "{error:?}");
        let unfinished = acquisition.finish().unwrap_err();
        assert!(matches!(unfinished.error, Error::Panicked { .. }));
        let (_, pixels) = read_back(&storage.memory);
        for (number, got) in (0..taken).zip(pixels.chunks_exact(FRAME_BYTES)) {
            let expected = if (4..8).contains(&number) { vec![0; FRAME_BYTES] } else { frame(number, FRAME_BYTES) };
            assert!(got == expected, "frame {number}");
        }
    });
}

#[test]
fn an_array_that_ends_before_its_plan_is_told() {
    let folder = tempfile::tempdir().unwrap();
    for (planned, is_told) in [(Some(10), true), (Some(3), false), (None, false)] {
        let path = folder.path().join(format!("{planned:?}.zarr"));
        let acquisition = Acquisition::create(&path, tiny(planned, 16)).unwrap();
        for number in 0..3 {
            assert_eq!(acquisition.append(&frame(number, 256)).unwrap().frames, 1);
        }
        let summary = acquisition.finish().unwrap();
        let note = "the array ends with its last frame: 3 long in its first dimension, not 10";
        assert_eq!((summary.shape[0], summary.frames_missing), (3, 0));
        assert_eq!(summary.notes.iter().any(|told| told == note), is_told, "{planned:?}: {:?}", summary.notes);
    }
}
