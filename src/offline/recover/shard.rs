//! One shard: which of its chunks are whole, and the index that says so.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::iter;
use std::path::{Path, PathBuf};

use super::room;
use super::source::{WrittenImage, name};
use crate::config::{Compressor, IndexLocation};
use crate::error::{Error, Result};
use crate::format::index::{Encoded, Range};
use crate::format::layout::product;
use crate::format::slot_header::HEADER_BYTES;
use crate::fs::links;
use crate::fs::system::{FileExt, give_back};
use crate::geometry::{for_each_position, grid};
use crate::offline::array::Array;
use crate::offline::array::index::Index;
use crate::offline::array::shard_file::ShardFile;
use crate::offline::hierarchy::walk::FileAt;
use crate::offline::scan::{ExpectedHeaders, Scan, Seen};

/// A larger index is believed, or made, only for a file that has as much: a document's few bytes can ask for any size.
const INDEX_BYTES_FREE: u64 = 16 << 20;

/// A document alone may ask for this many files more than there are, and for this many for each that is there.
const FILES_MORE: u64 = 1 << 10;
const FILES_EACH: u64 = 64;
/// This many bytes of empty indexes are written at most.
const BYTES_MAX: u64 = 256 << 20;

/// What is to become of a shard.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Action {
    #[default]
    Nothing,
    NewIndex,
    /// It becomes a shard in which nothing is.
    Empty,
    /// As before, but it is not there.
    Create,
    /// Nothing was ever committed to it.
    Remove,
    /// It ends before its first chunk does: of its chunks, nothing is left.
    RemoveLost,
    Leave(String),
}

/// A shard, and what is to become of it.
#[derive(Debug, Default)]
pub(super) struct DamagedShard {
    pub(super) path: PathBuf,
    pub(super) position: Vec<u64>,
    pub(super) action: Action,
    /// Those that are whole.
    pub(super) chunks: u64,
    /// Those that the index names; `None` if it can't be read.
    pub(super) chunks_before: Option<u64>,
    /// The index named bytes that no header accounts for. Perhaps somebody can make something of them, so the file
    /// keeps all that it has, in later recoveries too.
    pub(super) damaged: bool,
}

/// What shards add up to.
#[derive(Debug, Default)]
pub(super) struct RecoveredSums {
    pub(super) chunks: u64,
    pub(super) salvaged: u64,
    pub(super) dropped: u64,
    /// Of a level: those whose frames level 0 lacks.
    pub(super) ahead: u64,
    pub(super) torn: u64,
    /// One past the highest frame number that a header names.
    pub(super) frames_end: u64,
    /// Of a volume that grows: the deepest layer of chunks found, and how many planes its chunks have.
    pub(super) deepest: Option<(u64, u64)>,
    /// The writer itself closed them: what is not there now was never to come.
    pub(super) closed: bool,
}

#[derive(Debug)]
pub(super) struct NewIndex {
    index: Encoded,
    /// What must not be given back to the file system, in ascending order.
    used: Vec<Range>,
}

#[derive(Debug)]
pub(super) struct ShardRecovery {
    pub(super) shard: DamagedShard,
    pub(super) sums: RecoveredSums,
    /// The chunks that are whole.
    pub(super) chunks: Vec<Seen>,
    /// For [`Action::NewIndex`].
    pub(super) index: Option<NewIndex>,
    /// What can be given back to the disk whether the recovery goes on or not.
    pub(super) unused: Vec<Range>,
}

/// What the index says, by the numbers that slot headers give chunks.
struct IndexedChunks {
    chunks: BTreeMap<u64, Range>,
    /// Something in it can't be understood, and names nothing.
    broken: bool,
    /// Where the part of the index starts that ends with the file.
    tail_at: Option<u64>,
}

/// What is to be done with the shard at `path`.
///
/// # Errors
///
/// [`Error::Unsupported`] for a shard behind a link that has to change: only what is in the dataset itself is changed,
/// and without the change its frames would be given up. So they would where something stands in its place that can't be
/// opened as a file.
pub(super) fn plan(root: &Path, image: &WrittenImage, path: &Path, position: &[u64]) -> Result<ShardRecovery> {
    let plan = look(image, path, position)?;
    let stays = matches!(plan.shard.action, Action::Nothing | Action::Leave(_));
    match links::stays_below(root, path) {
        Err(Error::Format { path, reason }) if !stays => {
            let help = "put the shard itself in the place of the link";
            Err(Error::Unsupported { path, reason: format!("has to change, but {reason}; {help}") })
        }
        _ => Ok(plan),
    }
}

