//! What the index of a shard says, whatever its form: where the chunk of an entry lies.

use std::collections::BTreeMap;

use crate::codec::Decoder;
use crate::config::{Codec, Compressor};
use crate::error::{Error, Result};
use crate::format::index::Range;
use crate::format::index::minishards::{self, ENTRY_BYTES};
use crate::format::index::table::Table;
use crate::format::layout::Files;
use crate::format::layout::Layout;
use crate::format::precomputed::Shards;
use crate::offline::array::shard_file::ShardFile;

/// 16 million chunks in a shard; past that, an index is broken rather than generous.
const ENTRIES_MAX: u64 = 1 << 24;
/// The most bytes that the indexes of all minishards of a shard may have together, decompressed.
const INDEXES_BYTES_MAX: u64 = ENTRIES_MAX * ENTRY_BYTES;
/// Where more entries of a minishard are wrong, none of them is believed.
const WRONG_MAX: usize = 1000;
/// No stream of deflate becomes more than 1032 times as long.
const DEFLATE_MAX: u64 = 1032;

/// A shard's index. An entry is a chunk's place in the shard in C order or, in a volume, the chunk's id.
#[derive(Debug)]
pub(crate) enum Index {
    /// Of a file that is one chunk.
    Whole(Range),
    Table(Table),
    Minishards(Minishards),
}

/// What was read of the index of a volume's shard. A broken minishard spoils its own chunks only.
#[derive(Debug)]
pub(crate) struct Minishards {
    shards: Shards,
    /// In the order of ids.
    entries: Vec<(u64, Range)>,
    /// Chunks that it names, but not where they can be.
    wrong: BTreeMap<u64, String>,
    /// What is wrong with whole minishards.
    broken: BTreeMap<u64, String>,
    /// Where the index itself stands.
    parts: Vec<Range>,
}

impl Index {
    /// The index of the shard at a position; of a volume's, only as much of it as tells of the entries in `wanted`, if
    /// there are any.
    pub(crate) fn read(file: &ShardFile, layout: &Layout, position: &[u64], wanted: Option<&[u64]>) -> Result<Self> {
        match &layout.files {
            Files::Grid { index: Some(table), .. } => file.table(*table).map(Self::Table),
            Files::Grid { index: None, .. } => Ok(Self::Whole(file.whole())),
            Files::Volume(volume) => match volume.shards() {
                Some(shards) => Self::of_volume(file, shards, volume.shard_number(position), wanted),
                None => Ok(Self::Whole(file.whole())),
            },
        }
    }

    /// Reads the head of a volume's shard, and the indexes of those minishards that the ids in `wanted` fall into; of
    /// all if there is nothing wanted. `shard`: the number of the shard.
    pub(crate) fn of_volume(
        file: &ShardFile,
        shards: &Shards,
        shard: Option<u64>,
        wanted: Option<&[u64]>,
    ) -> Result<Self> {
        let head_bytes = shards.spec.head_bytes();
        if file.len() < head_bytes {
            let reason = format!("{} bytes are too few for a shard's head of {head_bytes} bytes", file.len());
            return Err(Error::format(file.path(), reason));
        }
        let head = file.bytes(Range { offset: 0, nbytes: head_bytes })?;
        let parts = vec![Range { offset: 0, nbytes: head_bytes }];
        let (entries, wrong, broken) = Default::default();
        let found = Minishards { shards: shards.clone(), entries, wrong, broken, parts };
        let mut load = Load { file, shard, left: INDEXES_BYTES_MAX, encoded: Vec::new(), raw: Vec::new(), found };
        let (words, _) = head.as_chunks::<8>();
        let word = |at: u64| u64::from_le_bytes(words[at as usize]);
        let mut one = |minishard: u64| load.minishard(minishard, word(2 * minishard), word(2 * minishard + 1));
        match wanted {
            None => (0..1 << shards.spec.minishard_bits).try_for_each(&mut one)?,
            Some(ids) => {
                let mut minishards: Vec<_> = ids.iter().map(|&id| shards.spec.place(id).1).collect();
                minishards.sort_unstable();
                minishards.dedup();
                minishards.into_iter().try_for_each(&mut one)?;
            }
        }
        let mut found = load.found;
        // Of the same chunk in two places, readers find either.
        found.entries.sort_unstable_by_key(|(id, range)| (*id, range.offset));
        for pair in found.entries.windows(2).filter(|pair| pair[0].0 == pair[1].0).take(WRONG_MAX) {
            found.wrong.insert(pair[0].0, format!("the index names chunk {} twice", pair[0].0));
        }
        found.entries.dedup_by_key(|(id, _)| *id);
        Ok(Self::Minishards(found))
    }

