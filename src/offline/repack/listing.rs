//! What files are like, told without reading them: which there are, how long each is, and when it changed last.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::fs::{Identity, LOCK_FILE, look};
use crate::offline::array::Array;
use crate::offline::hierarchy::RECEIPT;

const DEPTH_MAX: usize = 64;

/// The files below a folder and what they are like.
#[derive(Debug, Default)]
pub(super) struct FileListing {
    lines: Vec<String>,
    /// Receipts of finished results, which are not listed.
    pub(super) receipts: Vec<PathBuf>,
}

impl FileListing {
    pub(super) fn of(folder: &Path) -> Result<Self> {
        let mut listing = Self::default();
        listing.folder(folder, "", 0, &mut HashSet::new())?;
        Ok(listing)
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
            if look::is_folder(&path) {
                self.folder(&path, &key, depth + 1, visited)?;
            } else if name == RECEIPT {
                self.receipts.push(path);
            } else if name != LOCK_FILE && !(name.starts_with('.') && name.ends_with(".partial")) {
                self.line(&key, &path)?;
            }
        }
        Ok(())
    }

    /// Adds the files of an array that lie in its folder.
    pub(super) fn add_chunks(&mut self, array: &Array) -> Result<()> {
        array.files()?.iter().try_for_each(|(path, _)| self.add(path))
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

    fn add(&mut self, file: &Path) -> Result<()> {
        self.line(&file.to_string_lossy(), file)
    }

    fn line(&mut self, key: &str, path: &Path) -> Result<()> {
        match look::stamp(path) {
            Ok((len, (seconds, nanoseconds))) => {
                self.lines.push(format!("{key}\0{len} {seconds}.{nanoseconds}\n"));
            }
            // A link that leads nowhere, or a file that a manifest names and nobody has.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => self.lines.push(format!("{key}\0-\n")),
            Err(error) => return Err(Error::io("look at", path, error)),
        }
        Ok(())
    }

    /// A text that becomes another when a file does.
    pub(super) fn fingerprint(&mut self) -> String {
        self.lines.sort();
        self.lines.dedup();
        let hash = self.lines.iter().fold(FNV_BASIS, |hash, line| fnv1a(hash, line.as_bytes()));
        format!("{} files {hash:032x}", self.lines.len())
    }
}

const FNV_BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const FNV_PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

/// FNV-1a of 128 bits (Fowler, Noll, Vo; public domain), of more bytes behind those that made `hash`.
fn fnv1a(hash: u128, bytes: &[u8]) -> u128 {
    bytes.iter().fold(hash, |hash, &byte| (hash ^ u128::from(byte)).wrapping_mul(FNV_PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the test vectors of the function's authors.
    #[test]
    fn the_hash_is_fnv_1a() {
        assert_eq!(fnv1a(FNV_BASIS, b""), FNV_BASIS);
        assert_eq!(fnv1a(FNV_BASIS, b"a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
        assert_eq!(fnv1a(FNV_BASIS, b"foobar"), 0x343e_1662_793c_64bf_6f0d_3597_ba44_6f18);
    }
}
