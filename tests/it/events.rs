//! What happens in a run is told to whoever waits for it: every edge, to everybody, and without a call that asks.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::storage::{Barrier, Call, Probed, held_up_by, is_worker, wait_until, within};
use crate::common::tiny;
use shardwright::{Acquisition, Config, Dim, Error, Events, FrameMut, Memory, Record};

fn run(ring: usize) -> Acquisition {
    Acquisition::create_in(Arc::new(Memory::new()), tiny(None, ring)).unwrap()
}

/// A free buffer, without a call that waits. A wake-up that is lost shows after half a minute.
fn acquire(acquisition: &Acquisition, events: &shardwright::EventHandle, waits: &AtomicU64) -> FrameMut {
    loop {
        match acquisition.try_acquire() {
            Ok(frame) => return frame,
            Err(error) if error.is_ring_full() => {
                let happened = events.wait(Some(Duration::from_secs(30))).unwrap();
                assert_eq!(happened, Events::BUFFER_FREE, "no wake-up");
                waits.fetch_add(1, SeqCst);
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Threads that want a buffer wait for events alone, each for its own, through a ring that is always empty.
#[test]
fn no_wake_up_is_lost_among_very_many() {
    const FRAMES: u64 = 300_000;
    for threads in [1, 3] {
        let acquisition = run(4);
        let (next, waits) = (Mutex::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    let events = acquisition.watch(Events::BUFFER_FREE, 0).unwrap();
                    loop {
                        let mut frame = acquire(&acquisition, &events, &waits);
                        // One after another, so that none comes too late.
                        let mut next = next.lock().unwrap();
                        if *next == FRAMES {
                            return;
                        }
                        frame[..8].copy_from_slice(&u64::to_le_bytes(*next));
                        frame.commit(*next, Record::default()).unwrap();
                        *next += 1;
                    }
                });
            }
        });
        assert_eq!(acquisition.finish().unwrap().frames_written, FRAMES);
        assert!(waits.load(SeqCst) > 1_000, "{waits:?} waits are no test");
    }
}

/// Buffers that come and go without a frame, a million times and more: the ring's part alone.
#[test]
fn a_buffer_that_is_given_back_is_told_of_a_million_times() {
    const TURNS: u64 = 500_000;
    let acquisition = run(3);
    let waits = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let events = acquisition.watch(Events::BUFFER_FREE, 0).unwrap();
                for _ in 0..TURNS {
                    drop(acquire(&acquisition, &events, &waits));
                }
            });
        }
    });
    acquisition.abort();
}

