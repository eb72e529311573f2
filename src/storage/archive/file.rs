//! The archive's one file: who makes it longer, and where its entries get their room.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use super::super::reserve::{BALLAST_BYTES, DiskReserve};
use super::super::window::Access;
use super::table::{Entry, Table};
use crate::config::StorageKind;
use crate::format::zip::Content;
use crate::format::zip::directory::Directory;
use crate::format::zip::local::{self, Kind, PAGE};
use crate::fs::system::{self, FileSystem, is_no_room};
use crate::fs::{Identity, growth};
use crate::sync::Unpoisoned;

/// An archive that is being written.
#[derive(Debug)]
pub(crate) struct Archive {
    pub(super) file: Arc<File>,
    /// The name that it must have.
    path: PathBuf,
    pub(super) file_system: FileSystem,
    /// A further descriptor, that passes the page cache by.
    direct: OnceLock<Option<Arc<File>>>,
    /// Held by whoever makes the file longer, or shorter. Taken before the table.
    tail: Mutex<Tail>,
    table: Mutex<Table>,
    /// Somebody wants bytes to be waited for until they are on the device.
    pub(super) syncs: AtomicBool,
    /// Bytes that the last documents of the images may take that are being written.
    pub(super) promised: AtomicU64,
    /// A sync failed. The system tells it once and then may say that all is well.
    poisoned: AtomicBool,
}

/// What is known of the room behind all that is written.
#[derive(Debug, Default)]
pub(super) struct Tail {
    /// Room within the file that was reserved ahead, for entries, and reads as zeros.
    pub(super) ahead: Range<u64>,
    /// It was reserved so that it can be mapped.
    ahead_is_mapped: bool,
    /// Bytes behind the end of the file that are reserved, for documents and directories when the disk is full.
    pub(super) reserved: u64,
}

impl Archive {
    /// An archive in an empty file, which has, or will have, the name `path`.
    pub(crate) fn begin(file: Arc<File>, path: &Path, uuid: [u8; 16]) -> io::Result<Self> {
        let (file_system, path) = (FileSystem::of(&file)?, path.to_path_buf());
        let table = Mutex::new(Table { archive: uuid, ..Table::default() });
        let (direct, tail, syncs, promised, poisoned) = Default::default();
        Ok(Self { file, path, file_system, direct, tail, table, syncs, promised, poisoned })
    }

