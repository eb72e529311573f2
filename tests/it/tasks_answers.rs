//! Checks and manifests by tasks: what they have found in shards is what one call finds, whatever is wrong there.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use shardwright::offline::{
    FinishTasks, ManifestOptions, Pyramid, PyramidOptions, Repack, RepackOptions, RunTasks, TaskName, TaskOptions,
    TaskOutcome, TaskPlan, TasksReport, TasksSummary, Verification,
};
use shardwright::{Codec, Compressor, Config, Dataset, Dialect, Error, ManifestForm, Placement};

use crate::common::stopped::{commit, files, finished, restore, small, stopped};
use crate::common::{checked, manifests, movie, movie_config, recovered};
use crate::tasks::{finish, left_in, lines, runner, tasks_of, write};

fn plan(run: &Path) -> PathBuf {
    write(&TaskPlan::verify(run).unwrap(), &run.with_extension("jsonl"))
}

/// Runs all tasks, the last first, and some of them twice.
fn run_all(tasks: &Path) {
    let run = runner(tasks);
    for index in (0..run.tasks()).rev().chain((0..run.tasks()).step_by(3)) {
        assert_eq!(run.run(TaskName::Index(index)).unwrap().outcome, TaskOutcome::Read);
    }
}

fn report(summary: TasksSummary) -> Verification {
    let Some(TasksReport::Verification(report)) = summary.report else { panic!("{summary:?}") };
    report
}

fn answers(folder: &Path) -> Option<PathBuf> {
    let found = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    found.into_iter().find(|path| path.file_name().unwrap().to_str().unwrap().starts_with("answers-"))
}

/// Compares what tasks and one call find, and says how much damage that is.
#[track_caller]
fn same(run: &Path) -> Verification {
    let expected = checked(run).unwrap();
    let tasks = plan(run);
    run_all(&tasks);
    let summary = finish(&tasks);
    let count = tasks_of(&tasks).len() as u64;
    assert_eq!((summary.missing, summary.shards, summary.redone), (0, count, count.div_ceil(3)));
    let found = report(summary);
    assert_eq!(serde_json::to_value(&found).unwrap(), serde_json::to_value(&expected).unwrap());
    let folder = run.parent().unwrap();
    assert_eq!((answers(folder), left_in(folder)), (None, Vec::new()));
    assert!(!tasks.with_extension("missing.jsonl").exists());
    found
}

fn shards(run: &Path) -> Vec<PathBuf> {
    let found = files(&run.join("0")).into_keys().filter(|path| path.starts_with("c"));
    found.map(|path| run.join("0").join(path)).collect()
}

#[test]
fn tasks_find_what_one_call_finds_in_sound_datasets() {
    let of = |compressor, placement| Config { codec: Codec::from(compressor), placement, ..movie_config() };
    let bare = Codec { compressor: Compressor::default(), checksum: false };
    for config in [
        of(Compressor::default(), Placement::Fixed),
        of(Compressor::None, Placement::Packed),
        Config { dialect: Dialect::Zarr2Sharded, codec: bare.clone(), ..movie_config() },
        Config { dialect: Dialect::Zarr3Transformer, codec: bare, ..movie_config() },
    ] {
        let folder = tempfile::tempdir().unwrap();
        let run = movie(folder.path(), &config);
        // Of the one whose documents stand elsewhere, no task would find them.
        let has_none = tasks_of(&plan(&run)).is_empty();
        assert_eq!(has_none, config.dialect == Dialect::Zarr3Transformer, "{:?}", config.dialect);
        assert!(same(&run).is_sound());
        // An array alone.
        let array = if config.dialect == Dialect::Zarr3 { run.join("0") } else { run.clone() };
        assert!(same(&array).is_sound());
    }
}

