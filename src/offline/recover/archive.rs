//! An archive whose writer was stopped: what is in it, found by the headers before its entries.
//!
//! Its directory names what was there when it was written, and shards come into being between two directories; a kill
//! in the middle of a growth may leave none, where the file system does not grow files at once. The headers tell all,
//! but for those that were damaged: what the directory names of these stays.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::config::StorageKind;
use crate::error::{Error, Result};
use crate::format::zip::Content;
use crate::format::zip::local::{self, FIXED_BYTES, Header, Kind, Origin, PAGE, SIGNATURE, WRITTEN_AT_ONCE};
use crate::format::zip::parse::{Entry, Method, check_name, data_at};
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
    /// Where headers stand whose entries are cut off, or have other things in their place by now.
    stale: Vec<u64>,
    /// Its directory says something else.
    pub(super) is_behind: bool,
    pin: Mutex<Option<Pin>>,
}

impl FoundArchive {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let failed = |error| Error::io("read", path, error);
        let file = File::open(path).map_err(|error| Error::io("open", path, error))?;
        let len = file.metadata().map_err(failed)?.len();
        let listed = directory(&file, len).map_err(failed)?.ok();
        let taken = listed.iter().flat_map(|(named, at)| named.values().map(|entry| entry.header_at).chain([*at]));
        let taken: BTreeSet<u64> = taken.collect();
        let named = listed.as_ref().map(|(named, _)| named);
        let found = scan(&file, len, &taken).map_err(failed)?;
        let uuid = found.first().map(|found| found.header.origin.archive).filter(|uuid| *uuid != WRITTEN_AT_ONCE);
        let Some(uuid) = uuid else {
            if found.is_empty() && named.is_none() {
                return Err(Error::not_found(path, "is a file; expected the directory of an array or an image"));
            }
            let reason = "no entry in it has a header of a run: only those tell what was written";
            return Err(Error::unsupported(path, reason));
        };
        let own = found.into_iter().filter(|found| found.header.origin.archive == uuid);
        let (over, found): (Vec<_>, Vec<_>) = own.partition(|found| is_over(found, len, &taken));
        let looked: HashSet<u64> = found.iter().map(|found| found.header_at).collect();
        let mut entries = newest(&file, len, found, named).map_err(failed)?;
        for (name, said) in named.into_iter().flatten().filter(|(_, said)| !looked.contains(&said.header_at)) {
            let serial = entries.values().map(|known| known.header.origin.serial).max().unwrap_or(0) + 1;
            match listed_alone(&file, len, name, said).map_err(failed)? {
                Ok(Some((header, at))) => {
                    let origin = Origin { archive: uuid, serial, ..header.origin };
                    let header = Header { origin, ..header };
                    entries.insert(name.clone(), FoundEntry { header_at: at, content: header.content, header });
                }
                Ok(None) => {}
                Err(reason) => return Err(Error::format(path, reason)),
            }
        }
        let is_within = |at: &u64| entries.values().any(|known| (known.header_at..end(known)).contains(at));
        let stale = over.iter().filter(|over| over.header.origin.kind.is_shard()).map(|over| over.header_at);
        let stale = stale.filter(|at| !is_within(at)).collect();
        let shown = entries.iter().map(|(name, found)| {
            let FoundEntry { header_at, content, .. } = *found;
            let entry = Entry { content, stored_bytes: content.len, method: Method::Stored, header_at };
            (name.clone(), entry)
        });
        let shown = OpenArchive::new(file, shown.collect(), len);
        let is_behind = named != Some(&shown.entries);
        let pin = Mutex::new(Some(pin(path, shown)?));
        Ok(Self { path: path.to_path_buf(), uuid, entries, stale, is_behind, pin })
    }

    /// The archive, to be changed.
    pub(super) fn edit(&self) -> Result<(Arc<Archive>, ArchiveView)> {
        let open = || {
            let file = open_unfollowed(File::options().read(true).write(true), &self.path)?;
            // What is put behind the end makes the file as long again as it was: the next recovery would find an entry.
            // One that ends with a directory of all that is in it was not cut off.
            if self.is_behind && !self.stale.is_empty() {
                self.stale.iter().try_for_each(|at| file.write_all_at(&[0; SIGNATURE.len()], *at))?;
                file.sync_data()?;
            }
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

/// All headers, in the order of their places. `taken`: where others must stand, and the directory.
fn scan(file: &File, len: u64, taken: &BTreeSet<u64>) -> io::Result<Vec<FoundEntry>> {
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
                let entry = FoundEntry { header_at: at, content: header.content, header };
                let next = match entry.header.origin.kind {
                    kind if kind.is_shard() && !is_over(&entry, len, taken) => end(&entry).next_multiple_of(PAGE),
                    // A kill may have left no more of it than its header, and others may stand in its place by now.
                    _ => at + PAGE,
                };
                found.push(entry);
                next
            }
            None => at + PAGE,
        };
    }
    Ok(found)
}

