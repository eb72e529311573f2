//! The file of a dataset that is an archive: created, locked, perhaps in the place of another one, and removed again if
//! nothing comes of it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::config::Dialect;
use crate::error::{Error, Result, logged};
use crate::folder::refuse_file;
use crate::format::rules;
use crate::format::zarr3::DOCUMENT;
use crate::fs::archives::{directory, is_begun};
use crate::fs::system::open_unfollowed;
use crate::fs::{
    FileLock, Identity, Lock, absolute, exchange, finish_exchange, hidden, make_folders, remove_empty_folders, swap,
    sync_folder_of,
};
use crate::replaceable::refuse_within_array;
use crate::storage::Archive;
use crate::words::of_system;

/// By this end of its name, a dataset is an archive.
const EXTENSION: &str = "ozx";

/// Whether a dataset of this name is one file.
pub(crate) fn is_archive_name(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(EXTENSION))
}

/// Refuses a path below a folder that is not there and would be called as an archive is: readers take such a name for
/// one file. So is refused a name that is the ending alone. `field`: what the caller calls the path.
///
/// # Errors
///
/// [`Error::Config`].
pub fn refuse_archive_folder(field: &'static str, path: &Path) -> Result<()> {
    let is_ending = |path: &Path| {
        let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix('.'));
        name.is_some_and(|name| name.eq_ignore_ascii_case(EXTENSION))
    };
    let refuse = |reason: String| Err(Error::config(field, path.display(), reason));
    if is_ending(path) {
        return refuse("an .ozx needs a name before its ending, such as run.ozx".to_owned());
    }
    let would_be_made = |above: &&Path| {
        let is_missing = || fs::symlink_metadata(above).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        (is_archive_name(above) || is_ending(above)) && is_missing()
    };
    match path.ancestors().skip(1).find(would_be_made).map(Path::display) {
        Some(above) => refuse(format!(
            "{above} would be a folder, but what is called .ozx is one file: give {above} itself to a dataset, whose \
             array is then {above}/0, or choose another folder"
        )),
        None => Ok(()),
    }
}

pub(crate) fn check_dialect(dialect: Dialect) -> Result<()> {
    if rules(dialect).is_tree {
        return Ok(());
    }
    let reason = "an .ozx holds an OME-Zarr, which is zarr3; choose that, or another name for a folder";
    Err(Error::config("dialect", dialect.name(), reason))
}

/// An archive that this process made and locked.
#[derive(Debug)]
pub(crate) struct ArchiveFile {
    _lock: FileLock,
    archive: Arc<Archive>,
    identity: Identity,
    path: PathBuf,
    /// Folders above it that were made for it, the nearest first.
    parents: Vec<PathBuf>,
    replaced: Option<Replaced>,
}

/// The archive that is being replaced, locked.
#[derive(Debug)]
struct Replaced {
    aside: PathBuf,
    identity: Identity,
    _lock: FileLock,
}

