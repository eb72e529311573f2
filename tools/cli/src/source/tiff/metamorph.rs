//! MetaMorph's STK: one page, and all planes one after the other where its pixels begin.
//!
//! UIC2Tag has six 32-bit numbers for each plane: two whose ratio is the plane's distance from the one before, the day
//! and the time of day at which it was taken, and the same of its last change.

use super::super::axes::{Axes, OuterAxis};
use super::ifd::ByteOrder;
use super::pages::behind_first;
use super::planes::RecordingFacts;
use super::stack::{METAMORPH_PLANE_BYTES, Stack};
use crate::failure::Failure;

/// The planes of a file with `planes` of them. `table`: the content of UIC2Tag.
pub(super) fn find(stack: Stack, planes: u64, table: &[u8]) -> Result<RecordingFacts, Failure> {
    let is_deep = |plane: &[u8]| {
        let [above, below] = [0, 4].map(|at| ByteOrder::Little.number(&plane[at..at + 4]));
        above != 0 && below != 0
    };
    let mut rows = table.chunks_exact(METAMORPH_PLANE_BYTES as usize);
    let has_depth = !table.is_empty() && rows.all(is_deep);
    let axes = Axes { outer: vec![OuterAxis::new(if has_depth { "z" } else { "t" }, planes)], ..Axes::default() };
    behind_first(stack, axes, planes)
}
