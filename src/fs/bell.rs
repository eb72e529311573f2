//! Something that one thread rings and another waits for, alone or together with files and sockets: an event descriptor
//! of Linux. Another system has a pipe, or an event of its own.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::FromRawFd;
use std::time::{Duration, Instant};

pub(crate) use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

/// Rings, readable, until it is silenced.
#[derive(Debug)]
pub(crate) struct Bell(File);

impl Bell {
    /// It is not passed on to programs that this one starts.
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: takes nothing but numbers.
        let descriptor = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a descriptor that was opened just now, and that nobody else has.
        Ok(Self(unsafe { File::from_raw_fd(descriptor) }))
    }

    /// One call of the system, which does not wait.
    pub(crate) fn ring(&self) {
        // It can fail only when it was rung some 10^19 times: it rings then.
        let _ = (&self.0).write(&1_u64.to_ne_bytes());
    }

    pub(crate) fn silence(&self) {
        // It fails when the bell is silent.
        let _ = (&self.0).read(&mut [0; 8]);
    }

    /// Waits until it rings; false: the time was up before. `None`: for ever.
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> io::Result<bool> {
        let start = Instant::now();
        loop {
            let left = timeout.map(|timeout| timeout.saturating_sub(start.elapsed()));
            // Rounded up, so that the last part of a millisecond is no busy wait.
            let milliseconds = left.map_or(-1, |left| left.as_micros().div_ceil(1000).min(i32::MAX as u128) as i32);
            let mut asked = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one entry, which is good for the call.
            match unsafe { libc::poll(&raw mut asked, 1, milliseconds) } {
                0 if left.is_some_and(|left| left.as_millis() < i32::MAX as u128) => return Ok(false),
                0 => {}
                1 => return Ok(true),
                _ => match io::Error::last_os_error() {
                    error if error.kind() == io::ErrorKind::Interrupted => {}
                    error => return Err(error),
                },
            }
        }
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "miri has no poll(2)")]
    fn it_rings_until_it_is_silenced() {
        let bell = Bell::new().unwrap();
        assert!(!bell.wait(Some(Duration::ZERO)).unwrap());
        assert!(!bell.wait(Some(Duration::from_micros(1_500))).unwrap());
        bell.ring();
        bell.ring();
        assert!(bell.wait(None).unwrap() && bell.wait(Some(Duration::ZERO)).unwrap());
        bell.silence();
        bell.silence();
        assert!(!bell.wait(Some(Duration::ZERO)).unwrap());
    }
}
