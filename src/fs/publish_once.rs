//! A file that several processes may make at once, on several machines, and that gets its name once.
//!
//! A name is given by `link`, which never replaces another file, also on network file systems, where a rename that
//! refuses to replace does not exist. What an attribute cache says of a name counts for nothing here.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use super::system;

/// Whose file has the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Published {
    /// The one that was given; it has its first name no longer.
    Now,
    /// Another one, which had it before. The one that was given is still there.
    Before,
}

/// How often a call is made whose file handle has become stale.
const ATTEMPTS: u32 = 5;

/// The calls of a file system; in tests, of one that fails.
trait Naming {
    fn link(&self, made: &Path, path: &Path) -> io::Result<()>;
    fn rename(&self, made: &Path, path: &Path) -> io::Result<()>;
    fn unlink(&self, made: &Path) -> io::Result<()>;
    /// How many names a file has.
    fn names(&self, made: &Path) -> io::Result<u64>;
}

struct FileSystem;

impl Naming for FileSystem {
    fn link(&self, made: &Path, path: &Path) -> io::Result<()> {
        fs::hard_link(made, path)
    }

    fn rename(&self, made: &Path, path: &Path) -> io::Result<()> {
        system::rename_new(made, path)
    }

    fn unlink(&self, made: &Path) -> io::Result<()> {
        fs::remove_file(made)
    }

    fn names(&self, made: &Path) -> io::Result<u64> {
        fs::symlink_metadata(made).map(|metadata| metadata.nlink())
    }
}

/// Gives the finished file `made`, of which nobody else knows, the name `path`, unless another file has that. The name
/// lasts when the caller has synced the folder.
pub(crate) fn publish_once(made: &Path, path: &Path) -> io::Result<Published> {
    publish_by(&FileSystem, made, path)
}

fn publish_by(naming: &impl Naming, made: &Path, path: &Path) -> io::Result<Published> {
    // Where links are unknown, a rename that does not replace is the next best.
    let is_without_links = |error: &io::Error| {
        system::is_unsupported(error)
            || matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::TooManyLinks)
    };
    match again(|| naming.link(made, path)) {
        Ok(()) => {}
        // The answer to a call that was carried out may be lost, and the next call finds the name taken, or fails.
        Err(_) if again(|| naming.names(made)).is_ok_and(|names| names > 1) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(Published::Before),
        Err(error) if is_without_links(&error) => {
            return match again(|| naming.rename(made, path)) {
                Ok(()) => Ok(Published::Now),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Published::Before),
                Err(error) => Err(error),
            };
        }
        Err(error) => return Err(error),
    }
    match again(|| naming.unlink(made)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(Published::Now),
    }
}

/// Makes a call again whose file handle a server no longer knows.
fn again<T>(call: impl Fn() -> io::Result<T>) -> io::Result<T> {
    let mut attempt = 1;
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::StaleNetworkFileHandle && attempt < ATTEMPTS => {
                thread::sleep(Duration::from_millis(10 << attempt));
                attempt += 1;
            }
            other => return other,
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Fails the first calls of one kind, before or after they were carried out.
    struct Failing {
        call: &'static str,
        kind: io::ErrorKind,
        times: Cell<u32>,
        is_done_first: bool,
    }

    impl Failing {
        fn answer<T>(&self, call: &str, made: impl Fn() -> io::Result<T>) -> io::Result<T> {
            if self.call != call || self.times.get() == 0 {
                return made();
            }
            self.times.set(self.times.get() - 1);
            if self.is_done_first {
                let _ = made();
            }
            Err(self.kind.into())
        }
    }

    impl Naming for Failing {
        fn link(&self, made: &Path, path: &Path) -> io::Result<()> {
            self.answer("link", || FileSystem.link(made, path))
        }

        fn rename(&self, made: &Path, path: &Path) -> io::Result<()> {
            self.answer("rename", || FileSystem.rename(made, path))
        }

        fn unlink(&self, made: &Path) -> io::Result<()> {
            self.answer("unlink", || FileSystem.unlink(made))
        }

        fn names(&self, made: &Path) -> io::Result<u64> {
            self.answer("names", || FileSystem.names(made))
        }
    }

    #[test]
    fn a_name_is_given_once_whatever_a_network_file_system_answers() {
        use io::ErrorKind::{AlreadyExists, PermissionDenied, StaleNetworkFileHandle, StorageFull, TimedOut};
        let cases = [
            // A lost answer: the call is repeated by the client, and finds its own name.
            ("link", AlreadyExists, 1, true, Ok(Published::Now)),
            ("link", TimedOut, 1, true, Ok(Published::Now)),
            ("link", TimedOut, 1, false, Err(TimedOut)),
            ("link", StaleNetworkFileHandle, 2, false, Ok(Published::Now)),
            ("link", StaleNetworkFileHandle, 9, false, Err(StaleNetworkFileHandle)),
            ("link", StorageFull, 1, false, Err(StorageFull)),
            ("link", PermissionDenied, 9, false, Ok(Published::Now)),
            ("unlink", StaleNetworkFileHandle, 2, false, Ok(Published::Now)),
            ("unlink", StaleNetworkFileHandle, 1, true, Ok(Published::Now)),
            ("", TimedOut, 0, false, Ok(Published::Now)),
        ];
        for (call, kind, times, is_done_first, expected) in cases {
            let folder = tempfile::tempdir().unwrap();
            let (made, path) = (folder.path().join(".0.partial"), folder.path().join("0"));
            fs::write(&made, "new").unwrap();
            let naming = Failing { call, kind, times: times.into(), is_done_first };
            let published = publish_by(&naming, &made, &path).map_err(|error| error.kind());
            assert_eq!(published, expected, "{call} {kind:?} {is_done_first}");
            if published.is_ok() {
                assert!(!made.exists() && fs::read(&path).unwrap() == b"new", "{call} {kind:?}");
            }
        }
    }

    #[test]
    fn what_has_the_name_keeps_it() {
        for kind in [None, Some(io::ErrorKind::PermissionDenied)] {
            let folder = tempfile::tempdir().unwrap();
            let (made, path) = (folder.path().join(".0.partial"), folder.path().join("0"));
            fs::write(&made, "new").unwrap();
            fs::write(&path, "old").unwrap();
            let kind_or = kind.unwrap_or(io::ErrorKind::Other);
            let times = Cell::new(u32::from(kind.is_some()));
            let naming = Failing { call: "link", kind: kind_or, times, is_done_first: false };
            assert_eq!(publish_by(&naming, &made, &path).unwrap(), Published::Before);
            assert_eq!((fs::read(&made).unwrap(), fs::read(&path).unwrap()), (b"new".to_vec(), b"old".to_vec()));
        }
    }
}
