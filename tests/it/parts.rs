//! One run that several processes write, each a part of its shards: what comes of it is what one process would have
//! written.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::Value;
use shardwright::offline::{Array, FinishParts, FinishPartsOptions, PartState, PartsFinished, Repack, RepackOptions};
use shardwright::{
    Acquisition, Codec, Compressor, Config, Dim, Downsampling, Dtype, Error, Part, PartBy, Record, RecordField,
    RefusedNumber, create_parts,
};

use crate::common::child::child;
use crate::common::{checked, frame, recovered};

const ROWS: usize = 20;
const COLUMNS: usize = 50;

/// Frames of two channels, acquired in turn; eight frames a row of shards, which are cut at the edges.
pub(crate) fn config(frames: Option<u64>) -> Config {
    Config {
        dtype: Dtype::U8,
        dims: vec![
            Dim::time(frames).chunk(2).shard(4),
            Dim::channel(2).chunk(1).shard(1),
            Dim::y(ROWS as u64).chunk(8).shard(16),
            Dim::x(COLUMNS as u64).chunk(8).shard(16).scale(0.5, "micrometer"),
        ],
        codec: Codec { compressor: Compressor::Zstd { level: 1 }, checksum: true },
        ring_bytes: 64 * 4096,
        workers: 2,
        sync: false,
        record_fields: vec![RecordField { name: "laser".into(), dtype: Dtype::F32 }],
        checkpoint_every: Duration::from_millis(20),
        ..Config::default()
    }
}

fn of(config: &Config, part: Option<Part>) -> Config {
    Config { part, ..config.clone() }
}

/// Some never come, and others come late.
pub(crate) fn numbers(count: u64) -> Vec<u64> {
    let mut numbers: Vec<u64> = (0..count).filter(|number| number % 17 != 5).collect();
    numbers.chunks_mut(3).for_each(<[u64]>::reverse);
    numbers
}

fn columns(part: Option<Part>) -> std::ops::Range<usize> {
    match part {
        // Of four columns of shards.
        Some(Part { index, of: 2, by: PartBy::Frame }) => [0..32, 32..COLUMNS][index as usize].clone(),
        _ => 0..COLUMNS,
    }
}

fn commit(run: &Acquisition, number: u64, part: Option<Part>) -> Result<(), Error> {
    let columns = columns(part);
    let whole = frame(number, ROWS * COLUMNS);
    let rows = whole.chunks(COLUMNS).flat_map(|row| row[columns.clone()].to_vec());
    let mut buffer = run.acquire()?;
    buffer.copy_from_slice(&rows.collect::<Vec<u8>>());
    let laser = run.record_field("laser")?;
    let mut record = Record::stamped(1_000 + number).with(laser, number as f32 / 2.0);
    record.host_timestamp = Some(7_000 + number as i64);
    buffer.commit(number, record)
}

/// Commits those of `numbers` that the part has.
pub(crate) fn write(path: &Path, config: &Config, part: Option<Part>, numbers: &[u64]) -> Acquisition {
    let run = Acquisition::create(path, of(config, part)).unwrap();
    for &number in numbers {
        match commit(&run, number, part) {
            Err(Error::FrameNumber { why: RefusedNumber::OtherPart { owner, part: own, of }, .. }) => {
                let part = part.unwrap();
                assert_eq!((u64::from(owner), own, of), (number / 8 % u64::from(part.of), part.index, part.of));
            }
            committed => committed.unwrap(),
        }
    }
    run
}

/// A run in two parts, which both ended after 60 frames.
pub(crate) fn two_ended(folder: &Path, by: PartBy) -> (PathBuf, Config) {
    let (path, config) = (folder.join("run.zarr"), config(None));
    create_parts(&path, config.clone(), 2, by).unwrap();
    for index in 0..2 {
        write(&path, &config, Some(Part { index, of: 2, by }), &numbers(60)).finish().unwrap();
    }
    (path, config)
}

