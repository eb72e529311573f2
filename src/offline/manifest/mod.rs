//! Writes manifests for a dataset: as zarr-specs proposes them, and as kerchunk's readers open them today.
//!
//! ```text
//! run.ome.zarr/…                  the dataset; none of its bytes is copied
//! run.ome.manifest.zarr/
//!     zarr.json                   groups, as in the dataset
//!     0/zarr.json                 array of the dataset's inner chunks; storage transformer chunk-manifest-json
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

mod chunks;
mod files;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::archive_file::refuse_archive_folder;
use crate::config::{Compressor, ManifestForm};
use crate::error::{Error, Result};
use crate::format::consolidated;
use crate::format::provenance::ProvenanceMut;
use crate::format::rules;
use crate::format::zarr3;
use crate::fs as os;
use crate::fs::document;
use crate::fs::{Lock, OutputFolder, links, look};
use crate::offline::answers::{Answers, SeparateFiles};
use crate::offline::array::Array;
use crate::offline::array::manifest::KERCHUNK;
use crate::offline::hierarchy;
use crate::offline::hierarchy::walk::{self, Node, NodeKind};
use crate::offline::levels;
use crate::offline::not_fetched;
use crate::offline::progress::{Progress, ProgressCounters, controls};
use crate::offline::promises::{self, Broken};
use crate::offline::repack::staging::fingerprint;
use crate::offline::unfinished_parts::refuse_unfinished_parts;
use crate::words::{self, quoted};
use chunks::Chunks;
pub(super) use chunks::ShardChunks;
use files::{ArrayManifest, Kerchunk, MANIFEST, Urls, create_folder, put_document};

/// Where all manifests are to stand in documents, a longer one gets a file all the same: readers bound their documents.
const INLINED_MAX: u64 = 1 << 16;

/// A folder with more files than this is not looked through.
const FILES_MAX: usize = 1 << 16;

/// How [`WriteManifest`] writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ManifestOptions {
    /// What stands before the paths of the dataset's files: `https://central/run.ome.zarr`, `s3://bucket/run.ome.zarr`.
    /// `None`: `file://` and where they are now.
    pub url_prefix: Option<String>,
    /// In which forms. None is as good as all. With [`ManifestForm::Inlined`] alone, arrays of up to 65536 chunks have
    /// their manifest in their document.
    pub forms: Vec<ManifestForm>,
    /// Arrays of at most this many chunks have their manifest in their document, where both forms of manifests are
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

