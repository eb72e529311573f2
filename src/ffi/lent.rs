//! Handles of acquisitions that Rust code owns, for drivers in C that know only the calls per frame.

use std::sync::Arc;
use std::time::Duration;

use super::registry::{Held, RUNS, Run, SW_ACQUISITIONS_MAX, sw_acquisition};
use crate::acquisition::Acquisition;
use crate::error::{Error, Result};

/// An acquisition's handle in C. It has every call of the header but those that end and free a run, which refuse with
/// SW_ERROR_BUSY: that is the owner's business.
#[derive(Debug)]
pub struct LentHandle {
    token: usize,
}

impl LentHandle {
    /// What C gets.
    pub fn as_ptr(&self) -> *mut sw_acquisition {
        std::ptr::without_provenance_mut(self.token)
    }
}

/// Makes a handle of an acquisition. It shares the ring, the numbers and the policies with the Rust side; frames that C
/// has on loan are its own.
///
/// # Errors
///
/// [`Error::Config`] when there are as many handles as there can be.
pub fn lend(acquisition: &Arc<Acquisition>) -> Result<LentHandle> {
    let too_many = format!("{SW_ACQUISITIONS_MAX} handles exist; end a run first");
    let room = RUNS.room().map_err(|_| Error::config("handle", "one more", too_many))?;
    let handle: *mut sw_acquisition = room.fill(Arc::new(Run::new(Held::Lent(acquisition.clone()))));
    Ok(LentHandle { token: handle.addr() })
}

impl Drop for LentHandle {
    /// Waits until no thread is in a call with the handle: [close](Acquisition::close) the acquisition first, so that
    /// nobody waits for a buffer.
    fn drop(&mut self) {
        while RUNS.enter(self.as_ptr()).is_ok() {
            if let Ok(run) = RUNS.remove(self.as_ptr(), |_| Ok(())) {
                drop(run);
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(unsafe_code)]

    use super::*;
    use crate::ffi::finish::{sw_finish, sw_free};
    use crate::ffi::run::{SW_NEXT, sw_acquire, sw_commit, sw_frame};
    use crate::ffi::status::{SW_ERROR_BUSY, SW_ERROR_HANDLE, SW_OK};
    use crate::{Config, Dim, Dtype, Memory};

    #[test]
    fn a_driver_in_c_commits_frames_of_a_run_that_it_can_not_end() {
        let dims = vec![Dim::time(None).chunk(1).shard(4), Dim::y(8), Dim::x(8)];
        let config = Config { dtype: Dtype::U8, dims, ring_bytes: 8 * 4096, workers: 1, ..Config::default() };
        let acquisition = Arc::new(Acquisition::create_in(Arc::new(Memory::new()), config).unwrap());
        let lent = lend(&acquisition).unwrap();
        let handle = lent.as_ptr();
        let mut frame = sw_frame { data: std::ptr::null_mut(), bytes: 0, index: 0, turn: 0 };
        for _ in 0..3 {
            // SAFETY: what is written to is there.
            assert_eq!(unsafe { sw_acquire(handle, 1000, &raw mut frame) }, SW_OK);
            assert!(acquisition.buffer_addresses().contains(&frame.data.cast()));
            // SAFETY: as above.
            assert_eq!(unsafe { sw_commit(handle, &raw const frame, SW_NEXT, std::ptr::null()) }, SW_OK);
        }
        // SAFETY: as above.
        assert_eq!(unsafe { sw_finish(handle, 0, std::ptr::null_mut()) }, SW_ERROR_BUSY);
        drop(lent);
        assert_eq!(sw_free(handle), SW_ERROR_HANDLE);
        let summary = Arc::into_inner(acquisition).expect("the handle is gone").finish().unwrap();
        assert_eq!(summary.frames_written, 3);
    }
}
