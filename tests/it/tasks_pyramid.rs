//! Levels made by tasks: whoever runs them, how often and in which order, they are those of one call.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use serde_json::{Value, json};
use shardwright::offline::{
    Array, Depth, FinishTasks, Pyramid, PyramidMethod, PyramidOptions, RunTasks, TaskName, TaskOptions, TaskOutcome,
    TaskPlan, TasksReport, TasksSummary,
};
use shardwright::{Acquisition, Codec, Compressor, Config, Dim, Dtype, Error, ErrorKind, Record};

use crate::common::checked;
use crate::common::stopped::{copy_tree, files, finished};
use crate::tasks::{finish, left_in, lines, runner, tasks_of, write};

fn config() -> Config {
    Config {
        dtype: Dtype::U16,
        dims: vec![Dim::time(9).chunk(2).shard(4), Dim::y(97).chunk(16).shard(32), Dim::x(100).chunk(16).shard(48)],
        ring_bytes: 1 << 20,
        workers: 2,
        sync: false,
        ..Config::default()
    }
}

fn options() -> PyramidOptions {
    PyramidOptions { levels: Some(3), sync: false, workers: 2, ..PyramidOptions::default() }
}

/// An image of some frames, and a copy of it.
fn images(folder: &Path, config: &Config, frames: &[u64]) -> [PathBuf; 2] {
    let image = folder.join("run.ome.zarr");
    finished(&image, config, frames);
    let plain = folder.join("plain.ome.zarr");
    copied(&image, &plain);
    [image, plain]
}

/// The times are copied, too: what is made of newer files is made again.
fn copied(from: &Path, to: &Path) {
    copy_tree(from, to);
    for name in files(from).keys() {
        let time = fs::metadata(from.join(name)).unwrap().modified().unwrap();
        fs::File::options().write(true).open(to.join(name)).unwrap().set_modified(time).unwrap();
    }
}

fn plan(image: &Path, options: &PyramidOptions) -> PathBuf {
    write(&TaskPlan::pyramid(image, options).unwrap(), &image.with_extension("jsonl"))
}

/// Runs all tasks in any order, again and again until none waits for another.
fn run_shuffled(tasks: &Path) -> BTreeSet<String> {
    let run = runner(tasks);
    let (mut left, mut outcomes): (Vec<u64>, _) = ((0..run.tasks()).rev().collect(), BTreeSet::new());
    while !left.is_empty() {
        let before = left.len();
        left.retain(|index| match run.run(TaskName::Index(*index)) {
            Ok(receipt) => {
                outcomes.insert(format!("{:?}", receipt.outcome));
                false
            }
            Err(error) => {
                assert!(error.to_string().contains("not made yet") && error.kind() == ErrorKind::Io, "{error}");
                true
            }
        });
        assert!(left.len() < before, "{left:?}");
    }
    outcomes
}

fn made(summary: &TasksSummary) -> &shardwright::offline::PyramidSummary {
    let Some(TasksReport::Pyramid(report)) = &summary.report else { panic!("{summary:?}") };
    report
}

#[track_caller]
fn same(tasks: &Path, image: &Path, plain: &Path, options: &PyramidOptions) {
    let summary = finish(tasks);
    assert_eq!(summary.missing, 0, "{summary:?}");
    let expected = Pyramid::new(plain, options).unwrap().run().unwrap();
    assert_eq!(made(&summary), &expected);
    assert!(files(image) == files(plain), "{:?}", files(image).keys().collect::<Vec<_>>());
    assert_eq!(checked(image).unwrap().damage, 0);
    assert_eq!(left_in(image.parent().unwrap()), Vec::<String>::new());
}

#[test]
fn tasks_make_the_levels_that_one_call_makes() {
    let stack = Config {
        dims: vec![Dim::z(9).chunk(2).shard(4), Dim::y(97).chunk(16).shard(32), Dim::x(100).chunk(16).shard(48)],
        ..config()
    };
    let of = |compressor| Config { codec: Codec::from(compressor), ..config() };
    let cases = [
        (config(), options()),
        (of(Compressor::None), PyramidOptions { method: Some(PyramidMethod::Median), ..options() }),
        (of(Compressor::Zstd { level: 3 }), PyramidOptions { method: Some(PyramidMethod::Decimate), ..options() }),
        (of(Compressor::Gzip { level: 2 }), PyramidOptions { levels: Some(1), ..options() }),
        (stack, PyramidOptions { depth: Depth::Always, ..options() }),
    ];
    for (config, options) in cases {
        let folder = tempfile::tempdir().unwrap();
        let [image, plain] = images(folder.path(), &config, &[0, 1, 2, 3, 8]);
        let tasks = plan(&image, &options);
        let ids: Vec<String> = tasks_of(&tasks).iter().map(|task| task["id"].as_str().unwrap().to_owned()).collect();
        assert!(ids.is_sorted() && !ids.is_empty(), "{ids:?}");
        assert_eq!(run_shuffled(&tasks), BTreeSet::from(["Written".to_owned()]));
        assert_eq!(run_shuffled(&tasks), BTreeSet::from(["Found".to_owned()]));
        same(&tasks, &image, &plain, &options);
        assert!(finish(&tasks).already_done);
        assert_eq!(runner(&tasks).run(TaskName::Index(0)).unwrap().outcome, TaskOutcome::Finished);
        let error = TaskPlan::pyramid(&image, &options).unwrap_err();
        assert!(matches!(error, Error::Exists { .. }), "{error}");
    }
}

