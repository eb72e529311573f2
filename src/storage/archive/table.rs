//! What is in an archive, what its directory says of it, and what the next one will say.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::Value;

use super::space::Space;
use crate::format::zarr3::DOCUMENT;
use crate::format::zip::directory::{Directory, Named, comment, order};
use crate::format::zip::local::{self, Kind, Origin, PAGE};
use crate::format::zip::{Content, Modified};

/// An entry: a document, a block of records, or a shard.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// By which it is told from another one of its name.
    pub(super) serial: u64,
    pub(super) kind: Kind,
    pub(super) header_at: u64,
    pub(super) data_at: u64,
    /// Bytes from `data_at` that are its own now, and that were at first, as its header says.
    pub(super) room: u64,
    pub(super) first_room: u64,
    pub(super) content: Content,
    /// Whether the CRC-32 is known; else it has to be found out by reading.
    pub(super) is_known: bool,
    pub(super) modified: Modified,
    /// What the directory in the file says.
    pub(super) named: Option<Content>,
}

impl Entry {
    /// One that no directory names yet. `room`: bytes behind its header.
    pub(super) fn new(serial: u64, kind: Kind, header_at: u64, header_bytes: u64, room: u64, content: Content) -> Self {
        Self {
            serial,
            kind,
            header_at,
            data_at: header_at + header_bytes,
            room,
            first_room: room,
            content,
            is_known: true,
            modified: Modified::now(),
            named: None,
        }
    }

    pub(super) fn range(&self) -> Range<u64> {
        self.header_at..self.data_at + self.room
    }

    /// Its header, which ends where its data begin.
    pub(super) fn header(&self, name: &str, archive: [u8; 16]) -> Vec<u8> {
        let origin = Origin { kind: self.kind, archive, serial: self.serial, room: self.first_room };
        let align = if self.kind.is_shard() { PAGE as usize } else { 1 };
        local::encode(name, self.content, self.modified, &origin, align)
    }
}

/// The state of an archive that is being written.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) archive: [u8; 16],
    pub(super) end: u64,
    /// Where the directory stands that is in the file, what it names, and the comment behind it.
    pub(super) directory: Range<u64>,
    pub(super) names: Directory,
    pub(super) comment: String,
    pub(super) entries: BTreeMap<String, Entry>,
    /// Documents for the next directory.
    pub(super) staged: BTreeMap<String, Vec<u8>>,
    pub(super) space: Space,
    pub(super) serials: u64,
    /// The directory in the file does not say all.
    pub(super) is_behind: bool,
}

/// What has to be written for a new directory, in this order.
#[derive(Debug)]
pub(super) struct Batch {
    /// Within the file.
    pub(super) writes: Vec<(u64, Vec<u8>)>,
    /// Behind its end: documents for which there is no room within.
    pub(super) appended: Vec<u8>,
    pub(super) names: Directory,
    pub(super) comment: String,
    documents: Vec<(String, Entry, Vec<u8>)>,
    /// What the directory says, by serials.
    named: BTreeMap<u64, Content>,
}

impl Table {
    pub(super) fn next_serial(&mut self) -> u64 {
        self.serials += 1;
        self.serials
    }

    /// The entry `key`, as long as it is the one of this serial.
    pub(super) fn entry(&mut self, key: &str, serial: u64) -> Option<&mut Entry> {
        self.entries.get_mut(key).filter(|entry| entry.serial == serial)
    }

    /// Adds an entry, in the place of what has its name.
    pub(super) fn insert(&mut self, key: String, entry: Entry) {
        self.is_behind = true;
        if let Some(before) = self.entries.insert(key, entry) {
            let free = self.let_go(&before);
            free.into_iter().for_each(|range| self.space.give(range));
        }
    }

    /// Cuts an entry off. `content`: what counts of it from the next directory on.
    pub(super) fn cut(&mut self, key: &str, serial: u64, content: Content, is_known: bool) {
        let Some(entry) = self.entry(key, serial) else { return };
        (entry.content, entry.is_known, entry.kind) = (content, is_known, Kind::Closed);
        let end = entry.data_at + entry.room;
        entry.room = (entry.data_at + content.len).next_multiple_of(PAGE).min(end) - entry.data_at;
        let unused = entry.data_at + entry.room..end;
        self.is_behind = true;
        self.space.retire(unused);
    }

