//! The dimensions of an array.

use serde::{Deserialize, Serialize};

use crate::named::named;

/// One dimension of the array.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dim {
    /// The name, unique in the array; it becomes Zarr's `dimension_names` entry and OME-Zarr's axis name.
    pub name: String,
    /// What the dimension means.
    #[serde(default)]
    pub kind: DimKind,
    /// The number of elements. `None` (the first dimension only): it is unbounded, and has as many as arrive.
    #[serde(default)]
    pub size: Option<u64>,
    /// Chunk length in elements. `0`: for rows and columns such that a chunk is about 512 KiB; 1 for outer dimensions,
    /// but if a frame is small, several of them along the dimension that arrives fastest make such a chunk.
    #[serde(default)]
    pub chunk: u64,
    /// Shard length in elements, a multiple of `chunk`. `0`: the whole frame in rows and columns; outer dimensions such
    /// that a shard is about 512 MiB.
    #[serde(default)]
    pub shard: u64,
    /// The distance between neighbours, in `unit`.
    #[serde(default = "one")]
    pub scale: f64,
    /// Where the centre of the first element is, in `unit`: for y and x the position of the stage.
    #[serde(default)]
    pub translation: f64,
    /// A unit as UDUNITS-2 spells it: `micrometer`, `second`, … Of space and time, a note in the summary tells of units
    /// that OME-Zarr does not list.
    #[serde(default)]
    pub unit: Option<String>,
}

fn one() -> f64 {
    1.0
}

/// What a dimension means; OME-Zarr's axis type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum DimKind {
    /// Time.
    Time,
    /// Channel, wavelength, polarisation.
    Channel,
    /// A direction in space.
    Space,
    /// Anything else: stage position, angle, well.
    #[default]
    Other,
}

named!(DimKind, "dims.kind", {
    Time => "time",
    Channel => "channel",
    Space => "space",
    Other => "other",
});

impl Dim {
    /// A dimension of any name and meaning.
    pub fn new(name: &str, kind: DimKind, size: impl Into<Option<u64>>) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            size: size.into(),
            chunk: 0,
            shard: 0,
            scale: 1.0,
            translation: 0.0,
            unit: None,
        }
    }

    /// Time, `t`. `None`: as many frames as arrive.
    pub fn time(size: impl Into<Option<u64>>) -> Self {
        Self::new("t", DimKind::Time, size)
    }

    /// Channel, `c`.
    pub fn channel(size: u64) -> Self {
        Self::new("c", DimKind::Channel, size)
    }

    /// Depth, `z`.
    pub fn z(size: impl Into<Option<u64>>) -> Self {
        Self::new("z", DimKind::Space, size)
    }

    /// The frame's rows, `y`.
    pub fn y(size: u64) -> Self {
        Self::new("y", DimKind::Space, size)
    }

    /// The frame's columns, `x`.
    pub fn x(size: u64) -> Self {
        Self::new("x", DimKind::Space, size)
    }

    /// Sets the chunk length in elements.
    #[must_use]
    pub fn chunk(self, chunk: u64) -> Self {
        Self { chunk, ..self }
    }

    /// Sets the shard length in elements.
    #[must_use]
    pub fn shard(self, shard: u64) -> Self {
        Self { shard, ..self }
    }

    /// Sets the distance between neighbours and its unit.
    #[must_use]
    pub fn scale(self, scale: f64, unit: &str) -> Self {
        Self { scale, unit: Some(unit.to_owned()), ..self }
    }

    /// Sets where the centre of the first element is, in the unit of the scale.
    #[must_use]
    pub fn translation(self, translation: f64) -> Self {
        Self { translation, ..self }
    }
}
