//! What a dataset holds and what it weighs, without decoding anything.

use std::ffi::OsStr;
use std::path::Path;

use rayon::prelude::*;
use serde::Serialize;
use serde_json::{Value, json};

use crate::config::Channel;
use crate::dtype::ElementType;
use crate::error::{Error, Result};
use crate::format;
use crate::format::index::Range;
use crate::format::layout::product;
use crate::format::precomputed::{GZIP, packing_of};
use crate::format::{zarr2, zarr3};
use crate::fs::{document, look};
use crate::json::text;
use crate::offline::array::Array;
use crate::offline::array::manifest::ChunkManifest;
use crate::offline::array::shard_file::ShardFile;
use crate::offline::axes::Axis;
use crate::offline::hierarchy::central::CentralMetadata;
use crate::offline::hierarchy::walk::{self, Node};
use crate::offline::levels;
use crate::offline::not_fetched;
use crate::offline::notes::notes_of_frames;
use crate::offline::promises::{self, Broken};
use crate::offline::recover::refuse_begun;
use crate::offline::stale::{self, Stale};
use crate::words::{IS, count_that, of_number};

const DAMAGED_MAX: usize = 100;

/// A dataset, or one array.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Description {
    /// The arrays, in the order of their paths; the scales of a volume in that of its document.
    pub arrays: Vec<ArrayDescription>,
    /// The attributes of the root group or array.
    pub attributes: Value,
    /// Whether there is OME-Zarr metadata at the root.
    pub ome: bool,
    /// Whether the writer finished the dataset; `None` when the attributes don't say.
    pub complete: Option<bool>,
    /// Arrays and groups that can't be read, in the order of their paths.
    pub unreadable: Vec<Unreadable>,
    /// What documents say of others that is not so, as sentences: readers differ in which of them they believe.
    pub notes: Vec<String>,
}

impl Description {
    /// All of it as a JSON object in one line. Integers among the attributes have all their digits; what JSON has no
    /// number for (`NaN`, `Infinity`) is a string.
    pub fn to_json(&self) -> String {
        let mut description = serde_json::to_value(self).unwrap_or_default();
        plain(&mut description["attributes"]);
        document::render_line(&description)
    }
}

/// Lets tokens that JSON does not have be strings like others.
fn plain(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some(token @ ("NaN" | "Infinity" | "-Infinity")) = text.strip_prefix('\0') {
                *text = token.to_owned();
            }
        }
        Value::Array(values) => values.iter_mut().for_each(plain),
        Value::Object(values) => values.values_mut().for_each(plain),
        _ => {}
    }
}

/// An array or a group that can't be read: its document is broken, or says what this crate does not read, or it is not
/// there although others promise it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Unreadable {
    /// The path below the root.
    pub path: String,
    /// What kind of array it is, for people, where that is another than Zarr.
    pub format: Option<String>,
    /// Elements in each dimension, if its document says so.
    pub shape: Option<Vec<u64>>,
    /// The type of an element as its document has it.
    pub dtype: Option<String>,
    /// Why, with the file that says so.
    pub reason: String,
}

/// One array and its files.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ArrayDescription {
    /// The path below the root; empty for the root itself.
    pub path: String,
    /// What kind of array it is, for people.
    pub format: String,
    /// What can go wrong with other readers, as a sentence.
    pub caution: Option<String>,
    /// Elements in each dimension.
    pub shape: Vec<u64>,
    /// The type of an element.
    pub dtype: ElementType,
    /// The names of the dimensions.
    pub dimension_names: Option<Vec<String>>,
    /// The dimensions as the OME-Zarr image describes them whose level it is; empty where there is none.
    pub axes: Vec<Axis>,
    /// The channels of that image.
    pub channels: Vec<Channel>,
    /// Elements of a chunk in each dimension.
    pub chunk_shape: Vec<u64>,
    /// Elements of a shard in each dimension; `None` when each chunk is a file.
    pub shard_shape: Option<Vec<u64>>,
    /// The codecs of a chunk, for people.
    pub codecs: Vec<String>,
    /// `start` or `end`; `None` without shards.
    pub index_location: Option<String>,
    /// The document that says where the chunks lie, or `inlined`; `None` when their files' names do.
    pub manifest: Option<String>,
    /// Files that hold chunks.
    pub shard_files: u64,
    /// Chunks within the array's shape that were written.
    pub chunks_present: u64,
    /// Chunks within the array's shape that read as the fill value.
    pub chunks_empty: u64,
    /// Chunks within the array's shape of which nothing is known: their shard's index or their entry in it is damaged.
    pub chunks_unknown: u64,
    /// Bytes of the whole array, uncompressed.
    pub bytes_logical: u64,
    /// Bytes of all encoded chunks.
    pub bytes_payload: u64,
    /// Bytes of all files, as their lengths say.
    pub bytes_files: u64,
    /// Bytes that the file system has given to these files; less than `bytes_files` where they have holes.
    pub bytes_on_disk: u64,
    /// Bytes of the files that belong neither to a chunk nor to an index. Of the files that a manifest names, all bytes
    /// that it doesn't.
    pub gap_bytes: u64,
    /// What is lost of the chunks that this crate's writer counted, as a sentence.
    pub lost: Option<String>,
    /// What else its writer says of its frames, and what a level may lack, as sentences.
    pub notes: Vec<String>,
    /// What is wrong with shards and index entries, as sentences; at most 100.
    pub damaged: Vec<String>,
}

