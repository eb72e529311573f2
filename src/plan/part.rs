//! What one of several writers of a run is to write: an array by itself, of whole shards of the run's.

use std::ops::Range;

use super::Plan;
use crate::config::{Compressor, Config, Dim, Part, PartBy};
use crate::error::{Error, Result};
use crate::format::part::{PARTS_MAX, PartMap};
use crate::format::rules;

/// A part of a run.
pub(crate) struct PartPlan {
    /// Of the part's own array.
    pub(crate) config: Config,
    pub(crate) map: PartMap,
    /// Rows and columns of the frame that it gets.
    pub(crate) region: [Range<u64>; 2],
}

impl PartPlan {
    /// `config`: of the whole run; `whole`: what follows from it.
    pub(crate) fn new(config: &Config, whole: &Plan, part: Part) -> Result<Self> {
        check(config, whole, part)?;
        let (layout, outer) = (&whole.array.layout, whole.order.outer_dims());
        let mut dims: Vec<Dim> = config.dims.clone();
        for (dim, (chunk, shard)) in dims.iter_mut().zip(layout.chunk_shape.iter().zip(&layout.file_shape)) {
            (dim.chunk, dim.shard) = (*chunk, *shard);
        }
        let size = [dims[outer].size, dims[outer + 1].size].map(Option::unwrap_or_default);
        let shard = [layout.file_shape[outer], layout.file_shape[outer + 1]];
        let grid = [0, 1].map(|dim| size[dim].div_ceil(shard[dim]));
        let (mut first, mut shards) = ([0; 2], grid);
        let mut region = size.map(|size| 0..size);
        match part.by {
            PartBy::Time => dims[0].size = dims[0].size.map(|size| own_length(size, layout.file_shape[0], part)),
            PartBy::Frame => {
                let dim = band_dim(config, grid, part)?;
                let (index, of) = (u64::from(part.index), u64::from(part.of));
                let [start, end] = [index, index + 1].map(|index| index * grid[dim] / of);
                (first[dim], shards[dim]) = (start, end - start);
                region[dim] = start * shard[dim]..(end * shard[dim]).min(size[dim]);
                let banded = &mut dims[outer + dim];
                banded.size = Some(region[dim].end - region[dim].start);
                banded.translation += region[dim].start as f64 * banded.scale;
            }
        }
        let others = || (1..outer).map(|dim| (config.dims[dim].size.unwrap_or(1), layout.file_shape[dim]));
        let (step, deep) = match outer {
            // One frame alone.
            0 => (1, 1),
            _ => (others().map(|(size, _)| size).product(), layout.file_shape[0]),
        };
        let map = PartMap {
            index: part.index,
            of: part.of,
            by: part.by,
            frames: whole.frames_total,
            row_frames: deep.saturating_mul(step),
            row_cells: others().map(|(size, shard)| size.div_ceil(shard)).product(),
            shards,
            first,
            grid,
        };
        Ok(Self { config: Config { dims, part: None, ..config.clone() }, map, region })
    }
}

fn refuse<T>(part: Part, reason: String) -> Result<T> {
    Err(Error::config("part", format_args!("{} of {} by {}", part.index, part.of, part.by), reason))
}

fn check(config: &Config, whole: &Plan, part: Part) -> Result<()> {
    let Part { index, of, by } = part;
    if of == 0 || of > PARTS_MAX {
        return refuse(part, format!("1 to {PARTS_MAX} parts are possible"));
    }
    if index >= of {
        return refuse(part, format!("parts are numbered 0 to {}", of - 1));
    }
    // What would have to be put together from all parts, or is chosen by each for itself.
    let set = [
        ("pyramid", config.pyramid.is_some(), "make the levels of the finished run"),
        ("manifest", !config.manifest.is_empty(), "write it of the finished run"),
        ("bare", config.bare, "the parts need documents"),
        ("key", config.key.is_some(), "create the run at a path of its own"),
        ("label", config.label.is_some(), "labels are of one writer"),
        ("codec.compressor auto", config.codec.compressor == Compressor::Auto, "each part would choose its own"),
        ("record_roi with parts of a frame", config.record_roi && by == PartBy::Frame, "divide the run by time"),
    ];
    if let Some((field, _, help)) = set.iter().find(|(_, is_set, _)| *is_set) {
        return refuse(part, format!("a run in parts can't have {field}; {help}"));
    }
    if !rules(config.dialect).is_tree {
        return refuse(part, format!("only zarr3 is written in parts, and the dialect is {}", config.dialect));
    }
    if by == PartBy::Time { check_time(config, whole, part) } else { Ok(()) }
}

/// Rows of shards along the first dimension must follow each other in the stream of frames.
fn check_time(config: &Config, whole: &Plan, part: Part) -> Result<()> {
    let (outer, shard) = (whole.order.outer_dims(), &whole.array.layout.file_shape);
    if outer == 0 {
        return refuse(part, "there is no dimension before rows and columns; divide the frame".to_owned());
    }
    let first = &config.dims[0];
    if whole.order.acquired().first() != Some(&0) {
        let name = &first.name;
        return refuse(part, format!("{name}, the first dimension, is not the slowest to arrive; divide the frame"));
    }
    let rows = first.size.map(|size| size.div_ceil(shard[0]));
    if let Some(rows) = rows.filter(|&rows| rows < u64::from(part.of)) {
        let (name, size, deep) = (&first.name, first.size.unwrap_or_default(), shard[0]);
        let reason = format!(
            "shards of {deep} along {name}, which is {size} long, have {rows} rows, so at most {rows} parts are \
             possible; shorter shards (the option `dims.shard`) give more"
        );
        return refuse(part, reason);
    }
    let samples = whole.frame.samples() as u64;
    if samples > 1 && outer == 1 && !shard[0].is_multiple_of(samples) {
        let reason = format!("a picture has {samples} samples, and shards of {} would cut it", shard[0]);
        return refuse(part, reason);
    }
    Ok(())
}

/// How long the first dimension of a part is, by the whole one's and a shard's.
fn own_length(size: u64, shard: u64, Part { index, of, .. }: Part) -> u64 {
    let (rows, index, of) = (size.div_ceil(shard), u64::from(index), u64::from(of));
    let own = (rows - index).div_ceil(of);
    let has_last = (rows - 1) % of == index;
    own.saturating_mul(shard) - if has_last { rows.saturating_mul(shard) - size } else { 0 }
}

/// Whether the frame is divided into bands of rows, 0, or of columns, 1.
fn band_dim(config: &Config, grid: [u64; 2], part: Part) -> Result<usize> {
    let of = u64::from(part.of);
    if let Some(dim) = [1, 0].into_iter().find(|&dim| grid[dim] >= of) {
        return Ok(dim);
    }
    let [.., y, x] = &config.dims[..] else { return refuse(part, "there are no rows and columns".to_owned()) };
    let most = grid[0].max(grid[1]);
    let reason = format!(
        "a frame has {} shards along {} and {} along {}, so at most {most} parts are possible; smaller shards (the \
         option `dims.shard`) give more",
        grid[0], y.name, grid[1], x.name
    );
    refuse(part, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_as_long_as_the_whole() {
        for (size, shard, of) in [(100, 10, 4), (101, 10, 4), (95, 10, 3), (40, 10, 4), (7, 3, 2), (5, 8, 1)] {
            let all: u64 = (0..of).map(|index| own_length(size, shard, Part { index, of, by: PartBy::Time })).sum();
            assert_eq!(all, size, "{size} by {shard} in {of}");
        }
    }
}