#[test]
fn tasks_find_the_damage_that_one_call_finds() {
    let folder = tempfile::tempdir().unwrap();
    let run = movie(folder.path(), &movie_config());
    let (sound, shards) = (files(&run), shards(&run));
    let damaged = |change: &dyn Fn(&Path)| {
        restore(&run, &sound);
        change(&shards[1]);
        same(&run).damage
    };
    let bytes = |path: &Path| fs::read(path).unwrap();
    for at in [70, 300, usize::MAX] {
        let flip = |path: &Path| {
            let mut bytes = bytes(path);
            let at = at.min(bytes.len() - 20);
            bytes[at] ^= 4;
            fs::write(path, bytes).unwrap();
        };
        assert!(damaged(&flip) > 0, "{at}");
    }
    for len in [0, 3, 200] {
        assert!(damaged(&|path| fs::write(path, &bytes(path)[..len]).unwrap()) > 0, "{len}");
    }
    assert!(damaged(&|path| fs::remove_file(path).unwrap()) > 0);
    // Of another place, by its headers.
    assert!(damaged(&|path| assert!(fs::copy(&shards[0], path).unwrap() > 0)) > 0);
    assert!(
        damaged(&|path| {
            fs::remove_file(path).unwrap();
            fs::create_dir(path).unwrap();
        }) > 0
    );
    // What no task looks at: documents, records, and files that belong to nothing.
    assert!(damaged(&|_| fs::write(run.join("records/frame_number/c/0"), [7; 40]).unwrap()) > 0);
    assert_eq!(damaged(&|_| fs::write(run.join("stranger"), "?").unwrap()), 0);
    // Beyond the array's shape, and of another place.
    let beyond = run.join("0/c/9/0/0");
    assert!(
        damaged(&|path| {
            fs::create_dir_all(beyond.parent().unwrap()).unwrap();
            fs::copy(path, &beyond).unwrap();
        }) > 0
    );
}

#[test]
fn tasks_find_where_chunks_and_books_differ() {
    let folder = tempfile::tempdir().unwrap();
    let run = movie(folder.path(), &movie_config());
    let document = run.join("zarr.json");
    let said: Value = serde_json::from_slice(&fs::read(&document).unwrap()).unwrap();
    assert_eq!(said["attributes"]["shardwright"]["missing"], json!([[4, 7]]));
    for missing in [json!([]), json!([[0, 7]]), json!([[4, 9]]), json!([[2, 3], [5, 7]]), json!([[0, 9]])] {
        let mut said = said.clone();
        let count: u64 =
            missing.as_array().unwrap().iter().map(|run| run[1].as_u64().unwrap() - run[0].as_u64().unwrap()).sum();
        said["attributes"]["shardwright"]["missing"] = missing.clone();
        said["attributes"]["shardwright"]["frames_missing"] = json!(count);
        said["attributes"]["shardwright"]["slots"]["empty_chunks"] = json!(true);
        fs::write(&document, said.to_string()).unwrap();
        let found = same(&run);
        let pixels = found.findings.iter().filter(|finding| finding.path == "0" && finding.what.contains("chunks"));
        assert!(pixels.count() > 0, "{missing}: {:?}", found.findings);
    }
}

#[test]
fn tasks_find_what_one_call_finds_in_runs_that_were_stopped_and_recovered() {
    for placement in [Placement::Fixed, Placement::Packed] {
        let folder = tempfile::tempdir().unwrap();
        let layout = (placement, shardwright::IndexLocation::End, shardwright::StorageKind::Buffered);
        let run = stopped(folder.path(), &small(layout), &[0, 1, 2, 3, 4, 6, 9, 10], 8);
        same(&run);
        recovered(&run, true).unwrap();
        assert_eq!(same(&run).damage, 0);
        let lost = shards(&run).pop().unwrap();
        fs::remove_file(lost).unwrap();
        assert!(same(&run).damage > 0);
    }
}

