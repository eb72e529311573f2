//! From the axes that a recording names, in the order in which its planes come, to the dimensions of the dataset.

use shardwright::{Channel, Dim, units};

use super::recording::{Recording, dim_named, named_channel};
use super::tiff::page::{self, Shape};

/// The samples of a colour pixel, and the colours that these are.
const RGBA: [(&str, &str); 4] = [("R", "FF0000"), ("G", "00FF00"), ("B", "0000FF"), ("A", "")];

/// A distance between neighbours along an axis, with its unit.
pub(crate) type Step = (f64, &'static str);

/// An outer axis.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OuterAxis {
    pub(crate) name: String,
    pub(crate) size: u64,
    pub(crate) step: Option<Step>,
    /// Where the first plane is.
    pub(crate) place: Option<Step>,
}

impl OuterAxis {
    pub(crate) fn new(name: &str, size: u64) -> Self {
        Self { name: name.to_owned(), size, step: None, place: None }
    }

    pub(crate) fn step(self, step: Option<Step>) -> Self {
        Self { step, ..self }
    }

    pub(crate) fn place(self, place: Option<Step>) -> Self {
        Self { place, ..self }
    }
}

/// What is known of a recording of planes.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Axes {
    /// The outer axes in which planes differ, the slowest first.
    pub(crate) outer: Vec<OuterAxis>,
    pub(crate) y_step: Option<Step>,
    pub(crate) x_step: Option<Step>,
    pub(crate) y_place: Option<Step>,
    pub(crate) x_place: Option<Step>,
    /// The channels; empty if nothing is known of them.
    pub(crate) channels: Vec<Channel>,
    /// The image's name.
    pub(crate) name: Option<String>,
}

impl Axes {
    /// A plain movie.
    pub(crate) fn movie(planes: u64) -> Self {
        Self { outer: vec![OuterAxis::new("t", planes)], ..Self::default() }
    }

    /// The planes that the axes have room for; `None` if these can't be counted.
    pub(crate) fn planes(&self) -> Option<u64> {
        self.outer.iter().try_fold(1u64, |product, axis| product.checked_mul(axis.size))
    }

    /// The recording of planes of this shape, and how many planes follow each other between two channels.
    ///
    /// Samples of a pixel become channels, a frame each. Where there are channels already, each has its samples.
    /// Axes of one element are left out; time stands in if there is no other.
    pub(crate) fn recording(self, shape: Shape, photometric: u64) -> (Recording, u64) {
        let planes = self.planes().unwrap_or(u64::MAX);
        let mut arrival: Vec<_> = self.outer.into_iter().filter(|axis| axis.size > 1).collect();
        let channel = arrival.iter().position(|axis| axis.name == "c");
        let inner = channel.map_or(1, |place| arrival[place + 1..].iter().map(|axis| axis.size).product());
        if shape.samples > 1 {
            match channel {
                Some(place) => arrival[place].size *= shape.samples,
                None => arrival.push(OuterAxis::new("c", shape.samples)),
            }
        }
        if arrival.is_empty() {
            arrival.push(OuterAxis::new("t", 1));
        }
        let mut stored = arrival.clone();
        stored.sort_by_key(|axis| rank(&axis.name));
        let mut recording = Recording::movie(shape.dtype, Some(planes * shape.samples), shape.height, shape.width);
        if stored != arrival {
            recording.acquisition_order = arrival.iter().map(|axis| axis.name.clone()).collect();
        }
        let [.., rows, columns] = recording.dims.as_slice() else { unreachable!("a movie has rows and columns") };
        let of_frame =
            [(&rows.name, self.y_step, self.y_place), (&columns.name, self.x_step, self.x_place)].into_iter();
        let outer = stored.iter().map(|axis| (&axis.name, axis.step, axis.place));
        let unscaled = outer.chain(of_frame).filter_map(|(name, step, place)| {
            let (place, unit) = place.filter(|(place, _)| step.is_none() && *place != 0.0)?;
            Some((name.clone(), place, unit))
        });
        recording.unscaled_places = unscaled.collect();
        let inner_dims =
            [placed(rows.clone(), self.y_step, self.y_place), placed(columns.clone(), self.x_step, self.x_place)];
        let outer_dims = stored.iter().map(|axis| placed(dim_named(&axis.name, axis.size), axis.step, axis.place));
        recording.dims = outer_dims.chain(inner_dims).collect();
        let channels = channels(self.channels, shape.samples, photometric);
        // A single channel has no axis, and may have a name all the same.
        let count = stored.iter().find(|axis| axis.name == "c").map_or(1, |axis| axis.size);
        recording.channels = if channels.len() as u64 == count { channels } else { Vec::new() };
        recording.name = self.name;
        (recording, inner)
    }
}

/// OME-Zarr wants time, another, channel and depth in this order, whatever the order of arrival was.
fn rank(name: &str) -> u8 {
    match name {
        "t" => 0,
        "c" => 2,
        "z" => 3,
        _ => 1,
    }
}

/// A dimension with its distances, in whose unit its place is. Without distances, there is none.
fn placed(dim: Dim, step: Option<Step>, place: Option<Step>) -> Dim {
    match (step, place) {
        (Some((step, unit)), place) => {
            let place = place.map_or(0.0, |(place, of)| units::convert(place, Some(of), unit));
            dim.scale(step, unit).translation(place)
        }
        (None, _) => dim,
    }
}

/// The channels of pixels of several samples each.
fn channels(channels: Vec<Channel>, samples: u64, photometric: u64) -> Vec<Channel> {
    let colors: &[(&str, &str)] = match (photometric, samples) {
        (_, 1) => return channels,
        (page::RGB | page::YCBCR, 3) => &RGBA[..3],
        (page::RGB | page::YCBCR, 4) => &RGBA,
        (page::CMYK, 4) => &[("C", ""), ("M", ""), ("Y", ""), ("K", "")],
        _ => return Vec::new(),
    };
    let sample = |&(name, color): &(&str, &str)| Channel { color: color.to_owned(), ..named_channel(name) };
    if channels.len() < 2 {
        return colors.iter().map(sample).collect();
    }
    let of_channel = |Channel { label, .. }: &Channel| {
        let of_sample = |(name, color): &(&str, &str)| sample(&(format!("{label} {name}").trim_start(), *color));
        colors.iter().map(of_sample).collect::<Vec<_>>()
    };
    channels.iter().flat_map(of_channel).collect()
}
