//! Every wrong thing has an error with a name, which carries the value that was wrong and what would be right.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::common::child::{child, child_path, in_child, told};
use crate::common::storage::{wait_until, within};
use crate::common::{frame, tiny};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use shardwright::{
    Acquisition, BloscCname, Channel, Codec, Compressor, Config, Dataset, Dim, Dtype, Error, FieldValue, FrameLayout,
    Record, RecordField, RefusedNumber, Shuffle, StorageKind,
};

/// Everything below a folder, with the contents of files: what a failed call must leave as it was.
fn listing(folder: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut left = vec![folder.to_path_buf()];
    while let Some(folder) = left.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path.clone());
                found.insert(path, None);
            } else {
                let bytes = std::fs::read(&path).ok();
                found.insert(path, bytes);
            }
        }
    }
    found
}

/// Creates an acquisition that can't work, and checks that it leaves nothing behind.
fn refused(folder: &Path, name: &str, config: Config) -> Error {
    let before = listing(folder);
    let error = Acquisition::create(folder.join(name), config).expect_err("this can't work");
    assert_eq!(listing(folder), before, "after {error}");
    error
}

/// Checks that a configuration is refused with this field, this value, and these words in its reason.
fn refused_config(what: &str, config: Config, expected_field: &str, expected_value: &str, words: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let error = refused(folder.path(), "a/b/run.zarr", config);
    let Error::Config { field, value, reason } = &error else { panic!("{what}: {error:?}") };
    assert_eq!(*field, expected_field, "{what}: {error}");
    assert!(value.contains(expected_value), "{what}: {error}");
    for word in words {
        assert!(reason.contains(word), "{what}: {word:?} is not in {reason:?}");
    }
}

fn dims(dims: Vec<Dim>) -> Config {
    Config { dims, ..tiny(None, 8) }
}

#[test]
fn shapes_that_can_not_be() {
    let [t, y, x] = [Dim::time(None), Dim::y(16), Dim::x(16)];
    refused_config("no dimensions", dims(vec![]), "dims", "[]", &["2 to 16"]);
    refused_config("one dimension", dims(vec![x.clone()]), "dims", "[x]", &["2 to 16"]);
    let many = (0..17).map(|at| Dim::new(&format!("d{at}"), Default::default(), 2)).collect();
    refused_config("17 dimensions", dims(many), "dims", "d16", &["2 to 16"]);
    refused_config("no rows", dims(vec![t.clone(), Dim::y(0), x.clone()]), "dims.size", "0", &["y"]);
    refused_config(
        "unbounded rows",
        dims(vec![Dim::new("y", Default::default(), None), x.clone()]),
        "dims.size",
        "unbounded",
        &["y"],
    );
    let z = Dim::z(None);
    refused_config("two unbounded", dims(vec![t.clone(), z, y.clone(), x]), "dims.size", "unbounded", &["z", "first"]);
    refused_config("same name", dims(vec![t, y.clone(), y]), "dims.name", "t, y, y", &["name of its own"]);
}

#[test]
fn scales_and_sizes_that_can_not_be() {
    let [t, y, x] = [Dim::time(None), Dim::y(16), Dim::x(16)];
    let far = y.clone().scale(f64::INFINITY, "m");
    refused_config("no distance", dims(vec![t.clone(), far, x.clone()]), "dims.scale", "inf", &["y"]);
    let nowhere = y.clone().translation(f64::NAN);
    refused_config("no place", dims(vec![t.clone(), nowhere, x.clone()]), "dims.translation", "NaN", &["y"]);
    refused_config("no scale", dims(vec![t.clone(), y.clone().scale(0.0, "m"), x.clone()]), "dims.scale", "0", &["y"]);
    refused_config(
        "nan scale",
        dims(vec![t.clone(), y.clone().scale(f64::NAN, "m"), x.clone()]),
        "dims.scale",
        "NaN",
        &["y"],
    );
    refused_config(
        "frame of an exbibyte",
        dims(vec![t.clone(), Dim::y(1 << 30), Dim::x(1 << 30)]),
        "dims.size",
        "1073741824 of y and 1073741824 of x",
        &["1 TiB"],
    );
    refused_config(
        "pixels past u64",
        dims(vec![t, Dim::y(1 << 40), Dim::x(1 << 40)]),
        "dims.size",
        "1099511627776 of y",
        &["1 TiB"],
    );
    let endless = vec![Dim::time(1 << 40), Dim::channel(1 << 40), y, x];
    refused_config("frames past u64", dims(endless), "dims.size", "1099511627776 of c", &["frames are possible"]);
}