pub(crate) fn finished(path: &Path) -> PartsFinished {
    FinishParts::new(path, &FinishPartsOptions::default()).unwrap().run().unwrap()
}

pub(crate) fn refusal(path: &Path) -> Error {
    FinishParts::new(path, &FinishPartsOptions::default()).unwrap_err()
}

fn document(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path.join("zarr.json")).unwrap()).unwrap()
}

/// Pixels, records and documents are the same, and nothing is wrong with them.
fn assert_equal(run: &Path, single: &Path) {
    let records = ["frame_number", "device_timestamp", "host_timestamp", "laser"].map(|name| format!("records/{name}"));
    for array in records.iter().map(String::as_str).chain(["0"]) {
        let [of_run, of_single] = [run, single].map(|path| Array::open(path.join(array)).unwrap());
        assert_eq!(of_run.shape(), of_single.shape(), "{array}");
        assert!(of_run.read_all().unwrap() == of_single.read_all().unwrap(), "{array}");
    }
    for group in ["0", "records", "records/laser", ""] {
        let [mut of_run, mut of_single] = [run, single].map(|path| document(&path.join(group)));
        for (key, document) in ["writer", "parts"].iter().flat_map(|key| [(key, 0), (key, 1)]) {
            let document = if document == 0 { &mut of_run } else { &mut of_single };
            if let Some(own) = document["attributes"].get_mut("shardwright") {
                own.as_object_mut().unwrap().remove(*key);
            }
        }
        assert_eq!(of_run, of_single, "{group}");
    }
    let found = checked(run).unwrap();
    assert!(found.is_sound(), "{:?}", found.findings);
    let array = found.arrays.iter().find(|array| array.path == "0").unwrap();
    assert_eq!((array.headers, array.without_header), (array.chunks, 0));
    assert!(!run.join("parts").exists());
}

const PART: &str = "SHARDWRIGHT_PART";
const FRAMES: &str = "SHARDWRIGHT_PART_FRAMES";

#[test]
#[ignore = "another test runs it in a process of its own"]
fn child_writes_a_part() {
    let (path, part) = (env::var("SHARDWRIGHT_TEST_PATH").unwrap(), env::var(PART).unwrap());
    let (part, config) = serde_json::from_str::<(Part, Config)>(&part).unwrap();
    let numbers = numbers(env::var(FRAMES).unwrap().parse().unwrap());
    let run = write(Path::new(&path), &config, Some(part), &numbers);
    if env::var("SHARDWRIGHT_TEST_WORD").is_ok_and(|word| word == "wait") {
        let came = run.stats().frames_accepted;
        while run.stats().frames_written + 8 < came {
            std::thread::sleep(Duration::from_millis(1));
        }
        println!("written");
        std::thread::sleep(Duration::from_secs(60));
    }
    run.finish().unwrap();
}