fn look(image: &WrittenImage, path: &Path, position: &[u64]) -> Result<ShardRecovery> {
    let damaged = image.own.damaged_shards.contains(&name(image.node.array.folder(), path));
    let shard =
        DamagedShard { path: path.to_path_buf(), position: position.to_vec(), damaged, ..DamagedShard::default() };
    let mut plan =
        ShardRecovery { shard, sums: RecoveredSums::default(), chunks: Vec::new(), index: None, unused: Vec::new() };
    let leave = |mut plan: ShardRecovery, reason: &str| {
        plan.shard.action = Action::Leave(reason.to_owned());
        Ok(plan)
    };
    let file = match ShardFile::open(path.to_path_buf()) {
        Ok(Some(file)) => file,
        Ok(None) => return Ok(plan),
        // It may be whole, and what is not counted would be given up.
        Err(error) => return Err(error),
    };
    let array = &image.node.array;
    let expected = match expected(image, position, &file) {
        Ok(expected) => expected,
        Err(reason) => return leave(plan, &reason),
    };
    let named = match array.read_index(&file, position, None) {
        Ok(index) => Some(IndexedChunks::new(&index, image, position, file.len())),
        Err(Error::Format { .. }) => None,
        Err(error) => return Err(error),
    };
    let scan = match expected.scan(&file, &[]) {
        Ok(scan) => scan,
        Err(Error::Format { reason, .. }) => return leave(plan, &reason),
        Err(error) => return Err(error),
    };
    if let Some(contradiction) = &scan.contradiction {
        return Err(image.unlike(path, contradiction));
    }
    plan.shard.chunks_before = named.as_ref().map(IndexedChunks::count);
    plan.unused = room::unused(&expected, &scan, named.iter().flat_map(|named| named.chunks.values()), {
        let at_end = expected.index_location == IndexLocation::End;
        let table_at = if at_end { file.len().saturating_sub(expected.index_bytes) } else { file.len() };
        named.as_ref().and_then(|named| named.tail_at).unwrap_or(table_at)
    });
    match scan.seen.is_empty() {
        true => plan.without_chunks(&file, &expected, &scan, named.as_ref(), keeps_empty(array)),
        false => plan.decide(&file, image, &expected, &scan, named.as_ref())?,
    }
    // What no place is known for would be given back to the disk, or written over.
    if plan.shard.action != Action::Nothing
        && let Some(contradiction) = expected.contradiction_elsewhere(&file, &scan)?
    {
        return Err(image.unlike(path, &contradiction));
    }
    let ends = plan.chunks.iter().map(|seen| seen.header.last_frame().saturating_add(1));
    plan.sums.frames_end = ends.max().unwrap_or(0);
    if image.own.unbounded {
        plan.sums.deepest = deepest(&file, image, position, &plan.chunks)?;
    }
    Ok(plan)
}

/// What the writer's books let one expect of the shard at `position`; or why it has to be left as it is.
fn expected<'a>(image: &'a WrittenImage, position: &'a [u64], file: &ShardFile) -> Result<ExpectedHeaders<'a>, String> {
    let array = &image.node.array;
    let head_bytes = array.layout().minishard_head();
    let table_bytes = array.layout().table().map(|layout| layout.bytes());
    let index_bytes = head_bytes.or(table_bytes).unwrap_or(0);
    let expected = ExpectedHeaders::new(array, &image.own, &image.map, position, index_bytes)
        .filter(|_| image.map.has_file(position))
        .ok_or("lies outside the array")?;
    let on_disk = file.disk_bytes();
    if let Some(bytes) = table_bytes.filter(|&bytes| bytes > on_disk.max(INDEX_BYTES_FREE)) {
        return Err(format!("its index would have {bytes} bytes, and the whole file takes {on_disk}"));
    }
    Ok(expected)
}

