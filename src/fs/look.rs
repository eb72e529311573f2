//! What stands at a path, in a folder or in an archive.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::archives::{self, EntryChecksum, Part};
use super::identity::Identity;
use super::{document, links, system};
use crate::error::{Error, Result};
use crate::format::zip::parse::Method;

/// Folders within folders that are looked at.
pub(crate) const DEPTH_MAX: usize = 64;

/// An open file: all of one, or a range of an archive.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) file: Arc<File>,
    pub(crate) at: u64,
    pub(crate) len: u64,
    /// Bytes that the file system has given to it, about this many where it is a range.
    pub(crate) disk_bytes: u64,
    /// When it, or the archive that it is in, was changed last.
    pub(crate) modified: (i64, i64),
    /// What an archive has of a range of it, and nobody has compared yet.
    pub(crate) checksum: Option<EntryChecksum>,
}

/// Opens a regular file for reading; `None` when there is none.
pub(crate) fn open(path: &Path) -> Result<Option<OpenFile>> {
    links::check(path).map_err(|reason| Error::format(path, reason))?;
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if links::leads_nowhere(&error) => return links::refuse_dangling(path).map(|()| None),
        Err(error) if error.kind() == ErrorKind::NotADirectory => return open_in_archive(path),
        Err(error) => return Err(Error::io("look at", path, error)),
    };
    // Opening a pipe would wait for ever.
    if !metadata.is_file() {
        return Err(Error::format(path, "is not a regular file"));
    }
    let file = File::open(path).map_err(|error| Error::io("open", path, error))?;
    let metadata = file.metadata().map_err(|error| Error::io("look at", path, error))?;
    let (len, disk_bytes, modified) = (metadata.len(), system::disk_bytes(&metadata), system::modified(&metadata));
    Ok(Some(OpenFile { file: Arc::new(file), at: 0, len, disk_bytes, modified, checksum: None }))
}

/// Whether an error is about one file or folder, of which others say nothing: what it holds, or that the system or the
/// disk does not give it away.
pub(crate) fn is_about_a_file(error: &Error) -> bool {
    match error {
        Error::Format { .. } | Error::Unsupported { .. } | Error::Codec { .. } => true,
        Error::Io { source, .. } => source.kind() == ErrorKind::PermissionDenied || system::is_of_device(source),
        _ => false,
    }
}

/// Refuses the path of a chunk that is not there, because there is a file where a folder would be: without it, there
/// may be a chunk.
pub(crate) fn refuse_file_above(path: &Path) -> Result<()> {
    if !matches!(fs::symlink_metadata(path), Err(error) if error.kind() == ErrorKind::NotADirectory) {
        return Ok(());
    }
    let there = |above: &&Path| fs::symlink_metadata(above).is_ok();
    let file = match archives::find(path)? {
        Some(place) => place.file_above(),
        None => path.ancestors().find(there).map(Path::to_path_buf),
    };
    file.map_or(Ok(()), |file| Err(not_a_folder(&file)))
}

pub(crate) fn not_a_folder(path: &Path) -> Error {
    Error::format(path, "is not a folder, and stands in the place of one with chunks")
}

fn open_in_archive(path: &Path) -> Result<Option<OpenFile>> {
    let Some(place) = archives::find(path)? else { return Ok(None) };
    let Some(part) = place.open()? else {
        return if place.is_folder() { Err(Error::format(path, "is not a regular file")) } else { Ok(None) };
    };
    let checksum = Some(place.checksum(&part));
    let Part { file, at, entry } = part;
    let metadata = file.metadata().map_err(|error| Error::io("look at", path, error))?;
    let modified = system::modified(&metadata);
    if entry.method != Method::Stored {
        // Decompressed as a whole, as documents are; what is larger should be stored.
        let Some(bytes) = document::bytes(path, document::DOCUMENT_BYTES_MAX)? else { return Ok(None) };
        let file = system::file_in_memory(&bytes).map_err(|error| Error::io("decompress", path, error))?;
        let (len, disk_bytes) = (bytes.len() as u64, system::disk_bytes(&metadata));
        return Ok(Some(OpenFile { file: Arc::new(file), at: 0, len, disk_bytes, modified, checksum: None }));
    }
    let len = entry.content.len;
    // Its share: what it takes itself is not told.
    // Of an archive with holes, nobody says what part of it has none.
    let disk_bytes = system::disk_bytes(&metadata).min(len);
    Ok(Some(OpenFile { file, at, len, disk_bytes, modified, checksum }))
}

/// What is where a path leads in an archive, if the system finds nothing there because of one.
fn beyond(path: &Path) -> Result<Option<archives::InArchive>> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotADirectory => archives::find(path),
        _ => Ok(None),
    }
}

/// Whether there is a folder. The root of an archive is none: see [`is_root`].
pub(crate) fn is_folder(path: &Path) -> bool {
    path.is_dir() || matches!(beyond(path), Ok(Some(place)) if place.is_folder())
}

