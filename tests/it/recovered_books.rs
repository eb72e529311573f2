//! What a recovery writes down agrees with what it found: frame numbers in the records, what is missing, how many there
//! are.

use crate::common::recovered;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::Path;

use crate::common::stopped::{files, record_block, restore, small, sound, stopped, written};
use crate::common::storage::{Call, Probed, save};
use crate::common::tiny;
use serde_json::Value;
use shardwright::offline::{Array, Recovery};
use shardwright::{
    Acquisition, Codec, Compressor, Config, Dialect, Dim, IndexLocation, Placement, Record, StorageKind,
};

const FIXED: (Placement, IndexLocation, StorageKind) = (Placement::Fixed, IndexLocation::End, StorageKind::Buffered);

fn apply(path: &Path) -> Recovery {
    recovered(path, true).unwrap()
}

fn column(path: &Path, name: &str) -> Vec<i64> {
    let bytes = Array::open(path.join("records").join(name)).unwrap().read_all().unwrap();
    bytes.chunks_exact(8).map(|value| i64::from_le_bytes(value.try_into().unwrap())).collect()
}

fn own(path: &Path) -> Value {
    let document: Value = serde_json::from_slice(&fs::read(path.join("zarr.json")).unwrap()).unwrap();
    document["attributes"]["shardwright"].clone()
}

fn all(ranges: &[Range<u64>]) -> Vec<u64> {
    ranges.iter().cloned().flatten().collect()
}

/// Documents, records and the report say the same, and a second recovery finds nothing to do.
fn books_agree(path: &Path, found: &Recovery) {
    let (image, own) = (&found.images[0], own(path));
    let missing: Vec<Range<u64>> = serde_json::from_value::<Vec<[u64; 2]>>(own["missing"].clone())
        .unwrap()
        .iter()
        .map(|range| range[0]..range[1])
        .collect();
    assert_eq!(missing, image.missing);
    assert_eq!(own["frames_missing"], all(&missing).len());
    assert_eq!((&own["frames"], &own["chunks"]), (&image.frames.into(), &image.chunks.into()));
    let numbers = column(path, "frame_number");
    assert!(numbers.len() as u64 >= image.frames);
    for (place, &number) in (0..image.frames).zip(&numbers) {
        let is_missing = all(&missing).contains(&place);
        assert_eq!(number == -1, is_missing, "frame {place} has the number {number}, missing: {missing:?}");
        assert!(is_missing || number == -2 || number == place as i64, "frame {place} has the number {number}");
    }
    sound(path);
    let before = files(path);
    let again = apply(path);
    assert!(!again.is_needed(), "{again:#?}");
    assert_eq!(files(path), before);
}

#[test]
fn headers_give_frames_their_numbers_back() {
    for frames in [None, Some(12)] {
        let folder = tempfile::tempdir().unwrap();
        let dims = vec![Dim::time(frames).chunk(1).shard(4), Dim::y(8).chunk(4), Dim::x(8).chunk(4)];
        let config = Config { dims, ..small(FIXED) };
        let path = stopped(folder.path(), &config, &[0, 1, 2, 3, 6, 7, 8], 7);
        // As if the writer had been killed before it wrote any.
        for field in fs::read_dir(path.join("records")).unwrap() {
            let _ = fs::remove_dir_all(field.unwrap().path().join("c"));
        }
        let found = apply(&path);
        assert!(found.documents.contains(&"records/frame_number/c/0".to_owned()), "{:?}", found.documents);
        assert_eq!(column(&path, "frame_number")[..9], [0, 1, 2, 3, -1, -1, 6, 7, 8]);
        assert!(column(&path, "host_timestamp").iter().all(|&stamp| stamp == 0), "nobody can tell the time");
        books_agree(&path, &found);
    }
}

