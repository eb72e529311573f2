//! What is kept about each frame beside its pixels: one array a field, one element a frame.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::common::stopped::record_block;
use crate::common::storage::wait_until;
use crate::common::{frame, tiny};
use serde_json::json;
use shardwright::offline::Array;
use shardwright::{
    Acquisition, Codec, Compressor, Config, Dialect, Dim, Dtype, Error, FieldValue, Record, RecordField, RingFull,
};

/// All elements of a record array; `N` is the size of one.
fn column<const N: usize>(path: &Path, name: &str) -> Vec<[u8; N]> {
    let array = Array::open(path.join("records").join(name)).unwrap();
    assert_eq!(array.dtype().size(), N, "{name}");
    let bytes = array.read_all().unwrap();
    assert_eq!(bytes.len() as u64, array.shape()[0] * N as u64);
    bytes.chunks_exact(N).map(|element| element.try_into().unwrap()).collect()
}

fn numbers(path: &Path) -> Vec<i64> {
    column(path, "frame_number").into_iter().map(i64::from_le_bytes).collect()
}

fn fields(fields: &[(&str, Dtype)]) -> Vec<RecordField> {
    fields.iter().map(|&(name, dtype)| RecordField { name: name.into(), dtype }).collect()
}

#[test]
fn records_hold_what_was_committed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    let record_fields = fields(&[
        ("exposure", Dtype::F32),
        ("stage-x", Dtype::F64),
        ("gain", Dtype::U8),
        ("offset", Dtype::I16),
        ("serial", Dtype::U64),
        ("laser", Dtype::U16),
    ]);
    let acquisition = Acquisition::create(&path, Config { record_fields, ..tiny(None, 16) }).unwrap();
    for number in 0..50u64 {
        let mut slot = acquisition.acquire().unwrap();
        slot.copy_from_slice(&frame(number, 256));
        let n = number as i64;
        let mut record = Record::default();
        (record.device_timestamp, record.host_timestamp) = (Some(u64::MAX - number), Some(n - 25));
        record.set(0, number as f64 / 4.0).set(1, -(number as f64) / 3.0).set(2, number * 5).set(3, -n * 600);
        record.set(4, FieldValue::Uint(u64::MAX - number));
        slot.commit(number, record).unwrap();
    }
    acquisition.finish().unwrap();

    assert_eq!(numbers(&path), (0..50).collect::<Vec<_>>());
    for (number, at) in (0..50u64).zip(0..) {
        let n = number as i64;
        assert_eq!(u64::from_le_bytes(column(&path, "device_timestamp")[at]), u64::MAX - number);
        assert_eq!(i64::from_le_bytes(column(&path, "host_timestamp")[at]), n - 25);
        assert_eq!(f32::from_le_bytes(column(&path, "exposure")[at]), number as f32 / 4.0);
        assert_eq!(f64::from_le_bytes(column(&path, "stage-x")[at]), -(number as f64) / 3.0);
        assert_eq!(u64::from(u8::from_le_bytes(column(&path, "gain")[at])), number * 5);
        assert_eq!(i64::from(i16::from_le_bytes(column(&path, "offset")[at])), -n * 600);
        assert_eq!(u64::from_le_bytes(column(&path, "serial")[at]), u64::MAX - number);
        assert_eq!(u16::from_le_bytes(column(&path, "laser")[at]), 0, "a field that was not set is 0");
    }
}

