//! One file of an array under check: its index, its chunks, and the headers before these.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rayon::prelude::*;

use super::books::Books;
use super::check::{Check, CheckedImage, Severity, reason};
use crate::dtype::Dtype;
use crate::error::{Error, Result};
use crate::format::index::Range;
use crate::format::keys::FRAME_NUMBERS;
use crate::format::slot_header::{self, HEADER_BYTES};
use crate::format::zip::crc32;
use crate::fs::archives::{self, EntryChecksum, crc32_at};
use crate::fs::look;
use crate::offline::array::Array;
use crate::offline::array::decode::{DecodeWorker, StoredChunk};
use crate::offline::array::index::{self, Index};
use crate::offline::array::shard_file::ShardFile;
use crate::offline::layers::{Came, FoundLayers};
use crate::offline::scan::{self, ExpectedHeaders, Seen};
use crate::record::{LOST, NO_FRAME, NOT_KNOWN};
use crate::sync::Unpoisoned;
use crate::words::{IS, WAS, count_that, of_number};

/// What the files of an array add up to.
#[derive(Default)]
pub(super) struct CheckedSums {
    pub(super) files: AtomicU64,
    pub(super) chunks: AtomicU64,
    /// Those among them that have a part in the array's shape.
    pub(super) inside: AtomicU64,
    /// Chunks in files, their own or a manifest's, that are not read here.
    pub(super) unchecked: AtomicU64,
    pub(super) unread_shards: AtomicU64,
    /// Chunks in shards that are there, and whose index does not tell where.
    pub(super) unindexed: AtomicU64,
    pub(super) bytes: AtomicU64,
    /// Chunks without a slot header in files that have a checksum as a whole: compressed ones, and entries of archives.
    pub(super) sealed: AtomicU64,
    pub(super) headers: AtomicU64,
    pub(super) without_header: AtomicU64,
}

/// How many there are.
pub(super) const SUMS: usize = 10;

impl CheckedSums {
    fn all(&self) -> [&AtomicU64; SUMS] {
        let Self { files, chunks, inside, unchecked, unread_shards, .. } = self;
        let Self { unindexed, bytes, sealed, headers, without_header, .. } = self;
        [files, chunks, inside, unchecked, unread_shards, unindexed, bytes, sealed, headers, without_header]
    }

    /// In the order in which they are declared.
    pub(super) fn numbers(&self) -> [u64; SUMS] {
        self.all().map(|sum| sum.load(Relaxed))
    }

    /// Adds the [`numbers`](Self::numbers) of others.
    pub(super) fn add(&self, numbers: &[u64; SUMS]) {
        for (sum, number) in self.all().into_iter().zip(numbers) {
            sum.fetch_add(*number, Relaxed);
        }
    }

    /// The chunks among such numbers.
    pub(super) fn chunks_of(numbers: &[u64; SUMS]) -> u64 {
        numbers[1]
    }

    /// The most chunks that files or a manifest may name, be they read here or not.
    pub(super) fn named(&self) -> u64 {
        [&self.chunks, &self.unchecked, &self.unindexed].map(|chunks| chunks.load(Relaxed)).into_iter().sum()
    }
}

pub(super) struct ShardCheck<'a> {
    pub(super) check: &'a Check<'a>,
    /// What is said of the frames, where the array is that of their numbers.
    pub(super) books: Option<&'a Books>,
    pub(super) array: &'a Array,
    pub(super) file: &'a ShardFile,
    pub(super) position: &'a [u64],
    pub(super) image: Option<&'a CheckedImage<'a>>,
    pub(super) sums: &'a CheckedSums,
    /// Where the chunks are noted that hold frames.
    pub(super) gathering: Option<&'a Mutex<FoundLayers>>,
}

/// The CRC-32 of a part of a file.
type KnownPart = (Range, u32);

/// What was read of a file.
#[derive(Default)]
struct ReadParts {
    /// By their places.
    parts: Vec<KnownPart>,
    /// Chunks among them that nothing vouches for by now.
    bare: u64,
}