/// Frames of a chunk that is never complete hold the ring up. A call that waits sees to it that they go on; so must
/// somebody where nobody is in a call.
#[test]
fn whoever_waits_for_an_event_gets_the_buffers_of_chunks_that_lack_a_frame() {
    within(60, || {
        let dims = vec![Dim::time(None).chunk(16).shard(64), Dim::y(16), Dim::x(16)];
        // No checkpoint comes by.
        let config = Config { dims, checkpoint_every: Duration::ZERO, ..tiny(None, 20) };
        let acquisition = Acquisition::create_in(Arc::new(Memory::new()), config).unwrap();
        let events = acquisition.watch(Events::BUFFER_FREE, 0).unwrap();
        assert_eq!(events.take(), Events::BUFFER_FREE, "there were free ones before");
        let waits = AtomicU64::new(0);
        for number in (0..200).filter(|number| number % 16 != 3) {
            match acquire(&acquisition, &events, &waits).commit(number, Record::default()) {
                Ok(()) | Err(Error::FrameNumber { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        assert!(waits.load(SeqCst) > 0);
        acquisition.finish().unwrap();
    });
}

#[test]
fn the_level_of_the_ring_is_told_at_each_watchers_mark() {
    let acquisition = run(8);
    let [two, all] = [2, 8].map(|mark| acquisition.watch(Events::RING_HIGH, mark).unwrap());
    let usual = acquisition.watch(Events::RING_HIGH | Events::BUFFER_FREE, 0).unwrap();
    assert_eq!(usual.take(), Events::BUFFER_FREE);
    let mut loans = vec![acquisition.acquire().unwrap()];
    assert!(two.take().is_empty());
    loans.push(acquisition.acquire().unwrap());
    assert_eq!(two.take(), Events::RING_HIGH);
    loans.push(acquisition.acquire().unwrap());
    assert!(two.take().is_empty(), "it was told");
    // Down to two and up again is no edge; down to one is.
    loans.truncate(2);
    loans.push(acquisition.acquire().unwrap());
    assert!(two.take().is_empty());
    loans.truncate(1);
    loans.extend((0..4).map(|_| acquisition.acquire().unwrap()));
    assert_eq!(two.take(), Events::RING_HIGH);
    assert!(usual.take().is_empty() && all.take().is_empty());
    loans.extend((0..3).map(|_| acquisition.acquire().unwrap()));
    assert_eq!((usual.take(), all.take()), (Events::RING_HIGH, Events::RING_HIGH));
    // Whoever comes now hears of it at once.
    assert_eq!(acquisition.watch(Events::RING_HIGH, 8).unwrap().take(), Events::RING_HIGH);
    let refused = acquisition.watch(Events::RING_HIGH, 9).unwrap_err().to_string();
    assert!(refused.contains("ring_mark = 9") && refused.contains("1 to 8"), "{refused}");
}

#[test]
fn durable_frames_closed_shards_and_the_end_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let config = Config { sync: true, checkpoint_every: Duration::from_millis(20), ..tiny(None, 16) };
    let acquisition = Acquisition::create(folder.path().join("run.zarr"), config).unwrap();
    let watched = Events::DURABLE | Events::SHARD_CLOSED | Events::ENDED | Events::ERROR;
    let events = acquisition.watch(watched, 0).unwrap();
    assert!(events.take().is_empty());
    let heard = Arc::new(Mutex::new(Events::NONE));
    let hears = heard.clone();
    acquisition
        .on_events(Events::SHARD_CLOSED | Events::ENDED, 0, move |event| *hears.lock().unwrap() |= event)
        .unwrap();
    // One that panics does no harm.
    acquisition.on_events(Events::ALL, 0, |_| panic!("a listener")).unwrap();
    // Two frames: no shard is full, and yet they become durable.
    assert_eq!(acquisition.append(&[1; 512]).unwrap().frames, 2);
    let wait = || events.wait(Some(Duration::from_secs(30))).unwrap();
    assert_eq!(wait(), Events::DURABLE);
    assert!(acquisition.stats().frames_durable > 0);
    assert_eq!(acquisition.append(&[1; 512]).unwrap().frames, 2);
    let mut seen = Events::NONE;
    while !seen.contains(Events::SHARD_CLOSED) {
        seen |= wait();
    }
    assert_eq!(acquisition.stats().shards_closed, 1);
    acquisition.finish().unwrap();
    // The handle outlives the run.
    while !seen.contains(Events::ENDED) {
        seen |= wait();
    }
    assert!(!seen.contains(Events::ERROR));
    assert_eq!(*heard.lock().unwrap(), Events::SHARD_CLOSED | Events::ENDED);
    // Nobody waits for what can't come.
    assert_eq!(events.wait(Some(Duration::from_secs(30))).unwrap(), Events::ENDED);
}

/// The error of a run whose second shard can't be written, by its workers or already by the thread that prepares it.
fn first_error(of_workers: bool) -> u64 {
    within(60, move || {
        let storage = Probed::new(move |call, key| match call {
            Call::WriteAt if key.ends_with("/1/0/0") && is_worker() == of_workers => {
                Err(std::io::Error::other("a broken disk"))
            }
            _ => Ok(()),
        });
        let acquisition = Acquisition::create_in(storage.shared(), tiny(None, 16)).unwrap();
        let events = acquisition.watch(Events::ERROR, 0).unwrap();
        assert!(acquisition.first_error().is_none() && acquisition.first_error_frame().is_none());
        for _ in 0..6 {
            if acquisition.append(&[1; 256]).is_err() {
                break;
            }
        }
        assert_eq!(events.wait(Some(Duration::from_secs(30))).unwrap(), Events::ERROR);
        assert!(acquisition.first_error().unwrap().to_string().contains("a broken disk"));
        let frame = acquisition.first_error_frame().unwrap();
        assert!(acquisition.finish().is_err());
        frame
    })
}

#[test]
fn the_first_error_is_told_with_its_frame() {
    // Four frames a shard: the second begins with the fifth.
    assert_eq!([first_error(true), first_error(false)], [4, 4]);
}

#[test]
fn a_full_ring_says_where_its_buffers_are() {
    within(60, || {
        let barrier = Barrier::default();
        barrier.close();
        let acquisition = Acquisition::create_in(held_up_by(&barrier).shared(), tiny(None, 8)).unwrap();
        let loans: Vec<_> = (0..3).map(|_| acquisition.acquire().unwrap()).collect();
        for _ in 0..5 {
            assert_eq!(acquisition.append(&[1; 256]).unwrap().frames, 1);
        }
        let counts = || match acquisition.try_acquire().unwrap_err() {
            Error::RingFull { frames, on_loan, waiting, in_work, .. } => (frames, on_loan, waiting, in_work),
            other => panic!("{other}"),
        };
        // The one worker has begun with one frame, and is held up.
        wait_until("a frame is being written", || counts().3 == 1);
        assert_eq!(counts(), (8, 3, 4, 1));
        let text = acquisition.acquire_timeout(Duration::from_millis(5)).unwrap_err().to_string();
        let expected = "of 8 frame buffers, 3 are on loan to the caller, 4 hold frames that wait, 1 hold frames that \
                        are being written";
        assert!(text.starts_with("the ring is full after 0.") && text.ends_with(expected), "{text}");
        barrier.open();
        drop(loans);
        assert_eq!(acquisition.finish().unwrap().frames_written, 5);
    });
}

/// What a caller's function owns, and a frame that outlives the run keeps the run's memory.
#[test]
fn functions_are_dropped_when_the_run_has_ended() {
    let acquisition = run(8);
    let owned = Arc::new(());
    let (by_events, by_shards) = (owned.clone(), owned.clone());
    acquisition.on_events(Events::ALL, 0, move |_| assert!(Arc::strong_count(&by_events) > 0)).unwrap();
    acquisition.on_shard_closed(move |_| assert!(Arc::strong_count(&by_shards) > 0)).unwrap();
    // One that owns a handle to the same watchers.
    let (told, hears) = (Arc::new(AtomicU64::new(0)), acquisition.watch(Events::ALL, 0).unwrap());
    let counts = told.clone();
    let count = move |_| {
        counts.fetch_add(u64::from(!hears.take().is_empty()), SeqCst);
    };
    acquisition.on_events(Events::ENDED, 0, count).unwrap();
    let handle = acquisition.watch(Events::ALL, 0).unwrap();
    let late = acquisition.acquire().unwrap();
    assert_eq!(Arc::strong_count(&owned), 3);
    acquisition.finish().unwrap();
    assert_eq!((Arc::strong_count(&owned), Arc::strong_count(&told)), (1, 1));
    assert!(told.load(SeqCst) > 0 && handle.take().contains(Events::ENDED));
    drop(late);
}

/// Dropped by whoever ends the run.
#[test]
fn a_function_that_panics_when_it_is_dropped_costs_nothing() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("not yet"));
        }
    }
    impl Panics {
        fn is_there(&self) {}
    }
    let acquisition = run(8);
    let (one, two) = (Panics, Panics);
    acquisition.on_events(Events::ALL, 0, move |_| one.is_there()).unwrap();
    acquisition.on_shard_closed(move |_| two.is_there()).unwrap();
    acquisition.append(&[1; 256]).map(drop).unwrap();
    assert_eq!(acquisition.finish().unwrap().frames_written, 1);
}

