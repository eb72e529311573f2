//! The file of tasks: one JSON object a line, which a process that makes one shard need not read as a whole.
//!
//! ```text
//! {"shardwright_tasks": 3, "id": …, "operation": {"repack": {…}}, "source": …, "out": …, "arrays": 1, "tasks": 3, …}
//! {"array": "0", "source": "0", "new": {…}, …}                                 each array, by its name
//! {"task": 0, "id": "0/c/0/0/0", "array": "0", "sources": […], "bytes": …}     each shard, by its id
//! ```
//!
//! Arrays and tasks are in the order of the bytes of their names, so that one of them is found by bisection.

use std::cmp::Ordering;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::config::Codec;
use crate::error::{Error, Result};
use crate::fnv;
use crate::format::keys::is_below;
use crate::offline::manifest::ManifestOptions;
use crate::offline::pyramid::PyramidOptions;
use crate::offline::repack::RepackOptions;
use crate::words::quoted;

pub(super) const FORMAT: u32 = 3;
/// Of a plan's id: it becomes a part of names.
const ID_LEN: usize = 32;
/// What is said of a file that is not as it was written.
const CHANGED: &str = "was changed since `plan` wrote it";
/// A longer line is none of ours.
const LINE_BYTES_MAX: u64 = 64 << 20;

/// What the tasks of a file do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Operation {
    Repack(RepackOptions),
    Verify,
    Pyramid(PyramidOptions),
    Manifest(ManifestOptions),
}

impl Operation {
    /// Without what a machine has for it, which makes no other result.
    pub(super) fn by_any_machine(self) -> Self {
        let (workers, memory_bytes) = (0, 0);
        match self {
            Self::Repack(options) => Self::Repack(RepackOptions { workers, memory_bytes, ..options }),
            Self::Pyramid(options) => Self::Pyramid(PyramidOptions { workers, memory_bytes, ..options }),
            Self::Verify | Self::Manifest(_) => self,
        }
    }

    /// Whether tasks only tell what they have found, and make no shard.
    pub(super) fn only_reads(&self) -> bool {
        matches!(self, Self::Verify | Self::Manifest(_))
    }
}

/// The first line.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    pub(super) shardwright_tasks: u32,
    /// A hash of all that says what the outputs are: of this line and, by `made_of`, of those of the arrays.
    pub(super) id: String,
    /// Of this crate: another one might make other bytes.
    pub(super) version: String,
    pub(super) operation: Operation,
    pub(super) source: PathBuf,
    /// What is made. Of what changes the source, or makes nothing, the source.
    pub(super) out: PathBuf,
    pub(super) arrays: u64,
    /// Of this file.
    pub(super) tasks: u64,
    /// Of the plan. A file of what is missing has fewer.
    pub(super) of: u64,
    /// A hash of the arrays, and of the files of the source.
    pub(super) made_of: String,
    /// Of what is missing: the name of the file of the whole plan, beside this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) whole: Option<String>,
}

impl Header {
    /// What the id must be. What each machine may have otherwise is no part of that.
    pub(super) fn own_id(&self) -> String {
        let Self { version, source, out, arrays, of, made_of, .. } = self;
        let operation = self.operation.clone().by_any_machine();
        let plan = json!({
            "version": version, "operation": operation, "source": source, "out": out, "arrays": arrays, "of": of,
            "made_of": made_of,
        });
        format!("{:032x}", fnv::append(fnv::BASIS, plan.to_string().as_bytes()))
    }

    /// Refuses a file of tasks in a dataset: it would be copied with that, or be a stranger there.
    pub(super) fn refuse_within_datasets(&self, file: &Path) -> Result<()> {
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = folder.canonicalize().map_err(|error| Error::io("find", folder, error))?;
        let dataset = [&self.source, &self.out].into_iter().find(|dataset| folder.starts_with(dataset));
        dataset.map_or(Ok(()), |dataset| {
            let reason = "which its tasks read or make: remove it there, and plan into a file beside that";
            Err(Error::conflict(file, format!("lies in {}, {reason}", dataset.display())))
        })
    }
}

