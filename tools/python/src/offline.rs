//! What is done to datasets after the run. The work is done by threads that are not attached; the caller's waits, tells
//! of the progress, and stops the work when Ctrl-C comes.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use serde::{Deserialize, Serialize};
use shardwright::offline::{self, Progress};
use shardwright::{Codec, Dialect, Error, IndexLocation, ManifestForm, OmeVersion, Volume};

use crate::errors::{OrRaise, raised};
use crate::log::drain;
use crate::waits::stoppable;

/// An operation on a dataset.
pub(crate) trait Operation: Send + Sync + 'static {
    fn run(&self) -> Result<String, Error>;
    fn stop(&self);
    fn progress(&self) -> Progress;
}

pub(crate) fn document(report: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string(report).map_err(|error| Error::Panicked { message: error.to_string() })
}

macro_rules! operation {
    ($($type:ty),+) => {
        $(
            impl Operation for $type {
                fn run(&self) -> Result<String, Error> {
                    self.run().and_then(|report| document(&report))
                }

                fn stop(&self) {
                    self.stop();
                }

                fn progress(&self) -> Progress {
                    self.progress()
                }
            }
        )+
    };
}

operation!(
    offline::Verify,
    offline::Recover,
    offline::Repack,
    offline::Pyramid,
    offline::WriteManifest,
    offline::FinishTasks,
    offline::FinishParts
);

/// Runs an operation to its end, or stops it at a signal and waits until it has stopped.
pub(crate) fn done(py: Python<'_>, operation: impl Operation, progress: Option<&Bound<'_, PyAny>>) -> PyResult<String> {
    let operation = Arc::new(operation);
    let worker = operation.clone();
    let tell = || {
        let Some(progress) = progress else { return Ok(()) };
        let (done, total) = operation.progress().bytes();
        progress.call1((done, total)).map(drop)
    };
    let outcome = stoppable(py, move || worker.run(), || operation.stop(), tell);
    drain(py);
    outcome?.or_raise(py)
}

pub(crate) fn options<T: for<'de> Deserialize<'de>>(py: Python<'_>, text: &str) -> PyResult<T> {
    serde_json::from_str(text).map_err(|error| raised(py, "ConfigError", error.to_string()))
}

pub(crate) fn chosen<T: std::str::FromStr<Err = Error>>(py: Python<'_>, name: &str) -> PyResult<T> {
    name.parse().or_raise(py)
}

/// What a dataset holds, as a JSON document.
#[pyfunction]
pub(crate) fn info(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    py.detach(|| offline::describe(path)).map(|description| description.to_json()).or_raise(py)
}

/// Checks a dataset; a JSON document.
#[pyfunction]
pub(crate) fn verify(
    py: Python<'_>,
    path: PathBuf,
    workers: usize,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let options = offline::VerifyOptions { workers };
    let operation = py.detach(|| offline::Verify::new(path, &options)).or_raise(py)?;
    done(py, operation, progress)
}

