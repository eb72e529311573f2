//! The lock that keeps a dataset to one writer: a file in its folder, locked by `flock`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::forks::NotInherited;
use super::identity::Identity;
use super::system::{has_no_locks, open_folder, open_unfollowed, try_lock, unlock};
use crate::error::{Error, Result};

/// The file that a writer locks; it stays behind when the writer is killed.
pub(crate) const LOCK_FILE: &str = ".shardwright.lock";

/// The dataset's lock, held until it is dropped. Nobody else writes to the dataset meanwhile.
#[derive(Debug)]
pub(crate) struct Lock {
    path: PathBuf,
    /// Dropped before the file.
    _not_inherited: NotInherited,
    file: File,
    is_shared: bool,
}

impl Lock {
    /// Takes the lock of the dataset at `root`, as its one writer.
    ///
    /// # Errors
    ///
    /// [`Error::Locked`] when another writer holds it.
    pub(crate) fn take(root: &Path) -> Result<Self> {
        while fs::metadata(root).is_ok_and(|found| found.is_file()) {
            let open = File::options().read(true).write(true).open(root);
            let file = open.map_err(|error| Error::io("open", root, error))?;
            hold_in_spite_of_looks(&file, root)?;
            // Another one may have got the name between the two, which nobody has locked then.
            if is_behind(root, &file) {
                return Ok(Self::held(root.to_path_buf(), file, true));
            }
        }
        let path = root.join(LOCK_FILE);
        loop {
            let (file, is_new) = match open(&path, Purpose::Hold)? {
                Some(file) => (file, false),
                None => match open(&path, Purpose::Create)? {
                    Some(file) => (file, true),
                    // Another was faster.
                    None => continue,
                },
            };
            if let Err(error) = hold_in_spite_of_looks(&file, root) {
                // A file system that has no locks has no use for the file.
                if is_new && !matches!(error, Error::Locked { .. }) {
                    let _ = fs::remove_file(&path);
                }
                return Err(error);
            }
            // Its last holder may have removed the file between the opening and the locking; then the lock means
            // nothing.
            if Identity::of(&file).is_ok_and(|held| held.is_at(&path)) {
                return Ok(Self::held(path, file, false));
            }
        }
    }

    /// The folder has another path now: there its file is removed at the end.
    pub(crate) fn moved_to(&mut self, root: &Path) {
        self.path = root.join(LOCK_FILE);
    }

    /// Keeps writers from the dataset at `root`, which others may go on reading. `None` where there is no lock file:
    /// nobody writes there.
    ///
    /// # Errors
    ///
    /// [`Error::Locked`] when a writer is at work.
    pub(crate) fn share(root: &Path) -> Result<Option<Self>> {
        let path = root.join(LOCK_FILE);
        loop {
            let Some(file) = open(&path, Purpose::Share)? else { return Self::share_file(root) };
            hold(&file, false, root)?;
            // As in `take`.
            if Identity::of(&file).is_ok_and(|held| held.is_at(&path)) {
                return Ok(Some(Self::held(path, file, true)));
            }
        }
    }

    /// The same, of a dataset that is one file, which its writer locks itself.
    fn share_file(path: &Path) -> Result<Option<Self>> {
        while fs::metadata(path).is_ok_and(|found| found.is_file()) {
            let file = File::open(path).map_err(|error| Error::io("open", path, error))?;
            match try_lock(&file, false) {
                Ok(true) if is_behind(path, &file) => return Ok(Some(Self::held(path.to_path_buf(), file, true))),
                Ok(true) => {}
                Ok(false) => return Err(Error::Locked { path: path.to_path_buf() }),
                // Where there are no locks, there is no writer.
                Err(error) if has_no_locks(&error) => return Ok(None),
                Err(error) => return Err(Error::io("lock", path, error)),
            }
        }
        Ok(None)
    }

