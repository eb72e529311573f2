//! Files and folders that a call makes for a path where no lock keeps others away: a user's folder, in which another
//! call may be at work for the same path.
//!
//! ```text
//! .out.tif.1b2c3d4e.partial       made by one call, which holds its lock; the name is random
//! out.tif                         the same when it is whole
//! ```
//!
//! No call writes to what another one makes, or to what it finds under such a name, be it a link or a pipe. What a kill
//! has left is locked by nobody, and removed by the next call for the same path.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::identity::Identity;
use super::publish::{hidden, publish, publish_new, remove_folder, sync_folder_of, take_name};
use super::system::{self, has_no_locks, open_folder, open_unfollowed, rename_new, try_lock};
use crate::error::{Error, Result};

/// What stands behind the random part of a name.
const END: &str = ".partial";
/// Hexadecimal digits of the random part.
const DIGITS: usize = 8;

/// A file that gets its name when it is whole. Dropped before, it disappears.
#[derive(Debug)]
pub struct OutputFile(Output);

/// A folder that gets its name when it is whole. Dropped before, it disappears with all that is in it.
#[derive(Debug)]
pub(crate) struct OutputFolder(Output);

impl OutputFile {
    /// Creates a file for `path`, whose folder is there, under a name of its own.
    pub fn create(path: &Path) -> io::Result<Self> {
        let make = |at: &Path| File::options().read(true).write(true).create_new(true).open(at);
        Output::begin(path, make).map(Self)
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.0.held
    }

    /// Gives the file its name, with `replace` also where something has it. It may not last.
    ///
    /// # Errors
    ///
    /// Of the kind [`AlreadyExists`](io::ErrorKind::AlreadyExists) when something has the name that may not be
    /// replaced; others as the system reports them.
    pub fn publish(self, replace: bool) -> io::Result<()> {
        let Output { at, path, .. } = &self.0;
        if replace { take_name(at, path) } else { rename_new(at, path) }
    }
}

impl OutputFolder {
    /// Creates a folder for `path`, whose parent is there, under a name of its own.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let make = |at: &Path| fs::create_dir(at).and_then(|()| open_folder(at));
        Output::begin(path, make).map(Self).map_err(|error| Error::io("create", path, error))
    }

    /// Where it is made.
    pub(crate) fn folder(&self) -> &Path {
        &self.0.at
    }

    /// Gives the folder its name for good; with `replace`, what has it is removed.
    ///
    /// # Errors
    ///
    /// [`Error::Exists`] when something has the name that may not be replaced.
    pub(crate) fn publish(self, replace: bool) -> Result<()> {
        let Output { at, path, .. } = &self.0;
        if replace { publish(at, path) } else { publish_new(at, path) }
    }
}

/// Makes a file as a whole: when `fill` has written it, it gets the name `path`, for good if that is asked for.
///
/// # Errors
///
/// [`Error::Io`] of the kind [`AlreadyExists`](io::ErrorKind::AlreadyExists) when something has that name.
pub(crate) fn make_file(path: &Path, sync: bool, fill: impl FnOnce(&File) -> Result<()>) -> Result<()> {
    let failed = |error| Error::io("create", path, error);
    let made = OutputFile::create(path).map_err(failed)?;
    fill(made.file())?;
    if sync {
        made.file().sync_all().map_err(failed)?;
    }
    made.publish(false).map_err(failed)?;
    if sync { sync_folder_of(path) } else { Ok(()) }
}

/// A file or folder in the making.
#[derive(Debug)]
struct Output {
    /// Its name until it is whole.
    at: PathBuf,
    path: PathBuf,
    /// Locked, so that no other call takes it for left by a kill.
    held: File,
}

impl Output {
    fn begin(path: &Path, make: impl Fn(&Path) -> io::Result<File>) -> io::Result<Self> {
        remove_leftovers(path);
        loop {
            let at = random_name(path)?;
            let held = match make(&at) {
                Ok(held) => held,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                // A folder went before it was opened.
                Err(error) if error.kind() == io::ErrorKind::NotFound && folder_of(path).is_dir() => continue,
                Err(error) => return Err(error),
            };
            let is_locked = match try_lock(&held, true) {
                // Where there are no locks, nobody removes what others make.
                Err(error) if has_no_locks(&error) => true,
                other => other?,
            };
            let made = Self { at, path: path.to_path_buf(), held };
            // A call that looked for leftovers between the two found this one.
            if is_locked && made.is_in_place() {
                return Ok(made);
            }
        }
    }

