//! A storage that fails or panics at any one call: the first error is kept and told to everyone, what was stored stays
//! whole, buffers come home, and nothing ever hangs.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use crate::common::storage::{Call, Probed, read_back, save, wait_until, within};
use crate::common::{fault_step, frame, some_cases, tiny};
use shardwright::offline::Array;
use shardwright::{Acquisition, Codec, Compressor, Config, Dim, Error, Record, Summary};

const FRAMES: u64 = 40;
const FRAME_BYTES: usize = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// This one call fails.
    Once,
    /// And all later ones of its kind.
    EverSince,
    Panics,
}

/// Who writes what workers made: each its own, or all by turns, where those that compress wait for whoever's turn it
/// is.
const WAYS: [(bool, Compressor); 3] =
    [(false, Compressor::None), (true, Compressor::None), (true, Compressor::Zstd { level: 1 })];

/// A storage whose `nth` call of a kind fails. The flag says whether it came to that.
fn failing(call: Call, nth: usize, how: How) -> (Probed, Arc<AtomicBool>) {
    let failed = Arc::new(AtomicBool::new(false));
    let (calls, flag) = (AtomicUsize::new(0), failed.clone());
    let storage = Probed::new(move |called, key| {
        let at = if called == call { calls.fetch_add(1, Relaxed) } else { return Ok(()) };
        if at == nth || at > nth && how == How::EverSince {
            flag.store(true, Relaxed);
            if how == How::Panics {
                // A panic like any other, but without a trace of the stack on the terminal each time.
                std::panic::resume_unwind(Box::new(format!("boom at {call:?} {nth} of {key}")));
            }
            return Err(io::Error::other(format!("boom at {call:?} {at} of {key}")));
        }
        Ok(())
    });
    (storage, failed)
}

/// Frames of two chunks and two shards side by side.
fn config(compressor: Compressor) -> Config {
    let dims = vec![Dim::time(None).chunk(2).shard(4), Dim::y(16).chunk(8).shard(8), Dim::x(16)];
    Config { dims, workers: 3, codec: Codec::from(compressor), ..tiny(None, 12) }
}

/// Acquires until something fails; returns the first error of any call and how the run ended.
fn run(storage: &Probed, compressor: Compressor) -> (Option<Error>, Option<Summary>) {
    // What panics in `create` panics to its caller, if it is not caught.
    let create = || Acquisition::create_in(storage.shared(), config(compressor));
    let created = std::panic::catch_unwind(std::panic::AssertUnwindSafe(create));
    let created = created.unwrap_or_else(|_| Err(Error::Panicked { message: "boom".into() }));
    let acquisition = match created {
        Ok(acquisition) => acquisition,
        Err(error) => return (Some(error), None),
    };
    let mut first = None;
    for number in 0..FRAMES {
        let committed = acquisition.acquire().and_then(|mut slot| {
            slot.copy_from_slice(&frame(number, FRAME_BYTES));
            slot.commit(number, Record::default())
        });
        match (&first, committed) {
            (None, Err(error)) => first = Some(error),
            (Some(first), again) => {
                assert_eq!(again.expect_err("the first error stays").to_string(), first.to_string());
            }
            (None, Ok(())) => {}
        }
    }
    let told = first.clone();
    let (ended, summary) = match acquisition.finish() {
        Ok(summary) => (None, summary),
        Err(unfinished) => {
            let text = unfinished.to_string();
            assert!(text.contains(&format!("of {} accepted", unfinished.summary.frames_accepted)), "{text}");
            (Some(unfinished.error), *unfinished.summary)
        }
    };
    if let Some(told) = told {
        assert_eq!(ended.as_ref().expect("finish repeats it").to_string(), told.to_string());
    }
    assert_eq!(summary.error.as_ref().map(ToString::to_string), ended.as_ref().map(ToString::to_string));
    (ended, Some(summary))
}

