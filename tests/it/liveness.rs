//! A run goes on, whatever numbers never come and however many buffers a driver keeps; and what is not there is told.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::common::storage::{Call, Probed, held_up_by, wait_until, within};
use crate::common::{frame, tiny};
use shardwright::{Acquisition, Codec, Compressor, Config, Dialect, Dim, Error, Record, RefusedNumber, RingFull};

/// `depth`: frames a chunk.
fn deep(depth: u64, ring: usize) -> Config {
    let dims = vec![Dim::time(None).chunk(depth).shard(4 * depth), Dim::y(16), Dim::x(16)];
    Config { dims, ..tiny(None, ring) }
}

fn flat(ranges: &[std::ops::Range<u64>]) -> Vec<u64> {
    ranges.iter().cloned().flatten().collect()
}

/// A driver with a queue of buffers that it fills in turn: it asks for one more before it hands on the one that it has
/// filled.
fn drive(acquisition: &Acquisition, queue: usize, frames: u64, is_lost: impl Fn(u64) -> bool) -> (u64, u64) {
    let mut queued: VecDeque<_> = (0..queue).map(|_| acquisition.acquire().unwrap()).collect();
    let (mut committed, mut refused) = (0, 0);
    for number in (0..frames).filter(|&number| !is_lost(number)) {
        queued.push_back(acquisition.acquire().unwrap());
        let mut filled = queued.pop_front().unwrap();
        filled[..256].copy_from_slice(&frame(number, 256));
        match filled.commit(number, Record::default()) {
            Ok(()) => committed += 1,
            Err(Error::FrameNumber { why: RefusedNumber::TooLate { .. }, .. }) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    (committed, refused)
}

#[test]
fn a_driver_that_keeps_buffers_gets_through_whatever_numbers_are_lost() {
    for queue in [8, 60, 100, 132] {
        within(60, move || {
            let storage = Probed::new(|_, _| Ok(()));
            let acquisition = Acquisition::create_in(storage.shared(), deep(16, 136)).unwrap();
            let started = Instant::now();
            let frames = if queue > 100 { 60 } else { 1000 };
            eprintln!("queue {queue}");
            let (committed, refused) = drive(&acquisition, queue, frames, |number| number % 16 == 3);
            let summary = acquisition.finish().unwrap();
            assert_eq!(summary.frames_accepted, committed);
            assert_eq!(summary.frames_written + summary.frames_missing, summary.shape[0], "{summary:?}");
            assert_eq!(summary.frames_written, committed, "queue {queue}, {refused} refused");
            // With room for several layers nothing is lost but what never came, and the wait is learnt from.
            if queue <= 100 {
                assert_eq!(refused, 0);
                assert!(flat(&summary.missing).iter().all(|number| number % 16 == 3));
                assert!(started.elapsed() < Duration::from_secs(20), "queue {queue}: {:?}", started.elapsed());
            }
        });
    }
}

/// How long nothing must be committed before a number that is missing is given up for a caller who finds no buffer.
const PATIENCE: Duration = Duration::from_millis(200);

#[test]
fn a_number_that_another_thread_is_about_to_bring_is_waited_for() {
    // On a machine that holds this thread up, the patience may be over, and the number given up; then once more.
    within(60, || while !number_0_is_waited_for() {});
}

/// `false`: it took too long to tell.
fn number_0_is_waited_for() -> bool {
    let storage = Probed::new(|_, _| Ok(()));
    let acquisition = Acquisition::create_in(storage.shared(), deep(32, 64)).unwrap();
    let late = acquisition.acquire().unwrap();
    let others = (1..20).map(|number| (number, acquisition.acquire().unwrap())).collect::<Vec<_>>();
    let held = (20..64).map(|_| acquisition.acquire().unwrap()).collect::<Vec<_>>();
    others.into_iter().for_each(|(number, slot)| slot.commit(number, Record::default()).unwrap());
    let first_look = Instant::now();
    for _ in 0..5 {
        assert!(acquisition.acquire_timeout(Duration::from_millis(10)).unwrap_err().is_ring_full());
    }
    let committed = late.commit(0, Record::default());
    let was_quick = first_look.elapsed() < PATIENCE;
    drop(held);
    let missing = acquisition.finish().unwrap().frames_missing;
    assert!(!was_quick || (committed.is_ok() && missing == 0), "{committed:?}, {missing} missing");
    was_quick
}

/// A driver that keeps all buffers has the rest of the oldest layer given up: what it then commits without a number
/// comes behind that.
#[test]
fn whoever_does_not_count_goes_on_behind_numbers_that_were_given_up() {
    within(60, || {
        let storage = Probed::new(|_, _| Ok(()));
        let acquisition = Acquisition::create_in(storage.shared(), deep(16, 20)).unwrap();
        (0..4).for_each(|_| acquisition.acquire().unwrap().commit_next(Record::default()).unwrap());
        let held: Vec<_> = (0..16).map(|_| acquisition.acquire().unwrap()).collect();
        let mut more = acquisition.acquire_timeout(Duration::from_secs(30)).unwrap();
        more[..256].copy_from_slice(&frame(16, 256));
        more.commit_next(Record::default()).unwrap();
        held.into_iter().for_each(|slot| slot.commit_next(Record::default()).unwrap());
        assert_eq!(acquisition.append(&frame(33, 256)).unwrap().frames, 1);
        let summary = acquisition.finish().unwrap();
        assert_eq!((summary.frames_written, flat(&summary.missing)), (22, (4..16).collect::<Vec<_>>()));
        let (shape, pixels) = crate::common::storage::read_back(&storage.memory);
        assert_eq!((shape[0], &pixels[16 * 256..][..256]), (34, &frame(16, 256)[..]));
    });
}

#[test]
fn a_garbled_number_is_refused_and_the_true_ones_are_taken() {
    let storage = Probed::new(|_, _| Ok(()));
    let acquisition = Acquisition::create_in(storage.shared(), tiny(None, 32)).unwrap();
    for number in [0, 1, 1 << 20, 2, 0xdead_beef, 3] {
        let refused = acquisition.acquire().unwrap().commit(number, Record::default());
        match number {
            0..4 => refused.unwrap(),
            _ => assert!(refused.unwrap_err().to_string().contains("leap_max")),
        }
    }
    assert_eq!(acquisition.finish().unwrap().frames_written, 4);
}

/// With a file for each shard that nothing came for, the end of such a run would never come.
#[test]
fn a_leap_has_a_bound_of_its_own() {
    let storage = Probed::new(|_, _| Ok(()));
    let codec = Codec { compressor: Compressor::None, checksum: false };
    let base = || Config { dialect: Dialect::Zarr2Sharded, codec: codec.clone(), ..tiny(None, 32) };
    for requested in [(1 << 24) + 1, u64::MAX] {
        let refused = Acquisition::create_in(storage.shared(), Config { leap_max: requested, ..base() }).unwrap_err();
        let text = refused.to_string();
        assert!(text.starts_with(&format!("leap_max = {requested}: at most 16777216")), "{text}");
    }
    let acquisition = Acquisition::create_in(storage.shared(), Config { leap_max: 1 << 24, ..base() }).unwrap();
    for number in [0, 1 << 14] {
        acquisition.acquire().unwrap().commit(number, Record::default()).unwrap();
    }
    let refused = acquisition.acquire().unwrap().commit(1 << 36, Record::default()).unwrap_err();
    assert!(refused.to_string().contains("leap_max"), "{refused}");
    assert_eq!(acquisition.finish().unwrap().missing, std::slice::from_ref(&(1..1 << 14)));
}

#[test]
fn frames_dropped_after_the_last_one_are_missing_and_the_array_has_their_places() {
    for total in [None, Some(40)] {
        let barrier = crate::common::storage::Barrier::default();
        let storage = held_up_by(&barrier);
        let config = Config { ring_full: RingFull::DropNewest, ..tiny(total, 8) };
        let acquisition = Acquisition::create_in(storage.shared(), config).unwrap();
        let (mut taken, mut dropped) = (0, Vec::new());
        for number in 0..40_u64 {
            match acquisition.acquire() {
                Ok(slot) => {
                    slot.commit(number, Record::default()).unwrap();
                    taken += 1;
                }
                Err(error) => {
                    assert!(error.is_ring_full());
                    // A worker may give a buffer back in the middle of it.
                    dropped.push(number);
                }
            }
        }
        assert!(dropped.len() > 20);
        barrier.open();
        let summary = acquisition.finish().unwrap();
        let missing = dropped.len() as u64;
        assert_eq!((summary.frames_written, summary.frames_missing, summary.shape[0]), (taken, missing, 40));
        assert_eq!(flat(&summary.missing), dropped);
    }
}

#[test]
fn a_spare_shard_that_can_not_be_made_ends_no_run() {
    let (is_full, tries) = (Arc::new(AtomicBool::new(true)), Arc::new(std::sync::atomic::AtomicU64::new(0)));
    let (seen, tried) = (is_full.clone(), tries.clone());
    let storage = Probed::new(move |call, key| {
        if call == Call::Create && key != "0/c/0/0/0" {
            tried.fetch_add(1, SeqCst);
            if seen.load(SeqCst) {
                return Err(io::ErrorKind::StorageFull.into());
            }
        }
        Ok(())
    });
    let acquisition = Acquisition::create_in(storage.shared(), tiny(None, 32)).unwrap();
    let append = |number| acquisition.append(&frame(number, 256)).map(|appended| assert_eq!(appended.frames, 1));
    append(0).unwrap();
    wait_until("the spare was tried", || tries.load(SeqCst) > 1);
    (1..4).for_each(|number| append(number).unwrap());
    // There is room again before a frame needs it.
    is_full.store(false, SeqCst);
    (4..8).for_each(|number| append(number).unwrap());
    wait_until("they are written", || acquisition.stats().frames_written == 8);
    // And none when a frame does.
    is_full.store(true, SeqCst);
    let error = (8..10_000).find_map(|number| append(number).err()).expect("no room");
    assert!(matches!(error, Error::Io { .. }), "{error}");
    let unfinished = acquisition.finish().unwrap_err();
    assert!(unfinished.summary.frames_written >= 8, "{unfinished}");
}

#[test]
fn a_spare_shard_that_is_never_needed_may_never_be_made() {
    let storage = Probed::new(|call, key| match call {
        Call::Create if key != "0/c/0/0/0" => Err(io::ErrorKind::StorageFull.into()),
        _ => Ok(()),
    });
    let acquisition = Acquisition::create_in(storage.shared(), tiny(None, 32)).unwrap();
    (0..4).for_each(|number| assert_eq!(acquisition.append(&frame(number, 256)).unwrap().frames, 1));
    assert_eq!(acquisition.finish().unwrap().frames_written, 4);
}

#[test]
fn a_run_that_ends_within_a_stack_lists_the_places_without_frames() {
    let z = |size| Dim { name: "z".into(), kind: shardwright::DimKind::Space, ..Dim::time(size) };
    for (time, order, end) in
        [(None, vec![], 15), (Some(4), vec![], 15), (Some(4), vec!["z".to_owned(), "t".to_owned()], 20)]
    {
        let dims = vec![Dim::time(time), z(5), Dim::y(16), Dim::x(16)];
        let storage = Probed::new(|_, _| Ok(()));
        let config = Config { dims, acquisition_order: order, ..tiny(None, 64) };
        let acquisition = Acquisition::create_in(storage.shared(), config).unwrap();
        for number in (0..12).filter(|&number| number != 7) {
            let mut slot = acquisition.acquire().unwrap();
            slot[..256].copy_from_slice(&frame(number, 256));
            slot.commit(number, Record::default()).unwrap();
        }
        let summary = acquisition.finish().unwrap();
        assert_eq!(summary.shape[..2].iter().product::<u64>(), end);
        assert_eq!((summary.frames_written, summary.frames_missing), (11, end - 11));
        assert_eq!(flat(&summary.missing), [7].into_iter().chain(12..end).collect::<Vec<_>>());
    }
}

#[test]
fn an_append_beyond_the_end_says_how_many_it_took() {
    let storage = Probed::new(|_, _| Ok(()));
    let acquisition = Acquisition::create_in(storage.shared(), tiny(Some(5), 32)).unwrap();
    let pixels: Vec<u8> = (0..8).flat_map(|number| frame(number, 256)).collect();
    assert_eq!(acquisition.append(&pixels).unwrap().frames, 5);
    assert!(matches!(acquisition.append(&pixels[5 * 256..]), Err(Error::FrameNumber { .. })));
    assert_eq!(acquisition.finish().unwrap().frames_written, 5);
}
