//! Frames that are smaller than the image.
#![allow(unsafe_code)]

use std::ffi::c_void;

use super::pointer::{required, slice};
use super::record::{record, sw_record};
use super::registry::{sw_acquisition, with_run};
use super::run::{count_of, sw_appended};
use super::status::sw_status;
use crate::pixels::Roi;

/// A camera's region of interest: the rectangle of a frame that it gives, in pixels.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sw_roi {
    /// Its first row.
    pub y: usize,
    /// Its first column.
    pub x: usize,
    /// How many rows.
    pub height: usize,
    /// How many columns.
    pub width: usize,
}

/// Copies one or several frames of which the camera gives only the part `roi`, and commits them under the next numbers.
/// The part stands in the frame where it says, before frames are turned; all around it is the fill value. The record of
/// each frame says where in the image the part is, as do those of whole frames.
///
/// Rows of `pixels` are as long as those of the part. `row_stride` is their distance in bytes; 0: rows follow each
/// other. `record` (null: none) is that of every frame. The whole call waits at most `timeout_ms` for free buffers.
///
/// Errors: SW_ERROR_FRAME_SIZE for what is no part of a frame, too; SW_ERROR_CONFIG where `record_roi` is not
/// configured; as sw_append.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sw_append_roi(
    acquisition: *mut sw_acquisition,
    pixels: *const c_void,
    bytes: usize,
    roi: *const sw_roi,
    row_stride: usize,
    record: *const sw_record,
    timeout_ms: i64,
    appended: *mut sw_appended,
) -> sw_status {
    with_run(acquisition, |run| {
        // SAFETY: as the caller promises, which is what the header says.
        let (pixels, roi, record) = unsafe {
            let pixels = slice(pixels.cast::<u8>(), bytes, ["pixels", "bytes"])?;
            (pixels, *required(roi, "roi")?, self::record(record, run.record_fields())?)
        };
        let sw_roi { y, x, height, width } = roi;
        let given = width.saturating_mul(run.engine.plan.frame.dtype.size());
        let stride = if row_stride == 0 { given } else { row_stride };
        // SAFETY: as above.
        let place = unsafe { count_of(appended, bytes, height.saturating_mul(stride.max(given)), run)? };
        let roi = Roi { y, x, height, width };
        run.append(place, timeout_ms, |running, buffers| {
            running.append_within(pixels, Some(roi), stride, record, buffers)
        })
    })
}
