//! Where what is recovered is written: a folder, or an archive.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use super::archive::FoundArchive;
use super::shard::NewIndex;
use super::source::name;
use crate::config::StorageKind;
use crate::error::{Error, Result};
use crate::format::index::Range;
use crate::fs::beneath::OpenRoot;
use crate::fs::links;
use crate::fs::system;
use crate::offline::repack::consolidated::Consolidated;
use crate::storage::{Archive, ArchiveView, Directory, Storage};

pub(super) enum RecoveryTarget<'a> {
    Folder { root: &'a Path, storage: Directory, below: OpenRoot },
    Archive { root: &'a Path, found: &'a FoundArchive, archive: Arc<Archive>, view: ArchiveView },
}

impl<'a> RecoveryTarget<'a> {
    /// `archive`: what is at `root`, if not a folder.
    pub(super) fn open(root: &'a Path, archive: Option<&'a FoundArchive>) -> Result<Self> {
        if let Some(found) = archive {
            let (archive, view) = found.edit()?;
            return Ok(Self::Archive { root, found, archive, view });
        }
        let storage = Directory::open(root, StorageKind::Buffered, true);
        let storage = storage.map_err(|error| Error::io("look at", root, error))?;
        Ok(Self::Folder { root, storage, below: OpenRoot::open(root)? })
    }

    /// Refuses a document or a block of records whose place leads elsewhere.
    pub(super) fn check(&self, key: &str) -> Result<()> {
        match self {
            Self::Folder { root, .. } => links::stays_below(root, &root.join(key)),
            // There are no links in it.
            Self::Archive { .. } => Ok(()),
        }
    }

    /// Puts a document, or a block of records, in the place of the one before.
    pub(super) fn put(&self, key: &str, bytes: &[u8]) -> Result<()> {
        let put = match self {
            Self::Folder { root, storage, below } => {
                below.make_folders(&root.join(key))?;
                storage.put(key, bytes)
            }
            Self::Archive { view, .. } => view.put(key, bytes),
        };
        put.map_err(|error| Error::io("write", key, error))
    }

    /// Writes into a file of several blocks of records, for good.
    pub(super) fn write_within(&self, key: &str, at: u64, bytes: &[u8]) -> Result<()> {
        match self {
            Self::Folder { storage, .. } => {
                storage.write_within(&[(key, at, bytes)]).map_err(|error| Error::io("write", key, error))
            }
            Self::Archive { .. } => {
                Err(Error::unsupported(Path::new(key), "is in an archive, whose writer makes none"))
            }
        }
    }

    /// What was put is on the device, for good.
    pub(super) fn settle(&self) -> Result<()> {
        let Self::Archive { root, archive, .. } = self else { return Ok(()) };
        archive.settle().map_err(|error| Error::io("write the directory of", *root, error))
    }

    pub(super) fn write_index(&self, path: &Path, index: &NewIndex) -> Result<()> {
        let written = match self {
            Self::Folder { below, .. } => index.write(&below.open_file(path)?),
            Self::Archive { root, archive, .. } => {
                archive.rewrite(&name(root, path), index.file_end(), |file, start| index.write_within(file, start))
            }
        };
        written.map_err(|error| Error::io("write a new index to", path, error))
    }

    /// A shard to which something is added.
    pub(super) fn open_shard(&self, path: &Path) -> Result<File> {
        match self {
            Self::Folder { below, .. } => below.open_file(path),
            Self::Archive { .. } => Err(Error::unsupported(path, "is in an archive, and can't grow there")),
        }
    }

    /// Makes a shard that has nothing but an index.
    pub(super) fn create(&self, path: &Path, index: &NewIndex) -> Result<()> {
        let Self::Folder { below, .. } = self else {
            return Err(Error::unsupported(path, "can't be made in an archive, whose readers need no empty shards"));
        };
        index.write(&below.create_file(path)?).map_err(|error| Error::io("write a new index to", path, error))
    }

    /// Gives what a shard has in some ranges back to the disk, where that is possible: they read as zeros then.
    pub(super) fn give_back(&self, path: &Path, ranges: &[Range]) -> Result<()> {
        let (file, start) = match self {
            Self::Folder { below, .. } => (Arc::new(below.open_file(path)?), 0),
            Self::Archive { root, archive, .. } => match archive.find(&name(root, path)) {
                Some((file, start, _)) => (file, start),
                None => return Ok(()),
            },
        };
        let mut given = ranges.iter().map(|range| system::give_back(&file, start + range.offset, range.nbytes));
        given.try_for_each(|given| given.map(drop)).map_err(|error| Error::io("give room back of", path, error))
    }

    /// Bytes that are free on its disk; `None`: nobody knows.
    pub(super) fn free_bytes(&self) -> Option<u64> {
        let (Self::Folder { root, .. } | Self::Archive { root, .. }) = self;
        File::open(root).and_then(|root| system::free_bytes(&root)).ok().flatten()
    }

    pub(super) fn remove(&self, path: &Path) -> Result<()> {
        match self {
            Self::Folder { below, .. } => below.remove_file(path),
            Self::Archive { root, view, .. } => {
                view.remove(&name(root, path)).map_err(|error| Error::io("remove", path, error))
            }
        }
    }

    /// All is done. `groups`: the names of those in which others may keep copies of documents.
    pub(super) fn finish(&self, groups: &[&str]) -> Result<()> {
        self.settle()?;
        match self {
            Self::Folder { root, .. } => Consolidated::around(root, groups)?.refresh(),
            // Its writer makes no copies of documents, and nobody else changes it.
            Self::Archive { found, archive, .. } => {
                archive.release();
                found.show_as_written();
                Ok(())
            }
        }
    }
}
