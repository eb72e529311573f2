//! Smaller levels beside the frames.

use serde::{Deserialize, Serialize};

use crate::downsample::Method;
use crate::named::named;

/// The levels of a pyramid that are written while frames come: each half as large as the one before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Downsampling {
    /// How four pixels, or eight of two planes, become one.
    pub method: Method,
    /// The number of levels beside level 0, as far as there is something to halve in y or x, or in z where neither is
    /// halved. `None`: until y and x have 256 pixels at most.
    pub levels: Option<usize>,
    /// Rows are halved.
    pub y: bool,
    /// Columns are halved.
    pub x: bool,
    /// Whether z is halved, too.
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
    /// At every level, as long as there are several planes. A stack that has no end while frames come is one of several
    /// however few it gets.
    Always,
    /// From the level on at which planes are no further apart than pixels are.
    Auto,
}

named!(Depth, "depth", {
    Never => "never",
    Always => "always",
    Auto => "auto",
});
