//! One run of one image.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyCapsule, PyTuple};
use shardwright::Config;

use crate::c_table;
use crate::dataset::Dataset;
use crate::errors::{OrRaise, frame_error, raised};
use crate::frame::Frame;
use crate::log::drain;
use crate::running::Running;
use crate::waits::in_thread;

/// One run of one image: frames go in, a finished dataset comes out.
#[pyclass(subclass, frozen, module = "shardwright._core")]
pub(crate) struct Acquisition {
    pub(crate) running: Arc<Running>,
}

#[pymethods]
impl Acquisition {
    /// `config`: a JSON document. `dataset` and `name`: for one image of several.
    #[new]
    #[pyo3(signature = (path, config, dataset=None, name=None))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        config: &str,
        dataset: Option<&Bound<'_, Dataset>>,
        name: Option<String>,
    ) -> PyResult<Self> {
        let config: Config =
            serde_json::from_str(config).map_err(|error| raised(py, "ConfigError", error.to_string()))?;
        let given = config.clone();
        let created = match (dataset, name) {
            (Some(dataset), Some(name)) => {
                let dataset = dataset.get().dataset(py)?;
                in_thread(py, move || dataset.acquisition(&name, given))?
            }
            _ => in_thread(py, move || shardwright::Acquisition::create(path, given))?,
        };
        drain(py);
        let running = Arc::new(Running::new(py, &config, created.or_raise(py)?)?);
        Ok(Self { running })
    }

    /// Borrow a free frame buffer of the ring, to be filled in place and committed.
    ///
    /// Parameters
    /// ----------
    /// timeout : float, optional
    ///     Seconds to wait for a free buffer at most. By default as the configuration's ``ring_full`` says.
    ///
    /// Returns
    /// -------
    /// Frame
    ///     A context manager; leaving it without a commit gives the buffer back.
    ///
    /// Raises
    /// ------
    /// RingFull
    ///     No buffer became free: the workers or the disk are slower than the camera. The call may be repeated.
    /// EndedError
    ///     The run takes no more frames.
    #[pyo3(signature = (timeout=None))]
    fn acquire(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Frame> {
        let frame = self.running.loan(py, timeout)?;
        Ok(Frame::new(self.running.clone(), frame))
    }

    /// The newest frame: its number and its pixels as bytes, copied; None if none is in the ring.
    fn _newest<'py>(&self, py: Python<'py>) -> PyResult<Option<(u64, Bound<'py, PyByteArray>)>> {
        let Some(view) = self.running.run(py)?.newest() else { return Ok(None) };
        let geometry = &self.running.geometry;
        let bytes = PyByteArray::new_with(py, geometry.frame_bytes, |bytes| {
            let rows = bytes.chunks_mut(geometry.row_bytes().max(1)).enumerate();
            rows.for_each(|(row, to)| {
                to.copy_from_slice(&view[geometry.offset + row * geometry.strides[0]..][..to.len()]);
            });
            Ok(())
        })?;
        Ok(Some((view.number(), bytes)))
    }

    /// The pixels of a frame as bytes, from the ring or a shard; the fill value where none came.
    fn _read_frame<'py>(&self, py: Python<'py>, number: u64) -> PyResult<Bound<'py, PyByteArray>> {
        let run = self.running.run(py)?;
        // Nobody else has the object yet, so it may be filled detached.
        PyByteArray::new_with(py, self.running.geometry.array_bytes, |pixels| {
            py.detach(|| run.read_frame(number, pixels)).or_raise(py)
        })
    }

    /// One more than the largest number that a frame has got so far.
    #[getter]
    fn next_number(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.running.run(py)?.next_number())
    }

    /// Counters of this moment, as a JSON document.
    fn _stats(&self, py: Python<'_>) -> PyResult<String> {
        drain(py);
        let stats = self.running.run(py)?.stats();
        serde_json::to_string(&stats).map_err(|error| frame_error(py, error.to_string()))
    }

    /// How long each stage took until now, as a JSON document.
    fn _latencies(&self, py: Python<'_>) -> PyResult<String> {
        let latencies = self.running.run(py)?.latencies();
        serde_json::to_string(&latencies).map_err(|error| frame_error(py, error.to_string()))
    }

    /// Sets an attribute of the image to what a JSON document says.
    fn _set_attribute(&self, py: Python<'_>, key: &str, value: &str) -> PyResult<()> {
        let value = serde_json::from_str(value).map_err(|error| frame_error(py, error.to_string()))?;
        self.running.run(py)?.set_attribute(key, value).or_raise(py)
    }

    /// Raises the first error of the run, if there was one.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        drain(py);
        self.running.run(py)?.first_error().map_or(Ok(()), Err).or_raise(py)
    }

    /// Take no more frames: whoever acquires or commits one from now on, on any thread, gets EndedError.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.running.run(py).map(|run| run.close())
    }

    /// Where the ring's buffers begin, by their index, for SDKs that want to know all of them before the first frame.
    ///
    /// A buffer may be filled only while it is on loan: ``frame.index`` says which one that is.
    #[getter]
    fn buffers(&self, py: Python<'_>) -> PyResult<Vec<usize>> {
        Ok(self.running.run(py)?.buffer_addresses().into_iter().map(|address| address.addr()).collect())
    }

    /// A PyCapsule with a table of C functions and the run's handle, so that drivers commit without Python.
    ///
    /// ``shardwright.write_headers`` writes the header that describes it.
    fn c_table<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        c_table::capsule(py, self.running.handle(py)?)
    }

    /// The shape of a chunk, with the automatic sizes filled in.
    #[getter]
    fn chunk_shape(&self) -> Vec<u64> {
        self.running.facts.chunk_shape.clone()
    }

    /// The shape of a shard, with the automatic sizes filled in.
    #[getter]
    fn shard_shape(&self) -> Vec<u64> {
        self.running.facts.shard_shape.clone()
    }

    /// How many numbers a frame may come behind the newest one. Later, it was recorded as missing.
    #[getter]
    fn reorder_window(&self) -> u64 {
        self.running.facts.reorder_window
    }

    /// Frame buffers in the ring; where images share one, those that this one can have at once.
    #[getter]
    fn ring_frames(&self) -> usize {
        self.running.ring_frames()
    }

    /// Bytes of one frame without gaps between its rows, as it is given.
    #[getter]
    fn frame_bytes(&self) -> usize {
        self.running.geometry.frame_bytes
    }

    /// The type of a pixel as it is given: of bytes, where the camera packs pixels.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> Py<PyAny> {
        self.running.geometry.numpy_dtype(py)
    }

    /// Rows and columns of a frame as it is given, before it is turned; of bytes, where the camera packs pixels. Of
    /// pictures, also the samples of a pixel.
    #[getter]
    fn frame_shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.running.geometry.shown_shape)
    }

    /// The type of the array's pixels.
    #[getter]
    fn _array_dtype(&self, py: Python<'_>) -> Py<PyAny> {
        self.running.geometry.array_dtype(py)
    }

    /// Rows and columns of the array.
    #[getter]
    fn _array_shape(&self) -> (usize, usize) {
        self.running.geometry.array_shape.into()
    }

    /// Whether the run still takes frames: neither finish nor abort was called.
    #[getter]
    fn is_open(&self) -> bool {
        self.running.is_open()
    }
}