/// What the summary says must be what a reader sees.
fn check(storage: &Probed, summary: &Summary, what: &str) {
    let listed: u64 = summary.missing.iter().map(|range| range.end - range.start).sum();
    assert_eq!(listed, summary.frames_missing, "{what}: {:?}", summary.missing);
    let end = summary.frames_written + summary.frames_missing;
    assert!(end <= FRAMES && summary.frames_written <= summary.frames_accepted, "{what}: {summary:?}");
    let (_, pixels) = read_back(&storage.memory);
    let present = |number: &u64| !summary.missing.iter().any(|range| range.contains(number));
    for number in (0..end).filter(present) {
        let got = &pixels[number as usize * FRAME_BYTES..][..FRAME_BYTES];
        assert!(got == frame(number, FRAME_BYTES), "{what}: frame {number} counts as written");
    }
}

/// Lets calls of a kind fail in turn, with each way of writing: the first, and then others with each of them.
fn fail_each(call: Call, how: How) {
    WAYS.into_iter().enumerate().for_each(|(turn, way)| fail_each_with(way, call, how, turn + how as usize));
}

fn fail_each_with((by_turns, compressor): (bool, Compressor), call: Call, how: How, turn: usize) {
    for nth in some_cases(turn, fault_step(3)).take_while(|nth| *nth < 1000) {
        let what = format!("{call:?} {nth} {how:?}, {compressor:?}, by turns: {by_turns}");
        let (storage, failed) = failing(call, nth, how);
        let storage = if by_turns { storage.one_at_a_time() } else { storage };
        let running = storage.clone();
        let (error, summary) = within(30, move || run(&running, compressor));
        if !failed.load(Relaxed) {
            assert!(nth > 0, "there are such calls");
            assert!(error.is_none(), "{what}: {error:?}");
            return;
        }
        let Some(error) = error else {
            // A shard that was made ahead of need was made again, or not needed.
            assert!(call != Call::Truncate, "{what}: nobody heard of it");
            let summary = summary.unwrap_or_else(|| panic!("{what}: no summary"));
            assert_eq!((summary.frames_missing, summary.frames_written), (0, FRAMES), "{what}");
            check(&storage, &summary, &what);
            continue;
        };
        assert!(error.to_string().contains("boom"), "{what}: {error}");
        if how == How::Panics {
            assert!(matches!(error, Error::Panicked { .. }), "{what}: {error:?}");
        } else {
            assert!(matches!(error, Error::Io { .. }), "{what}: {error:?}");
        }
        // A document that could not be written may be the very one that a reader needs.
        if let (Some(summary), true) = (&summary, call != Call::Put) {
            check(&storage, summary, &what);
        }
    }
    panic!("no end of {call:?}");
}

#[test]
fn create_fails() {
    fail_each(Call::Create, How::Once);
    fail_each(Call::Create, How::EverSince);
}

#[test]
fn put_fails() {
    fail_each(Call::Put, How::Once);
    fail_each(Call::Put, How::EverSince);
}

#[test]
fn write_at_fails() {
    fail_each(Call::WriteAt, How::Once);
    fail_each(Call::WriteAt, How::EverSince);
}

#[test]
fn sync_fails() {
    fail_each(Call::Sync, How::Once);
    fail_each(Call::Sync, How::EverSince);
}

#[test]
fn publish_fails() {
    fail_each(Call::Publish, How::Once);
    fail_each(Call::Publish, How::EverSince);
}

#[test]
fn truncate_fails() {
    fail_each(Call::Truncate, How::Once);
    fail_each(Call::Truncate, How::EverSince);
}

#[test]
fn remove_fails() {
    fail_each(Call::Remove, How::Once);
}

#[test]
fn any_call_panics() {
    for call in [Call::Create, Call::Put, Call::WriteAt, Call::Sync, Call::Publish, Call::Truncate, Call::Remove] {
        fail_each(call, How::Panics);
    }
}

