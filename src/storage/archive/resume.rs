//! Goes on with an archive whose writer was stopped.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::file::Archive;
use super::table::Entry;
use crate::format::zarr3::DOCUMENT;
use crate::format::zip::Modified;
use crate::format::zip::directory::comment;
use crate::format::zip::local::{Header, PAGE};
use crate::fs::system::{self, FileExt};

/// An entry by its header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundEntry {
    pub(crate) header_at: u64,
    pub(crate) header: Header,
}

impl FoundEntry {
    /// Where its bytes begin.
    pub(crate) fn data_at(&self) -> u64 {
        self.header_at + self.header.bytes
    }
}

impl Archive {
    /// The archive in `file`, in which there is what was found, by names. What lies between is left alone. `is_behind`:
    /// its directory says something else.
    pub(crate) fn resume(
        file: File,
        path: &Path,
        uuid: [u8; 16],
        found: &BTreeMap<String, FoundEntry>,
        is_behind: bool,
    ) -> io::Result<Self> {
        let end = file.metadata()?.len();
        let archive = Self::begin(Arc::new(file), path, uuid)?;
        let mut table = archive.table();
        table.end = end;
        table.directory = end..end;
        table.is_behind = is_behind;
        for (name, found) in found {
            table.serials = table.serials.max(found.header.origin.serial);
            table.entries.insert(name.clone(), entry(found));
        }
        let root = found.get(DOCUMENT).map(|root| {
            let mut bytes = vec![0; root.header.content.len as usize];
            archive.file.read_exact_at(&mut bytes, root.data_at()).map(|()| bytes)
        });
        let root = root.transpose()?.and_then(|bytes| serde_json::from_slice::<serde_json::Value>(&bytes).ok());
        table.comment = root.map(|root| comment(&root["attributes"])).unwrap_or_default();
        drop(table);
        Ok(archive)
    }

    /// Lets `write` change what stands in an entry, and cuts it off at `len` bytes. `write` gets the place of its first
    /// byte in the file.
    pub(crate) fn rewrite(
        &self,
        key: &str,
        len: u64,
        write: impl FnOnce(&File, u64) -> io::Result<()>,
    ) -> io::Result<()> {
        let entry = self.table().entries.get(key).cloned();
        let entry = entry.filter(|entry| len <= entry.room).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("the archive has no {key} of {len} bytes"))
        })?;
        write(&self.file, entry.data_at)?;
        let mut table = self.table();
        table.is_behind = true;
        let Some(found) = table.entry(key, entry.serial) else { return Ok(()) };
        found.content.len = len;
        found.is_known = false;
        let end = found.data_at + found.room;
        found.room = (found.data_at + len).next_multiple_of(PAGE).min(end) - found.data_at;
        let unused = found.data_at + found.room..end;
        table.space.retire(unused);
        Ok(())
    }

    /// Gives back to the disk what no entry needs any more.
    pub(crate) fn release(&self) {
        let freed = self.table().space.release(1);
        for range in freed {
            let _ = system::give_back(&self.file, range.start, range.end - range.start);
        }
    }
}

fn entry(found: &FoundEntry) -> Entry {
    let FoundEntry { header_at, header } = found;
    Entry {
        serial: header.origin.serial,
        kind: header.origin.kind,
        header_at: *header_at,
        data_at: found.data_at(),
        // What it had beside at first may be another's by now.
        room: header.content.len.next_multiple_of(PAGE).min(header.origin.room),
        first_room: header.origin.room,
        content: header.content,
        is_known: true,
        modified: Modified::now(),
        // Whether the directory names it or not: it is not to be written over.
        named: Some(header.content),
    }
}