    pub(super) fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unpoisoned()
    }

    pub(super) fn tail(&self) -> MutexGuard<'_, Tail> {
        self.tail.lock().unpoisoned()
    }

    pub(super) fn direct(&self) -> Option<Arc<File>> {
        let open = || system::open_direct(&system::descriptor_path(&self.file)).map(Arc::new);
        self.direct.get_or_init(open).clone()
    }

    pub(super) fn direct_if_open(&self) -> Option<Arc<File>> {
        self.direct.get().cloned().flatten()
    }

    /// A further description of the file, by which a shard is mapped: of each the system learns by itself how far ahead
    /// pages will be wanted, and of one that has served for many shards it has learnt that none will.
    pub(super) fn to_map(&self, access: Access) -> Option<File> {
        // Elsewhere the file is made longer while nobody else has it open for writing.
        if access.way != StorageKind::Mapped || !self.file_system.extends_at_once() {
            return None;
        }
        File::options().read(true).write(true).open(system::descriptor_path(&self.file)).ok()
    }

    pub(super) fn uuid(&self) -> [u8; 16] {
        self.table().archive
    }

    /// The file, and where in it the entry `key` begins, and how much of it counts.
    #[cfg(feature = "offline")]
    pub(crate) fn find(&self, key: &str) -> Option<(Arc<File>, u64, u64)> {
        let table = self.table();
        table.entries.get(key).map(|entry| (self.file.clone(), entry.data_at, entry.content.len))
    }

    pub(super) fn stage(&self, key: &str, bytes: &[u8]) {
        self.table().staged.insert(key.to_owned(), bytes.to_vec());
    }

    pub(super) fn remove(&self, key: &str) {
        let free = self.table().remove(key);
        free.into_iter().for_each(|range| self.give_room_back(range));
    }

    /// Of an entry that was never published.
    pub(super) fn discard(&self, entry: &Entry) {
        self.give_room_back(entry.range());
    }

    /// To the disk, at once: somebody may wait for it. And only then to the entries to come, of which a hole that is
    /// punched late would swallow one.
    fn give_room_back(&self, range: Range<u64>) {
        self.punch([range.clone()]);
        self.table().space.give(range);
    }

    /// Gives the blocks of ranges back to the disk. Best effort.
    pub(super) fn punch(&self, ranges: impl IntoIterator<Item = Range<u64>>) {
        for range in ranges {
            let _ = system::give_back(&self.file, range.start, range.end - range.start);
        }
    }

    /// Refuses to go on with a file that another program cut off or took away.
    pub(super) fn check(&self) -> io::Result<()> {
        // The end first: the file may grow meanwhile.
        let end = self.table().end;
        let metadata = self.file.metadata()?;
        if metadata.len() < end {
            let reason = format!("another program cut the archive off at {} of {end} bytes", metadata.len());
            return Err(io::Error::other(reason));
        }
        if !Identity::from(&metadata).is_at(&self.path) {
            return Err(io::Error::other("another program removed, moved or replaced the archive"));
        }
        Ok(())
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        self.check()?;
        if self.poisoned.load(Ordering::Relaxed) {
            return Err(io::Error::other("a sync failed before, so the device may lack what was written"));
        }
        self.file.sync_data().inspect_err(|_| self.poisoned.store(true, Ordering::Relaxed))
    }

    pub(super) fn sync_if_wanted(&self) -> io::Result<()> {
        if self.syncs.load(Ordering::Relaxed) { self.sync() } else { self.check() }
    }

    /// Gets room for an entry that will be written bit by bit.
    pub(super) fn allocate(&self, key: &str, len: u64, access: Access, reserve: &DiskReserve) -> io::Result<Entry> {
        check_name(key)?;
        reserve.check()?;
        // Whatever makes a file longer that was cut off hides that.
        self.check()?;
        let (header_bytes, room) = (local::bytes(key, PAGE as usize) as u64, len.next_multiple_of(PAGE));
        let mut tail = self.tail();
        let header_at = match self.take(header_bytes + room, access)? {
            Some(at) => at,
            None => self.take_ahead(&mut tail, header_bytes + room, access)?,
        };
        let (serial, content) = (self.table().next_serial(), Content { crc32: 0, len });
        Ok(Entry::new(serial, Kind::Growing, header_at, header_bytes, room, content))
    }

    /// Room within the file, which reads as zeros; `None` where there is none, or no way to zeros without writing them.
    fn take(&self, len: u64, access: Access) -> io::Result<Option<u64>> {
        let Some(at) = self.table().space.take(len) else { return Ok(None) };
        let cleared = system::punch(&self.file, at, len).and_then(|is_punched| {
            if is_punched {
                self.reserve(at, len, access)?;
            }
            Ok(is_punched)
        });
        if !matches!(cleared, Ok(true)) {
            self.table().space.give(at..at + len);
        }
        Ok(cleared?.then_some(at))
    }

    /// Room that was got ahead, or is got now.
    fn take_ahead(&self, tail: &mut Tail, len: u64, access: Access) -> io::Result<u64> {
        if tail.ahead.end - tail.ahead.start < len {
            // Each time that the file grows, the whole directory is written: it grows by as much as that, so that what
            // is written in all goes with what is in it.
            let directory = self.table().directory.clone();
            let ahead = len * (directory.end - directory.start).div_ceil(len).max(1);
            let at = match self.append(tail, ahead, access) {
                Err(error) if is_no_room(&error) && ahead > len => {
                    self.append(tail, len, access).map(|at| at..at + len)
                }
                other => other.map(|at| at..at + ahead),
            }?;
            let left = std::mem::replace(&mut tail.ahead, at);
            tail.ahead_is_mapped = access.way == StorageKind::Mapped;
            self.table().space.give(left);
        }
        let at = tail.ahead.start;
        if access.way == StorageKind::Mapped && !tail.ahead_is_mapped {
            self.reserve(at, len, access)?;
        }
        tail.ahead.start += len;
        Ok(at)
    }

    /// Room behind the end of the file, which then ends with the directory that it ends with now.
    fn append(&self, tail: &mut Tail, len: u64, access: Access) -> io::Result<u64> {
        let end = self.table().end;
        debug_assert!(end.is_multiple_of(PAGE), "the file was finished");
        let at = end.checked_add(len).filter(|&at| at < 1 << 62).ok_or(io::ErrorKind::FileTooLarge)?;
        let block = {
            let table = self.table();
            directory_block(Vec::new(), at, &table.names, &table.comment)
        };
        let (new_end, ballast) = (at + block.len() as u64, self.ballast_bytes(&block));
        system::check_file_limit(new_end)?;
        // What is reserved behind the end stays so whatever becomes of this.
        let reserved_end = end + tail.reserved;
        // A reservation that fails half-way would, for a moment, hold all the room that documents need.
        let needed = (new_end + ballast).saturating_sub(reserved_end);
        if system::free_bytes(&self.file)?.is_some_and(|free| free < needed) {
            return Err(system::no_room());
        }
        let reserve = || {
            if at > reserved_end {
                self.reserve(reserved_end, at - reserved_end, access)?;
            }
            self.reserve_up_to(reserved_end.max(at), new_end + ballast)
        };
        let reserved = reserve();
        // In memory, a reservation that fails takes nothing.
        let is_left = reserved.is_err() && self.file_system.is_memory();
        if let Err(error) = reserved.and_then(|()| growth::extend(&self.file, end, at, &block)) {
            if !is_left {
                // What was reserved behind the end goes with this.
                let _ = self.file.set_len(end);
                tail.reserved = 0;
                self.keep_ballast(tail, end, ballast);
            }
            return Err(error);
        }
        tail.reserved = ballast;
        self.table().moved(at, new_end);
        if self.is_filled_when_written(access) {
            // What was reserved behind the end before would stay the entry's.
            let _ = system::give_back(&self.file, end, reserved_end.min(at) - end);
        }
        Ok(end)
    }

    fn reserve_up_to(&self, at: u64, end: u64) -> io::Result<()> {
        if at < end { system::reserve_range(&self.file, at, end - at).map(drop) } else { Ok(()) }
    }

    /// Lets the file, which ends at `end`, end with `block`, which begins at `at`.
    pub(super) fn extend(&self, tail: &mut Tail, end: u64, at: u64, block: &[u8]) -> io::Result<()> {
        let new_end = at + block.len() as u64;
        system::check_file_limit(new_end)?;
        let reserved_end = end + tail.reserved;
        self.reserve_up_to(reserved_end, new_end)?;
        growth::extend(&self.file, end, at, block).inspect_err(|_| tail.reserved = 0)?;
        tail.reserved = reserved_end.saturating_sub(new_end);
        self.keep_ballast(tail, new_end, self.ballast_bytes(block));
        Ok(())
    }

    /// Whether room can be reserved where the file is: asked where it is to grow.
    pub(crate) fn reserves(&self) -> bool {
        let _tail = self.tail();
        let end = self.table().end;
        matches!(system::reserve_range(&self.file, end, 1), Ok(true))
    }

    /// Whether entries have no room beforehand. In memory, reserving is filling with pages: see `Directory`.
    fn is_filled_when_written(&self, access: Access) -> bool {
        self.file_system.is_memory() && access.way != StorageKind::Mapped
    }

    /// Room on the disk for a range; an error where that is needed and not to be had.
    fn reserve(&self, at: u64, len: u64, access: Access) -> io::Result<()> {
        let is_filled = self.is_filled_when_written(access);
        if is_filled || system::reserve_range(&self.file, at, len)? || access.way != StorageKind::Mapped {
            return Ok(());
        }
        let reason = "a file system without reservations can't be mapped safely; choose another way to write";
        Err(io::Error::new(io::ErrorKind::Unsupported, reason))
    }

    /// As much as the next directories take, with documents and some more entries.
    fn ballast_bytes(&self, directory: &[u8]) -> u64 {
        BALLAST_BYTES + self.promised.load(Ordering::Relaxed) + 2 * directory.len() as u64
    }

    /// Room for documents and a directory, behind the end of the file. Best effort: what there is stays.
    fn keep_ballast(&self, tail: &mut Tail, end: u64, bytes: u64) {
        if tail.reserved < bytes && self.reserve_up_to(end + tail.reserved, end + bytes).is_ok() {
            tail.reserved = bytes;
        }
    }

    /// Gives the blocks of free ranges back to the disk, but for a few that documents will need. Best effort.
    pub(super) fn give_back(&self, freed: Vec<Range<u64>>) {
        const FREE_BYTES_KEPT: u64 = 4 << 20;
        if self.table().space.free_bytes() > FREE_BYTES_KEPT {
            self.punch(freed);
        }
    }
}

/// Refuses a key that is no name of an entry.
pub(super) fn check_name(key: &str) -> io::Result<()> {
    if key.len() <= local::NAME_BYTES_MAX {
        return Ok(());
    }
    let reason = format!("names of more than {} bytes are not possible in an archive", local::NAME_BYTES_MAX);
    Err(io::Error::new(io::ErrorKind::InvalidInput, reason))
}

/// The last bytes of a file that is to end with a directory, in whole pages that begin at `at`: first `before`, which
/// is whole pages.
pub(super) fn directory_block(before: Vec<u8>, at: u64, names: &Directory, comment: &str) -> Vec<u8> {
    let mut block = before;
    let bytes = names.len(comment);
    block.resize(block.len() + bytes.next_multiple_of(PAGE as usize) - bytes, 0);
    let directory = names.at(at + block.len() as u64, comment);
    block.extend(directory);
    block
}
