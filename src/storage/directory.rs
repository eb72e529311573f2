//! A folder of a local file system, with or without memory maps and the page cache.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use memmap2::{MmapOptions, MmapRaw, UncheckedAdvice};
use rustix::fs::{Advice, CWD, FallocateFlags, RenameFlags, fallocate, fdatasync, renameat_with};
use rustix::io::{Errno, retry_on_intr};

use super::guard::Guard;
use super::{Blob, PUTS_AT_ONCE, Storage};
use crate::config::StorageKind;

const PAGE: u64 = 4096;

// After a kill it is one of the unfinished files that may be removed.
const BALLAST_FILE: &str = ".shardwright.ballast.partial";
const BALLAST_BYTES: u64 = 1 << 20;
const BALLAST_TRIES: u32 = 20;
const BALLAST_PAUSE: Duration = Duration::from_millis(20);

// Shorter writes hold the lock for less time than it takes to go around it.
const BESIDE_BYTES_MIN: usize = 64 << 10;

// From statfs(2).
const EXT4: u64 = 0xEF53;
const XFS: u64 = 0x5846_5342;
const TMPFS: u64 = 0x0102_1994;
/// Copy on write (btrfs, bcachefs, ZFS) and network (NFS, SMB, FUSE, Ceph, 9P): reserved room is no promise there.
const UNSAFE_TO_MAP: [u64; 9] =
    [0x9123_683E, 0xCA45_1A4E, 0x2FC1_2FC1, 0x6969, 0xFF53_4D42, 0xFE53_4D42, 0x6573_5546, 0x00C3_6400, 0x0102_1997];

/// Keys are paths below a folder.
#[derive(Debug)]
pub(crate) struct Directory {
    root: PathBuf,
    way: Way,
    file_system: u64,
    sync: bool,
    /// A lost page of a map is an error, not a signal that ends the process.
    guard_maps: bool,
    room: Arc<Room>,
}

/// What directories on the same disk share: how much room there is left for which of them.
#[derive(Debug, Default)]
pub(crate) struct Room {
    ballast: OnceLock<Option<Ballast>>,
    /// The error with which a shard or a document found no room, else 0. No shard is begun any more: what is left, and what
    /// the ballast gives, is for the documents.
    full: AtomicI32,
}

impl Room {
    /// Remembers that there is none left, if that is what `error` says.
    fn note(&self, error: &io::Error) {
        if is_no_room(error) {
            let code = error.raw_os_error().unwrap_or(Errno::NOSPC.raw_os_error());
            let _ = self.full.compare_exchange(0, code, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Fails, with the same error, once there was none left. Whoever has used up a quota shall not look for a full disk.
    fn check(&self) -> io::Result<()> {
        match self.full.load(Ordering::Relaxed) {
            0 => Ok(()),
            code => Err(io::Error::from_raw_os_error(code)),
        }
    }
}

/// Room on the disk that is given up when it is full, so that documents and records can tell what is in the shards: those
/// that are there by then are worth nothing to a reader whose document does not know of them.
#[derive(Debug)]
struct Ballast(PathBuf);

impl Ballast {
    /// Only a wish.
    fn load(root: &Path) -> Option<Self> {
        allowed(BALLAST_BYTES).ok()?;
        let path = root.join(BALLAST_FILE);
        let file = OpenOptions::new().write(true).create_new(true).open(&path).ok()?;
        let ballast = Self(path);
        fallocate(&file, FallocateFlags::empty(), 0, BALLAST_BYTES).ok().map(|()| ballast)
    }
}

impl Drop for Ballast {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// A way to bring bytes into a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// See [`StorageKind::Mapped`]; so with the others.
    Mapped,
    /// See [`StorageKind::Buffered`].
    Buffered,
    /// See [`StorageKind::Direct`].
    Direct,
}

impl Way {
    pub(crate) const ALL: [Self; 3] = [Self::Mapped, Self::Buffered, Self::Direct];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mapped => "mapped",
            Self::Buffered => "buffered",
            Self::Direct => "direct",
        }
    }

    /// The way that a caller named; `None` if the choice is left to us.
    pub(crate) fn named(kind: StorageKind) -> Option<Self> {
        match kind {
            StorageKind::Auto => None,
            StorageKind::Mapped => Some(Self::Mapped),
            StorageKind::Buffered => Some(Self::Buffered),
            StorageKind::Direct => Some(Self::Direct),
        }
    }
}

impl Directory {
    /// `root` must exist.
    pub(crate) fn open(root: &Path, way: Way, sync: bool) -> io::Result<Self> {
        let file_system = rustix::fs::statfs(root)?.f_type as u64;
        let root = root.to_path_buf();
        Ok(Self { root, way, file_system, sync, guard_maps: false, room: Arc::default() })
    }

