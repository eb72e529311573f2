//! Whatever is repacked, in place or into a new dataset, killed or not: the pixels are the same and the gaps are gone.

use crate::common::{checked, manifests, recovered};
use std::env;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::child::child;
use crate::common::stopped::finished;
use crate::common::{movie, movie_config as config};
use proptest::prelude::*;
use serde_json::{Value, json};
use shardwright::offline::{
    Array, ArrayDescription, ChunkOrder, ManifestOptions, Repack, RepackOptions, RepackSummary, describe,
};
use shardwright::{
    Acquisition, BloscCname, Codec, Compressor, Config, Dialect, Dim, Dtype, Error, IndexLocation, Placement, Shuffle,
    Volume, VolumeHash,
};

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
                    assert_eq!(files(result), listed);
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
    // 2 x 2 x 3 chunks a shard.
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
            let sizes = |wished: &[u64], now: &[u64]| -> Vec<u64> {
                let pick = |(at, now): (usize, &u64)| wished.get(at).copied().filter(|&size| size > 0).unwrap_or(*now);
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
    assert!(matches!(refused(Some(&path), options()), Error::Exists { .. }));
    assert!(matches!(refused(Some(&path.join("in")), options()), Error::Format { .. }));
    let shard = RepackOptions { shard: vec![3, 32, 32], ..options() };
    assert!(matches!(refused(None, shard), Error::Config { field: "shard", .. }));
    let chunk = RepackOptions { chunk: vec![1, 1, 1, 1], ..options() };
    assert!(matches!(refused(None, chunk), Error::Config { field: "chunk", .. }));
    let level = Codec::from(Compressor::Gzip { level: 12 });
    assert!(refused(None, RepackOptions { codec: Some(level), ..options() }).to_string().contains("12"));
    let memory = RepackOptions { memory_bytes: 1000, ..options() };
    assert!(matches!(refused(None, memory), Error::Config { field: "memory_bytes", .. }));
    let records = Repack::new(path.join("records"), None, &options()).unwrap_err();
    assert!(records.to_string().contains("no array with shards"), "{records}");
    // A folder that only looks like ours.
    let foreign = folder.path().join(".new.zarr.repack");
    fs::create_dir_all(foreign.join("tree")).unwrap();
    fs::write(foreign.join("tree/thesis.tex"), "x").unwrap();
    let out = folder.path().join("new.zarr");
    let error = Repack::new(&path, Some(&out), &options()).and_then(|repack| repack.run()).unwrap_err();
    assert!(error.to_string().contains("not repack's own"), "{error}");
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
    repack(&path, Some(&folder.path().join("new.zarr")), &options());
    repack(&path, None, &RepackOptions { incomplete: true, ..options() });
    assert_eq!(image(&path).gap_bytes, 0);
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

const HASH: VolumeHash = VolumeHash::Murmurhash3X86_128;

fn plain(compressor: Compressor) -> Codec {
    Codec { compressor, checksum: false }
}

/// Datasets of every dialect, all with chunks that are cut off at edges, and some with chunks missing.
fn sources() -> Vec<Config> {
    let gzip = Compressor::Gzip { level: 1 };
    let of = |dialect, codec| Config { dialect, codec, ..config() };
    let volume = |codec, volume: Volume| {
        let mut config = Config { volume, ..of(Dialect::Precomputed, plain(codec)) };
        config.dims.iter_mut().for_each(|dim| dim.shard = 0);
        config
    };
    let bits = |preshift, minishard| Volume {
        preshift_bits: Some(preshift),
        minishard_bits: Some(minishard),
        ..Volume::default()
    };
    let mut endless = volume(gzip, Volume { gzip_indexes: true, ..bits(1, 2) });
    endless.dims[0].size = None;
    vec![
        of(Dialect::Zarr3, Codec::default()),
        Config { index_location: IndexLocation::Start, ..of(Dialect::Zarr3, plain(gzip)) },
        of(Dialect::Zarr3Transformer, plain(Compressor::Zstd { level: 3 })),
        Config { placement: Placement::Packed, ..of(Dialect::Zarr2Sharded, plain(Compressor::default())) },
        volume(Compressor::None, Volume { voxel_offset: [3, -4, 5], key: Some("fine".into()), ..bits(2, 1) }),
        endless,
        volume(gzip, Volume { hash: HASH, shard_bits: Some(2), ..bits(1, 1) }),
    ]
}

const DIALECTS: &[Dialect] = Dialect::ALL;

/// What is asked for on the way into a dialect.
fn wishes(to: Dialect) -> Vec<RepackOptions> {
    let options = |codec: Compressor| RepackOptions {
        dialect: to,
        codec: Some(Codec { compressor: codec, checksum: to == Dialect::Zarr3 }),
        shard: if to == Dialect::Zarr2 { Vec::new() } else { vec![4, 32, 48] },
        ..options()
    };
    let gzip = Compressor::Gzip { level: 6 };
    if to == Dialect::Precomputed {
        let volume = |codec, volume| RepackOptions { volume, shard: Vec::new(), ..options(codec) };
        let hashed = Volume { hash: HASH, shard_bits: Some(1), gzip_indexes: true, ..Volume::default() };
        return vec![
            volume(Compressor::None, Volume::default()),
            RepackOptions { order: ChunkOrder::Morton, ..volume(gzip, hashed) },
            RepackOptions {
                chunk: vec![3, 7, 11],
                order: ChunkOrder::Kept,
                ..volume(gzip, Volume { preshift_bits: Some(1), minishard_bits: Some(2), ..Volume::default() })
            },
        ];
    }
    if to == Dialect::Zarr2 {
        return vec![options(gzip), RepackOptions { chunk: vec![3, 7, 11], ..options(Compressor::None) }];
    }
    vec![
        options(gzip),
        RepackOptions { order: ChunkOrder::Morton, ..options(Compressor::default()) },
        RepackOptions { chunk: vec![3, 7, 11], shard: vec![6, 21, 33], ..options(Compressor::None) },
    ]
}

/// Checks that `path` is `source` once more, of this dialect and without gaps.
fn assert_same(path: &Path, source: &Path, dialect: Dialect, what: &str) {
    // A group of Zarr v3 names its image only in OME-Zarr's words.
    let open = |path: &Path| Array::open(path).or_else(|_| Array::open(path.join("0"))).unwrap();
    let (array, before) = (open(path), open(source));
    assert_eq!((array.shape(), array.dtype()), (before.shape(), before.dtype()), "{what}");
    assert_eq!(array.dimension_names(), before.dimension_names(), "{what}");
    assert!(array.read_all().unwrap() == before.read_all().unwrap(), "{what}");
    let described = image(path);
    let format = match dialect {
        Dialect::Zarr3 => "Zarr v3",
        Dialect::Zarr3Transformer => "Zarr v3, draft of 2022",
        Dialect::Zarr2Sharded => "Zarr v2 with shards",
        Dialect::Zarr2 => "Zarr v2",
        _ => "precomputed volume",
    };
    assert!(described.format.starts_with(format), "{what}: {}", described.format);
    assert!(described.gap_bytes <= 4096 && described.damaged.is_empty(), "{what}: {} of gaps", described.gap_bytes);
    assert_sound(path);
    let records = |path: &Path| pixels(&path.join("records/frame_number"));
    assert!(records(path) == records(source), "{what}");
    assert_eq!(describe(path).unwrap().complete, Some(true), "{what}");
    match recovered(path, false) {
        Ok(recovery) => assert!(!recovery.is_needed() && dialect != Dialect::Zarr2, "{what}: {recovery:?}"),
        // Of a volume, it is not known any more whose it is; and chunks that are files have no headers.
        Err(error) => assert!(error.to_string().contains("slot headers"), "{what}: {error}"),
    }
}

#[test]
fn every_dialect_becomes_every_other() {
    for source in sources() {
        let folder = tempfile::tempdir().unwrap();
        let path = movie(folder.path(), &source);
        let before = crate::common::stopped::files(&path);
        for &to in DIALECTS {
            for (number, wishes) in wishes(to).into_iter().enumerate() {
                let out = folder.path().join(format!("{}{number}", to.name()));
                let what = format!("{:?} {:?} to {wishes:?}", source.dialect, source.volume);
                let summary = repack(&path, Some(&out), &wishes);
                assert!(summary.chunks > 0, "{what}");
                assert_same(&out, &path, to, &what);
                if !wishes.chunk.is_empty() {
                    assert_eq!(image(&out).chunk_shape, wishes.chunk, "{what}");
                }
                // And back again, which nothing is lost by.
                let back = folder.path().join("back");
                repack(
                    &out,
                    Some(&back),
                    &RepackOptions { shard: vec![6, 84, 132], chunk: vec![2, 4, 4], ..options() },
                );
                assert_same(&back, &path, Dialect::Zarr3, &what);
                assert!(!back.join(".zgroup").exists() && back.join("zarr.json").exists(), "{what}");
                fs::remove_dir_all(&back).unwrap();
                fs::remove_dir_all(&out).unwrap();
            }
        }
        assert!(crate::common::stopped::files(&path) == before, "the source has changed");
    }
}

#[test]
fn what_is_not_asked_for_stays_as_it_is() {
    for source in sources() {
        let folder = tempfile::tempdir().unwrap();
        let path = movie(folder.path(), &source);
        let options = RepackOptions { dialect: source.dialect, ..options() };
        let what = format!("{:?} {:?}", source.dialect, source.volume);
        let copy = folder.path().join("copy");
        copy_tree(&path, &copy);
        let out = folder.path().join("out");
        let before = Array::open(&copy).unwrap();
        for target in [Some(&*out), None] {
            let summary = repack(&path, target, &options);
            assert!(summary.shards_written > 0, "{what}");
            let result = target.unwrap_or(&path);
            assert_same(result, &copy, source.dialect, &what);
            let array = Array::open(result).unwrap();
            assert_eq!(array.codec(), before.codec(), "{what}");
            assert_eq!(
                (array.chunk_shape(), array.shard_shape()),
                (before.chunk_shape(), before.shard_shape()),
                "{what}"
            );
            assert_eq!(attributes(result), attributes(&copy), "{what}");
            assert_eq!(files(result), files(&copy), "{what}");
        }
        // Once more, there is nothing to do.
        let again = repack(&path, None, &options);
        assert_eq!((again.shards_written, again.chunks), (0, 0), "{what}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "{what}");
    }
}

#[test]
fn other_dialects_change_in_place_where_their_names_stay() {
    for source in sources() {
        let folder = tempfile::tempdir().unwrap();
        let path = movie(folder.path(), &source);
        let copy = folder.path().join("copy");
        copy_tree(&path, &copy);
        for to in DIALECTS.iter().copied().filter(|to| *to != source.dialect) {
            let error = Repack::new(&path, None, &wishes(to)[0]).unwrap_err().to_string();
            assert!(error.contains("to a new dataset"), "{error}");
        }
        fs::write(path.join("notes.txt"), "keep me").unwrap();
        for wishes in wishes(source.dialect) {
            let what = format!("{:?} {:?} to {wishes:?}", source.dialect, source.volume);
            repack(&path, None, &wishes);
            assert_same(&path, &copy, source.dialect, &what);
            assert_eq!(fs::read_to_string(path.join("notes.txt")).unwrap(), "keep me");
            let again = repack(&path, None, &wishes);
            assert_eq!((again.shards_written, again.chunks), (0, 0), "{what}");
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "{what}");
        }
    }
}

/// What OME-Zarr says of the axes becomes what a volume says of them.
#[test]
fn scales_channels_and_attributes_go_along() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.ome.zarr");
    let config = Config {
        dims: vec![
            Dim::channel(2),
            Dim::z(5).chunk(2).scale(1.5, "micrometer"),
            Dim::y(20).chunk(8).scale(0.325, "micrometer"),
            Dim::x(24).chunk(10).scale(0.25, "micrometer"),
        ],
        ring_bytes: 8 << 20,
        ..config()
    };
    let acquisition = Acquisition::create(&path, config.clone()).unwrap();
    acquisition.set_attribute("sample", json!({"name": "a leaf"})).unwrap();
    (0..10).for_each(|number| crate::common::stopped::commit(&acquisition, &config, number));
    acquisition.finish().unwrap();
    let volume = folder.path().join("volume");
    let wishes =
        RepackOptions { dialect: Dialect::Precomputed, codec: Some(plain(Compressor::Gzip { level: 1 })), ..options() };
    repack(&path, Some(&volume), &wishes);
    assert_same(&volume, &path, Dialect::Precomputed, "channels");
    let info: Value = serde_json::from_slice(&fs::read(volume.join("info")).unwrap()).unwrap();
    assert_eq!(info["num_channels"], 2);
    assert_eq!((&info["scales"][0]["key"], &info["scales"][0]["size"]), (&json!("250_325_1500"), &json!([24, 20, 5])));
    assert_eq!(info["attributes"]["sample"]["name"], "a leaf");
    for (dialect, codec) in [(Dialect::Zarr3Transformer, Compressor::None), (Dialect::Zarr2Sharded, Compressor::Lz4)] {
        let (there, back) = (folder.path().join(dialect.name()), folder.path().join("back"));
        repack(&volume, Some(&there), &RepackOptions { dialect, codec: Some(plain(codec)), ..options() });
        assert_same(&there, &path, dialect, "channels");
        repack(&there, Some(&back), &options());
        assert_same(&back, &path, Dialect::Zarr3, "channels");
        let (old, new) = (describe(&path).unwrap().attributes, describe(&back).unwrap().attributes);
        assert_eq!((&new["ome"], &new["sample"]), (&old["ome"], &old["sample"]));
        fs::remove_dir_all(&back).unwrap();
    }
}

