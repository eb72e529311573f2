//! Records of small frames: many blocks of them share a file, in which each is written where it is read.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use serde_json::json;
use shardwright::offline::{Array, FinishParts, FinishPartsOptions, Repack, RepackOptions};
use shardwright::{
    Acquisition, Codec, Compressor, Config, Dialect, Dim, Dtype, Memory, Part, PartBy, Record, RecordField,
    create_parts,
};

use crate::common::child::{child, child_path};
use crate::common::stopped::{files, restore, sound};
use crate::common::storage::{Probed, save, wait_until};
use crate::common::{checked, on_disk, recovered};

const BLOCK: u64 = 16_384;
/// Of this many frames, the last block is not full.
const FRAMES: u64 = 2 * BLOCK + 512;
/// One that never comes.
const ABSENT: u64 = BLOCK + 17;

fn config() -> Config {
    Config {
        dtype: Dtype::U8,
        dims: vec![Dim::time(None).chunk(64).shard(8192), Dim::y(4), Dim::x(4)],
        codec: Codec { compressor: Compressor::None, checksum: true },
        ring_bytes: 512 * 4096,
        workers: 1,
        sync: false,
        checkpoint_every: Duration::from_millis(20),
        record_fields: vec![RecordField { name: "stage".into(), dtype: Dtype::F32 }],
        ..Config::default()
    }
}

fn commit(run: &Acquisition, number: u64) {
    let mut frame = run.acquire().unwrap();
    frame.fill(number as u8 | 1);
    let mut record = Record::stamped(number + 7);
    record.host_timestamp = Some(-(number as i64));
    frame.commit(number, record.with(0, number as f64 / 2.0)).unwrap();
}

fn finished(path: &Path) {
    let run = Acquisition::create(path, config()).unwrap();
    (0..FRAMES).filter(|&number| number != ABSENT).for_each(|number| commit(&run, number));
    run.finish().unwrap();
}

fn numbers(path: &Path) -> Vec<i64> {
    let bytes = Array::open(path.join("records/frame_number")).unwrap().read_all().unwrap();
    bytes.chunks_exact(8).map(|value| i64::from_le_bytes(value.try_into().unwrap())).collect()
}

fn assert_records(path: &Path) {
    let came = |number: u64| number != ABSENT;
    let expected: Vec<i64> = (0..FRAMES).map(|number| if came(number) { number as i64 } else { -1 }).collect();
    assert_eq!(numbers(path), expected);
    let read = |name: &str| Array::open(path.join("records").join(name)).unwrap().read_all().unwrap();
    for (number, stamp) in (0..FRAMES).zip(read("device_timestamp").chunks_exact(8)) {
        let expected = if came(number) { number + 7 } else { 0 };
        assert_eq!(u64::from_le_bytes(stamp.try_into().unwrap()), expected, "{number}");
    }
    for (number, stage) in (0..FRAMES).zip(read("stage").chunks_exact(4)) {
        let expected = if came(number) { number as f32 / 2.0 } else { f32::NAN };
        assert_eq!(f32::from_le_bytes(stage.try_into().unwrap()).to_bits(), expected.to_bits(), "{number}");
    }
}

/// The only file of a field, and where its blocks begin.
fn shared(path: &Path, field: &str) -> (PathBuf, usize) {
    let array = path.join("records").join(field);
    let opened = Array::open(&array).unwrap();
    let blocks = opened.shard_shape().expect("blocks share files")[0] / opened.chunk_shape()[0];
    (array.join("c/0"), 16 * blocks as usize)
}

fn change(path: &Path, at: usize, bytes: &[u8]) {
    let mut file = fs::read(path).unwrap();
    file[at..at + bytes.len()].copy_from_slice(bytes);
    fs::write(path, file).unwrap();
}

fn files_of_records(path: &Path) -> Vec<String> {
    let files = files(&path.join("records")).into_keys();
    files.map(|file| file.to_string_lossy().into_owned()).collect()
}

