//! Waiting without keeping others from the interpreter, and such that Ctrl-C ends it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use shardwright::Error;

use crate::errors::exception;

/// Whether threads run Python at the same time: there, objects have an owner and two counters.
const IS_FREE_THREADED: bool = size_of::<pyo3::ffi::PyObject>() > 2 * size_of::<usize>();

/// After so long, a thread that waits looks whether there is a signal.
const SLICE: Duration = Duration::from_millis(50);

/// The same, of a wait for a buffer that this thread itself may have to give back: see `look_up`. To attach again costs
/// nothing there.
const RING_SLICE: Duration = if IS_FREE_THREADED { Duration::from_millis(5) } else { SLICE };

/// What a thread does that waits, now and then: it handles signals, and frees what other threads left to it.
///
/// On free-threaded Python, an object is freed by the thread that made it, however long that waits, unless this was the
/// last to use it: only calls of Python functions look. An array among them may have the buffer that is waited for.
fn look_up(py: Python<'_>) -> PyResult<()> {
    static NOTHING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    if IS_FREE_THREADED {
        let nothing = NOTHING.get_or_try_init(py, || py.eval(c"lambda: None", None, None).map(Bound::unbind))?;
        nothing.call0(py)?;
    }
    py.check_signals()
}

/// For mutexes under which nothing is done with objects of Python.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long a call may wait.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    start: Instant,
    limit: Option<Duration>,
}

impl Limit {
    /// `None`: for ever.
    pub(crate) fn new(limit: Option<Duration>) -> Self {
        Self { start: Instant::now(), limit }
    }

    fn slice(&self, longest: Duration) -> Duration {
        self.limit.map_or(longest, |limit| limit.saturating_sub(self.start.elapsed()).min(longest))
    }

    fn is_over(&self) -> bool {
        self.limit.is_some_and(|limit| self.start.elapsed() >= limit)
    }

    /// Repeats `attempt`, detached and for a slice at a time, until it finds the ring not full, or the time is up.
    pub(crate) fn wait<T: Send>(
        &self,
        py: Python<'_>,
        mut attempt: impl FnMut(Duration) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        loop {
            let slice = self.slice(RING_SLICE);
            match py.detach(|| attempt(slice)) {
                Ok(value) => return Ok(value),
                Err(Error::RingFull { frames, on_loan, waiting, in_work, others, .. }) => {
                    look_up(py)?;
                    if self.is_over() {
                        let waited = self.start.elapsed();
                        let full = Error::RingFull { frames, on_loan, waiting, in_work, others, waited };
                        return Err(exception(py, &full));
                    }
                }
                Err(error) => return Err(exception(py, &error)),
            }
        }
    }

    /// Repeats `attempt`, detached and for a slice at a time, until it has something, or the time is up.
    pub(crate) fn wait_for<T: Send>(
        &self,
        py: Python<'_>,
        mut attempt: impl FnMut(Duration) -> Option<T> + Send,
    ) -> PyResult<Option<T>> {
        loop {
            let slice = self.slice(SLICE);
            if let Some(value) = py.detach(|| attempt(slice)) {
                return Ok(Some(value));
            }
            look_up(py)?;
            if self.is_over() {
                return Ok(None);
            }
        }
    }
}

/// Seconds as a time limit.
pub(crate) fn seconds(py: Python<'_>, seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds.max(0.0)).map_err(|_| {
        crate::errors::frame_error(py, format!("timeout = {seconds}: a number of seconds, or None for no limit"))
    })
}

/// Lets a thread of its own do what can't be interrupted. If a signal ends the wait, what it makes is dropped there.
pub(crate) fn in_thread<T: Send + 'static>(py: Python<'_>, work: impl FnOnce() -> T + Send + 'static) -> PyResult<T> {
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    let thread = std::thread::Builder::new().name("sw-python".into());
    thread.spawn(move || {
        // Nobody waits any more after a signal.
        let _ = sender.send(work());
    })?;
    // Whoever waits detached holds the one end, which is not for several threads at once.
    let receiver = Mutex::new(receiver);
    let done = Limit::new(None).wait_for(py, |slice| match locked(&receiver).recv_timeout(slice) {
        Ok(value) => Some(Some(value)),
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => None,
        Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => Some(None),
    })?;
    done.flatten().ok_or_else(|| crate::errors::raised(py, "InternalError", "a thread of the package panicked"))
}

/// Lets a thread of its own work, which `stop` lets end early: when a signal comes, and when `tell`, which is called
/// between, fails. Then it has ended, too, before this returns.
pub(crate) fn stoppable<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
    stop: impl FnOnce(),
    mut tell: impl FnMut() -> PyResult<()>,
) -> PyResult<T> {
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    let thread = std::thread::Builder::new().name("sw-python".into());
    let thread = thread.spawn(move || {
        // The other end is there until this has come.
        let _ = sender.send(work());
    })?;
    let receiver = Mutex::new(receiver);
    let receive = |slice| locked(&receiver).recv_timeout(slice);
    let done = loop {
        let received = py.detach(|| receive(SLICE));
        let interrupted = look_up(py).and_then(|()| tell());
        match (received, interrupted) {
            (Err(std::sync::mpsc::RecvTimeoutError::Timeout), Ok(())) => {}
            (received, Ok(())) => break received.ok(),
            (_, Err(interrupted)) => {
                stop();
                // A panic has been told of.
                let _ = py.detach(|| thread.join());
                return Err(interrupted);
            }
        }
    };
    done.ok_or_else(|| crate::errors::raised(py, "InternalError", "a thread of the package panicked"))
}
