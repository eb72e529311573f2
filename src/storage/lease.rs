//! A moment in which nobody else has a file open, for changes that a reader in their middle would stumble over: a file
//! that becomes shorter between the look at its length and the read of its end.
#![allow(unsafe_code)]

use std::fs::File;
use std::os::fd::AsRawFd;
use std::thread;
use std::time::Duration;

const TRIES: u32 = 200;
const PAUSE: Duration = Duration::from_micros(50);

/// Makes a change during which who opens the file waits. Best effort: where a reader keeps the file open for longer
/// than ten milliseconds, or the file system has no leases, the change is made all the same.
///
/// `file` must be the only open description of the file that this process has for writing.
pub(super) fn unseen<T>(file: &File, change: impl FnOnce() -> T) -> T {
    let leased = take(file);
    let changed = change();
    if leased {
        set(file, libc::F_UNLCK);
    }
    changed
}

fn take(file: &File) -> bool {
    // The signal that tells of somebody who waits to open the file: one that is ignored unless a program asks for it.
    // The one by default would end the process. SAFETY: the call reads its arguments, which are numbers.
    if unsafe { libc::fcntl(file.as_raw_fd(), F_SETSIG, libc::SIGURG) } != 0 {
        return false;
    }
    for _ in 0..TRIES {
        if set(file, libc::F_WRLCK) {
            return true;
        }
        if std::io::Error::last_os_error().kind() != std::io::ErrorKind::WouldBlock {
            return false;
        }
        thread::sleep(PAUSE);
    }
    false
}

fn set(file: &File, lease: i32) -> bool {
    // SAFETY: as above.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, lease) == 0 }
}

// From fcntl(2); the C library's crate has no name for it.
const F_SETSIG: i32 = 10;

/// Lets `other`, a further open description of the file behind `file`, become the same as `file`'s.
pub(super) fn join(other: &File, file: &File) {
    // SAFETY: both descriptors are open, and stay so: the number of `other` goes on to belong to it, and is never
    // unused between.
    let joined = unsafe { libc::dup3(file.as_raw_fd(), other.as_raw_fd(), libc::O_CLOEXEC) };
    // Without it there is no lease, and that is best effort.
    debug_assert!(joined >= 0, "both are open");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    #[cfg_attr(miri, ignore = "miri has no leases")]
    fn who_opens_the_file_meanwhile_waits() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        let other = File::options().write(true).open(&path).unwrap();
        join(&other, &file);
        let changed = AtomicBool::new(false);
        thread::scope(|scope| {
            let reader = unseen(&file, || {
                let reader = scope.spawn(|| File::open(&path).map(|_| changed.load(Ordering::SeqCst)));
                thread::sleep(Duration::from_millis(50));
                changed.store(true, Ordering::SeqCst);
                reader
            });
            assert!(reader.join().unwrap().unwrap(), "it saw the file before the change");
        });
        // A reader that stays is not waited for.
        let reader = File::open(&path).unwrap();
        assert_eq!(unseen(&file, || 7), 7);
        drop(reader);
    }
}