fn begin(path: &Path, config: &Config, part: Part, frames: u64, word: &str) -> Child {
    child("parts::child_writes_a_part")
        .env("SHARDWRIGHT_TEST_PATH", path)
        .env("SHARDWRIGHT_TEST_WORD", word)
        .env(PART, serde_json::to_string(&(part, config)).unwrap())
        .env(FRAMES, frames.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn single(folder: &Path, config: &Config, frames: u64) -> PathBuf {
    let path = folder.join("single.zarr");
    write(&path, config, None, &numbers(frames)).finish().unwrap();
    path
}

/// Processes write the parts at the same time.
fn check_parts(config: &Config, of: u32, by: PartBy, frames: u64) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    create_parts(&path, config.clone(), of, by).unwrap();
    let children: Vec<_> = (0..of).map(|index| begin(&path, config, Part { index, of, by }, frames, "")).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let told = finished(&path);
    // The last of a pair of channels counts, too.
    let end = frames.next_multiple_of(2);
    let missing = (0..end).filter(|number| number % 17 == 5 || *number >= frames);
    assert_eq!(told.missing, missing.map(|number| number..number + 1).collect::<Vec<_>>());
    assert_eq!(told.frames, end);
    assert!(told.notes.is_empty() && told.parts.iter().all(|part| part.state == PartState::Complete));
    assert_equal(&path, &single(folder.path(), config, frames));
    // Nothing is left to do.
    let before = document(&path);
    assert_eq!(finished(&path).notes, ["was finished before"]);
    assert_eq!(document(&path), before);
}

#[test]
fn four_processes_by_time() {
    check_parts(&config(None), 4, PartBy::Time, 111);
}

#[test]
fn four_processes_by_time_that_know_the_end() {
    check_parts(&config(Some(70)), 4, PartBy::Time, 140);
    // It is reached by none.
    check_parts(&config(Some(700)), 3, PartBy::Time, 60);
}

#[test]
fn two_processes_by_columns_of_the_frame() {
    check_parts(&config(None), 2, PartBy::Frame, 61);
    check_parts(&config(Some(40)), 2, PartBy::Frame, 61);
}

#[test]
fn a_part_that_got_nothing_is_no_loss() {
    let folder = tempfile::tempdir().unwrap();
    let (path, config) = (folder.path().join("run.zarr"), config(None));
    create_parts(&path, config.clone(), 4, PartBy::Time).unwrap();
    for index in 0..4 {
        let part = Part { index, of: 4, by: PartBy::Time };
        write(&path, &config, Some(part), &numbers(20)).finish().unwrap();
    }
    finished(&path);
    assert_equal(&path, &single(folder.path(), &config, 20));
}

#[test]
fn numbers_are_those_of_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let (path, config) = (folder.path().join("run.zarr"), config(Some(70)));
    create_parts(&path, config.clone(), 4, PartBy::Time).unwrap();
    let part = Some(Part { index: 2, of: 4, by: PartBy::Time });
    let run = Acquisition::create(&path, of(&config, part)).unwrap();
    let refused = |number| commit(&run, number, part).unwrap_err().to_string();
    assert_eq!(refused(3), "frame number 3 belongs to part 0 of 4, and this acquisition writes part 2");
    assert_eq!(refused(140), "frame number 140 is past the end: the array holds 140 frames, 0 to 139");
    assert_eq!(run.next_number(), 16);
    let mut frame = run.acquire().unwrap();
    frame.fill(1);
    let view = frame.commit_viewed(None, Record::default()).unwrap();
    assert_eq!(view.number(), 16);
    drop(view);
    commit(&run, 50, part).unwrap();
    assert_eq!(run.next_number(), 51);
    assert!(refused(50).contains("50 was committed before"));
    let mut pixels = vec![0; ROWS * COLUMNS];
    run.read_frame(50, &mut pixels).unwrap();
    assert!(pixels == crate::common::frame(50, ROWS * COLUMNS));
    assert!(run.read_frame(3, &mut pixels).is_err());
    let summary = run.finish().unwrap();
    assert_eq!((summary.missing, summary.frames_missing), (vec![17..24, 48..50, 51..52], 10));
}

