//! What is called durable survives, and readers follow a running acquisition.

mod common;

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use common::fault_log::{FaultLog, Image, Op, crash};
use common::storage::{Call, Probed, wait_until};
use common::{frame, tiny};
use shardwright::offline::Array;
use shardwright::{Acquisition, Codec, Compressor, Config, Dim, IndexLocation, Placement, Record, StorageKind};

const OFTEN: Duration = Duration::from_millis(10);
/// Torn images that are made and looked at, over all kinds of shards.
fn images() -> u64 {
    std::env::var("SHARDWRIGHT_CRASH_IMAGES").map_or(10_000, |count| count.parse().expect("a number of images"))
}

#[test]
fn a_reader_follows_a_running_acquisition() {
    for storage in [StorageKind::Mapped, StorageKind::Buffered, StorageKind::Direct] {
        for (placement, index_location) in [
            (Placement::Fixed, IndexLocation::End),
            (Placement::Packed, IndexLocation::End),
            (Placement::Fixed, IndexLocation::Start),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("run.zarr");
            let dims = vec![Dim::time(None).chunk(2).shard(64), Dim::y(16), Dim::x(16)];
            let means =
                Config { placement, index_location, storage, checkpoint_every: OFTEN, sync: true, ..tiny(None, 32) };
            let acquisition = Acquisition::create(&path, Config { dims, ..means }).unwrap();
            // All in the first shard, which stays open.
            for frames in [4, 20] {
                let taken = acquisition.stats().frames_accepted;
                (taken..frames)
                    .for_each(|number| assert_eq!(acquisition.append(&frame(number, 256)).unwrap().frames, 1));
                wait_until("the frames are durable", || acquisition.stats().frames_durable == frames);
                wait_until("the shape follows", || Array::open(path.join("0")).unwrap().shape()[0] == frames);
                let expected: Vec<u8> = (0..frames).flat_map(|number| frame(number, 256)).collect();
                let seen = Array::open(path.join("0")).unwrap().read_all().unwrap();
                assert!(seen == expected, "{storage:?} {placement:?} {index_location:?}, {frames} frames");
            }
            assert_eq!(acquisition.finish().unwrap().frames_durable, 20);
        }
    }
}

#[test]
fn without_checkpoints_nothing_is_durable_before_its_shard_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let config = Config { checkpoint_every: Duration::ZERO, sync: true, ..tiny(None, 32) };
    let acquisition = Acquisition::create(folder.path().join("run.zarr"), config).unwrap();
    (0..6).for_each(|number| assert_eq!(acquisition.append(&frame(number, 256)).unwrap().frames, 1));
    wait_until("the first shard is closed", || acquisition.stats().frames_durable == 4);
    wait_until("all frames are in their slots", || acquisition.stats().frames_written == 6);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(acquisition.stats().frames_durable, 4);
    assert_eq!(acquisition.finish().unwrap().frames_durable, 6);
}

#[test]
fn without_sync_nothing_is_called_durable() {
    let folder = tempfile::tempdir().unwrap();
    let config = Config { checkpoint_every: OFTEN, ..tiny(None, 32) };
    let acquisition = Acquisition::create(folder.path().join("run.zarr"), config).unwrap();
    (0..6).for_each(|number| assert_eq!(acquisition.append(&frame(number, 256)).unwrap().frames, 1));
    let summary = acquisition.finish().unwrap();
    assert_eq!((summary.frames_written, summary.frames_durable), (6, 0));
}

#[test]
fn a_shard_whose_sync_failed_is_not_trusted_any_more() {
    let (breaks, syncs_after) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (seen, counted) = (breaks.clone(), syncs_after.clone());
    let storage = Probed::new(move |call, key| {
        // Of the first shard, once; after that the device says that all is well, as Linux does.
        if call == Call::Sync && key == "0/c/0/0/0" && seen.load(SeqCst) {
            return match counted.fetch_add(1, SeqCst) {
                0 => Err(io::Error::other("the cable is out")),
                _ => Ok(()),
            };
        }
        Ok(())
    });
    let dims = vec![Dim::time(None).chunk(1).shard(64), Dim::y(16), Dim::x(16)];
    let config = Config { dims, checkpoint_every: OFTEN, sync: true, ..tiny(None, 32) };
    let acquisition = Acquisition::create_in(storage.shared(), config).unwrap();
    (0..3).for_each(|number| assert_eq!(acquisition.append(&frame(number, 256)).unwrap().frames, 1));
    wait_until("they are durable", || acquisition.stats().frames_durable == 3);
    breaks.store(true, SeqCst);
    drop(acquisition.append(&frame(3, 256)));
    wait_until("the sync fails", || syncs_after.load(SeqCst) > 0);
    wait_until("callers hear of it", || acquisition.append(&frame(4, 256)).is_err());
    let unfinished = acquisition.finish().unwrap_err();
    assert!(unfinished.error.to_string().contains("the cable is out"), "{}", unfinished.error);
    assert_eq!(syncs_after.load(SeqCst), 1, "a failed sync is never tried again");
    assert_eq!(unfinished.summary.frames_durable, 3);
    assert_eq!(unfinished.summary.frames_written, 0, "of a shard that can't be trusted none is called written");
}

