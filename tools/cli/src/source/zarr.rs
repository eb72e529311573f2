//! Zarr arrays, read frame by frame through the library's own reader.

use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;

use shardwright::offline::{Array, Axis};
use shardwright::words::count;
use shardwright::{Channel, Dim, DimKind, Dtype};

use super::recording::{FrameSource, Recording, dim_named};
use super::why::{Why, refused};
use crate::failure::Failure;
use crate::place;

/// An array whose last two dimensions are a frame's rows and columns.
pub(crate) struct Zarr {
    array: Array,
    recording: Recording,
    /// The outer dimensions' sizes.
    outer: Vec<u64>,
    /// The frames that are not there, or lack chunks, in order.
    missing: Vec<Range<u64>>,
}

impl Zarr {
    /// Opens the array at `path`. `axes`: what its dimensions are called, if it does not say that itself.
    pub(crate) fn open(path: &Path, axes: &[String]) -> Result<Self, Failure> {
        let array = Array::open(path)?;
        array.check_finished()?;
        let shape = array.shape().to_vec();
        let [outer @ .., height, width] = shape.as_slice() else {
            let why = format!(
                "{} has {}; a recording has at least two dimensions, a frame's rows and columns",
                path.display(),
                count(shape.len(), "dimension")
            );
            return Err(refused(path, why));
        };
        let frames: u64 = outer.iter().product();
        if frames * height * width == 0 {
            return Err(refused(path, format!("{} is empty: its shape is {shape:?}", path.display())));
        }
        let dtype = array.dtype().number().ok_or_else(|| {
            let possible: Vec<_> = Dtype::ALL.iter().map(Dtype::to_string).collect();
            let why = format!(
                "{} has elements of {}, and a camera gives {}; repack and export take the array as it is",
                path.display(),
                array.dtype(),
                possible.join(", ")
            );
            refused(path, Why::Unread(why))
        })?;
        let mut recording = Recording::movie(dtype, Some(frames), *height, *width);
        let (dims, note) = dims(&array, axes)?;
        recording.notes.extend(note);
        // A single frame stays a movie of one.
        recording.dims.truncate(recording.dims.len().saturating_sub(dims.len()));
        recording.dims.extend(dims);
        recording.channels = channels(&array, &recording.dims)?;
        recording.name = array.image_name()?;
        recording.notes.extend(array.notes()?);
        if array.has_label_properties()? {
            let note =
                "the colours and properties of its labels (`image-label`) are not taken along; repack keeps them";
            recording.notes.push(format!("{} is an image of labels: {note}", path.display()));
        }
        let lost = array.lost_within(&vec![0; shape.len()], &shape)?;
        let help = "frames that may lack some are left out, and `repack --incomplete` keeps what is left of them";
        let lost = lost.map(|lost| format!("{} {lost}; {help}", path.display()));
        recording.notes.extend(lost);
        let missing = array.missing_frames()?;
        let outer = outer.to_vec();
        Ok(Self { array, recording, outer, missing })
    }
}

/// The dimensions, as OME-Zarr's metadata describe them, the array itself, or whoever calls, and what to say of them.
fn dims(array: &Array, called: &[String]) -> Result<(Vec<Dim>, Option<String>), Failure> {
    let shape = array.shape();
    let is_distinct = |axes: &Vec<Axis>| {
        let names: HashSet<&str> = axes.iter().map(|axis| axis.name.as_str()).collect();
        names.len() == axes.len() && !names.contains("")
    };
    let axes = array.axes()?.filter(is_distinct);
    let own = array.dimension_names().filter(|names| names.iter().all(|name| !name.is_empty()));
    let named = |names: &[String]| names.iter().zip(shape).map(|(name, &size)| dim_named(name, size)).collect();
    if axes.is_none() && own.is_none() {
        let (names, note) = names(array, called)?;
        return Ok((named(&names), note));
    }
    let dims = match (axes, own) {
        (Some(axes), _) => axes.into_iter().zip(shape).map(dim).collect(),
        (None, own) => named(own.unwrap_or_default()),
    };
    if !called.is_empty() {
        let names = dims.iter().map(|dim: &Dim| dim.name.as_str()).collect::<Vec<_>>().join(",");
        let path = array.path().display();
        return Err(Failure::Usage(format!("--axes: the dimensions of {path} have names already: {names}")));
    }
    Ok((dims, None))
}

/// A dimension as OME-Zarr's metadata describe it.
fn dim((axis, &size): (Axis, &u64)) -> Dim {
    let named = dim_named(&axis.name, size);
    let scale = Some(axis.scale).filter(|scale| scale.is_finite() && *scale > 0.0).unwrap_or(1.0);
    let translation = Some(axis.translation).filter(|place| place.is_finite()).unwrap_or(0.0);
    Dim { kind: axis.kind.unwrap_or(named.kind), scale, translation, unit: axis.unit, ..named }
}