/// The copy of each chunk that stays, should it be there twice.
fn best_of_each(
    image: &WrittenImage,
    shard: &[u64],
    scan: &Scan,
    named: Option<&IndexedChunks>,
) -> BTreeMap<u32, Seen> {
    // The one with more frames; of two alike, which are both what was committed, the one that readers have seen.
    let worth = |seen: &Seen| {
        // 0 is more than can be said.
        let came = seen.header.origin.frames_came.wrapping_sub(1);
        (seen.header.origin.frames, came, named.is_some_and(|named| named.names(seen)))
    };
    let mut chunks: BTreeMap<u32, Seen> = BTreeMap::new();
    for seen in scan.seen.iter().filter(|seen| seen.whole && image.has_frames_of(shard, &seen.header)) {
        let other = chunks.entry(seen.header.origin.chunk).or_insert(*seen);
        if worth(seen) > worth(other) {
            *other = *seen;
        }
    }
    chunks
}

/// The deepest layer of chunks in a volume's shard, and how many planes its chunks have: those that end with the volume
/// have fewer than others.
fn deepest(file: &ShardFile, image: &WrittenImage, position: &[u64], chunks: &[Seen]) -> Result<Option<(u64, u64)>> {
    let array = &image.node.array;
    if !array.layout().rules().cuts_chunks {
        return Ok(None);
    }
    let mut deepest: Option<(u64, u64)> = None;
    for seen in chunks {
        let Some(place) = image.map.chunk_position(position, seen.header.origin.chunk.into()) else { continue };
        if deepest.is_some_and(|(layer, _)| place[0] < layer) {
            continue;
        }
        let mut bytes = seen.range.nbytes;
        if array.codec().compressor != Compressor::None {
            // The last field of a gzip stream is its length before compression.
            let mut length = [0; 4];
            file.read_exactly(seen.end().saturating_sub(4), &mut length)?;
            bytes = u32::from_le_bytes(length).into();
        }
        let Some(planes) = array.layout().planes(&place, bytes, array.dtype().size() as u64) else { continue };
        let planes = planes.min(array.chunk_shape()[0]);
        deepest = Some(match deepest {
            Some((layer, known)) if layer == place[0] => (layer, known.min(planes)),
            _ => (place[0], planes),
        });
    }
    Ok(deepest)
}

impl IndexedChunks {
    fn new(index: &Index, image: &WrittenImage, shard: &[u64], file_end: u64) -> Self {
        let mut tail_at = file_end;
        let mut parts = index.parts();
        parts.sort_by_key(|part| part.offset);
        for part in parts.iter().rev().filter(|part| part.nbytes > 0 && (part.offset > 0 || part.nbytes == file_end)) {
            if part.offset + part.nbytes == tail_at {
                tail_at = part.offset;
            }
        }
        let tail_at = Some(tail_at).filter(|&at| at < file_end);
        let mut named = Self { chunks: BTreeMap::new(), broken: index.broken().next().is_some(), tail_at };
        for (entry, range) in index.entries() {
            let place = image.node.array.layout().chunk_at(shard, entry);
            let number = place.and_then(|place| image.map.chunk_number(shard, &place));
            match (number, range) {
                (Some(number), Ok(range)) => drop(named.chunks.insert(number, range)),
                _ => named.broken = true,
            }
        }
        named
    }

    fn count(&self) -> u64 {
        self.chunks.len() as u64
    }

    fn names(&self, seen: &Seen) -> bool {
        self.chunks.get(&seen.header.origin.chunk.into()) == Some(&seen.range)
    }
}

/// Whether readers of the array want a shard to be there even if nothing is in it.
pub(super) fn keeps_empty(array: &Array) -> bool {
    array.layout().rules().keeps_empty
}

/// A shard in which nothing is.
pub(super) fn empty(array: &Array) -> Option<NewIndex> {
    array.layout().table().filter(|layout| layout.bytes() > 0)?;
    let index = array.layout().encode_index(iter::empty(), 0).ok()?;
    Some(NewIndex { index, used: Vec::new() })
}

/// The places of an array of `shape` where a shard should be and is not, but for a document that asks for far more of
/// them than a run that had begun can have left: a few bytes must not fill a disk.
pub(super) fn empty_shards(array: &Array, shape: &[u64], files: &[FileAt]) -> Vec<Vec<u64>> {
    let Some(layout) = array.layout().table().filter(|_| keeps_empty(array)) else { return Vec::new() };
    let grid = grid(shape, &array.layout().file_shape);
    let most = FILES_EACH.saturating_mul(files.len() as u64).saturating_add(FILES_MORE);
    let few = |count: &u64| *count <= most && count.saturating_mul(layout.bytes()) <= BYTES_MAX;
    if product(&grid).filter(few).is_none() {
        return Vec::new();
    }
    let known: HashSet<&[u64]> = files.iter().map(|(_, position)| position.as_slice()).collect();
    let mut positions = Vec::new();
    for_each_position(&vec![0; grid.len()], &grid, |position| {
        if !known.contains(position) {
            positions.push(position.to_vec());
        }
    });
    positions
}

