//! What is called durable survives, and readers follow a running acquisition.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::common::fault_log::{FaultLog, Image, Op, crash};
use crate::common::storage::{Call, Probed, is_worker, read_back, wait_until};
use crate::common::{frame, on_disk, tiny};
use shardwright::offline::Array;
use shardwright::{
    Acquisition, Codec, Compressor, Config, Dialect, Dim, IndexLocation, Placement, Record, StorageKind, Unfinished,
    Volume,
};

const OFTEN: Duration = Duration::from_millis(10);
/// Torn images that are made and looked at, over all kinds of shards.
fn images() -> u64 {
    std::env::var("SHARDWRIGHT_CRASH_IMAGES").map_or(2_500, |count| count.parse().expect("a number of images"))
}

#[test]
fn a_reader_follows_a_running_acquisition() {
    for storage in [StorageKind::Mapped, StorageKind::Buffered, StorageKind::Direct] {
        for (placement, index_location) in [
            (Placement::Fixed, IndexLocation::End),
            (Placement::Packed, IndexLocation::End),
            (Placement::Fixed, IndexLocation::Start),
        ] {
            let folder = on_disk();
            let path = folder.path().join("run.zarr");
            // An index at the start follows only while it fits a sector.
            let dims = vec![Dim::time(None).chunk(2).shard(60), Dim::y(16), Dim::x(16)];
            let base =
                Config { placement, index_location, storage, checkpoint_every: OFTEN, sync: true, ..tiny(None, 32) };
            let acquisition = Acquisition::create(&path, Config { dims, ..base }).unwrap();
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
fn without_checkpoints_or_with_rare_ones_what_is_in_closed_shards_is_durable() {
    for checkpoint_every in [Duration::ZERO, Duration::from_secs(60)] {
        let folder = on_disk();
        let config = Config { checkpoint_every, sync: true, ..tiny(None, 32) };
        let path = folder.path().join("run.zarr");
        let acquisition = Acquisition::create(&path, config).unwrap();
        acquisition.set_attribute("dish", "B".into()).unwrap();
        (0..6).for_each(|number| assert_eq!(acquisition.append(&frame(number, 256)).unwrap().frames, 1));
        wait_until("the first shard is closed", || acquisition.stats().frames_durable == 4);
        wait_until("all frames are in their slots", || acquisition.stats().frames_written == 6);
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(acquisition.stats().frames_durable, 4);
        let document = std::fs::read_to_string(path.join("zarr.json")).unwrap();
        assert!(document.contains("dish"), "{document}");
        assert!(Array::open(path.join("0")).unwrap().shape()[0] >= 4);
        assert_eq!(acquisition.finish().unwrap().frames_durable, 6);
    }
}

#[test]
fn without_sync_nothing_is_called_durable() {
    let folder = on_disk();
    let config = Config { checkpoint_every: OFTEN, ..tiny(None, 32) };
    let acquisition = Acquisition::create(folder.path().join("run.zarr"), config).unwrap();
    (0..6).for_each(|number| assert_eq!(acquisition.append(&frame(number, 256)).unwrap().frames, 1));
    let summary = acquisition.finish().unwrap();
    assert_eq!((summary.frames_written, summary.frames_durable), (6, 0));
}

/// Commits three frames, waits until they are durable, and then lets `calls` fail this many `times` for the first
/// shard; returns what the run ended with, how often there was such a call from then on, and what the storage holds.
fn failing_after_three_durable(
    index_location: IndexLocation,
    calls: &'static [Call],
    times: u64,
) -> (Unfinished, u64, Probed) {
    let (breaks, calls_after) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (seen, counted) = (breaks.clone(), calls_after.clone());
    let storage = Probed::new(move |called, key| {
        let meant = calls.contains(&called) && key == "0/c/0/0/0" && !is_worker() && seen.load(SeqCst);
        match meant && counted.fetch_add(1, SeqCst) < times {
            true => Err(io::Error::other("the cable is out")),
            false => Ok(()),
        }
    });
    let dims = vec![Dim::time(None).chunk(1).shard(30), Dim::y(16), Dim::x(16)];
    let config = Config { dims, checkpoint_every: OFTEN, sync: true, index_location, ..tiny(None, 32) };
    let acquisition = Acquisition::create_in(storage.shared(), config).unwrap();
    (0..3).for_each(|number| assert_eq!(acquisition.append(&frame(number, 256)).unwrap().frames, 1));
    wait_until("they are durable", || acquisition.stats().frames_durable == 3);
    breaks.store(true, SeqCst);
    // One for a checkpoint to find, and more until callers hear of it.
    drop(acquisition.append(&frame(3, 256)));
    wait_until("the call fails", || calls_after.load(SeqCst) > 0);
    let mut next = 4;
    wait_until("callers hear of it", || {
        next += 1;
        acquisition.append(&frame(next - 1, 256)).is_err()
    });
    let unfinished = acquisition.finish().unwrap_err();
    assert!(unfinished.error.to_string().contains("the cable is out"), "{}", unfinished.error);
    (unfinished, calls_after.load(SeqCst), storage)
}

#[test]
fn a_shard_whose_sync_failed_is_not_trusted_any_more() {
    for index_location in [IndexLocation::End, IndexLocation::Start] {
        let (unfinished, syncs_after, storage) = failing_after_three_durable(index_location, &[Call::Sync], 1);
        // Linux tells of it once, and says after that that all is well.
        assert_eq!(syncs_after, 1, "a failed sync is never tried again");
        let summary = &unfinished.summary;
        assert_eq!((summary.frames_durable, summary.frames_written), (3, 3), "what was durable before stays");
        assert_eq!(summary.missing, vec![3..summary.frames_accepted]);
        let (_, pixels) = read_back(&storage.memory);
        for number in 0..3 {
            assert!(pixels[256 * number as usize..][..256] == frame(number, 256), "frame {number}");
        }
    }
}

#[test]
fn an_index_that_could_not_be_replaced_is_written_again_at_the_close() {
    for (index_location, call) in [(IndexLocation::End, &[Call::Grow]), (IndexLocation::Start, &[Call::WriteAt])] {
        let (unfinished, _, storage) = failing_after_three_durable(index_location, call, 1);
        let summary = &unfinished.summary;
        assert_eq!((summary.frames_durable, summary.frames_missing), (summary.frames_accepted, 0));
        let (_, pixels) = read_back(&storage.memory);
        for number in 0..summary.frames_accepted {
            assert!(pixels[256 * number as usize..][..256] == frame(number, 256), "frame {number}");
        }
    }
}

#[test]
fn an_index_that_may_be_torn_counts_for_nothing() {
    let (unfinished, _, _) = failing_after_three_durable(IndexLocation::Start, &[Call::WriteAt], u64::MAX);
    assert_eq!(unfinished.summary.frames_written, 0);
}

#[test]
fn an_index_at_the_end_stays_until_the_next_one_is_there() {
    let calls = &[Call::Grow, Call::WriteAt];
    let (unfinished, _, storage) = failing_after_three_durable(IndexLocation::End, calls, u64::MAX);
    assert_eq!((unfinished.summary.frames_durable, unfinished.summary.frames_written), (3, 3));
    let (_, pixels) = read_back(&storage.memory);
    assert!((0..3).all(|number| pixels[256 * number as usize..][..256] == frame(number, 256)));
}

#[test]
fn a_disk_without_room_for_a_newer_index_ends_no_run() {
    let full = Probed::new(|call, _| match call {
        Call::Grow => Err(io::ErrorKind::StorageFull.into()),
        _ => Ok(()),
    });
    let dims = vec![Dim::time(None).chunk(1).shard(30), Dim::y(16), Dim::x(16)];
    let config = Config { dims, checkpoint_every: OFTEN, sync: true, ..tiny(None, 32) };
    let acquisition = Acquisition::create_in(full.shared(), config).unwrap();
    for number in 0..8 {
        assert_eq!(acquisition.append(&frame(number, 256)).unwrap().frames, 1);
        std::thread::sleep(OFTEN);
    }
    assert_eq!(acquisition.stats().frames_durable, 0);
    assert_eq!(acquisition.finish().unwrap().frames_durable, 8);
}

/// Frames a shard, each a chunk, and how often checkpoints are due.
fn of_many_chunks(shard: u64, checkpoint_every: Duration) -> Config {
    let dims = vec![Dim::time(None).chunk(1).shard(shard), Dim::y(16), Dim::x(16)];
    Config { dims, checkpoint_every, sync: true, ..tiny(None, 32) }
}

#[test]
fn a_long_index_names_new_frames_with_the_next_checkpoint() {
    let storage = Probed::new(|_, _| Ok(()));
    let config = of_many_chunks(4096, Duration::from_millis(500));
    let acquisition = Acquisition::create_in(storage.shared(), config).unwrap();
    for frames in 1..4 {
        assert_eq!(acquisition.append(&frame(frames, 256)).unwrap().frames, 1);
        let start = Instant::now();
        wait_until("it is durable", || acquisition.stats().frames_durable == frames);
        // 32 checkpoints later it was.
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    }
    acquisition.finish().unwrap();
}

#[test]
fn what_older_indexes_keep_has_a_bound_where_there_are_no_holes() {
    let grown = Arc::new(AtomicU64::new(0));
    let counted = grown.clone();
    let storage = Probed::new(move |call, _| match call {
        Call::Punch => Err(io::ErrorKind::Unsupported.into()),
        Call::Grow => Ok(_ = counted.fetch_add(1, SeqCst)),
        _ => Ok(()),
    });
    // The first of them would be given back after nine.
    let acquisition = Acquisition::create_in(storage.shared(), of_many_chunks(4096, OFTEN)).unwrap();
    let start = Instant::now();
    for number in 0..60 {
        assert_eq!(acquisition.append(&frame(number, 256)).unwrap().frames, 1);
        std::thread::sleep(OFTEN);
    }
    let checkpoints = (start.elapsed().as_millis() / OFTEN.as_millis()) as u64;
    assert!((1..=10 + checkpoints / 32).contains(&grown.load(SeqCst)), "{grown:?} of {checkpoints}");
    // Nor does the close mind.
    assert_eq!(acquisition.finish().unwrap().frames_durable, 60);
}

#[test]
fn long_indexes_leave_the_device_to_the_frames() {
    const CHUNKS: u64 = 100_000;
    let grown = Arc::new(AtomicU64::new(0));
    let counted = grown.clone();
    let storage = Probed::new(move |call, _| match call {
        Call::Grow => Ok(_ = counted.fetch_add(16 * CHUNKS, SeqCst)),
        _ => Ok(()),
    });
    let acquisition = Acquisition::create_in(storage.shared(), of_many_chunks(CHUNKS, OFTEN)).unwrap();
    let start = Instant::now();
    for number in 0..150 {
        assert_eq!(acquisition.append(&frame(number, 256)).unwrap().frames, 1);
        std::thread::sleep(OFTEN);
    }
    let (written, durable) = (grown.load(SeqCst), acquisition.stats().frames_durable);
    let allowed = (start.elapsed().as_secs_f64() * (10 << 20) as f64) as u64 + 16 * CHUNKS;
    assert!(written <= allowed, "{written} bytes of indexes; {allowed} were allowed");
    assert!(durable > 0);
    assert_eq!(acquisition.finish().unwrap().frames_durable, 150);
}

#[test]
fn where_an_index_could_be_torn_nothing_is_durable_before_the_close() {
    // 33 chunks and a checksum are more than a sector; without a checksum each entry stands for itself.
    for (shard, index_checksum, at_once) in [(33, true, false), (31, true, true), (4096, false, true)] {
        let folder = on_disk();
        let dims = vec![Dim::time(None).chunk(1).shard(shard), Dim::y(16), Dim::x(16)];
        let index_location = IndexLocation::Start;
        let base = Config { index_location, index_checksum, checkpoint_every: OFTEN, sync: true, ..tiny(None, 32) };
        let acquisition = Acquisition::create(folder.path().join("run.zarr"), Config { dims, ..base }).unwrap();
        (0..5).for_each(|number| assert_eq!(acquisition.append(&frame(number, 256)).unwrap().frames, 1));
        match at_once {
            true => wait_until("the frames are durable", || acquisition.stats().frames_durable == 5),
            false => std::thread::sleep(20 * OFTEN),
        }
        assert_eq!(acquisition.stats().frames_durable, if at_once { 5 } else { 0 }, "{shard} chunks");
        let summary = acquisition.finish().unwrap();
        assert_eq!(summary.frames_durable, 5);
        assert_eq!(summary.notes.iter().any(|note| note.contains("at the start")), !at_once, "{:?}", summary.notes);
    }
}

#[test]
fn a_viewer_sees_the_newest_frame_and_holds_no_one_up() {
    let folder = tempfile::tempdir().unwrap();
    let acquisition = Acquisition::create(folder.path().join("run.zarr"), tiny(None, 8)).unwrap();
    assert!(acquisition.newest().is_none());
    let (done, has_seen) = (AtomicBool::new(false), AtomicBool::new(false));
    let frames = std::thread::scope(|scope| {
        let viewer = scope.spawn(|| {
            while !done.load(SeqCst) {
                if let Some(view) = acquisition.newest() {
                    assert_eq!(view[..256], frame(view.number(), 256), "frame {}", view.number());
                    has_seen.store(true, SeqCst);
                }
            }
        });
        // On a busy machine, the viewer may begin late.
        let mut number = 0;
        while number < 3000 || !has_seen.load(SeqCst) && !viewer.is_finished() {
            let _ = acquisition.append(&frame(number, 256)).unwrap();
            number += 1;
        }
        done.store(true, SeqCst);
        number
    });
    assert_eq!(acquisition.finish().unwrap().frames_written, frames);
}

/// A run whose shards hold 8 chunks of `depth` frames of 16 by 16 bytes.
struct Kind {
    config: Config,
    depth: u64,
    ops: Vec<Op>,
}

impl Kind {
    fn new(config: Config, depth: u64) -> Self {
        let log = FaultLog::default();
        // A volume's shards get their length from its bits.
        let shard = if config.dialect == Dialect::Precomputed { 0 } else { 8 * depth };
        let dims = vec![Dim::time(None).chunk(depth).shard(shard), Dim::y(16), Dim::x(16)];
        let codec = Codec { compressor: Compressor::None, checksum: false };
        let base = tiny(None, 128);
        let config = Config {
            dims,
            codec,
            checkpoint_every: OFTEN,
            sync: true,
            workers: 2,
            dtype: base.dtype,
            ring_bytes: base.ring_bytes,
            ..config
        };
        let acquisition = Acquisition::create_in(Arc::new(log.clone()), config.clone()).unwrap();
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
            // The document of a volume that grows tells of whole chunks only.
            let in_a_chunk =
                depth > 1 && config.dialect != Dialect::Precomputed && (number + 1) % (3 * depth) == depth / 2;
            if (number + 1) % (5 * depth) == 0 || in_a_chunk {
                // Full shards as well as open ones, and chunks that wait for more frames.
                wait_until("all of it is durable", || acquisition.stats().frames_durable == number + 1);
            }
            note(acquisition.stats().frames_durable);
        }
        note(acquisition.finish().unwrap().frames_durable);
        Self { config, depth, ops: log.ops() }
    }

    /// The chunks that a shard's index names: their numbers in the array, offsets and lengths.
    fn entries(&self, key: &str, shard: &[u8]) -> Vec<(u64, u64, u64)> {
        let word = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[8 * at..8 * at + 8].try_into().unwrap());
        if self.config.dialect == Dialect::Precomputed {
            let minishards = 1 << self.config.volume.minishard_bits.unwrap();
            let mut found = Vec::new();
            for minishard in 0..minishards {
                let [start, end] = [0, 1].map(|at| word(shard, 2 * minishard + at) as usize + 16 * minishards);
                let (index, mut id, mut reached) = (&shard[start..end], 0, 16 * minishards as u64);
                let count = index.len() / 24;
                for at in 0..count {
                    id += word(index, at);
                    let (offset, nbytes) = (reached.wrapping_add(word(index, count + at)), word(index, 2 * count + at));
                    reached = offset + nbytes;
                    // One chunk covers a frame, so the id is that along time.
                    found.push((id, offset, nbytes));
                }
            }
            return found;
        }
        let (has_crc, location) = (self.config.dialect == Dialect::Zarr3, self.config.index_location);
        let bytes = if has_crc { 132 } else { 128 };
        let index = match location {
            IndexLocation::Start => &shard[..bytes],
            _ => &shard[shard.len() - bytes..],
        };
        let (entries, crc) = index.split_at(128);
        if has_crc {
            assert_eq!(crc, crc32c::crc32c(entries).to_le_bytes(), "{key}: an index is never torn");
        }
        let number = key.split('/').rev().nth(2).unwrap().trim_start_matches('c').parse::<u64>().unwrap();
        let entries =
            (0..8).map(|chunk| (8 * number + chunk as u64, word(entries, 2 * chunk), word(entries, 2 * chunk + 1)));
        entries.filter(|(_, offset, _)| *offset != u64::MAX).collect()
    }

    /// The frames that the indexes of an image name, after looking at every byte of them.
    fn readable(&self, image: &Image) -> BTreeSet<u64> {
        let mut frames = BTreeSet::new();
        let is_shard =
            |key: &str| !key.starts_with("records/") && key.ends_with(['d', '0']) && !key.starts_with("meta");
        for (key, shard) in image.files.iter().filter(|(key, _)| is_shard(key)) {
            for (chunk, offset, nbytes) in self.entries(key, shard) {
                let payload = &shard[offset as usize..][..nbytes as usize];
                let first = chunk * self.depth;
                let (mut end, mut planes) = (first, payload.chunks(256));
                while end < first + self.depth && planes.next().is_some_and(|plane| plane == frame(end, 256)) {
                    end += 1;
                }
                // What is not there yet is the fill value.
                let is_whole = end > first && payload.len() as u64 == 256 * self.depth;
                let is_right = is_whole && payload[256 * (end - first) as usize..].iter().all(|&byte| byte == 0);
                assert!(is_right, "{key}, chunk {chunk}: the index names what is not there");
                frames.extend(first..end);
            }
        }
        frames
    }
}

#[test]
fn after_a_loss_of_power_all_that_was_durable_is_there_and_nothing_is_wrong() {
    let mut configs = Vec::new();
    for placement in [Placement::Fixed, Placement::Packed] {
        for index_location in [IndexLocation::End, IndexLocation::Start] {
            configs.push(Config { placement, index_location, ..Config::default() });
        }
        for (dialect, bits) in [
            (Dialect::Zarr3Transformer, None),
            (Dialect::Zarr2Sharded, None),
            (Dialect::Precomputed, Some((3, 0))),
            (Dialect::Precomputed, Some((1, 2))),
        ] {
            let volume = bits.map_or_else(Volume::default, |(preshift, minishard)| Volume {
                preshift_bits: Some(preshift),
                minishard_bits: Some(minishard),
                ..Volume::default()
            });
            configs.push(Config { placement, dialect, volume, ..Config::default() });
        }
    }
    // A chunk within a page, and one of several pages.
    let kinds: Vec<_> = configs.iter().flat_map(|w| [1, 40].map(|depth| Kind::new(w.clone(), depth))).collect();
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for number in 0..images() {
        let kind = &kinds[number as usize % kinds.len()];
        let moment = random() as usize % (kind.ops.len() + 1);
        let image = crash(&kind.ops[..moment], || random() % 2 == 0);
        let there = kind.readable(&image);
        assert!(there.len() as u64 >= image.durable, "{} of {} durable frames are there", there.len(), image.durable);
    }
    // The log itself says that the run got somewhere, and with checkpoints in the middle of shards.
    let durable = |ops: &[Op]| ops.iter().filter(|op| matches!(op, Op::Durable { .. })).count();
    assert!(kinds.iter().all(|kind| durable(&kind.ops) > 3), "too few checkpoints to say anything");
}
