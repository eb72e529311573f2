//! The table that makes a shard readable: for each chunk its offset and length, in C order, then a checksum.
//!
//! ```text
//! | chunk 0         | chunk 1         | …  | crc32c of all before |
//! | offset | nbytes | offset | nbytes | …  |                      |
//! | u64 LE | u64 LE | u64 LE | u64 LE | …  | u32 LE               |
//! ```
//!
//! In shards of other writers, the numbers of the table may have their highest byte first.
//!
//! Sources: Zarr v3, sharding codec 1.0, and the sharding storage transformer 1.0 before it, which has no checksum,
//! "Binary shard format". A chunk that is not there has 2^64 − 1 twice.

use super::Range;
use crate::config::IndexLocation;

/// A chunk that is not there, as both its offset and its length.
pub(crate) const MISSING: u64 = u64::MAX;

const ENTRY_BYTES: u64 = 16;
const CRC_BYTES: u64 = 4;
/// A table of 256 MiB; past that, a document is broken rather than generous.
pub(crate) const CHUNKS_MAX: u64 = 1 << 24;

/// How large a shard's table is and where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TableLayout {
    pub(crate) chunks: u64,
    location: IndexLocation,
    checksum: bool,
    pub(crate) big_endian: bool,
}

impl TableLayout {
    /// `None`: a table for this many chunks is larger than any shard's should be.
    pub(crate) fn new(chunks: u64, location: IndexLocation, checksum: bool) -> Option<Self> {
        (chunks <= CHUNKS_MAX).then_some(Self { chunks, location, checksum, big_endian: false })
    }

    /// The same with numbers that have their highest byte first, or last.
    pub(crate) fn in_byte_order(self, big_endian: bool) -> Self {
        Self { big_endian, ..self }
    }

    pub(crate) fn location(self) -> IndexLocation {
        self.location
    }

    pub(crate) fn has_checksum(self) -> bool {
        self.checksum
    }

    /// Bytes of the table with its checksum.
    pub(crate) fn bytes(self) -> u64 {
        self.chunks * ENTRY_BYTES + if self.checksum { CRC_BYTES } else { 0 }
    }

    /// Where the table stands in a file of `len` bytes; `None` where it does not fit.
    pub(crate) fn part(self, len: u64) -> Option<Range> {
        let chunks_end = len.checked_sub(self.bytes())?;
        let offset = match self.location {
            IndexLocation::Start => 0,
            IndexLocation::End => chunks_end,
        };
        Some(Range { offset, nbytes: self.bytes() })
    }

    /// The bytes of the table, with its checksum behind it if it has one. `chunks`: offset and length of those that are
    /// there, by their entries.
    pub(crate) fn encode(self, chunks: impl Iterator<Item = (u64, (u64, u64))>) -> Vec<u8> {
        let word = if self.big_endian { u64::to_be_bytes } else { u64::to_le_bytes };
        // With room for the checksum. All bits of what is missing are set.
        let mut bytes = vec![0xff; self.bytes() as usize];
        let (table, checksum) = bytes.split_at_mut((self.chunks * ENTRY_BYTES) as usize);
        for (chunk, (offset, nbytes)) in chunks {
            let entry = &mut table[chunk as usize * ENTRY_BYTES as usize..][..ENTRY_BYTES as usize];
            entry[..8].copy_from_slice(&word(offset));
            entry[8..].copy_from_slice(&word(nbytes));
        }
        if self.checksum {
            checksum.copy_from_slice(&crc32c::crc32c(table).to_le_bytes());
        }
        bytes
    }
}

/// A shard's table, its checksum already compared. Entries are checked one by one, so that a broken one spoils one
/// chunk.
#[derive(Debug)]
pub(crate) struct Table {
    entries: Vec<u8>,
    word: fn([u8; 8]) -> u64,
    /// Where it stands itself, with its checksum.
    part: Range,
    /// Where chunks may lie.
    from: u64,
    to: u64,
    /// Where the shard starts in its file.
    start: u64,
}

