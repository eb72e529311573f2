//! What is compared: the files of a dataset as text, without what differs from run to run.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// What `repack` leaves about paths and times.
pub(super) const JOURNAL: &str = ".shardwright.repack.json";
/// Of a dataset of several images whose handle is still there: it lists their shards in the order in which they were
/// closed.
const LOCK: &str = ".shardwright.lock";

/// Name and text.
pub(super) type Dump = (String, String);

/// Every file below `root`, with what differs from run to run put out.
pub(super) fn dump(root: &Path) -> String {
    masked_files(root).fold(String::new(), |text, (file, bytes)| text + &headline(&file, &bytes) + &readable(&bytes))
}

/// Name, length and checksum of every file below `root`, for cases whose bytes would fill the folder.
pub(super) fn digest(root: &Path) -> String {
    masked_files(root).map(|(file, bytes)| headline(&file, &bytes)).collect()
}

fn masked_files(root: &Path) -> impl Iterator<Item = (PathBuf, Vec<u8>)> {
    let mut files = files(root, root);
    files.sort();
    let writers = writers(root, &files);
    files.into_iter().map(move |file| {
        let mut bytes = fs::read(root.join(&file)).unwrap();
        mask(&mut bytes, &writers);
        (file, bytes)
    })
}

pub(super) fn headline(file: &Path, bytes: &[u8]) -> String {
    format!("== {}, {} bytes, crc32c {:08x}\n", file.display(), bytes.len(), crc32c::crc32c(bytes))
}

pub(super) fn readable(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if text.starts_with('{') => format!("{text}\n"),
        _ => hexadecimal(bytes),
    }
}

pub(super) fn files(root: &Path, folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(root, &path));
        } else if !path.ends_with(JOURNAL) && !path.ends_with(LOCK) {
            found.push(path.strip_prefix(root).unwrap().to_path_buf());
        }
    }
    found
}

/// The UUIDs that the writer's attributes name.
pub(super) fn writers(root: &Path, files: &[PathBuf]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files {
        if let Ok(document) = serde_json::from_slice::<Value>(&fs::read(root.join(file)).unwrap()) {
            named_writers(&document, &mut found);
        }
    }
    found
}

fn named_writers(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            found.extend(object.get("writer").and_then(Value::as_str).map(str::to_owned));
            object.values().for_each(|value| named_writers(value, found));
        }
        Value::Array(values) => values.iter().for_each(|value| named_writers(value, found)),
        _ => {}
    }
}

/// Puts out the UUIDs, and the checksums of the headers that hold them.
pub(super) fn mask(bytes: &mut [u8], writers: &[String]) {
    const MAGIC: &[u8] = b"SWc1";
    for writer in writers {
        let raw: Vec<u8> = (0..16).map(|at| u8::from_str_radix(&writer[2 * at..2 * at + 2], 16).unwrap()).collect();
        for at in 0..bytes.len() {
            if bytes[at..].starts_with(writer.as_bytes()) {
                bytes[at..at + writer.len()].fill(b'0');
            } else if bytes[at..].starts_with(MAGIC) && bytes[at..].len() >= 64 && bytes[at + 24..].starts_with(&raw) {
                bytes[at + 24..at + 40].fill(0);
                bytes[at + 60..at + 64].fill(0);
            }
        }
    }
}

/// As `xxd -a` has it: a row that is as the one before, or zero, is a star.
pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::new();
    let mut last: &[u8] = &[0; 32];
    let mut skipped = false;
    for (at, row) in bytes.chunks(32).enumerate() {
        if row == last || row.iter().all(|&byte| byte == 0) {
            skipped = true;
            continue;
        }
        if std::mem::take(&mut skipped) {
            text.push_str("*\n");
        }
        write!(text, "{:06x} ", 32 * at).unwrap();
        row.iter().for_each(|byte| write!(text, "{byte:02x}").unwrap());
        text.push('\n');
        last = row;
    }
    text
}

/// Compares with what is committed, or writes that.
pub(super) fn compare(name: &str, dumps: Vec<Dump>) {
    let text = dumps.into_iter().fold(String::new(), |text, (case, dump)| format!("{text}#### {case}\n{dump}"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/it/golden/{name}.txt"));
    if std::env::var("SHARDWRIGHT_GOLDEN").is_ok_and(|what| what == "write") {
        fs::write(&path, text).unwrap();
        return;
    }
    let golden = fs::read_to_string(&path).unwrap();
    let differs = golden.lines().zip(text.lines()).enumerate().find(|(_, (golden, now))| golden != now);
    if let Some((at, (golden, now))) = differs {
        panic!("{}:{}: was\n{golden}\nand is\n{now}", path.display(), at + 1);
    }
    assert_eq!(golden.lines().count(), text.lines().count(), "{}", path.display());
}

/// Puts out the UUIDs in an archive and the archive's own, with the times and checksums of the entries that hold them.
pub(super) fn mask_archive(bytes: &mut [u8]) {
    let field = b"\"writer\": \"";
    let named: BTreeSet<_> =
        (0..bytes.len()).filter(|&at| bytes[at..].starts_with(field)).map(|at| at + field.len()).collect();
    let writers: Vec<_> = named.into_iter().map(|at| String::from_utf8(bytes[at..at + 32].to_vec()).unwrap()).collect();
    mask(bytes, &writers);
    for at in 0..bytes.len().saturating_sub(46) {
        // APPNOTE 4.3.7 and 4.3.12: time, date, CRC-32.
        let from = match &bytes[at..at + 4] {
            b"PK\x03\x04" => at + 10,
            b"PK\x01\x02" => at + 12,
            _ => continue,
        };
        bytes[from..from + 8].fill(0);
        if from == at + 10 {
            // Behind the name and the sizes of ZIP64, the field of its own: version, kind, checksum, UUID.
            let name_bytes = usize::from(bytes[at + 26]);
            let own = at + 30 + name_bytes + 20 + 4;
            bytes[own + 4..own + 24].fill(0);
        }
    }
}
