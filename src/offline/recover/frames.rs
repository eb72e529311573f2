//! Which frames of an image are there.

use std::collections::HashMap;
use std::ops::Range;

use super::Image;
use super::shard::{Action, ShardPlan};
use crate::dtype::Dtype;
use crate::error::{Error, Result};
use crate::offline::metadata;
use crate::offline::ranges::{Gather, Ranges};
use crate::offline::region::for_each_position;
use crate::offline::shard_file::ShardFile;
use crate::offline::tree::{Node, Tree, below};
use crate::record::{NO_FRAME, NOT_KNOWN};

/// How many ranges of missing frames the documents name, as the writer does; the count goes on beyond.
const MISSING_RANGES_MAX: usize = 10_000;
/// More frames than that were never recorded by anybody; hostile headers could promise them.
const COUNTED_MAX: u64 = 1 << 32;

#[derive(Debug, Default)]
pub(super) struct Frames {
    /// One past the highest number that is known of.
    pub(super) end: u64,
    pub(super) missing: Vec<Range<u64>>,
    pub(super) missing_count: u64,
}

/// What was found of the chunks that hold the same frames.
struct Layer {
    chunks: u64,
    /// All of them are in shards that the writer closed.
    closed: bool,
}

pub(super) fn count(tree: &Tree, image: &Image, shards: &[ShardPlan]) -> Result<Frames> {
    let Image { own, places, .. } = image;
    let layers = layers(image, shards)?;
    let came_or_not = Records::read(tree, image)?;
    let found_end =
        shards.iter().flat_map(|shard| &shard.chunks).map(|seen| seen.header.last_frame().saturating_add(1));
    // Of an array that grows, the documents said as it went how far it had come.
    let recorded = records(tree, image).filter(|_| own.unbounded).and_then(|node| node.array.shape().first().copied());
    let ends = [found_end.max(), own.frames, recorded].into_iter().flatten();
    let room = if own.unbounded { None } else { places.frames().filter(|_| !places.grows()) };
    let end = ends.max().unwrap_or(0).min(room.unwrap_or(u64::MAX));

    // The document must not come to promise more than any reader can count.
    let fits = |extent: u64| {
        let mut shape = image.node.array.shape().to_vec();
        shape[0] = shape[0].max(extent);
        metadata::bytes(&shape, image.node.array.dtype()).is_some()
    };
    if places.extent(end).is_some_and(|extent| !fits(extent)) {
        let reason = format!("{end} frames of {:?} are more than an array can hold", image.node.array.shape());
        return Err(Error::format(image.node.array.path(), reason));
    }

    let skips = own.slots.is_none_or(|slots| !slots.empty_chunks);
    let tiles = places.tiles();
    let (mut proven, mut present) = (Gather::default(), Gather::default());
    let mut budget = COUNTED_MAX;
    for (position, layer) in &layers {
        let whole = layer.chunks == tiles;
        // In a shard that the writer closed, a chunk that is not there held only the fill value.
        if whole || (layer.closed && skips) {
            places.each_frame(position, |frame| {
                present.add(frame);
                if whole && places.one_frame_a_chunk() {
                    proven.add(frame);
                }
            });
            budget =
                budget.checked_sub(image.node.array.chunk_shape().iter().rev().skip(2).product()).ok_or_else(|| {
                    Error::format(image.node.array.path(), format!("more than {COUNTED_MAX} frames are not counted"))
                })?;
        }
    }
    let (present, proven) = (present.ranges(), proven.ranges());
    let dark = if skips { closed_frames(image, shards).and(&came_or_not.came) } else { Ranges::default() };
    let present = present.minus(&came_or_not.absent.minus(&proven)).union(&dark);
    let all = Ranges::from(0..end);
    // What was known to be missing stays so, unless its pixels are there: a shard that was recovered once looks as if its
    // writer had closed it.
    let missing = all.minus(&present).union(&Ranges::new(own.missing.clone()).minus(&proven)).and(&all);
    let known = if own.recovered { own.frames_missing } else { 0 };
    let missing_count = missing.count().max(known);
    let mut missing = missing.into_vec();
    missing.truncate(MISSING_RANGES_MAX);
    Ok(Frames { end, missing, missing_count })
}

