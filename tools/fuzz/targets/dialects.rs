//! The documents of datasets that are no Zarr v3: the input says what is changed in one of them, or is that document.
#![no_main]

mod common;

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use common::{Good, changed_document, is_small, look_at, recovered, written};
use libfuzzer_sys::fuzz_target;
use shardwright::offline::Array;
use shardwright::{Codec, Compressor, Config, Dialect, Dim};

static DATASETS: LazyLock<Vec<(PathBuf, Good)>> = LazyLock::new(|| {
    vec![
        dataset(Dialect::Zarr3Transformer, &["zarr.json", "meta/root.group.json", "meta/root/0.array.json"]),
        dataset(Dialect::Zarr2Sharded, &[".zarray", ".zattrs"]),
        dataset(Dialect::Precomputed, &["info"]),
    ]
});

fn dataset(dialect: Dialect, documents: &[&str]) -> (PathBuf, Good) {
    let dims = vec![Dim::time(None).chunk(1), Dim::y(4), Dim::x(4)];
    let codec = Codec { compressor: Compressor::None, checksum: false };
    let path = written(Config { dialect, dims, codec, ..Config::default() }, (0..3).map(|number| vec![number; 16]));
    let good = Good::of(&path, documents);
    (path, good)
}

fuzz_target!(|data: &[u8]| {
    let [mode, which, data @ ..] = data else { return };
    let (path, good) = &DATASETS[usize::from(mode / 2) % 3];
    good.put_back();
    let (name, good) = &good.0[usize::from(*which) % good.0.len()];
    let document = if mode % 2 == 0 { changed_document(good, data) } else { data.to_vec() };
    fs::write(name, document).expect("written");
    let Ok(array) = Array::open(path) else { return };
    if !is_small(&array, path) {
        return;
    }
    look_at(path);
    drop(recovered(path, false));
});