/// As of one that came without them: 0 would be a measurement.
#[test]
fn frames_that_never_came_have_no_measurements() {
    for dialect in [Dialect::Zarr3, Dialect::Zarr3Transformer, Dialect::Zarr2Sharded] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.zarr");
        let record_fields = fields(&[("exposure", Dtype::F32), ("stage", Dtype::F64), ("gain", Dtype::U8)]);
        let codec = Codec { compressor: Compressor::None, checksum: false };
        let config = Config { record_fields, dialect, codec, ..tiny(None, 16) };
        let acquisition = Acquisition::create(&path, config).unwrap();
        for (number, record) in [(0, Record::default().with(0, 1.5).with(1, 2.5).with(2, 3)), (2, Record::default())] {
            let mut slot = acquisition.acquire().unwrap();
            slot.copy_from_slice(&frame(number, 256));
            slot.commit(number, record).unwrap();
        }
        acquisition.finish().unwrap();
        assert_eq!(numbers(&path), [0, -1, 2]);
        let bits: Vec<_> = column(&path, "exposure").into_iter().map(u32::from_le_bytes).collect();
        assert_eq!(bits, [1.5, f32::NAN, f32::NAN].map(f32::to_bits));
        let bits: Vec<_> = column(&path, "stage").into_iter().map(u64::from_le_bytes).collect();
        assert_eq!(bits, [2.5, f64::NAN, f64::NAN].map(f64::to_bits));
        assert_eq!(column(&path, "gain"), [[3], [0], [0]]);
        for (name, fill) in
            [("frame_number", json!(-1)), ("exposure", json!("NaN")), ("stage", json!("NaN")), ("gain", json!(0))]
        {
            let document = std::fs::read(path.join("records").join(name).join("zarr.json")).unwrap();
            let document: serde_json::Value = serde_json::from_slice(&document).unwrap();
            assert_eq!(document["fill_value"], fill, "{name}");
        }
    }
}

/// A type with what fits it, and what that is as a floating-point number when it is read back; and with what does not.
type Fits = (Dtype, Vec<(FieldValue, f64)>, Vec<FieldValue>);

fn fits() -> Vec<Fits> {
    let never: [FieldValue; 5] =
        [f64::NAN.into(), f64::INFINITY.into(), f64::NEG_INFINITY.into(), 2.5.into(), 1e300.into()];
    let but = |more: &[FieldValue]| [&never[..], more].concat();
    let int = |fit: &[i64]| fit.iter().map(|&value| (value.into(), value as f64)).collect::<Vec<_>>();
    let fraction = (0.1.into(), f64::from(0.1_f32));
    let special = [(f64::INFINITY.into(), f64::INFINITY), (FieldValue::Uint(u64::MAX), u64::MAX as f64)];
    vec![
        (Dtype::U8, [int(&[0, 255]), vec![(7.0.into(), 7.0)]].concat(), but(&[(-1).into(), 256.into(), 256.0.into()])),
        (Dtype::I8, [int(&[-128, 127]), vec![((-0.0).into(), 0.0)]].concat(), but(&[(-129).into(), 128_u64.into()])),
        (Dtype::U16, int(&[0, 65_535]), but(&[(-1).into(), 65_536.into()])),
        (Dtype::I16, int(&[-32_768, 32_767]), but(&[32_768.into(), (-32_769).into()])),
        (Dtype::U32, int(&[0, (1 << 32) - 1]), but(&[(-1).into(), (1_i64 << 32).into()])),
        (Dtype::I32, int(&[i32::MIN.into(), i32::MAX.into()]), but(&[(1_i64 << 31).into()])),
        (Dtype::U64, vec![(u64::MAX.into(), u64::MAX as f64)], but(&[i64::MIN.into(), (2.0_f64.powi(64)).into()])),
        (Dtype::I64, int(&[i64::MIN, i64::MAX]), but(&[u64::MAX.into(), (2.0_f64.powi(63)).into()])),
        (Dtype::F32, [vec![fraction], special.to_vec()].concat(), vec![1e39.into(), (-1e39).into()]),
        (Dtype::F64, [vec![(0.1.into(), 0.1), (1e300.into(), 1e300)], special.to_vec()].concat(), vec![]),
    ]
}