impl Table {
    /// The table of a file of `len` bytes, from the bytes at [`part`](TableLayout::part).
    pub(crate) fn decode(layout: TableLayout, part: Range, len: u64, mut bytes: Vec<u8>) -> Result<Self, String> {
        if layout.checksum {
            let stored = bytes.split_off(bytes.len().saturating_sub(CRC_BYTES as usize));
            let stored = stored.try_into().map(u32::from_le_bytes).unwrap_or_default();
            let computed = crc32c::crc32c(&bytes);
            if stored != computed {
                return Err(format!(
                    "the index is damaged: its checksum is {computed:08x}, but {stored:08x} is stored"
                ));
            }
        }
        let (from, to) = match layout.location {
            IndexLocation::Start => (part.nbytes, len),
            IndexLocation::End => (0, part.offset),
        };
        let word = if layout.big_endian { u64::from_be_bytes } else { u64::from_le_bytes };
        Ok(Self { entries: bytes, word, part, from, to, start: 0 })
    }

    /// The same of a shard that starts at a place in a file, whose ranges are then told.
    pub(crate) fn at(self, start: u64) -> Self {
        Self { start, ..self }
    }

    pub(crate) fn part(&self) -> Range {
        Range { offset: self.start + self.part.offset, ..self.part }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len() / ENTRY_BYTES as usize
    }

    /// Where a chunk lies; `None` when the shard doesn't hold it; an error says what is wrong with the entry.
    pub(crate) fn entry(&self, chunk: usize) -> Result<Option<Range>, String> {
        let word = |at: usize| {
            let bytes = self.entries.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
            bytes.map(self.word).ok_or_else(|| format!("the index has no entry {chunk}"))
        };
        let range = Range { offset: word(chunk * 16)?, nbytes: word(chunk * 16 + 8)? };
        if range == (Range { offset: MISSING, nbytes: MISSING }) {
            return Ok(None);
        }
        let end = range.offset.checked_add(range.nbytes);
        if range.offset < self.from || end.is_none_or(|end| end > self.to) {
            let Range { offset, nbytes } = range;
            let (from, to) = (self.from, self.to);
            return Err(format!(
                "the index names {nbytes} bytes at {offset}, but the shard's chunks lie between {from} and {to}"
            ));
        }
        Ok(Some(Range { offset: self.start + range.offset, ..range }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sharding codec 1.0: 16 · 4 + 4 of the checksum. Sharding storage transformer 1.0, "Binary shard format": 16
    /// bytes a chunk, no checksum; the draft's "1014" is 16 · 64 = 1024 misspelled.
    #[test]
    fn tables_are_as_large_as_the_specifications_say() {
        assert_eq!(TableLayout::new(64, IndexLocation::End, false).unwrap().bytes(), 1024);
        let table = TableLayout::new(4, IndexLocation::End, true).unwrap();
        let bytes = table.encode([(2, (64, 7)), (0, (0, 10)), (3, (128, 1))].into_iter());
        assert_eq!((bytes.len(), table.bytes()), (68, 68));
        assert_eq!(bytes[16..32], [0xff; 16]);
        assert_eq!(bytes[32..48], [64, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[64..], crc32c::crc32c(&bytes[..64]).to_le_bytes());
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let entries = [(0, (68, 10)), (2, (164, 7)), (3, (3, 1))];
        let places = [(IndexLocation::Start, 200), (IndexLocation::End, 300)];
        for ((location, len), big_endian) in places.into_iter().flat_map(|place| [(place, false), (place, true)]) {
            let little = TableLayout::new(4, location, true).unwrap();
            let layout = little.in_byte_order(big_endian);
            let part = layout.part(len).unwrap();
            let bytes = layout.encode(entries.into_iter());
            assert_eq!(bytes == little.encode(entries.into_iter()), !big_endian);
            let table = Table::decode(layout, part, len, bytes.clone()).unwrap();
            assert_eq!(table.entry(0), Ok(Some(Range { offset: 68, nbytes: 10 })));
            assert_eq!((table.entry(1), table.entry(3).is_err()), (Ok(None), location == IndexLocation::Start));
            assert!(Table::decode(layout, part, len, [&[1], &bytes[1..]].concat()).is_err());
        }
        assert_eq!(TableLayout::new(4, IndexLocation::End, true).unwrap().part(67), None);
    }
}
