//! Files and folders that appear as a whole, and names that last.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::error::{Error, Result};

/// The name beside `path` under which its successor is made: hidden, and in the same folder, so that a rename suffices.
pub(crate) fn hidden(path: &Path, suffix: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{suffix}"))
}

/// Creates a file under a name that others can foresee: what stands there, left by a call that was killed or put there by
/// somebody, is removed, never followed nor written.
pub(crate) fn create_new(path: &Path) -> io::Result<File> {
    let open = || File::options().read(true).write(true).create_new(true).open(path);
    match open() {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            open()
        }
        other => other,
    }
}

/// Creates a folder and those above it that are not there, each of which lasts when this returns. Returns those that were
/// created, the innermost first.
pub(crate) fn make_folders(path: &Path) -> io::Result<Vec<PathBuf>> {
    let missing: Vec<_> =
        path.ancestors().take_while(|above| !above.as_os_str().is_empty() && !above.exists()).collect();
    let mut made = Vec::new();
    for folder in missing.into_iter().rev() {
        match fs::create_dir(folder) {
            Ok(()) => made.insert(0, folder.to_path_buf()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => {}
            Err(error) => {
                made.iter().for_each(|folder| drop(fs::remove_dir(folder)));
                return Err(error);
            }
        }
        if let Some(parent) = folder.parent() {
            File::open(parent).and_then(|parent| parent.sync_all())?;
        }
    }
    Ok(made)
}

/// `path` without links, also where nothing is there yet.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf> {
    let failed = |error| Error::io("find", path, error);
    if let Ok(found) = path.canonicalize() {
        return Ok(found);
    }
    let path = std::path::absolute(path).map_err(failed)?;
    match (path.parent().and_then(|parent| parent.canonicalize().ok()), path.file_name()) {
        (Some(parent), Some(name)) => Ok(parent.join(name)),
        _ => Ok(path),
    }
}

/// Lets the finished folder `made` take the name `path`. What was there, if anything, is removed afterwards.
pub(crate) fn publish(made: &Path, path: &Path) -> Result<()> {
    match renameat_with(CWD, made, CWD, path, RenameFlags::NOREPLACE) {
        Ok(()) => return sync_folder_of(path),
        Err(Errno::EXIST | Errno::NOTEMPTY) => {}
        // The file system has no such rename; an empty folder may be replaced, anything else is refused below.
        Err(Errno::INVAL | Errno::NOSYS) if !path.exists() => {
            fs::rename(made, path).map_err(|error| Error::io("rename to", path, error))?;
            return sync_folder_of(path);
        }
        Err(error) => return Err(Error::io("rename to", path, error)),
    }
    exchange(made, path)?;
    fs::remove_dir_all(made).map_err(|error| Error::io("remove the replaced", made, error))
}

/// Lets two folders change their places, in one step where the file system can.
pub(crate) fn exchange(made: &Path, path: &Path) -> Result<()> {
    let failed = |error: io::Error| Error::io("replace", path, error);
    sync_folder_of(made)?;
    match renameat_with(CWD, made, CWD, path, RenameFlags::EXCHANGE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            let aside = hidden(path, "replaced");
            fs::rename(path, &aside).map_err(failed)?;
            fs::rename(made, path).or_else(|error| fs::rename(&aside, path).and(Err(error))).map_err(failed)?;
            fs::rename(&aside, made).map_err(failed)?;
        }
        other => other.map_err(|error| failed(error.into()))?,
    }
    sync_folder_of(made)?;
    sync_folder_of(path)
}

/// Finishes what a kill left of an [`exchange`] on a file system that has none: where `path` is gone and what was moved aside is
/// there, that gets its name again.
pub(crate) fn finish_exchange(path: &Path) -> Result<()> {
    let aside = hidden(path, "replaced");
    let is_folder = |path: &Path| fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir());
    if fs::symlink_metadata(path).is_ok() || !is_folder(&aside) {
        return Ok(());
    }
    fs::rename(&aside, path).map_err(|error| Error::io("give its name back to", &aside, error))?;
    sync_folder_of(path)
}

/// Creates the folders from `root` down to `path`, none of them behind a link: what somebody planted there would lead elsewhere.
pub(crate) fn folders_below(root: &Path, path: &Path) -> Result<()> {
    let below = path.strip_prefix(root).map_err(|_| Error::format(path, format!("is not below {}", root.display())))?;
    let mut folder = root.to_path_buf();
    for name in below.components() {
        folder.push(name);
        match fs::symlink_metadata(&folder) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => {
                return Err(Error::format(&folder, "is no folder, or a link to one; nothing is written behind a link"));
            }
            Err(_) => match fs::create_dir(&folder) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => made.map_err(|error| Error::io("create", &folder, error))?,
            },
        }
    }
    Ok(())
}

/// Removes every link below a folder, and follows none.
pub(crate) fn remove_links(folder: &Path) -> Result<()> {
    let failed = |error| Error::io("look into", folder, error);
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_symlink() {
            fs::remove_file(entry.path()).map_err(failed)?;
        } else if kind.is_dir() {
            remove_links(&entry.path())?;
        }
    }
    Ok(())
}

/// Makes the names in the folder of `path` last.
pub(crate) fn sync_folder_of(path: &Path) -> Result<()> {
    let Some(parent) = path.parent() else { return Ok(()) };
    File::open(parent).and_then(|parent| parent.sync_all()).map_err(|error| Error::io("sync", parent, error))
}

/// Writes a small file as a whole: under its name there are the old bytes or the new ones.
pub(crate) fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    let partial = hidden(path, "partial");
    let write = || {
        let mut file = create_new(&partial)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&partial, path)
    };
    write().map_err(|error| Error::io("write", path, error))?;
    sync_folder_of(path)
}
