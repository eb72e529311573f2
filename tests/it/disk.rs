//! The bytes of a closed shard: where chunks, headers and the index stand, and how many disk blocks they take.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::common::stopped::{Frame, finished, frames_of, sound, stopped};
use crate::common::{fault_step, frame, on_disk, recovered, tiny};
use shardwright::offline::Store;
use shardwright::{
    Acquisition, BloscCname, Codec, Compressor, Config, Dim, Dtype, IndexLocation, Placement, Record, Shuffle,
    StorageKind,
};

const HEADER: u64 = 64;
const BLOCK: u64 = 4096;
const MISSING: u64 = u64::MAX;

/// One chunk's line in the index.
#[derive(Debug, Clone, Copy)]
struct Entry {
    chunk: u32,
    offset: u64,
    nbytes: u64,
}

fn number<const N: usize>(bytes: &[u8], at: u64) -> [u8; N] {
    bytes[at as usize..][..N].try_into().unwrap()
}

fn u64_at(bytes: &[u8], at: u64) -> u64 {
    u64::from_le_bytes(number(bytes, at))
}

fn u32_at(bytes: &[u8], at: u64) -> u32 {
    u32::from_le_bytes(number(bytes, at))
}

/// CRC-32C bit by bit, so that the test does not trust the library that the writer uses.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ if crc & 1 == 1 { 0x82F6_3B78 } else { 0 })
    })
}

/// Reads an index and checks its place and its checksum; returns the chunks that are there.
fn index(file: &[u8], location: IndexLocation, chunks: u64) -> Vec<Entry> {
    let bytes = 16 * chunks + 4;
    let at = match location {
        IndexLocation::Start => 0,
        _ => file.len() as u64 - bytes,
    };
    let index = &file[at as usize..][..bytes as usize];
    let (entries, crc) = index.split_at(index.len() - 4);
    assert_eq!(crc32c(entries), u32::from_le_bytes(crc.try_into().unwrap()), "the index's checksum");
    let entry = |chunk: u64| Entry {
        chunk: chunk as u32,
        offset: u64_at(entries, 16 * chunk),
        nbytes: u64_at(entries, 16 * chunk + 8),
    };
    let there: Vec<_> = (0..chunks).map(entry).filter(|entry| entry.offset != MISSING).collect();
    let data_end = there.iter().map(|entry| entry.offset + entry.nbytes).max().unwrap();
    let file_end = if location == IndexLocation::End { data_end + bytes } else { data_end };
    assert_eq!(file.len() as u64, file_end, "the file ends where its last part ends");
    there
}

/// Checks the header before a chunk, as `src/shard/slot.rs` draws it.
fn check_header(file: &[u8], entry: &Entry, shard: u64, config: &Config) -> [u8; 16] {
    let at = entry.offset - HEADER;
    let header = &file[at as usize..][..HEADER as usize];
    let payload = &file[entry.offset as usize..][..entry.nbytes as usize];
    assert_eq!(at % 8, 0);
    assert_eq!(&header[..4], b"SWc1", "{entry:?}");
    assert_eq!((header[4], header[5]), (1, u8::from(config.codec.checksum)));
    let covered = if config.codec.checksum { &payload[..payload.len() - 4] } else { payload };
    assert_eq!(u32_at(header, 8), crc32c(covered), "{entry:?}");
    assert_eq!((u32_at(header, 12), u64_at(header, 16)), (entry.chunk, entry.nbytes));
    assert_eq!(u64_at(header, 40), shard);
    let deep = config.dims[0].chunk;
    let first = shard * config.dims[0].shard + u64::from(entry.chunk) / across(config) * deep;
    assert_eq!(u64_at(header, 48), first, "{entry:?}");
    assert_eq!(u64::from(u32_at(header, 56)), deep - 1);
    assert_eq!(u32_at(header, 60), crc32c(&header[..60]), "{entry:?}");
    number(header, 24)
}

/// Chunks side by side in a frame.
fn across(config: &Config) -> u64 {
    config.dims[1..].iter().map(|dim| dim.size.unwrap() / dim.chunk).product()
}

fn config(compressor: Compressor, chunk: u64) -> Config {
    let dims = vec![Dim::time(None).chunk(2).shard(8), Dim::y(256).chunk(chunk), Dim::x(256).chunk(chunk)];
    Config { dtype: Dtype::U16, dims, codec: compressor.into(), ring_bytes: 8 << 20, workers: 3, ..tiny(None, 8) }
}

