//! The documents of a dataset: the input says what is changed in those of its array and its group, or is both of them,
//! cut at a zero byte.
#![no_main]

mod common;

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use common::{Good, changed_document as changed, is_small, look_at, recovered, written};
use libfuzzer_sys::fuzz_target;
use shardwright::offline::Array;
use shardwright::{Config, Dim};

static DATASET: LazyLock<(PathBuf, Good)> = LazyLock::new(|| {
    let dims = vec![Dim::time(None).chunk(1).shard(2), Dim::y(4), Dim::x(4)];
    let path = written(Config { dims, ..Config::default() }, (0..3).map(|number| vec![number; 16]));
    let good = Good::of(&path, &["0/zarr.json", "zarr.json"]);
    (path, good)
});

fuzz_target!(|data: &[u8]| {
    let (path, Good(files)) = &*DATASET;
    let [(array_path, array), (group_path, group)] = &files[..] else { unreachable!() };
    let Some((&mode, data)) = data.split_first() else { return };
    let (first, second) = match mode % 4 {
        0 => {
            let (first, second) = data.split_at(data.iter().position(|&byte| byte == 0).unwrap_or(data.len()));
            (first.to_vec(), second.get(1..).unwrap_or_default().to_vec())
        }
        1 => (changed(array, data), group.clone()),
        2 => (array.clone(), changed(group, data)),
        _ => (changed(array, data), changed(group, data)),
    };
    fs::write(array_path, first).expect("written");
    fs::write(group_path, second).expect("written");
    let Ok(array) = Array::open(path.join("0")) else { return };
    if !is_small(&array, path) {
        return;
    }
    look_at(path);
    drop(recovered(path, false));
});