    /// Locks a dataset that is one file, as its one writer.
    ///
    /// # Errors
    ///
    /// [`Error::Locked`] when another writer holds it.
    pub(crate) fn hold_file(file: &Arc<File>, path: &Path) -> Result<FileLock> {
        hold_in_spite_of_looks(file, path)?;
        Ok(FileLock { _not_inherited: NotInherited::of(file), file: file.clone() })
    }

    /// Looks whether a writer is at work, without keeping it from anything.
    ///
    /// # Errors
    ///
    /// [`Error::Locked`] when one is.
    pub(crate) fn look(root: &Path) -> Result<()> {
        Self::share(root).map(drop)
    }

    /// As [`look`](Self::look), also at the folders above, because `root` may be a part of a dataset.
    pub(crate) fn look_around(root: &Path) -> Result<()> {
        Self::look(root)?;
        // Some arrays are no folders.
        let root = fs::canonicalize(root).unwrap_or_else(|_| root.to_path_buf());
        let locked = |above| Self::look(above).err().filter(|error| matches!(error, Error::Locked { .. }));
        root.ancestors().skip(1).find_map(locked).map_or(Ok(()), Err)
    }

    /// Refuses a path that lies in a dataset at which a writer is at work.
    pub(crate) fn refuse_within(path: &Path) -> Result<()> {
        let is_locked = |above: &&Path| matches!(Self::look(above), Err(Error::Locked { .. }));
        let Some(above) = path.ancestors().skip(1).find(is_locked) else { return Ok(()) };
        let reason = format!("lies in {}, which is being written; choose a path beside it", above.display());
        Err(Error::conflict(path, reason))
    }

    /// Looks whether a writer or a tool is at work below `root`, in a dataset that has a lock of its own. Links are not
    /// followed, and a folder that can't be listed is passed over.
    ///
    /// # Errors
    ///
    /// [`Error::Locked`] names the first such dataset that is found.
    pub(crate) fn look_below(root: &Path) -> Result<()> {
        let mut folders = vec![root.to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let name = entry.file_name();
                let mut held = Ok(());
                if name == LOCK_FILE && folder != root {
                    held = Self::look(&folder);
                } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    folders.push(entry.path());
                    // A tool works in a folder that it has locked itself; nobody works in what can't be opened.
                    if name.to_str().is_some_and(is_work)
                        && let Ok(file) = open_folder(&entry.path())
                    {
                        held = hold(&file, false, &entry.path());
                    }
                }
                // What else is wrong with a lock file there keeps nobody at work.
                held.or_else(|error| if matches!(error, Error::Locked { .. }) { Err(error) } else { Ok(()) })?;
            }
        }
        Ok(())
    }

    /// Locks the folder itself: it is worked in, and has no lock file.
    pub(crate) fn on_folder(folder: &Path) -> Result<Self> {
        let file = open_folder(folder).map_err(|error| Error::io("open the folder", folder, error))?;
        hold(&file, true, folder)?;
        Ok(Self::held(folder.to_path_buf(), file, true))
    }

    /// Adds a line to the lock file, for others to read. They may be there from a holder that was killed, too.
    pub(crate) fn note(&self, line: &str) -> io::Result<()> {
        let end = self.file.metadata()?.len();
        self.file.write_all_at(format!("{line}\n").as_bytes(), end)
    }

    fn held(path: PathBuf, file: File, is_shared: bool) -> Self {
        Self { path, _not_inherited: NotInherited::of(&file), file, is_shared }
    }
}

/// Whether a path, which may be a link, leads to this file.
fn is_behind(path: &Path, file: &File) -> bool {
    Identity::at(path).is_ok_and(|found| Identity::of(file).is_ok_and(|held| held == found))
}

