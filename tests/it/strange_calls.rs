//! Calls that nobody should make, and some do: what is refused says why, and costs nothing.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use shardwright::offline::{
    Array, ManifestOptions, Progress, Pyramid, PyramidOptions, Recover, RecoverOptions, Repack, RepackOptions,
    WriteManifest, manifest_path,
};
use shardwright::{Acquisition, Config, Dataset, Dim, Dtype, Error, ErrorKind, Memory, PixelFormat, Record, Result};

const FRAME_BYTES: usize = 512;

fn config() -> Config {
    Config {
        dims: vec![Dim::time(None).chunk(4).shard(16), Dim::y(16), Dim::x(16)],
        ring_bytes: 1 << 20,
        ..Config::default()
    }
}

fn make(path: impl AsRef<Path>) {
    let acquisition = Acquisition::create(path, config()).unwrap();
    assert_eq!(acquisition.append(&[1; FRAME_BYTES * 40]).unwrap().frames, 40);
    acquisition.finish().unwrap();
}

fn refused<T: std::fmt::Debug>(outcome: Result<T>, kind: ErrorKind, words: &str) {
    let error = outcome.unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(words), "{error}");
}

#[test]
fn frames_of_the_largest_numbers_never_came() {
    let acquisition = Acquisition::create_in(Arc::new(Memory::new()), config()).unwrap();
    // A layer that waits for more, so that they are in the ring.
    assert_eq!(acquisition.append(&[1; FRAME_BYTES * 2]).unwrap().frames, 2);
    for number in [u64::MAX, u64::MAX - 1, 1 << 63, 1 << 62, 1 << 61, (1 << 61) - 1] {
        let mut out = vec![9; FRAME_BYTES];
        acquisition.read_frame(number, &mut out).unwrap();
        assert!(out.iter().all(|byte| *byte == 0), "{number}");
        assert!(acquisition.acquire().unwrap().commit(number, Record::default()).is_err());
    }
    acquisition.finish().unwrap();
}

#[test]
fn a_link_that_leads_nowhere_is_no_place_whatever_stands_behind_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    make(at("k.zarr"));
    symlink(at("nowhere"), at("ln")).unwrap();
    for name in ["ln", "ln/", "ln/.", "ln/./", "ln//"] {
        let outcomes = [
            Repack::new(at("k.zarr"), Some(&at(name)), &RepackOptions::default()).map(drop),
            WriteManifest::new(at("k.zarr"), Some(&at(name)), &ManifestOptions::default()).map(drop),
            Acquisition::create(at(name), config()).map(drop),
            Dataset::create(at(name)).map(drop),
        ];
        for outcome in outcomes {
            let error = outcome.unwrap_err().to_string();
            assert!(error.contains("is a link that leads nowhere"), "{name}: {error}");
        }
        assert!(at("ln").is_symlink());
    }
}

#[test]
fn plain_pixels_are_elements_also_with_unused_bits() {
    let of = |unused_low_bits, pixel_format| {
        let config = Config { dtype: Dtype::U16, unused_low_bits, pixel_format, ..config() };
        Acquisition::create_in(Arc::new(Memory::new()), config).unwrap()
    };
    let acquisition = of(4, PixelFormat::Plain);
    let mut frame = acquisition.acquire().unwrap();
    frame.elements::<u16>().unwrap().fill(0x1230);
    frame.commit_next(Record::default()).unwrap();
    let mut out = vec![0; FRAME_BYTES];
    acquisition.read_frame(0, &mut out).unwrap();
    acquisition.finish().unwrap();
    for (format, name) in [(PixelFormat::Mono12p, "mono12p"), (PixelFormat::BigEndian, "big-endian")] {
        let acquisition = of(0, format);
        let mut frame = acquisition.acquire().unwrap();
        let Err(Error::Config { field, value, .. }) = frame.elements::<u16>() else { panic!("{name}") };
        assert_eq!((field, value), ("pixel_format", format.to_string()), "{name}");
        drop(frame);
        acquisition.finish().unwrap();
    }
}

#[test]
fn no_pixels_are_no_frame() {
    let acquisition = Acquisition::create_in(Arc::new(Memory::new()), config()).unwrap();
    refused(acquisition.append(&[]), ErrorKind::InvalidArgument, "at least one frame");
    acquisition.finish().unwrap();
}

#[test]
fn names_and_units_have_no_control_characters() {
    let scaled = |unit: &str| vec![Dim::time(None), Dim::y(16), Dim::x(16).scale(1.0, unit)];
    for (config, words) in [
        (Config { name: Some("a\0b".into()), ..config() }, "name = \"a\\u0000b\": the name of an image"),
        (Config { name: Some("a\nb".into()), ..config() }, "name = \"a\\nb\": the name of an image"),
        (Config { dims: scaled("micro\u{7f}meter"), ..config() }, "a unit has no control characters"),
    ] {
        refused(Acquisition::create_in(Arc::new(Memory::new()), config), ErrorKind::InvalidArgument, words);
    }
}

#[test]
fn an_empty_path_is_told_as_one() {
    let empty = Path::new("");
    let options = RepackOptions::default();
    refused(Acquisition::create(empty, config()), ErrorKind::NotFound, "\"\": an empty path names nothing");
    refused(Dataset::create(empty), ErrorKind::NotFound, "\"\": an empty path names nothing");
    refused(Repack::new(empty, None, &options), ErrorKind::NotFound, "\"\"");
    refused(Array::open(empty), ErrorKind::NotFound, "\"\"");
}

