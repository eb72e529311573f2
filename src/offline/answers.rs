//! What other processes have found in the files of a dataset, one line each, read when it is needed: of a million
//! files, none is held in memory but where its line stands.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::array::Array;
use super::shared_records::shared_files;
use crate::error::{Error, Result};
use crate::fnv;
use crate::fs::look;

/// A longer line is none of ours.
const LINE_BYTES_MAX: u64 = 64 << 20;

/// An array whose files can be looked at one by one, by who knows nothing of the others.
#[derive(Debug)]
pub(super) struct SeparateFiles {
    /// The path below the dataset.
    pub(super) name: String,
    /// The array's document.
    pub(super) document: PathBuf,
    /// What its writer says of it, as far as it takes to understand one of its files.
    pub(super) said: Option<Value>,
    /// Those that are there.
    pub(super) files: Vec<PathBuf>,
}

impl SeparateFiles {
    /// Whether an array is one, at this path: its files are shards and boxes, and are found by the document in its own
    /// folder. Records are looked at together.
    pub(super) fn are_of(array: &Array, path: &Path) -> bool {
        let layout = array.layout();
        let is_own = array.path() == path && array.folder() == path && array.document().parent() == Some(path);
        is_own
            && shared_files(array).is_none()
            && layout.has_index()
            && layout.has_boxes()
            && array.manifest().is_none()
    }
}

/// A time of change as it stands in files of tasks and receipts.
pub(super) fn time_text((seconds, nanoseconds): (i64, i64)) -> String {
    format!("{seconds}.{nanoseconds:09}")
}

/// A line: which file was looked at, as a receipt tells it, and what was found.
#[derive(Debug, Serialize)]
pub(super) struct Answered<'a, R, A> {
    pub(super) receipt: &'a R,
    pub(super) answer: &'a A,
}

/// What of a receipt is believed.
#[derive(Debug, Deserialize)]
struct KnownReceipt {
    plan: String,
    id: String,
    bytes: u64,
    modified: String,
}

#[derive(Deserialize)]
struct KnownLine {
    receipt: KnownReceipt,
}

#[derive(Deserialize)]
struct WholeLine<A> {
    receipt: KnownReceipt,
    answer: A,
}

/// Where a line stands.
#[derive(Debug)]
struct Place {
    file: u32,
    bytes: u32,
    at: u64,
}

/// The answers in all files of a folder, by the hashes of the keys of the files that they are about.
#[derive(Debug, Default)]
pub(super) struct Answers {
    files: Vec<PathBuf>,
    places: HashMap<u128, Place>,
    /// Answers that were given although there was one.
    pub(super) repeated: u64,
}

impl Answers {
    /// Those of the plan `plan`.
    pub(super) fn read(folder: &Path, plan: &str) -> Result<Self> {
        let mut files = if folder.is_dir() { look::list(folder)? } else { Vec::new() };
        files.retain(|path| path.extension().is_some_and(|end| end == "jsonl"));
        let mut answers = Self { files, ..Self::default() };
        for number in 0..answers.files.len() {
            answers.add_file(number, plan)?;
        }
        Ok(answers)
    }

    fn add_file(&mut self, number: usize, plan: &str) -> Result<()> {
        let path = &self.files[number];
        let failed = |error| Error::io("read", path, error);
        let mut reader = BufReader::new(File::open(path).map_err(failed)?);
        let (mut line, mut at) = (Vec::new(), 0);
        loop {
            line.clear();
            let read = reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line).map_err(failed)? as u64;
            if read == 0 {
                return Ok(());
            }
            // Of a process that was killed, the last line may be a part of one.
            if let Ok(KnownLine { receipt }) = serde_json::from_slice(&line)
                && receipt.plan == plan
                && line.ends_with(b"\n")
            {
                let place = Place { file: number as u32, bytes: read as u32, at };
                self.repeated += u64::from(self.places.insert(key(&receipt.id), place).is_some());
            }
            at += read;
        }
    }

    pub(super) fn has(&self, id: &str) -> bool {
        self.places.contains_key(&key(id))
    }

    /// The answer about the file with the key `id`, which is at `path`, and the bytes of that; `None` where there is
    /// none, or none that can be understood, or the file is no longer what was looked at.
    pub(super) fn of<A: DeserializeOwned>(&self, id: &str, path: &Path) -> Result<Option<(A, u64)>> {
        let Some(Place { file, bytes, at }) = self.places.get(&key(id)) else { return Ok(None) };
        let from = &self.files[*file as usize];
        let mut line = vec![0; *bytes as usize];
        let read = File::open(from).and_then(|mut file| {
            file.seek(SeekFrom::Start(*at))?;
            file.read_exact(&mut line)
        });
        read.map_err(|error| Error::io("read", from, error))?;
        let Ok(WholeLine { receipt, answer }) = serde_json::from_slice::<WholeLine<A>>(&line) else { return Ok(None) };
        let is_so = |(len, time)| len == receipt.bytes && time_text(time) == receipt.modified;
        let holds = receipt.id == id && look::stamp(path).is_ok_and(is_so);
        Ok(holds.then_some((answer, receipt.bytes)))
    }
}

fn key(id: &str) -> u128 {
    fnv::append(fnv::BASIS, id.as_bytes())
}
