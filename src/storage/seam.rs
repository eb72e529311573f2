//! The seam itself: a place for files, and a file under construction.

use std::any::Any;
use std::fmt;
use std::io::{self, IoSlice};
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::error::Contained;

pub(super) const PAGE: u64 = crate::aligned_memory::PAGE as u64;
/// How many writes are under way at once where each goes to the device itself: as many as keep a fast one busy. More
/// would leave shorter ones.
pub(crate) const WRITES_AT_ONCE: usize = 4;
/// How many files are put at once: a block of records is three, or more.
pub(crate) const PUTS_AT_ONCE: usize = 4;

/// A place that holds a dataset's files, by key: `zarr.json`, `0/c/0/0/0`, …
///
/// Everything that the engine does to the outside world goes through these calls. All of them come from threads that
/// are no workers, except [`Blob::write_at`].
///
/// What a run has left that was killed is recovered in a folder: that of the files under their keys.
///
/// Of a run that goes on, `Acquisition::read_frame` (a Python `view`, too) finds the frames that lie in the ring, and
/// with [`Blob::read_at`] those in open shards. A storage has no call to read closed ones, so that frames in these are
/// [`Error::Unsupported`](crate::Error::Unsupported), also with [`Memory`](crate::Memory); of the crate's own folders
/// and archives they are read.
pub trait Storage: fmt::Debug + Send + Sync {
    /// The storage's name for summaries: `mapped`, `buffered`, …
    fn name(&self) -> &'static str;

    /// What errors call the file `key`.
    fn path_of(&self, key: &str) -> PathBuf {
        key.into()
    }

    /// Creates `key` with `len` bytes reserved and reading as zeros. It must not appear under its key before
    /// [`Blob::publish`].
    fn create(&self, key: &str, len: u64) -> io::Result<Box<dyn Blob>>;

    /// As [`create`](Self::create), for a file that will [grow](Blob::grow) by `growth` bytes at a time, again and
    /// again.
    fn create_growing(&self, key: &str, len: u64, growth: u64) -> io::Result<Box<dyn Blob>> {
        let _ = growth;
        self.create(key, len)
    }

    /// Replaces `key` as a whole: a reader sees the old bytes or the new ones.
    fn put(&self, key: &str, bytes: &[u8]) -> io::Result<()>;

    /// [Puts](Self::put) several files, which may appear in any order. After an error, each may have been replaced or
    /// not.
    fn put_all(&self, files: &[(&str, &[u8])]) -> io::Result<()> {
        files.iter().try_for_each(|(key, bytes)| self.put(key, bytes))
    }

    /// Whether [`write_within`](Self::write_within) keeps its promise here. Asked once for each image, before anything
    /// is written.
    fn writes_within(&self) -> bool {
        false
    }