    /// Removes an entry. Returns the range that nothing needs any more, if any, for the caller to give to the space.
    pub(super) fn remove(&mut self, key: &str) -> Option<Range<u64>> {
        self.staged.remove(key);
        let entry = self.entries.remove(key)?;
        self.is_behind = true;
        self.let_go(&entry)
    }

    fn let_go(&mut self, entry: &Entry) -> Option<Range<u64>> {
        // A directory that is being written may be the first one to name it, and its header is written with that.
        if entry.named.is_none() && !self.space.is_writing() {
            return Some(entry.range());
        }
        self.space.retire(entry.range());
        None
    }

    /// The file has become longer, and ends with a directory that begins there. It may say what the one before did.
    pub(super) fn moved(&mut self, directory_at: u64, end: u64) {
        self.space.retire(self.directory.clone());
        self.directory = directory_at..end;
        self.end = end;
    }

    /// Where the file is made longer. Only one that was finished once ends within a page.
    pub(super) fn append_at(&self) -> u64 {
        self.end.next_multiple_of(PAGE)
    }

    /// What is to be done so that the directory says all; `None`: nothing. `is_full`: what is free within the file may
    /// be a hole, for which the disk has no room.
    pub(super) fn plan(&mut self, is_full: bool) -> Option<Batch> {
        if !self.is_behind && self.staged.is_empty() {
            return None;
        }
        let staged = std::mem::take(&mut self.staged);
        let root = staged.get(DOCUMENT).and_then(|bytes| serde_json::from_slice::<Value>(bytes).ok());
        let comment = root.map_or_else(|| self.comment.clone(), |root| comment(&root["attributes"]));
        let (mut writes, mut appended, mut documents) = (self.headers(), Vec::new(), Vec::new());
        let mut staged: Vec<_> = staged.into_iter().collect();
        staged.sort_by(|(one, _), (other, _)| order(one).cmp(&order(other)));
        for (key, bytes) in staged {
            let (entry, file) = self.place(&key, &bytes, self.append_at() + appended.len() as u64, is_full);
            match entry.header_at < self.end {
                true => writes.push((entry.header_at, file)),
                false => appended.extend(file),
            }
            documents.push((key, entry, bytes));
        }
        let mut all: BTreeMap<_, _> =
            self.entries.iter().map(|(key, entry)| (order(key), (key.as_str(), entry))).collect();
        all.extend(documents.iter().map(|(key, entry, _)| (order(key), (key.as_str(), entry))));
        let (mut names, mut named) = (Directory::default(), BTreeMap::new());
        for (name, entry) in all.values() {
            let Entry { content, modified, header_at, .. } = **entry;
            names.add(&Named { name, content, modified, header_at });
            named.insert(entry.serial, content);
        }
        self.is_behind = false;
        self.space.begin_directory();
        Some(Batch { writes, appended, names, comment, documents, named })
    }

    /// Documents for which there is room nearer to the start of the file, in the order in which they are placed.
    pub(super) fn movable(&self) -> Vec<(String, Entry)> {
        let mut space = self.space.clone();
        let mut documents: Vec<_> = self.entries.iter().filter(|(_, entry)| entry.kind == Kind::Whole).collect();
        documents.sort_by_key(|(key, _)| order(key));
        let moves = documents.into_iter().filter(|(_, entry)| {
            let len = (entry.data_at - entry.header_at + entry.content.len).next_multiple_of(PAGE);
            space.has_before(len, entry.header_at) && space.take(len).is_some()
        });
        moves.map(|(key, entry)| (key.clone(), entry.clone())).collect()
    }

    /// The headers that say something else than the next directory will.
    fn headers(&mut self) -> Vec<(u64, Vec<u8>)> {
        let archive = self.archive;
        let is_stale = |(_, entry): &(&String, &mut Entry)| entry.named != Some(entry.content);
        let stale = self.entries.iter_mut().filter(is_stale);
        stale
            .map(|(key, entry)| {
                entry.modified = Modified::now();
                (entry.header_at, entry.header(key, archive))
            })
            .collect()
    }