#[test]
fn one_is_killed_and_recovered_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (path, config) = (folder.path().join("run.zarr"), config(None));
    let part = |index| Part { index, of: 4, by: PartBy::Time };
    create_parts(&path, config.clone(), 4, PartBy::Time).unwrap();
    let mut child = begin(&path, &config, part(1), 120, "wait");
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("written")));
    // Nobody takes its place, nor finishes the run, meanwhile.
    assert!(matches!(refusal(&path), Error::Locked { path } if path.ends_with("parts/1")));
    let second = Acquisition::create(&path, of(&config, Some(part(1)))).unwrap_err();
    assert!(matches!(second, Error::Locked { .. }), "{second}");
    child.kill().unwrap();
    child.wait().unwrap();
    for index in [0, 2] {
        write(&path, &config, Some(part(index)), &numbers(120)).finish().unwrap();
    }
    let told = refusal(&path).to_string();
    assert!(told.contains("parts that did not end: 1, ") && told.contains("parts that never came: 3"), "{told}");
    assert!(told.contains("the option `incomplete`"), "{told}");
    let complete = document(&path.join("parts/0"));
    let running = write(&path, &config, Some(part(3)), &numbers(120));
    assert!(matches!(recovered(&path, true), Err(Error::Locked { .. })), "part 3 is at work");
    assert!(recovered(path.join("parts/1"), true).unwrap().is_needed());
    running.finish().unwrap();
    assert!(!recovered(&path, true).unwrap().is_needed());
    assert_eq!(document(&path.join("parts/0")), complete);
    let told = finished(&path);
    let states: Vec<_> = told.parts.iter().map(|part| part.state).collect();
    assert_eq!(states, [0, 1, 0, 0].map(|state| [PartState::Complete, PartState::Recovered][state]));
    // Whatever is there is what was written.
    let array = Array::open(&path).unwrap();
    let pixels = array.read_all().unwrap();
    assert_eq!(array.shape()[..2], [60, 2]);
    let lacks = |number: u64| told.missing.iter().any(|range| range.contains(&number));
    for number in 0..120 {
        let found = &pixels[number as usize * ROWS * COLUMNS..][..ROWS * COLUMNS];
        let is_there = found == frame(number, ROWS * COLUMNS);
        assert_eq!(is_there, number % 17 != 5 && (is_there || !lacks(number)), "{number}");
        assert!(is_there || lacks(number), "{number}");
    }
    let lost = told.missing.iter().map(|range| range.end - range.start).sum::<u64>();
    assert!(lost <= 120 / 17 + 1 + 16, "no more than a chunk of each channel is lost: {:?}", told.missing);
    let found = checked(&path).unwrap();
    assert!(found.is_sound(), "{:?}", found.findings);
}

#[test]
fn parts_that_never_came_are_missing_if_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    for (by, of) in [(PartBy::Time, 4), (PartBy::Frame, 2)] {
        let (path, config) = (folder.path().join(by.name()), config(None));
        create_parts(&path, config.clone(), of, by).unwrap();
        for index in (0..of).filter(|&index| index != 1) {
            write(&path, &config, Some(Part { index, of, by }), &numbers(40)).finish().unwrap();
        }
        let told = refusal(&path).to_string();
        assert!(told.contains("parts that never came: 1;"), "{told}");
        let told = FinishParts::new(&path, &FinishPartsOptions { incomplete: true }).unwrap().run().unwrap();
        let missing = |number: u64| number % 17 == 5 || by == PartBy::Frame || number / 8 % 4 == 1;
        assert_eq!(told.frames_missing, (0..40).filter(|&number| missing(number)).count() as u64);
        assert!(told.missing.iter().flat_map(Clone::clone).all(missing));
        assert_eq!(told.parts[1].state, PartState::Absent);
        let found = checked(&path).unwrap();
        assert!(found.damage == 0, "{:?}", found.findings);
    }
}

