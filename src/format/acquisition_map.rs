//! Which frames, chunks and shards are which in an array that this crate's writer made, seen from the end: in the order
//! of acquisition, the grid of shards counts like the digits of a number.

use std::collections::BTreeMap;
use std::ops::Range;

use super::layout::Layout;
use super::level_frames::LevelFrames;
use super::part::{PartMap, parse_of};
use super::precomputed::volume::{DEALT_MAX, Volume};
use super::provenance::Provenance;
use super::slot_header::{HEADER_BYTES, Origin, SlotHeader};
use crate::geometry::{MAX_OUTER, Order, digits, for_each_position, position};

/// The most frames that a writer's ring, and so a chunk of its, can hold.
const FRAMES_A_CHUNK_MAX: u64 = 1 << 22;

#[derive(Debug)]
pub(crate) struct AcquisitionMap {
    order: Order,
    layout: Layout,
    /// Of a volume whose shards are no boxes, the ids of each shard's chunks, which are numbered by their ranks.
    ids_by_shard: Option<BTreeMap<u64, Vec<u64>>>,
    unbounded: bool,
    /// Of one of several writers, what it has of the run.
    part: Option<PartMap>,
}

impl AcquisitionMap {
    /// The map of an array; an error says why it has none.
    pub(crate) fn new(layout: &Layout, own: &Provenance) -> Result<Self, String> {
        let is_known = layout.has_index() || layout.volume().is_none();
        let (Some(outer), true) = (layout.shape.len().checked_sub(2), is_known) else {
            return Err("is not an array with rows and columns, as its writer makes them".into());
        };
        let names = layout.names.as_deref().unwrap_or_default();
        let place = |name: &String| names.iter().take(outer).position(|other| other == name);
        let acquired: Vec<usize> = own.acquisition_order.iter().filter_map(place).collect();
        let all = (0..outer).all(|dim| acquired.contains(&dim));
        if own.acquisition_order.len() != outer || acquired.len() != outer || !all {
            return Err(format!(
                "frames were acquired in the order {:?}, but its dimensions are {names:?}",
                own.acquisition_order
            ));
        }
        if outer > MAX_OUTER {
            return Err(format!(
                "has {outer} dimensions before rows and columns, and a writer has at most {MAX_OUTER}"
            ));
        }
        let chunk = &layout.chunk_shape;
        let frames = chunk[..outer].iter().try_fold(1u64, |frames, &size| frames.checked_mul(size));
        if frames.is_none_or(|frames| frames > FRAMES_A_CHUNK_MAX) {
            return Err(format!("chunks of {chunk:?} hold more frames than a writer can"));
        }
        let dealt = layout.volume().filter(|_| !layout.has_boxes());
        let many = || format!("deals more than {DEALT_MAX} chunks out to shards that are no boxes, as no writer does");
        let ids_by_shard = dealt.map(|volume| volume.ids_by_shard().ok_or_else(many)).transpose()?;
        let order = Order::new(layout.shape[..outer].to_vec(), acquired);
        Ok(Self { order, layout: layout.clone(), ids_by_shard, unbounded: own.unbounded, part: own.part })
    }

    /// The slot header in `bytes`, if it is whole and known, in the numbers of the array.
    pub(crate) fn parse_header(&self, bytes: &[u8; HEADER_BYTES]) -> Option<SlotHeader> {
        parse_of(self.part.as_ref(), bytes)
    }

    /// What a header says of a chunk of the array.
    pub(crate) fn header_origin(&self, own: Origin) -> Origin {
        self.part.map_or(own, |part| part.of_run(own))
    }

    fn ids_of(&self, shard: &[u64]) -> Option<&Vec<u64>> {
        let [shard] = shard else { return None };
        self.ids_by_shard.as_ref()?.get(shard)
    }

    /// Chunks of the shard at a place, be they in the array or not.
    pub(crate) fn chunks_of(&self, shard: &[u64]) -> u64 {
        match self.has_boxes() {
            false => self.ids_of(shard).map_or(0, |ids| ids.len() as u64),
            true => self.layout.chunks_per_file().into_iter().fold(1, u64::saturating_mul),
        }
    }

