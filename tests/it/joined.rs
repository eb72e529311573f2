//! Chunks that wait for a device are written together, and none takes others with it when that fails.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use crate::common::frame;
use crate::common::storage::{Barrier, Call, Probed, read_back, wait_until, within};
use shardwright::{Acquisition, Codec, Compressor, Config, Dim, Dtype, Placement, Record, Stage, Summary, Unfinished};

const SIDE: u64 = 64;
const FRAME_BYTES: usize = (SIDE * SIDE) as usize;
const FRAMES: u64 = 48;
/// Threads that write past the page cache.
const WRITERS: u64 = 4;

/// How chunks come to lie one behind the other: because they are packed, or because they fill their slots.
const WAYS: [(Placement, Compressor); 2] =
    [(Placement::Packed, Compressor::Zstd { level: 1 }), (Placement::Fixed, Compressor::None)];

/// What came of a run, and how many writes of one chunk and of several it took.
struct Ran {
    ended: Result<Summary, Unfinished>,
    storage: Probed,
    single: u64,
    joined: u64,
}

/// Writes frames of one chunk each into shards of a third of them. Nothing is written before all are encoded, and each
/// call asks `fails`, with its number among those of its kind.
fn run(way: (Placement, Compressor), fails: fn(Call, u64) -> bool) -> Ran {
    within(60, move || run_unwatched(way, fails))
}

fn run_unwatched((placement, compressor): (Placement, Compressor), fails: fn(Call, u64) -> bool) -> Ran {
    let (single, joined, barrier) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)), Barrier::default());
    let (singles, joints, held) = (single.clone(), joined.clone(), barrier.clone());
    let storage = Probed::new(move |call, _| {
        let is_writer = std::thread::current().name().is_some_and(|name| name.starts_with("sw-write"));
        let count = match call {
            Call::WriteAt if is_writer => &singles,
            Call::WriteJoined => &joints,
            _ => return Ok(()),
        };
        held.pass();
        let number = count.fetch_add(1, SeqCst);
        if fails(call, number) { Err(io::Error::other("bad sector")) } else { Ok(()) }
    });
    let storage = storage.past_the_page_cache();
    let config = Config {
        dtype: Dtype::U8,
        dims: vec![Dim::time(None).chunk(1).shard(FRAMES / 3), Dim::y(SIDE), Dim::x(SIDE)],
        codec: Codec::from(compressor),
        placement,
        // There is room for chunks to wait in according to this.
        ring_bytes: 128 * FRAMES as usize * FRAME_BYTES,
        workers: 2,
        ..Config::default()
    };
    let acquisition = Acquisition::create_in(storage.shared(), config).unwrap();
    for number in 0..FRAMES {
        let mut slot = acquisition.acquire().unwrap();
        slot.copy_from_slice(&frame(number, FRAME_BYTES));
        slot.commit(number, Record::default()).unwrap();
    }
    wait_until("all chunks wait to be written", || {
        acquisition.latencies().iter().any(|row| row.stage == Stage::Store && row.count == FRAMES)
    });
    barrier.open();
    let ended = acquisition.finish();
    Ran { ended, storage, single: single.load(SeqCst), joined: joined.load(SeqCst) }
}

/// Every frame that is not in `missing` must be there.
fn check(storage: &Probed, missing: &[Range<u64>]) {
    let (shape, pixels) = read_back(&storage.memory);
    assert_eq!(shape, [FRAMES, SIDE, SIDE]);
    for (number, seen) in (0..).zip(pixels.chunks_exact(FRAME_BYTES)) {
        if !missing.iter().any(|range| range.contains(&number)) {
            assert!(seen == frame(number, FRAME_BYTES), "frame {number}");
        }
    }
}

#[test]
fn chunks_that_wait_are_written_together() {
    for way in WAYS {
        let ran = run(way, |_, _| false);
        let summary = ran.ended.unwrap();
        assert_eq!((summary.frames_written, summary.chunks_written), (FRAMES, FRAMES), "{way:?}");
        // What the writers held when the others came, and a few: where a shard ends, and where a slot's neighbour was
        // held.
        assert!(ran.joined > 0 && ran.single + ran.joined < FRAMES / 2, "{way:?}: {} and {}", ran.single, ran.joined);
        check(&ran.storage, &[]);
    }
}

#[test]
fn what_fails_together_is_written_one_by_one() {
    for way in WAYS {
        let ran = run(way, |call, _| call == Call::WriteJoined);
        let unfinished = ran.ended.unwrap_err();
        assert!(unfinished.error.to_string().contains("bad sector"), "{}", unfinished.error);
        assert_eq!(unfinished.summary.frames_written, FRAMES, "{way:?}: {:?}", unfinished.summary.missing);
        assert_eq!(ran.single, FRAMES, "each by itself");
        check(&ran.storage, &[]);
    }
}

#[test]
fn of_what_fails_together_one_can_be_lost_alone() {
    for way in WAYS {
        let ran = run(way, |call, number| call == Call::WriteJoined || number == FRAMES / 2);
        let unfinished = ran.ended.unwrap_err();
        let summary = unfinished.summary;
        assert_eq!((summary.frames_written, summary.frames_missing), (FRAMES - 1, 1), "{way:?}: {:?}", summary.missing);
        check(&ran.storage, &summary.missing);
    }
}

#[test]
fn a_storage_that_panics_takes_only_what_it_held() {
    for way in WAYS {
        let ran = run(way, |call, number| {
            if call == Call::WriteJoined && number == 0 {
                std::panic::resume_unwind(Box::new("boom"));
            }
            false
        });
        let unfinished = ran.ended.unwrap_err();
        let summary = unfinished.summary;
        assert!(unfinished.error.to_string().contains("boom"), "{}", unfinished.error);
        assert!(summary.frames_missing >= 2 && summary.frames_written >= WRITERS, "{way:?}: {:?}", summary.missing);
        assert_eq!(summary.frames_written + summary.frames_missing, FRAMES);
        check(&ran.storage, &summary.missing);
    }
}
