//! One file of an array: its length, the index at its start or end, and the byte ranges that the index names.
//!
//! ```text
//! index at the end                         index at the start
//! ┌────────────────────┬───────┬─────┐     ┌───────┬─────┬────────────────────┐
//! │ chunks, gaps       │ index │ crc │     │ index │ crc │ chunks, gaps       │
//! └────────────────────┴───────┴─────┘     └───────┴─────┴────────────────────┘
//! index: for each chunk in C order, offset u64 LE and nbytes u64 LE; both 2^64-1 where there is no chunk
//! crc: CRC-32C of the index, u32 LE, where the index codecs name it
//! ```
//!
//! Source: Zarr sharding codec v1.0, "Binary shard format".

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::memory;
use crate::config::IndexLocation;
use crate::error::{Error, Result};
use crate::fs::links;

const ENTRY_BYTES: u64 = 16;
const CRC_BYTES: u64 = 4;
/// 16 million chunks in a shard; past that, a document is broken rather than generous.
const INDEX_BYTES_MAX: u64 = 256 << 20;

/// So much of a hole is read like anything else.
const SPARSE_BYTES: u64 = 4 << 30;

/// How large a shard's index is and where it stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct IndexLayout {
    chunks: u64,
    location: IndexLocation,
    checksum: bool,
}

impl IndexLayout {
    /// `None`: an index for so many chunks is larger than any shard's should be.
    pub(super) fn new(chunks: u64, location: IndexLocation, checksum: bool) -> Option<Self> {
        let bytes = chunks.checked_mul(ENTRY_BYTES)?;
        (bytes <= INDEX_BYTES_MAX).then_some(Self { chunks, location, checksum })
    }

    pub(super) fn chunks(self) -> u64 {
        self.chunks
    }

    pub(super) fn has_checksum(self) -> bool {
        self.checksum
    }

    pub(super) fn bytes(self) -> u64 {
        self.chunks * ENTRY_BYTES + if self.checksum { CRC_BYTES } else { 0 }
    }
}

/// A byte range of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) offset: u64,
    pub(super) nbytes: u64,
}

/// An open file and its length when it was opened.
#[derive(Debug)]
pub(super) struct ShardFile {
    path: PathBuf,
    file: File,
    len: u64,
    disk_bytes: u64,
}

/// A shard's table of its chunks, its checksum already compared. Entries are checked one by one, so that a broken one spoils one chunk.
#[derive(Debug)]
pub(super) struct Table {
    entries: Vec<u8>,
    /// Where it stands itself, with its checksum.
    part: Range,
    /// Where chunks may lie.
    from: u64,
    to: u64,
}

impl ShardFile {
    /// Opens a file for reading; `None` when there is none.
    pub(super) fn open(path: PathBuf) -> Result<Option<Self>> {
        links::check(&path).map_err(|reason| Error::format(&path, reason))?;
        let metadata = match fs::metadata(&path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("look at", &path, error)),
        };
        // Opening a pipe would wait for ever.
        if !metadata.is_file() {
            return Err(Error::format(&path, "is not a regular file"));
        }
        let file = File::open(&path).map_err(|error| Error::io("open", &path, error))?;
        let metadata = file.metadata().map_err(|error| Error::io("look at", &path, error))?;
        Ok(Some(Self { path, file, len: metadata.len(), disk_bytes: metadata.blocks().saturating_mul(512) }))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Bytes that the file system has given to the file.
    pub(super) fn disk_bytes(&self) -> u64 {
        self.disk_bytes
    }

    /// The whole file as one range.
    pub(super) fn whole(&self) -> Range {
        Range { offset: 0, nbytes: self.len }
    }

    pub(super) fn table(&self, layout: IndexLayout) -> Result<Table> {
        let bytes = layout.bytes();
        let Some(chunk_bytes) = self.len.checked_sub(bytes) else {
            let reason = format!("{} bytes are too few for a shard's index of {bytes} bytes", self.len);
            return Err(Error::format(&self.path, reason));
        };
        let (at, from, to) = match layout.location {
            IndexLocation::Start => (0, bytes, self.len),
            IndexLocation::End => (chunk_bytes, 0, chunk_bytes),
        };
        let mut entries = Vec::new();
        let part = Range { offset: at, nbytes: bytes };
        self.read(part, &mut entries)?;
        if layout.checksum {
            self.check_crc(&mut entries)?;
        }
        Ok(Table { entries, part, from, to })
    }

    /// Compares and removes the checksum after the index.
    fn check_crc(&self, entries: &mut Vec<u8>) -> Result<()> {
        let stored = entries.split_off(entries.len().saturating_sub(CRC_BYTES as usize));
        let stored = stored.try_into().map(u32::from_le_bytes).unwrap_or_default();
        let computed = crc32c::crc32c(entries);
        if stored == computed {
            return Ok(());
        }
        let reason = format!("the index is damaged: its checksum is {computed:08x}, but {stored:08x} is stored");
        Err(Error::format(&self.path, reason))
    }

    /// Where data may start at or after `at`; `None` where nothing but a hole follows.
    pub(super) fn data_from(&self, at: u64) -> Option<u64> {
        // Some file systems have called data a hole that had not reached the device yet, so zeros are rather read than
        // passed over. Only a file of a size that would take for ever, and that no writer makes, is believed.
        let mostly_holes = self.len / 4 > self.disk_bytes.saturating_add(SPARSE_BYTES);
        if !mostly_holes {
            return (at < self.len).then_some(at);
        }
        match rustix::fs::seek(&self.file, rustix::fs::SeekFrom::Data(at)) {
            Ok(data) => Some(data.max(at)),
            Err(rustix::io::Errno::NXIO) => None,
            Err(_) => (at < self.len).then_some(at),
        }
    }

    /// Reads a range into `room`, which becomes exactly as long.
    pub(super) fn read(&self, range: Range, room: &mut Vec<u8>) -> Result<()> {
        let length = usize::try_from(range.nbytes).map_err(|_| Error::format(&self.path, "too large for memory"))?;
        let fits = memory::resize(room, length);
        fits.map_err(|reason| Error::format(&self.path, format!("an encoded chunk that does not fit: {reason}")))?;
        self.read_exactly(range.offset, room)
    }

    /// Fills `room` with the bytes from `at` on.
    pub(super) fn read_exactly(&self, at: u64, room: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(room, at).map_err(|error| Error::io("read", &self.path, error))
    }
}

impl Table {
    /// Where it stands.
    pub(super) fn part(&self) -> Range {
        self.part
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len() / ENTRY_BYTES as usize
    }

    /// Where a chunk lies; `None` when the shard doesn't hold it; an error says what is wrong with the entry.
    pub(super) fn entry(&self, chunk: usize) -> Result<Option<Range>, String> {
        let word = |at: usize| {
            let bytes = self.entries.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
            bytes.map(u64::from_le_bytes).ok_or_else(|| format!("the index has no entry {chunk}"))
        };
        let range = Range { offset: word(chunk * 16)?, nbytes: word(chunk * 16 + 8)? };
        if range == (Range { offset: u64::MAX, nbytes: u64::MAX }) {
            return Ok(None);
        }
        let end = range.offset.checked_add(range.nbytes);
        if range.offset < self.from || end.is_none_or(|end| end > self.to) {
            let Range { offset, nbytes } = range;
            let (from, to) = (self.from, self.to);
            return Err(format!(
                "the index names {nbytes} bytes at {offset}, but the shard's chunks lie between {from} and {to}"
            ));
        }
        Ok(Some(range))
    }
}
