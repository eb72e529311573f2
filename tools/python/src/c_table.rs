//! The C interface of a run that Python started: for drivers that commit without Python.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use shardwright::ffi::lent::{LentHandle, lend};
use shardwright::ffi::record::sw_record;
use shardwright::ffi::registry::sw_acquisition;
use shardwright::ffi::report::{sw_get_layout, sw_get_stats, sw_layout, sw_stats};
use shardwright::ffi::run::{
    sw_acquire, sw_acquire_buffer, sw_append, sw_appended, sw_buffers, sw_commit, sw_commit_buffer, sw_discard,
    sw_discard_buffer, sw_frame,
};
use shardwright::ffi::status::{sw_last_error, sw_status};
use shardwright::{Acquisition, Error};

use crate::forks::Owned;

/// What a driver gets: a copy stands in `HEADER`, in C.
#[repr(C)]
pub(crate) struct Table {
    size: usize,
    version: u32,
    reserved: u32,
    acquisition: *mut sw_acquisition,
    acquire: unsafe extern "C" fn(*mut sw_acquisition, i64, *mut sw_frame) -> sw_status,
    acquire_buffer: unsafe extern "C" fn(*mut sw_acquisition, u32, i64, *mut sw_frame) -> sw_status,
    commit: unsafe extern "C" fn(*mut sw_acquisition, *const sw_frame, u64, *const sw_record) -> sw_status,
    commit_buffer: unsafe extern "C" fn(*mut sw_acquisition, u32, u64, *const sw_record) -> sw_status,
    discard: unsafe extern "C" fn(*mut sw_acquisition, *const sw_frame) -> sw_status,
    discard_buffer: unsafe extern "C" fn(*mut sw_acquisition, u32) -> sw_status,
    append: AppendFn,
    buffers: unsafe extern "C" fn(*mut sw_acquisition, *mut *mut c_void, usize, *mut usize) -> sw_status,
    get_layout: unsafe extern "C" fn(*mut sw_acquisition, *mut sw_layout) -> sw_status,
    get_stats: unsafe extern "C" fn(*mut sw_acquisition, *mut sw_stats) -> sw_status,
    last_error: extern "C" fn() -> *const c_char,
}

type AppendFn = unsafe extern "C" fn(
    *mut sw_acquisition,
    *const c_void,
    usize,
    usize,
    *const sw_record,
    i64,
    *mut sw_appended,
) -> sw_status;

/// What stands in the header of the table.
const HEADER: &str = "\
/* The C functions of a run that Python started: PyCapsule_GetPointer(acq.c_table(), SHARDWRIGHT_TABLE).

   All calls are those of shardwright.h, for any thread, without the interpreter's lock. The handle is good until the
   run is finished in Python; then each call returns an error. `commit` and others are called with `acquisition`. */

#ifndef SHARDWRIGHT_PYTHON_H
#define SHARDWRIGHT_PYTHON_H

#include \"shardwright.h\"

#define SHARDWRIGHT_TABLE \"shardwright.table\"

typedef struct sw_table {
    /* sizeof(sw_table) of the package: what lies behind it is not there. */
    size_t size;
    /* SW_INTERFACE of the package. */
    uint32_t version;
    uint32_t reserved;
    sw_acquisition *acquisition;
    sw_status (*acquire)(sw_acquisition *, int64_t timeout_ms, sw_frame *);
    sw_status (*acquire_buffer)(sw_acquisition *, uint32_t index, int64_t timeout_ms, sw_frame *);
    sw_status (*commit)(sw_acquisition *, const sw_frame *, uint64_t number, const sw_record *);
    sw_status (*commit_buffer)(sw_acquisition *, uint32_t index, uint64_t number, const sw_record *);
    sw_status (*discard)(sw_acquisition *, const sw_frame *);
    sw_status (*discard_buffer)(sw_acquisition *, uint32_t index);
    sw_status (*append)(sw_acquisition *, const void *pixels, size_t bytes, size_t row_stride, const sw_record *,
                        int64_t timeout_ms, sw_appended *);
    sw_status (*buffers)(sw_acquisition *, void **addresses, size_t capacity, size_t *count);
    sw_status (*get_layout)(sw_acquisition *, sw_layout *);
    sw_status (*get_stats)(sw_acquisition *, sw_stats *);
    const char *(*last_error)(void);
} sw_table;

#endif /* SHARDWRIGHT_PYTHON_H */
";

/// The handle that C has of a run.
pub(crate) struct Lent(Owned<LentHandle>);

impl Lent {
    pub(crate) fn new(run: &Arc<Acquisition>) -> Result<Self, Error> {
        lend(run).map(|handle| Self(Owned::new(handle)))
    }

    pub(crate) fn as_ptr(&self) -> *mut sw_acquisition {
        self.0.as_ptr()
    }
}

// SAFETY: the table is only read, and its handle may be used from any thread.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

/// A capsule with the table of a run.
pub(crate) fn capsule(py: Python<'_>, acquisition: *mut sw_acquisition) -> PyResult<Bound<'_, PyCapsule>> {
    let table = Table {
        size: size_of::<Table>(),
        version: shardwright::ffi::config::SW_INTERFACE,
        reserved: 0,
        acquisition,
        acquire: sw_acquire,
        acquire_buffer: sw_acquire_buffer,
        commit: sw_commit,
        commit_buffer: sw_commit_buffer,
        discard: sw_discard,
        discard_buffer: sw_discard_buffer,
        append: sw_append,
        buffers: sw_buffers,
        get_layout: sw_get_layout,
        get_stats: sw_get_stats,
        last_error: sw_last_error,
    };
    PyCapsule::new_with_value(py, table, c"shardwright.table")
}

/// The texts of the headers, by their names.
#[pyfunction]
pub(crate) fn c_headers() -> [(&'static str, &'static str); 2] {
    [("shardwright.h", include_str!("../../../include/shardwright.h")), ("shardwright_python.h", HEADER)]
}
