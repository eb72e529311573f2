//! Which frame belongs to which layer, tile, chunk and shard.
//!
//! Frames arrive in the acquisition order of the outer dimensions; chunks and shards tile the storage order. This
//! module alone knows both. It is pure arithmetic on checked numbers.
//!
//! A *unit* cuts each outer dimension into cells: the chunk's shape for layers, the shard's shape for shards. Cells
//! that are open at the same time form a *block*: take the slowest acquired dimension that a cell spans with more than
//! one element; the cells below it in one step of it are all fed in turn until the step is over. A block is therefore a
//! contiguous run of frame numbers, and blocks follow each other.

pub(crate) const MAX_OUTER: usize = 14;

/// One number for each outer dimension, in storage order.
pub(crate) type Outer = [u64; MAX_OUTER];

/// The outer dimensions in both orders.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    /// Storage sizes; an unbounded dimension counts as `u64::MAX`.
    sizes: Vec<u64>,
    /// `acquired[i]` is the storage dimension that is the i-th slowest to change.
    acquired: Vec<usize>,
}

impl Order {
    /// `acquired` must be a permutation; only its first entry may be unbounded. The plan has checked both.
    pub(crate) fn new(sizes: Vec<u64>, acquired: Vec<usize>) -> Self {
        debug_assert!(sizes.len() == acquired.len() && sizes.len() <= MAX_OUTER);
        Self { sizes, acquired }
    }

    pub(crate) fn outer_dims(&self) -> usize {
        self.sizes.len()
    }

    /// The outer dimensions, the slowest to change first.
    pub(crate) fn acquired(&self) -> &[usize] {
        &self.acquired
    }

    /// Where a frame stands in the outer dimensions, in storage order.
    pub(crate) fn position(&self, number: u64) -> Outer {
        self.split(number).0
    }

    /// The same, and what is left of the number: above 0 for a frame that the dimensions have no place for.
    fn split(&self, number: u64) -> (Outer, u64) {
        let mut position = [0; MAX_OUTER];
        let mut rest = number;
        for &dim in self.acquired.iter().rev() {
            position[dim] = rest % self.sizes[dim];
            rest /= self.sizes[dim];
        }
        (position, rest)
    }

    /// The same, if the dimensions have a place for the frame.
    pub(crate) fn position_within(&self, number: u64) -> Option<Vec<u64>> {
        let (position, rest) = (!self.sizes.contains(&0)).then(|| self.split(number))?;
        (rest == 0).then(|| position[..self.sizes.len()].to_vec())
    }

    /// The number of the frame at a position; the reverse of [`position`](Self::position).
    pub(crate) fn number(&self, position: &[u64]) -> Option<u64> {
        digits(self.acquired.iter().map(|&dim| (position[dim], self.sizes[dim])))
    }

    /// Frames in one step of the slowest dimension, where that is the first one stored; `None` if it is not, and where
    /// there are none, or too many to be counted.
    fn stack(&self) -> Option<u64> {
        let (&slowest, faster) = self.acquired.split_first()?;
        let stack = faster.iter().try_fold(1u64, |stack, &dim| stack.checked_mul(self.sizes[dim]))?;
        (slowest == 0 && stack > 0).then_some(stack)
    }

    /// Elements of the dimension that changes fastest; `u64::MAX` where there is but an unbounded one.
    pub(crate) fn fastest(&self) -> u64 {
        self.acquired.last().map_or(1, |&dim| self.sizes[dim])
    }

    /// How many elements a dimension has, `None` without an end, and how many frames lie from one to the next.
    pub(crate) fn planes(&self, dim: usize) -> (Option<u64>, u64) {
        let faster = self.acquired.iter().rev().take_while(|&&other| other != dim);
        let apart = faster.map(|&other| self.sizes[other]).fold(1, u64::saturating_mul);
        (Some(self.sizes[dim]).filter(|&size| size < u64::MAX), apart)
    }

    /// How long the first storage dimension is once `frames` frames have come, where it is the slowest to change.
    pub(crate) fn first_dim_extent(&self, frames: u64) -> Option<u64> {
        Some(frames.div_ceil(self.stack()?))
    }

    /// One past the last number that has a place in an array with room for `frames` frames: a run that ends within a
    /// stack leaves places without frames. `None`: all of them have one.
    pub(crate) fn places_end(&self, frames: u64) -> Option<u64> {
        let stack = self.stack()?;
        Some(frames.div_ceil(stack).saturating_mul(stack))
    }
}