/// An array whose shards are made, or looked at.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ArrayLine {
    pub(super) array: String,
    /// The array that is read, below the source.
    pub(super) source: String,
    /// The document of that, as it was.
    pub(super) described: SourceKey,
    /// What is made of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) new: Option<NewArray>,
    /// What its writer says of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) said: Option<Value>,
}

/// What an array becomes.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewArray {
    pub(super) document: Value,
    pub(super) codec: Codec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) level: Option<LevelLine>,
}

/// What a level is to the one before.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LevelLine {
    /// By what each dimension is smaller.
    pub(super) steps: Vec<u64>,
    /// Its name, unless it is level 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) before: Option<String>,
    /// The document of the level that goes when this one comes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) replaces: Option<SourceKey>,
}

impl ArrayLine {
    /// The level that it is made of.
    pub(super) fn before(&self) -> Option<&String> {
        self.new.as_ref()?.level.as_ref()?.before.as_ref()
    }
}

/// A shard that is made, or looked at.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TaskLine {
    pub(super) task: u64,
    /// Its key below the result, or the dataset.
    pub(super) id: String,
    pub(super) array: String,
    /// The files of the source that are read.
    pub(super) sources: Vec<SourceKey>,
    /// The ids of tasks whose shards are read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) inputs: Vec<String>,
    /// Their bytes.
    pub(super) bytes: u64,
}

/// A file of the source: its key, its length in bytes and its time of change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SourceKey(pub(super) String, pub(super) u64, pub(super) String);

/// Of a line, by what it is found.
#[derive(Deserialize)]
struct Name {
    task: Option<u64>,
    id: Option<String>,
    array: Option<String>,
}

/// Which task is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskName<'a> {
    /// By its number, from 0.
    Index(u64),
    /// By its id.
    Id(&'a str),
}

/// A file of tasks that was opened; its header was checked.
#[derive(Debug)]
pub(super) struct TaskFile {
    pub(super) path: PathBuf,
    pub(super) header: Header,
    /// Where the lines behind the header start.
    body: u64,
    end: u64,
}

