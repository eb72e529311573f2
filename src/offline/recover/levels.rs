//! Frames that level 0 has and a level of a pyramid lacks: a level gets a frame when the chunks below are complete, so
//! a run that is stopped leaves levels behind, be it by a chunk that waited for more. They are made of the level
//! before, as [`pyramid`](crate::offline::Pyramid) makes them, and stored with slot headers, as the writer would have
//! done.
//!
//! New chunks stand behind all that a shard has, and an index that names them comes last. Until then, the last bytes of
//! the file are the index as it was: the file grows by a copy of it before anything is written.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use rayon::prelude::*;

use super::image::ImagePlan;
use super::level_making::{Layers, LevelMaking};
use super::shard::{self, Action};
use super::target::RecoveryTarget;
use crate::codec::Encoder;
use crate::config::IndexLocation;
use crate::downsample::Method;
use crate::error::{Error, Result};
use crate::format::acquisition_map::AcquisitionMap;
use crate::format::layout::Layout;
use crate::format::slot_header::{HEADER_BYTES, Origin, SlotHeader, header};
use crate::format::{self, fill_value};
use crate::fs::system::FileExt;
use crate::geometry::{for_each_position, linear};
use crate::offline::array::Array;
use crate::offline::array::memory::{self, on_fitting_threads};
use crate::offline::halving::Halving;
use crate::offline::hierarchy::below;
use crate::offline::hierarchy::walk::Tree;
use crate::offline::levels::steps;
use crate::offline::pyramid::directions;
use crate::offline::ranges::Ranges;
use crate::ome::multiscales::{self, Dataset, ome_of};
use crate::words::{count, shell_word};

/// So many chunks in depth are looked at, and files made, at most: a stranger's document can ask for any number.
const LAYERS_MAX: u64 = 1 << 20;
const FILES_MAX: u64 = 1 << 16;
/// No shard is made longer, nor one with a longer index.
const SHARD_BYTES_MAX: u64 = 1 << 40;
const INDEX_BYTES_MAX: u64 = 16 << 20;

/// Notes which frames a level lacks that level 0 has, and how they are made. `planned`: level 0 and the levels before.
pub(super) fn plan(root: &Path, tree: &Tree, level: &mut ImagePlan, planned: &[ImagePlan]) {
    let finest = level.image.finest().and_then(|name| planned.iter().find(|plan| plan.image.node.name == name));
    let Some(finest) = finest else { return };
    level.lacking = lacking(level, finest);
    if level.lacking.count() > 0 {
        // In an archive, a shard has no room for more.
        level.making = if root.is_file() { None } else { making(tree, level, finest, planned) };
        level.behind = level.making.is_none().then(|| behind(root, tree, level));
    }
}

/// What to do about a level that can't get the frames that it lacks.
fn behind(root: &Path, tree: &Tree, level: &ImagePlan) -> String {
    let name = &level.image.node.name;
    let group = name.rsplit_once('/').map_or("", |(group, _)| group);
    let said = tree.group(group).and_then(|group| multiscales::images(ome_of(&group.attributes)).next());
    let made = said.and_then(|image| image.downsampling(multiscales::WRITER));
    let how = made.map_or_else(String::new, |made| format!(" --method {}{}", made.method, directions(&made)));
    let levels = said.map_or(1, |image| image.levels().count().saturating_sub(1).max(1));
    let (unpacked, root) = match root.is_file() {
        true => (format!("shardwright repack {} NEW.ome.zarr, and then ", shell_word(root)), Path::new("NEW.ome.zarr")),
        false => (String::new(), root),
    };
    let image = if group.is_empty() { root.to_path_buf() } else { root.join(group) };
    format!(
        "lacks {} that level 0 has; {unpacked}shardwright pyramid {}{how} --levels {levels} --overwrite makes all \
         levels again",
        count(level.lacking.count(), "frame"),
        shell_word(&image)
    )
}

/// The frames of a level that have pixels in level 0 and not here.
fn lacking(level: &ImagePlan, finest: &ImagePlan) -> Ranges {
    // A run that came to its end leaves its levels as they are.
    if !level.is_incomplete() || level.image.own.part.is_some() {
        return Ranges::default();
    }
    let all = Ranges::from(0..level.frames.end);
    of_level(level, &finest.frames.stored).and(&all).minus(&level.frames.present())
}

fn of_level(level: &ImagePlan, finest: &Ranges) -> Ranges {
    Ranges::new(finest.iter().flat_map(|range| level.image.own.level_frames.ranges(range)).collect())
}

