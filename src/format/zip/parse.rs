//! Reads the directory of any archive, also of other writers. Nothing in it is trusted.

use std::collections::BTreeMap;

use super::directory::{END, END_BYTES, END64, END64_BYTES, ENTRY, ENTRY_BYTES, LOCATOR, LOCATOR_BYTES};
use super::local::{FIXED_BYTES, SIGNATURE};
use super::{Content, IN_ZIP64, IN_ZIP64_LONG, ZIP64_ID, u16_at, u32_at, u64_at};
use crate::words::quoted;

/// Behind its end, an archive has no more than a comment.
pub(crate) const TAIL_BYTES_MAX: u64 = (END_BYTES + u16::MAX as usize + LOCATOR_BYTES) as u64;
/// Two million entries or so. An OME-Zarr of more files is better off in a folder.
const DIRECTORY_BYTES_MAX: u64 = 256 << 20;
const PATH_BYTES_MAX: usize = 4096;

const STORED: u16 = 0;
const DEFLATED: u16 = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DirectoryRange {
    pub(crate) at: u64,
    pub(crate) bytes: u64,
    entries: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tail {
    Directory(DirectoryRange),
    /// The directory's place is said here, in [`END64_BYTES`] bytes.
    End64(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Stored,
    Deflated,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) content: Content,
    pub(crate) stored_bytes: u64,
    pub(crate) method: Method,
    pub(crate) header_at: u64,
}

/// Looks for the end in `tail`, the last bytes of an archive of `len` bytes, which must not be one of several parts.
pub(crate) fn tail(tail: &[u8], len: u64) -> Result<Tail, String> {
    let is_end = |&at: &usize| {
        let comment = u16_at(tail, at + 20).map_or(usize::MAX, usize::from);
        tail[at..].starts_with(&END) && at + END_BYTES + comment == tail.len()
    };
    let starts = 0..(tail.len() + 1).saturating_sub(END_BYTES);
    let at = starts.rev().find(is_end).ok_or("is no ZIP archive, or ends within one: its directory is not there")?;
    let file_at = len - (tail.len() - at) as u64;
    let end = &tail[at..];
    let short = |at| u16_at(end, at).unwrap_or_default();
    let long = |at| u32_at(end, at).unwrap_or_default();
    let locator = at.checked_sub(LOCATOR_BYTES).map(|at| &tail[at..]).filter(|bytes| bytes.starts_with(&LOCATOR));
    if let Some(locator) = locator {
        let place = u64_at(locator, 8).unwrap_or_default();
        let most = file_at - LOCATOR_BYTES as u64;
        if u32_at(locator, 4) != Some(0) || u32_at(locator, 16) != Some(1) {
            return Err(PARTS.into());
        }
        if place.checked_add(END64_BYTES as u64).is_none_or(|end| end > most) {
            return Err(format!("its ZIP64 end is said to be at {place}, and can't be behind {most}"));
        }
        return Ok(Tail::End64(place));
    }
    if [short(4), short(6)] != [0, 0] || short(8) != short(10) {
        return Err(PARTS.into());
    }
    let place = DirectoryRange { at: long(16).into(), bytes: long(12).into(), entries: short(10).into() };
    place.check(file_at).map(Tail::Directory)
}

const PARTS: &str = "is one of several parts of an archive; an OME-Zarr is never split";

/// What the ZIP64 end at `at` says.
pub(crate) fn end64(bytes: &[u8], at: u64) -> Result<DirectoryRange, String> {
    if !bytes.starts_with(&END64) || bytes.len() < END64_BYTES {
        return Err(format!("at {at} there is no ZIP64 end"));
    }
    let word = |at| u64_at(bytes, at).unwrap_or_default();
    if word(16) != 0 || word(24) != word(32) {
        return Err(PARTS.into());
    }
    DirectoryRange { at: word(48), bytes: word(40), entries: word(32) }.check(at)
}

impl DirectoryRange {
    /// It must end before what names it.
    fn check(self, end_at: u64) -> Result<Self, String> {
        let Self { at, bytes, entries } = self;
        if at.checked_add(bytes).is_none_or(|end| end > end_at) {
            return Err(format!("its directory of {bytes} bytes at {at} would reach beyond {end_at}"));
        }
        if bytes > DIRECTORY_BYTES_MAX {
            return Err(format!("its directory has {bytes} bytes; at most {DIRECTORY_BYTES_MAX} are read"));
        }
        if entries > bytes / ENTRY_BYTES as u64 {
            return Err(format!("{entries} entries do not fit its directory of {bytes} bytes"));
        }
        Ok(self)
    }

    /// The entries by their names, from the directory's bytes. Entries of folders are left out.
    ///
    /// # Errors
    ///
    /// A reason for what no OME-Zarr has: names that lead elsewhere or are there twice, entries that share bytes or
    /// reach into the directory, and what is encrypted.
    pub(crate) fn entries(self, bytes: &[u8]) -> Result<BTreeMap<String, Entry>, String> {
        let mut found = BTreeMap::new();
        let mut rest = bytes;
        for number in 0..self.entries {
            let (name, entry, after) = entry(rest).map_err(|reason| format!("entry {number}: {reason}"))?;
            rest = after;
            let least = (FIXED_BYTES + name.len()) as u64;
            let end = entry.header_at.checked_add(least).and_then(|end| end.checked_add(entry.stored_bytes));
            if end.is_none_or(|end| end > self.at) {
                let Entry { stored_bytes, header_at, .. } = entry;
                return Err(format!(
                    "{name}: {stored_bytes} bytes behind {header_at} reach into the directory at {}",
                    self.at
                ));
            }
            if name.ends_with('/') && entry.stored_bytes == 0 {
                check_name(&name[..name.len() - 1])?;
                continue;
            }
            check_name(&name)?;
            if found.insert(name.clone(), entry).is_some() {
                return Err(format!(
                    "{name} is there twice, and readers differ in which they take; unpack it (of `unzip -o`, the last \
                     one stays) and repack the folder"
                ));
            }
        }
        if !rest.is_empty() {
            return Err(format!("behind {} entries, its directory has {} bytes more", self.entries, rest.len()));
        }
        check_apart(&found)?;
        Ok(found)
    }
}

/// The first entry, its name, and what is behind it.
fn entry(bytes: &[u8]) -> Result<(String, Entry, &[u8]), String> {
    let cut = || "the directory ends in its middle".to_owned();
    let short = |at| u16_at(bytes, at).ok_or_else(cut);
    let long = |at| u32_at(bytes, at).ok_or_else(cut);
    if !bytes.starts_with(&ENTRY) {
        return Err("has no entry's signature".into());
    }
    let (name_bytes, extra_bytes) = (usize::from(short(28)?), usize::from(short(30)?));
    let extra_at = ENTRY_BYTES + name_bytes;
    let comment_at = extra_at + extra_bytes;
    let end = comment_at + usize::from(short(32)?);
    let name = bytes.get(ENTRY_BYTES..extra_at).ok_or_else(cut)?;
    let name = String::from_utf8(name.to_vec()).map_err(|_| "its name is no UTF-8".to_owned())?;
    let extra = bytes.get(extra_at..comment_at).ok_or_else(cut)?;
    let after = bytes.get(end..).ok_or_else(cut)?;
    let named = |reason: &str| format!("{name}: {reason}");
    if short(8)? & 1 != 0 {
        return Err(named("is encrypted"));
    }
    let method = match short(10)? {
        STORED => Method::Stored,
        DEFLATED => Method::Deflated,
        other => return Err(named(&format!("is compressed by method {other}, of which only 8 (deflate) is known"))),
    };
    let mut zip64 = zip64(extra).into_iter();
    let mut number = |short: u32| match short {
        IN_ZIP64_LONG => zip64.next().ok_or_else(|| named("lacks a 64-bit number")),
        short => Ok(u64::from(short)),
    };
    // In this order, and only those that the short fields have no room for.
    let (len, stored_bytes, header_at) = (number(long(24)?)?, number(long(20)?)?, number(long(42)?)?);
    if !matches!(short(34)?, 0 | IN_ZIP64) {
        return Err(named(PARTS));
    }
    if method == Method::Stored && len != stored_bytes {
        return Err(named(&format!("has {len} bytes, of which {stored_bytes} are stored")));
    }
    let content = Content { crc32: long(16)?, len };
    Ok((name, Entry { content, stored_bytes, method, header_at }, after))
}

/// The numbers of the ZIP64 field among extra fields.
fn zip64(mut extra: &[u8]) -> Vec<u64> {
    while let (Some(id), Some(len)) = (u16_at(extra, 0), u16_at(extra, 2)) {
        let Some((field, rest)) = extra[4..].split_at_checked(len.into()) else { break };
        if id == ZIP64_ID {
            return field.chunks_exact(8).filter_map(|word| u64_at(word, 0)).collect();
        }
        extra = rest;
    }
    Vec::new()
}

/// Refuses what is no path below the root of a dataset, on any system.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let is_part = |part: &str| !matches!(part, "" | "." | "..") && !part.contains(['\\', '\0']);
    let is_drive = name.as_bytes().get(1) == Some(&b':');
    if name.len() <= PATH_BYTES_MAX && name.split('/').all(is_part) && !is_drive {
        return Ok(());
    }
    let shown: String = name.chars().take(80).collect();
    Err(format!("an entry is called {}, which is no path in a dataset", quoted(shown)))
}

