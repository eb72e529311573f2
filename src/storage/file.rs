//! A file of a folder: written through a map, past the page cache, or into it.

use std::any::Any;
use std::fs::{self, File};
use std::io::{self, IoSlice};
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use memmap2::{MmapRaw, UncheckedAdvice};

use super::new_names::NewNames;
use super::seam::{Blob, Mapped, PAGE};
use crate::fs::lost_pages::Guard;
use crate::fs::system::FileExt;
use crate::fs::{Identity, growth, lease, system};

// Shorter writes hold the lock for less time than it takes to go around it.
const BESIDE_BYTES_MIN: usize = 64 << 10;

/// A file that is made under another name, and appears when it is published.
pub(super) struct FileBlob {
    pub(super) file: File,
    /// Before the map, because it is dropped first.
    pub(super) guard: Option<Guard>,
    pub(super) map: Option<Arc<MmapRaw>>,
    /// Somebody has the map.
    mapped: AtomicBool,
    pub(super) direct: Option<File>,
    /// For writes beside the one that holds the file's lock, where files are memory.
    pub(super) beside: Option<MmapRaw>,
    /// Somebody holds the lock.
    writing: AtomicBool,
    /// Keeps the folder open that the paths begin with.
    pub(super) held: Option<Arc<File>>,
    path: PathBuf,
    pub(super) partial: PathBuf,
    published: AtomicBool,
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
        if Identity::of(&blob.file)? != parked.identity {
            return Err(io::Error::other("another program replaced the file"));
        }
        blob.check_file()?;
        Ok(blob)
    }

    /// `len`: how long the file must be. Dropped before it is published, it removes the file.
    pub(super) fn new(file: File, path: PathBuf, partial: PathBuf, len: u64, names: Option<Arc<NewNames>>) -> Self {
        Self {
            file,
            guard: None,
            map: None,
            mapped: AtomicBool::new(false),
            direct: None,
            beside: None,
            writing: AtomicBool::new(false),
            held: None,
            path,
            partial,
            published: AtomicBool::new(false),
            len: AtomicU64::new(len),
            new_names: names,
        }
    }

    /// Refuses to go on with a file that another program cut off or took away: nobody would find what is written to it.
    fn check_file(&self) -> io::Result<()> {
        let (file, expected) = (self.file.metadata()?, self.len.load(Ordering::Relaxed));
        if file.len() < expected {
            let reason = format!("another program cut the file off at {} of {expected} bytes", file.len());
            return Err(io::Error::other(reason));
        }
        if self.published.load(Ordering::Relaxed) && !Identity::from(&file).is_at(&self.path) {
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
        match system::write_vectored_at(file, slices, *offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                *offset += written as u64;
                IoSlice::advance_slices(slices, written);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Copies into a file that is memory without its lock, which a write would wait for while it burns a core.
///
/// The pages are asked for first: if there is no room for them, that is an error here, where a mere store would be a
/// signal.
#[allow(unsafe_code)]
fn copy_beside(map: &MmapRaw, offset: u64, len: usize, slices: &[IoSlice]) -> io::Result<()> {
    let beyond = || io::Error::new(io::ErrorKind::InvalidInput, "a write beyond the map");
    let offset = usize::try_from(offset).map_err(|_| beyond())?;
    let end = offset.checked_add(len).filter(|&end| end <= map.len()).ok_or_else(beyond)?;
    let start = offset / PAGE as usize * PAGE as usize;
    let pages = end.next_multiple_of(PAGE as usize).min(map.len()) - start;
    map.advise_range(memmap2::Advice::PopulateWrite, start, pages)?;
    let mut at = offset;
    for slice in slices {
        if slice.len() > end - at {
            return Err(beyond());
        }
        // SAFETY: the range from `at` on was just seen to end at `end` or before, which lies within the map; nobody
        // else touches it, because callers of a blob never write overlapping ranges at the same time, and readers of
        // the file are other mappings.
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
    #[allow(unsafe_code)]
    fn map(&self) -> Option<Mapped> {
        let map = self.map.as_ref().filter(|_| !self.mapped.swap(true, Ordering::Relaxed))?;
        // SAFETY: the map is shared and writable, starts on a page, and lives as long as it is kept; this is the only
        // `Mapped` of it, because `mapped` was false. What other programs do to the file is beyond any writer; this
        // process writes into it by the blob's own calls alone.
        NonNull::new(map.as_mut_ptr()).map(|start| unsafe { Mapped::new(start, map.len(), map.clone()) })
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

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(bytes, offset)
    }

    fn one_write_at_a_time(&self) -> bool {
        true
    }

    fn write_slices_at(&self, mut offset: u64, mut slices: &mut [IoSlice]) -> io::Result<()> {
        if let Some(direct) = self.direct_for(offset, slices) {
            match write_slices(direct, &mut offset, &mut slices) {
                // The device wants more than pages, or can't reach the memory (a caller's own, as that of another
                // device); the page cache takes anything that a processor reads.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput || system::is_out_of_reach(&error) => {}
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

    fn grows(&self) -> bool {
        true
    }

    fn grow(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        growth::grow(&self.file, self.len.load(Ordering::Relaxed), at, bytes)?;
        self.len.store(at + bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn park(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        let identity = Identity::of(&self.file).ok().filter(|_| self.published.load(Ordering::Relaxed))?;
        Some(Arc::new(ParkedFile { identity, len: self.len.load(Ordering::Relaxed) }))
    }

    fn forget(&self) {
        system::forget_cached(&self.file);
    }

    fn done_with(&self, offset: u64, len: u64) {
        let Some(map) = &self.map else { return };
        let start = offset / PAGE * PAGE;
        let end = (offset + len).next_multiple_of(PAGE).min(map.len() as u64);
        forget_pages(map, start as usize, end.saturating_sub(start) as usize);
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
        self.file.sync_data()?;
        if self.published.load(Ordering::Relaxed) { names.sync_above(&self.path) } else { Ok(()) }
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        match system::give_back(&self.file, offset, len)? {
            true => Ok(()),
            false => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        if let Some(direct) = &self.direct {
            system::join_descriptors(direct, &self.file);
        }
        lease::unseen(&self.file, || self.file.set_len(len))?;
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
    use memmap2::MmapOptions;

    use super::*;

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

    /// The page of the kernel's clock: a processor reads it, and a device can't be given it.
    #[test]
    #[cfg_attr(miri, ignore = "miri has no such page")]
    #[allow(unsafe_code)]
    fn memory_that_no_device_reaches_goes_through_the_page_cache() {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let clock = maps.lines().find(|line| line.ends_with("[vvar]")).expect("a kernel with such a page");
        let start = usize::from_str_radix(clock.split('-').next().unwrap(), 16).unwrap();
        // SAFETY: a page that the process may read as long as it lives. What is in it is not looked at.
        let page = unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(start), PAGE as usize) };
        // Not in a tmpfs, which needs no device.
        let folder = tempfile::tempdir_in(std::env::current_exe().unwrap().parent().unwrap()).unwrap();
        let path = folder.path().join("shard");
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        let mut blob = FileBlob::new(file, path.clone(), path.clone(), 2 * PAGE, None);
        blob.direct = system::open_direct(&path);
        assert!(blob.direct.is_some(), "a file system without writes past the page cache");
        let mut slices = [IoSlice::new(page)];
        let refused = write_slices(blob.direct.as_ref().unwrap(), &mut 0, &mut &mut slices[..]);
        assert!(system::is_out_of_reach(&refused.unwrap_err()));
        blob.write_slices_at(PAGE, &mut [IoSlice::new(page)]).unwrap();
        assert_eq!(blob.file.metadata().unwrap().len(), 2 * PAGE);
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
