//! Whether this process is the child of the one in which an object was made.
//!
//! The threads of a run stay with the parent, so a child can do nothing with its handles, and must not wait for them.
#![allow(unsafe_code)]

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use pyo3::PyResult;

use crate::errors::ForkedError;

static FORKS: AtomicU32 = AtomicU32::new(0);

/// Counts forks from now on.
pub(crate) fn watch() {
    static ONCE: Once = Once::new();
    unsafe extern "C" fn in_the_child() {
        FORKS.fetch_add(1, Relaxed);
    }
    // SAFETY: the function only adds to an atomic, which is allowed after a fork, and is there as long as the process.
    ONCE.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(in_the_child));
    });
}

/// The process in which something was made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Process(u32);

impl Process {
    pub(crate) fn this() -> Self {
        Self(FORKS.load(Relaxed))
    }

    pub(crate) fn is_this(self) -> bool {
        self.0 == FORKS.load(Relaxed)
    }

    pub(crate) fn check(self) -> PyResult<()> {
        if self.is_this() { Ok(()) } else { Err(ForkedError::new()) }
    }
}

/// What belongs to the process that made it: in a child it is left as it is, because its threads are not there.
pub(crate) struct Owned<T> {
    thing: Option<T>,
    process: Process,
}

impl<T> Owned<T> {
    pub(crate) fn new(thing: T) -> Self {
        Self { thing: Some(thing), process: Process::this() }
    }

    pub(crate) fn into_inner(mut self) -> T {
        self.thing.take().expect("it is there until it is dropped")
    }
}

impl<T> std::ops::Deref for Owned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.thing.as_ref().expect("it is there until it is dropped")
    }
}

impl<T> std::ops::DerefMut for Owned<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.thing.as_mut().expect("it is there until it is dropped")
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        if !self.process.is_this() {
            std::mem::forget(self.thing.take());
        }
    }
}
