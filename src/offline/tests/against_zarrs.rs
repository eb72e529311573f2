//! `zarrs` writes, we read: pixel for pixel, and byte for byte the same regions.

use std::sync::Arc;

use proptest::prelude::*;
use zarrs::array::{Array as Oracle, ArrayBytes, ArraySubset};
use zarrs::filesystem::FilesystemStore;

use super::*;
use crate::dtype::Dtype;
use crate::offline::Array;

/// An array that `zarrs` wrote, all of its bytes, and ourselves looking at it.
struct Written {
    _root: tempfile::TempDir,
    oracle: Oracle<FilesystemStore>,
    array: Array,
}

fn write(document: &Value, subset: Option<(&[u64], &[u64])>) -> Written {
    let root = tempfile::tempdir().expect("a directory");
    put(root.path(), "zarr.json", document.to_string());
    let store = Arc::new(FilesystemStore::new(root.path()).expect("a store"));
    let oracle = Oracle::open(store, "/").expect("an array");
    let array = Array::open(root.path()).expect("the same array");
    let zeros = vec![0; array.shape().len()];
    let (start, shape) = subset.unwrap_or((&zeros, array.shape()));
    let bytes = shape.iter().product::<u64>() as usize * array.dtype().size();
    // Small steps, so that compressors find something and neighbours differ.
    let pixels: Vec<u8> = (0..bytes as u64).map(|at| (at.wrapping_mul(0x9E37_79B9) >> 9) as u8 % 51).collect();
    let region = ArraySubset::new_with_start_shape(start.to_vec(), shape.to_vec()).expect("a region");
    oracle.store_array_subset(&region, ArrayBytes::new_flen(pixels)).expect("written");
    Written { _root: root, oracle, array }
}

impl Written {
    fn expected(&self, start: &[u64], shape: &[u64]) -> Vec<u8> {
        let region = ArraySubset::new_with_start_shape(start.to_vec(), shape.to_vec()).expect("a region");
        let bytes: ArrayBytes<'_> = self.oracle.retrieve_array_subset(&region).expect("read");
        bytes.into_fixed().expect("fixed").into_owned()
    }

    fn read(&self, start: &[u64], shape: &[u64]) -> Vec<u8> {
        let bytes = shape.iter().product::<u64>() as usize * self.array.dtype().size();
        let mut out = vec![0xAA; bytes];
        self.array.read_region(start, shape, &mut out).expect("pixels");
        out
    }

    fn assert_all(&self) {
        let start = vec![0; self.array.shape().len()];
        assert_eq!(self.array.read_all().expect("pixels"), self.expected(&start, self.array.shape()));
    }
}

fn crc_index() -> Value {
    json!([little(), {"name": "crc32c"}])
}

#[test]
fn every_type_with_shards_and_edges() {
    for &dtype in Dtype::ALL {
        for location in ["start", "end"] {
            let codecs = sharded(&[2, 4, 3], json!([little(), {"name": "crc32c"}]), crc_index(), location);
            write(&document(dtype.zarr_name(), &[5, 11, 13], &[4, 8, 6], codecs), None).assert_all();
        }
    }
}

#[test]
fn every_type_without_shards() {
    for &dtype in Dtype::ALL {
        for endian in ["little", "big"] {
            let codecs = json!([{"name": "bytes", "configuration": {"endian": endian}}, {"name": "crc32c"}]);
            write(&document(dtype.zarr_name(), &[5, 11], &[2, 4], codecs), None).assert_all();
        }
    }
}

/// The document of an array of elements that are no numbers of a frame.
fn other(dtype: &str, fill: &Value, codecs: Value) -> Value {
    let mut document = document(dtype, &[5, 11, 13], &[4, 8, 6], codecs);
    document["fill_value"] = fill.clone();
    document
}

#[test]
fn elements_that_are_no_numbers_of_a_frame() {
    for (dtype, fill) in [
        ("float16", json!("0x7e01")),
        ("complex64", json!([-0.0, "NaN"])),
        ("complex128", json!(["-Infinity", 1.5])),
        ("r24", json!([7, 0, 255])),
    ] {
        let sealed = || json!([big(), {"name": "crc32c"}]);
        for document in [
            other(dtype, &fill, sealed()),
            other(dtype, &fill, sharded(&[2, 4, 3], sealed(), crc_index(), "start")),
            other(
                dtype,
                &fill,
                sharded(&[4, 8, 6], sharded(&[2, 4, 3], sealed(), crc_index(), "end"), crc_index(), "end"),
            ),
        ] {
            write(&document, Some((&[1, 0, 0], &[3, 7, 13]))).assert_all();
        }
    }
}

