//! The extension module under the Python package `shardwright`: what must be fast, and what must not hold the
//! interpreter up.
//!
//! Rules that hold everywhere here:
//!
//! - No thread of the engine ever attaches to the interpreter: not to log, not to call back. What it has to tell waits
//!   in a queue that calls from Python empty.
//! - Every wait is detached, in slices, between which signals are looked at. Short copies stay attached, because to
//!   attach again can take as long as another thread may keep the interpreter.
//! - Memory of Python objects is read through raw pointers, because other threads may write it.
//! - All objects may be used by several threads at once, with the interpreter's lock or without it. A mutex under which
//!   objects of Python are made or dropped is locked by `lock_py_attached`; under any other, none is. Exceptions are
//!   made when nothing is locked: they may run any code.
//! - A buffer of the ring goes back to it when the last Python object that shows it is gone.

mod acquisition;
mod append;
mod array;
mod c_table;
mod dataset;
mod ending;
mod errors;
mod finish;
mod forks;
mod frame;
mod geometry;
mod lease;
mod log;
mod offline;
mod parts;
mod pieces;
mod pixels;
mod records;
mod running;
mod tasks;
mod waits;

/// The extension module.
#[pyo3::pymodule(gil_used = false)]
mod _core {
    #[pymodule_export]
    use super::acquisition::Acquisition;
    #[pymodule_export]
    use super::array::StoredArray;
    #[pymodule_export]
    use super::c_table::c_headers;
    #[pymodule_export]
    use super::dataset::Dataset;
    #[pymodule_export]
    use super::frame::Frame;
    #[pymodule_export]
    use super::lease::Lease;
    #[pymodule_export]
    use super::log::take_log;
    #[pymodule_export]
    use super::offline::{info, manifest, pyramid, recover, repack, verify};
    #[pymodule_export]
    use super::parts::{create_parts, finish_parts};
    #[pymodule_export]
    use super::tasks::{RunTasks, finish_tasks, plan_manifest, plan_pyramid, plan_repack, plan_verify};

    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        super::forks::watch();
        super::log::listen();
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
