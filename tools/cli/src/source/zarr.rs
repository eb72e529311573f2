//! Zarr arrays, read frame by frame through the library's own reader.

use std::path::Path;

use shardwright::offline::Array;

use super::{Recording, Source, dim_named};
use crate::failure::Failure;

/// An array whose last two dimensions are a frame's rows and columns.
pub(crate) struct Zarr {
    array: Array,
    recording: Recording,
    /// The outer dimensions' sizes.
    outer: Vec<u64>,
}

impl Zarr {
    /// Opens the array at `path`.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let array = Array::open(path).map_err(|error| Failure::Input(error.to_string()))?;
        let shape = array.shape().to_vec();
        let [outer @ .., height, width] = shape.as_slice() else {
            return Err(Failure::Input(format!(
                "{} has {} dimensions; a recording has at least two, a frame's rows and columns",
                path.display(),
                shape.len()
            )));
        };
        let frames: u64 = outer.iter().product();
        if frames * height * width == 0 {
            return Err(Failure::Input(format!("{} is empty: its shape is {shape:?}", path.display())));
        }
        let mut recording = Recording::movie(array.dtype(), Some(frames), *height, *width);
        if !outer.is_empty() {
            recording.dims = names(array.dimension_names(), shape.len())
                .iter()
                .zip(&shape)
                .map(|(name, &size)| dim_named(name, size))
                .collect();
        }
        let outer = outer.to_vec();
        Ok(Self { array, recording, outer })
    }
}

/// The array's own names, or the usual ones.
fn names(own: Option<&[String]>, dimensions: usize) -> Vec<String> {
    let usual = |index: usize| match (dimensions - index, index) {
        (1, _) => "x".to_owned(),
        (2, _) => "y".to_owned(),
        (_, 0) => "t".to_owned(),
        _ => format!("d{index}"),
    };
    own.map_or_else(|| (0..dimensions).map(usual).collect(), <[String]>::to_vec)
}

impl Source for Zarr {
    fn recording(&self) -> &Recording {
        &self.recording
    }

    fn read(&mut self, index: u64, frame: &mut [u8]) -> Result<(), Failure> {
        let dims = self.outer.len();
        let mut start = vec![0; dims + 2];
        let mut shape = vec![1; dims + 2];
        shape[dims..].copy_from_slice(&self.array.shape()[dims..]);
        let mut rest = index;
        for (start, size) in start[..dims].iter_mut().zip(&self.outer).rev() {
            (*start, rest) = (rest % size, rest / size);
        }
        self.array.read_region(&start, &shape, frame).map_err(|error| Failure::Input(error.to_string()))
    }
}
