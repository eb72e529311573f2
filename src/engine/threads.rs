//! How the engine's own threads are started.

use std::path::Path;
use std::thread::{Builder, JoinHandle};

use crate::error::{Error, Result};

/// Starts one of the engine's threads, on behalf of the dataset at `path`.
pub(crate) fn spawn(name: String, path: &Path, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let run = move || {
        yield_to_the_camera();
        run();
    };
    Builder::new().name(name).spawn(run).map_err(|e| Error::io("start a thread for", path, e))
}

/// Tells the scheduler that this thread is after throughput: when a commit wakes it, it must not push the committing
/// thread off its core, which would then wait for milliseconds. Only a wish.
#[cfg(all(target_os = "linux", not(miri)))]
#[allow(unsafe_code)]
fn yield_to_the_camera() {
    // SAFETY: all of `sched_param` is integers, for which zeros are a value.
    let parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is good for the call, which changes nothing but how this thread (0) is scheduled.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const parameters) };
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn yield_to_the_camera() {}
