//! What a task has made, so that the end of all can see whether it is still there.
//!
//! Each process appends to a file of its own in the folder where the result comes into being: nobody waits for
//! anybody, and a million tasks need not be a million files.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use super::file::{SourceKey, TaskLine};
use crate::error::{Error, Result};
use crate::fnv;
use crate::format::index::Range;
use crate::fs::{Identity, look, system};
use crate::offline::answers::time_text;
use crate::offline::array::Array;
use crate::offline::array::index::Index;
use crate::offline::array::shard_file::ShardFile;
use crate::offline::repack::{RECEIPTS, ShardOutcome};
use crate::sync::Unpoisoned;

/// What became of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum TaskOutcome {
    /// The shard was made.
    Written,
    /// The shard was there: another call of the task had made it.
    Found,
    /// The shard would hold no chunk, and there is no file.
    Empty,
    /// The whole result is there; the task was not looked at.
    Finished,
    /// The shard was read, and what was found is noted beside the file of tasks. Nothing is made.
    Read,
}

/// What a task has made, or read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TaskReceipt {
    /// The plan's id.
    pub plan: String,
    /// The task's number in the file that named it.
    pub task: u64,
    /// The task's id: the key of its shard below the result, or the dataset.
    pub id: String,
    /// What became of it.
    pub outcome: TaskOutcome,
    /// Bytes of the file.
    pub bytes: u64,
    /// Chunks in it.
    pub chunks: u64,
    /// When the file was changed last, in seconds since 1970.
    pub modified: String,
    /// CRC-32C of the places of all chunks, as the shard's index says them. 0 where nothing is made.
    pub index_crc32c: u32,
    /// CRC-32C of the file. 0 where nothing is made.
    pub crc32c: u32,
    /// How long the task took.
    pub seconds: f64,
}

impl TaskReceipt {
    /// Of a task that left no file.
    pub(super) fn without_file(plan: &str, task: &TaskLine, outcome: TaskOutcome) -> Self {
        Self {
            plan: plan.to_owned(),
            task: task.task,
            id: task.id.clone(),
            outcome,
            bytes: 0,
            chunks: 0,
            modified: String::new(),
            index_crc32c: 0,
            crc32c: 0,
            seconds: 0.0,
        }
    }

    /// Of the file that is at its place now.
    pub(super) fn of_file(plan: &str, task: &TaskLine, outcome: TaskOutcome, made: &MadeShard) -> Self {
        let bytes = made.file.len();
        let (chunks, index_crc32c, crc32c) = (made.chunks, made.index_crc32c, made.crc32c);
        let modified = time_text(made.file.stamp().1);
        Self { bytes, chunks, modified, index_crc32c, crc32c, ..Self::without_file(plan, task, outcome) }
    }

    /// Of a file of the source that was read.
    pub(super) fn of_read(plan: &str, task: &TaskLine, (file, chunks): (&SourceKey, u64)) -> Self {
        let SourceKey(_, bytes, modified) = file;
        Self { bytes: *bytes, chunks, modified: modified.clone(), ..Self::without_file(plan, task, TaskOutcome::Read) }
    }
}

/// A finished shard, looked at.
pub(super) struct MadeShard {
    file: ShardFile,
    pub(super) chunks: u64,
    pub(super) index_crc32c: u32,
    crc32c: u32,
}

impl MadeShard {
    /// The shard at a position, read as a whole.
    pub(super) fn read(target: &Array, position: &[u64]) -> Result<Option<Self>> {
        let Some((file, Chunks { count: chunks, sum: index_crc32c, .. })) = Self::index_of(target, position)? else {
            return Ok(None);
        };
        let crc32c = crc32c_of(&file)?;
        Ok(Some(Self { file, chunks, index_crc32c, crc32c }))
    }

    /// The same by its index alone.
    fn index_of(target: &Array, position: &[u64]) -> Result<Option<(ShardFile, Chunks)>> {
        let Some(file) = target.open_file(position)? else { return Ok(None) };
        if !target.layout().has_index() {
            let bytes = file.len();
            return Ok(Some((file, Chunks { count: 1, bytes, sum: 0 })));
        }
        let index = target.read_index(&file, position, None)?;
        if let Some(reason) = index.broken().next() {
            return Err(Error::format(file.path(), reason));
        }
        let chunks = Chunks::of(&index);
        Ok(Some((file, chunks)))
    }

    /// Whether the shard at a position is what a receipt says, read as a whole only if it was touched since.
    pub(super) fn is_as(known: &KnownReceipt, target: &Array, position: &[u64]) -> Result<MadeIs> {
        if matches!(known.outcome, TaskOutcome::Empty | TaskOutcome::Finished | TaskOutcome::Read) {
            let is_there = target.open_file(position)?.is_some();
            return Ok(if is_there { MadeIs::Other } else { MadeIs::So(ShardOutcome::Empty) });
        }
        let Some((file, Chunks { count: chunks, bytes, sum })) = Self::index_of(target, position)? else {
            return Ok(MadeIs::Gone);
        };
        let (len, time) = file.stamp();
        let is_so = len == known.bytes
            && sum == known.index_crc32c
            && (time_text(time) == known.modified || crc32c_of(&file)? == known.crc32c);
        Ok(if is_so { MadeIs::So(ShardOutcome::Written { chunks, bytes }) } else { MadeIs::Other })
    }
}