/// How a level gets the frames that it lacks; `None` where they can't be made.
fn making(tree: &Tree, level: &ImagePlan, finest: &ImagePlan, planned: &[ImagePlan]) -> Option<LevelMaking> {
    let (node, name) = (&level.image.node, &finest.image.node.name);
    let (method, finer) = source(tree, &node.name)?;
    let below = planned.iter().find(|plan| plan.image.node.name == finer)?;
    let is_whole = |plan: &ImagePlan| {
        let stays = |action: &Action| matches!(action, Action::Leave(_));
        (plan.making.is_some() || plan.lacking.count() == 0) && !plan.changed.iter().any(|shard| stays(&shard.action))
    };
    let is_of_image = finer == *name || below.image.finest().as_ref() == Some(name);
    let dtype = node.array.dtype().number().filter(|dtype| below.image.node.array.dtype().number() == Some(*dtype))?;
    let factors = steps(&below.shape(), &level.shape()).filter(|factors| factors.iter().all(|factor| *factor <= 2))?;
    if !is_of_image || !is_whole(below) || !node.array.metadata().chain.is_plain() || !level.image.map.has_boxes() {
        return None;
    }
    let mut layout = node.array.layout().clone();
    layout.shape = level.shape();
    let map = AcquisitionMap::new(&layout, &level.image.own).ok()?;
    let (possible, frames) = (of_level(level, &finest.frames.present()), level.lacking.clone());
    let layers = layers(&map, &layout, &frames)?;
    let damaged = level.changed.iter().filter(|shard| shard.damaged || matches!(shard.action, Action::Leave(_)));
    let outer = level.shape().len() - 2;
    let is_left = damaged.into_iter().any(|shard| layers.contains_key(&shard.position[..outer]));
    let across = layout.file_grid()[outer..].iter().copied().fold(1, u64::saturating_mul);
    let is_huge = across.saturating_mul(layers.len() as u64) > FILES_MAX
        || layout.table().is_none_or(|table| table.bytes() > INDEX_BYTES_MAX);
    let slots_end = slots_end(level).filter(|_| !is_left && !is_huge)?;
    let halving = Halving::new(method, dtype, &factors);
    let chunk_bytes = node.array.metadata().chunk_bytes();
    Some(LevelMaking { finer, halving, map, possible, frames, layers, chunk_bytes, slots_end })
}

/// How a live writer has made a level, and the name of the array of which it did.
fn source(tree: &Tree, name: &str) -> Option<(Method, String)> {
    let group = name.rsplit_once('/').map_or("", |(group, _)| group);
    multiscales::images(ome_of(&tree.group(group)?.attributes)).find_map(|image| {
        let names: Vec<_> = image.levels().filter_map(Dataset::path).map(|path| below(group, path)).collect();
        let at = names.iter().position(|level| level == name)?;
        Some((image.method(multiscales::WRITER)?, names.into_iter().nth(at.checked_sub(1)?)?))
    })
}

/// Where slots end in fixed placement, and where the first chunk may stand in packed.
fn slots_end(level: &ImagePlan) -> Option<u64> {
    let slots = level.image.own.slots?;
    let fixed = if slots.are_fixed() { level.image.map.chunks_of(&[]).checked_mul(slots.bytes)? } else { 0 };
    slots.first_at.checked_add(fixed).filter(|end| *end <= SHARD_BYTES_MAX)
}

/// The chunks of frames, by their outer places; `None` if they are too many.
fn layers(map: &AcquisitionMap, layout: &Layout, frames: &Ranges) -> Option<Layers> {
    let (per_file, mut left) = (layout.chunks_per_file(), LAYERS_MAX);
    let mut layers = Layers::new();
    for range in frames.iter() {
        let mut number = range.start;
        while number < range.end {
            let frame = map.frame_position(number)?;
            let place: Vec<u64> = frame.iter().zip(&layout.chunk_shape).map(|(at, chunk)| at / chunk).collect();
            left = left.checked_sub(map.chunk_runs(&place).max(1))?;
            let mut end = number + 1;
            map.chunk_frames(&place, |run| end = if run.contains(&number) { run.end } else { end });
            number = end;
            let shard = place.iter().zip(&per_file).map(|(at, count)| at / count).collect();
            layers.entry(shard).or_default().insert(place);
        }
    }
    Some(layers)
}