#[test]
fn a_header_proves_the_ends_of_a_deep_chunk_and_how_many_lie_between() {
    let dims = vec![Dim::time(None).chunk(4).shard(1024), Dim::y(8), Dim::x(8)];
    let config = Config { dims, ..small(FIXED) };
    let folder = tempfile::tempdir().unwrap();
    let numbers: Vec<_> = (0..300).filter(|number| ![1, 5, 6, 8].contains(number)).collect();
    let path = stopped(folder.path(), &config, &numbers, 296);
    let found = apply(&path);
    // One of 1 and 2 came, none of 5 and 6; 8 would be the lowest number of its chunk, whose header names 9.
    assert_eq!(found.images[0].missing, vec![5..7, 8..9]);
    assert_eq!(column(&path, "frame_number")[..13], [0, -2, -2, 3, 4, -1, -1, 7, -1, 9, 10, 11, 12]);
    books_agree(&path, &found);
}

#[test]
fn frames_whose_chunks_are_lost_have_no_number() {
    let config = Config { checkpoint_every: std::time::Duration::from_millis(10), ..small(FIXED) };
    let folder = tempfile::tempdir().unwrap();
    let path = stopped(folder.path(), &config, &[0, 1, 2, 3, 4, 5], 6);
    assert_eq!(column(&path, "frame_number")[..6], [0, 1, 2, 3, 4, 5]);
    let shard = path.join("0/c/1/0/0");
    let mut bytes = fs::read(&shard).unwrap();
    let second = bytes.windows(4).position(|word| word == b"SWc1").unwrap();
    bytes[second + 70] ^= 1;
    fs::write(&shard, bytes).unwrap();
    let found = apply(&path);
    assert_eq!(found.images[0].missing, vec![4..5]);
    assert_eq!(column(&path, "frame_number")[..6], [0, 1, 2, 3, -1, 5]);
    books_agree(&path, &found);
}

/// Of an array of a planned length, the records alone tell how far the camera had come.
#[test]
fn frames_that_came_and_waited_for_others_are_missing_after_a_kill() {
    let dims = vec![Dim::time(40).chunk(4).shard(8), Dim::y(8), Dim::x(8)];
    let config = Config { dims, checkpoint_every: std::time::Duration::from_millis(30), ..small(FIXED) };
    let folder = tempfile::tempdir().unwrap();
    let live = folder.path().join("live");
    let acquisition = Acquisition::create(&live, config.clone()).unwrap();
    (0..4).for_each(|number| crate::common::stopped::commit(&acquisition, &config, number));
    written(&acquisition, 4);
    // As long as more come between checkpoints, their chunk is not stored before it is full.
    (4..7).for_each(|number| crate::common::stopped::commit(&acquisition, &config, number));
    let block = live.join("records/frame_number/c/0");
    crate::common::storage::wait_until("they are recorded", || {
        let bytes = fs::read(&block).unwrap_or_default();
        bytes.len() >= 56 && bytes[48..56] == 6i64.to_le_bytes()
    });
    let path = folder.path().join("left");
    restore(&path, &files(&live));
    drop(acquisition);
    let found = apply(&path);
    let came = if found.images[0].missing.is_empty() { 7 } else { 4 };
    assert_eq!((found.images[0].frames, found.images[0].frames_missing), (7, 7 - came), "{found:?}");
    books_agree(&path, &found);
}

/// A storage that never cuts a file off: every shard fails at its close, and all that was in it is there all the same.
fn never_truncates() -> Probed {
    Probed::new(|call, key| match call {
        Call::Truncate => Err(io::Error::other(format!("boom at {key}"))),
        _ => Ok(()),
    })
}

