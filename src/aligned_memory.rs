//! Memory for buffers that are made once: frames of the ring, and room for slots.
#![allow(unsafe_code)]

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Mutex;

use crate::error::{Error, Result};
#[cfg(not(loom))]
use crate::fs::memory;
pub(crate) use crate::fs::memory::PAGE;
use crate::sync::Unpoisoned;

#[cfg(not(loom))]
const HUGE_PAGE: usize = 2 << 20;

// A thread touches at least this much, because starting it takes time, too.
#[cfg(not(loom))]
const TOUCHED_AT_ONCE_MIN: usize = 64 << 20;
#[cfg(not(loom))]
const TOUCHING_THREADS_MAX: usize = 8;

/// What pieces start on: large ones on pages; records, far smaller, only on cache lines.
fn alignment(piece_bytes: usize) -> usize {
    if piece_bytes >= PAGE / 2 { PAGE } else { 64 }
}

/// Frame buffers of the caller's own: huge pages, memory that a device has pinned or maps, shared memory. For
/// [`Acquisition::create_with_buffers`](crate::Acquisition::create_with_buffers) and its like.
pub struct RingBuffers {
    places: Box<[NonNull<u8>]>,
    bytes: usize,
    // Dropped before what is kept, whose owner may lend the memory again at once.
    _claim: Option<Claim>,
    _keep: Box<dyn Any + Send + Sync>,
}

/// The ring buffers of callers in this process, by their process and where they start: where they end. A child of a
/// fork has its parent's entries, and may have other memory there.
static CLAIMED: Mutex<BTreeMap<(u32, usize), usize>> = Mutex::new(BTreeMap::new());

/// Memory that no other ring may have meanwhile.
struct Claim(Vec<(u32, usize)>);

impl Claim {
    /// `Err`: where a buffer starts that another ring has a part of. `sorted`: where buffers of `bytes` start.
    fn new(sorted: &[usize], bytes: usize) -> Result<Self, usize> {
        let process = std::process::id();
        let mut claimed = CLAIMED.lock().unpoisoned();
        for &start in sorted {
            // They don't overlap among each other, so the last that starts before the end decides.
            let before = claimed.range((process, 0)..(process, start + bytes)).next_back();
            if before.is_some_and(|(_, &end)| end > start) {
                return Err(start);
            }
        }
        claimed.extend(sorted.iter().map(|&start| ((process, start), start + bytes)));
        Ok(Self(sorted.iter().map(|&start| (process, start)).collect()))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut claimed = CLAIMED.lock().unpoisoned();
        for key in &self.0 {
            claimed.remove(key);
        }
    }
}

// SAFETY: the memory is good for any thread, as whoever made this has promised.
unsafe impl Send for RingBuffers {}
// SAFETY: as above; nothing is read or written through a shared one.
unsafe impl Sync for RingBuffers {}

impl RingBuffers {
    /// Buffers of `bytes` each, at least as many as the frame layout's `buffer_bytes` (or a frame) takes, which start
    /// on pages of 4096 bytes; buffers of less than 2 KiB on multiples of 64. The ring has as many buffers as there are
    /// `places`, or frames in the array. `keep` is dropped when the library is done with all of them: after the run's
    /// end, and when no frame of it is on loan or looked at any more.
    ///
    /// What can't be written past the page cache, as memory of a device, goes through it.
    ///
    /// ```
    /// # use shardwright::{Acquisition, Config, Dim, Dtype, Memory, Record, RingBuffers};
    /// # use std::{ptr::NonNull, sync::Arc};
    /// #[repr(align(4096))]
    /// struct Page([u8; 4096]);
    ///
    /// let mut pages: Vec<Page> = (0..8).map(|_| Page([0; 4096])).collect();
    /// let places = pages.iter_mut().map(|page| NonNull::from(&mut page.0).cast()).collect();
    /// // SAFETY: the pages don't move, are kept as long as they are needed, and nobody else uses them.
    /// let buffers = unsafe { RingBuffers::new(places, 4096, pages) }?;
    /// let dims = vec![Dim::time(None).chunk(1).shard(4), Dim::y(64), Dim::x(64)];
    /// let config = Config { dtype: Dtype::U8, dims, ..Config::default() };
    /// let acquisition = Acquisition::create_in_with_buffers(Arc::new(Memory::new()), config, buffers)?;
    /// acquisition.acquire()?.commit(0, Record::default())?;
    /// acquisition.finish()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Safety
    ///
    /// As long as `keep` lives, each place must be good for reads and writes of `bytes` bytes by any thread, and hold
    /// initialised bytes. Until then, nobody else may touch a buffer, except for filling one that is on loan: by its
    /// [`FrameMut`](crate::FrameMut), or by a device that was told of its address.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] for buffers that overlap, each other or those of another ring in this process, don't start
    /// where they must, or are none.
    pub unsafe fn new(places: Vec<NonNull<u8>>, bytes: usize, keep: impl Any + Send + Sync) -> Result<Self> {
        // SAFETY: as the caller promises.
        unsafe { Self::unclaimed(places, bytes, keep) }?.claimed()
    }

