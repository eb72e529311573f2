//! The documents of a dataset: the input is that of its array or its group, or each of them, cut at a zero byte.
#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use shardwright::offline::{Array, describe, recover, verify};
use shardwright::{Acquisition, Config, Dim, Dtype};

struct Dataset {
    path: PathBuf,
    array: Vec<u8>,
    group: Vec<u8>,
}

static DATASET: LazyLock<Dataset> = LazyLock::new(|| {
    let path = tempfile::tempdir_in("/dev/shm").expect("a folder").keep().join("run.zarr");
    let dims = vec![Dim::time(None).chunk(1).shard(2), Dim::y(4), Dim::x(4)];
    let config = Config { dtype: Dtype::U8, dims, ring_bytes: 1 << 16, workers: 1, sync: false, ..Config::default() };
    let acquisition = Acquisition::create(&path, config).expect("a run");
    (0..3).for_each(|number| drop(acquisition.append(&[number; 16]).expect("a frame")));
    acquisition.finish().expect("a dataset");
    let read = |name: &str| fs::read(path.join(name)).expect("a document");
    Dataset { array: read("0/zarr.json"), group: read("zarr.json"), path }
});

fuzz_target!(|data: &[u8]| {
    let Dataset { path, array, group } = &*DATASET;
    let mut parts = data.splitn(2, |&byte| byte == 0);
    let part = |part: Option<&[u8]>, good: &[u8]| part.filter(|part| !part.is_empty()).unwrap_or(good).to_vec();
    fs::write(path.join("0/zarr.json"), part(parts.next(), array)).expect("written");
    fs::write(path.join("zarr.json"), part(parts.next(), group)).expect("written");
    let Ok(array) = Array::open(path.join("0")) else { return };
    // A document may ask for chunks of gigabytes, and get them; that is no finding.
    let bytes = array.chunk_shape().iter().try_fold(8u64, |bytes, &length| bytes.checked_mul(length));
    let index = array.shard_shape().unwrap_or_default().iter().try_fold(16u64, |bytes, &length| bytes.checked_mul(length));
    if bytes.is_none_or(|bytes| bytes > 16 << 20) || index.is_none_or(|bytes| bytes > 16 << 20) {
        return;
    }
    drop(describe(path));
    drop(verify(path, |_, _| ()));
    drop(recover(path, false, |_, _| ()));
});
