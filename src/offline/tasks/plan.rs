//! Cuts an operation into tasks.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::json;

use super::file::{ArrayLine, FORMAT, Header, Operation, SourceKey, TaskLine};
use super::receipt::time_text;
use crate::archive_file::is_archive_name;
use crate::error::{Error, Result};
use crate::fnv;
use crate::fs::{links, look};
use crate::offline::hierarchy::below;
use crate::offline::repack::{PlannedArray, Repack, RepackOptions};

/// An operation as tasks that any number of processes run, on any number of machines that share a file system.
///
/// Each task makes one shard of the result. [`RunTasks`](super::RunTasks) runs them, in any order and as often as
/// something goes wrong, and [`FinishTasks`](super::FinishTasks) makes the result of the shards.
///
/// ```no_run
/// use std::io::BufWriter;
///
/// use shardwright::Codec;
/// use shardwright::offline::{RepackOptions, TaskPlan};
///
/// let codec = Codec::from("zstd".parse::<shardwright::Compressor>()?);
/// let options = RepackOptions { codec: Some(codec), ..RepackOptions::default() };
/// let plan = TaskPlan::repack("run.ome.zarr", "archive.ome.zarr", &options)?;
/// let mut file = BufWriter::new(std::fs::File::create("tasks.jsonl").expect("a writable folder"));
/// plan.write(&mut file)?;
/// # Ok::<(), shardwright::Error>(())
/// ```
#[derive(Debug)]
pub struct TaskPlan {
    repack: Repack,
    header: Header,
    arrays: Vec<ArrayLine>,
    /// The ids of all tasks in the order of their bytes, each with the number of its array.
    ids: Vec<(String, u32)>,
}

impl TaskPlan {
    /// Plans what [`Repack`] does with the dataset at `path`, from which the new dataset `out` is made; nothing is
    /// written.
    ///
    /// # Errors
    ///
    /// As for [`Repack::new`], and [`Error::Unsupported`] where a shard can't be made by itself: of results other than
    /// Zarr v3, of arrays that are manifests, and of Neuroglancer's volumes whose shards are no boxes.
    pub fn repack(path: impl AsRef<Path>, out: impl AsRef<Path>, options: &RepackOptions) -> Result<Self> {
        let repack = Repack::new(path, Some(out.as_ref()), options)?;
        let (source, out, _) = repack.places();
        let out = out.unwrap_or(source);
        if repack.is_done() {
            return Err(Error::Exists { path: out.to_path_buf(), help: "it is what the tasks would make; use it" });
        }
        let of_text = |path: &Path| match path.to_str() {
            Some(_) => Ok(path.to_path_buf()),
            None => Err(Error::unsupported(path, "is no UTF-8, which a file of tasks is; choose another path")),
        };
        let (source, out) = (of_text(source)?, of_text(out)?);
        let planned = repack.planned()?;
        let arrays = planned.iter().map(|array| line_of(array, &source)).collect::<Result<Vec<_>>>()?;
        let ids = ids_of(&planned, &repack)?;
        let mut sorted = arrays.clone();
        sorted.sort_by(|one, other| one.array.cmp(&other.array));
        let (arrays_count, tasks) = (arrays.len() as u64, ids.len() as u64);
        let header = Header {
            shardwright_tasks: FORMAT,
            id: id_of(&source, &out, options, &sorted),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            operation: Operation::Repack,
            source,
            out,
            options: options.clone(),
            arrays: arrays_count,
            tasks,
            of: tasks,
        };
        drop(planned);
        Ok(Self { repack, header, arrays: sorted, ids })
    }

    /// How many tasks there are.
    pub fn tasks(&self) -> u64 {
        self.header.tasks
    }

    /// What is worth knowing of the result, as sentences: see [`Repack::notes`].
    ///
    /// # Errors
    ///
    /// As for [`Repack::notes`].
    pub fn notes(&self) -> Result<Vec<String>> {
        self.repack.notes()
    }

