//! The documents of a dataset: the input says what is changed in those of its array and its group, or is both of them, cut
//! at a zero byte.
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
    (0..3).for_each(|number| assert_eq!(acquisition.append(&[number; 16]).expect("a frame").frames, 1));
    acquisition.finish().expect("a dataset");
    let read = |name: &str| fs::read(path.join(name)).expect("a document");
    Dataset { array: read("0/zarr.json"), group: read("zarr.json"), path }
});

/// A good document with a few bytes replaced, taken out or said again.
fn changed(good: &[u8], edits: &[[u8; 5]]) -> Vec<u8> {
    let mut document = good.to_vec();
    for &[low, high, kind, length, byte] in edits {
        let at = usize::from(u16::from_le_bytes([low, high])) % (document.len() + 1);
        let end = (at + usize::from(length % 32)).min(document.len());
        match kind % 4 {
            0 => drop(document.drain(at..end)),
            1 => drop(document.splice(at..at, good[..].iter().copied().skip(at).take(end - at).collect::<Vec<_>>())),
            // Most that matters are numbers.
            2 => drop(document.splice(at..end, byte.to_string().into_bytes())),
            _ => drop(document.splice(at..end.min(at + 1), [byte])),
        }
    }
    document
}

fuzz_target!(|data: &[u8]| {
    let Dataset { path, array, group } = &*DATASET;
    let Some((&mode, data)) = data.split_first() else { return };
    let (first, second) = match mode % 4 {
        0 => {
            let (first, second) = data.split_at(data.iter().position(|&byte| byte == 0).unwrap_or(data.len()));
            (first.to_vec(), second.get(1..).unwrap_or_default().to_vec())
        }
        1 => (changed(array, data.as_chunks().0), group.clone()),
        2 => (array.clone(), changed(group, data.as_chunks().0)),
        _ => (changed(array, data.as_chunks().0), changed(group, data.as_chunks().0)),
    };
    fs::write(path.join("0/zarr.json"), first).expect("written");
    fs::write(path.join("zarr.json"), second).expect("written");
    let Ok(array) = Array::open(path.join("0")) else { return };
    // A document may ask for chunks of gigabytes, and get them; that is no finding.
    let bytes = array.chunk_shape().iter().try_fold(8u64, |bytes, &length| bytes.checked_mul(length));
    let index =
        array.shard_shape().unwrap_or_default().iter().try_fold(16u64, |bytes, &length| bytes.checked_mul(length));
    if bytes.is_none_or(|bytes| bytes > 16 << 20) || index.is_none_or(|bytes| bytes > 16 << 20) {
        return;
    }
    drop(describe(path));
    drop(verify(path, |_, _| ()));
    drop(recover(path, false, |_, _| ()));
});
