//! The directory of an archive, and the end of the file, by which it is found.
//!
//! For each entry:
//!
//! ```text
//!  0  signature      4   "PK\x01\x02"
//!  4  made by        2   45, Unix
//!  6  version        2   45
//!  8  flags          2   bit 11: names are UTF-8
//! 10  method         2   0: stored
//! 12  modified       4   time and date
//! 16  crc-32         4
//! 20  sizes          8   2^32 − 1 twice: see below
//! 28  name length    2
//! 30  extra length   2
//! 32  zeros          6   comment length, disk, internal attributes
//! 38  attributes     4   a file that its owner may write and all may read
//! 42  offset         4   2^32 − 1
//! 46  name           n
//!     extra 0x0001  28   ZIP64: size, stored size and the place of the local header, 8 bytes each
//! ```
//!
//! Behind them:
//!
//! ```text
//!  0  "PK\x06\x06"   4   ZIP64 end of the directory
//!  4  bytes          8   44: what follows in this record
//! 12  made by        2
//! 14  version        2
//! 16  disks          8   0
//! 24  entries       16   their number, twice
//! 40  directory     16   its bytes and its place
//! 56  "PK\x06\x07"   4   where the ZIP64 end is
//! 60  disk           4   0
//! 64  place          8
//! 72  disks          4   1
//! 76  "PK\x05\x06"   4   end of the directory
//! 80  disks          4   0
//! 84  numbers       12   entries twice, bytes and place: all bits are set, since they are in the ZIP64 end
//! 96  comment length 2
//! 98  comment        n
//! ```

use serde_json::{Value, json};

use super::super::zarr3::DOCUMENT;
use super::{Content, FLAGS, IN_ZIP64, IN_ZIP64_LONG, Modified, VERSION, ZIP64_ID, put};
use crate::json::text;

pub(super) const ENTRY: [u8; 4] = *b"PK\x01\x02";
pub(super) const END64: [u8; 4] = *b"PK\x06\x06";
pub(super) const LOCATOR: [u8; 4] = *b"PK\x06\x07";
pub(super) const END: [u8; 4] = *b"PK\x05\x06";
pub(super) const ENTRY_BYTES: usize = 46;
pub(crate) const END64_BYTES: usize = 56;
pub(super) const LOCATOR_BYTES: usize = 20;
pub(super) const END_BYTES: usize = 22;
/// Of the comment that this crate's writer puts behind the end.
pub(crate) const COMMENT_BYTES_MAX: usize = 256;

const MADE_BY_UNIX: u16 = 3 << 8 | VERSION;
const A_FILE: u32 = 0o100_644 << 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Named<'a> {
    pub(crate) name: &'a str,
    pub(crate) content: Content,
    pub(crate) modified: Modified,
    pub(crate) header_at: u64,
}

/// Entries of a directory, which may stand anywhere.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Directory {
    bytes: Vec<u8>,
    entries: u64,
}

impl Directory {
    pub(crate) fn add(&mut self, entry: &Named<'_>) {
        let mut bytes = [0; ENTRY_BYTES];
        put(&mut bytes, 0, &ENTRY);
        put(&mut bytes, 4, &MADE_BY_UNIX.to_le_bytes());
        put(&mut bytes, 6, &VERSION.to_le_bytes());
        put(&mut bytes, 8, &FLAGS.to_le_bytes());
        put(&mut bytes, 12, &entry.modified.time.to_le_bytes());
        put(&mut bytes, 14, &entry.modified.date.to_le_bytes());
        put(&mut bytes, 16, &entry.content.crc32.to_le_bytes());
        put(&mut bytes, 20, &[IN_ZIP64_LONG.to_le_bytes(); 2].concat());
        put(&mut bytes, 28, &(entry.name.len() as u16).to_le_bytes());
        put(&mut bytes, 30, &28u16.to_le_bytes());
        put(&mut bytes, 38, &A_FILE.to_le_bytes());
        put(&mut bytes, 42, &IN_ZIP64_LONG.to_le_bytes());
        self.bytes.extend_from_slice(&bytes);
        self.bytes.extend_from_slice(entry.name.as_bytes());
        self.bytes.extend_from_slice(&ZIP64_ID.to_le_bytes());
        self.bytes.extend_from_slice(&24u16.to_le_bytes());
        for number in [entry.content.len, entry.content.len, entry.header_at] {
            self.bytes.extend_from_slice(&number.to_le_bytes());
        }
        self.entries += 1;
    }

