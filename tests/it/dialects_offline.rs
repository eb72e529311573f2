//! Datasets of every dialect as this crate writes them: read, described, checked, and brought back after their writer
//! was stopped.

use crate::common::manifests;
use crate::common::recovered;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::common::Expected;
use crate::common::stopped::{Frame, check, files, finished, frame_bytes, frames_of, restore, sound, stopped};
use serde_json::{Value, json};
use shardwright::offline::{Array, ManifestOptions, Recovery, Repack, RepackOptions, ShardAction, describe};
use shardwright::{Codec, Compressor, Config, Dialect, Dim, Dtype, Placement, StorageKind, Volume, VolumeHash};

const HASH: VolumeHash = VolumeHash::Murmurhash3X86_128;

/// Frames of 20 by 24 pixels, of which no chunk's edge is the frame's; unbounded if nothing else is said.
fn config(dialect: Dialect, compressor: Compressor, placement: Placement, deep: u64) -> Config {
    Config {
        dialect,
        dtype: Dtype::U16,
        dims: vec![Dim::time(None).chunk(deep), Dim::y(20).chunk(8), Dim::x(24).chunk(10)],
        codec: Codec { compressor, checksum: false },
        placement,
        storage: StorageKind::Buffered,
        ring_bytes: 1 << 20,
        workers: 2,
        sync: false,
        checkpoint_every: Duration::from_secs(3600),
        ..Config::default()
    }
}

/// Every dialect with every codec and placement, chunks of one frame and of several.
fn zarrs() -> Vec<Config> {
    let mut configs = Vec::new();
    for dialect in [Dialect::Zarr3Transformer, Dialect::Zarr2Sharded] {
        for (at, compressor) in
            [Compressor::None, Compressor::default(), Compressor::Zstd { level: 1 }, Compressor::Gzip { level: 1 }]
                .into_iter()
                .enumerate()
        {
            for placement in [Placement::Fixed, Placement::Packed] {
                let mut config = config(dialect, compressor, placement, 1 + at as u64 % 2);
                config.dims[0].shard = 4;
                config.dims[1].shard = 16;
                config.dims[2].shard = 30;
                configs.push(config);
            }
        }
    }
    configs
}

/// Volumes with and without an end, shards that are boxes and shards that are not.
fn volumes() -> Vec<Config> {
    let mut configs = Vec::new();
    let gzip = Compressor::Gzip { level: 1 };
    for (at, placement) in [Placement::Fixed, Placement::Packed].into_iter().enumerate() {
        for (compressor, deep) in [(Compressor::None, [1, 4][at]), (gzip, [4, 1][at])] {
            let config = config(Dialect::Precomputed, compressor, placement, deep);
            let volume = |volume: Volume| Config { volume, ..config.clone() };
            let bounded = |volume: Volume| {
                let mut config = Config { volume, ..config.clone() };
                config.dims[0].size = Some(14);
                config
            };
            let bits = |preshift, minishard| Volume {
                preshift_bits: Some(preshift),
                minishard_bits: Some(minishard),
                gzip_indexes: compressor == gzip,
                ..Volume::default()
            };
            configs.push(volume(Volume::default()));
            configs.push(volume(bits(1, 2)));
            configs.push(volume(Volume { shard_bits: Some(40), ..bits(0, 1) }));
            configs.push(bounded(bits(2, 1)));
            configs.push(bounded(Volume { shard_bits: Some(1), ..bits(0, 1) }));
            configs.push(bounded(Volume { hash: HASH, shard_bits: Some(2), ..bits(1, 1) }));
        }
    }
    configs
}

pub(crate) fn all() -> Vec<Config> {
    [zarrs(), volumes()].concat()
}

fn told(config: &Config) -> String {
    format!("{:?} {:?} {:?} {:?} {:?}", config.dialect, config.codec, config.placement, config.dims[0], config.volume)
}

fn dry(path: &Path) -> Recovery {
    recovered(path, false).unwrap()
}

fn apply(path: &Path) -> Recovery {
    recovered(path, true).unwrap()
}

