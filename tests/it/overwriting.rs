//! What `overwrite` takes for a dataset, and what it leaves alone.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::common::{frame, tiny};
use shardwright::{Acquisition, Config, Error};

fn config() -> Config {
    Config { overwrite: true, ..tiny(None, 32) }
}

fn refused(path: &Path) -> String {
    match Acquisition::create(path, config()) {
        Ok(_) => panic!("{} was overwritten", path.display()),
        Err(error) => error.to_string(),
    }
}

fn names(path: &Path) -> BTreeSet<OsString> {
    fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()).collect()
}

#[test]
fn a_folder_is_no_dataset_because_of_a_name() {
    type Make = fn(&Path);
    let makes: [Make; 10] = [
        |path| fs::write(path.join("info"), "x").unwrap(),
        |path| fs::create_dir(path.join("info")).unwrap(),
        |path| fs::create_dir(path.join("zarr.json")).unwrap(),
        |path| fs::write(path.join("zarr.json"), r#"{"name": "of something else"}"#).unwrap(),
        |path| fs::write(path.join(".zarray"), "[]").unwrap(),
        |path| {
            fs::write(path.join("theirs.json"), r#"{"zarr_format": 3}"#).unwrap();
            symlink("theirs.json", path.join("zarr.json")).unwrap();
        },
        |path| fs::write(path.join(".shardwright.lock"), "").unwrap(),
        // What a writer leaves behind has other names, and nothing else in it.
        |path| {
            fs::write(path.join(".shardwright.lock"), "").unwrap();
            fs::rename(path.join("chapter.tex"), path.join("chapter.tex.partial")).unwrap();
        },
        |path| {
            fs::write(path.join(".shardwright.lock"), "").unwrap();
            fs::create_dir(path.join("records")).unwrap();
            fs::rename(path.join("chapter.tex"), path.join("records/chapter.tex")).unwrap();
        },
        |path| assert!(std::process::Command::new("mkfifo").arg(path.join("info")).status().unwrap().success()),
    ];
    for make in makes {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("thesis");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("chapter.tex"), "five years").unwrap();
        make(&path);
        let before = names(&path);
        assert!(refused(&path).contains("not a dataset"), "{}", refused(&path));
        assert_eq!(names(&path), before);
        let places = ["chapter.tex", "chapter.tex.partial", "records/chapter.tex"].map(|name| path.join(name));
        let place = places.iter().find(|place| place.exists()).unwrap();
        assert_eq!(fs::read_to_string(place).unwrap(), "five years");
    }
}

#[test]
fn datasets_of_each_kind_are_overwritten() {
    for (name, text) in [
        ("zarr.json", r#"{"zarr_format": 3, "node_type": "group"}"#),
        ("zarr.json", r#"{"zarr_format": "https://purl.org/zarr/spec/protocol/core/3.0"}"#),
        (".zgroup", r#"{"zarr_format": 2}"#),
        (".zarray", r#"{"zarr_format": 2, "shape": [1]}"#),
        ("info", r#"{"@type": "neuroglancer_multiscale_volume", "scales": []}"#),
        (".shardwright.lock", ""),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.zarr");
        fs::create_dir(&path).unwrap();
        fs::write(path.join(name), text).unwrap();
        let acquisition = Acquisition::create(&path, config()).unwrap();
        let _ = acquisition.append(&frame(0, 256)).unwrap();
        acquisition.finish().unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "{name}");
    }
}

#[test]
fn what_a_writer_left_that_was_killed_at_once_is_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    fs::create_dir_all(path.join("records/frame_number")).unwrap();
    for left in [
        ".shardwright.lock",
        ".shardwright.ballast.partial",
        "..trial.partial",
        ".zarr.json.partial",
        "records/zarr.json",
        "records/.zarr.json.partial",
        "records/frame_number/zarr.json",
    ] {
        fs::write(path.join(left), "").unwrap();
    }
    let acquisition = Acquisition::create(&path, config()).unwrap();
    let _ = acquisition.append(&frame(0, 256)).unwrap();
    acquisition.finish().unwrap();
    assert!(!path.join("..trial.partial").exists());
}

#[test]
fn what_a_kill_left_of_an_exchange_gets_its_name_back() {
    let folder = tempfile::tempdir().unwrap();
    let (path, aside) = (folder.path().join("run.zarr"), folder.path().join(".run.zarr.replaced"));
    let acquisition = Acquisition::create(&path, config()).unwrap();
    let _ = acquisition.append(&frame(0, 256)).unwrap();
    acquisition.finish().unwrap();
    // Where two names can't be exchanged in one step, a kill may come between two renames.
    fs::rename(&path, &aside).unwrap();
    let error = Acquisition::create(&path, tiny(None, 32)).map(Acquisition::abort).unwrap_err();
    assert!(matches!(error, Error::Exists { .. }), "{error}");
    assert!(path.join("zarr.json").exists() && !aside.exists());
}

#[test]
fn two_who_overwrite_do_not_move_each_others_run_aside() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    for _ in 0..20 {
        let runs = std::thread::scope(|scope| {
            let create = || Acquisition::create(&path, config());
            let threads = [0; 4].map(|_| scope.spawn(create));
            threads.map(|thread| thread.join().unwrap())
        });
        let (running, refused): (Vec<_>, Vec<_>) = runs.into_iter().partition(Result::is_ok);
        assert_eq!(running.len(), 1, "one of them: {refused:?}");
        for error in refused.into_iter().filter_map(Result::err) {
            assert!(matches!(error, Error::Locked { .. } | Error::Io { .. } | Error::Format { .. }), "{error}");
        }
        for run in running.into_iter().flatten() {
            let _ = run.append(&frame(0, 256)).unwrap();
            run.finish().unwrap();
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}

#[test]
fn a_link_that_leads_nowhere_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    symlink(folder.path().join("gone"), &path).unwrap();
    assert!(refused(&path).contains("leads nowhere"));
    assert!(!folder.path().join("gone").exists());
}