    /// Where the chunk of an entry lies; `None` when the shard doesn't hold it; an error says what is wrong with the
    /// entry.
    pub(crate) fn entry(&self, entry: u64) -> Result<Option<Range>, String> {
        match self {
            Self::Whole(range) => Ok(Some(*range).filter(|_| entry == 0)),
            Self::Table(table) => table.entry(usize::try_from(entry).unwrap_or(usize::MAX)),
            Self::Minishards(found) => {
                let broken = || found.broken.get(&found.shards.spec.place(entry).1);
                if let Some(reason) = found.wrong.get(&entry).or_else(broken) {
                    return Err(reason.clone());
                }
                let at = found.entries.binary_search_by_key(&entry, |(id, _)| *id);
                Ok(at.ok().map(|at| found.entries[at].1))
            }
        }
    }

    /// All entries that are there, with what is wrong with them.
    pub(crate) fn entries(&self) -> Box<dyn Iterator<Item = (u64, Result<Range, String>)> + '_> {
        match self {
            Self::Whole(range) => Box::new(std::iter::once((0, Ok(*range)))),
            Self::Table(table) => {
                let entry = |chunk| Some((chunk as u64, table.entry(chunk).transpose()?));
                Box::new((0..table.len()).filter_map(entry))
            }
            Self::Minishards(found) => {
                let right = found.entries.iter().filter(|(id, _)| !found.wrong.contains_key(id));
                let wrong = found.wrong.iter().map(|(id, reason)| (*id, Err(reason.clone())));
                Box::new(right.map(|(id, range)| (*id, Ok(*range))).chain(wrong))
            }
        }
    }

    /// What is wrong with more than single entries.
    pub(crate) fn broken(&self) -> impl Iterator<Item = &String> {
        let found = if let Self::Minishards(found) = self { Some(found) } else { None };
        found.into_iter().flat_map(|found| found.broken.values())
    }

    /// Refuses chunks that share bytes: nothing tells which of them lost its own.
    pub(crate) fn refuse_overlaps(&self, file: &ShardFile) -> Result<()> {
        match self.overlaps().into_iter().next() {
            Some((chunk, what)) => Err(Error::format(file.path(), format!("chunk {chunk} {what}"))),
            None => Ok(()),
        }
    }

    /// The chunks whose bytes are those of another, too, or of the index, and a sentence of each.
    pub(crate) fn overlaps(&self) -> Vec<(u64, String)> {
        let mut entries: Vec<_> = self.entries().filter_map(|(chunk, range)| Some((chunk, range.ok()?))).collect();
        sort_by_place(&mut entries);
        let mut found = Vec::new();
        for part in self.parts() {
            let end = part.offset + part.nbytes;
            let meets = |(_, range): &&(u64, Range)| {
                range.nbytes > 0 && range.offset < end && part.offset < range.offset + range.nbytes
            };
            if let Some((chunk, range)) = entries.iter().find(meets) {
                found.push((*chunk, format!("its {} bytes at {} overlap the index", range.nbytes, range.offset)));
            }
        }
        let mut reached: Option<(u64, u64)> = None;
        for (chunk, range) in entries {
            if let Some((other, end)) = reached.filter(|(_, end)| range.offset < *end) {
                let what = format!("starts at byte {}, within chunk {other}, which ends at {end}", range.offset);
                found.push((chunk, what));
            }
            let end = range.offset.saturating_add(range.nbytes);
            if reached.is_none_or(|(_, other)| end > other) {
                reached = Some((chunk, end));
            }
        }
        found
    }

    /// The bytes of the file that are the index.
    pub(crate) fn parts(&self) -> Vec<Range> {
        match self {
            Self::Whole(_) => Vec::new(),
            Self::Table(table) => vec![table.part()],
            Self::Minishards(found) => found.parts.clone(),
        }
    }
}