impl ArchiveFile {
    /// `suffix`: for a name beside `path` that nobody else chooses.
    pub(crate) fn create(path: &Path, overwrite: bool, suffix: &str, uuid: [u8; 16]) -> Result<Self> {
        let path = &absolute(path)?;
        // Else an archive whose name a kill took away would be forgotten beside the new one.
        finish_exchange(path)?;
        Lock::refuse_within(path)?;
        refuse_within_array("path", path)?;
        match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::new_at(path, uuid),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => Err(refuse_file(path)),
            Err(error) => Err(Error::io("look at", path, error)),
            Ok(found) if !found.is_file() => {
                Err(Error::conflict(path, "is no file; a dataset of this name is one, choose another path"))
            }
            Ok(_) => Self::in_place_of(path, overwrite, suffix, uuid),
        }
    }

    fn new_at(path: &Path, uuid: [u8; 16]) -> Result<Self> {
        let folder = path.parent().unwrap_or(path);
        let parents = make_folders(folder).map_err(|error| Error::io("create", folder, error))?;
        match Self::begin(path, path, uuid) {
            Ok(begun) => Ok(Self { parents, ..begun }),
            Err(error) => {
                remove_empty_folders(&parents);
                Err(match error {
                    Error::Io { source, .. } if source.kind() == io::ErrorKind::AlreadyExists => Error::exists(path),
                    other => other,
                })
            }
        }
    }

    /// Creates an empty archive at `at`, which will have the name `path`.
    fn begin(at: &Path, path: &Path, uuid: [u8; 16]) -> Result<Self> {
        let create = || File::options().read(true).write(true).create_new(true).open(at);
        let file = Arc::new(create().map_err(|error| Error::io("create", at, error))?);
        let begun = Lock::hold_file(&file, path).and_then(|lock| {
            let identity = Identity::of(&file).map_err(|error| Error::io("look at", at, error))?;
            let archive = Archive::begin(file, path, uuid).map_err(|error| Error::io("look at", at, error))?;
            sync_folder_of(at)?;
            let (archive, path) = (Arc::new(archive), path.to_path_buf());
            Ok(Self { _lock: lock, archive, identity, path, parents: Vec::new(), replaced: None })
        });
        begun.inspect_err(|_| drop(fs::remove_file(at)))
    }

    /// Gives the name of an archive to a new one, in one step: at no moment is the name free for others.
    fn in_place_of(path: &Path, overwrite: bool, suffix: &str, uuid: [u8; 16]) -> Result<Self> {
        let open = open_unfollowed(File::options().read(true).write(overwrite), path);
        let old = Arc::new(open.map_err(|error| Error::io("open", path, error))?);
        if !is_dataset(&old).map_err(|error| Error::io("read", path, error))? {
            let reason = "is a file, but no archive with a zarr.json at its root; it is never overwritten, choose \
                          another path";
            return Err(Error::conflict(path, reason));
        }
        if !overwrite {
            Lock::look(path)?;
            return Err(Error::exists(path));
        }
        // Who holds it is the only one who may take its name.
        let lock = Lock::hold_file(&old, path)?;
        let identity = Identity::of(&old).map_err(|error| Error::io("look at", path, error))?;
        if !identity.is_at(path) {
            return Err(Error::Locked { path: path.to_path_buf() });
        }
        let aside = hidden(path, &format!("replaced-{suffix}"));
        let begun = Self::begin(&aside, path, uuid)?;
        exchange(&aside, path).inspect_err(|_| remove(&aside, begun.identity))?;
        Ok(Self { replaced: Some(Replaced { aside, identity, _lock: lock }), ..begun })
    }

    pub(crate) fn archive(&self) -> &Arc<Archive> {
        &self.archive
    }

    /// The path that messages name.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }

    /// Whether another one made room for it, which is there still.
    pub(crate) fn replaces(&self) -> bool {
        self.replaced.is_some()
    }

    /// Whether the archive still has the name that it was made under.
    pub(crate) fn is_in_place(&self) -> bool {
        self.identity.is_at(&self.path)
    }

    /// Ends the work on it. What nobody filled disappears, and what it was to replace comes back.
    pub(crate) fn leave(&mut self, keep: bool) {
        let replaced = self.replaced.take();
        if keep {
            if let Err(error) = self.archive.finish() {
                // Its last directory names all; there may be more of the file than is needed.
                let (archive, error) = (self.path.display(), of_system(error));
                logged(|| {
                    tracing::warn!(target: "shardwright::storage", %archive, %error, "can't be cut to its length");
                });
            }
            if let Some(Replaced { aside, identity, .. }) = replaced {
                remove(&aside, identity);
            }
            return;
        }
        if let Some(Replaced { aside, identity, .. }) = replaced {
            if self.is_in_place() && identity.is_at(&aside) && swap(&aside, &self.path).is_ok() {
                remove(&aside, self.identity);
            }
        } else {
            remove(&self.path, self.identity);
            remove_empty_folders(&self.parents);
        }
        let _ = sync_folder_of(&self.path);
    }
}

fn remove(path: &Path, identity: Identity) {
    if identity.is_at(path) {
        let _ = fs::remove_file(path);
    }
}

/// Whether a file is an archive with a Zarr hierarchy at its root, or what a writer left that was killed at once.
fn is_dataset(file: &File) -> io::Result<bool> {
    let len = file.metadata()?.len();
    let has_root = directory(file, len)?.is_ok_and(|(entries, _)| entries.contains_key(DOCUMENT));
    Ok(has_root || is_begun(file, len)?)
}