    /// Writes the file of tasks: the plan, a line for each array, a line for each task. The same input gives the same
    /// bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when it can't be written, or a file of the source not be looked at.
    pub fn write(&self, to: &mut dyn Write) -> Result<()> {
        put_line(to, &self.header)?;
        self.arrays.iter().try_for_each(|array| put_line(to, array))?;
        let planned = self.repack.planned()?;
        for (task, (id, array)) in (0..).zip(&self.ids) {
            let PlannedArray { name, change, .. } = &planned[*array as usize];
            let position = change.target_position(key_in(id, name)).unwrap_or_default();
            let mut sources = Vec::new();
            for at in change.sources_of(&position) {
                sources.extend(source_key(&self.header.source, &change.source_path(&at))?);
            }
            let bytes = sources.iter().map(|source| source.1).sum();
            put_line(to, &TaskLine { task, id: id.clone(), array: (*name).to_owned(), sources, bytes })?;
        }
        to.flush().map_err(|error| Error::io("write", "the tasks", error))
    }

    /// The same plan as that of an opened file, if it still is one.
    pub(super) fn is_of(&self, header: &Header) -> bool {
        self.header.id == header.id && self.header.of == header.of
    }

    pub(super) fn into_parts(self) -> (Repack, Vec<(String, u32)>) {
        (self.repack, self.ids)
    }
}

/// The key of a shard below its array.
pub(super) fn key_in<'a>(id: &'a str, array: &str) -> &'a str {
    id.strip_prefix(array).unwrap_or(id).trim_start_matches('/')
}

pub(super) fn put_line(to: &mut dyn Write, line: &impl serde::Serialize) -> Result<()> {
    let written = serde_json::to_writer(&mut *to, line).map_err(io::Error::from).and_then(|()| to.write_all(b"\n"));
    written.map_err(|error| Error::io("write", "the tasks", error))
}

fn line_of(array: &PlannedArray<'_>, root: &Path) -> Result<ArrayLine> {
    let document = array.change.source_document();
    let described = source_key(root, document)?.ok_or_else(|| Error::changed(document))?;
    Ok(ArrayLine {
        array: array.name.to_owned(),
        source: key_of(array.source)?,
        described,
        document: array.document.clone(),
        codec: array.change.codec().clone(),
    })
}

fn key_of(path: &Path) -> Result<String> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| Error::unsupported(path, "is no UTF-8, which a file of tasks is"))
}

/// Refuses files of the source that are not what they were when the tasks were planned.
pub(super) fn refuse_changed(root: &Path, sources: &[SourceKey]) -> Result<()> {
    sources.iter().try_for_each(|known| {
        let path = root.join(&known.0);
        match source_key(root, &path)? {
            Some(found) if found == *known => Ok(()),
            Some(_) => Err(Error::conflict(&path, "is not what it was when the tasks were planned; plan them again")),
            None => Err(Error::conflict(&path, "has gone since the tasks were planned")),
        }
    })
}

/// The file at a path below the source; none where nothing is there.
pub(super) fn source_key(root: &Path, path: &Path) -> Result<Option<SourceKey>> {
    match look::stamp(path) {
        Ok((len, time)) => {
            let key = path.strip_prefix(root).map_err(|_| Error::unsupported(path, "is not below the dataset"))?;
            Ok(Some(SourceKey(key_of(key)?, len, time_text(time))))
        }
        Err(error) if links::leads_nowhere(&error) || error.kind() == io::ErrorKind::NotADirectory => Ok(None),
        Err(error) => Err(Error::io("look at", path, error)),
    }
}

fn ids_of(planned: &[PlannedArray<'_>], repack: &Repack) -> Result<Vec<(String, u32)>> {
    let id = |(array, position): &(usize, Vec<u64>)| {
        let PlannedArray { name, change, .. } = &planned[*array];
        (below(name, &change.target_key(position)), *array as u32)
    };
    let mut ids: Vec<_> = repack.planned_shards().iter().map(id).collect();
    ids.sort();
    // By its key, a shard is found in its array again.
    match ids.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        Some(pair) => Err(Error::format(PathBuf::from(&pair[0].0), "is the key of shards of two arrays")),
        None => Ok(ids),
    }
}

fn id_of(source: &Path, out: &Path, options: &RepackOptions, arrays: &[ArrayLine]) -> String {
    let plan = json!({
        "version": env!("CARGO_PKG_VERSION"), "source": source, "out": out, "options": options, "arrays": arrays,
        "archive": is_archive_name(out),
    });
    format!("{:032x}", fnv::append(fnv::BASIS, plan.to_string().as_bytes()))
}
