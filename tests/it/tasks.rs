//! A repack cut into tasks: whoever runs them, how often and in which order, the result is that of one call.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use serde_json::{Value, json};
use shardwright::offline::{
    Array, FinishTasks, Repack, RepackOptions, RunTasks, Sharding, TaskName, TaskOptions, TaskOutcome, TaskPlan,
    TasksSummary,
};
use shardwright::{Codec, Compressor, Error, ErrorKind, OmeVersion};

use crate::common::stopped::files;
use crate::common::{checked, movie, movie_config};

/// A hidden file that says of what a dataset was made; no two calls leave the same.
const RECEIPT: &str = ".shardwright.repack.json";

pub(crate) fn zstd() -> RepackOptions {
    let codec = Some(Codec::from(Compressor::Zstd { level: 1 }));
    RepackOptions { codec, sync: false, workers: 2, ..RepackOptions::default() }
}

/// A dataset of eight shards.
pub(crate) fn dataset(folder: &Path) -> PathBuf {
    movie(folder, &movie_config())
}

pub(crate) fn plan(run: &Path, out: &Path, options: &RepackOptions) -> PathBuf {
    write(&TaskPlan::repack(run, out, options).unwrap(), &out.with_extension("jsonl"))
}

pub(crate) fn write(plan: &TaskPlan, path: &Path) -> PathBuf {
    plan.write(&mut fs::File::create(path).unwrap()).unwrap();
    path.to_path_buf()
}

pub(crate) fn runner(tasks: &Path) -> RunTasks {
    RunTasks::open(tasks, &TaskOptions::default()).unwrap()
}

pub(crate) fn run_all(tasks: &Path) {
    let run = runner(tasks);
    // The last first: no task needs another.
    (0..run.tasks()).rev().for_each(|index| drop(run.run(TaskName::Index(index)).unwrap()));
}

pub(crate) fn finish(tasks: &Path) -> TasksSummary {
    FinishTasks::new(tasks, 2).unwrap().run().unwrap()
}

fn contents(dataset: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = files(dataset);
    found.retain(|path, _| !path.ends_with(RECEIPT));
    found
}

pub(crate) fn lines(tasks: &Path) -> Vec<Value> {
    let text = fs::read_to_string(tasks).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub(crate) fn tasks_of(tasks: &Path) -> Vec<Value> {
    lines(tasks).into_iter().filter(|line| line.get("task").is_some()).collect()
}

/// What tasks leave beside the datasets and the files of tasks.
pub(crate) fn left_in(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with('.')).collect()
}

#[test]
fn with_how_many_threads_and_how_much_memory_is_no_matter_of_the_plan() {
    let folder = tempfile::tempdir().unwrap();
    let run = dataset(folder.path());
    let other = RepackOptions { workers: 1, memory_bytes: 64 << 20, ..zstd() };
    let plans = [zstd(), other, RepackOptions { sync: true, ..zstd() }];
    let [one, other, synced] = plans.map(|options| {
        let tasks = plan(&run, &folder.path().join("out.zarr"), &options);
        lines(&tasks)[0]["id"].clone()
    });
    assert_eq!(one, other);
    assert_ne!(one, synced);
}

#[test]
fn tasks_make_what_one_call_makes() {
    let folder = tempfile::tempdir().unwrap();
    let run = dataset(folder.path());
    let dims = Array::open(&run).unwrap().shape().len();
    let cut = |chunk: u64, shard: u64| {
        let mut lengths = [vec![0; dims], vec![0; dims]];
        (lengths[0][dims - 1], lengths[1][dims - 1]) = (chunk, shard);
        let [chunk, shard] = lengths;
        RepackOptions { chunk, shard, ..zstd() }
    };
    let cases = [
        ("copied", RepackOptions { sync: false, ..RepackOptions::default() }),
        ("recoded", zstd()),
        ("reshaped", cut(2, 4)),
        ("unsharded", RepackOptions { sharding: Sharding::Unsharded, ..zstd() }),
        ("ome", RepackOptions { ome: Some(OmeVersion::V0_6), ..zstd() }),
    ];
    for (name, options) in cases {
        let out = folder.path().join(format!("{name}.zarr"));
        let tasks = plan(&run, &out, &options);
        run_all(&tasks);
        let summary = finish(&tasks);
        assert_eq!((summary.missing, summary.redone), (0, 0), "{name}");
        let plain = folder.path().join(format!("{name}-plain.zarr"));
        Repack::new(&run, Some(&plain), &options).unwrap().run().unwrap();
        assert_eq!(contents(&out), contents(&plain), "{name}");
        assert_eq!(checked(&out).unwrap().damage, 0);
        assert_eq!(left_in(folder.path()), Vec::<String>::new(), "{name}");
        assert!(finish(&tasks).already_done, "{name}");
        let receipt = runner(&tasks).run(TaskName::Index(0)).unwrap();
        assert_eq!(receipt.outcome, TaskOutcome::Finished);
    }
}