    /// As [`new`](Self::new), but other rings may have the memory until [`claimed`](Self::claimed).
    ///
    /// # Safety
    ///
    /// As for `new`.
    pub(crate) unsafe fn unclaimed(
        places: Vec<NonNull<u8>>,
        bytes: usize,
        keep: impl Any + Send + Sync,
    ) -> Result<Self> {
        let refuse = |value: String, reason: String| Err(Error::config("own_buffers", value, reason));
        if bytes == 0 || places.is_empty() {
            let value = format!("{} buffers of {bytes} bytes", places.len());
            return refuse(value, "a ring needs buffers, and a buffer bytes".into());
        }
        let mut sorted: Vec<_> = places.iter().map(|place| place.addr().get()).collect();
        let alignment = alignment(bytes);
        if let Some(at) = sorted.iter().position(|address| address % alignment != 0) {
            let value = format!("{:#x}", sorted[at]);
            return refuse(value, format!("buffer {at} must start on a multiple of {alignment} bytes"));
        }
        if let Some(at) =
            sorted.iter().position(|address| address.checked_add(bytes).is_none_or(|end| end > isize::MAX as usize))
        {
            let value = format!("{bytes} bytes from {:#x} on", sorted[at]);
            return refuse(value, format!("buffer {at} does not fit the address space"));
        }
        sorted.sort_unstable();
        let ends_before = |pair: &[usize]| pair[0] + bytes <= pair[1];
        if let Some(pair) = sorted.windows(2).find(|pair| !ends_before(pair)) {
            let value = format!("{:#x} and {:#x}", pair[0], pair[1]);
            return refuse(value, format!("buffers of {bytes} bytes that start there overlap"));
        }
        Ok(Self { places: places.into(), bytes, _claim: None, _keep: Box::new(keep) })
    }

    /// Refuses memory that another ring of this process has.
    pub(crate) fn claimed(self) -> Result<Self> {
        let mut sorted: Vec<_> = self.places.iter().map(|place| place.addr().get()).collect();
        sorted.sort_unstable();
        let claim = Claim::new(&sorted, self.bytes).map_err(|start| {
            let reason = "another run of this process has the buffer that starts there, or a part of it, until it is \
                          freed; each run needs buffers of its own";
            Error::config("own_buffers", format_args!("{start:#x}"), reason)
        })?;
        Ok(Self { _claim: Some(claim), ..self })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.places.len()
    }

    /// Bytes of each.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl fmt::Debug for RingBuffers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, bytes) = (self.count(), self.bytes);
        f.debug_struct("RingBuffers").field("count", &count).field("bytes", &bytes).finish_non_exhaustive()
    }
}

/// Equal pieces of memory, each used by whoever has its index.
#[cfg(not(loom))]
pub(crate) struct AlignedMemory {
    owner: Owner,
    piece_bytes: usize,
    pieces: usize,
}

/// Whose the memory is, and where pieces start.
#[cfg(not(loom))]
enum Owner {
    /// One piece after another, `stride` apart.
    Map {
        map: memmap2::MmapMut,
        start: NonNull<u8>,
        stride: usize,
    },
    Allocator {
        start: NonNull<u8>,
        stride: usize,
        layout: std::alloc::Layout,
    },
    Caller(RingBuffers),
}

// SAFETY: the region owns its memory, or its caller has promised it; any thread may touch it. All ways to a piece but
// its address are unsafe functions, whose callers promise that nobody writes it at the same time.
#[cfg(not(loom))]
unsafe impl Send for AlignedMemory {}
// SAFETY: as above.
#[cfg(not(loom))]
unsafe impl Sync for AlignedMemory {}

