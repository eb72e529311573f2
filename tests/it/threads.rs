//! Many threads, tiny rings, tiny frames, tiny shards: all frames are there at the end, and all are right.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use crate::common::storage::{Barrier, Call, Probed, is_worker, read_back, wait_until, within};
use crate::common::{frame, tiny};
use shardwright::offline::Array;
use shardwright::{
    Acquisition, Appended, Codec, Compressor, Config, Dim, FrameMut, Placement, Record, RingFull, StorageKind,
};

/// A small random number generator, so that threads sleep at different places in each run.
struct Dice(u64);

impl Dice {
    fn new(thread: u64) -> Self {
        let nanoseconds = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().subsec_nanos();
        Self(u64::from(nanoseconds).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (thread << 32) | 1)
    }

    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % sides
    }
}

/// Commits `0..frames` from `producers` threads, each with up to `loans` buffers at once, which it commits in any
/// order.
///
/// A number may fall behind the newest by no more than the window, so no thread starts a number before those too far
/// behind it are committed.
fn produce(acquisition: &Acquisition, frames: u64, producers: u64, loans: usize, sleeps: bool) {
    let window = acquisition.reorder_window();
    let next = AtomicU64::new(0);
    // What each thread has yet to commit begins here.
    let oldest: Vec<AtomicU64> = (0..producers).map(|_| AtomicU64::new(u64::MAX)).collect();
    std::thread::scope(|scope| {
        for thread in 0..producers {
            let (next, oldest) = (&next, &oldest);
            scope.spawn(move || {
                let mut dice = Dice::new(thread);
                loop {
                    let mut held: Vec<(u64, FrameMut)> = Vec::new();
                    // Buffers first, numbers then: whoever has a number never waits for a buffer.
                    let buffers: Vec<FrameMut> = (0..loans).map(|_| acquisition.acquire().unwrap()).collect();
                    oldest[thread as usize].store(0, SeqCst);
                    let first = next.fetch_add(buffers.len() as u64, SeqCst);
                    oldest[thread as usize].store(first, SeqCst);
                    while first + loans as u64 > oldest.iter().map(|at| at.load(SeqCst)).min().unwrap() + window {
                        std::thread::yield_now();
                    }
                    for (number, mut slot) in (first..frames).zip(buffers) {
                        let bytes = slot.len();
                        slot.copy_from_slice(&frame(number, bytes));
                        held.push((number, slot));
                    }
                    while !held.is_empty() {
                        let (number, slot) = held.swap_remove(dice.roll(held.len() as u64) as usize);
                        if sleeps && dice.roll(50) == 0 {
                            std::thread::sleep(Duration::from_micros(dice.roll(300)));
                        }
                        slot.commit(number, Record::default()).unwrap();
                    }
                    oldest[thread as usize].store(u64::MAX, SeqCst);
                    if first + loans as u64 >= frames {
                        return;
                    }
                }
            });
        }
    });
}

fn check(path: &Path, frames: u64) {
    let array = Array::open(path.join("0")).unwrap();
    assert_eq!(array.shape()[0], frames);
    let pixels = array.read_all().unwrap();
    let frame_bytes = pixels.len() / frames as usize;
    for (number, got) in (0..).zip(pixels.chunks_exact(frame_bytes)) {
        assert!(got == frame(number, frame_bytes), "frame {number}");
    }
}

fn run(config: Config, frames: u64, producers: u64, loans: usize, sleeps: bool) {
    within(120, move || {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.zarr");
        let acquisition = Acquisition::create(&path, config).unwrap();
        produce(&acquisition, frames, producers, loans, sleeps);
        let summary = acquisition.finish().unwrap();
        assert_eq!((summary.frames_accepted, summary.frames_written, summary.frames_missing), (frames, frames, 0));
        check(&path, frames);
    });
}

fn small(t: Dim, side: u64, chunk: u64) -> Vec<Dim> {
    vec![t, Dim::y(side).chunk(chunk), Dim::x(side).chunk(chunk)]
}

#[test]
fn two_hundred_thousand_frames_of_64_bytes() {
    let dims = small(Dim::time(None).chunk(64).shard(64 * 256), 8, 8);
    run(Config { dims, workers: 64, ..tiny(None, 1024) }, 200_000, 8, 4, false);
}

#[test]
fn a_ring_hardly_larger_than_the_loans() {
    let dims = small(Dim::time(None).chunk(1).shard(128), 8, 4);
    run(Config { dims, workers: 64, placement: Placement::Packed, ..tiny(None, 40) }, 20_000, 8, 4, false);
}

#[test]
fn one_frame_a_shard() {
    let dims = small(Dim::time(None).chunk(1).shard(1), 8, 8);
    run(Config { dims, workers: 16, ..tiny(None, 64) }, 3_000, 8, 2, true);
}

#[test]
fn many_shards_side_by_side() {
    let dims = vec![Dim::time(None).chunk(4).shard(8), Dim::y(32).chunk(8).shard(8), Dim::x(32).chunk(16).shard(16)];
    run(Config { dims, workers: 16, storage: StorageKind::Buffered, ..tiny(None, 64) }, 800, 8, 3, true);
}

#[test]
fn deep_chunks_with_random_sleeps() {
    let dims = small(Dim::time(None).chunk(16).shard(64), 16, 8);
    run(Config { dims, workers: 64, ..tiny(None, 128) }, 10_000, 8, 4, true);
}

#[test]
fn a_bounded_run_whose_frames_all_fit_the_ring() {
    let dims = small(Dim::time(200).chunk(1).shard(3), 8, 8);
    run(Config { dims, workers: 64, ..tiny(None, 200) }, 200, 8, 8, true);
}