    fn is_in_place(&self) -> bool {
        Identity::of(&self.held).is_ok_and(|held| held.is_at(&self.at))
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // When it has its name, there is nothing of this call under the other one.
        if self.is_in_place() {
            let _ = remove(&self.at, &self.held);
        }
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn random_name(path: &Path) -> io::Result<PathBuf> {
    let mut random = [0; DIGITS / 2];
    system::random(&mut random)?;
    Ok(hidden(path, &format!("{:0DIGITS$x}{END}", u32::from_ne_bytes(random))))
}

/// Removes what killed calls have left for `path`. Best effort: it is in nobody's way.
pub(crate) fn remove_leftovers(path: &Path) {
    let start = hidden(path, "");
    let Some(start) = start.file_name() else { return };
    let is_one = |name: &[u8]| {
        let rest = name.strip_prefix(start.as_encoded_bytes()).and_then(|rest| rest.strip_suffix(END.as_bytes()));
        rest.is_some_and(|digits| digits.len() == DIGITS && digits.iter().all(u8::is_ascii_hexdigit))
    };
    let entries = fs::read_dir(folder_of(path)).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| is_one(entry.file_name().as_encoded_bytes())) {
        let at = entry.path();
        let open = match entry.file_type() {
            Ok(kind) if kind.is_dir() => open_folder(&at),
            // NFS locks only what may be written to.
            Ok(kind) if kind.is_file() => open_unfollowed(File::options().read(true).write(true), &at),
            _ => continue,
        };
        if let Ok(left) = open
            && matches!(try_lock(&left, true), Ok(true))
        {
            let _ = remove(&at, &left);
        }
    }
}

/// Removes a file or a folder that this process has locked.
fn remove(at: &Path, held: &File) -> Result<()> {
    let failed = |error| Error::io("remove", at, error);
    if held.metadata().map_err(failed)?.is_dir() { remove_folder(at) } else { fs::remove_file(at).map_err(failed) }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::io::Write;

    use super::super::names_in as names;
    use super::*;

    #[test]
    fn what_is_never_published_disappears() {
        let folder = tempfile::tempdir().unwrap();
        let file = OutputFile::create(&folder.path().join("a.raw")).unwrap();
        let made = OutputFolder::create(&folder.path().join("m.zarr")).unwrap();
        fs::write(made.folder().join("zarr.json"), "{}").unwrap();
        let [of_file, of_folder] = names(folder.path()).try_into().unwrap();
        assert!(of_file.starts_with(".a.raw.") && of_folder.starts_with(".m.zarr."), "{of_file} {of_folder}");
        drop((file, made));
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn of_two_calls_for_one_path_one_wins_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.raw");
        let [one, other, third] = ["one", "other", "third"].map(|text| {
            let made = OutputFile::create(&path).unwrap();
            made.file().write_all(text.as_bytes()).unwrap();
            made
        });
        one.publish(false).unwrap();
        assert_eq!(other.publish(false).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
        third.publish(true).unwrap();
        assert_eq!((names(folder.path()), fs::read_to_string(&path).unwrap()), (vec!["a.raw".into()], "third".into()));

        let path = folder.path().join("m.zarr");
        let [one, other, third] = [(); 3].map(|()| OutputFolder::create(&path).unwrap());
        fs::write(third.folder().join("third"), "").unwrap();
        one.publish(false).unwrap();
        assert!(matches!(other.publish(false), Err(Error::Exists { .. })));
        third.publish(true).unwrap();
        assert_eq!((names(folder.path()), names(&path)), (vec!["a.raw".into(), "m.zarr".into()], vec!["third".into()]));
    }

    #[test]
    fn the_next_call_removes_what_a_kill_left_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let live = OutputFile::create(&at("a.raw")).unwrap();
        for left in [".a.raw.0123abcd.partial", ".a.raw.partial", ".a.raw.thesis.partial", ".b.raw.0123abcd.partial"] {
            fs::write(at(left), "theirs").unwrap();
        }
        fs::create_dir_all(at(".a.raw.00000000.partial/0/c")).unwrap();
        std::os::unix::fs::symlink(at(".a.raw.partial"), at(".a.raw.11111111.partial")).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(at(".a.raw.22222222.partial")).status().unwrap().success());
        let live_name = live.0.at.file_name().unwrap().to_str().unwrap().to_owned();
        drop(OutputFile::create(&at("a.raw")).unwrap());
        let mut kept =
            [".a.raw.11111111.partial", ".a.raw.22222222.partial", ".a.raw.partial"].map(String::from).to_vec();
        kept.extend([".a.raw.thesis.partial".into(), ".b.raw.0123abcd.partial".into(), live_name]);
        kept.sort();
        assert_eq!(names(folder.path()), kept);
        assert_eq!(fs::read_to_string(at(".a.raw.partial")).unwrap(), "theirs");
        live.publish(false).unwrap();
    }

    #[test]
    fn without_its_folder_there_is_no_output() {
        let folder = tempfile::tempdir().unwrap();
        for refused in ["gone/a.raw", "gone/deep/a.raw"].map(|path| OutputFile::create(&folder.path().join(path))) {
            assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::NotFound);
        }
        assert!(names(folder.path()).is_empty());
    }
}