#[test]
fn frames_of_a_shard_that_failed_are_listed_no_longer_once_they_are_back() {
    for depth in [1, 2] {
        let storage = never_truncates();
        let dims = vec![Dim::time(None).chunk(depth).shard(8), Dim::y(16), Dim::x(16)];
        let config = Config { dims, ..tiny(None, 64) };
        let acquisition = Acquisition::create_in(storage.shared(), config).unwrap();
        for number in (0..16u64).filter(|number| ![2, 3, 9].contains(number)) {
            let mut slot = acquisition.acquire().unwrap();
            slot.copy_from_slice(&crate::common::frame(number, 256));
            if slot.commit(number, Record::default()).is_err() {
                break;
            }
        }
        let summary = acquisition.finish().unwrap_err().summary;
        assert!(summary.frames_missing > 3, "{summary:?}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("left.zarr");
        save(&storage.memory, &path);
        let found = apply(&path);
        // Whatever was accepted is back; what never came is not.
        let missing = all(&found.images[0].missing);
        let never: Vec<u64> = [2, 3, 9].into_iter().filter(|&number| number < found.images[0].frames).collect();
        assert_eq!(missing, never, "chunks of {depth}");
        books_agree(&path, &found);
    }
}

/// A folder of the dataset that is a link leads to where a stranger wants files.
#[test]
fn nothing_is_made_behind_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let dims = vec![Dim::time(40).chunk(1).shard(4), Dim::y(8).chunk(4), Dim::x(8).chunk(4)];
    let codec = Codec { compressor: Compressor::None, checksum: false };
    let config = Config { dims, codec, dialect: Dialect::Zarr2Sharded, ..small(FIXED) };
    let path = stopped(folder.path(), &config, &[0, 1], 2);
    let outside = folder.path().join("outside");
    for linked in ["7", "records/frame_number/c"] {
        fs::create_dir_all(&outside).unwrap();
        fs::create_dir_all(path.join(linked).parent().unwrap()).unwrap();
        let _ = fs::remove_dir_all(path.join(linked));
        std::os::unix::fs::symlink(&outside, path.join(linked)).unwrap();
        let refused = recovered(&path, true).unwrap_err().to_string();
        assert!(refused.contains("link out of") || refused.contains("symbolic link"), "{refused}");
        assert_eq!(files(&outside).len(), 0, "{linked}: {:?}", files(&outside).keys());
        fs::remove_file(path.join(linked)).unwrap();
    }
    assert!(apply(&path).applied);
    assert!(path.join("7/0/0").exists() || path.join("7.0.0").exists());
}

/// A shard may have been moved away from where something else stands now: without it, its frames would be given up.
#[test]
fn what_stands_for_a_shard_and_is_no_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = stopped(folder.path(), &small(FIXED), &[0, 1, 2, 3, 4], 5);
    let shard = path.join("0/c/0/0/0");
    let bytes = fs::read(&shard).unwrap();
    let pipe = |shard: &Path| rustix::fs::mkfifoat(rustix::fs::CWD, shard, rustix::fs::Mode::RWXU).unwrap();
    for make in [&pipe as &dyn Fn(&Path), &|shard: &Path| fs::create_dir(shard).unwrap()] {
        fs::remove_file(&shard).unwrap();
        make(&shard);
        for applies in [false, true] {
            let refused = recovered(&path, applies).unwrap_err().to_string();
            assert!(refused.contains("0/c/0/0/0: is not a regular file"), "{refused}");
        }
        if fs::remove_file(&shard).is_err() {
            fs::remove_dir(&shard).unwrap();
        }
        fs::write(&shard, &bytes).unwrap();
    }
    assert_eq!((apply(&path).images[0].frames, apply(&path).images[0].frames_missing), (5, 0));
}

#[test]
fn records_that_were_written_stay_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let live = folder.path().join("live");
    let config = Config { checkpoint_every: std::time::Duration::from_millis(10), ..small(FIXED) };
    let acquisition = Acquisition::create(&live, config.clone()).unwrap();
    (0..6).for_each(|number| crate::common::stopped::commit(&acquisition, &config, number));
    written(&acquisition, 6);
    let (block, at) = record_block(&live, "host_timestamp", 0);
    crate::common::storage::wait_until("all stamps are there", || {
        let bytes = fs::read(&block).unwrap_or_default();
        bytes.len() >= at + 48 && bytes[at + 40..at + 48] != [0; 8]
    });
    let path = folder.path().join("left");
    restore(&path, &files(&live));
    let stamps = fs::read(path.join("records/host_timestamp/c/0")).unwrap();
    drop(acquisition);
    let found = apply(&path);
    assert_eq!(fs::read(path.join("records/host_timestamp/c/0")).unwrap(), stamps);
    books_agree(&path, &found);
}
