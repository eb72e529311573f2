//! Frames that are read while their run goes on: from the ring, from open and from closed shards.

use std::fs;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::frame;
use shardwright::{
    Acquisition, Codec, Compressor, Config, Dataset, Dim, Dtype, Error, IndexLocation, Memory, Placement, Record,
    StorageKind,
};

const SHAPE: [usize; 2] = [20, 30];
const BYTES: usize = SHAPE[0] * SHAPE[1] * 2;

/// Frames of 20 by 30, in tiles that end beyond them, on several shards side by side.
fn config(depth: u64, compressor: Compressor) -> Config {
    let [y, x] = SHAPE.map(|length| length as u64);
    Config {
        dtype: Dtype::U16,
        dims: vec![
            Dim::time(None).chunk(depth).shard(4 * depth),
            Dim::channel(2).chunk(1).shard(1),
            Dim::y(y).chunk(8).shard(16),
            Dim::x(x).chunk(16).shard(32),
        ],
        codec: Codec::from(compressor),
        ring_bytes: 1 << 20,
        workers: 2,
        sync: false,
        fill_value: 7.into(),
        ..Config::default()
    }
}

fn read(acquisition: &Acquisition, number: u64) -> Vec<u8> {
    let mut out = vec![0; BYTES];
    acquisition.read_frame(number, &mut out).unwrap();
    out
}

fn missing() -> Vec<u8> {
    [7, 0].repeat(BYTES / 2)
}

/// Reads frames of every age after each frame that comes.
fn look_at_all(acquisition: &Acquisition, frames: u64) {
    for number in 0..frames {
        // One number in five never comes.
        if number % 5 == 3 {
            continue;
        }
        let mut loan = acquisition.acquire().unwrap();
        loan.copy_from_slice(&frame(number, BYTES));
        loan.commit(number, Record::default()).unwrap();
        for age in [0, 1, 2, 3, 5, 8, 20, 33, 60] {
            let Some(old) = u64::checked_sub(number, age) else { continue };
            let want = if old % 5 == 3 { missing() } else { frame(old, BYTES) };
            assert!(read(acquisition, old) == want, "frame {old} at frame {number}");
        }
        assert!(read(acquisition, number + 1) == missing());
        assert!(read(acquisition, u64::MAX / 4) == missing());
    }
}

#[test]
fn frames_of_every_age_are_read_as_they_came() {
    for (depth, compressor, placement, storage) in [
        (1, Compressor::None, Placement::Auto, StorageKind::Buffered),
        (1, Compressor::default(), Placement::Packed, StorageKind::Direct),
        (3, Compressor::Zstd { level: 1 }, Placement::Fixed, StorageKind::Mapped),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let config = Config { placement, storage, ..config(depth, compressor) };
        let acquisition = Acquisition::create(folder.path().join("run.zarr"), config).unwrap();
        look_at_all(&acquisition, 90);
        let mut short = vec![0; BYTES - 1];
        assert!(matches!(acquisition.read_frame(0, &mut short), Err(Error::FrameSize { .. })));
        acquisition.finish().unwrap();
    }
}

#[test]
fn frames_of_every_age_are_read_from_an_archive() {
    for (depth, compressor, storage, index_location) in [
        (1, Compressor::None, StorageKind::Direct, IndexLocation::End),
        (3, Compressor::Zstd { level: 1 }, StorageKind::Mapped, IndexLocation::Start),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let config = Config { storage, index_location, ..config(depth, compressor) };
        let acquisition = Acquisition::create(folder.path().join("run.ozx"), config).unwrap();
        look_at_all(&acquisition, 90);
        acquisition.finish().unwrap();
    }
}

#[test]
fn frames_in_open_shards_are_read_from_memory_too() {
    let acquisition = Acquisition::create_in(Arc::new(Memory::new()), config(1, Compressor::None)).unwrap();
    for number in 0..4 {
        assert_eq!(acquisition.append(&frame(number, BYTES)).unwrap().frames, 1);
    }
    while acquisition.stats().frames_written < 4 {
        std::thread::yield_now();
    }
    assert!((0..4).all(|number| read(&acquisition, number) == frame(number, BYTES)));
    for number in 4..20 {
        assert_eq!(acquisition.append(&frame(number, BYTES)).unwrap().frames, 1);
    }
    while acquisition.stats().shards_closed < 8 {
        std::thread::yield_now();
    }
    let refused = acquisition.read_frame(0, &mut vec![0; BYTES]);
    let said = "frame 0 lies in a closed shard";
    assert!(matches!(&refused, Err(Error::Unsupported { reason, .. }) if reason.starts_with(said)), "{refused:?}");
    acquisition.finish().unwrap();
}

