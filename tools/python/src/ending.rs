//! How far the end of a run has come, and what came of it.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shardwright::Error;

/// How far the end of a run has come.
#[derive(Default)]
pub(crate) struct Ending {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) begun: bool,
    outcome: Option<Outcome>,
}

#[derive(Clone)]
pub(crate) struct Outcome {
    /// A JSON document; none of a run that was aborted.
    pub(crate) summary: Option<String>,
    pub(crate) error: Option<(String, Error)>,
}

impl Ending {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn outcome_within(&self, wait: Duration) -> Option<Outcome> {
        let none_yet = |state: &mut State| state.outcome.is_none();
        let waited = self.ended.wait_timeout_while(self.state(), wait, none_yet);
        waited.unwrap_or_else(PoisonError::into_inner).0.outcome.clone()
    }
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        self.state().outcome.clone()
    }

    pub(crate) fn set(&self, outcome: Outcome) {
        self.state().outcome = Some(outcome);
        self.ended.notify_all();
    }
}