#[test]
fn wrong_orders_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (path, config) = (folder.path().join("run.zarr"), config(Some(70)));
    let part = |index, of| Some(Part { index, of, by: PartBy::Time });
    let start = |config: Config| Acquisition::create(&path, config).map(drop).unwrap_err();
    let absent = start(of(&config, part(0, 4)));
    assert!(matches!(absent, Error::NotFound { .. }) && absent.to_string().contains("shardwright create"), "{absent}");
    assert!(!path.exists());
    create_parts(&path, config.clone(), 4, PartBy::Time).unwrap();
    assert!(matches!(create_parts(&path, config.clone(), 4, PartBy::Time), Err(Error::Exists { .. })));
    let says = |error: Error, words: &str| assert!(error.to_string().contains(words), "{error}: {words}");
    says(start(of(&config, part(4, 4))), "part = 4 of 4 by time: parts are numbered 0 to 3");
    says(start(of(&config, part(0, 5))), "was created with 4 parts by time");
    says(start(of(&config, Some(Part { index: 0, of: 4, by: PartBy::Frame }))), "was created with 4 parts by time");
    let other = Config { codec: Codec::from(Compressor::None), ..of(&config, part(0, 4)) };
    says(start(other), "the configuration is not that of the run");
    let mut other = of(&config, part(0, 4));
    other.dims[2].chunk = 16;
    says(start(other), "/chunk_shape/2 is 8, and by this one 16");
    let other = Config { record_fields: Vec::new(), ..of(&config, part(0, 4)) };
    says(start(other), "the run has a record field laser, which this configuration does not have");
    // A part of another run.
    let elsewhere = folder.path().join("other.zarr");
    create_parts(&elsewhere, config.clone(), 4, PartBy::Time).unwrap();
    write(&elsewhere, &config, part(1, 4), &numbers(20)).finish().unwrap();
    fs::rename(elsewhere.join("parts/1"), path.join("parts/1")).unwrap();
    says(refusal(&path), "is a part of another run");
    fs::rename(path.join("parts/1"), path.join("parts/2")).unwrap();
    says(refusal(&path), "is a part of another run");
    fs::rename(path.join("parts/2"), elsewhere.join("parts/2")).unwrap();
    says(refusal(&elsewhere), "is part 1 of 4 by time, and stands in another's place");
    // Whoever wants the whole run waits for its end.
    says(Repack::new(&path, None, &RepackOptions::default()).unwrap_err(), "shardwright finish");
    says(recovered(&path, true).unwrap_err(), "shardwright finish");
    says(checked(&path).unwrap_err(), "shardwright finish");
    says(refusal(&single(folder.path(), &config, 8)), "is no run in parts");
    for index in 0..4 {
        write(&path, &config, part(index, 4), &numbers(140)).finish().unwrap();
    }
    let again = start(of(&config, part(2, 4)));
    assert!(matches!(again, Error::Exists { .. }), "{again}");
    // A part may be written again, as a whole.
    let again = Config { overwrite: true, ..config.clone() };
    write(&path, &again, part(2, 4), &numbers(140)).finish().unwrap();
    finished(&path);
    says(start(of(&again, part(2, 4))), "was finished");
    assert_equal(&path, &single(&folder.path().join("again"), &config, 140));
}

/// What would have to be put together, or has no place.
#[test]
fn what_can_not_be_in_parts_is_refused() {
    let (folder, config) = (tempfile::tempdir().unwrap(), config(Some(70)));
    let says = |error: Error, words: &str| assert!(error.to_string().contains(words), "{error}: {words}");
    let part = Some(Part { index: 0, of: 4, by: PartBy::Time });
    let in_parts = |config: &Config, of, by| create_parts(folder.path().join("no.zarr"), config.clone(), of, by);
    says(in_parts(&config, 0, PartBy::Time).unwrap_err(), "1 to 4096 parts");
    says(in_parts(&config, 19, PartBy::Time).unwrap_err(), "have 18 rows, so at most 18 parts are possible");
    says(in_parts(&config, 5, PartBy::Frame).unwrap_err(), "at most 4 parts are possible");
    let pyramid = Config { pyramid: Some(Downsampling::default()), ..config.clone() };
    says(in_parts(&pyramid, 2, PartBy::Time).unwrap_err(), "can't have pyramid");
    let order = Config { acquisition_order: vec!["c".into(), "t".into()], ..config.clone() };
    says(in_parts(&order, 2, PartBy::Time).unwrap_err(), "t, the first dimension, is not the slowest to arrive");
    says(in_parts(&of(&config, part), 4, PartBy::Time).unwrap_err(), "each process gives its own part");
    let file = create_parts(folder.path().join("no.ozx"), config.clone(), 2, PartBy::Time).unwrap_err();
    says(file, "which one process writes");
    assert!(!folder.path().join("no.zarr").exists());
}

