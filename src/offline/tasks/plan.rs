//! Cuts an operation into tasks.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::file::{ArrayLine, FORMAT, Header, LevelLine, NewArray, Operation, SourceKey, TaskFile, TaskLine};
use crate::archive_file::is_archive_name;
use crate::error::{Error, Result};
use crate::fnv;
use crate::fs::{links, look};
use crate::offline::answers::{SeparateFiles, time_text};
use crate::offline::hierarchy::below;
use crate::offline::manifest::{ManifestOptions, WriteManifest};
use crate::offline::pyramid::{EarlierLevels, PlannedLevel, Pyramid, PyramidOptions, document_of};
use crate::offline::repack::staging::fingerprint;
use crate::offline::repack::{Change, PlannedArray, Repack, RepackOptions, Staging};
use crate::offline::verify::{Verify, VerifyOptions};

/// An operation as tasks that any number of processes run, on any number of machines that share a file system.
///
/// Each task makes one shard of the result, or reads one of the dataset. [`RunTasks`](super::RunTasks) runs them, in
/// any order and as often as something goes wrong, and [`FinishTasks`](super::FinishTasks) is the operation itself,
/// which takes what tasks have made or found in place of doing it.
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
    planned: Planned,
    header: Header,
    /// In the order of the bytes of their names.
    arrays: Vec<ArrayLine>,
    /// The ids of all tasks in the order of their bytes, each with the number of its array among those planned.
    ids: Vec<(String, u32)>,
}

/// What is cut into tasks.
#[derive(Debug)]
pub(super) enum Planned {
    Repack(Box<Repack>),
    Pyramid(Box<Pyramid>, Vec<PlannedLevel>),
    /// Shards of these arrays are only read.
    Readings(Vec<String>),
}