#[test]
fn what_a_dialect_can_t_hold_is_refused_with_what_it_can() {
    let folder = tempfile::tempdir().unwrap();
    let path = movie(folder.path(), &config());
    let out = folder.path().join("new");
    let refused = |options: RepackOptions| {
        let error = Repack::new(&path, Some(&out), &options).unwrap_err().to_string();
        assert!(!out.exists());
        error
    };
    let to = |dialect| RepackOptions { dialect, ..options() };
    let volume = || to(Dialect::Precomputed);
    let zstd = |checksum| Some(Codec { compressor: Compressor::Zstd { level: 1 }, checksum });
    let cases = [
        (RepackOptions { codec: zstd(false), ..volume() }, "none and gzip are possible"),
        // As it is: Blosc.
        (volume(), "none and gzip are possible"),
        (RepackOptions { codec: zstd(true), ..to(Dialect::Zarr2Sharded) }, "checksum"),
        (RepackOptions { index_location: Some(IndexLocation::Start), ..to(Dialect::Zarr2Sharded) }, "at end"),
        (
            RepackOptions { volume: Volume { hash: HASH, ..Volume::default() }, ..to(Dialect::Zarr3Transformer) },
            "precomputed",
        ),
        (RepackOptions { volume: Volume { hash: HASH, ..Volume::default() }, ..to(Dialect::Zarr3) }, "precomputed"),
        (RepackOptions { codec: Some(plain(Compressor::None)), shard: vec![4, 32, 48], ..volume() }, "2^n"),
    ];
    for (options, evidence) in cases {
        let error = refused(options);
        assert!(error.contains(evidence), "{error:?} lacks {evidence:?}");
    }
    let f64s = Config { dtype: Dtype::F64, fill_value: 3.0, ..config() };
    let path = folder.path().join("f64");
    finished(&path, &f64s, &[0]);
    let codec = Some(plain(Compressor::None));
    let error = Repack::new(&path, Some(&out), &RepackOptions { codec, ..volume() }).unwrap_err().to_string();
    assert!(error.contains("float32"), "{error}");
    // Two images.
    let several = folder.path().join("several");
    fs::create_dir(&several).unwrap();
    copy_tree(&folder.path().join("movie.ome.zarr"), &several);
    copy_tree(&several.join("0"), &several.join("1"));
    let error = Repack::new(&several, Some(&out), &to(Dialect::Zarr2Sharded)).unwrap_err().to_string();
    assert!(error.contains("holds 2 arrays") && error.contains("\"1\""), "{error}");
    repack(&several.join("1"), Some(&out), &to(Dialect::Zarr2Sharded));
    assert!(pixels(&out) == pixels(&several.join("1")));
}