#[test]
fn threads_that_append_share_the_numbers() {
    within(60, || {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.zarr");
        let dims = small(Dim::time(None).chunk(4).shard(64), 8, 8);
        let acquisition = Acquisition::create(&path, Config { dims, workers: 4, ..tiny(None, 64) }).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..8u8 {
                let acquisition = &acquisition;
                scope.spawn(move || {
                    for _ in 0..500 {
                        let done = acquisition.append(&[thread + 1; 128]).unwrap();
                        assert_eq!(done, Appended { frames: 2, dropped: 0 });
                    }
                });
            }
        });
        let summary = acquisition.finish().unwrap();
        assert_eq!((summary.frames_written, summary.frames_missing), (8000, 0));
        let pixels = Array::open(path.join("0")).unwrap().read_all().unwrap();
        let mut counts = [0; 9];
        for got in pixels.chunks_exact(64) {
            assert!(got.iter().all(|&byte| byte == got[0]), "frames of two threads were mixed");
            counts[got[0] as usize] += 1;
        }
        assert_eq!(counts, [0, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000]);
    });
}

#[test]
fn threads_that_append_and_drop_count_every_frame() {
    within(60, || {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.zarr");
        let dims = small(Dim::time(None).chunk(1).shard(64), 64, 16);
        let config = Config { dims, workers: 1, ring_full: RingFull::DropNewest, ..tiny(None, 4) };
        let acquisition = Acquisition::create(&path, config).unwrap();
        let (taken, dropped) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                let (acquisition, taken, dropped) = (&acquisition, &taken, &dropped);
                scope.spawn(move || {
                    for _ in 0..1000 {
                        let done = acquisition.append(&[thread + 1; 4096]).unwrap();
                        taken.fetch_add(done.frames, Relaxed);
                        dropped.fetch_add(done.dropped, Relaxed);
                    }
                });
            }
        });
        let (taken, dropped) = (taken.into_inner(), dropped.into_inner());
        assert_eq!(taken + dropped, 4000);
        assert!(dropped > 0, "the ring never filled");
        let summary = acquisition.finish().unwrap();
        assert_eq!((summary.frames_accepted, summary.shape[0]), (taken, 4000));
        assert!(summary.frames_missing >= dropped, "{summary:?}");
    });
}

#[test]
fn several_runs_at_once() {
    within(120, || {
        std::thread::scope(|scope| {
            for side in [8, 16, 24, 32] {
                scope.spawn(move || {
                    let dims = small(Dim::time(None).chunk(2).shard(10), side, 8);
                    run(Config { dims, workers: 4, ..tiny(None, 32) }, 500, 3, 2, true);
                });
            }
        });
    });
}

#[test]
fn workers_that_compress_write_one_at_a_time_where_writes_wait() {
    let (now, most) = (AtomicU64::new(0), Arc::new(AtomicU64::new(0)));
    let seen = most.clone();
    let storage = Probed::new(move |call, _| {
        if call == Call::WriteAt && is_worker() {
            seen.fetch_max(now.fetch_add(1, Relaxed) + 1, Relaxed);
            std::thread::sleep(Duration::from_micros(200));
            now.fetch_sub(1, Relaxed);
        }
        Ok(())
    });
    let storage = storage.one_at_a_time();
    let config = Config { codec: Codec::from(Compressor::Zstd { level: 1 }), workers: 4, ..tiny(None, 64) };
    let acquisition = Acquisition::create_in(storage.shared(), config).unwrap();
    for number in 0..600 {
        let _ = acquisition.append(&frame(number, 256)).unwrap();
    }
    assert_eq!(acquisition.finish().unwrap().frames_written, 600);
    assert_eq!(most.load(Relaxed), 1, "all others encode or wait, and leave their cores to the camera");
    let (_, pixels) = read_back(&storage.memory);
    for number in 0..600 {
        assert!(pixels[number * 256..][..256] == frame(number as u64, 256), "frame {number}");
    }
}

#[test]
fn buffers_come_back_while_later_frames_still_wait() {
    const FRAMES: u64 = 32;
    let barrier = Barrier::default();
    // How many buffers are free when half of all bytes are written.
    let (watched, free) = (Arc::new(OnceLock::<Weak<Acquisition>>::new()), Arc::new(OnceLock::new()));
    let (seen, found, opened) = (watched.clone(), free.clone(), barrier.clone());
    let storage = Probed::new(move |call, _| {
        if call == Call::WriteAt && is_worker() {
            opened.pass();
            let stats = seen.get().and_then(Weak::upgrade).expect("it writes").stats();
            if stats.bytes_out >= stats.bytes_in / 2 {
                found.get_or_init(|| stats.ring_free as u64);
            }
        }
        Ok(())
    });
    let dims = vec![Dim::time(None).chunk(1).shard(4), Dim::y(16).chunk(8), Dim::x(16)];
    let config = Config { dims, workers: 2, ..tiny(None, FRAMES as usize) };
    let acquisition = Arc::new(Acquisition::create_in(storage.shared(), config).unwrap());
    watched.set(Arc::downgrade(&acquisition)).unwrap();
    for number in 0..FRAMES {
        let _ = acquisition.append(&frame(number, 256)).unwrap();
    }
    barrier.open();
    wait_until("all frames are written", || acquisition.stats().frames_written == FRAMES);
    let free = *free.get().expect("half of it was written once");
    assert!((FRAMES / 4..FRAMES).contains(&free), "{free} of {FRAMES} buffers were free");
}