const SHARDS: u64 = 3;

/// Acquires three shards whole and returns their files. Frames from 4 to 6 leave out the middle, where `holes`.
fn acquire(folder: &Path, config: &Config, holes: bool) -> Vec<PathBuf> {
    let path = folder.join("run.zarr");
    let acquisition = Acquisition::create(&path, config.clone()).unwrap();
    for number in 0..8 * SHARDS {
        let mut slot = acquisition.acquire().unwrap();
        let bytes = slot.len();
        // Half of what a frame holds shrinks to next to nothing.
        slot.copy_from_slice(&frame(number, bytes));
        slot[bytes / 2..].fill(9);
        if holes && (4..6).contains(&(number % 8)) {
            slot.fill(0);
        }
        slot.commit(number, Record::default()).unwrap();
    }
    acquisition.finish().unwrap();
    (0..SHARDS).map(|shard| path.join(format!("0/c/{shard}/0/0"))).collect()
}

fn compressors() -> [Compressor; 3] {
    let shuffle = Shuffle::Bit;
    let blosc = Compressor::Blosc { cname: BloscCname::Lz4, level: 1, shuffle, block_bytes: 0 };
    [Compressor::None, blosc, Compressor::Zstd { level: 1 }]
}

/// All ways to write, for chunks below and above a disk block.
fn ways(mut check: impl FnMut(&Config)) {
    for compressor in compressors() {
        for chunk in [16, 64, 128] {
            for index_location in [IndexLocation::End, IndexLocation::Start] {
                for storage in [StorageKind::Mapped, StorageKind::Buffered] {
                    let checksum = chunk != 64;
                    let codec = Codec { checksum, ..compressor.into() };
                    check(&Config { index_location, storage, codec, ..config(compressor, chunk) });
                }
            }
        }
    }
}

#[test]
fn fixed_shards_take_no_more_blocks_than_their_data_need() {
    ways(|config| {
        let config = &Config { placement: Placement::Fixed, ..config.clone() };
        let folder = on_disk();
        let chunks = 4 * across(config);
        for (shard, path) in (0..).zip(acquire(folder.path(), config, true)) {
            let file = std::fs::read(&path).unwrap();
            let entries = index(&file, config.index_location, chunks);
            assert_eq!(entries.len() as u64, chunks * 3 / 4);
            for entry in &entries {
                check_header(&file, entry, shard, config);
            }
            let slots: Vec<_> = entries.iter().map(|entry| entry.offset - HEADER).collect();
            assert!(slots.is_sorted(), "slots are in the order of the chunks");
            // Slots below a block share blocks; above, each starts one.
            let first = if config.index_location == IndexLocation::Start {
                (16 * chunks + 4).next_multiple_of(BLOCK)
            } else {
                0
            };
            let slot_bytes = (slots[1] - slots[0]).max(8);
            assert!(slots.iter().all(|at| (at - first) % slot_bytes == 0));
            let needed: u64 = if slot_bytes >= BLOCK {
                entries.iter().map(|entry| (HEADER + entry.nbytes).next_multiple_of(BLOCK)).sum()
            } else {
                (chunks * slot_bytes).next_multiple_of(BLOCK)
            };
            let index_bytes = (16 * chunks + 4).next_multiple_of(BLOCK) + BLOCK;
            let taken = std::fs::metadata(&path).unwrap().blocks() * 512;
            // ext4 needs a block for its list of extents when there are more than four.
            assert!(taken <= needed + index_bytes + BLOCK, "{taken} > {needed} + {index_bytes}: {config:?}");
        }
    });
}

#[test]
fn packed_shards_have_no_gaps() {
    ways(|config| {
        let config = &Config { placement: Placement::Packed, ..config.clone() };
        let folder = on_disk();
        let chunks = 4 * across(config);
        let mut dataset = None;
        for (shard, path) in (0..).zip(acquire(folder.path(), config, true)) {
            let file = std::fs::read(&path).unwrap();
            let mut entries = index(&file, config.index_location, chunks);
            assert_eq!(entries.len() as u64, chunks * 3 / 4);
            entries.sort_by_key(|entry| entry.offset);
            let mut end = if config.index_location == IndexLocation::Start {
                (16 * chunks + 4).next_multiple_of(BLOCK)
            } else {
                0
            };
            for entry in &entries {
                let gap = (entry.offset - HEADER).checked_sub(end).expect("chunks overlap");
                assert!(gap < 8, "a gap of {gap} bytes before {entry:?}");
                end = entry.offset + entry.nbytes;
                let uuid = check_header(&file, entry, shard, config);
                assert_eq!(*dataset.get_or_insert(uuid), uuid);
            }
            let taken = std::fs::metadata(&path).unwrap().blocks() * 512;
            assert!(taken <= (file.len() as u64).next_multiple_of(BLOCK) + BLOCK, "{taken} for {} bytes", file.len());
        }
    });
}

