//! Other programs cut off, remove or replace the files of a run: it says so, and what they left alone stays.

mod common;

use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use common::storage::wait_until;
use common::{frame, tiny};
use shardwright::offline::Array;
use shardwright::{Acquisition, Config, StorageKind};

/// Lets `meddle` loose on the second shard while frames come, and returns the error with which the run ends.
fn run(storage: StorageKind, meddle: impl Fn(&Path)) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    let often = Duration::from_millis(10);
    let config = Config { storage, sync: true, checkpoint_every: often, ..tiny(None, 32) };
    let acquisition = Acquisition::create(&path, config).unwrap();
    (0..6).for_each(|number| assert_eq!(acquisition.append(&frame(number, 256)).unwrap().frames, 1));
    wait_until("six frames are durable", || acquisition.stats().frames_durable == 6);
    meddle(&path.join("0/c/1/0/0"));
    // The run may take frames until the next checkpoint looks; then it ends.
    let refused = (6..1000).find_map(|number| {
        std::thread::sleep(Duration::from_millis(1));
        acquisition.append(&frame(number, 256)).err()
    });
    let unfinished = acquisition.finish().expect_err("a part of a shard is lost");
    assert_eq!(refused.expect("the run goes on").to_string(), unfinished.error.to_string());
    let missing = &unfinished.summary.missing;
    assert!(missing.iter().any(|range| range.contains(&4)), "the lost frames are named: {missing:?}");
    // The shard before is untouched.
    let mut pixels = vec![0; 4 * 256];
    Array::open(&path).unwrap().read_region(&[0, 0, 0], &[4, 16, 16], &mut pixels).unwrap();
    assert!(pixels == (0..4).flat_map(|number| frame(number, 256)).collect::<Vec<_>>());
    unfinished.error.to_string()
}

#[test]
fn a_shard_that_is_cut_off_is_noticed() {
    // Under a memory map the process would get SIGBUS: the README warns of that storage.
    for storage in [StorageKind::Buffered, StorageKind::Direct] {
        let error = run(storage, |shard| File::options().write(true).open(shard).unwrap().set_len(100).unwrap());
        assert!(error.contains("0/c/1/0/0") && error.contains("cut the file off"), "{error}");
    }
}

#[test]
fn a_shard_that_is_taken_away_is_noticed() {
    for storage in [StorageKind::Mapped, StorageKind::Buffered, StorageKind::Direct] {
        let error = run(storage, |shard| fs::remove_file(shard).unwrap());
        assert!(error.contains("0/c/1/0/0") && error.contains("removed, moved or replaced"), "{error}");
        let error = run(storage, |shard| {
            fs::write(shard.with_extension("other"), fs::read(shard).unwrap()).unwrap();
            fs::rename(shard.with_extension("other"), shard).unwrap();
        });
        assert!(error.contains("removed, moved or replaced"), "{error}");
    }
}