/// The same where nothing may be passed over.
///
/// # Errors
///
/// When that can't be told, as in a folder that the system lists and lets nobody enter.
pub(crate) fn is_folder_for_sure(path: &Path) -> Result<bool> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(metadata.is_dir()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied || system::is_of_device(&error) => {
            Err(Error::io("look at", path, error))
        }
        Err(_) => Ok(is_folder(path)),
    }
}

/// Whether a path that somebody named is a folder, or an archive, which may be a dataset.
pub(crate) fn is_root(path: &Path) -> bool {
    is_folder(path) || is_archive(path)
}

/// Why a path that somebody named is none: of a file that should be an archive, what is wrong with it.
pub(crate) fn no_root(path: &Path) -> Error {
    let reason = "is a file; expected the directory of an array or an image";
    archives::find(path).err().unwrap_or_else(|| Error::not_found(path, reason))
}

pub(crate) fn is_archive(path: &Path) -> bool {
    path.is_file() && matches!(archives::find(path), Ok(Some(_)))
}

/// Refuses to change an archive, or something in one.
pub(crate) fn refuse_archive(path: &Path) -> Result<()> {
    refuse_as(path, "is an archive, or in one, which is not changed; repack it into a folder, and change that")
}

pub(crate) fn refuse_manifest_of_archive(path: &Path) -> Result<()> {
    let reason = "is an archive, or in one: one file already, of which readers need no manifest; for references to \
                  its chunks, repack it into a folder, and name that";
    refuse_as(path, reason)
}

fn refuse_as(path: &Path, reason: &str) -> Result<()> {
    match !path.is_dir() && matches!(archives::find(path), Ok(Some(_))) {
        true => Err(Error::unsupported(path, reason)),
        false => Ok(()),
    }
}

pub(crate) fn is_file(path: &Path) -> bool {
    path.is_file() || matches!(beyond(path), Ok(Some(place)) if place.is_file())
}

pub(crate) fn file_bytes(path: &Path) -> Option<u64> {
    stamp(path).ok().map(|(len, _)| len)
}

/// Bytes of a file, and when it, or the archive that it is in, was changed last.
pub(crate) fn stamp(path: &Path) -> io::Result<(u64, (i64, i64))> {
    match fs::metadata(path) {
        Ok(metadata) => Ok((metadata.len(), system::modified(&metadata))),
        Err(error) => {
            let place = beyond(path).ok().flatten();
            let Some((len, place)) = place.and_then(|place| Some((place.len()?, place))) else { return Err(error) };
            Ok((len, system::modified(&place.metadata()?)))
        }
    }
}

/// Which folder it is, or which archive it stands in. Of a folder that is removed, another one may get the number, but
/// not the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FolderStamp {
    identity: Identity,
    created: Option<SystemTime>,
}

impl FolderStamp {
    pub(crate) fn at(path: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(path).or_else(|error| match error.kind() {
            ErrorKind::NotADirectory => archives::find(path).ok().flatten().ok_or(error)?.metadata(),
            _ => Err(error),
        })?;
        // Some file systems don't know.
        Ok(Self { identity: Identity::from(&metadata), created: metadata.created().ok() })
    }
}

/// Whether anything stands there, be it a link that leads nowhere.
pub(crate) fn exists(path: &Path) -> Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) if error.kind() == ErrorKind::NotADirectory => {
            let place = archives::find(path)?;
            Ok(place.is_some_and(|place| place.is_file() || place.is_folder()))
        }
        Err(error) => Err(Error::io("look at", path, error)),
    }
}

/// What stands in a folder, or at the root of an archive.
pub(crate) fn list(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = |error| Error::io("list", folder, error);
    links::check(folder).map_err(|reason| Error::format(folder, reason))?;
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotADirectory => {
            let Some(place) = archives::find(folder)?.filter(archives::InArchive::is_folder) else {
                return Err(failed(error));
            };
            return Ok(place.names().into_iter().map(|name| folder.join(name)).collect());
        }
        Err(error) => return Err(failed(error)),
    };
    entries.map(|entry| entry.map(|entry| entry.path()).map_err(failed)).collect()
}

/// By which a folder is known again under another name: where it is, and its name there if that is an archive.
pub(crate) fn identity(path: &Path) -> io::Result<(Identity, String)> {
    match fs::metadata(path) {
        Ok(metadata) => Ok((Identity::from(&metadata), String::new())),
        Err(error) if error.kind() == ErrorKind::NotADirectory => match archives::find(path) {
            Ok(Some(place)) => Ok((place.identity()?, place.key)),
            _ => Err(error),
        },
        Err(error) => Err(error),
    }
}

/// The path without links; also of what is in an archive.
pub(crate) fn canonicalize(path: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(path) {
        Err(error) if error.kind() == ErrorKind::NotADirectory => match archives::find(path) {
            Ok(Some(place)) if place.is_file() || place.is_folder() => {
                Ok(fs::canonicalize(place.root)?.join(place.key))
            }
            _ => Err(error),
        },
        other => other,
    }
}
