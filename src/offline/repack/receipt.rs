//! By what a finished new dataset is known again, when the same call is made once more: a small hidden file beside the
//! first of its arrays, where readers don't look.
//!
//! It says of which dataset and with which options the result was made, and what the files of both were like then: how
//! many, their names, lengths and times of change. No pixel need be read to compare this with what is there now. What
//! was changed since on either side, moved, or copied without its times, is not taken for a finished result.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::options::RepackOptions;
use crate::error::{Error, Result};
use crate::fs::{self as os, Identity, LOCK_FILE, document, system};
use crate::offline::array::Array;
use crate::offline::hierarchy::RECEIPT;

const VERSION: u64 = 1;
const DEPTH_MAX: usize = 64;

/// Whether `out` is what the call would make.
pub(super) fn is_of(out: &Path, source: &Path, arrays: &[&Array], options: &RepackOptions) -> Result<bool> {
    let mut result = Listing::of(out)?;
    let [receipt] = &result.receipts[..] else { return Ok(false) };
    let Some(known) = document::read(receipt)? else { return Ok(false) };
    // What reached the device before it got its name is as good as what needn't.
    let synced = !options.sync || known["synced"] == Value::Bool(true);
    Ok(synced
        && known["version"] == VERSION
        && known["source"] == json!(source)
        && known["options"] == text(options)
        && known["files"] == result.fingerprint()
        && known["source_files"] == of_source(source, arrays)?)
}

/// What the files of a dataset, and those of others that its manifests name, are like now.
pub(super) fn of_source(source: &Path, arrays: &[&Array]) -> Result<String> {
    let mut listing = Listing::of(source)?;
    for array in arrays {
        // It may stand in the dataset around.
        listing.add(array.document())?;
        let Some(manifest) = array.manifest() else { continue };
        for path in manifest.ranges_by_path().into_keys() {
            manifest.local(path).map_or(Ok(()), |file| listing.add(&file))?;
        }
    }
    Ok(listing.fingerprint())
}

/// Leaves the receipt in the finished `tree`, as its last file. `folder`: of its first array. `source_files`: what the
/// source was like before any of it was read.
pub(super) fn leave(
    tree: &Path,
    folder: &Path,
    source: &Path,
    source_files: &str,
    options: &RepackOptions,
) -> Result<()> {
    fs::create_dir_all(folder).map_err(|error| Error::io("create", folder, error))?;
    let receipt = json!({
        "version": VERSION,
        "source": source,
        "options": text(options),
        "synced": options.sync,
        "source_files": source_files,
        "files": Listing::of(tree)?.fingerprint(),
    });
    os::put(&folder.join(RECEIPT), &document::render(&receipt))
}

/// The options that matter, as a text that is only compared.
fn text(options: &RepackOptions) -> String {
    format!("{:?}", options.of_result())
}

/// The files below a folder and what they are like.
#[derive(Debug, Default)]
struct Listing {
    lines: Vec<String>,
    receipts: Vec<PathBuf>,
}

impl Listing {
    fn of(folder: &Path) -> Result<Self> {
        let mut listing = Self::default();
        listing.folder(folder, "", 0, &mut HashSet::new())?;
        Ok(listing)
    }

    fn folder(&mut self, folder: &Path, key: &str, depth: usize, visited: &mut HashSet<Identity>) -> Result<()> {
        let metadata = fs::metadata(folder).map_err(|error| Error::io("look at", folder, error))?;
        // A link may lead back up.
        if depth > DEPTH_MAX || !visited.insert(Identity::from(&metadata)) {
            return Ok(());
        }
        for path in os::list(folder)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let key = format!("{key}/{name}");
            if path.is_dir() {
                self.folder(&path, &key, depth + 1, visited)?;
            } else if name == RECEIPT {
                self.receipts.push(path);
            } else if name != LOCK_FILE && !(name.starts_with('.') && name.ends_with(".partial")) {
                self.line(&key, &path)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, file: &Path) -> Result<()> {
        self.line(&file.to_string_lossy(), file)
    }

    fn line(&mut self, key: &str, path: &Path) -> Result<()> {
        match fs::metadata(path) {
            Ok(metadata) => {
                let (len, (seconds, nanoseconds)) = (metadata.len(), system::modified(&metadata));
                self.lines.push(format!("{key}\0{len} {seconds}.{nanoseconds}\n"));
            }
            // A link that leads nowhere, or a file that a manifest names and nobody has.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => self.lines.push(format!("{key}\0-\n")),
            Err(error) => return Err(Error::io("look at", path, error)),
        }
        Ok(())
    }

    /// A text that becomes another when a file does.
    fn fingerprint(&mut self) -> String {
        self.lines.sort();
        self.lines.dedup();
        // FNV-1a (Fowler, Noll, Vo; public domain), and a CRC, which fails otherwise than a product does.
        let (mut hash, mut crc) = (0xcbf2_9ce4_8422_2325_u64, 0);
        for line in &self.lines {
            hash = line.bytes().fold(hash, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
            crc = crc32c::crc32c_append(crc, line.as_bytes());
        }
        format!("{} files {hash:016x}{crc:08x}", self.lines.len())
    }
}
