//! Every dataset of the table comes out as it went in. With `SHARDWRIGHT_DATASETS` set, the datasets are kept in that
//! folder, each beside what a reader must see in it; the tests in `tests/python` read them there.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::auto;
use crate::common::cases::{self, Case, Image, Written};
use crate::common::storage::save;
use serde_json::{Value, json};
use shardwright::offline::Array;
use shardwright::{Acquisition, Config, Dim, Dtype, Memory};

#[test]
fn every_dataset_is_as_it_went_in() {
    let temporary = tempfile::tempdir().unwrap();
    let kept = env::var_os("SHARDWRIGHT_DATASETS").map(PathBuf::from);
    let folder = kept.as_deref().unwrap_or(temporary.path());
    for case in cases::all() {
        let path = folder.join(format!("{}.zarr", case.name));
        let images = case.write(&path);
        for (image, written) in case.images.iter().zip(&images) {
            check(&case.name, &path.join(image.group), image, written);
        }
        if kept.is_some() {
            describe(folder, &case, &images);
        }
    }
}

fn check(name: &str, path: &Path, image: &Image, written: &Written) {
    let array = Array::open(path.join("0")).unwrap();
    assert_eq!(array.shape(), written.expected.shape, "{name}");
    assert!(array.read_all().unwrap() == written.expected.pixels, "{name}: other pixels came out than went in");
    // Every place of the array has a frame or is missing one.
    let outer = written.summary.shape.len() - 2;
    let places = written.summary.shape[..outer].iter().product::<u64>();
    assert_eq!(written.summary.frames_written, image.numbers.len() as u64, "{name}");
    assert_eq!(written.summary.frames_missing, places - image.numbers.len() as u64, "{name}");
    assert!(written.summary.error.is_none(), "{name}");
}

/// Writes what readers must see: the pixels as raw bytes in the machine's order, the rest as JSON.
fn describe(folder: &Path, case: &Case, images: &[Written]) {
    let images: Vec<Value> = case
        .images
        .iter()
        .zip(images)
        .map(|(image, written)| {
            let pixels = match image.group {
                "" => format!("{}.raw", case.name),
                group => format!("{}.{}.raw", case.name, group.replace('/', "-")),
            };
            fs::write(folder.join(&pixels), &written.expected.pixels).unwrap();
            json!({
                "group": image.group,
                "shape": written.expected.shape,
                "dtype": image.config.dtype.zarr_name(),
                "dims": image.config.dims.iter().map(|dim| &dim.name).collect::<Vec<_>>(),
                "scale": image.config.dims.iter().map(|dim| dim.scale).collect::<Vec<_>>(),
                "translation": image.config.dims.iter().map(|dim| dim.translation).collect::<Vec<_>>(),
                "channels": image.config.channels.iter().map(|channel| &channel.label).collect::<Vec<_>>(),
                "fill": image.fill(),
                "portable": image.is_portable(),
                "ome": image.ome,
                "version": image.config.ome,
                "label": image.config.label,
                "pixels": pixels,
                "records": written.records,
                "attributes": image.attributes,
                "missing": written.summary.frames_missing,
            })
        })
        .collect();
    let description = json!({"name": case.name, "path": format!("{}.zarr", case.name), "images": images});
    fs::write(folder.join(format!("{}.json", case.name)), serde_json::to_vec_pretty(&description).unwrap()).unwrap();
}

/// One whose chunks were made with more than one effort, for the readers that only the tests in Python have.
#[test]
fn a_dataset_of_changing_effort_is_as_it_went_in() {
    let temporary = tempfile::tempdir().unwrap();
    let kept = env::var_os("SHARDWRIGHT_DATASETS").map(PathBuf::from);
    let folder = kept.as_deref().unwrap_or(temporary.path());
    let storage = auto::unknown();
    let summary = auto::changing_run(&storage);
    assert!(summary.notes.iter().any(|note| note.starts_with("chunks with effort stored")), "{:?}", summary.notes);
    let path = folder.join("effort.zarr");
    save(&storage.memory, &path);
    let array = Array::open(path.join("0")).unwrap();
    let pixels = array.read_all().unwrap();
    assert!(pixels.chunks(auto::FRAME_BYTES).zip(auto::frames().iter().cycle()).all(|(got, frame)| got == frame));
    fs::write(folder.join("effort.raw"), &pixels).unwrap();
    let anything = vec![Value::Null; array.shape()[0] as usize];
    let records = json!({
        "frame_number": Vec::from_iter(0..array.shape()[0]),
        "device_timestamp": &anything,
        "host_timestamp": &anything,
    });
    let description = json!({"name": "effort", "path": "effort.zarr", "images": [{
        "group": "", "shape": array.shape(), "dtype": "uint16", "dims": ["t", "y", "x"], "scale": [1.0, 1.0, 1.0],
        "translation": [0.0, 0.0, 0.0],
        "channels": [], "fill": [0, 0], "portable": true, "ome": true,
        "version": "0.5", "label": null, "pixels": "effort.raw", "records": records,
        "attributes": {}, "missing": 0,
    }]});
    fs::write(folder.join("effort.json"), serde_json::to_vec_pretty(&description).unwrap()).unwrap();
}

#[test]
fn automatic_shards_of_tiny_frames_have_an_index_that_readers_can_load() {
    let dims = vec![Dim::time(None), Dim::channel(2), Dim::y(9), Dim::x(7)];
    let config = Config { dtype: Dtype::U8, dims, ring_bytes: 1 << 20, ..Config::default() };
    let acquisition = Acquisition::create_in(Arc::new(Memory::new()), config).unwrap();
    let chunks = |(shard, chunk): (&u64, &u64)| shard / chunk;
    let count: u64 = acquisition.shard_shape().iter().zip(acquisition.chunk_shape()).map(chunks).product();
    assert!((1 << 15..=1 << 16).contains(&count), "{count} chunks per shard");
    acquisition.abort();
}
