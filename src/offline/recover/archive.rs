//! An archive whose writer was stopped: what is in it, found by the headers before its entries.
//!
//! Its directory names what was there when it was written, and shards come into being between two directories; a kill
//! in the middle of a growth may leave none, where the file system does not grow files at once. The headers tell all.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::config::StorageKind;
use crate::error::{Error, Result};
use crate::format::zip::local::{self, Kind, PAGE, SIGNATURE, WRITTEN_AT_ONCE};
use crate::format::zip::parse::{Entry, Method, check_name};
use crate::fs::archives::{OpenArchive, Pin, crc32_at, directory, pin};
use crate::fs::system::{self, FileExt, open_unfollowed};
use crate::storage::{Archive, ArchiveView, FoundEntry};
use crate::sync::Unpoisoned;

const WINDOW_BYTES: u64 = 1 << 20;
/// As many entries as a directory may have.
const ENTRIES_MAX: usize = 1 << 21;

/// An archive in which everything has been found that is there. It is shown so to whoever reads it, as long as this
/// lives.
#[derive(Debug)]
pub(super) struct FoundArchive {
    path: PathBuf,
    uuid: [u8; 16],
    entries: BTreeMap<String, FoundEntry>,
    /// Its directory says something else.
    pub(super) is_behind: bool,
    pin: Mutex<Option<Pin>>,
}

impl FoundArchive {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let failed = |error| Error::io("read", path, error);
        let file = File::open(path).map_err(|error| Error::io("open", path, error))?;
        let len = file.metadata().map_err(failed)?.len();
        let named = directory(&file, len).map_err(failed)?.ok().map(|(entries, _)| entries);
        let found = scan(&file, len).map_err(failed)?;
        let uuid = found.first().map(|found| found.header.origin.archive).filter(|uuid| *uuid != WRITTEN_AT_ONCE);
        let Some(uuid) = uuid else {
            if found.is_empty() && named.is_none() {
                return Err(Error::not_found(path, "is a file; expected the directory of an array or an image"));
            }
            let reason = "no entry in it has a header of a run: only those tell what was written";
            return Err(Error::unsupported(path, reason));
        };
        let entries = newest(&file, found, uuid, named.as_ref()).map_err(failed)?;
        let shown = entries.iter().map(|(name, found)| {
            let FoundEntry { header_at, content, .. } = *found;
            let entry = Entry { content, stored_bytes: content.len, method: Method::Stored, header_at };
            (name.clone(), entry)
        });
        let shown = OpenArchive::new(file, shown.collect(), len);
        let is_behind = named.as_ref() != Some(&shown.entries);
        let pin = Mutex::new(Some(pin(path, shown)?));
        Ok(Self { path: path.to_path_buf(), uuid, entries, is_behind, pin })
    }

    /// The archive, to be changed.
    pub(super) fn edit(&self) -> Result<(Arc<Archive>, ArchiveView)> {
        let open = || {
            let file = open_unfollowed(File::options().read(true).write(true), &self.path)?;
            Archive::resume(file, &self.path, self.uuid, &self.entries, self.is_behind)
        };
        let archive = Arc::new(open().map_err(|error| Error::io("open", &self.path, error))?);
        let view = ArchiveView::new(&archive, StorageKind::Buffered, false, true, &Arc::default());
        Ok((archive, view))
    }

    /// From now on the archive is shown as its directory says.
    pub(super) fn show_as_written(&self) {
        self.pin.lock().unpoisoned().take();
    }
}

/// All headers, in the order of their places.
fn scan(file: &File, len: u64) -> io::Result<Vec<FoundEntry>> {
    let mut found: Vec<FoundEntry> = Vec::new();
    let (mut window, mut window_at) = (Vec::new(), 0);
    let mut at = 0;
    while at < len && found.len() < ENTRIES_MAX {
        let is_in_window = at >= window_at && at + PAGE <= window_at + window.len() as u64;
        if !is_in_window {
            // Holes are most of what is free.
            let Some(data) = system::data_from(file, at)? else { break };
            at = data.max(at) / PAGE * PAGE;
            window.resize(WINDOW_BYTES.min(len - at) as usize, 0);
            window_at = at;
            file.read_exact_at(&mut window, at)?;
        }
        let header = window[(at - window_at) as usize..].starts_with(&SIGNATURE).then(|| header_at(file, at, len));
        at = match header.transpose()?.flatten() {
            Some(header) => {
                let next = match header.origin.kind {
                    Kind::Growing | Kind::Closed => at + (header.bytes + header.content.len).next_multiple_of(PAGE),
                    // A kill may have left no more of it than its header, and others may stand in its place by now.
                    Kind::Whole => at + PAGE,
                };
                found.push(FoundEntry { header_at: at, content: header.content, header });
                next
            }
            None => at + PAGE,
        };
    }
    Ok(found)
}

/// The header at a place, if it is whole and its entry lies within the file.
fn header_at(file: &File, at: u64, len: u64) -> io::Result<Option<local::Header>> {
    let mut bytes = vec![0; (2 * PAGE).min(len - at) as usize];
    file.read_exact_at(&mut bytes, at)?;
    Ok(local::decode(&bytes).filter(|header| {
        // Of its room, the rest may have been cut off, or is in use for documents.
        let end = at.checked_add(header.bytes).and_then(|data| data.checked_add(header.content.len));
        end.is_some_and(|end| end <= len)
            && header.content.len <= header.origin.room
            && check_name(&header.name).is_ok()
    }))
}

/// Of the entries of each name, the newest that counts. Of documents these are those that the directory names, if there
/// is one: others were not meant to be there yet, or not any more.
fn newest(
    file: &File,
    found: Vec<FoundEntry>,
    uuid: [u8; 16],
    named: Option<&BTreeMap<String, Entry>>,
) -> io::Result<BTreeMap<String, FoundEntry>> {
    let mut entries: BTreeMap<String, FoundEntry> = BTreeMap::new();
    for entry in found.into_iter().filter(|entry| entry.header.origin.archive == uuid) {
        let FoundEntry { header_at, header, .. } = &entry;
        let is_newer = |known: &FoundEntry| known.header.origin.serial < header.origin.serial;
        let counts = match (header.origin.kind, named) {
            (Kind::Growing | Kind::Closed, _) => true,
            (Kind::Whole, Some(named)) => named.get(&header.name).is_some_and(|named| named.header_at == *header_at),
            (Kind::Whole, None) => crc32_at(file, entry.data_at(), header.content.len)? == header.content.crc32,
        };
        if counts && entries.get(&header.name).is_none_or(is_newer) {
            entries.insert(header.name.clone(), entry);
        }
    }
    // What was written since its header need not have changed its length.
    for entry in entries.values_mut().filter(|entry| entry.header.origin.kind == Kind::Growing) {
        entry.content.crc32 = crc32_at(file, entry.data_at(), entry.content.len)?;
    }
    Ok(entries)
}
