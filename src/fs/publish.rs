//! Files and folders that appear as a whole, and names that last.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::attributes;
use super::identity::Identity;
use super::lock::Lock;
use super::system::{exchange_names, rename_new, sync_folder};
use crate::error::{Error, Result};

/// The name beside `path` under which its successor is made: hidden, and in the same folder, so that a rename suffices.
pub(crate) fn hidden(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{suffix}"));
    path.with_file_name(name)
}

/// Creates a file under a name that others can foresee: what stands there, left by a call that was killed or put there
/// by somebody, is removed, never followed nor written.
pub(crate) fn create_new(path: &Path) -> io::Result<File> {
    let open = || File::options().read(true).write(true).create_new(true).open(path);
    match open() {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            open()
        }
        other => other,
    }
}

/// Creates a folder and those above it that are not there, each of which lasts when this returns. Returns those that
/// were created, the innermost first.
pub(crate) fn make_folders(path: &Path) -> io::Result<Vec<PathBuf>> {
    let missing: Vec<_> =
        path.ancestors().take_while(|above| !above.as_os_str().is_empty() && !above.exists()).collect();
    let mut made = Vec::new();
    for folder in missing.into_iter().rev() {
        match fs::create_dir(folder) {
            Ok(()) => made.insert(0, folder.to_path_buf()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => {}
            Err(error) => {
                remove_empty_folders(&made);
                return Err(error);
            }
        }
        if let Some(parent) = folder.parent() {
            sync_folder(parent)?;
        }
    }
    Ok(made)
}

/// Removes folders that [`make_folders`] made, and nobody put anything into.
pub(crate) fn remove_empty_folders(made: &[PathBuf]) {
    made.iter().for_each(|folder| drop(fs::remove_dir(folder)));
}

/// `path` without links, also where nothing is there yet: then the nearest folder above it that exists is resolved.
/// Behind a link stands the folder that is meant, and neither must take the other's place.
///
/// Behind a folder that is yet to be made, `..` is refused: what it leads to would change while the folders are made.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf> {
    if path.as_os_str().is_empty() {
        return Err(Error::not_found(path, "an empty path names nothing; name the file or folder that is meant"));
    }
    let whole = std::path::absolute(path).map_err(|error| Error::io("find", path, error))?;
    // With a slash behind its name, a link would not be seen as one.
    let whole: PathBuf = whole.components().collect();
    let mut rest = Vec::new();
    for above in whole.ancestors() {
        if let Ok(found) = above.canonicalize() {
            return Ok(rest.into_iter().rev().fold(found, |path, name| path.join(name)));
        }
        // It may lead to a disk that is not there now, and nothing shall take its place.
        if above.is_symlink() {
            return Err(Error::conflict(above, "is a link that leads nowhere; remove it, or choose another path"));
        }
        let Some(name) = above.file_name() else { break };
        rest.push(name);
    }
    Err(Error::conflict(path, "leads back (..) through a folder that does not exist; name the folder that is meant"))
}

/// Lets the finished folder `made` take the name `path`, for good when this returns.
///
/// # Errors
///
/// [`Error::Exists`] when something has that name.
pub(crate) fn publish_new(made: &Path, path: &Path) -> Result<()> {
    match rename_new(made, path) {
        Ok(()) => sync_folder_of(path),
        Err(error) if matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty) => {
            Err(Error::exists(path))
        }
        Err(error) => Err(Error::io("rename to", path, error)),
    }
}

/// The same. What was there, if anything, is removed afterwards.
pub(crate) fn publish(made: &Path, path: &Path) -> Result<()> {
    match publish_new(made, path) {
        Err(Error::Exists { .. }) => exchange(made, path)?,
        published => return published,
    }
    remove_folder(made)
}

/// Lets a finished file take a name, be there another one or not. It lasts when the caller has synced the folder.
pub(crate) fn take_name(made: &Path, path: &Path) -> io::Result<()> {
    fs::rename(made, path)
}

/// The same; for good, if that is requested.
pub(crate) fn rename(made: &Path, path: &Path, sync: bool) -> Result<()> {
    take_name(made, path).map_err(|error| Error::io("rename to", path, error))?;
    if sync { sync_folder_of(path) } else { Ok(()) }
}

/// Removes a folder with all that is in it, if it is there, also folders in it that their owner has write-protected:
/// what was in them has been replaced.
pub(crate) fn remove_folder(path: &Path) -> Result<()> {
    let removed = fs::remove_dir_all(path).or_else(|error| {
        if error.kind() != io::ErrorKind::PermissionDenied {
            return Err(error);
        }
        open_up(path);
        fs::remove_dir_all(path)
    });
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", path, error)),
        _ => Ok(()),
    }
}