/// Refuses entries that share bytes: a small archive would be as large as it likes. And files that are folders.
fn check_apart(entries: &BTreeMap<String, Entry>) -> Result<(), String> {
    let mut places: Vec<_> = entries.iter().map(|(name, entry)| (entry.header_at, entry.stored_bytes, name)).collect();
    places.sort_unstable();
    for pair in places.windows(2) {
        let [(at, bytes, name), (next_at, _, next)] = pair else { continue };
        if at + (FIXED_BYTES + name.len()) as u64 + bytes > *next_at {
            return Err(format!("{name} and {next} share bytes"));
        }
    }
    for name in entries.keys() {
        let above = name.match_indices('/').map(|(at, _)| &name[..at]).find(|above| entries.contains_key(*above));
        if let Some(above) = above {
            return Err(format!("{above} is both a file and a folder"));
        }
    }
    Ok(())
}

/// Where an entry's bytes begin, as its local header at `at` says, of which `bytes` are the first. It must be of this
/// name, and the entry must end at `end` or before.
pub(crate) fn data_at(bytes: &[u8], name: &str, entry: &Entry, end: u64) -> Result<u64, String> {
    let at = entry.header_at;
    let wrong = || format!("at {at} there is no header of {name}");
    let lengths = u16_at(bytes, 26).zip(u16_at(bytes, 28)).filter(|_| bytes.starts_with(&SIGNATURE));
    let (name_bytes, extra_bytes) = lengths.ok_or_else(wrong)?;
    let found = bytes.get(FIXED_BYTES..FIXED_BYTES + usize::from(name_bytes));
    if found != Some(name.as_bytes()) {
        return Err(wrong());
    }
    let data_at = at + (FIXED_BYTES + usize::from(name_bytes) + usize::from(extra_bytes)) as u64;
    if data_at.checked_add(entry.stored_bytes).is_none_or(|data_end| data_end > end) {
        return Err(format!("{name}: {} bytes at {data_at} reach beyond {end}", entry.stored_bytes));
    }
    Ok(data_at)
}