#[test]
fn all_who_wait_by_one_handle_hear_of_the_end() {
    within(60, || {
        for _ in 0..50 {
            let acquisition = run(8);
            let handle = acquisition.watch(Events::ERROR, 0).unwrap();
            std::thread::scope(|scope| {
                let threads = [0; 4].map(|_| scope.spawn(|| handle.wait(None).unwrap()));
                std::thread::sleep(Duration::from_millis(2));
                acquisition.finish().unwrap();
                assert_eq!(threads.map(|thread| thread.join().unwrap()), [Events::ENDED; 4]);
            });
        }
    });
}

/// Whoever waits for a buffer alone hears of all that makes the wait vain.
#[test]
fn who_waits_for_a_buffer_is_woken_when_none_will_come() {
    for fails in [false, true] {
        within(60, move || {
            let is_broken = Arc::new(AtomicU64::new(0));
            let seen = is_broken.clone();
            let storage = Probed::new(move |call, key| match call {
                Call::Put if key == "zarr.json" && seen.load(SeqCst) > 0 => Err(std::io::Error::other("no cable")),
                _ => Ok(()),
            });
            let config = Config { checkpoint_every: Duration::from_millis(10), ..tiny(None, 8) };
            let acquisition = Acquisition::create_in(storage.shared(), config).unwrap();
            let held: Vec<_> = std::iter::from_fn(|| acquisition.try_acquire().ok()).collect();
            let events = acquisition.watch(Events::BUFFER_FREE, 0).unwrap();
            assert!(acquisition.try_acquire().unwrap_err().is_ring_full());
            std::thread::scope(|scope| {
                let waits = scope.spawn(|| {
                    events.take();
                    events.wait(None).unwrap()
                });
                std::thread::sleep(Duration::from_millis(50));
                if fails {
                    is_broken.store(1, SeqCst);
                    // The next checkpoint has something to write, and fails.
                    acquisition.set_attribute("operator", "me".into()).unwrap();
                } else {
                    acquisition.close();
                }
                assert_eq!(waits.join().unwrap(), Events::BUFFER_FREE);
            });
            // And who comes later.
            wait_until("it is over", || acquisition.try_acquire().is_err_and(|error| !error.is_ring_full()));
            assert_eq!(acquisition.watch(Events::BUFFER_FREE, 0).unwrap().take(), Events::BUFFER_FREE);
            drop(held);
            assert_eq!(acquisition.finish().is_err(), fails);
        });
    }
}

#[test]
fn no_limit_is_waited_out_beyond_the_end() {
    within(60, || {
        let acquisition = run(8);
        let (events, late) = [(); 2].map(|()| acquisition.watch(Events::ERROR, 0).unwrap()).into();
        let waits = std::thread::spawn(move || events.wait(Some(Duration::from_secs(600))).unwrap());
        std::thread::sleep(Duration::from_millis(50));
        acquisition.finish().unwrap();
        assert_eq!(waits.join().unwrap(), Events::ENDED);
        for _ in 0..3 {
            assert_eq!(late.wait(Some(Duration::from_secs(600))).unwrap(), Events::ENDED);
        }
        assert!(late.wait(Some(Duration::ZERO)).unwrap().is_empty());
    });
}
