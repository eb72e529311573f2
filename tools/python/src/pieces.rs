//! A frame that comes in pieces.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use shardwright::FrameMut;

use crate::errors::raised;
use crate::forks::Owned;
use crate::waits::{Limit, locked, seconds};

/// A frame of which only a part has come, and whose turn it is to add to it.
#[derive(Default)]
pub(crate) struct Pieces {
    state: Mutex<State>,
    turn_ended: Condvar,
}

#[derive(Default)]
struct State {
    begun: Option<(Owned<FrameMut>, usize)>,
    /// A call appends bytes.
    is_taken: bool,
    /// No more can come.
    is_given_up: bool,
}

/// The right of one call to append bytes, until it is dropped: what others have to append comes before or after.
pub(crate) struct Turn<'a>(&'a Pieces);

impl Pieces {
    /// Waits for the calls of other threads, as long as this one may. By default it may as long as they.
    pub(crate) fn turn(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Turn<'_>> {
        // Nobody else, mostly: then this thread stays attached.
        if let Some(turn) = self.turn_within(Duration::ZERO) {
            return Ok(turn);
        }
        let limit = Limit::new(timeout.map(|timeout| seconds(py, timeout)).transpose()?);
        let turn = limit.wait_for(py, |slice| self.turn_within(slice))?;
        turn.ok_or_else(|| raised(py, "RingFull", "another thread was appending bytes all the time"))
    }

    fn turn_within(&self, wait: Duration) -> Option<Turn<'_>> {
        let waited = self.turn_ended.wait_timeout_while(locked(&self.state), wait, |state| state.is_taken);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        (!std::mem::replace(&mut state.is_taken, true)).then(|| Turn(self))
    }

    /// Bytes that have come of a frame that is not complete.
    pub(crate) fn bytes(&self) -> usize {
        locked(&self.state).begun.as_ref().map_or(0, |(_, filled)| *filled)
    }

    /// Gives back the buffer of the frame that is not complete, now or when the call that has it ends.
    pub(crate) fn give_up(&self) {
        let mut state = locked(&self.state);
        state.is_given_up = true;
        state.begun = None;
    }
}

impl Turn<'_> {
    /// The frame that was begun, and how many bytes of it there are.
    pub(crate) fn take(&self) -> Option<(Owned<FrameMut>, usize)> {
        locked(&self.0.state).begun.take()
    }

    pub(crate) fn put_back(&self, frame: Owned<FrameMut>, filled: usize) {
        let mut state = locked(&self.0.state);
        if !state.is_given_up {
            state.begun = Some((frame, filled));
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        locked(&self.0.state).is_taken = false;
        self.0.turn_ended.notify_one();
    }
}
