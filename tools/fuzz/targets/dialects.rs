//! The documents of datasets that are no Zarr v3: the input says what is changed in one of them, or is that document.
#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use shardwright::offline::{Array, describe, recover, verify};
use shardwright::{Acquisition, Codec, Compressor, Config, Dialect, Dim, Dtype};

struct Dataset {
    path: PathBuf,
    documents: Vec<(PathBuf, Vec<u8>)>,
}

static DATASETS: LazyLock<Vec<Dataset>> = LazyLock::new(|| {
    vec![
        dataset(Dialect::Zarr3Transformer, &["zarr.json", "meta/root.group.json", "meta/root/0.array.json"]),
        dataset(Dialect::Zarr2Sharded, &[".zarray", ".zattrs"]),
        dataset(Dialect::Precomputed, &["info"]),
    ]
});

fn dataset(dialect: Dialect, documents: &[&str]) -> Dataset {
    let path = tempfile::tempdir_in("/dev/shm").expect("a folder").keep().join("run");
    let dims = vec![Dim::time(None).chunk(1), Dim::y(4), Dim::x(4)];
    let codec = Codec { compressor: Compressor::None, checksum: false };
    let config =
        Config { dialect, dtype: Dtype::U8, dims, codec, ring_bytes: 1 << 16, workers: 1, sync: false, ..Config::default() };
    let acquisition = Acquisition::create(&path, config).expect("a run");
    (0..3).for_each(|number| assert_eq!(acquisition.append(&[number; 16]).expect("a frame").frames, 1));
    acquisition.finish().expect("a dataset");
    let read = |name: &&str| (path.join(name), fs::read(path.join(name)).expect("a document"));
    Dataset { documents: documents.iter().map(read).collect(), path }
}

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
    let [mode, which, data @ ..] = data else { return };
    let Dataset { path, documents } = &DATASETS[usize::from(mode / 2) % 3];
    documents.iter().for_each(|(path, bytes)| fs::write(path, bytes).expect("written"));
    let (name, good) = &documents[usize::from(*which) % documents.len()];
    let document = if mode % 2 == 0 { changed(good, data.as_chunks().0) } else { data.to_vec() };
    fs::write(name, document).expect("written");
    let Ok(array) = Array::open(path) else { return };
    // A document may ask for chunks of gigabytes, and get them; that is no finding.
    let bytes = array.chunk_shape().iter().try_fold(8u64, |bytes, &length| bytes.checked_mul(length));
    let table = array.shard_shape().unwrap_or_default().iter().try_fold(16u64, |bytes, &length| bytes.checked_mul(length));
    let is_volume = path.join("info").exists();
    if bytes.is_none_or(|bytes| bytes > 16 << 20) || (!is_volume && table.is_none_or(|bytes| bytes > 16 << 20)) {
        return;
    }
    drop(describe(path));
    drop(verify(path, |_, _| ()));
    drop(recover(path, false, |_, _| ()));
});