/// Where the manifests of a dataset stand if nothing else is said: `run.ome.manifest.zarr` beside `run.ome.zarr`, and
/// `run.ome.zarr.0.manifest.zarr` those of the array `0` in it.
pub fn manifest_path(dataset: impl AsRef<Path>) -> PathBuf {
    let path = dataset.as_ref();
    let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    if let Some(around) = path.ancestors().skip(1).filter(|above| hierarchy::has_node(above)).last() {
        let names = path.strip_prefix(around).into_iter().flatten().map(|name| name.to_string_lossy());
        let dataset = around.file_name().unwrap_or_default().to_string_lossy();
        let names: Vec<_> = std::iter::once(dataset).chain(names).collect();
        return around.with_file_name(format!("{}.manifest.zarr", names.join(".")));
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    path.with_file_name(format!("{}.manifest.zarr", name.strip_suffix(".zarr").unwrap_or(&name)))
}

/// What [`WriteManifest`] wrote.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
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

/// Writes manifests of a dataset or array into a new folder.
///
/// No pixel is read. Every codec that [`Array`] reads can be said in both forms: the byte order, the compressor and a
/// CRC-32C behind it.
///
/// ```no_run
/// use shardwright::offline::{ManifestOptions, WriteManifest};
///
/// let summary = WriteManifest::new("run.ome.zarr", None, &ManifestOptions::default())?.run()?;
/// println!("{} chunks", summary.chunks);
/// # Ok::<(), shardwright::Error>(())
/// ```
#[derive(Debug)]
pub struct WriteManifest {
    root: PathBuf,
    out: PathBuf,
    options: ManifestOptions,
    counters: ProgressCounters,
}

controls!(WriteManifest);

impl WriteManifest {
    /// Looks at the dataset or array at `dataset` and checks what is asked for; nothing is written yet. The manifests
    /// go to the new folder `out`, which must lie outside of the dataset, or to [`manifest_path`].
    ///
    /// # Errors
    ///
    /// [`Error::Config`] for a prefix or a Zarr version that can't be used, and for an `out` in a dataset;
    /// [`Error::Exists`] when `out` is there; [`Error::Conflict`] when `out` is something else than manifests;
    /// [`Error::Locked`] while a writer is at work; [`Error::NotFound`], [`Error::Format`] and [`Error::Unsupported`]
    /// when there is no array whose chunks can be named.
    pub fn new(dataset: impl AsRef<Path>, out: Option<&Path>, options: &ManifestOptions) -> Result<Self> {
        Lock::look_around(dataset.as_ref())?;
        Lock::look_below(dataset.as_ref())?;
        let manifest = Self::by_its_writer(dataset.as_ref(), out, options)?;
        links::enter(&manifest.root);
        refuse_unfinished_parts(&manifest.root)?;
        nodes(&manifest.root)?;
        Ok(manifest)
    }

    /// As [`new`](Self::new), of a dataset whose lock the caller may hold.
    pub(crate) fn by_its_writer(dataset: &Path, out: Option<&Path>, options: &ManifestOptions) -> Result<Self> {
        look::refuse_manifest_of_archive(dataset)?;
        let root = dataset.canonicalize().map_err(|error| Error::io("open", dataset, error))?;
        if !root.is_dir() {
            return Err(look::no_root(&root));
        }
        let out = os::absolute(&out.map_or_else(|| manifest_path(dataset), Path::to_path_buf))?;
        check(&root, &out, options)?;
        Ok(Self { root, out, options: options.clone(), counters: ProgressCounters::default() })
    }

    /// Writes. The folder appears as a whole when everything is in it. Only the first call works; another one is
    /// refused with [`Error::Conflict`].
    ///
    /// # Errors
    ///
    /// [`Error::Format`] when a shard's index is damaged, or the root's document can't be read; [`Error::Exists`] when
    /// the folder has come meanwhile; [`Error::Unsupported`] when no array in it can be described so. Arrays below the
    /// root that can't be read are left out, with a note, and of `kerchunk.json` those that documents of its version of
    /// Zarr have no words for.
    pub fn run(&self) -> Result<ManifestSummary> {
        self.run_with(None, &|_, _| Ok(()))
    }

    /// The dataset, and where its manifests go.
    pub(super) fn places(&self) -> (&Path, &Path) {
        (&self.root, &self.out)
    }

    /// Arrays whose shards others can look at, one by one.
    pub(super) fn separate_files(&self) -> Result<Vec<SeparateFiles>> {
        chunks::separate_files(&self.root, &nodes(&self.root)?)
    }

    /// The same, which takes what others have found in shards in place of reading their indexes. `note`: what there is
    /// to do before the folder, which is whole then, gets its name.
    pub(super) fn run_with(
        &self,
        answers: Option<&Answers>,
        note: &dyn Fn(&ManifestSummary, &Path) -> Result<()>,
    ) -> Result<ManifestSummary> {
        let Self { root, out, options, counters } = self;
        counters.begin_only_run("WriteManifest", root)?;
        links::enter(root);
        check(root, out, options)?;
        let nodes = nodes(root)?;
        let mut total: u64 = 0;
        for array in nodes.iter().filter_map(walk::Node::array) {
            counters.go_on()?;
            let files = array.files()?.into_iter();
            total = files
                .filter_map(|(path, _)| path.metadata().ok())
                .fold(total, |sum, file| sum.saturating_add(file.len()));
        }
        counters.begin(total);
        out.parent().map_or(Ok(()), create_folder)?;
        let made = OutputFolder::create(out)?;
        let before = listed(&nodes)?;
        let arrays = || nodes.iter().filter_map(walk::Node::array);
        let unless_changed = |error| arrays().fold(error, |error, array| array.unless_changed(error));
        let summary = self.write(&nodes, made.folder(), answers).map_err(unless_changed)?;
        arrays().try_for_each(Array::check_in_place)?;
        if before != listed(&nodes)? {
            return Err(Error::changed(root));
        }
        // What has come meanwhile is another call's, or somebody's.
        check_manifest_place(out, options.overwrite)?;
        note(&summary, made.folder())?;
        made.publish(options.overwrite)?;
        Ok(summary)
    }

    fn write(&self, nodes: &[Node], folder: &Path, answers: Option<&Answers>) -> Result<ManifestSummary> {
        let Self { root, options, counters, .. } = self;
        let prefix = options.url_prefix.as_deref().map(|prefix| prefix.trim_end_matches('/'));
        create_folder(folder)?;
        let kerchunk = options.has(ManifestForm::Kerchunk);
        let kerchunk =
            kerchunk.then(|| Kerchunk::create(folder.join(KERCHUNK), options.kerchunk_zarr_format)).transpose()?;
        let (inlined_max, mut summary) = (options.inlined_max(), ManifestSummary::default());
        let mut forms = Forms { folder, urls: Urls { root, prefix }, answers, counters, kerchunk, inlined_max };
        for node in nodes {
            match &node.kind {
                NodeKind::Group(_) => {
                    let mut document = node.document()?;
                    // What is consolidated there describes other arrays than these.
                    consolidated::take(&mut document);
                    forget_slots(&mut document);
                    forms.group(&node.name, &document)?;
                }
                NodeKind::Array(array) => forms.array(node, array, &mut summary)?,
                NodeKind::Unreadable(error) => {
                    summary.notes.push(format!("{} is left out: {error}", words::node(&node.name)))
                }
            }
        }
        summary.notes.extend(levels::notes(nodes)?.into_iter().map(|(name, note)| format!("{}: {note}", quoted(name))));
        summary.notes.extend(not_fetched::notes(nodes));
        for Broken { node, what, .. } in promises::broken(nodes)? {
            summary.notes.push(format!("{} is left out: of the group around it, {what}", quoted(node)));
        }
        if let Some(kerchunk) = forms.kerchunk {
            kerchunk.finish()?;
        }
        if summary.arrays == 0 {
            let reason = format!("no array of it can be described so: {}", summary.notes.join("; "));
            return Err(Error::unsupported(root, reason));
        }
        Ok(summary)
    }
}

/// What the files of all arrays are like: the places of chunks are told of these.
fn listed(nodes: &[Node]) -> Result<Vec<String>> {
    nodes.iter().filter_map(walk::Node::array).map(fingerprint).collect()
}

/// What there is to describe. Refuses what holds no array whose chunks can be named.
fn nodes(root: &Path) -> Result<Vec<Node>> {
    let nodes = walk::nodes(root)?;
    let arrays = nodes.iter().filter_map(|node| Some((node, node.array()?)));
    if let Some((volume, _)) = arrays.clone().find(|(_, array)| !rules(array.layout().dialect).manifests) {
        let reason =
            "is a precomputed volume, whose last chunks are shorter than others: no reader of Zarr takes these";
        return Err(Error::unsupported(&volume.path, reason));
    }
    if arrays.clone().next().is_none() {
        let unread = nodes.iter().find_map(walk::Node::unreadable).cloned();
        let reason = "there is no array in it, whose chunks a manifest could name";
        return Err(unread.unwrap_or_else(|| Error::not_found(root, reason)));
    }
    Ok(nodes)
}

fn check(root: &Path, out: &Path, options: &ManifestOptions) -> Result<()> {
    if let Some(prefix) = &options.url_prefix
        && !(prefix.contains("://") || prefix.starts_with('/'))
    {
        let reason = "is neither a URL such as s3://bucket/run.ome.zarr nor an absolute path";
        return Err(Error::config("url_prefix", quoted(prefix), reason));
    }
    if !matches!(options.kerchunk_zarr_format, 2 | 3) {
        return Err(Error::config("kerchunk_zarr_format", options.kerchunk_zarr_format, "possible are 2 and 3"));
    }
    if out.starts_with(root) {
        let reason = "lies in the dataset, whose readers would stumble over it; choose a path beside it";
        return Err(Error::config("out", out.display(), reason));
    }
    if let Some(around) = out.ancestors().skip(1).find(|above| hierarchy::has_node(above)) {
        let reason = format!(
            "lies in the dataset {}, whose readers would stumble over it; choose a path beside that",
            around.display()
        );
        return Err(Error::config("out", out.display(), reason));
    }
    refuse_archive_folder("out", out)?;
    check_manifest_place(out, options.overwrite)
}

/// Refuses a place where something is that may not be replaced.
pub(crate) fn check_manifest_place(out: &Path, overwrite: bool) -> Result<()> {
    let reason = "holds no manifests, or other things beside them, so it is never replaced: choose another path";
    match out.exists() {
        true if !holds_manifests(out)? => Err(Error::conflict(out, reason)),
        true if !overwrite => Err(Error::exists(out)),
        _ => Ok(()),
    }
}

/// Whether there is nothing in a folder but manifests and their documents.
fn holds_manifests(folder: &Path) -> Result<bool> {
    let (mut folders, mut seen, mut manifests) = (vec![folder.to_path_buf()], 0, false);
    while let Some(next) = folders.pop() {
        let entries = if next.is_dir() { look::list(&next)? } else { return Ok(false) };
        for path in entries {
            seen += 1;
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            match name {
                _ if seen > FILES_MAX || path.is_symlink() => return Ok(false),
                _ if path.is_dir() => folders.push(path),
                KERCHUNK | MANIFEST => manifests = true,
                zarr3::DOCUMENT => {
                    let document = document::read(&path)?.unwrap_or_default();
                    manifests |= zarr3::has_manifest(&document);
                }
                _ => return Ok(false),
            }
        }
    }
    Ok(manifests)
}

/// Takes back what the live writer says of its slots: they are in shards, of which there are none here.
fn forget_slots(document: &mut Value) {
    if let Some(mut own) = ProvenanceMut::of(document) {
        own.forget_slots();
    }
}

/// What somebody should know who reads an array by its manifest of `chunks` chunks, without what was said before.
fn note(node: &Node, array: &Array, chunks: u64, notes: &mut Vec<String>) -> Result<()> {
    let lost = array.lost_of(chunks).map(|lost| format!("{lost}; they read as the fill value"));
    for said in array.notes_while(false)?.into_iter().chain(lost) {
        if !notes.iter().any(|known| known.ends_with(&said)) {
            notes.push(if node.name.is_empty() { said } else { format!("{}: {said}", quoted(&node.name)) });
        }
    }
    Ok(())
}

/// The forms that are written, side by side.
struct Forms<'a> {
    /// Where they are written.
    folder: &'a Path,
    urls: Urls<'a>,
    /// What others have found in shards.
    answers: Option<&'a Answers>,
    counters: &'a ProgressCounters,
    kerchunk: Option<Kerchunk>,
    /// The most chunks of an array whose manifest stands in its document; `None`: there are no documents.
    inlined_max: Option<u64>,
}