#[test]
fn tasks_find_what_one_call_finds_in_levels_archives_collections_and_arrays_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let run = movie(folder.path(), &movie_config());
    let options = PyramidOptions { levels: Some(2), sync: false, ..PyramidOptions::default() };
    Pyramid::new(&run, &options).unwrap().run().unwrap();
    assert!(same(&run).is_sound());
    let archive = folder.path().join("archive.ozx");
    Repack::new(&run, Some(&archive), &RepackOptions::default()).unwrap().run().unwrap();
    assert!(!tasks_of(&plan(&archive)).is_empty());
    assert!(same(&archive).is_sound());
    // Bytes that only the archive vouches for.
    let mut bytes = fs::read(&archive).unwrap();
    let middle = bytes.len() / 3;
    bytes[middle] ^= 1;
    fs::write(&archive, bytes).unwrap();
    assert!(same(&archive).damage > 0);
    let level = files(&run.join("1")).into_keys().find(|path| path.starts_with("c")).unwrap();
    fs::remove_file(run.join("1").join(level)).unwrap();
    assert!(same(&run).damage > 0);
    // Nobody knows anything of it but its document.
    let bare = folder.path().join("bare.zarr");
    crate::common::stopped::copy_tree(&run.join("0"), &bare);
    let mut document: Value = serde_json::from_slice(&fs::read(bare.join("zarr.json")).unwrap()).unwrap();
    document["attributes"] = json!({});
    fs::write(bare.join("zarr.json"), document.to_string()).unwrap();
    same(&bare);
    let unsharded = folder.path().join("unsharded.zarr");
    let files_of_chunks =
        RepackOptions { sharding: shardwright::offline::Sharding::Unsharded, ..RepackOptions::default() };
    Repack::new(&bare, Some(&unsharded), &files_of_chunks).unwrap().run().unwrap();
    assert_eq!(tasks_of(&plan(&unsharded)).len(), 0);
    same(&unsharded);
    let several = folder.path().join("several.ome.zarr");
    let dataset = Dataset::create(&several).unwrap();
    for name in ["a", "b"] {
        let image = dataset.acquisition(name, movie_config()).unwrap();
        (0..4).for_each(|number| commit(&image, &movie_config(), number));
        image.finish().unwrap();
    }
    drop(dataset);
    same(&several);
}

#[test]
fn what_was_told_is_told_again_and_is_input() {
    let folder = tempfile::tempdir().unwrap();
    let run = movie(folder.path(), &movie_config());
    fs::remove_file(&shards(&run)[1]).unwrap();
    let tasks = plan(&run);
    run_all(&tasks);
    let first = finish(&tasks);
    let again = finish(&tasks);
    assert_eq!((first.already_done, again.already_done, &again.report), (false, true, &first.report));
    assert!(report(again).damage > 0);
    assert_eq!(runner(&tasks).run(TaskName::Index(0)).unwrap().outcome, TaskOutcome::Finished);
    let told = tasks.with_extension("finished.json");
    let said: Value = serde_json::from_slice(&fs::read(&told).unwrap()).unwrap();
    let count = tasks_of(&tasks).len() as u64;
    for (pointer, value) in [
        ("/plan", json!("another")),
        ("/tasks/0", json!(1)),
        ("/tasks/1", json!("1.000000000")),
        ("/told", json!({"manifest": said["told"]["verify"]})),
        ("/told/verify", json!({"arrays": "none"})),
        ("/told/verify/damage", json!(-1)),
        ("", json!([])),
    ] {
        let mut said = said.clone();
        *said.pointer_mut(pointer).unwrap() = value;
        fs::write(&told, said.to_string()).unwrap();
        assert_eq!(finish(&tasks).missing, count, "{pointer}");
    }
    fs::write(&told, &said.to_string()[..100]).unwrap();
    assert_eq!(finish(&tasks).missing, count);
    // A check of the same dataset is a new one when it is planned anew.
    fs::write(&told, said.to_string()).unwrap();
    assert!(finish(&tasks).already_done);
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert_eq!(finish(&plan(&run)).missing, count);
    run_all(&tasks);
    assert_eq!(report(finish(&tasks)), report(first));
}