/// A finish that was stopped after any of its steps is finished by another call.
#[test]
fn a_finish_that_was_stopped_goes_on() {
    for by in [PartBy::Time, PartBy::Frame] {
        let folder = tempfile::tempdir().unwrap();
        let (path, config) = two_ended(folder.path(), by);
        // As it is when it was marked and some shards were moved.
        let mut marked = document(&path);
        marked["attributes"]["shardwright"]["parts"]["finishing"] = true.into();
        fs::write(path.join("zarr.json"), serde_json::to_vec(&marked).unwrap()).unwrap();
        fs::create_dir_all(path.join("0/c")).unwrap();
        let (from, to) = match by {
            PartBy::Time => ("parts/1/0/c/0", "0/c/1"),
            _ => ("parts/0/0/c/0", "0/c/0"),
        };
        fs::rename(path.join(from), path.join(to)).unwrap();
        let part = Some(Part { index: 0, of: 2, by });
        let late = Acquisition::create(&path, Config { overwrite: true, ..of(&config, part) }).unwrap_err();
        assert!(late.to_string().contains("is about to be"), "{late}");
        for part in ["", "parts/0"] {
            let refused = recovered(path.join(part), true).unwrap_err();
            assert!(matches!(refused, Error::Unfinished { .. }), "{refused}");
        }
        finished(&path);
        assert_equal(&path, &single(folder.path(), &config, 60));
        // As it is when everything is said, and not all is tidied up.
        fs::create_dir_all(path.join("parts/1/0/c/3")).unwrap();
        assert_eq!(finished(&path).notes, ["was finished before"]);
    }
}

#[test]
fn a_finish_that_is_refused_leaves_the_run_open() {
    let folder = tempfile::tempdir().unwrap();
    let (path, config) = two_ended(folder.path(), PartBy::Time);
    let finish = FinishParts::new(&path, &FinishPartsOptions::default()).unwrap();
    // Somebody begins with a part between the first look and the last one.
    let lock = fs::File::create(path.join("parts/1/.shardwright.lock")).unwrap();
    lock.lock().unwrap();
    assert!(matches!(finish.run(), Err(Error::Locked { .. })));
    assert_eq!(document(&path)["attributes"]["shardwright"]["parts"].get("finishing"), None);
    drop((finish, lock));
    let replaced = Config { overwrite: true, ..config.clone() };
    let part = Some(Part { index: 1, of: 2, by: PartBy::Time });
    write(&path, &replaced, part, &numbers(60)).finish().unwrap();
    finished(&path);
    assert_equal(&path, &single(folder.path(), &config, 60));
}

#[test]
fn a_part_that_says_that_it_has_any_number_of_frames_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = two_ended(folder.path(), PartBy::Time);
    let part = path.join("parts/1");
    let mut said = document(&part);
    said["attributes"]["shardwright"]["frames"] = (1_u64 << 50).into();
    fs::write(part.join("zarr.json"), serde_json::to_vec(&said).unwrap()).unwrap();
    let told = refusal(&path);
    assert!(matches!(told, Error::Format { .. }), "{told}");
    assert!(told.to_string().contains("says that it has 1125899906842624 frames, and its records end at"), "{told}");
}

#[test]
fn shards_that_a_part_could_not_account_for_are_named_in_the_run() {
    for (by, key) in [(PartBy::Time, "c/3/0/1/2"), (PartBy::Frame, "c/1/0/1/4")] {
        let folder = tempfile::tempdir().unwrap();
        let (path, _) = two_ended(folder.path(), by);
        let part = path.join("parts/1");
        let mut said = document(&part);
        let own = &mut said["attributes"]["shardwright"];
        own["complete"] = false.into();
        own["recovered"] = true.into();
        own["damaged_shards"] = vec!["c/1/0/1/2"].into();
        fs::write(part.join("zarr.json"), serde_json::to_vec(&said).unwrap()).unwrap();
        let told = finished(&path);
        assert_eq!(document(&path)["attributes"]["shardwright"]["damaged_shards"], serde_json::json!([key]));
        assert!(told.notes.iter().any(|note| note.ends_with(&format!("{key:?}"))), "{:?}", told.notes);
    }
}
