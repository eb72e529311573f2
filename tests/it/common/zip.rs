//! A dull reader of ZIP archives, by the specification and not by the product: for what is in one, and whether its
//! checksums are right.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub name: String,
    pub crc32: u32,
    pub len: u64,
    pub header_at: u64,
    /// Where its bytes begin.
    pub at: u64,
}

fn number(bytes: &[u8], at: usize, len: usize) -> u64 {
    bytes[at..at + len].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The entries in the order of the directory, and the archive's comment.
pub fn entries(path: &Path) -> (Vec<Entry>, String) {
    let file = File::open(path).unwrap();
    let len = file.metadata().unwrap().len();
    let mut tail = vec![0; len.min(70_000) as usize];
    let tail_at = len - tail.len() as u64;
    file.read_exact_at(&mut tail, tail_at).unwrap();
    let end = (0..=tail.len() - 22).rev().find(|&at| tail[at..].starts_with(b"PK\x05\x06")).expect("an end");
    let comment = &tail[end + 22..];
    assert_eq!(comment.len() as u64, number(&tail, end + 20, 2));
    let locator = &tail[end - 20..];
    assert!(locator.starts_with(b"PK\x06\x07"), "ZIP64 throughout");
    let mut end64 = [0; 56];
    file.read_exact_at(&mut end64, number(locator, 8, 8)).unwrap();
    assert!(end64.starts_with(b"PK\x06\x06"));
    let mut directory = vec![0; number(&end64, 40, 8) as usize];
    file.read_exact_at(&mut directory, number(&end64, 48, 8)).unwrap();
    let (mut found, mut at) = (Vec::new(), 0);
    while at < directory.len() {
        let entry = &directory[at..];
        assert!(entry.starts_with(b"PK\x01\x02"));
        assert_eq!(number(entry, 10, 2), 0, "stored");
        let (name_len, extra_len) = (number(entry, 28, 2) as usize, number(entry, 30, 2) as usize);
        let extra = &entry[46 + name_len..];
        assert_eq!((number(extra, 0, 2), number(extra, 2, 2)), (1, 24), "ZIP64");
        let header_at = number(extra, 20, 8);
        let mut header = [0; 30];
        file.read_exact_at(&mut header, header_at).unwrap();
        assert!(header.starts_with(b"PK\x03\x04"));
        let name = String::from_utf8(entry[46..46 + name_len].to_vec()).unwrap();
        let data_at = header_at + 30 + number(&header, 26, 2) + number(&header, 28, 2);
        let (crc32, len) = (number(entry, 16, 4) as u32, number(extra, 4, 8));
        assert_eq!(number(&header, 14, 4) as u32, crc32, "{name}: the header says the same");
        found.push(Entry { name, crc32, len, header_at, at: data_at });
        at += 46 + name_len + extra_len;
    }
    assert_eq!(found.len() as u64, number(&end64, 32, 8));
    (found, String::from_utf8(comment.to_vec()).unwrap())
}

/// The bytes of an entry.
pub fn bytes(path: &Path, entry: &Entry) -> Vec<u8> {
    let mut bytes = vec![0; entry.len as usize];
    File::open(path).unwrap().read_exact_at(&mut bytes, entry.at).unwrap();
    bytes
}

/// The bytes of a file in a dataset, which is a folder or an archive.
pub fn read(dataset: &Path, name: &str) -> Vec<u8> {
    if !dataset.is_file() {
        return std::fs::read(dataset.join(name)).unwrap();
    }
    let (entries, _) = entries(dataset);
    bytes(dataset, entries.iter().find(|entry| entry.name == name).expect("an entry of this name"))
}

fn crc32(bytes: &[u8]) -> u32 {
    let table: Vec<u32> = (0..256)
        .map(|byte: u32| (0..8).fold(byte, |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 }))
        .collect();
    !bytes.iter().fold(!0, |crc: u32, byte| crc >> 8 ^ table[(crc as u8 ^ byte) as usize])
}

/// The names of the entries whose bytes are not what their checksum says.
pub fn wrong(path: &Path) -> Vec<String> {
    let (entries, _) = entries(path);
    let is_wrong = |entry: &Entry| crc32(&bytes(path, entry)) != entry.crc32;
    entries.iter().filter(|entry| is_wrong(entry)).map(|entry| entry.name.clone()).collect()
}
