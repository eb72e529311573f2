//! Locks that somebody panicked with.

use std::sync::{LockResult, PoisonError};

/// What a lock holds, even if a thread panicked while it had it: that panic is told as an error, and must not end
/// whoever takes the lock next.
pub(crate) trait Unpoisoned<T> {
    fn unpoisoned(self) -> T;
}

impl<T> Unpoisoned<T> for LockResult<T> {
    fn unpoisoned(self) -> T {
        self.unwrap_or_else(PoisonError::into_inner)
    }
}
