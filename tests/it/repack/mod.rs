//! Whatever is repacked, in place or into a new dataset, killed or not: the pixels are the same and the gaps are gone.

mod again;
mod around;
mod dialects;
mod kills;

use crate::common::{checked, manifests, recovered};
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::child::child;
use crate::common::stopped::{copy_tree, finished};
use crate::common::{movie, movie_config as config};
use proptest::prelude::*;
use serde_json::{Value, json};
use shardwright::offline::{
    Array, ArrayDescription, ChunkOrder, ManifestOptions, Pyramid, PyramidOptions, Recover, RecoverOptions, Repack,
    RepackOptions, RepackSummary, Sharding, SpaceCheck, Verify, VerifyOptions, describe,
};
use shardwright::{
    Acquisition, BloscCname, Codec, Compressor, Config, Dialect, Dim, Dtype, Error, IndexLocation, Placement, Shuffle,
    Volume, VolumeHash,
};

/// By this file a finished new dataset is known again.
const RECEIPT: &str = ".shardwright.repack.json";

fn plain(compressor: Compressor) -> Codec {
    Codec { compressor, checksum: false }
}

fn options() -> RepackOptions {
    RepackOptions { sync: false, workers: 2, ..RepackOptions::default() }
}

fn pixels(path: &Path) -> Vec<u8> {
    Array::open(path).unwrap().read_all().unwrap()
}

fn repack(path: &Path, out: Option<&Path>, options: &RepackOptions) -> RepackSummary {
    Repack::new(path, out, options).unwrap().run().unwrap()
}

fn image(path: &Path) -> ArrayDescription {
    let arrays = describe(path).unwrap().arrays;
    arrays.into_iter().find(|array| array.shape.len() > 1).unwrap()
}

/// The offsets of a shard's chunks in the order of its index, which stands at the end.
fn offsets(shard: &Path, chunks: usize) -> Vec<u64> {
    let bytes = fs::read(shard).unwrap();
    let index = &bytes[bytes.len() - 4 - chunks * 16..];
    let offset = |entry: &[u8]| u64::from_le_bytes(entry[..8].try_into().unwrap());
    index.chunks_exact(16).map(offset).take(chunks).collect()
}

/// The attributes of a dataset without what is said of slots, which a repacked one has none of.
fn attributes(path: &Path) -> Value {
    let mut attributes = describe(path).unwrap().attributes;
    attributes["shardwright"].as_object_mut().unwrap().remove("slots");
    attributes
}

/// Whoever checks the dataset finds nothing wrong with it.
fn assert_sound(path: &Path) {
    let verified = checked(path).unwrap();
    assert_eq!(verified.damage, 0, "{:?}", verified.findings);
}

/// All files below a folder, hidden ones too.
fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

fn files_but_receipt(folder: &Path) -> Vec<String> {
    files(folder).into_iter().filter(|name| !name.ends_with(RECEIPT)).collect()
}

#[test]
fn gaps_go_and_pixels_stay() {
    for placement in [Placement::Fixed, Placement::Packed] {
        for index_location in [IndexLocation::Start, IndexLocation::End] {
            for compressor in [Compressor::None, Compressor::default()] {
                let folder = tempfile::tempdir().unwrap();
                let config = Config { placement, index_location, codec: Codec::from(compressor), ..config() };
                let path = movie(folder.path(), &config);
                let (before, expected) = (describe(&path).unwrap(), pixels(&path));
                assert!(before.arrays[0].gap_bytes > 0);
                let listed = files(&path);
                let expected_attributes = attributes(&path);
                let out = folder.path().join("new.zarr");
                for target in [Some(&*out), None] {
                    let summary = repack(&path, target, &options());
                    let result = target.unwrap_or(&path);
                    let after = image(result);
                    assert_eq!((after.gap_bytes, after.damaged.len()), (0, 0));
                    assert_eq!(after.chunks_present, before.arrays[0].chunks_present);
                    assert_eq!(after.bytes_payload, before.arrays[0].bytes_payload);
                    assert_eq!(summary.shards_written, before.arrays[0].shard_files);
                    assert_eq!(summary.bytes, after.bytes_payload);
                    assert!(pixels(result) == expected);
                    assert_eq!(attributes(result), expected_attributes);
                    assert_sound(result);
                    assert_eq!(files_but_receipt(result), listed);
                    assert_eq!(files(result).len() - listed.len(), usize::from(target.is_some()));
                }
                // What is as it should be is left alone.
                let again = repack(&path, None, &options());
                assert_eq!((again.shards_written, again.shards_found), (0, before.arrays[0].shard_files));
                assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
            }
        }
    }
}

