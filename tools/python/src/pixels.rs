//! Which frames an object holds that a caller wants to append.
//!
//! Nothing is reinterpreted: what has as many bytes as a frame and another type is refused.

use pyo3::buffer::PyUntypedBuffer;
use pyo3::prelude::*;
use shardwright::Dtype;

use crate::errors::{frame_error, type_error};
use crate::geometry::Geometry;

/// Frames in the memory of a Python object, which stays as it is as long as this lives; of all of them, the same part.
pub(crate) struct Frames {
    /// Kept for its `Drop`.
    _buffer: PyUntypedBuffer,
    /// Where each frame's first row begins, if they don't follow each other without gaps.
    starts: Option<Vec<usize>>,
    first: usize,
    pub(crate) count: usize,
    pub(crate) row_stride: usize,
    frame_bytes: usize,
    /// Rows and columns.
    pub(crate) shape: [usize; 2],
}

/// Bytes of somebody who keeps them.
pub(crate) struct Bytes {
    pub(crate) address: usize,
    pub(crate) bytes: usize,
}

impl Bytes {
    /// Takes the first of them away.
    pub(crate) fn cut(&mut self, bytes: usize) -> Self {
        let first = Self { address: self.address, bytes };
        (self.address, self.bytes) = (self.address + bytes, self.bytes - bytes);
        first
    }
}

impl Frames {
    /// The frames of `object`: anything with a buffer or DLPack. `None`: they lie in a way that has to be copied first.
    /// `are_parts`: they may be smaller than the geometry's.
    fn look(object: &Bound<'_, PyAny>, geometry: &Geometry, are_parts: bool) -> PyResult<Option<Self>> {
        let py = object.py();
        let buffer = PyUntypedBuffer::get(object)?;
        check_type(py, &buffer, geometry)?;
        let (all, first) = (geometry.of_rows(buffer.shape()), buffer.buf_ptr().addr());
        let shape = if are_parts { part_shape(py, &all)? } else { geometry.shape };
        let outer = outer_shape(py, &all, shape)?;
        let count = outer.iter().product::<usize>();
        let row_bytes = shape[1] * geometry.item();
        let (dims, frame_bytes) = (outer.len(), shape[0] * row_bytes);
        if buffer.is_c_contiguous() {
            let (starts, row_stride) = (None, row_bytes);
            return Ok(Some(Self { _buffer: buffer, starts, first, count, row_stride, frame_bytes, shape }));
        }
        // Without rows and columns of its own, it is brought into order.
        if buffer.shape().len() != dims + 2 {
            return Ok(None);
        }
        let strides = buffer.strides();
        let (row_stride, item) = (strides[dims], strides[dims + 1]);
        // A direction of one element has any stride.
        let is_plain = (item == geometry.item() as isize || shape[1] == 1)
            && (row_stride >= row_bytes as isize || shape[0] == 1)
            && buffer.suboffsets().is_none();
        if !is_plain {
            return Ok(None);
        }
        let row_stride = if shape[0] == 1 { row_bytes } else { row_stride as usize };
        let starts = Some(starts(first, &outer, &strides[..dims]));
        Ok(Some(Self { _buffer: buffer, starts, first, count, row_stride, frame_bytes, shape }))
    }

    /// `are_parts`: they may be smaller than the geometry's.
    pub(crate) fn of(object: &Bound<'_, PyAny>, geometry: &Geometry, are_parts: bool) -> PyResult<Self> {
        let py = object.py();
        let shown = shown(object)?;
        if let Some(frames) = Self::look(&shown, geometry, are_parts)? {
            return Ok(frames);
        }
        // Fortran order, every second pixel, upside down: numpy brings it into order.
        let ordered = py.import("numpy")?.call_method1("ascontiguousarray", (shown,))?;
        let frames = Self::look(&ordered, geometry, are_parts)?;
        frames.ok_or_else(|| frame_error(py, "these pixels can't be brought into order"))
    }

    /// Whether all of them lie in one piece.
    pub(crate) fn follow_each_other(&self) -> bool {
        self.starts.is_none()
    }

    /// Where they lie, if in one piece: address and bytes.
    pub(crate) fn all(&self) -> (usize, usize) {
        (self.first, self.count * self.frame_bytes)
    }

    /// Where one frame lies.
    pub(crate) fn one(&self, at: usize) -> (usize, usize) {
        match &self.starts {
            None => (self.first + at * self.frame_bytes, self.frame_bytes),
            Some(starts) => (starts[at], self.strided_bytes()),
        }
    }

    /// From the first pixel of a frame to behind the last.
    fn strided_bytes(&self) -> usize {
        (self.shape[0] - 1) * self.row_stride + self.frame_bytes / self.shape[0]
    }
}

