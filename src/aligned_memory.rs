//! Memory for buffers that are made once: frames of the ring, and room for slots.
#![allow(unsafe_code)]

use std::io;
use std::ops::Range;

/// Disk blocks and memory pages: what holes and buffers are aligned to.
pub(crate) const PAGE: usize = 4096;

#[cfg(not(loom))]
const HUGE_PAGE: usize = 2 << 20;
#[cfg(all(target_arch = "x86_64", not(miri)))]
const CACHE_LINE: usize = 64;

/// Equal pieces of one allocation, each used by whoever has its index.
#[cfg(not(loom))]
pub(crate) struct AlignedMemory {
    start: std::ptr::NonNull<u8>,
    piece_bytes: usize,
    pieces: usize,
    stride: usize,
    /// Keeps the memory; `None` where it came from the allocator.
    map: Option<memmap2::MmapMut>,
    layout: std::alloc::Layout,
}

// SAFETY: the region owns its memory, which any thread may touch. All ways to a piece but its address are unsafe
// functions, whose callers promise that nobody writes it at the same time.
#[cfg(not(loom))]
unsafe impl Send for AlignedMemory {}
// SAFETY: as above.
#[cfg(not(loom))]
unsafe impl Sync for AlignedMemory {}

#[cfg(not(loom))]
impl AlignedMemory {
    pub(crate) fn new(pieces: usize, piece_bytes: usize) -> io::Result<Self> {
        // Frames start on pages; records, far smaller, only on cache lines.
        let stride = piece_bytes.max(1).next_multiple_of(if piece_bytes >= PAGE / 2 { PAGE } else { 64 });
        let bytes = stride.checked_mul(pieces).filter(|&bytes| bytes > 0 && bytes < isize::MAX as usize);
        let refuse = |reason: &str| io::Error::new(io::ErrorKind::OutOfMemory, reason);
        let bytes = bytes.ok_or_else(|| refuse("more than the address space holds"))?;
        let layout = std::alloc::Layout::from_size_align(bytes, PAGE).map_err(io::Error::other)?;
        if cfg!(miri) {
            // SAFETY: the layout's size is not zero.
            let start = unsafe { std::alloc::alloc_zeroed(layout) };
            let start = std::ptr::NonNull::new(start).ok_or_else(|| refuse("out of memory"))?;
            return Ok(Self { start, piece_bytes, pieces, stride, map: None, layout });
        }
        // Only maps of whole huge pages start on one. What is added is never touched.
        let len = if bytes < HUGE_PAGE { bytes } else { bytes.next_multiple_of(HUGE_PAGE) };
        let mut map = memmap2::MmapOptions::new().len(len).map_anon()?;
        // Best effort: huge pages make copies cheaper, and what a device is given longer; a fork must not double the
        // camera's memory.
        let _ = map.advise_range(memmap2::Advice::HugePage, 0, bytes / HUGE_PAGE * HUGE_PAGE);
        let _ = map.advise(memmap2::Advice::DontFork);
        let start = std::ptr::NonNull::new(map.as_mut_ptr()).expect("a map has an address");
        Ok(Self { start, piece_bytes, pieces, stride, map: Some(map), layout })
    }

    /// Touches every page, so that no page fault comes later.
    pub(crate) fn touched(mut self) -> Self {
        let Some(map) = &mut self.map else { return self };
        let bytes = self.layout.size();
        if map.advise_range(memmap2::Advice::PopulateWrite, 0, bytes).is_ok() {
            return self;
        }
        map[..bytes].iter_mut().step_by(PAGE).for_each(|byte| *byte = 0);
        self
    }

    #[cfg(feature = "capi")]
    pub(crate) fn address(&self, index: u32) -> *mut u8 {
        self.place(index, 1, 0)
    }

    /// The address of a byte of the first of some pieces, all of which there are.
    fn place(&self, index: u32, pieces: usize, byte: usize) -> *mut u8 {
        let first = index as usize;
        assert!(first < self.pieces && pieces <= self.pieces - first && byte <= self.piece_bytes);
        // Within the allocation: `new` saw that `pieces` times `stride` fits it.
        self.start.as_ptr().wrapping_add(first * self.stride + byte)
    }

    /// # Safety
    ///
    /// Nobody may write the piece while the slice lives.
    pub(crate) unsafe fn read(&self, index: u32) -> &[u8] {
        // SAFETY: the whole piece lies in the allocation, all of which is initialised; the caller keeps writers away.
        unsafe { std::slice::from_raw_parts(self.place(index, 1, 0), self.piece_bytes) }
    }

