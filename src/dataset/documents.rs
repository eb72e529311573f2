//! Documents on their way to the storage.

use std::path::Path;

use serde_json::Value;

use crate::error::{Error, Result};
use crate::format::zarr3;
use crate::json as exact;
use crate::storage::Storage;

/// Where documents go: to the storage at once, or, those of many images, together later.
pub(crate) enum Documents<'a> {
    AtOnce(&'a dyn Storage),
    Together(Vec<(String, Vec<u8>)>),
}

impl Documents<'_> {
    pub(crate) fn put(&mut self, key: &str, document: &Value) -> Result<()> {
        self.put_bytes(key, exact::render(document))
    }

    pub(super) fn put_bytes(&mut self, key: &str, bytes: Vec<u8>) -> Result<()> {
        match self {
            Self::AtOnce(storage) => storage.put(key, &bytes).map_err(|e| Error::io("write", storage.path_of(key), e)),
            Self::Together(files) => {
                files.push((key.to_owned(), bytes));
                Ok(())
            }
        }
    }

    /// Lets readers find what was written, unless that is yet to be done. `root`: the dataset's path, for an error.
    pub(crate) fn settle(&self, root: &Path) -> Result<()> {
        match self {
            Self::AtOnce(storage) => settle(*storage, root),
            Self::Together(_) => Ok(()),
        }
    }

    /// Writes those that are yet to be written, and behind all others the root's, by which a dataset is one. `root`: as
    /// for [`settle`](Self::settle).
    pub(crate) fn write(self, storage: &dyn Storage, root: &Path) -> Result<()> {
        let Self::Together(files) = self else { return Ok(()) };
        let files = files.iter().map(|(key, bytes)| (key.as_str(), bytes.as_slice()));
        let (of_root, others): (Vec<_>, Vec<_>) = files.partition(|(key, _)| *key == zarr3::DOCUMENT);
        for files in [others, of_root].iter().filter(|files| !files.is_empty()) {
            storage.put_all(files).map_err(|e| {
                Error::io("write documents of several images, of which the first is", storage.path_of(files[0].0), e)
            })?;
        }
        settle(storage, root)
    }
}

fn settle(storage: &dyn Storage, root: &Path) -> Result<()> {
    storage.settle().map_err(|error| Error::io("write the directory of", root, error))
}
