//! A whole shard of a dataset: the input says what is changed in a good one, or is one itself. Everything that reads or
//! repairs it follows, and what comes of the repair must be sound.
#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use shardwright::offline::{Array, describe, recover, verify};
use shardwright::{Acquisition, Codec, Compressor, Config, Dim, Dtype, IndexLocation, Placement};

const SHARD: &str = "0/c/0/0/0";
const INDEX_BYTES: usize = 16 * 8 + 4;

struct Dataset {
    path: PathBuf,
    shard: Vec<u8>,
    documents: Vec<(PathBuf, Vec<u8>)>,
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
    let path = tempfile::tempdir_in("/dev/shm").expect("a folder").keep().join("run.zarr");
    let config = Config {
        dtype: Dtype::U8,
        dims: vec![Dim::time(None).chunk(1).shard(2), Dim::y(16).chunk(8), Dim::x(16).chunk(8)],
        codec: Codec { compressor, checksum: index_location == IndexLocation::Start },
        placement,
        index_location,
        ring_bytes: 1 << 16,
        workers: 1,
        sync: false,
        ..Config::default()
    };
    let acquisition = Acquisition::create(&path, config).expect("a run");
    for number in 0..2u8 {
        let pixels: Vec<u8> = (0..=255).map(|at: u8| number + at / 7).collect();
        acquisition.append(&pixels).expect("a frame");
    }
    acquisition.finish().expect("a dataset");
    let shard = fs::read(path.join(SHARD)).expect("a shard");
    let documents = ["zarr.json", "0/zarr.json", "records/frame_number/zarr.json"].map(|name| path.join(name));
    let documents = documents.into_iter().map(|path| (path.clone(), fs::read(path).expect("a document"))).collect();
    Dataset { path, shard, documents, location: index_location }
}

/// Puts the checksum of all before into the last four bytes, so that what comes behind a checksum is reached.
fn seal(bytes: &mut [u8]) {
    if let Some((data, crc)) = bytes.split_last_chunk_mut::<4>() {
        *crc = crc32c::crc32c(data).to_le_bytes();
    }
}

fn changed(good: &[u8], edits: &[u8]) -> Vec<u8> {
    let mut shard = good.to_vec();
    for edit in edits.chunks_exact(4) {
        let at = usize::from(u16::from_le_bytes([edit[0], edit[1]])) % (shard.len() + 1);
        match edit[2] % 16 {
            0 => shard.truncate(at),
            1 => {
                let tail = shard[at..].to_vec();
                shard.extend(tail);
            }
            2 => shard.splice(at..at, std::iter::repeat_n(0, edit[3].into())).for_each(drop),
            _ => {
                if let Some(byte) = shard.get_mut(at) {
                    *byte = edit[3];
                }
            }
        }
        shard.truncate(1 << 20);
    }
    shard
}

fuzz_target!(|data: &[u8]| {
    let Some((&mode, data)) = data.split_first() else { return };
    let dataset = &DATASETS[usize::from(mode) % 4];
    let mut shard = if mode & 4 == 0 { changed(&dataset.shard, data) } else { data.to_vec() };
    if mode & 8 != 0 {
        let headers: Vec<_> =
            (0..shard.len().saturating_sub(63)).step_by(8).filter(|&at| shard[at..].starts_with(b"SWc1")).collect();
        headers.into_iter().for_each(|at| seal(&mut shard[at..at + 64]));
    }
    if mode & 16 != 0 && shard.len() >= INDEX_BYTES {
        let at = if dataset.location == IndexLocation::End { shard.len() - INDEX_BYTES } else { 0 };
        seal(&mut shard[at..at + INDEX_BYTES]);
    }
    fs::write(dataset.path.join(SHARD), &shard).expect("written");
    dataset.documents.iter().for_each(|(path, bytes)| fs::write(path, bytes).expect("written"));
    drop(Array::open(&dataset.path).and_then(|array| array.read_all()));
    drop(describe(&dataset.path));
    drop(verify(&dataset.path, |_, _| ()));
    let Ok(found) = recover(&dataset.path, true, |_, _| ()) else { return };
    let left = found.images.iter().flat_map(|image| &image.shards).any(|shard| shard.reason.is_some());
    let again = recover(&dataset.path, false, |_, _| ()).expect("what was recovered can be looked at");
    assert!(!again.is_needed(), "a second recovery finds something to do: {again:#?}");
    if !left {
        let array = Array::open(&dataset.path).expect("an array");
        let small = array.shape()[0] < 1 << 10;
        assert!(!small || array.read_all().is_ok() || dataset.shard.is_empty() || mode & 8 != 0, "it can't be read");
    }
});