/// The document with the writer's attributes, and these.
fn own(path: &Path, config: &Config) -> (PathBuf, Value) {
    let (name, pointer) = match config.dialect {
        Dialect::Zarr3 => ("zarr.json", "/attributes/shardwright"),
        Dialect::Zarr3Transformer => ("meta/root.group.json", "/attributes/shardwright"),
        Dialect::Zarr2Sharded => (".zattrs", "/shardwright"),
        _ => ("info", "/shardwright"),
    };
    let document: Value = serde_json::from_slice(&fs::read(path.join(name)).unwrap()).unwrap();
    (path.join(name), document.pointer(pointer).unwrap().clone())
}

/// The shards, by their paths.
fn shards(path: &Path, config: &Config) -> Vec<PathBuf> {
    let is_shard = |path: &PathBuf| match config.dialect {
        Dialect::Zarr3Transformer => path.starts_with("data"),
        Dialect::Precomputed => path.extension().is_some_and(|extension| extension == "shard"),
        _ => path.to_string_lossy().starts_with(|first: char| first.is_ascii_digit()),
    };
    files(path).into_keys().filter(is_shard).map(|shard| path.join(shard)).collect()
}

#[test]
fn what_the_writer_finished_is_read_and_sound() {
    for config in all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        finished(&path, &config, &(0..10).collect::<Vec<_>>());
        let told = told(&config);
        let array = Array::open(&path).unwrap();
        let bounded = config.dims[0].size.is_some() && config.dialect == Dialect::Precomputed;
        assert_eq!(array.shape()[1..], [20, 24], "{told}");
        if bounded {
            assert_eq!(array.shape()[0], 14);
        } else {
            assert!((10..=16).contains(&array.shape()[0]), "{told}: {:?}", array.shape());
        }
        assert_eq!(array.dimension_names().unwrap(), ["t", "y", "x"], "{told}");
        let mut expected = Expected::new(array.shape(), Dtype::U16);
        (0..10).for_each(|number| expected.put(&config, number, &crate::common::frame(number, frame_bytes(&config))));
        assert_eq!(array.read_all().unwrap(), expected.pixels, "{told}");
        let verification = sound(&path);
        let image = verification.arrays.iter().find(|array| array.headers > 0).expect("slot headers were seen");
        assert_eq!((image.headers, image.without_header), (image.chunks, 0), "{told}");
        // Of the prototype, that others misread it, and of shards that were prepared and not needed.
        let notes = verification.findings.iter();
        let expected = usize::from(config.dialect == Dialect::Zarr2Sharded);
        assert_eq!(notes.count(), expected, "{told}: {:#?}", verification.findings);
        let description = describe(&path).unwrap();
        assert_eq!(description.complete, Some(true), "{told}");
        assert_eq!(description.arrays.iter().map(|array| array.damaged.len()).sum::<usize>(), 0, "{told}");
        assert!(description.arrays.iter().any(|array| array.chunks_present == image.chunks), "{told}");
        let found = dry(&path);
        assert!(!found.is_needed(), "{told}: {found:#?}");
    }
}

#[test]
fn every_committed_chunk_comes_back() {
    for config in all() {
        let folder = tempfile::tempdir().unwrap();
        // The last shard is open. Frame 5 never comes, unless others would wait for it in their chunk.
        let deep = config.dims[0].chunk > 1;
        let numbers: Vec<u64> = (0..12).filter(|&number| number != 5 || deep).collect();
        let path = stopped(folder.path(), &config, &numbers, numbers.len() as u64);
        let told = told(&config);
        let before = files(&path);
        let found = dry(&path);
        assert_eq!(files(&path), before, "{told}: a dry run has changed something");
        assert!(found.is_needed(), "{told}");
        let done = apply(&path);
        let image = &done.images[0];
        assert_eq!((image.chunks_dropped, image.chunks_torn), (0, 0), "{told}");
        sound(&path);
        let frames = frames_of(&path, &config, 12);
        for (number, frame) in frames.iter().enumerate() {
            let expected = if numbers.contains(&(number as u64)) { Frame::Whole } else { Frame::Missing };
            assert!(*frame == expected, "{told}: frame {number} is {frame:?} of {frames:?}");
        }
        let (_, own) = own(&path, &config);
        assert_eq!((&own["complete"], &own["recovered"]), (&false.into(), &true.into()), "{told}");
        assert_eq!(own["frames"], 12, "{told}");
        if !deep {
            assert_eq!(own["missing"], serde_json::json!([[5, 6]]), "{told}");
        }
        assert!(!files(&path).keys().any(|path| path.to_string_lossy().contains(".partial")), "{told}");
        let after = files(&path);
        let again = apply(&path);
        assert!(
            !again.is_needed() && files(&path) == after,
            "{told}: a second recovery has done something: {again:#?}"
        );
        if config.dialect == Dialect::Zarr2Sharded {
            let array = Array::open(&path).unwrap();
            let grid = array.shape().iter().zip(array.shard_shape().unwrap()).map(|(a, b)| a.div_ceil(*b));
            assert_eq!(
                shards(&path, &config).len() as u64,
                grid.product::<u64>(),
                "{told}: its reader wants every shard"
            );
        }
    }
}