fn as_float(dtype: Dtype, bytes: &[u8]) -> f64 {
    match dtype {
        Dtype::U8 => bytes[0].into(),
        Dtype::I8 => (bytes[0] as i8).into(),
        Dtype::U16 => u16::from_le_bytes(bytes.try_into().unwrap()).into(),
        Dtype::I16 => i16::from_le_bytes(bytes.try_into().unwrap()).into(),
        Dtype::U32 => u32::from_le_bytes(bytes.try_into().unwrap()).into(),
        Dtype::I32 => i32::from_le_bytes(bytes.try_into().unwrap()).into(),
        Dtype::U64 => u64::from_le_bytes(bytes.try_into().unwrap()) as f64,
        Dtype::I64 => i64::from_le_bytes(bytes.try_into().unwrap()) as f64,
        Dtype::F32 => f32::from_le_bytes(bytes.try_into().unwrap()).into(),
        Dtype::F64 => f64::from_le_bytes(bytes.try_into().unwrap()),
        other => panic!("{other} is new"),
    }
}

/// What does not fit is refused with the field's name and its range, whoever commits it, and costs no frame.
#[test]
fn values_that_do_not_fit_are_refused_and_the_frame_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    for (dtype, fit, unfit) in fits() {
        let path = folder.path().join(format!("{dtype}.zarr"));
        let record_fields = fields(&[("other", Dtype::U8), ("gain", dtype)]);
        let acquisition = Acquisition::create(&path, Config { record_fields, ..tiny(None, 16) }).unwrap();
        let refused = |error: &Error, value: FieldValue| {
            let Error::Record { field, reason } = error else { panic!("{error:?}") };
            assert_eq!(field, "\"gain\"");
            assert!(reason.starts_with(&format!("{value} does not fit {dtype}, which holds ")), "{error}");
        };
        for &value in &unfit {
            let record = Record::default().with(1, value);
            refused(&acquisition.check_record(&record).unwrap_err(), value);
            refused(&acquisition.append_with(&frame(0, 256), 16, record).unwrap_err(), value);
        }
        for &(value, _) in &fit {
            let mut slot = acquisition.acquire().unwrap();
            for &unfit in &unfit {
                let uncommitted = slot.try_commit(None, Record::default().with(1, unfit)).unwrap_err();
                refused(&uncommitted.error, unfit);
                slot = uncommitted.frame;
            }
            slot.try_commit(None, Record::default().with(1, value)).unwrap();
        }
        let summary = acquisition.finish().unwrap();
        assert_eq!((summary.frames_written, summary.frames_missing), (fit.len() as u64, 0), "{dtype}");
        let stored = Array::open(path.join("records/gain")).unwrap().read_all().unwrap();
        let stored: Vec<f64> = stored.chunks_exact(dtype.size()).map(|bytes| as_float(dtype, bytes)).collect();
        assert_eq!(stored, fit.iter().map(|&(_, stored)| stored).collect::<Vec<_>>(), "{dtype}");
    }
}

/// Where the ring lets frames go, none goes for a record that is refused.
#[test]
fn a_full_ring_lets_no_frame_go_for_a_record_that_does_not_fit() {
    let folder = tempfile::tempdir().unwrap();
    let record_fields = fields(&[("gain", Dtype::U8)]);
    let config = Config { record_fields, ring_full: RingFull::DropNewest, ..tiny(None, 8) };
    let acquisition = Acquisition::create(folder.path().join("run.zarr"), config).unwrap();
    let held: Vec<_> = std::iter::from_fn(|| acquisition.try_acquire().ok()).collect();
    let record = Record::default().with(0, 256);
    assert!(matches!(acquisition.append_with(&frame(0, 256), 16, record), Err(Error::Record { .. })));
    assert_eq!(acquisition.stats().frames_dropped, 0);
    drop(held);
    acquisition.abort();
}

#[test]
fn a_frame_without_a_time_gets_that_of_its_commit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    let acquisition = Acquisition::create(&path, tiny(None, 16)).unwrap();
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64;
    let before = now();
    for number in 0..5 {
        let _ = acquisition.append(&frame(number, 256)).unwrap();
    }
    let after = now();
    acquisition.finish().unwrap();
    let times: Vec<i64> = column(&path, "host_timestamp").into_iter().map(i64::from_le_bytes).collect();
    assert_eq!(times.len(), 5);
    assert!(times.is_sorted() && times[0] >= before && times[4] <= after, "{before} {times:?} {after}");
}

