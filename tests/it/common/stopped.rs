//! Datasets as a writer leaves them that is stopped in its tracks, and tools to look at what became of them.

use super::checked;
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use shardwright::offline::{Array, Verification};
use shardwright::{Acquisition, Codec, Compressor, Config, Dim, Dtype, IndexLocation, Placement, Record, StorageKind};

/// Every way in which a shard can be laid out and written.
pub fn layouts() -> Vec<(Placement, IndexLocation, StorageKind)> {
    let mut layouts = Vec::new();
    for placement in [Placement::Fixed, Placement::Packed] {
        for location in [IndexLocation::End, IndexLocation::Start] {
            for storage in [StorageKind::Mapped, StorageKind::Buffered, StorageKind::Direct] {
                layouts.push((placement, location, storage));
            }
        }
    }
    layouts
}

/// Frames of 8 by 8 bytes in four chunks each, four frames a shard, uncompressed.
pub fn small((placement, index_location, storage): (Placement, IndexLocation, StorageKind)) -> Config {
    Config {
        dtype: Dtype::U8,
        dims: vec![Dim::time(None).chunk(1).shard(4), Dim::y(8).chunk(4), Dim::x(8).chunk(4)],
        codec: Codec { compressor: Compressor::None, checksum: true },
        placement,
        index_location,
        storage,
        ring_bytes: 64 * 4096,
        workers: 2,
        sync: false,
        checkpoint_every: Duration::from_secs(3600),
        ..Config::default()
    }
}

/// The bytes of a frame under `config`.
pub fn frame_bytes(config: &Config) -> usize {
    let [.., y, x] = &config.dims[..] else { panic!("no frame") };
    (y.size.unwrap() * x.size.unwrap()) as usize * config.dtype.size()
}

pub fn commit(acquisition: &Acquisition, config: &Config, number: u64) {
    let mut frame = acquisition.acquire().unwrap();
    frame.copy_from_slice(&super::frame(number, frame_bytes(config)));
    frame.commit(number, Record::default()).unwrap();
}

/// Waits until this many frames are wholly in their slots.
pub fn written(acquisition: &Acquisition, frames: u64) {
    while acquisition.stats().frames_written < frames {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A dataset below `folder` whose writer stopped after `numbers`: what was in the file system in that moment.
pub fn stopped(folder: &Path, config: &Config, numbers: &[u64], whole: u64) -> PathBuf {
    let (live, left) = (folder.join("live"), folder.join("left.zarr"));
    let acquisition = Acquisition::create(&live, config.clone()).unwrap();
    numbers.iter().for_each(|&number| commit(&acquisition, config, number));
    written(&acquisition, whole);
    // Where checkpoints are frequent, the last one has all that came: a chunk that waits for more is kept as it is.
    let end = Instant::now() + Duration::from_secs(2);
    while config.checkpoint_every < Duration::from_millis(100)
        && acquisition.stats().frames_durable < numbers.len() as u64
        && Instant::now() < end
    {
        std::thread::sleep(Duration::from_millis(1));
    }
    // Shards that became full are closed by a thread that nobody waits for, and so are others prepared.
    let before = loop {
        let before = files(&live);
        std::thread::sleep(Duration::from_millis(30));
        if before == files(&live) {
            break before;
        }
    };
    restore(&left, &before);
    acquisition.abort();
    let _ = fs::remove_dir_all(live);
    left
}

/// A finished dataset.
pub fn finished(path: &Path, config: &Config, numbers: &[u64]) {
    let acquisition = Acquisition::create(path, config.clone()).unwrap();
    numbers.iter().for_each(|&number| commit(&acquisition, config, number));
    acquisition.finish().unwrap();
}

/// Copies a folder with all that is in it; of a dataset that is being written, what a kill would leave at this moment.
pub fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (path, copy) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy_tree(&path, &copy);
        } else if let Err(error) = fs::copy(&path, copy) {
            // Files of a writer come and go.
            assert!(error.kind() == ErrorKind::NotFound && !path.exists(), "{path:?}: {error}");
        }
    }
}

/// All files below a folder, by their paths.
pub fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    if folder.is_file() {
        found.insert(PathBuf::new(), fs::read(folder).unwrap());
        return found;
    }
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        // In a dataset that is being written, files come and go.
        for entry in fs::read_dir(&next).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(bytes) = fs::read(&path) {
                found.insert(path.strip_prefix(folder).unwrap().to_path_buf(), bytes);
            }
        }
    }
    found
}

/// The file in which a block of a field's records is, and where it begins in it.
pub fn record_block(path: &Path, field: &str, block: u64) -> (PathBuf, usize) {
    let folder = path.join("records").join(field);
    let array = Array::open(&folder).unwrap();
    let frames = array.chunk_shape()[0];
    let blocks = array.shard_shape().map_or(1, |shard| shard[0] / frames);
    let table = if blocks > 1 { 16 * blocks } else { 0 };
    let at = table + block % blocks * frames * array.dtype().size() as u64;
    (folder.join(format!("c/{}", block / blocks)), at as usize)
}

/// Makes `folder` hold exactly these files.
pub fn restore(folder: &Path, files: &BTreeMap<PathBuf, Vec<u8>>) {
    let _ = fs::remove_dir_all(folder);
    for (path, bytes) in files {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

/// Checks a dataset.
pub fn check(path: &Path) -> Verification {
    checked(path).unwrap()
}

/// Expects a dataset without damage.
pub fn sound(path: &Path) -> Verification {
    let verification = check(path);
    assert!(verification.is_sound(), "{}: {:#?}", path.display(), verification.findings);
    verification
}

/// Which chunks of the image hold what was sent, by the frame's number: an error names a chunk that holds anything
/// else.
pub fn frames_of(path: &Path, config: &Config, numbers: u64) -> Vec<Frame> {
    let array = Array::open(path).unwrap();
    let frame_bytes = frame_bytes(config);
    let frames = array.shape()[0].min(numbers);
    let mut found = Vec::new();
    for number in 0..frames {
        let mut start = vec![0; array.shape().len()];
        start[0] = number;
        let mut shape = array.shape().to_vec();
        shape[0] = 1;
        let mut pixels = vec![0; frame_bytes];
        array.read_region(&start, &shape, &mut pixels).unwrap();
        let sent = super::frame(number, frame_bytes);
        let right = pixels.iter().zip(&sent).filter(|(pixel, sent)| pixel == sent).count();
        let wrong = pixels.iter().zip(&sent).filter(|(pixel, sent)| pixel != sent && **pixel != 0).count();
        assert_eq!(wrong, 0, "frame {number} of {} has pixels that nobody sent", path.display());
        found.push(match right {
            right if right == frame_bytes => Frame::Whole,
            _ if pixels.iter().all(|&pixel| pixel == 0) => Frame::Missing,
            _ => Frame::Partly,
        });
    }
    found
}

/// How much of a frame is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame {
    Whole,
    Partly,
    Missing,
}
