//! How documents are written.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::error::{Error, Result};
use crate::fs::{self as os, document};

/// As [`put`], for a document that takes the place of `old` elsewhere.
pub(crate) fn put_for(file: &Path, document: &Value, old: &Path) -> Result<()> {
    put(file, document)?;
    match fs::metadata(old) {
        Ok(old) => fs::set_permissions(file, old.permissions()).map_err(|error| Error::io("write", file, error)),
        Err(_) => Ok(()),
    }
}

/// Changes a document, if it is there. Whether it is.
pub(crate) fn change(file: &Path, change: impl FnOnce(&mut Value) -> Result<()>) -> Result<bool> {
    let Some(before) = document::read(file)? else { return Ok(false) };
    let mut document = before.clone();
    change(&mut document)?;
    if document != before {
        put(file, &document)?;
    }
    Ok(true)
}

/// Writes a document, and makes the folders above it.
pub(crate) fn put(file: &Path, document: &Value) -> Result<()> {
    put_bytes(file, &document::render(document))
}

/// The same with any text.
pub(super) fn put_bytes(file: &Path, bytes: &[u8]) -> Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).map_err(|error| Error::io("create", folder, error))?;
    }
    os::put(file, bytes)
}
