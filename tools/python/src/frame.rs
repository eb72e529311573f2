//! A frame buffer on loan, as Python sees it.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyDict, PyTuple};
use shardwright::{Error, FrameMut, Record};

use crate::errors::{exception, frame_error};
use crate::forks::{Owned, Process};
use crate::lease::Lease;
use crate::running::Running;

/// A frame buffer on loan: fill it in place, then commit it.
///
/// Use it as a context manager; what is left without a commit is discarded. From ``Acquisition.acquire``.
#[pyclass(frozen, module = "shardwright")]
pub(crate) struct Frame {
    running: Arc<Running>,
    /// Where its first pixel stands.
    #[pyo3(get)]
    address: usize,
    #[pyo3(get)]
    index: usize,
    process: Process,
    state: Mutex<State>,
}

enum State {
    /// Nothing in Python shows the buffer.
    Loan(Owned<FrameMut>),
    /// Something may.
    Leased(Py<Lease>),
    Committed(u64),
    Discarded,
}

/// Why a frame was not committed.
enum Refused {
    ByEngine(Error),
    Gone(String),
}

impl Frame {
    pub(crate) fn new(running: Arc<Running>, frame: FrameMut) -> Self {
        let address = frame.as_ptr().addr() + running.geometry.offset;
        let (index, state) = (frame.index(), Mutex::new(State::Loan(Owned::new(frame))));
        Self { running, address, index, process: Process::this(), state }
    }

    /// Who has it makes and drops objects of Python, for which it may have to wait until all threads are detached.
    fn state(&self, py: Python<'_>) -> MutexGuard<'_, State> {
        self.state.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner)
    }

    /// What shows the buffer from now on.
    fn lease<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, Lease>> {
        self.process.check()?;
        let mut state = self.state(py);
        let gone = match &*state {
            State::Loan(_) => None,
            State::Leased(lease) => return Ok(lease.bind(py).clone()),
            State::Committed(number) => Some(format!("committed under number {number}")),
            State::Discarded => Some("discarded".to_owned()),
        };
        if let Some(what) = gone {
            drop(state);
            return Err(frame_error(py, format!("this frame was {what}; its buffer is the ring's again")));
        }
        let State::Loan(frame) = std::mem::replace(&mut *state, State::Discarded) else { unreachable!() };
        let lease = Bound::new(py, Lease::new(frame, self.running.geometry.clone()))?;
        *state = State::Leased(lease.clone().unbind());
        Ok(lease)
    }

    fn hand_over(&self, py: Python<'_>, number: Option<u64>, record: Record) -> PyResult<u64> {
        // Exceptions are made when the state is free again: they may run any code of Python.
        match self.hand_over_quietly(py, number, record) {
            Ok(number) => Ok(number),
            Err(Refused::ByEngine(error)) => Err(exception(py, &error)),
            Err(Refused::Gone(text)) => Err(frame_error(py, text)),
        }
    }

    fn hand_over_quietly(&self, py: Python<'_>, number: Option<u64>, record: Record) -> Result<u64, Refused> {
        let mut state = self.state(py);
        let done: Result<u64, Error> = match std::mem::replace(&mut *state, State::Discarded) {
            State::Loan(frame) => match frame.into_inner().commit_viewed(number, record) {
                Ok(view) => Ok(view.number()),
                Err(refused) => {
                    *state = State::Loan(Owned::new(refused.frame));
                    Err(refused.error)
                }
            },
            State::Leased(lease) => lease.get().commit(number, record).inspect_err(|_| *state = State::Leased(lease)),
            State::Committed(number) => {
                *state = State::Committed(number);
                return Err(Refused::Gone(format!("this frame was committed before, under number {number}")));
            }
            State::Discarded => return Err(Refused::Gone("this frame was discarded before".into())),
        };
        let number = done.map_err(Refused::ByEngine)?;
        *state = State::Committed(number);
        Ok(number)
    }

