//! One writer at a time: the lock that the live writer holds, and one for a folder in the making.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::error::{Error, Result};

/// The live writer holds a lock on this file in the dataset's root.
pub(super) const LOCK_FILE: &str = ".shardwright.lock";

/// Holds a dataset's lock until it is dropped.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
    /// The file that goes with the lock, if it came with it.
    made: Option<PathBuf>,
}

impl Lock {
    /// Takes the lock of the dataset that `path` is or belongs to, as its one writer.
    pub(super) fn to_write(path: &Path) -> Result<Self> {
        let root = root_of(path);
        let name = root.join(LOCK_FILE);
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(&name);
        let file = file.map_err(|error| Error::io("create", &name, error))?;
        hold(&file, FlockOperation::NonBlockingLockExclusive, root)?;
        Ok(Self { _file: file, made: Some(name) })
    }

    /// Makes sure that nobody writes the dataset that `path` is or belongs to. Where there is no lock file, nobody does.
    pub(super) fn to_read(path: &Path) -> Result<Option<Self>> {
        let root = root_of(path);
        let Ok(file) = File::open(root.join(LOCK_FILE)) else { return Ok(None) };
        hold(&file, FlockOperation::NonBlockingLockShared, root)?;
        Ok(Some(Self { _file: file, made: None }))
    }

    /// Keeps others from working in `folder` under the same name.
    pub(super) fn on_folder(folder: &Path) -> Result<Self> {
        let file = File::open(folder).map_err(|error| Error::io("open", folder, error))?;
        hold(&file, FlockOperation::NonBlockingLockExclusive, folder)?;
        Ok(Self { _file: file, made: None })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if let Some(made) = &self.made {
            let _ = fs::remove_file(made);
        }
    }
}

fn hold(file: &File, operation: FlockOperation, path: &Path) -> Result<()> {
    flock(file, operation).map_err(|_| Error::Locked { path: path.to_path_buf() })
}

/// The topmost group above `path`.
fn root_of(path: &Path) -> &Path {
    path.ancestors().take_while(|above| above.join("zarr.json").is_file()).last().unwrap_or(path)
}
