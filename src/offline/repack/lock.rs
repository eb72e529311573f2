//! One writer at a time: the lock that the live writer holds, and one for a folder in the making.

use std::fs::File;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::error::{Error, Result};
use crate::offline::hosted::Host;
use crate::offline::lock;

/// Keeps writers from a dataset, or others from a folder, until it is dropped.
#[derive(Debug)]
pub(super) enum Lock {
    /// The dataset's own.
    Dataset {
        _lock: lock::Lock,
    },
    File {
        _file: File,
    },
}

impl Lock {
    /// Takes the lock of the dataset that `path` is or belongs to, as its one writer.
    pub(super) fn to_write(path: &Path) -> Result<Self> {
        Ok(Self::Dataset { _lock: lock::Lock::take(&root_of(path)?)? })
    }

    /// Makes sure that nobody writes the dataset that `path` is or belongs to. Where there is no lock file, nobody does.
    pub(super) fn to_read(path: &Path) -> Result<Option<Self>> {
        let root = &root_of(path)?;
        lock::look(root)?;
        let Ok(file) = File::open(root.join(lock::LOCK_FILE)) else { return Ok(None) };
        hold(&file, FlockOperation::NonBlockingLockShared, root)?;
        Ok(Some(Self::File { _file: file }))
    }

    /// Keeps others from working in `folder` under the same name.
    pub(super) fn on_folder(folder: &Path) -> Result<Self> {
        let file = File::open(folder).map_err(|error| Error::io("open", folder, error))?;
        hold(&file, FlockOperation::NonBlockingLockExclusive, folder)?;
        Ok(Self::File { _file: file })
    }
}

fn hold(file: &File, operation: FlockOperation, path: &Path) -> Result<()> {
    flock(file, operation).map_err(|_| Error::Locked { path: path.to_path_buf() })
}

/// The topmost group above `path`, or the dataset whose document describes what is there.
fn root_of(path: &Path) -> Result<PathBuf> {
    let group = path.ancestors().take_while(|above| above.join("zarr.json").is_file()).last();
    if let Some(group) = group {
        return Ok(group.to_path_buf());
    }
    let host = if path.join(".zarray").is_file() || Host::at(path)?.is_some() { None } else { Host::of(path)? };
    Ok(host.map_or_else(|| path.to_path_buf(), |(host, _)| host.root().to_path_buf()))
}