/// Commits `0..end` but those that `missing` names, and checks the frame numbers.
fn check_numbers(config: Config, end: u64, missing: impl Fn(u64) -> bool) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    let acquisition = Acquisition::create(&path, Config { leap_max: end, ..config }).unwrap();
    for number in (0..end).filter(|&number| !missing(number)) {
        let mut record = Record::default();
        record.device_timestamp = Some(number * 7);
        acquisition.acquire().unwrap().commit(number, record).unwrap();
    }
    let summary = acquisition.finish().unwrap();
    let end = (0..end).rfind(|&number| !missing(number)).map_or(0, |last| last + 1);
    let expected: Vec<i64> = (0..end).map(|number| if missing(number) { -1 } else { number as i64 }).collect();
    assert!(numbers(&path) == expected);
    let times: Vec<u64> = column(&path, "device_timestamp").into_iter().map(u64::from_le_bytes).collect();
    let expected: Vec<u64> = (0..end).map(|number| if missing(number) { 0 } else { number * 7 }).collect();
    assert!(times == expected);
    assert_eq!(summary.frames_missing, (0..end).filter(|&number| missing(number)).count() as u64);
}

fn many(frames: Option<u64>) -> Config {
    let dims = vec![Dim::time(frames).chunk(256).shard(8192), Dim::y(2), Dim::x(2)];
    Config { dims, ..tiny(None, 1024) }
}

#[test]
fn frames_that_never_came_have_the_number_minus_one() {
    check_numbers(tiny(None, 16), 100, |number| number % 7 == 3 || (20..45).contains(&number));
    check_numbers(tiny(Some(100), 16), 60, |number| number == 0 || number == 59);
    check_numbers(tiny(None, 16), 0, |_| false);
}

#[test]
fn records_go_on_over_several_blocks() {
    // A block is 16384 frames.
    check_numbers(many(None), 16384, |_| false);
    check_numbers(many(None), 16385, |_| false);
    check_numbers(many(None), 50_000, |number| number % 1000 == 999);
    check_numbers(many(Some(40_000)), 40_000, |number| number == 16_383 || number == 16_384 || number == 39_998);
}

#[test]
fn a_block_of_which_nothing_came_reads_as_missing() {
    check_numbers(many(None), 60_000, |number| (10_000..55_000).contains(&number));
}

#[test]
fn the_order_in_which_frames_come_does_not_matter() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    let acquisition = Acquisition::create(&path, tiny(None, 32)).unwrap();
    let window = acquisition.reorder_window() as usize;
    let mut order: Vec<u64> = (0..200).collect();
    order.chunks_mut(window).for_each(<[u64]>::reverse);
    for number in order {
        acquisition.acquire().unwrap().commit(number, Record::default()).unwrap();
    }
    acquisition.finish().unwrap();
    assert_eq!(numbers(&path), (0..200).collect::<Vec<_>>());
}

#[test]
fn checkpoints_write_what_is_known_so_far() {
    for frames in [None, Some(40_000)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.zarr");
        let config = Config { checkpoint_every: Duration::from_millis(10), ..tiny(frames, 64) };
        let acquisition = Acquisition::create(&path, config).unwrap();
        let window = acquisition.reorder_window();
        let commit = |number: u64| {
            let mut slot = acquisition.acquire().unwrap();
            slot.copy_from_slice(&frame(number, 256));
            slot.commit(number, Record::stamped(1000 + number)).unwrap();
        };
        let told = |wanted: &[i64]| {
            let (block, at) = record_block(&path, "frame_number", 0);
            wait_until("the numbers are there", || {
                let bytes = std::fs::read(&block).unwrap_or_default();
                let numbers = bytes
                    .get(at..)
                    .unwrap_or_default()
                    .chunks_exact(8)
                    .map(|number| i64::from_le_bytes(number.try_into().unwrap()));
                numbers.take(wanted.len()).eq(wanted.iter().copied())
            });
        };
        [0, 1, 2, 4].into_iter().for_each(commit);
        told(&[0, 1, 2, -2, 4, -2, -2]);
        // It can still come as long as it is in the window.
        (5..=3 + window).for_each(commit);
        told(&[0, 1, 2, -2, 4, 5]);
        commit(4 + window);
        let last = 4 + window as i64;
        let expected: Vec<_> = (0..=last).map(|number| if number == 3 { -1 } else { number }).collect();
        told(&[&expected[..], &[-2]].concat());
        if frames.is_none() {
            wait_until("the shape follows", || numbers(&path).len() as i64 == last + 1);
        }
        assert_eq!(numbers(&path)[..expected.len()], expected);
        let stamps: Vec<_> = column(&path, "device_timestamp").into_iter().map(u64::from_le_bytes).collect();
        assert_eq!(stamps[..5], [1000, 1001, 1002, 0, 1004]);

        acquisition.finish().unwrap();
        assert_eq!(numbers(&path)[..expected.len()], expected);
        assert!(numbers(&path)[expected.len()..].iter().all(|&number| number == -1));
    }
}

