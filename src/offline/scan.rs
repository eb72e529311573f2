//! Finds chunks in a shard by the headers before them, whatever its index says.
//!
//! In fixed placement, each slot's place is known and holds a header or nothing. Packed chunks, and those behind all
//! slots, follow each other: the walk goes from header to header, and where one is missing or its chunk was never
//! finished, it looks for the next one at every multiple of 8 bytes.

use std::collections::HashSet;

use crate::config::IndexLocation;
use crate::error::{Error, Result};
use crate::format::acquisition_map::AcquisitionMap;
use crate::format::index::Range;
use crate::format::provenance::{FRAMES_MAX, Provenance, Slots};
use crate::format::slot_header::{self, HEADER_BYTES, SlotHeader};
use crate::offline::array::Array;
use crate::offline::array::shard_file::ShardFile;

const HEADER: u64 = HEADER_BYTES as u64;
const GRAIN: u64 = 8;
const PAGE: u64 = crate::aligned_memory::PAGE as u64;
const WINDOW_BYTES: u64 = 256 << 10;

/// What the headers of one shard must say.
#[derive(Debug)]
pub(super) struct ExpectedHeaders<'a> {
    pub(super) own: &'a Provenance,
    pub(super) map: &'a AcquisitionMap,
    pub(super) position: &'a [u64],
    pub(super) shard: u64,
    pub(super) chunks: u64,
    pub(super) index_bytes: u64,
    pub(super) index_location: IndexLocation,
    /// The most bytes that a payload can have.
    pub(super) payload_bytes_max: u64,
}

/// A chunk that a header tells of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    pub(super) header: SlotHeader,
    /// The payload.
    pub(super) range: Range,
    /// The payload is what was committed.
    pub(super) whole: bool,
}

impl Seen {
    /// Where the header starts.
    pub(super) fn at(&self) -> u64 {
        self.range.offset - HEADER
    }

    /// One past the payload.
    pub(super) fn end(&self) -> u64 {
        self.range.offset.saturating_add(self.range.nbytes)
    }
}

#[derive(Debug, Default)]
pub(super) struct Scan {
    pub(super) seen: Vec<Seen>,
    /// Headers that are whole, but belong to another dataset, image, shard or place.
    pub(super) strangers: u64,
    /// Another shard of the same image that the first such header belongs to, and how many of these belong to it.
    pub(super) of_shard: Option<(u64, u64)>,
    /// Whole chunks of the image that have their places in other shards.
    pub(super) of_others: Vec<Seen>,
    /// What is wrong with a whole chunk of the image that has no place at all by the documents: these are not those by
    /// which it was written.
    pub(super) contradiction: Option<String>,
}

impl<'a> ExpectedHeaders<'a> {
    /// Of the shard at `position` of an array whose shards have indexes; `None` where there can't be one.
    pub(super) fn new(
        array: &Array,
        own: &'a Provenance,
        map: &'a AcquisitionMap,
        position: &'a [u64],
        index_bytes: u64,
    ) -> Option<Self> {
        Some(Self {
            own,
            map,
            position,
            shard: map.shard_number(position)?,
            chunks: map.chunks_of(position),
            index_bytes,
            index_location: array.layout().index_location()?,
            payload_bytes_max: array.encoded_bytes_max(),
        })
    }

    pub(super) fn first_slot_at(&self) -> u64 {
        match (self.own.slots, self.index_location) {
            (Some(slots), _) => slots.first_at,
            (None, IndexLocation::Start) => self.index_bytes.next_multiple_of(PAGE),
            (None, IndexLocation::End) => 0,
        }
    }

    /// The number of the shard that a header belongs to, if it is another one of the same image.
    pub(super) fn other_shard(&self, header: &SlotHeader) -> Option<u64> {
        (header.origin.dataset == self.own.writer && header.origin.shard != self.shard).then_some(header.origin.shard)
    }

    pub(super) fn belongs_to(&self, shard: u64) -> String {
        format!("it belongs to the shard {}", self.map.shard_key(shard))
    }

    /// What is to be said of a file with slot headers of another shard.
    pub(super) fn misplaced(&self, shard: u64) -> String {
        let key = self.map.shard_key(shard);
        format!("by its slot headers, it is the shard {key} of the same image; give it that name back")
    }

