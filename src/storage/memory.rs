//! A dataset in memory: for tests, and for programs that send finished shards elsewhere.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::BTreeMap;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, RwLock, RwLockWriteGuard};

use super::seam::{Blob, Mapped, Storage};
use crate::sync::Unpoisoned;

/// Holds a dataset's files as byte vectors.
#[derive(Debug, Default)]
pub struct Memory {
    files: Arc<Mutex<BTreeMap<String, File>>>,
    mapped: bool,
}

#[derive(Debug, Clone)]
enum File {
    Document(Vec<u8>),
    Blob(Arc<Block>),
}

impl Memory {
    /// An empty one, into which workers write by [`Blob::write_at`].
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty one, in whose reserved memory workers encode in place.
    pub fn mapped() -> Self {
        Self { mapped: true, ..Self::default() }
    }

    /// The keys of all files.
    pub fn keys(&self) -> Vec<String> {
        self.files.lock().unpoisoned().keys().cloned().collect()
    }

    /// A file's bytes; `None` if there is no such file, or if it is a mapped shard that is still being written.
    pub fn read(&self, key: &str) -> Option<Vec<u8>> {
        match self.files.lock().unpoisoned().get(key)? {
            File::Document(bytes) => Some(bytes.clone()),
            File::Blob(block) => block.bytes(),
        }
    }
}

impl Storage for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn create(&self, key: &str, len: u64) -> io::Result<Box<dyn Blob>> {
        let block = Arc::new(Block::new(len, self.mapped)?);
        let (files, mapped) = (self.files.clone(), AtomicBool::new(false));
        Ok(Box::new(MemoryBlob { key: key.to_owned(), block, files, mapped }))
    }

    fn put(&self, key: &str, bytes: &[u8]) -> io::Result<()> {
        let mut files = self.files.lock().unpoisoned();
        files.insert(key.to_owned(), File::Document(bytes.to_vec()));
        Ok(())
    }

    fn writes_within(&self) -> bool {
        true
    }

    fn write_within(&self, writes: &[(&str, u64, &[u8])]) -> io::Result<()> {
        let mut files = self.files.lock().unpoisoned();
        for (key, offset, bytes) in writes {
            let Some(File::Document(file)) = files.get_mut(*key) else { return Err(io::ErrorKind::NotFound.into()) };
            let start = usize::try_from(*offset).map_err(|_| invalid("a write beyond the address space"))?;
            file.resize(file.len().max(start + bytes.len()), 0);
            file[start..][..bytes.len()].copy_from_slice(bytes);
        }
        Ok(())
    }

    fn remove(&self, key: &str) -> io::Result<()> {
        self.files.lock().unpoisoned().remove(key);
        Ok(())
    }

    fn is_used(&self) -> bool {
        !self.files.lock().unpoisoned().is_empty()
    }
}

/// Zeroed memory that threads write in ranges of their own: through the map without a lock, otherwise under it.
#[derive(Debug)]
struct Block {
    start: NonNull<u8>,
    layout: Layout,
    mapped: bool,
    state: RwLock<State>,
}

#[derive(Debug)]
struct State {
    /// How much of the block counts.
    len: usize,
    /// What came by growth.
    grown: Vec<u8>,
    /// Nobody writes through the map any more.
    finished: bool,
}