    fn give_up(&self, py: Python<'_>) {
        let mut state = self.state(py);
        match std::mem::replace(&mut *state, State::Discarded) {
            State::Loan(_) => {}
            State::Leased(lease) => lease.get().give_up(),
            other => *state = other,
        }
    }
}

#[pymethods]
impl Frame {
    /// The pixels as an array of rows and columns, in the ring's own memory.
    ///
    /// An array that is kept after the commit keeps its buffer from the ring until it is deleted. Writing to it then
    /// may spoil this frame, but no other.
    #[getter]
    fn array<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let lease = self.lease(py)?;
        self.running.geometry.array(py, lease.as_any())
    }

    /// Hand the frame to the workers; returns its number.
    ///
    /// Parameters
    /// ----------
    /// number : int, optional
    ///     Counted from 0 in acquisition order. By default one more than the largest so far.
    /// device_timestamp, host_timestamp : int, optional
    ///     The device's own time, and nanoseconds since 1970; of the host by default the moment of the call.
    /// **fields
    ///     Values of the configured record fields.
    ///
    /// Raises
    /// ------
    /// FrameNumberError
    ///     For a number that came before, comes too late, or lies beyond the array. The frame is still on loan.
    /// RecordError
    ///     For a field that was not configured, and a value that does not fit its type. The frame is still on loan.
    /// Error
    ///     The first error of the run, if there was one.
    #[pyo3(signature = (number=None, *, device_timestamp=None, host_timestamp=None, **fields))]
    fn commit(
        &self,
        py: Python<'_>,
        number: Option<u64>,
        device_timestamp: Option<&Bound<'_, PyAny>>,
        host_timestamp: Option<&Bound<'_, PyAny>>,
        fields: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<u64> {
        self.process.check()?;
        let record = self.running.record(device_timestamp, host_timestamp, fields)?;
        self.hand_over(py, number, record)
    }

    /// Give the buffer back unused.
    fn discard(&self, py: Python<'_>) -> PyResult<()> {
        self.process.check()?;
        self.give_up(py);
        Ok(())
    }

    /// Whether the frame was committed.
    #[getter]
    fn committed(&self, py: Python<'_>) -> bool {
        matches!(*self.state(py), State::Committed(_))
    }

    /// The number under which the frame was committed, or None.
    #[getter]
    fn number(&self, py: Python<'_>) -> Option<u64> {
        match *self.state(py) {
            State::Committed(number) => Some(number),
            _ => None,
        }
    }

    /// Bytes of the frame.
    #[getter]
    fn nbytes(&self) -> usize {
        self.running.geometry.frame_bytes
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) {
        self.give_up(py);
    }

    /// The frame for ``torch.from_dlpack``, ``jax.dlpack`` and the like, in the ring's own memory.
    #[pyo3(signature = (**options))]
    fn __dlpack__<'py>(&self, py: Python<'py>, options: Option<&Bound<'py, PyDict>>) -> PyResult<Bound<'py, PyAny>> {
        self.array(py)?.call_method("__dlpack__", (), options)
    }

    /// Memory of the host.
    fn __dlpack_device__(&self) -> (i32, i32) {
        (1, 0)
    }

    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let lease = slf.get().lease(slf.py()).map_err(|error| {
            // SAFETY: this is `__getbuffer__`.
            unsafe { (*view).obj = std::ptr::null_mut() };
            PyBufferError::new_err(error.value(slf.py()).to_string())
        })?;
        // SAFETY: this is `__getbuffer__`.
        unsafe { Lease::show_frame(&lease, view, flags) }
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let state = match &*self.state(py) {
            State::Loan(_) | State::Leased(_) => "on loan".to_owned(),
            State::Committed(number) => format!("committed as {number}"),
            State::Discarded => "discarded".to_owned(),
        };
        format!("<shardwright.Frame in buffer {}, {state}>", self.index)
    }
}
