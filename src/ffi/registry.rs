//! The acquisitions of this process, and what each handle stands for.

use std::sync::{Arc, Mutex, RwLock, RwLockReadGuard};

use super::end_state::Ending;
use super::handle::{Entered, Registry};
use super::loans::Loans;
use super::status::{Outcome, SW_ERROR_ENDED, boundary, refuse, sw_status};
use crate::acquisition::Acquisition;
use crate::config::RingFull;
use crate::engine::Engine;
use crate::events::EventHandle;
use crate::sync::Unpoisoned;

/// A running or ended acquisition of one image. Its calls may come from any thread, and from several at once.
pub struct sw_acquisition(());

/// Acquisitions that may exist at once in a process.
pub const SW_ACQUISITIONS_MAX: usize = 2048;

/// What a handle stands for.
pub(super) struct Run {
    /// Taken out by the thread that ends the run.
    pub(super) acquisition: RwLock<Option<Held>>,
    /// Somebody else ends it.
    pub(super) is_lent: bool,
    /// Whose its callbacks are.
    pub(super) dataset: usize,
    /// Lives on after the end.
    pub(super) engine: Arc<Engine>,
    pub(super) loans: Loans,
    pub(super) ending: Ending,
    pub(super) ring_full: RingFull,
    pub(super) event_handles: Mutex<Vec<Arc<EventHandle>>>,
}

pub(super) static RUNS: Registry<Arc<Run>, SW_ACQUISITIONS_MAX> = Registry::new(0b0111, "acquisition");

/// Whose the acquisition is.
pub(super) enum Held {
    Own(Box<Acquisition>),
    Lent(Arc<Acquisition>),
}

impl std::ops::Deref for Held {
    type Target = Acquisition;

    fn deref(&self) -> &Acquisition {
        match self {
            Self::Own(acquisition) => acquisition,
            Self::Lent(acquisition) => acquisition,
        }
    }
}

impl Run {
    pub(super) fn new(mut acquisition: Held) -> Self {
        if let Held::Own(acquisition) = &mut acquisition {
            // Not before the outcome can be had.
            acquisition.tells_end = false;
        }
        let engine = acquisition.engine.clone();
        Self {
            dataset: acquisition.dataset_identity(),
            loans: Loans::new(&engine.ring),
            is_lent: matches!(acquisition, Held::Lent(_)),
            engine,
            ring_full: acquisition.ring_full,
            event_handles: Mutex::default(),
            ending: Ending::default(),
            acquisition: RwLock::new(Some(acquisition)),
        }
    }

    /// The acquisition, while it runs.
    pub(super) fn running(&self) -> Outcome<Running<'_>> {
        // A waiting writer would hold a reader up until others leave, so the gate is looked at first.
        let guard = if self.engine.gate.is_closed() {
            None
        } else {
            let guard = self.acquisition.read().unpoisoned();
            Some(guard).filter(|guard| guard.is_some())
        };
        match guard {
            Some(guard) => Ok(Running(guard)),
            None => refuse!(SW_ERROR_ENDED, "the acquisition has ended, and takes nothing more"),
        }
    }
}

pub(super) struct Running<'a>(RwLockReadGuard<'a, Option<Held>>);

impl std::ops::Deref for Running<'_> {
    type Target = Acquisition;

    fn deref(&self) -> &Acquisition {
        self.0.as_ref().expect("`running` saw it")
    }
}

pub(super) fn enter<'a>(acquisition: *const sw_acquisition) -> Outcome<Entered<'a, Arc<Run>>> {
    RUNS.enter(acquisition)
}

/// Runs a call with a handle, as [`boundary`] does.
pub(super) fn with_run(acquisition: *const sw_acquisition, call: impl FnOnce(&Arc<Run>) -> Outcome<()>) -> sw_status {
    boundary(|| call(&*enter(acquisition)?))
}