/// What became of a shard since its receipt was written.
pub(super) enum MadeIs {
    Gone,
    Other,
    /// What the receipt says, which is this.
    So(ShardOutcome),
}

/// What an index says of all chunks.
struct Chunks {
    count: u64,
    /// As they are stored.
    bytes: u64,
    /// CRC-32C of their places.
    sum: u32,
}

impl Chunks {
    fn of(index: &Index) -> Self {
        let mut all = Self { count: 0, bytes: 0, sum: 0 };
        for (entry, range) in index.entries() {
            let Ok(Range { offset, nbytes }) = range else { continue };
            all.count += 1;
            all.bytes = all.bytes.saturating_add(nbytes);
            for number in [entry, offset, nbytes] {
                all.sum = crc32c::crc32c_append(all.sum, &number.to_le_bytes());
            }
        }
        all
    }
}

fn crc32c_of(file: &ShardFile) -> Result<u32> {
    const STEP: u64 = 1 << 20;
    let (mut sum, mut bytes, mut offset) = (0, Vec::new(), 0);
    while offset < file.len() {
        let nbytes = STEP.min(file.len() - offset);
        file.read(Range { offset, nbytes }, &mut bytes)?;
        sum = crc32c::crc32c_append(sum, &bytes);
        offset += nbytes;
    }
    Ok(sum)
}

/// The receipts of one process.
#[derive(Debug)]
pub(super) struct ReceiptLog {
    path: PathBuf,
    file: Mutex<Option<File>>,
}

impl ReceiptLog {
    pub(super) fn new(folder: &Path) -> Result<Self> {
        let random = system::random_number().map_err(|error| Error::io("create", folder, error))?;
        Ok(Self { path: folder.join(format!("{}-{random:016x}.jsonl", std::process::id())), file: Mutex::default() })
    }

    pub(super) fn add(&self, line: &impl Serialize) -> Result<()> {
        let failed = |error: std::io::Error| Error::io("write", &self.path, error);
        let mut line = serde_json::to_vec(line).map_err(|error| failed(error.into()))?;
        line.push(b'\n');
        let mut file = self.file.lock().unpoisoned();
        // At the end of all tasks it was removed, and what is added now is of others.
        file.take_if(|log| Identity::of(log).is_ok_and(|log| !log.is_at(&self.path)));
        let open = || {
            // Not the folders around: who made the result has removed them.
            match self.path.parent().map_or(Ok(()), fs::create_dir) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            File::options().append(true).create_new(true).open(&self.path)
        };
        if file.is_none() {
            *file = Some(open().map_err(failed)?);
        }
        let Some(log) = &mut *file else { return Ok(()) };
        log.write_all(&line).map_err(failed)
    }

    /// Removes what nobody reads any more.
    pub(super) fn leave(&self) {
        if self.file.lock().unpoisoned().take().is_some() {
            let _ = fs::remove_file(&self.path);
            // Of a folder with something in it, the system says no.
            let _ = self.path.parent().map(fs::remove_dir);
        }
    }
}

/// What of a receipt is compared.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct KnownReceipt {
    outcome: TaskOutcome,
    bytes: u64,
    modified: String,
    index_crc32c: u32,
    crc32c: u32,
}

/// The receipts of all processes, by the hashes of the ids of tasks.
#[derive(Debug, Default)]
pub(super) struct Receipts {
    known: HashMap<u128, KnownReceipt>,
    /// Shards that were made although another call had made them.
    pub(super) redone: u64,
}

impl Receipts {
    pub(super) fn read(staging: &Path, plan: &str) -> Result<Self> {
        let mut receipts = Self::default();
        let folder = staging.join(RECEIPTS);
        let files = if folder.is_dir() { look::list(&folder)? } else { Vec::new() };
        for path in files.iter().filter(|path| path.extension().is_some_and(|end| end == "jsonl")) {
            let failed = |error| Error::io("read", path, error);
            let file = File::open(path).map_err(failed)?;
            for line in BufReader::new(file).split(b'\n') {
                // Of a process that was killed, the last line may be a part of one.
                let Ok(receipt) = serde_json::from_slice::<TaskReceipt>(&line.map_err(failed)?) else { continue };
                if receipt.plan == plan {
                    receipts.add(receipt);
                }
            }
        }
        Ok(receipts)
    }

    fn add(&mut self, receipt: TaskReceipt) {
        let TaskReceipt { id, outcome, bytes, modified, index_crc32c, crc32c, .. } = receipt;
        let new = KnownReceipt { outcome, bytes, modified, index_crc32c, crc32c };
        // What was made first has the name, whatever came later; one that was removed was made again.
        if let Some(old) = self.known.insert(key(&id), new)
            && outcome == TaskOutcome::Written
            && old.outcome == TaskOutcome::Written
        {
            self.redone += 1;
        }
    }

    pub(super) fn of(&self, id: &str) -> Option<&KnownReceipt> {
        self.known.get(&key(id))
    }
}

fn key(id: &str) -> u128 {
    fnv::append(fnv::BASIS, id.as_bytes())
}
