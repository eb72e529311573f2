//! What is recovered: the images that this crate's writer made, and what may be changed.

use std::path::{Path, PathBuf};

use crate::config::IndexLocation;
use crate::error::{Error, Result};
use crate::format::acquisition_map::AcquisitionMap;
use crate::format::provenance::Provenance;
use crate::format::slot_header::SlotHeader;
use crate::fs::links;
use crate::offline::array::Array;
use crate::offline::hierarchy::walk::{ArrayNode, Tree};
use crate::offline::hierarchy::{self, GroupAttributes, below};
use crate::offline::ranges::Ranges;
use crate::offline::unfinished_parts::unfinished as in_parts;

/// An image of this crate's writer.
pub(super) struct WrittenImage<'a> {
    pub(super) own: Provenance,
    pub(super) group: &'a GroupAttributes,
    pub(super) node: &'a ArrayNode,
    pub(super) map: AcquisitionMap,
    /// Of a level of a pyramid: those that it may have, and where they end.
    pub(super) frames: Option<(u64, Ranges)>,
    /// Of a level, how long its first dimension is by the array that it is a level of, whatever its document says.
    pub(super) extent: Option<u64>,
}

impl WrittenImage<'_> {
    /// The name of the array whose frames a level has.
    pub(super) fn finest(&self) -> Option<String> {
        let group = self.node.name.rsplit_once('/').map_or("", |(group, _)| group);
        self.own.level_of.as_ref().map(|finest| below(group, finest))
    }

    /// The error of documents by which a shard can't have been written.
    pub(super) fn unlike(&self, shard: &Path, contradiction: &str) -> Error {
        let (array, slots) = (self.node.array.document(), &self.group.document);
        let or = if array == slots { String::new() } else { format!(", or {} is not", slots.display()) };
        let reason = format!(
            "is not the document that {} was written by{or}: {contradiction}; put that back; nothing is changed",
            shard.display()
        );
        Error::format(array, reason)
    }

    /// Refuses an index in the place of the slots, and links to the shards of other arrays, before anything is written
    /// there.
    fn checked(self, tree: &Tree) -> Result<Self> {
        refuse_links(tree, self.node)?;
        let layout = self.node.array.layout();
        let at_start = layout.table().filter(|table| table.location() == IndexLocation::Start);
        let head = layout.minishard_head().or(at_start.map(|table| table.bytes())).unwrap_or(0);
        let Some(slots) = self.own.slots.filter(|slots| slots.first_at < head) else { return Ok(self) };
        let reason = format!(
            "the index of a shard would have the first {head} bytes, but by {} slots begin at {}; put the document \
             back by which the shards were written; nothing is changed",
            self.group.document.display(),
            slots.first_at
        );
        Err(Error::format(self.node.array.document(), reason))
    }

    /// Of a level, the frames that it may have, and where they end, by those that level 0 has: no more than these of a
    /// run that was stopped, in which a level may be ahead. `None`: what a run that came to its end has
    /// written is sound, whatever level 0 has lost since.
    pub(super) fn frames_of_level(&self, finest_end: u64, finest: &Ranges) -> Option<(u64, Ranges)> {
        let own = &self.own;
        if own.complete {
            return None;
        }
        let present = Ranges::new(finest.iter().flat_map(|range| own.level_frames.ranges(range)).collect());
        let end = own.level_frames.end(finest_end);
        // Nor does a recovered level lose what it had when it was recovered.
        let missing = Ranges::new(own.missing.clone());
        let Some(frames) = own.frames.filter(|_| own.recovered && missing.count() >= own.frames_missing) else {
            return Some((end, present));
        };
        Some((end.max(frames), present.union(&Ranges::from(0..frames).minus(&missing))))
    }

    /// Whether all frames of a level's chunk are in level 0.
    pub(super) fn has_frames_of(&self, shard: &[u64], header: &SlotHeader) -> bool {
        let Some((_, frames)) = &self.frames else { return true };
        let Some(place) = self.map.chunk_position(shard, header.origin.chunk.into()) else { return false };
        let (mut possible, mut there) = (0, 0);
        self.map.chunk_frames(&place, |range| {
            let range =
                range.start.max(header.origin.first_frame)..range.end.min(header.last_frame().saturating_add(1));
            possible += range.end.saturating_sub(range.start);
            there += frames.count_within(range);
        });
        // 0: which of them came is not said.
        let came = if header.origin.frames_came == 0 { possible } else { u64::from(header.origin.frames_came) };
        there >= came
    }
}

