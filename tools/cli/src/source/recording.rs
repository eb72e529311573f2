//! What a recording is, and what gives its frames.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use shardwright::{Channel, Dim, DimKind, Dtype, FrameLayout, PixelFormat, Roi};

use crate::args::MovingRoi;
use crate::failure::Failure;

/// Something that gives frames, again and again and in any order.
pub(crate) trait FrameSource: Send {
    /// What the frames are.
    fn recording(&self) -> &Recording;

    /// Fills `frame` with the recording's frame `index`: in native byte order and without gaps, unless the recording
    /// says otherwise.
    fn read(&mut self, index: u64, frame: &mut [u8]) -> Result<(), Failure>;

    /// Whether frame `index` is missing from the recording. `read` fills it with zeros.
    fn is_missing(&self, _index: u64) -> bool {
        false
    }

    /// The part of frame `index` that is there, and that `read` fills; `None`: all of it.
    fn roi(&self, _index: u64) -> Option<Roi> {
        None
    }

    /// Says what becomes of frames that are of several places of the sensor. `input`: what an error names.
    ///
    /// # Errors
    ///
    /// For such a recording, if nothing is wanted.
    fn settle_regions(&mut self, _wanted: Option<MovingRoi>, _input: &Path) -> Result<(), Failure> {
        Ok(())
    }

    /// How many of a pass's frames differ; the rest repeats them in turn.
    fn distinct(&self, pass: u64) -> u64 {
        pass
    }

    /// Refuses to write where frames are still to be read.
    fn check_output(&self, _output: &Path) -> Result<(), Failure> {
        Ok(())
    }

    /// Closes the files that were opened for frames; the next one opens what it needs again.
    fn close_files(&mut self) {}

    /// Bytes that the source holds in memory for its whole life. They count against `--memory`.
    fn held_bytes(&self) -> u64 {
        0
    }
}

/// What a recording is, as far as the dataset cares.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Recording {
    /// The type of a pixel.
    pub(crate) dtype: Dtype,
    /// The dimensions with their sizes, as they are to be stored; the last two are a frame's rows and columns.
    pub(crate) dims: Vec<Dim>,
    /// The outer dimensions by name as the frames arrive, slowest first; empty: as they are stored.
    pub(crate) acquisition_order: Vec<String>,
    /// How pixels lie in a frame as it is read.
    pub(crate) pixel_format: PixelFormat,
    /// The lowest bits of a pixel that mean nothing.
    pub(crate) unused_low_bits: u32,
    /// How a frame's rows lie in it as it is read; `None`: they follow each other.
    pub(crate) layout: Option<FrameLayout>,
    /// The frames that there are. `None`: as many as one likes.
    pub(crate) frames: Option<u64>,
    /// The frames' own speed.
    pub(crate) fps: Option<f64>,
    /// The channels, if the recording says something of them. A label or a colour that it does not say is empty.
    pub(crate) channels: Vec<Channel>,
    /// Where the first pixel is along dimensions of which nobody has said how far apart pixels are: the dimension's
    /// name, and the place with its unit.
    pub(crate) unscaled_places: Vec<(String, f64, &'static str)>,
    /// The image's name.
    pub(crate) name: Option<String>,
    /// The part of the sensor that the camera gave, of the size of the frames.
    pub(crate) region: Option<CameraRegion>,
    /// The frames are of several parts, and nobody has said yet what becomes of that.
    pub(crate) moving: Option<MovingRegion>,
    /// Frames stand at their places in larger ones, which are recorded.
    pub(crate) is_padded: bool,
    /// The row and the column of the first frame's place, if it has one.
    pub(crate) first_place: [u64; 2],
    /// Things to tell the user that are no errors.
    pub(crate) notes: Vec<String>,
    /// Why the recording ends where it ends, if it was meant to be longer.
    pub(crate) defect: Option<String>,
    /// By which numbers `--series` chooses this image and the others that are beside it; empty: there is no choice.
    pub(crate) series: Vec<u64>,
}

/// The part of a sensor that a camera gave, in its pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct CameraRegion {
    pub(crate) x: u64,
    pub(crate) y: u64,
    pub(crate) width: u64,
    pub(crate) height: u64,
}

impl CameraRegion {
    /// The attribute that keeps it.
    pub(crate) const ATTRIBUTE: &str = "camera_roi";

