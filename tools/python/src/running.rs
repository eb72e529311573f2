//! A run, as all that is done with it shares it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use shardwright::ffi::registry::sw_acquisition;
use shardwright::{Config, FrameMut, Record, RingFull};

use crate::c_table::Lent;
use crate::ending::Ending;
use crate::errors::{OrRaise, raised};
use crate::forks::{Owned, Process};
use crate::geometry::Geometry;
use crate::log::drain;
use crate::pieces::Pieces;
use crate::records::{Fields, Records};
use crate::waits::{Limit, locked, seconds};

/// What an acquisition and its frames share.
pub(crate) struct Running {
    pub(crate) geometry: Arc<Geometry>,
    fields: Fields,
    ring_full: RingFull,
    /// Taken out by whoever ends the run.
    run: Mutex<Option<Owned<Arc<shardwright::Acquisition>>>>,
    pub(crate) process: Process,
    pub(crate) pieces: Pieces,
    pub(crate) lent: Mutex<Option<Lent>>,
    pub(crate) ending: Ending,
    /// What can be asked after the end, too.
    pub(crate) facts: Facts,
}

pub(crate) struct Facts {
    pub(crate) chunk_shape: Vec<u64>,
    pub(crate) shard_shape: Vec<u64>,
    pub(crate) reorder_window: u64,
    pub(crate) ring_frames: usize,
}

impl Running {
    pub(crate) fn new(py: Python<'_>, config: &Config, run: shardwright::Acquisition) -> PyResult<Self> {
        let facts = Facts {
            chunk_shape: run.chunk_shape().to_vec(),
            shard_shape: run.shard_shape().to_vec(),
            reorder_window: run.reorder_window(),
            ring_frames: run.stats().ring_frames,
        };
        Ok(Self {
            geometry: Arc::new(Geometry::new(py, config, &run)?),
            fields: Fields::new(config),
            ring_full: config.ring_full,
            run: Mutex::new(Some(Owned::new(Arc::new(run)))),
            process: Process::this(),
            pieces: Pieces::default(),
            lent: Mutex::default(),
            ending: Ending::default(),
            facts,
        })
    }

    /// The run, while it takes frames.
    pub(crate) fn run(&self, py: Python<'_>) -> PyResult<Arc<shardwright::Acquisition>> {
        self.process.check()?;
        self.open_run().ok_or_else(|| Self::ended(py))
    }

    fn open_run(&self) -> Option<Arc<shardwright::Acquisition>> {
        locked(&self.run).as_ref().map(|run| Arc::clone(run))
    }

    fn ended(py: Python<'_>) -> PyErr {
        raised(py, "EndedError", "the acquisition has ended, and takes nothing more")
    }

    /// What C has of the run, while it takes frames: lent once.
    pub(crate) fn handle(&self, py: Python<'_>) -> PyResult<*mut sw_acquisition> {
        self.process.check()?;
        let handle = || {
            // Locked before the run is asked for: who ends it takes the run, then the handle, and waits until nobody
            // has the run any more, which would be for ever if it was lent after that.
            let mut lent = locked(&self.lent);
            let Some(run) = self.open_run() else { return Ok(None) };
            if lent.is_none() {
                *lent = Some(Lent::new(&run)?);
            }
            Ok(lent.as_ref().map(Lent::as_ptr))
        };
        handle().or_raise(py)?.ok_or_else(|| Self::ended(py))
    }

    pub(crate) fn take_run(&self) -> Option<Arc<shardwright::Acquisition>> {
        locked(&self.run).take().map(Owned::into_inner)
    }

    /// How many buffers it can have at once; after the end, as many as at the beginning.
    pub(crate) fn ring_frames(&self) -> usize {
        let now = || locked(&self.run).as_ref().map(|run| run.stats().ring_frames);
        self.process.is_this().then(now).flatten().unwrap_or(self.facts.ring_frames)
    }

    pub(crate) fn is_open(&self) -> bool {
        locked(&self.run).is_some()
    }

    /// The record of one frame.
    pub(crate) fn record(
        &self,
        device_timestamp: Option<&Bound<'_, PyAny>>,
        host_timestamp: Option<&Bound<'_, PyAny>>,
        fields: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Record> {
        let Some(any) = device_timestamp.or(host_timestamp).map(|any| any.py()).or(fields.map(|any| any.py())) else {
            return Ok(Record::default());
        };
        let records = self.records(any, device_timestamp, host_timestamp, fields)?;
        records.check(any, &*self.run(any)?, 1)?;
        Ok(records.of(0))
    }

    pub(crate) fn records(
        &self,
        py: Python<'_>,
        device_timestamp: Option<&Bound<'_, PyAny>>,
        host_timestamp: Option<&Bound<'_, PyAny>>,
        fields: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Records> {
        self.fields.records(|| self.run(py), device_timestamp, host_timestamp, fields)
    }

    /// How long a call may wait: as it says, or as the configuration does.
    pub(crate) fn limit(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Limit> {
        let configured = match self.ring_full {
            RingFull::Block { timeout } => timeout,
            _ => Some(Duration::ZERO),
        };
        Ok(Limit::new(match timeout {
            Some(timeout) => Some(seconds(py, timeout)?),
            None => configured,
        }))
    }

    /// A free buffer of the ring.
    pub(crate) fn loan(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<FrameMut> {
        let run = self.run(py)?;
        match run.try_acquire() {
            Ok(frame) => return Ok(frame),
            Err(error) if error.is_ring_full() => {}
            Err(error) => return Err(error).or_raise(py),
        }
        drain(py);
        // Counts the frame as dropped, where that is the policy.
        if timeout.is_none() && !matches!(self.ring_full, RingFull::Block { .. }) {
            return run.acquire().or_raise(py);
        }
        self.limit(py, timeout)?.wait(py, |slice| run.acquire_timeout(slice))
    }
}