#[test]
fn blocks_share_files() {
    let folder = on_disk();
    let path = folder.path().join("run.zarr");
    finished(&path);
    let fields = ["device_timestamp", "frame_number", "host_timestamp", "stage"];
    let expected = fields.iter().flat_map(|field| [format!("{field}/c/0"), format!("{field}/zarr.json")]);
    assert_eq!(files_of_records(&path), expected.chain(["zarr.json".to_owned()]).collect::<Vec<_>>());
    assert_records(&path);
    sound(&path);
    // No longer than its blocks, so that a short run has no long files.
    let (file, head) = shared(&path, "frame_number");
    assert_eq!(fs::metadata(file).unwrap().len(), (head as u64) + 3 * 8 * BLOCK);
    // Those of large frames, and of a run that is short beforehand, are files of their own, as they were.
    for dims in [
        vec![Dim::time(None), Dim::y(4096), Dim::x(2048)],
        vec![Dim::time(100_000).chunk(64).shard(8192), Dim::y(4), Dim::x(4)],
    ] {
        let path = folder.path().join("other.zarr");
        let run = Acquisition::create(&path, Config { dims, ring_bytes: 64 << 20, ..config() }).unwrap();
        assert_eq!(Array::open(path.join("records/stage")).unwrap().shard_shape(), None);
        run.abort();
    }
}

#[test]
fn so_they_do_in_memory_and_not_where_the_storage_cannot_write_within_files() {
    for (is_shared, storage) in [(true, None), (false, Some(Probed::new(|_, _| Ok(()))))] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.zarr");
        let memory = std::sync::Arc::new(Memory::new());
        let run = match &storage {
            None => Acquisition::create_in(memory.clone(), config()).unwrap(),
            Some(probed) => Acquisition::create_in(probed.shared(), config()).unwrap(),
        };
        (0..FRAMES).filter(|&number| number != ABSENT).for_each(|number| commit(&run, number));
        run.finish().unwrap();
        save(storage.as_ref().map_or(&memory, |probed| &probed.memory), &path);
        assert_eq!(Array::open(path.join("records/stage")).unwrap().shard_shape().is_some(), is_shared);
        assert_records(&path);
        sound(&path);
    }
    let folder = on_disk();
    let path = folder.path().join("run.ozx");
    finished(&path);
    assert_eq!(Array::open(path.join("records/stage")).unwrap().shard_shape(), None);
    assert_records(&path);
}