    /// Why a header at `at` can't be one of this shard's; `None` if it can.
    pub(super) fn objection(&self, header: &SlotHeader, at: u64) -> Option<String> {
        if header.origin.dataset != self.own.writer {
            return Some("it belongs to another dataset, or another image of this one".into());
        }
        if let Some(shard) = self.other_shard(header) {
            return Some(self.belongs_to(shard));
        }
        let chunk = u64::from(header.origin.chunk);
        if chunk >= self.chunks {
            return Some(format!("it names chunk {chunk} of {}", self.chunks));
        }
        let in_slot = self.own.slots.map_or(u64::MAX, |slots| slots.bytes - HEADER);
        let room = in_slot.min(self.payload_bytes_max);
        if header.nbytes > room {
            return Some(format!("it names {} bytes where {room} are possible", header.nbytes));
        }
        if self.fixed_bytes().is_some() && self.slot_at(chunk) != Some(at) && !self.is_behind_slots(at) {
            return Some(format!("it names chunk {chunk}, whose slot is elsewhere"));
        }
        let position = self.map.chunk_position(self.position, chunk);
        let position = position.filter(|position| self.map.in_frame(position));
        match position.and_then(|position| self.map.frame_bounds(&position)) {
            None => Some(format!("it names chunk {chunk}, which lies outside the array")),
            Some((low, high)) if header.origin.first_frame < low || header.last_frame() > high.min(FRAMES_MAX - 1) => {
                let (first, last) = (header.origin.first_frame, header.last_frame());
                Some(format!("it names frames {first} to {last}, and its chunk holds {low} to {high}"))
            }
            Some(_) => None,
        }
    }

    /// Whether a header could be another shard's, which was put here, or a part of it.
    fn fits_shard(&self, shard: u64, header: &SlotHeader, at: u64) -> bool {
        let position = self.map.shard_position(shard);
        let other = ExpectedHeaders { position: &position, shard, chunks: self.map.chunks_of(&position), ..*self };
        self.map.has_file(&position) && other.objection(header, at).is_none()
    }

    fn fixed_bytes(&self) -> Option<u64> {
        self.own.slots.filter(Slots::are_fixed).map(|slots| slots.bytes)
    }

    /// Where the slot of a chunk stands in fixed placement.
    fn slot_at(&self, chunk: u64) -> Option<u64> {
        chunk.checked_mul(self.fixed_bytes()?)?.checked_add(self.first_slot_at())
    }

    /// Where the slots end in fixed placement. What stands there was stored while its layer waited for frames.
    fn slots_end(&self) -> Option<u64> {
        self.slot_at(self.chunks)
    }

    /// Whether a chunk at `at` is none in a slot.
    pub(super) fn is_behind_slots(&self, at: u64) -> bool {
        self.slots_end().is_some_and(|end| at >= end)
    }

    /// Finds what headers outside of `skip` tell of. `skip` are ranges that don't overlap, in ascending order.
    pub(super) fn scan(&self, file: &ShardFile, skip: &[Range]) -> Result<Scan> {
        let mut scanner = Scanner::new(self, file);
        if self.fixed_bytes().is_some() {
            scanner.slots(skip)?;
        }
        let start = self.slots_end().unwrap_or_else(|| self.first_slot_at());
        let mut from = start;
        for range in skip.iter().filter(|range| range.offset >= start) {
            scanner.walk(from, range.offset)?;
            from = from.max(range.offset.saturating_add(range.nbytes));
        }
        scanner.walk(from, file.len())?;
        Ok(scanner.scan)
    }

    /// What is wrong with a whole chunk of the image that stands where `scan` has not looked, because the documents
    /// have no place there.
    pub(super) fn contradiction_elsewhere(&self, file: &ShardFile, scan: &Scan) -> Result<Option<String>> {
        let whole = scan.seen.iter().filter(|seen| seen.whole).chain(&scan.of_others);
        let mut known: Vec<_> = whole.map(|seen| (seen.at(), seen.end())).collect();
        known.sort_unstable();
        let torn: HashSet<u64> = scan.seen.iter().map(Seen::at).collect();
        let mut scanner = Scanner::new(self, file);
        let mut from = 0;
        for (start, end) in known.into_iter().chain([(file.len(), file.len())]) {
            let mut at = from;
            while let Some(found) = scanner.next_magic(at, start)? {
                at = found + GRAIN;
                let header = read_header(file, found, Some(self.map))?;
                let own = header.filter(|header| header.origin.dataset == self.own.writer && !torn.contains(&found));
                if own.is_some_and(|header| scanner.seen(header, found).is_ok_and(|seen| seen.whole)) {
                    return Ok(Some(format!("a chunk at {found} stands where no slot is")));
                }
            }
            from = from.max(end.next_multiple_of(GRAIN));
        }
        Ok(None)
    }
}

struct Scanner<'a> {
    expected: &'a ExpectedHeaders<'a>,
    file: &'a ShardFile,
    payload: Vec<u8>,
    window: Vec<u8>,
    broken_bytes_left: u64,
    scan: Scan,
}

impl<'a> Scanner<'a> {
    fn new(expected: &'a ExpectedHeaders<'a>, file: &'a ShardFile) -> Self {
        let (payload, window, scan) = Default::default();
        // No honest shard has more bytes behind headers of unfinished chunks than it has bytes.
        let broken_bytes_left = file.len().saturating_mul(2);
        Self { expected, file, payload, window, broken_bytes_left, scan }
    }