impl LevelMaking {
    /// Makes the chunks that the level lacks, after its shards and those of the level before have got their indexes.
    /// Returns how many it has more than before.
    pub(super) fn make(
        &self,
        root: &Path,
        level: &ImagePlan,
        target: &RecoveryTarget,
        go_on: &(dyn Fn() -> Result<()> + Sync),
    ) -> Result<u64> {
        // The documents have new shapes by now.
        let open = |path: &Path| {
            let gone = || Error::conflict(path, "has gone while it was recovered");
            Array::open_exactly(path)?.ok_or_else(gone)
        };
        let (finer, array) = (open(&root.join(&self.finer))?, open(level.image.node.array.path())?);
        let grid = array.layout().file_grid();
        let mut shards = Vec::new();
        for (outer, layers) in &self.layers {
            for_each_position(&[0; 2], &grid[outer.len()..], |across| {
                shards.push(([outer, across].concat(), layers));
            });
        }
        let maker = || LevelMaker::new(self, root, level, target, &finer, &array);
        let make = |maker: &mut Result<LevelMaker>, (position, layers): &(Vec<u64>, &BTreeSet<Vec<u64>>)| {
            go_on()?;
            maker.as_mut().map_err(|error| error.clone())?.shard(position, layers)
        };
        let work = || shards.par_iter().map_init(maker, make).try_reduce(|| 0, |one, other| Ok(one + other));
        // A chunk, and what it is made of.
        on_fitting_threads(self.chunk_bytes.saturating_mul(1 + self.halving.reduction() as usize), work)
    }

    /// What the header of a chunk says of its frames, as that of a writer does: the first, how far the last is behind
    /// it, and how many there are.
    fn came(&self, place: &[u64]) -> Option<(u64, u32, u64)> {
        let (mut first, mut last, mut count) = (u64::MAX, 0, 0);
        self.map.chunk_frames(place, |run| {
            for range in self.possible.within(run) {
                (first, last) = (first.min(range.start), last.max(range.end - 1));
                count += range.end - range.start;
            }
        });
        Some((first, u32::try_from(last.checked_sub(first)?).ok()?, count))
    }
}

/// Makes chunks on one thread.
struct LevelMaker<'a> {
    making: &'a LevelMaking,
    root: &'a Path,
    level: &'a ImagePlan<'a>,
    target: &'a RecoveryTarget<'a>,
    finer: &'a Array,
    array: &'a Array,
    encoder: Encoder,
    /// Pixels that become a part of a chunk, that part, and all of the chunk, before and after it is encoded.
    whole: Vec<u8>,
    pixels: Vec<u8>,
    raw: Vec<u8>,
    sealed: Vec<u8>,
}

impl<'a> LevelMaker<'a> {
    fn new(
        making: &'a LevelMaking,
        root: &'a Path,
        level: &'a ImagePlan<'a>,
        target: &'a RecoveryTarget<'a>,
        finer: &'a Array,
        array: &'a Array,
    ) -> Result<Self> {
        let (mut raw, mut sealed) = (Vec::new(), Vec::new());
        let bytes = array.metadata().chunk_bytes();
        let element_bytes = array.dtype().codec_bytes();
        let large = |reason| Error::format(array.path(), reason);
        memory::resize(&mut raw, bytes).map_err(large)?;
        let bound = Encoder::bound_for(array.codec(), element_bytes, bytes)?;
        memory::resize(&mut sealed, HEADER_BYTES.saturating_add(bound)).map_err(large)?;
        let encoder = Encoder::new(array.codec(), element_bytes, bytes)?;
        let (whole, pixels) = Default::default();
        Ok(Self { making, root, level, target, finer, array, encoder, whole, pixels, raw, sealed })
    }