#[test]
fn an_archive_is_made_of_tasks_too() {
    let folder = tempfile::tempdir().unwrap();
    let (run, out) = (dataset(folder.path()), folder.path().join("out.ozx"));
    let tasks = plan(&run, &out, &zstd());
    run_all(&tasks);
    assert_eq!(finish(&tasks).missing, 0);
    let pixels = |path: &Path| Array::open(path).unwrap().read_all().unwrap();
    assert_eq!(pixels(&out), pixels(&run));
    assert_eq!(left_in(folder.path()), Vec::<String>::new());
}

#[test]
fn the_same_dataset_gives_the_same_plan_whose_lines_are_found_by_number_and_by_id() {
    let folder = tempfile::tempdir().unwrap();
    let (run, out) = (dataset(folder.path()), folder.path().join("out.zarr"));
    let options = RepackOptions { sharding: Sharding::Unsharded, ..zstd() };
    let tasks = plan(&run, &out, &options);
    let first = fs::read(&tasks).unwrap();
    assert_eq!(fs::read(plan(&run, &out, &options)).unwrap(), first);
    let lines = tasks_of(&tasks);
    assert!(lines.len() > 20, "{}", lines.len());
    assert!(lines.is_sorted_by_key(|line| line["id"].as_str().unwrap().as_bytes()));
    let runner = runner(&tasks);
    for (number, line) in (0..).zip(&lines) {
        assert_eq!(line["task"], number);
        let id = line["id"].as_str().unwrap();
        let made = runner.run(TaskName::Index(number)).unwrap();
        let again = runner.run(TaskName::Id(id)).unwrap();
        assert_eq!((made.id.as_str(), again.task), (id, number));
        // The frames of some chunks are missing.
        let expected = if made.outcome == TaskOutcome::Empty { TaskOutcome::Empty } else { TaskOutcome::Found };
        assert_eq!(again.outcome, expected, "{id}");
    }
    for wrong in
        [TaskName::Index(lines.len() as u64), TaskName::Index(u64::MAX), TaskName::Id("0/c/9999"), TaskName::Id("")]
    {
        let error = runner.run(wrong).unwrap_err();
        assert!(matches!(error, Error::NotFound { .. }), "{wrong:?}: {error}");
    }
}

#[test]
fn tasks_that_run_several_times_at_once_make_each_shard_once() {
    let folder = tempfile::tempdir().unwrap();
    let (run, out) = (dataset(folder.path()), folder.path().join("out.zarr"));
    let tasks = plan(&run, &out, &zstd());
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let run = runner(&tasks);
                (0..run.tasks()).for_each(|index| drop(run.run(TaskName::Index(index)).unwrap()));
            });
        }
    });
    let summary = finish(&tasks);
    assert_eq!((summary.missing, summary.redone), (0, 0));
    let plain = folder.path().join("plain.zarr");
    Repack::new(&run, Some(&plain), &zstd()).unwrap().run().unwrap();
    assert_eq!(contents(&out), contents(&plain));
}

#[test]
fn a_source_that_was_touched_is_refused_and_nothing_is_published() {
    let folder = tempfile::tempdir().unwrap();
    let (run, out) = (dataset(folder.path()), folder.path().join("out.zarr"));
    let tasks = plan(&run, &out, &zstd());
    let line = &tasks_of(&tasks)[0];
    let touched = run.join(line["sources"][0][0].as_str().unwrap());
    let shard = fs::read(&touched).unwrap();
    for gone in [false, true] {
        match gone {
            false => fs::write(&touched, &shard).unwrap(),
            true => fs::remove_file(&touched).unwrap(),
        }
        let error = runner(&tasks).run(TaskName::Index(0)).unwrap_err();
        assert!(matches!(error, Error::Conflict { .. }), "{error}");
        assert!(error.to_string().contains("planned"), "{error}");
        let made = folder.path().join(".out.zarr.repack/tree").join(line["id"].as_str().unwrap());
        assert!(!made.exists());
        let error = FinishTasks::new(&tasks, 1).and_then(|finish| finish.run()).unwrap_err();
        assert!(gone || matches!(error, Error::Conflict { .. }), "{error}");
    }
    let error = FinishTasks::new(&tasks, 1).and_then(|finish| finish.run()).unwrap_err();
    assert!(matches!(error, Error::Conflict { .. }) || error.to_string().contains("chunks"), "{error}");
    assert!(!out.exists());
}

