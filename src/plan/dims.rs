//! The dimensions that were asked for, and the shapes of chunks and shards.

use super::auto::{AUTO_SHARD_BYTES, AUTO_SHARD_CHUNKS, length_of};
use super::dialects;
use super::volume::VolumePlan;
use crate::aligned_memory::PAGE;
use crate::config::{Config, Dim};
use crate::error::{Error, Result};
use crate::format::provenance::FRAMES_MAX;
use crate::format::rules;
use crate::geometry::{MAX_OUTER, nearest_multiples};
use crate::words::quoted;

// What the automatic sizes aim at: chunks that a reader likes to fetch, shards that a file system likes to hold.
const AUTO_CHUNK_BYTES: u64 = 512 << 10;
// Chunks are no deeper than a part of the ring: one in this many.
const RING_SHARE: u64 = 8;
const FRAME_BYTES_MAX: u64 = 1 << 40;

pub(super) fn check(config: &Config) -> Result<&[Dim]> {
    let dims = &config.dims[..];
    let names = || format!("[{}]", dims.iter().map(|dim| dim.name.as_str()).collect::<Vec<_>>().join(", "));
    if dims.len() < 2 || dims.len() > MAX_OUTER + 2 {
        let most = MAX_OUTER + 2;
        let reason = format!("2 to {most} dimensions are possible; the last two are the rows and columns of a frame");
        return Err(Error::config("dims", names(), reason));
    }
    for (at, dim) in dims.iter().enumerate() {
        let name = &dim.name;
        if name.is_empty() || dims[..at].iter().any(|other| other.name == *name) {
            return Err(Error::config("dims.name", names(), "each dimension needs a name of its own"));
        }
        if dim.size == Some(0) {
            return Err(Error::config("dims.size", 0, format!("dimension {name} needs at least one element")));
        }
        if dim.size.is_none() && (at > 0 || dims.len() == 2) {
            let reason =
                format!("only the first dimension before rows and columns may be unbounded; give {name} a size");
            return Err(Error::config("dims.size", "unbounded", reason));
        }
        if !(dim.scale.is_finite() && dim.scale > 0.0) {
            return Err(Error::config("dims.scale", dim.scale, format!("dimension {name} needs a positive scale")));
        }
        if !dim.translation.is_finite() {
            let reason = format!("the place of dimension {name} is a finite number");
            return Err(Error::config("dims.translation", dim.translation, reason));
        }
    }
    let sizes = |dims: &[Dim]| {
        let sizes: Vec<_> = dims.iter().map(|dim| format!("{} of {}", dim.size.unwrap_or(0), dim.name)).collect();
        sizes.join(" and ")
    };
    let product = |dims: &[Dim]| dims.iter().try_fold(1u64, |product, dim| product.checked_mul(dim.size.unwrap_or(1)));
    let (outer, frame) = dims.split_at(dims.len() - 2);
    if product(outer).is_none_or(|frames| frames > FRAMES_MAX) {
        return Err(Error::config("dims.size", sizes(outer), format!("at most {FRAMES_MAX} frames are possible")));
    }
    let frame_bytes = product(frame).and_then(|pixels| pixels.checked_mul(config.dtype.size() as u64));
    if frame_bytes.is_none_or(|bytes| bytes > FRAME_BYTES_MAX) {
        return Err(Error::config("dims.size", sizes(frame), "a frame may hold at most 1 TiB"));
    }
    Ok(dims)
}

/// Of a new array alone: one that is repacked has the names that it has.
pub(super) fn check_names(config: &Config) -> Result<()> {
    let dims = config.dims.iter();
    let names = dims.clone().map(|dim| ("dims.name", "the name of a dimension", &dim.name));
    let units = dims.filter_map(|dim| Some(("dims.unit", "a unit", dim.unit.as_ref()?)));
    let image = config.name.iter().map(|name| ("name", "the name of an image", name));
    match names.chain(units).chain(image).find(|(.., text)| text.contains(char::is_control)) {
        None => Ok(()),
        Some((field, what, text)) => {
            Err(Error::config(field, quoted(text), format!("{what} has no control characters")))
        }
    }
}

pub(super) fn acquisition_order(config: &Config) -> Result<Vec<usize>> {
    let outer = &config.dims[..config.dims.len() - 2];
    let requested = &config.acquisition_order;
    if requested.is_empty() {
        return Ok((0..outer.len()).collect());
    }
    let refuse = |reason: &str| {
        let names: Vec<_> = outer.iter().map(|dim| dim.name.as_str()).collect();
        let reason = format!("{reason}; name each outer dimension once, slowest first: {}", names.join(", "));
        Error::config("acquisition_order", format_args!("[{}]", requested.join(", ")), reason)
    };
    let place = |name: &String| outer.iter().position(|dim| dim.name == *name);
    let order: Option<Vec<usize>> = requested.iter().map(place).collect();
    let order = order.ok_or_else(|| refuse("there is no such dimension"))?;
    let mut sorted = order.clone();
    sorted.sort_unstable();
    if sorted != (0..outer.len()).collect::<Vec<_>>() {
        return Err(refuse("a dimension is missing or named twice"));
    }
    if outer[0].size.is_none() && order[0] != 0 {
        return Err(refuse("an unbounded dimension can only be the slowest to arrive"));
    }
    Ok(order)
}

