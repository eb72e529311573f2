//! Several images in one dataset.

use std::path::PathBuf;
use std::sync::Mutex;

use pyo3::prelude::*;

use crate::errors::{OrRaise, raised};
use crate::forks::{Owned, Process};
use crate::waits::{in_thread, locked};

/// A dataset of several images that are acquired at the same time.
#[pyclass(subclass, frozen, module = "shardwright._core")]
pub(crate) struct Dataset {
    dataset: Mutex<Option<Owned<shardwright::Dataset>>>,
    process: Process,
}

impl Dataset {
    pub(crate) fn dataset(&self, py: Python<'_>) -> PyResult<shardwright::Dataset> {
        self.process.check()?;
        // Unlocked before the exception is made, which may run any code of Python.
        let dataset = locked(&self.dataset).as_ref().map(|dataset| (**dataset).clone());
        dataset.ok_or_else(|| raised(py, "EndedError", "the dataset is closed; it takes no more images"))
    }
}

#[pymethods]
impl Dataset {
    #[new]
    #[pyo3(signature = (path, overwrite, plate = None))]
    fn new(py: Python<'_>, path: PathBuf, overwrite: bool, plate: Option<&str>) -> PyResult<Self> {
        let plate: Option<shardwright::Plate> = plate
            .map(serde_json::from_str)
            .transpose()
            .map_err(|error| raised(py, "ConfigError", format!("plate: {error}")))?;
        let create = move || {
            let dataset = match overwrite {
                true => shardwright::Dataset::create_or_replace(path),
                false => shardwright::Dataset::create(path),
            }?;
            match plate {
                Some(plate) => dataset.with_plate(plate),
                None => Ok(dataset),
            }
        };
        let dataset = in_thread(py, create)?.or_raise(py)?;
        Ok(Self { dataset: Mutex::new(Some(Owned::new(dataset))), process: Process::this() })
    }

    /// Takes no more images. The dataset is unlocked when the last of them is finished.
    fn _close(&self) {
        let dataset = locked(&self.dataset).take();
        drop(dataset);
    }
}
