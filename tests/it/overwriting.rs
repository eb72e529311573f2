//! What `overwrite` takes for a dataset, and what it leaves alone.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::common::{checked, frame, manifests, recovered, tiny};
use shardwright::offline::store::Store;
use shardwright::offline::{ManifestOptions, Pyramid, PyramidOptions, Repack, RepackOptions};
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

/// It is the file that is named, not what can't be in it.
#[test]
fn a_path_through_a_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "precious").unwrap();
    for below in ["below", "below/more", "below.ozx"] {
        let path = file.join(below);
        let error = Acquisition::create(&path, config()).unwrap_err();
        assert!(matches!(&error, Error::Conflict { path, .. } if *path == file), "{error:?}");
        let expected = format!("{}: is a file, so there can't be {} in it", file.display(), path.display());
        assert_eq!(error.to_string(), expected);
    }
    assert_eq!(fs::read(&file).unwrap(), b"precious");
}

fn names(path: &Path) -> BTreeSet<OsString> {
    fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()).collect()
}

#[test]
fn a_folder_is_no_dataset_because_of_a_name() {
    type Make = fn(&Path);
    let makes: [Make; 12] = [
        |path| fs::write(path.join("info"), "x").unwrap(),
        |path| fs::create_dir(path.join("info")).unwrap(),
        |path| fs::create_dir(path.join("zarr.json")).unwrap(),
        |path| fs::write(path.join("zarr.json"), r#"{"name": "of something else"}"#).unwrap(),
        |path| fs::write(path.join(".zarray"), "[]").unwrap(),
        // Neither is read as a dataset by any tool here, so nor is it one to be replaced.
        |path| fs::write(path.join("zarr.json"), r#"{"zarr_format": "https://example.org/zarr/9"}"#).unwrap(),
        |path| fs::write(path.join("zarr.json"), " ".repeat(17 << 20) + r#"{"zarr_format": 3}"#).unwrap(),
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
            assert!(matches!(error, Error::Locked { .. } | Error::Io { .. } | Error::Conflict { .. }), "{error}");
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

#[test]
fn a_dataset_with_a_run_inside_is_left_alone_by_all() {
    let folder = tempfile::tempdir().unwrap();
    let (outer, inner) = (folder.path().join("outer.zarr"), folder.path().join("outer.zarr/more/inner.zarr"));
    let acquisition = Acquisition::create(&outer, config()).unwrap();
    let _ = acquisition.append(&frame(0, 256)).unwrap();
    acquisition.finish().unwrap();
    let before = names(&outer);
    let running = Acquisition::create(&inner, config()).unwrap();
    let _ = running.append(&frame(7, 256)).unwrap();
    let out = folder.path().join("out.zarr");
    let repack = |out| Repack::new(&outer, out, &RepackOptions::default()).map(drop);
    let tried = [
        ("create", Acquisition::create(&outer, config()).map(Acquisition::abort)),
        ("verify", checked(&outer).map(drop)),
        ("recover", recovered(&outer, false).map(drop)),
        ("recover and apply", recovered(&outer, true).map(drop)),
        ("repack", repack(Some(&out))),
        ("repack in place", repack(None)),
        ("pyramid", Pyramid::new(&outer, &PyramidOptions::default()).map(drop)),
        ("manifest", manifests(&outer, &out, &ManifestOptions::default()).map(drop)),
        ("edit", Store::edit(&outer).map(drop)),
    ];
    let inner = inner.canonicalize().unwrap();
    for (what, tried) in tried {
        match tried {
            Err(Error::Locked { path }) => assert_eq!(path.canonicalize().unwrap(), inner, "{what}"),
            other => panic!("{what}: {other:?}"),
        }
    }
    let _ = running.append(&frame(8, 256)).unwrap();
    assert_eq!(running.finish().unwrap().frames_written, 2);
    checked(&inner).unwrap();
    assert_eq!(names(&outer).difference(&before).collect::<Vec<_>>(), ["more"]);
    assert_eq!(names(folder.path()), BTreeSet::from(["outer.zarr".into()]));
    // Once it has ended, both are datasets like others.
    let acquisition = Acquisition::create(&outer, config()).unwrap();
    let _ = acquisition.append(&frame(0, 256)).unwrap();
    acquisition.finish().unwrap();
    assert_eq!(names(&outer), before);
}

#[test]
fn of_one_who_replaces_a_dataset_and_one_who_begins_in_it_one_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let outer = folder.path().join("outer.zarr");
    for _ in 0..30 {
        let acquisition = Acquisition::create(&outer, config()).unwrap();
        let _ = acquisition.append(&frame(0, 256)).unwrap();
        acquisition.finish().unwrap();
        let both = std::thread::scope(|scope| {
            let create = |path: std::path::PathBuf| scope.spawn(move || Acquisition::create(path, config()));
            [create(outer.clone()), create(outer.join("inner.zarr"))].map(|thread| thread.join().unwrap())
        });
        let both: Vec<_> = both.into_iter().filter_map(Result::ok).collect();
        assert!(both.len() < 2, "the one would remove the other's files");
        for run in both {
            let _ = run.append(&frame(0, 256)).unwrap();
            run.finish().unwrap();
        }
    }
}