impl TaskFile {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let failed = |error| Error::io("open", path, error);
        let file = File::open(path).map_err(failed)?;
        let end = file.metadata().map_err(failed)?.len();
        let mut reader = BufReader::new(file);
        let Some(line) = read_line(&mut reader, path)? else {
            return Err(Error::format(path, "is empty; a file of tasks begins with the plan's line"));
        };
        let first: Value = serde_json::from_slice(&line).unwrap_or_default();
        if first.get("array").is_some() {
            return Err(Error::format(path, format!("{CHANGED}: its first line is not the plan's; plan again")));
        }
        if first["shardwright_tasks"] != FORMAT {
            let reason = "is no file of tasks of this version, which `plan` writes";
            return Err(Error::unsupported(path, reason));
        }
        let header: Header = parse(&line, path)?;
        if header.version != env!("CARGO_PKG_VERSION") {
            let (theirs, ours) = (quoted(&header.version), env!("CARGO_PKG_VERSION"));
            let reason = format!("was planned by version {theirs}, and this is {ours}; plan it again, or run that one");
            return Err(Error::unsupported(path, reason));
        }
        if matches!(header.operation, Operation::Verify | Operation::Pyramid(_)) && header.out != header.source {
            let reason = "names another output than its source, which is what its tasks read or add to";
            return Err(Error::format(path, reason));
        }
        if header.id.len() != ID_LEN || !header.id.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(Error::format(path, format!("its id {} is none", quoted(&header.id))));
        }
        if header.id != header.own_id() {
            return Err(Error::format(path, format!("{CHANGED}: its first line is not that of its id; plan again")));
        }
        let file = Self { path: path.to_path_buf(), header, body: line.len() as u64 + 1, end };
        file.header.refuse_within_datasets(path)?;
        file.refuse_cut_off().map(|()| file)
    }

    /// The last task stands at the end.
    fn refuse_cut_off(&self) -> Result<()> {
        let last = self.header.tasks.checked_sub(1);
        last.map_or(Ok(()), |last| self.task(TaskName::Index(last)).map(drop))
    }

    /// That of the whole plan, if this one has only the tasks that were missing.
    pub(super) fn whole(self) -> Result<Self> {
        if self.header.tasks == self.header.of {
            return Ok(self);
        }
        let path = self.of_plan();
        let reason = format!("has only those tasks that were missing; finish the whole plan's, {}", path.display());
        let other = || Error::not_found(&self.path, format!("{reason}, which is not there"));
        if path == self.path || !path.is_file() {
            return Err(other());
        }
        let whole = Self::open(&path)?;
        let is_its = whole.header.id == self.header.id && whole.header.tasks == whole.header.of;
        if is_its {
            Ok(whole)
        } else {
            Err(Error::conflict(&self.path, format!("{reason}, which is another plan now")))
        }
    }

    /// The array of this name.
    pub(super) fn array(&self, name: &str) -> Result<ArrayLine> {
        let order = |line: &Name| match line.task {
            Some(_) => Ordering::Greater,
            None => line.array.as_deref().unwrap_or_default().cmp(name),
        };
        let missing = || Error::format(&self.path, format!("has no array {}, which a task in it names", quoted(name)));
        let line: ArrayLine = parse(&self.find(order)?.ok_or_else(missing)?, &self.path)?;
        let names = [&line.array, &line.source, &line.described.0].into_iter();
        let outside = names.chain(line.before()).find(|name| !name.is_empty() && !is_below(name));
        outside.map_or(Ok(()), |name| Err(self.outside(name)))?;
        Ok(line)
    }

    pub(super) fn task(&self, name: TaskName<'_>) -> Result<TaskLine> {
        let order = |line: &Name| match (line.task, name) {
            (None, _) => Ordering::Less,
            (Some(task), TaskName::Index(index)) => task.cmp(&index),
            (Some(_), TaskName::Id(id)) => line.id.as_deref().unwrap_or_default().cmp(id),
        };
        let Some(line) = self.find(order)? else {
            let tasks = self.header.tasks;
            let name = match name {
                TaskName::Index(index) if index < tasks => {
                    let reason = format!("{CHANGED}: task {index} of {tasks} is not in its place; plan again");
                    return Err(Error::format(&self.path, reason));
                }
                TaskName::Index(index) => format!("{index}"),
                TaskName::Id(id) => quoted(id).to_string(),
            };
            return Err(Error::not_found(&self.path, format!("has no task {name}; it has {tasks}, from 0")));
        };
        self.checked(parse(&line, &self.path)?)
    }

    /// A folder beside it in which tasks that only read say what they have found.
    pub(super) fn answers(&self) -> PathBuf {
        self.path.with_file_name(format!("answers-{}", &self.header.id[..ID_LEN / 2]))
    }

    /// The file with all tasks of the plan, of which this one may have only those that were missing.
    pub(super) fn of_plan(&self) -> PathBuf {
        let whole = self.header.whole.as_deref().filter(|whole| !whole.contains('/'));
        whole.map_or_else(|| self.path.clone(), |whole| self.path.with_file_name(whole))
    }

    /// All tasks, one after the other.
    pub(super) fn tasks(&self) -> Result<impl Iterator<Item = Result<TaskLine>> + '_> {
        let mut reader = self.reader(self.body)?;
        let mut left = self.header.arrays;
        Ok(std::iter::from_fn(move || {
            loop {
                let line = match read_line(&mut reader, &self.path) {
                    Ok(line) => line?,
                    Err(error) => return Some(Err(error)),
                };
                match left.checked_sub(1) {
                    Some(fewer) => left = fewer,
                    None => return Some(parse(&line, &self.path).and_then(|line| self.checked(line))),
                }
            }
        }))
    }

    /// All arrays, one after the other.
    pub(super) fn arrays(&self) -> Result<Vec<ArrayLine>> {
        self.array_lines()?.iter().map(|line| parse(line, &self.path)).collect()
    }

    /// The same, as they are written.
    pub(super) fn array_lines(&self) -> Result<Vec<Vec<u8>>> {
        let mut reader = self.reader(self.body)?;
        let cut_off = || Error::format(&self.path, format!("{CHANGED}: it ends before its last array"));
        let lines = (0..self.header.arrays).map(|_| read_line(&mut reader, &self.path)?.ok_or_else(cut_off));
        lines.collect()
    }

    /// A file of tasks is input: it names nothing outside of the datasets in its first line.
    fn checked(&self, line: TaskLine) -> Result<TaskLine> {
        let names = line.sources.iter().map(|source| &source.0).chain(&line.inputs).chain([&line.id]);
        let outside = names.into_iter().find(|name| !is_below(name));
        outside.map_or(Ok(()), |name| Err(self.outside(name)))?;
        Ok(line)
    }

    /// It is not what was planned.
    pub(super) fn is_other(&self) -> Error {
        Error::format(&self.path, format!("{CHANGED}, and is not what was planned"))
    }

    fn outside(&self, name: &str) -> Error {
        Error::format(&self.path, format!("names {}, which is not below its source or its output", quoted(name)))
    }

    fn reader(&self, at: u64) -> Result<BufReader<File>> {
        let failed = |error| Error::io("read", &self.path, error);
        let mut file = File::open(&self.path).map_err(failed)?;
        file.seek(SeekFrom::Start(at)).map_err(failed)?;
        Ok(BufReader::new(file))
    }

    /// The line that `order` calls equal, in lines that it calls less before it and greater behind it.
    fn find(&self, order: impl Fn(&Name) -> Ordering) -> Result<Option<Vec<u8>>> {
        let mut reader = self.reader(self.body)?;
        // Lines start in `low..high`: the first at `low`.
        let (mut low, mut high) = (self.body, self.end);
        while low < high {
            let middle = low + (high - low) / 2;
            let mut start = middle;
            // A line starts at `middle` where the one before ends right there.
            let before = u64::from(middle > low);
            reader.seek(SeekFrom::Start(middle - before)).map_err(|error| Error::io("read", &self.path, error))?;
            if before > 0 {
                start += read_line(&mut reader, &self.path)?.map_or(0, |rest| rest.len() as u64);
            }
            let line = if start < high { read_line(&mut reader, &self.path)? } else { None };
            let Some(line) = line else {
                high = middle;
                continue;
            };
            let next = start + line.len() as u64 + 1;
            match order(&parse(&line, &self.path)?) {
                Ordering::Equal => return Ok(Some(line)),
                Ordering::Less => low = next,
                Ordering::Greater => high = middle,
            }
        }
        Ok(None)
    }
}

fn parse<T: for<'de> Deserialize<'de>>(line: &[u8], path: &Path) -> Result<T> {
    let reason = |error| format!("{CHANGED}: it has a line that is no task: {error}");
    serde_json::from_slice(line).map_err(|error: serde_json::Error| Error::format(path, reason(error)))
}

/// The next line without its end; none at the end of the file.
fn read_line(reader: &mut impl BufRead, path: &Path) -> Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let read = reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
    read.map_err(|error| Error::io("read", path, error))?;
    if line.pop_if(|last| *last == b'\n').is_none() && !line.is_empty() {
        let reason = "has a line that is cut off, or far too long; it was not written to its end: plan it again";
        return Err(Error::format(path, reason));
    }
    let is_end = line.is_empty();
    Ok((!is_end).then_some(line))
}
