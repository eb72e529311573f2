//! Which numbers the array has places for, whatever came last; and that all of them are accounted for.

use std::time::{Duration, Instant};

use crate::common::storage::{Barrier, Probed, held_up_by, wait_until, within};
use crate::common::{frame, tiny};
use shardwright::{Acquisition, Config, Dialect, Dim, DimKind, Error, FrameMut, Record, RefusedNumber, RingFull};

fn flat(ranges: &[std::ops::Range<u64>]) -> Vec<u64> {
    ranges.iter().cloned().flatten().collect()
}

fn fill(mut slot: FrameMut, number: u64) {
    let bytes = slot.len();
    slot.copy_from_slice(&frame(number, bytes));
    slot.commit(number, Record::default()).unwrap();
}

#[test]
fn frames_dropped_while_others_are_being_filled_count_after_them() {
    within(30, || {
        // The ring is loaned out; three more frames find it full; then the frames from before are committed, in any
        // order.
        for order in [[0, 1, 2, 3, 4, 5, 6, 7], [4, 3, 2, 1, 0, 7, 6, 5], [2, 5, 1, 0, 7, 4, 3, 6]] {
            let config = Config { ring_full: RingFull::DropNewest, ..tiny(Some(64), 8) };
            let acquisition = Acquisition::create_in(Probed::new(|_, _| Ok(())).shared(), config).unwrap();
            let mut loans: Vec<_> = (0..8).map(|_| acquisition.acquire().ok()).collect();
            (0..3).for_each(|_| assert!(acquisition.acquire().unwrap_err().is_ring_full()));
            for number in order {
                fill(loans[number as usize].take().unwrap(), number);
            }
            let summary = acquisition.finish().unwrap();
            assert_eq!((summary.frames_written, summary.frames_missing, summary.shape[0]), (8, 3, 11), "{order:?}");
            assert_eq!(flat(&summary.missing), [8, 9, 10]);
        }
    });
}

#[test]
fn an_array_that_has_all_its_frames_is_no_full_ring() {
    let is_past_end = |error: Error| {
        assert!(
            matches!(error, Error::FrameNumber { number: 4, why: RefusedNumber::PastEnd { frames: 4 } }),
            "{error}"
        );
    };
    within(30, move || {
        let dims = vec![Dim::time(4).chunk(4).shard(4), Dim::y(16), Dim::x(16)];
        let config = Config { dims, ..tiny(None, 4) };
        let acquisition = Acquisition::create_in(Probed::new(|_, _| Ok(())).shared(), config).unwrap();
        let mut loans: Vec<_> = (0..4).map(|_| acquisition.acquire().unwrap()).collect();
        for number in 1..4 {
            fill(loans.pop().unwrap(), number);
        }
        // Number 0 has not come.
        assert!(acquisition.try_acquire().unwrap_err().is_ring_full());
        is_past_end(acquisition.append(&[7; 256]).unwrap_err());
        fill(loans.pop().unwrap(), 0);
        wait_until("the ring is free", || acquisition.stats().ring_free == 4);
        // A driver that keeps a queue gets its buffers to the end.
        let loans: Vec<_> = (0..4).map(|_| acquisition.acquire().unwrap()).collect();
        assert!(acquisition.try_acquire().unwrap_err().is_ring_full());
        is_past_end(acquisition.append(&[7; 256]).unwrap_err());
        drop(loans);
        assert_eq!(acquisition.finish().unwrap().frames_written, 4);
    });
}

#[test]
fn frames_dropped_before_the_last_one_are_not_counted_twice() {
    within(30, || {
        let barrier = Barrier::default();
        let storage = held_up_by(&barrier);
        let config = Config { ring_full: RingFull::DropNewest, ..tiny(None, 8) };
        let acquisition = Acquisition::create_in(storage.shared(), config).unwrap();
        let bring = |number| acquisition.acquire().map(|slot| fill(slot, number)).is_err();
        let dropped: Vec<_> = (0..12).filter(|&number| bring(number)).collect();
        assert_eq!(dropped, [8, 9, 10, 11]);
        barrier.open();
        wait_until("the ring is free", || acquisition.stats().ring_free == 8);
        assert!(!bring(12));
        let summary = acquisition.finish().unwrap();
        assert_eq!((summary.shape[0], flat(&summary.missing)), (13, dropped));
    });
}

#[test]
fn a_plan_of_more_frames_than_will_ever_come_ends_at_once() {
    within(30, || {
        // z is the slowest, so that the array keeps its planned shape, with places for 10^15 frames in shards of four.
        let dims = vec![
            Dim::time(1_000_000_000).chunk(1).shard(4),
            Dim { name: "z".into(), kind: DimKind::Space, ..Dim::time(1_000_000).chunk(1).shard(1) },
            Dim::y(16),
            Dim::x(16),
        ];
        let config = Config { dims, acquisition_order: vec!["z".into(), "t".into()], ..tiny(None, 16) };
        let acquisition = Acquisition::create_in(Probed::new(|_, _| Ok(())).shared(), config).unwrap();
        (0..10).for_each(|number| fill(acquisition.acquire().unwrap(), number));
        let start = Instant::now();
        let summary = acquisition.finish().unwrap();
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
        let all = 1_000_000_000 * 1_000_000;
        assert_eq!((summary.frames_written, summary.frames_missing), (10, all - 10));
        assert_eq!(summary.missing, std::slice::from_ref(&(10..all)));
    });
}

#[test]
fn a_volume_that_keeps_its_planned_shape_lists_all_places_without_frames() {
    within(30, || {
        let space = |name: &str, size: u64| Dim { name: name.into(), kind: DimKind::Space, ..Dim::time(size) };
        let dims = vec![space("z", 16).chunk(2), Dim::y(16).chunk(16), Dim::x(16).chunk(16)];
        let config = Config {
            dims,
            codec: shardwright::Codec { checksum: false, ..shardwright::Compressor::None.into() },
            dialect: Dialect::Precomputed,
            ..tiny(None, 16)
        };
        let acquisition = Acquisition::create_in(Probed::new(|_, _| Ok(())).shared(), config).unwrap();
        (0..5).for_each(|number| fill(acquisition.acquire().unwrap(), number));
        let summary = acquisition.finish().unwrap();
        let places = summary.shape[..summary.shape.len() - 2].iter().product::<u64>();
        assert_eq!(summary.frames_written + summary.frames_missing, places, "{summary:?}");
        assert_eq!(flat(&summary.missing), (5..places).collect::<Vec<_>>());
    });
}
