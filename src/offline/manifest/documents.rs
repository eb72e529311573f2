//! What is said of an array whose chunks lie elsewhere: its documents, and where its chunks are.

use std::path::Path;

use serde_json::Value;

use crate::error::{Error, Result};
use crate::format::zarr3;
use crate::offline::array::Array;
use crate::offline::hierarchy::walk::Node;

/// `0.1.2`: the chunk key encoding `v2`, which manifests and Zarr v2 share.
pub(super) fn key(position: &[u64]) -> String {
    if position.is_empty() {
        return "0".to_owned();
    }
    position.iter().map(u64::to_string).collect::<Vec<_>>().join(".")
}

/// The array's Zarr v3 document, with the inner chunks as its chunks.
pub(super) fn array_document(node: &Node, array: &Array) -> Result<Value> {
    let mut document = node.document()?;
    zarr3::set_chunk_files(&mut document, array.metadata());
    Ok(document)
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
