//! The codec that a run chooses by itself, and the effort that it makes while it goes on.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::on_disk;
use crate::common::storage::{Call, Probed, read_back, save, scratch};
use serde_json::{Value, json};
use shardwright::offline::{Repack, RepackOptions};
use shardwright::{
    Acquisition, Codec, Compressor, Config, Dialect, Dim, Dtype, Error, Memory, Record, Storage, Summary,
};
use zarrs::array::{Array, ArrayBytes};
use zarrs::filesystem::FilesystemStore;

const SIDE: u64 = 256;
pub(crate) const FRAME_BYTES: usize = 2 * (SIDE * SIDE) as usize;
/// Where a trial writes.
const TRIAL: &str = ".trial";

fn config(frames: Option<u64>) -> Config {
    Config {
        dtype: Dtype::U16,
        dims: vec![Dim::time(frames).chunk(1).shard(64), Dim::y(SIDE), Dim::x(SIDE)],
        codec: Compressor::Auto.into(),
        ring_bytes: 32 * FRAME_BYTES,
        workers: 1,
        ..Config::default()
    }
}

/// Frames of noise in the lowest five bits.
pub(crate) fn frames() -> Vec<Vec<u8>> {
    let mut state = 1_u64;
    let mut element = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        100 + ((state >> 33) % 32) as u16
    };
    (0..16).map(|_| (0..FRAME_BYTES / 2).flat_map(|_| element().to_ne_bytes()).collect()).collect()
}

fn run(storage: Arc<dyn Storage>, config: Config, count: usize) -> Summary {
    let acquisition = Acquisition::create_in(storage, config).unwrap();
    let frames = frames();
    for number in 0..count {
        let _ = acquisition.append(&frames[number % frames.len()]).unwrap();
    }
    acquisition.finish().unwrap()
}

fn check_pixels(memory: &Memory, summary: &Summary) {
    let (shape, pixels) = read_back(memory);
    assert_eq!((shape[0], summary.frames_missing), (summary.frames_written, 0));
    let frames = frames();
    assert!(pixels.chunks(FRAME_BYTES).enumerate().all(|(at, frame)| frame == frames[at % frames.len()]));
}

fn document(memory: &Memory, key: &str) -> Value {
    serde_json::from_slice(&memory.read(key).unwrap()).unwrap()
}

/// The compressor in the Blosc frames that the array's document names.
fn cname(memory: &Memory) -> String {
    let codecs = document(memory, "0/zarr.json")["codecs"][0]["configuration"]["codecs"].clone();
    let blosc = codecs.as_array().unwrap().iter().find(|codec| codec["name"] == "blosc").unwrap();
    assert_eq!(
        (&blosc["configuration"]["clevel"], &blosc["configuration"]["shuffle"]),
        (&json!(1), &"bitshuffle".into())
    );
    blosc["configuration"]["cname"].as_str().unwrap().to_owned()
}

/// A storage that takes few megabytes per second while it is tried, fewer than a codec gives on however busy a machine.
fn slow() -> Probed {
    Probed::new(|call, key| {
        if call == Call::WriteAt && key == TRIAL {
            sleep(Duration::from_millis(200));
        }
        Ok(())
    })
}

/// A storage that refuses to be tried.
pub(crate) fn unknown() -> Probed {
    Probed::new(|_, key| if key == TRIAL { Err(io::Error::other("no trials here")) } else { Ok(()) })
}

fn note<'a>(summary: &'a Summary, start: &str) -> &'a str {
    let note = summary.notes.iter().find(|note| note.starts_with(start));
    note.unwrap_or_else(|| panic!("no note {start:?} in {:?}", summary.notes))
}

#[test]
fn a_slow_storage_gets_the_smaller_codec_and_the_documents_name_what_was_chosen() {
    // What memory gets depends on how busy the machine is.
    for (storage, expected) in [(slow(), Some("zstd")), (Probed::new(|_, _| Ok(())), None)] {
        let summary = run(storage.shared(), config(None), 100);
        let named = cname(&storage.memory);
        assert_eq!(named, expected.unwrap_or(&named), "{:?}", summary.notes);
        let note = note(&summary, &format!("codec blosc-{named} "));
        assert!(note.contains("blosc-lz4 ") && note.contains("the storage takes"), "{note}");
        assert!(!storage.memory.keys().iter().any(|key| key.contains(TRIAL)), "the trial left something behind");
        check_pixels(&storage.memory, &summary);
    }
}

