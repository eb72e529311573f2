//! Power cuts: everything that the store does to files is written down, and from that is made what a disk may hold
//! after a cut at any moment.

mod power;

use std::fs;
use std::path::{Path, PathBuf};

use power::{Op, PowerLog};

use super::Store;
use crate::offline::{ByteRange, Verify, VerifyOptions};
use crate::{Acquisition, Codec, Compressor, Config, Dim, Dtype, IndexLocation, Placement, Record};

/// Six frames of 8 by 8 bytes in four chunks each, four frames a shard.
fn dataset(folder: &Path, placement: Placement, index_location: IndexLocation) -> PathBuf {
    let config = Config {
        dtype: Dtype::U8,
        dims: vec![Dim::time(6).chunk(1).shard(4), Dim::y(8).chunk(4), Dim::x(8).chunk(4)],
        codec: Codec { compressor: Compressor::None, checksum: true },
        placement,
        index_location,
        ring_bytes: 64 * 4096,
        workers: 1,
        sync: false,
        ..Config::default()
    };
    let path = folder.join("run.zarr");
    let acquisition = Acquisition::create(&path, config).unwrap();
    for number in 0..6 {
        let mut frame = acquisition.acquire().unwrap();
        frame.fill(100 + number as u8);
        frame.commit(number, Record::default()).unwrap();
    }
    acquisition.finish().unwrap();
    path
}

fn keys() -> Vec<String> {
    (0..24).map(|at| format!("0/c/{}/{}/{}", at / 4, at % 4 / 2, at % 2)).collect()
}

fn chunk(value: u8) -> Vec<u8> {
    let pixels = [value; 16];
    [&pixels[..], &crc32c::crc32c(&pixels).to_le_bytes()].concat()
}

type Values = Vec<Option<Vec<u8>>>;

fn values(store: &Store) -> Values {
    let keys = keys();
    let wanted: Vec<_> = keys.iter().map(|key| (key.as_str(), ByteRange::All)).collect();
    store.get_partial_values(&wanted).unwrap()
}

/// One batch: chunks that get a value, or lose theirs. Each is of one shard.
type Batch = Vec<(usize, Option<u8>)>;

fn batches() -> Vec<Batch> {
    vec![
        vec![(2, Some(1)), (3, Some(1)), (14, Some(1))],
        vec![(15, None), (0, None)],
        vec![(16, None), (17, None), (18, None), (19, None), (20, None), (21, None), (22, None), (23, None)],
        vec![(15, Some(2))],
        vec![(17, Some(3)), (23, Some(3))],
    ]
}

/// Edits a dataset and returns what it did to files, with the values after each batch.
fn edited(path: &Path, shares: bool) -> (Vec<Op>, Vec<Values>) {
    let log = PowerLog::new(shares);
    let mut store = Store::edit(path).unwrap();
    store.disk = Box::new(log.clone());
    let mut states = vec![values(&store)];
    let keys = keys();
    for batch in &batches() {
        log.note(Op::Began);
        let set: Vec<_> = batch.iter().filter_map(|(at, value)| Some((keys[*at].as_str(), chunk((*value)?)))).collect();
        let erased: Vec<_> =
            batch.iter().filter(|(_, value)| value.is_none()).map(|(at, _)| keys[*at].as_str()).collect();
        if erased.is_empty() {
            store.set_many(&set.iter().map(|(key, value)| (*key, value.as_slice())).collect::<Vec<_>>()).unwrap();
        } else {
            store.erase_values(&erased).unwrap();
        }
        log.note(Op::Done);
        states.push(values(&store));
    }
    store.finish().unwrap();
    (log.ops(), states)
}

