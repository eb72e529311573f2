//! The pixels of a tile, wherever they lie.

use std::ops::Range;

/// Bytes in the order of a tile, in pieces that may lie apart.
pub(crate) trait Pixels {
    /// The bytes of the tile.
    fn bytes(&self) -> usize;

    /// Shows the bytes of `range`, piece by piece.
    fn show(&self, range: Range<usize>, to: &mut dyn FnMut(&[u8]));

    /// The bytes of `range`, if they lie in one piece.
    fn in_one(&self, range: Range<usize>) -> Option<&[u8]>;

    /// Copies the bytes of `range` into `target`, which is as long.
    fn copy(&self, range: Range<usize>, target: &mut [u8]) {
        let mut at = 0;
        self.show(range, &mut |piece| {
            target[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        });
        debug_assert_eq!(at, target.len());
    }
}

impl Pixels for [u8] {
    fn bytes(&self) -> usize {
        self.len()
    }

    fn show(&self, range: Range<usize>, to: &mut dyn FnMut(&[u8])) {
        to(&self[range]);
    }

    fn in_one(&self, range: Range<usize>) -> Option<&[u8]> {
        self.get(range)
    }
}