    /// With room kept for documents when the disk is full, for all directories that have the same `room`.
    pub(crate) fn with_room(self, room: Arc<Room>) -> Self {
        room.ballast.get_or_init(|| Ballast::load(&self.root));
        Self { room, ..self }
    }

    /// With guarded maps, if the handler is installed: see [`guard`](super::guard).
    pub(crate) fn with_guard(self, guard_maps: bool) -> Self {
        Self { guard_maps, ..self }
    }

    fn put_once(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.create_parents(path)?;
        let partial = unpublished(path);
        let write = || {
            let file = create_new(&partial)?;
            allowed(bytes.len() as u64)?;
            file.write_all_at(bytes, 0)?;
            if self.sync { file.sync_all() } else { Ok(()) }
        };
        let renamed = write().and_then(|()| fs::rename(&partial, path));
        if renamed.is_err() {
            let _ = fs::remove_file(&partial);
        }
        renamed?;
        self.sync_folder_of(path)
    }

    /// Whether a store into a preallocated, mapped range can't fail. On copy-on-write file systems it can (a full disk then
    /// kills the process by SIGBUS), on network ones at any time.
    pub(crate) fn is_safe_to_map(&self) -> bool {
        matches!(self.file_system, EXT4 | XFS | TMPFS)
    }

    /// Whether not even a caller who names it may have a map: a full disk, or a lost connection, would kill the process.
    pub(crate) fn is_unsafe_to_map(&self) -> bool {
        UNSAFE_TO_MAP.contains(&self.file_system)
    }

    /// Whether its files are memory, which no way of writing passes by.
    pub(crate) fn is_memory(&self) -> bool {
        self.file_system == TMPFS
    }

    /// Makes sure that `len` bytes can be written to a new file.
    fn reserve(&self, file: &File, len: u64) -> io::Result<()> {
        allowed(len)?;
        self.room.check()?;
        let state = rustix::fs::fstatvfs(file)?;
        // A reservation that fails half-way would, for a moment, hold all the room that documents need.
        let no_room = state.f_blocks > 0 && state.f_bavail.saturating_mul(state.f_frsize) < len;
        if no_room {
            return Err(Errno::NOSPC.into());
        }
        if self.is_memory() && self.way != Way::Mapped {
            // There, reserving is filling with pages, worst case and all, which costs more than the writes themselves. A
            // write that finds no room is an error, not a signal, so it suffices to look whether there is room now.
            return file.set_len(len);
        }
        match fallocate_all(file, len) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) if self.way != Way::Mapped => file.set_len(len),
            other => Ok(other?),
        }
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

/// A file beyond the limit of the process (`ulimit -f`) would be answered with a signal that ends it.
fn allowed(len: u64) -> io::Result<()> {
    match rustix::process::getrlimit(rustix::process::Resource::Fsize).current {
        Some(most) if most < len => Err(Errno::FBIG.into()),
        _ => Ok(()),
    }
}

/// A signal may interrupt the call, which on a tmpfs then takes back all that it has done: the pieces become smaller until one
/// passes between two signals.
fn fallocate_all(file: &File, len: u64) -> rustix::io::Result<()> {
    let (mut start, mut piece) = (0, len);
    while start < len {
        match fallocate(file, FallocateFlags::empty(), start, piece.min(len - start)) {
            Ok(()) => start += piece,
            Err(Errno::INTR) => piece = (piece / 2).next_multiple_of(PAGE),
            Err(error) => return Err(error),
        }
    }
    Ok(())
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
        self.way.name()
    }