/// What stands before a chunk.
#[derive(Clone, PartialEq, Eq)]
enum Before {
    /// With what it says of frames.
    Header(Came),
    Nothing,
    Broken,
    /// A header of another shard of the same image, by that shard's number.
    Misplaced(u64),
}

impl ShardCheck<'_> {
    fn damage(&self, chunk: Option<u64>, what: impl Into<String>) {
        self.check.find(Severity::Damage, self.file.path(), chunk, what);
    }

    pub(super) fn check(&self) -> Result<()> {
        let read = if self.array.layout().has_index() { self.sharded()? } else { self.whole()? };
        match self.file.checksum_of_whole() {
            Some(checksum) => self.archived(checksum, &read),
            None => Ok(()),
        }
    }

    /// Compares the file with the checksum that its archive has of it. What was `read` is not read again.
    fn archived(&self, checksum: &EntryChecksum, read: &ReadParts) -> Result<()> {
        let failed = |error| Error::io("read", self.file.path(), error);
        let (file, start) = (self.file.file(), self.file.start());
        let (mut crc, mut at) = (0, 0);
        for (range, part) in &read.parts {
            // Chunks that share bytes are damage in any case.
            let Some(gap) = range.offset.checked_sub(at) else { continue };
            let between = crc32_at(file, start + at, gap).map_err(failed)?;
            crc = crc32::join(crc32::join(crc, between, gap), *part, range.nbytes);
            at = range.offset + range.nbytes;
        }
        let rest = self.file.len().saturating_sub(at);
        crc = crc32::join(crc, crc32_at(file, start + at, rest).map_err(failed)?, rest);
        if checksum.is(crc) {
            self.sums.sealed.fetch_add(read.bare, Relaxed);
        } else if !self.is_unfinished() || !checksum.is_of_live_shard().map_err(failed)? {
            self.damage(None, archives::CHANGED);
        }
        Ok(())
    }

    /// Whether the file is an image's whose writer was stopped, and that nobody has recovered since: until then, an
    /// archive has checksums of open shards as they were at the last checkpoint.
    fn is_unfinished(&self) -> bool {
        self.image.is_some_and(|image| !image.own.complete && !image.own.recovered)
    }

    /// The CRC-32 of a chunk that was read, where it counts.
    fn known(&self, range: Range, worker: &DecodeWorker) -> Option<KnownPart> {
        self.file.checksum_of_whole().map(|_| (range, crc32::of(&worker.encoded)))
    }

    /// A file that is one chunk.
    fn whole(&self) -> Result<ReadParts> {
        let mut worker = self.array.worker()?;
        let range = self.file.whole();
        let decoded = self.array.decode(&mut worker, StoredChunk { file: self.file, range, at: self.position });
        self.count(range, self.position);
        self.sums.sealed.fetch_add(u64::from(self.file.is_packed()), Relaxed);
        let known = self.known(range, &worker).filter(|_| decoded.is_ok());
        match decoded {
            Ok(()) => self.frame_numbers(&worker.raw, self.position, None),
            // The file may have other chunks beside the part that a manifest names.
            Err(error) if self.file.is_part() && !matches!(error, Error::Io { .. } | Error::Unsupported { .. }) => {
                self.damage(None, format!("chunk {:?}: {}", self.position, reason(error)));
            }
            Err(error) => self.bad_chunk(None, error)?,
        }
        Ok(ReadParts { parts: known.into_iter().collect(), bare: u64::from(!self.file.is_packed()) })
    }

    fn count(&self, range: Range, place: &[u64]) {
        self.sums.chunks.fetch_add(1, Relaxed);
        self.sums.inside.fetch_add(u64::from(self.array.layout().has_chunk(place)), Relaxed);
        let stored = if self.file.is_packed() { self.file.stored_len() } else { range.nbytes };
        self.sums.bytes.fetch_add(stored, Relaxed);
        self.check.counters.add(range.nbytes);
    }

    fn bad_chunk(&self, chunk: Option<u64>, error: Error) -> Result<()> {
        match error {
            error @ Error::Io { .. } if !look::is_about_a_file(&error) => return Err(error),
            Error::Unsupported { reason, .. } => {
                self.check.find(Severity::Unchecked, self.file.path(), chunk, reason);
            }
            error => self.damage(chunk, reason(error)),
        }
        Ok(())
    }

    /// In the records of frames, each number stands at its own place, or a negative one where none came.
    fn frame_numbers(&self, raw: &[u8], place: &[u64], chunk: Option<u64>) {
        let is_records = self.array.path().ends_with(FRAME_NUMBERS);
        if !is_records || self.array.dtype() != Dtype::I64 || place.len() != 1 {
            return;
        }
        let start = place[0].saturating_mul(self.array.chunk_shape()[0]);
        let (numbers, _) = raw.as_chunks::<8>();
        let numbers = numbers.iter().map(|bytes| i64::from_le_bytes(*bytes));
        let none = [NO_FRAME, NOT_KNOWN, LOST];
        if let Some(books) = self.books {
            books.records(self.check, self.file.path(), numbers.clone().zip(start..));
        }
        let mut numbers = numbers.zip(start..).filter(|(number, _)| !none.contains(number));
        let wrong = numbers.find(|&(number, place)| u64::try_from(number) != Ok(place));
        if let Some((number, place)) = wrong {
            self.damage(chunk, format!("the record of frame {place} has the number {number}"));
        }
    }

    fn sharded(&self) -> Result<ReadParts> {
        let index = match self.array.read_index(self.file, self.position, None) {
            Ok(index) => index,
            Err(error) => {
                self.check.counters.add(self.file.len());
                self.count_unindexed();
                return self.bad_chunk(None, error).map(|()| ReadParts::default());
            }
        };
        index.broken().for_each(|reason| self.damage(None, reason.clone()));
        let entries = self.entries(&index);
        index.overlaps().into_iter().for_each(|(chunk, what)| self.damage(Some(chunk), what));
        let expected = self.expected(&index);
        let checked: Vec<_> = entries
            .par_iter()
            .map_init(|| None, |worker, &(chunk, range)| self.chunk(worker, expected.as_ref(), chunk, range))
            .collect::<Result<_>>()?;
        let is_bare = |(before, known): &&(Before, Option<KnownPart>)| *before == Before::Nothing && known.is_some();
        let bare = checked.iter().filter(is_bare).count() as u64;
        let (before, known): (Vec<_>, Vec<_>) = checked.into_iter().unzip();
        self.headers_are_there(&entries, &before);
        if let Some(expected) = &expected {
            self.is_in_its_place(expected, &entries, &before);
        }
        self.note_frames(&entries, &before);
        if let Some(expected) = expected.filter(|_| !before.contains(&Before::Nothing)) {
            self.unnamed(&expected, &entries)?;
        }
        let named = entries.iter().fold(0u64, |sum, (_, range)| sum.saturating_add(range.nbytes));
        self.check.counters.add(self.file.len().saturating_sub(named));
        Ok(ReadParts { parts: known.into_iter().flatten().collect(), bare })
    }

    /// The chunks of a shard that nothing tells of: they are there, or some of them, and can't be read.
    fn count_unindexed(&self) {
        let layout = self.array.layout();
        if !layout.has_boxes() {
            self.sums.unread_shards.fetch_add(1, Relaxed);
            return;
        }
        self.sums.unindexed.fetch_add(layout.chunks_of(self.position).1.iter().product(), Relaxed);
    }

    /// The chunks that the index names, by their place in the file. Entries that point out of the file are damage.
    fn entries(&self, index: &Index) -> Vec<(u64, Range)> {
        let mut entries = Vec::new();
        for (chunk, entry) in index.entries() {
            match entry {
                Ok(range) => entries.push((chunk, range)),
                Err(reason) => {
                    self.sums.unindexed.fetch_add(1, Relaxed);
                    self.damage(Some(chunk), reason);
                }
            }
        }
        index::sort_by_place(&mut entries);
        entries
    }

    /// What slot headers must say; `None` where there need not be any.
    fn expected(&self, index: &Index) -> Option<ExpectedHeaders<'_>> {
        let image = self.image?;
        let map = image.map.as_ref()?;
        let index_bytes = index.parts().iter().map(|part| part.nbytes).sum();
        ExpectedHeaders::new(self.array, &image.own, map, self.position, index_bytes)
    }

    /// What stands before a chunk, and what its bytes are, if they could be read.
    fn chunk(
        &self,
        worker: &mut Option<DecodeWorker>,
        expected: Option<&ExpectedHeaders>,
        chunk: u64,
        range: Range,
    ) -> Result<(Before, Option<KnownPart>)> {
        let worker = self.array.worker_in(worker)?;
        let Some(place) = self.array.layout().chunk_at(self.position, chunk) else {
            self.damage(Some(chunk), "lies outside of what can be counted");
            return Ok((Before::Nothing, None));
        };
        let stored = StoredChunk { file: self.file, range, at: &place };
        let decoded = match expected {
            // What headers say is compared below.
            Some(_) => self.array.decode_any(worker, stored),
            None => self.array.decode(worker, stored),
        };
        self.count(range, &place);
        let readable = decoded.is_ok();
        let known = self.known(range, worker).filter(|_| readable);
        match decoded {
            Ok(()) => self.frame_numbers(&worker.raw, &place, Some(chunk)),
            Err(error) => self.bad_chunk(Some(chunk), error)?,
        }
        let before = expected.map(|expected| self.before(worker, expected, (chunk, range), &place, readable));
        Ok((before.transpose()?.unwrap_or(Before::Nothing), known))
    }

    /// What stands before a chunk that was read into a worker, if it was `readable`.
    fn before(
        &self,
        worker: &DecodeWorker,
        expected: &ExpectedHeaders,
        (chunk, range): (u64, Range),
        place: &[u64],
        readable: bool,
    ) -> Result<Before> {
        let Some(at) = range.offset.checked_sub(HEADER_BYTES as u64) else { return Ok(Before::Nothing) };
        let Some(bytes) = scan::read_bytes(self.file, at)? else { return Ok(Before::Nothing) };
        let Some(header) = expected.map.parse_header(&bytes) else {
            // One flipped byte can't spoil both of these.
            let was_header = slot_header::has_magic(&bytes) || bytes[24..40] == expected.own.writer;
            if was_header {
                let what = "its slot header is damaged: its checksum does not match, or its version is unknown";
                self.damage(Some(chunk), what);
            }
            return Ok(if was_header { Before::Broken } else { Before::Nothing });
        };
        if let Some(shard) = expected.other_shard(&header) {
            return Ok(Before::Misplaced(shard));
        }
        if let Some(objection) = expected.objection(&header, at) {
            self.damage(Some(chunk), format!("its slot header is wrong: {objection}"));
        } else if expected.map.chunk_number(self.position, place) != Some(header.origin.chunk.into())
            || header.nbytes != range.nbytes
        {
            let what = format!(
                "the index names {} bytes of chunk {chunk}, the slot header before them {} bytes of chunk {}",
                range.nbytes, header.nbytes, header.origin.chunk
            );
            self.damage(Some(chunk), what);
        } else if readable && !header.vouches_for(&worker.encoded) {
            self.damage(Some(chunk), "its bytes are not those that its slot header was written for");
        }
        Ok(Before::Header(Came::of(&header)))
    }

    fn note_frames(&self, entries: &[(u64, Range)], before: &[Before]) {
        let Some(gathering) = self.gathering else { return };
        let mut layers = gathering.lock().unpoisoned();
        for ((chunk, _), before) in entries.iter().zip(before) {
            let came = if let Before::Header(came) = before { Some(came.clone()) } else { None };
            if let Some(place) = self.array.layout().chunk_at(self.position, *chunk) {
                layers.add(&place, false, came);
            }
        }
    }

    /// A shard has headers before all of its chunks or, from another writer, before none.
    fn headers_are_there(&self, entries: &[(u64, Range)], before: &[Before]) {
        let nothing = before.iter().filter(|before| **before == Before::Nothing).count() as u64;
        let headers = before.len() as u64 - nothing;
        self.sums.headers.fetch_add(headers, Relaxed);
        if headers == 0 {
            self.sums.without_header.fetch_add(nothing, Relaxed);
            return;
        }
        for ((chunk, _), _) in entries.iter().zip(before).filter(|(_, before)| **before == Before::Nothing) {
            self.damage(Some(*chunk), "has no slot header, and other chunks of the shard have");
        }
    }

    /// A file that has another one's name is told of once, and not once for each chunk.
    fn is_in_its_place(&self, expected: &ExpectedHeaders, entries: &[(u64, Range)], before: &[Before]) {
        if let Some(first @ Before::Misplaced(shard)) = before.first()
            && before.iter().all(|before| before == first)
        {
            return self.damage(None, expected.misplaced(*shard));
        }
        for ((chunk, _), before) in entries.iter().zip(before) {
            if let Before::Misplaced(shard) = before {
                self.damage(Some(*chunk), format!("its slot header is wrong: {}", expected.belongs_to(*shard)));
            }
        }
    }

    /// Committed chunks that the index does not name.
    fn unnamed(&self, expected: &ExpectedHeaders, entries: &[(u64, Range)]) -> Result<()> {
        let mut skip: Vec<Range> = Vec::new();
        for (_, range) in entries {
            let offset = range.offset.saturating_sub(HEADER_BYTES as u64);
            let end = range.offset.saturating_add(range.nbytes);
            // Overlapping ones were found before.
            let offset = offset.max(skip.last().map_or(0, |last| last.offset + last.nbytes));
            skip.push(Range { offset, nbytes: end.saturating_sub(offset) });
        }
        let scan = expected.scan(self.file, &skip)?;
        let (whole, torn): (Vec<&Seen>, Vec<&Seen>) = scan.seen.iter().partition(|seen| seen.whole);
        let number = |chunk: u64| {
            let place = self.array.layout().chunk_at(self.position, chunk)?;
            expected.map.chunk_number(self.position, &place)
        };
        let named: HashSet<u64> = entries.iter().filter_map(|(chunk, _)| number(*chunk)).collect();
        let unnamed = whole.iter().filter(|seen| !named.contains(&u64::from(seen.header.origin.chunk))).count();
        let twice = whole.len() - unnamed;
        let is_of_level = self.image.is_some_and(|image| image.own.level_of.is_some() && image.own.recovered);
        let chunks = count_that(unnamed, "chunk", IS);
        if unnamed > 0 && is_of_level {
            let what = format!("{chunks} there whose frames a recovery did not find in level 0");
            self.check.note(self.file.path(), what);
        } else if unnamed > 0 {
            let them = of_number(&unnamed, ["it", "them"]);
            let what = format!("{chunks} there that the index does not name; recover brings {them} back");
            self.damage(None, what);
        }
        if twice > 0 {
            self.check.note(self.file.path(), format!("{} there a second time", count_that(twice, "chunk", IS)));
        }
        if !torn.is_empty() {
            let what = format!("{} never finished, or damaged since", count_that(torn.len(), "chunk", WAS));
            self.check.note(self.file.path(), what);
        }
        if scan.strangers > 0 {
            self.check.note(
                self.file.path(),
                format!("{} elsewhere", count_that(scan.strangers, "slot header", ["belongs", "belong"])),
            );
        }
        Ok(())
    }
}
