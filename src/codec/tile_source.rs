//! The pixels of a tile, wherever they lie.

use std::ops::Range;

/// Bytes in the order of a tile, in pieces that may lie apart.
///
/// Ranges are in bytes from the tile's start and end within it; one that is empty may stand at its very end.
pub trait TileSource {
    /// The bytes of the tile.
    fn bytes(&self) -> usize;

    /// Shows the bytes of `range`, piece by piece, in their order.
    fn show(&self, range: Range<usize>, to: &mut dyn FnMut(&[u8]));

    /// The bytes of `range`, if they lie in one piece.
    fn in_one(&self, range: Range<usize>) -> Option<&[u8]>;

    /// The bytes of `range`, copied together in `room`, which then must have room for them, if they lie apart.
    fn gathered<'a>(&'a self, range: Range<usize>, room: &'a mut [u8]) -> &'a [u8] {
        if let Some(there) = self.in_one(range.clone()) {
            return there;
        }
        let room = &mut room[..range.len()];
        let mut at = 0;
        self.show(range, &mut |piece| {
            room[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        });
        debug_assert_eq!(at, room.len());
        room
    }
}

impl TileSource for [u8] {
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