/// A reader that [looks](Lock::look) holds the lock for a moment, which is none of a writer's business.
fn hold_in_spite_of_looks(file: &File, root: &Path) -> Result<()> {
    const LOOKS_MAX: u32 = 10;
    const LOOK: Duration = Duration::from_millis(2);
    let mut looks = 0;
    loop {
        match hold(file, true, root) {
            Err(Error::Locked { .. }) if looks < LOOKS_MAX => looks += 1,
            held => return held,
        }
        thread::sleep(LOOK);
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Still locked: who opens the file before this keeps it from being taken for a lock. Another's is left alone.
        if !self.is_shared && Identity::of(&self.file).is_ok_and(|held| held.is_at(&self.path)) {
            let _ = fs::remove_file(&self.path);
        }
        unlock(&self.file);
    }
}

/// The lock of a dataset that is one file, held until it is dropped, whoever has the file open then.
#[derive(Debug)]
pub(crate) struct FileLock {
    /// Dropped before the file.
    _not_inherited: NotInherited,
    file: Arc<File>,
}

impl Drop for FileLock {
    fn drop(&mut self) {
        unlock(&self.file);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Share,
    /// NFS locks only for its one holder what may be written to.
    Hold,
    Create,
}

/// Opens a lock file; `None` where there is none, or, if it is to be created, where there is one by now.
fn open(path: &Path, purpose: Purpose) -> Result<Option<File>> {
    // A link would have another file created or locked, and opening a pipe would wait for ever.
    let (writes, creates) = (purpose != Purpose::Share, purpose == Purpose::Create);
    let file = open_unfollowed(OpenOptions::new().read(true).write(writes).create_new(creates), path);
    let is_file = |file: &File| file.metadata().is_ok_and(|metadata| metadata.is_file());
    match file {
        Ok(file) if is_file(&file) => Ok(Some(file)),
        Ok(_) => Err(not_a_file(path)),
        Err(error) if error.kind() == ErrorKind::NotFound && !creates => Ok(None),
        // A file has nobody at work in it; what it is instead of a dataset is told by who reads it.
        Err(error) if error.kind() == ErrorKind::NotADirectory && purpose == Purpose::Share => Ok(None),
        Err(error) if error.kind() == ErrorKind::AlreadyExists && creates => Ok(None),
        Err(_) if fs::symlink_metadata(path).is_ok_and(|metadata| !metadata.is_file()) => Err(not_a_file(path)),
        Err(error) => Err(Error::io("open the lock file", path, error)),
    }
}

fn not_a_file(path: &Path) -> Error {
    Error::format(path, "is not a regular file; a writer's lock file is one")
}

fn hold(file: &File, exclusive: bool, path: &Path) -> Result<()> {
    match try_lock(file, exclusive) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Error::Locked { path: path.to_path_buf() }),
        Err(error) => Err(refused(error, path)),
    }
}

fn refused(error: io::Error, path: &Path) -> Error {
    if !has_no_locks(&error) {
        return Error::io("lock", path, error);
    }
    let reason = "this file system has no locks (flock), so two writers could not be kept apart; mount it with locks \
                  (Lustre: -o flock), or write elsewhere";
    Error::io("lock", path, io::Error::new(error.kind(), reason))
}

/// Whether a name is one under which files are made before they appear.
pub(crate) fn is_partial(name: &str) -> bool {
    name.starts_with('.') && name.ends_with(".partial")
}

