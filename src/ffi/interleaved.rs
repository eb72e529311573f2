//! Colours that are interleaved.
#![allow(unsafe_code)]

use std::ffi::c_void;

use super::pointer::slice;
use super::record::{record, sw_record};
use super::registry::{sw_acquisition, with_run};
use super::run::{count_of, sw_appended};
use super::status::sw_status;

/// Takes one or several pictures apart whose pixels have 3 or 4 samples that follow each other, as RGB and RGBA have
/// them, and commits a frame for each sample under the next numbers: red, green, blue, and red of the next picture.
///
/// The outer dimension that changes fastest, which is the channel then, has `samples` elements. `row_stride` is the
/// distance of rows in `pixels` in bytes; 0: rows follow each other. `record` (null: none) is that of every frame. The
/// whole call waits at most `timeout_ms` for free buffers. `appended` counts frames; a picture is taken as a whole.
/// Colours that lie plane by plane are frames already, which sw_append takes. Whoever commits frames on another thread
/// meanwhile may get a number between those of a picture. After single frames, a picture is refused until they are as
/// many as `samples`, or a multiple.
///
/// With SW_PIXELS_RGB or SW_PIXELS_RGBA, for cameras that fill the buffers themselves, pictures are copied as they are.
///
/// Errors: SW_ERROR_CONFIG where there is no such channel, where the next frame's is not the first, where pixels are
/// packed, and for a ring that is too small for a picture; as sw_append.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sw_append_interleaved(
    acquisition: *mut sw_acquisition,
    pixels: *const c_void,
    bytes: usize,
    samples: u32,
    row_stride: usize,
    record: *const sw_record,
    timeout_ms: i64,
    appended: *mut sw_appended,
) -> sw_status {
    with_run(acquisition, |run| {
        let samples = samples as usize;
        let frame = &run.engine.plan.frame;
        let given = frame.row_bytes_of(samples);
        let stride = if row_stride == 0 { given } else { row_stride };
        let whole = frame.rows.saturating_mul(stride.max(given));
        // SAFETY: as the caller promises, which is what the header says.
        let (pixels, record, place) = unsafe {
            let pixels = slice(pixels.cast::<u8>(), bytes, ["pixels", "bytes"])?;
            (pixels, self::record(record, run.record_fields())?, count_of(appended, bytes, whole, run)?)
        };
        run.append(place, timeout_ms, |running, buffers| {
            running.append_interleaved_within(pixels, samples, stride, record, buffers)
        })
    })
}
