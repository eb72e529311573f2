//! A storage of the caller's own, and what a run that came to nothing has to take back from it.

use std::any::Any;
use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

use super::seam::{Blob, Storage};
use crate::error::{Error, Result, caught};
use crate::sync::Unpoisoned;

/// The caller's storage, which notes what is put into it until something has to stay.
#[derive(Debug)]
pub(crate) struct OwnStorage {
    storage: Arc<dyn Storage>,
    name: &'static str,
    keep: Arc<AtomicBool>,
    put: Mutex<BTreeSet<String>>,
}

impl OwnStorage {
    /// # Errors
    ///
    /// [`Error::StorageUsed`] for one that holds something; [`Error::Panicked`].
    pub(crate) fn new(storage: Arc<dyn Storage>, keep: Arc<AtomicBool>) -> Result<Self> {
        // Asked once: it may panic, and where it is needed later, nobody would catch that.
        let (name, is_used) = caught(|| Ok((storage.name(), storage.is_used())))?;
        if is_used {
            return Err(Error::StorageUsed { storage: name });
        }
        Ok(Self { storage, name, keep, put: Mutex::default() })
    }

    pub(crate) fn inner(&self) -> &dyn Storage {
        &*self.storage
    }

    /// Removes what was put, unless something stays.
    pub(crate) fn leave(&self) {
        let put = std::mem::take(&mut *self.put());
        if self.keep.load(Relaxed) || put.is_empty() {
            return;
        }
        for key in put {
            let _ = caught(|| Ok(self.storage.remove(&key)));
        }
        let _ = caught(|| Ok(self.storage.settle()));
    }

    fn put(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.put.lock().unpoisoned()
    }

    fn note(&self, key: &str) {
        if self.keep.load(Relaxed) {
            self.put().clear();
        } else {
            self.put().insert(key.to_owned());
        }
    }
}

impl Storage for OwnStorage {
    fn name(&self) -> &'static str {
        self.name
    }

    fn path_of(&self, key: &str) -> PathBuf {
        self.storage.path_of(key)
    }

    fn create(&self, key: &str, len: u64) -> io::Result<Box<dyn Blob>> {
        self.note(key);
        self.storage.create(key, len)
    }

    fn create_growing(&self, key: &str, len: u64, growth: u64) -> io::Result<Box<dyn Blob>> {
        self.note(key);
        self.storage.create_growing(key, len, growth)
    }

    fn put(&self, key: &str, bytes: &[u8]) -> io::Result<()> {
        self.note(key);
        self.storage.put(key, bytes)
    }

    fn put_all(&self, files: &[(&str, &[u8])]) -> io::Result<()> {
        files.iter().for_each(|(key, _)| self.note(key));
        self.storage.put_all(files)
    }

    fn writes_within(&self) -> bool {
        self.storage.writes_within()
    }

    fn write_within(&self, writes: &[(&str, u64, &[u8])]) -> io::Result<()> {
        self.storage.write_within(writes)
    }

    fn remove(&self, key: &str) -> io::Result<()> {
        self.storage.remove(key)
    }

    fn settle(&self) -> io::Result<()> {
        self.storage.settle()
    }

    fn sync_all(&self) -> Option<io::Result<()>> {
        self.storage.sync_all()
    }

    fn parks(&self) -> bool {
        self.storage.parks()
    }

    fn opens_twice(&self) -> bool {
        self.storage.opens_twice()
    }

    fn reopen(&self, key: &str, parked: &(dyn Any + Send + Sync)) -> io::Result<Box<dyn Blob>> {
        self.storage.reopen(key, parked)
    }
}
