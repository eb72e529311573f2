//! Each call of a storage fails in turn, once and for good, in several dialects: what is left is recovered, and then
//! the pixels, the records, what is listed as missing and what a check finds agree.
//!
//! `SHARDWRIGHT_FAULT_STEP` says that one of this many calls fails; without it, one of eleven, and with 1, each.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use crate::common::books::Books;
use crate::common::stopped::{Frame, check, frame_bytes, frames_of};
use crate::common::storage::{Call, Probed, save, scratch, within};
use crate::common::{fault_step, frame, recovered, some_cases, tiny};
use shardwright::offline::Array;
use shardwright::{Acquisition, Codec, Compressor, Config, Dialect, Dim, IndexLocation, Placement, Record, Summary};

const FRAMES: u64 = 20;
/// They never come.
const GAPS: [u64; 3] = [5, 12, 13];
const CALLS: [Call; 8] =
    [Call::Create, Call::Put, Call::Remove, Call::WriteAt, Call::Publish, Call::Sync, Call::Punch, Call::Truncate];

/// Frames of two chunks; two or, in Zarr v2, one in a chunk.
fn samples() -> Vec<Config> {
    let dims = |depth| vec![Dim::time(None).chunk(depth).shard(4), Dim::y(16).chunk(8), Dim::x(16)];
    let codec = Codec { compressor: Compressor::None, checksum: false };
    let config = |depth| Config {
        dims: dims(depth),
        codec: codec.clone(),
        workers: 2,
        sync: true,
        checkpoint_every: Duration::from_secs(3600),
        ..tiny(None, 12)
    };
    vec![
        config(1),
        config(2),
        Config { placement: Placement::Packed, index_location: IndexLocation::Start, ..config(2) },
        Config { dialect: Dialect::Zarr3Transformer, ..config(1) },
        Config { dialect: Dialect::Zarr2Sharded, ..config(1) },
    ]
}

/// A storage of which the `nth` call of a kind fails, or that and all later ones; and whether it came to that.
fn failing(call: Call, nth: usize, for_good: bool) -> (Probed, Arc<AtomicBool>) {
    let failed = Arc::new(AtomicBool::new(false));
    let (calls, flag) = (AtomicUsize::new(0), failed.clone());
    let storage = Probed::new(move |called, key| {
        if called != call {
            return Ok(());
        }
        let at = calls.fetch_add(1, Relaxed);
        if at == nth || at > nth && for_good {
            flag.store(true, Relaxed);
            return Err(io::Error::other(format!("boom at {call:?} {at} of {key}")));
        }
        Ok(())
    });
    (storage, failed)
}

/// What the run came to, if it began.
fn run(storage: &Probed, config: &Config) -> Option<(Summary, BTreeSet<u64>)> {
    let mut accepted = BTreeSet::new();
    let acquisition = Acquisition::create_in(storage.shared(), config.clone()).ok()?;
    for number in (0..FRAMES).filter(|number| !GAPS.contains(number)) {
        let committed = acquisition.acquire().and_then(|mut slot| {
            slot.copy_from_slice(&frame(number, frame_bytes(config)));
            slot.commit(number, Record::stamped(1000 + number))
        });
        if committed.is_err() {
            break;
        }
        accepted.insert(number);
    }
    Some((acquisition.finish().unwrap_or_else(|unfinished| *unfinished.summary), accepted))
}

fn numbers(path: &Path) -> Vec<i64> {
    let bytes = Array::open(path.join("records/frame_number")).unwrap().read_all().unwrap();
    bytes.chunks_exact(8).map(|number| i64::from_le_bytes(number.try_into().unwrap())).collect()
}

/// Recovers what the run left, and compares all that says something of its frames.
fn books_agree(storage: &Probed, config: &Config, summary: &Summary, accepted: &BTreeSet<u64>, call: Call, what: &str) {
    let folder = scratch();
    let path = folder.path();
    save(&storage.memory, path);
    let pixels = |number| frame(number, frame_bytes(config));
    let books = Books { config, accepted, pixels: &pixels, documents_failed: call == Call::Put };
    eprintln!("{what}");
    books.check(path, summary);
    let found = recovered(path, true).unwrap_or_else(|error| panic!("{what}: {error}"));
    let image = &found.images[0];
    let missing: BTreeSet<u64> = image.missing.iter().cloned().flatten().collect();
    assert_eq!(image.frames_missing, missing.len() as u64, "{what}");
    // Everything that counted as written is there, and nothing that never came.
    let lost: BTreeSet<u64> = summary.missing.iter().cloned().flatten().collect();
    let end = summary.frames_written + summary.frames_missing;
    let written = (0..end).filter(|number| !lost.contains(number));
    assert_eq!(written.filter(|number| missing.contains(number)).collect::<Vec<_>>(), [0; 0], "{what}: {summary:?}");
    for gap in GAPS.iter().filter(|gap| **gap < image.frames) {
        assert!(missing.contains(gap), "{what}: frame {gap} never came, missing: {missing:?}");
    }
    let pixels = frames_of(path, config, image.frames);
    let numbers = numbers(path);
    for number in 0..image.frames {
        let (pixels, record) = (pixels.get(number as usize), numbers.get(number as usize));
        match missing.contains(&number) {
            true => {
                assert!(record.is_none_or(|record| [-1, -3].contains(record)), "{what}: frame {number}, {record:?}")
            }
            false => {
                assert_eq!(pixels, Some(&Frame::Whole), "{what}: frame {number} is not listed as missing");
                assert_eq!(record, Some(&(number as i64)), "{what}: the record of frame {number}");
            }
        }
    }
    let verification = check(path);
    assert!(verification.is_sound(), "{what}: {:#?}", verification.findings);
    let again = recovered(path, true).unwrap();
    assert!(!again.is_needed(), "{what}: {again:#?}");
}

#[test]
fn after_each_fault_the_books_agree_once_recovered() {
    let step = fault_step(11);
    let (mut faults, mut first) = (0, 0);
    for (sample, config) in samples().iter().enumerate() {
        for (call, for_good) in CALLS.iter().flat_map(|&call| [(call, false), (call, true)]) {
            first += 1;
            for nth in some_cases(first, step).take_while(|nth| *nth < 1000) {
                let what = format!("sample {sample}, {call:?} {nth}, for good: {for_good}");
                let (storage, failed) = failing(call, nth, for_good);
                let (running, its) = (storage.clone(), config.clone());
                let summary = within(30, move || run(&running, &its));
                if let Some((summary, accepted)) = &summary {
                    books_agree(&storage, config, summary, accepted, call, &what);
                }
                if !failed.load(Relaxed) {
                    break;
                }
                faults += 1;
            }
        }
    }
    assert!(faults > 200 / step, "{faults} faults");
}