/// The channels, if there are as many as the array has.
fn channels(array: &Array, dims: &[Dim]) -> Result<Vec<Channel>, Failure> {
    let is_window = |&(start, end): &(f64, f64)| start.is_finite() && end.is_finite() && start < end;
    let read = |channel: Channel| Channel { window: channel.window.filter(is_window), ..channel };
    let channels: Vec<_> = array.channels()?.into_iter().map(read).collect();
    let channel = dims.iter().find(|dim| dim.kind == DimKind::Channel);
    let count = channel.map_or(Some(1), |dim| dim.size);
    Ok(if count == Some(channels.len() as u64) { channels } else { Vec::new() })
}

/// Names for the dimensions of an array that gives them none: those of the call, or the usual ones.
fn names(array: &Array, called: &[String]) -> Result<(Vec<String>, Option<String>), Failure> {
    let (dimensions, path) = (array.shape().len(), array.path().display());
    let usual = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    match (called.len(), dimensions) {
        (0, 2) => Ok((usual(&["y", "x"]), None)),
        (0, 3) => {
            let note = format!("the dimensions of {path} have no names, and become t, y, x; --axes gives others");
            Ok((usual(&["t", "y", "x"]), Some(note)))
        }
        (0, _) => Err(Failure::Usage(format!(
            "the {dimensions} dimensions of {path} have no names; give them by --axes, such as t,c,y,x"
        ))),
        (names, _) if names != dimensions => {
            let names = count(names, "dimension");
            Err(Failure::Usage(format!("--axes names {names} and {path} has {dimensions}; both must be the same")))
        }
        _ if called[dimensions - 2..].iter().any(|name| dim_named(name, 1).kind == DimKind::Channel) => {
            let why = "the last two dimensions of a Zarr array become the rows and columns of frames, not channels";
            Err(Failure::Usage(format!("--axes {}: {why}", called.join(","))))
        }
        _ => Ok((called.to_vec(), None)),
    }
}

impl FrameSource for Zarr {
    fn recording(&self) -> &Recording {
        &self.recording
    }

    fn check_output(&self, output: &Path) -> Result<(), Failure> {
        if self.array.reads_from(output) {
            return Err(place::replaces(output));
        }
        place::refuse_within_dataset(self.array.path(), output)
    }

    fn is_missing(&self, index: u64) -> bool {
        let at = self.missing.partition_point(|range| range.end <= index);
        self.missing.get(at).is_some_and(|range| range.start <= index)
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
        Ok(self.array.read_region(&start, &shape, frame)?)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// An array of 2 x 3 frames of 2 x 2 pixels, each frame a chunk that holds its number.
    fn array(folder: &Path, names: serde_json::Value) {
        for (number, (t, c)) in [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)].into_iter().enumerate() {
            let chunk = folder.join(format!("c/{t}/{c}/0"));
            fs::create_dir_all(&chunk).unwrap();
            fs::write(chunk.join("0"), [number as u8; 4]).unwrap();
        }
        let document = serde_json::json!({
            "zarr_format": 3, "node_type": "array", "shape": [2, 3, 2, 2], "data_type": "uint8",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1, 1, 2, 2]}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": 0, "codecs": [{"name": "bytes"}], "attributes": {}, "dimension_names": names,
        });
        fs::write(folder.join("zarr.json"), document.to_string()).unwrap();
    }

    #[test]
    fn frames_come_in_the_array_s_order() {
        let folder = tempfile::tempdir().unwrap();
        array(folder.path(), serde_json::json!(["t", "c", "y", "x"]));
        let mut source = Zarr::open(folder.path(), &[]).unwrap();
        assert_eq!(source.recording().dims, [Dim::time(2), Dim::channel(3), Dim::y(2), Dim::x(2)]);
        assert_eq!((source.recording().frames, source.recording().dtype), (Some(6), Dtype::U8));
        for index in [5, 0, 3, 1] {
            let mut frame = [0; 4];
            source.read(index, &mut frame).unwrap();
            assert_eq!(frame, [index as u8; 4]);
        }
    }

    #[test]
    fn dimensions_without_names_need_some() {
        let folder = tempfile::tempdir().unwrap();
        array(folder.path(), serde_json::Value::Null);
        let open = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
            Zarr::open(folder.path(), &names).map(|source| source.recording.dims)
        };
        assert_eq!(open(&["z", "c", "y", "x"]).unwrap(), [dim_named("z", 2), Dim::channel(3), Dim::y(2), Dim::x(2)]);
        for (names, part) in [
            (&[][..], "by --axes, such as t,c,y,x"),
            (&["t", "y", "x"], "--axes names 3 dimensions"),
            (&["t", "y", "x", "c"], "not channels"),
        ] {
            let refused = open(names).unwrap_err().to_string();
            assert!(refused.contains(part), "{refused}");
        }
    }

    #[test]
    fn what_is_no_array_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Zarr::open(folder.path(), &[]).is_err());
    }
}
