//! Moves the shards of a part to their places in the run's array.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::part::{FoundPart, Said};
use crate::config::PartBy;
use crate::error::{Error, Result};
use crate::format::keys::{KeyEncoding, Prefix};
use crate::format::part::PartMap;
use crate::fs::folders_below;
use crate::fs::system::{rename_new, sync_folder};

/// The folder of an image's shards.
const SHARDS: &str = "0/c";

/// Moves all shards of a part. Those that an earlier call has moved are not there any more.
pub(super) fn r#move(root: &Path, part: &FoundPart) -> Result<()> {
    let Some(Said { map, .. }) = &part.said else { return Ok(()) };
    let (from, to) = (part.folder.join(SHARDS), root.join(SHARDS));
    let mut moves = Moves { root, changed: BTreeSet::new() };
    match map.by {
        // A row of shards is a folder.
        PartBy::Time => moves.rows(&from, &to, map)?,
        PartBy::Frame => moves.files(&part.folder.join("0"), &from, &root.join("0"), map)?,
    }
    moves.settle()
}

struct Moves<'a> {
    root: &'a Path,
    /// Folders in which names changed.
    changed: BTreeSet<PathBuf>,
}

impl Moves<'_> {
    fn rows(&mut self, from: &Path, to: &Path, map: &PartMap) -> Result<()> {
        for (name, path) in entries(from)? {
            let row = name.parse::<u64>().ok().filter(|row| row.to_string() == name);
            let Some(of_run) = row.and_then(|row| map.row(row)) else { return Err(stranger(&path)) };
            self.one(&path, &to.join(of_run.to_string()))?;
        }
        Ok(())
    }

    fn files(&mut self, array: &Path, folder: &Path, to: &Path, map: &PartMap) -> Result<()> {
        for (_, path) in entries(folder)? {
            if fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir()) {
                self.files(array, &path, to, map)?;
                continue;
            }
            let key = path.strip_prefix(array).unwrap_or(&path).to_string_lossy().into_owned();
            let Some(key) = key_in_run(map, &key) else { return Err(stranger(&path)) };
            self.one(&path, &to.join(key))?;
        }
        Ok(())
    }

    fn one(&mut self, from: &Path, to: &Path) -> Result<()> {
        if let (Some(old), Some(new)) = (from.parent(), to.parent()) {
            if !self.changed.contains(new) {
                folders_below(self.root, new)?;
                // Folders that were made last with their names.
                let above = new.ancestors().skip(1).take_while(|above| above.starts_with(self.root));
                self.changed.extend(above.map(Path::to_path_buf));
            }
            self.changed.extend([old.to_path_buf(), new.to_path_buf()]);
        }
        rename_new(from, to).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty => {
                let reason =
                    format!("is in the way of {}, of a part of the run; move one of them away", from.display());
                Error::conflict(to, reason)
            }
            _ => Error::io("rename to", to, error),
        })
    }

    /// What was moved stays so.
    fn settle(self) -> Result<()> {
        self.changed.iter().try_for_each(|folder| sync_folder(folder).map_err(|error| Error::io("sync", folder, error)))
    }
}

/// The key that a part's shard has in the array of the run.
pub(super) fn key_in_run(map: &PartMap, key: &str) -> Option<String> {
    let keys = KeyEncoding::of_writer(Prefix::Part);
    let mut position = keys.position(key, key.split('/').count() - 1)?;
    match &mut position[..] {
        [row, ..] if map.by == PartBy::Time => *row = map.row(*row)?,
        [.., y, x] => (*y, *x) = (y.checked_add(map.first[0])?, x.checked_add(map.first[1])?),
        _ => return None,
    }
    Some(keys.key(&position))
}

fn stranger(path: &Path) -> Error {
    Error::conflict(path, "is no shard of a part; move it away")
}

/// The names in a folder, in order; none where there is no folder.
fn entries(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    let failed = |error| Error::io("look into", folder, error);
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        found.push((entry.file_name().to_string_lossy().into_owned(), entry.path()));
    }
    found.sort();
    Ok(found)
}
