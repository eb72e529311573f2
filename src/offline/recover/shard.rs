//! One shard: which of its chunks are whole, and the index that says so.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, OFlags, fallocate, fdatasync};
use rustix::io::Errno;

use super::{Image, stays_below};
use crate::config::IndexLocation;
use crate::error::{Error, Result};
use crate::offline::scan::{Expected, Scan, Seen};
use crate::offline::shard_file::{Index, IndexLayout, Range, ShardFile};
use crate::shard::index::table as index;

const BLOCK: u64 = 4096;

/// What is to become of a shard.
#[derive(Debug)]
pub(super) enum Action {
    Nothing,
    NewIndex(NewIndex),
    Remove,
    Leave(String),
}

#[derive(Debug)]
pub(super) struct NewIndex {
    at: u64,
    bytes: Vec<u8>,
    file_end: u64,
    /// What must not be given back to the file system, in ascending order.
    used: Vec<Range>,
}

impl Action {
    pub(super) fn is_change(&self) -> bool {
        matches!(self, Self::NewIndex(_) | Self::Remove)
    }
}

#[derive(Debug)]
pub(super) struct ShardPlan {
    pub(super) path: PathBuf,
    pub(super) position: Vec<u64>,
    pub(super) action: Action,
    /// The chunks that are whole.
    pub(super) chunks: Vec<Seen>,
    /// Chunks that the index names; `None` if it can't be read.
    pub(super) named_before: Option<u64>,
    pub(super) salvaged: u64,
    pub(super) dropped: u64,
    pub(super) torn: u64,
    /// The writer itself closed it: what is not there now was never to come.
    pub(super) closed: bool,
    /// The index named bytes that no header accounts for. Perhaps somebody can make something of them, so the file keeps
    /// all that it has, in later recoveries too.
    pub(super) damaged: bool,
}

/// What the index says, entry by entry; broken ones name nothing.
struct Named(Vec<Option<Range>>);

pub(super) fn plan(root: &Path, image: &Image, path: &Path, position: &[u64]) -> Result<ShardPlan> {
    let mut plan = ShardPlan {
        path: path.to_path_buf(),
        position: position.to_vec(),
        action: Action::Nothing,
        chunks: Vec::new(),
        named_before: None,
        salvaged: 0,
        dropped: 0,
        torn: 0,
        closed: false,
        damaged: image.own.damaged_shards.contains(&super::name(image.node.array.folder(), path)),
    };
    let leave = |mut plan: ShardPlan, reason: &str| {
        plan.action = Action::Leave(reason.to_owned());
        Ok(plan)
    };
    if let Err(Error::Format { reason, .. }) = stays_below(root, path) {
        return leave(plan, &reason);
    }
    let file = match ShardFile::open(path.to_path_buf()) {
        Ok(Some(file)) => file,
        Ok(None) => return Ok(plan),
        Err(Error::Format { reason, .. }) => return leave(plan, &reason),
        Err(error) => return Err(error),
    };
    let array = &image.node.array;
    let number = image.places.shard_number(position).filter(|_| image.places.has_file(position));
    let (Some(shard), Some(layout), Some(sharding)) = (number, array.index_layout(), array.metadata().sharding) else {
        return leave(plan, "lies outside the array");
    };
    let expected = Expected {
        own: &image.own,
        places: &image.places,
        position,
        shard,
        chunks: layout.chunks(),
        index_bytes: layout.bytes(),
        index_location: sharding.location,
        payload_bytes_max: array.encoded_bytes_max(),
    };
    let named = match file.index(layout) {
        Ok(index) => Some(Named::new(&index)),
        Err(Error::Format { .. }) => None,
        Err(error) => return Err(error),
    };
    let scan = match expected.scan(&file, &[]) {
        Ok(scan) => scan,
        Err(Error::Format { reason, .. }) => return leave(plan, &reason),
        Err(error) => return Err(error),
    };
    plan.named_before = named.as_ref().map(Named::count);
    if scan.seen.is_empty() {
        return Ok(without_chunks(plan, &file, &scan, named.as_ref()));
    }
    plan.decide(&file, layout, sharding.location, &expected, &scan, named.as_ref());
    Ok(plan)
}

/// A shard without any header of its own: it goes only if nothing was ever put into it.
fn without_chunks(mut plan: ShardPlan, file: &ShardFile, scan: &Scan, named: Option<&Named>) -> ShardPlan {
    plan.action = if scan.strangers > 0 {
        Action::Leave("its slot headers belong to another dataset or another shard".into())
    } else {
        match named.map(Named::count) {
            Some(0) => Action::Remove,
            Some(_) => Action::Leave("its index names chunks, but none has a slot header: another writer's".into()),
            None if is_zeros(file) => Action::Remove,
            None => Action::Leave("its index is damaged, and no chunk has a slot header".into()),
        }
    };
    plan
}

fn is_zeros(file: &ShardFile) -> bool {
    let mut room = Vec::new();
    let mut at = 0;
    while let Some(data) = file.data_from(at) {
        let nbytes = (file.len() - data).min(256 << 10);
        if file.read(Range { offset: data, nbytes }, &mut room).is_err() || room.iter().any(|&byte| byte != 0) {
            return false;
        }
        at = data + nbytes;
    }
    true
}

