//! A part of a frame.

/// A camera's region of interest: the rectangle of a frame that it gives, in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Roi {
    /// Its first row.
    pub y: usize,
    /// Its first column.
    pub x: usize,
    /// How many rows.
    pub height: usize,
    /// How many columns.
    pub width: usize,
}