#[test]
fn chunks_stand_in_the_order_that_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = movie(folder.path(), &Config { placement: Placement::Packed, ..config() });
    let expected = pixels(&path);
    let shard = path.join("0/c/0/0/0");
    let before = offsets(&shard, 12);
    let rank = |offsets: &[u64]| {
        let mut order: Vec<usize> = (0..offsets.len()).collect();
        order.sort_by_key(|&chunk| offsets[chunk]);
        order
    };
    repack(&path, None, &RepackOptions { order: ChunkOrder::Kept, ..options() });
    assert_eq!(rank(&offsets(&shard, 12)), rank(&before));
    assert_eq!(image(&path).gap_bytes, 0);
    // 2 x 2 x 3 chunks per shard.
    repack(&path, None, &RepackOptions { order: ChunkOrder::Morton, ..options() });
    assert_eq!(rank(&offsets(&shard, 12)), [0, 1, 3, 4, 6, 7, 9, 10, 2, 5, 8, 11]);
    assert!(pixels(&path) == expected);
    repack(&path, None, &RepackOptions { order: ChunkOrder::C, ..options() });
    assert_eq!(rank(&offsets(&shard, 12)), (0..12).collect::<Vec<_>>());
    assert!(pixels(&path) == expected);
}

#[test]
fn codecs_and_shapes_change_together_with_their_documents() {
    let zstd = Codec::from(Compressor::Zstd { level: 9 });
    let gzip = Codec { compressor: Compressor::Gzip { level: 5 }, checksum: false };
    let cases = [
        RepackOptions { codec: Some(zstd.clone()), ..options() },
        RepackOptions { codec: Some(gzip), order: ChunkOrder::Morton, ..options() },
        RepackOptions { shard: vec![8, 16, 16], ..options() },
        RepackOptions { shard: vec![2, 48, 16], order: ChunkOrder::Kept, ..options() },
        RepackOptions { chunk: vec![4, 8, 0], ..options() },
        RepackOptions { chunk: vec![3, 7, 5], shard: vec![9, 21, 25], codec: Some(zstd), ..options() },
        RepackOptions { chunk: vec![1, 40, 50], shard: vec![3, 40, 50], order: ChunkOrder::Morton, ..options() },
        RepackOptions { index_location: Some(IndexLocation::Start), ..options() },
    ];
    for case in cases {
        for in_place in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let path = movie(folder.path(), &config());
            fs::write(path.join("0/notes.txt"), "keep me").unwrap();
            let (before, expected) = (image(&path), pixels(&path));
            let out = folder.path().join("new.zarr");
            let result = if in_place { &path } else { &out };
            repack(&path, (!in_place).then_some(&*out), &case);
            let after = image(result);
            assert!(pixels(result) == expected, "{case:?}");
            assert_eq!((after.gap_bytes, after.damaged.len()), (0, 0), "{case:?}");
            assert_sound(result);
            let array = Array::open(result).unwrap();
            if let Some(codec) = &case.codec {
                assert_eq!(array.codec(), codec);
            }
            let sizes = |requested: &[u64], now: &[u64]| -> Vec<u64> {
                let pick =
                    |(at, now): (usize, &u64)| requested.get(at).copied().filter(|&size| size > 0).unwrap_or(*now);
                now.iter().enumerate().map(pick).collect()
            };
            assert_eq!(after.chunk_shape, sizes(&case.chunk, &before.chunk_shape));
            assert_eq!(after.shard_shape.unwrap(), sizes(&case.shard, &before.shard_shape.clone().unwrap()));
            assert_eq!(fs::read_to_string(result.join("0/notes.txt")).unwrap(), "keep me");
            assert!(pixels(&result.join("records/frame_number")) == pixels(&path.join("records/frame_number")));
            if in_place {
                // The old array is gone, and asking for the same again finds nothing to do.
                assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
                let again = RepackOptions { order: case.order, ..case.clone() };
                assert_eq!(repack(&path, None, &again).shards_written, 0, "{case:?}");
            }
        }
    }
}

#[test]
fn missing_chunks_stay_missing_when_chunks_are_cut_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = movie(folder.path(), &config());
    repack(&path, None, &RepackOptions { chunk: vec![1, 20, 25], shard: vec![4, 40, 50], ..options() });
    // Frames 4, 5 and 6 never came.
    let after = image(&path);
    assert_eq!((after.chunks_present, after.chunks_empty), (6 * 4, 3 * 4));
}

