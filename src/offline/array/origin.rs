//! Whether an array is still the one that was opened.
//!
//! A finished dataset has no lock file, and may be on a device that nobody may write to, so who reads it can't keep
//! others from replacing it. Files are opened by their paths, one after the other; without a look at what stands there
//! by then, a reader would put together pixels of two recordings.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::format::node;
use crate::fs::look::{self, FolderStamp};

/// A document, and its length and time of change, if it was there.
type KnownDocument = (PathBuf, Option<(u64, (i64, i64))>);

/// What stood at the place of an array when it was opened, and at those of the arrays whose files its manifest names.
#[derive(Debug)]
pub(crate) struct Origin {
    /// The first is the array's own.
    places: Vec<Place>,
}

/// What stood at one place.
#[derive(Debug)]
struct Place {
    folder: PathBuf,
    stamp: FolderStamp,
    /// The first is that of the array itself.
    documents: Vec<KnownDocument>,
}

impl Origin {
    /// `stamp`: of the folder of the array's document, looked at before that was read. `documents`: the paths of the
    /// documents that say what the array is like, its own one first.
    pub(crate) fn new(folder: &Path, stamp: FolderStamp, documents: impl IntoIterator<Item = PathBuf>) -> Self {
        Self { places: vec![Place::new(folder, stamp, documents)] }
    }

    /// Adds the folder of another array that is read.
    pub(crate) fn add(&mut self, folder: &Path) {
        let documents = node::ALL.iter().map(|name| folder.join(name)).filter(|path| path.exists());
        self.places.extend(FolderStamp::at(folder).ok().map(|stamp| Place::new(folder, stamp, documents)));
    }

    /// Whether something else has its place by now, or nothing.
    pub(crate) fn is_replaced(&self) -> bool {
        self.places.iter().any(Place::is_replaced)
    }

    /// Whether that is so, or one of its documents was written.
    pub(crate) fn is_changed(&self) -> bool {
        self.places.iter().any(|place| place.is_replaced() || place.documents.iter().any(has_changed))
    }
}

impl Place {
    fn new(folder: &Path, stamp: FolderStamp, documents: impl IntoIterator<Item = PathBuf>) -> Self {
        let known = |path: PathBuf| (look::stamp(&path).ok(), path);
        let documents = documents.into_iter().map(known).map(|(stamp, path)| (path, stamp)).collect();
        Self { folder: folder.to_path_buf(), stamp, documents }
    }

    /// The numbers of folders alone tell it only where a file system keeps them, which those in user space may not.
    fn is_replaced(&self) -> bool {
        let is_here = match FolderStamp::at(&self.folder) {
            Ok(found) => found == self.stamp,
            // What else is wrong is told to whoever opens a file.
            Err(error) => !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
        };
        !is_here && self.documents.first().is_none_or(has_changed)
    }
}

fn has_changed((path, known): &KnownDocument) -> bool {
    look::stamp(path).ok() != *known
}

/// Whether an error may come of files that are not those that their documents were written for.
pub(crate) fn may_be_of_change(error: &Error) -> bool {
    match error {
        Error::Format { .. } | Error::Unsupported { .. } | Error::Codec { .. } | Error::NotFound { .. } => true,
        Error::Io { source, .. } => matches!(
            source.kind(),
            ErrorKind::NotFound
                | ErrorKind::NotADirectory
                | ErrorKind::UnexpectedEof
                | ErrorKind::StaleNetworkFileHandle
        ),
        _ => false,
    }
}
