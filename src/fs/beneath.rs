//! Files below a folder that a caller named, and never through a link.
//!
//! A dataset may come from a stranger. Names are therefore looked up one by one from an open folder; a path as a whole
//! would be followed to wherever a link in its middle leads.

use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, mkdirat, openat, unlinkat};
use rustix::io::Errno;

use super::links::BEHIND_A_LINK;
use super::system::past_leases;
use crate::error::{Error, Result};

/// The folder, held open.
#[derive(Debug)]
pub(crate) struct OpenRoot {
    folder: OwnedFd,
    path: PathBuf,
}

const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl OpenRoot {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        // The caller named it; a link there is the caller's own.
        let folder = openat(CWD, path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let folder = folder.map_err(|error| Error::io("open", path, std::io::Error::from(error)))?;
        Ok(Self { folder, path: path.to_path_buf() })
    }

    /// A file that is there.
    pub(crate) fn open_file(&self, path: &Path) -> Result<File> {
        let (folder, name) = self.parent(path, false)?;
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let folder = folder.as_ref().unwrap_or(&self.folder);
        let file = past_leases(|| Ok(openat(folder, name, flags, Mode::empty())?));
        let errno = |error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
        let file = File::from(file.map_err(|error| refused("open", path, errno(error)))?);
        let is_file = file.metadata().map_err(|error| Error::io("look at", path, error))?.is_file();
        if is_file { Ok(file) } else { Err(Error::format(path, "is not a regular file")) }
    }

    /// A file that is not there, and the folders above it.
    pub(crate) fn create_file(&self, path: &Path) -> Result<File> {
        let (folder, name) = self.parent(path, true)?;
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = openat(folder.as_ref().unwrap_or(&self.folder), name, flags, Mode::from_raw_mode(0o666));
        Ok(File::from(file.map_err(|error| refused("create", path, error))?))
    }

    /// Makes the folders above a file.
    pub(crate) fn make_folders(&self, path: &Path) -> Result<()> {
        self.parent(path, true).map(drop)
    }

    /// Removes a file, or does nothing where there is none; and the folders around it in which there is nothing else.
    pub(crate) fn remove_file(&self, path: &Path) -> Result<()> {
        match self.unlink(path, AtFlags::empty())? {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(refused("remove", path, error)),
        }
        for folder in path.ancestors().skip(1).take_while(|folder| *folder != self.path) {
            // Of a folder with something in it, the system says no.
            if self.unlink(folder, AtFlags::REMOVEDIR)?.is_err() {
                break;
            }
        }
        Ok(())
    }

    fn unlink(&self, path: &Path, flags: AtFlags) -> Result<rustix::io::Result<()>> {
        let (folder, name) = match self.parent(path, false) {
            // Somebody else removed the folder that it was in.
            Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => return Ok(Err(Errno::NOENT)),
            found => found?,
        };
        Ok(unlinkat(folder.as_ref().unwrap_or(&self.folder), name, flags))
    }

    /// The folder that a file is in, unless it is the dataset's own, and the file's name.
    fn parent<'a>(&self, path: &'a Path, create: bool) -> Result<(Option<OwnedFd>, &'a std::ffi::OsStr)> {
        let outside = || Error::format(path, format!("is not below {}", self.path.display()));
        let below = path.strip_prefix(&self.path).map_err(|_| outside())?;
        let mut names = Vec::new();
        for component in below.components() {
            let Component::Normal(name) = component else { return Err(outside()) };
            names.push(name);
        }
        let name = names.pop().ok_or_else(outside)?;
        let mut folder: Option<OwnedFd> = None;
        for part in names {
            let within = folder.as_ref().unwrap_or(&self.folder);
            if create {
                match mkdirat(within, part, Mode::from_raw_mode(0o777)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(refused("create the folder of", path, error)),
                }
            }
            let next = openat(within, part, FOLDER, Mode::empty());
            folder = Some(next.map_err(|error| refused("open the folder of", path, error))?);
        }
        Ok((folder, name))
    }
}

fn refused(action: &'static str, path: &Path, error: Errno) -> Error {
    match error {
        Errno::LOOP | Errno::MLINK | Errno::NOTDIR => Error::format(path, BEHIND_A_LINK),
        other => Error::io(action, path, std::io::Error::from(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_same_folders_are_removed_side_by_side() {
        let parent = tempfile::tempdir().unwrap();
        let root = OpenRoot::open(parent.path()).unwrap();
        for _ in 0..100 {
            let files: Vec<_> = (0..16).map(|file| parent.path().join(format!("a/b/{}/{file}", file % 8))).collect();
            files.iter().for_each(|file| drop(root.create_file(file).unwrap()));
            std::thread::scope(|scope| {
                for half in [files.iter().step_by(2).collect::<Vec<_>>(), files.iter().skip(1).step_by(2).collect()] {
                    let root = &root;
                    scope.spawn(move || half.into_iter().try_for_each(|file| root.remove_file(file)).unwrap());
                }
            });
            assert!(!parent.path().join("a").exists());
        }
    }
}
