//! The header before the bytes of an entry.
//!
//! ```text
//!  0  signature      4   "PK\x03\x04"
//!  4  version        2   45
//!  6  flags          2   bit 11: names are UTF-8
//!  8  method         2   0: stored
//! 10  modified       4   time and date
//! 14  crc-32         4   of the entry
//! 18  sizes          8   2^32 − 1 twice: see below
//! 26  name length    2
//! 28  extra length   2
//! 30  name           n
//!     extra 0x0001  20   ZIP64: size and stored size, 8 bytes each
//!     extra 0x7753  44   of this crate, and zeros up to where the entry shall begin
//! ```
//!
//! The crate's own extra field, behind its number and its length:
//!
//! ```text
//!  0  version        1   1
//!  1  kind           1   0: a file that was written whole; 1: one that may be under construction
//!  2  zeros          2
//!  4  header crc     4   crc32c of the header without what changes: it, modified, crc-32 and the sizes are zeros
//!  8  archive       16   the same in all headers of an archive; zeros in one that was written at once
//! 24  serial         8   higher in an entry that came later
//! 32  room           8   bytes from the start of the entry that nothing else is put into
//! 40  zeros
//! ```
//!
//! By these fields an archive is put together again that has lost its directory: headers stand at multiples of 4096
//! bytes, and behind the room of one comes another.

use super::{Content, FLAGS, IN_ZIP64_LONG, Modified, VERSION, ZIP64_ID, put, u16_at, u32_at, u64_at};

/// The unit of places in an archive of this crate.
pub(crate) const PAGE: u64 = 4096;
pub(crate) const SIGNATURE: [u8; 4] = *b"PK\x03\x04";
/// A header before its name.
pub(crate) const FIXED_BYTES: usize = 30;
const EXTRA_BYTES: usize = 4;
const SIZES_BYTES: usize = 16;
const OWN_ID: u16 = 0x7753;
const OWN_BYTES: usize = 40;
const OWN_VERSION: u8 = 1;

const MODIFIED_AT: usize = 10;
const CRC_AT: usize = 14;

/// In place of an archive's own number: its headers tell no more than its directory, and don't stand on pages.
pub(crate) const WRITTEN_AT_ONCE: [u8; 16] = [0; 16];

/// Longer names would not leave room for the extra fields.
pub(crate) const NAME_BYTES_MAX: usize = 1024;

/// What an entry was when it was begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Whole,
    /// A shard, of which more may have been written since its header was.
    Growing,
    /// A shard that was closed before its header was written.
    Closed,
}

impl Kind {
    pub(crate) fn is_shard(self) -> bool {
        self != Self::Whole
    }
}

/// Where an entry is from, for whoever has to find it without a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) kind: Kind,
    pub(crate) archive: [u8; 16],
    pub(crate) serial: u64,
    pub(crate) room: u64,
}

/// Bytes of the header of an entry of this name that begins at a multiple of `align` behind it.
pub(crate) fn bytes(name: &str, align: usize) -> usize {
    let least = FIXED_BYTES + name.len() + EXTRA_BYTES + SIZES_BYTES + EXTRA_BYTES + OWN_BYTES;
    least.next_multiple_of(align.max(1))
}

/// The header, so long that an entry behind it begins at a multiple of `align` if the header does.
pub(crate) fn encode(name: &str, content: Content, modified: Modified, origin: &Origin, align: usize) -> Vec<u8> {
    let mut header = vec![0; bytes(name, align)];
    let own_at = FIXED_BYTES + name.len() + EXTRA_BYTES + SIZES_BYTES + EXTRA_BYTES;
    let own_bytes = header.len() - own_at;
    put(&mut header, 0, &SIGNATURE);
    put(&mut header, 4, &VERSION.to_le_bytes());
    put(&mut header, 6, &FLAGS.to_le_bytes());
    put(&mut header, 26, &(name.len() as u16).to_le_bytes());
    let extra = header.len() - FIXED_BYTES - name.len();
    put(&mut header, 28, &(extra as u16).to_le_bytes());
    put(&mut header, FIXED_BYTES, name.as_bytes());
    let zip64_at = FIXED_BYTES + name.len();
    put(&mut header, zip64_at, &ZIP64_ID.to_le_bytes());
    put(&mut header, zip64_at + 2, &(SIZES_BYTES as u16).to_le_bytes());
    put(&mut header, own_at - EXTRA_BYTES, &OWN_ID.to_le_bytes());
    put(&mut header, own_at - 2, &(own_bytes as u16).to_le_bytes());
    header[own_at] = OWN_VERSION;
    header[own_at + 1] = origin.kind as u8;
    put(&mut header, own_at + 8, &origin.archive);
    put(&mut header, own_at + 24, &origin.serial.to_le_bytes());
    put(&mut header, own_at + 32, &origin.room.to_le_bytes());
    let crc = crc32c::crc32c(&header);
    put(&mut header, own_at + 4, &crc.to_le_bytes());
    put(&mut header, MODIFIED_AT, &modified.time.to_le_bytes());
    put(&mut header, MODIFIED_AT + 2, &modified.date.to_le_bytes());
    put(&mut header, CRC_AT, &content.crc32.to_le_bytes());
    put(&mut header, CRC_AT + 4, &[IN_ZIP64_LONG.to_le_bytes(); 2].concat());
    put(&mut header, zip64_at + EXTRA_BYTES, &[content.len.to_le_bytes(); 2].concat());
    header
}