fn big() -> Value {
    json!({"name": "bytes", "configuration": {"endian": "big"}})
}

#[test]
fn one_and_five_dimensions() {
    let inner = || json!([little()]);
    write(&document("uint16", &[1000], &[256], sharded(&[32], inner(), crc_index(), "end")), None).assert_all();
    let codecs = sharded(&[1, 1, 2, 8, 8], inner(), json!([little()]), "end");
    write(&document("uint16", &[3, 2, 5, 9, 17], &[2, 2, 4, 16, 16], codecs), None).assert_all();
}

#[test]
fn whole_frames_as_chunks() {
    let codecs = sharded(&[1, 16, 16], json!([little()]), crc_index(), "end");
    let written = write(&document("float32", &[6, 16, 16], &[4, 16, 16], codecs), None);
    written.assert_all();
    assert_eq!(written.read(&[2, 0, 0], &[3, 16, 16]), written.expected(&[2, 0, 0], &[3, 16, 16]));
    assert_eq!(written.read(&[1, 3, 0], &[4, 9, 16]), written.expected(&[1, 3, 0], &[4, 9, 16]));
}

#[test]
fn what_was_never_written_is_the_fill_value() {
    let codecs = sharded(&[2, 4], json!([little()]), crc_index(), "end");
    let written = write(&document("float64", &[40, 40], &[8, 8], codecs), Some((&[9, 3], &[12, 20])));
    written.assert_all();
}

#[test]
fn compressed_chunks() {
    for codec in [
        json!({"name": "zstd", "configuration": {"level": 1, "checksum": false}}),
        json!({"name": "gzip", "configuration": {"level": 1}}),
        json!({"name": "blosc", "configuration":
            {"cname": "lz4", "clevel": 1, "shuffle": "bitshuffle", "typesize": 2, "blocksize": 0}}),
        json!({"name": "blosc", "configuration":
            {"cname": "zstd", "clevel": 3, "shuffle": "shuffle", "typesize": 2, "blocksize": 0}}),
        json!({"name": "blosc", "configuration":
            {"cname": "zlib", "clevel": 1, "shuffle": "noshuffle", "blocksize": 0}}),
    ] {
        for checksum in [false, true] {
            let mut chain = vec![little(), codec.clone()];
            chain.extend(checksum.then(|| json!({"name": "crc32c"})));
            let codecs = sharded(&[2, 16, 16], json!(chain), crc_index(), "end");
            write(&document("uint16", &[5, 40, 50], &[4, 32, 32], codecs), None).assert_all();
        }
    }
}

fn sizes(dimensions: usize) -> impl Strategy<Value = Vec<(u64, u64, u64, u64, u64)>> {
    // Length, chunk, chunks per shard, and where the region starts and ends, in percent.
    proptest::collection::vec((1u64..20, 1u64..7, 1u64..4, 0u64..100, 0u64..=100), dimensions)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_region_of_any_grid(sizes in (1usize..5).prop_flat_map(sizes), with_shards: bool, at_start: bool) {
        let of = |pick: fn(&(u64, u64, u64, u64, u64)) -> u64| sizes.iter().map(pick).collect::<Vec<_>>();
        let (shape, chunk) = (of(|size| size.0), of(|size| size.1));
        let start = of(|size| size.0 * size.3 / 100);
        let extent = of(|size| (size.0 - size.0 * size.3 / 100) * size.4 / 100);
        let location = if at_start { "start" } else { "end" };
        let written = if with_shards {
            let codecs = sharded(&chunk, json!([little()]), crc_index(), location);
            write(&document("uint16", &shape, &of(|size| size.1 * size.2), codecs), None)
        } else {
            write(&document("uint16", &shape, &chunk, json!([little()])), None)
        };
        prop_assert_eq!(written.read(&start, &extent), written.expected(&start, &extent));
        prop_assert_eq!(written.array.read_all().expect("pixels"), written.expected(&vec![0; shape.len()], &shape));
    }
}