    /// The number that slot headers give the chunk at a place in the grid of chunks.
    pub(crate) fn chunk_number(&self, shard: &[u64], chunk: &[u64]) -> Option<u64> {
        if self.has_boxes() {
            return Some(self.layout.number_in_file(chunk, None));
        }
        self.ids_of(shard)?.binary_search(&self.layout.file_of(chunk).1).ok().map(|rank| rank as u64)
    }

    pub(crate) fn has_boxes(&self) -> bool {
        self.ids_by_shard.is_none()
    }

    fn outer(&self) -> usize {
        self.order.outer_dims()
    }

    /// Whether the first dimension has no end of its own, because it is the slowest to arrive.
    pub(crate) fn grows(&self) -> bool {
        self.order.acquired().first() == Some(&0)
    }

    /// Whether the array has, or could grow to have, a file at a place of its grid.
    pub(crate) fn has_file(&self, position: &[u64]) -> bool {
        if !self.has_boxes() {
            return self.ids_of(position).is_some();
        }
        let grid = self.layout.file_grid();
        (0..position.len()).all(|dim| (dim == 0 && self.grows()) || position[dim] < grid[dim])
    }

    /// The number of the shard at a place of the grid, as its slots' headers have it.
    pub(crate) fn shard_number(&self, position: &[u64]) -> Option<u64> {
        if !self.has_boxes() {
            return position.first().copied();
        }
        let grid = self.layout.file_grid();
        digits(self.shard_dims().into_iter().map(|dim| (position[dim], grid[dim])))
    }

    /// The dimensions in which shards are numbered, the slowest first.
    fn shard_dims(&self) -> Vec<usize> {
        self.order.acquired().iter().copied().chain([self.outer(), self.outer() + 1]).collect()
    }

    /// The name, below the array's folder, of the shard of a number.
    pub(crate) fn shard_key(&self, number: u64) -> String {
        self.layout.file_key(&self.shard_position(number))
    }

    /// The place in the grid of the shard of a number, be it in the array or not.
    pub(crate) fn shard_position(&self, number: u64) -> Vec<u64> {
        if !self.has_boxes() {
            return vec![number];
        }
        let grid = self.layout.file_grid();
        let dims = self.shard_dims();
        let mut counts: Vec<u64> = dims.iter().map(|&dim| grid[dim].max(1)).collect();
        // The slowest one may grow.
        counts[0] = u64::MAX;
        let mut at = vec![0; grid.len()];
        dims.iter().zip(position(number, &counts)).for_each(|(&dim, digit)| at[dim] = digit);
        at
    }

    /// The place of a shard's chunk in the array's grid of chunks.
    pub(crate) fn chunk_position(&self, shard: &[u64], chunk: u64) -> Option<Vec<u64>> {
        if self.has_boxes() {
            return self.layout.numbered_in_file(shard, chunk, None);
        }
        self.layout.chunk_at(shard, *self.ids_of(shard)?.get(usize::try_from(chunk).ok()?)?)
    }

    /// Whether a chunk lies within the rows and columns, rather than only filling up a shard.
    pub(crate) fn in_frame(&self, chunk: &[u64]) -> bool {
        let grid = self.layout.chunk_grid();
        (self.outer()..chunk.len()).all(|dim| chunk[dim] < grid[dim])
    }

    /// How many chunks cover a frame.
    pub(crate) fn tiles(&self) -> u64 {
        self.layout.chunk_grid()[self.outer()..].iter().copied().fold(1, u64::saturating_mul)
    }

    /// Where the frames of a chunk or a file of `unit` elements start and how many there are in each outer dimension.
    fn frames_box(&self, place: &[u64], unit: &[u64]) -> Option<(Vec<u64>, Vec<u64>)> {
        let start: Vec<u64> = (0..self.outer()).map(|dim| place[dim].checked_mul(unit[dim])).collect::<Option<_>>()?;
        let counts = (0..self.outer()).map(|dim| {
            let left =
                if dim == 0 && self.grows() { u64::MAX } else { self.layout.shape[dim] }.checked_sub(start[dim])?;
            Some(unit[dim].min(left)).filter(|&count| count > 0)
        });
        let counts = counts.collect::<Option<_>>()?;
        Some((start, counts))
    }

    pub(crate) fn frame_number(&self, position: &[u64]) -> Option<u64> {
        self.order.number(position)
    }

    /// The place of a frame in the outer dimensions; `None` if the array has none for it.
    pub(crate) fn frame_position(&self, number: u64) -> Option<Vec<u64>> {
        self.order.position_within(number)
    }

