//! The lock that a writer holds on its dataset, seen from outside.

use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::error::{Error, Result};

/// The file that a writer locks; it stays behind when the writer is killed.
pub(super) const LOCK_FILE: &str = ".shardwright.lock";

/// The dataset's lock, held. Nobody else writes to it meanwhile.
#[derive(Debug)]
pub(super) struct Lock {
    path: PathBuf,
    _file: File,
}

/// Looks whether a writer is at work, without keeping it from anything.
///
/// # Errors
///
/// [`Error::Locked`] when one is.
pub(super) fn look(root: &Path) -> Result<()> {
    let path = root.join(LOCK_FILE);
    match fs::symlink_metadata(&path) {
        Err(_) => return Ok(()),
        // Opening a pipe would wait for ever; and no writer locks anything but a file.
        Ok(metadata) if !metadata.is_file() => return Err(not_a_file(&path)),
        Ok(_) => {}
    }
    match File::open(&path) {
        Ok(file) => {
            flock(&file, FlockOperation::NonBlockingLockShared).map_err(|_| Error::Locked { path: root.to_path_buf() })
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::io("open", &path, error)),
    }
}

fn not_a_file(path: &Path) -> Error {
    Error::format(path, "is not a regular file; a writer's lock file is one")
}

impl Lock {
    /// Takes the lock.
    ///
    /// # Errors
    ///
    /// [`Error::Locked`] when a writer holds it.
    pub(super) fn take(root: &Path) -> Result<Self> {
        let path = root.join(LOCK_FILE);
        loop {
            if fs::symlink_metadata(&path).is_ok_and(|metadata| !metadata.is_file()) {
                return Err(not_a_file(&path));
            }
            let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
            let file = file.map_err(|error| Error::io("open", &path, error))?;
            flock(&file, FlockOperation::NonBlockingLockExclusive)
                .map_err(|_| Error::Locked { path: root.to_path_buf() })?;
            // Its last holder may have removed the file between the opening and the locking; then the lock means nothing.
            let held = file.metadata().map(|metadata| metadata.ino());
            let there = fs::metadata(&path).map(|metadata| metadata.ino());
            if let (Ok(held), Ok(there)) = (held, there)
                && held == there
            {
                return Ok(Self { path, _file: file });
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Still locked: who opens the file before this keeps it from being taken for a lock.
        let _ = fs::remove_file(&self.path);
    }
}