/// An image of which most has no two bright pixels beside each other, and is dark in its levels: of some frames, all.
fn half_dark(path: &Path) {
    let acquisition = Acquisition::create(path, config()).unwrap();
    for number in 0..9 {
        let mut frame = acquisition.acquire().unwrap();
        for (at, pixel) in frame.chunks_exact_mut(2).enumerate() {
            let (row, column) = (at / 100, at % 100);
            let is_bright = column >= 96 && !(4..8).contains(&number);
            let value = if is_bright { 100 + at % 50 } else { (row + column) % 2 };
            pixel.copy_from_slice(&(value as u16).to_le_bytes());
        }
        frame.commit(number, Record::default()).unwrap();
    }
    acquisition.finish().unwrap();
}

#[test]
fn a_shard_that_holds_nothing_keeps_nobody_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let (image, plain) = (folder.path().join("run.ome.zarr"), folder.path().join("plain.ome.zarr"));
    half_dark(&image);
    copied(&image, &plain);
    let options = PyramidOptions { method: Some(PyramidMethod::Min), ..options() };
    let tasks = plan(&image, &options);
    let outcomes = run_shuffled(&tasks);
    assert!(outcomes.contains("Empty") && outcomes.contains("Written"), "{outcomes:?}");
    // Again, it is still known.
    run_shuffled(&tasks);
    same(&tasks, &image, &plain, &options);
}

#[test]
fn tasks_that_run_several_times_at_once_make_each_shard_once() {
    let folder = tempfile::tempdir().unwrap();
    let [image, plain] = images(folder.path(), &config(), &[0, 1, 2, 3, 4, 5, 6, 7, 8]);
    let tasks = plan(&image, &options());
    thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(|| run_shuffled(&tasks)))));
    same(&tasks, &image, &plain, &options());
}

#[test]
fn levels_that_are_replaced_are_those_that_one_call_leaves() {
    let folder = tempfile::tempdir().unwrap();
    let [image, plain] = images(folder.path(), &config(), &[0, 1, 2, 3, 8]);
    for path in [&image, &plain] {
        let first = PyramidOptions { method: Some(PyramidMethod::Max), levels: Some(4), ..options() };
        Pyramid::new(path, &first).unwrap().run().unwrap();
        let document = path.join("1/zarr.json");
        let mut said: Value = serde_json::from_slice(&fs::read(&document).unwrap()).unwrap();
        said["attributes"]["mine"] = json!("kept");
        fs::write(&document, said.to_string()).unwrap();
    }
    let error = TaskPlan::pyramid(&image, &options()).unwrap_err();
    assert!(matches!(error, Error::Exists { .. }), "{error}");
    let options = PyramidOptions { overwrite: true, ..options() };
    let tasks = plan(&image, &options);
    run_shuffled(&tasks);
    same(&tasks, &image, &plain, &options);
    assert!(fs::read_to_string(image.join("1/zarr.json")).unwrap().contains("kept"));
    // What replaces is not done twice.
    let again = finish(&tasks);
    assert!(again.already_done && made(&again).already_done);
    assert_eq!(runner(&tasks).run(TaskName::Index(0)).unwrap().outcome, TaskOutcome::Finished);
    assert_eq!(left_in(folder.path()), Vec::<String>::new());
}

#[test]
fn a_level_waits_for_the_one_before_and_says_for_what() {
    let folder = tempfile::tempdir().unwrap();
    let [image, _] = images(folder.path(), &config(), &[0, 1, 2, 3]);
    let tasks = plan(&image, &options());
    let second = tasks_of(&tasks).into_iter().find(|task| task["array"] == "2").unwrap();
    assert_eq!(second["sources"], json!([]));
    let inputs: Vec<&str> = second["inputs"].as_array().unwrap().iter().map(|input| input.as_str().unwrap()).collect();
    assert!(inputs.len() > 1 && inputs.iter().all(|input| input.starts_with("1/c/")), "{inputs:?}");
    let run = runner(&tasks);
    for input in &inputs {
        let error = run.run(TaskName::Id(second["id"].as_str().unwrap())).unwrap_err();
        assert!(matches!(&error, Error::Io { .. }) && error.kind() == ErrorKind::Io, "{error}");
        assert!(error.to_string().contains(input), "{error}");
        run.run(TaskName::Id(input)).unwrap();
    }
    run.run(TaskName::Id(second["id"].as_str().unwrap())).unwrap();
}

