//! A range of an open file, such as all of it: written through a map, past the page cache, or into it.

use std::fs::File;
use std::io::{self, IoSlice};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use memmap2::{MmapOptions, MmapRaw};

use super::seam::{Mapped, PAGE};
use crate::config::StorageKind;
use crate::fs::lost_pages::Guard;
use crate::fs::memory;
use crate::fs::system::{self, FileSystem};

// Shorter writes hold the lock for less time than it takes to go around it.
const BESIDE_BYTES_MIN: usize = 64 << 10;

/// A range that begins on a page. Its offsets count from there.
pub(super) struct Window {
    pub(super) file: Arc<File>,
    start: u64,
    /// Before the map, because it is dropped first.
    guard: Option<Guard>,
    map: Option<Arc<MmapRaw>>,
    /// Somebody has the map.
    mapped: AtomicBool,
    pub(super) direct: Option<Arc<File>>,
    /// For writes beside the one that holds the file's lock, where files are memory.
    beside: Option<MmapRaw>,
    /// Somebody holds the lock.
    writing: AtomicBool,
}

/// How a file is written to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Access {
    pub(super) way: StorageKind,
    pub(super) file_system: FileSystem,
    /// A lost page of a map is an error, not a signal that ends the process.
    pub(super) guard_maps: bool,
}

impl Window {
    /// `len` bytes from `start` on, all of which have their room. `to_map`: by which the file is mapped, if by another
    /// description than `file`. `direct`: opens a descriptor that passes the page cache by.
    pub(super) fn open(
        file: Arc<File>,
        to_map: Option<&File>,
        start: u64,
        len: u64,
        access: Access,
        direct: impl FnOnce() -> Option<Arc<File>>,
    ) -> io::Result<Self> {
        let Access { way, file_system, guard_maps } = access;
        let mut window = Self::new(file, start);
        let mapped = to_map.unwrap_or(&window.file);
        let map = || MmapOptions::new().offset(start).len(len as usize).map_raw(mapped);
        match way {
            StorageKind::Mapped => {
                let map = map()?;
                if guard_maps {
                    window.guard = Guard::over(map.as_ptr(), map.len());
                }
                // What can't be guarded is written instead.
                window.map = Some(Arc::new(map)).filter(|_| window.guard.is_some() || !guard_maps);
            }
            StorageKind::Direct if !file_system.is_memory() => window.direct = direct(),
            // Without addresses to spare, writes wait for each other; and so they do for those who want no risk of a
            // lost page.
            StorageKind::Direct | StorageKind::Buffered if file_system.is_memory() && !guard_maps => {
                window.beside = map().ok();
            }
            _ => {}
        }
        Ok(window)
    }

    /// Written into the page cache.
    pub(super) fn new(file: Arc<File>, start: u64) -> Self {
        let (mapped, writing) = Default::default();
        Self { file, start, guard: None, map: None, mapped, direct: None, beside: None, writing }
    }

    #[allow(unsafe_code)]
    pub(super) fn map(&self) -> Option<Mapped> {
        let map = self.map.as_ref().filter(|_| !self.mapped.swap(true, Ordering::Relaxed))?;
        // SAFETY: the map is shared and writable, starts on a page, and lives as long as it is kept; this is the only
        // `Mapped` of it, because `mapped` was false. What other programs do to the file is beyond any writer; this
        // process writes into it by the blob's own calls alone.
        NonNull::new(map.as_mut_ptr()).map(|start| unsafe { Mapped::new(start, map.len(), map.clone()) })
    }

    /// Fails if a page of the map is known to be lost.
    pub(super) fn check_map(&self) -> io::Result<()> {
        self.guard.as_ref().map_or(Ok(()), Guard::check)
    }

    pub(super) fn alignment(&self) -> usize {
        if self.direct.is_some() { PAGE as usize } else { 1 }
    }