    /// Adds the chunks to a shard that it lacks of these layers. Returns how many it has more than before.
    fn shard(&mut self, position: &[u64], layers: &BTreeSet<Vec<u64>>) -> Result<u64> {
        let Self { root, level, target, array, .. } = *self;
        let path = array.file_path(position);
        let changed = || Error::conflict(&path, "changed while it was recovered: another program writes to it");
        let found = shard::plan(root, &level.image, &path, position)?;
        if found.shard.damaged || matches!(found.shard.action, Action::Leave(_)) {
            return Err(changed());
        }
        let known: HashMap<u32, SlotHeader> =
            found.chunks.iter().map(|seen| (seen.header.origin.chunk, seen.header)).collect();
        let lacking = self.lacking(position, layers, &known)?;
        if lacking.is_empty() {
            return Ok(0);
        }
        if !path.exists() {
            let empty = shard::empty(array).ok_or_else(changed)?;
            target.create(&path, &empty)?;
        }
        let failed = |error| Error::io("write", &path, error);
        let file = target.open_shard(&path)?;
        let len = file.metadata().map_err(failed)?.len();
        let mut at = len.max(self.making.slots_end).next_multiple_of(8);
        if let Some(table) = array.layout().table().filter(|table| table.location() == IndexLocation::End) {
            let mut index = vec![0; table.bytes() as usize];
            file.read_exact_at(&mut index, len.checked_sub(table.bytes()).ok_or_else(changed)?).map_err(failed)?;
            let room = (self.sealed.len() as u64).next_multiple_of(8).saturating_mul(lacking.len() as u64);
            file.write_all_at(&index, at.saturating_add(room)).map_err(failed)?;
            file.sync_data().map_err(failed)?;
        }
        for (place, origin) in &lacking {
            let nbytes = self.seal(place, origin)?;
            file.write_all_at(&self.sealed[..nbytes], at).map_err(failed)?;
            at += (nbytes as u64).next_multiple_of(8);
        }
        drop(file);
        let index = shard::plan(root, &level.image, &path, position)?.index.ok_or_else(changed)?;
        target.write_index(&path, &index)?;
        Ok(lacking.iter().filter(|(_, origin)| !known.contains_key(&origin.chunk)).count() as u64)
    }

    /// The chunks of these layers that a shard lacks, or has with fewer frames, and what their headers are to say.
    fn lacking(
        &self,
        position: &[u64],
        layers: &BTreeSet<Vec<u64>>,
        known: &HashMap<u32, SlotHeader>,
    ) -> Result<Vec<(Vec<u64>, Origin)>> {
        let Self { making, level, array, .. } = *self;
        let (map, own) = (&making.map, &level.image.own);
        let (first, counts) = array.layout().chunks_of(position);
        let mut lacking = Vec::new();
        for outer in layers {
            let outside = || Error::format(array.path(), format!("has no place for the chunks at {outer:?}"));
            let (first_frame, frames, count) = making.came(outer).ok_or_else(outside)?;
            let frames_came = u16::try_from(count).unwrap_or(0);
            let has_all = |header: &SlotHeader| {
                let Origin { first_frame: first, frames: span, frames_came: came, .. } = header.origin;
                (first, span) == (first_frame, frames) && [0, frames_came].contains(&came)
            };
            let shard = map.shard_number(position).ok_or_else(outside)?;
            let tiles = outer.len();
            let mut places = Vec::new();
            for_each_position(&first[tiles..], &counts[tiles..], |tile| places.push([outer, tile].concat()));
            for place in places {
                let chunk = map.chunk_number(position, &place).and_then(|number| u32::try_from(number).ok());
                let chunk = chunk.ok_or_else(outside)?;
                let checksum_in_payload = array.codec().checksum;
                let dataset = own.writer;
                let origin = Origin { dataset, shard, chunk, first_frame, frames, frames_came, checksum_in_payload };
                if !known.get(&chunk).is_some_and(has_all) {
                    lacking.push((place, origin));
                }
            }
        }
        Ok(lacking)
    }

    /// Makes the chunk at a place, with its header; returns how many bytes both have.
    fn seal(&mut self, place: &[u64], origin: &Origin) -> Result<usize> {
        let Self { making, finer, array, whole, pixels, raw, sealed, encoder, .. } = self;
        let layout = array.layout();
        let (start, shape) = layout.elements_of(place, &vec![1; place.len()]);
        let bytes = format::bytes(&shape, array.dtype()).and_then(|bytes| usize::try_from(bytes).ok());
        let large = |reason| Error::format(array.path(), reason);
        memory::resize(pixels, bytes.unwrap_or(usize::MAX)).map_err(large)?;
        let pixels = &mut pixels[..bytes.unwrap_or(0)];
        making.halving.read(finer, &start, &shape, pixels, whole)?;
        fill_value::row(raw, &array.metadata().fill);
        let (last, element) = (shape.len() - 1, array.dtype().size());
        let row_bytes = shape[last] as usize * element;
        let mut rows = pixels.chunks_exact(row_bytes);
        for_each_position(&vec![0; last], &shape[..last], |row| {
            let to = linear(&[row, &[0]].concat(), &layout.chunk_shape) as usize * element;
            rows.next().into_iter().for_each(|row| raw[to..to + row_bytes].copy_from_slice(row));
        });
        let nbytes = encoder.encode(raw, &mut sealed[HEADER_BYTES..])?;
        let (head, payload) = sealed.split_at_mut(HEADER_BYTES);
        head.copy_from_slice(&header(origin, &payload[..nbytes]));
        Ok(HEADER_BYTES + nbytes)
    }
}