    fn slots(&mut self, skip: &[Range]) -> Result<()> {
        let mut skip = skip.iter().peekable();
        let mut next = 0;
        while next < self.expected.chunks {
            let at = self.expected.slot_at(next).filter(|at| at.saturating_add(HEADER) <= self.file.len());
            let Some(at) = at else { break };
            // A file may be a hole of any size: the next slot is the one that has data.
            let Some(data) = self.file.data_from(at) else { break };
            let bytes = self.expected.fixed_bytes().unwrap_or(u64::MAX);
            if data - at >= bytes {
                next += (data - at) / bytes;
                continue;
            }
            next += 1;
            while skip.next_if(|range| range.offset.saturating_add(range.nbytes) <= at).is_some() {}
            if skip.peek().is_none_or(|range| range.offset > at) {
                self.look(at)?;
            }
        }
        Ok(())
    }

    /// Looks for headers from `from` up to `to`.
    fn walk(&mut self, from: u64, to: u64) -> Result<()> {
        let mut at = from.next_multiple_of(GRAIN);
        while at.saturating_add(HEADER) <= to {
            at = match self.look(at)? {
                Some(end) => end.next_multiple_of(GRAIN),
                None => match self.next_magic(at + GRAIN, to)? {
                    Some(at) => at,
                    None => return Ok(()),
                },
            };
        }
        Ok(())
    }

    /// The first place from `from` to `to` that looks like a header's start.
    fn next_magic(&mut self, from: u64, to: u64) -> Result<Option<u64>> {
        let mut at = from;
        while let Some(data) = self.file.data_from(at).filter(|data| data.saturating_add(HEADER) <= to) {
            at = data / GRAIN * GRAIN;
            let nbytes = WINDOW_BYTES.min(to - at);
            self.file.read(Range { offset: at, nbytes }, &mut self.window)?;
            let found = self.window.chunks(GRAIN as usize).position(slot_header::has_magic);
            if let Some(found) = found {
                return Ok(Some(at + found as u64 * GRAIN));
            }
            at += nbytes.next_multiple_of(GRAIN);
        }
        Ok(None)
    }

    /// Looks at the place of a header; returns the end of the chunk, if there is one and it is whole.
    fn look(&mut self, at: u64) -> Result<Option<u64>> {
        let Some(header) = read_header(self.file, at, Some(self.expected.map))? else { return Ok(None) };
        if let Some(objection) = self.expected.objection(&header, at) {
            self.stranger(header, at, &objection)?;
            return Ok(None);
        }
        let seen = self.seen(header, at)?;
        self.scan.seen.push(seen);
        Ok(seen.whole.then(|| seen.end()))
    }

    fn stranger(&mut self, header: SlotHeader, at: u64, objection: &str) -> Result<()> {
        self.scan.strangers += 1;
        let other = self.expected.other_shard(&header);
        if let Some(shard) = other {
            let (first, count) = self.scan.of_shard.unwrap_or((shard, 0));
            self.scan.of_shard = Some((first, count + u64::from(shard == first)));
        }
        if header.origin.dataset != self.expected.own.writer || self.scan.contradiction.is_some() {
            return Ok(());
        }
        let seen = self.seen(header, at)?;
        match other.is_some_and(|shard| self.expected.fits_shard(shard, &header, at)) {
            _ if !seen.whole => {}
            true => self.scan.of_others.push(seen),
            false => {
                self.scan.contradiction = Some(format!("of the chunk at {at}, its slot header says that {objection}"))
            }
        }
        Ok(())
    }

    /// Whether the chunk behind a header is whole.
    fn seen(&mut self, header: SlotHeader, at: u64) -> Result<Seen> {
        let range = Range { offset: at + HEADER, nbytes: header.nbytes };
        let inside = range.offset.checked_add(range.nbytes).is_some_and(|end| end <= self.file.len());
        let whole = inside && {
            self.file.read(range, &mut self.payload)?;
            header.vouches_for(&self.payload)
        };
        if inside && !whole {
            let left = self.broken_bytes_left.checked_sub(range.nbytes);
            let reason = "too many headers are followed by something else than their chunks";
            self.broken_bytes_left = left.ok_or_else(|| Error::format(self.file.path(), reason))?;
        }
        Ok(Seen { header, range, whole })
    }
}

/// The header at `at`, if there is one, in the numbers of the array, where these are known.
pub(super) fn read_header(file: &ShardFile, at: u64, map: Option<&AcquisitionMap>) -> Result<Option<SlotHeader>> {
    let parse = |bytes| map.map_or_else(|| slot_header::parse(&bytes), |map| map.parse_header(&bytes));
    Ok(read_bytes(file, at)?.and_then(parse))
}

/// The bytes where a header may be; `None` where the file is too short.
pub(super) fn read_bytes(file: &ShardFile, at: u64) -> Result<Option<[u8; HEADER_BYTES]>> {
    let mut bytes = [0; HEADER_BYTES];
    if at.checked_add(HEADER).is_none_or(|end| end > file.len()) {
        return Ok(None);
    }
    file.read_exactly(at, &mut bytes)?;
    Ok(Some(bytes))
}
