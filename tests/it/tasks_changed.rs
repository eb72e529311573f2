//! Files of tasks that were changed or stand where they must not, and results that were.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use shardwright::offline::{
    FinishTasks, Pyramid, PyramidOptions, RepackOptions, RunTasks, Sharding, TaskName, TaskOptions, TaskOutcome,
    TaskPlan,
};
use shardwright::{Error, ErrorKind};

use crate::common::stopped::{copy_tree, files};
use crate::tasks::{dataset, finish, left_in, lines, plan, run_all, runner, tasks_of, write, zstd};

fn opened(tasks: &Path) -> Result<(), Error> {
    RunTasks::open(tasks, &TaskOptions::default()).map(drop)
}

#[test]
fn a_plan_that_was_edited_is_refused_before_any_task_is_run() {
    let folder = tempfile::tempdir().unwrap();
    let (run, out) = (dataset(folder.path()), folder.path().join("out.zarr"));
    let tasks = plan(&run, &out, &zstd());
    let all = lines(&tasks);
    let text = |lines: &[Value]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    for (pointer, value) in [
        ("/source", json!(folder.path().join("other.zarr"))),
        ("/out", json!(folder.path().join("elsewhere.zarr"))),
        ("/operation/repack/order", json!("morton")),
        ("/operation", json!("verify")),
        ("/arrays", json!(7)),
        ("/of", json!(9)),
        ("/made_of", json!("0".repeat(32))),
        ("/id", json!("0".repeat(32))),
    ] {
        let mut lines = all.clone();
        *lines[0].pointer_mut(pointer).unwrap() = value;
        fs::write(&tasks, text(&lines)).unwrap();
        for error in [opened(&tasks).unwrap_err(), FinishTasks::new(&tasks, 1).unwrap_err()] {
            let told = error.to_string();
            let is_told = told.contains("was changed since `plan` wrote it") || told.contains("names another output");
            assert!(error.kind() == ErrorKind::Corrupt && is_told, "{pointer}: {told}");
        }
    }
    // How much memory a machine has for it is its own matter.
    let mut own = all.clone();
    own[0]["operation"]["repack"]["memory_bytes"] = json!(1 << 30);
    fs::write(&tasks, text(&own)).unwrap();
    opened(&tasks).unwrap();
    assert_eq!(left_in(folder.path()), Vec::<String>::new());
    // What an array becomes is seen at the end.
    let mut other = all.clone();
    let array = other.iter_mut().find(|line| line.get("new").is_some()).unwrap();
    array["new"]["document"]["attributes"] = json!({"mine": 1});
    fs::write(&tasks, text(&other)).unwrap();
    run_all(&tasks);
    let told = FinishTasks::new(&tasks, 1).unwrap_err().to_string();
    assert!(told.contains("was changed since `plan` wrote it"), "{told}");
}

#[test]
fn a_file_that_was_cut_off_or_sorted_is_said_to_be_changed() {
    let folder = tempfile::tempdir().unwrap();
    let (run, out) = (dataset(folder.path()), folder.path().join("out.zarr"));
    let tasks = plan(&run, &out, &zstd());
    let text = fs::read_to_string(&tasks).unwrap();
    let all: Vec<&str> = text.lines().collect();
    let joined = |lines: &[&str]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    let mut sorted = all.clone();
    sorted.sort_unstable();
    let mut reversed = all.clone();
    let first = all.iter().position(|line| line.starts_with("{\"task\"")).unwrap();
    reversed[first..].reverse();
    let broken = text.replace("\"task\":", "\"task\";");
    let changed = [joined(&all[..all.len() - 1]), joined(&all[..first]), joined(&sorted), joined(&reversed), broken];
    for (case, text) in changed.iter().enumerate() {
        fs::write(&tasks, text).unwrap();
        for error in [opened(&tasks).unwrap_err(), FinishTasks::new(&tasks, 1).map(drop).unwrap_err()] {
            let told = error.to_string();
            let is_told = told.contains("was changed since `plan` wrote it");
            assert!(error.kind() == ErrorKind::Corrupt && is_told, "{case}: {told}");
        }
    }
}

