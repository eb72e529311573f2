//! What the system says of this machine and this process.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::failure::Failure;
use shardwright::words::of_system;

/// How often it is looked what the process has.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The bytes that are free where a folder is.
pub(crate) fn free_bytes(folder: &Path) -> Result<u64, Failure> {
    let state = rustix::fs::statvfs(folder)
        .map_err(|error| Failure::Run(format!("{}: {}", folder.display(), of_system(error))))?;
    Ok(state.f_bavail * state.f_frsize)
}

/// What the kernel tells of this process's memory, in bytes, by one of the names in `/proc/self/status`.
pub(crate) fn process_bytes(name: &str) -> Option<u64> {
    bytes_in(&fs::read_to_string("/proc/self/status").ok()?, name)
}

/// What it tells of all memory, by one of the names in `/proc/meminfo`.
pub(crate) fn memory_bytes(name: &str) -> Option<u64> {
    bytes_in(&fs::read_to_string("/proc/meminfo").ok()?, name)
}

fn bytes_in(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

/// The most memory that the process ever had resident.
pub(crate) fn peak_rss_bytes() -> Option<u64> {
    process_bytes("VmHWM").or_else(max_rss_bytes)
}

/// The most threads and open files that the process had whenever somebody looked; `None`: the system does not say.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct ProcessUse {
    pub(crate) threads: Option<usize>,
    pub(crate) open_files: Option<usize>,
    #[serde(skip)]
    looked: Option<Instant>,
}

impl ProcessUse {
    /// Looks, unless somebody just did.
    pub(crate) fn look(&mut self) {
        if self.looked.is_some_and(|looked| looked.elapsed() < LOOK_EVERY) {
            return;
        }
        let entries = |folder: &str| fs::read_dir(folder).ok().map(Iterator::count);
        self.threads = self.threads.max(entries("/proc/self/task"));
        // One of them is the folder that is looked at.
        self.open_files = self.open_files.max(entries("/proc/self/fd").map(|files| files.saturating_sub(1)));
        self.looked = Some(Instant::now());
    }
}

#[cfg(unix)]
#[allow(unsafe_code)]
fn max_rss_bytes() -> Option<u64> {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to a whole `rusage` that outlives the call.
    if unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: `rusage` is plain integers, for which zeros are valid, and the call has filled them.
    let largest = unsafe { usage.assume_init() }.ru_maxrss as u64;
    // macOS counts bytes, all others kilobytes.
    Some(if cfg!(target_os = "macos") { largest } else { largest * 1024 })
}

#[cfg(not(unix))]
fn max_rss_bytes() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peak_memory_is_known() {
        if cfg!(unix) {
            assert!(peak_rss_bytes().unwrap() > 1 << 20);
            assert!(max_rss_bytes().unwrap() > 1 << 20);
        }
    }

    #[test]
    fn numbers_are_found_by_their_whole_names() {
        assert_eq!(bytes_in("VmPeak:\t 9 kB\nVmHWM:\t   12 kB\n", "VmHWM"), Some(12 * 1024));
        assert_eq!(bytes_in("MemTotal:       24000000 kB\nDirty:  12 kB\n", "Dirty"), Some(12_288));
        assert_eq!(bytes_in("DirtyPages: 3 kB\n", "Dirty"), None);
    }
}