    /// As Micro-Manager says it: `100-200-512-256`.
    pub(crate) fn of(said: &Value) -> Option<Self> {
        let numbers = said.as_str()?.split('-').map(|number| number.parse().ok());
        let [x, y, width, height] = numbers.collect::<Option<Vec<_>>>()?.try_into().ok()?;
        Some(Self { x, y, width, height })
    }

    /// What Micro-Manager's metadata of an image, which are JSON, say of it.
    pub(crate) fn of_metadata(text: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Metadata {
            #[serde(rename = "ROI")]
            region: Value,
        }
        Self::of(&serde_json::from_slice::<Metadata>(text).ok()?.region)
    }

    /// The smallest one around both.
    pub(crate) fn around(self, other: Self) -> Self {
        let (x, y) = (self.x.min(other.x), self.y.min(other.y));
        let end = |of: Self| [of.x.saturating_add(of.width), of.y.saturating_add(of.height)];
        let ([right, bottom], [other_right, other_bottom]) = (end(self), end(other));
        Self { x, y, width: right.max(other_right) - x, height: bottom.max(other_bottom) - y }
    }
}

impl fmt::Display for CameraRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { x, y, width, height } = self;
        write!(f, "{x}-{y}-{width}-{height}")
    }
}

/// The regions of a recording that are not all the same, each as large as the frames.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MovingRegion {
    /// The part of the sensor around all of them.
    pub(super) around: CameraRegion,
    /// The first one, and one that differs.
    pub(super) differing: [CameraRegion; 2],
    /// One that is an odd number of rows or columns away from the first one.
    pub(super) odd: Option<CameraRegion>,
}

impl Recording {
    /// A plain movie: time, rows, columns.
    pub(crate) fn movie(dtype: Dtype, frames: Option<u64>, height: u64, width: u64) -> Self {
        Self {
            dtype,
            dims: vec![Dim::time(frames), Dim::y(height), Dim::x(width)],
            acquisition_order: Vec::new(),
            pixel_format: PixelFormat::Plain,
            unused_low_bits: 0,
            layout: None,
            frames,
            fps: None,
            channels: Vec::new(),
            unscaled_places: Vec::new(),
            name: None,
            region: None,
            moving: None,
            is_padded: false,
            first_place: [0, 0],
            notes: Vec::new(),
            defect: None,
            series: Vec::new(),
        }
    }

    /// Rows and columns of a frame.
    pub(crate) fn sides(&self) -> [u64; 2] {
        let [.., rows, columns] = &self.dims[..] else { return [1, 1] };
        [rows, columns].map(|dim| dim.size.unwrap_or(1))
    }

    /// Pixels a frame.
    pub(crate) fn frame_pixels(&self) -> u64 {
        self.sides().iter().product()
    }

    /// Bytes a frame, as it is read.
    pub(crate) fn frame_bytes(&self) -> u64 {
        let packed = || self.pixel_format.bytes(self.frame_pixels() as usize).map(|bytes| bytes as u64);
        let layout = self.layout.map(|layout| layout.buffer_bytes as u64);
        layout.or_else(packed).unwrap_or_else(|| self.frame_pixels() * self.dtype.size() as u64)
    }

    /// The outer dimension that changes slowest as frames arrive, by its place in `dims`.
    pub(crate) fn slowest(&self) -> usize {
        let name = self.acquisition_order.first();
        self.dims.iter().position(|dim| Some(&dim.name) == name).unwrap_or(0)
    }
}

/// A dimension of the name's usual meaning.
pub(crate) fn dim_named(name: &str, size: u64) -> Dim {
    let kind = match name.to_ascii_lowercase().as_str() {
        "t" | "time" => DimKind::Time,
        "c" | "channel" => DimKind::Channel,
        "z" | "y" | "x" => DimKind::Space,
        _ => DimKind::Other,
    };
    Dim::new(name, kind, size)
}

/// A channel of which no colour is known.
pub(crate) fn named_channel(label: &str) -> Channel {
    Channel { label: label.to_owned(), color: String::new(), window: None }
}

/// A recording for tests whose frames hold their index.
#[cfg(test)]
pub(crate) struct Counting(pub(crate) Recording);

#[cfg(test)]
impl FrameSource for Counting {
    fn recording(&self) -> &Recording {
        &self.0
    }

    fn read(&mut self, index: u64, frame: &mut [u8]) -> Result<(), Failure> {
        frame.fill(index as u8);
        Ok(())
    }
}