#[test]
fn chunks_and_shards_that_can_not_be() {
    let [t, y, x] = [Dim::time(None), Dim::y(16), Dim::x(16)];
    refused_config(
        "shard of one and a half chunks",
        dims(vec![t.clone().chunk(4).shard(6), y.clone(), x.clone()]),
        "dims.shard",
        "6",
        &["t", "the chunk's 4 elements, as 4 and 8 are"],
    );
    refused_config(
        "shard smaller than a chunk",
        dims(vec![t.clone(), y.clone().chunk(16).shard(8), x.clone()]),
        "dims.shard",
        "8",
        &["y", "as 16 is"],
    );
    let large = vec![t.clone().chunk(1 << 10), Dim::y(1 << 12).chunk(1 << 12), Dim::x(1 << 12).chunk(1 << 12)];
    refused_config("chunk of 16 GiB", dims(large), "dims.chunk", "[1024, 4096, 4096]", &["2 GiB", "smaller"]);
    let huge = vec![t.clone().chunk(u64::MAX), y.clone(), x.clone()];
    refused_config("chunk past u64", dims(huge), "dims.chunk", &u64::MAX.to_string(), &["2 GiB"]);
    let many = vec![t.chunk(1).shard(1 << 30), y, x];
    refused_config(
        "a milliard chunks",
        dims(many),
        "dims.shard",
        &(1u64 << 30).to_string(),
        &["16777216", "larger chunks"],
    );
}

#[test]
fn acquisition_orders_that_can_not_be() {
    let order = |order: &[&str], t: Option<u64>| Config {
        dims: vec![Dim::time(t), Dim::channel(2), Dim::y(16), Dim::x(16)],
        acquisition_order: order.iter().map(|&name| name.to_owned()).collect(),
        ..tiny(None, 8)
    };
    let field = "acquisition_order";
    refused_config("unknown", order(&["t", "q"], Some(4)), field, "[t, q]", &["no such dimension", "t, c"]);
    refused_config("rows", order(&["t", "y"], Some(4)), field, "[t, y]", &["no such dimension"]);
    refused_config("lacking", order(&["t"], Some(4)), field, "[t]", &["missing or named twice", "t, c"]);
    refused_config("twice", order(&["t", "t"], Some(4)), field, "[t, t]", &["missing or named twice"]);
    refused_config("unbounded but fast", order(&["c", "t"], None), field, "[c, t]", &["slowest"]);
}

