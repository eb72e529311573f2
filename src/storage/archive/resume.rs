//! Goes on with an archive whose writer was stopped.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::file::Archive;
use super::table::Entry;
use crate::format::zarr3::DOCUMENT;
use crate::format::zip::Content;
use crate::format::zip::directory::comment;
use crate::format::zip::local::{Header, PAGE};
use crate::fs::system::FileExt;

/// An entry by its header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundEntry {
    pub(crate) header_at: u64,
    pub(crate) header: Header,
    /// What is there, of which the header may tell something older.
    pub(crate) content: Content,
}

impl FoundEntry {
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
        self.table().cut(key, entry.serial, Content { len, ..entry.content }, false);
        Ok(())
    }

    /// Gives back to the disk what no entry needs any more.
    pub(crate) fn release(&self) {
        let freed = self.table().space.release(1);
        self.punch(freed);
    }
}

fn entry(found: &FoundEntry) -> Entry {
    let FoundEntry { header_at, header: Header { bytes, content: said, origin, .. }, content } = found;
    Entry {
        // What it had beside at first may be another's by now.
        room: content.len.next_multiple_of(PAGE).min(origin.room),
        // Whether the directory names it or not: it is not to be written over.
        named: Some(*said),
        ..Entry::new(origin.serial, origin.kind, *header_at, *bytes, origin.room, *content)
    }
}