#[test]
fn a_shard_s_index_gets_and_loses_its_checksum() {
    let folder = tempfile::tempdir().unwrap();
    let path = movie(folder.path(), &config());
    let expected = pixels(&path);
    let checksum = || {
        let document: Value = serde_json::from_slice(&fs::read(path.join("0/zarr.json")).unwrap()).unwrap();
        document["codecs"][0]["configuration"]["index_codecs"].as_array().unwrap().len() == 2
    };
    for wished in [false, true, false] {
        repack(&path, None, &RepackOptions { index_checksum: Some(wished), ..options() });
        assert_eq!(checksum(), wished);
        assert!(pixels(&path) == expected);
    }
}

/// The same pixels after any change that a child makes.
struct Way {
    name: &'static str,
    source: Dialect,
    options: RepackOptions,
    copies: bool,
}

/// What a child is asked to do: in place without a new document, in place with one, into a new dataset, into another
/// dialect.
fn ways() -> Vec<Way> {
    let zstd = Some(Codec::from(Compressor::Zstd { level: 3 }));
    let gzip = Some(plain(Compressor::Gzip { level: 1 }));
    let sync = || RepackOptions { workers: 2, memory_bytes: 8 << 20, ..RepackOptions::default() };
    let into = |dialect, codec| RepackOptions { dialect, codec, ..sync() };
    let way = |name, source, options, copies| Way { name, source, options, copies };
    let zarr3 = Dialect::Zarr3;
    vec![
        way("places", zarr3, sync(), false),
        way("codec", zarr3, RepackOptions { codec: zstd.clone(), ..sync() }, false),
        way("copy", zarr3, sync(), true),
        way("cut", zarr3, RepackOptions { codec: zstd, chunk: vec![4, 64, 64], ..sync() }, true),
        way("transformer", zarr3, into(Dialect::Zarr3Transformer, None), true),
        way("zarr2", zarr3, into(Dialect::Zarr2Sharded, gzip.clone()), true),
        way("precomputed", zarr3, into(Dialect::Precomputed, gzip.clone()), true),
        way("zarr2 in place", Dialect::Zarr2Sharded, into(Dialect::Zarr2Sharded, gzip), false),
        way("places of zarr2", Dialect::Zarr2Sharded, into(Dialect::Zarr2Sharded, None), false),
    ]
}