#[test]
fn the_end_names_the_tasks_whose_shards_are_missing_or_not_what_was_made() {
    let folder = tempfile::tempdir().unwrap();
    let (run, out) = (dataset(folder.path()), folder.path().join("out.zarr"));
    let tasks = plan(&run, &out, &zstd());
    let ids: Vec<String> = tasks_of(&tasks).iter().map(|line| line["id"].as_str().unwrap().to_owned()).collect();
    let none = finish(&tasks);
    assert_eq!((none.missing, none.missing_ids.len()), (ids.len() as u64, ids.len().min(20)));
    run_all(&tasks);
    let made = |number: usize| folder.path().join(".out.zarr.repack/tree").join(&ids[number]);
    fs::remove_file(made(0)).unwrap();
    // Somewhere among the chunks, whose places stay.
    let mut bytes = fs::read(made(1)).unwrap();
    bytes[3] ^= 1;
    fs::write(made(1), bytes).unwrap();
    let mut cut = fs::read(made(2)).unwrap();
    cut.pop();
    fs::write(made(2), cut).unwrap();
    let summary = finish(&tasks);
    assert_eq!(summary.missing_ids, ids[..3]);
    assert!(!out.exists());
    // Touched only, it is what was made.
    let touched = fs::read(made(3)).unwrap();
    fs::write(made(3), touched).unwrap();
    let missing = summary.missing_tasks.unwrap();
    let alone = folder.path().join("elsewhere");
    fs::create_dir(&alone).unwrap();
    fs::copy(&missing, alone.join("tasks.missing.jsonl")).unwrap();
    let error = FinishTasks::new(alone.join("tasks.missing.jsonl"), 1).unwrap_err().to_string();
    assert!(error.contains("finish the whole plan's") && error.contains("not there"), "{error}");
    run_all(&missing);
    // The end of those that were missing is the end of all.
    let summary = finish(&missing);
    assert_eq!((summary.missing, summary.shards), (0, ids.len() as u64));
    assert!(!missing.exists());
    let plain = folder.path().join("plain.zarr");
    Repack::new(&run, Some(&plain), &zstd()).unwrap().run().unwrap();
    assert_eq!(contents(&out), contents(&plain));
}

#[test]
fn a_file_of_tasks_is_input() {
    let folder = tempfile::tempdir().unwrap();
    let (run, out) = (dataset(folder.path()), folder.path().join("out.zarr"));
    let tasks = plan(&run, &out, &zstd());
    let lines = lines(&tasks);
    let first_task = lines.iter().position(|line| line.get("task").is_some()).unwrap();
    let changed = |line: usize, pointer: &str, value: Value| {
        let mut lines = lines.clone();
        *lines[line].pointer_mut(pointer).unwrap() = value;
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let path = folder.path().join("changed.jsonl");
        fs::write(&path, text).unwrap();
        path
    };
    let outside = folder.path().join("outside");
    let cases = [
        (first_task, "/id", json!("../../outside"), "not below"),
        (first_task, "/id", json!(outside), "not below"),
        (first_task, "/id", json!("0/zarr.json"), "has not"),
        (first_task, "/sources/0/0", json!("../secret"), "not below"),
        (first_task, "/array", json!("nowhere"), "has no array"),
        (1, "/source", json!("../other"), "not below"),
        (1, "/new/document/shape", json!("many"), "shape"),
    ];
    for (line, pointer, value, expected) in cases {
        let error = runner(&changed(line, pointer, value)).run(TaskName::Index(0)).unwrap_err().to_string();
        assert!(error.contains(expected), "{pointer}: {error}");
    }
    assert!(!outside.exists());
    let opened = |path: &Path| RunTasks::open(path, &TaskOptions::default()).map(|_| ()).unwrap_err();
    let other = opened(&changed(0, "/version", json!("9.9.9")));
    assert!(matches!(&other, Error::Unsupported { .. }) && other.to_string().contains("9.9.9"), "{other}");
    let other = opened(&changed(0, "/shardwright_tasks", json!(1)));
    assert!(matches!(other, Error::Unsupported { .. }), "{other}");
    let cut = folder.path().join("cut.jsonl");
    let text = fs::read(&tasks).unwrap();
    for len in [0, 1, 100, text.len() / 2] {
        fs::write(&cut, &text[..len]).unwrap();
        let run = RunTasks::open(&cut, &TaskOptions::default());
        let all = run.and_then(|run| (0..run.tasks()).try_for_each(|index| run.run(TaskName::Index(index)).map(drop)));
        assert!(all.is_err(), "{len}");
    }
    assert!(!out.exists());
}

