//! Shards whose files are closed for a while, because other images need theirs.

use std::any::Any;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use crate::common::stopped::copy_tree;
use crate::common::storage::{save, scratch, wait_until, within};
use crate::common::{frame, recovered, tiny};
use shardwright::offline::Array;
use shardwright::{Acquisition, Blob, Config, Dataset, Dim, Dtype, Memory, Storage};

const FRAME_BYTES: usize = 256;

fn append(acquisition: &Acquisition, frames: std::ops::Range<u64>) {
    for number in frames {
        assert_eq!(acquisition.append(&frame(number, FRAME_BYTES)).unwrap().frames, 1);
    }
}

fn expected(frames: u64) -> Vec<u8> {
    (0..frames).flat_map(|number| frame(number, FRAME_BYTES)).collect()
}

/// A storage of which some files have to stay open, and none that was closed can be opened again.
#[derive(Debug, Clone, Default)]
struct Moved {
    memory: Arc<Memory>,
    /// How often a file was found that has to stay open.
    stayed: Arc<AtomicUsize>,
}

struct MovedBlob {
    blob: Box<dyn Blob>,
    stays: bool,
    stayed: Arc<AtomicUsize>,
}

impl Storage for Moved {
    fn name(&self) -> &'static str {
        "moved"
    }

    fn create(&self, key: &str, len: u64) -> io::Result<Box<dyn Blob>> {
        let stays = !key.starts_with("first/") || key.starts_with("first/0/c/0/1/");
        Ok(Box::new(MovedBlob { blob: self.memory.create(key, len)?, stays, stayed: self.stayed.clone() }))
    }

    fn put(&self, key: &str, bytes: &[u8]) -> io::Result<()> {
        self.memory.put(key, bytes)
    }

    fn remove(&self, key: &str) -> io::Result<()> {
        self.memory.remove(key)
    }

    fn parks(&self) -> bool {
        true
    }

    fn reopen(&self, _key: &str, _parked: &(dyn Any + Send + Sync)) -> io::Result<Box<dyn Blob>> {
        Err(io::Error::other("the file was moved"))
    }
}

impl Blob for MovedBlob {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.blob.write_at(offset, bytes)
    }

    fn write_slices_at(&self, offset: u64, slices: &mut [IoSlice]) -> io::Result<()> {
        self.blob.write_slices_at(offset, slices)
    }

    fn grows(&self) -> bool {
        self.blob.grows()
    }

    fn grow(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.blob.grow(at, bytes)
    }

    fn done_with(&self, offset: u64, len: u64) {
        self.blob.done_with(offset, len);
    }

    fn publish(&self) -> io::Result<()> {
        self.blob.publish()
    }

    fn sync(&self) -> io::Result<()> {
        self.blob.sync()
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        self.blob.punch(offset, len)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.blob.truncate(len)
    }

    fn park(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        self.stayed.fetch_add(usize::from(self.stays), SeqCst);
        (!self.stays).then(|| Arc::new(()) as _)
    }
}

#[test]
fn shards_of_which_one_has_to_stay_open_keep_their_places() {
    // Cells that follow each other, and shards beside each other.
    let in_depth = vec![Dim::time(4).chunk(1).shard(4), Dim::z(4).chunk(1).shard(2), Dim::y(16), Dim::x(16)];
    let beside = vec![Dim::time(16).chunk(1).shard(16), Dim::y(16).chunk(8).shard(8), Dim::x(16)];
    for dims in [in_depth, beside] {
        within(60, move || {
            let storage = Moved::default();
            let dataset = Dataset::create_in(Arc::new(storage.clone())).unwrap().with_open_files(3);
            let config = Config { dims, dtype: Dtype::U8, ..tiny(None, 256) };
            let [first, second] = ["first", "second"].map(|name| dataset.acquisition(name, config.clone()));
            let first = first.unwrap();
            append(&first, 0..6);
            // It has none of the files yet that it needs.
            let second = second.unwrap();
            append(&second, 0..2);
            wait_until("files of the first are to be closed", || storage.stayed.load(SeqCst) > 0);
            append(&first, 6..16);
            let summary = first.finish().unwrap();
            assert_eq!((summary.frames_written, summary.frames_missing), (16, 0));
            append(&second, 2..16);
            let summary = second.finish().unwrap();
            assert_eq!((summary.frames_written, summary.frames_missing), (16, 0));
            let folder = scratch();
            save(&storage.memory, folder.path());
            for image in ["first", "second"] {
                let pixels = Array::open(folder.path().join(image).join("0")).unwrap().read_all().unwrap();
                assert!(pixels == expected(16), "{image}");
            }
        });
    }
}

#[test]
fn files_that_are_opened_once_count_once() {
    within(60, || {
        // What it closes, it can't open again.
        let dataset = Dataset::create_in(Arc::new(Moved::default())).unwrap().with_open_files(2);
        let dims = vec![Dim::time(4).chunk(1).shard(4), Dim::y(16), Dim::x(16)];
        let config = Config { dims, dtype: Dtype::U8, ..tiny(None, 256) };
        let images = ["a", "b"].map(|name| dataset.acquisition(name, config.clone()).unwrap());
        for number in 0..4 {
            images.iter().for_each(|image| append(image, number..number + 1));
            let are_stored = || images.iter().all(|image| image.stats().frames_written == number + 1);
            wait_until("both have the frame", are_stored);
        }
        for image in images {
            assert_eq!(image.finish().unwrap().frames_written, 4);
        }
    });
}

#[test]
fn frames_that_wait_in_shards_that_are_closed_for_a_while_become_durable() {
    const IMAGES: usize = 60;
    within(120, || {
        let folder = scratch();
        let (path, killed) = (folder.path().join("run.zarr"), folder.path().join("killed.zarr"));
        let dims = vec![Dim::time(8).chunk(4).shard(8), Dim::z(2).chunk(1).shard(1), Dim::y(16).chunk(8), Dim::x(16)];
        let checkpoint_every = Duration::from_millis(50);
        let config = Config { dims, dtype: Dtype::U8, checkpoint_every, sync: true, ..tiny(None, 256) };
        let dataset = Dataset::create(&path).unwrap().with_open_files(9);
        let images = (0..IMAGES).map(|image| (format!("{image}"), config.clone()));
        let images = dataset.acquisitions(images).unwrap();
        for frames in [0..2, 2..3, 3..7] {
            let end = frames.end;
            images.iter().for_each(|image| append(image, frames.clone()));
            let durable = || images.iter().map(|image| image.stats().frames_durable).sum::<u64>();
            wait_until("all are durable", || durable() == end * IMAGES as u64);
        }
        copy_tree(&path, &killed);
        for image in images {
            append(&image, 7..16);
            let summary = image.finish().unwrap();
            assert_eq!((summary.frames_written, summary.frames_durable, summary.frames_missing), (16, 16, 0));
        }
        recovered(&killed, true).unwrap();
        for image in 0..IMAGES {
            for (root, frames) in [(&killed, 7), (&path, 16)] {
                let pixels = Array::open(root.join(format!("{image}/0"))).unwrap().read_all().unwrap();
                assert!(pixels[..FRAME_BYTES * frames] == expected(frames as u64), "image {image} in {root:?}");
            }
        }
    });
}