#[test]
fn no_run_begins_among_the_chunks_of_an_array() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.zarr");
    make(&path);
    for below in ["0/c/new", "0/new", "0/c/0/0/new.zarr", "0/c/new.ozx", "records/frame_number/new"] {
        let inside = path.join(below);
        let error = Acquisition::create(&inside, config()).unwrap_err();
        assert!(error.to_string().contains("among the chunks of an array"), "{below}: {error}");
        assert!(!inside.exists());
        let error = Repack::new(&path, Some(&inside), &RepackOptions::default()).unwrap_err();
        assert!(error.to_string().contains("lies in"), "{below}: {error}");
    }
    assert!(!path.join("0/c/0/0/new.zarr").exists());
}

#[test]
fn what_is_in_the_way_is_told_with_what_helps_there() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    make(at("a.zarr"));
    make(at("b.zarr"));
    let told = |outcome: Result<()>, end: &str| {
        let error = outcome.unwrap_err().to_string();
        assert!(error.ends_with(&format!("already exists; {end}")), "{error}");
    };
    told(Acquisition::create(at("a.zarr"), config()).map(drop), "choose another path, or allow overwriting");
    let repack = Repack::new(at("a.zarr"), Some(&at("b.zarr")), &RepackOptions::default());
    told(repack.map(drop), "choose another path");
    let dataset = Dataset::create(at("c.zarr")).unwrap();
    let first = dataset.acquisition("left", config()).unwrap();
    told(dataset.acquisition("left", config()).map(drop), "choose another name");
    first.finish().unwrap();
}

#[test]
fn manifests_of_a_part_stand_beside_the_dataset() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    make(at("s.zarr"));
    for (part, name) in [
        ("s.zarr", "s.manifest.zarr"),
        ("s.zarr/0", "s.zarr.0.manifest.zarr"),
        ("s.zarr/records/frame_number", "s.zarr.records.frame_number.manifest.zarr"),
    ] {
        let out: PathBuf = manifest_path(at(part));
        assert_eq!(out.file_name().unwrap(), name);
        WriteManifest::new(at(part), None, &ManifestOptions::default()).unwrap().run().unwrap();
        assert!(at(name).is_dir() && out == fs::canonicalize(at(name)).unwrap());
    }
}

#[test]
fn of_a_manifest_that_was_stopped_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zarr");
    make(&path);
    let first = WriteManifest::new(&path, None, &ManifestOptions::default()).unwrap();
    first.stop();
    let stopped = first.run().unwrap_err();
    assert!(matches!(stopped, Error::Stopped) && stopped.to_string() == "stopped before the end", "{stopped}");
    let there: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(there, ["a.zarr"]);
}

#[test]
fn an_operation_that_was_stopped_goes_on_in_a_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    make(at("a.zarr"));
    let repack = || Repack::new(at("a.zarr"), Some(&at("b.zarr")), &RepackOptions::default()).unwrap();
    let first = repack();
    first.stop();
    assert!(matches!(first.run(), Err(Error::Stopped)));
    // Nothing was done, and nothing is called so.
    assert_eq!(first.progress().done, 0);
    refused(first.run(), ErrorKind::Conflict, "a Repack of it runs once; a new one goes on");
    drop(first);
    repack().run().unwrap();
    // The same again finds all of it.
    let again = repack();
    assert!(again.run().unwrap().already_done);
    let Progress { done, found, total, .. } = again.progress();
    assert!(total > 0 && (done, found) == (total, total));
    let pyramid = || Pyramid::new(at("a.zarr"), &PyramidOptions::default()).unwrap();
    let first = pyramid();
    first.run().unwrap();
    refused(first.run(), ErrorKind::Conflict, "a Pyramid of it runs once; a new one goes on");
    drop(first);
    let manifest = WriteManifest::new(at("a.zarr"), None, &ManifestOptions::default()).unwrap();
    manifest.run().unwrap();
    refused(manifest.run(), ErrorKind::Conflict, "a WriteManifest of it runs once");
    for apply in [false, true] {
        let recover = Recover::new(at("b.zarr"), &RecoverOptions { apply, ..RecoverOptions::default() }).unwrap();
        recover.run().unwrap();
        let again = recover.run();
        if apply {
            refused(again, ErrorKind::Conflict, "a Recover of it runs once");
        } else {
            again.unwrap();
        }
    }
}

/// Who keeps what has run, to look at it later, keeps nobody from the dataset.
#[test]
fn what_has_run_locks_nothing_any_more() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    make(&path);
    let recover = |path: &Path| Recover::new(path, &RecoverOptions { apply: true, ..RecoverOptions::default() });
    let options = PyramidOptions { levels: Some(1), ..PyramidOptions::default() };
    let repacking = RepackOptions { sync: false, ..RepackOptions::default() };
    let first = recover(&path).unwrap();
    assert!(matches!(recover(&path).unwrap_err(), Error::Locked { .. }));
    first.run().unwrap();
    let pyramid = Pyramid::new(&path, &options).unwrap();
    assert!(matches!(recover(&path).unwrap_err(), Error::Locked { .. }));
    pyramid.run().unwrap();
    let repack = Repack::new(&path, None, &repacking).unwrap();
    assert!(matches!(recover(&path).unwrap_err(), Error::Locked { .. }));
    repack.run().unwrap();
    recover(&path).unwrap();
    assert!(!path.join(".shardwright.lock").exists());
}
