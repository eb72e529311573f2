//! One shard rebuilt: what stays is copied from the old file, what is new gets headers, and an index that names both.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use super::disk::{self, Disk, Draft};
use super::view::ArrayView;
use crate::error::{Error, Result};
use crate::format::index::{Encoded, Range};
use crate::format::provenance::Slots;
use crate::format::slot_header::{self, HEADER_BYTES, Origin, SlotHeader};
use crate::offline::array::shard_file::ShardFile;
use crate::offline::scan::read_header;

const HEADER: u64 = HEADER_BYTES as u64;
const PAGE: u64 = crate::aligned_memory::PAGE as u64;
const GRAIN: u64 = 8;

/// The chunks of one shard that get values, or lose them.
pub(super) type Changes<'v> = BTreeMap<u64, Option<&'v [u8]>>;

/// A shard and what it becomes.
#[derive(Debug)]
pub(super) struct Rewrite<'a, 'v> {
    view: &'a ArrayView,
    shard: &'a [u64],
    pub(super) path: PathBuf,
    old: Option<Old>,
    /// Nobody knows what was in it.
    damaged: bool,
    changes: &'a Changes<'v>,
    /// Each chunk has a slot header before it.
    headed: bool,
    /// Those that the documents speak of when it is made.
    pub(super) slots: Option<Slots>,
}

/// The shard as it is.
#[derive(Debug)]
struct Old {
    file: ShardFile,
    chunks: BTreeMap<u64, Range>,
    /// Where its index stands.
    index: Vec<Range>,
}

struct NewChunk<'v> {
    chunk: u64,
    /// Where its header starts, or the chunk itself if there are no headers.
    at: u64,
    nbytes: u64,
    /// Of a new chunk that has one.
    header: Option<[u8; HEADER_BYTES]>,
    source: ChunkSource<'v>,
}

#[derive(Clone, Copy)]
enum ChunkSource<'v> {
    Old(Range),
    New(&'v [u8]),
}

impl<'a, 'v> Rewrite<'a, 'v> {
    /// Looks at the shard as it is. `None`: nothing changes.
    ///
    /// # Errors
    ///
    /// [`Error::Format`] when its index is damaged: what the index does not name would be lost.
    pub(super) fn plan(
        root: &Path,
        view: &'a ArrayView,
        shard: &'a [u64],
        changes: &'a Changes<'v>,
    ) -> Result<Option<Self>> {
        let (old, damaged) = match Old::open(view, root, shard) {
            // Where nothing of the old shard stays, nothing is lost with it.
            Err(Error::Format { .. }) if view.layout.is_all(shard, changes.keys().copied()) => (None, true),
            old => (old?, false),
        };
        let is_there = |chunk: &u64| old.as_ref().is_some_and(|old| old.chunks.contains_key(chunk));
        if !damaged && !changes.iter().any(|(chunk, value)| value.is_some() || is_there(chunk)) {
            return Ok(None);
        }
        let slots = view.owner.as_ref().and_then(|owner| owner.own.slots);
        let path = root.join(view.shard_key(shard));
        let mut rewrite = Self { view, shard, path, old, damaged, changes, headed: false, slots };
        rewrite.headed = rewrite.is_headed()?;
        Ok(Some(rewrite))
    }

    /// How many chunks the shard has, `None` where its index is damaged, and how many it will have.
    pub(super) fn counts(&self) -> (Option<u64>, u64) {
        let before = self.old.as_ref().map_or(0, |old| old.chunks.len() as u64);
        let after = self.kept().count() + self.changes.values().flatten().count();
        ((!self.damaged).then_some(before), after as u64)
    }

    /// The bytes of the largest slot that the chunks need, if the dataset's slots are smaller.
    pub(super) fn slot_bytes_wanted(&self) -> Option<u64> {
        let slots = self.slots.filter(|_| self.headed)?;
        let kept = self.kept().map(|(_, range)| range.nbytes);
        let new = self.changes.values().flatten().map(|value| value.len() as u64);
        let wanted = (kept.chain(new).max()? + HEADER).next_multiple_of(GRAIN);
        (wanted > slots.bytes).then_some(wanted)
    }

    /// Replaces the shard, or removes it if no chunk is left.
    pub(super) fn apply(&self, root: &Path, disk: &dyn Disk) -> Result<()> {
        let mut pieces = self.pieces();
        // The prototype's reader takes a shard that is not there for an error, so there it stays, with its index alone.
        let done = if pieces.is_empty() && !self.view.layout.rules().keeps_empty {
            disk::remove(disk, root, &self.path)
        } else {
            self.make_headers(&mut pieces)?;
            let index = self.index(&pieces)?;
            disk::replace(disk, &self.path, |draft| self.fill(draft, &pieces, &index))
        };
        done.map_err(|error| Error::io("replace shard", &self.path, error))
    }