#[test]
fn values_that_can_not_be() {
    let fill = |dtype, fill_value: f64| Config { dtype, fill_value: fill_value.into(), ..tiny(None, 8) };
    refused_config("fill", fill(Dtype::U8, 256.0), "fill_value", "256", &["uint8", "0 to 255"]);
    refused_config("fill", fill(Dtype::U16, -1.0), "fill_value", "-1", &["uint16", "0 to 65535"]);
    refused_config("fill", fill(Dtype::I32, 0.5), "fill_value", "0.5", &["int32", "whole"]);
    refused_config("fill", fill(Dtype::U64, f64::NAN), "fill_value", "NaN", &["uint64"]);
    refused_config("fill", fill(Dtype::F32, 1e300), "fill_value", "1e300", &["float32", "3.4028235e38"]);

    let codec = |compressor| Config { codec: Codec::from(compressor), ..tiny(None, 8) };
    refused_config("zstd", codec(Compressor::Zstd { level: 23 }), "codec.compressor.level", "23", &["22"]);
    refused_config("gzip", codec(Compressor::Gzip { level: 10 }), "codec.compressor.level", "10", &["9"]);
    let blosc = Compressor::Blosc { cname: BloscCname::Lz4, level: 10, shuffle: Shuffle::Bit, block_bytes: 0 };
    refused_config("blosc", codec(blosc), "codec.compressor.level", "10", &["9"]);

    let workers = Config { workers: 5000, ..tiny(None, 8) };
    refused_config("workers", workers, "workers", "5000", &["1024"]);
    let affinity = Config { affinity: vec![0, 77_777], ..tiny(None, 8) };
    refused_config("affinity", affinity, "affinity", "77777", &["no such core"]);

    let field = |name: &str| RecordField { name: name.to_owned(), dtype: Dtype::F32 };
    let fields = |fields: Vec<RecordField>| Config { record_fields: fields, ..tiny(None, 8) };
    refused_config("slash", fields(vec![field("../x")]), "record_fields.name", "../x", &["letters"]);
    refused_config("empty", fields(vec![field("")]), "record_fields.name", "\"\"", &["letters"]);
    refused_config("reserved", fields(vec![field("__x")]), "record_fields.name", "__x", &["Zarr reserves"]);
    refused_config("twice", fields(vec![field("a"), field("a")]), "record_fields.name", "a", &["name of its own"]);
    refused_config("taken", fields(vec![field("frame_number")]), "record_fields.name", "frame_number", &["taken"]);
    let many = (0..17).map(|at| field(&format!("f{at}"))).collect();
    refused_config("many", fields(many), "record_fields", "17", &["16"]);

    let channels = vec![Channel { label: "red".into(), color: "FF0000".into(), window: None }];
    let lone = Config { channels, ..dims(vec![Dim::time(None), Dim::channel(2), Dim::y(16), Dim::x(16)]) };
    let folder = tempfile::tempdir().unwrap();
    let error = refused(folder.path(), "run.zarr", lone);
    assert!(matches!(error, Error::Config { field: "channels", .. }), "{error:?}");

    let layout = |buffer_bytes, offset, row_stride| Config {
        frame_layout: Some(FrameLayout { buffer_bytes, offset, row_stride }),
        ..tiny(None, 8)
    };
    refused_config("short rows", layout(4096, 0, 15), "frame_layout.row_stride", "15", &["16 bytes", "at least"]);
    let buffer = "frame_layout.buffer_bytes";
    refused_config("beyond", layout(4096, 4000, 16), buffer, "4096", &["from byte 4000 on", "need 4256 bytes"]);
    refused_config("overflow", layout(4096, usize::MAX, 16), buffer, "4096", &["more than memory holds"]);
    refused_config("overflow", layout(4096, 0, usize::MAX), buffer, "4096", &["more than memory holds"]);
}

#[test]
fn a_ring_too_small_says_how_many_bytes_it_needs() {
    let config =
        |ring_bytes| Config { ring_bytes, ..dims(vec![Dim::time(None).chunk(10).shard(20), Dim::y(16), Dim::x(16)]) };
    refused_config(
        "small",
        config(11 * 4096),
        "ring_bytes",
        "45056",
        &["10 frames", "ring of 12 frames", "49152 bytes"],
    );
    refused_config("none", config(0), "ring_bytes", "0", &["49152 bytes"]);
    let value = usize::MAX.to_string();
    refused_config("endless", config(usize::MAX), "ring_bytes", &value, &["more than the memory of this machine"]);
    let folder = tempfile::tempdir().unwrap();
    let acquisition = Acquisition::create(folder.path().join("run.zarr"), config(49152)).unwrap();
    assert_eq!(acquisition.stats().ring_frames, 12);
    let planes = vec![Dim::time(None), Dim::z(100).chunk(100), Dim::channel(3), Dim::y(16), Dim::x(16)];
    refused_config("deep", Config { ring_bytes: 4096, ..dims(planes) }, "ring_bytes", "4096", &["302 frames"]);
}

