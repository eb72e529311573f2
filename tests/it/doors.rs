//! What a program finds at the doors of the library: names, types, sizes and handles that fit, or a sentence.

use std::fmt::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::common::child::in_child;
use serde_json::{Value, json};
use shardwright::offline::{Array, Verify, VerifyOptions};
use shardwright::{
    Acquisition, Codec, Compressor, Config, Dataset, Dialect, Dim, Dtype, Error, ErrorKind, FillValue, Memory, Record,
    RecordField, StorageKind,
};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record as Values};
use tracing::{Event, Metadata, Subscriber};

fn config(rows: u64, columns: u64) -> Config {
    let dims = vec![Dim::time(None), Dim::y(rows), Dim::x(columns)];
    Config { dims, storage: StorageKind::Buffered, ..Config::default() }
}

#[test]
fn frames_of_any_size_fit_the_defaults() {
    for (rows, columns, dtype) in [(1, 1, Dtype::U8), (1, 1, Dtype::U16), (2, 3, Dtype::U16), (1, 4000, Dtype::F64)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.zarr");
        let config = Config { dtype, ..config(rows, columns) };
        let acquisition = Acquisition::create(&path, config).unwrap();
        let bytes = acquisition.frame_bytes();
        for number in 0..100 {
            let _ = acquisition.append(&vec![number; bytes]).unwrap();
        }
        acquisition.finish().unwrap();
        let pixels = Array::open(&path).unwrap().read_all().unwrap();
        assert!(pixels.chunks(bytes).zip(0..).all(|(frame, number)| frame.iter().all(|&byte| byte == number)));
        assert_eq!(pixels.len(), 100 * bytes);
    }
}

#[test]
fn a_dataset_within_a_running_one_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    let acquisition = Acquisition::create(&path, config(4, 4)).unwrap();
    for below in ["other.zarr", "0/other.zarr", "records/a/b/c"] {
        let error = Acquisition::create(path.join(below), config(4, 4)).unwrap_err().to_string();
        assert!(error.contains("is being written"), "{error}");
    }
    let _ = acquisition.append(&[1; 32]).unwrap();
    acquisition.finish().unwrap();
    assert!(!path.join("other.zarr").exists() && !path.join("records/a").exists());
}

#[test]
fn a_storage_that_holds_something_is_not_written_over() {
    let storage = Arc::new(Memory::new());
    Acquisition::create_in(storage.clone(), config(4, 4)).unwrap().finish().unwrap();
    let before = storage.read("zarr.json");
    let overwriting = Config { overwrite: true, ..config(4, 4) };
    let image = Acquisition::create_in(storage.clone(), overwriting).map(drop);
    for refused in [image, Dataset::create_in(storage.clone()).map(drop)] {
        let error = refused.unwrap_err();
        assert!(matches!(&error, Error::StorageUsed { storage: "memory" }), "{error}");
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        let text = error.to_string();
        assert!(text.contains("already holds something") && !text.contains("overwriting"), "{text}");
    }
    assert!(before.is_some() && storage.read("zarr.json") == before);
}

#[test]
fn images_have_no_names_of_documents() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = Dataset::create(folder.path().join("run.zarr")).unwrap();
    for name in ["zarr.json", "OME", "ome", ".hidden", "a/b", ""] {
        assert!(matches!(dataset.acquisition(name, config(4, 4)), Err(Error::Config { field: "name", .. })), "{name}");
    }
}

#[test]
fn a_fill_value_that_json_has_no_number_for_goes_there_and_back() {
    for (value, text) in [(f64::NAN, "NaN"), (f64::INFINITY, "Infinity"), (f64::NEG_INFINITY, "-Infinity")] {
        let config = Config { fill_value: value.into(), dtype: Dtype::F32, ..Config::default() };
        let json = serde_json::to_value(&config).unwrap();
        assert_eq!(json["fill_value"], text);
        let back: Config = serde_json::from_value(json).unwrap();
        assert!(matches!(back.fill_value, FillValue::Float(found) if found.total_cmp(&value).is_eq()));
    }
    let error = serde_json::from_str::<Config>("{\"fill_value\": \"nought\"}").unwrap_err().to_string();
    assert!(error.contains("NaN, Infinity or -Infinity"), "{error}");
}

#[test]
fn records_go_by_name_and_what_nobody_measured_is_no_number() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    let field = |name: &str, dtype| RecordField { name: name.into(), dtype };
    let record_fields = vec![field("laser", Dtype::U8), field("stage", Dtype::F64), field("gain", Dtype::I16)];
    let codec = Codec { compressor: Compressor::None, checksum: false };
    let acquisition = Acquisition::create(&path, Config { record_fields, codec, ..config(4, 4) }).unwrap();
    let [laser, stage] = ["laser", "stage"].map(|name| acquisition.record_field(name).unwrap());
    let error = acquisition.record_field("lazer").unwrap_err().to_string();
    assert!(error.contains("laser, stage, gain"), "{error}");
    for record in [Record::stamped(1).with(laser, 3.0).with(stage, 1.5), Record::stamped(2).with(laser, 255)] {
        let _ = acquisition.append_with(&[1; 32], 8, record).unwrap();
    }
    acquisition.finish().unwrap();
    let read = |name: &str| Array::open(path.join("records").join(name)).unwrap().read_all().unwrap();
    assert_eq!(read("laser"), [3, 255]);
    let stages: Vec<_> = read("stage").as_chunks::<8>().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect();
    assert!(stages[0] == 1.5 && stages[1].is_nan(), "{stages:?}");
    assert_eq!(read("gain"), [0; 4]);
}

