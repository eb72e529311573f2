//! A dataset in memory: for tests, and for programs that send finished shards elsewhere.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::collections::BTreeMap;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Blob, Storage};

/// Holds a dataset's files as byte vectors.
#[derive(Debug)]
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
    /// An empty one. `mapped`: workers encode straight into the reserved memory; otherwise through
    /// [`Blob::write_at`].
    pub fn new(mapped: bool) -> Self {
        Self { files: Arc::default(), mapped }
    }

    /// The keys of all files.
    pub fn keys(&self) -> Vec<String> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// A file's bytes. Read shards only when no acquisition writes them any more.
    pub fn read(&self, key: &str) -> Option<Vec<u8>> {
        match self.files.lock().unwrap_or_else(PoisonError::into_inner).get(key)? {
            File::Document(bytes) => Some(bytes.clone()),
            File::Blob(block) => Some(block.bytes()),
        }
    }
}

impl Storage for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn create(&self, key: &str, len: u64) -> io::Result<Box<dyn Blob>> {
        let block = Arc::new(Block::new(len as usize));
        Ok(Box::new(MemoryBlob { key: key.to_owned(), block, files: self.files.clone(), mapped: self.mapped }))
    }

    fn put(&self, key: &str, bytes: &[u8]) -> io::Result<()> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.insert(key.to_owned(), File::Document(bytes.to_vec()));
        Ok(())
    }

    fn remove(&self, key: &str) -> io::Result<()> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
        Ok(())
    }
}

/// Zeroed memory that several threads write in ranges of their own.
#[derive(Debug)]
struct Block {
    start: NonNull<u8>,
    layout: Layout,
    len: AtomicU64,
    /// What came by growth.
    grown: Mutex<Vec<u8>>,
}

// SAFETY: the block is plain memory; `Blob`'s contract keeps concurrent ranges apart.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl Block {
    fn new(len: usize) -> Self {
        let layout = Layout::from_size_align(len.max(1), 64).expect("a shard's length fits the address space");
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        let start = NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout));
        Self { start, layout, len: AtomicU64::new(len as u64), grown: Mutex::default() }
    }

    fn bytes(&self) -> Vec<u8> {
        let len = self.len.load(Ordering::Acquire) as usize;
        // SAFETY: `len` never exceeds the allocation, whose bytes are initialised; the caller reads when no thread writes.
        let mut bytes = unsafe { std::slice::from_raw_parts(self.start.as_ptr(), len) }.to_vec();
        bytes.extend_from_slice(&self.grown());
        bytes
    }

    fn grown(&self) -> std::sync::MutexGuard<'_, Vec<u8>> {
        self.grown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The address of a range, checked.
    fn at(&self, offset: u64, len: usize) -> io::Result<*mut u8> {
        let end = usize::try_from(offset).ok().and_then(|offset| offset.checked_add(len));
        match end {
            // SAFETY: the range was just found to lie within the allocation.
            Some(end) if end <= self.layout.size() => Ok(unsafe { self.start.as_ptr().add(offset as usize) }),
            _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "a write beyond the reserved length")),
        }
    }
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
    mapped: bool,
}

impl Blob for MemoryBlob {
    fn map(&self) -> Option<NonNull<u8>> {
        self.mapped.then_some(self.block.start)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let at = self.block.at(offset, bytes.len())?;
        // SAFETY: `at` is good for `bytes.len()` bytes, and concurrent writers keep to other ranges.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), at, bytes.len()) };
        Ok(())
    }

    fn grows(&self) -> bool {
        true
    }

    fn grow(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut grown = self.block.grown();
        if at != self.block.len.load(Ordering::Acquire) + grown.len() as u64 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "growth begins at the end"));
        }
        grown.extend_from_slice(bytes);
        Ok(())
    }

    fn done_with(&self, _offset: u64, _len: u64) {}

    fn publish(&self) -> io::Result<()> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.insert(self.key.clone(), File::Blob(self.block.clone()));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        if let Some(from) = offset.checked_sub(self.block.len.load(Ordering::Acquire)) {
            let mut grown = self.block.grown();
            let end = grown.len().min((from + len) as usize);
            grown[(from as usize).min(end)..end].fill(0);
            return Ok(());
        }
        let at = self.block.at(offset, len as usize)?;
        // SAFETY: `at` is good for `len` bytes; only the thread that closes the shard punches.
        unsafe { std::ptr::write_bytes(at, 0, len as usize) };
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let reserved = self.block.len.load(Ordering::Acquire);
        self.block.grown().truncate(len.saturating_sub(reserved) as usize);
        self.block.len.store(len.min(reserved), Ordering::Release);
        Ok(())
    }
}