pub(super) fn images<'a>(root: &Path, tree: &'a Tree) -> Result<Vec<WrittenImage<'a>>> {
    // Without its documents nothing about a shard is sure.
    let is_in_the_way = |error: &&Error| match error {
        Error::Unsupported { path, .. } => links::check(path).is_err(),
        _ => true,
    };
    if let Some(error) = tree.broken.iter().find(is_in_the_way) {
        return Err(error.clone());
    }
    let (mut images, mut parts, mut finished, mut unfinished) = (Vec::new(), None, false, false);
    for group in &tree.groups {
        let Some(own) = Provenance::parse(&group.path, &group.attributes)? else { continue };
        if own.parts.is_some() && !own.complete && !own.recovered {
            parts = own.parts;
            continue;
        }
        if own.slots.is_none() {
            // It was repacked: a shard without slot headers looks as one that nothing was written to.
            let is_finished = own.complete || own.recovered;
            (finished, unfinished) = (finished || is_finished, unfinished || !is_finished);
            continue;
        }
        let missing = || {
            let image = if group.image == group.name { group.path.clone() } else { group.path.join("0") };
            let is_its = |error: &&Error| match error {
                Error::Format { path, .. } | Error::Unsupported { path, .. } => path.starts_with(&image),
                _ => false,
            };
            tree.broken.iter().find(is_its).cloned().unwrap_or_else(|| {
                Error::format(
                    &group.path,
                    format!("its writer made an array {} in it, which is not there", group.image),
                )
            })
        };
        let node = tree.array(&group.image).ok_or_else(missing)?;
        if !node.array.layout().has_index() {
            let reason = "is no array of shards: only the slot headers in these tell what was written";
            return Err(Error::unsupported(node.array.path(), reason));
        }
        let map = node.array.acquisition_map(&own)?;
        images.push(WrittenImage { own, group, node, map, frames: None, extent: None }.checked(tree)?);
    }
    if let (true, Some(parts)) = (images.is_empty(), parts) {
        return Err(Error::unfinished(root, in_parts(parts)));
    }
    let is_root = |error: &&Error| match error {
        Error::Format { path, .. } | Error::Unsupported { path, .. } => path.parent() == Some(root) || path == root,
        _ => true,
    };
    if let (true, Some(error)) = (images.is_empty(), tree.broken.iter().find(is_root)) {
        return Err(error.clone());
    }
    // Of what was finished before it was repacked, there is nothing to recover.
    if images.is_empty() && (unfinished || !finished) {
        return Err(no_images(root, unfinished));
    }
    Ok(images)
}

/// Refuses links from where an array's shards are to those of an array of the same dataset: what is changed in one of
/// them would be lost in the other.
fn refuse_links(tree: &Tree, node: &ArrayNode) -> Result<()> {
    let folder = node.array.folder();
    let mut known = None;
    // Most files share their folders.
    let new_folders =
        node.files.iter().filter_map(|(path, _)| path.parent().filter(|above| known.replace(*above) != Some(above)));
    let folders = new_folders.flat_map(|above| above.ancestors().take_while(|above| *above != folder));
    let files = node.files.iter().map(|(path, _)| path.as_path());
    let again = tree.again.iter().map(PathBuf::as_path).filter(|link| holds(&node.array, link));
    for link in again.chain(folders).chain(files).filter(|path| path.is_symlink()) {
        let Ok(target) = link.canonicalize() else { continue };
        if let Some(other) = tree.arrays.iter().find(|other| holds(&other.array, &target)) {
            let reason = format!(
                "is a link to {}, where the array {} of the same dataset has its shards; put shards in its place, or \
                 remove it where there are none; nothing is changed",
                target.display(),
                if other.name.is_empty() { "itself" } else { &other.name }
            );
            return Err(Error::unsupported(link, reason));
        }
    }
    Ok(())
}

/// Whether a path is one of an array's shards, or a folder of them.
fn holds(array: &Array, path: &Path) -> bool {
    let key = path.strip_prefix(array.folder()).ok().and_then(Path::to_str);
    key.is_some_and(|key| array.layout().has_files_in(key) || array.layout().file_position(key).is_some())
}

/// Why nothing can be recovered where there is no image with slot headers.
fn no_images(root: &Path, unfinished: bool) -> Error {
    let reason = match (unfinished, hierarchy::image_around(root)) {
        (true, _) => {
            "it was repacked before its writer had finished, which leaves no slot headers: only these can tell what \
             was written"
        }
        (false, Some(image)) => {
            return Error::not_found(root, format!("is a part of an image; name that, {}", image.display()));
        }
        (false, None) => "no image in it was made by shardwright: only its own slot headers can tell what was written",
    };
    Error::unsupported(root, reason)
}

pub(super) fn name(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned()
}
