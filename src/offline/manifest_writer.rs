//! Writes manifests for a dataset: as zarr-specs proposes them, and as kerchunk's readers open them today.
//!
//! ```text
//! run.ome.zarr/…                  the dataset; none of its bytes is copied
//! run.ome.manifest.zarr/
//!     zarr.json                   groups, as in the dataset
//!     0/zarr.json                 array; its chunks are the dataset's inner chunks; storage transformer chunk-manifest-json
//!     0/manifest.json             "0.0.0": {"path": …, "offset": …, "length": …}
//!     records/…/zarr.json         arrays of few chunks: the manifest stands in the document itself
//!     kerchunk.json               all of it once more: reference file system, version 1
//! ```
//!
//! Sources: zarr-specs, proposal "Manifest storage transformer"; kerchunk, "References specification", version 1; Zarr
//! v2 specification, "Arrays".
//!
//! The folder stands beside the dataset rather than in it, because a reader that lists a group fails on an array with a
//! storage transformer that it does not know, which today all do.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::config::{Compressor, ManifestForm};
use crate::error::{Error, Result};
use crate::format::index::Range;
use crate::format::{fill_value, named};
use crate::fs as os;
use crate::fs::document;
use crate::fs::links;
use crate::geometry::{for_each_position, linear};
use crate::offline::array::Array;
use crate::offline::array::files::FileChunks;
use crate::offline::hierarchy::walk::{self, Kind, Node};

/// Files whose indexes are read at once.
const BATCH: usize = 256;

const KERCHUNK: &str = "kerchunk.json";
const MANIFEST: &str = "manifest.json";
const TRANSFORMER: &str = "chunk-manifest-json";

/// Where all manifests are to stand in documents, a longer one gets a file all the same: readers bound their documents.
const INLINED_MAX: u64 = 1 << 16;

/// A folder with more files than this is not looked through.
const FILES_MAX: usize = 1 << 16;

/// How [`write_manifest`] writes.
#[derive(Debug, Clone)]
pub struct ManifestOptions {
    /// What stands before the paths of the dataset's files: `https://central/run.ome.zarr`, `s3://bucket/run.ome.zarr`.
    /// `None`: `file://` and where they are now.
    pub url_prefix: Option<String>,
    /// In which forms. None is as good as all. With [`ManifestForm::Inlined`] alone, arrays of up to 65536 chunks have
    /// their manifest in their document.
    pub forms: Vec<ManifestForm>,
    /// Arrays of at most so many chunks have their manifest in their document, where both forms of manifests are
    /// written.
    pub inline_chunks: u64,
    /// The Zarr version of the documents in `kerchunk.json`: 2, which every reader of such files opens, or 3.
    pub kerchunk_zarr_format: u8,
    /// Replace manifests that are in the way.
    pub overwrite: bool,
}

impl Default for ManifestOptions {
    fn default() -> Self {
        let forms = ManifestForm::ALL.to_vec();
        Self { url_prefix: None, forms, inline_chunks: 32, kerchunk_zarr_format: 2, overwrite: false }
    }
}

impl ManifestOptions {
    fn has(&self, form: ManifestForm) -> bool {
        self.forms.is_empty() || self.forms.contains(&form)
    }

    /// The most chunks of an array whose manifest stands in its document; `None` where there are no such documents.
    fn inlined_max(&self) -> Option<u64> {
        match (self.has(ManifestForm::Manifest), self.has(ManifestForm::Inlined)) {
            (true, true) => Some(self.inline_chunks),
            (true, false) => Some(0),
            (false, true) => Some(INLINED_MAX),
            (false, false) => None,
        }
    }
}

/// Where the manifests of a dataset stand if nothing else is said: `run.ome.manifest.zarr` beside `run.ome.zarr`.
pub fn manifest_path(dataset: impl AsRef<Path>) -> PathBuf {
    let path = dataset.as_ref();
    let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    path.with_file_name(format!("{}.manifest.zarr", name.strip_suffix(".zarr").unwrap_or(&name)))
}

/// What [`write_manifest`] wrote.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct ManifestSummary {
    /// Arrays described.
    pub arrays: u64,
    /// Of these, the ones with their manifest in their document.
    pub arrays_inlined: u64,
    /// Chunks named.
    pub chunks: u64,
    /// Bytes of these chunks, as they are stored.
    pub bytes: u64,
    /// What not every reader will be able to do, as sentences.
    pub notes: Vec<String>,
}