/// Describes the dataset or the array at `path`.
///
/// # Errors
///
/// When there is neither, or the document of the root or a directory can't be read. A damaged shard is no error: see
/// [`ArrayDescription::damaged`]; nor is an array that can't be read: see [`Description::unreadable`]. Of a run that
/// was stopped while it began, the error says that no frame is lost.
pub fn describe(path: impl AsRef<Path>) -> Result<Description> {
    let root = path.as_ref();
    refuse_begun(root)?;
    let nodes = walk::nodes(root)?;
    let document = nodes.first().map(Node::document).transpose()?.unwrap_or_default();
    let attributes = document.get("attributes").filter(|attributes| !attributes.is_null());
    let attributes = attributes.cloned().unwrap_or_else(|| json!({}));
    let mut found: Vec<(&str, &Array)> =
        nodes.iter().filter_map(|node| Some((node.name.as_str(), node.array()?))).collect();
    // Scales are in the order of their document; that of their keys means nothing.
    found.sort_by_key(|&(name, array)| if array.layout().rules().names_resolutions { "" } else { name });
    let arrays = found.par_iter().map(|(name, array)| describe_array(name, array));
    let mut arrays = arrays.collect::<Result<Vec<_>>>()?;
    for (name, note) in levels::notes(&nodes)? {
        arrays.iter_mut().filter(|array| array.path == name).for_each(|array| array.notes.push(note.clone()));
    }
    let unreadable = nodes.iter().filter_map(|node| node.unreadable().map(|error| describe_unreadable(node, error)));
    let absent = promises::broken(&nodes)?.into_iter().map(|Broken { group, node, what }| {
        let reason = format!("{}: {what}", group.display());
        Unreadable { path: node, format: None, shape: None, dtype: None, reason }
    });
    let mut unreadable: Vec<_> = unreadable.chain(absent).collect();
    unreadable.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(Description {
        arrays,
        ome: ["ome", "multiscales", "plate", "well"].iter().any(|key| attributes.get(*key).is_some()),
        complete: attributes.pointer("/shardwright/complete").and_then(Value::as_bool),
        attributes,
        unreadable,
        notes: stale::among(&nodes).into_iter().map(Stale::note).chain(not_fetched::notes(&nodes)).collect(),
    })
}

/// What can be told of what is not read: shape and type stand in the same place in most formats.
fn describe_unreadable(node: &Node, error: &Error) -> Unreadable {
    let central = CentralMetadata::of(&node.path).ok().flatten();
    let scale = central.and_then(|(central, name)| central.said_of_scale(&name));
    let documents = [zarr3::DOCUMENT, zarr2::ARRAY].map(|name| node.path.join(name));
    let is_scale = scale.is_some();
    let of_node = || documents.iter().find_map(|path| document::read(path).ok().flatten());
    let said = scale.or_else(of_node).unwrap_or_default();
    let shape = said["shape"].as_array().and_then(|shape| shape.iter().map(Value::as_u64).collect());
    let dtype = said.get("data_type").or(said.get("dtype"));
    let told = |value: &Value| match text(value) {
        Some(text) => text.to_owned(),
        None => document::render_line(value),
    };
    let format = is_scale.then(|| "precomputed volume".to_owned());
    Unreadable { path: node.name.clone(), format, shape, dtype: dtype.map(told), reason: error.to_string() }
}

/// What the files of an array add up to.
#[derive(Default)]
struct FileSums {
    files: u64,
    present: u64,
    /// Chunks that files name, wherever they belong.
    named: u64,
    /// Chunks whose shard's index, or whose entry in it, is damaged.
    unknown: u64,
    payload: u64,
    length: u64,
    disk: u64,
    gaps: u64,
    /// Files that are compressed as such.
    packed: u64,
    damaged: Vec<String>,
    /// Files that may be right and are not read here.
    unread: u64,
    /// Of one of these, why.
    why_unread: Option<String>,
}

