//! A program can tell apart what it has to do about an error: mend its call, look elsewhere, wait, recover, give up.

use std::fs;
use std::io;
use std::sync::Arc;

use crate::common::{frame, tiny};
use serde_json::{Value, json};
use shardwright::offline::{Array, Pyramid, PyramidOptions, Repack, RepackOptions, Store};
use shardwright::{Acquisition, Config, Error, ErrorKind, RingFull};

#[test]
fn each_kind_comes_from_a_call() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    let path = place("run.zarr");
    let create = |config: Config| Acquisition::create(&path, config).map(drop).unwrap_err().kind();
    let config = || Config { ring_full: RingFull::Error, ..tiny(None, 8) };

    let acquisition = Acquisition::create(&path, config()).unwrap();
    assert_eq!(create(Config { dims: Vec::new(), ..config() }), ErrorKind::InvalidArgument);
    assert_eq!(create(config()), ErrorKind::Locked);
    let mut lent = Vec::new();
    let full = loop {
        match acquisition.acquire() {
            Ok(frame) => lent.push(frame),
            Err(error) => break error,
        }
    };
    assert_eq!(full.kind(), ErrorKind::RingFull);
    drop(lent);
    let _ = acquisition.append(&frame(0, 256)).unwrap();
    acquisition.close();
    assert_eq!(acquisition.append(&frame(1, 256)).unwrap_err().kind(), ErrorKind::Ended);
    acquisition.finish().unwrap();
    assert_eq!(create(config()), ErrorKind::AlreadyExists);

    let others = place("photos");
    fs::create_dir(&others).unwrap();
    fs::write(others.join("one.jpg"), "mine").unwrap();
    let taken = Acquisition::create(&others, Config { overwrite: true, ..config() }).map(drop).unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::Conflict, "{taken}");
    assert_eq!(Array::open(&others).unwrap_err().kind(), ErrorKind::NotFound);

    let store = Store::open(&path).unwrap();
    assert_eq!(store.get("../photos/one.jpg").unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(Store::edit(path.join("0")).map(drop).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let file = path.join("0/zarr.json");
    let whole: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let read = |document: &[u8]| {
        fs::write(&file, document).unwrap();
        Array::open(&path).unwrap_err().kind()
    };
    assert_eq!(read(b"{"), ErrorKind::Corrupt);
    let mut strings = whole.clone();
    strings["data_type"] = json!("string");
    strings["fill_value"] = json!("");
    assert_eq!(read(strings.to_string().as_bytes()), ErrorKind::Unsupported);
    fs::write(&file, whole.to_string()).unwrap();
}

/// What a writer leaves that was killed.
#[test]
fn a_dataset_whose_writer_did_not_finish_is_told_from_a_damaged_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    let acquisition = Acquisition::create(&path, tiny(None, 8)).unwrap();
    let _ = acquisition.append(&frame(0, 256)).unwrap();
    acquisition.finish().unwrap();
    let document = path.join("zarr.json");
    let text = fs::read_to_string(&document).unwrap().replace("\"complete\": true", "\"complete\": false");
    fs::write(&document, text).unwrap();
    let array = Array::open(&path).unwrap().check_finished();
    let store = Store::edit(&path).map(drop);
    let pyramid = Pyramid::new(&path, &PyramidOptions::default()).map(drop);
    let repack = Repack::new(&path, None, &RepackOptions::default()).map(drop);
    for refused in [array, store, pyramid, repack] {
        let error = refused.unwrap_err();
        assert!(error.kind() == ErrorKind::Unfinished && error.to_string().contains("recover it first"), "{error}");
    }
}

#[test]
fn what_the_system_and_threads_say_has_kinds_of_its_own() {
    let of_io = |kind| Error::Io { action: "write", path: "x".into(), source: Arc::new(io::Error::from(kind)) };
    let internal = Error::Panicked { message: "a bug".into() };
    for (error, kind) in [
        (of_io(io::ErrorKind::StorageFull), ErrorKind::StorageFull),
        (of_io(io::ErrorKind::NotFound), ErrorKind::NotFound),
        (of_io(io::ErrorKind::PermissionDenied), ErrorKind::Io),
        (Error::Stopped, ErrorKind::Stopped),
        (internal, ErrorKind::Internal),
    ] {
        assert_eq!(error.kind(), kind, "{error}");
    }
}