#[cfg(not(loom))]
impl AlignedMemory {
    pub(crate) fn new(pieces: usize, piece_bytes: usize) -> io::Result<Self> {
        let stride = piece_bytes.max(1).next_multiple_of(alignment(piece_bytes));
        let bytes = stride.checked_mul(pieces).filter(|&bytes| bytes > 0 && bytes < isize::MAX as usize);
        let refuse = |reason: &str| io::Error::new(io::ErrorKind::OutOfMemory, reason);
        let bytes = bytes.ok_or_else(|| refuse("more than the address space holds"))?;
        let layout = std::alloc::Layout::from_size_align(bytes, PAGE).map_err(io::Error::other)?;
        if cfg!(miri) {
            // SAFETY: the layout's size is not zero.
            let start = unsafe { std::alloc::alloc_zeroed(layout) };
            let start = NonNull::new(start).ok_or_else(|| refuse("out of memory"))?;
            return Ok(Self { owner: Owner::Allocator { start, stride, layout }, piece_bytes, pieces });
        }
        // Only maps of whole huge pages start on one. What is added is never touched.
        let len = if bytes < HUGE_PAGE { bytes } else { bytes.next_multiple_of(HUGE_PAGE) };
        let mut map = memmap2::MmapOptions::new().len(len).map_anon()?;
        memory::advise_camera_memory(&map, bytes / HUGE_PAGE * HUGE_PAGE);
        let start = NonNull::new(map.as_mut_ptr()).expect("a map has an address");
        Ok(Self { owner: Owner::Map { map, start, stride }, piece_bytes, pieces })
    }

    /// The first `pieces` buffers of the caller's, of which `piece_bytes` are used.
    pub(crate) fn of_caller(buffers: RingBuffers, pieces: usize, piece_bytes: usize) -> Self {
        assert!(pieces <= buffers.count() && piece_bytes <= buffers.bytes);
        Self { owner: Owner::Caller(buffers), piece_bytes, pieces }
    }

    /// Touches every page, so that no page fault comes later: the most part of what it takes to make a large ring.
    pub(crate) fn touched(mut self) -> Self {
        let bytes = self.pieces * self.stride();
        let Owner::Map { map, .. } = &mut self.owner else { return self };
        if !populate(map, bytes) {
            map[..bytes].iter_mut().step_by(PAGE).for_each(|byte| *byte = 0);
        }
        self
    }

    fn stride(&self) -> usize {
        match self.owner {
            Owner::Map { stride, .. } | Owner::Allocator { stride, .. } => stride,
            Owner::Caller(_) => self.piece_bytes,
        }
    }

    pub(crate) fn address(&self, index: u32) -> *mut u8 {
        self.place(index, 1, 0)
    }

    /// The address of a byte of the first of some pieces, all of which there are.
    fn place(&self, index: u32, pieces: usize, byte: usize) -> *mut u8 {
        let first = index as usize;
        assert!(first < self.pieces && pieces <= self.pieces - first && byte <= self.piece_bytes);
        match &self.owner {
            // Within the allocation: `new` saw that `pieces` times `stride` fits it.
            Owner::Map { start, stride, .. } | Owner::Allocator { start, stride, .. } => {
                start.as_ptr().wrapping_add(first * stride + byte)
            }
            // Within the buffer: `of_caller` saw that a piece fits it.
            Owner::Caller(buffers) => buffers.places[first].as_ptr().wrapping_add(byte),
        }
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
        // What a caller's buffers are parts of is not known: such that touch may be of two allocations.
        let in_one = !matches!(self.owner, Owner::Caller(_)) && self.stride() == self.piece_bytes;
        // SAFETY: as in `read`, for each of the pieces, which follow each other in one allocation.
        in_one.then(|| unsafe { std::slice::from_raw_parts(self.place(first, pieces, 0), pieces * self.piece_bytes) })
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
        if let Owner::Allocator { start, layout, .. } = &self.owner {
            // SAFETY: allocated in `new` with this layout.
            unsafe { std::alloc::dealloc(start.as_ptr(), *layout) };
        }
    }
}

/// Has the system get the pages of `bytes` bytes, in several threads where it is much. False: not all are there.
#[cfg(not(loom))]
fn populate(map: &memmap2::MmapMut, bytes: usize) -> bool {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = cores.min(TOUCHING_THREADS_MAX).min(bytes / TOUCHED_AT_ONCE_MIN).max(1);
    let share = bytes.div_ceil(threads).next_multiple_of(HUGE_PAGE);
    let populate = |at: usize| memory::populate(map, at, share.min(bytes - at)).is_ok();
    std::thread::scope(|scope| {
        let others: Vec<_> = (share..bytes)
            .step_by(share)
            .map(|at| std::thread::Builder::new().spawn_scoped(scope, move || populate(at)).map_err(|_| at))
            .collect();
        let mine = populate(0);
        // Where no thread could be had, this one does it.
        others.into_iter().fold(mine, |all, other| match other {
            Ok(thread) => thread.join().unwrap_or(false) && all,
            Err(at) => populate(at) && all,
        })
    })
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

    pub(crate) fn of_caller(_buffers: RingBuffers, _pieces: usize, _piece_bytes: usize) -> Self {
        unreachable!("loom watches accesses through cells, not through addresses")
    }

    pub(crate) fn touched(self) -> Self {
        self
    }

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
