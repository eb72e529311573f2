//! What files are like, told without reading them: which there are, how long each is, and when it changed last.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::fnv;
use crate::format::zip::Content;
use crate::fs::archives;
use crate::fs::look::{self, DEPTH_MAX};
use crate::fs::{Identity, LOCK_FILE, is_partial, links};
use crate::offline::array::Array;
use crate::offline::hierarchy::RECEIPT;

/// The files below a folder and what they are like.
#[derive(Debug, Default)]
pub(super) struct FileListing {
    /// The hash of each line: there may be a million.
    lines: Vec<u128>,
    /// Receipts of finished results, which are not listed.
    pub(super) receipts: Vec<PathBuf>,
}

impl FileListing {
    /// Of a folder or an archive.
    pub(super) fn of(folder: &Path) -> Result<Self> {
        if let Some(archive) = archives::find(folder)?.filter(|_| folder.is_file()) {
            return Ok(Self::of_archive(folder, archive.contents()));
        }
        let mut listing = Self::default();
        listing.folder(folder, "", 0, &mut HashSet::new())?;
        Ok(listing)
    }

    /// Of the files of an archive: each has a checksum, and no time of its own.
    pub(super) fn of_archive<'a>(path: &Path, contents: impl Iterator<Item = (&'a str, Content)>) -> Self {
        let mut listing = Self::default();
        for (name, Content { crc32, len }) in contents {
            match name.rsplit('/').next() == Some(RECEIPT) {
                true => listing.receipts.push(path.join(name)),
                false => listing.put(&format!("/{name}\0{len} {crc32:08x}\n")),
            }
        }
        listing
    }

    fn folder(
        &mut self,
        folder: &Path,
        key: &str,
        depth: usize,
        visited: &mut HashSet<(Identity, String)>,
    ) -> Result<()> {
        let identity = look::identity(folder).map_err(|error| Error::io("look at", folder, error))?;
        // A link may lead back up.
        if depth > DEPTH_MAX || !visited.insert(identity) {
            return Ok(());
        }
        for path in look::list(folder)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let key = format!("{key}/{name}");
            // What a link leads to outside is no part of the dataset, unless it may be.
            if look::is_folder(&path) && links::check(&path).is_ok() {
                self.folder(&path, &key, depth + 1, visited)?;
            } else if name == RECEIPT {
                self.receipts.push(path);
            } else if name != LOCK_FILE && !is_partial(&name) {
                self.line(&key, &path)?;
            }
        }
        Ok(())
    }

    /// Adds what an array is read from and may stand elsewhere: its document, which may be that of the dataset around,
    /// and the files that its manifest names.
    pub(super) fn add_references(&mut self, array: &Array) -> Result<()> {
        self.add(array.document())?;
        let Some(manifest) = array.manifest() else { return Ok(()) };
        self.add(&array.path().join(manifest.origin()))?;
        for path in manifest.ranges_by_path().into_keys() {
            manifest.local(path).map_or(Ok(()), |file| self.add(&file))?;
        }
        Ok(())
    }

    pub(super) fn add(&mut self, file: &Path) -> Result<()> {
        self.line(&file.to_string_lossy(), file)
    }

    fn line(&mut self, key: &str, path: &Path) -> Result<()> {
        match look::stamp(path) {
            Ok((len, (seconds, nanoseconds))) => {
                self.put(&format!("{key}\0{len} {seconds}.{nanoseconds}\n"));
            }
            // A link that leads nowhere, or to itself, or a file that a manifest names and nobody has.
            Err(error) if links::leads_nowhere(&error) => self.put(&format!("{key}\0-\n")),
            Err(error) => return Err(Error::io("look at", path, error)),
        }
        Ok(())
    }

    fn put(&mut self, line: &str) {
        self.lines.push(fnv::append(fnv::BASIS, line.as_bytes()));
    }

    /// A text that becomes another when a file does.
    pub(super) fn fingerprint(&mut self) -> String {
        self.lines.sort();
        self.lines.dedup();
        let hash = self.lines.iter().fold(fnv::BASIS, |hash, line| fnv::append(hash, &line.to_le_bytes()));
        format!("{} files {hash:032x}", self.lines.len())
    }
}