#[test]
fn whoever_reads_beside_the_camera_sees_whole_frames() {
    let folder = tempfile::tempdir().unwrap();
    let config = Config { ring_bytes: 8 * 4096, ..config(1, Compressor::default()) };
    let acquisition = Acquisition::create(folder.path().join("run.zarr"), config).unwrap();
    std::thread::scope(|scope| {
        let camera = scope.spawn(|| {
            (0..2_000).for_each(|number| assert_eq!(acquisition.append(&frame(number, BYTES)).unwrap().frames, 1));
        });
        let mut seen = 0;
        while !camera.is_finished() {
            let end = acquisition.stats().frames_accepted;
            for number in end.saturating_sub(12)..end {
                assert!(read(&acquisition, number) == frame(number, BYTES), "frame {number} of {end}");
                seen += 1;
            }
        }
        assert!(seen > 0);
    });
    assert_eq!(acquisition.finish().unwrap().frames_written, 2_000);
}

/// The index of such a shard is written when it is closed for good, so the file does not say what it holds.
#[test]
fn frames_in_shards_that_are_closed_for_a_while_are_read() {
    for (deep, compressor) in [(1, Compressor::None), (1, Compressor::default()), (2, Compressor::default())] {
        let [y, x] = SHAPE.map(|length| length as u64);
        let dims = vec![Dim::time(None).chunk(deep).shard(40 * deep), Dim::y(y).chunk(8).shard(24), Dim::x(x)];
        let config = Config { dims, index_location: IndexLocation::Start, ..config(1, compressor) };
        let folder = tempfile::tempdir().unwrap();
        let dataset = Dataset::create(folder.path().join("many.zarr")).unwrap().with_open_files(2);
        let images: Vec<_> =
            (0..7).map(|at| dataset.acquisition(&format!("image-{at}"), config.clone()).unwrap()).collect();
        for round in 0..3 {
            for image in &images {
                for number in (4 * round..4 * round + 4).filter(|number| number % 5 != 3) {
                    let mut loan = image.acquire().unwrap();
                    loan.copy_from_slice(&frame(number, BYTES));
                    loan.commit(number, Record::default()).unwrap();
                }
            }
            for (at, image) in images.iter().enumerate() {
                for number in 0..4 * round + 4 {
                    let want = if number % 5 == 3 { missing() } else { frame(number, BYTES) };
                    assert!(read(image, number) == want, "frame {number} of image {at} in chunks of {deep}");
                }
            }
        }
        images.into_iter().for_each(|image| drop(image.finish().unwrap()));
    }
}

#[test]
fn shards_that_are_closed_are_listed_in_the_lock_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    let run = Acquisition::create(&path, config(1, Compressor::None)).unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let keys = told.clone();
    run.on_shard_closed(move |key| keys.lock().unwrap().push(key.to_owned())).unwrap();
    // Two rows of shards and a part of a third: of each of two channels, two side by side.
    for number in 0..18 {
        let mut loan = run.acquire().unwrap();
        loan.copy_from_slice(&frame(number, BYTES));
        loan.commit(number, Record::default()).unwrap();
    }
    let wait = Instant::now();
    while told.lock().unwrap().len() < 8 {
        assert!(wait.elapsed() < Duration::from_secs(20), "{:?}", run.stats());
        thread::sleep(Duration::from_millis(5));
    }
    let lock = path.join(".shardwright.lock");
    let listed: Vec<_> = fs::read_to_string(&lock).unwrap().lines().map(str::to_owned).collect();
    assert_eq!(listed, *told.lock().unwrap());
    assert!(listed.iter().all(|key| path.join(key).is_file()), "{listed:?}");
    run.finish().unwrap();
    assert!(!lock.exists());
}