pub(crate) fn sort_by_place(entries: &mut [(u64, Range)]) {
    entries.sort_by_key(|(chunk, range)| (range.offset, range.nbytes, *chunk));
}

struct Load<'a> {
    file: &'a ShardFile,
    shard: Option<u64>,
    /// Bytes of indexes that may still be read.
    left: u64,
    encoded: Vec<u8>,
    raw: Vec<u8>,
    found: Minishards,
}

impl Load<'_> {
    /// Reads the index of a minishard, which the head says starts and ends there.
    fn minishard(&mut self, minishard: u64, start: u64, end: u64) -> Result<()> {
        if start == end {
            return Ok(());
        }
        match self.raw(start, end) {
            Ok(()) => self.take(minishard),
            Err(Error::Format { reason, .. } | Error::Codec { reason, .. }) => {
                self.found.broken.insert(minishard, format!("the index of minishard {minishard}: {reason}"));
            }
            Err(other) => return Err(other),
        }
        Ok(())
    }

    fn raw(&mut self, start: u64, end: u64) -> Result<()> {
        let wrong = |reason: String| Error::format(self.file.path(), reason);
        let base = self.found.shards.spec.head_bytes();
        let bounds = start.checked_add(base).zip(end.checked_add(base));
        let inside = bounds.filter(|&(start, end)| start <= end && end <= self.file.len());
        let Some((start, end)) = inside else {
            return Err(wrong(format!("stands from {start} to {end}, and the file has {} bytes", self.file.len())));
        };
        let part = Range { offset: start, nbytes: end - start };
        if part.nbytes > self.left {
            return Err(wrong(format!("the indexes of a shard have more than {INDEXES_BYTES_MAX} bytes")));
        }
        self.file.read(part, &mut self.encoded)?;
        if self.found.shards.spec.gzip_indexes {
            // The last field of a gzip stream is its length before compression.
            let length = self.encoded.last_chunk::<4>().map_or(0, |bytes| u64::from(u32::from_le_bytes(*bytes)));
            let chunks = self.found.shards.chunks_a_minishard().min(ENTRIES_MAX);
            let most = (chunks * ENTRY_BYTES).min(part.nbytes.saturating_mul(DEFLATE_MAX)).min(self.left);
            if length > most {
                return Err(wrong(format!("claims to become {length} bytes; at most {most} are possible")));
            }
            let codec = Codec { compressor: Compressor::Gzip { level: 1 }, checksum: false };
            self.raw.resize(length as usize, 0);
            Decoder::new(&codec, 1, length as usize)?.decode(&self.encoded, &mut self.raw)?;
        } else {
            std::mem::swap(&mut self.encoded, &mut self.raw);
        }
        self.left = self.left.saturating_sub((self.raw.len() as u64).max(part.nbytes));
        self.found.parts.push(part);
        Ok(())
    }

    fn take(&mut self, minishard: u64) {
        let shards = self.found.shards.clone();
        let entries = match minishards::decode(&shards.spec, &self.raw) {
            Ok(entries) => entries,
            Err(error) => {
                self.found.broken.insert(minishard, format!("the index of minishard {minishard}: {error}"));
                return;
            }
        };
        let (from, to) = (shards.spec.head_bytes(), self.file.len());
        for minishards::Entry { id, offset, nbytes } in entries {
            let (shard, other) = shards.spec.place(id);
            let end = offset.checked_add(nbytes);
            let reason = if other != minishard || self.shard.is_some_and(|known| known != shard) {
                format!("minishard {minishard} names chunk {id}, which belongs to minishard {other} of shard {shard}")
            } else if shards.ids.id(shards.ids.position(id)) != id {
                format!("minishard {minishard} names chunk {id}, which the volume can't have")
            } else if offset < from || end.is_none_or(|end| end > to) {
                format!(
                    "the index names {nbytes} bytes at {offset}, but the shard's chunks lie between {from} and {to}"
                )
            } else {
                self.found.entries.push((id, Range { offset, nbytes }));
                continue;
            };
            if self.found.wrong.len() >= WRONG_MAX {
                self.found.broken.insert(minishard, reason);
                return;
            }
            self.found.wrong.insert(id, reason);
        }
    }
}