// SAFETY: the block is plain memory. It is touched under the lock of `state`, or through the map, which `Mapped::new`
// leaves to those who write disjoint ranges, until `finished` is set.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl Block {
    fn new(len: u64, mapped: bool) -> io::Result<Self> {
        let too_long =
            |_| io::Error::new(io::ErrorKind::OutOfMemory, format!("{len} bytes don't fit the address space"));
        let len = usize::try_from(len).map_err(|_| too_long(()))?;
        let layout = Layout::from_size_align(len.max(1), 64).map_err(|_| too_long(()))?;
        // SAFETY: the layout's size is not zero.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) });
        let start =
            start.ok_or_else(|| io::Error::new(io::ErrorKind::OutOfMemory, format!("no memory for {len} bytes")))?;
        let state = RwLock::new(State { len, grown: Vec::new(), finished: !mapped });
        Ok(Self { start, layout, mapped, state })
    }

    fn state(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unpoisoned()
    }

    /// `None` as long as somebody may write through the map.
    fn bytes(&self) -> Option<Vec<u8>> {
        let state = self.state.read().unpoisoned();
        if !state.finished {
            return None;
        }
        // SAFETY: `len` never exceeds the allocation, whose bytes are initialised; nobody writes through a map any
        // more, and the lock keeps other writers away.
        let mut bytes = unsafe { std::slice::from_raw_parts(self.start.as_ptr(), state.len) }.to_vec();
        bytes.extend_from_slice(&state.grown);
        Some(bytes)
    }

    /// Does something to the bytes of a range.
    fn with(&self, offset: u64, len: usize, work: impl FnOnce(&mut [u8])) -> io::Result<()> {
        let mut state = self.state();
        if let Some(from) = offset.checked_sub(state.len as u64) {
            let grown = usize::try_from(from).ok().and_then(|from| state.grown.get_mut(from..from.checked_add(len)?));
            if let Some(grown) = grown {
                work(grown);
                return Ok(());
            }
        }
        let start = usize::try_from(offset)
            .ok()
            .filter(|start| start.checked_add(len).is_some_and(|end| end <= self.layout.size()));
        let start = start.ok_or_else(|| invalid("a write beyond the reserved length"))?;
        // SAFETY: the range was just found to lie within the allocation. The lock keeps all others out but those who
        // write through the map, and they keep to other ranges: that is what whoever uses a `Mapped` promises.
        work(unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().add(start), len) });
        Ok(())
    }
}

fn invalid(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, reason)
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

struct MemoryBlob {
    key: String,
    block: Arc<Block>,
    files: Arc<Mutex<BTreeMap<String, File>>>,
    /// Somebody has the map.
    mapped: AtomicBool,
}

impl Blob for MemoryBlob {
    fn map(&self) -> Option<Mapped> {
        let first = self.block.mapped && !self.mapped.swap(true, Relaxed);
        let block = self.block.clone();
        // SAFETY: the block lives as long as it is kept, is aligned to 64 bytes, and is not read before it is finished;
        // this is the only `Mapped` of it, because `mapped` was false.
        first.then(|| unsafe { Mapped::new(block.start, block.layout.size(), block) })
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.block.with(offset, bytes.len(), |place| place.copy_from_slice(bytes))
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.block.with(offset, bytes.len(), |place| bytes.copy_from_slice(place))
    }

    fn grows(&self) -> bool {
        true
    }

    fn grow(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.block.state();
        let gap = usize::try_from(at).ok().and_then(|at| at.checked_sub(state.len + state.grown.len()));
        let gap = gap.ok_or_else(|| invalid("growth begins at the end or beyond"))?;
        let until = state.grown.len() + gap;
        state.grown.resize(until, 0);
        state.grown.extend_from_slice(bytes);
        Ok(())
    }

    fn done_with(&self, _offset: u64, _len: u64) {}

    fn publish(&self) -> io::Result<()> {
        let mut files = self.files.lock().unpoisoned();
        files.insert(self.key.clone(), File::Blob(self.block.clone()));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        let reserved = self.block.state().len as u64;
        if let Some(from) = offset.checked_sub(reserved) {
            let grown = &mut self.block.state().grown;
            let end = from.saturating_add(len).min(grown.len() as u64) as usize;
            grown[(from as usize).min(end)..end].fill(0);
            return Ok(());
        }
        self.block.with(offset, len.min(reserved - offset) as usize, |place| place.fill(0))
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let mut state = self.block.state();
        let grown = len.saturating_sub(state.len as u64);
        state.grown.truncate(usize::try_from(grown).unwrap_or(usize::MAX));
        state.len = state.len.min(usize::try_from(len).unwrap_or(usize::MAX));
        Ok(())
    }

    fn forget(&self) {
        self.block.state().finished = true;
    }
}

impl Drop for MemoryBlob {
    fn drop(&mut self) {
        self.forget();
    }
}