impl Forms<'_> {
    fn group(&mut self, name: &str, document: &Value) -> Result<()> {
        if self.inlined_max.is_some() {
            let place = self.folder.join(name);
            create_folder(&place)?;
            put_document(&place, document)?;
        }
        self.kerchunk.as_mut().map_or(Ok(()), |kerchunk| kerchunk.group(name, document))
    }

    fn array(&mut self, node: &Node, array: &Array, summary: &mut ManifestSummary) -> Result<()> {
        let place = self.folder.join(&node.name);
        let mut document = node.document()?;
        zarr3::set_chunk_files(&mut document, array.metadata());
        forget_slots(&mut document);
        let before = summary.chunks;
        let mut in_kerchunk = false;
        if let Some(kerchunk) = &mut self.kerchunk {
            match kerchunk.array(&node.name, array, &document) {
                Ok(()) => {
                    in_kerchunk = true;
                    let of = if node.name.is_empty() { "the array" } else { &node.name };
                    summary.notes.extend(kerchunk.note_of_fill(array).map(|note| format!("{of} {note}")));
                }
                Err(Error::Unsupported { reason, .. }) => {
                    summary.notes.push(format!("{} is left out of {KERCHUNK}: {reason}", words::node(&node.name)));
                    if self.inlined_max.is_none() {
                        return Ok(());
                    }
                }
                Err(error) => return Err(error),
            }
        }
        let mut manifest = self.inlined_max.map(|max| ArrayManifest::create(&place, max)).transpose()?;
        let chunks = Chunks { array, name: &node.name, answers: self.answers, counters: self.counters };
        chunks.each(|key, path, range| {
            let url = self.urls.of(path)?;
            if let Some(manifest) = &mut manifest {
                manifest.chunk(key, &url, range)?;
            }
            if let Some(kerchunk) = self.kerchunk.as_mut().filter(|_| in_kerchunk) {
                kerchunk.chunk(&node.name, key, &url, range)?;
            }
            summary.chunks += 1;
            summary.bytes = summary.bytes.saturating_add(range.nbytes);
            Ok(())
        })?;
        note(node, array, summary.chunks - before, &mut summary.notes)?;
        summary.arrays += 1;
        summary.arrays_inlined += u64::from(manifest.map_or(Ok(false), |manifest| manifest.finish(&place, document))?);
        let zarr3 = self.kerchunk.as_ref().is_some_and(|kerchunk| kerchunk.zarr_format == 3);
        if array.codec().compressor == Compressor::Lz4 && zarr3 {
            let of = words::node(&node.name);
            summary.notes.push(format!("{of}: only zarr-python reads numcodecs.lz4 in Zarr v3 documents"));
        }
        Ok(())
    }
}