#[test]
fn a_source_that_was_touched_is_refused_and_nothing_is_published() {
    let folder = tempfile::tempdir().unwrap();
    let [image, _] = images(folder.path(), &config(), &[0, 1, 2, 3]);
    let before = files(&image);
    let tasks = plan(&image, &options());
    run_shuffled(&tasks);
    let touched = image.join(tasks_of(&tasks)[0]["sources"][0][0].as_str().unwrap());
    fs::write(&touched, fs::read(&touched).unwrap()).unwrap();
    let error = runner(&tasks).run(TaskName::Index(0)).unwrap_err();
    assert!(matches!(error, Error::Conflict { .. }) && error.to_string().contains("planned"), "{error}");
    let error = FinishTasks::new(&tasks, 1).and_then(|finish| finish.run()).unwrap_err();
    assert!(matches!(error, Error::Conflict { .. }), "{error}");
    assert!(error.to_string().contains(touched.to_str().unwrap()), "{error}");
    assert!(files(&image) == before);
    // What was made of the old files is not taken for what is made of the new ones.
    let anew = write(&TaskPlan::pyramid(&image, &options()).unwrap(), &folder.path().join("anew.jsonl"));
    let error = RunTasks::open(&anew, &TaskOptions::default()).unwrap_err();
    assert!(matches!(error, Error::Conflict { .. }) && error.to_string().contains("another plan"), "{error}");
}

#[test]
fn shards_that_are_missing_or_not_what_was_made_are_named_with_what_was_made_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let config = Config { codec: Codec { compressor: Compressor::None, checksum: false }, ..config() };
    let [image, plain] = images(folder.path(), &config, &[0, 1, 2, 3]);
    let tasks = plan(&image, &options());
    run_shuffled(&tasks);
    let lines = tasks_of(&tasks);
    let made = |id: &str| folder.path().join(".run.ome.zarr.pyramid/tree").join(id);
    let id = |line: &Value| line["id"].as_str().unwrap().to_owned();
    // Gone, what was made of it stays.
    let gone = id(&lines[1]);
    fs::remove_file(made(&gone)).unwrap();
    assert_eq!(finish(&tasks).missing_ids, [gone.as_str()]);
    let flipped = id(&lines[0]);
    let mut bytes = fs::read(made(&flipped)).unwrap();
    bytes[3] ^= 1;
    fs::write(made(&flipped), bytes).unwrap();
    let summary = finish(&tasks);
    let mut expected = vec![flipped.clone(), gone];
    for line in &lines {
        let is_of = |input: &Value| {
            input.as_str().is_some_and(|input| {
                expected[..1].contains(&input.to_owned()) || expected[2..].contains(&input.to_owned())
            })
        };
        if line["inputs"].as_array().is_some_and(|inputs| inputs.iter().any(is_of)) {
            expected.push(id(line));
        }
    }
    assert!(expected.len() > 3);
    assert_eq!(summary.missing_ids, expected);
    assert!(!image.join("1").exists());
    let missing = summary.missing_tasks.unwrap();
    run_shuffled(&missing);
    same(&tasks, &image, &plain, &options());
    assert!(!missing.exists());
}

