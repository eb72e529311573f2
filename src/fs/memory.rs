//! What is asked of the system about pages of memory, on Linux.
#![cfg_attr(loom, allow(dead_code))]

use std::io;

use memmap2::{Advice, MmapMut, MmapRaw, UncheckedAdvice};

/// Bytes of a page of memory, and of a block of the disk: what holes and buffers are aligned to.
pub(crate) const PAGE: usize = 4096;

/// Makes the first `bytes` bytes a camera's memory. Best effort: huge pages make copies cheaper, and what a device is
/// given longer; a fork must not double it.
pub(crate) fn advise_camera_memory(map: &MmapMut, bytes: usize) {
    let _ = map.advise_range(Advice::HugePage, 0, bytes);
    let _ = map.advise(Advice::DontFork);
}

/// Gets pages to write into; fails if there is no room for them.
pub(crate) fn populate(map: &MmapMut, start: usize, len: usize) -> io::Result<()> {
    map.advise_range(Advice::PopulateWrite, start, len)
}

/// The same of a shared map of a file.
pub(crate) fn populate_shared(map: &MmapRaw, start: usize, len: usize) -> io::Result<()> {
    map.advise_range(Advice::PopulateWrite, start, len)
}

/// Takes pages of a shared map of a file out of this process's page table, where they would count as its memory.
#[allow(unsafe_code)]
pub(crate) fn forget_shared(map: &MmapRaw, start: usize, len: usize) {
    // SAFETY: on a shared file map, the contents stay in the page cache, and a later access, if any, maps them again.
    let advised = unsafe { map.unchecked_advise_range(UncheckedAdvice::DontNeed, start, len) };
    // Only the process's apparent size depends on it.
    drop(advised);
}
