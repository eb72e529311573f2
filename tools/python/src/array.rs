//! Arrays that are on a disk, whoever wrote them.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyByteArray;
use shardwright::offline::Array;

use crate::errors::{OrRaise, frame_error};

/// An array of a dataset, read chunk by chunk by several threads.
#[pyclass(subclass, frozen, module = "shardwright._core")]
pub(crate) struct StoredArray {
    array: Array,
}

#[pymethods]
impl StoredArray {
    /// The array at `path`, or the first and finest array of the image at `path`.
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let array = py.detach(|| Array::open(path)).or_raise(py)?;
        Ok(Self { array })
    }

    #[getter]
    fn _shape(&self) -> Vec<u64> {
        self.array.shape().to_vec()
    }

    /// Zarr's name of the elements' type.
    #[getter]
    fn _type_name(&self) -> String {
        self.array.dtype().zarr_name().into_owned()
    }

    #[getter]
    fn dimension_names(&self) -> Option<Vec<String>> {
        self.array.dimension_names().map(<[_]>::to_vec)
    }

    #[getter]
    fn _chunk_shape(&self) -> Vec<u64> {
        self.array.chunk_shape().to_vec()
    }

    #[getter]
    fn _shard_shape(&self) -> Option<Vec<u64>> {
        self.array.shard_shape().map(<[_]>::to_vec)
    }

    #[getter]
    fn codecs(&self) -> Vec<String> {
        self.array.codecs().to_vec()
    }

    /// Attributes of the array, as a JSON document.
    fn _attributes(&self) -> String {
        self.array.attributes().to_string()
    }

    /// The elements of a box, little-endian and in C order.
    fn _read<'py>(&self, py: Python<'py>, start: Vec<u64>, shape: Vec<u64>) -> PyResult<Bound<'py, PyByteArray>> {
        let count = shape.iter().try_fold(self.array.dtype().size() as u64, |bytes, length| bytes.checked_mul(*length));
        let bytes = count.and_then(|bytes| usize::try_from(bytes).ok());
        let bytes = bytes.ok_or_else(|| frame_error(py, format!("a box of {shape:?} does not fit into memory")))?;
        // Nobody else has the object yet, so it may be filled detached.
        PyByteArray::new_with(py, bytes, |out| py.detach(|| self.array.read_region(&start, &shape, out)).or_raise(py))
    }
}
