//! Ends a run: a thread of its own brings the end about, and callers wait for it as long as they like.

use std::sync::Arc;
use std::time::Duration;

use pyo3::prelude::*;
use shardwright::{Summary, Unfinished};

use crate::acquisition::Acquisition;
use crate::ending::Outcome;
use crate::errors::{frame_error, raised, unfinished};
use crate::log::drain;
use crate::running::Running;
use crate::waits::{Limit, locked, seconds};

fn document(summary: &Summary) -> Option<String> {
    serde_json::to_string(summary).ok()
}

impl Running {
    /// No more frames are taken; a thread brings the run to its end.
    fn begin_to_end(self: &Arc<Self>, aborts: bool) -> PyResult<()> {
        self.process.check()?;
        let mut state = self.ending.state();
        if state.begun {
            return Ok(());
        }
        let running = self.clone();
        std::thread::Builder::new().name("sw-finish".into()).spawn(move || running.end(aborts))?;
        state.begun = true;
        Ok(())
    }

    fn end(&self, aborts: bool) {
        let Some(run) = self.take_run() else { return };
        // Those who wait for a buffer, or are about to commit, leave now.
        run.close();
        // A frame of which not all came is none.
        self.pieces.give_up();
        // Not while it is locked: it waits for drivers that are in a call.
        let lent = locked(&self.lent).take();
        drop(lent);
        let run = alone(run);
        let outcome = match aborts {
            true => {
                run.abort();
                Outcome { summary: None, error: None }
            }
            false => match run.finish() {
                Ok(summary) => Outcome { summary: document(&summary), error: None },
                Err(Unfinished { summary, error }) => {
                    let told = Unfinished { summary: summary.clone(), error: error.clone() }.to_string();
                    Outcome { summary: document(&summary), error: Some((told, error)) }
                }
            },
        };
        self.ending.set(outcome);
    }

    /// Whether the run has come to its end in time.
    fn wait_for_end(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Outcome>> {
        let limit = Limit::new(timeout.map(|timeout| seconds(py, timeout)).transpose()?);
        let outcome = limit.wait_for(py, |slice| self.ending.outcome_within(slice))?;
        drain(py);
        Ok(outcome)
    }
}

/// The run, as soon as no call of another thread is in it.
fn alone(mut run: Arc<shardwright::Acquisition>) -> shardwright::Acquisition {
    loop {
        match Arc::try_unwrap(run) {
            Ok(run) => return run,
            Err(shared) => run = shared,
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[pymethods]
impl Acquisition {
    /// Ends the run and returns the summary as a JSON document; None if the time is up before.
    #[pyo3(signature = (timeout=None))]
    fn _finish(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<String>> {
        self.running.begin_to_end(false)?;
        let Some(outcome) = self.running.wait_for_end(py, timeout)? else { return Ok(None) };
        match outcome {
            Outcome { summary: Some(summary), error: None } => Ok(Some(summary)),
            Outcome { summary: Some(summary), error: Some((told, error)) } => {
                Err(unfinished(py, told, summary, &error))
            }
            Outcome { summary: None, .. } => Err(raised(py, "EndedError", "the acquisition was aborted")),
        }
    }

    /// Ends the run at once; False if the time is up before.
    #[pyo3(signature = (timeout=None))]
    fn _abort(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        self.running.begin_to_end(true)?;
        Ok(self.running.wait_for_end(py, timeout)?.is_some())
    }

    /// Whether the handle belongs to this process, and the run was neither finished nor aborted.
    fn _needs_end(&self) -> bool {
        self.running.process.is_this() && self.running.is_open()
    }

    /// The summary as a JSON document, once the run has ended.
    fn _summary(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let outcome = self.running.ending.outcome();
        match outcome {
            Some(outcome) => Ok(outcome.summary),
            None => Err(frame_error(py, "there is no summary before the end: finish the acquisition first")),
        }
    }
}
