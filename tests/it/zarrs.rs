//! The `zarrs` crate reads what was written: as a whole, shard by shard, chunk by chunk, in random boxes, and live.

use std::path::Path;
use std::sync::Arc;

use crate::common::cases::{self, Image};
use crate::common::{Expected, frame};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config as Cases, TestRng, TestRunner};
use shardwright::{Acquisition, Codec, Compressor, Config, Dim, Dtype, Record};
use zarrs::array::{
    Array, ArrayBytes, ArrayShardedExt, ArrayShardedReadableExt, ArrayShardedReadableExtCache, ArraySubset,
    CodecOptions,
};
use zarrs::filesystem::FilesystemStore;

/// Shards of the automatic size hold half a gigabyte; this test reads whole those that somebody gave a size.
const SHARD_ELEMENTS_MAX: u64 = 1 << 20;

type Opened = Array<FilesystemStore>;

fn open(path: &Path) -> Opened {
    try_open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn try_open(path: &Path) -> Result<Opened, zarrs::array::ArrayCreateError> {
    Array::open(Arc::new(FilesystemStore::new(path).unwrap()), "/")
}

fn bytes(read: ArrayBytes<'_>) -> Vec<u8> {
    read.into_fixed().unwrap().into_owned()
}

fn boxed(start: &[u64], shape: &[u64]) -> ArraySubset {
    ArraySubset::new_with_start_shape(start.to_vec(), shape.to_vec()).unwrap()
}

/// Every place of a grid, C order.
fn places(grid: &[u64]) -> Vec<Vec<u64>> {
    grid.iter().fold(vec![Vec::new()], |places, &size| {
        places.iter().flat_map(|place| (0..size).map(|at| [&place[..], &[at]].concat())).collect()
    })
}

/// What a reader must see in a box that may reach beyond the array, where there is the fill value.
fn cut(expected: &Expected, element: usize, fill: &[u8], start: &[u64], shape: &[u64]) -> Vec<u8> {
    let inside = |at: u64, dim: usize| at < expected.shape[dim];
    let mut out = Vec::new();
    for place in places(&shape[..shape.len() - 1]) {
        let at: Vec<u64> = start.iter().zip(&place).map(|(start, at)| start + at).collect();
        let row = at.iter().zip(&expected.shape).fold(0, |row, (at, size)| row * size + at);
        let is_row = at.iter().enumerate().all(|(dim, &at)| inside(at, dim));
        for column in start[at.len()]..start[at.len()] + shape[at.len()] {
            let pixel = (row * expected.shape[at.len()] + column) as usize;
            let is_pixel = is_row && inside(column, at.len());
            out.extend(if is_pixel { &expected.pixels[pixel * element..][..element] } else { fill });
        }
    }
    out
}

/// Random boxes within `shape`, the same ones in every run.
fn random_boxes(shape: &[u64], count: usize) -> Vec<(Vec<u64>, Vec<u64>)> {
    let config = Cases { cases: 1, ..Cases::default() };
    let mut runner =
        TestRunner::new_with_rng(config, TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha));
    let edge = |size: u64| (0..size).prop_flat_map(move |start| (Just(start), 1..=size - start));
    let edges: Vec<_> = shape.iter().map(|&size| edge(size)).collect();
    (0..count).map(|_| edges.new_tree(&mut runner).unwrap().current().into_iter().unzip()).collect()
}

fn check(name: &str, path: &Path, image: &Image, expected: &Expected) {
    let array = open(&path.join("0"));
    let element = image.config.dtype.size();
    assert_eq!(array.shape(), expected.shape, "{name}");
    let whole: ArrayBytes = array.retrieve_array_subset(&array.subset_all()).unwrap();
    assert!(bytes(whole) == expected.pixels, "{name}: the whole array differs");

    let cut = |start: &[u64], shape: &[u64]| cut(expected, element, &image.fill(), start, shape);
    for place in places(array.chunk_grid_shape()) {
        let shard = array.chunk_subset(&place).unwrap();
        if shard.num_elements() > SHARD_ELEMENTS_MAX {
            continue;
        }
        let read: ArrayBytes = array.retrieve_chunk(&place).unwrap();
        assert!(bytes(read) == cut(shard.start(), shard.shape()), "{name}: shard {place:?} differs");
    }
    let cache = ArrayShardedReadableExtCache::new(&array);
    let chunk_shape: Vec<u64> = array.subchunk_shape().unwrap().iter().map(|size| size.get()).collect();
    // The grid counts only chunks that begin within the array.
    let chunks: Vec<u64> = expected.shape.iter().zip(&chunk_shape).map(|(size, chunk)| size.div_ceil(*chunk)).collect();
    for place in places(&chunks) {
        let start: Vec<u64> = place.iter().zip(&chunk_shape).map(|(at, size)| at * size).collect();
        let read: ArrayBytes = array.retrieve_subchunk_opt(&cache, &place, &CodecOptions::default()).unwrap();
        assert!(bytes(read) == cut(&start, &chunk_shape), "{name}: chunk {place:?} differs");
    }
    for (start, shape) in random_boxes(&expected.shape, 8) {
        let read: ArrayBytes = array.retrieve_array_subset(&boxed(&start, &shape)).unwrap();
        assert!(bytes(read) == cut(&start, &shape), "{name}: the box {shape:?} at {start:?} differs");
    }
}