#[test]
fn files_of_chunks_become_shards_and_manifests_become_datasets() {
    let folder = tempfile::tempdir().unwrap();
    let path = movie(folder.path(), &config());
    let expected = pixels(&path);
    let manifest = folder.path().join("manifest");
    manifests(&path, &manifest, &ManifestOptions::default()).unwrap();
    let out = folder.path().join("whole.zarr");
    repack(&manifest, Some(&out), &RepackOptions { shard: vec![4, 48, 64], ..options() });
    fs::remove_dir_all(&path).unwrap();
    fs::remove_dir_all(&manifest).unwrap();
    assert!(pixels(&out) == expected);
    assert_eq!(image(&out).shard_shape, Some(vec![4, 48, 64]));
    assert!(!out.join("0/manifest.json").exists());
}

#[test]
fn an_array_alone_is_repacked_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = movie(folder.path(), &config());
    let expected = pixels(&path);
    repack(&path.join("0"), None, &options());
    assert_eq!(image(&path).gap_bytes, 0);
    repack(&path.join("0"), None, &RepackOptions { chunk: vec![1, 8, 8], ..options() });
    assert!(pixels(&path) == expected);
    assert_eq!(image(&path).chunk_shape, [1, 8, 8]);
    assert!(files(&path).iter().all(|file| !file.contains("repack") && !file.ends_with(".lock")));
}

#[test]
fn names_of_folders_may_be_no_text() {
    let folder = tempfile::tempdir().unwrap();
    let odd = folder.path().join(OsStr::from_bytes(b"M\xfcller"));
    fs::create_dir(&odd).unwrap();
    let path = movie(&odd, &config());
    let expected = pixels(&path);
    let out = odd.join("new.zarr");
    repack(&path, Some(&out), &options());
    repack(&path, None, &RepackOptions { chunk: vec![1, 8, 8], ..options() });
    assert!(pixels(&path) == expected && pixels(&out) == expected);
    let pyramid = Pyramid::new(&path, &PyramidOptions::default()).and_then(|pyramid| pyramid.run());
    assert!(pyramid.is_ok(), "{pyramid:?}");
}

#[test]
fn consolidated_metadata_follows() {
    let folder = tempfile::tempdir().unwrap();
    let path = movie(folder.path(), &config());
    let read = |file: &Path| -> Value { serde_json::from_slice(&fs::read(file).unwrap()).unwrap() };
    let mut group = read(&path.join("zarr.json"));
    group["consolidated_metadata"] = json!({
        "kind": "inline", "must_understand": false, "metadata": {"0": read(&path.join("0/zarr.json")), "records": {}},
    });
    fs::write(path.join("zarr.json"), group.to_string()).unwrap();
    let out = folder.path().join("new.zarr");
    let change = RepackOptions { shard: vec![4, 64, 64], ..options() };
    for target in [Some(&*out), None] {
        repack(&path, target, &change);
        let result = target.unwrap_or(&path);
        let group = read(&result.join("zarr.json"));
        assert_eq!(group["consolidated_metadata"]["metadata"]["0"], read(&result.join("0/zarr.json")));
        assert_eq!(group["consolidated_metadata"]["metadata"]["records"], json!({}));
    }
}

#[test]
fn a_damaged_chunk_ends_the_work_and_nothing_is_lost() {
    for change in [options(), RepackOptions { codec: Some(Codec::from(Compressor::Zstd { level: 1 })), ..options() }] {
        for in_place in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let path = movie(folder.path(), &config());
            let shard = path.join("0/c/0/0/0");
            let mut bytes = fs::read(&shard).unwrap();
            bytes[100] ^= 1;
            fs::write(&shard, &bytes).unwrap();
            let out = folder.path().join("new.zarr");
            let error = Repack::new(&path, (!in_place).then_some(&*out), &change).unwrap().run().unwrap_err();
            assert!(matches!(&error, Error::Format { path, .. } if *path == shard.canonicalize().unwrap()), "{error}");
            assert!(error.to_string().contains("the bytes were changed"), "{error}");
            assert!(fs::read(&shard).unwrap() == bytes);
            assert!(!out.exists());
        }
    }
}

