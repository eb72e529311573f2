//! What happens when the disk is slower than the camera: the ring fills, and the policy says who waits and what is let
//! go.

use std::time::{Duration, Instant};

use crate::common::books::Books;
use crate::common::storage::{
    Barrier, Call, Probed, held_up_by, is_worker, read_back, save, scratch, wait_until, within,
};
use crate::common::{frame, tiny};
use shardwright::{Acquisition, Appended, Config, Error, Record, RingFull, Summary};

const FRAME_BYTES: usize = 256;
const RING: usize = 8;

/// An acquisition with a ring of [`RING`] frames whose worker stands still until the barrier is opened.
fn held_up(ring_full: RingFull) -> (Acquisition, Probed, Barrier) {
    let barrier = Barrier::default();
    let storage = held_up_by(&barrier);
    let config = Config { ring_full, ..tiny(None, RING) };
    (Acquisition::create_in(storage.shared(), config).unwrap(), storage, barrier)
}

fn commit(acquisition: &Acquisition, number: u64) -> Result<(), Error> {
    let mut slot = acquisition.acquire()?;
    slot.copy_from_slice(&frame(number, FRAME_BYTES));
    slot.commit(number, Record::default())
}

fn frames(numbers: std::ops::Range<u64>) -> Vec<u8> {
    numbers.flat_map(|number| frame(number, FRAME_BYTES)).collect()
}

/// Checks that the array holds all of `0..end` but those in the summary's ranges, and the fill value there.
fn check(storage: &Probed, summary: &Summary, end: u64) {
    let (shape, pixels) = read_back(&storage.memory);
    assert_eq!(shape, [end, 16, 16]);
    for (number, got) in (0..).zip(pixels.chunks_exact(FRAME_BYTES)) {
        let missing = summary.missing.iter().any(|range| range.contains(&number));
        let expected = if missing { vec![0; FRAME_BYTES] } else { frame(number, FRAME_BYTES) };
        assert!(got == expected, "frame {number}, missing: {missing}");
    }
    let document = storage.memory.read("zarr.json").unwrap();
    let document: serde_json::Value = serde_json::from_slice(&document).unwrap();
    let ranges: Vec<_> = summary.missing.iter().map(|range| serde_json::json!([range.start, range.end])).collect();
    assert_eq!(document["attributes"]["shardwright"]["missing"], serde_json::json!(ranges));
    assert_eq!(summary.frames_written + summary.frames_missing, end);
    let missing = flat(&summary.missing);
    let accepted = (0..end).filter(|number| !missing.contains(number)).collect();
    let (config, pixels) = (tiny(None, RING), |number| frame(number, FRAME_BYTES));
    let folder = scratch();
    save(&storage.memory, folder.path());
    let books = Books { config: &config, accepted: &accepted, pixels: &pixels, documents_failed: false };
    books.check(folder.path(), summary);
}

fn ring_full(result: Result<impl std::fmt::Debug, Error>) -> Duration {
    match result {
        Err(Error::RingFull { frames: RING, waited, .. }) => waited,
        other => panic!("{other:?}"),
    }
}

#[test]
fn block_waits_and_loses_nothing() {
    within(60, || {
        let (acquisition, storage, barrier) = held_up(RingFull::Block { timeout: None });
        std::thread::scope(|scope| {
            let producer = scope.spawn(|| (0..100).for_each(|number| commit(&acquisition, number).unwrap()));
            wait_until("the ring is full", || acquisition.stats().ring_free == 0);
            std::thread::sleep(Duration::from_millis(100));
            assert!(!producer.is_finished());
            assert_eq!(acquisition.stats().frames_accepted, RING as u64);
            barrier.open();
        });
        let summary = acquisition.finish().unwrap();
        assert_eq!((summary.frames_written, summary.frames_missing), (100, 0));
        check(&storage, &summary, 100);
    });
}

#[test]
fn append_waits_as_well() {
    within(60, || {
        let (acquisition, storage, barrier) = held_up(RingFull::Block { timeout: None });
        std::thread::scope(|scope| {
            let producer = scope.spawn(|| acquisition.append(&frames(0..30)).unwrap());
            wait_until("the ring is full", || acquisition.stats().ring_free == 0);
            barrier.open();
            assert_eq!(producer.join().unwrap(), Appended { frames: 30, dropped: 0 });
        });
        let summary = acquisition.finish().unwrap();
        check(&storage, &summary, 30);
    });
}

#[test]
fn block_with_a_timeout_says_so_after_that_time_and_can_be_repeated() {
    within(60, || {
        let timeout = Duration::from_millis(150);
        let (acquisition, storage, barrier) = held_up(RingFull::Block { timeout: Some(timeout) });
        (0..RING as u64).for_each(|number| commit(&acquisition, number).unwrap());
        for _ in 0..2 {
            let start = Instant::now();
            let waited = ring_full(acquisition.acquire());
            assert!(waited >= timeout && start.elapsed() >= timeout, "{waited:?}");
            assert!(start.elapsed() < 100 * timeout, "{:?}", start.elapsed());
        }
        let error = acquisition.append(&frames(8..9)).unwrap_err();
        assert!(error.to_string().contains("full after 0."), "{error}");
        barrier.open();
        commit(&acquisition, 8).unwrap();
        let summary = acquisition.finish().unwrap();
        assert_eq!(summary.frames_missing, 0);
        check(&storage, &summary, 9);
    });
}