impl Named {
    fn new(index: &Index) -> Self {
        Self((0..index.len()).map(|chunk| index.entry(chunk).ok().flatten()).collect())
    }

    fn count(&self) -> u64 {
        self.0.iter().flatten().count() as u64
    }

    fn names(&self, seen: &Seen) -> bool {
        self.0.get(seen.header.chunk as usize) == Some(&Some(seen.range))
    }
}

impl ShardPlan {
    fn decide(
        &mut self,
        file: &ShardFile,
        layout: IndexLayout,
        location: IndexLocation,
        expected: &Expected,
        scan: &Scan,
        named: Option<&Named>,
    ) {
        let mut chunks: BTreeMap<u32, Seen> = BTreeMap::new();
        for seen in scan.seen.iter().filter(|seen| seen.whole) {
            // Should a chunk be there twice, both are what was committed; the one that readers have seen stays.
            let is_named = named.is_some_and(|named| named.names(seen));
            let other = chunks.entry(seen.header.chunk).or_insert(*seen);
            if is_named {
                *other = *seen;
            }
        }
        self.torn = scan.seen.iter().filter(|seen| !seen.whole).count() as u64;
        self.chunks = chunks.into_values().collect();
        let kept = self.chunks.iter().filter(|seen| named.is_some_and(|named| named.names(seen))).count() as u64;
        self.salvaged = self.chunks.len() as u64 - kept;
        self.dropped = named.map_or(0, |named| named.count() - kept);

        let accounted: HashSet<u64> = scan.seen.iter().map(|seen| seen.range.offset).collect();
        let mut in_index = named.iter().flat_map(|named| named.0.iter().flatten());
        self.damaged |= in_index.any(|range| !accounted.contains(&range.offset));
        let (mut used, data_end) = if self.damaged {
            let whole = Range { offset: 0, nbytes: file.len() };
            let index_bytes = if location == IndexLocation::End { layout.bytes() } else { 0 };
            (vec![whole], file.len().saturating_sub(index_bytes))
        } else {
            // Torn chunks are cut off no more than whole ones, for the same reason.
            let behind_header =
                scan.seen.iter().map(|seen| Range { offset: seen.at(), nbytes: seen.end() - seen.at() });
            let used: Vec<_> =
                behind_header.filter(|range| range.offset.saturating_add(range.nbytes) <= file.len()).collect();
            let end = used.iter().map(|range| range.offset + range.nbytes).max();
            (used, end.unwrap_or(0).max(expected.first_slot_at()))
        };
        used.sort_by_key(|range| range.offset);
        let (at, file_end) = match location {
            IndexLocation::Start => (0, data_end),
            IndexLocation::End => (data_end, data_end.saturating_add(layout.bytes())),
        };
        let mut entries = vec![(index::MISSING, index::MISSING); layout.chunks() as usize];
        for seen in &self.chunks {
            entries[seen.header.chunk as usize] = (seen.range.offset, seen.range.nbytes);
        }
        let same = |named: &Named| {
            let is_same = |(entry, named): (&(u64, u64), &Option<Range>)| match named {
                Some(range) => *entry == (range.offset, range.nbytes),
                None => *entry == (index::MISSING, index::MISSING),
            };
            entries.iter().zip(&named.0).all(is_same)
        };
        if named.is_some_and(same) && self.dropped == 0 && file.len() == file_end {
            self.closed = !self.damaged;
            return;
        }
        let bytes = index::encode(entries.into_iter(), layout.has_checksum());
        self.action = Action::NewIndex(NewIndex { at, bytes, file_end, used });
    }

    /// Makes the change. All that it needs was read before, so that it can be stopped anywhere and planned anew.
    pub(super) fn apply(&self) -> Result<()> {
        let failed = |action| move |error: std::io::Error| Error::io(action, &self.path, error);
        match &self.action {
            Action::Nothing | Action::Leave(_) => Ok(()),
            Action::Remove => fs::remove_file(&self.path).map_err(failed("remove empty shard")),
            Action::NewIndex(new) => {
                let flags = OFlags::NOFOLLOW.bits().cast_signed();
                let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(&self.path);
                new.write(&file.map_err(failed("open"))?).map_err(failed("write a new index to"))
            }
        }
    }
}

impl NewIndex {
    /// As the writer closes a shard: the data before an index that names them, and that before the file is cut off.
    fn write(&self, file: &File) -> std::io::Result<()> {
        fdatasync(file)?;
        file.write_all_at(&self.bytes, self.at)?;
        fdatasync(file)?;
        file.set_len(self.file_end)?;
        let mut unused_from = match self.at {
            0 => (self.bytes.len() as u64).next_multiple_of(BLOCK),
            _ => 0,
        };
        for range in &self.used {
            punch(file, unused_from, range.offset)?;
            unused_from = unused_from.max(range.offset + range.nbytes);
        }
        fdatasync(file)?;
        Ok(())
    }
}

/// Gives back the whole blocks of a range.
fn punch(file: &File, from: u64, to: u64) -> std::io::Result<()> {
    let (start, end) = (from.next_multiple_of(BLOCK), to / BLOCK * BLOCK);
    if end <= start {
        return Ok(());
    }
    match fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, start, end - start) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        other => Ok(other?),
    }
}