    fn create(&self, key: &str, len: u64) -> io::Result<Box<dyn Blob>> {
        let path = self.root.join(key);
        self.create_parents(&path)?;
        let partial = unpublished(&path);
        let file = create_new(&partial)?;
        // From here on a failure drops the blob, which removes the file: a failed fallocate may have taken half the disk.
        let mut blob = FileBlob {
            file,
            guard: None,
            map: None,
            direct: None,
            beside: None,
            writing: AtomicBool::new(false),
            path,
            partial,
            published: AtomicBool::new(false),
            len: AtomicU64::new(len),
            sync: self.sync,
        };
        self.reserve(&blob.file, len).inspect_err(|error| self.room.note(error))?;
        match self.way {
            Way::Mapped => {
                let map = MmapOptions::new().len(len as usize).map_raw(&blob.file)?;
                if self.guard_maps {
                    blob.guard = Guard::over(map.as_ptr(), map.len());
                }
                // What can't be guarded is written instead.
                blob.map = Some(map).filter(|_| blob.guard.is_some() || !self.guard_maps);
            }
            Way::Direct if !self.is_memory() => blob.direct = open_direct(&blob.partial),
            // Without addresses to spare, writes wait for each other; and so they do for those who want no risk of a lost page.
            Way::Direct | Way::Buffered if self.is_memory() && !self.guard_maps => {
                blob.beside = MmapOptions::new().len(len as usize).map_raw(&blob.file).ok();
            }
            Way::Direct | Way::Buffered => {}
        }
        Ok(Box::new(blob))
    }

    fn put(&self, key: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.root.join(key);
        let mut written = self.put_once(&path, bytes);
        for _ in 0..BALLAST_TRIES {
            match (&written, self.room.ballast.get()) {
                (Err(error), Some(Some(ballast))) if is_no_room(error) => {
                    self.room.note(error);
                    let _ = fs::remove_file(&ballast.0);
                    // Some file systems free in the background.
                    thread::sleep(BALLAST_PAUSE);
                    written = self.put_once(&path, bytes);
                }
                _ => break,
            }
        }
        written
    }

    /// By several threads: a device that syncs for all of them at once has little more to do than for one.
    fn put_all(&self, files: &[(&str, &[u8])]) -> io::Result<()> {
        let put = |files: &[(&str, &[u8])]| files.iter().try_for_each(|(key, bytes)| self.put(key, bytes));
        let part = if self.sync { files.len().div_ceil(PUTS_AT_ONCE).max(1) } else { files.len() };
        let (first, others) = files.split_at(part.min(files.len()));
        thread::scope(|scope| {
            let spawn = |files| thread::Builder::new().name("sw-sync".into()).spawn_scoped(scope, move || put(files));
            let others: Vec<_> = others.chunks(part.max(1)).map(|files| (files, spawn(files))).collect();
            let outcomes = others.into_iter().map(|(files, thread)| match thread {
                Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
                // Without threads to be had, one after the other.
                Err(_) => put(files),
            });
            let first = put(first);
            outcomes.fold(first, io::Result::and)
        })
    }