#[test]
fn an_index_that_was_lost_is_made_again() {
    for config in all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        finished(&path, &config, &(0..10).collect::<Vec<_>>());
        let told = told(&config);
        let good = files(&path);
        for shard in shards(&path, &config) {
            let mut bytes = fs::read(&shard).unwrap();
            if !bytes.windows(4).any(|window| window == b"SWc1") {
                continue;
            }
            let at = if config.dialect == Dialect::Precomputed { 0 } else { bytes.len() - 16 };
            bytes[at..at + 16].fill(0x5a);
            fs::write(&shard, &bytes).unwrap();
        }
        assert!(!check(&path).is_sound(), "{told}");
        let done = apply(&path);
        let image = &done.images[0];
        assert!(image.shards.iter().all(|shard| shard.action == ShardAction::NewIndex), "{told}: {image:#?}");
        sound(&path);
        for shard in shards(&path, &config) {
            let name = shard.strip_prefix(&path).unwrap();
            assert!(fs::read(&shard).unwrap() == good[name], "{told}: {}", name.display());
        }
    }
}

#[test]
fn flipped_bytes_are_found() {
    for config in all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        finished(&path, &config, &(0..6).collect::<Vec<_>>());
        let good = files(&path);
        let shard = shards(&path, &config).swap_remove(0);
        let bytes = fs::read(&shard).unwrap();
        let header = bytes.windows(4).position(|window| window == b"SWc1").unwrap();
        for at in [header + 3, header + 9, header + 13, header + 17, header + 44, header + 61, header + 64, header + 70]
        {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1;
            fs::write(&shard, &flipped).unwrap();
            assert!(!check(&path).is_sound(), "{}: byte {at} of the chunk at {header}", told(&config));
        }
        restore(&path, &good);
        sound(&path);
    }
}

/// Channels in any order beside z, all of them in one chunk.
#[test]
fn channels_of_volumes_have_the_writers_dimensions() {
    for order in [["z", "c"], ["c", "z"]] {
        for acquired in [["z", "c"], ["c", "z"]] {
            for deep in [1, 3] {
                let mut config = config(Dialect::Precomputed, Compressor::None, Placement::Fixed, deep);
                let dim = |name: &str| if name == "z" { Dim::z(7).chunk(deep) } else { Dim::channel(3) };
                config.dims = vec![dim(order[0]), dim(order[1]), Dim::y(20).chunk(8), Dim::x(24).chunk(10)];
                config.acquisition_order = acquired.map(str::to_owned).to_vec();
                config.ring_bytes = 4 << 20;
                let folder = tempfile::tempdir().unwrap();
                let path = folder.path().join("run");
                finished(&path, &config, &(0..21).collect::<Vec<_>>());
                let array = Array::open(&path).unwrap();
                assert_eq!(array.dimension_names().unwrap()[..2], order);
                let mut expected = Expected::new(array.shape(), Dtype::U16);
                (0..21).for_each(|number| {
                    expected.put(&config, number, &crate::common::frame(number, frame_bytes(&config)))
                });
                assert!(array.read_all().unwrap() == expected.pixels, "{order:?} {acquired:?} {deep}");
                sound(&path);
                assert!(!dry(&path).is_needed());
            }
        }
    }
}