    /// Part of a piece.
    ///
    /// # Safety
    ///
    /// Nobody may write the part while the slice lives.
    pub(crate) unsafe fn read_part(&self, index: u32, part: Range<usize>) -> &[u8] {
        assert!(part.start <= part.end && part.end <= self.piece_bytes);
        // SAFETY: the part lies in the piece; else as in `read`.
        unsafe { std::slice::from_raw_parts(self.place(index, 1, part.start), part.len()) }
    }

    /// Part of a piece.
    ///
    /// # Safety
    ///
    /// Nobody else may touch the part while the slice lives.
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn write_part(&self, index: u32, part: Range<usize>) -> &mut [u8] {
        assert!(part.start <= part.end && part.end <= self.piece_bytes);
        // SAFETY: as in `read_part`; the caller keeps everybody else away.
        unsafe { std::slice::from_raw_parts_mut(self.place(index, 1, part.start), part.len()) }
    }

    /// Several pieces, if there are no gaps between them.
    ///
    /// # Safety
    ///
    /// Nobody may write one of the pieces while the slice lives.
    pub(crate) unsafe fn read_run(&self, first: u32, pieces: usize) -> Option<&[u8]> {
        // SAFETY: as in `read`, for each of the pieces, which follow each other in one allocation.
        (self.stride == self.piece_bytes)
            .then(|| unsafe { std::slice::from_raw_parts(self.place(first, pieces, 0), pieces * self.stride) })
    }

    /// # Safety
    ///
    /// Nobody else may touch the piece while the slice lives.
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn write(&self, index: u32) -> &mut [u8] {
        // SAFETY: as in `read`; the caller keeps everybody else away from this piece, and others don't overlap it,
        // because the stride is at least a piece long.
        unsafe { std::slice::from_raw_parts_mut(self.place(index, 1, 0), self.piece_bytes) }
    }
}

#[cfg(not(loom))]
impl Drop for AlignedMemory {
    fn drop(&mut self) {
        if self.map.is_none() {
            // SAFETY: allocated in `new` with this layout.
            unsafe { std::alloc::dealloc(self.start.as_ptr(), self.layout) };
        }
    }
}

/// Under loom, pieces are cells whose concurrent use loom reports.
#[cfg(loom)]
pub(crate) struct AlignedMemory {
    pieces: Vec<::loom::cell::UnsafeCell<Box<[u8]>>>,
}

#[cfg(loom)]
impl AlignedMemory {
    pub(crate) fn new(pieces: usize, piece_bytes: usize) -> io::Result<Self> {
        let piece = |_| ::loom::cell::UnsafeCell::new(vec![0; piece_bytes].into_boxed_slice());
        Ok(Self { pieces: (0..pieces).map(piece).collect() })
    }

    pub(crate) fn touched(self) -> Self {
        self
    }

    #[cfg(feature = "capi")]
    pub(crate) fn address(&self, _index: u32) -> *mut u8 {
        unreachable!("loom watches accesses through cells, not through addresses")
    }

    pub(crate) unsafe fn read(&self, index: u32) -> &[u8] {
        // SAFETY: loom checks that no write is concurrent with this access.
        self.pieces[index as usize].with(|piece| unsafe { &**piece })
    }

    pub(crate) unsafe fn read_part(&self, index: u32, part: Range<usize>) -> &[u8] {
        // SAFETY: as in `read`.
        unsafe { &self.read(index)[part] }
    }

    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn write_part(&self, index: u32, part: Range<usize>) -> &mut [u8] {
        // SAFETY: as in `write`.
        unsafe { &mut self.write(index)[part] }
    }

    /// Cells are never neighbours.
    pub(crate) unsafe fn read_run(&self, _first: u32, _pieces: usize) -> Option<&[u8]> {
        None
    }

    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn write(&self, index: u32) -> &mut [u8] {
        // SAFETY: loom checks that no access is concurrent with this one.
        self.pieces[index as usize].with_mut(|piece| unsafe { &mut **piece })
    }
}

#[cfg(loom)]
// SAFETY: loom's cells check each access.
unsafe impl Sync for AlignedMemory {}
#[cfg(loom)]
// SAFETY: as above.
unsafe impl Send for AlignedMemory {}

/// Asks the processor for memory that is about to be read.
#[inline]
pub(crate) fn prefetch(bytes: &[u8]) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    for line in bytes.chunks(CACHE_LINE) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: changes nothing but caches, and the address is that of a slice.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
    // Elsewhere the standard library has no word for it.
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = bytes;
}