#[test]
fn every_dataset_is_as_it_went_in() {
    let folder = tempfile::tempdir().unwrap();
    for case in cases::all() {
        let path = folder.path().join(&case.name);
        for (image, written) in case.images.iter().zip(case.write(&path)) {
            if image.is_portable() {
                check(&case.name, &path.join(image.group), image, &written.expected);
            } else {
                // The day zarrs knows this codec, it should be read, and the documentation should say so.
                assert!(try_open(&path.join(image.group).join("0")).is_err(), "{}", case.name);
            }
        }
    }
}

/// The table lets each codec meet some types; here each meets all of them.
#[test]
fn every_codec_with_every_type() {
    for compressor in cases::compressors()
        .into_iter()
        .filter(|compressor| !matches!(compressor, Compressor::Lz4 | Compressor::Zlib { .. }))
    {
        for &dtype in Dtype::ALL {
            let config = Config {
                dtype,
                dims: vec![
                    Dim::time(3).chunk(2).shard(4),
                    Dim::y(20).chunk(8).shard(16),
                    Dim::x(50).chunk(40).shard(40),
                ],
                codec: Codec::from(compressor),
                ring_bytes: 1 << 20,
                workers: 1,
                sync: false,
                ..Config::default()
            };
            let folder = tempfile::tempdir().unwrap();
            let acquisition = Acquisition::create(folder.path().join("out"), config.clone()).unwrap();
            let mut expected = Expected::new(&[3, 20, 50], dtype);
            for number in 0..3 {
                let pixels = frame(number, acquisition.frame_bytes());
                let _ = acquisition.append(&pixels).unwrap();
                expected.put(&config, number, &pixels);
            }
            acquisition.finish().unwrap();
            let array = open(&folder.path().join("out/0"));
            let read: ArrayBytes = array.retrieve_array_subset(&array.subset_all()).unwrap();
            assert!(bytes(read) == expected.pixels, "{compressor:?} {dtype}");
        }
    }
}

#[test]
fn records_are_arrays_of_one_dimension() {
    let folder = tempfile::tempdir().unwrap();
    let case = cases::all().into_iter().find(|case| case.name == "records").unwrap();
    let path = folder.path().join("out");
    let written = case.write(&path).pop().unwrap();
    let read = |name: &str| {
        let array = open(&path.join("records").join(name));
        array.retrieve_array_subset::<Vec<i64>>(&array.subset_all()).unwrap()
    };
    for name in ["frame_number", "host_timestamp", "count"] {
        let expected: Vec<i64> = serde_json::from_value(written.records[name].clone()).unwrap();
        assert_eq!(read(name), expected, "{name}");
    }
}

#[test]
fn a_dataset_opens_before_its_first_frame() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    let config = Config {
        dims: vec![Dim::time(8).chunk(1).shard(2), Dim::y(20).chunk(8).shard(24), Dim::x(30).chunk(16).shard(32)],
        fill_value: 9.into(),
        ring_bytes: 1 << 20,
        sync: false,
        ..Config::default()
    };
    let acquisition = Acquisition::create(&path, config.clone()).unwrap();
    let array = open(&path.join("0"));
    assert_eq!(array.shape(), [8, 20, 30]);
    let read = || array.retrieve_array_subset::<Vec<u16>>(&array.subset_all()).unwrap();
    assert_eq!(read(), vec![9; 8 * 20 * 30]);

    let mut expected = Expected::new(&[8, 20, 30], config.dtype);
    expected.pixels = 9u16.to_ne_bytes().repeat(8 * 20 * 30);
    for number in 0..8 {
        let pixels = frame(number, acquisition.frame_bytes());
        let mut slot = acquisition.acquire().unwrap();
        slot.copy_from_slice(&pixels);
        slot.commit(number, Record::default()).unwrap();
        expected.put(&config, number, &pixels);
        // Whatever the workers are at: each frame is there, or shows the fill value, or parts of it do.
        let now = read();
        let pixels = expected.pixels.chunks_exact(2).map(|pixel| u16::from_ne_bytes([pixel[0], pixel[1]]));
        assert!(now.iter().zip(pixels).all(|(&got, written)| got == written || got == 9), "after frame {number}");
    }
    acquisition.finish().unwrap();
    let pixels: Vec<u8> = read().into_iter().flat_map(u16::to_ne_bytes).collect();
    assert!(pixels == expected.pixels);
}
