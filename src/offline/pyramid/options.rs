//! What levels are made, and what is told of them.

use serde::{Deserialize, Serialize};

pub use crate::config::Depth;
use crate::config::Downsampling;
use crate::downsample::Method;
use crate::error::{Error, Result};

/// What [`Pyramid`](super::Pyramid) is to make, and with which resources.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PyramidOptions {
    /// How four pixels, or eight of two planes, become one. `None`: their mean, or of labels their mode, because others
    /// make values that no label has.
    pub method: Option<Method>,
    /// The number of levels beside level 0, as far as there is something to halve in y or x, or in z where neither is
    /// halved. `None`: until y and x have 256 pixels at most.
    pub levels: Option<usize>,
    /// Rows are halved, the last dimension but one: y.
    pub y: bool,
    /// Columns are halved, the last dimension: x.
    pub x: bool,
    /// Whether z is halved, too: the last dimension before y and x, if it is one of space.
    pub depth: Depth,
    /// Replace levels that are there.
    pub overwrite: bool,
    /// Bytes for pixels and chunks on their way, all threads together.
    pub memory_bytes: u64,
    /// Threads that read, halve and encode. 0: one for each core that the process may use.
    pub workers: usize,
    /// Wait until new files have reached the device.
    pub sync: bool,
}

impl PyramidOptions {
    pub(super) fn check(&self) -> Result<()> {
        if self.levels == Some(0) {
            return Err(Error::config("levels", 0, "at least one level is made; leave it out for as many as it takes"));
        }
        Ok(())
    }

    pub(super) fn downsampling(&self) -> Downsampling {
        let Self { method, levels, y, x, depth, .. } = *self;
        Downsampling { method: method.unwrap_or_default(), levels, y, x, depth }
    }

    /// The same with the method that is usual, if nobody has chosen one.
    pub(super) fn with_method(&self, of_labels: bool) -> Self {
        let usual = if of_labels { Method::Mode } else { Method::default() };
        Self { method: Some(self.method.unwrap_or(usual)), ..self.clone() }
    }
}

impl Default for PyramidOptions {
    fn default() -> Self {
        Self {
            method: None,
            levels: None,
            y: true,
            x: true,
            depth: Depth::default(),
            overwrite: false,
            memory_bytes: 512 << 20,
            workers: 0,
            sync: true,
        }
    }
}

/// The options of a call that halves the same directions.
pub(in crate::offline) fn directions(downsampling: &Downsampling) -> String {
    let Downsampling { y, x, depth, .. } = downsampling;
    let z = if *depth == Depth::Never { String::new() } else { format!(" --z {depth}") };
    let kept: Vec<&str> = [("y", y), ("x", x)].iter().filter(|(_, halved)| !**halved).map(|(name, _)| *name).collect();
    if kept.is_empty() { z } else { format!("{z} --keep {}", kept.join(",")) }
}

/// One level that was made.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PyramidLevel {
    /// The array, as a path below the image.
    pub path: String,
    /// Elements in each dimension.
    pub shape: Vec<u64>,
    /// The distance of pixels in each dimension, in the units of the image's axes.
    pub scale: Vec<f64>,
}

/// What was made.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PyramidSummary {
    /// The image, as a path below the one that was given; empty for itself.
    pub image: String,
    /// The levels beside level 0, the finest first. None where level 0 is small enough.
    pub levels: Vec<PyramidLevel>,
    /// How pixels of a level became one of the next.
    pub method: Method,
    /// Shards made.
    pub shards_written: u64,
    /// Shards that an earlier call had made.
    pub shards_found: u64,
    /// Chunks written.
    pub chunks: u64,
    /// Bytes of these chunks, as they are stored.
    pub bytes: u64,
    /// Pixels of level 0, in bytes.
    pub bytes_pixels: u64,
    /// An earlier call with the same options has made all of it, and level 0 has not changed since: nothing was done.
    pub already_done: bool,
}