impl Planned {
    /// The arrays whose shards are made, each with its name; none where nothing is.
    pub(super) fn changes(&self) -> Result<Vec<(&str, &Change)>> {
        match self {
            Self::Repack(repack) => {
                Ok(repack.planned()?.into_iter().map(|PlannedArray { name, change, .. }| (name, change)).collect())
            }
            Self::Pyramid(_, levels) => Ok(levels.iter().map(|level| (&*level.name, &level.change)).collect()),
            Self::Readings(_) => Ok(Vec::new()),
        }
    }
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
        let (source, out) = (of_text(source)?, of_text(out)?);
        let planned = repack.planned()?;
        let arrays = planned.iter().map(|array| line_of(array, &source)).collect::<Result<Vec<_>>>()?;
        let files = planned.iter().map(|array| fingerprint(array.change.source())).collect::<Result<Vec<_>>>()?;
        let ids = repack.planned_shards().iter().map(|(array, position)| {
            let PlannedArray { name, change, .. } = &planned[*array];
            (below(name, &change.target_key(position)), *array as u32)
        });
        let ids = sorted(ids.collect())?;
        let made_of = json!({"files": files, "archive": is_archive_name(&out)});
        let header = Header::of(Operation::Repack(options.clone()), source, out);
        drop(planned);
        Ok(Self::of(Planned::Repack(Box::new(repack)), header, arrays, ids, &made_of))
    }

    /// Plans what [`Pyramid`] does with the image at `path`, or the only one below; nothing is written. A task is a
    /// shard of a level. Its id is the key below the image, and tasks of a level come behind those of the one before,
    /// which must have ended before it can be run.
    ///
    /// # Errors
    ///
    /// As for [`Pyramid::new`]; [`Error::Exists`] also when an earlier call has made the levels already;
    /// [`Error::Conflict`] when one was ended midway; [`Error::Unsupported`] when the
    /// names of levels don't follow each other when sorted, such as 9 and 10.
    pub fn pyramid(path: impl AsRef<Path>, options: &PyramidOptions) -> Result<Self> {
        let pyramid = Pyramid::new(path, options)?;
        if pyramid.earlier() == EarlierLevels::Done {
            let path = pyramid.places().0.to_path_buf();
            return Err(Error::Exists { path, help: "its levels are what the tasks would make; use them" });
        }
        pyramid.refuse_left()?;
        Self::of_pyramid(pyramid)
    }

    pub(super) fn of_pyramid(pyramid: Pyramid) -> Result<Self> {
        let levels = pyramid.planned()?;
        let image = of_text(pyramid.places().0)?;
        let arrays = levels.iter().map(|level| line_of_level(level, &pyramid, &image)).collect::<Result<Vec<_>>>()?;
        let mut ids = Vec::new();
        for (number, PlannedLevel { name, change, shards, .. }) in levels.iter().enumerate() {
            ids.extend(shards.iter().map(|shard| (below(name, &change.target_key(shard)), number as u32)));
        }
        let (ids, made_of) = (sorted(ids)?, pyramid.made_of());
        let header = Header::of(Operation::Pyramid(pyramid.options().clone()), image.clone(), image);
        Ok(Self::of(Planned::Pyramid(Box::new(pyramid), levels), header, arrays, ids, &made_of))
    }

    /// Plans what [`Verify`] does with the dataset or array at `path`; nothing is written. A task is a shard of an
    /// array whose shards are boxes in its own folder; everything else is checked at the end.
    ///
    /// # Errors
    ///
    /// As for [`Verify::new`] and [`Verify::run`].
    pub fn verify(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let root = of_text(&look::canonicalize(path).map_err(|error| Error::io("open", path, error))?)?;
        let separate = Verify::new(&root, &VerifyOptions::default())?.separate_files()?;
        Self::of_readings(Header::of(Operation::Verify, root.clone(), root), separate)
    }

    /// Plans what [`WriteManifest`] does with the dataset or array at `path`; nothing is written. A task is a shard of
    /// an array whose shards are boxes in its own folder.
    ///
    /// # Errors
    ///
    /// As for [`WriteManifest::new`] and [`WriteManifest::run`].
    pub fn manifest(path: impl AsRef<Path>, out: Option<&Path>, options: &ManifestOptions) -> Result<Self> {
        Self::of_manifest(&WriteManifest::new(path, out, options)?, options)
    }

    pub(super) fn of_manifest(manifest: &WriteManifest, options: &ManifestOptions) -> Result<Self> {
        let (root, out) = manifest.places();
        let header = Header::of(Operation::Manifest(options.clone()), of_text(root)?, of_text(out)?);
        Self::of_readings(header, manifest.separate_files()?)
    }

    fn of_readings(header: Header, mut separate: Vec<SeparateFiles>) -> Result<Self> {
        separate.sort_by(|one, other| one.name.cmp(&other.name));
        let root = &header.source;
        let (mut arrays, mut ids, mut made_of) = (Vec::new(), Vec::new(), fnv::BASIS);
        for (number, SeparateFiles { name, document, said, files }) in separate.into_iter().enumerate() {
            let described = source_key(root, &document)?.ok_or_else(|| Error::changed(&document))?;
            arrays.push(ArrayLine { array: name.clone(), source: name, described, new: None, said });
            for path in files {
                let Some(SourceKey(id, bytes, time)) = source_key(root, &path)? else {
                    return Err(Error::changed(path));
                };
                made_of = fnv::append(made_of, format!("{id}\0{bytes} {time}\n").as_bytes());
                ids.push((id, number as u32));
            }
        }
        let names = arrays.iter().map(|line| line.array.clone()).collect();
        let made_of = json!(format!("{made_of:032x}"));
        Ok(Self::of(Planned::Readings(names), header, arrays, sorted(ids)?, &made_of))
    }

    /// `made_of`: what becomes another where files of the source do.
    fn of(
        planned: Planned,
        header: Header,
        mut arrays: Vec<ArrayLine>,
        ids: Vec<(String, u32)>,
        made_of: &Value,
    ) -> Self {
        arrays.sort_by(|one, other| one.array.cmp(&other.array));
        let made_of = json!({"arrays": arrays, "made_of": made_of}).to_string();
        let made_of = format!("{:032x}", fnv::append(fnv::BASIS, made_of.as_bytes()));
        let (count, tasks) = (arrays.len() as u64, ids.len() as u64);
        let mut header = Header { arrays: count, tasks, of: tasks, made_of, ..header };
        header.id = header.own_id();
        Self { planned, header, arrays, ids }
    }

    /// How many tasks there are.
    pub fn tasks(&self) -> u64 {
        self.header.tasks
    }

    /// What is worth knowing of the result, as sentences: see [`Repack::notes`] and [`Pyramid::notes`]. One tells of
    /// shards of another plan, in whose place no task of this one runs.
    ///
    /// # Errors
    ///
    /// As for [`Repack::notes`].
    pub fn notes(&self) -> Result<Vec<String>> {
        let (mut notes, staging) = match &self.planned {
            Planned::Repack(repack) => (repack.notes()?, repack.places().2),
            Planned::Pyramid(pyramid, _) => (pyramid.notes(), pyramid.places().1),
            Planned::Readings(_) => return Ok(Vec::new()),
        };
        notes.extend(Staging::refuse_plan(staging, Some(&self.header.id)).err().map(|error| error.to_string()));
        Ok(notes)
    }

    /// Refuses a place for the file of tasks within the datasets: it would be copied with one, or be a stranger there.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`] for a place within, and [`Error::Io`] where its folder can't be found.
    pub fn check_place(&self, file: impl AsRef<Path>) -> Result<()> {
        self.header.refuse_within_datasets(file.as_ref())
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
        let changes = self.planned.changes()?;
        for (task, (id, array)) in (0..).zip(&self.ids) {
            let (name, (sources, inputs)) = match (&self.planned, changes.get(*array as usize)) {
                (Planned::Readings(names), _) => {
                    let path = self.header.source.join(id);
                    (&*names[*array as usize], (source_key(&self.header.source, &path)?.into_iter().collect(), vec![]))
                }
                (_, None) => continue,
                (planned, Some((name, change))) => {
                    let position = change.target_position(key_in(id, name)).unwrap_or_default();
                    let before = match planned {
                        Planned::Pyramid(_, levels) => levels[*array as usize].before.as_deref(),
                        _ => None,
                    };
                    (*name, self.made_of(change, &position, before)?)
                }
            };
            let bytes = sources.iter().map(|source| source.1).sum();
            put_line(to, &TaskLine { task, id: id.clone(), array: name.to_owned(), sources, inputs, bytes })?;
        }
        to.flush().map_err(|error| Error::io("write", "the tasks", error))
    }

    /// The files that a shard is made of: those of the source, or the shards of the level `before`.
    fn made_of(
        &self,
        change: &Change,
        position: &[u64],
        before: Option<&str>,
    ) -> Result<(Vec<SourceKey>, Vec<String>)> {
        let (mut sources, mut inputs) = (Vec::new(), Vec::new());
        for at in change.sources_of(position) {
            let Some(before) = before else {
                sources.extend(source_key(&self.header.source, &change.source_path(&at))?);
                continue;
            };
            let input = below(before, &change.source_key(&at));
            if self.ids.binary_search_by(|(id, _)| id.cmp(&input)).is_ok() {
                inputs.push(input);
            }
        }
        Ok((sources, inputs))
    }

    /// The same plan as that of an opened file, if it still is one.
    pub(super) fn is_of(&self, header: &Header) -> bool {
        self.header.id == header.id && self.header.of == header.of
    }

    /// Whether the file has the lines of the same arrays.
    pub(super) fn has_arrays_of(&self, file: &TaskFile) -> Result<bool> {
        let lines = file.array_lines()?;
        let is_so = |(array, line): (&ArrayLine, &Vec<u8>)| serde_json::to_vec(array).is_ok_and(|own| own == *line);
        Ok(lines.len() == self.arrays.len() && self.arrays.iter().zip(&lines).all(is_so))
    }

    pub(super) fn into_parts(self) -> (Planned, Vec<u32>) {
        (self.planned, self.ids.into_iter().map(|(_, array)| array).collect())
    }
}