/// How cells of one unit follow each other in the stream of frames.
#[derive(Debug, Clone)]
pub(crate) struct Cells {
    order: Order,
    unit: Vec<u64>,
    /// The outer dimensions in the order in which a cell's planes follow each other, the slowest first.
    stack: Vec<usize>,
    /// The place in the acquisition order of the dimension that separates blocks.
    pivot: usize,
    /// Frames in one step of the pivot dimension.
    frames_a_step: u64,
    pub(crate) cells_a_block: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CellOf {
    pub(crate) block: u64,
    pub(crate) cell: u64,
    /// Where in the cell: in C order of the unit, if its planes are not stacked in another order.
    pub(crate) place: u64,
}

impl Cells {
    pub(crate) fn new(order: &Order, unit: Vec<u64>) -> Self {
        let wide = |&dim: &usize| unit[dim] > 1;
        let pivot = order.acquired.iter().position(wide).unwrap_or(order.acquired.len().saturating_sub(1));
        let faster = order.acquired.get(pivot + 1..).unwrap_or(&[]);
        let frames_a_step = faster.iter().map(|&dim| order.sizes[dim]).product();
        let cells_a_block = faster.iter().map(|&dim| order.sizes[dim].div_ceil(unit[dim])).product();
        let stack = (0..unit.len()).collect();
        Self { order: order.clone(), unit, stack, pivot, frames_a_step, cells_a_block }
    }

    /// The same cells, with their planes in another order.
    pub(crate) fn stacked(self, stack: Vec<usize>) -> Self {
        debug_assert_eq!(stack.len(), self.unit.len());
        Self { stack, ..self }
    }

    /// The most frames in a block.
    pub(crate) fn frames_a_block(&self) -> u64 {
        let steps = self.order.acquired.get(self.pivot).map_or(1, |&dim| self.unit[dim].min(self.order.sizes[dim]));
        steps.saturating_mul(self.frames_a_step)
    }

    /// Whether some blocks are shorter than [`frames_a_block`](Self::frames_a_block) other than at the very end. Then
    /// every other one is, at most.
    pub(crate) fn has_short_blocks(&self) -> bool {
        let Some(&dim) = self.order.acquired.get(self.pivot) else { return false };
        let (size, unit) = (self.order.sizes[dim], self.unit[dim]);
        self.pivot > 0 && size > unit && size % unit != 0
    }

    pub(crate) fn frames_a_cell(&self) -> u64 {
        self.unit.iter().product()
    }

    pub(crate) fn locate(&self, number: u64) -> CellOf {
        let position = self.order.position(number);
        let (slower, rest) = self.order.acquired.split_at(self.pivot.min(self.order.acquired.len()));
        let mut block = slower.iter().fold(0, |block, &dim| block * self.order.sizes[dim] + position[dim]);
        let mut cell = 0;
        if let Some((&pivot, faster)) = rest.split_first() {
            block = block.wrapping_mul(self.pivot_cells(pivot)) + position[pivot] / self.unit[pivot];
            for &dim in faster {
                cell = cell * self.order.sizes[dim].div_ceil(self.unit[dim]) + position[dim] / self.unit[dim];
            }
        }
        let place = self.stack.iter().fold(0, |place, &dim| place * self.unit[dim] + position[dim] % self.unit[dim]);
        CellOf { block, cell, place }
    }

    fn pivot_cells(&self, pivot: usize) -> u64 {
        self.order.sizes[pivot].div_ceil(self.unit[pivot])
    }

    pub(crate) fn block_frames(&self, block: u64) -> std::ops::Range<u64> {
        let Some(&pivot) = self.order.acquired.get(self.pivot) else { return 0..1 };
        let (size, unit) = (self.order.sizes[pivot], self.unit[pivot]);
        let cells = self.pivot_cells(pivot);
        let (slower, cell) = (block / cells, block % cells);
        let step =
            |step: u64| slower.saturating_mul(size).saturating_add(step.min(size)).saturating_mul(self.frames_a_step);
        step(cell.saturating_mul(unit))..step((cell + 1).saturating_mul(unit))
    }

    /// The cell's coordinates in the grid of cells, in storage order.
    pub(crate) fn grid_position(&self, block: u64, cell: u64) -> Outer {
        let mut grid = [0; MAX_OUTER];
        let Some(&pivot) = self.order.acquired.get(self.pivot) else { return grid };
        let mut rest = cell;
        for &dim in self.order.acquired[self.pivot + 1..].iter().rev() {
            let cells = self.order.sizes[dim].div_ceil(self.unit[dim]);
            grid[dim] = rest % cells;
            rest /= cells;
        }
        grid[pivot] = block % self.pivot_cells(pivot);
        let mut rest = block / self.pivot_cells(pivot);
        // Dimensions slower than the pivot have cells of one element.
        for &dim in self.order.acquired[..self.pivot].iter().rev() {
            grid[dim] = rest % self.order.sizes[dim];
            rest /= self.order.sizes[dim];
        }
        grid
    }