/// The shape of a chunk, with what is automatic filled in.
fn chunk_shape(config: &Config, acquired: &[usize]) -> Result<Vec<u64>> {
    let dims = &config.dims;
    let outer = dims.len() - 2;
    let element = config.dtype.size() as u64;
    let size = |dim: usize| length_of(dims, dim);
    let mut chunk: Vec<u64> = dims.iter().map(|dim| dim.chunk).collect();
    dialects::chunk_channels(config, &mut chunk)?;
    let [y, x] = [outer, outer + 1];
    let (auto_y, auto_x) = (chunk[y] == 0, chunk[x] == 0);
    chunk[y] = if auto_y { size(y) } else { chunk[y] };
    chunk[x] = if auto_x { size(x) } else { chunk[x] };
    let deep: u64 = chunk[..outer].iter().map(|&n| n.max(1)).fold(1, u64::saturating_mul);
    let bytes = |chunk: &[u64]| deep.saturating_mul(element).saturating_mul(chunk[y]).saturating_mul(chunk[x]);
    while bytes(&chunk) > AUTO_CHUNK_BYTES && ((auto_y && chunk[y] > 16) || (auto_x && chunk[x] > 16)) {
        let halve = if auto_y && chunk[y] > 16 && (chunk[y] >= chunk[x] || !auto_x || chunk[x] <= 16) { y } else { x };
        chunk[halve] = chunk[halve].div_ceil(2);
    }
    // Small frames: several of them make one chunk, along the dimension that arrives fastest.
    if let Some(&fastest) = acquired.last().filter(|&&dim| chunk[dim] == 0) {
        // A ring that two layers fill would leave the camera none.
        let frame = element.saturating_mul(size(y)).saturating_mul(size(x)).next_multiple_of(PAGE as u64);
        let ring_frames = (config.ring_bytes as u64 / frame.max(1) / RING_SHARE).max(1);
        let fit = (AUTO_CHUNK_BYTES / bytes(&chunk).max(1)).min(ring_frames);
        chunk[fastest] = if fit >= 8 { fit.min(size(fastest)) } else { 1 };
    }
    chunk.iter_mut().for_each(|n| *n = (*n).max(1));
    Ok(chunk)
}

/// Chunk and shard shapes, with the automatic ones filled in.
pub(super) fn chunks_and_shards(
    config: &Config,
    acquired: &[usize],
) -> Result<(Vec<u64>, Vec<u64>, Option<VolumePlan>)> {
    let dims = &config.dims;
    let size = |dim: usize| length_of(dims, dim);
    let chunk = chunk_shape(config, acquired)?;
    if !rules(config.dialect).shares_files {
        return Ok((chunk.clone(), chunk, None));
    }
    let mut shard: Vec<u64> = dims.iter().map(|dim| dim.shard).collect();
    if let Some(volume) = VolumePlan::new(config, &chunk, &mut shard)? {
        return Ok((chunk, shard, Some(volume)));
    }
    for dim in [dims.len() - 2, dims.len() - 1] {
        if shard[dim] == 0 {
            shard[dim] = size(dim).next_multiple_of(chunk[dim]);
        }
    }
    for &dim in acquired.iter().rev() {
        if shard[dim] == 0 {
            let element = config.dtype.size() as u64;
            let others: u64 =
                shard.iter().zip(&chunk).map(|(&s, &c)| if s == 0 { c } else { s }).fold(element, u64::saturating_mul);
            let grid = shard.iter().zip(&chunk).map(|(&s, &c)| if s == 0 { 1 } else { (s / c).max(1) });
            let chunks = grid.fold(1, u64::saturating_mul);
            let fit = (AUTO_SHARD_BYTES / (others / chunk[dim]).max(1))
                .min((AUTO_SHARD_CHUNKS / chunks).max(1).saturating_mul(chunk[dim]))
                .max(1);
            let whole = size(dim).checked_next_multiple_of(chunk[dim]).unwrap_or(u64::MAX);
            shard[dim] = if fit >= whole { whole } else { (fit / chunk[dim]).max(1) * chunk[dim] };
        }
    }
    for (dim, (&shard, &chunk)) in dims.iter().zip(shard.iter().zip(&chunk)) {
        if shard % chunk != 0 {
            let near = nearest_multiples(shard, chunk);
            let reason =
                format!("dimension {}: it is no multiple of the chunk's {chunk} elements, as {near}", dim.name);
            return Err(Error::config("dims.shard", shard, reason));
        }
    }
    Ok((chunk, shard, None))
}