    fn remove(&self, key: &str) -> io::Result<()> {
        match fs::remove_file(self.root.join(key)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Whether something must go before more fits; a quota is a small disk.
fn is_no_room(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// A second descriptor that passes the page cache by; `None` where the file system has no such thing.
fn open_direct(path: &Path) -> Option<File> {
    let flags = rustix::fs::OFlags::DIRECT.bits();
    OpenOptions::new().write(true).custom_flags(flags.cast_signed()).open(path).ok()
}

struct FileBlob {
    file: File,
    /// Before the map, because it is dropped first.
    guard: Option<Guard>,
    map: Option<MmapRaw>,
    direct: Option<File>,
    /// For writes beside the one that holds the file's lock, where files are memory.
    beside: Option<MmapRaw>,
    /// Somebody holds the lock.
    writing: AtomicBool,
    path: PathBuf,
    partial: PathBuf,
    published: AtomicBool,
    /// How long the file must be.
    len: AtomicU64,
    sync: bool,
}

impl FileBlob {
    /// Refuses to go on with a file that another program cut off or took away: nobody would find what is written to it.
    fn check_file(&self) -> io::Result<()> {
        let (file, expected) = (self.file.metadata()?, self.len.load(Ordering::Relaxed));
        if file.len() < expected {
            let reason = format!("another program cut the file off at {} of {expected} bytes", file.len());
            return Err(io::Error::other(reason));
        }
        let is_there = fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == file.ino());
        if self.published.load(Ordering::Relaxed) && !is_there {
            return Err(io::Error::other("another program removed, moved or replaced the file"));
        }
        Ok(())
    }

    /// The descriptor that passes the page cache by, if these slices can.
    fn direct_for(&self, offset: u64, slices: &[IoSlice]) -> Option<&File> {
        let whole_pages = |at: usize| at.is_multiple_of(PAGE as usize);
        let slices = slices.iter().all(|slice| whole_pages(slice.as_ptr() as usize) && whole_pages(slice.len()));
        self.direct.as_ref().filter(|_| slices && offset.is_multiple_of(PAGE))
    }
}

/// Writes slices one after another, and moves `offset` and `slices` past what is written.
fn write_slices(file: &File, offset: &mut u64, slices: &mut &mut [IoSlice]) -> io::Result<()> {
    IoSlice::advance_slices(slices, 0);
    while !slices.is_empty() {
        match rustix::io::pwritev(file, slices, *offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                *offset += written as u64;
                IoSlice::advance_slices(slices, written);
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Copies into a file that is memory without its lock, which a write would wait for while it burns a core.
///
/// The pages are asked for first: if there is no room for them, that is an error here, where a mere store would be a signal.
#[allow(unsafe_code)]
fn copy_beside(map: &MmapRaw, offset: u64, len: usize, slices: &[IoSlice]) -> io::Result<()> {
    let start = offset as usize / PAGE as usize * PAGE as usize;
    let pages = (offset as usize + len).next_multiple_of(PAGE as usize).min(map.len()) - start;
    map.advise_range(memmap2::Advice::PopulateWrite, start, pages)?;
    let mut at = offset as usize;
    for slice in slices {
        // SAFETY: the range lies within the map, because it lies within the blob's length; nobody else touches it, because
        // ranges written by different threads never overlap.
        unsafe { slice.as_ptr().copy_to_nonoverlapping(map.as_mut_ptr().add(at), slice.len()) };
        at += slice.len();
    }
    forget_pages(map, start, pages);
    Ok(())
}

/// Takes pages out of this process's page table, where they would count as its memory.
#[allow(unsafe_code)]
fn forget_pages(map: &MmapRaw, start: usize, len: usize) {
    // SAFETY: on a shared file map, the contents stay in the page cache, and a later access, if any, maps them again.
    let advised = unsafe { map.unchecked_advise_range(UncheckedAdvice::DontNeed, start, len) };
    // Only the process's apparent size depends on it.
    drop(advised);
}

impl Blob for FileBlob {
    fn map(&self) -> Option<NonNull<u8>> {
        self.map.as_ref().and_then(|map| NonNull::new(map.as_mut_ptr()))
    }

    fn check_map(&self) -> io::Result<()> {
        let Some(guard) = &self.guard else { return Ok(()) };
        // The file itself may show what happened to it.
        guard.check().map_err(|lost| self.check_file().err().unwrap_or(lost))
    }

    fn check_intact(&self) -> io::Result<()> {
        self.check_file()?;
        self.check_map()
    }

    fn alignment(&self) -> usize {
        if self.direct.is_some() { PAGE as usize } else { 1 }
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_slices_at(offset, &mut [IoSlice::new(bytes)])
    }

    fn one_write_at_a_time(&self) -> bool {
        true
    }

    fn write_slices_at(&self, mut offset: u64, mut slices: &mut [IoSlice]) -> io::Result<()> {
        if let Some(direct) = self.direct_for(offset, slices) {
            match write_slices(direct, &mut offset, &mut slices) {
                // The device wants more than pages; the page cache takes anything.
                Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {}
                other => return other,
            }
        }
        let len = slices.iter().map(|slice| slice.len()).sum::<usize>();
        let Some(map) = self.beside.as_ref().filter(|_| len >= BESIDE_BYTES_MIN) else {
            return write_slices(&self.file, &mut offset, &mut slices);
        };
        if !self.writing.swap(true, Ordering::Acquire) {
            let written = write_slices(&self.file, &mut offset, &mut slices);
            self.writing.store(false, Ordering::Release);
            return written;
        }
        // No room, or no such call: it is told, or done, by the ordinary way.
        copy_beside(map, offset, len, slices).or_else(|_| write_slices(&self.file, &mut offset, &mut slices))
    }

    fn forget(&self) {
        // Only a wish: cameras and readers have better uses for the memory.
        let _ = rustix::fs::fadvise(&self.file, 0, None, Advice::DontNeed);
    }

    fn done_with(&self, offset: u64, len: u64) {
        let Some(map) = &self.map else { return };
        let start = offset / PAGE * PAGE;
        let end = (offset + len).next_multiple_of(PAGE).min(map.len() as u64);
        forget_pages(map, start as usize, end.saturating_sub(start) as usize);
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
        self.check_intact()?;
        // Interrupted is not failed: what could not be written back is kept for the next call.
        if self.sync { Ok(retry_on_intr(|| fdatasync(&self.file))?) } else { Ok(()) }
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        let (start, end) = (offset.next_multiple_of(PAGE), (offset + len) / PAGE * PAGE);
        if end <= start {
            return Ok(());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match retry_on_intr(|| fallocate(&self.file, flags, start, end - start)) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            other => Ok(other?),
        }
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)?;
        self.len.store(len, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for FileBlob {
    fn drop(&mut self) {
        if !self.published.load(Ordering::Relaxed) {
            let _ = fs::remove_file(&self.partial);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "miri has no statfs")]
    fn files_put_together_are_all_there_or_the_error_is() {
        for sync in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let directory = Directory::open(folder.path(), Way::Buffered, sync).unwrap();
            let keys: Vec<_> = (0..9).map(|at| format!("a/{at}/c")).collect();
            let files: Vec<_> = keys.iter().map(|key| (key.as_str(), key.as_bytes())).collect();
            directory.put_all(&files).unwrap();
            directory.put_all(&[]).unwrap();
            assert!(keys.iter().all(|key| fs::read(folder.path().join(key)).unwrap() == key.as_bytes()));
            // Nothing takes a folder's place.
            for at in [0, 3, 8] {
                fs::remove_file(folder.path().join(&keys[at])).unwrap();
                fs::create_dir(folder.path().join(&keys[at])).unwrap();
                assert!(directory.put_all(&files).is_err(), "{at}");
                fs::remove_dir(folder.path().join(&keys[at])).unwrap();
                directory.put_all(&files).unwrap();
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "miri has no file maps")]
    fn what_is_copied_beside_is_in_the_file() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(40_000).unwrap();
        let map = MmapOptions::new().map_raw(&file).unwrap();
        copy_beside(&map, 5_000, 9_000, &[IoSlice::new(&[1; 4_000]), IoSlice::new(&[2; 5_000])]).unwrap();
        copy_beside(&map, 39_000, 1_000, &[IoSlice::new(&[3; 1_000])]).unwrap();
        let mut found = vec![9; 40_000];
        file.read_exact_at(&mut found, 0).unwrap();
        let expected = [(0, 5_000), (1, 4_000), (2, 5_000), (0, 25_000), (3, 1_000)];
        let expected: Vec<u8> = expected.iter().flat_map(|&(byte, count)| vec![byte; count]).collect();
        assert!(found == expected);
    }

    #[test]
    #[cfg_attr(miri, ignore = "miri has no file maps")]
    fn what_can_not_be_copied_beside_is_an_error() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(40_000).unwrap();
        let map = MmapOptions::new().map_raw(&file).unwrap();
        file.set_len(0).unwrap();
        assert!(copy_beside(&map, 8_192, 4_096, &[IoSlice::new(&[1; 4_096])]).is_err());
    }
}
