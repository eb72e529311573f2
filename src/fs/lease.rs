//! A moment in which nobody else has a file open, for changes that a reader in their middle would stumble over: a file
//! that becomes shorter between the look at its length and the read of its end.

use std::fs::File;
use std::thread;
use std::time::Duration;

use super::system::{end_lease, try_lease};

const TRIES: u32 = 200;
const PAUSE: Duration = Duration::from_micros(50);

/// Makes a change during which who opens the file waits. Best effort: where a reader keeps the file open for longer
/// than ten milliseconds, or the file system has no leases, the change is made all the same.
///
/// `file` must be the only open description of the file that this process has for writing.
pub(crate) fn unseen<T>(file: &File, change: impl FnOnce() -> T) -> T {
    let leased = take(file);
    let changed = change();
    if leased {
        end_lease(file);
    }
    changed
}

fn take(file: &File) -> bool {
    for _ in 0..TRIES {
        match try_lease(file) {
            Ok(true) => return true,
            Ok(false) => thread::sleep(PAUSE),
            Err(_) => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::system::{join_descriptors, open_unfollowed};
    use super::*;
    use std::io;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    #[cfg_attr(miri, ignore = "miri has no leases")]
    fn who_opens_the_file_meanwhile_waits() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        let other = File::options().write(true).open(&path).unwrap();
        join_descriptors(&other, &file);
        let changed = AtomicBool::new(false);
        thread::scope(|scope| {
            let readers = unseen(&file, || {
                let (path, changed) = (&path, &changed);
                // The second must not wait for the other end of a pipe.
                let readers = [false, true].map(|refuses_pipes| {
                    scope.spawn(move || {
                        let file = match refuses_pipes {
                            false => File::open(path)?,
                            true => open_unfollowed(File::options().read(true), path)?,
                        };
                        io::Result::Ok((file, changed.load(Ordering::SeqCst)))
                    })
                });
                thread::sleep(Duration::from_millis(50));
                changed.store(true, Ordering::SeqCst);
                readers
            });
            for reader in readers {
                assert!(reader.join().unwrap().unwrap().1, "it saw the file before the change");
            }
        });
        // A reader that stays is not waited for.
        let reader = File::open(&path).unwrap();
        assert_eq!(unseen(&file, || 7), 7);
        drop(reader);
    }
}
