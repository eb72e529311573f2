//! ZIP archives: a file that holds others, which a directory at its end names.
//!
//! ```text
//! | local header | bytes of an entry | gap | local header | bytes of an entry | … | directory | end |
//! ```
//!
//! The directory alone says what is in an archive: bytes between its entries belong to nothing, and of several entries
//! of one name it names one. All sizes and places are in the 64-bit fields (ZIP64), and entries are stored as they are.
//!
//! Source: PKWARE's APPNOTE.TXT 6.3.10, sections 4.3 to 4.5. All numbers are little-endian.

pub(crate) mod crc32;
pub(crate) mod directory;
pub(crate) mod local;
mod modified;
pub(crate) mod parse;

pub(crate) use modified::Modified;

/// What an entry holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) crc32: u32,
    pub(crate) len: u64,
}

impl Content {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self { crc32: crc32::of(bytes), len: bytes.len() as u64 }
    }
}

/// ZIP 4.5, the first with 64-bit fields.
const VERSION: u16 = 45;
/// Names are UTF-8.
const FLAGS: u16 = 1 << 11;
/// In a field of 16 or 32 bits: the number is in the 64-bit field.
const IN_ZIP64: u16 = u16::MAX;
const IN_ZIP64_LONG: u32 = u32::MAX;
/// The extra field with the 64-bit numbers.
const ZIP64_ID: u16 = 1;

fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    bytes[at..at + field.len()].copy_from_slice(field);
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().copied().map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().copied().map(u64::from_le_bytes)
}
