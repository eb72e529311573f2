//! Where the chunks of an array lie, in the words of manifests.

use std::path::Path;

use crate::error::{Error, Result};

/// `0.1.2`: the chunk key encoding `v2`, which manifests and Zarr v2 share.
pub(super) fn key(position: &[u64]) -> String {
    if position.is_empty() {
        return "0".to_owned();
    }
    position.iter().map(u64::to_string).collect::<Vec<_>>().join(".")
}

/// The URLs of the dataset's files.
pub(super) struct Urls<'a> {
    pub(super) root: &'a Path,
    pub(super) prefix: Option<&'a str>,
}

impl Urls<'_> {
    pub(super) fn of(&self, file: &Path) -> Result<String> {
        let text = |path: &Path| {
            let text = path.to_str().map(str::to_owned);
            text.ok_or_else(|| Error::format(path, "a name that is no UTF-8 can't stand in a manifest"))
        };
        match self.prefix {
            // Not escaped: those who open references take what follows the scheme for the path.
            None => Ok(format!("file://{}", text(file)?)),
            Some(prefix) => match file.strip_prefix(self.root) {
                Ok(below) => Ok(format!("{prefix}/{}", text(below)?)),
                Err(_) => Err(Error::format(file, "is not part of the dataset, so a prefix can't lead to it")),
            },
        }
    }
}
