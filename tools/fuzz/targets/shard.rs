//! A whole shard of a dataset: the input says what is changed in a good one, or is one itself. Everything that reads or
//! repairs it follows, and what comes of the repair must be sound.
#![no_main]

mod common;

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use common::{Good, changed_shard, look_at, repair, seal, seal_headers, written};
use libfuzzer_sys::fuzz_target;
use shardwright::offline::Array;
use shardwright::{Codec, Compressor, Config, Dim, IndexLocation, Placement};

const SHARD: &str = "0/c/0/0/0";
const INDEX_BYTES: usize = 16 * 8 + 4;

struct Dataset {
    path: PathBuf,
    shard: Vec<u8>,
    files: Good,
    location: IndexLocation,
}

static DATASETS: LazyLock<Vec<Dataset>> = LazyLock::new(|| {
    let placements = [Placement::Fixed, Placement::Packed];
    let all = placements.into_iter().flat_map(|p| [(p, IndexLocation::End), (p, IndexLocation::Start)]);
    let compressors =
        [Compressor::None, Compressor::Zstd { level: 1 }, Compressor::default(), Compressor::Gzip { level: 1 }];
    all.zip(compressors).map(|((placement, location), compressor)| dataset(placement, location, compressor)).collect()
});

fn dataset(placement: Placement, index_location: IndexLocation, compressor: Compressor) -> Dataset {
    let config = Config {
        dims: vec![Dim::time(None).chunk(1).shard(2), Dim::y(16).chunk(8), Dim::x(16).chunk(8)],
        codec: Codec { compressor, checksum: index_location == IndexLocation::Start },
        placement,
        index_location,
        ..Config::default()
    };
    let path = written(config, (0..2).map(|number| (0..=255).map(|at: u8| number + at / 7).collect()));
    let shard = fs::read(path.join(SHARD)).expect("a shard");
    Dataset { files: Good::all(&path), path, shard, location: index_location }
}

fuzz_target!(|data: &[u8]| {
    let Some((&mode, data)) = data.split_first() else { return };
    let dataset = &DATASETS[usize::from(mode) % 4];
    let mut shard = if mode & 4 == 0 { changed_shard(&dataset.shard, data) } else { data.to_vec() };
    if mode & 8 != 0 {
        seal_headers(&mut shard);
    }
    if mode & 16 != 0 && shard.len() >= INDEX_BYTES {
        let at = if dataset.location == IndexLocation::End { shard.len() - INDEX_BYTES } else { 0 };
        seal(&mut shard[at..at + INDEX_BYTES]);
    }
    dataset.files.put_back();
    fs::write(dataset.path.join(SHARD), &shard).expect("written");
    drop(Array::open(&dataset.path).and_then(|array| array.read_all()));
    look_at(&dataset.path);
    let Some(found) = repair(&dataset.path) else { return };
    if found.images.iter().flat_map(|image| &image.shards).all(|shard| shard.reason.is_none()) {
        let array = Array::open(&dataset.path).expect("an array");
        let small = array.shape()[0] < 1 << 10;
        assert!(!small || array.read_all().is_ok() || dataset.shard.is_empty() || mode & 8 != 0, "it can't be read");
    }
});