    /// Writes into files that were [put](Self::put), each time a key, an offset and bytes: within the file or behind
    /// its end, and what lies between reads as zeros. Returns when all of it has reached the device; before that, in
    /// any order. After an error, each may have been written, in part or not at all. What is written again as it was
    /// stays readable at every moment, also after a loss of power; and of 16 bytes at a multiple of 16, a reader finds
    /// the old ones or the new ones.
    ///
    /// By this, blocks of the records of small frames share files. Without it each is a file, and these are very many.
    fn write_within(&self, writes: &[(&str, u64, &[u8])]) -> io::Result<()> {
        let _ = writes;
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Removes `key`, if it is there.
    fn remove(&self, key: &str) -> io::Result<()>;

    /// Returns when readers find all that was put, published and ended until now. Called when the documents have caught
    /// up with a checkpoint, and at the end; where files appear one by one, there is nothing to do.
    fn settle(&self) -> io::Result<()> {
        Ok(())
    }

    /// Makes everything that was written to any of the files last, as [`Blob::sync`] does for one; `None`: only that
    /// can.
    fn sync_all(&self) -> Option<io::Result<()>> {
        None
    }

    /// Whether files are closed and opened again when many images take turns, so that not all of their shards are open
    /// at the same time: see [`Blob::park`].
    fn parks(&self) -> bool {
        false
    }

    /// Whether a file that parks is two open ones, which count among those that may be.
    fn opens_twice(&self) -> bool {
        false
    }

    /// Opens again what was [parked](Blob::park), and is no other file than that.
    fn reopen(&self, key: &str, parked: &(dyn Any + Send + Sync)) -> io::Result<Box<dyn Blob>> {
        let _ = (key, parked);
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Whether there is something in it already: then no dataset is created there.
    fn is_used(&self) -> bool {
        false
    }
}

/// Memory that workers write through, each a range of its own. Whoever has it is the only one who writes there.
pub struct Mapped {
    start: NonNull<u8>,
    len: usize,
    _keep: Contained<Arc<dyn Any + Send + Sync>>,
}

// SAFETY: the memory is good for any thread, as whoever made this has promised.
#[allow(unsafe_code)]
unsafe impl Send for Mapped {}
// SAFETY: as above; what is written through a shared one, and where, is the business of those unsafe calls.
#[allow(unsafe_code)]
unsafe impl Sync for Mapped {}

impl Mapped {
    /// `len` bytes from `start` on, which must begin on a multiple of 8.
    ///
    /// # Safety
    ///
    /// As long as `keep` lives, the memory must be good for reads and writes by any thread. There must be no other
    /// `Mapped` of it, and until this one is dropped, or [`Blob::forget`] is called, nothing but the engine may touch
    /// it, except by calls of the blob for ranges that no worker has.
    #[allow(unsafe_code)]
    pub unsafe fn new(start: NonNull<u8>, len: usize, keep: Arc<dyn Any + Send + Sync>) -> Self {
        Self { start, len, _keep: Contained::new(Box::new(keep)) }
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl fmt::Debug for Mapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mapped").field("len", &self.len).finish_non_exhaustive()
    }
}

/// A file under construction.
///
/// Ranges written by different threads never overlap; the engine sees to that. A panic in one of the calls is an error
/// of the run. It is dropped by a thread of the run, when its shard is closed; a panic then is told to the `tracing`
/// subscriber, and costs nothing.
pub trait Blob: Send + Sync {
    /// The reserved bytes in memory, where the storage is a memory map: workers then encode in place and never call
    /// [`write_at`](Self::write_at). Asked once, before the first write; later answers are not looked at.
    fn map(&self) -> Option<Mapped> {
        None
    }

    /// Fails if bytes that were stored through [`map`](Self::map) are known to be lost. Asked after each chunk, by its
    /// worker.
    fn check_map(&self) -> io::Result<()> {
        Ok(())
    }

    /// Fails if what was written and synced is known to be gone, as when another program cut the file off or removed
    /// it. Asked when the file could not be finished.
    fn check_intact(&self) -> io::Result<()> {
        Ok(())
    }

    /// What offsets, lengths and addresses of large writes should be multiples of. Writes that are not are taken, too.
    fn alignment(&self) -> usize {
        1
    }

    /// Whether writes to this file wait for each other, so that threads had better do something else meanwhile. They
    /// may still come at the same time.
    fn one_write_at_a_time(&self) -> bool {
        false
    }

    /// Writes `bytes` at `offset`, within the reserved length or what the file has [grown](Self::grow) by.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Writes the slices one after another, starting at `offset`, within the reserved length.
    fn write_slices_at(&self, mut offset: u64, slices: &mut [IoSlice]) -> io::Result<()> {
        for slice in slices {
            self.write_at(offset, slice)?;
            offset += slice.len() as u64;
        }
        Ok(())
    }

    /// Writes `bytes`, the first and only ones before [`publish`](Self::publish). True: whoever finds the file by its
    /// key, be it after a loss of power, finds them in it, without a [`sync`](Self::sync) before it is published.
    fn write_first(&self, offset: u64, bytes: &[u8]) -> io::Result<bool> {
        self.write_at(offset, bytes)?;
        Ok(false)
    }

    /// Reads what was written at `offset`, for whoever looks at a run in progress: with it, `Acquisition::read_frame`
    /// also finds frames in shards that are open.
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let _ = (offset, bytes);
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Whether [`grow`](Self::grow) keeps its promise here.
    fn grows(&self) -> bool {
        false
    }

    /// Extends the file so that it ends with `bytes`, which begin at `at`, its length or beyond. What lies between is
    /// reserved, reads as zeros, and is written by [`write_at`](Self::write_at) later. It is all or nothing: whoever
    /// opens the file, and whatever a kill or a loss of power leaves of it, has the old length, or the new one with all
    /// of `bytes`. After an error it has the old length.
    ///
    /// By this an index at the end of a shard is replaced while the shard is open. Without it, only an index that fits
    /// a sector of 512 bytes, or one without a checksum, is replaced before the shard is closed.
    fn grow(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let _ = (at, bytes);
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Whether it can also grow so that room lies before what it ends with.
    fn grows_with_room(&self) -> bool {
        self.grows()
    }

    /// Whether it wants to be told by [`note_crc32`](Self::note_crc32). Then workers compute what that takes, and
    /// encode in mapped memory only what is not compressed, but copy what else they have encoded.
    fn wants_crc32(&self) -> bool {
        false
    }

    /// The CRC-32 (that of ZIP and gzip) of the first `len` bytes, or `None` where it is not known, as after a write
    /// that failed. While chunks are being written it may be that of a moment before. Told before the file is
    /// published, and before what lies behind these bytes grows or is cut off.
    fn note_crc32(&self, len: u64, crc32: Option<u32>) {
        let _ = (len, crc32);
    }

    /// Says that nobody will touch the mapped range again soon, so that it need not count as this process's memory.
    fn done_with(&self, offset: u64, len: u64);

    /// Makes the file appear under its key.
    fn publish(&self) -> io::Result<()>;

    /// Returns when everything written so far has reached the device, and the key as well, if it is published.
    fn sync(&self) -> io::Result<()>;

    /// Gives back the disk blocks that lie wholly within the range. Best effort; [`io::ErrorKind::Unsupported`] where
    /// it can't be done at all, so that less is written that would have to be given back.
    fn punch(&self, offset: u64, len: u64) -> io::Result<()>;

    /// Cuts the file off at `len` bytes.
    fn truncate(&self, len: u64) -> io::Result<()>;

    /// What [`Storage::reopen`] needs to know of a published file when this is dropped before the file is finished, as
    /// when many images take turns and not all of their shards may be open. `None`: it has to stay open, and counts as
    /// nothing that the system has few of.
    ///
    /// Everything was synced. Nobody uses the [map](Self::map) any more.
    fn park(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        None
    }

    /// Says that the file is finished, and that its bytes need not be kept in memory any longer.
    fn forget(&self) {}
}