impl FileSums {
    /// Of what can't be read, which does not hide the rest.
    fn of_unread(error: Error) -> Result<Self> {
        match error {
            Error::Unsupported { .. } => Ok(Self { unread: 1, why_unread: Some(error.to_string()), ..Self::default() }),
            error if look::is_about_a_file(&error) => Ok(Self { damaged: vec![error.to_string()], ..Self::default() }),
            error => Err(error),
        }
    }

    fn plus(mut self, mut other: Self) -> Self {
        self.files += other.files;
        self.present += other.present;
        self.named += other.named;
        self.unknown = self.unknown.saturating_add(other.unknown);
        self.payload = self.payload.saturating_add(other.payload);
        self.length = self.length.saturating_add(other.length);
        self.disk = self.disk.saturating_add(other.disk);
        self.gaps = self.gaps.saturating_add(other.gaps);
        self.packed += other.packed;
        self.damaged.append(&mut other.damaged);
        self.damaged.truncate(DAMAGED_MAX);
        self.unread += other.unread;
        self.why_unread = [self.why_unread, other.why_unread].into_iter().flatten().min();
        self
    }

    /// What to say of what is not read.
    fn note(&self) -> Option<String> {
        let why = self.why_unread.as_ref()?;
        let (files, their) = (count_that(self.unread, "file", IS), of_number(&self.unread, ["its", "their"]));
        Some(format!("{files} not read here, and {their} chunks not counted: {why}"))
    }
}

fn describe_array(name: &str, array: &Array) -> Result<ArrayDescription> {
    let mut sums = match array.manifest() {
        Some(manifest) => weigh_manifest(array, manifest)?,
        None => {
            let (files, hidden) = array.files_and_hidden()?;
            let sums = files.par_iter().map(|(path, position)| weigh(array, path, position));
            let sums: FileSums = sums.try_reduce(FileSums::default, |a, b| Ok(a.plus(b)))?;
            hidden.into_iter().try_fold(sums, |sums, error| Ok(sums.plus(FileSums::of_unread(error)?)))?
        }
    };
    sums.damaged.sort();
    let axes = array.axes();
    // Where the group is asked for, too, it is told there.
    let of_group = axes.as_ref().err().filter(|_| name.is_empty()).map(|error| format!("no axes are known: {error}"));
    let of_resolution = array.note_of_resolution().map(|note| format!("the scale {note}"));
    let own = array.image_provenance();
    let frames = own.iter().flat_map(notes_of_frames);
    let grid = array.layout().chunk_grid();
    Ok(ArrayDescription {
        path: name.to_owned(),
        format: format::describe(array.layout()).to_owned(),
        caution: array.caution().map(str::to_owned),
        shape: array.shape().to_vec(),
        dtype: array.dtype(),
        dimension_names: array.dimension_names().map(<[String]>::to_vec),
        axes: axes.ok().flatten().unwrap_or_default(),
        channels: array.channels().unwrap_or_default(),
        chunk_shape: array.chunk_shape().to_vec(),
        shard_shape: array.shard_shape().map(<[u64]>::to_vec),
        codecs: codecs(array, &sums),
        index_location: array.layout().index_location().map(|location| location.to_string()),
        manifest: array.manifest().map(|manifest| manifest.origin().to_owned()),
        shard_files: sums.files,
        chunks_present: sums.present,
        // A file that is not read is a chunk, or a shard of which nobody knows how many are empty.
        chunks_empty: product(&grid)
            .unwrap_or(u64::MAX)
            .saturating_sub(sums.present + sums.unread)
            .saturating_sub(sums.unknown),
        chunks_unknown: sums.unknown,
        bytes_logical: format::bytes(array.shape(), array.dtype()).unwrap_or(u64::MAX),
        bytes_payload: sums.payload,
        bytes_files: sums.length,
        bytes_on_disk: sums.disk,
        gap_bytes: sums.gaps,
        // Of a shard that can't be read, it is not known how many chunks it has.
        lost: array.lost_of(sums.named).filter(|_| sums.damaged.is_empty() && sums.unread == 0),
        notes: frames.chain(sums.note()).chain(of_group).chain(of_resolution).collect(),
        damaged: sums.damaged,
    })
}

/// The codecs of its chunks, and what a volume's files are compressed with as such: its document does not say that.
fn codecs(array: &Array, sums: &FileSums) -> Vec<String> {
    let packing = match (sums.packed, sums.files) {
        (0, _) => None,
        (packed, files) if packed == files => Some(GZIP.to_owned()),
        (packed, files) => Some(format!("{GZIP} ({packed} of {files} files)")),
    };
    array.codecs().iter().cloned().chain(packing).collect()
}