/// Whether a shard at a place would be missed by a reader, be it empty.
pub(super) fn is_wanted(array: &Array, shape: &[u64], position: &[u64]) -> bool {
    keeps_empty(array) && position.iter().zip(grid(shape, &array.layout().file_shape)).all(|(at, count)| *at < count)
}

impl Action {
    /// Whether the file goes.
    pub(super) fn is_removal(&self) -> bool {
        matches!(self, Self::Remove | Self::RemoveLost)
    }
}

impl ShardRecovery {
    /// A shard without any header of its own: it goes only if nothing was ever put into it.
    fn without_chunks(
        &mut self,
        file: &ShardFile,
        expected: &ExpectedHeaders,
        scan: &Scan,
        named: Option<&IndexedChunks>,
        keeps_empty: bool,
    ) {
        let leave = |reason: &str| Action::Leave(reason.to_owned());
        if let Some((shard, _)) = scan.of_shard.filter(|(_, count)| *count == scan.strangers) {
            self.shard.action = leave(&expected.misplaced(shard));
            return;
        }
        self.shard.action = match named.filter(|named| !named.broken).map(IndexedChunks::count) {
            _ if scan.strangers > 0 => leave("its slot headers belong to another dataset, image or shard"),
            // Where a reader wants every shard to be there, the writer leaves empty ones.
            Some(0) if keeps_empty && named.is_some_and(|named| named.tail_at == Some(0)) => {
                self.sums.closed = true;
                Action::Nothing
            }
            Some(0) => Action::Remove,
            Some(_) => leave("its index names chunks, but none has a slot header: another writer's"),
            None if room::is_zeros(file) => Action::Remove,
            None if file.len() <= expected.first_slot_at() + HEADER_BYTES as u64 => Action::RemoveLost,
            None => leave("its index is damaged, and no chunk has a slot header"),
        };
    }

    fn decide(
        &mut self,
        file: &ShardFile,
        image: &WrittenImage,
        expected: &ExpectedHeaders,
        scan: &Scan,
        named: Option<&IndexedChunks>,
    ) -> Result<()> {
        let array = &image.node.array;
        let chunks = best_of_each(image, expected.position, scan, named);
        // What stood for a chunk while it waited for frames, and is not needed, is no loss.
        let is_kept = |seen: &Seen| chunks.get(&seen.header.origin.chunk).is_some_and(|kept| kept.range == seen.range);
        let is_named = |seen: &Seen| named.is_some_and(|named| named.names(seen));
        let is_left = |seen: &&Seen| expected.is_behind_slots(seen.at()) && !is_kept(seen);
        let replaced = scan.seen.iter().filter(is_left).filter(|seen| seen.whole && is_named(seen)).count() as u64;
        let scanned: Vec<Seen> = scan.seen.iter().filter(|seen| !is_left(seen)).copied().collect();
        let is_ahead = |seen: &&Seen| seen.whole && !image.has_frames_of(expected.position, &seen.header);
        let ahead = scanned.iter().filter(is_ahead).filter(|seen| is_named(seen)).count() as u64;
        self.chunks = chunks.into_values().collect();
        self.shard.chunks = self.chunks.len() as u64;
        let kept = self.chunks.iter().filter(|seen| is_named(seen)).count() as u64;
        self.sums = RecoveredSums {
            chunks: self.shard.chunks,
            salvaged: self.shard.chunks - kept,
            dropped: named.map_or(0, |named| named.count() - kept - replaced - ahead),
            ahead,
            torn: scanned.iter().filter(|seen| !seen.whole).count() as u64,
            ..RecoveredSums::default()
        };

        let (used, data_end) = self.extents(file, expected, scan, &scanned, named);
        if self.chunks.is_empty() && used.is_empty() {
            // The file ends within its first chunk, and the next recovery would find nothing but an empty index.
            self.shard.action = Action::RemoveLost;
            return Ok(());
        }
        let new = self.new_index(array, expected, data_end, used)?;
        let names_all = |named: &IndexedChunks| self.chunks.iter().all(|seen| named.names(seen));
        let is_whole = |named: &&IndexedChunks| !named.broken && named.count() == self.shard.chunks;
        if named.filter(is_whole).is_some_and(names_all) && self.sums.dropped == 0 && file.len() == new.file_end() {
            self.sums.closed = !self.shard.damaged;
            return Ok(());
        }
        self.shard.action = Action::NewIndex;
        self.index = Some(new);
        Ok(())
    }