#[test]
fn nothing_is_made_before_the_first_task_and_no_file_of_tasks_stands_in_a_dataset() {
    let folder = tempfile::tempdir().unwrap();
    let (run, out) = (dataset(folder.path()), folder.path().join("a/b/out.zarr"));
    let planned = TaskPlan::repack(&run, &out, &zstd()).unwrap();
    assert!(!folder.path().join("a").exists());
    for within in [run.join("tasks.jsonl"), run.join("0/tasks.jsonl")] {
        let error = planned.check_place(&within).unwrap_err();
        assert!(matches!(error, Error::Conflict { .. }) && error.to_string().contains("lies in"), "{error}");
        write(&planned, &within);
        let error = opened(&within).unwrap_err();
        assert!(matches!(error, Error::Conflict { .. }), "{error}");
        fs::remove_file(within).unwrap();
    }
    let tasks = folder.path().join("tasks.jsonl");
    planned.check_place(&tasks).unwrap();
    write(&planned, &tasks);
    run_all(&tasks);
    assert_eq!(finish(&tasks).missing, 0);
    assert!(out.join("zarr.json").exists());
}

#[test]
fn a_shard_that_was_removed_from_the_result_is_not_said_to_be_there() {
    let folder = tempfile::tempdir().unwrap();
    let run = dataset(folder.path());
    for (name, sharding) in [("shards.zarr", Sharding::Shards), ("chunks.zarr", Sharding::Unsharded)] {
        let out = folder.path().join(name);
        let tasks = plan(&run, &out, &RepackOptions { sharding, ..zstd() });
        run_all(&tasks);
        assert_eq!(finish(&tasks).missing, 0);
        let (made, run) = (files(&out), runner(&tasks));
        let all = tasks_of(&tasks);
        // Those of chunks that are no files hold nothing.
        let mut present =
            all.iter().map(|task| task["id"].as_str().unwrap()).filter(|id| made.contains_key(Path::new(id)));
        let removed = present.next().unwrap();
        assert!(sharding == Sharding::Shards || present.count() + 1 < all.len());
        for index in 0..run.tasks() {
            assert_eq!(run.run(TaskName::Index(index)).unwrap().outcome, TaskOutcome::Finished);
        }
        fs::remove_file(out.join(removed)).unwrap();
        let error = run.run(TaskName::Id(removed)).unwrap_err();
        assert!(matches!(error, Error::Conflict { .. }) && error.to_string().contains("was removed"), "{error}");
        assert_eq!(left_in(folder.path()), Vec::<String>::new());
    }
}

#[test]
fn a_shard_that_was_removed_from_a_level_is_not_said_to_be_there() {
    let folder = tempfile::tempdir().unwrap();
    let (run, plain) = (dataset(folder.path()), folder.path().join("plain.zarr"));
    copy_tree(&run, &plain);
    let options = PyramidOptions { levels: Some(2), sync: false, ..PyramidOptions::default() };
    let tasks = write(&TaskPlan::pyramid(&run, &options).unwrap(), &folder.path().join("tasks.jsonl"));
    run_all_levels(&tasks);
    assert_eq!(finish(&tasks).missing, 0);
    Pyramid::new(&plain, &options).unwrap().run().unwrap();
    let (run_tasks, all) = (runner(&tasks), tasks_of(&tasks));
    for task in &all {
        let id = task["id"].as_str().unwrap();
        assert_eq!(run_tasks.run(TaskName::Id(id)).unwrap().outcome, TaskOutcome::Finished);
        if !run.join(id).exists() {
            continue;
        }
        let shard = fs::read(run.join(id)).unwrap();
        fs::remove_file(run.join(id)).unwrap();
        let error = run_tasks.run(TaskName::Id(id)).unwrap_err();
        assert!(matches!(error, Error::Conflict { .. }) && error.to_string().contains("was removed"), "{error}");
        fs::write(run.join(id), shard).unwrap();
    }
    assert_eq!(left_in(folder.path()), Vec::<String>::new());
}

/// The tasks of a level come behind those of the one before.
fn run_all_levels(tasks: &Path) {
    let run = runner(tasks);
    (0..run.tasks()).for_each(|index| drop(run.run(TaskName::Index(index)).unwrap()));
}