    /// The lowest and the highest frame number that a chunk can hold; `None` if it lies outside the array.
    pub(crate) fn frame_bounds(&self, chunk: &[u64]) -> Option<(u64, u64)> {
        let (start, counts) = self.frames_box(chunk, &self.layout.chunk_shape)?;
        let end: Vec<u64> =
            start.iter().zip(&counts).map(|(start, count)| start.checked_add(count - 1)).collect::<Option<_>>()?;
        Some((self.frame_number(&start)?, self.frame_number(&end)?))
    }

    /// Calls `visit` with the frame numbers that a chunk can hold, as ranges.
    pub(crate) fn chunk_frames(&self, chunk: &[u64], visit: impl FnMut(Range<u64>)) {
        self.runs(self.frames_box(chunk, &self.layout.chunk_shape), visit);
    }

    /// How many ranges these are at most.
    pub(crate) fn chunk_runs(&self, chunk: &[u64]) -> u64 {
        self.frames_box(chunk, &self.layout.chunk_shape).map_or(0, |(_, counts)| self.run_count(&counts))
    }

    /// Calls `visit` with the frame numbers that the chunks of a shard that is a box can hold, as ranges. False: they
    /// are more than `most`, and none was visited.
    pub(crate) fn shard_frames(&self, shard: &[u64], most: u64, visit: impl FnMut(Range<u64>)) -> bool {
        let frames = self.frames_box(shard, &self.layout.file_shape);
        let few = frames.as_ref().is_none_or(|(_, counts)| self.run_count(counts) <= most);
        if few {
            self.runs(frames, visit);
        }
        few
    }

    /// How many of the dimensions, the slowest to arrive first, are walked through; those after them follow each other.
    fn walked(&self, counts: &[u64]) -> usize {
        let whole =
            self.order.acquired().iter().rev().take_while(|&&dim| counts[dim] == self.layout.shape[dim]).count();
        self.outer().saturating_sub(whole + 1)
    }

    fn run_count(&self, counts: &[u64]) -> u64 {
        let walked = &self.order.acquired()[..self.walked(counts)];
        walked.iter().fold(1, |runs, &dim| runs.saturating_mul(counts[dim]))
    }

    /// The frame numbers of a box as ranges: a stranger's document may make it larger than can be counted one by one.
    fn runs(&self, frames: Option<(Vec<u64>, Vec<u64>)>, mut visit: impl FnMut(Range<u64>)) {
        let Some((start, counts)) = frames else { return };
        let walked = self.walked(&counts);
        let mut extent = counts.clone();
        self.order.acquired()[walked..].iter().for_each(|&dim| extent[dim] = 1);
        let length =
            self.order.acquired()[walked..].iter().fold(1u64, |length, &dim| length.saturating_mul(counts[dim]));
        for_each_position(&start, &extent, |position| {
            if let Some(first) = self.frame_number(position) {
                visit(first..first.saturating_add(length));
            }
        });
    }

    fn growing_volume(&self) -> Option<&Volume> {
        self.layout.volume().filter(|_| self.unbounded)
    }

    /// A volume of a size that was given stays as large.
    fn is_bounded_volume(&self) -> bool {
        self.layout.volume().is_some() && !self.unbounded
    }

    /// One past the last number that has a place in the array when it has one for `frames` frames: a stack that was
    /// begun has places for all of its planes.
    pub(crate) fn end(&self, frames: u64) -> u64 {
        self.order.places_end(frames).filter(|_| !self.is_bounded_volume()).unwrap_or(frames)
    }

    /// How long the first dimension is when `frames` frames have come; `None` if it does not depend on them.
    pub(crate) fn extent(&self, frames: u64) -> Option<u64> {
        let extent = self.order.first_dim_extent(frames).filter(|_| !self.is_bounded_volume())?;
        Some(self.declared(extent))
    }

    /// How long the first dimension is declared to be when it is so long.
    pub(crate) fn declared(&self, extent: u64) -> u64 {
        self.growing_volume().map_or(extent, |volume| volume.declared_extent(extent, self.layout.chunk_shape[0]))
    }

    /// How long the first dimension of a level is, of an array of the shape `finest`; `None` if nobody can say.
    pub(crate) fn extent_of_level(&self, frames: &LevelFrames, finest: &[u64]) -> Option<u64> {
        let places = finest.get(..self.outer())?.iter().try_fold(1u64, |places, &size| places.checked_mul(size))?;
        self.extent(frames.end(places)).filter(|_| self.growing_volume().is_none())
    }