#[test]
fn what_another_plan_or_a_repack_makes_in_that_place_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (run, out) = (dataset(folder.path()), folder.path().join("out.zarr"));
    let tasks = plan(&run, &out, &zstd());
    runner(&tasks).run(TaskName::Index(0)).unwrap();
    let other_options = RepackOptions { codec: Some(Codec::from(Compressor::Zstd { level: 3 })), ..zstd() };
    let other = folder.path().join("other.jsonl");
    let plan = TaskPlan::repack(&run, &out, &other_options).unwrap();
    plan.write(&mut fs::File::create(&other).unwrap()).unwrap();
    drop(plan);
    // One sentence, before any task is run.
    let how = format!("({}): `finish` that, or remove the folder to give it up", tasks.display());
    let refused = [
        RunTasks::open(&other, &TaskOptions::default()).unwrap_err(),
        FinishTasks::new(&other, 1).unwrap().run().unwrap_err(),
        Repack::new(&run, Some(&out), &zstd()).and_then(|repack| repack.run()).unwrap_err(),
    ];
    for error in refused {
        let told = error.to_string();
        assert!(matches!(error, Error::Conflict { .. }) && told.contains("holds shards of a"), "{told}");
        assert!(told.contains(lines(&tasks)[0]["id"].as_str().unwrap()) && told.ends_with(&how), "{told}");
    }
    let notes = TaskPlan::repack(&run, &out, &other_options).unwrap().notes().unwrap();
    assert!(notes.iter().any(|note| note.ends_with(&how)), "{notes:?}");
    // Where the old plan was written over, it can only be given up.
    let text = fs::read(&tasks).unwrap();
    fs::copy(&other, &tasks).unwrap();
    let told = RunTasks::open(&tasks, &TaskOptions::default()).unwrap_err().to_string();
    assert!(told.ends_with("which has gone or is another by now): remove the folder to give it up"), "{told}");
    fs::write(&tasks, text).unwrap();
    run_all(&tasks);
    assert_eq!(finish(&tasks).missing, 0);
}

#[test]
fn shards_that_nobody_wrote_are_no_tasks_and_make_no_files() {
    let folder = tempfile::tempdir().unwrap();
    let run = dataset(folder.path());
    let shards: Vec<PathBuf> = files(&run.join("0")).into_keys().filter(|path| !path.ends_with("zarr.json")).collect();
    assert!(shards.len() > 2, "{shards:?}");
    // An array of others: nothing counts its chunks.
    let bare = folder.path().join("bare.zarr");
    fs::create_dir_all(&bare).unwrap();
    let mut document: Value = serde_json::from_slice(&fs::read(run.join("0/zarr.json")).unwrap()).unwrap();
    document["attributes"] = json!({});
    fs::write(bare.join("zarr.json"), document.to_string()).unwrap();
    let (last, others) = shards.split_last().unwrap();
    for shard in others {
        let to = bare.join(shard);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(run.join("0").join(shard), to).unwrap();
    }
    let out = folder.path().join("out.zarr");
    let tasks = plan(&bare, &out, &zstd());
    assert_eq!(tasks_of(&tasks).len(), others.len());
    run_all(&tasks);
    assert_eq!(finish(&tasks).missing, 0);
    assert!(!out.join(last).exists());
    let pixels = |path: &Path| Array::open(path).unwrap().read_all().unwrap();
    assert_eq!(pixels(&out), pixels(&bare));
}

#[test]
fn a_plan_is_refused_where_a_shard_can_not_be_made_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let run = dataset(folder.path());
    let out = folder.path().join("out.zarr");
    let options = RepackOptions { ome: Some(OmeVersion::V0_4), ..RepackOptions::default() };
    let error = TaskPlan::repack(&run, &out, &options).unwrap_err();
    assert!(matches!(&error, Error::Unsupported { .. }) && error.to_string().contains("zarr3"), "{error}");
}

