//! A shard under construction in an archive: a range of its file, of which the directory says how much counts.
//!
//! While it is open, its index has two places behind its slots. Each new index is written in the place that the
//! directory doesn't reach to, and counts from the next directory on:
//!
//! ```text
//! | header | slots | index | index | free
//!                          ^       ^ ends in turns
//! | header | slots, final index | free for documents
//!                               ^ closed
//! ```

use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use super::super::seam::{Blob, Mapped};
use super::super::window::{Access, Window};
use super::file::Archive;
use super::table::Entry;
use crate::format::zip::{Content, crc32};
use crate::fs::system::{self, FileExt};
use crate::sync::Unpoisoned;

pub(super) struct ArchiveBlob {
    archive: Arc<Archive>,
    key: String,
    /// As it was begun.
    entry: Entry,
    window: Window,
    sync: bool,
    /// Bytes at first, of which the last `growth` are the first place of its index.
    len: u64,
    growth: u64,
    published: AtomicBool,
    open: Mutex<Open>,
}

#[derive(Debug)]
struct Open {
    /// Of how many bytes the CRC-32 was told, and which; none where it is not known.
    told: (u64, Option<u32>),
    /// Of what stands in both places of the index.
    indexes: [u32; 2],
    place: usize,
    /// Where it would end if it had grown.
    grown_to: u64,
    /// It has its final length.
    closed: bool,
}

impl ArchiveBlob {
    pub(super) fn new(
        archive: &Arc<Archive>,
        key: &str,
        entry: Entry,
        access: Access,
        lens: [u64; 2],
        sync: bool,
    ) -> io::Result<Self> {
        let [len, growth] = lens;
        let direct = || archive.direct();
        let to_map = archive.to_map(access);
        let window = Window::open(archive.file.clone(), to_map.as_ref(), entry.data_at, len, access, direct);
        let window = window.inspect_err(|_| archive.discard(&entry))?;
        let indexes = [crc32::append_zeros(0, growth); 2];
        let open = Open { told: (0, Some(0)), indexes, place: 0, grown_to: len, closed: false };
        Ok(Self {
            archive: archive.clone(),
            key: key.to_owned(),
            entry,
            window,
            sync,
            len,
            growth,
            published: AtomicBool::new(false),
            open: Mutex::new(open),
        })
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unpoisoned()
    }

    /// Where the first place of the index begins.
    fn slots_end(&self) -> u64 {
        self.len - self.growth
    }

    /// What counts of the file while it is open.
    fn content(&self, open: &Open) -> Content {
        let len = self.slots_end() + self.growth * (open.place as u64 + 1);
        let crc32 = match open.told {
            (_, None) => 0,
            (told, Some(crc)) if told == self.len => crc,
            // Slots alone.
            (_, Some(crc)) => {
                open.indexes[..=open.place].iter().fold(crc, |crc, index| crc32::join(crc, *index, self.growth))
            }
        };
        Content { crc32, len }
    }

    /// Has the next directory say what counts of the file.
    fn tell(&self, open: &Open) {
        let mut table = self.archive.table();
        let Some(entry) = table.entry(&self.key, self.entry.serial) else { return };
        (entry.content, entry.is_known) = (self.content(open), true);
        table.is_behind = true;
    }

    /// Whether the directory in the file says what is true.
    fn is_named(&self) -> bool {
        let mut table = self.archive.table();
        table.entry(&self.key, self.entry.serial).is_some_and(|entry| entry.named == Some(entry.content))
    }
}

impl Blob for ArchiveBlob {
    fn map(&self) -> Option<Mapped> {
        self.window.map()
    }

    fn check_map(&self) -> io::Result<()> {
        self.window.check_map().map_err(|lost| self.archive.check().err().unwrap_or(lost))
    }

    fn check_intact(&self) -> io::Result<()> {
        self.archive.check()?;
        self.check_map()
    }

    fn alignment(&self) -> usize {
        self.window.alignment()
    }

    fn one_write_at_a_time(&self) -> bool {
        true
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if offset >= self.slots_end() && !self.published.load(Ordering::Relaxed) {
            // The first index.
            let before = crc32::append_zeros(0, offset - self.slots_end());
            let behind = self.len.saturating_sub(offset + bytes.len() as u64);
            self.open().indexes[0] = crc32::append_zeros(crc32::append(before, bytes), behind);
        }
        self.window.write_slices_at(offset, &mut [IoSlice::new(bytes)])
    }

    fn write_slices_at(&self, offset: u64, slices: &mut [IoSlice]) -> io::Result<()> {
        self.window.write_slices_at(offset, slices)
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.archive.file.read_exact_at(bytes, self.entry.data_at + offset)
    }

    fn grows(&self) -> bool {
        self.growth > 0
    }

    fn grows_with_room(&self) -> bool {
        false
    }

    fn grow(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut open = self.open();
        if at != open.grown_to || bytes.len() as u64 != self.growth || open.closed {
            return Err(io::ErrorKind::Unsupported.into());
        }
        if !self.is_named() {
            let reason = "the archive's directory could not be written since the last one";
            return Err(io::Error::new(io::ErrorKind::StorageFull, reason));
        }
        let place = 1 - open.place;
        self.window.write_slices_at(self.slots_end() + self.growth * place as u64, &mut [IoSlice::new(bytes)])?;
        open.place = place;
        open.indexes[place] = crc32::of(bytes);
        open.grown_to = at + self.growth;
        self.tell(&open);
        Ok(())
    }

    fn wants_crc32(&self) -> bool {
        true
    }

    fn note_crc32(&self, len: u64, crc32: Option<u32>) {
        let mut open = self.open();
        open.told = (len, crc32);
        if len == self.len && !open.closed && self.published.load(Ordering::Relaxed) {
            // An index at the start was replaced.
            self.tell(&open);
        }
    }

    fn done_with(&self, offset: u64, len: u64) {
        self.window.done_with(offset, len);
    }

    fn publish(&self) -> io::Result<()> {
        let mut entry = self.entry.clone();
        entry.content = self.content(&self.open());
        self.archive.file.write_all_at(&entry.header(&self.key, self.archive.uuid()), entry.header_at)?;
        self.published.store(true, Ordering::Relaxed);
        self.archive.table().insert(self.key.clone(), entry);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.check_map()?;
        match self.sync {
            true if self.published.load(Ordering::Relaxed) => self.archive.sync(),
            // Nothing names it yet.
            _ => self.archive.check(),
        }
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        self.window.punch(offset, len)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let mut open = self.open();
        if len >= self.len && self.growth > 0 {
            // The index before the last one is to count again.
            open.place = 1 - open.place;
            open.grown_to = len;
            self.tell(&open);
        } else {
            open.closed = true;
            let (told, crc) = open.told;
            let crc = crc.filter(|_| told == len);
            let content = Content { crc32: crc.unwrap_or(0), len };
            self.archive.table().cut(&self.key, self.entry.serial, content, crc.is_some());
        }
        Ok(())
    }

    fn forget(&self) {
        system::forget_cached_range(&self.archive.file, self.entry.header_at, self.len);
    }
}

impl Drop for ArchiveBlob {
    fn drop(&mut self) {
        if !self.published.load(Ordering::Relaxed) {
            self.archive.discard(&self.entry);
        } else if !self.open().closed {
            // Nobody knows what became of it.
            let mut table = self.archive.table();
            if let Some(entry) = table.entry(&self.key, self.entry.serial) {
                entry.is_known = false;
                table.is_behind = true;
            }
        }
    }
}