#[test]
fn a_source_that_was_touched_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let run = movie(folder.path(), &movie_config());
    let tasks = plan(&run);
    run_all(&tasks);
    let shard = run.join(tasks_of(&tasks)[1]["id"].as_str().unwrap());
    let bytes = fs::read(&shard).unwrap();
    fs::write(&shard, &bytes).unwrap();
    let refused = |error: Error| {
        assert!(matches!(error, Error::Conflict { .. }), "{error}");
        assert!(error.to_string().contains(shard.to_str().unwrap()), "{error}");
    };
    refused(runner(&tasks).run(TaskName::Index(1)).unwrap_err());
    refused(FinishTasks::new(&tasks, 1).and_then(|finish| finish.run()).unwrap_err());
    // What was found in the old file counts for nothing in a new plan.
    let anew = plan(&run);
    assert_eq!(finish(&anew).missing, tasks_of(&anew).len() as u64);
    fs::remove_file(&shard).unwrap();
    refused(runner(&anew).run(TaskName::Index(1)).unwrap_err());
    refused(FinishTasks::new(&anew, 1).and_then(|finish| finish.run()).unwrap_err());
    // A document, too.
    fs::write(&shard, &bytes).unwrap();
    let anew = plan(&run);
    let document = run.join("0/zarr.json");
    fs::write(&document, fs::read(&document).unwrap()).unwrap();
    let error = runner(&anew).run(TaskName::Index(0)).unwrap_err();
    assert!(matches!(error, Error::Conflict { .. }), "{error}");
}

#[test]
fn tasks_that_nobody_ran_are_named_and_can_be_run_alone() {
    let folder = tempfile::tempdir().unwrap();
    let run = movie(folder.path(), &movie_config());
    let tasks = plan(&run);
    let ids: Vec<String> = tasks_of(&tasks).iter().map(|task| task["id"].as_str().unwrap().to_owned()).collect();
    let some = runner(&tasks);
    (2..some.tasks()).for_each(|index| drop(some.run(TaskName::Index(index)).unwrap()));
    let summary = finish(&tasks);
    assert_eq!((summary.missing, &summary.missing_ids[..]), (2, &ids[..2]));
    assert_eq!(summary.report, None);
    let missing = summary.missing_tasks.unwrap();
    run_all(&missing);
    let log = answers(folder.path()).unwrap();
    // A process that was killed has left a part of a line.
    fs::write(log.join("killed.jsonl"), "{\"receipt\": {\"plan\": \"").unwrap();
    assert_eq!(report(finish(&tasks)), checked(&run).unwrap());
    assert!(!missing.exists() && answers(folder.path()).is_none());
}

