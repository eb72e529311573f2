//! One run that several processes write, each a part of its shards.

use std::ops::Range;
use std::path::PathBuf;

use pyo3::prelude::*;
use shardwright::offline::{FinishParts, FinishPartsOptions};

use crate::errors::OrRaise;
use crate::offline::{chosen, done, options};
use crate::waits::in_thread;

/// First and last of some rows or columns.
type Bounds = (u64, u64);

/// Creates a run that `parts` processes are to write; of each, its rows and columns of the frame.
#[pyfunction]
pub(crate) fn create_parts(
    py: Python<'_>,
    path: PathBuf,
    config: &str,
    parts: u32,
    by: &str,
) -> PyResult<Vec<(Bounds, Bounds)>> {
    let (config, by) = (options(py, config)?, chosen(py, by)?);
    let regions = in_thread(py, move || shardwright::create_parts(path, config, parts, by))?.or_raise(py)?;
    let bounds = |Range { start, end }: Range<u64>| (start, end);
    Ok(regions.into_iter().map(|[rows, columns]| (bounds(rows), bounds(columns))).collect())
}

/// Puts the parts of a run together; a JSON document.
#[pyfunction]
pub(crate) fn finish_parts(
    py: Python<'_>,
    path: PathBuf,
    incomplete: bool,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let options = FinishPartsOptions { incomplete };
    let operation = in_thread(py, move || FinishParts::new(path, &options))?.or_raise(py)?;
    done(py, operation, progress)
}
