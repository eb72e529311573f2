//! Directories: each new one is appended, with the documents that are new, by one growth of the file, which is all or
//! nothing. So the file ends with a whole directory at each moment, and what that names is on the device.

use std::io;

use super::file::{Archive, Tail, directory_block};
use super::table::{Batch, Entry};
use crate::error::logged;
use crate::fs::archives::crc32_at;
use crate::fs::lease;
use crate::fs::system::{self, FileExt, is_no_room};
use crate::words::of_system;

impl Archive {
    /// Writes a directory that says all, if the one in the file doesn't.
    pub(crate) fn settle(&self) -> io::Result<()> {
        self.write_directory(&mut self.tail())
    }

    fn write_directory(&self, tail: &mut Tail) -> io::Result<()> {
        self.find_out_checksums();
        match self.write_planned(tail, false) {
            Err(error) if is_no_room(&error) => {
                self.give_all_back(tail);
                self.write_planned(tail, true)
            }
            other => other,
        }
    }

    /// On a full disk, documents need the room of those that they replace more than whoever is slow to read what an
    /// older directory names, and more than shards that were not begun. Best effort.
    fn give_all_back(&self, tail: &mut Tail) {
        let free: Vec<_> = {
            let mut table = self.table();
            table.space.release(1);
            table.space.give(std::mem::take(&mut tail.ahead));
            table.space.free().collect()
        };
        self.punch(free);
    }

    fn write_planned(&self, tail: &mut Tail, is_full: bool) -> io::Result<()> {
        let Some(mut batch) = self.table().plan(is_full) else { return Ok(()) };
        let (directory_at, end) = match self.append_batch(tail, &mut batch) {
            Ok(place) => place,
            Err(error) => {
                self.table().take_back(batch);
                return Err(error);
            }
        };
        let freed = self.table().commit(batch, directory_at, end);
        self.give_back(freed);
        self.sync_if_wanted()
    }

    /// Returns where the directory begins and ends.
    fn append_batch(&self, tail: &mut Tail, batch: &mut Batch) -> io::Result<(u64, u64)> {
        for (at, bytes) in &batch.writes {
            self.file.write_all_at(bytes, *at)?;
        }
        // What the directory will name has to be there before it.
        self.sync_if_wanted()?;
        let (end, at) = {
            let table = self.table();
            (table.end, table.append_at())
        };
        let documents = batch.appended.len() as u64;
        let block = directory_block(std::mem::take(&mut batch.appended), at, &batch.names, &batch.comment);
        self.extend(tail, end, at, &block)?;
        Ok((at + documents, at + block.len() as u64))
    }

    /// Reads entries back of which nobody knows what is in them, as after a write that failed.
    fn find_out_checksums(&self) {
        loop {
            let unknown = |(key, entry): (&String, &Entry)| (!entry.is_known).then(|| (key.clone(), entry.clone()));
            let Some((key, entry)) = self.table().entries.iter().find_map(unknown) else { return };
            let crc32 = crc32_at(&self.file, entry.data_at, entry.content.len).unwrap_or_else(|error| {
                let error = of_system(error);
                logged(|| tracing::error!(entry = key, %error, "can't be read back; its checksum is not known"));
                0
            });
            if let Some(found) = self.table().entry(&key, entry.serial) {
                found.content.crc32 = crc32;
                found.is_known = true;
            }
        }
    }

    /// Moves documents to where shards have left room, so that the file becomes shorter, and those of Zarr to its
    /// start.
    fn move_documents(&self, tail: &mut Tail) -> io::Result<()> {
        let movable = {
            let mut table = self.table();
            // Whoever is still at an older directory finds out that it is one.
            table.space.release(1);
            table.movable()
        };
        for (key, entry) in movable {
            let mut bytes = vec![0; entry.content.len as usize];
            self.file.read_exact_at(&mut bytes, entry.data_at)?;
            self.table().staged.entry(key).or_insert(bytes);
        }
        // On a full disk they may stay where they are.
        self.write_planned(tail, false).or_else(ignore_no_room)
    }

    /// Ends the archive: its directory follows the last entry, the file is cut off behind that, and what is free goes
    /// back to the disk.
    pub(crate) fn finish(&self) -> io::Result<()> {
        let mut tail = self.tail();
        if let Err(error) = self.write_directory(&mut tail) {
            if is_no_room(&error) {
                // What is reserved behind the end is for whoever recovers it.
                tail.reserved = 0;
                self.file.set_len(self.table().end)?;
            }
            return Err(error);
        }
        self.table().space.give(std::mem::take(&mut tail.ahead));
        self.move_documents(&mut tail)?;
        let (at, bytes, before) = {
            let mut table = self.table();
            table.space.release(1);
            let at = table.entries.values().map(|entry| entry.data_at + entry.content.len).max().unwrap_or(0);
            (at, table.names.at(at, &table.comment), table.directory.start)
        };
        let (mut end, mut free_end) = (self.table().end, before);
        if at + bytes.len() as u64 <= before {
            match self.file.write_all_at(&bytes, at) {
                Ok(()) => {
                    self.sync_if_wanted()?;
                    // What was free there holds the directory now.
                    (end, free_end) = (at + bytes.len() as u64, at);
                }
                // What stands there is no part of anything. The file may as well end with the directory that it has.
                Err(error) => ignore_no_room(error)?,
            }
        }
        if let Some(direct) = self.direct_if_open() {
            system::join_descriptors(&direct, &self.file);
        }
        // Also where that is its length already, since there is room reserved behind it.
        lease::unseen(&self.file, || self.file.set_len(end))?;
        let free: Vec<_> = {
            let mut table = self.table();
            table.end = end;
            let free = table.space.free().filter(|range| range.start < free_end);
            free.map(|range| range.start..range.end.min(free_end)).collect()
        };
        self.punch(free);
        self.sync_if_wanted()
    }
}

fn ignore_no_room(error: io::Error) -> io::Result<()> {
    if is_no_room(&error) { Ok(()) } else { Err(error) }
}
