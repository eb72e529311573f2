//! JSON documents from disk, with bounds.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::archives::{self, Part};
use super::links;
use super::system::FileExt;
use crate::codec;
use crate::error::{Error, Refusal, Result};
use crate::format::consolidated::{ConsolidatedMetadata, OF_ZARR2};
use crate::format::zarr3;
use crate::format::zip::Content;
use crate::format::zip::parse::{Entry, Method};
use crate::json::bounded;
pub(crate) use crate::json::{DOCUMENT_BYTES_MAX, beyond_json, parse, render, render_line};
use crate::words::plain;

/// A larger OME-XML is passed over.
pub(crate) const XML_BYTES_MAX: u64 = 64 << 20;

/// How the parser says that a string is none of Unicode: JSON may have it, Rust has no such string.
const LONE_SURROGATES: [&str; 2] = ["lone leading surrogate in hex escape", "unexpected end of hex escape"];

/// The document at `path`, or `None` when there is no such file.
pub(crate) fn read(path: &Path) -> Result<Option<Value>> {
    read_as(path)
}

pub(crate) fn consolidated(folder: &Path) -> Result<Option<ConsolidatedMetadata>> {
    match read_as(&folder.join(zarr3::DOCUMENT))? {
        Some(document) => Ok(ConsolidatedMetadata::if_any(document)),
        None => Ok(read(&folder.join(OF_ZARR2))?.map(ConsolidatedMetadata::of_zarr2)),
    }
}

fn read_as<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let Some(bytes) = bytes(path, DOCUMENT_BYTES_MAX)? else { return Ok(None) };
    parse(&bytes).map(Some).map_err(|error| Error::format(path, unparsed(&error)))
}

fn unparsed(error: &serde_json::Error) -> Refusal {
    let text = error.to_string();
    let unsupported = |what: &str| Refusal::Unsupported(format!("{what}, which is not read here"));
    if text.starts_with("recursion limit exceeded") {
        unsupported("has lists or objects more than 127 deep")
    } else if LONE_SURROGATES.iter().any(|start| text.starts_with(start)) {
        unsupported("has a string with half of a surrogate pair")
    } else {
        format!("is not JSON: {}", plain(error)).into()
    }
}

/// The file at `path`, or `None` when there is none. One of more than `bytes_max` bytes is an error.
pub(crate) fn bytes(path: &Path, bytes_max: u64) -> Result<Option<Vec<u8>>> {
    links::check(path).map_err(|reason| Error::format(path, reason))?;
    match fs::metadata(path) {
        // Opening a pipe would wait for ever.
        Ok(metadata) if !metadata.is_file() => return Err(Error::format(path, "is not a regular file")),
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotADirectory => return in_archive(path, bytes_max),
        Err(error) if links::leads_nowhere(&error) => return links::refuse_dangling(path).map(|()| None),
        Err(error) => return Err(Error::io("look at", path, error)),
    }
    let file = File::open(path).map_err(|error| Error::io("open", path, error))?;
    let bytes = bounded(&file, bytes_max).map_err(|error| Error::io("read", path, error))?;
    bytes.map(Some).map_err(|len| too_long(path, len, bytes_max))
}

fn too_long(path: &Path, len: u64, bytes_max: u64) -> Error {
    let reason = format!("has {len} bytes, and documents of more than {bytes_max} bytes are not read here");
    Error::unsupported(path, reason)
}

/// The same of what is in an archive, where it may be compressed.
fn in_archive(path: &Path, bytes_max: u64) -> Result<Option<Vec<u8>>> {
    let Some(Part { file, at, entry }) = archives::find(path)?.map(|place| place.open()).transpose()?.flatten() else {
        return Ok(None);
    };
    let Entry { content, stored_bytes, method, .. } = entry;
    if content.len.max(stored_bytes) > bytes_max {
        return Err(too_long(path, content.len.max(stored_bytes), bytes_max));
    }
    let mut bytes = vec![0; stored_bytes as usize];
    file.read_exact_at(&mut bytes, at).map_err(|error| Error::io("read", path, error))?;
    if method == Method::Deflated {
        let mut raw = vec![0; content.len as usize];
        let length = codec::inflate(&bytes, &mut raw).map_err(|error| Error::format(path, error.to_string()))?;
        raw.truncate(length);
        bytes = raw;
    }
    if Content::of(&bytes) != content {
        return Err(Error::format(path, archives::CHANGED));
    }
    Ok(Some(bytes))
}