#[test]
fn what_can_t_be_is_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = movie(folder.path(), &config());
    let before = files(folder.path());
    let refused = |out: Option<&Path>, options: RepackOptions| Repack::new(&path, out, &options).unwrap_err();
    assert!(matches!(refused(Some(&path), options()), Error::Config { field: "out", .. }));
    assert!(matches!(refused(Some(&path.join("in")), options()), Error::Config { field: "out", .. }));
    let shard = RepackOptions { shard: vec![3, 32, 32], ..options() };
    assert!(matches!(refused(None, shard), Error::Config { field: "shard", .. }));
    let chunk = RepackOptions { chunk: vec![1, 1, 1, 1], ..options() };
    assert!(matches!(refused(None, chunk), Error::Config { field: "chunk", .. }));
    let level = Codec::from(Compressor::Gzip { level: 12 });
    assert!(refused(None, RepackOptions { codec: Some(level), ..options() }).to_string().contains("12"));
    let memory = RepackOptions { memory_bytes: 1000, ..options() };
    assert!(matches!(refused(None, memory), Error::Config { field: "memory_bytes", .. }));
    let records = Repack::new(path.join("records"), None, &options()).unwrap_err();
    assert!(records.to_string().contains("no array with shards that is to be repacked"), "{records}");
    // A folder that only looks like ours.
    let foreign = folder.path().join(".new.zarr.repack");
    fs::create_dir_all(foreign.join("tree")).unwrap();
    fs::write(foreign.join("tree/thesis.tex"), "x").unwrap();
    let out = folder.path().join("new.zarr");
    let error = Repack::new(&path, Some(&out), &options()).and_then(|repack| repack.run()).unwrap_err();
    assert!(matches!(&error, Error::Exists { path, .. } if *path == foreign), "{error}");
    assert!(foreign.join("tree/thesis.tex").exists());
    fs::remove_dir_all(foreign).unwrap();
    assert_eq!(files(folder.path()), before);
}

#[test]
fn a_dataset_that_is_being_written_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    let acquisition = Acquisition::create(&path, config()).unwrap();
    let out = folder.path().join("new.zarr");
    for target in [None, Some(&*out)] {
        let error = Repack::new(&path, target, &options()).unwrap_err();
        assert!(matches!(error, Error::Locked { .. }), "{error}");
    }
    let array = Repack::new(path.join("0"), None, &options()).unwrap_err();
    assert!(matches!(array, Error::Locked { .. }), "{array}");
    let part = Recover::new(path.join("0"), &RecoverOptions::default()).unwrap_err();
    assert!(matches!(part, Error::Locked { .. }), "{part}");
    let part = Verify::new(path.join("0"), &VerifyOptions::default()).unwrap_err();
    assert!(matches!(part, Error::Locked { .. }), "{part}");
    acquisition.finish().unwrap();
}

#[test]
fn what_a_recovery_may_still_find_is_not_thrown_away() {
    let folder = tempfile::tempdir().unwrap();
    let path = movie(folder.path(), &config());
    let document = path.join("zarr.json");
    let text = fs::read_to_string(&document).unwrap().replace("\"complete\": true", "\"complete\": false");
    fs::write(&document, text).unwrap();
    let refused = Repack::new(&path, None, &options()).unwrap_err().to_string();
    assert!(refused.contains("did not finish"), "{refused}");
    let refused = Repack::new(path.join("0"), None, &options()).unwrap_err().to_string();
    assert!(refused.contains("did not finish"), "{refused}");
    // Nor is there a copy that nothing can recover, unless that is asked for.
    let out = folder.path().join("new.zarr");
    let refused = Repack::new(&path, Some(&out), &options()).unwrap_err().to_string();
    assert!(refused.contains("recover it first") && !out.exists(), "{refused}");
    let incomplete = RepackOptions { incomplete: true, ..options() };
    repack(&path, Some(&out), &incomplete);
    repack(&path, None, &incomplete);
    assert_eq!(image(&path).gap_bytes, 0);
}

/// Nothing can be recovered of a copy, so it is what the indexes named, and says what is missing.
#[test]
fn a_copy_of_a_run_that_was_stopped_is_a_finished_dataset() {
    for deep in [1, 2] {
        let every = std::time::Duration::from_millis(20);
        let dims = vec![Dim::time(None).chunk(deep).shard(8), Dim::y(16).chunk(8), Dim::x(16)];
        let pyramid = Some(shardwright::Downsampling { levels: Some(1), ..Default::default() });
        let config = Config { dims, checkpoint_every: every, pyramid, sync: false, ..config() };
        let folder = tempfile::tempdir().unwrap();
        let numbers: Vec<u64> = (0..20).filter(|number| ![4, 5].contains(number)).collect();
        let path = crate::common::stopped::stopped(folder.path(), &config, &numbers, 18);
        let expected = pixels(&path);
        for in_place in [false, true] {
            let out = if in_place { path.clone() } else { folder.path().join("new.zarr") };
            let options = RepackOptions { incomplete: true, ..options() };
            repack(&path, (!in_place).then_some(&*out), &options);
            assert!(pixels(&out) == expected);
            let said: Value = serde_json::from_slice(&fs::read(out.join("zarr.json")).unwrap()).unwrap();
            let own = &said["attributes"]["shardwright"];
            assert_eq!((&own["frames"], &own["frames_missing"]), (&json!(20), &json!(2)), "{own}");
            assert_eq!(own["missing"], json!([[4, 6]]));
            crate::common::stopped::sound(&out);
            // As any finished one, it is repacked without more words.
            let again = folder.path().join(format!("again-{in_place}.zarr"));
            repack(&out, Some(&again), &RepackOptions::default());
            assert!(pixels(&again) == expected);
        }
    }
}

