//! One frame, and how it lies in a ring buffer.

use super::camera::CameraFrame;
use super::roi::RoiPlan;
use crate::config::{Config, FillValue, FrameLayout};
use crate::dtype::Dtype;
use crate::error::{Error, Result};
use crate::pixels::Roi;

#[derive(Debug)]
pub(crate) struct FramePlan {
    /// The type in the array.
    pub(crate) dtype: Dtype,
    /// Rows of a frame as it is given, and the bytes of one: a packed frame may be one row.
    pub(crate) rows: usize,
    pub(crate) row_bytes: usize,
    /// All rows without gaps.
    pub(crate) bytes: usize,
    /// What a frame becomes in the array, and a row of that.
    pub(crate) array_bytes: usize,
    pub(crate) array_row_bytes: usize,
    pub(crate) layout: FrameLayout,
    /// What is done to its pixels; `None`: they lie in buffers as in the array.
    pub(crate) camera: Option<CameraFrame>,
    /// One element of the fill value, as stored.
    pub(crate) fill: Vec<u8>,
    /// Where frames may be smaller than the image.
    pub(crate) roi: Option<RoiPlan>,
}

impl FramePlan {
    pub(super) fn new(config: &Config) -> Result<Self> {
        let [.., y, x] = &config.dims[..] else { unreachable!("dims::check saw at least two dimensions") };
        let (rows, columns) = (y.size.unwrap_or(0), x.size.unwrap_or(0));
        let in_memory = || {
            let (rows, columns) = (usize::try_from(rows).ok()?, usize::try_from(columns).ok()?);
            let bytes = columns.checked_mul(config.dtype.size())?.checked_mul(rows)?;
            Some((rows, columns, bytes)).filter(|_| bytes < isize::MAX as usize)
        };
        let too_large = || {
            let reason = format!("a frame of {rows} rows and {columns} columns is more than the address space holds");
            Error::config("dims", format_args!("[{rows}, {columns}]"), reason)
        };
        let (rows_of_array, columns_of_array, array_bytes) = in_memory().ok_or_else(too_large)?;
        let camera = CameraFrame::new(config, rows_of_array, columns_of_array)?;
        let element = config.dtype.size();
        let array_row_bytes = columns_of_array * element;
        let (rows, row_bytes) = match &camera {
            Some(camera) => camera.given(element).ok_or_else(too_large)?,
            None => (rows_of_array, array_row_bytes),
        };
        let bytes = rows.checked_mul(row_bytes).filter(|&bytes| bytes < isize::MAX as usize).ok_or_else(too_large)?;
        let layout =
            config.frame_layout.unwrap_or(FrameLayout { buffer_bytes: bytes, offset: 0, row_stride: row_bytes });
        let needed = (rows - 1)
            .checked_mul(layout.row_stride)
            .and_then(|last| last.checked_add(layout.offset)?.checked_add(row_bytes));
        if layout.row_stride == 0 && layout.buffer_bytes == 0 && layout.offset > 0 {
            let reason = "must be 0 where buffer_bytes is not set: a buffer is exactly a frame then";
            return Err(Error::config("frame_layout.offset", layout.offset, reason));
        }
        if layout.row_stride == 0 && layout.buffer_bytes > 0 {
            let reason = format!(
                "where the bytes of a buffer are set, so is the distance of its rows: {row_bytes} where they follow \
                 each other"
            );
            return Err(Error::config("frame_layout.row_stride", 0, reason));
        }
        if layout.row_stride < row_bytes {
            let reason = format!("rows of {row_bytes} bytes must be at least as far apart");
            return Err(Error::config("frame_layout.row_stride", layout.row_stride, reason));
        }
        if needed.is_none_or(|needed| needed > layout.buffer_bytes) {
            let needed = needed.map_or("more than memory holds".into(), |needed| format!("{needed} bytes"));
            let reason = format!(
                "{rows} rows of {row_bytes} bytes, {} bytes apart, from byte {} on, need {needed}",
                layout.row_stride, layout.offset
            );
            return Err(Error::config("frame_layout.buffer_bytes", layout.buffer_bytes, reason));
        }
        let fill = fill_element(config)?;
        let roi = RoiPlan::new(config, camera.as_ref(), [rows_of_array, columns_of_array], &fill)?;
        let dtype = config.dtype;
        Ok(Self { dtype, rows, row_bytes, bytes, array_bytes, array_row_bytes, layout, camera, fill, roi })
    }

    /// Frames that a buffer holds: those of all samples of its pixels.
    pub(crate) fn samples(&self) -> usize {
        self.camera.as_ref().map_or(1, |camera| camera.format.samples())
    }

    /// Bytes of a row of pixels with this many samples that follow each other.
    pub(crate) fn row_bytes_of(&self, samples: usize) -> usize {
        if self.samples() == samples { self.row_bytes } else { self.row_bytes.saturating_mul(samples) }
    }

    /// Refuses what is no part of a frame, or may not be one.
    pub(crate) fn check_roi(&self, roi: Roi) -> Result<&RoiPlan> {
        let Some(plan) = &self.roi else {
            let reason = "a frame that is smaller than the image is taken where its place is recorded; set this";
            return Err(Error::config("record_roi", false, reason));
        };
        plan.check(roi).map(|()| plan)
    }
}

/// One element of the fill value in the byte order of the machine, which is the one that documents declare.
fn fill_element(config: &Config) -> Result<Vec<u8>> {
    let (value, dtype) = (config.fill_value, config.dtype);
    let refuse = |reason: String| Err(Error::config("fill_value", value, reason));
    let (float, whole) = match value {
        FillValue::Integer(whole) => (whole as f64, Some(whole)),
        FillValue::Float(float) => (float, (float.fract() == 0.0).then_some(float as i128)),
    };
    let Some(element) = dtype.element(float, whole) else {
        return refuse(format!("{dtype} holds {}", dtype.holds()));
    };
    let element = &element[..dtype.size()];
    if let (FillValue::Integer(integer), true) = (value, dtype.is_float()) {
        let nearest = dtype.value(element);
        if nearest as i128 != integer {
            let nearest = FillValue::Float(nearest);
            return refuse(format!("{dtype} does not hold it exactly; the nearest number that it holds is {nearest}"));
        }
    }
    Ok(element.to_vec())
}
