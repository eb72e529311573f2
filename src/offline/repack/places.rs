//! The paths of a call: what is repacked, and where the result goes.

use std::path::{Path, PathBuf};

use super::change::Change;
use crate::archive_file::{check_dialect, is_archive_name, refuse_archive_folder};
use crate::config::Dialect;
use crate::error::{Error, Result};
use crate::folder::refuse_file;
use crate::fs::{self as os, attributes, links, look};
use crate::replaceable::refuse_within_array;

/// The directory that is repacked, once an exchange that a kill cut short is finished.
pub(super) fn root_of(path: &Path, in_place: bool) -> Result<PathBuf> {
    os::finish_exchange(path)?;
    let root = look::canonicalize(path).map_err(|error| Error::io("open", path, error))?;
    if in_place {
        look::refuse_archive(&root)?;
    }
    if !look::is_root(&root) {
        return Err(look::no_root(&root));
    }
    links::enter(&root);
    Ok(root)
}

/// Refuses a place where no new dataset can be.
pub(super) fn check_out(root: &Path, out: &Path, dialect: Dialect) -> Result<()> {
    let refused = |reason: &str| Err(Error::config("out", out.display(), reason));
    let is_archive = is_archive_name(out);
    if is_archive {
        check_dialect(dialect)?;
    }
    let may_be_made = if is_archive { look::is_archive(out) } else { out.is_dir() };
    if out == root {
        return refused("is the dataset that is repacked: choose another path, or none");
    }
    if out.exists() && !may_be_made {
        return Err(Error::exists_for_good(out));
    }
    if out.starts_with(root) {
        return refused("lies in the dataset that is repacked; choose a path beside it");
    }
    refuse_within_array("out", out)?;
    refuse_archive_folder("out", out)?;
    // The folders above are made by who makes the first file.
    if out.ancestors().skip(1).any(Path::is_file) { Err(refuse_file(out)) } else { Ok(()) }
}

/// Refuses to change in place what a link out of the dataset leads to. `in_place`: file by file.
pub(super) fn refuse_outside(root: &Path, change: &Change, in_place: bool) -> Result<()> {
    let (array, folder) = (change.source.path(), change.source.folder());
    let Some(place) = (if in_place { Some(folder) } else { array.parent().filter(|_| array != root) }) else {
        return Ok(());
    };
    match place.canonicalize() {
        Ok(real) if !real.starts_with(root) => {
            let reason = "lies behind a link out of the dataset, and a call in place changes nothing outside of it: \
                          repack that by its own path, or write to a new dataset";
            Err(Error::conflict(array, reason))
        }
        _ => Ok(()),
    }
}

/// What to say where what is written again in place can't be whose it was. `old`: what it replaces.
pub(super) fn note_of_owner<'a>(mut old: impl Iterator<Item = &'a Path>) -> Option<String> {
    let theirs = old.find(|path| !attributes::may_keep_owner(path))?.display();
    Some(format!("{theirs} has an owner or a group that this process can't give: what is written again is its own"))
}

/// Lets a finished folder take the place of `old`, with the modes and owners of what is in that.
pub(super) fn take(made: &Path, old: &Path) -> Result<()> {
    attributes::keep_all(made, old).map_err(|error| Error::io("set the modes and owners below", made, error))?;
    os::exchange(made, old)
}
