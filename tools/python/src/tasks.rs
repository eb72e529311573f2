//! Operations in parts, for schedulers: a file of tasks is planned, its tasks are run, and the result made of them.

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use shardwright::Error;
use shardwright::offline::{self, TaskName};

use crate::errors::OrRaise;
use crate::forks::{Owned, Process};
use crate::log::drain;
use crate::offline::{document, done, manifest_options, pyramid_options, repack_options};
use crate::waits::{in_thread, stoppable};

/// How many tasks there are, and what is worth knowing of the result.
type Planned = PyResult<(u64, Vec<String>)>;

/// Writes tasks to `file`.
fn written(
    py: Python<'_>,
    file: PathBuf,
    plan: impl FnOnce() -> Result<offline::TaskPlan, Error> + Send + 'static,
) -> Planned {
    let write = move || {
        let plan = plan()?;
        let notes = plan.notes()?;
        plan.check_place(&file)?;
        let failed = |source| Error::Io { action: "create", path: file.clone(), source: Arc::new(source) };
        plan.write(&mut BufWriter::with_capacity(1 << 16, File::create_new(&file).map_err(failed)?))?;
        Ok((plan.tasks(), notes))
    };
    let planned = in_thread(py, write)?;
    drain(py);
    planned.or_raise(py)
}

/// Writes the tasks of a repacking to `file`.
#[pyfunction]
pub(crate) fn plan_repack(py: Python<'_>, path: PathBuf, out: PathBuf, file: PathBuf, document: &str) -> Planned {
    let options = repack_options(py, document)?;
    written(py, file, move || offline::TaskPlan::repack(path, out, &options))
}

/// Writes the tasks of a check to `file`.
#[pyfunction]
pub(crate) fn plan_verify(py: Python<'_>, path: PathBuf, file: PathBuf) -> Planned {
    written(py, file, move || offline::TaskPlan::verify(path))
}

/// Writes the tasks of levels to `file`.
#[pyfunction]
pub(crate) fn plan_pyramid(py: Python<'_>, path: PathBuf, file: PathBuf, document: &str) -> Planned {
    let options = pyramid_options(py, document)?;
    written(py, file, move || offline::TaskPlan::pyramid(path, &options))
}

/// Writes the tasks of manifests to `file`.
#[pyfunction]
pub(crate) fn plan_manifest(
    py: Python<'_>,
    path: PathBuf,
    out: Option<PathBuf>,
    file: PathBuf,
    document: &str,
) -> Planned {
    let options = manifest_options(py, document)?;
    written(py, file, move || offline::TaskPlan::manifest(path, out.as_deref(), &options))
}

/// The result of all tasks of a file; a JSON document.
#[pyfunction]
pub(crate) fn finish_tasks(
    py: Python<'_>,
    path: PathBuf,
    workers: usize,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let operation = in_thread(py, move || offline::FinishTasks::new(path, workers))?.or_raise(py)?;
    done(py, operation, progress)
}

/// A file of tasks, and what running them needs.
#[pyclass(subclass, frozen, module = "shardwright._core")]
pub(crate) struct RunTasks {
    tasks: Owned<Arc<offline::RunTasks>>,
    process: Process,
}

#[derive(FromPyObject)]
enum Name {
    Index(u64),
    Id(String),
}

#[pymethods]
impl RunTasks {
    #[new]
    #[pyo3(signature = (path, workers = 1, memory_bytes = 256 << 20))]
    fn new(py: Python<'_>, path: PathBuf, workers: usize, memory_bytes: u64) -> PyResult<Self> {
        let options = offline::TaskOptions { workers, memory_bytes };
        let tasks = py.detach(|| offline::RunTasks::open(path, &options)).or_raise(py)?;
        Ok(Self { tasks: Owned::new(Arc::new(tasks)), process: Process::this() })
    }

    /// How many tasks the file has.
    #[getter]
    fn tasks(&self) -> PyResult<u64> {
        self.process.check()?;
        Ok(self.tasks.tasks())
    }

    /// Runs a task; its receipt as a JSON document.
    fn _run(&self, py: Python<'_>, task: Name) -> PyResult<String> {
        self.process.check()?;
        let tasks = Arc::clone(&self.tasks);
        let run = move || {
            let receipt = match &task {
                Name::Index(index) => tasks.run(TaskName::Index(*index)),
                Name::Id(id) => tasks.run(TaskName::Id(id)),
            };
            receipt.and_then(|receipt| document(&receipt))
        };
        let receipt = stoppable(py, run, || self.tasks.stop(), || Ok(()))?;
        drain(py);
        receipt.or_raise(py)
    }
}