/// Writes manifests of the dataset or array at `dataset` into the new folder `out`, which must lie outside of it.
///
/// No pixel is read. `out` appears as a whole when everything is written. Every codec that [`Array`] reads can be said
/// in both forms: the byte order, the compressor and a CRC-32C behind it.
///
/// # Errors
///
/// [`Error::Config`] for a prefix or a Zarr version that can't be used; [`Error::Exists`] when `out` is there;
/// [`Error::Format`] when something in the dataset can't be read, a shard's index is damaged, or `out` is something
/// else than manifests.
pub fn write_manifest(
    dataset: impl AsRef<Path>,
    out: impl AsRef<Path>,
    options: &ManifestOptions,
) -> Result<ManifestSummary> {
    let root = dataset.as_ref();
    let root = root.canonicalize().map_err(|error| Error::io("open", root, error))?;
    links::enter(&root);
    let out = os::absolute(out.as_ref())?;
    check(&root, &out, options)?;
    let nodes = walk::nodes(&root)?;
    if let Some(volume) =
        nodes.iter().find(|node| matches!(&node.kind, Kind::Array(array) if array.layout().volume().is_some()))
    {
        let reason =
            "is a precomputed volume, whose last chunks are shorter than others: no reader of Zarr takes these";
        return Err(Error::format(&volume.path, reason));
    }
    let partial = os::hidden(&out, "partial");
    // Left by a call that was killed.
    let _ = fs::remove_dir_all(&partial);
    let urls = Urls { root: &root, prefix: options.url_prefix.as_deref().map(|prefix| prefix.trim_end_matches('/')) };
    let written = write_folder(&nodes, &partial, &urls, options);
    let summary = written.inspect_err(|_| drop(fs::remove_dir_all(&partial)))?;
    os::publish(&partial, &out)?;
    Ok(summary)
}

fn check(root: &Path, out: &Path, options: &ManifestOptions) -> Result<()> {
    if let Some(prefix) = &options.url_prefix
        && !(prefix.contains("://") || prefix.starts_with('/'))
    {
        let reason = "is neither a URL such as s3://bucket/run.ome.zarr nor an absolute path";
        return Err(Error::config("url_prefix", prefix, reason));
    }
    if !matches!(options.kerchunk_zarr_format, 2 | 3) {
        return Err(Error::config("kerchunk_zarr_format", options.kerchunk_zarr_format, "possible are 2 and 3"));
    }
    if out.starts_with(root) {
        let reason = "lies in the dataset, whose readers would stumble over it; choose a path beside it";
        return Err(Error::format(out, reason));
    }
    check_manifest_place(out, options.overwrite)
}

/// Refuses a place where something is that may not be replaced.
pub(crate) fn check_manifest_place(out: &Path, overwrite: bool) -> Result<()> {
    if !out.exists() {
        return Ok(());
    }
    if !overwrite {
        return Err(Error::Exists { path: out.to_path_buf() });
    }
    if !holds_manifests(out)? {
        return Err(Error::format(out, "holds something else than manifests, so it is never replaced"));
    }
    Ok(())
}

/// Whether there is nothing in a folder but manifests and their documents.
fn holds_manifests(folder: &Path) -> Result<bool> {
    let (mut folders, mut seen, mut manifests) = (vec![folder.to_path_buf()], 0, false);
    while let Some(next) = folders.pop() {
        let entries = if next.is_dir() { os::list(&next)? } else { return Ok(false) };
        for path in entries {
            seen += 1;
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            match name {
                _ if seen > FILES_MAX || path.is_symlink() => return Ok(false),
                _ if path.is_dir() => folders.push(path),
                KERCHUNK | MANIFEST => manifests = true,
                "zarr.json" => {
                    let document = document::read(&path)?.unwrap_or_default();
                    manifests |=
                        document.pointer("/storage_transformers/0/name").is_some_and(|name| name == TRANSFORMER);
                }
                _ => return Ok(false),
            }
        }
    }
    Ok(manifests)
}

fn write_folder(nodes: &[Node], folder: &Path, urls: &Urls<'_>, options: &ManifestOptions) -> Result<ManifestSummary> {
    create_folder(folder)?;
    let kerchunk = options.has(ManifestForm::Kerchunk);
    let kerchunk =
        kerchunk.then(|| Kerchunk::create(folder.join(KERCHUNK), options.kerchunk_zarr_format)).transpose()?;
    let mut forms = Forms { kerchunk, inlined_max: options.inlined_max() };
    let mut summary = ManifestSummary::default();
    for node in nodes {
        let place = folder.join(&node.name);
        match &node.kind {
            Kind::Group(_) => {
                let mut document = node.document()?;
                // What is consolidated there describes other arrays than these.
                document.as_object_mut().map(|document| document.remove("consolidated_metadata"));
                // What the live writer says of itself and its slots is about shards, of which there are none here.
                if let Some(own) = document.pointer_mut("/attributes/shardwright").and_then(Value::as_object_mut) {
                    own.retain(|key, _| !matches!(key.as_str(), "writer" | "slots" | "chunks"));
                }
                forms.group(&node.name, &place, &document)?;
            }
            Kind::Array(array) => forms.array(node, array, &place, urls, &mut summary)?,
        }
    }
    if let Some(kerchunk) = forms.kerchunk {
        kerchunk.finish()?;
    }
    sync_folders(folder)?;
    Ok(summary)
}

