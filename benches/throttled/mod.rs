//! A storage that takes this many bytes per second and keeps none of them.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use shardwright::{Blob, Storage};

#[derive(Debug)]
pub(crate) struct Throttled {
    bytes_per_s: f64,
    /// When what was written until now will have been taken.
    free_at: Arc<Mutex<Instant>>,
}

impl Throttled {
    pub(crate) fn new(bytes_per_s: f64) -> Self {
        Self { bytes_per_s, free_at: Arc::new(Mutex::new(Instant::now())) }
    }
}

impl Storage for Throttled {
    fn name(&self) -> &'static str {
        "throttled"
    }

    fn create(&self, _key: &str, _len: u64) -> io::Result<Box<dyn Blob>> {
        Ok(Box::new(Sink { bytes_per_s: self.bytes_per_s, free_at: self.free_at.clone() }))
    }

    fn put(&self, _key: &str, _bytes: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn remove(&self, _key: &str) -> io::Result<()> {
        Ok(())
    }
}

struct Sink {
    bytes_per_s: f64,
    free_at: Arc<Mutex<Instant>>,
}

impl Blob for Sink {
    /// As a device has it: then threads of their own write.
    fn alignment(&self) -> usize {
        4096
    }

    fn write_at(&self, _offset: u64, bytes: &[u8]) -> io::Result<()> {
        let taken_at = {
            let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
            *free_at = Instant::now().max(*free_at) + Duration::from_secs_f64(bytes.len() as f64 / self.bytes_per_s);
            *free_at
        };
        sleep(taken_at.saturating_duration_since(Instant::now()));
        Ok(())
    }

    fn done_with(&self, _offset: u64, _len: u64) {}

    fn publish(&self) -> io::Result<()> {
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn punch(&self, _offset: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    fn truncate(&self, _len: u64) -> io::Result<()> {
        Ok(())
    }
}
