//! A folder of a local file system, with or without memory maps.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};

use memmap2::{MmapOptions, MmapRaw, UncheckedAdvice};
use rustix::fs::{CWD, FallocateFlags, RenameFlags, fallocate, fdatasync, renameat_with};
use rustix::io::Errno;

use super::{Blob, Storage};
use crate::config::StorageKind;

const PAGE: u64 = 4096;

// From statfs(2): file systems on which a store into a preallocated, mapped range can't fail. On copy-on-write ones it
// can (a full disk then kills the process by SIGBUS), on network ones it can at any time.
const SAFE_TO_MAP: [(u64, &str); 3] = [(0xEF53, "ext4"), (0x5846_5342, "xfs"), (0x0102_1994, "tmpfs")];

/// Keys are paths below a folder.
#[derive(Debug)]
pub(crate) struct Directory {
    root: PathBuf,
    way: Way,
    sync: bool,
    reason: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Mapped,
    Buffered,
    Direct,
}

impl Directory {
    /// `root` must exist.
    pub(crate) fn open(root: &Path, kind: StorageKind, sync: bool) -> io::Result<Self> {
        let configured = || "as configured".to_owned();
        let (way, reason) = match kind {
            StorageKind::Mapped => (Way::Mapped, configured()),
            StorageKind::Buffered => (Way::Buffered, configured()),
            StorageKind::Direct => (Way::Direct, configured()),
            StorageKind::Auto => {
                let magic = rustix::fs::statfs(root)?.f_type as u64;
                match SAFE_TO_MAP.iter().find(|known| known.0 == magic) {
                    Some((_, name)) => (Way::Mapped, format!("{name} keeps its promise of reserved space")),
                    None => {
                        (Way::Buffered, format!("a memory map is not known to be safe on file system type {magic:#x}"))
                    }
                }
            }
        };
        Ok(Self { root: root.to_path_buf(), way, sync, reason })
    }

    /// Why this way of writing was chosen.
    pub(crate) fn reason(&self) -> &str {
        &self.reason
    }

    /// Creates the folders above `path`; each new one is synced into its parent.
    fn create_parents(&self, path: &Path) -> io::Result<()> {
        let Some(parent) = path.parent().filter(|parent| !parent.is_dir()) else { return Ok(()) };
        self.create_parents(parent)?;
        match fs::create_dir(parent) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        self.sync_folder_of(parent)
    }

    fn sync_folder_of(&self, path: &Path) -> io::Result<()> {
        match path.parent() {
            Some(parent) if self.sync => File::open(parent)?.sync_all(),
            _ => Ok(()),
        }
    }
}

/// The name under which a file is made before it appears: hidden, and beside its place, so that a rename suffices.
fn unpublished(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.partial"))
}

fn create_new(path: &Path) -> io::Result<File> {
    let open = || OpenOptions::new().read(true).write(true).create_new(true).mode(0o666).open(path);
    match open() {
        // Left by a writer that was killed; this dataset's lock is ours.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            open()
        }
        other => other,
    }
}