    pub(super) fn write_slices_at(&self, offset: u64, mut slices: &mut [IoSlice]) -> io::Result<()> {
        let mut at = self.start + offset;
        if let Some(direct) = self.direct_for(at, slices) {
            match write_slices(direct, &mut at, &mut slices) {
                // The device wants more than pages, or can't reach the memory (a caller's own, as that of another
                // device); the page cache takes anything that a processor reads.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput || system::is_out_of_reach(&error) => {}
                other => return other,
            }
        }
        let len = slices.iter().map(|slice| slice.len()).sum::<usize>();
        let Some(map) = self.beside.as_ref().filter(|_| len >= BESIDE_BYTES_MIN) else {
            return write_slices(&self.file, &mut at, &mut slices);
        };
        if !self.writing.swap(true, Ordering::Acquire) {
            let written = write_slices(&self.file, &mut at, &mut slices);
            self.writing.store(false, Ordering::Release);
            return written;
        }
        // No room, or no such call: it is told, or done, by the ordinary way.
        copy_beside(map, at - self.start, len, slices).or_else(|_| write_slices(&self.file, &mut at, &mut slices))
    }

    /// The descriptor that passes the page cache by, if these slices can.
    fn direct_for(&self, at: u64, slices: &[IoSlice]) -> Option<&File> {
        let whole_pages = |at: usize| at.is_multiple_of(PAGE as usize);
        let slices = slices.iter().all(|slice| whole_pages(slice.as_ptr() as usize) && whole_pages(slice.len()));
        self.direct.as_deref().filter(|_| slices && at.is_multiple_of(PAGE))
    }

    pub(super) fn done_with(&self, offset: u64, len: u64) {
        let Some(map) = &self.map else { return };
        let start = offset / PAGE * PAGE;
        let end = (offset + len).next_multiple_of(PAGE).min(map.len() as u64);
        memory::forget_shared(map, start as usize, end.saturating_sub(start) as usize);
    }

    pub(super) fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        match system::give_back(&self.file, self.start + offset, len)? {
            true => Ok(()),
            false => Err(io::ErrorKind::Unsupported.into()),
        }
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
    memory::populate_shared(map, start, pages)?;
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
    memory::forget_shared(map, start, pages);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::system::FileExt;

    #[test]
    #[cfg_attr(miri, ignore = "miri has no file maps")]
    fn what_is_copied_beside_is_in_the_file_or_an_error_says_that_it_is_not() {
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
        // What can't be copied is an error.
        file.set_len(0).unwrap();
        assert!(copy_beside(&map, 8_192, 4_096, &[IoSlice::new(&[1; 4_096])]).is_err());
    }

    /// The page of the kernel's clock: a processor reads it, and a device can't be given it.
    #[test]
    #[cfg_attr(miri, ignore = "miri has no such page")]
    #[allow(unsafe_code)]
    fn memory_that_no_device_reaches_goes_through_the_page_cache() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let clock = maps.lines().find(|line| line.ends_with("[vvar]")).expect("a kernel with such a page");
        let start = usize::from_str_radix(clock.split('-').next().unwrap(), 16).unwrap();
        // SAFETY: a page that the process may read as long as it lives. What is in it is not looked at.
        let page = unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(start), PAGE as usize) };
        // Not in a tmpfs, which needs no device.
        let folder = tempfile::tempdir_in(std::env::current_exe().unwrap().parent().unwrap()).unwrap();
        let path = folder.path().join("shard");
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        let mut window = Window::new(Arc::new(file), 0);
        window.direct = system::open_direct(&path).map(Arc::new);
        assert!(window.direct.is_some(), "a file system without writes past the page cache");
        let mut slices = [IoSlice::new(page)];
        let refused = write_slices(window.direct.as_ref().unwrap(), &mut 0, &mut &mut slices[..]);
        assert!(system::is_out_of_reach(&refused.unwrap_err()));
        window.write_slices_at(PAGE, &mut [IoSlice::new(page)]).unwrap();
        assert_eq!(window.file.metadata().unwrap().len(), 2 * PAGE);
    }
}
