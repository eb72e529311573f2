//! Frames that are smaller than the image, which stand in it at their place.
#![allow(unsafe_code)]

use std::time::Duration;

use super::Acquisition;
use super::append::{Appended, BufferSource, Pixels};
use crate::error::Result;
use crate::pixels::Roi;
use crate::record::Record;

impl Acquisition {
    /// Copies one or several frames of which the camera gives only the part `roi`, and commits them under the next
    /// numbers. The part stands in the frame where it says, before frames are turned; all around it is the fill value.
    /// Rows of `pixels` are as long as those of the part, and follow each other without gaps.
    ///
    /// The record of each frame says where in the image the part is, as do those of whole frames.
    ///
    /// # Errors
    ///
    /// As [`append`](Self::append); [`Error::Roi`](crate::Error::Roi) for what is no part of a frame, and
    /// [`Error::Config`](crate::Error::Config) without [`record_roi`](crate::Config::record_roi).
    pub fn append_roi(&self, pixels: &[u8], roi: Roi) -> Result<Appended> {
        let row_stride = roi.width.saturating_mul(self.engine.plan.frame.dtype.size());
        self.append_roi_with(pixels, roi, row_stride, Record::default())
    }

    /// As [`append_roi`](Self::append_roi), for parts that are cut out of a larger buffer: rows start `row_stride`
    /// bytes apart, and the last row may end with the buffer. Every frame gets the same record.
    pub fn append_roi_with(&self, pixels: &[u8], roi: Roi, row_stride: usize, record: Record) -> Result<Appended> {
        self.append_within(pixels, Some(roi), row_stride, record, BufferSource::new(&self.taking(), self.patience()))
    }

    /// As [`append_roi_with`](Self::append_roi_with), from memory as [`append_raw`](Self::append_raw) has it.
    ///
    /// # Safety
    ///
    /// The bytes must be there to be read until the call returns.
    pub unsafe fn append_roi_raw(
        &self,
        pixels: *const u8,
        bytes: usize,
        roi: Roi,
        row_stride: usize,
        record: Record,
        wait: Option<Duration>,
    ) -> Result<Appended> {
        let pixels = Pixels { start: pixels, bytes, row_stride, roi: Some(roi) };
        // SAFETY: as the caller promises.
        unsafe { self.append_pixels(pixels, record, BufferSource::new(&self.taking(), wait.or(self.patience()))) }
    }
}
