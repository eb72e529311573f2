//! Frames that are smaller than the image: where they stand in it, and what surrounds them.

use super::camera::CameraFrame;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::pixels::{Orientation, Packing, Roi};

/// How regions of interest become frames.
#[derive(Debug)]
pub(crate) struct RoiPlan {
    /// Of a whole frame, as the camera gives it.
    rows: usize,
    columns: usize,
    orientation: Orientation,
    /// One pixel that becomes the fill value, as the camera gives them.
    pub(crate) fill: Vec<u8>,
}

impl RoiPlan {
    /// Of an array with frames of `rows` and `columns`. `fill`: one element of the fill value, as stored.
    pub(super) fn new(
        config: &Config,
        camera: Option<&CameraFrame>,
        [rows, columns]: [usize; 2],
        fill: &[u8],
    ) -> Result<Option<Self>> {
        if !config.record_roi {
            return Ok(None);
        }
        if config.pixel_format.interleaved().is_some() {
            let reason = format!("{} pictures can't be padded; let the camera give whole ones", config.pixel_format);
            return Err(Error::config("record_roi", true, reason));
        }
        let fill = match config.pixel_format.packing(config.unused_low_bits) {
            None => fill.to_vec(),
            Some(Packing::Mono16 { big_endian, unused_low_bits }) => {
                let pixel = u16::from_ne_bytes([fill[0], fill[1]]);
                let given = pixel << unused_low_bits;
                if given >> unused_low_bits != pixel {
                    let most = u16::MAX >> unused_low_bits;
                    let reason = format!(
                        "with record_roi, it surrounds frames that are smaller, and pixels with {unused_low_bits} \
                         unused bits hold at most {most}"
                    );
                    return Err(Error::config("fill_value", config.fill_value, reason));
                }
                if big_endian { given.to_be_bytes().to_vec() } else { given.to_le_bytes().to_vec() }
            }
            Some(_) => {
                let reason = format!("pixels of {} can't be padded; have the camera unpack them", config.pixel_format);
                return Err(Error::config("record_roi", true, reason));
            }
        };
        let (rows, columns) = camera.map_or((rows, columns), |camera| (camera.rows, camera.columns));
        Ok(Some(Self { rows, columns, orientation: config.orientation, fill }))
    }

    /// All of a frame.
    pub(crate) fn whole(&self) -> Roi {
        Roi { y: 0, x: 0, height: self.rows, width: self.columns }
    }

    /// Refuses a region that reaches beyond a frame, or has no pixels.
    pub(crate) fn check(&self, roi: Roi) -> Result<()> {
        let Roi { y, x, height, width } = roi;
        let fits = |first: usize, count: usize, side| count > 0 && count <= side && first <= side - count;
        if fits(y, height, self.rows) && fits(x, width, self.columns) {
            return Ok(());
        }
        Err(Error::Roi { y, x, height, width, rows: self.rows, columns: self.columns })
    }

    /// Where a region of a frame is in the image.
    pub(crate) fn in_image(&self, roi: Roi) -> Roi {
        let ([y, x], [height, width]) =
            self.orientation.target([self.rows, self.columns], [roi.y, roi.x], [roi.height, roi.width]);
        Roi { y, x, height, width }
    }
}