/// Lets the owner into a folder and those in it, as far as the owner is this process. Links are not followed.
fn open_up(folder: &Path) {
    const OWNER_MAY: u32 = 0o700;
    let Ok(metadata) = fs::symlink_metadata(folder) else { return };
    if !metadata.is_dir() {
        return;
    }
    let mode = metadata.permissions().mode();
    if mode & OWNER_MAY != OWNER_MAY {
        let _ = fs::set_permissions(folder, fs::Permissions::from_mode(mode | OWNER_MAY));
    }
    fs::read_dir(folder).into_iter().flatten().flatten().for_each(|entry| open_up(&entry.path()));
}

/// Lets two files or folders change their names, for good when this returns. If it fails, both have the names that
/// they had.
pub(crate) fn exchange(made: &Path, path: &Path) -> Result<()> {
    exchange_synced(made, path, sync_folder_of)
}

fn exchange_synced(made: &Path, path: &Path, sync_folder_of: impl Fn(&Path) -> Result<()>) -> Result<()> {
    sync_folder_of(made)?;
    let old = fs::symlink_metadata(path).map(|metadata| Identity::from(&metadata));
    let old = old.map_err(|error| Error::io("look at", path, error))?;
    swap(made, path)?;
    sync_folder_of(made).and_then(|()| sync_folder_of(path)).inspect_err(|_| {
        // Nobody looks for what was there under the other name, which may be a hidden one.
        if old.is_at(made) {
            let _ = swap(made, path);
        }
    })
}

/// The same, but may not last. In one step where the file system can.
pub(crate) fn swap(made: &Path, path: &Path) -> Result<()> {
    let swapped = exchange_names(made, path).and_then(|done| if done { Ok(()) } else { swap_by_renames(made, path) });
    swapped.map_err(|error| Error::io("replace", path, error))
}

/// The same in three steps. After a kill, [`finish_exchange`] brings back the name that may be gone.
fn swap_by_renames(made: &Path, path: &Path) -> io::Result<()> {
    let aside = hidden(path, "replaced");
    set_apart(&aside)?;
    fs::rename(path, &aside)?;
    let swapped = fs::rename(made, path)
        .and_then(|()| fs::rename(&aside, made).or_else(|error| fs::rename(path, made).and(Err(error))));
    swapped.or_else(|error| fs::rename(&aside, path).and(Err(error)))
}

/// Gives another name to what a kill before the last of three renames left in the way: one that tells whose it was, and
/// that nobody gives back of itself, since the new folder has its name already.
fn set_apart(aside: &Path) -> io::Result<()> {
    let Ok(metadata) = fs::symlink_metadata(aside) else { return Ok(()) };
    let mut name = aside.file_name().unwrap_or_default().to_os_string();
    name.push(format!("-{:08x}", Identity::from(&metadata).inode as u32));
    let apart = aside.with_file_name(name);
    match fs::symlink_metadata(&apart) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => fs::rename(aside, apart),
        Err(error) => Err(error),
        Ok(_) => {
            let reason = format!("{} and {} are in the way", aside.display(), apart.display());
            Err(io::Error::new(io::ErrorKind::AlreadyExists, reason))
        }
    }
}

/// Finishes what a kill left of an [`exchange`] on a file system that has none: where `path` is gone and what was moved
/// aside is there, that gets its name again.
///
/// # Errors
///
/// [`Error::Locked`] while the exchange is being made.
pub(crate) fn finish_exchange(path: &Path) -> Result<()> {
    let aside = hidden(path, "replaced");
    let is_whole =
        |path: &Path| fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir() || metadata.is_file());
    if fs::symlink_metadata(path).is_ok() || !is_whole(&aside) {
        return Ok(());
    }
    Lock::look(&aside)?;
    fs::rename(&aside, path).map_err(|error| Error::io("give its name back to", &aside, error))?;
    sync_folder_of(path)
}

/// Creates the folders from `root` down to `path`, none of them behind a link: what somebody planted there would lead
/// elsewhere.
pub(crate) fn folders_below(root: &Path, path: &Path) -> Result<()> {
    let below = path.strip_prefix(root).map_err(|_| Error::format(path, format!("is not below {}", root.display())))?;
    let reason = "is no folder, or a link to one; nothing is written behind a link";
    let mut folder = root.to_path_buf();
    for name in below.components() {
        folder.push(name);
        match fs::symlink_metadata(&folder) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => return Err(Error::conflict(&folder, reason)),
            Err(_) => match fs::create_dir(&folder) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => made.map_err(|error| Error::io("create", &folder, error))?,
            },
        }
    }
    Ok(())
}