/// What every reader of Zarr v3 opens can be made of every dialect.
#[test]
fn repacked_datasets_are_zarr_v3() {
    for config in all().into_iter().step_by(3) {
        let folder = tempfile::tempdir().unwrap();
        let (path, out) = (folder.path().join("run"), folder.path().join("out.zarr"));
        finished(&path, &config, &(0..10).collect::<Vec<_>>());
        let told = told(&config);
        let before = files(&path);
        let mut options = RepackOptions { workers: 2, ..RepackOptions::default() };
        let into = RepackOptions { dialect: Some(Dialect::Zarr3), ..options.clone() };
        assert!(Repack::new(&path, None, &into).unwrap_err().to_string().contains("a new dataset"), "{told}");
        let source = Array::open(&path).unwrap();
        if source.shard_shape().is_none() {
            assert!(Repack::new(&path, Some(&out), &options).unwrap_err().to_string().contains("how large"), "{told}");
            options.shard = vec![4, 24, 30];
        }
        let summary = Repack::new(&path, Some(&out), &options).unwrap().run().unwrap();
        assert!(summary.chunks > 0 && files(&path) == before, "{told}");
        let array = Array::open(out.join("0")).unwrap();
        assert_eq!((array.shape(), array.dimension_names()), (source.shape(), source.dimension_names()), "{told}");
        assert!(array.read_all().unwrap() == source.read_all().unwrap(), "{told}");
        sound(&out);
        let description = describe(&out).unwrap();
        assert_eq!(description.complete, Some(true), "{told}");
        assert!(description.arrays.iter().all(|array| array.format == "Zarr v3"), "{told}");
        let records = |path: &Path| Array::open(path.join("records/frame_number")).unwrap().read_all().unwrap();
        assert!(records(&out) == records(&path), "{told}");
        for old in ["meta", "data", "info", ".zarray", ".zattrs", "1", "0/0"] {
            assert!(!out.join(old).exists(), "{told}: {old} was copied");
        }
    }
}

#[test]
fn manifests_name_the_chunks_of_zarr_dialects() {
    for config in all().into_iter().step_by(3) {
        let folder = tempfile::tempdir().unwrap();
        let (path, out) = (folder.path().join("run"), folder.path().join("manifest.zarr"));
        finished(&path, &config, &(0..10).collect::<Vec<_>>());
        let written = manifests(&path, &out, &ManifestOptions::default());
        if config.dialect == Dialect::Precomputed {
            assert!(written.unwrap_err().to_string().contains("precomputed volume"));
            continue;
        }
        let name = if config.dialect == Dialect::Zarr2Sharded { "" } else { "0" };
        let (array, source) = (Array::open(out.join(name)).unwrap(), Array::open(&path).unwrap());
        assert!(array.read_all().unwrap() == source.read_all().unwrap(), "{}", told(&config));
        sound(&out);
    }
}

#[test]
fn sizes_that_are_none_are_told_with_the_field_and_the_document() {
    for (dialect, document, lists) in [
        (Dialect::Zarr3, "0/zarr.json", &["/shape", "/chunk_grid/configuration/chunk_shape"][..]),
        (Dialect::Zarr3Transformer, ".array.json", &["/shape", "/chunk_grid/chunk_shape"]),
        (Dialect::Zarr2Sharded, ".zarray", &["/shape", "/chunks"]),
        (Dialect::Precomputed, "info", &["/scales/0/size"]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        finished(&path, &config(dialect, Compressor::None, Placement::Fixed, 1), &[0, 1]);
        let is_it = |file: &&PathBuf| file.to_string_lossy().ends_with(document) && !file.starts_with("records");
        let file = path.join(files(&path).keys().find(is_it).unwrap());
        let right: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        for list in lists {
            for wrong in [json!(-3), json!(2.5), json!(true)] {
                let mut document = right.clone();
                document.pointer_mut(list).unwrap()[0] = wrong.clone();
                let said = document.pointer(list).unwrap().to_string();
                fs::write(&file, document.to_string()).unwrap();
                let error = Array::open(&path).unwrap_err().to_string();
                let told = format!("{} is {said}; expected a list of sizes", list.rsplit_once('/').unwrap().1);
                assert!(error.contains(&told) && error.starts_with(&*file.to_string_lossy()), "{dialect:?}: {error}");
            }
        }
    }
}
