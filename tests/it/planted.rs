//! What somebody may have put into a folder that they sent, under names that this crate's tools would use: nothing
//! outside is written, removed or read because of it.

use crate::common::checked;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::common::{frame, movie, movie_config, tiny};
use crate::working_directory::contents;
use serde_json::json;
use shardwright::offline::{Array, Repack, RepackOptions, follow_links_anywhere};
use shardwright::{Acquisition, Config, Error, Placement};

/// A folder with a movie of fixed slots in it, whose gaps a repack closes, and a file and a folder that are nobody's
/// business.
struct Sent {
    folder: tempfile::TempDir,
    movie: PathBuf,
}

impl Sent {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("thesis")).unwrap();
        fs::write(folder.path().join("thesis/chapter.tex"), "five years").unwrap();
        let movie = movie(folder.path(), &Config { placement: Placement::Fixed, ..movie_config() });
        Self { folder, movie }
    }

    fn thesis(&self) -> PathBuf {
        self.folder.path().join("thesis")
    }

    fn repack(&self, out: Option<&Path>) -> String {
        let repacked = Repack::new(&self.movie, out, &RepackOptions::default()).and_then(|repack| repack.run());
        let told = repacked.map_or_else(|error| error.to_string(), |_| "done".into());
        let names: Vec<_> = fs::read_dir(self.thesis()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["chapter.tex"], "{told}");
        assert_eq!(fs::read_to_string(self.thesis().join("chapter.tex")).unwrap(), "five years", "{told}");
        told
    }
}

#[test]
fn a_link_where_a_shard_is_begun_is_not_written_through() {
    let sent = Sent::new();
    let shards = sent.movie.join("0/c/0/0");
    for shard in fs::read_dir(&shards).unwrap().map(|entry| entry.unwrap().file_name()) {
        let partial = shards.join(format!(".{}.partial", shard.to_string_lossy()));
        symlink(sent.thesis().join("chapter.tex"), partial).unwrap();
    }
    assert_eq!(sent.repack(None), "done");
    assert!(checked(&sent.movie).unwrap().is_sound());
}

#[test]
fn a_journal_removes_nothing_outside() {
    for name in ["../../../thesis", "THESIS", "a/../../../thesis"] {
        let sent = Sent::new();
        let out = sent.folder.path().join("out.zarr");
        let staging = sent.folder.path().join(".out.zarr.repack");
        fs::create_dir_all(staging.join("tree")).unwrap();
        let name = name.replace("THESIS", &sent.thesis().display().to_string());
        let journal = json!({"version": 1, "arrays": {name: {"source": "/"}}});
        fs::write(staging.join("journal.json"), journal.to_string()).unwrap();
        let told = sent.repack(Some(&out));
        assert!(told.contains("not below it"), "{told}");
    }
}

#[test]
fn nothing_is_staged_behind_a_link() {
    type Plant = fn(&Path, &Path);
    let plants: [Plant; 3] = [
        |staging, thesis| symlink(thesis, staging).unwrap(),
        |staging, thesis| {
            fs::create_dir(staging).unwrap();
            symlink(thesis, staging.join("tree")).unwrap();
        },
        |staging, thesis| {
            fs::create_dir_all(staging.join("tree")).unwrap();
            fs::write(staging.join("journal.json"), r#"{"version": 1, "arrays": {"x": 1}}"#).unwrap();
            symlink(thesis, staging.join("tree/0")).unwrap();
            symlink(thesis.join("chapter.tex"), staging.join("tree/zarr.json")).unwrap();
        },
    ];
    for (at, plant) in plants.into_iter().enumerate() {
        let sent = Sent::new();
        plant(&sent.folder.path().join(".out.zarr.repack"), &sent.thesis());
        let told = sent.repack(Some(&sent.folder.path().join("out.zarr")));
        assert!(if at < 2 { told.contains("is a link") } else { told == "done" }, "{at}: {told}");
    }
}

#[test]
fn a_repack_replaces_nothing_that_has_come_meanwhile() {
    let sent = Sent::new();
    let out = sent.folder.path().join("out.zarr");
    let repack = Repack::new(&sent.movie, Some(&out), &RepackOptions::default()).unwrap();
    fs::create_dir(&out).unwrap();
    fs::write(out.join("chapter.tex"), "five years").unwrap();
    assert!(matches!(repack.run(), Err(Error::Exists { .. })));
    assert_eq!(fs::read_to_string(out.join("chapter.tex")).unwrap(), "five years");
}

#[test]
fn one_repack_runs_once() {
    let sent = Sent::new();
    let out = sent.folder.path().join("out.zarr");
    let repack = Repack::new(&sent.movie, Some(&out), &RepackOptions::default()).unwrap();
    repack.run().unwrap();
    let again = repack.run().unwrap_err().to_string();
    assert!(again.contains("runs once"), "{again}");
    assert!(checked(&out).unwrap().is_sound());
}

#[test]
fn a_manifest_names_files_of_datasets_near_it_alone() {
    let sent = Sent::new();
    let array = sent.folder.path().join("sent/array");
    fs::create_dir_all(&array).unwrap();
    let document = |path: &str| {
        let manifest = json!({"0": {"path": path, "offset": 0, "length": 10}});
        json!({
            "zarr_format": 3, "node_type": "array", "shape": [10], "data_type": "uint8", "fill_value": 0,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [10]}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
            "storage_transformers": [{"name": "chunk-manifest-json", "configuration": {"manifest": manifest}}],
            "attributes": {},
        })
    };
    let secret = sent.thesis().join("chapter.tex");
    fs::write(array.join("own.bin"), "0123456789").unwrap();
    fs::create_dir_all(sent.folder.path().join("sent/other.zarr")).unwrap();
    let group = json!({"zarr_format": 3, "node_type": "group"}).to_string();
    fs::write(sent.folder.path().join("sent/other.zarr/zarr.json"), group).unwrap();
    fs::write(sent.folder.path().join("sent/other.zarr/data"), "9876543210").unwrap();
    // Other things have such names, too.
    fs::create_dir_all(sent.folder.path().join("sent/private")).unwrap();
    fs::write(sent.folder.path().join("sent/private/info"), "about this folder").unwrap();
    fs::write(sent.folder.path().join("sent/private/data"), "9876543210").unwrap();
    symlink(&secret, array.join("link")).unwrap();
    for (path, pixels) in [
        ("own.bin".to_owned(), Some("0123456789")),
        ("../other.zarr/data".to_owned(), Some("9876543210")),
        (format!("file://{}", secret.display()), None),
        (secret.display().to_string(), None),
        ("../../thesis/chapter.tex".to_owned(), None),
        ("link".to_owned(), None),
        ("../private/data".to_owned(), None),
        ("/etc/hostname".to_owned(), None),
    ] {
        fs::write(array.join("zarr.json"), document(&path).to_string()).unwrap();
        let read = Array::open(&array).unwrap().read_all();
        match pixels {
            Some(pixels) => assert_eq!(read.unwrap(), pixels.as_bytes(), "{path}"),
            None => assert!(read.unwrap_err().to_string().contains("follow_manifests_anywhere"), "{path}"),
        }
    }
}