impl Storage for Directory {
    fn name(&self) -> &'static str {
        match self.way {
            Way::Mapped => "mapped",
            Way::Buffered => "buffered",
            Way::Direct => "direct",
        }
    }

    fn create(&self, key: &str, len: u64) -> io::Result<Box<dyn Blob>> {
        let path = self.root.join(key);
        self.create_parents(&path)?;
        let partial = unpublished(&path);
        let file = create_new(&partial)?;
        // From here on a failure drops the blob, which removes the file: a failed fallocate may have taken half the disk.
        let mut blob = FileBlob {
            file,
            map: None,
            direct: None,
            path,
            partial,
            published: AtomicBool::new(false),
            sync: self.sync,
        };
        match fallocate(&blob.file, FallocateFlags::empty(), 0, len) {
            Ok(()) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS) if self.way != Way::Mapped => blob.file.set_len(len)?,
            Err(error) => return Err(error.into()),
        }
        match self.way {
            Way::Mapped => blob.map = Some(MmapOptions::new().len(len as usize).map_raw(&blob.file)?),
            Way::Direct => blob.direct = open_direct(&blob.partial),
            Way::Buffered => {}
        }
        Ok(Box::new(blob))
    }

    fn put(&self, key: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.root.join(key);
        self.create_parents(&path)?;
        let partial = unpublished(&path);
        let write = || {
            let file = create_new(&partial)?;
            file.write_all_at(bytes, 0)?;
            if self.sync { file.sync_all() } else { Ok(()) }
        };
        let renamed = write().and_then(|()| fs::rename(&partial, &path));
        if renamed.is_err() {
            let _ = fs::remove_file(&partial);
        }
        renamed?;
        self.sync_folder_of(&path)
    }

    fn remove(&self, key: &str) -> io::Result<()> {
        match fs::remove_file(self.root.join(key)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// A second descriptor that passes the page cache by; `None` where the file system has no such thing.
fn open_direct(path: &Path) -> Option<File> {
    let flags = rustix::fs::OFlags::DIRECT.bits();
    OpenOptions::new().write(true).custom_flags(flags.cast_signed()).open(path).ok()
}

struct FileBlob {
    file: File,
    map: Option<MmapRaw>,
    direct: Option<File>,
    path: PathBuf,
    partial: PathBuf,
    published: AtomicBool,
    sync: bool,
}

impl Blob for FileBlob {
    fn map(&self) -> Option<NonNull<u8>> {
        self.map.as_ref().and_then(|map| NonNull::new(map.as_mut_ptr()))
    }

    fn alignment(&self) -> usize {
        if self.direct.is_some() { PAGE as usize } else { 1 }
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let whole_pages = |at: u64| at.is_multiple_of(PAGE);
        let aligned = whole_pages(offset) && whole_pages(bytes.len() as u64) && whole_pages(bytes.as_ptr() as u64);
        if let Some(direct) = self.direct.as_ref().filter(|_| aligned) {
            match direct.write_all_at(bytes, offset) {
                // The device wants more than pages; the page cache takes anything.
                Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {}
                other => return other,
            }
        }
        self.file.write_all_at(bytes, offset)
    }

    #[allow(unsafe_code)]
    fn done_with(&self, offset: u64, len: u64) {
        let Some(map) = &self.map else { return };
        let start = offset / PAGE * PAGE;
        let end = (offset + len).next_multiple_of(PAGE).min(map.len() as u64);
        // SAFETY: on a shared file map, MADV_DONTNEED only takes the pages out of this process's page table; their
        // contents stay in the page cache, and a later access, if any, maps them again.
        let advised = unsafe {
            map.unchecked_advise_range(UncheckedAdvice::DontNeed, start as usize, end.saturating_sub(start) as usize)
        };
        // Only the process's apparent size depends on it.
        drop(advised);
    }

    fn publish(&self) -> io::Result<()> {
        match renameat_with(CWD, &self.partial, CWD, &self.path, RenameFlags::NOREPLACE) {
            // The file system has no such rename; the dataset is locked, so nobody else puts a file there.
            Err(Errno::INVAL | Errno::NOSYS) if !self.path.exists() => fs::rename(&self.partial, &self.path)?,
            other => other?,
        }
        self.published.store(true, Ordering::Relaxed);
        match self.path.parent() {
            Some(parent) if self.sync => File::open(parent)?.sync_all(),
            _ => Ok(()),
        }
    }

    fn sync(&self) -> io::Result<()> {
        if self.sync { Ok(fdatasync(&self.file)?) } else { Ok(()) }
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        let (start, end) = (offset.next_multiple_of(PAGE), (offset + len) / PAGE * PAGE);
        if end <= start {
            return Ok(());
        }
        match fallocate(&self.file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, start, end - start) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            other => Ok(other?),
        }
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
}

impl Drop for FileBlob {
    fn drop(&mut self) {
        if !self.published.load(Ordering::Relaxed) {
            let _ = fs::remove_file(&self.partial);
        }
    }
}