/// The layers of which a chunk was found, in the order of their places.
fn layers(image: &Image, shards: &[ShardPlan]) -> Result<Vec<(Vec<u64>, Layer)>> {
    let mut layers: HashMap<Vec<u64>, Layer> = HashMap::new();
    let outer = image.node.array.shape().len() - 2;
    for shard in shards {
        for seen in &shard.chunks {
            let place = image.places.chunk_position(&shard.position, seen.header.chunk.into());
            let mut place = place.ok_or_else(|| Error::format(&shard.path, "holds a chunk outside the array"))?;
            place.truncate(outer);
            let layer = layers.entry(place).or_insert(Layer { chunks: 0, closed: true });
            layer.chunks += 1;
            layer.closed &= shard.closed;
        }
    }
    let mut layers: Vec<_> = layers.into_iter().collect();
    layers.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(layers)
}

/// The frames of all shards that the writer closed.
fn closed_frames(image: &Image, shards: &[ShardPlan]) -> Ranges {
    let array = &image.node.array;
    let outer = array.shape().len() - 2;
    let closed = |shard: &&ShardPlan| shard.closed && matches!(shard.action, Action::Nothing);
    // Where a hash deals chunks out, every shard holds some of most frames.
    if !image.places.has_boxes() {
        let all = shards.iter().all(|shard| closed(&shard));
        return image.places.frames().filter(|_| all).map_or_else(Ranges::default, |frames| Ranges::from(0..frames));
    }
    let per_file = array.metadata().chunks_per_file();
    let mut frames = Gather::default();
    for shard in shards.iter().filter(closed) {
        let first: Option<Vec<u64>> = (0..outer).map(|dim| shard.position[dim].checked_mul(per_file[dim])).collect();
        let Some(first) = first else { continue };
        for_each_position(&first, &per_file[..outer], |layer| {
            image.places.each_frame(layer, |frame| frames.add(frame));
        });
    }
    frames.ranges()
}

/// The array that holds the numbers of the frames that came.
fn records<'a>(tree: &'a Tree, image: &Image) -> Option<&'a Node> {
    tree.array(&below(&image.group.name, "records/frame_number"))
}

/// What the records say, as far as they were written.
#[derive(Default)]
struct Records {
    came: Ranges,
    absent: Ranges,
}

impl Records {
    fn read(tree: &Tree, image: &Image) -> Result<Self> {
        let Some(node) = records(tree, image) else { return Ok(Self::default()) };
        let array = &node.array;
        if array.dtype() != Dtype::I64 || array.shape().len() != 1 || array.shard_shape().is_some() {
            return Err(Error::format(array.path(), "is not a list of frame numbers"));
        }
        let (mut came, mut absent) = (Gather::default(), Gather::default());
        let mut worker = array.worker()?;
        for (path, position) in &node.files {
            let Some(file) = ShardFile::open(path.clone())? else { continue };
            match array.decode(&mut worker, &file, file.whole(), position) {
                Ok(()) => {}
                Err(error @ Error::Io { .. }) => return Err(error),
                // They help to tell what is missing; without them less is known.
                Err(_) => continue,
            }
            let start = position[0].saturating_mul(array.chunk_shape()[0]);
            let (numbers, _) = worker.raw.as_chunks::<8>();
            for (number, frame) in numbers.iter().zip(start..) {
                match i64::from_le_bytes(*number) {
                    NO_FRAME => absent.add(frame),
                    NOT_KNOWN => {}
                    _ => came.add(frame),
                }
            }
        }
        Ok(Self { came: came.ranges(), absent: absent.ranges() })
    }
}
