//! Where a result may stand, and how it comes to stand there.

use std::fs;
use std::path::Path;

use crate::archive_file::{check_dialect, is_archive_name};
use crate::config::Dialect;
use crate::error::{Error, Result};
use crate::fs::{self as os, attributes, look};

/// Refuses a place for a new dataset in which something else is, or that lies in the old one.
pub(super) fn check_out(root: &Path, out: &Path, dialect: Dialect) -> Result<()> {
    if is_archive_name(out) {
        check_dialect(dialect)?;
    }
    let may_be_made = if is_archive_name(out) { look::is_archive(out) } else { out.is_dir() };
    if out == root {
        return Err(Error::config(
            "out",
            out.display(),
            "is the dataset that is repacked: choose another path, or none",
        ));
    }
    if out.exists() && !may_be_made {
        return Err(Error::Exists { path: out.to_path_buf() });
    }
    if out.starts_with(root) {
        return Err(Error::config(
            "out",
            out.display(),
            "lies in the dataset that is repacked; choose a path beside it",
        ));
    }
    match out.parent() {
        Some(parent) if !parent.is_dir() => {
            fs::create_dir_all(parent).map_err(|error| Error::io("create", parent, error))
        }
        _ => Ok(()),
    }
}

/// What to say where what is written anew in place can't be whose it was. `old`: what it replaces.
pub(super) fn note_of_owner<'a>(mut old: impl Iterator<Item = &'a Path>) -> Option<String> {
    let theirs = old.find(|path| !attributes::may_keep_owner(path))?.display();
    Some(format!("{theirs} has an owner or a group that this process can't give: what is written anew is its own"))
}

/// Lets a finished folder take the place of `old`, with the modes and owners of what is in that.
pub(super) fn take(made: &Path, old: &Path) -> Result<()> {
    attributes::keep_all(made, old).map_err(|error| Error::io("set the modes and owners below", made, error))?;
    os::exchange(made, old)
}