#[test]
fn frames_of_a_wrong_size() {
    let folder = tempfile::tempdir().unwrap();
    let acquisition = Acquisition::create(folder.path().join("run.zarr"), tiny(None, 8)).unwrap();
    let size = |result: Result<shardwright::Appended, Error>| match result {
        Err(error @ Error::FrameSize { got, expected }) => {
            assert!(error.to_string().contains(&format!("{got} bytes")), "{error}");
            (got, expected)
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(size(acquisition.append(&[0; 255])), (255, 256));
    assert_eq!(size(acquisition.append(&[0; 257])), (257, 256));
    assert_eq!(size(acquisition.append(&[])), (0, 256));
    assert_eq!(size(acquisition.append(&[0; 3 * 256 - 1])), (767, 256));
    // Rows 20 bytes apart: 320 bytes, or 316 without the last row's padding.
    let with = |bytes: usize, stride| acquisition.append_with(&vec![7; bytes], stride, Record::default());
    assert_eq!(size(with(300, 20)), (300, 320));
    assert_eq!(size(with(318, 20)), (318, 320));
    // A wrong distance is told from a wrong size.
    for stride in [0, 15, 17, usize::MAX / 16, usize::MAX / 16 + 1, usize::MAX] {
        let error = with(256, stride).unwrap_err();
        assert!(matches!(error, Error::RowStride { got, rows: 16, row_bytes: 16, bytes: 256 } if got == stride));
        assert!(error.to_string().starts_with(&format!("row_stride = {stride}: ")), "{error}");
    }
    assert_eq!(acquisition.stats().frames_accepted, 0);
    assert_eq!(with(320, 20).unwrap().frames, 1);
    assert_eq!(with(316, 20).unwrap().frames, 1);
    assert_eq!(with(640, 20).unwrap().frames, 2);
    assert_eq!(with(636, 20).unwrap().frames, 2);
    assert_eq!(acquisition.finish().unwrap().frames_written, 6);
}

#[test]
fn frame_numbers_that_can_not_be_taken() {
    let folder = tempfile::tempdir().unwrap();
    let why = |acquisition: &Acquisition, number: u64| {
        let result = acquisition.acquire().unwrap().commit(number, Record::default());
        match result {
            Err(error @ Error::FrameNumber { number: named, why }) => {
                assert_eq!(named, number);
                assert!(error.to_string().contains(&format!("frame number {number} ")), "{error}");
                why
            }
            other => panic!("{other:?}"),
        }
    };
    let commit = |acquisition: &Acquisition, number| acquisition.acquire().unwrap().commit(number, Record::default());
    let acquisition = Acquisition::create(folder.path().join("a.zarr"), tiny(Some(1000), 8)).unwrap();
    let ring = acquisition.stats().ring_frames;
    commit(&acquisition, 0).unwrap();
    assert_eq!(why(&acquisition, 0), RefusedNumber::Duplicate);
    assert_eq!(why(&acquisition, 1000), RefusedNumber::PastEnd { frames: 1000 });
    assert_eq!(why(&acquisition, u64::MAX), RefusedNumber::PastEnd { frames: 1000 });
    commit(&acquisition, 999).unwrap();
    let oldest = 999 - acquisition.reorder_window();
    // Whatever the workers have got to.
    assert_eq!(why(&acquisition, oldest - 1), RefusedNumber::TooLate { oldest });
    wait_until("the window has moved on", || acquisition.stats().frames_missing == oldest - 1);
    assert_eq!(why(&acquisition, oldest - 1), RefusedNumber::TooLate { oldest });
    commit(&acquisition, oldest).unwrap();
    // A refused frame's buffer is not lost.
    wait_until("all buffers are free", || acquisition.stats().ring_free == ring);
    let summary = acquisition.finish().unwrap();
    assert_eq!((summary.frames_accepted, summary.frames_missing), (3, 997));

    let unbounded = Acquisition::create(folder.path().join("b.zarr"), tiny(None, 8)).unwrap();
    let RefusedNumber::TooFar { limit } = why(&unbounded, u64::MAX) else { panic!() };
    assert_eq!(why(&unbounded, limit + 1), RefusedNumber::TooFar { limit });
    unbounded.abort();
}

#[test]
fn record_fields_that_are_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let record_fields = vec![RecordField { name: "exposure".into(), dtype: Dtype::F64 }];
    let config = Config { record_fields, ..tiny(None, 8) };
    let acquisition = Acquisition::create(folder.path().join("run.zarr"), config).unwrap();
    let mut record = Record::default();
    record.set(0, 0.5).set(3, FieldValue::Int(1));
    for (record, place) in [(record, "3"), (Record::default().with(16, 1.0).with(17, 1.0), "16")] {
        let error = acquisition.acquire().unwrap().commit(0, record).unwrap_err();
        let Error::Record { field, reason } = &error else { panic!("{error:?}") };
        assert_eq!(field, place);
        assert!(reason.contains("1 record fields"), "{error}");
    }
    // The number was not used up by the refused frame.
    acquisition.acquire().unwrap().commit(0, Record::default()).unwrap();
    assert_eq!(acquisition.finish().unwrap().frames_written, 1);
}

#[test]
fn attributes_that_the_writer_keeps_for_itself() {
    let folder = tempfile::tempdir().unwrap();
    let acquisition = Acquisition::create(folder.path().join("run.zarr"), tiny(None, 8)).unwrap();
    for key in ["ome", "shardwright", ""] {
        let error = acquisition.set_attribute(key, 1.into()).unwrap_err();
        let Error::Config { field: "attribute", value, .. } = &error else { panic!("{error:?}") };
        assert_eq!(*value, format!("{key:?}"));
    }
}

#[test]
fn paths_that_can_not_be_used() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "precious").unwrap();
    for overwrite in [false, true] {
        let config = || Config { overwrite, ..tiny(None, 8) };
        let error = refused(folder.path(), "file", config());
        assert!(matches!(&error, Error::Conflict { path, .. } if *path == file), "{error:?}");
        assert!(error.to_string().contains("is a file"), "{error}");

        // Nobody can create files here, not even root.
        let error = Acquisition::create("/proc/shardwright/run.zarr", config()).unwrap_err();
        assert!(matches!(&error, Error::Io { action: "create", path, .. } if path.starts_with("/proc")), "{error:?}");

        std::fs::create_dir_all(folder.path().join("photos")).unwrap();
        std::fs::write(folder.path().join("photos/cat.jpg"), "meow").unwrap();
        let error = refused(folder.path(), "photos", config());
        assert!(matches!(&error, Error::Conflict { path, .. } if path.ends_with("photos")), "{error:?}");
        assert!(error.to_string().contains("not a dataset"), "{error}");
    }
}