#[test]
fn elements_are_of_the_arrays_type_or_refused() {
    let acquisition = Acquisition::create_in(Arc::new(Memory::new()), config(3, 5)).unwrap();
    let mut frame = acquisition.acquire().unwrap();
    assert!(frame.elements::<i16>().unwrap_err().to_string().contains("int16"));
    let elements = frame.elements::<u16>().unwrap();
    assert_eq!(elements.len(), 15);
    elements.copy_from_slice(&[0x0201; 15]);
    assert!(frame.bytes().iter().zip([1, 2].iter().cycle()).all(|(byte, expected)| byte == expected));
}

#[test]
fn after_close_frames_that_came_are_there_and_no_more_come() {
    let storage = Arc::new(Memory::new());
    let acquisition = Arc::new(Acquisition::create_in(storage, config(4, 4)).unwrap());
    let cameras: Vec<_> = (0..4)
        .map(|_| {
            let acquisition = acquisition.clone();
            std::thread::spawn(move || (0..).take_while(|_| acquisition.append(&[7; 32]).is_ok()).count() as u64)
        })
        .collect();
    while acquisition.stats().frames_accepted < 1000 {
        std::thread::yield_now();
    }
    acquisition.close();
    let taken: u64 = cameras.into_iter().map(|camera| camera.join().unwrap()).sum();
    assert!(matches!(acquisition.acquire(), Err(Error::Ended)));
    let summary = Arc::into_inner(acquisition).unwrap().finish().unwrap();
    assert_eq!((summary.frames_accepted, summary.frames_written, summary.frames_missing), (taken, taken, 0));
}

/// Keeps what it is told.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Values<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        struct Text<'a>(&'a mut String);
        impl Visit for Text<'_> {
            fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
                write!(self.0, " {field}={value:?}").unwrap();
            }
        }
        let mut text = self.0.lock().unwrap();
        write!(text, "{}", event.metadata().level()).unwrap();
        event.record(&mut Text(&mut text));
        text.push('\n');
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn a_run_tells_its_course() {
    in_child("doors::child_tells_its_course", Path::new(""));
}

/// What other tests do at the same time decides in this process who is listened to.
#[test]
#[ignore = "another test runs it in a process of its own"]
fn child_tells_its_course() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    let log = Log::default();
    tracing::subscriber::with_default(log.clone(), || {
        let acquisition = Acquisition::create(&path, config(4, 4)).unwrap();
        let _ = acquisition.append(&[1; 32]).unwrap();
        acquisition.finish().unwrap();
    });
    let text = std::mem::take(&mut *log.0.lock().unwrap());
    let lines: Vec<_> = text.lines().filter(|line| line.starts_with("INFO")).collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines[0].contains("an acquisition begins") && lines[0].contains("storage=\"buffered"), "{text}");
    assert!(lines[0].contains("run.zarr"), "{text}");
    assert!(lines[1].contains("the acquisition ended") && lines[1].contains("frames=1 "), "{text}");
    // Who aborts a run is told of what is lost, and not that something is broken.
    tracing::subscriber::with_default(log.clone(), || {
        let dims = vec![Dim::time(None).chunk(2), Dim::y(4), Dim::x(4)];
        let deep = Config { dims, ..config(4, 4) };
        let acquisition = Acquisition::create(folder.path().join("off.zarr"), deep).unwrap();
        let _ = acquisition.append(&[1; 32]).unwrap();
        acquisition.abort();
    });
    let text = log.0.lock().unwrap().clone();
    assert!(!text.contains("ERROR") && text.contains("WARN message=the acquisition was aborted"), "{text}");
}

#[test]
fn attributes_come_back_as_they_were_set_or_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    let dialect = Dialect::Zarr2Sharded;
    let sharded = Config {
        dialect,
        index_checksum: false,
        codec: Codec { compressor: Compressor::None, checksum: false },
        ..config(16, 16)
    };
    let acquisition = Acquisition::create(folder.path().join("run2.zarr"), sharded).unwrap();
    assert!(acquisition.set_attribute("_ARRAY_DIMENSIONS", "x".into()).is_err());
    let acquisition = Acquisition::create(&path, config(16, 16)).unwrap();
    let nested = |levels: usize| (0..levels).fold(Value::from(1), |value, _| Value::Array(vec![value]));
    let deep = acquisition.set_attribute("deep", nested(65)).unwrap_err().to_string();
    assert!(deep.contains("nested deeper than 64 levels"), "{deep}");
    let own = json!({"\0-0": ["\0-0", "\0NaN", "\0\0", "a\0"], "deep": nested(63)});
    acquisition.set_attribute("own", own.clone()).unwrap();
    let _ = acquisition.append(&[1; 512]).unwrap();
    acquisition.finish().unwrap();
    let document: Value = serde_json::from_slice(&std::fs::read(path.join("zarr.json")).unwrap()).unwrap();
    assert_eq!(document["attributes"]["own"], own);
    assert!(Array::open(path.join("0")).is_ok());
    let notes = Verify::new(&path, &VerifyOptions::default()).unwrap().run().unwrap();
    assert!(notes.is_sound(), "{notes:?}");
}

#[test]
fn names_that_no_file_system_takes_are_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    for (length, is_possible) in [(200, true), (201, false)] {
        let record_fields = vec![RecordField { name: "a".repeat(length), dtype: Dtype::F64 }];
        let made = Acquisition::create(&path, Config { record_fields, overwrite: true, ..config(16, 16) });
        assert_eq!(made.is_ok(), is_possible);
        assert!(is_possible || matches!(made, Err(Error::Config { field: "record_fields.name", .. })));
        let dataset = Dataset::create(folder.path().join(format!("set-{length}"))).unwrap();
        assert_eq!(dataset.acquisition(&"a".repeat(length), config(16, 16)).is_ok(), is_possible);
    }
}
