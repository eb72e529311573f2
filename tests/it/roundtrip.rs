//! Whatever geometry, order, codec and placement: what comes out is what went in.

use crate::common::{Expected, frame};
use proptest::prelude::*;
use shardwright::offline::Array;
use shardwright::{
    Acquisition, BloscCname, Codec, Compressor, Config, Dim, DimKind, Dtype, IndexLocation, Placement, Record, Shuffle,
    StorageKind, Summary,
};

/// Acquires the frames `numbers` and returns the summary.
fn acquire(path: &std::path::Path, config: &Config, numbers: &[u64]) -> Summary {
    let acquisition = Acquisition::create(path, config.clone()).unwrap();
    for &number in numbers {
        let mut slot = acquisition.acquire().unwrap();
        let bytes = slot.len();
        slot.copy_from_slice(&frame(number, bytes));
        slot.commit(number, Record::default()).unwrap();
    }
    acquisition.finish().unwrap()
}

fn check(config: &Config, numbers: &[u64]) -> Result<(), TestCaseError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.ome.zarr");
    let summary = acquire(&path, config, numbers);
    let array = Array::open(path.join("0")).unwrap();
    prop_assert_eq!(array.shape(), &summary.shape[..]);
    let mut expected = Expected::new(array.shape(), config.dtype);
    let frame_bytes = expected.pixels.len() / array.shape()[..array.shape().len() - 2].iter().product::<u64>() as usize;
    for &number in numbers {
        expected.put(config, number, &frame(number, frame_bytes));
    }
    prop_assert!(array.read_all().unwrap() == expected.pixels);
    prop_assert_eq!(summary.frames_written, numbers.len() as u64);
    // Every place of the array has a frame or is missing one.
    let places = summary.shape[..summary.shape.len() - 2].iter().product::<u64>();
    prop_assert_eq!(summary.frames_missing, places - numbers.len() as u64);
    let listed: u64 = summary.missing.iter().map(|range| range.end - range.start).sum();
    prop_assert_eq!(listed, summary.frames_missing);
    Ok(())
}

fn compressor() -> impl Strategy<Value = Compressor> {
    use BloscCname::{Blosclz, Lz4, Lz4hc, Zlib, Zstd};
    let shuffle = prop_oneof![Just(Shuffle::None), Just(Shuffle::Byte), Just(Shuffle::Bit)];
    let cname = prop_oneof![Just(Lz4), Just(Lz4hc), Just(Zstd), Just(Zlib), Just(Blosclz)];
    prop_oneof![
        Just(Compressor::None),
        (cname, 0u8..6, shuffle).prop_map(|(cname, level, shuffle)| Compressor::Blosc {
            cname,
            level,
            shuffle,
            block_bytes: 0
        }),
        (1i32..4).prop_map(|level| Compressor::Zstd { level }),
        (0u8..4).prop_map(|level| Compressor::Gzip { level }),
        Just(Compressor::Lz4),
        Just(Compressor::BloscNoise { block_bytes: 0 }),
    ]
}

fn storage() -> impl Strategy<Value = StorageKind> {
    prop_oneof![Just(StorageKind::Mapped), Just(StorageKind::Buffered), Just(StorageKind::Direct)]
}

fn config() -> impl Strategy<Value = Config> {
    let outer = prop::collection::vec((1u64..6, 1u64..4, 1u64..3), 0..4);
    let frame = [(1u64..40, 1u64..20, 1u64..3), (1u64..40, 1u64..20, 1u64..3)];
    let storing = (compressor(), any::<bool>(), any::<bool>(), any::<bool>(), storage(), 1usize..4);
    (outer, frame, prop::sample::select(Dtype::ALL), storing, any::<bool>(), any::<u64>()).prop_map(
        |(outer, frame, dtype, (compressor, checksum, packed, start, storage, workers), unbounded, shuffle)| {
            let dim = |at: usize, (size, chunk, chunks): (u64, u64, u64)| {
                let dim = Dim::new(&format!("d{at}"), DimKind::Other, size);
                Dim { chunk, shard: chunk * chunks, ..dim }
            };
            let mut dims: Vec<Dim> = outer.iter().chain(&frame).enumerate().map(|(at, &d)| dim(at, d)).collect();
            let count = outer.len();
            let mut order: Vec<String> = dims[..count].iter().map(|dim| dim.name.clone()).collect();
            if count > 0 && unbounded {
                dims[0].size = None;
                let turn = shuffle as usize % count.max(2).saturating_sub(1).max(1);
                order[1..].rotate_left(turn.min(count - 1));
            } else if count > 0 {
                order.rotate_left(shuffle as usize % count);
            }
            Config {
                dtype,
                dims,
                acquisition_order: order,
                codec: Codec { compressor, checksum },
                placement: if packed { Placement::Packed } else { Placement::Fixed },
                index_location: if start { IndexLocation::Start } else { IndexLocation::End },
                storage,
                ring_bytes: 4 << 20,
                workers,
                sync: false,
                ..Config::default()
            }
        },
    )
}