/// Removes every link below a folder, and follows none.
pub(crate) fn remove_links(folder: &Path) -> Result<()> {
    let failed = |error| Error::io("look into", folder, error);
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_symlink() {
            fs::remove_file(entry.path()).map_err(failed)?;
        } else if kind.is_dir() {
            remove_links(&entry.path())?;
        }
    }
    Ok(())
}

pub(crate) fn sync_folder_of(path: &Path) -> Result<()> {
    let Some(parent) = path.parent() else { return Ok(()) };
    sync_folder(parent).map_err(|error| Error::io("sync", parent, error))
}

/// Writes a small file as a whole: under its name there are the old bytes or the new ones.
pub(crate) fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    let partial = hidden(path, "partial");
    let write = || {
        let mut file = create_new(&partial)?;
        if path.exists() {
            attributes::keep(&partial, path)?;
        }
        file.write_all(bytes)?;
        file.sync_all()?;
        take_name(&partial, path)
    };
    write().map_err(|error| Error::io("write", path, error))?;
    sync_folder_of(path)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::super::names_in as names;
    use super::*;

    /// A folder with two others, each of which holds a file of its name.
    fn two() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let [made, path] = ["made", "run.zarr"].map(|name| folder.path().join(name));
        for path in [&made, &path] {
            fs::create_dir(path).unwrap();
            fs::write(path.join(path.file_name().unwrap()), "").unwrap();
        }
        (folder, made, path)
    }

    #[test]
    fn three_renames_do_what_one_exchange_does() {
        for way in [swap_by_renames, |made: &Path, path: &Path| swap(made, path).map_err(io::Error::other)] {
            let (folder, made, path) = two();
            way(&made, &path).unwrap();
            assert_eq!((names(&made), names(&path)), (vec!["run.zarr".into()], vec!["made".into()]));
            assert_eq!(names(folder.path()), ["made", "run.zarr"]);
        }
    }

    #[test]
    fn a_swap_that_fails_leaves_both_names() {
        for way in [swap_by_renames, |made: &Path, path: &Path| swap(made, path).map_err(io::Error::other)] {
            let (folder, made, path) = two();
            fs::remove_dir_all(&made).unwrap();
            assert!(way(&made, &path).is_err());
            assert_eq!((names(folder.path()), names(&path)), (vec!["run.zarr".into()], vec!["run.zarr".into()]));
        }
    }

    #[test]
    fn an_exchange_that_may_not_last_is_taken_back() {
        // The first sync is before the exchange.
        for good in 0..3 {
            let (folder, made, path) = two();
            let syncs = std::cell::Cell::new(0);
            let failing = |path: &Path| match syncs.replace(syncs.get() + 1) {
                number if number < good => Ok(()),
                _ => Err(Error::format(path, "the device is gone")),
            };
            assert!(exchange_synced(&made, &path, failing).is_err());
            assert_eq!((names(&made), names(&path)), (vec!["made".into()], vec!["run.zarr".into()]));
            assert_eq!((names(folder.path()), syncs.get()), (vec!["made".into(), "run.zarr".into()], good + 1));
        }
    }

    #[test]
    fn whatever_rename_a_kill_comes_after_both_folders_are_there() {
        // After the first, the name is gone.
        let (folder, made, path) = two();
        let aside = folder.path().join(".run.zarr.replaced");
        fs::rename(&path, &aside).unwrap();
        let lock = Lock::take(&aside).unwrap();
        assert!(matches!(finish_exchange(&path), Err(Error::Locked { .. })), "it is only being made");
        drop(lock);
        finish_exchange(&path).unwrap();
        assert_eq!(
            (names(folder.path()), names(&path)),
            (vec!["made".into(), "run.zarr".into()], vec!["run.zarr".into()])
        );
        // After the second, the new folder has it, and keeps it.
        fs::rename(&path, &aside).unwrap();
        fs::rename(&made, &path).unwrap();
        finish_exchange(&path).unwrap();
        assert_eq!(names(&path), ["made"]);
        // What was moved aside is in the way of no other.
        fs::create_dir(&made).unwrap();
        swap_by_renames(&made, &path).unwrap();
        assert_eq!((names(&made), names(&path)), (vec!["made".into()], vec![]));
        let apart = names(folder.path()).remove(0);
        assert_eq!(names(&folder.path().join(&apart)), ["run.zarr"], "{apart}");
        assert_eq!(apart.strip_prefix(".run.zarr.replaced-").unwrap().len(), 8);
    }
}