    /// How long the first dimension is after a recovery that found this many frames; `None` if it does not depend on
    /// them. `declared`: how long it is at least. `deepest`: of a volume, its last layer of chunks and how many planes
    /// these have.
    pub(crate) fn recovered_extent(&self, frames: u64, declared: u64, deepest: Option<(u64, u64)>) -> Option<u64> {
        let extent = self.extent(frames)?;
        if self.growing_volume().is_none() {
            return Some(extent.max(declared));
        }
        // A volume's last chunks end where it does: a size that cuts them elsewhere makes them unreadable.
        let depth = self.layout.chunk_shape[0];
        let end = deepest.map_or(0, |(layer, planes)| layer.saturating_mul(depth).saturating_add(planes));
        let is_cut = deepest.is_some_and(|(_, planes)| planes < depth);
        Some(if is_cut { end } else { self.declared(end.max(extent)) })
    }

    /// How many frames the array has room for, if it does not grow.
    pub(crate) fn frames(&self) -> Option<u64> {
        self.layout.shape[..self.outer()].iter().try_fold(1u64, |frames, &size| frames.checked_mul(size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Dialect;
    use crate::format::keys::{KeyEncoding, Prefix};
    use crate::format::layout::Files;
    use crate::geometry::Cells;

    fn layout(shape: Vec<u64>, chunk_shape: Vec<u64>) -> Layout {
        let files = Files::Grid { keys: KeyEncoding::of_writer(Prefix::Part), index: None };
        let (dialect, file_shape) = (Dialect::Zarr3, chunk_shape.clone());
        Layout { dialect, shape, names: None, chunk_shape, file_shape, files, index_order: None }
    }

    /// What the writer computes with blocks and cells, and this module with digits, is the same.
    #[test]
    fn shards_and_frames_are_numbered_as_the_writer_does() {
        let sizes = [7u64, 3, 5];
        for acquired in [[0, 1, 2], [0, 2, 1], [2, 0, 1], [1, 2, 0]] {
            for unit in [[1u64, 1, 1], [2, 1, 1], [1, 1, 4], [3, 2, 2], [1, 2, 1]] {
                let order = Order::new(sizes.to_vec(), acquired.to_vec());
                let cells = Cells::new(&order, unit.to_vec());
                let map = AcquisitionMap {
                    order: order.clone(),
                    layout: layout([&sizes[..], &[4, 6]].concat(), [&unit[..], &[2, 2]].concat()),
                    ids_by_shard: None,
                    unbounded: false,
                    part: None,
                };
                for number in 0..105 {
                    let at = cells.locate(number);
                    let grid = cells.grid_position(at.block, at.cell);
                    let expected = (at.block * cells.cells_a_block + at.cell) * 6 + 3 + 2;
                    assert_eq!(map.shard_number(&[grid[0], grid[1], grid[2], 1, 2]), Some(expected));
                    let key = map.layout.file_key(&[grid[0], grid[1], grid[2], 1, 2]);
                    assert_eq!(map.shard_key(expected), key);
                    let chunk = [grid[0], grid[1], grid[2], 1, 2];
                    let frame = map.frame_position(number).unwrap();
                    assert_eq!(map.frame_number(&frame), Some(number));
                    assert!(frame.iter().zip(&grid).zip(&unit).all(|((at, cell), unit)| at / unit == *cell));
                    let (low, high) = map.frame_bounds(&chunk).unwrap();
                    assert!((low..=high).contains(&number));
                    let mut all = Vec::new();
                    map.chunk_frames(&chunk, |range| all.extend(range));
                    all.sort_unstable();
                    assert!(all.windows(2).all(|pair| pair[0] < pair[1]), "a number twice");
                    let mut of_shard = Vec::new();
                    assert!(map.shard_frames(&chunk, u64::MAX, |range| of_shard.extend(range)));
                    of_shard.sort_unstable();
                    assert_eq!(of_shard, all, "a shard of one chunk in depth");
                    assert!(all.contains(&number) && all.iter().all(|&n| cells.locate(n).cell == at.cell));
                    assert_eq!((all.iter().min(), all.iter().max()), (Some(&low), Some(&high)));
                }
            }
        }
    }
}