/// The forms that are written, side by side.
struct Forms {
    kerchunk: Option<Kerchunk>,
    /// The most chunks of an array whose manifest stands in its document; `None`: there are no documents.
    inlined_max: Option<u64>,
}

impl Forms {
    fn group(&mut self, name: &str, place: &Path, document: &Value) -> Result<()> {
        if self.inlined_max.is_some() {
            create_folder(place)?;
            put_document(place, document)?;
        }
        self.kerchunk.as_mut().map_or(Ok(()), |kerchunk| kerchunk.group(name, document))
    }

    fn array(
        &mut self,
        node: &Node,
        array: &Array,
        place: &Path,
        urls: &Urls<'_>,
        summary: &mut ManifestSummary,
    ) -> Result<()> {
        let document = array_document(node, array)?;
        if let Some(kerchunk) = &mut self.kerchunk {
            kerchunk.array(&node.name, array, &document)?;
        }
        let mut manifest = self.inlined_max.map(|max| ArrayManifest::create(place, max)).transpose()?;
        each_chunk(array, |key, path, range| {
            let url = urls.of(path)?;
            if let Some(manifest) = &mut manifest {
                manifest.chunk(key, &url, range)?;
            }
            if let Some(kerchunk) = &mut self.kerchunk {
                kerchunk.chunk(&node.name, key, &url, range)?;
            }
            summary.chunks += 1;
            summary.bytes = summary.bytes.saturating_add(range.nbytes);
            Ok(())
        })?;
        summary.arrays += 1;
        summary.arrays_inlined += u64::from(manifest.map_or(Ok(false), |manifest| manifest.finish(place, document))?);
        let zarr3 = self.kerchunk.as_ref().is_some_and(|kerchunk| kerchunk.zarr_format == 3);
        if array.codec().compressor == Compressor::Lz4 && zarr3 {
            summary.notes.push(format!("{:?}: only zarr-python reads numcodecs.lz4 in Zarr v3 documents", node.name));
        }
        Ok(())
    }
}

/// The manifest of one array, in a file and, as long as there are few chunks, for the document.
struct ArrayManifest {
    entries: Entries,
    few: Option<Map<String, Value>>,
    inlined_max: u64,
}

impl ArrayManifest {
    fn create(place: &Path, inlined_max: u64) -> Result<Self> {
        create_folder(place)?;
        let few = (inlined_max > 0).then(Map::new);
        Ok(Self { entries: Entries::create(&place.join(MANIFEST))?, few, inlined_max })
    }

    fn chunk(&mut self, key: &str, url: &str, Range { offset, nbytes }: Range) -> Result<()> {
        // In the order of the proposal, which some readers take for granted.
        let place = format!("{{\"path\": {}, \"offset\": {offset}, \"length\": {nbytes}}}", json!(url));
        self.entries.entry(key, &place)?;
        if let Some(few) = &mut self.few {
            few.insert(key.to_owned(), json!({"path": url, "offset": offset, "length": nbytes}));
        }
        if self.few.as_ref().is_some_and(|few| few.len() as u64 > self.inlined_max) {
            self.few = None;
        }
        Ok(())
    }

    /// Writes the document, and says whether the manifest stands in it.
    fn finish(self, place: &Path, mut document: Value) -> Result<bool> {
        let path = self.entries.path.clone();
        self.entries.finish()?;
        let inlined = self.few.is_some();
        let manifest = self.few.map_or_else(|| json!("./manifest.json"), Value::Object);
        if inlined {
            fs::remove_file(&path).map_err(|error| Error::io("remove", &path, error))?;
        }
        document["storage_transformers"] = json!([{"name": TRANSFORMER, "configuration": {"manifest": manifest}}]);
        put_document(place, &document)?;
        Ok(inlined)
    }
}

