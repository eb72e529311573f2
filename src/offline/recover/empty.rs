//! Shards in which nothing is, where readers want every shard to be there.

use std::collections::HashSet;

use super::shard::keeps_empty;
use crate::format::layout::product;
use crate::geometry::for_each_position;
use crate::offline::array::Array;
use crate::offline::hierarchy::walk::FileAt;

/// Of so many files more than there are, and of so many for each that is there, a document alone may ask.
const FILES_MORE: u64 = 1 << 10;
const FILES_EACH: u64 = 64;
/// So many bytes of empty indexes are written at most.
const BYTES_MAX: u64 = 256 << 20;

/// The places of an array of `shape` where a shard should be and is not, but for a document that asks for far more of
/// them than a run that had begun can have left: a few bytes must not fill a disk.
pub(super) fn places(array: &Array, shape: &[u64], files: &[FileAt]) -> Vec<Vec<u64>> {
    let Some(layout) = array.layout().table().filter(|_| keeps_empty(array)) else { return Vec::new() };
    let grid = grid(array, shape);
    let most = FILES_EACH.saturating_mul(files.len() as u64).saturating_add(FILES_MORE);
    let few = |count: &u64| *count <= most && count.saturating_mul(layout.bytes()) <= BYTES_MAX;
    if product(&grid).filter(few).is_none() {
        return Vec::new();
    }
    let known: HashSet<&[u64]> = files.iter().map(|(_, position)| position.as_slice()).collect();
    let mut places = Vec::new();
    for_each_position(&vec![0; grid.len()], &grid, |position| {
        if !known.contains(position) {
            places.push(position.to_vec());
        }
    });
    places
}

/// Whether a shard at a place would be missed by a reader, be it empty.
pub(super) fn is_wanted(array: &Array, shape: &[u64], position: &[u64]) -> bool {
    keeps_empty(array) && position.iter().zip(&grid(array, shape)).all(|(at, count)| at < count)
}

fn grid(array: &Array, shape: &[u64]) -> Vec<u64> {
    shape.iter().zip(&array.layout().file_shape).map(|(size, file)| size.div_ceil(*file)).collect()
}
