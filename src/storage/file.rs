//! A file of a folder.

use std::any::Any;
use std::fs::{self, File};
use std::io::{self, IoSlice};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::made_folders::MadeFolders;
use super::new_names::NewNames;
use super::seam::{Blob, Mapped, PAGE};
use super::window::Window;
use crate::fs::system::{FileExt, is_unsupported};
use crate::fs::{Identity, growth, lease, system};

/// A file that is made under another name, and appears when it is published.
pub(super) struct FileBlob {
    pub(super) window: Window,
    /// Keeps the folder open that the paths begin with.
    pub(super) held: Option<Arc<File>>,
    pub(super) path: PathBuf,
    pub(super) partial: PathBuf,
    pub(super) made: Option<Arc<MadeFolders>>,
    published: AtomicBool,
    /// Something did not reach the device. The system tells it once and then may say that all is well.
    failed: AtomicBool,
    /// How long the file must be.
    len: AtomicU64,
    /// `None`: nothing is synced.
    new_names: Option<Arc<NewNames>>,
}

/// What is known of a file that was closed before it was finished.
pub(super) struct ParkedFile {
    identity: Identity,
    pub(super) len: u64,
}

impl FileBlob {
    /// A published file that was parked.
    pub(super) fn again(
        file: File,
        path: PathBuf,
        parked: &ParkedFile,
        names: Option<Arc<NewNames>>,
    ) -> io::Result<Self> {
        let blob = Self::new(file, path.clone(), path, parked.len, names);
        blob.published.store(true, Ordering::Relaxed);
        if Identity::of(blob.file())? != parked.identity {
            return Err(io::Error::other("another program replaced the file"));
        }
        blob.check_file()?;
        Ok(blob)
    }

    /// `len`: how long the file must be. Dropped before it is published, it removes the file.
    pub(super) fn new(file: File, path: PathBuf, partial: PathBuf, len: u64, names: Option<Arc<NewNames>>) -> Self {
        let (window, len) = (Window::new(Arc::new(file), 0), AtomicU64::new(len));
        let (published, failed) = Default::default();
        Self { window, held: None, path, partial, made: None, published, failed, len, new_names: names }
    }

    pub(super) fn file(&self) -> &Arc<File> {
        &self.window.file
    }

    /// Fails if this descriptor is yet to be told of something that did not reach the device.
    fn check_written(&self) -> io::Result<()> {
        match system::check_written(self.file()) {
            // Where a program may not call that, it may sync.
            Err(error) if is_unsupported(&error) || error.kind() == io::ErrorKind::PermissionDenied => {
                self.file().sync_data()
            }
            other => other,
        }
    }

    /// Refuses to go on with a file that another program cut off or took away: nobody would find what is written to it.
    fn check_file(&self) -> io::Result<()> {
        let (file, expected) = (self.file().metadata()?, self.len.load(Ordering::Relaxed));
        if file.len() < expected {
            let reason = format!("another program cut the file off at {} of {expected} bytes", file.len());
            return Err(io::Error::other(reason));
        }
        if self.published.load(Ordering::Relaxed) && !Identity::from(&file).is_at(&self.path) {
            return Err(io::Error::other("another program removed, moved or replaced the file"));
        }
        Ok(())
    }
}

impl Blob for FileBlob {
    fn map(&self) -> Option<Mapped> {
        self.window.map()
    }

    fn check_map(&self) -> io::Result<()> {
        // The file itself may show what happened to it.
        self.window.check_map().map_err(|lost| self.check_file().err().unwrap_or(lost))
    }

    fn check_intact(&self) -> io::Result<()> {
        self.check_file()?;
        self.check_map()
    }

    fn alignment(&self) -> usize {
        self.window.alignment()
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.window.write_slices_at(offset, &mut [IoSlice::new(bytes)])
    }

    /// In order: the journal's entry that has the name comes behind the one that says that these bytes are written, and
    /// the device is flushed before either counts.
    fn write_first(&self, offset: u64, bytes: &[u8]) -> io::Result<bool> {
        let (start, end) = (offset / PAGE * PAGE, (offset + bytes.len() as u64).next_multiple_of(PAGE));
        let within = end <= self.len.load(Ordering::Relaxed) && self.new_names.is_some();
        if within {
            // The file is new, so what lies around reads as zeros.
            let mut pages = vec![0; (end - start) as usize];
            pages[(offset - start) as usize..][..bytes.len()].copy_from_slice(bytes);
            let written = system::write_in_order(self.file(), self.window.direct.as_deref(), start, &pages);
            if written? == Some(pages.len()) {
                return Ok(true);
            }
        }
        self.write_at(offset, bytes)?;
        Ok(false)
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.file().read_exact_at(bytes, offset)
    }

    fn one_write_at_a_time(&self) -> bool {
        true
    }

    fn write_slices_at(&self, offset: u64, slices: &mut [IoSlice]) -> io::Result<()> {
        self.window.write_slices_at(offset, slices)
    }

    fn grows(&self) -> bool {
        true
    }

    fn grow(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        growth::grow(self.file(), self.len.load(Ordering::Relaxed), at, bytes)?;
        self.len.store(at + bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn park(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        // Whoever opens it again is not told what this descriptor would have been told.
        if self.new_names.is_some() && self.check_written().is_err() {
            self.failed.store(true, Ordering::Relaxed);
            return None;
        }
        let identity = Identity::of(self.file()).ok().filter(|_| self.published.load(Ordering::Relaxed))?;
        Some(Arc::new(ParkedFile { identity, len: self.len.load(Ordering::Relaxed) }))
    }

    fn forget(&self) {
        system::forget_cached(self.file());
    }

    fn done_with(&self, offset: u64, len: u64) {
        self.window.done_with(offset, len);
    }

    fn publish(&self) -> io::Result<()> {
        let publish = || system::rename_new(&self.partial, &self.path);
        match (&self.new_names, self.path.parent()) {
            (Some(names), Some(folder)) => names.make(folder, publish)?,
            _ => publish()?,
        }
        self.published.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.check_intact()?;
        let Some(names) = &self.new_names else { return Ok(()) };
        if self.failed.load(Ordering::Relaxed) {
            return Err(io::Error::other("the device does not have what was written"));
        }
        self.file().sync_data()?;
        if self.published.load(Ordering::Relaxed) { names.sync_above(&self.path) } else { Ok(()) }
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        self.window.punch(offset, len)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        if let Some(direct) = &self.window.direct {
            system::join_descriptors(direct, self.file());
        }
        lease::unseen(self.file(), || self.file().set_len(len))?;
        self.len.store(len, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for FileBlob {
    fn drop(&mut self) {
        if !self.published.load(Ordering::Relaxed) {
            let _ = fs::remove_file(&self.partial);
            self.made.iter().for_each(|made| made.remove_empty(&self.partial));
        } else if fs::symlink_metadata(&self.path).is_ok() {
            self.made.iter().for_each(|made| made.keep(&self.path));
        }
    }
}
