//! A shard of a precomputed volume: as bytes alone, whatever bits its ids are cut into, and in a dataset of this crate's writer
//! in place of the one that it wrote.
#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use shardwright::offline::{Array, describe, recover, verify};
use shardwright::{Acquisition, Codec, Compressor, Config, Dialect, Dim, Dtype, Volume, VolumeHash};

struct Dataset {
    path: PathBuf,
    shard: PathBuf,
    good: Vec<u8>,
    info: Vec<u8>,
}

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
    let path = tempfile::tempdir_in("/dev/shm").expect("a folder").keep().join("run");
    let config = Config {
        dialect: Dialect::Precomputed,
        dtype: Dtype::U8,
        dims: vec![Dim::time(frames).chunk(2), Dim::y(11).chunk(8), Dim::x(13).chunk(8)],
        codec: Codec { compressor, checksum: false },
        volume: Volume { key: Some("0".into()), ..volume },
        ring_bytes: 1 << 16,
        workers: 1,
        sync: false,
        ..Config::default()
    };
    let acquisition = Acquisition::create(&path, config).expect("a run");
    for number in 0..3u8 {
        let pixels: Vec<u8> = (0..143).map(|at: u8| number + at / 7).collect();
        acquisition.append(&pixels).expect("a frame");
    }
    acquisition.finish().expect("a dataset");
    let mut shards = fs::read_dir(path.join("0")).expect("a folder").map(|entry| entry.expect("a file").path());
    let shard = shards.next().expect("a shard");
    let read = |path: &PathBuf| fs::read(path).expect("a file");
    Dataset { good: read(&shard), info: read(&path.join("info")), path, shard }
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
    if mode & 128 != 0 {
        return shardwright::offline::fuzzing::volume(data);
    }
    let Dataset { path, shard, good, info } = &DATASETS[usize::from(mode) % 4];
    let mut bytes = if mode & 4 == 0 { changed(good, data) } else { data.to_vec() };
    if mode & 8 != 0 {
        // So that what comes behind a checksum is reached.
        for at in (0..bytes.len().saturating_sub(63)).step_by(8) {
            if bytes[at..].starts_with(b"SWc1") {
                let crc = crc32c::crc32c(&bytes[at..at + 60]);
                bytes[at + 60..at + 64].copy_from_slice(&crc.to_le_bytes());
            }
        }
    }
    fs::write(shard, &bytes).expect("written");
    fs::write(path.join("info"), info).expect("written");
    drop(Array::open(path).and_then(|array| array.read_all()));
    drop(describe(path));
    drop(verify(path, |_, _| ()));
    if recover(path, true, |_, _| ()).is_ok() {
        let again = recover(path, false, |_, _| ()).expect("what was recovered can be looked at");
        assert!(!again.is_needed(), "a second recovery finds something to do: {again:#?}");
    }
});