#[test]
fn a_folder_in_which_nothing_can_be_created() {
    // The folder of a process's descriptors lets itself be listed and holds no files of ours: an empty one is not to be
    // had, so a file system that is read-only stands in where there is one.
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    let mut permissions = std::fs::metadata(folder.path().join("empty")).unwrap().permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(folder.path().join("empty"), permissions).unwrap();
    if std::fs::write(folder.path().join("empty/probe"), "").is_ok() {
        std::fs::remove_file(folder.path().join("empty/probe")).unwrap();
        eprintln!("not run: this user may write into read-only folders");
        return;
    }
    let error = refused(folder.path(), "empty", tiny(None, 8));
    assert!(matches!(&error, Error::Io { action: "create", .. }), "{error:?}");
    let error = refused(folder.path(), "empty/run.zarr", tiny(None, 8));
    assert!(matches!(&error, Error::Io { action: "create", .. }), "{error:?}");
}

#[test]
fn a_dataset_in_the_way() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    let acquisition = Acquisition::create(&path, tiny(None, 8)).unwrap();
    let _ = acquisition.append(&frame(0, 256)).unwrap();
    // But for the shards, which the acquisition prepares meanwhile.
    let names = || {
        listing(folder.path()).into_keys().filter(|name| !name.to_string_lossy().contains("/c/")).collect::<Vec<_>>()
    };
    for overwrite in [false, true] {
        let before = names();
        let error = Acquisition::create(&path, Config { overwrite, ..tiny(None, 8) }).unwrap_err();
        assert!(matches!(&error, Error::Locked { path: named } if *named == path), "{error:?}");
        assert!(error.to_string().contains("being written"), "{error}");
        let error = if overwrite { Dataset::create_or_replace(&path) } else { Dataset::create(&path) }.unwrap_err();
        assert!(matches!(&error, Error::Locked { .. }), "{error:?}");
        assert_eq!(names(), before);
    }
    acquisition.finish().unwrap();
    let error = refused(folder.path(), "run.zarr", tiny(None, 8));
    assert!(matches!(&error, Error::Exists { path: named, .. } if *named == path), "{error:?}");
    assert!(error.to_string().contains("allow overwriting"), "{error}");
}

#[test]
fn a_dataset_that_another_process_writes_is_locked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    let acquisition = Acquisition::create(&path, tiny(None, 8)).unwrap();
    let output = in_child("errors::child_tries_to_overwrite", &path);
    assert!(output.contains("is being written, by this process or another"), "{output}");
    let _ = acquisition.append(&frame(0, 256)).unwrap();
    acquisition.finish().unwrap();
}

#[test]
#[ignore = "run by another test, in a process of its own"]
fn child_tries_to_overwrite() {
    println!("{}", Acquisition::create(child_path(), Config { overwrite: true, ..tiny(None, 8) }).unwrap_err());
}

