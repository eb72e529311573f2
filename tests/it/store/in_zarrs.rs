//! The store as a storage of zarrs: its arrays read and write elements and know nothing of shards.

use std::sync::Arc;

use zarrs::array::{Array as Elements, ArraySubset};
use zarrs::storage::byte_range::ByteRange;
use zarrs::storage::{
    ListableStorageTraits, ReadableStorageTraits, StorageError, StoreKey, StorePrefix, WritableStorageTraits,
};

use super::*;

fn subset(start: [u64; 3], shape: [u64; 3]) -> ArraySubset {
    ArraySubset::new_with_start_shape(start.to_vec(), shape.to_vec()).unwrap()
}

#[test]
fn zarrs_reads_and_writes_elements() {
    for compressor in [Compressor::None, Compressor::default(), Compressor::Zstd { level: 1 }] {
        for (placement, location) in [(Placement::Fixed, IndexLocation::End), (Placement::Packed, IndexLocation::Start)]
        {
            let folder = tempfile::tempdir().unwrap();
            let codec = Codec { compressor, checksum: true };
            let config = Config { codec, ..config(Dialect::Zarr3, placement, location) };
            let path = acquired(folder.path(), &config);
            let mut expected = Array::open(&path).unwrap().read_all().unwrap();
            let store = Arc::new(Store::edit(&path).unwrap());
            let array = Elements::open(store.clone(), "/0").unwrap();
            let whole: Vec<u8> = array.retrieve_array_subset(&array.subset_all()).unwrap();
            assert!(whole == expected);
            // Across chunks and shards, with parts of chunks, and over the frame that did not come.
            let pixels: Vec<u8> = (0..4 * 5 * 6).map(|at| at as u8).collect();
            array.store_array_subset(&subset([2, 1, 2], [4, 5, 6]), &pixels[..]).unwrap();
            for (at, pixel) in pixels.iter().enumerate() {
                let (t, y, x) = (at / 30 + 2, at % 30 / 6 + 1, at % 6 + 2);
                expected[t * 64 + y * 8 + x] = *pixel;
            }
            let whole: Vec<u8> = array.retrieve_array_subset(&array.subset_all()).unwrap();
            assert!(whole == expected);
            array.erase_chunk(&[0, 0, 0]).unwrap();
            paint(&mut expected, 0, 0);
            drop(array);
            Arc::into_inner(store).unwrap().finish().unwrap();
            assert!(Array::open(&path).unwrap().read_all().unwrap() == expected);
            sound(&path);
            assert!(!recovered(&path, false).unwrap().is_needed());
        }
    }
}

/// Without `shards`, the prototype's documents are those of any Zarr v2 array.
#[test]
fn zarrs_edits_the_prototype_as_zarr_v2() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = dataset(folder.path(), 5);
    let mut expected = Array::open(&path).unwrap().read_all().unwrap();
    let store = Arc::new(Store::edit(&path).unwrap());
    let array = Elements::open(store.clone(), "/").unwrap();
    let whole: Vec<u8> = array.retrieve_array_subset(&array.subset_all()).unwrap();
    assert!(whole == expected);
    array.store_array_subset(&subset([1, 0, 0], [2, 8, 8]), &[9u8; 128][..]).unwrap();
    expected[64..192].fill(9);
    assert!(Array::open(&path).unwrap().read_all().unwrap() == expected);
}

#[test]
fn it_is_a_storage_as_zarrs_wants_it() {
    let folder = tempfile::tempdir().unwrap();
    let (path, ..) = dataset(folder.path(), 4);
    let store = Store::edit(&path).unwrap();
    let key = |key: &str| StoreKey::new(key).unwrap();
    let prefix = |prefix: &str| StorePrefix::new(prefix).unwrap();
    let chunk = key("data/root/0/c5/1/1");
    let storage: &dyn WritableStorageTraits = &store;
    storage.set(&chunk, vec![1; 16].into()).unwrap();
    storage.set_partial(&chunk, 8, vec![2; 16].into()).unwrap();
    storage.erase_many(&[key("data/root/0/c0/0/0"), key("data/root/0/c0/0/0"), key("nothing")]).unwrap();
    storage.erase_prefix(&prefix("data/root/0/c4/")).unwrap();
    let storage: &dyn ReadableStorageTraits = &store;
    assert_eq!(storage.get(&chunk).unwrap().unwrap()[..], [[1; 8].as_slice(), &[2; 16]].concat());
    assert_eq!(storage.size_key(&chunk).unwrap(), Some(24));
    let ranges = [ByteRange::Suffix(1), ByteRange::FromStart(7, Some(2)), ByteRange::FromStart(24, None)];
    let parts = storage.get_partial_many(&chunk, Box::new(ranges.into_iter())).unwrap().unwrap();
    assert_eq!(parts.map(|part| part.unwrap().to_vec()).collect::<Vec<_>>(), [vec![2], vec![1, 2], vec![]]);
    let beyond = storage.get_partial(&chunk, ByteRange::Suffix(25));
    assert!(matches!(beyond, Err(StorageError::InvalidByteRangeError(_))));
    assert_eq!(storage.get(&key("data/root/0/c4/0/0")).unwrap(), None);
    let storage: &dyn ListableStorageTraits = &store;
    let listed = storage.list_prefix(&prefix("data/")).unwrap();
    assert_eq!(listed.len(), 24 - 4 - 4 - 1, "a frame that did not come, one erased, and a chunk");
    assert_eq!(storage.list().unwrap().iter().filter(|key| key.as_str().starts_with("data/")).count(), listed.len());
    let sizes = listed.iter().map(|key| store.size(key.as_str()).unwrap().unwrap()).sum::<u64>();
    assert_eq!(storage.size_prefix(&prefix("data/")).unwrap(), sizes);
    let below = storage.list_dir(&prefix("data/root/0/c5/1/")).unwrap();
    assert_eq!(below.keys(), &[key("data/root/0/c5/1/0"), chunk]);
    assert!(matches!(Store::open(&path).unwrap().erase("x"), Err(Error::Config { .. })));
}