#[test]
fn checkpoints_write_blocks_that_are_open_at_the_same_time() {
    const BLOCK: u64 = 16_384;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    let config = Config { checkpoint_every: Duration::from_millis(10), ..tiny(None, 64) };
    let acquisition = Acquisition::create(&path, config).unwrap();
    let commit = |number: u64| {
        let mut slot = acquisition.acquire().unwrap();
        slot.copy_from_slice(&frame(number, 256));
        slot.commit(number, Record::default()).unwrap();
    };
    let window = acquisition.reorder_window();
    assert!(window > 25, "{window}");
    // Two numbers of the first block are not settled while others of the second have come.
    let gaps = [BLOCK - 20, BLOCK - 2];
    (0..BLOCK + 3).filter(|number| !gaps.contains(number)).for_each(commit);
    let at = |number: u64| {
        let (block, at) = record_block(&path, "frame_number", number / BLOCK);
        let bytes = std::fs::read(block).ok()?;
        let bytes = bytes.get(at + 8 * (number % BLOCK) as usize..)?.first_chunk()?;
        Some(i64::from_le_bytes(*bytes))
    };
    let are = |wanted: &[(u64, i64)]| {
        let all_are = || wanted.iter().all(|&(number, wanted)| at(number) == Some(wanted));
        wait_until("they are as they should be", all_are);
    };
    let block = BLOCK as i64;
    are(&[(gaps[0], -2), (gaps[1], -2), (BLOCK - 1, block - 1), (BLOCK + 2, block + 2), (BLOCK + 3, -2)]);
    // The first of them falls out of the window, though nothing else comes for that block.
    (BLOCK + 3..=gaps[0] + window + 1).for_each(commit);
    are(&[(gaps[0], -1), (gaps[1], -2), (BLOCK + 3, block + 3)]);
    commit(gaps[1]);
    are(&[(gaps[0], -1), (gaps[1], block - 2)]);
    acquisition.finish().unwrap();
    let expected = |number| if number == block - 20 { -1 } else { number };
    assert_eq!(numbers(&path), (0..=(gaps[0] + window + 1) as i64).map(expected).collect::<Vec<_>>());
}

/// Also where no checkpoint writes them: then the closing of a shard makes frames durable.
#[test]
fn what_is_durable_has_its_record() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    for (name, checkpoint_every) in [("never", Duration::ZERO), ("seldom", Duration::from_secs(3600))] {
        let path = path.with_file_name(name);
        let run = Acquisition::create(&path, Config { checkpoint_every, sync: true, ..tiny(None, 16) }).unwrap();
        for number in 0..10 {
            let _ = run.append_with(&[1; 256], 16, Record::stamped(number + 7)).unwrap();
        }
        wait_until("two shards are durable", || run.stats().frames_durable >= 8);
        let stamps: Vec<u64> = column(&path, "device_timestamp").into_iter().map(u64::from_le_bytes).collect();
        assert_eq!(stamps[..8], [7, 8, 9, 10, 11, 12, 13, 14], "{name}");
        run.finish().unwrap();
    }
}