#[test]
fn verify_finds_what_is_wrong_with_them() {
    let folder = on_disk();
    let path = folder.path().join("run.zarr");
    finished(&path);
    let good = files(&path);
    let found = |field: &str, at: &dyn Fn(usize) -> usize, bytes: &[u8]| {
        restore(&path, &good);
        let (file, head) = shared(&path, field);
        change(&file, at(head), bytes);
        let findings = checked(&path).unwrap().findings;
        findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    let in_block = |head: usize| head + 8 * (BLOCK as usize + 3);
    let told = found("frame_number", &in_block, &5i64.to_le_bytes());
    assert!(told.contains("records/frame_number/c/0, chunk 1: the record of frame 16387 has the number 5"), "{told}");
    let told = found("frame_number", &in_block, &(-1i64).to_le_bytes());
    assert!(told.contains("frames that have no number in the records are not listed as missing: 1"), "{told}");
    let told = found("frame_number", &|_| 16, &[0xff; 16]);
    assert!(told.contains("frames that have no record are not listed as missing: 16383"), "{told}");
    let told = found("stage", &|_| 16, &[0xff; 16]);
    assert!(told.contains("its block [1] is not there, and that of the frame numbers is"), "{told}");
    let told = found("stage", &|_| 16, &[7; 16]);
    assert!(told.contains("records/stage/c/0, chunk 1: the index names"), "{told}");
}

/// What becomes of a file whose blocks begin at a place.
type Damage<'a> = &'a dyn Fn(&Path, usize);

/// Whatever a loss of power without syncs, or somebody else, leaves of it.
#[test]
fn recover_mends_them() {
    let folder = on_disk();
    let (live, path) = (folder.path().join("live.zarr"), folder.path().join("run.zarr"));
    let run = Acquisition::create(&live, config()).unwrap();
    (0..FRAMES).filter(|&number| number != ABSENT).for_each(|number| commit(&run, number));
    wait_until("all is written", || run.stats().frames_written == FRAMES - 1);
    wait_until("all is told", || numbers(&live).last() == Some(&(FRAMES as i64 - 1)));
    let left: BTreeMap<_, _> = files(&live);
    run.abort();
    let expected: Vec<i64> = (0..FRAMES).map(|number| if number == ABSENT { -1 } else { number as i64 }).collect();
    let damages: [Damage; 6] = [
        &|_, _| {},
        &|file, _| fs::remove_file(file).unwrap(),
        &|file, _| fs::write(file, [0; 9]).unwrap(),
        &|file, _| change(file, 16, &[0xff; 16]),
        &|file, _| change(file, 16, &[0; 32]),
        &|file, head| change(file, head + 8 * BLOCK as usize + 80, &77i64.to_le_bytes()),
    ];
    for (damage, at) in damages.iter().zip(0..) {
        restore(&path, &left);
        let (file, head) = shared(&path, "frame_number");
        damage(&file, head);
        let found = recovered(&path, true).unwrap();
        let records = found.documents.iter().filter(|key| *key == "records/frame_number/c/0").count();
        assert_eq!(records, usize::from(at > 0), "{at}: {found:#?}");
        let told = numbers(&path);
        // Of a chunk of several frames, only its record told which came.
        let is_right = |(told, expected): (&i64, &i64)| told == expected || (at > 0 && *told == -2);
        assert!(told.len() == expected.len() && told.iter().zip(&expected).all(is_right), "{at}");
        assert_eq!((told[0], told[BLOCK as usize * 2]), (0, 2 * BLOCK as i64), "{at}");
        sound(&path);
        let after = files(&path);
        assert!(!recovered(&path, true).unwrap().is_needed() && files(&path) == after, "{at}");
    }
    // Somebody wrote the file anew, one block behind the other in another order: nothing in it is written over.
    restore(&path, &left);
    let (file, head) = shared(&path, "frame_number");
    let block = 8 * BLOCK as usize;
    let mut bytes = fs::read(&file).unwrap();
    let (first, second) = bytes[head..head + 2 * block].split_at_mut(block);
    first.swap_with_slice(second);
    let (one, other) = bytes[..32].split_at_mut(16);
    one.swap_with_slice(other);
    fs::write(&file, &bytes).unwrap();
    recovered(&path, true).unwrap();
    assert_eq!(numbers(&path), expected);
    assert_eq!(fs::read(&file).unwrap(), bytes);
}

/// Writes until it is killed, and says how many frames are durable.
#[test]
#[ignore = "another test runs it in a process of its own"]
fn child_writes() {
    let run = Acquisition::create(child_path(), Config { sync: true, ..config() }).unwrap();
    for number in (0..u64::MAX).filter(|&number| number != ABSENT) {
        commit(&run, number);
        if number.is_multiple_of(64) {
            println!("durable {}", run.stats().frames_durable);
        }
    }
}

#[test]
fn a_kill_takes_no_number_of_a_durable_frame() {
    let mut blocks = 0;
    for kill in 0..5 {
        let folder = on_disk();
        let path = folder.path().join("run.zarr");
        let mut writer = child("shared_records::child_writes")
            .env("SHARDWRIGHT_TEST_PATH", &path)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(writer.stdout.take().unwrap()).lines();
        let mut counts = lines.filter_map(|line| line.ok()?.split("durable ").nth(1)?.trim().parse().ok());
        let enough = counts.find(|&count: &u64| count > kill * BLOCK / 2);
        thread::sleep(Duration::from_millis(kill * 17));
        writer.kill().unwrap();
        writer.wait().unwrap();
        let last = counts.max();
        let durable = last.max(enough).unwrap();
        // Records of shards that closed since the last checkpoint may still have been on their way.
        let wrong = |(number, at): (i64, i64)| number >= 0 && number != at;
        assert!(!numbers(&path).into_iter().zip(0..).any(wrong), "kill {kill}, of {durable}");
        let found = recovered(&path, true).unwrap();
        let numbers = numbers(&path);
        // Of a chunk in which a frame is missing, only its records told which came.
        let is_there = |at: u64| match numbers.get(at as usize) {
            Some(&number) => number == at as i64 || (number == -2 && at / 64 == ABSENT / 64),
            None => false,
        };
        let lost = (0..durable).find(|&at| at != ABSENT && !is_there(at));
        assert_eq!(lost, None, "kill {kill}, of {durable}");
        assert!(found.images[0].missing.iter().all(|range| range.end - range.start == 1), "{found:#?}");
        sound(&path);
        blocks = blocks.max(durable / BLOCK);
        assert!(files_of_records(&path).len() <= 9);
    }
    println!("{blocks} blocks were full");
    assert!(blocks > 0, "no block was full when the writer was killed");
}

/// As readers do that come back every now and then.
#[test]
fn readers_of_a_run_see_each_number_at_its_place() {
    let folder = on_disk();
    let path = folder.path().join("run.zarr");
    let run = Acquisition::create(&path, Config { checkpoint_every: Duration::from_millis(10), ..config() }).unwrap();
    thread::scope(|scope| {
        let writer =
            scope.spawn(|| (0..FRAMES).filter(|&number| number != ABSENT).for_each(|number| commit(&run, number)));
        let mut seen = 0;
        while !writer.is_finished() {
            let numbers = numbers(&path);
            let wrong = numbers.iter().zip(0..).find(|&(&number, at)| number != at && ![-1, -2].contains(&number));
            assert_eq!(wrong, None);
            let came = numbers.iter().filter(|number| **number >= 0).count();
            assert!(came >= seen, "what was told is told no more");
            seen = came;
        }
    });
    wait_until("all are there", || numbers(&path).last() == Some(&(FRAMES as i64 - 1)));
    run.finish().unwrap();
    assert_records(&path);
}

#[test]
fn parts_are_put_together() {
    let folder = on_disk();
    let path = folder.path().join("run.zarr");
    create_parts(&path, config(), 2, PartBy::Time).unwrap();
    for index in 0..2 {
        let part = Some(Part { index, of: 2, by: PartBy::Time });
        let run = Acquisition::create(&path, Config { part, ..config() }).unwrap();
        let is_own = |number: u64| number / 8192 % 2 == u64::from(index);
        let own = (0..FRAMES).filter(|&number| number != ABSENT && is_own(number));
        own.for_each(|number| commit(&run, number));
        run.finish().unwrap();
    }
    FinishParts::new(&path, &FinishPartsOptions::default()).unwrap().run().unwrap();
    assert_records(&path);
    assert_eq!(files_of_records(&path).len(), 9);
    sound(&path);
}

#[test]
fn repack_leaves_them_as_they_are() {
    let folder = on_disk();
    let [path, other] = ["run.zarr", "other.zarr"].map(|name| folder.path().join(name));
    finished(&path);
    let records = files(&path.join("records"));
    let plain = || Some(Codec { compressor: Compressor::None, checksum: false });
    let cases = [
        RepackOptions::default(),
        RepackOptions { codec: Some(Codec::from(Compressor::Zstd { level: 1 })), ..RepackOptions::default() },
        RepackOptions { dialect: Some(Dialect::Zarr2), codec: plain(), ..RepackOptions::default() },
        RepackOptions { dialect: Some(Dialect::Zarr2Sharded), codec: plain(), ..RepackOptions::default() },
    ];
    for options in cases {
        Repack::new(&path, Some(&other), &options).unwrap().run().unwrap();
        assert!(files(&other.join("records")) == records, "{options:?}");
        fs::remove_dir_all(&other).unwrap();
    }
    // Of lost chunks that are given up, the records tell.
    fs::remove_file(path.join("0/c/2/0/0")).unwrap();
    let options = RepackOptions { incomplete: true, ..RepackOptions::default() };
    Repack::new(&path, Some(&other), &options).unwrap().run().unwrap();
    let told = numbers(&other);
    let lost = 2 * 8192..3 * 8192;
    assert!((0..FRAMES).zip(&told).all(|(at, told)| match lost.contains(&at) {
        true => *told == if at == ABSENT { -1 } else { -3 },
        false => *told == at as i64,
    }));
    assert!(files(&path.join("records")) == records);
    sound(&other);
}

/// An hour of frames of 64 by 64 pixels at 4 GB/s is 1.8 billion: the documents tell how many files their records are.
#[test]
fn an_hour_of_small_frames_has_less_than_a_thousand_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    let dims = vec![Dim::time(None).chunk(64).shard(8192), Dim::y(64), Dim::x(64)];
    let record_fields = (0..7).map(|at| RecordField { name: format!("field{at}"), dtype: Dtype::F64 }).collect();
    let run = Acquisition::create(&path, Config { dims, dtype: Dtype::U16, record_fields, ..config() }).unwrap();
    let frames: u64 = 4_000_000_000 * 3600 / (64 * 64 * 2);
    let fields = fs::read_dir(path.join("records")).unwrap().map(|entry| entry.unwrap().path());
    let of_field = |field: PathBuf| frames.div_ceil(Array::open(field).unwrap().shard_shape().unwrap()[0]);
    let files: u64 = fields.filter(|field| field.is_dir()).map(of_field).sum();
    assert!(files < 1000, "{files}");
    let document = fs::read(path.join("records/frame_number/zarr.json")).unwrap();
    let document: serde_json::Value = serde_json::from_slice(&document).unwrap();
    let plain = json!({"name": "bytes", "configuration": {"endian": "little"}});
    let sharding = json!({"name": "sharding_indexed", "configuration": {
        "chunk_shape": [BLOCK], "codecs": [plain.clone()], "index_codecs": [plain], "index_location": "start",
    }});
    assert_eq!(document["codecs"], json!([sharding]));
    run.abort();
}