    /// Finds a place for a document, in the file or at `end`, and returns its bytes, in whole pages.
    fn place(&mut self, key: &str, bytes: &[u8], end: u64, is_full: bool) -> (Entry, Vec<u8>) {
        let header_bytes = local::bytes(key, 1) as u64;
        // A document of Zarr that grows a little shall find room where its first version was, which is in front of all
        // shards.
        let is_first = order(key).0 == order(DOCUMENT).0 && !self.entries.contains_key(key);
        let spare = if is_first { PAGE } else { 0 };
        let file_bytes = (header_bytes + bytes.len() as u64).next_multiple_of(PAGE) + spare;
        let header_at = if is_full { None } else { self.space.take(file_bytes) }.unwrap_or(end);
        let room = file_bytes - header_bytes;
        let entry = Entry::new(self.next_serial(), Kind::Whole, header_at, header_bytes, room, Content::of(bytes));
        let mut file = entry.header(key, self.archive);
        file.extend_from_slice(bytes);
        file.resize(file_bytes as usize, 0);
        (entry, file)
    }

    /// What was planned is in the file.
    pub(super) fn commit(&mut self, batch: Batch, directory_at: u64, end: u64) -> Vec<Range<u64>> {
        self.space.end_directory();
        self.moved(directory_at, end);
        self.names = batch.names;
        self.comment = batch.comment;
        let was_behind = self.is_behind;
        for (key, entry, _) in batch.documents {
            self.insert(key, entry);
        }
        self.is_behind = was_behind;
        for entry in self.entries.values_mut() {
            entry.named = batch.named.get(&entry.serial).copied();
        }
        self.space.next_directory()
    }

    /// What was planned could not be written.
    pub(super) fn take_back(&mut self, batch: Batch) {
        self.space.give_directory_up();
        self.is_behind = true;
        for (key, entry, bytes) in batch.documents {
            if entry.header_at < self.end {
                self.space.give(entry.range());
            }
            self.staged.entry(key).or_insert(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "0/c/0";
    /// What a shard leaves that is cut to one page.
    const TAIL: Range<u64> = 2 * PAGE..4 * PAGE;

    /// A table with a shard of three pages behind its header, and its serial.
    fn with_shard() -> (Table, u64) {
        let mut table = Table { end: 4 * PAGE, ..Table::default() };
        let serial = table.next_serial();
        let content = Content { crc32: 1, len: 3 * PAGE };
        table.insert(KEY.to_owned(), Entry::new(serial, Kind::Growing, 0, PAGE, 3 * PAGE, content));
        (table, serial)
    }

    fn commit(table: &mut Table, batch: Batch) {
        let at = table.append_at();
        table.commit(batch, at, at + PAGE);
    }

    fn settle(table: &mut Table) {
        let batch = table.plan(false).unwrap();
        commit(table, batch);
    }

    fn cut(table: &mut Table, serial: u64) {
        table.cut(KEY, serial, Content { crc32: 2, len: PAGE }, true);
    }

    #[test]
    fn what_is_cut_off_while_a_directory_is_written_stays_until_the_next_one() {
        for is_written in [true, false] {
            let (mut table, serial) = with_shard();
            settle(&mut table);
            table.entry(KEY, serial).unwrap().content.crc32 = 3;
            table.is_behind = true;
            let batch = table.plan(false).unwrap();
            cut(&mut table, serial);
            match is_written {
                true => commit(&mut table, batch),
                false => table.take_back(batch),
            }
            assert!(!table.space.release(1).contains(&TAIL), "the newest directory names it");
            settle(&mut table);
            assert!(table.space.release(1).contains(&TAIL), "none names it any more");
        }
    }

    #[test]
    fn what_is_removed_while_the_first_directory_is_written_that_names_it_stays_until_the_next_one() {
        let (mut table, _) = with_shard();
        let batch = table.plan(false).unwrap();
        assert_eq!(table.remove(KEY), None);
        commit(&mut table, batch);
        assert!(table.space.release(1).is_empty());
        settle(&mut table);
        assert!(table.space.release(1).contains(&(0..4 * PAGE)));
        // What no directory is to name is free at once.
        let (mut table, _) = with_shard();
        assert_eq!(table.remove(KEY), Some(0..4 * PAGE));
    }

    /// What the directory itself has left was named by the one before.
    #[test]
    fn what_a_directory_leaves_is_in_order_with_what_others_do() {
        let (mut table, serial) = with_shard();
        settle(&mut table);
        let first = table.directory.clone();
        table.entry(KEY, serial).unwrap().content.crc32 = 3;
        table.is_behind = true;
        let batch = table.plan(false).unwrap();
        cut(&mut table, serial);
        commit(&mut table, batch);
        assert_eq!(table.space.release(1), [first]);
    }
}