/// Cuts the power after each operation, some times each, and looks what is left. Returns what is wrong.
fn cut(before: &Path, place: &Path, ops: &[Op], states: &[Values]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut state = 1u64;
    let mut coin = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state >> 40 & 1 == 1
    };
    for end in 0..=ops.len() {
        let done = ops[..end].iter().filter(|op| matches!(op, Op::Done)).count();
        let begun = ops[..end].iter().filter(|op| matches!(op, Op::Began)).count();
        for _ in 0..2 {
            power::restore(before, place, &ops[..end], &mut coin);
            let looked = std::panic::catch_unwind(|| {
                let found = values(&Store::open(place).unwrap());
                assert!(states[done..=begun].contains(&found), "after {end} operations: neither before nor after");
                let verified = Verify::new(place, &VerifyOptions::default()).and_then(|verify| verify.run()).unwrap();
                assert!(verified.is_sound(), "after {end} operations: {:?}", verified.findings);
            });
            if let Err(panic) = looked {
                wrong.push(panic.downcast_ref::<String>().cloned().unwrap_or_default());
            }
        }
    }
    wrong
}

#[test]
fn a_power_cut_leaves_each_batch_whole_or_not_at_all() {
    for (placement, location, shares) in [
        (Placement::Fixed, IndexLocation::End, false),
        (Placement::Fixed, IndexLocation::End, true),
        (Placement::Fixed, IndexLocation::Start, true),
        (Placement::Packed, IndexLocation::End, false),
        (Placement::Packed, IndexLocation::Start, false),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = dataset(folder.path(), placement, location);
        let (before, place) = (folder.path().join("before.zarr"), folder.path().join("after.zarr"));
        power::copy(&path, &before);
        let (ops, states) = edited(&path, shares);
        assert!(ops.iter().filter(|op| matches!(op, Op::Renamed(..))).count() >= 5);
        let wrong = cut(&before, &place, &ops, &states);
        assert!(wrong.is_empty(), "{placement:?}, {location:?}, shares {shares}: {wrong:#?}");
        // All of it, and the last word of the documents, is there at the end.
        power::restore(&before, &place, &ops, &mut || false);
        assert!(values(&Store::open(&place).unwrap()) == *states.last().unwrap());
        assert!(fs::read_to_string(place.join("zarr.json")).unwrap().contains("\"chunks\": 17"));
    }
}

/// The test above is worth something: without any one kind of wait it fails.
#[test]
fn power_cuts_find_what_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = dataset(folder.path(), Placement::Fixed, IndexLocation::End);
    let (before, place) = (folder.path().join("before.zarr"), folder.path().join("after.zarr"));
    power::copy(&path, &before);
    let (ops, states) = edited(&path, false);
    let without = |is_left_out: fn(&Op) -> bool| {
        let ops: Vec<_> = ops.iter().filter(|op| !is_left_out(op)).cloned().collect();
        cut(&before, &place, &ops, &states)
    };
    let (data, names) = (without(|op| matches!(op, Op::Synced(..))), without(|op| matches!(op, Op::FolderSynced(..))));
    assert!(!data.is_empty() && !names.is_empty(), "{} and {} cuts went wrong", data.len(), names.len());
}

#[test]
fn where_blocks_can_be_shared_only_what_is_new_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = dataset(folder.path(), Placement::Fixed, IndexLocation::End);
    let log = PowerLog::new(true);
    let mut store = Store::edit(&path).unwrap();
    store.disk = Box::new(log.clone());
    store.set(&keys()[5], &chunk(9)).unwrap();
    let shard = path.join("0/c/0/0/0").canonicalize().unwrap();
    let ops = log.ops();
    let named = ops.iter().filter_map(|op| match op {
        Op::Renamed(id, path) if *path == shard => Some(*id),
        _ => None,
    });
    let [new] = named.collect::<Vec<_>>()[..] else { panic!("{path:?} is replaced once") };
    let written = ops.iter().map(|op| match op {
        // Zeros make a hole.
        Op::Written(id, _, bytes) if *id == new && bytes.iter().any(|&byte| byte != 0) => bytes.len(),
        _ => 0,
    });
    // A header, a chunk, and the index of 16 chunks.
    assert_eq!(written.sum::<usize>(), 64 + 20 + 16 * 16 + 4);
    drop(store);
    let findings = Verify::new(&path, &VerifyOptions::default()).and_then(|verify| verify.run()).unwrap().findings;
    assert!(findings.is_empty(), "{findings:?}");
}