#[cfg(test)]
mod tests {
    use super::super::directory::{Directory, Named};
    use super::super::{Modified, local};
    use super::*;

    const MODIFIED: Modified = Modified { time: 0, date: 33 };
    const ORIGIN: local::Origin = local::Origin { kind: local::Kind::Whole, archive: [0; 16], serial: 0, room: 0 };

    fn read(file: &[u8]) -> Result<BTreeMap<String, Entry>, String> {
        let len = file.len() as u64;
        let place = match tail(&file[file.len().saturating_sub(TAIL_BYTES_MAX as usize)..], len)? {
            Tail::Directory(place) => place,
            Tail::End64(at) => end64(&file[at as usize..], at)?,
        };
        place.entries(&file[place.at as usize..(place.at + place.bytes) as usize])
    }

    fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
        let (mut bytes, mut directory) = (Vec::new(), Directory::default());
        for (name, file) in files {
            let content = Content::of(file);
            directory.add(&Named { name, content, modified: MODIFIED, header_at: bytes.len() as u64 });
            bytes.extend(local::encode(name, content, MODIFIED, &ORIGIN, 1));
            bytes.extend_from_slice(file);
        }
        bytes.extend(directory.at(bytes.len() as u64, "a comment PK\x05\x06 that looks like an end"));
        bytes
    }

    #[test]
    fn what_was_written_is_read() {
        let files: [(&str, &[u8]); 3] = [("zarr.json", b"{}"), ("0/c/0", &[7; 999]), ("empty", b"")];
        let bytes = archive(&files);
        let entries = read(&bytes).unwrap();
        assert_eq!(entries.len(), 3);
        for (name, file) in files {
            let entry = entries[name];
            assert_eq!((entry.content, entry.method), (Content::of(file), Method::Stored));
            let at = data_at(&bytes[entry.header_at as usize..], name, &entry, bytes.len() as u64).unwrap() as usize;
            assert_eq!(&bytes[at..at + file.len()], file);
        }
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for name in
            ["", "/a", "../a", "a/../b", "a/..", "./a", "a//b", "a\\b", "C:/a", "C:", "a\0b", &"x/".repeat(3000)]
        {
            assert!(read(&archive(&[(name, b"1")])).is_err(), "{name}");
        }
        assert!(read(&archive(&[("a..b/.c/d:e", b"1")])).is_ok());
        let twice = read(&archive(&[("a", b"1"), ("a", b"2")])).unwrap_err();
        assert!(twice.contains("twice"), "{twice}");
        let both = read(&archive(&[("a", b"1"), ("a/b/c", b"2")])).unwrap_err();
        assert!(both.contains("both a file and a folder"), "{both}");
    }

    #[test]
    fn entries_that_share_bytes_are_refused() {
        let content = Content::of(&[0; 100]);
        for (header_at, expected) in [(0, true), (140, false), (1000, false)] {
            let mut directory = Directory::default();
            directory.add(&Named { name: "a", content, modified: MODIFIED, header_at: 0 });
            directory.add(&Named { name: "b", content, modified: MODIFIED, header_at });
            let mut bytes = vec![0; 600];
            bytes.extend(directory.at(600, ""));
            let outcome = read(&bytes);
            let is_shared = outcome.as_ref().is_err_and(|reason| reason.contains("share bytes"));
            assert_eq!(is_shared, expected, "{outcome:?}");
            assert_eq!(outcome.is_err(), header_at != 140);
        }
    }

    #[test]
    fn no_byte_of_a_directory_makes_it_panic_or_reach_out() {
        let bytes = archive(&[("zarr.json", b"{}"), ("0/c/0", &[7; 50])]);
        let mut refused = 0;
        for at in 0..bytes.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[at] = value;
                match read(&changed) {
                    Ok(entries) => {
                        for (name, entry) in entries {
                            let header = changed.get(entry.header_at as usize..).unwrap_or_default();
                            let found = data_at(header, &name, &entry, changed.len() as u64);
                            assert!(found.is_err() || found.unwrap() + entry.stored_bytes <= changed.len() as u64);
                        }
                    }
                    Err(_) => refused += 1,
                }
            }
        }
        assert!(refused > 100, "{refused}");
        for len in 0..bytes.len() {
            assert!(read(&bytes[..len]).is_err());
        }
    }

    #[test]
    fn an_archive_without_64_bit_fields_is_read() {
        // By hand, as short as archives come.
        let mut bytes = b"PK\x03\x04\x0a\0\0\0\0\0\0\0\x21\0".to_vec();
        let crc = Content::of(b"hi").crc32.to_le_bytes();
        let sizes = [&crc[..], &2u32.to_le_bytes(), &2u32.to_le_bytes()].concat();
        bytes.extend(&sizes);
        bytes.extend(b"\x01\0\0\0ahi");
        let at = bytes.len() as u32;
        bytes.extend(b"PK\x01\x02\x0a\0\x0a\0\0\0\0\0\0\0\x21\0");
        bytes.extend(&sizes);
        bytes.extend(b"\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0a");
        let len = bytes.len() as u32 - at;
        bytes.extend(b"PK\x05\x06\0\0\0\0\x01\0\x01\0");
        bytes.extend([len.to_le_bytes(), at.to_le_bytes()].concat());
        bytes.extend(b"\0\0");
        let entry = read(&bytes).unwrap()["a"];
        assert_eq!(entry.content, Content::of(b"hi"));
        assert_eq!(data_at(&bytes, "a", &entry, at.into()), Ok(31));
        // The same as one of two parts.
        bytes[at as usize + len as usize + 4] = 1;
        assert!(read(&bytes).unwrap_err().contains("parts"));
    }
}
