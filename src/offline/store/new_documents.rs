//! Which documents are refused before they are written: those of which no reader would make a node.

use std::path::Path;

use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::format::consolidated::OF_ZARR2;
use crate::format::node::OF_ZARR2_NODES;
use crate::format::{OF_DATASETS, is_of_dataset, zarr2, zarr3, zarr3_draft};
use crate::fs::document;
use crate::words::plain;

/// What a document says that is to be the value of a key.
pub(super) fn parse(key: &str, value: &[u8]) -> Result<Value> {
    let wrong = |error| Error::config("key", key, format!("the new document is not JSON: {}", plain(error)));
    document::parse(value).map_err(wrong)
}

/// Refuses a value for a document of a group or an array that can't be read as one.
///
/// # Errors
///
/// [`Error::Config`]. What may be right and is not read here is taken.
pub(super) fn check(root: &Path, key: &str, value: &[u8]) -> Result<()> {
    let path = root.join(key);
    let name = key.rsplit('/').next().unwrap_or(key);
    if name != zarr3::DOCUMENT && !OF_ZARR2_NODES.contains(&name) && !says_so(name, &path) {
        return Ok(());
    }
    let refuse = |reason: String| Error::config("key", key, reason);
    let new = parse(key, value)?;
    let is_one = match name {
        zarr2::ATTRIBUTES | OF_ZARR2 => new.is_object(),
        _ => is_of_dataset(name, &new),
    };
    if !is_one {
        return Err(refuse("the new document is none of a group or an array".to_owned()));
    }
    let read = match name {
        zarr3::DOCUMENT if zarr3_draft::is_entry(&new) => zarr3_draft::check_entry(&path, &new),
        zarr3::DOCUMENT => zarr3::node(&path, &new).and_then(|kind| match kind {
            zarr3::NodeType::Group => Ok(()),
            zarr3::NodeType::Array => zarr3::parse(&path, &new).map(drop),
        }),
        zarr2::ARRAY => zarr2::parse(&path, &new, Value::Object(Map::new())).map(drop),
        _ => Ok(()),
    };
    match read {
        Err(Error::Unsupported { .. }) => Ok(()),
        read => read.map_err(|error| refuse(format!("the new document can't be read: {error}"))),
    }
}

/// Whether a file says that its folder is a dataset: other things may have such names, too.
fn says_so(name: &str, path: &Path) -> bool {
    let is_said_by = |document: &Value| is_of_dataset(name, document);
    OF_DATASETS.contains(&name) && document::read(path).ok().flatten().as_ref().is_some_and(is_said_by)
}