/// How many frames a run of `config` acquires: all, or some layers of an unbounded one.
fn frames(config: &Config) -> u64 {
    let outer = &config.dims[..config.dims.len() - 2];
    outer.iter().map(|dim| dim.size.unwrap_or(7)).product()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn whole_runs_are_equal(config in config()) {
        let numbers: Vec<u64> = (0..frames(&config)).collect();
        check(&config, &numbers)?;
    }

    #[test]
    fn runs_that_lack_frames_and_end_early_are_equal(config in config(), keep in any::<u64>(), until in 1u64..100) {
        let some = |number: &u64| (keep >> (number % 61)) & 1 == 1;
        let mut numbers: Vec<u64> = (0..frames(&config).min(until)).filter(some).collect();
        if numbers.is_empty() {
            numbers.push(0);
        }
        check(&config, &numbers)?;
    }
}

/// Chunks that need no gathering: whole rows, stored as they are.
fn whole_rows() -> impl Strategy<Value = Config> {
    let shape = (1u64..9, 1u64..4, 1u64..20, 1u64..12, 1u64..40);
    (shape, config()).prop_map(|((frames, depth, rows, chunk_rows, columns), config)| {
        let dims = vec![
            Dim::time(frames).chunk(depth).shard(2 * depth),
            Dim::y(rows).chunk(chunk_rows).shard(2 * chunk_rows),
            Dim::x(columns).chunk(columns).shard(columns),
        ];
        let codec = Codec { compressor: Compressor::None, ..config.codec };
        Config { dims, codec, acquisition_order: vec![], ..config }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn chunks_written_from_where_they_stand_are_equal(config in whole_rows(), keep in any::<u64>()) {
        let some = |number: &u64| *number == 0 || (keep >> number) & 1 == 1;
        let numbers: Vec<u64> = (0..frames(&config)).filter(some).collect();
        check(&config, &numbers)?;
    }
}

#[test]
fn frames_may_come_out_of_order_within_the_window() {
    let config = Config {
        dims: vec![Dim::time(40).chunk(4).shard(8), Dim::y(16), Dim::x(16)],
        ring_bytes: 16 * 4096,
        ..Config::default()
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.ome.zarr");
    let acquisition = Acquisition::create(&path, config.clone()).unwrap();
    let window = acquisition.reorder_window();
    assert!(window >= 8, "{window}");
    drop(acquisition);
    let mut numbers: Vec<u64> = (0..40).collect();
    numbers.chunks_mut(window as usize).for_each(<[u64]>::reverse);
    check(&config, &numbers).unwrap();
}

#[test]
fn a_frame_after_shards_that_got_none_is_not_missing() {
    let config = Config { dims: vec![Dim::time(None).chunk(1).shard(1), Dim::y(4), Dim::x(4)], ..Config::default() };
    check(&config, &[5]).unwrap();
}

/// Tiles of several of the encoder's blocks, whose rows lie apart in the frames: blocks begin in the midst of rows.
#[test]
fn tiles_encoded_from_where_their_rows_lie_are_equal() {
    let (frames, rows, columns) = (5_u64, 317_u64, 211_u64);
    for (depth, high, wide) in [(1, 160, 105), (2, 150, 100), (3, 317, 70)] {
        let config = Config {
            dtype: Dtype::U16,
            dims: vec![Dim::time(frames).chunk(depth), Dim::y(rows).chunk(high), Dim::x(columns).chunk(wide)],
            codec: Codec::from(Compressor::BloscNoise { block_bytes: 0 }),
            ..Config::default()
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.ome.zarr");
        let acquisition = Acquisition::create(&path, config.clone()).unwrap();
        let mut expected = Vec::new();
        for number in 0..frames {
            let pixels = camera_noise(number, (rows * columns) as usize);
            let mut slot = acquisition.acquire().unwrap();
            slot.copy_from_slice(&pixels);
            slot.commit(number, Record::default()).unwrap();
            expected.extend(pixels);
        }
        let summary = acquisition.finish().unwrap();
        assert!(summary.bytes_out * 3 < summary.bytes_in * 2, "it must not be stored: {summary:?}");
        let read = Array::open(path.join("0")).unwrap().read_all().unwrap();
        assert!(read == expected, "chunks of {depth} x {high} x {wide}");
    }
}

/// Sixteen-bit pixels of a dark frame: noise in the low seven bits and nothing above.
fn camera_noise(number: u64, pixels: usize) -> Vec<u8> {
    let noise = frame(number, 2 * pixels);
    noise.chunks_exact(2).flat_map(|pair| (100 + u16::from(pair[0] & 0x7F)).to_le_bytes()).collect()
}