#[test]
fn what_can_t_be_tried_or_is_short_gets_the_usual_codec() {
    let summary = run(unknown().shared(), config(None), 10);
    assert!(note(&summary, "codec blosc-lz4 ").contains("not known"));
    let untried = Probed::new(|_, key| if key == TRIAL { panic!("a short run is not worth a trial") } else { Ok(()) });
    let summary = run(untried.shared(), config(Some(10)), 10);
    assert_eq!(note(&summary, "codec "), "codec blosc-lz4 (a short run)");
    let summary = run(untried.shared(), Config { codec: Codec::default(), ..config(None) }, 10);
    assert_eq!(summary.notes, [""; 0], "nothing was left open");
}

#[test]
fn a_folder_is_tried_as_it_will_be_written() {
    let folder = on_disk();
    let path = folder.path().join("run.zarr");
    let acquisition = Acquisition::create(&path, config(None)).unwrap();
    let frames = frames();
    for number in 0..100 {
        let _ = acquisition.append(&frames[number % frames.len()]).unwrap();
    }
    let summary = acquisition.finish().unwrap();
    let choice = note(&summary, "codec blosc-");
    assert!(choice.contains("the storage takes") || choice.contains("a core writes"), "{choice}");
    check_stock(&path);
}

#[test]
fn a_volume_gets_one_of_the_codecs_that_it_has() {
    let dims = vec![Dim::z(None).chunk(16).scale(1.0, "nanometer"), Dim::y(SIDE), Dim::x(SIDE)];
    let dims = dims.into_iter().map(|dim| dim.scale(1.0, "nanometer")).collect();
    let codec = Codec { compressor: Compressor::Auto, checksum: false };
    let volume = Config { dims, codec, dialect: Dialect::Precomputed, ring_bytes: 1 << 23, ..config(None) };
    for (storage, expected, encoding) in [(slow(), "gzip", "gzip"), (unknown(), "none", "raw")] {
        let summary = run(storage.shared(), volume.clone(), 64);
        note(&summary, &format!("codec {expected} ("));
        let info = document(&storage.memory, "info");
        assert_eq!(info["scales"][0]["sharding"]["data_encoding"], encoding);
    }
    // The drafts have both.
    let draft = Config { dialect: Dialect::Zarr3Transformer, codec: volume.codec.clone(), ..config(None) };
    note(&run(slow().shared(), draft, 64), "codec blosc-zstd (");
}

#[test]
fn a_repacking_refuses_to_choose() {
    let folder = scratch();
    let storage = unknown();
    run(storage.shared(), config(None), 10);
    let (path, out) = (folder.path().join("run.zarr"), folder.path().join("out.zarr"));
    save(&storage.memory, &path);
    let options = RepackOptions { codec: Some(Compressor::Auto.into()), ..RepackOptions::default() };
    let error = Repack::new(&path, Some(&out), &options).expect_err("it is refused");
    assert!(matches!(&error, Error::Config { field: "codec.compressor", value, .. } if value == "auto"), "{error}");
    assert!(error.to_string().contains("name the codec") && !out.exists(), "{error}");
}

#[test]
fn the_choice_has_a_name_in_documents() {
    let config = config(None);
    let json = serde_json::to_value(&config).unwrap();
    assert_eq!(json["codec"]["compressor"], json!({"name": "auto"}));
    assert_eq!(serde_json::from_value::<Config>(json).unwrap().codec, config.codec);
}