    /// How many elements of each outer dimension a cell really holds: fewer than the unit at the array's edge.
    pub(crate) fn extent(&self, grid: &Outer) -> Outer {
        let mut extent = [1; MAX_OUTER];
        for (dim, (&unit, &size)) in self.unit.iter().zip(&self.order.sizes).enumerate() {
            extent[dim] = unit.min(size - (grid[dim] * unit).min(size));
        }
        extent
    }
}

/// One tile of a layer: where it lies in the frame, and where its chunk goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tile {
    /// First row and column in the frame.
    pub(crate) y: usize,
    pub(crate) x: usize,
    /// Rows and columns that the frame has for it: fewer than the chunk at the frame's edge.
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    /// Which shard of those that cover the frame.
    pub(crate) shard: usize,
    /// Which chunk of that shard, within one layer's chunks.
    pub(crate) chunk: usize,
}

/// How a frame of `size` falls into tiles of `chunk` and shards of `shard` (each rows, columns). The plan has seen that
/// they are not too many to be listed.
pub(crate) fn tiles(size: [u64; 2], chunk: [u64; 2], shard: [u64; 2]) -> Vec<Tile> {
    let shard_columns = size[1].div_ceil(shard[1]);
    let chunks_a_shard = [shard[0] / chunk[0], shard[1] / chunk[1]];
    let [rows, columns] = [0, 1].map(|dim| size[dim].div_ceil(chunk[dim]));
    let mut tiles = Vec::with_capacity((rows * columns) as usize);
    for row in 0..rows {
        for column in 0..columns {
            let (y, x) = (row * chunk[0], column * chunk[1]);
            // A shard of more chunks than can be counted is refused by the plan.
            let in_shard =
                (row % chunks_a_shard[0]).saturating_mul(chunks_a_shard[1]).saturating_add(column % chunks_a_shard[1]);
            tiles.push(Tile {
                y: y as usize,
                x: x as usize,
                rows: chunk[0].min(size[0] - y) as usize,
                columns: chunk[1].min(size[1] - x) as usize,
                shard: ((y / shard[0]) * shard_columns + x / shard[1]) as usize,
                chunk: in_shard as usize,
            });
        }
    }
    tiles
}

/// The multiples of a chunk's length that are nearest to a shard's, for a message: `5 and 10 are`.
pub(crate) fn nearest_multiples(shard: u64, chunk: u64) -> String {
    let lower = shard - shard % chunk;
    match (lower, lower.checked_add(chunk)) {
        (0, _) => format!("{chunk} is"),
        (lower, None) => format!("{lower} is"),
        (lower, Some(upper)) => format!("{lower} and {upper} are"),
    }
}

/// Visits every position of a box in C order. A box without dimensions has one position.
pub(crate) fn for_each_position(origin: &[u64], extent: &[u64], mut visit: impl FnMut(&[u64])) {
    if extent.contains(&0) {
        return;
    }
    let mut position = origin.to_vec();
    loop {
        visit(&position);
        let Some(dim) = (0..extent.len()).rev().find(|&dim| position[dim] - origin[dim] + 1 < extent[dim]) else {
            return;
        };
        position[dim] += 1;
        position[dim + 1..].copy_from_slice(&origin[dim + 1..]);
    }
}

/// How many cells of a shape cover another, in each dimension.
pub(crate) fn grid(shape: &[u64], cell: &[u64]) -> Vec<u64> {
    shape.iter().zip(cell).map(|(length, cell)| length.div_ceil(*cell)).collect()
}

/// The cells of a grid that a box of `shape` elements from `start` meets: the first, and how many in each dimension.
pub(crate) fn cells(start: &[u64], shape: &[u64], cell: &[u64]) -> (Vec<u64>, Vec<u64>) {
    let dims = start.iter().zip(shape).zip(cell);
    dims.map(|((at, n), cell)| (at / cell, at.saturating_add(*n).div_ceil(*cell) - at / cell)).unzip()
}

/// The number of a position by its digits, each with how many there are of it, the slowest first; the first has no end.
pub(crate) fn digits(mut digits: impl Iterator<Item = (u64, u64)>) -> Option<u64> {
    let first = digits.next().map_or(0, |(digit, _)| digit);
    digits.try_fold(first, |number, (digit, count)| number.checked_mul(count)?.checked_add(digit))
}