    /// Bytes of the directory and the end behind it.
    pub(crate) fn len(&self, comment: &str) -> usize {
        self.bytes.len() + END64_BYTES + LOCATOR_BYTES + END_BYTES + comment.len()
    }

    /// The directory and the end, which are to stand at `at`.
    pub(crate) fn at(&self, at: u64, comment: &str) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len(comment));
        bytes.extend_from_slice(&self.bytes);
        let end64_at = at + bytes.len() as u64;
        bytes.extend_from_slice(&END64);
        bytes.extend_from_slice(&(END64_BYTES as u64 - 12).to_le_bytes());
        bytes.extend_from_slice(&[MADE_BY_UNIX.to_le_bytes(), VERSION.to_le_bytes()].concat());
        bytes.extend_from_slice(&[0; 8]);
        for number in [self.entries, self.entries, self.bytes.len() as u64, at] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&LOCATOR);
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&end64_at.to_le_bytes());
        bytes.extend_from_slice(&1u32.to_le_bytes());
        bytes.extend_from_slice(&END);
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&[IN_ZIP64.to_le_bytes(); 2].concat());
        bytes.extend_from_slice(&[IN_ZIP64_LONG.to_le_bytes(); 2].concat());
        bytes.extend_from_slice(&(comment.len() as u16).to_le_bytes());
        bytes.extend_from_slice(comment.as_bytes());
        bytes
    }
}

/// The order of entries that RFC-9 recommends: the documents of Zarr first, those of the upper groups before those
/// below.
pub(crate) fn order(name: &str) -> (bool, usize, &str) {
    let is_document = name == DOCUMENT || name.ends_with("/zarr.json");
    (!is_document, if is_document { name.matches('/').count() } else { 0 }, name)
}

/// The comment of an archive with an OME-Zarr whose root says `attributes`; empty where it says no version.
///
/// RFC-9 of NGFF, "OME-Zarr Zip Comment Structure".
pub(crate) fn comment(attributes: &Value) -> String {
    let Some(version) = attributes.pointer("/ome/version").and_then(text) else { return String::new() };
    let comment = json!({"ome": {"version": version, "zipFile": {"centralDirectory": {"jsonFirst": true}}}});
    // What is longer than any version says nothing that a reader could use.
    Some(comment.to_string()).filter(|comment| comment.len() <= COMMENT_BYTES_MAX).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_of_upper_groups_come_first() {
        let mut names = vec!["0/c/0/0", "a", "OME/METADATA.ome.xml", "b/0/zarr.json", "a/zarr.json", "zarr.json"];
        names.extend(["0/zarr.json", "xzarr.json", "records/frame_number/c/0"]);
        names.sort_by_key(|name| order(name));
        let documents = ["zarr.json", "0/zarr.json", "a/zarr.json", "b/0/zarr.json"];
        assert_eq!(names[..4], documents);
        assert_eq!(names[4..], ["0/c/0/0", "OME/METADATA.ome.xml", "a", "records/frame_number/c/0", "xzarr.json"]);
    }

    #[test]
    fn the_comment_names_the_version_and_the_order() {
        let comment = comment(&json!({"ome": {"version": "0.5", "multiscales": []}}));
        let expected = r#"{"ome":{"version":"0.5","zipFile":{"centralDirectory":{"jsonFirst":true}}}}"#;
        assert_eq!(comment, expected);
        assert_eq!(super::comment(&json!({"ome": {"version": "x".repeat(300)}})), "");
        assert_eq!(super::comment(&json!({"foo": 1})), "");
    }

    #[test]
    fn the_end_says_where_the_directory_is() {
        let content = Content { crc32: 9, len: 6 << 32 };
        let modified = Modified { time: 1, date: 2 };
        let mut directory = Directory::default();
        directory.add(&Named { name: "a/b", content, modified, header_at: 7 << 32 });
        let bytes = directory.at(1 << 40, "{}");
        assert_eq!(bytes.len(), directory.len("{}"));
        assert_eq!(bytes.len(), 46 + 3 + 28 + 98 + 2);
        let end = &bytes[77..];
        assert_eq!((&end[..4], &end[56..60], &end[76..80]), (&END64[..], &LOCATOR[..], &END[..]));
        let words = [1, 1, 77, 1 << 40];
        assert_eq!(end[24..56], words.iter().flat_map(|word: &u64| word.to_le_bytes()).collect::<Vec<_>>());
        assert_eq!(end[64..72], ((1u64 << 40) + 77).to_le_bytes());
        assert_eq!(end[96..], *b"\x02\x00{}");
    }
}