/// Feeds a run as fast as it goes, so that the ring is full, until what is written shows that the effort went down;
/// then gives it little until the effort has gone up again. How long either takes depends on how busy the machine is.
pub(crate) fn changing_run(storage: &Probed) -> Summary {
    // Encoding them all takes longer than a busy machine needs to give the feeding thread its turn.
    let config = Config { ring_bytes: 512 * FRAME_BYTES, ..config(None) };
    let acquisition = Acquisition::create_in(storage.shared(), config).unwrap();
    let (frames, start) = (frames(), Instant::now());
    let mut number = 0;
    // Whether most of the next frames that are written are stored as they are: with more effort each takes a third.
    let mut is_stored = |count: usize| {
        let before = acquisition.stats();
        for _ in 0..count {
            let mut frame = acquisition.acquire().unwrap();
            // A copy of each would take half as long as encoding it; most buffers have the frame from before.
            let pixels = &frames[number % frames.len()];
            if frame[..] != pixels[..] {
                frame.copy_from_slice(pixels);
            }
            frame.commit(number as u64, Record::default()).unwrap();
            number += 1;
        }
        let written = || acquisition.stats().frames_written - before.frames_written;
        // Fewer than were given, so that the ring fills, and no longer than that takes.
        while written() < count as u64 / 4 + 1 {
            sleep(Duration::from_micros(100));
        }
        let now = acquisition.stats();
        let pixels = (now.frames_written - before.frames_written) * FRAME_BYTES as u64;
        now.bytes_out - before.bytes_out > pixels / 2
    };
    // A storage that is waited for may raise it again soon. Some two gigabytes of memory at the most.
    let went_down = (0..2000).any(|_| is_stored(20));
    assert!(went_down, "the effort never went down in {:?}", start.elapsed());
    while is_stored(1) {
        assert!(start.elapsed() < Duration::from_secs(300), "the effort never went up again");
        sleep(Duration::from_millis(100));
    }
    acquisition.finish().unwrap()
}

#[test]
fn a_full_ring_lowers_the_effort_and_an_empty_one_raises_it() {
    let storage = unknown();
    let summary = changing_run(&storage);
    let down = note(&summary, "chunks with effort stored from ");
    assert!(down.contains("the ring filled, and encoding was what it waited for"), "{down}");
    let up = note(&summary, "chunks with effort normal from ");
    assert!(up.contains("nearly empty"), "{up}");
    assert_eq!(cname(&storage.memory), "lz4");
    check_pixels(&storage.memory, &summary);
    let folder = scratch();
    save(&storage.memory, folder.path());
    let lengths = check_stock(folder.path());
    // A stored chunk has a header more than its pixels, and a checksum.
    let stored = lengths.iter().filter(|&&length| length >= FRAME_BYTES as u64).count();
    assert!((1..lengths.len()).contains(&stored), "{stored} of {} chunks are stored", lengths.len());
}

/// Reads a dataset by `zarrs`, and returns the lengths of its chunks.
fn check_stock(path: &Path) -> Vec<u64> {
    let array = Array::open(Arc::new(FilesystemStore::new(path.join("0")).unwrap()), "/").unwrap();
    let whole: ArrayBytes = array.retrieve_array_subset(&array.subset_all()).unwrap();
    let (pixels, frames) = (whole.into_fixed().unwrap(), frames());
    assert!(pixels.chunks(FRAME_BYTES).enumerate().all(|(at, frame)| frame == frames[at % frames.len()]));
    let mut lengths = Vec::new();
    for shard in 0..array.shape()[0].div_ceil(64) {
        let bytes = std::fs::read(path.join(format!("0/c/{shard}/0/0"))).unwrap();
        let index = &bytes[bytes.len() - 4 - 64 * 16..bytes.len() - 4];
        let words = index.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        lengths.extend(words.skip(1).step_by(2).filter(|&length| length != u64::MAX));
    }
    lengths
}

#[test]
fn a_fixed_codec_stays_what_was_asked_for() {
    let storage = unknown();
    let summary = run(storage.shared(), Config { codec: Codec::default(), ..config(None) }, 2000);
    assert!(summary.notes.is_empty(), "{:?}", summary.notes);
    assert!(summary.bytes_out < 9 * summary.bytes_in / 10, "{} of {}", summary.bytes_out, summary.bytes_in);
}