    /// The old chunks that stay.
    fn kept(&self) -> impl Iterator<Item = (u64, Range)> {
        let old = self.old.iter().flat_map(|old| &old.chunks);
        old.filter(|(chunk, _)| !self.changes.contains_key(chunk)).map(|(&chunk, &range)| (chunk, range))
    }

    /// A shard has headers before all of its chunks or, from another writer, before none.
    fn is_headed(&self) -> Result<bool> {
        let Some(owner) = &self.view.owner else { return Ok(false) };
        let Some(old) = self.old.as_ref().filter(|old| !old.chunks.is_empty()) else {
            return Ok(owner.own.slots.is_some() && owner.map.is_some());
        };
        let room = self.kept().all(|(_, range)| range.offset >= HEADER);
        for &chunk in old.chunks.keys().filter(|_| room) {
            if self.old_header(chunk)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn old_header(&self, chunk: u64) -> Result<Option<SlotHeader>> {
        let (Some(owner), Some(old)) = (&self.view.owner, &self.old) else { return Ok(None) };
        let at = old.chunks.get(&chunk).and_then(|range| range.offset.checked_sub(HEADER));
        let header = at.map(|at| read_header(&old.file, at, owner.map.as_ref())).transpose()?.flatten();
        Ok(header.filter(|header| {
            header.origin.dataset == owner.own.writer && Some(u64::from(header.origin.chunk)) == self.number(chunk)
        }))
    }

    /// The number that slot headers give a chunk, and after which its slot has its place.
    fn number(&self, chunk: u64) -> Option<u64> {
        let layout = &self.view.layout;
        if layout.table().is_some() {
            return Some(chunk);
        }
        let map = self.view.owner.as_ref()?.map.as_ref()?;
        map.chunk_number(self.shard, &layout.chunk_at(self.shard, chunk)?)
    }

    /// Where each chunk goes, in the order of their places.
    fn pieces(&self) -> Vec<NewChunk<'v>> {
        let offset = |chunk: &u64| Some(self.old.as_ref()?.chunks.get(chunk)?.offset);
        let kept = self.kept().map(|(chunk, range)| (chunk, range.nbytes, ChunkSource::Old(range)));
        let new = self.changes.iter().filter_map(|(&chunk, value)| {
            let value = (*value)?;
            Some((chunk, value.len() as u64, ChunkSource::New(value)))
        });
        let mut all: Vec<_> = kept.chain(new).collect();
        // The order of a packed shard was somebody's choice; what is new comes last.
        all.sort_by_key(|(chunk, ..)| (offset(chunk).unwrap_or(u64::MAX), *chunk));
        let mut end = self.first_at();
        let mut pieces = Vec::new();
        for (chunk, nbytes, source) in all {
            let at = match self.fixed_slots() {
                Some(slots) => {
                    let number = self.number(chunk).unwrap_or(u64::MAX);
                    slots.first_at.saturating_add(number.saturating_mul(slots.bytes))
                }
                None if self.headed => end.next_multiple_of(GRAIN),
                None => end,
            };
            end = at + self.header_bytes() + nbytes;
            pieces.push(NewChunk { chunk, at, nbytes, header: None, source });
        }
        pieces.sort_by_key(|piece| piece.at);
        pieces
    }

    fn header_bytes(&self) -> u64 {
        if self.headed { HEADER } else { 0 }
    }

    fn fixed_slots(&self) -> Option<Slots> {
        self.slots.filter(|slots| slots.are_fixed() && self.headed)
    }

    /// Where the first chunk may stand.
    fn first_at(&self) -> u64 {
        let head_bytes = self.view.layout.head_bytes();
        match self.slots {
            Some(slots) if self.headed => slots.first_at,
            _ if self.headed => head_bytes.next_multiple_of(PAGE),
            _ => head_bytes,
        }
    }

    fn make_headers(&self, pieces: &mut [NewChunk<'v>]) -> Result<()> {
        let mut other = None;
        for piece in pieces.iter_mut().filter(|_| self.headed) {
            let ChunkSource::New(value) = piece.source else { continue };
            let origin = match (self.origin(piece.chunk)?, &other) {
                (Some(origin), _) => origin,
                (None, Some(other)) => *other,
                (None, None) => *other.insert(self.origin_of_another()?),
            };
            let chunk = self.number(piece.chunk).unwrap_or(piece.chunk) as u32;
            let origin = Origin { chunk, checksum_in_payload: ends_with_crc(value), ..origin };
            let map = self.view.owner.as_ref().and_then(|owner| owner.map.as_ref());
            let origin = map.map_or(origin, |map| map.header_origin(origin));
            piece.header = Some(slot_header::header(&origin, value));
        }
        Ok(())
    }

    /// What a chunk's header has to say: what it said before, or what follows from the chunk's place.
    fn origin(&self, chunk: u64) -> Result<Option<Origin>> {
        let Some(owner) = &self.view.owner else { return Ok(None) };
        if let Some(header) = self.old_header(chunk)? {
            return Ok(Some(header.origin));
        }
        let follows = || {
            let map = owner.map.as_ref()?;
            let position = self.view.layout.chunk_at(self.shard, chunk)?;
            let (low, high) = map.frame_bounds(&position)?;
            // Frames beyond the last one did not come; nobody shall think so because of a chunk that reaches there.
            let counted = owner.own.frames.filter(|&frames| frames > low).unwrap_or(u64::MAX);
            let high = high.min(map.frames().unwrap_or(u64::MAX).min(counted) - 1).max(low);
            Some(Origin {
                dataset: owner.own.writer,
                shard: map.shard_number(self.shard)?,
                chunk: chunk as u32,
                first_frame: low,
                frames: (high - low).try_into().unwrap_or(u32::MAX),
                frames_came: 0,
                checksum_in_payload: false,
            })
        };
        Ok(follows())
    }

    /// Where the documents don't say which frames a chunk holds, another header of the shard does as well as it can.
    fn origin_of_another(&self) -> Result<Origin> {
        for &chunk in self.old.iter().flat_map(|old| old.chunks.keys()) {
            if let Some(header) = self.old_header(chunk)? {
                return Ok(header.origin);
            }
        }
        Err(Error::conflict(&self.path, "lost its slot headers while it was edited"))
    }

    fn fill(&self, draft: &mut dyn Draft, pieces: &[NewChunk<'v>], index: &Encoded) -> io::Result<()> {
        let cloned = self.clone_old(draft, pieces)?;
        let header_bytes = self.header_bytes();
        for piece in pieces {
            match (piece.source, &self.old) {
                (ChunkSource::Old(_), _) if cloned => {}
                (ChunkSource::Old(range), Some(old)) => {
                    let from = range.offset - header_bytes;
                    draft.copy(old.file.file(), from, piece.at, header_bytes + range.nbytes)?;
                }
                (ChunkSource::Old(_), None) => {}
                (ChunkSource::New(value), _) => {
                    if let Some(header) = &piece.header {
                        draft.write_at(header, piece.at)?;
                    }
                    draft.write_at(value, piece.at + header_bytes)?;
                }
            }
        }
        // A file that is cut off before its index is written has nothing of an old one behind it.
        draft.set_len(index.file_end())?;
        index.parts().try_for_each(|(at, part)| draft.write_at(part, at))
    }

    fn index(&self, pieces: &[NewChunk<'v>]) -> Result<Encoded> {
        let header_bytes = self.header_bytes();
        let entries = pieces.iter().map(|piece| (piece.chunk, (piece.at + header_bytes, piece.nbytes)));
        let ends = pieces.iter().map(|piece| piece.at + header_bytes + piece.nbytes);
        self.view.layout.encode_index(entries, ends.max().unwrap_or(0).max(self.first_at()))
    }

    /// Where slots are fixed and the file system can share blocks, only what is new has to be written.
    fn clone_old(&self, draft: &mut dyn Draft, pieces: &[NewChunk<'v>]) -> io::Result<bool> {
        let header_bytes = self.header_bytes();
        let (Some(old), Some(_)) = (&self.old, self.fixed_slots()) else { return Ok(false) };
        let stays = |piece: &NewChunk| match piece.source {
            ChunkSource::Old(range) => range.offset == piece.at + header_bytes,
            ChunkSource::New(_) => true,
        };
        if !pieces.iter().all(stays) || !draft.clone_of(old.file.file())? {
            return Ok(false);
        }
        // A header that stayed behind would bring its chunk back in a recovery.
        let kept: BTreeSet<u64> = self.kept().map(|(chunk, _)| chunk).collect();
        for (_, range) in old.chunks.iter().filter(|(chunk, _)| !kept.contains(chunk)) {
            let at = range.offset.saturating_sub(header_bytes);
            draft.clear(at, range.offset + range.nbytes - at)?;
        }
        for part in old.index.iter().filter(|part| part.offset > 0 && part.nbytes > 0) {
            draft.clear(part.offset, part.nbytes)?;
        }
        Ok(true)
    }
}

impl Old {
    fn open(view: &ArrayView, root: &Path, shard: &[u64]) -> Result<Option<Self>> {
        let Some((file, index)) = view.open_shard(root, shard, None)? else { return Ok(None) };
        let damaged = |reason: String| Error::format(file.path(), reason);
        let entries = index.entries().map(|(chunk, range)| Ok((chunk, range.map_err(damaged)?)));
        let chunks = entries.collect::<Result<_>>()?;
        let index = index.parts();
        Ok(Some(Self { file, chunks, index }))
    }
}

/// Whether a chunk ends with its own checksum, as the codec crc32c leaves it.
fn ends_with_crc(value: &[u8]) -> bool {
    value.split_last_chunk::<4>().is_some_and(|(data, crc)| crc32c::crc32c(data).to_le_bytes() == *crc)
}
