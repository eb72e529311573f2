//! A buffer of the ring in Python's hands.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use shardwright::{Error, FrameMut, FrameView, Record};

use crate::forks::Owned;
use crate::geometry::Geometry;

/// What owns the memory that arrays and memoryviews of a frame show.
///
/// They hold a reference to it, so the buffer goes back to the ring when the last of them is gone, whenever that is
/// and whether the frame was committed or not. Nobody else ever writes it until then: an array that a program kept may
/// spoil the frame that it shows, but no other.
#[pyclass(frozen, module = "shardwright._core")]
pub(crate) struct Lease {
    address: usize,
    geometry: Arc<Geometry>,
    /// For the array protocols, which want addresses that stay.
    shape: Vec<ffi::Py_ssize_t>,
    strides: Vec<ffi::Py_ssize_t>,
    bytes: ffi::Py_ssize_t,
    holds: Mutex<Holds>,
}

enum Holds {
    /// The frame is on loan, and was committed neither with success nor given up.
    Loan(Owned<FrameMut>),
    /// It was committed, and is still shown. Kept for its `Drop`.
    View(#[allow(dead_code)] Owned<FrameView>),
    /// It was given up, and is still shown: nobody else may get it. Kept for its `Drop`.
    GivenUp(#[allow(dead_code)] Owned<FrameMut>),
    /// Only for the moment in which it changes hands.
    Nothing,
}

impl Lease {
    pub(crate) fn new(frame: Owned<FrameMut>, geometry: Arc<Geometry>) -> Self {
        Self {
            address: frame.as_ptr().addr(),
            shape: geometry.shown_shape.iter().map(|&length| length as ffi::Py_ssize_t).collect(),
            strides: geometry.shown_strides.iter().map(|&bytes| bytes as ffi::Py_ssize_t).collect(),
            bytes: geometry.buffer_bytes as ffi::Py_ssize_t,
            geometry,
            holds: Mutex::new(Holds::Loan(frame)),
        }
    }

    fn holds(&self) -> MutexGuard<'_, Holds> {
        self.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn commit(&self, number: Option<u64>, record: Record) -> Result<u64, Error> {
        let mut holds = self.holds();
        match std::mem::replace(&mut *holds, Holds::Nothing) {
            Holds::Loan(frame) => match frame.into_inner().commit_viewed(number, record) {
                Ok(view) => {
                    let number = view.number();
                    *holds = Holds::View(Owned::new(view));
                    Ok(number)
                }
                Err(refused) => {
                    *holds = Holds::Loan(Owned::new(refused.frame));
                    Err(refused.error)
                }
            },
            other => {
                *holds = other;
                Err(Error::Ended)
            }
        }
    }

    pub(crate) fn give_up(&self) {
        let mut holds = self.holds();
        *holds = match std::mem::replace(&mut *holds, Holds::Nothing) {
            Holds::Loan(frame) => Holds::GivenUp(frame),
            other => other,
        };
    }

    /// Describes `address` and what follows to whoever asks for it as a buffer, which keeps `owner`.
    ///
    /// # Safety
    ///
    /// `view` must be that of a `__getbuffer__`. What the shape says must lie behind the address and stay as long as
    /// `owner`, as must `shape` and `strides`.
    unsafe fn describe(
        owner: &Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
        (address, bytes): (usize, ffi::Py_ssize_t),
        item: Option<(&'static CStr, ffi::Py_ssize_t)>,
    ) {
        let this = owner.get();
        let has = |flag: c_int| flags & flag == flag;
        let (format, itemsize) = item.unwrap_or((c"B", 1));
        let dims = |list: &[ffi::Py_ssize_t]| list.as_ptr().cast_mut();
        // SAFETY: the caller says that the view may be written. The memory was one allocation when the ring was made.
        unsafe {
            (*view).buf = address as *mut c_void;
            (*view).obj = owner.clone().into_ptr();
            (*view).len = bytes;
            (*view).readonly = 0;
            (*view).itemsize = itemsize;
            (*view).format = if has(ffi::PyBUF_FORMAT) { format.as_ptr().cast_mut() } else { std::ptr::null_mut() };
            (*view).ndim = if item.is_some() { this.shape.len() as c_int } else { 1 };
            (*view).shape = match (item, has(ffi::PyBUF_ND)) {
                (Some(_), true) => dims(&this.shape),
                (None, true) => (&raw const this.bytes).cast_mut(),
                _ => std::ptr::null_mut(),
            };
            (*view).strides = match (item, has(ffi::PyBUF_STRIDES)) {
                (Some(_), true) => dims(&this.strides),
                (None, true) => &raw mut (*view).itemsize,
                _ => std::ptr::null_mut(),
            };
            (*view).suboffsets = std::ptr::null_mut();
            (*view).internal = std::ptr::null_mut();
        }
    }

    /// The frame's rows and columns, for `__getbuffer__` of the frame.
    ///
    /// # Safety
    ///
    /// `view` must be that of a `__getbuffer__`.
    pub(crate) unsafe fn show_frame(owner: &Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let geometry = &owner.get().geometry;
        let wants = |flag: c_int| flags & flag == flag;
        let strided = wants(ffi::PyBUF_STRIDES) && !wants(ffi::PyBUF_C_CONTIGUOUS) && !wants(ffi::PyBUF_ANY_CONTIGUOUS);
        if wants(ffi::PyBUF_F_CONTIGUOUS) || !(strided || geometry.is_contiguous()) {
            // SAFETY: the caller says that the view may be written.
            unsafe { (*view).obj = std::ptr::null_mut() };
            return Err(PyBufferError::new_err("the frame's rows don't follow each other without gaps"));
        }
        let place = (owner.get().address + geometry.offset, geometry.frame_bytes as ffi::Py_ssize_t);
        let item = (geometry.format(), geometry.item() as ffi::Py_ssize_t);
        // SAFETY: the frame lies in the buffer, which stays as long as the lease.
        unsafe { Self::describe(owner, view, flags, place, Some(item)) };
        Ok(())
    }
}

#[pymethods]
impl Lease {
    /// The whole buffer, as bytes: for `numpy.ndarray`.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) {
        let place = (slf.get().address, slf.get().bytes);
        // SAFETY: this is `__getbuffer__`; the buffer stays as long as the lease.
        unsafe { Self::describe(&slf, view, flags, place, None) };
    }
}