/// What a header says that [`encode`] made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) name: String,
    pub(crate) content: Content,
    pub(crate) origin: Origin,
    /// Its own bytes.
    pub(crate) bytes: u64,
}

/// The header at the start of `bytes`, if it is whole and one of this crate's.
pub(crate) fn decode(bytes: &[u8]) -> Option<Header> {
    let name_bytes = usize::from(u16_at(bytes, 26)?);
    let length = FIXED_BYTES + name_bytes + usize::from(u16_at(bytes, 28)?);
    let header = bytes.get(..length).filter(|header| header.starts_with(&SIGNATURE))?;
    let zip64_at = FIXED_BYTES + name_bytes;
    let own_at = zip64_at + EXTRA_BYTES + SIZES_BYTES + EXTRA_BYTES;
    let own = header.get(own_at..).filter(|own| own.len() >= OWN_BYTES)?;
    let is_own = u16_at(header, own_at - EXTRA_BYTES) == Some(OWN_ID) && own[0] == OWN_VERSION;
    let kind = match own[1] {
        0 => Kind::Whole,
        1 => Kind::Growing,
        2 => Kind::Closed,
        _ => return None,
    };
    let mut fixed = header.to_vec();
    for (at, len) in [(MODIFIED_AT, 16), (zip64_at + EXTRA_BYTES, SIZES_BYTES), (own_at + 4, 4)] {
        fixed[at..at + len].fill(0);
    }
    if !is_own || u32_at(own, 4) != Some(crc32c::crc32c(&fixed)) {
        return None;
    }
    Some(Header {
        name: String::from_utf8(header[FIXED_BYTES..zip64_at].to_vec()).ok()?,
        content: Content { crc32: u32_at(header, CRC_AT)?, len: u64_at(header, zip64_at + EXTRA_BYTES)? },
        origin: Origin {
            kind,
            archive: own[8..].first_chunk().copied()?,
            serial: u64_at(own, 24)?,
            room: u64_at(own, 32)?,
        },
        bytes: length as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGIN: Origin = Origin { kind: Kind::Growing, archive: [7; 16], serial: 3, room: 1 << 40 };
    const CONTENT: Content = Content { crc32: 0x1234_5678, len: 5 << 32 };
    const MODIFIED: Modified = Modified { time: 0x1111, date: 0x2222 };

    #[test]
    fn a_header_says_what_it_must_at_its_places() {
        let header = encode("0/c/0", CONTENT, MODIFIED, &ORIGIN, 1);
        assert_eq!(header.len(), 30 + 5 + 20 + 44);
        assert_eq!(header[..14], *b"PK\x03\x04\x2d\x00\x00\x08\x00\x00\x11\x11\x22\x22");
        assert_eq!(header[14..18], 0x1234_5678u32.to_le_bytes());
        assert_eq!(header[18..26], [0xff; 8]);
        assert_eq!(header[26..35], *b"\x05\x00\x40\x000/c/0");
        assert_eq!(header[35..39], *b"\x01\x00\x10\x00");
        assert_eq!(header[39..47], (5u64 << 32).to_le_bytes());
        assert_eq!(header[47..55], (5u64 << 32).to_le_bytes());
        assert_eq!(header[55..61], *b"\x53\x77\x28\x00\x01\x01");
        assert_eq!(header[67..83], [7; 16]);
        assert_eq!(header[83..91], 3u64.to_le_bytes());
        assert_eq!(header[91..99], (1u64 << 40).to_le_bytes());
    }

    #[test]
    fn a_header_ends_where_its_entry_shall_begin() {
        for (name, align) in [("a", 1), ("zarr.json", 8), ("0/c/0/0/0", 4096), (&*"x".repeat(NAME_BYTES_MAX), 4096)] {
            let header = encode(name, CONTENT, MODIFIED, &ORIGIN, align);
            assert_eq!((header.len(), header.len() % align), (bytes(name, align), 0));
            let read = decode(&[&header[..], b"what follows"].concat()).expect("a header");
            assert_eq!((&*read.name, read.content, read.origin), (name, CONTENT, ORIGIN));
            assert_eq!(read.bytes, header.len() as u64);
        }
    }

    #[test]
    fn what_is_patched_later_does_not_spoil_it_and_any_other_bit_does() {
        let header = encode("0/c/0", CONTENT, MODIFIED, &ORIGIN, 128);
        for bit in 0..8 * header.len() {
            let mut flipped = header.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let may_change = (10..26).contains(&(bit / 8)) || (39..55).contains(&(bit / 8));
            assert_eq!(decode(&flipped).is_some(), may_change, "byte {}", bit / 8);
        }
        assert_eq!((0..header.len()).find(|&len| decode(&header[..len]).is_some()), None);
    }
}
