//! One open file of an array: its length, its table, and ranges of its bytes.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::codec;
use crate::error::{Error, Result};
use crate::format::index::Range;
use crate::format::index::table::{Table, TableLayout};
use crate::format::precomputed::GZIP;
use crate::format::zip::crc32;
use crate::fs::archives::{self, EntryChecksum};
use crate::fs::look::{self, OpenFile};
use crate::fs::system::{self, FileExt};
use crate::offline::array::memory;

/// This much of a hole is read like anything else.
const SPARSE_BYTES: u64 = 4 << 30;

/// An open file and its length when it was opened.
#[derive(Debug)]
pub(crate) struct ShardFile {
    path: PathBuf,
    file: Arc<File>,
    /// Where it begins, if it is a part of an archive.
    at: u64,
    len: u64,
    packed_len: Option<u64>,
    disk_bytes: u64,
    /// When it was changed last, of a file that was opened by its path.
    modified: (i64, i64),
    /// The part of it that is meant, if a manifest names no more.
    part: Option<Range>,
    /// What an archive has of all of it.
    checksum: Option<EntryChecksum>,
    /// The caller compares that.
    is_compared: bool,
}

impl ShardFile {
    /// Opens a file for reading; `None` when there is none.
    pub(crate) fn open(path: PathBuf) -> Result<Option<Self>> {
        let opened = look::open(&path)?;
        let found = |OpenFile { file, at, len, disk_bytes, modified, checksum }| Self {
            disk_bytes,
            modified,
            checksum,
            ..Self::part_of(path, file, at, len)
        };
        Ok(opened.map(found))
    }

    /// `len` bytes of an open file, such as those of an entry of an archive.
    pub(crate) fn part_of(path: PathBuf, file: Arc<File>, at: u64, len: u64) -> Self {
        let (packed_len, part, checksum, is_compared) = Default::default();
        Self { path, file, at, len, packed_len, disk_bytes: len, modified: (0, 0), part, checksum, is_compared }
    }

