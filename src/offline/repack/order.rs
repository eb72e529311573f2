//! In which order the chunks of a shard follow each other in its file.

use std::cmp::Ordering;

use crate::named::named;

/// The order of a shard's chunks in its file. The index has the same order whatever the file's is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ChunkOrder {
    /// The last dimension fastest: reading whole frames, or all of a shard, goes straight through the file.
    #[default]
    C,
    /// Along a Z-order curve: chunks that are neighbours in any dimension are mostly neighbours in the file.
    Morton,
    /// As they follow each other now. Where chunks change their shape, there is no such order, and C order takes its
    /// place.
    Kept,
}

named!(ChunkOrder, "order", {
    C => "c",
    Morton => "morton",
    Kept => "kept",
});

/// Compares places along a Z-order curve whose bits alternate between the dimensions, the last dimension's lowest.
pub(super) fn morton(a: &[u64], b: &[u64]) -> Ordering {
    // The dimension with the highest differing bit decides; of equals the first, whose bit stands higher.
    let mut decides = 0;
    let mut highest = 0;
    for (dim, (a, b)) in a.iter().zip(b).enumerate() {
        let differs = a ^ b;
        if highest < differs && highest < (highest ^ differs) {
            (decides, highest) = (dim, differs);
        }
    }
    a.get(decides).cmp(&b.get(decides))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::for_each_position;

    /// The bits of the coordinates, interleaved one by one.
    fn code(place: &[u64]) -> u64 {
        (0..8).rev().fold(0, |code, bit| place.iter().fold(code, |code, at| code << 1 | at >> bit & 1))
    }

    #[test]
    fn the_curve_is_the_order_of_interleaved_bits() {
        for shape in [&[4, 4][..], &[3, 5, 6], &[1, 9], &[7]] {
            let mut places = Vec::new();
            for_each_position(&vec![0; shape.len()], shape, |place| places.push(place.to_vec()));
            places.sort_by(|a, b| morton(a, b));
            assert!(places.windows(2).all(|pair| code(&pair[0]) < code(&pair[1])), "{places:?}");
        }
        assert_eq!(morton(&[], &[]), Ordering::Equal);
    }
}