#[test]
fn little_memory_is_enough() {
    let folder = tempfile::tempdir().unwrap();
    let path = movie(folder.path(), &config());
    let expected = pixels(&path);
    let out = folder.path().join("new.zarr");
    let change = RepackOptions { chunk: vec![4, 16, 48], shard: vec![4, 32, 48], memory_bytes: 64 << 10, ..options() };
    repack(&path, Some(&out), &change);
    assert!(pixels(&out) == expected);
}

#[test]
fn what_was_begun_for_another_end_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = movie(folder.path(), &config());
    let expected = pixels(&path);
    let out = folder.path().join("new.zarr");
    // A call that was killed after its first shard: what it made, under the name that it had.
    let zstd = RepackOptions { codec: Some(Codec::from(Compressor::Zstd { level: 1 })), ..options() };
    let other = folder.path().join("other.zarr");
    repack(&path, Some(&other), &zstd);
    let staging = folder.path().join(".new.zarr.repack");
    fs::create_dir_all(staging.join("tree")).unwrap();
    fs::rename(other.join("0"), staging.join("tree/0")).unwrap();
    fs::remove_file(staging.join("tree/0/zarr.json")).unwrap();
    fs::write(staging.join("journal.json"), json!({"version": 1, "arrays": {"0": {"other": 1}}}).to_string()).unwrap();
    let summary = repack(&path, Some(&out), &options());
    assert_eq!(summary.shards_found, 0);
    assert!(pixels(&out) == expected);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn any_shape_becomes_any_other(
        sizes in prop::array::uniform3(1u64..20),
        from in prop::array::uniform3((1u64..6, 1u64..4)),
        to in prop::array::uniform3((1u64..6, 1u64..4)),
        kind in (0usize..4, 0usize..4, any::<bool>(), any::<bool>(), 0usize..3, any::<bool>()),
    ) {
        let blosc = Compressor::Blosc { cname: BloscCname::Zstd, level: 1, shuffle: Shuffle::Byte, block_bytes: 0 };
        let compressors = [Compressor::None, Compressor::default(), Compressor::Zstd { level: 1 }, blosc];
        let (was, becomes, packed, start, order, in_place) = kind;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("in.zarr");
        let dim = |at: usize, name: &str| {
            Dim { chunk: from[at].0, shard: from[at].0 * from[at].1, ..Dim::new(name, Default::default(), sizes[at]) }
        };
        let config = Config {
            dtype: Dtype::U16,
            dims: vec![dim(0, "a"), dim(1, "b"), dim(2, "c")],
            codec: Codec::from(compressors[was]),
            placement: if packed { Placement::Packed } else { Placement::Fixed },
            index_location: if start { IndexLocation::Start } else { IndexLocation::End },
            ring_bytes: 1 << 20,
            workers: 1,
            sync: false,
            ..Config::default()
        };
        finished(&path, &config, &(0..sizes[0]).filter(|number| number % 5 != 3).collect::<Vec<_>>());
        let expected = pixels(&path.join("0"));
        let options = RepackOptions {
            order: [ChunkOrder::C, ChunkOrder::Morton, ChunkOrder::Kept][order],
            codec: Some(Codec::from(compressors[becomes])),
            chunk: to.iter().map(|to| to.0).collect(),
            shard: to.iter().map(|to| to.0 * to.1).collect(),
            ..options()
        };
        let out = folder.path().join("out.zarr");
        repack(&path, (!in_place).then_some(&*out), &options);
        let result = if in_place { &path } else { &out };
        prop_assert!(pixels(&result.join("0")) == expected);
        prop_assert_eq!(image(result).gap_bytes, 0);
    }
}