    /// Opens a file that is compressed as a whole, and decompresses it: it looks as if it were not. `bytes_max`: of it
    /// decompressed. `packing`: what it is compressed with.
    pub(crate) fn open_packed(path: PathBuf, packing: &str, bytes_max: usize) -> Result<Option<Self>> {
        let Some(packed) = Self::open(path)? else { return Ok(None) };
        let path = packed.path.clone();
        if packing != GZIP {
            let reason =
                format!("is compressed with {packing}, which is not read here; files of chunks may be raw or {GZIP}");
            return Err(Error::unsupported(path, reason));
        }
        let encoded = packed.bytes(packed.whole())?;
        let mut bytes = Vec::new();
        memory::resize(&mut bytes, bytes_max).map_err(|reason| Error::format(&path, reason))?;
        let length = codec::gunzip(&encoded, &mut bytes).map_err(|error| Error::format(&path, error.to_string()))?;
        bytes.truncate(length);
        let file = system::file_in_memory(&bytes).map_err(|error| Error::io("decompress", &path, error))?;
        Ok(Some(Self {
            packed_len: Some(packed.len),
            disk_bytes: packed.disk_bytes,
            modified: packed.modified,
            ..Self::part_of(path, Arc::new(file), 0, length as u64)
        }))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    pub(crate) fn start(&self) -> u64 {
        self.at
    }

    /// The file, if it is all of one.
    pub(crate) fn whole_file(&self) -> Option<&File> {
        let is_whole = self.at == 0 && self.file.metadata().is_ok_and(|metadata| metadata.len() == self.len);
        is_whole.then_some(&self.file)
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Its length in the file system, which is another one where it is compressed as a whole.
    pub(crate) fn stored_len(&self) -> u64 {
        self.packed_len.unwrap_or(self.len)
    }

    /// By what the file is known to be the same when it is opened again. Its number is no part of that: file systems in
    /// user space make up another one now and then.
    pub(crate) fn stamp(&self) -> (u64, (i64, i64)) {
        (self.stored_len(), self.modified)
    }

    /// Whether it is compressed as a whole, which a checksum of its own vouches for.
    pub(crate) fn is_packed(&self) -> bool {
        self.packed_len.is_some()
    }

    /// Bytes that the file system has given to the file.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.disk_bytes
    }

    /// The same file, of which this part is meant.
    pub(crate) fn with_part(self, part: Range) -> Self {
        Self { part: Some(part), ..self }
    }

    pub(crate) fn is_part(&self) -> bool {
        self.part.is_some()
    }

    /// The same file, of which the caller compares what an archive has of it.
    pub(crate) fn compared_as_whole(self) -> Self {
        Self { is_compared: true, ..self }
    }

    /// What the caller is to compare.
    pub(crate) fn checksum_of_whole(&self) -> Option<&EntryChecksum> {
        self.checksum.as_ref().filter(|_| self.is_compared)
    }

    /// Refuses bytes of an entry of an archive that is not what that has a checksum of. `bytes`: what was read of a
    /// range.
    pub(crate) fn check_entry(&self, range: Range, bytes: &[u8]) -> Result<()> {
        let Some(checksum) = self.checksum.as_ref().filter(|_| !self.is_compared) else { return Ok(()) };
        let is_whole = range == Range { offset: 0, nbytes: self.len } && bytes.len() as u64 == self.len;
        let holds = if is_whole { Ok(checksum.is(crc32::of(bytes))) } else { checksum.holds() };
        match holds.map_err(|error| Error::io("read", &self.path, error))? {
            true => Ok(()),
            false => Err(Error::format(&self.path, archives::CHANGED)),
        }
    }

    /// The same of all of it, for who does not look at its chunks: but for shards whose chunks have headers.
    pub(crate) fn check_whole_entry(&self) -> Result<()> {
        let Some(checksum) = &self.checksum else { return Ok(()) };
        let may_be_copied = checksum.holds().and_then(|holds| Ok(holds || checksum.is_of_live_shard()?));
        match may_be_copied.map_err(|error| Error::io("read", &self.path, error))? {
            true => Ok(()),
            false => Err(Error::format(&self.path, archives::CHANGED)),
        }
    }

    /// The whole file as one range, or the part of it that is meant.
    pub(crate) fn whole(&self) -> Range {
        self.part.unwrap_or(Range { offset: 0, nbytes: self.len })
    }

    /// The table of a shard, which may be a part of the file. Its ranges are the file's.
    pub(crate) fn table(&self, layout: TableLayout) -> Result<Table> {
        let shard = self.whole();
        let Some(part) = layout.part(shard.nbytes) else {
            let reason = format!("{} bytes are too few for a shard's index of {} bytes", shard.nbytes, layout.bytes());
            return Err(Error::format(&self.path, reason));
        };
        let bytes = self.bytes(Range { offset: shard.offset + part.offset, ..part })?;
        let table = Table::decode(layout, part, shard.nbytes, bytes);
        table.map(|table| table.at(shard.offset)).map_err(|reason| Error::format(&self.path, reason))
    }

    /// Where data may start at or after `at`; `None` where nothing but a hole follows.
    pub(crate) fn data_from(&self, at: u64) -> Option<u64> {
        // Some file systems have called data a hole that had not reached the device yet, so zeros are rather read than
        // passed over. Only a file of a size that would take for ever, and that no writer makes, is believed.
        let mostly_holes = self.len / 4 > self.disk_bytes.saturating_add(SPARSE_BYTES);
        if !mostly_holes {
            return (at < self.len).then_some(at);
        }
        match system::data_from(&self.file, self.at + at) {
            Ok(data) => data.map(|data| (data - self.at).max(at)).filter(|&data| data < self.len),
            Err(_) => (at < self.len).then_some(at),
        }
    }

    /// Reads a range into `room`, which becomes exactly as long.
    pub(crate) fn read(&self, range: Range, room: &mut Vec<u8>) -> Result<()> {
        let length = usize::try_from(range.nbytes).map_err(|_| Error::format(&self.path, "too large for memory"))?;
        let fits = memory::resize(room, length);
        fits.map_err(|reason| Error::format(&self.path, format!("an encoded chunk that does not fit: {reason}")))?;
        self.read_exactly(range.offset, room)
    }

    pub(crate) fn bytes(&self, range: Range) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.read(range, &mut bytes).map(|()| bytes)
    }

    /// Fills `room` with the bytes from `at` on.
    pub(crate) fn read_exactly(&self, at: u64, room: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(room, self.at + at).map_err(|error| Error::io("read", &self.path, error))
    }
}