/// Visits every chunk of the array's grid that was written: its key, its file, its range.
fn each_chunk(array: &Array, mut visit: impl FnMut(&str, &Path, Range) -> Result<()>) -> Result<()> {
    let per_file = array.layout().chunks_per_file();
    let grid: Vec<u64> = array.shape().iter().zip(array.chunk_shape()).map(|(a, b)| a.div_ceil(*b)).collect();
    let positions = array.file_positions()?;
    for batch in positions.chunks(BATCH) {
        let files: Vec<Option<FileChunks>> =
            batch.par_iter().map(|position| array.file_chunks(position)).collect::<Result<_>>()?;
        for (position, file) in batch.iter().zip(files) {
            let Some(file) = file else { continue };
            let first: Vec<u64> = position.iter().zip(&per_file).map(|(at, count)| at * count).collect();
            let mut failed = None;
            for_each_position(&vec![0; per_file.len()], &per_file, |inner| {
                let at: Vec<u64> = first.iter().zip(inner).map(|(first, inner)| first + inner).collect();
                // Chunks beyond the edge only pad the shard.
                let inside = at.iter().zip(&grid).all(|(at, length)| at < length);
                let range = file.ranges[linear(inner, &per_file) as usize];
                if let (true, Some(range), None) = (inside, range, &failed) {
                    failed = visit(&key(&at), &file.path, range).err();
                }
            });
            failed.map_or(Ok(()), Err)?;
        }
    }
    Ok(())
}

/// `0.1.2`: the chunk key encoding `v2`, which manifests and Zarr v2 share.
fn key(position: &[u64]) -> String {
    if position.is_empty() {
        return "0".to_owned();
    }
    position.iter().map(u64::to_string).collect::<Vec<_>>().join(".")
}

/// The array's Zarr v3 document, with the inner chunks as its chunks.
fn array_document(node: &Node, array: &Array) -> Result<Value> {
    let metadata = array.metadata();
    let mut document = node.document()?;
    document["shape"] = json!(metadata.layout.shape);
    document["data_type"] = json!(metadata.dtype.zarr_name());
    document["chunk_grid"] = json!({"name": "regular", "configuration": {"chunk_shape": metadata.layout.chunk_shape}});
    document["chunk_key_encoding"] = json!({"name": "v2", "configuration": {"separator": "."}});
    document["codecs"] = json!(metadata.chain.document);
    if document["fill_value"].is_null() {
        document["fill_value"] = fill_value::to_json(metadata.dtype, &metadata.fill);
    }
    if let (Some(names), true) = (&metadata.layout.names, document["dimension_names"].is_null()) {
        document["dimension_names"] = json!(names);
    }
    if document["attributes"].is_null() {
        document["attributes"] = json!({});
    }
    document.as_object_mut().map(|document| document.remove("storage_transformers"));
    Ok(document)
}

/// The array's `.zarray`. All codecs are filters, because the last of them would otherwise be the compressor, of which
/// some readers of references expect the one and some the other kind of document.
fn zarray(array: &Array) -> Value {
    let metadata = array.metadata();
    let order = match (metadata.dtype.size(), metadata.chain.big_endian) {
        (1, _) => '|',
        (_, true) => '>',
        (_, false) => '<',
    };
    let kind = match metadata.dtype.zarr_name().as_bytes()[0] {
        b'u' => 'u',
        b'f' => 'f',
        _ => 'i',
    };
    let filters: Vec<Value> = metadata.chain.document.iter().filter_map(numcodecs).collect();
    json!({
        "zarr_format": 2,
        "shape": metadata.layout.shape,
        "chunks": metadata.layout.chunk_shape,
        "dtype": format!("{order}{kind}{}", metadata.dtype.size()),
        "fill_value": fill_value::to_json(metadata.dtype, &metadata.fill),
        "order": "C",
        "filters": if filters.is_empty() { Value::Null } else { Value::Array(filters) },
        "compressor": null,
        "dimension_separator": ".",
    })
}

/// A Zarr v3 codec in the words of Zarr v2; `None` for the byte order, which is part of the type there.
fn numcodecs(codec: &Value) -> Option<Value> {
    let (name, configuration) = named(codec)?;
    let name = name.strip_prefix("numcodecs.").unwrap_or(name);
    let mut filter = configuration.cloned().unwrap_or_default();
    match name {
        "bytes" => return None,
        "crc32c" => drop(filter.insert("location".into(), json!("end"))),
        "blosc" => {
            let shuffle = match filter.get("shuffle").and_then(Value::as_str) {
                Some("shuffle") => json!(1),
                Some("bitshuffle") => json!(2),
                Some(_) => json!(0),
                None => filter.get("shuffle").cloned().unwrap_or(json!(0)),
            };
            filter.insert("shuffle".into(), shuffle);
            filter.remove("typesize");
        }
        _ => {}
    }
    filter.insert("id".into(), json!(name));
    Some(Value::Object(filter))
}

