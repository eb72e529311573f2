//! An archive as a place for the files of one image, written in one of the ways.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::super::reserve::DiskReserve;
use super::super::seam::{Blob, Storage};
use super::super::window::Access;
use super::blob::ArchiveBlob;
use super::file::{Archive, check_name};
use crate::config::StorageKind;

/// Keys are names of entries.
#[derive(Debug)]
pub(crate) struct ArchiveView {
    archive: Arc<Archive>,
    /// What errors call it.
    path: PathBuf,
    access: Access,
    sync: bool,
    reserve: Arc<DiskReserve>,
    /// How many bytes the last documents of the image may take, for which room is kept.
    promised: u64,
}

impl ArchiveView {
    /// `way`: not [`StorageKind::Auto`].
    pub(crate) fn new(
        archive: &Arc<Archive>,
        way: StorageKind,
        guard_maps: bool,
        sync: bool,
        reserve: &Arc<DiskReserve>,
    ) -> Self {
        archive.syncs.fetch_or(sync, Ordering::Relaxed);
        let access = Access { way, file_system: archive.file_system, guard_maps };
        Self { archive: archive.clone(), path: PathBuf::new(), access, sync, reserve: reserve.clone(), promised: 0 }
    }

    /// Of the archive that errors call `path`.
    pub(crate) fn called(mut self, path: &Path) -> Self {
        self.path = path.to_path_buf();
        self
    }

    /// Keeps room for the last documents of an image, which may take this many bytes.
    pub(crate) fn with_room(mut self, promised: u64) -> Self {
        self.archive.promised.fetch_add(promised, Ordering::Relaxed);
        self.promised += promised;
        self
    }
}

impl Storage for ArchiveView {
    fn name(&self) -> &'static str {
        self.access.way.name()
    }

    fn path_of(&self, key: &str) -> PathBuf {
        self.path.join(key)
    }

    fn create(&self, key: &str, len: u64) -> io::Result<Box<dyn Blob>> {
        self.create_growing(key, len, 0)
    }

    fn create_growing(&self, key: &str, len: u64, growth: u64) -> io::Result<Box<dyn Blob>> {
        // With a second place for an index.
        let entry = self.archive.allocate(key, len + growth, self.access, &self.reserve)?;
        let blob = ArchiveBlob::new(&self.archive, key, entry, self.access, [len, growth], self.sync)?;
        Ok(Box::new(blob))
    }

    fn put(&self, key: &str, bytes: &[u8]) -> io::Result<()> {
        check_name(key)?;
        self.archive.stage(key, bytes);
        Ok(())
    }

    fn remove(&self, key: &str) -> io::Result<()> {
        self.archive.remove(key);
        Ok(())
    }

    fn sync_all(&self) -> Option<io::Result<()>> {
        self.sync.then(|| self.archive.sync())
    }

    fn settle(&self) -> io::Result<()> {
        self.archive.settle().inspect_err(|error| self.reserve.note(error))
    }
}

impl Drop for ArchiveView {
    fn drop(&mut self) {
        self.archive.promised.fetch_sub(self.promised, Ordering::Relaxed);
    }
}