/// Each file's, whether the run goes well or a write has failed: all are dropped on threads of the run, where a panic
/// that comes on top of another would end the process.
#[test]
fn files_that_panic_when_they_are_dropped_cost_nothing() {
    for (fails, compressor) in
        [false, true].into_iter().flat_map(|fails| WAYS.map(|(_, compressor)| (fails, compressor)))
    {
        let dropped = Arc::new(AtomicU64::new(0));
        let count = dropped.clone();
        let storage = Probed::new(move |call, key| match call {
            Call::Drop => {
                count.fetch_add(1, Relaxed);
                std::panic::resume_unwind(Box::new(format!("{key} can't be closed")));
            }
            Call::Publish if fails && key == "0/c/2/0/0" => std::panic::resume_unwind(Box::new("boom")),
            _ => Ok(()),
        });
        let running = storage.clone();
        let (error, summary) = within(30, move || run(&running, compressor));
        let summary = summary.unwrap();
        match &error {
            Some(error) => assert!(fails && error.to_string().contains("boom"), "{error}"),
            None => assert!(!fails && summary.frames_missing == 0, "{summary:?}"),
        }
        check(&storage, &summary, "drops panic");
        let files = if fails { 4 } else { 2 * FRAMES / 4 };
        assert!(dropped.load(Relaxed) >= files, "each shard is a file");
    }
}

#[test]
fn a_file_that_panics_when_a_range_is_done_with_fails_the_run() {
    // What is packed is never told to be done with.
    let fixed = WAYS.into_iter().filter(|(_, compressor)| *compressor == Compressor::None);
    fixed.enumerate().for_each(|(turn, way)| fail_each_with(way, Call::DoneWith, How::Panics, turn));
}

/// Until the document of the array says so, no reader sees a frame that is in its shard.
#[test]
fn frames_that_the_last_document_hides_are_told_with_its_error() {
    for had_an_error in [false, true] {
        let is_full = Arc::new(AtomicBool::new(false));
        let seen = is_full.clone();
        let storage = Probed::new(move |call, key| match call {
            Call::Put if key == "0/zarr.json" && seen.load(Relaxed) => Err(io::ErrorKind::StorageFull.into()),
            Call::Sync if key == "0/c/2/0/0" && had_an_error => Err(io::Error::other("the cable is out")),
            _ => Ok(()),
        });
        let config = Config { checkpoint_every: Duration::from_millis(10), sync: true, ..tiny(None, 32) };
        let acquisition = Acquisition::create_in(storage.shared(), config).unwrap();
        let append = |number| acquisition.append(&frame(number, FRAME_BYTES)).map(|appended| appended.frames);
        (0..6).for_each(|number| assert_eq!(append(number).unwrap(), 1));
        wait_until("the document says it", || acquisition.stats().frames_durable == 6);
        is_full.store(true, Relaxed);
        // Before the next checkpoint, or none: it hears of it.
        let taken = (6..10).take_while(|&number| append(number).is_ok()).count() as u64;
        let unfinished = acquisition.finish().unwrap_err();
        let summary = &unfinished.summary;
        assert_eq!(summary.frames_accepted, 6 + taken);
        let hidden = format!("frames 6 to {} are in their shards", 5 + taken);
        assert!(summary.notes.iter().any(|note| note.contains(&hidden)), "{:?}", summary.notes);
        assert_eq!(summary.shape[0], 6);
        assert!(summary.frames_durable <= summary.frames_written);
    }
}

#[test]
fn the_error_of_the_last_document_alone_tells_of_frames_that_it_hides() {
    let storage = Probed::new(move |call, key| match call {
        Call::Put if key == "0/zarr.json" && std::thread::current().name() == Some("last") => {
            Err(io::ErrorKind::StorageFull.into())
        }
        _ => Ok(()),
    });
    let config = Config { checkpoint_every: Duration::MAX, ..tiny(None, 32) };
    let acquisition = Acquisition::create_in(storage.shared(), config).unwrap();
    // A shard that is full would be told of earlier.
    let appended = acquisition.append(&vec![7; 3 * FRAME_BYTES]).unwrap();
    assert_eq!(appended.frames, 3);
    let last = std::thread::Builder::new().name("last".into()).spawn(|| acquisition.finish().unwrap_err()).unwrap();
    let unfinished = last.join().unwrap();
    let text = unfinished.to_string();
    assert!(text.contains("frames 0 to 2 are in their shards"), "{text}");
    let where_to = "before `shardwright recover` of a folder with the files of the storage (3 of 3 accepted frames";
    assert!(text.contains(where_to), "{text}");
}

