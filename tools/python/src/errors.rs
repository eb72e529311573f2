//! Errors of the engine as exceptions of `shardwright._errors`.
//!
//! The classes are Python's, because those that are built-in ones, too, can't be made with the stable ABI.

use std::collections::BTreeMap;

use pyo3::BoundObject;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;
use shardwright::{Error, ErrorKind};

fn class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    static CLASSES: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = CLASSES.get_or_try_init(py, || py.import("shardwright._errors").map(Bound::unbind))?;
    module.bind(py).getattr(name)
}

fn make(
    py: Python<'_>,
    name: &str,
    arguments: impl for<'py> IntoPyObject<'py, Target = PyTuple>,
    attributes: BTreeMap<&str, Py<PyAny>>,
) -> PyErr {
    let made = || -> PyResult<PyErr> {
        let arguments = arguments.into_pyobject(py).map_err(Into::into)?.into_bound();
        let exception = class(py, name)?.call1(arguments)?;
        attributes.iter().try_for_each(|(name, value)| exception.setattr(*name, value))?;
        Ok(PyErr::from_value(exception))
    };
    made().unwrap_or_else(|error| error)
}

/// An exception of the package with a text.
pub(crate) fn raised(py: Python<'_>, name: &str, text: impl Into<String>) -> PyErr {
    make(py, name, (text.into(),), BTreeMap::new())
}

/// The exception that says what `error` says.
pub(crate) fn exception(py: Python<'_>, error: &Error) -> PyErr {
    let text = error.to_string();
    let mut attributes = BTreeMap::new();
    let mut attribute = |name, value: PyResult<Py<PyAny>>| {
        if let Ok(value) = value {
            attributes.insert(name, value);
        }
    };
    let name = match error {
        Error::Config { field, .. } | Error::Limit { limit: field, .. } => {
            attribute("field", field.into_pyobject(py).map(|text| text.into_any().unbind()).map_err(Into::into));
            "ConfigError"
        }
        Error::Io { path, source, .. } => {
            // With an errno and a file name, Python's own text would hide the engine's.
            let arguments = (errno(source), text, path.display().to_string());
            let is_missing = error.kind() == ErrorKind::NotFound;
            return make(py, if is_missing { "NotFoundError" } else { "StorageError" }, arguments, attributes);
        }
        Error::RingFull { waited, .. } => {
            let seconds = waited.as_secs_f64();
            attribute("waited", seconds.into_pyobject(py).map(|waited| waited.into_any().unbind()).map_err(Into::into));
            "RingFull"
        }
        Error::FrameSize { .. } | Error::RowStride { .. } | Error::Roi { .. } => "FrameError",
        Error::FrameNumber { number, .. } => {
            attribute("number", number.into_pyobject(py).map(|number| number.into_any().unbind()).map_err(Into::into));
            "FrameNumberError"
        }
        Error::Record { .. } => "RecordError",
        Error::Exists { path, .. } => {
            return make(py, "ExistsError", (libc::EEXIST, text, path.display().to_string()), attributes);
        }
        Error::StorageUsed { storage } => {
            return make(py, "ExistsError", (libc::EEXIST, text, *storage), attributes);
        }
        Error::Locked { path } => {
            return make(py, "LockedError", (libc::EAGAIN, text, path.display().to_string()), attributes);
        }
        Error::NotFound { path, .. } => {
            return make(py, "NotFoundError", (libc::ENOENT, text, path.display().to_string()), attributes);
        }
        Error::Format { .. } | Error::Unfinished { .. } | Error::Conflict { .. } => "FormatError",
        Error::Unsupported { .. } => "UnsupportedError",
        Error::Ended | Error::Aborted | Error::Stopped | Error::InCallback => "EndedError",
        _ => "InternalError",
    };
    make(py, name, (text,), attributes)
}

/// The system's number of an error, or of the most similar one that it has.
fn errno(error: &std::io::Error) -> i32 {
    use std::io::ErrorKind;

    error.raw_os_error().unwrap_or(match error.kind() {
        ErrorKind::NotFound => libc::ENOENT,
        ErrorKind::PermissionDenied => libc::EACCES,
        ErrorKind::AlreadyExists => libc::EEXIST,
        ErrorKind::NotADirectory => libc::ENOTDIR,
        ErrorKind::StorageFull => libc::ENOSPC,
        ErrorKind::QuotaExceeded => libc::EDQUOT,
        ErrorKind::FileTooLarge => libc::EFBIG,
        ErrorKind::ReadOnlyFilesystem => libc::EROFS,
        ErrorKind::InvalidInput => libc::EINVAL,
        ErrorKind::WouldBlock => libc::EAGAIN,
        _ => libc::EIO,
    })
}

/// `Unfinished`, with the summary as a document and the first error as its cause.
pub(crate) fn unfinished(py: Python<'_>, text: String, summary: String, error: &Error) -> PyErr {
    let raised = make(py, "Unfinished", (text, summary), BTreeMap::new());
    raised.set_cause(py, Some(exception(py, error)));
    raised
}

/// Use of an object of the parent process.
pub(crate) struct ForkedError;

impl ForkedError {
    #[allow(clippy::new_ret_no_self)]
    pub(crate) fn new() -> PyErr {
        let text = "this belongs to the process from which this one was forked: the threads of its run are there, not \
                    here";
        Python::attach(|py| raised(py, "ForkedError", text))
    }
}

/// A result of the engine as one for Python.
pub(crate) trait OrRaise<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> OrRaise<T> for Result<T, Error> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| exception(py, &error))
    }
}

/// A wrong type of pixels or values.
pub(crate) fn type_error(py: Python<'_>, text: impl Into<String>) -> PyErr {
    raised(py, "FrameTypeError", text)
}

/// A wrong shape of pixels, or another wrong argument.
pub(crate) fn frame_error(py: Python<'_>, text: impl Into<String>) -> PyErr {
    raised(py, "FrameError", text)
}