fn weigh(array: &Array, path: &Path, position: &[u64]) -> Result<FileSums> {
    let file = match array.open_path(path.to_path_buf()) {
        Ok(Some(file)) => file,
        // It may have gone since the directory was listed.
        Ok(None) => return Ok(FileSums::default()),
        Err(error) => return FileSums::of_unread(error),
    };
    let mut sums = FileSums { files: 1, length: file.stored_len(), disk: file.disk_bytes(), ..FileSums::default() };
    if !array.layout().has_index() {
        (sums.present, sums.named, sums.payload) = (1, 1, file.stored_len());
        let name = path.file_name().and_then(OsStr::to_str).filter(|_| array.layout().packs_files());
        sums.packed = u64::from(name.is_some_and(|name| packing_of(name).is_some()));
        return Ok(sums);
    }
    let index = match array.read_index(&file, position, None) {
        Ok(index) => index,
        Err(error) => {
            let mut unread = FileSums::of_unread(error)?;
            if unread.unread == 0 && array.layout().has_boxes() {
                unread.unknown = array.layout().chunks_of(position).1.iter().product();
            }
            return Ok(sums.plus(unread));
        }
    };
    let damaged = index.broken().map(|reason| format!("{}: {reason}", path.display()));
    sums.damaged.extend(damaged.take(DAMAGED_MAX));
    let mut ranges = index.parts();
    for (chunk, entry) in index.entries() {
        sums.named += 1;
        match entry {
            Ok(range) => {
                sums.payload = sums.payload.saturating_add(range.nbytes);
                let inside =
                    array.layout().chunk_at(position, chunk).is_some_and(|chunk| array.layout().has_chunk(&chunk));
                sums.present += u64::from(inside);
                ranges.push(range);
            }
            Err(reason) => {
                sums.unknown += 1;
                if sums.damaged.len() < DAMAGED_MAX {
                    sums.damaged.push(format!("{}: chunk {chunk} of the shard: {reason}", path.display()));
                }
            }
        }
    }
    // A damaged entry's bytes are unknown, and count as a gap.
    sums.gaps = file.len() - covered(ranges);
    Ok(sums)
}

/// What the files that a manifest names add up to. Of those that are not on this machine, nothing is known but the
/// ranges.
fn weigh_manifest(array: &Array, manifest: &ChunkManifest) -> Result<FileSums> {
    let mut sums = FileSums::default();
    for (path, ranges) in manifest.ranges_by_path() {
        sums.files += 1;
        sums.present += ranges.len() as u64;
        sums.named += ranges.len() as u64;
        let file = match manifest.local(path) {
            Some(local) if manifest.check_near(path, &local).is_err() => {
                sums.damaged.push(format!("{path}: the manifest names this file, which is in no dataset near it"));
                continue;
            }
            Some(local) => match ShardFile::open(local)? {
                Some(file) => file,
                None => {
                    sums.damaged.push(format!("{path}: the manifest names this file, but it is not there"));
                    continue;
                }
            },
            None => {
                let known = ranges.iter().filter_map(|range| range.nbytes);
                sums.payload = known.fold(sums.payload, u64::saturating_add);
                continue;
            }
        };
        let total = ranges.len();
        let ranges: Vec<_> = ranges.iter().filter_map(|range| range.within(file.len())).collect();
        if ranges.len() < total {
            let outside = total - ranges.len();
            sums.damaged.push(format!(
                "{path}: {} of the manifest beyond its end",
                count_that(outside, "chunk", ["reaches", "reach"])
            ));
        }
        sums.payload = ranges.iter().fold(sums.payload, |sum, range| sum.saturating_add(range.nbytes));
        sums.length = sums.length.saturating_add(file.len());
        sums.disk = sums.disk.saturating_add(file.disk_bytes());
        sums.gaps = sums.gaps.saturating_add(file.len() - covered(ranges));
    }
    if array.layout().has_index() {
        // What it names are shards.
        match array.stored_chunks() {
            Ok(chunks) => (sums.present, sums.named) = (chunks, chunks),
            Err(error @ Error::Io { .. }) => return Err(error),
            Err(error) => sums.damaged.push(error.to_string()),
        }
    }
    sums.damaged.truncate(DAMAGED_MAX);
    Ok(sums)
}

/// Bytes in the union of ranges, which may overlap and stand in any order.
fn covered(mut ranges: Vec<Range>) -> u64 {
    ranges.sort_by_key(|range| range.offset);
    let mut covered = 0;
    let mut reached = 0;
    for Range { offset, nbytes } in ranges {
        let end = offset + nbytes;
        covered += end.saturating_sub(offset.max(reached));
        reached = reached.max(end);
    }
    covered
}
