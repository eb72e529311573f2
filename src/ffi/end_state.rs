//! How far the end of a run has come, and who waits for it.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::status::{Outcome, SW_ERROR_BUSY, SW_ERROR_ENDED, SW_TIMEOUT, refuse};
use crate::acquisition::end::Unfinished;
use crate::error::Error;
use crate::stats::Summary;
use crate::sync::Unpoisoned;

/// How far the end of a run has come.
#[derive(Default)]
pub(super) struct Ending {
    pub(super) state: Mutex<State>,
    pub(super) ended: Condvar,
}

#[derive(Default)]
pub(super) struct State {
    /// It is on its way to the end.
    pub(super) begun: bool,
    /// That brings it there; none if that is the thread of another run, which ends with this one.
    pub(super) thread: Option<JoinHandle<()>>,
    /// A thread waits in sw_finish.
    pub(super) waited_for: bool,
    /// It was to end at once, before it had ended.
    pub(super) aborted: bool,
    /// Somebody was told the outcome.
    pub(super) told: bool,
    pub(super) outcome: Option<Finished>,
    /// Whoever watches the run was told of its end. That follows on the outcome, which they may ask for.
    pub(super) end_is_told: bool,
}

#[derive(Clone)]
pub(super) struct Finished {
    pub(super) summary: Option<Summary>,
    pub(super) error: Option<Error>,
}

impl From<Result<Summary, Unfinished>> for Finished {
    fn from(outcome: Result<Summary, Unfinished>) -> Self {
        match outcome {
            Ok(summary) => Self { summary: Some(summary), error: None },
            Err(Unfinished { summary, error }) => Self { summary: Some(*summary), error: Some(error) },
        }
    }
}

/// The right to wait for the end of a run, which one thread has at a time.
pub(super) struct Claim<'a>(&'a Ending);

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.0.state().waited_for = false;
    }
}

impl Ending {
    /// Lets the calling thread alone wait for the outcome.
    pub(super) fn claim(&self) -> Outcome<Claim<'_>> {
        let mut state = self.state();
        if state.told {
            return refuse!(SW_ERROR_ENDED, "the acquisition was finished or aborted before");
        }
        if state.waited_for {
            return refuse!(SW_ERROR_BUSY, "another thread waits for the end of this run");
        }
        state.waited_for = true;
        Ok(Claim(self))
    }

    /// The run shall end at once. False: it has ended.
    pub(super) fn abort(&self) -> bool {
        let mut state = self.state();
        state.aborted |= state.outcome.is_none();
        state.outcome.is_none()
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unpoisoned()
    }

    /// Waits for the outcome; and, as far as there is time, until whoever watches was told of the end.
    pub(super) fn wait(&self, wait: Option<Duration>) -> Outcome<MutexGuard<'_, State>> {
        let start = Instant::now();
        let mut state = self.state();
        while !state.end_is_told {
            state = match wait.map(|wait| wait.saturating_sub(start.elapsed())) {
                Some(Duration::ZERO) if state.outcome.is_some() => break,
                None => self.ended.wait(state).unpoisoned(),
                Some(Duration::ZERO) => {
                    return refuse!(SW_TIMEOUT, "the run is not over yet; it goes on ending");
                }
                Some(left) => self.ended.wait_timeout(state, left).unpoisoned().0,
            };
        }
        Ok(state)
    }
}