#[test]
fn one_call_and_tasks_leave_each_other_alone() {
    let folder = tempfile::tempdir().unwrap();
    let [image, plain] = images(folder.path(), &config(), &[0, 1, 2, 3]);
    let tasks = plan(&image, &options());
    runner(&tasks).run(TaskName::Index(0)).unwrap();
    let error = Pyramid::new(&image, &options()).unwrap().run().unwrap_err();
    assert!(matches!(error, Error::Conflict { .. }) && error.to_string().contains("plan"), "{error}");
    let other = PyramidOptions { method: Some(PyramidMethod::Max), ..options() };
    let other = write(&TaskPlan::pyramid(&image, &other).unwrap(), &folder.path().join("other.jsonl"));
    let error = RunTasks::open(&other, &TaskOptions::default()).unwrap_err();
    assert!(matches!(error, Error::Conflict { .. }), "{error}");
    let error = FinishTasks::new(&other, 1).unwrap().run().unwrap_err();
    assert!(matches!(error, Error::Conflict { .. }), "{error}");
    // As a last call leaves it that was killed.
    run_shuffled(&tasks);
    let staging = folder.path().join(".run.ome.zarr.pyramid");
    fs::write(staging.join("journal.json"), r#"{"version": 1, "synced": false, "arrays": {}}"#).unwrap();
    assert_eq!(runner(&tasks).run(TaskName::Index(0)).unwrap().outcome, TaskOutcome::Found);
    same(&tasks, &image, &plain, &options());
    // As a call leaves it that was killed, and that made no plan.
    let error = {
        let options = PyramidOptions { overwrite: true, ..options() };
        fs::create_dir_all(staging.join("tree/1")).unwrap();
        fs::write(staging.join("journal.json"), r#"{"version": 1, "synced": false, "arrays": {"1": {}}}"#).unwrap();
        TaskPlan::pyramid(&image, &options).unwrap_err()
    };
    assert!(matches!(error, Error::Conflict { .. }) && error.to_string().contains("not finished"), "{error}");
}

#[test]
fn levels_whose_names_do_not_sort_and_images_that_need_none() {
    let folder = tempfile::tempdir().unwrap();
    let config = Config {
        dims: vec![Dim::time(1), Dim::y(1024).chunk(512), Dim::x(8).chunk(8)],
        ring_bytes: 1 << 22,
        ..config()
    };
    let [image, _] = images(folder.path(), &config, &[0]);
    let error = TaskPlan::pyramid(&image, &PyramidOptions { levels: Some(10), ..options() }).unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }) && error.to_string().contains("\"10\""), "{error}");
    TaskPlan::pyramid(&image, &PyramidOptions { levels: Some(9), ..options() }).unwrap();
    let small = folder.path().join("small.ome.zarr");
    finished(&small, &self::config(), &[0]);
    let before = files(&small);
    let tasks = plan(&small, &PyramidOptions { levels: None, ..options() });
    assert_eq!(tasks_of(&tasks).len(), 0);
    assert_eq!(made(&finish(&tasks)).levels.len(), 0);
    assert!(files(&small) == before);
}

#[test]
fn a_file_of_tasks_is_input() {
    let folder = tempfile::tempdir().unwrap();
    let [image, _] = images(folder.path(), &config(), &[0, 1, 2, 3]);
    let tasks = plan(&image, &options());
    run_shuffled(&tasks);
    let all = lines(&tasks);
    let level_2 = all.iter().position(|line| line["array"] == "2" && line.get("task").is_some()).unwrap();
    let index = all[level_2]["task"].as_u64().unwrap();
    let outside = folder.path().join("outside");
    let huge = json!([1, u64::MAX, u64::MAX]);
    let cases = [
        (level_2, "/id", json!("../../outside"), "not below"),
        (level_2, "/inputs/0", json!("../../../secret"), "not below"),
        (level_2, "/inputs/0", json!(outside), "not below"),
        (2, "/new/level/before", json!("../other"), "not below"),
        (2, "/new/level/before", json!("nowhere"), "has no array"),
        (2, "/new/level/steps", json!([]), "can't be made"),
        (2, "/new/level/steps", json!([0, 0, 0]), "can't be made"),
        (2, "/new/level/steps", huge, "can't be made"),
        (2, "/new/level/steps", json!([1, 1, 2]), "can't be made"),
        (2, "/new/document/shape", json!([9, u64::MAX, 25]), ""),
        (1, "/new/document/shape", json!([9, 1, 1]), "can't be made"),
        (2, "/new", Value::Null, "another operation"),
        (0, "/id", json!("../../../../../../../tmp/outside/xxx"), "is none"),
        (0, "/operation", json!("verify"), "was changed"),
    ];
    for (line, pointer, value, expected) in cases {
        let mut lines = all.clone();
        *lines[line].pointer_mut(pointer).unwrap() = value.clone();
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let path = folder.path().join("changed.jsonl");
        fs::write(&path, text).unwrap();
        let run = shardwright::offline::RunTasks::open(&path, &Default::default());
        let error = run.and_then(|run| run.run(TaskName::Index(index))).unwrap_err().to_string();
        assert!(error.contains(expected), "{pointer} {value}: {error}");
    }
    assert!(!outside.exists());
    assert_eq!(Array::open(image.join("0")).unwrap().shape()[1..], [97, 100]);
}

#[test]
fn levels_are_added_to_nothing_but_their_image() {
    let folder = tempfile::tempdir().unwrap();
    let [image, _] = images(folder.path(), &config(), &[0, 1, 2, 3]);
    let tasks = plan(&image, &options());
    let mut all = lines(&tasks);
    all[0]["out"] = folder.path().join("elsewhere/in").to_str().unwrap().into();
    let text: String = all.iter().map(|line| format!("{line}\n")).collect();
    fs::write(&tasks, text).unwrap();
    let refused = RunTasks::open(&tasks, &TaskOptions::default()).unwrap_err();
    assert!(refused.to_string().contains("names another output than its source"), "{refused}");
    assert!(!folder.path().join("elsewhere").exists());
}
