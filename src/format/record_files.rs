//! How the blocks of an array of records lie in its files: each is one, or many share one, behind a table.
//!
//! ```text
//! | table of all blocks | block 0 | block 1 | …
//! ```
//!
//! Each block has a place of its own, whichever of the others are there, and the file ends behind the last of them. So
//! a block is written where it is read, and is named by the table from the moment on when it is there.

use super::index::Range;
use super::index::table::TableLayout;
use crate::config::IndexLocation;

/// As many blocks share a file at most.
pub(crate) const BLOCKS_A_FILE_MAX: u64 = 4096;

const ENTRY_BYTES: u64 = 16;

/// What a file begins with that has no block yet.
static EMPTY_TABLE: [u8; (BLOCKS_A_FILE_MAX * ENTRY_BYTES) as usize] =
    [0xff; (BLOCKS_A_FILE_MAX * ENTRY_BYTES) as usize];

/// The files of one array of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordFiles {
    blocks: u64,
    block_bytes: u64,
}

/// Some bytes of a file, and where they are written.
pub(crate) type TableEntry = (u64, [u8; ENTRY_BYTES as usize]);

/// The table of a file that blocks share; `None`: each is a file.
pub(crate) fn table(blocks_a_file: u64) -> Option<TableLayout> {
    let table = TableLayout::new(blocks_a_file, IndexLocation::Start, false);
    table.filter(|_| (2..=BLOCKS_A_FILE_MAX).contains(&blocks_a_file))
}

impl RecordFiles {
    /// Files that blocks of this many bytes share.
    pub(crate) fn shared(blocks_a_file: u64, block_bytes: u64) -> Option<Self> {
        table(blocks_a_file).map(|_| Self { blocks: blocks_a_file, block_bytes })
    }

    /// How many share a file.
    #[cfg(any(feature = "offline", test))]
    pub(crate) fn blocks(self) -> u64 {
        self.blocks
    }

    /// The number of the file in which a block is.
    #[cfg(any(feature = "offline", test))]
    pub(crate) fn file(self, block: u64) -> u64 {
        block / self.blocks
    }

    pub(crate) fn empty_table(self) -> &'static [u8] {
        &EMPTY_TABLE[..(self.blocks * ENTRY_BYTES) as usize]
    }

    /// Where a block is in its file.
    pub(crate) fn place(self, block: u64) -> Range {
        let Self { blocks, block_bytes } = self;
        Range { offset: blocks * ENTRY_BYTES + block % blocks * block_bytes, nbytes: block_bytes }
    }

    /// What the table says of a block that is there.
    pub(crate) fn entry(self, block: u64) -> TableEntry {
        let Range { offset, nbytes } = self.place(block);
        self.entry_of(block, [offset, nbytes])
    }

    /// What it says of one that is not.
    #[cfg(any(feature = "offline", test))]
    pub(crate) fn no_entry(self, block: u64) -> TableEntry {
        self.entry_of(block, [super::index::table::MISSING; 2])
    }

    fn entry_of(self, block: u64, [offset, nbytes]: [u64; 2]) -> TableEntry {
        let mut entry = [0; ENTRY_BYTES as usize];
        entry[..8].copy_from_slice(&offset.to_le_bytes());
        entry[8..].copy_from_slice(&nbytes.to_le_bytes());
        (block % self.blocks * ENTRY_BYTES, entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_grows_by_entries_is_one_that_is_written_as_a_whole() {
        let files = RecordFiles::shared(4, 24).unwrap();
        let mut grown = files.empty_table().to_vec();
        for block in [5, 4, 7] {
            let (at, entry) = files.entry(block);
            grown[at as usize..][..16].copy_from_slice(&entry);
        }
        let (at, entry) = files.no_entry(4);
        grown[at as usize..][..16].copy_from_slice(&entry);
        let whole = table(4).unwrap().encode([(1, (64 + 24, 24)), (3, (64 + 72, 24))].into_iter());
        assert_eq!((grown, files.file(7), files.place(7).offset), (whole, 1, 136));
        assert!(RecordFiles::shared(1, 24).is_none() && RecordFiles::shared(BLOCKS_A_FILE_MAX + 1, 24).is_none());
    }
}
