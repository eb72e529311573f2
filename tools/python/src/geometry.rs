//! How a frame lies in its buffer, as the array protocols want to hear of it.

use std::ffi::CStr;

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use shardwright::{Acquisition, Config, Dtype, FrameLayout, PixelFormat};

/// The frame of an acquisition, as it is given: where the camera packs pixels, rows of bytes.
pub(crate) struct Geometry {
    pub(crate) dtype: Dtype,
    /// Numbers have their high byte first.
    pub(crate) is_big_endian: bool,
    /// What the bytes of a packed frame are of.
    pub(crate) packing: Option<PixelFormat>,
    /// Rows, columns; of pictures, columns of samples.
    pub(crate) shape: [usize; 2],
    /// Of a pixel.
    pub(crate) samples: usize,
    /// The shape and the strides that callers see: of pictures, those of samples are the last.
    pub(crate) shown_shape: Vec<usize>,
    pub(crate) shown_strides: Vec<usize>,
    /// Bytes of the frame in the array.
    pub(crate) array_bytes: usize,
    /// Rows and columns of the frame in the array.
    pub(crate) array_shape: [usize; 2],
    array_dtype: Py<PyAny>,
    /// Bytes from row to row in a buffer of the ring, and from pixel to pixel.
    pub(crate) strides: [usize; 2],
    /// Where the first pixel stands in a buffer.
    pub(crate) offset: usize,
    /// Bytes of a buffer.
    pub(crate) buffer_bytes: usize,
    /// Bytes of a frame without gaps.
    pub(crate) frame_bytes: usize,
    numpy: Numpy,
}

/// What `numpy.ndarray` is called with for each frame.
struct Numpy {
    ndarray: Py<PyAny>,
    shape: Py<PyTuple>,
    dtype: Py<PyAny>,
    strides: Py<PyTuple>,
}

impl Geometry {
    /// Of the frames of a run that was created by a configuration.
    pub(crate) fn new(py: Python<'_>, config: &Config, run: &Acquisition) -> PyResult<Self> {
        let (array_shape, frame_bytes) = (run.frame_shape().map(|length| length as usize), run.frame_bytes());
        let [rows, columns] = if config.orientation.transpose { [array_shape[1], array_shape[0]] } else { array_shape };
        let packed = match config.pixel_format {
            PixelFormat::Plain | PixelFormat::BigEndian => None,
            packing => packing.bytes(columns).map(|row_bytes| (packing, row_bytes)),
        };
        let samples = config.pixel_format.samples();
        let (dtype, shape) = match packed {
            None => (config.dtype, [rows, columns * samples]),
            Some((packing, row_bytes)) if are_apart(config, packing, [rows, columns]) => (Dtype::U8, [rows, row_bytes]),
            // A row may begin within a byte: there are no rows.
            Some(_) => (Dtype::U8, [1, frame_bytes]),
        };
        let item = dtype.size();
        let row_bytes = shape[1] * item;
        let is_big_endian = config.pixel_format == PixelFormat::BigEndian;
        let layout = config.frame_layout.unwrap_or(FrameLayout {
            buffer_bytes: shape[0] * row_bytes,
            offset: 0,
            row_stride: row_bytes,
        });
        let strides = [layout.row_stride, item];
        let (shown_shape, shown_strides) = shown(shape, strides, samples);
        let module = py.import("numpy")?;
        let numpy_type = module.getattr("dtype")?;
        let array_dtype = numpy_type.call1((config.dtype.zarr_name(),))?;
        let numpy_dtype = match is_big_endian {
            true => array_dtype.call_method1("newbyteorder", (">",))?,
            false => numpy_type.call1((dtype.zarr_name(),))?,
        };
        let numpy = Numpy {
            ndarray: module.getattr("ndarray")?.unbind(),
            shape: PyTuple::new(py, &shown_shape)?.unbind(),
            dtype: numpy_dtype.unbind(),
            strides: PyTuple::new(py, &shown_strides)?.unbind(),
        };
        let (offset, buffer_bytes) = (layout.offset, layout.buffer_bytes);
        Ok(Self {
            dtype,
            is_big_endian,
            packing: packed.map(|(packing, _)| packing),
            shape,
            samples,
            shown_shape,
            shown_strides,
            array_bytes: array_shape[0] * array_shape[1] * config.dtype.size(),
            array_shape,
            array_dtype: array_dtype.unbind(),
            strides,
            offset,
            buffer_bytes,
            frame_bytes: shape[0] * row_bytes,
            numpy,
        })
    }

    pub(crate) fn item(&self) -> usize {
        self.strides[1]
    }

    pub(crate) fn row_bytes(&self) -> usize {
        self.shape[1] * self.item()
    }

    /// A shape in which the samples of a pixel are so many columns, as in this one's.
    pub(crate) fn of_rows(&self, shape: &[usize]) -> Vec<usize> {
        match shape {
            [outer @ .., columns, samples] if self.samples > 1 && *samples == self.samples => {
                [outer, &[columns * samples]].concat()
            }
            _ => shape.to_vec(),
        }
    }

    /// Whether a frame's pixels follow each other without gaps.
    pub(crate) fn is_contiguous(&self) -> bool {
        self.strides[0] == self.row_bytes()
    }

    /// An array of the frame in the buffer that `owner` exports as bytes.
    pub(crate) fn array<'py>(&self, py: Python<'py>, owner: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let Numpy { ndarray, shape, dtype, strides } = &self.numpy;
        ndarray.bind(py).call1((shape, dtype, owner, self.offset, strides))
    }

    /// numpy's name of the pixels' type.
    pub(crate) fn numpy_dtype(&self, py: Python<'_>) -> Py<PyAny> {
        self.numpy.dtype.clone_ref(py)
    }

    /// The same, of the array.
    pub(crate) fn array_dtype(&self, py: Python<'_>) -> Py<PyAny> {
        self.array_dtype.clone_ref(py)
    }

    /// The letter of the array protocols.
    pub(crate) fn format(&self) -> &'static CStr {
        match (self.is_big_endian, self.dtype) {
            (true, Dtype::I16) => c">h",
            (true, _) => c">H",
            (false, dtype) => format(dtype),
        }
    }
}

/// The shape and the strides of rows of samples, where those of a pixel are a direction of their own.
fn shown(shape: [usize; 2], strides: [usize; 2], samples: usize) -> (Vec<usize>, Vec<usize>) {
    let ([rows, columns], [row_stride, item]) = (shape, strides);
    match samples {
        1 => (shape.to_vec(), strides.to_vec()),
        _ => (vec![rows, columns / samples, samples], vec![row_stride, samples * item, item]),
    }
}

/// Whether each row of packed pixels begins with a byte of its own.
fn are_apart(config: &Config, packing: PixelFormat, [rows, columns]: [usize; 2]) -> bool {
    let rest = columns % 8;
    let whole = || packing.bytes(8 * rest) == packing.bytes(rest).map(|bytes| 8 * bytes);
    config.frame_layout.is_some() || rows == 1 || whole()
}

/// The letter of the array protocols.
fn format(dtype: Dtype) -> &'static CStr {
    match dtype {
        Dtype::U8 => c"B",
        Dtype::I8 => c"b",
        Dtype::U16 => c"H",
        Dtype::I16 => c"h",
        Dtype::U32 => c"I",
        Dtype::I32 => c"i",
        Dtype::U64 => c"Q",
        Dtype::I64 => c"q",
        Dtype::F32 => c"f",
        _ => c"d",
    }
}