/// One past the bytes of an entry.
fn end(found: &FoundEntry) -> u64 {
    found.data_at().saturating_add(found.content.len)
}

/// Whether an entry is cut off with the file of `len` bytes, or others stand in its place by now.
fn is_over(found: &FoundEntry, len: u64, taken: &BTreeSet<u64>) -> bool {
    end(found) > len || taken.range(found.header_at + 1..end(found)).next().is_some()
}

/// The header at a place, if it is whole.
fn header_at(file: &File, at: u64, len: u64) -> io::Result<Option<Header>> {
    let mut bytes = vec![0; (2 * PAGE).min(len - at) as usize];
    file.read_exact_at(&mut bytes, at)?;
    Ok(local::decode(&bytes).filter(|header| {
        // Of its room, the rest may have been cut off, or is in use for documents.
        header.content.len <= header.origin.room && check_name(&header.name).is_ok()
    }))
}

/// Of the entries of each name, the newest that counts. Of documents these are those that the directory names, if there
/// is one: others were not meant to be there yet, or not any more.
fn newest(
    file: &File,
    len: u64,
    found: Vec<FoundEntry>,
    named: Option<&BTreeMap<String, Entry>>,
) -> io::Result<BTreeMap<String, FoundEntry>> {
    let mut entries: BTreeMap<String, FoundEntry> = BTreeMap::new();
    for mut entry in found {
        let data_at = entry.data_at();
        let said = named.and_then(|named| named.get(&entry.header.name));
        let said = said.filter(|said| said.header_at == entry.header_at).map(|said| said.content);
        // What a header says of its entry is in none of its checksums.
        if let Some(said) = said.filter(|said| *said != entry.header.content)
            && holds(file, len, data_at, said)?
        {
            entry.content = said;
        }
        let FoundEntry { header_at, header, content } = &entry;
        let is_newer = |known: &FoundEntry| known.header.origin.serial < header.origin.serial;
        let counts = match (header.origin.kind, named) {
            (Kind::Growing | Kind::Closed, _) => true,
            (Kind::Whole, Some(named)) => named.get(&header.name).is_some_and(|named| named.header_at == *header_at),
            (Kind::Whole, None) => holds(file, len, data_at, *content)?,
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

/// Whether the bytes at a place are those that a CRC-32 was made of.
fn holds(file: &File, len: u64, at: u64, content: Content) -> io::Result<bool> {
    let is_inside = at.checked_add(content.len).is_some_and(|end| end <= len);
    Ok(is_inside && crc32_at(file, at, content.len)? == content.crc32)
}

/// An entry that the directory names and whose header is damaged, with a header that would be right, and its place:
/// slot headers vouch for what is in it. An error, with the reason, where readers would not find its bytes, though they
/// are whole; `None` where neither they nor the header are.
fn listed_alone(file: &File, len: u64, name: &str, said: &Entry) -> io::Result<Result<Option<(Header, u64)>, String>> {
    let Entry { content, header_at, .. } = *said;
    let mut start = vec![0; (FIXED_BYTES + name.len()).min(len.saturating_sub(header_at) as usize)];
    file.read_exact_at(&mut start, header_at)?;
    let by_header = data_at(&start, name, said, len).ok();
    let [growing, whole] = [PAGE as usize, 1].map(|align| header_at + local::bytes(name, align) as u64);
    if let Some(data_at) = by_header.filter(|at| said.method == Method::Stored && [growing, whole].contains(at)) {
        let kind = if data_at == growing { Kind::Growing } else { Kind::Whole };
        let room = (data_at + content.len).next_multiple_of(PAGE) - data_at;
        let origin = Origin { kind, archive: WRITTEN_AT_ONCE, serial: 0, room };
        let header = Header { name: name.to_owned(), content, origin, bytes: data_at - header_at };
        return Ok(Ok(Some((header, header_at))));
    }
    let mut is_there = said.method == Method::Deflated;
    for at in [growing, whole].into_iter().chain(by_header) {
        is_there = is_there || holds(file, len, at, content)?;
    }
    let reason = format!(
        "the header before its entry {name} is not as its writer wrote it, and the entry is whole; nothing is changed"
    );
    Ok(if is_there { Err(reason) } else { Ok(None) })
}
