//! A camera pauses in the middle of a chunk: what it gave so far is durable, readable, and never harmed by what comes
//! later.

use crate::common::{checked, recovered};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use std::{fs, io};

use crate::common::stopped::copy_tree;
use crate::common::storage::{Call, Probed, is_worker, read_back, wait_until};
use crate::common::{frame, tiny};
use shardwright::offline::Array;
use shardwright::{Acquisition, Codec, Compressor, Config, Dialect, Dim, Dtype, IndexLocation, Placement, StorageKind};

const OFTEN: Duration = Duration::from_millis(10);

/// Chunks of 8 frames and half a frame, shards of 32 frames.
fn config(base: Config) -> Config {
    let dims = vec![Dim::time(None).chunk(8).shard(32), Dim::y(16).chunk(8), Dim::x(16)];
    let config = tiny(None, 64);
    Config { dims, dtype: Dtype::U8, ring_bytes: config.ring_bytes, checkpoint_every: OFTEN, sync: true, ..base }
}

fn append(acquisition: &Acquisition, frames: std::ops::Range<u64>) {
    for number in frames {
        assert_eq!(acquisition.append(&frame(number, 256)).unwrap().frames, 1);
    }
}

fn expected(frames: u64) -> Vec<u8> {
    (0..frames).flat_map(|number| frame(number, 256)).collect()
}

fn array_path(path: &Path, dialect: Dialect) -> std::path::PathBuf {
    match dialect {
        Dialect::Zarr3 => path.join("0"),
        _ => path.to_path_buf(),
    }
}

fn kinds() -> impl Iterator<Item = Config> {
    let codecs = [
        Codec { compressor: Compressor::None, checksum: true },
        Codec { compressor: Compressor::Zstd { level: 1 }, checksum: true },
    ];
    let storages = [StorageKind::Mapped, StorageKind::Buffered, StorageKind::Direct];
    let places = [
        (Dialect::Zarr3, Placement::Fixed, IndexLocation::End),
        (Dialect::Zarr3, Placement::Packed, IndexLocation::End),
        (Dialect::Zarr3, Placement::Fixed, IndexLocation::Start),
        (Dialect::Zarr2Sharded, Placement::Fixed, IndexLocation::End),
        (Dialect::Zarr3Transformer, Placement::Packed, IndexLocation::End),
    ];
    let all = storages.into_iter().flat_map(move |storage| places.map(|place| (storage, place))).enumerate();
    all.map(move |(at, (storage, (dialect, placement, index_location)))| {
        let codec = codecs[at % 2].clone();
        let codec = if dialect == Dialect::Zarr3 { codec } else { Codec { checksum: false, ..codec } };
        Config { storage, dialect, placement, index_location, codec, ..Config::default() }
    })
}

#[test]
fn frames_of_a_chunk_that_waits_for_more_are_durable_and_readable() {
    for kind in kinds() {
        let folder = tempfile::tempdir().unwrap();
        let (path, straight) = (folder.path().join("run.zarr"), folder.path().join("straight.zarr"));
        let what = format!("{:?} {:?} {:?} {:?}", kind.storage, kind.dialect, kind.placement, kind.index_location);
        let acquisition = Acquisition::create(&path, config(kind.clone())).unwrap();
        let mut taken = 0;
        for frames in [3, 4, 8, 31, 37] {
            append(&acquisition, taken..frames);
            taken = frames;
            wait_until(&what, || acquisition.stats().frames_durable == frames);
            let stats = acquisition.stats();
            assert_eq!((stats.frames_accepted, stats.frames_written), (frames, frames), "{what}");
            if kind.dialect != Dialect::Zarr3Transformer {
                let array = Array::open(array_path(&path, kind.dialect)).unwrap();
                assert_eq!(array.shape()[0], frames, "{what}");
                assert!(array.read_all().unwrap() == expected(frames), "{what}: {frames} frames");
            }
        }
        let summary = acquisition.finish().unwrap();
        assert_eq!((summary.frames_written, summary.frames_durable, summary.frames_missing), (37, 37, 0), "{what}");
        // Nothing of it is left: the files are as long as those of a run without a pause.
        let acquisition = Acquisition::create(&straight, config(kind.clone())).unwrap();
        append(&acquisition, 0..37);
        acquisition.finish().unwrap();
        let lengths = |root: &Path| {
            let mut found = Vec::new();
            let mut folders = vec![root.to_path_buf()];
            while let Some(folder) = folders.pop() {
                for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
                    match entry.file_type().unwrap().is_dir() {
                        true => folders.push(entry.path()),
                        false => found.push((
                            entry.path().strip_prefix(root).unwrap().to_path_buf(),
                            entry.metadata().unwrap().len(),
                        )),
                    }
                }
            }
            found.retain(|(path, _)| !path.to_string_lossy().contains("records") && path.extension().is_none());
            found.sort();
            found
        };
        if kind.placement == Placement::Fixed || kind.storage != StorageKind::Direct {
            let (paused, straight) = (lengths(&path), lengths(&straight));
            assert_eq!(paused.len(), straight.len(), "{what}");
            if matches!(kind.codec.compressor, Compressor::None) {
                assert_eq!(paused, straight, "{what}");
            }
        }
    }
}