#[test]
#[ignore = "run by another test, in a process of its own"]
fn child_repacks() {
    let folder = PathBuf::from(env::var_os("SHARDWRIGHT_TEST_PATH").expect("another test sets it"));
    let name = env::var("SHARDWRIGHT_TEST_WAY").expect("another test sets it");
    let way = ways().into_iter().find(|way| way.name == name).unwrap();
    let out = folder.join("new.zarr");
    repack(&folder.join("movie.ome.zarr"), way.copies.then_some(&*out), &way.options);
}

fn repacking(folder: &Path, way: &str) -> std::process::Child {
    let mut command = child("repack::child_repacks");
    command.env("SHARDWRIGHT_TEST_PATH", folder).env("SHARDWRIGHT_TEST_WAY", way);
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Kills a child after a while, and says whether it was still at work.
fn was_killed(mut child: std::process::Child, after: Duration) -> bool {
    thread::sleep(after);
    child.kill().unwrap();
    !child.wait().unwrap().success()
}

fn ends_well(mut child: std::process::Child, way: &str) {
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(child.wait().unwrap().success(), "{way}: {said}");
}

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_tree(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

/// `SHARDWRIGHT_KILLS` sets how often each way is killed; 5 times if it is not set.
#[test]
fn killed_at_any_moment_and_called_again_it_ends_right() {
    let kills: u32 = env::var("SHARDWRIGHT_KILLS").map_or(5, |count| count.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    for Way { name, source: dialect, options, copies } in ways() {
        let config = Config {
            dialect,
            codec: Codec { checksum: dialect == Dialect::Zarr3, ..Codec::default() },
            dims: vec![
                Dim::time(24).chunk(2).shard(4),
                Dim::y(256).chunk(64).shard(128),
                Dim::x(256).chunk(64).shard(128),
            ],
            ring_bytes: 8 << 20,
            ..config()
        };
        let original = folder.path().join(format!("original of {name}"));
        finished(&original.join("movie.ome.zarr"), &config, &(0..24).collect::<Vec<_>>());
        let expected = pixels(&original.join("movie.ome.zarr"));
        let mut listed = Vec::new();
        let mut longest = Duration::ZERO;
        let (mut killed_midway, mut unfinished) = (0, 0);
        for kill in 0..=kills {
            let place = folder.path().join(format!("{name}{kill}"));
            copy_tree(&original, &place);
            let (source, out) = (place.join("movie.ome.zarr"), place.join("new.zarr"));
            let result = if copies { &out } else { &source };
            if kill > 0 {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                let after = longest.mul_f64((state % 1000) as f64 / 1000.0);
                killed_midway += u32::from(was_killed(repacking(&place, name), after));
                unfinished += u32::from(place.join(".new.zarr.repack").exists());
                unfinished += u32::from(place.join(".movie.ome.zarr.repack").exists());
                // Whatever the moment, there is a whole dataset.
                assert!(pixels(&source) == expected, "{name}: a kill broke the old dataset");
                assert!(!out.exists() || pixels(&out) == expected, "{name}: an unfinished dataset has its name");
            }
            let start = Instant::now();
            // A new dataset that is complete is in the way of another.
            if !(copies && out.exists() && !place.join(".new.zarr.repack/journal.json").exists()) {
                ends_well(repacking(&place, name), name);
            } else if place.join(".new.zarr.repack").exists() {
                let error = Repack::new(&source, Some(&out), &options).unwrap_err();
                assert!(matches!(error, Error::Exists { .. }), "{name}, kill {kill}: {error}");
            }
            if kill == 0 {
                longest = start.elapsed();
                listed = files(result);
            }
            assert!(pixels(result) == expected, "{name}, kill {kill}");
            assert_eq!(image(result).gap_bytes, 0, "{name}, kill {kill}");
            assert_eq!(files(result), listed, "{name}, kill {kill}");
            assert_sound(result);
            let left: Vec<_> = fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            assert_eq!(left.len(), if copies { 2 } else { 1 }, "{name}, kill {kill}: {left:?}");
            fs::remove_dir_all(&place).unwrap();
        }
        println!(
            "{name}: {kills} kills, {killed_midway} of them before the end, {unfinished} with a folder in the making"
        );
        assert!(kills < 10 || killed_midway > 0, "{name}: every run was over before it was killed");
    }
}