#[test]
fn where_the_result_is_being_made_neither_tasks_nor_another_repack_work() {
    let folder = tempfile::tempdir().unwrap();
    let (run, out) = (dataset(folder.path()), folder.path().join("out.zarr"));
    let tasks = plan(&run, &out, &zstd());
    run_all(&tasks);
    // As a call leaves it that was killed before the end.
    let staging = folder.path().join(".out.zarr.repack");
    fs::write(staging.join("journal.json"), r#"{"version": 1, "synced": false, "arrays": {}}"#).unwrap();
    // What is done is done, and takes no lock.
    let receipt = runner(&tasks).run(TaskName::Index(0)).unwrap();
    assert_eq!((receipt.outcome, receipt.bytes > 0), (TaskOutcome::Found, true));
    let other = RepackOptions { codec: Some(Codec::from(Compressor::Zstd { level: 3 })), ..zstd() };
    let error = Repack::new(&run, Some(&out), &other).and_then(|repack| repack.run()).unwrap_err();
    assert!(matches!(error, Error::Conflict { .. }), "{error}");
    // A shard that has gone since can be made again once the end has said so.
    let id = tasks_of(&tasks)[1]["id"].as_str().unwrap().to_owned();
    fs::remove_file(staging.join("tree").join(&id)).unwrap();
    let error = runner(&tasks).run(TaskName::Id(&id)).unwrap_err();
    assert!(error.kind() == ErrorKind::Io && error.to_string().contains("`finish` has begun"), "{error}");
    assert_eq!(finish(&tasks).missing_ids, std::slice::from_ref(&id));
    runner(&tasks).run(TaskName::Id(&id)).unwrap();
    assert_eq!(finish(&tasks).missing, 0);
    assert_eq!(checked(&out).unwrap().damage, 0);
    assert_eq!(left_in(folder.path()), Vec::<String>::new());
}

#[test]
fn what_a_late_task_leaves_is_in_nobodys_way() {
    let folder = tempfile::tempdir().unwrap();
    let (run, out) = (dataset(folder.path()), folder.path().join("out.zarr"));
    let tasks = plan(&run, &out, &zstd());
    run_all(&tasks);
    assert_eq!(finish(&tasks).missing, 0);
    // It looked for the result before that was there, and was killed in its work.
    let staging = folder.path().join(".out.zarr.repack");
    fs::create_dir_all(staging.join("tree/0/c")).unwrap();
    fs::write(staging.join("plan.json"), json!({"version": 1, "plan": lines(&tasks)[0]["id"]}).to_string()).unwrap();
    fs::write(staging.join("tree/0/c/.0.0123456789abcdef.partial"), "half").unwrap();
    assert!(finish(&tasks).already_done);
    assert_eq!(left_in(folder.path()), Vec::<String>::new());
}

#[test]
fn a_dataset_without_a_shard_has_no_tasks_and_a_result() {
    let folder = tempfile::tempdir().unwrap();
    let run = dataset(folder.path());
    let bare = folder.path().join("bare.zarr");
    fs::create_dir_all(&bare).unwrap();
    let mut document: Value = serde_json::from_slice(&fs::read(run.join("0/zarr.json")).unwrap()).unwrap();
    document["attributes"] = json!({});
    fs::write(bare.join("zarr.json"), document.to_string()).unwrap();
    let out = folder.path().join("out.zarr");
    let tasks = plan(&bare, &out, &zstd());
    assert_eq!(tasks_of(&tasks).len(), 0);
    assert_eq!(finish(&tasks).missing, 0);
    assert_eq!(Array::open(&out).unwrap().shape(), Array::open(&bare).unwrap().shape());
}

#[test]
fn an_id_that_stands_twice_hides_no_shard_that_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let run = dataset(folder.path());
    let tasks = plan(&run, &folder.path().join("out.zarr"), &zstd());
    let mut all = lines(&tasks);
    let at = all.iter().position(|line| line.get("task").is_some()).unwrap();
    all[at + 1]["id"] = all[at]["id"].clone();
    let text: String = all.iter().map(|line| format!("{line}\n")).collect();
    fs::write(&tasks, text).unwrap();
    run_all(&tasks);
    let refused = FinishTasks::new(&tasks, 2).and_then(|finish| finish.run()).unwrap_err();
    assert!(refused.to_string().ends_with("is not what was planned"), "{refused}");
    assert!(!folder.path().join("out.zarr").exists());
}