/// The folder of a shard, and that of all records, become links while the run goes on.
#[test]
fn a_link_that_is_planted_during_a_run_is_not_written_through() {
    for (planted, frames) in [("0/c/20", 100), ("records/host_timestamp/c", 20_000)] {
        let folder = tempfile::tempdir().unwrap();
        let (path, outside) = (folder.path().join("run.zarr"), folder.path().join("outside"));
        fs::create_dir(&outside).unwrap();
        let config = Config { checkpoint_every: std::time::Duration::ZERO, ..tiny(None, 32) };
        let acquisition = Acquisition::create(&path, config).unwrap();
        symlink(&outside, path.join(planted)).unwrap();
        let mut number = 0;
        while number < frames && acquisition.append(&frame(number, 256)).is_ok() {
            number += 1;
        }
        let error = acquisition.finish().unwrap_err().error.to_string();
        assert!(error.contains("is a link or a file, where a folder should be"), "{error}");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0, "{planted}");
    }
}

/// Shards on another disk are read when their owner says so, and not before.
#[test]
fn links_out_of_a_dataset_are_followed_when_that_is_allowed() {
    let sent = Sent::new();
    let (chunks, elsewhere) = (sent.movie.join("0/c"), sent.thesis().join("chunks"));
    let before = Array::open(sent.movie.join("0")).unwrap().read_all().unwrap();
    fs::rename(&chunks, &elsewhere).unwrap();
    symlink(&elsewhere, &chunks).unwrap();
    let refused = Array::open(&sent.movie).unwrap().read_all().unwrap_err().to_string();
    assert!(refused.contains("follow_links_anywhere") && refused.contains("thesis/chunks"), "{refused}");
    let found = checked(&sent.movie).unwrap();
    assert!(found.damage == 0 && found.unchecked == 1, "{:?}", found.findings);
    // It is for the whole process, so this is the last thing that this one does.
    if std::env::args().any(|word| word == "--exact") {
        follow_links_anywhere();
        assert!(Array::open(&sent.movie).unwrap().read_all().unwrap() == before);
        return;
    }
    let this = "planted::links_out_of_a_dataset_are_followed_when_that_is_allowed";
    let alone = std::process::Command::new(std::env::current_exe().unwrap()).args(["--exact", this]).output().unwrap();
    assert!(alone.status.success(), "{alone:?}");
}

/// A path that leads back through a folder which is yet to be made is no way into a folder that is there.
#[test]
fn a_path_that_leads_back_reaches_no_folder_that_is_there() {
    let sent = Sent::new();
    let before = contents(sent.folder.path());
    for path in ["movie.ome.zarr/new/..", "thesis/new/..", "thesis/a/b/../../../thesis", "new/../thesis"] {
        for overwrite in [false, true] {
            let config = Config { overwrite, ..tiny(None, 256) };
            let error = Acquisition::create(sent.folder.path().join(path), config).unwrap_err().to_string();
            assert!(error.contains("does not exist"), "{path}: {error}");
            assert!(contents(sent.folder.path()) == before, "{path} changed something");
        }
    }
    // What is there may be gone through.
    fs::create_dir(sent.folder.path().join("there")).unwrap();
    let run = Acquisition::create(sent.folder.path().join("there/../run.zarr"), tiny(None, 256)).unwrap();
    assert_eq!(run.append(&frame(0, 256)).unwrap().frames, 1);
    run.finish().unwrap();
    assert!(sent.folder.path().join("run.zarr/zarr.json").is_file());
}
