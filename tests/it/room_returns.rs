//! A shard that finds no room while older ones are still on their way is made when these have given back what they
//! don't need.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use crate::common::storage::{Call, Probed, is_worker, within};
use crate::common::{frame, tiny};
use shardwright::{Acquisition, Config, Error, Record, StorageKind};

/// A storage with room for `shards` open shards, in which a chunk takes `write` and the end of a shard `close`.
fn small(shards: u64, write: Duration, close: Duration) -> Probed {
    let open = Arc::new(AtomicU64::new(0));
    Probed::new(move |call, key| {
        match call {
            Call::Create if open.load(SeqCst) == shards => return Err(io::ErrorKind::StorageFull.into()),
            Call::Create => drop(open.fetch_add(1, SeqCst)),
            Call::WriteAt if is_worker() => std::thread::sleep(write),
            // The last call of a shard's close: what it has reserved in vain is free again.
            Call::Truncate => {
                std::thread::sleep(close);
                assert!(key.starts_with("0/c"));
                open.fetch_sub(1, SeqCst);
            }
            _ => {}
        }
        Ok(())
    })
}

fn bring(acquisition: &Acquisition, numbers: std::ops::Range<u64>) -> Result<(), Error> {
    numbers.into_iter().try_for_each(|number| {
        let mut slot = acquisition.acquire()?;
        slot.copy_from_slice(&frame(number, 256));
        slot.commit(number, Record::default())
    })
}

#[test]
fn a_shard_waits_for_the_room_that_older_ones_give_back() {
    for (write, close) in [(0, 0), (100, 0), (0, 300)] {
        within(120, move || {
            let storage = small(1, Duration::from_millis(write), Duration::from_millis(close));
            let acquisition = Acquisition::create_in(storage.shared(), tiny(None, 32)).unwrap();
            bring(&acquisition, 0..16).unwrap();
            let summary = acquisition.finish().unwrap();
            assert_eq!((summary.frames_written, summary.frames_missing, summary.shards), (16, 0, 4));
        });
    }
}

#[test]
fn a_disk_that_stays_full_ends_the_run_before_long() {
    within(30, || {
        // Nothing that closes gives anything back.
        let made = AtomicU64::new(0);
        let storage = Probed::new(move |call, _| match call {
            Call::Create if made.fetch_add(1, SeqCst) > 0 => Err(io::ErrorKind::StorageFull.into()),
            _ => Ok(()),
        });
        let acquisition = Acquisition::create_in(storage.shared(), tiny(None, 32)).unwrap();
        let error = bring(&acquisition, 0..10_000).unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "{error}");
        let unfinished = acquisition.finish().unwrap_err();
        assert_eq!(unfinished.summary.frames_written, 4);
    });
}

#[test]
fn a_gap_in_an_older_shard_does_not_hold_up_the_error() {
    within(30, || {
        // Number 2 never comes, so the first shard stays open until the window moves on, and that needs the second.
        let storage = small(1, Duration::ZERO, Duration::ZERO);
        let acquisition = Acquisition::create_in(storage.shared(), tiny(None, 32)).unwrap();
        bring(&acquisition, 0..2).unwrap();
        let error = bring(&acquisition, 3..10_000).unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "{error}");
        acquisition.finish().unwrap_err();
    });
}

/// Folders without anything in them, below `folder`.
fn empty_folders(folder: &Path) -> Vec<PathBuf> {
    let entries: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    match entries.is_empty() {
        true => vec![folder.to_path_buf()],
        false => entries.iter().filter(|path| path.is_dir()).flat_map(|path| empty_folders(path)).collect(),
    }
}

/// Those of shards that were created ahead of need go with them; another's stay.
#[test]
fn nothing_stays_of_shards_that_were_created_in_vain() {
    for storage in [StorageKind::Mapped, StorageKind::Buffered, StorageKind::Direct] {
        for frames in [0, 1, 9] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("run.zarr");
            let acquisition = Acquisition::create(&path, Config { storage, ..tiny(None, 16) }).unwrap();
            bring(&acquisition, 0..frames).unwrap();
            let (theirs, foreign) = (path.join("0/c/theirs"), path.join("0/c/999/0"));
            [&theirs, &foreign].iter().for_each(|folder| fs::create_dir_all(folder).unwrap());
            acquisition.finish().unwrap();
            let mut left = empty_folders(&path);
            left.sort();
            assert_eq!(left, [foreign, theirs], "{storage:?}");
        }
    }
}