#[test]
fn a_viewer_sees_the_newest_frame_and_holds_no_one_up() {
    let folder = tempfile::tempdir().unwrap();
    let acquisition = Acquisition::create(folder.path().join("run.zarr"), tiny(None, 8)).unwrap();
    assert!(acquisition.newest().is_none());
    let done = AtomicBool::new(false);
    let views = std::thread::scope(|scope| {
        let viewer = scope.spawn(|| {
            let mut views = 0;
            while !done.load(SeqCst) {
                if let Some(view) = acquisition.newest() {
                    assert_eq!(view[..256], frame(view.number(), 256), "frame {}", view.number());
                    views += 1;
                }
            }
            views
        });
        for number in 0..3000 {
            acquisition.append(&frame(number, 256)).unwrap();
        }
        done.store(true, SeqCst);
        viewer.join().unwrap()
    });
    assert!(views > 0);
    assert_eq!(acquisition.finish().unwrap().frames_written, 3000);
}

/// One run with its log; the chunks are `depth` frames of 16 by 16 bytes.
fn logged(placement: Placement, index_location: IndexLocation, depth: u64) -> Vec<Op> {
    let log = FaultLog::default();
    let dims = vec![Dim::time(None).chunk(depth).shard(8 * depth), Dim::y(16), Dim::x(16)];
    let codec = Codec { compressor: Compressor::None, checksum: false };
    let means =
        Config { placement, index_location, checkpoint_every: OFTEN, sync: true, workers: 2, ..tiny(None, 128) };
    let acquisition = Acquisition::create_in(Arc::new(log.clone()), Config { dims, codec, ..means }).unwrap();
    let mut durable = 0;
    let mut note = |frames| {
        if frames > durable {
            durable = frames;
            log.note(Op::Durable { frames });
        }
    };
    for number in 0..20 * depth {
        let mut slot = acquisition.acquire().unwrap();
        slot[..256].copy_from_slice(&frame(number, 256));
        slot.commit(number, Record::default()).unwrap();
        if (number + 1) % (5 * depth) == 0 {
            // Full shards as well as open ones.
            wait_until("all of it is durable", || acquisition.stats().frames_durable == number + 1);
        }
        note(acquisition.stats().frames_durable);
    }
    note(acquisition.finish().unwrap().frames_durable);
    log.ops()
}

/// The frames that the indexes of an image name, after looking at every byte of them.
fn readable(image: &Image, index_location: IndexLocation, depth: u64) -> BTreeSet<u64> {
    let mut frames = BTreeSet::new();
    for (key, shard) in image.files.iter().filter(|(key, _)| key.starts_with("0/c/")) {
        let number: u64 = key.split('/').nth(2).unwrap().parse().unwrap();
        let index = match index_location {
            IndexLocation::Start => &shard[..132],
            IndexLocation::End => &shard[shard.len() - 132..],
        };
        let (entries, crc) = index.split_at(128);
        assert_eq!(crc, crc32c::crc32c(entries).to_le_bytes(), "{key}: an index of one page is never torn");
        for (chunk, entry) in entries.chunks_exact(16).enumerate() {
            let word = |at: usize| u64::from_le_bytes(entry[at..at + 8].try_into().unwrap());
            if word(0) == u64::MAX {
                continue;
            }
            let payload = &shard[word(0) as usize..][..word(8) as usize];
            let first = (8 * number + chunk as u64) * depth;
            let expected: Vec<u8> = (first..first + depth).flat_map(|number| frame(number, 256)).collect();
            assert!(payload == expected, "{key}, chunk {chunk}: the index names what is not there");
            frames.extend(first..first + depth);
        }
    }
    frames
}

#[test]
fn after_a_loss_of_power_all_that_was_durable_is_there_and_nothing_is_wrong() {
    let mut kinds = Vec::new();
    for placement in [Placement::Fixed, Placement::Packed] {
        for index_location in [IndexLocation::End, IndexLocation::Start] {
            // A chunk within a page, and one of several pages.
            for depth in [1, 40] {
                kinds.push((index_location, depth, logged(placement, index_location, depth)));
            }
        }
    }
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for number in 0..images() {
        let (index_location, depth, ops) = &kinds[number as usize % kinds.len()];
        let moment = random() as usize % (ops.len() + 1);
        let image = crash(&ops[..moment], || random() % 2 == 0);
        let there = readable(&image, *index_location, *depth);
        assert!(there.len() as u64 >= image.durable, "{} of {} durable frames are there", there.len(), image.durable);
    }
    // The log itself says that the run got somewhere, and with checkpoints in the middle of shards.
    let durable = |ops: &[Op]| ops.iter().filter(|op| matches!(op, Op::Durable { .. })).count();
    assert!(kinds.iter().all(|(.., ops)| durable(ops) > 3), "too few checkpoints to say anything");
}