/// The URLs of the dataset's files.
struct Urls<'a> {
    root: &'a Path,
    prefix: Option<&'a str>,
}

impl Urls<'_> {
    fn of(&self, file: &Path) -> Result<String> {
        let text = |path: &Path| {
            let text = path.to_str().map(str::to_owned);
            text.ok_or_else(|| Error::format(path, "a name that is no UTF-8 can't stand in a manifest"))
        };
        match self.prefix {
            // Not escaped: those who open references take what follows the scheme for the path.
            None => Ok(format!("file://{}", text(file)?)),
            Some(prefix) => match file.strip_prefix(self.root) {
                Ok(below) => Ok(format!("{prefix}/{}", text(below)?)),
                Err(_) => Err(Error::format(file, "is not part of the dataset, so a prefix can't lead to it")),
            },
        }
    }
}

/// A JSON object that is written entry by entry, because it may be larger than memory should be.
struct Entries {
    path: PathBuf,
    out: BufWriter<File>,
    first: bool,
}

impl Entries {
    fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).map_err(|error| Error::io("create", path, error))?;
        let mut entries = Self { path: path.to_path_buf(), out: BufWriter::new(file), first: true };
        entries.write(b"{")?;
        Ok(entries)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(|error| Error::io("write", &self.path, error))
    }

    fn entry(&mut self, key: &str, value: &impl Display) -> Result<()> {
        let comma: &[u8] = if std::mem::take(&mut self.first) { b"\n" } else { b",\n" };
        self.write(comma)?;
        let line = format!("{}: {value}", Value::from(key));
        self.write(line.as_bytes())
    }

    /// Closes the object and syncs the file.
    fn finish(self) -> Result<()> {
        let end = |mut out: BufWriter<File>| {
            out.write_all(b"\n}\n")?;
            out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
        };
        end(self.out).map_err(|error| Error::io("write", &self.path, error))
    }
}

/// The reference file.
struct Kerchunk {
    entries: Entries,
    zarr_format: u8,
}

impl Kerchunk {
    fn create(path: PathBuf, zarr_format: u8) -> Result<Self> {
        let mut entries = Entries::create(&path)?;
        entries.write(b"\"version\": 1, \"refs\": {")?;
        Ok(Self { entries, zarr_format })
    }

    fn text(&mut self, node: &str, name: &str, document: &Value) -> Result<()> {
        self.entries.entry(&below(node, name), &Value::String(document.to_string()))
    }

    fn group(&mut self, node: &str, document: &Value) -> Result<()> {
        if self.zarr_format == 3 {
            return self.text(node, "zarr.json", document);
        }
        self.text(node, ".zgroup", &json!({"zarr_format": 2}))?;
        self.text(node, ".zattrs", document.get("attributes").unwrap_or(&json!({})))
    }

    fn array(&mut self, node: &str, array: &Array, document: &Value) -> Result<()> {
        if self.zarr_format == 3 {
            return self.text(node, "zarr.json", document);
        }
        // xarray and VirtualiZarr ask for the dimensions' names.
        let dimensions = array.shape().len();
        let own = array.dimension_names().map(<[String]>::to_vec).unwrap_or_else(|| vec![String::new(); dimensions]);
        let named = |(at, name): (usize, String)| if name.is_empty() { format!("dim_{at}") } else { name };
        let names: Vec<String> = own.into_iter().enumerate().map(named).collect();
        let mut attributes = array.attributes().as_object().cloned().unwrap_or_default();
        attributes.insert("_ARRAY_DIMENSIONS".into(), json!(names));
        self.text(node, ".zarray", &zarray(array))?;
        self.text(node, ".zattrs", &Value::Object(attributes))
    }

    fn chunk(&mut self, node: &str, key: &str, url: &str, range: Range) -> Result<()> {
        self.entries.entry(&below(node, key), &json!([url, range.offset, range.nbytes]))
    }

    fn finish(mut self) -> Result<()> {
        self.entries.write(b"\n}")?;
        self.entries.finish()
    }
}

fn below(node: &str, name: &str) -> String {
    if node.is_empty() { name.to_owned() } else { format!("{node}/{name}") }
}

fn create_folder(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|error| Error::io("create", path, error))
}

fn put_document(folder: &Path, document: &Value) -> Result<()> {
    let text = serde_json::to_vec_pretty(document).map_err(|error| Error::format(folder, error.to_string()))?;
    os::put(&folder.join("zarr.json"), &text)
}

fn sync_folders(folder: &Path) -> Result<()> {
    os::sync_folder_of(&folder.join("zarr.json"))?;
    os::sync_folder_of(folder)
}