#[test]
fn images_of_a_dataset_need_names_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = Dataset::create(folder.path().join("run.zarr")).unwrap();
    let left = dataset.acquisition("left", tiny(None, 8)).unwrap();
    let _ = left.append(&frame(0, 256)).unwrap();
    for name in ["", ".", "..", ".hidden", "a/b", "/etc", "OME", "__x", "ome", "a\0b", "ä"] {
        let error = dataset.acquisition(name, tiny(None, 8)).unwrap_err();
        let Error::Config { field: "name", value, .. } = &error else { panic!("{error:?}") };
        assert_eq!(*value, shardwright::words::quoted(name).to_string());
        // The image under way grows meanwhile; beside it, nothing does.
        let mut beside: Vec<_> =
            std::fs::read_dir(folder.path().join("run.zarr")).unwrap().map(|e| e.unwrap().file_name()).collect();
        beside.sort();
        assert_eq!(beside, [".shardwright.ballast.partial", ".shardwright.lock", "OME", "left", "zarr.json"]);
    }
    let error = dataset.acquisition("left", tiny(None, 8)).unwrap_err();
    assert!(matches!(&error, Error::Exists { path, .. } if path.ends_with("left")), "{error:?}");
    left.finish().unwrap();
}

fn limit(resource: Resource, current: u64) {
    let maximum = getrlimit(resource).maximum;
    setrlimit(resource, Rlimit { current: Some(current), maximum }).unwrap();
}

#[test]
fn a_machine_without_threads_to_spare() {
    let (folder, mut command) = (tempfile::tempdir().unwrap(), child("errors::child_may_not_start_all_workers"));
    // Large stacks: a thread that has one, and finds no memory for a small one for signals beside it, aborts.
    command.env("SHARDWRIGHT_TEST_PATH", folder.path()).env("RUST_MIN_STACK", (64 << 20).to_string());
    let output = within(120, move || command.output().unwrap());
    assert!(output.status.success(), "{}", told(&output));
}

#[test]
#[ignore = "run by another test, in a process of its own"]
fn child_may_not_start_all_workers() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let kilobytes = |name: &str| -> u64 {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    // Room for the stacks of some of the thousand, but not of all.
    limit(Resource::As, (kilobytes("VmSize") + (1 << 20)) << 10);
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let before = threads();
    let error = refused(&child_path(), "run.zarr", Config { workers: 1000, ..tiny(None, 8) });
    let is_of_threads = matches!(&error, Error::Io { action, .. } if action.contains("thread"));
    assert!(is_of_threads && error.to_string().contains("run.zarr"), "{error:?}");
    wait_until("the workers that had started have ended", || threads() <= before);
    Acquisition::create(child_path().join("run.zarr"), tiny(None, 8)).unwrap();
}

#[test]
fn a_limit_on_files_is_an_error_of_create_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    in_child("errors::child_may_not_write_large_files", folder.path());
}

#[test]
fn a_ring_that_memory_does_not_hold_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    in_child("errors::child_has_little_memory", folder.path());
}

#[test]
#[ignore = "run by another test, in a process of its own"]
fn child_has_little_memory() {
    limit(Resource::As, 512 << 20);
    let large = vec![Dim::time(None).chunk(1).shard(1), Dim::y(1024), Dim::x(1024)];
    let error = refused(&child_path(), "run.zarr", Config { ring_bytes: 1 << 30, ..dims(large) });
    assert!(matches!(&error, Error::Config { field: "ring_bytes", .. }), "{error:?}");
    assert!(error.to_string().to_lowercase().contains("memory"), "{error}");
}

#[test]
#[ignore = "run by another test, in a process of its own"]
fn child_may_not_write_large_files() {
    // The kernel answers what is larger with a signal that nobody here ignores: it would end the process.
    limit(Resource::Fsize, 1 << 20);
    for storage in [StorageKind::Mapped, StorageKind::Buffered] {
        let large = vec![Dim::time(None).chunk(1).shard(16384), Dim::y(16), Dim::x(16)];
        let error = refused(&child_path(), "new/run.zarr", Config { storage, ..dims(large) });
        let Error::Io { action, path, source } = &error else { panic!("{error:?}") };
        assert!(action.contains("reserve") && path.ends_with("c/0/0/0"), "{error}");
        assert_eq!(source.kind(), std::io::ErrorKind::FileTooLarge, "{error}");
    }
}
