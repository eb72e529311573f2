//! A storage of one's own: shards grow in memory and go to an object store as a whole, which knows no writes into the
//! middle of an object.
//!
//! ```text
//! cargo run --release --example storage -- bucket
//! ```

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::{env, fs};

use shardwright::{Acquisition, Blob, Config, Dim, Dtype, Record, Storage};

/// Stands in for the client of an object store: each object is put as a whole. Here, into a folder.
#[derive(Debug, Clone)]
struct Bucket(PathBuf);

impl Bucket {
    fn put(&self, key: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.0.join(key);
        fs::create_dir_all(path.parent().unwrap_or(&self.0))?;
        fs::write(path, bytes)
    }

    fn delete(&self, key: &str) -> io::Result<()> {
        match fs::remove_file(self.0.join(key)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Objects by key.
#[derive(Debug)]
struct Objects(Bucket);

impl Storage for Objects {
    fn name(&self) -> &'static str {
        "objects"
    }

    fn create(&self, key: &str, len: u64) -> io::Result<Box<dyn Blob>> {
        let len = usize::try_from(len).map_err(io::Error::other)?;
        let (key, bytes, bucket) = (key.to_owned(), Mutex::new(vec![0; len]), self.0.clone());
        Ok(Box::new(Object { key, bytes, bucket, is_whole: AtomicBool::new(false) }))
    }

    fn put(&self, key: &str, bytes: &[u8]) -> io::Result<()> {
        self.0.put(key, bytes)
    }

    fn remove(&self, key: &str) -> io::Result<()> {
        self.0.delete(key)
    }

    fn is_used(&self) -> bool {
        self.0.0.join("zarr.json").exists()
    }
}

/// A shard under construction.
struct Object {
    key: String,
    bytes: Mutex<Vec<u8>>,
    bucket: Bucket,
    /// It was cut off at its final length.
    is_whole: AtomicBool,
}

impl Object {
    fn with<T>(&self, work: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        work(&mut self.bytes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Blob for Object {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let at = usize::try_from(offset).map_err(io::Error::other)?;
        self.with(|whole| {
            let place = whole.get_mut(at..at + bytes.len()).ok_or(io::ErrorKind::InvalidInput)?;
            place.copy_from_slice(bytes);
            Ok(())
        })
    }

    /// The last one of a shard comes after it was cut off.
    fn sync(&self) -> io::Result<()> {
        match self.is_whole.load(SeqCst) {
            true => self.with(|bytes| self.bucket.put(&self.key, bytes)),
            false => Ok(()),
        }
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.with(|bytes| bytes.truncate(len as usize));
        self.is_whole.store(true, SeqCst);
        Ok(())
    }

    // An object is there when it is put.
    fn publish(&self) -> io::Result<()> {
        Ok(())
    }

    fn done_with(&self, _offset: u64, _len: u64) {}

    fn punch(&self, _offset: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    /// The bytes need not be kept any longer.
    fn forget(&self) {
        self.with(|bytes| *bytes = Vec::new());
    }
}

/// Writes frames of 64 by 64 pixels into `bucket`, each of one value.
pub fn run(bucket: &Path, frames: u8) -> Result<(), Box<dyn std::error::Error>> {
    // Shards of 16 frames: each is in memory until it is full.
    let dims = vec![Dim::time(None).chunk(1).shard(16), Dim::y(64), Dim::x(64)];
    let storage = Arc::new(Objects(Bucket(bucket.to_owned())));
    // What is open can't be looked at, so there is nothing for checkpoints to do.
    let config = Config { dtype: Dtype::U8, dims, checkpoint_every: std::time::Duration::ZERO, ..Config::default() };
    let acquisition = Acquisition::create_in(storage, config)?;
    for number in 0..frames {
        let mut frame = acquisition.acquire()?;
        frame.fill(number + 1);
        frame.commit(number.into(), Record::default())?;
    }
    let summary = acquisition.finish()?;
    println!("{} frames written, {} shards", summary.frames_written, summary.shards);
    Ok(())
}

#[allow(dead_code, reason = "the tests call `run`")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    run(Path::new(&env::args().nth(1).ok_or("usage: storage BUCKET")?), 100)
}