#[test]
fn append_that_times_out_on_the_way_says_how_far_it_came() {
    within(60, || {
        let (acquisition, storage, barrier) = held_up(RingFull::Block { timeout: Some(Duration::from_millis(50)) });
        assert_eq!(acquisition.append(&frames(0..12)).unwrap(), Appended { frames: 8, dropped: 0 });
        ring_full(acquisition.append(&frames(8..12)));
        barrier.open();
        let mut next = 8;
        while next < 12 {
            next += acquisition.append(&frames(next..12)).unwrap().frames;
        }
        let summary = acquisition.finish().unwrap();
        assert_eq!(summary.frames_missing, 0);
        check(&storage, &summary, 12);
    });
}

#[test]
fn drop_newest_counts_what_append_lets_go() {
    within(60, || {
        let (acquisition, storage, barrier) = held_up(RingFull::DropNewest);
        assert_eq!(acquisition.append(&frames(0..20)).unwrap(), Appended { frames: 8, dropped: 12 });
        assert_eq!(acquisition.stats().frames_dropped, 12);
        barrier.open();
        wait_until("the ring is free", || acquisition.stats().ring_free == RING);
        assert_eq!(acquisition.append(&frames(20..25)).unwrap(), Appended { frames: 5, dropped: 0 });
        let summary = acquisition.finish().unwrap();
        assert_eq!(summary.missing, std::slice::from_ref(&(8..20)));
        assert_eq!((summary.frames_accepted, summary.frames_written, summary.frames_missing), (13, 13, 12));
        check(&storage, &summary, 25);
    });
}

#[test]
fn drop_newest_counts_frames_let_go_at_the_very_end() {
    within(60, || {
        let (acquisition, storage, barrier) = held_up(RingFull::DropNewest);
        assert_eq!(acquisition.append(&frames(0..11)).unwrap(), Appended { frames: 8, dropped: 3 });
        barrier.open();
        let summary = acquisition.finish().unwrap();
        assert_eq!(summary.missing, std::slice::from_ref(&(8..11)));
        check(&storage, &summary, 11);
    });
}

#[test]
fn drop_newest_lets_acquire_say_so_and_the_number_is_missing() {
    within(60, || {
        let (acquisition, storage, barrier) = held_up(RingFull::DropNewest);
        (0..RING as u64).for_each(|number| commit(&acquisition, number).unwrap());
        let start = Instant::now();
        assert_eq!(ring_full(commit(&acquisition, 8)), Duration::ZERO);
        assert!(start.elapsed() < Duration::from_secs(15), "it must not wait");
        assert_eq!(acquisition.stats().frames_dropped, 1);
        barrier.open();
        wait_until("the ring is free", || acquisition.stats().ring_free == RING);
        commit(&acquisition, 9).unwrap();
        let summary = acquisition.finish().unwrap();
        assert_eq!(summary.missing, std::slice::from_ref(&(8..9)));
        check(&storage, &summary, 10);
    });
}

#[test]
fn error_leaves_the_frame_with_the_caller() {
    within(60, || {
        let (acquisition, storage, barrier) = held_up(RingFull::Error);
        assert_eq!(acquisition.append(&frames(0..10)).unwrap(), Appended { frames: 8, dropped: 0 });
        let start = Instant::now();
        assert_eq!(ring_full(acquisition.append(&frames(8..10))), Duration::ZERO);
        ring_full(commit(&acquisition, 8));
        assert!(start.elapsed() < Duration::from_secs(15), "it must not wait");
        assert_eq!(acquisition.stats().frames_dropped, 0);
        barrier.open();
        wait_until("the ring is free", || acquisition.stats().ring_free == RING);
        assert_eq!(acquisition.append(&frames(8..10)).unwrap(), Appended { frames: 2, dropped: 0 });
        let summary = acquisition.finish().unwrap();
        assert_eq!((summary.frames_missing, summary.missing.len()), (0, 0));
        check(&storage, &summary, 10);
    });
}

#[test]
fn a_buffer_that_comes_back_unused_is_free_again() {
    within(60, || {
        let (acquisition, storage, barrier) = held_up(RingFull::Error);
        let mut loans: Vec<_> = (0..RING).map(|_| acquisition.acquire().unwrap()).collect();
        ring_full(acquisition.acquire());
        loans.pop().unwrap().discard();
        drop(loans.pop());
        assert_eq!(acquisition.stats().ring_free, 2);
        // A refused commit gives its buffer back, too.
        loans.pop().unwrap().commit(1 << 40, Record::default()).unwrap_err();
        assert_eq!(acquisition.stats().ring_free, 3);
        barrier.open();
        drop(loans);
        (0..20).for_each(|number| while commit(&acquisition, number).is_err() {});
        let summary = acquisition.finish().unwrap();
        check(&storage, &summary, 20);
    });
}

