//! A shard of a precomputed volume: as bytes alone, whatever bits its ids are cut into, and in a dataset of this
//! crate's writer in place of the one that it wrote.
#![no_main]

mod common;

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use common::{Good, changed_shard, look_at, repair, seal_headers, written};
use libfuzzer_sys::fuzz_target;
use shardwright::offline::Array;
use shardwright::{Codec, Compressor, Config, Dialect, Dim, Volume, VolumeHash};

/// Its folder, its shard, all of its files.
type Dataset = (PathBuf, Good, Good);

static DATASETS: LazyLock<Vec<Dataset>> = LazyLock::new(|| {
    let gzip = Compressor::Gzip { level: 1 };
    let hash = VolumeHash::Murmurhash3X86_128;
    let bits = |hash, bits: [u8; 3]| Volume {
        hash,
        preshift_bits: Some(bits[0]),
        minishard_bits: Some(bits[1]),
        shard_bits: Some(bits[2]),
        gzip_indexes: bits[0] == 1,
        ..Volume::default()
    };
    vec![
        dataset(None, Compressor::None, Volume::default()),
        dataset(None, gzip, Volume { gzip_indexes: true, ..Volume::default() }),
        dataset(Some(4), gzip, bits(hash, [1, 1, 0])),
        dataset(Some(4), Compressor::None, bits(VolumeHash::Identity, [0, 2, 0])),
    ]
});

fn dataset(frames: Option<u64>, compressor: Compressor, volume: Volume) -> Dataset {
    let config = Config {
        dialect: Dialect::Precomputed,
        dims: vec![Dim::time(frames).chunk(2), Dim::y(11).chunk(8), Dim::x(13).chunk(8)],
        codec: Codec { compressor, checksum: false },
        volume: Volume { key: Some("0".into()), ..volume },
        ..Config::default()
    };
    let path = written(config, (0..3).map(|number| (0..143).map(|at: u8| number + at / 7).collect()));
    let mut shards = fs::read_dir(path.join("0")).expect("a folder").map(|entry| entry.expect("a file").file_name());
    let shard = shards.next().expect("a shard").into_string().expect("hexadecimal digits");
    let (shard, files) = (Good::of(&path, &[&format!("0/{shard}")]), Good::all(&path));
    (path, shard, files)
}

fuzz_target!(|data: &[u8]| {
    let Some((&mode, data)) = data.split_first() else { return };
    if mode & 128 != 0 {
        return shardwright::offline::fuzzing::volume(data);
    }
    let (path, Good(shards), files) = &DATASETS[usize::from(mode) % 4];
    let [(shard, good)] = &shards[..] else { unreachable!() };
    let mut bytes = if mode & 4 == 0 { changed_shard(good, data) } else { data.to_vec() };
    if mode & 8 != 0 {
        seal_headers(&mut bytes);
    }
    files.put_back();
    fs::write(shard, &bytes).expect("written");
    drop(Array::open(path).and_then(|array| array.read_all()));
    look_at(path);
    drop(repair(path));
});