    /// The ranges of the file that are used, and where chunks end. What an index names and no header tells of leaves
    /// all of the file used.
    fn extents(
        &mut self,
        file: &ShardFile,
        expected: &ExpectedHeaders,
        scan: &Scan,
        scanned: &[Seen],
        named: Option<&IndexedChunks>,
    ) -> (Vec<Range>, u64) {
        let accounted: HashSet<u64> = scan.seen.iter().map(|seen| seen.range.offset).collect();
        let mut in_index = named.iter().flat_map(|named| named.chunks.values());
        self.shard.damaged |= in_index.any(|range| !accounted.contains(&range.offset));
        // Torn chunks are cut off no more than whole ones, or else each recovery would find another end. Those of other
        // shards are all that there is of them.
        let ranges = scanned.iter().chain(&scan.of_others);
        let ranges = ranges.map(|seen| Range { offset: seen.at(), nbytes: seen.end() - seen.at() });
        let mut used: Vec<_> = ranges.filter(|range| range.offset.saturating_add(range.nbytes) <= file.len()).collect();
        let chunks_end = used.iter().map(|range| range.offset + range.nbytes).max().unwrap_or(0);
        let data_end = if self.shard.damaged {
            used = vec![Range { offset: 0, nbytes: file.len() }];
            let at_end = expected.index_location == IndexLocation::End;
            let table_at = if at_end { file.len().saturating_sub(expected.index_bytes) } else { file.len() };
            // In the place of the last one, for the same reason; but what looks like an index may reach into a chunk.
            named.and_then(|named| named.tail_at).unwrap_or(table_at).max(chunks_end)
        } else {
            chunks_end.max(expected.first_slot_at())
        };
        used.sort_by_key(|range| range.offset);
        (used, data_end)
    }

    /// The index that names the chunks, where the writer's own close would put it.
    fn new_index(
        &self,
        array: &Array,
        expected: &ExpectedHeaders,
        data_end: u64,
        used: Vec<Range>,
    ) -> Result<NewIndex> {
        let layout = array.layout();
        let mut entries = BTreeMap::new();
        for seen in &self.chunks {
            let place = expected.map.chunk_position(expected.position, seen.header.origin.chunk.into());
            let place = place.ok_or_else(|| Error::format(&self.shard.path, "holds a chunk outside the array"))?;
            entries.insert(layout.file_of(&place).1, (seen.range.offset, seen.range.nbytes));
        }
        Ok(NewIndex { index: layout.encode_index(entries.into_iter(), data_end)?, used })
    }
}

impl NewIndex {
    /// As the writer closes a shard: the data before an index that names them, and that before the file is cut off.
    pub(super) fn write(&self, file: &File) -> std::io::Result<()> {
        self.write_parts(file, 0)?;
        file.set_len(self.file_end())?;
        self.give_gaps_back(file, 0)?;
        file.sync_data()
    }

    pub(super) fn file_end(&self) -> u64 {
        self.index.file_end()
    }

    /// The same as [`write`](Self::write), of a shard that begins at `start` in an archive, which says where it ends.
    pub(super) fn write_within(&self, file: &File, start: u64) -> std::io::Result<()> {
        self.write_parts(file, start)?;
        self.give_gaps_back(file, start)
    }

    fn write_parts(&self, file: &File, start: u64) -> std::io::Result<()> {
        file.sync_data()?;
        for (at, bytes) in self.index.parts() {
            file.write_all_at(bytes, start + at)?;
            file.sync_data()?;
        }
        Ok(())
    }

    fn give_gaps_back(&self, file: &File, start: u64) -> std::io::Result<()> {
        let mut unused_from = (self.index.head.len() as u64).next_multiple_of(room::BLOCK_BYTES);
        for range in &self.used {
            give_back(file, start + unused_from, range.offset.saturating_sub(unused_from))?;
            unused_from = unused_from.max(range.offset + range.nbytes);
        }
        Ok(())
    }
}