#[test]
fn answers_take_a_few_hundred_bytes_and_are_input() {
    let folder = tempfile::tempdir().unwrap();
    let config = Config {
        dims: vec![shardwright::Dim::time(1000).chunk(1).shard(1000), shardwright::Dim::y(8), shardwright::Dim::x(8)],
        ..movie_config()
    };
    let run = folder.path().join("run.ome.zarr");
    finished(&run, &config, &(0..1000).collect::<Vec<_>>());
    let tasks = plan(&run);
    run_all(&tasks);
    let folder = answers(folder.path()).unwrap();
    let log = fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    let text = fs::read_to_string(&log).unwrap();
    assert_eq!(text.lines().count(), 2);
    let line = text.lines().next().unwrap();
    assert!(line.len() < 700, "{}: {line}", line.len());
    let expected = checked(&run).unwrap();
    let line: Value = serde_json::from_str(line).unwrap();
    let huge = json!(vec![u64::MAX; 10]);
    let run_of = |first: u64, count: u64| {
        let (most, came) = (u64::MAX, json!([u64::MAX, 1, 1]));
        json!([{"first": first, "count": count, "chunks": most, "came": came, "step": most}])
    };
    for (pointer, value) in [
        ("/answer/sums", huge),
        ("/answer/sums", json!([1])),
        ("/answer/layers", run_of(0, u64::MAX)),
        ("/answer/layers", run_of(u64::MAX, 2)),
        ("/answer/layers", run_of(0, 1001)),
        ("/answer", json!("sound")),
        ("/receipt/bytes", json!(1)),
        ("/receipt/modified", json!("1.000000000")),
    ] {
        let mut line = line.clone();
        *line.pointer_mut(pointer).unwrap() = value.clone();
        fs::create_dir_all(&folder).unwrap();
        fs::write(&log, format!("{line}\n")).unwrap();
        let _ = fs::remove_file(tasks.with_extension("finished.json"));
        // What can't be is not believed, and the shard is read.
        assert_eq!(report(finish(&tasks)), expected, "{pointer} {value}");
    }
    for (pointer, value) in [("/receipt/id", json!("0/c/9/9/9")), ("/receipt/plan", json!("another"))] {
        let mut line = line.clone();
        *line.pointer_mut(pointer).unwrap() = value;
        let _ = fs::remove_file(tasks.with_extension("finished.json"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(&log, format!("{line}\n")).unwrap();
        assert_eq!(finish(&tasks).missing, 1, "{pointer}");
        fs::remove_file(tasks.with_extension("missing.jsonl")).unwrap();
    }
    // Layers that can be, and that no header says.
    let mut line = line;
    line["answer"]["layers"] = run_of(0, 1000);
    fs::write(&log, format!("{line}\n")).unwrap();
    let told = report(finish(&tasks));
    assert!(told.findings.len() <= expected.findings.len() + 2, "{:?}", told.findings);
}

#[test]
fn a_file_of_tasks_is_input() {
    let folder = tempfile::tempdir().unwrap();
    let run = movie(folder.path(), &movie_config());
    let tasks = plan(&run);
    let all = lines(&tasks);
    let task = all.iter().position(|line| line.get("task").is_some()).unwrap();
    let stranger = folder.path().join("stranger");
    fs::write(&stranger, "?").unwrap();
    for (line, pointer, value, expected) in [
        (task, "/id", json!("../stranger"), "not below"),
        (task, "/id", json!("0/c/9999/0/0"), "not so"),
        (task, "/id", json!("0/zarr.json"), "not so"),
        (task, "/sources", json!([]), "not so"),
        (task, "/sources/0/0", json!("0/zarr.json"), "not so"),
        (task, "/sources/0/0", json!("../stranger"), "not below"),
        (task, "/sources/0/1", json!(u64::MAX), "planned"),
        (1, "/said", json!({"shardwright": {"version": "1", "writer": "none"}}), ""),
        (1, "/source", json!("records"), "no array"),
        (0, "/operation", json!({"repack": {}}), ""),
        (0, "/operation", json!({"pyramid": {}}), ""),
        (0, "/operation", json!("destroy"), "destroy"),
    ] {
        let mut lines = all.clone();
        *lines[line].pointer_mut(pointer).unwrap() = value.clone();
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let path = folder.path().join("changed.jsonl");
        fs::write(&path, text).unwrap();
        let run = RunTasks::open(&path, &TaskOptions::default());
        match run.and_then(|run| run.run(TaskName::Index(0))) {
            Err(error) => assert!(error.to_string().contains(expected), "{pointer} {value}: {error}"),
            Ok(_) => assert_eq!(expected, "", "{pointer} {value}"),
        }
    }
}

#[test]
fn tasks_write_the_manifests_that_one_call_writes() {
    let folder = tempfile::tempdir().unwrap();
    let run = movie(folder.path(), &movie_config());
    Pyramid::new(&run, &PyramidOptions { levels: Some(2), sync: false, ..PyramidOptions::default() })
        .unwrap()
        .run()
        .unwrap();
    let prefix = Some("s3://bucket/run.ome.zarr".to_owned());
    let cases = [
        ("all", ManifestOptions::default()),
        ("prefix", ManifestOptions { url_prefix: prefix, ..ManifestOptions::default() }),
        (
            "kerchunk",
            ManifestOptions {
                forms: vec![ManifestForm::Kerchunk],
                kerchunk_zarr_format: 3,
                ..ManifestOptions::default()
            },
        ),
        ("long", ManifestOptions { inline_chunks: 0, ..ManifestOptions::default() }),
    ];
    for (name, options) in cases {
        let (out, plain) =
            (folder.path().join(format!("{name}.zarr")), folder.path().join(format!("{name}-plain.zarr")));
        let tasks = folder.path().join("tasks.jsonl");
        write(&TaskPlan::manifest(&run, Some(&out), &options).unwrap(), &tasks);
        let count = tasks_of(&tasks).len() as u64;
        assert!(count > 4);
        assert_eq!(finish(&tasks).missing, count);
        assert!(!out.exists());
        run_all(&tasks);
        let summary = finish(&tasks);
        let expected = manifests(&run, &plain, &options).unwrap();
        assert_eq!(summary.report, Some(TasksReport::Manifest(expected)), "{name}");
        assert!(files(&out) == files(&plain), "{name}");
        assert_eq!((answers(folder.path()), left_in(folder.path())), (None, Vec::new()));
        assert!(!tasks.with_extension("missing.jsonl").exists());
        let again = finish(&tasks);
        assert_eq!((again.already_done, &again.report), (true, &summary.report), "{name}");
        // What others have put there is not what the tasks made.
        fs::write(out.join("kerchunk.json"), "{}").unwrap();
        let error = FinishTasks::new(&tasks, 1).unwrap_err();
        assert!(matches!(error, Error::Exists { .. }), "{error}");
    }
}

#[test]
fn a_manifest_of_damaged_or_touched_shards_is_refused_and_answers_are_input() {
    let folder = tempfile::tempdir().unwrap();
    let run = movie(folder.path(), &movie_config());
    let (sound, out, tasks) = (files(&run), folder.path().join("out.zarr"), folder.path().join("tasks.jsonl"));
    let plan = || write(&TaskPlan::manifest(&run, Some(&out), &ManifestOptions::default()).unwrap(), &tasks);
    plan();
    run_all(&tasks);
    let shard = run.join(tasks_of(&tasks)[0]["id"].as_str().unwrap());
    fs::write(&shard, fs::read(&shard).unwrap()).unwrap();
    let error = runner(&tasks).run(TaskName::Index(0)).unwrap_err();
    assert!(matches!(error, Error::Conflict { .. }), "{error}");
    let error = FinishTasks::new(&tasks, 1).and_then(|finish| finish.run()).unwrap_err();
    assert!(matches!(error, Error::Conflict { .. }), "{error}");
    let bytes = fs::read(&shard).unwrap();
    fs::write(&shard, &bytes[..bytes.len() - 3]).unwrap();
    plan();
    let error = runner(&tasks).run(TaskName::Index(0)).unwrap_err();
    assert!(matches!(error, Error::Format { .. }), "{error}");
    assert!(!out.exists());
    fs::remove_dir_all(answers(folder.path()).unwrap()).unwrap();
    restore(&run, &sound);
    plan();
    run_all(&tasks);
    // Fewer ranges than the shard has chunks.
    let log = fs::read_dir(answers(folder.path()).unwrap()).unwrap().next().unwrap().unwrap().path();
    let text = fs::read_to_string(&log).unwrap();
    let changed = text.lines().map(|line| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        line["answer"].as_array_mut().unwrap().pop();
        format!("{line}\n")
    });
    fs::write(&log, changed.collect::<String>()).unwrap();
    assert_eq!(finish(&tasks).missing, 0);
    let plain = folder.path().join("plain.zarr");
    manifests(&run, &plain, &ManifestOptions::default()).unwrap();
    assert!(files(&out) == files(&plain));
}