#[test]
fn frames_of_a_chunk_that_could_not_be_stored_later_are_there_as_before() {
    for index_location in [IndexLocation::End, IndexLocation::Start] {
        let breaks = Arc::new(AtomicBool::new(false));
        let seen = breaks.clone();
        let storage = Probed::new(move |call, key| {
            match call == Call::WriteAt && key.starts_with("0/c/0") && is_worker() && seen.load(SeqCst) {
                true => Err(io::Error::other("the cable is out")),
                false => Ok(()),
            }
        });
        let kind = Config { index_location, ..Config::default() };
        let acquisition = Acquisition::create_in(storage.shared(), config(kind)).unwrap();
        append(&acquisition, 0..13);
        wait_until("they are durable", || acquisition.stats().frames_durable == 13);
        breaks.store(true, SeqCst);
        append(&acquisition, 13..16);
        let unfinished = acquisition.finish().unwrap_err();
        let summary = &unfinished.summary;
        assert!(unfinished.error.to_string().contains("the cable is out"), "{}", unfinished.error);
        assert_eq!((summary.frames_accepted, summary.frames_written, summary.frames_durable), (16, 13, 13));
        assert_eq!(summary.missing, vec![13..16]);
        let (_, pixels) = read_back(&storage.memory);
        assert!(pixels[..13 * 256] == expected(13), "{index_location:?}");
        assert!(pixels[13 * 256..].iter().all(|&byte| byte == 0));
    }
}

#[test]
fn an_abort_after_a_pause_keeps_what_was_durable() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    let acquisition = Acquisition::create(&path, config(Config::default())).unwrap();
    append(&acquisition, 0..5);
    wait_until("they are durable", || acquisition.stats().frames_durable == 5);
    acquisition.abort();
    let verification = checked(&path).unwrap();
    assert!(verification.is_sound(), "{:?}", verification.findings);
    let found = recovered(&path, false).unwrap();
    assert_eq!((found.images[0].frames, found.images[0].frames_missing), (5, 0));
    assert!(Array::open(path.join("0")).unwrap().read_all().unwrap()[..5 * 256] == expected(5));
}

#[test]
fn recover_prefers_the_chunk_with_more_frames() {
    for (index_location, frames, found) in
        [(IndexLocation::End, 13, 13), (IndexLocation::Start, 13, 13), (IndexLocation::End, 16, 16)]
    {
        let folder = tempfile::tempdir().unwrap();
        let (path, killed) = (folder.path().join("run.zarr"), folder.path().join("killed.zarr"));
        let kind = Config { index_location, placement: Placement::Fixed, ..Config::default() };
        let acquisition = Acquisition::create(&path, config(kind)).unwrap();
        append(&acquisition, 0..13);
        wait_until("they are durable", || acquisition.stats().frames_durable == 13);
        append(&acquisition, 13..frames);
        if frames > 13 {
            wait_until("they are written", || acquisition.stats().frames_written == frames);
        }
        copy_tree(&path, &killed);
        drop(acquisition);
        let recovery = recovered(&killed, true).unwrap();
        assert_eq!(recovery.images[0].frames, found, "{recovery:?}");
        assert_eq!(recovery.images[0].frames_missing, 0, "{recovery:?}");
        let array = Array::open(killed.join("0")).unwrap();
        assert!(array.read_all().unwrap()[..256 * found as usize] == expected(found));
        // Nothing is left to do.
        let again = recovered(&killed, false).unwrap();
        assert!(!again.is_needed(), "{again:?}");
    }
}
