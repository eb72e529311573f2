//! One image in memory.

/// Rows of pixels that touch, `row_stride` bytes from one row's start to the next one's. Nothing need be aligned.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub struct Plane<'a> {
    pub pixels: &'a [u8],
    pub row_stride: usize,
    pub rows: usize,
    pub columns: usize,
}

impl<'a> Plane<'a> {
    /// A row of pixels of this many bytes.
    pub(crate) fn row(&self, y: usize, pixel_bytes: usize) -> &'a [u8] {
        &self.pixels[y * self.row_stride..][..self.columns * pixel_bytes]
    }
}