/// Shards give room back at the end of a run, which records need no more than a moment before.
#[test]
fn records_that_could_not_be_stored_are_tried_again_at_the_end() {
    let puts = AtomicUsize::new(0);
    let storage = Probed::new(move |call, key| match call {
        // ENOSPC
        Call::Put if key.starts_with("records/") && key.contains("/c/") && puts.fetch_add(1, Relaxed) == 0 => {
            Err(io::Error::from_raw_os_error(28))
        }
        _ => Ok(()),
    });
    let config = Config { checkpoint_every: Duration::MAX, sync: true, ..tiny(None, 32) };
    let acquisition = Acquisition::create_in(storage.shared(), config).unwrap();
    (0..3).for_each(|number| assert_eq!(acquisition.append(&frame(number, FRAME_BYTES)).unwrap().frames, 1));
    let unfinished = acquisition.finish().unwrap_err();
    assert!(matches!(unfinished.error, Error::Io { .. }), "{unfinished}");
    let summary = &unfinished.summary;
    assert_eq!((summary.frames_written, summary.frames_durable), (3, 3), "{summary:?}");
    assert!(!summary.notes.iter().any(|note| note.contains("could not be stored")), "{:?}", summary.notes);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    save(&storage.memory, &path);
    for field in ["frame_number", "host_timestamp"] {
        let bytes = Array::open(path.join("records").join(field)).unwrap().read_all().unwrap();
        let values: Vec<i64> = bytes.chunks_exact(8).map(|at| i64::from_le_bytes(at.try_into().unwrap())).collect();
        let is_right = |(number, &value): (i64, &i64)| value == number || (field == "host_timestamp" && value > 0);
        assert!((0..).zip(&values).all(is_right) && values.len() == 3, "{field}: {values:?}");
    }
}

/// A frame of which no record says that it came looks like one that never did.
#[test]
fn frames_without_their_records_are_not_durable() {
    for stored in [0, 6] {
        let is_full = Arc::new(AtomicBool::new(stored == 0));
        let seen = is_full.clone();
        let storage = Probed::new(move |call, key| match call {
            // EFBIG
            Call::Put if key.starts_with("records/") && key.contains("/c/") && seen.load(Relaxed) => {
                Err(io::Error::from_raw_os_error(27))
            }
            _ => Ok(()),
        });
        let config = Config { checkpoint_every: Duration::from_millis(10), sync: true, ..tiny(None, 32) };
        let acquisition = Acquisition::create_in(storage.shared(), config).unwrap();
        let append = |number| acquisition.append(&frame(number, FRAME_BYTES)).map(|appended| appended.frames);
        (0..stored).for_each(|number| assert_eq!(append(number).unwrap(), 1));
        wait_until("they are durable", || acquisition.stats().frames_durable == stored);
        is_full.store(true, Relaxed);
        let taken = (stored..stored + 5).take_while(|&number| append(number).is_ok()).count() as u64;
        wait_until("it fails", || append(stored + taken).is_err());
        let accepted = acquisition.stats().frames_accepted;
        let unfinished = acquisition.finish().unwrap_err();
        assert!(matches!(unfinished.error, Error::Io { .. }), "{unfinished}");
        let summary = &unfinished.summary;
        assert_eq!((summary.frames_written, summary.frames_durable), (accepted, stored), "{summary:?}");
        let note = match accepted - stored {
            1 => format!("the record of frame {stored} could not be stored"),
            _ => format!("the records of frames {stored} to {} could not be stored", accepted - 1),
        };
        assert!(summary.notes.iter().any(|found| found.starts_with(&note)), "{note}: {:?}", summary.notes);
    }
}
