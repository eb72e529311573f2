//! Folders that a walk has seen.

use std::collections::HashSet;
use std::path::Path;

use super::DEPTH_MAX;
use crate::error::{Error, Result};
use crate::fs::{Identity, look};

/// The folders that were looked at, by what they are, since a symbolic link may lead back up.
#[derive(Default)]
pub(crate) struct Visited(HashSet<(Identity, String)>);

impl Visited {
    /// Whether a folder was not seen before.
    ///
    /// # Errors
    ///
    /// When it can't be looked at, or lies too deep.
    pub(crate) fn enter(&mut self, path: &Path, depth: usize) -> Result<bool> {
        let identity = look::identity(path).map_err(|error| Error::io("look at", path, error))?;
        if depth > DEPTH_MAX {
            return Err(Error::format(path, format!("the tree is deeper than {DEPTH_MAX}")));
        }
        Ok(self.0.insert(identity))
    }
}