/// The position of a number in C order; the reverse of [`linear`].
pub(crate) fn position(number: u64, shape: &[u64]) -> Vec<u64> {
    let mut rest = number;
    let mut position = vec![0; shape.len()];
    for (at, length) in position.iter_mut().zip(shape).rev() {
        (*at, rest) = (rest % length, rest / length);
    }
    position
}

/// The number of a position in a box that starts at zero, in C order.
pub(crate) fn linear(position: &[u64], shape: &[u64]) -> u64 {
    position.iter().zip(shape).fold(0, |linear, (position, length)| linear * length + position)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{HashMap, HashSet};

    #[test]
    fn a_z_stack_of_two_colours_keeps_both_layers_open() {
        // Stored t, c, z with chunks of 4 along z; acquired t, z, c.
        let order = Order::new(vec![u64::MAX, 2, 8], vec![0, 2, 1]);
        let cells = Cells::new(&order, vec![1, 1, 4]);
        assert_eq!((cells.frames_a_block(), cells.cells_a_block, cells.frames_a_cell()), (8, 2, 4));
        assert_eq!(cells.locate(0), CellOf { block: 0, cell: 0, place: 0 });
        assert_eq!(cells.locate(1), CellOf { block: 0, cell: 1, place: 0 });
        assert_eq!(cells.locate(7), CellOf { block: 0, cell: 1, place: 3 });
        assert_eq!(cells.locate(8), CellOf { block: 1, cell: 0, place: 0 });
        assert_eq!(cells.locate(16).block, 2);
        assert_eq!(cells.block_frames(1), 8..16);
        assert_eq!(cells.grid_position(3, 1)[..3], [1, 1, 1]);
    }

    #[test]
    fn a_single_frame_is_one_block() {
        let order = Order::new(vec![], vec![]);
        let cells = Cells::new(&order, vec![]);
        assert_eq!(cells.locate(0), CellOf { block: 0, cell: 0, place: 0 });
        assert_eq!((cells.block_frames(0), cells.frames_a_block(), cells.cells_a_block), (0..1, 1, 1));
        assert_eq!(order.first_dim_extent(1), None);
    }

    #[test]
    fn tiles_at_the_edge_are_smaller_and_know_their_shard() {
        let tiles = tiles([5, 7], [2, 3], [4, 6]);
        assert_eq!(tiles.len(), 9);
        assert_eq!(tiles[0], Tile { y: 0, x: 0, rows: 2, columns: 3, shard: 0, chunk: 0 });
        assert_eq!(tiles[4], Tile { y: 2, x: 3, rows: 2, columns: 3, shard: 0, chunk: 3 });
        assert_eq!(tiles[8], Tile { y: 4, x: 6, rows: 1, columns: 1, shard: 3, chunk: 0 });
    }

    fn geometry() -> impl Strategy<Value = (Vec<u64>, Vec<u64>, Vec<usize>)> {
        (1usize..5).prop_flat_map(|dims| {
            let sizes = prop::collection::vec(1u64..6, dims);
            let units = prop::collection::vec(1u64..4, dims);
            (sizes, units, Just((0..dims).collect::<Vec<_>>()).prop_shuffle())
        })
    }

    proptest! {
        #[test]
        fn blocks_are_contiguous_and_every_cell_gets_its_own_frames((sizes, unit, acquired) in geometry()) {
            let total: u64 = sizes.iter().product();
            let order = Order::new(sizes.clone(), acquired);
            let cells = Cells::new(&order, unit.clone());
            let mut frames_of = HashMap::<_, HashSet<u64>>::new();
            for number in 0..total {
                let position = order.position(number);
                prop_assert_eq!(order.number(&position), Some(number));
                prop_assert_eq!(order.position_within(number), Some(position[..sizes.len()].to_vec()));
                let at = cells.locate(number);
                prop_assert!(cells.block_frames(at.block).contains(&number));
                prop_assert!(at.cell < cells.cells_a_block);
                prop_assert!(frames_of.entry((at.block, at.cell)).or_default().insert(at.place));
                let grid = cells.grid_position(at.block, at.cell);
                for dim in 0..sizes.len() {
                    prop_assert_eq!(grid[dim], position[dim] / unit[dim]);
                }
            }
            let mut next = 0;
            for block in 0.. {
                let frames = cells.block_frames(block);
                if frames.start >= total { break; }
                prop_assert_eq!(frames.start, next);
                prop_assert!(frames.end - frames.start <= cells.frames_a_block());
                next = frames.end;
            }
            prop_assert_eq!(next, total);
            for ((block, cell), places) in frames_of {
                let extent = cells.extent(&cells.grid_position(block, cell));
                prop_assert_eq!(places.len() as u64, extent[..sizes.len()].iter().product::<u64>());
            }
        }
    }
}
