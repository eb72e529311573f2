//! Smaller levels beside the frames.

use serde::{Deserialize, Serialize};

use crate::downsample::Method;
use crate::named::named;

/// The levels of a pyramid that are written while frames come: each half as large as the one before in the
/// last two dimensions, y and x. Where a dimension is called x, y or z and another has its place, they are refused:
/// expected is an order that ends with y, x, or with z, y, x. Dimensions of other names go by their places.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Downsampling {
    /// How four pixels, or eight of two planes, become one.
    pub method: Method,
    /// The number of levels beside level 0, as far as there is something to halve in y or x, or in z where neither is
    /// halved. `None`: until y and x have 256 pixels at most.
    pub levels: Option<usize>,
    /// Rows are halved, the last dimension but one: y.
    pub y: bool,
    /// Columns are halved, the last dimension: x.
    pub x: bool,
    /// Whether z is halved, too: the last dimension before y and x, if it is one of space.
    pub depth: Depth,
}

impl Default for Downsampling {
    fn default() -> Self {
        Self { method: Method::default(), levels: None, y: true, x: true, depth: Depth::default() }
    }
}

/// When planes are halved along z, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Depth {
    /// Never.
    #[default]
    Never,
    /// At every level as long as there are several planes; where z has no end while frames come, at every level,
    /// however few planes come.
    Always,
    /// From the level on at which planes are no further apart than pixels are.
    Auto,
}

named!(Depth, "depth", {
    Never => "never",
    Always => "always",
    Auto => "auto",
});