/// An object that has a buffer, with the same pixels.
fn shown<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    if has_buffer(object) {
        return Ok(object.clone());
    }
    if object.hasattr("__dlpack__")? {
        let on_host = object.call_method0("__dlpack_device__")?.extract::<(i64, i64)>()?.0;
        // CPU, and memory of CUDA or ROCm that the host sees.
        if ![1, 3, 11].contains(&on_host) {
            return Err(type_error(
                py,
                "these pixels are in the memory of another device; bring them to the host first",
            ));
        }
        return py.import("numpy")?.call_method1("from_dlpack", (object,));
    }
    let kind = object.get_type().name()?;
    let text = format!("{kind}: what is appended needs a buffer (numpy arrays, memoryviews, bytes) or DLPack");
    Err(type_error(py, text))
}

#[allow(unsafe_code)]
fn has_buffer(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: asks a live object's type.
    unsafe { pyo3::ffi::PyObject_CheckBuffer(object.as_ptr()) == 1 }
}

/// Refuses elements of another type, whatever their size.
fn check_type(py: Python<'_>, buffer: &PyUntypedBuffer, geometry: &Geometry) -> PyResult<()> {
    let format = buffer.format().to_string_lossy().into_owned();
    let is_big_endian = format.starts_with(['>', '!']);
    let letter = if geometry.is_big_endian { format.trim_start_matches(['>', '!']) } else { &format };
    if dtype(letter, buffer.item_size()) == Some(geometry.dtype) && is_big_endian == geometry.is_big_endian {
        return Ok(());
    }
    let found = name(py, &format);
    let text = if let Some(packing) = geometry.packing {
        format!("pixels of type {found}: frames are bytes (uint8), packed as {packing}")
    } else if geometry.is_big_endian {
        let wanted = name(py, &geometry.format().to_string_lossy());
        format!(
            "pixels of type {found}: frames are of {wanted}, whose high byte comes first; use image.view({wanted:?})"
        )
    } else {
        let wanted = geometry.dtype.zarr_name();
        let swapped = if is_big_endian { ", in another byte order" } else { "" };
        format!(
            "pixels of type {found}{swapped}: the array is of {wanted}; use image.astype({wanted:?}), or \
             image.view(...) if you know better"
        )
    };
    Err(type_error(py, text))
}

/// The type that a letter of the array protocols means, in this machine's byte order.
fn dtype(format: &str, item: usize) -> Option<Dtype> {
    let letter = match format.as_bytes() {
        [letter] | [b'@' | b'=' | b'<', letter] => *letter,
        _ => return None,
    };
    let dtype = match (letter, item) {
        (b'B', 1) => Dtype::U8,
        (b'b', 1) => Dtype::I8,
        (b'H', 2) => Dtype::U16,
        (b'h', 2) => Dtype::I16,
        (b'I' | b'L' | b'Q', 4) => Dtype::U32,
        (b'i' | b'l' | b'q', 4) => Dtype::I32,
        (b'L' | b'Q', 8) => Dtype::U64,
        (b'l' | b'q', 8) => Dtype::I64,
        (b'f', 4) => Dtype::F32,
        (b'd', 8) => Dtype::F64,
        _ => return None,
    };
    let swaps = format.starts_with('<') && cfg!(target_endian = "big") && item > 1;
    (!swaps).then_some(dtype)
}

/// What numpy calls the type.
fn name(py: Python<'_>, format: &str) -> String {
    let named = || py.import("numpy")?.getattr("dtype")?.call1((format,))?.str().map(|name| name.to_string());
    named().unwrap_or_else(|_| format.to_owned())
}

/// The rows and columns of parts of frames.
fn part_shape(py: Python<'_>, shape: &[usize]) -> PyResult<[usize; 2]> {
    match shape {
        [.., rows, columns] if *rows > 0 && *columns > 0 => Ok([*rows, *columns]),
        _ => {
            let text = format!("an array of shape {shape:?} has no rows and columns, which a part of a frame has");
            Err(frame_error(py, text))
        }
    }
}

/// The lengths before rows and columns.
fn outer_shape(py: Python<'_>, shape: &[usize], [rows, columns]: [usize; 2]) -> PyResult<Vec<usize>> {
    let pixels = rows * columns;
    match shape {
        [outer @ .., y, x] if [*y, *x] == [rows, columns] => Ok(outer.to_vec()),
        // Without a shape there is none to contradict.
        [flat] if *flat > 0 && pixels > 0 && flat % pixels == 0 => Ok(vec![flat / pixels]),
        _ => {
            let text = format!("an array of shape {shape:?} holds no frames of {rows} rows and {columns} columns");
            Err(frame_error(py, text))
        }
    }
}

/// Where the frames begin, in the order of the outer directions.
fn starts(first: usize, outer: &[usize], strides: &[isize]) -> Vec<usize> {
    let mut starts = vec![first];
    for (&length, &stride) in outer.iter().zip(strides) {
        let step = |start: &usize| (0..length).map(move |at| start.wrapping_add_signed(at as isize * stride)).collect();
        starts = starts.iter().flat_map(|start| -> Vec<usize> { step(start) }).collect();
    }
    starts
}