impl Header {
    fn of(operation: Operation, source: PathBuf, out: PathBuf) -> Self {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let (id, arrays, tasks, of, made_of, whole) = Default::default();
        Self { shardwright_tasks: FORMAT, id, version, operation, source, out, arrays, tasks, of, made_of, whole }
    }
}

fn of_text(path: &Path) -> Result<PathBuf> {
    match path.to_str() {
        Some(_) => Ok(path.to_path_buf()),
        None => Err(Error::unsupported(path, "is no UTF-8, which a file of tasks is; choose another path")),
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
    let (document, codec) = (array.document.clone(), array.change.codec().clone());
    let new = Some(NewArray { document, codec, level: None });
    Ok(ArrayLine { array: array.name.to_owned(), source: key_of(array.source)?, described, new, said: None })
}

fn line_of_level(level: &PlannedLevel, pyramid: &Pyramid, image: &Path) -> Result<ArrayLine> {
    let PlannedLevel { name, before, steps, document, change, .. } = level;
    let (finest, described) = pyramid.finest();
    let described = source_key(image, described)?.ok_or_else(|| Error::changed(described))?;
    let replaces = source_key(image, &document_of(image, name))?;
    let level = Some(LevelLine { steps: steps.clone(), before: before.clone(), replaces });
    let new = Some(NewArray { document: document.clone(), codec: change.codec().clone(), level });
    Ok(ArrayLine { array: name.clone(), source: finest.to_owned(), described, new, said: None })
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

impl ArrayLine {
    /// Whether the level has its name in the image: another document stands there than when the tasks were planned.
    pub(super) fn has_its_name(&self, image: &Path) -> Result<bool> {
        let planned = self.new.as_ref().and_then(|new| new.level.as_ref()?.replaces.as_ref());
        let found = source_key(image, &document_of(image, &self.array))?;
        Ok(found.is_some() && found.as_ref() != planned)
    }
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

fn sorted(mut ids: Vec<(String, u32)>) -> Result<Vec<(String, u32)>> {
    ids.sort();
    // By its key, a shard is found in its array again.
    match ids.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        Some(pair) => Err(Error::format(PathBuf::from(&pair[0].0), "is the key of shards of two arrays")),
        None => Ok(ids),
    }
}