/// Whether a name is one that this crate gives to what it works at, or has replaced: never a node of a dataset.
pub(crate) fn is_work(name: &str) -> bool {
    let ending = name.strip_prefix('.').and_then(|name| name.rsplit_once('.')).map(|(_, ending)| ending);
    ending.is_some_and(|ending| {
        matches!(ending, "partial" | "repack" | "pyramid" | "replaced") || ending.starts_with("replaced-")
    })
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn one_writer_at_a_time_and_readers_meanwhile_none() {
        let folder = tempfile::tempdir().unwrap();
        let lock = Lock::take(folder.path()).unwrap();
        assert!(matches!(Lock::take(folder.path()), Err(Error::Locked { .. })));
        assert!(matches!(Lock::look(folder.path()), Err(Error::Locked { .. })));
        drop(lock);
        assert!(Lock::share(folder.path()).unwrap().is_none(), "its file has gone with it");
        drop(Lock::take(folder.path()).unwrap());
    }

    /// Whoever shares a lock shares the one that the next writer will meet, not one that was removed meanwhile.
    #[test]
    fn a_lock_that_is_shared_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(LOCK_FILE);
        thread::scope(|scope| {
            let writer = scope.spawn(|| (0..3000).for_each(|_| drop(Lock::take(folder.path()))));
            while !writer.is_finished() {
                if let Ok(Some(shared)) = Lock::share(folder.path()) {
                    assert!(Identity::of(&shared.file).unwrap().is_at(&path));
                }
            }
        });
    }

    #[test]
    fn a_reader_that_looks_does_not_keep_a_writer_out() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(LOCK_FILE), "").unwrap();
        let look = Lock::share(folder.path()).unwrap().unwrap();
        thread::scope(|scope| {
            let writer = scope.spawn(|| Lock::take(folder.path()).map(drop));
            thread::sleep(Duration::from_millis(5));
            drop(look);
            writer.join().unwrap().unwrap();
        });
    }

    #[test]
    fn who_works_below_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let (run, work) = (folder.path().join("a/run.zarr"), folder.path().join("a/.copy.zarr.repack"));
        [&run, &work].iter().for_each(|path| fs::create_dir_all(path).unwrap());
        let found = || match Lock::look_below(folder.path()) {
            Err(Error::Locked { path }) => Some(path),
            other => other.map(|()| None).unwrap(),
        };
        let _own = Lock::take(folder.path()).unwrap();
        assert_eq!(found(), None);
        let lock = Lock::take(&run).unwrap();
        assert_eq!(found(), Some(run.clone()));
        drop(lock);
        // What a kill left is held by nobody.
        fs::write(run.join(LOCK_FILE), "").unwrap();
        assert_eq!(found(), None);
        let lock = Lock::on_folder(&work).unwrap();
        assert_eq!(found(), Some(work.clone()));
        drop(lock);
        assert_eq!(found(), None);
    }

    #[test]
    fn a_lock_file_that_is_none_is_neither_followed_nor_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let (path, elsewhere) = (folder.path().join(LOCK_FILE), folder.path().join("elsewhere"));
        for there in [false, true] {
            std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
            for refused in [Lock::take(folder.path()).map(drop), Lock::look(folder.path())] {
                assert!(refused.unwrap_err().to_string().contains("regular file"));
            }
            assert_eq!(elsewhere.exists(), there);
            fs::write(&elsewhere, "theirs").unwrap();
            fs::remove_file(&path).unwrap();
        }
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert!(Lock::take(folder.path()).unwrap_err().to_string().contains("regular file"));
        assert!(Lock::look(folder.path()).unwrap_err().to_string().contains("regular file"));
    }

    #[test]
    fn a_lock_that_was_replaced_leaves_the_other_alone() {
        let folder = tempfile::tempdir().unwrap();
        let lock = Lock::take(folder.path()).unwrap();
        fs::remove_file(folder.path().join(LOCK_FILE)).unwrap();
        let other = Lock::take(folder.path()).unwrap();
        drop(lock);
        assert!(matches!(Lock::take(folder.path()), Err(Error::Locked { .. })));
        drop(other);
    }

    #[test]
    fn a_file_system_without_locks_is_not_told_as_another_writer() {
        for code in [libc::ENOSYS, libc::EOPNOTSUPP, libc::ENOLCK] {
            let told = refused(io::Error::from_raw_os_error(code), Path::new("there"));
            assert!(matches!(&told, Error::Io { .. }) && told.to_string().contains("has no locks"), "{told}");
        }
        let other = refused(io::Error::from_raw_os_error(libc::EIO), Path::new("there"));
        assert!(!other.to_string().contains("has no locks"), "{other}");
    }
}