#[test]
fn whoever_waits_for_a_buffer_hears_that_the_run_failed() {
    within(60, || {
        let barrier = Barrier::default();
        let waits = barrier.clone();
        let storage = Probed::new(move |call, _| {
            if call == Call::WriteAt && is_worker() {
                waits.pass();
                return Err(std::io::Error::other("the disk is gone"));
            }
            Ok(())
        });
        let acquisition = Acquisition::create_in(storage.shared(), tiny(None, RING)).unwrap();
        let loans: Vec<_> = (1..RING).map(|_| acquisition.acquire().unwrap()).collect();
        commit(&acquisition, 0).unwrap();
        std::thread::scope(|scope| {
            // The failed frame's own buffer comes back, so one of the two that wait gets it; the other must not wait
            // on.
            let waiting: Vec<_> = (0..2).map(|_| scope.spawn(|| acquisition.acquire().map(std::mem::forget))).collect();
            std::thread::sleep(Duration::from_millis(50));
            barrier.open();
            let outcomes: Vec<_> = waiting.into_iter().map(|thread| thread.join().unwrap()).collect();
            let told = outcomes.iter().flatten().count() < 2;
            assert!(told, "{outcomes:?}");
        });
        let error = acquisition.acquire().unwrap_err();
        assert!(error.to_string().contains("the disk is gone"), "{error}");
        drop(loans);
        acquisition.finish().unwrap_err();
    });
}

/// A disk that takes three milliseconds for each chunk, and a camera that brings a frame in a sixth of that.
fn slow(ring_full: RingFull) -> (Acquisition, Probed) {
    let storage = Probed::new(|call, _| {
        if call == Call::WriteAt && is_worker() {
            std::thread::sleep(Duration::from_millis(3));
        }
        Ok(())
    });
    let config = Config { ring_full, ..tiny(None, RING) };
    (Acquisition::create_in(storage.shared(), config).unwrap(), storage)
}

const SLOW_FRAMES: u64 = 200;

/// Brings all frames and returns the numbers of those that found the ring full.
fn bring_all(acquisition: &Acquisition, again: bool) -> Vec<u64> {
    let mut refused = Vec::new();
    for number in 0..SLOW_FRAMES {
        std::thread::sleep(Duration::from_micros(500));
        while let Err(error) = commit(acquisition, number) {
            ring_full(Err::<(), _>(error));
            refused.push(number);
            if !again {
                break;
            }
        }
    }
    refused
}

fn flat(ranges: &[std::ops::Range<u64>]) -> Vec<u64> {
    ranges.iter().cloned().flatten().collect()
}

#[test]
fn a_slow_disk_makes_the_camera_wait_when_told_to_block() {
    within(120, || {
        let (acquisition, storage) = slow(RingFull::Block { timeout: None });
        let start = Instant::now();
        assert!(bring_all(&acquisition, false).is_empty());
        assert!(start.elapsed() > Duration::from_millis(3) * (SLOW_FRAMES as u32 - RING as u32), "who has waited?");
        let summary = acquisition.finish().unwrap();
        assert_eq!((summary.frames_written, summary.frames_missing), (SLOW_FRAMES, 0));
        check(&storage, &summary, SLOW_FRAMES);
    });
}

#[test]
fn a_slow_disk_costs_the_newest_frames_when_told_to_drop_them() {
    within(120, || {
        let (acquisition, storage) = slow(RingFull::DropNewest);
        let dropped = bring_all(&acquisition, false);
        // The last one comes when there is room, so that the length is known.
        wait_until("the ring is free", || acquisition.stats().ring_free == RING);
        commit(&acquisition, SLOW_FRAMES).unwrap();
        let summary = acquisition.finish().unwrap();
        assert!(!dropped.is_empty() && summary.frames_written > RING as u64, "{summary:?}");
        assert_eq!(flat(&summary.missing), dropped);
        check(&storage, &summary, SLOW_FRAMES + 1);
    });
}

#[test]
fn a_slow_disk_is_an_error_each_time_when_told_so_and_costs_nothing() {
    within(120, || {
        let (acquisition, storage) = slow(RingFull::Error);
        assert!(!bring_all(&acquisition, true).is_empty());
        let summary = acquisition.finish().unwrap();
        assert_eq!((summary.frames_written, summary.frames_missing), (SLOW_FRAMES, 0));
        check(&storage, &summary, SLOW_FRAMES);
    });
}

/// What has become free meanwhile is told, or the counts would not add up.
#[test]
fn a_full_ring_accounts_for_all_its_buffers() {
    let text = |on_loan, waiting| {
        let waited = Duration::from_millis(20);
        Error::RingFull { frames: 8, on_loan, waiting, in_work: 2, others: 0, waited }.to_string()
    };
    let known = "the ring is full after 0.020 s: of 8 frame buffers, 1 are on loan to the caller, 5 hold frames that \
                 wait, 2 hold frames that are being written";
    assert_eq!(text(1, 5), known);
    assert!(text(0, 5).ends_with("2 hold frames that are being written; 1 has become free since"), "{}", text(0, 5));
    assert!(text(0, 0).ends_with("; 6 have become free since"), "{}", text(0, 0));
}