#[test]
fn the_dataset_of_the_headers_is_that_of_the_document() {
    let folder = on_disk();
    let config = config(Compressor::None, 64);
    let path = &acquire(folder.path(), &config, false)[0];
    let file = std::fs::read(path).unwrap();
    let uuid = check_header(&file, &index(&file, IndexLocation::End, 64)[5], 0, &config);
    let document = std::fs::read(folder.path().join("run.zarr/zarr.json")).unwrap();
    let document: serde_json::Value = serde_json::from_slice(&document).unwrap();
    let hex: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(document["attributes"]["shardwright"]["writer"], hex.as_str());
}

/// Chunks of whole rows of a frame, of 1 MiB or 2; with 640 rows, the last of a frame is not whole.
fn of_whole_rows(rows: u64, deep: u64, storage: StorageKind, turn: usize) -> Config {
    let index_location = if turn.is_multiple_of(2) { IndexLocation::End } else { IndexLocation::Start };
    Config {
        dtype: Dtype::U16,
        dims: vec![Dim::time(None).chunk(deep).shard(4), Dim::y(rows).chunk(256).shard(768), Dim::x(2048).chunk(2048)],
        codec: Codec { compressor: Compressor::None, checksum: (turn / 2).is_multiple_of(2) },
        index_location,
        storage,
        ring_bytes: 32 << 20,
        workers: 2,
        ..tiny(None, 8)
    }
}

/// Puts one chunk in the place of another; all others stay as they are.
fn edit_a_chunk(path: &Path) {
    let chunks = |store: &Store| -> BTreeMap<String, Vec<u8>> {
        let keys = store.list_prefix("0/c/").unwrap();
        keys.into_iter().map(|key| (key.clone(), store.get(&key).unwrap().unwrap())).collect()
    };
    let store = Store::edit(path).unwrap();
    let mut expected = chunks(&store);
    expected.insert("0/c/0/1/0".into(), expected["0/c/1/0/0"].clone());
    store.set("0/c/0/1/0", &expected["0/c/0/1/0"]).unwrap();
    drop(store);
    assert!(chunks(&Store::open(path).unwrap()) == expected);
    sound(path);
}

#[test]
fn chunks_of_whole_rows_start_on_pages_and_come_back() {
    let numbers: Vec<u64> = (0..10).collect();
    for turn in (0..16_usize).step_by(fault_step(3)) {
        let storage = if turn < 8 { StorageKind::Direct } else { StorageKind::Auto };
        let (rows, deep) = (if (turn / 4).is_multiple_of(2) { 768 } else { 640 }, 1 + turn as u64 / 2 % 2);
        let config = of_whole_rows(rows, deep, storage, turn);
        let folder = on_disk();
        let path = folder.path().join("run.zarr");
        finished(&path, &config, &numbers);
        sound(&path);
        assert_eq!(frames_of(&path, &config, 10), [Frame::Whole; 10], "{config:?}");
        for shard in 0..2 {
            let path = path.join(format!("0/c/{shard}/0/0"));
            let file = std::fs::read(&path).unwrap();
            let chunks = 3 * 4 / deep;
            let entries = index(&file, config.index_location, chunks);
            assert_eq!(entries.len() as u64, chunks);
            for entry in &entries {
                assert_eq!(entry.offset % BLOCK, 0, "{entry:?} of {config:?}");
                if rows == 768 {
                    check_header(&file, entry, shard, &config);
                }
            }
            let needed: u64 = entries.iter().map(|entry| BLOCK + entry.nbytes.next_multiple_of(BLOCK)).sum();
            let taken = std::fs::metadata(&path).unwrap().blocks() * 512;
            assert!(taken <= needed + 3 * BLOCK, "{taken} > {needed}: {config:?}");
        }
        edit_a_chunk(&path);
        let left = stopped(folder.path(), &config, &numbers, 10);
        recovered(&left, true).unwrap();
        sound(&left);
        let found = frames_of(&left, &config, 10);
        assert_eq!(found, [Frame::Whole; 10], "{config:?}");
    }
}