/// Restores what a killed run had stored; a JSON document.
#[pyfunction]
pub(crate) fn recover(
    py: Python<'_>,
    path: PathBuf,
    apply: bool,
    workers: usize,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let options = offline::RecoverOptions { apply, workers };
    let operation = py.detach(|| offline::Recover::new(path, &options)).or_raise(py)?;
    done(py, operation, progress)
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RepackDocument {
    only: Vec<String>,
    skip: Vec<String>,
    dialect: Option<Dialect>,
    ome: Option<OmeVersion>,
    order: String,
    codec: Option<Codec>,
    chunk: Vec<u64>,
    shard: Vec<u64>,
    unsharded: bool,
    index_location: Option<IndexLocation>,
    index_checksum: Option<bool>,
    volume: Volume,
    memory_bytes: u64,
    workers: usize,
    sync: bool,
    reflink: bool,
    incomplete: bool,
    space_check: bool,
}

impl Default for RepackDocument {
    fn default() -> Self {
        let usual = offline::RepackOptions::default();
        Self {
            only: usual.only,
            skip: usual.skip,
            dialect: usual.dialect,
            ome: usual.ome,
            order: usual.order.name().to_owned(),
            codec: usual.codec,
            chunk: usual.chunk,
            shard: usual.shard,
            unsharded: false,
            index_location: usual.index_location,
            index_checksum: usual.index_checksum,
            volume: usual.volume,
            memory_bytes: usual.memory_bytes,
            workers: usual.workers,
            sync: usual.sync,
            reflink: usual.reflink,
            incomplete: usual.incomplete,
            space_check: true,
        }
    }
}

impl RepackDocument {
    fn options(self, py: Python<'_>) -> PyResult<offline::RepackOptions> {
        use offline::{Sharding, SpaceCheck};
        Ok(offline::RepackOptions {
            only: self.only,
            skip: self.skip,
            dialect: self.dialect,
            ome: self.ome,
            order: chosen(py, &self.order)?,
            codec: self.codec,
            chunk: self.chunk,
            shard: self.shard,
            sharding: if self.unsharded { Sharding::Unsharded } else { Sharding::Shards },
            index_location: self.index_location,
            index_checksum: self.index_checksum,
            volume: self.volume,
            memory_bytes: self.memory_bytes,
            workers: self.workers,
            sync: self.sync,
            reflink: self.reflink,
            incomplete: self.incomplete,
            space: if self.space_check { SpaceCheck::Estimated } else { SpaceCheck::Skipped },
        })
    }
}

/// The options of a repacking that a JSON document has.
pub(crate) fn repack_options(py: Python<'_>, document: &str) -> PyResult<offline::RepackOptions> {
    options::<RepackDocument>(py, document)?.options(py)
}

/// Makes a dataset compact, or another of it; a JSON document.
#[pyfunction]
pub(crate) fn repack(
    py: Python<'_>,
    path: PathBuf,
    out: Option<PathBuf>,
    document: &str,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let options = repack_options(py, document)?;
    let operation = py.detach(|| offline::Repack::new(path, out.as_deref(), &options)).or_raise(py)?;
    done(py, operation, progress)
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ManifestDocument {
    url_prefix: Option<String>,
    forms: Vec<ManifestForm>,
    inline_chunks: u64,
    kerchunk_zarr_format: u8,
    overwrite: bool,
}

impl Default for ManifestDocument {
    fn default() -> Self {
        let offline::ManifestOptions { url_prefix, forms, inline_chunks, kerchunk_zarr_format, overwrite } =
            offline::ManifestOptions::default();
        Self { url_prefix, forms, inline_chunks, kerchunk_zarr_format, overwrite }
    }
}

/// The options of manifests that a JSON document has.
pub(crate) fn manifest_options(py: Python<'_>, document: &str) -> PyResult<offline::ManifestOptions> {
    let ManifestDocument { url_prefix, forms, inline_chunks, kerchunk_zarr_format, overwrite } = options(py, document)?;
    Ok(offline::ManifestOptions { url_prefix, forms, inline_chunks, kerchunk_zarr_format, overwrite })
}

/// Writes where the chunks of a dataset lie; a JSON document.
#[pyfunction]
pub(crate) fn manifest(
    py: Python<'_>,
    path: PathBuf,
    out: Option<PathBuf>,
    document: &str,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let options = manifest_options(py, document)?;
    let operation = py.detach(|| offline::WriteManifest::new(path, out.as_deref(), &options)).or_raise(py)?;
    done(py, operation, progress)
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct PyramidDocument {
    method: Option<String>,
    levels: Option<usize>,
    y: bool,
    x: bool,
    depth: String,
    overwrite: bool,
    memory_bytes: u64,
    workers: usize,
    sync: bool,
}

impl Default for PyramidDocument {
    fn default() -> Self {
        let usual = offline::PyramidOptions::default();
        let depth = usual.depth.name().to_owned();
        let offline::PyramidOptions { levels, y, x, overwrite, memory_bytes, workers, sync, .. } = usual;
        Self { method: None, levels, y, x, depth, overwrite, memory_bytes, workers, sync }
    }
}

/// The options of levels that a JSON document has.
pub(crate) fn pyramid_options(py: Python<'_>, document: &str) -> PyResult<offline::PyramidOptions> {
    let document: PyramidDocument = options(py, document)?;
    let PyramidDocument { method, levels, y, x, depth, overwrite, memory_bytes, workers, sync } = document;
    let method = method.map(|method| chosen(py, &method)).transpose()?;
    let depth = chosen(py, &depth)?;
    Ok(offline::PyramidOptions { method, levels, y, x, depth, overwrite, memory_bytes, workers, sync })
}

/// Adds smaller levels to an image; a JSON document.
#[pyfunction]
pub(crate) fn pyramid(
    py: Python<'_>,
    path: PathBuf,
    document: &str,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let options = pyramid_options(py, document)?;
    let operation = py.detach(|| offline::Pyramid::new(path, &options)).or_raise(py)?;
    done(py, operation, progress)
}
