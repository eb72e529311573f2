//! Reads regions of arrays, with or without shards.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use serde_json::Value;

use super::hosted::Host;
use super::index::Index;
use super::manifest::Manifest;
use super::memory::{self, on_fitting_threads};
use super::region::{Area, Rows};
use super::shard_file::ShardFile;
use crate::codec::Decoder;
use crate::config::{Codec, Dialect};
use crate::dtype::Dtype;
use crate::error::{Error, Result};
use crate::format;
use crate::format::acquisition_map::AcquisitionMap;
use crate::format::index::Range;
use crate::format::layout::Layout;
use crate::format::precomputed::Expansion;
use crate::format::provenance::Provenance;
use crate::format::{Metadata, fill_value, zarr2, zarr3, zarr3_draft};
use crate::fs::document;
use crate::fs::links;

/// Children that an error message names.
const CHILDREN_MAX: usize = 20;

/// An array on disk, opened for reading.
///
/// Reads Zarr v3 arrays with a regular grid, with or without the codec `sharding_indexed`; arrays of the Zarr v3 draft of
/// 2022, with or without its sharding storage transformer; Zarr v2 arrays, also with the key `shards`; and the scales of
/// Neuroglancer's precomputed volumes in raw encoding, sharded or not.
///
/// A scale is an array of c, z, y, x, or of z, y, x where it has one channel; one that this crate wrote has the dimensions that
/// its writer had. `run/8_8_40` is the scale of that key in the volume `run`, and `run` alone the first one.
///
/// Where an array declares the storage transformer `chunk-manifest-json`, its chunks are read from the local files that the manifest
/// names, wherever these are.
///
/// ```no_run
/// use shardwright::offline::Array;
///
/// let array = Array::open("run.ome.zarr")?;
/// let mut frame = vec![0; 2048 * 2048 * array.dtype().size()];
/// array.read_region(&[17, 0, 0], &[1, 2048, 2048], &mut frame)?;
/// # Ok::<(), shardwright::Error>(())
/// ```
pub struct Array {
    path: PathBuf,
    /// The folder that the names of its files start from.
    folder: PathBuf,
    /// The file that says what the array is like.
    document: PathBuf,
    metadata: Metadata,
    manifest: Option<Manifest>,
}

impl fmt::Debug for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Array").field("path", &self.path).field("metadata", &self.metadata).finish_non_exhaustive()
    }
}

/// What decodes chunks on one thread: never shared, so never locked.
pub(super) struct Worker {
    decoder: Decoder,
    /// For chunks that end with their volume, the bytes of the last one that was seen and what decodes it.
    partial: Option<(usize, Decoder)>,
    cut: Vec<u8>,
    pub(super) encoded: Vec<u8>,
    pub(super) raw: Vec<u8>,
}

impl Array {
    /// Opens the array at `path`, or the first and finest array of the image at `path`.
    ///
    /// Some formats keep the documents of all arrays in one place. There the path of an array is that of the dataset and the
    /// array's name, whether there is such a folder or not: `run.zarr/0`.
    ///
    /// # Errors
    ///
    /// [`Error::Format`] says what is at `path` instead, or what in its document can't be read here.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        links::enter(path);
        if let Some(array) = Self::open_exactly(path)? {
            return Ok(array);
        }
        let dataset = Self::first_dataset(path)?;
        let inner = path.join(&dataset);
        Self::open_exactly(&inner)?.ok_or_else(|| {
            Error::format(path, format!("is an image whose first dataset {dataset:?} is a group, not an array"))
        })
    }

    /// The array at exactly this path; `None` when there is a group.
    pub(super) fn open_exactly(path: &Path) -> Result<Option<Self>> {
        let file = path.join("zarr.json");
        if let Some(document) = document::read(&file)? {
            if zarr3_draft::is_entry(&document) {
                // The one array of a dataset may be its root.
                return Host::at(path)?.map_or(Ok(None), |host| host.array(""));
            }
            return match zarr3::node(&file, &document)? {
                zarr3::Node::Group => Ok(None),
                zarr3::Node::Array => Self::described(path, &document).map(Some),
            };
        }
        let file = path.join(".zarray");
        let Some(document) = document::read(&file)? else { return Self::without_document(path) };
        let attributes = document::read(&path.join(".zattrs"))?.unwrap_or_else(|| Value::Object(Default::default()));
        let metadata = zarr2::parse(&file, &document, attributes)?;
        Ok(Some(Self::with(path, path, file, metadata)))
    }

    /// The array that `metadata` describes, without a manifest. Nothing need be there.
    pub(super) fn with(path: &Path, folder: &Path, document: PathBuf, metadata: Metadata) -> Self {
        Self { path: path.to_path_buf(), folder: folder.to_path_buf(), document, metadata, manifest: None }
    }

    /// An array at `path` as a Zarr v3 document describes it.
    fn described(path: &Path, document: &Value) -> Result<Self> {
        let file = path.join("zarr.json");
        let metadata = zarr3::parse(&file, document)?;
        let manifest =
            metadata.manifest.as_ref().map(|manifest| Manifest::open(path, manifest, &metadata.layout)).transpose()?;
        Ok(Self { manifest, ..Self::with(path, path, file, metadata) })
    }

    /// What is at `path`, where no document of an array stands.
    fn without_document(path: &Path) -> Result<Option<Self>> {
        if document::read(&path.join(".zgroup"))?.is_some() {
            return Ok(None);
        }
        if Host::at(path)?.is_some() {
            return Ok(None);
        }
        if let Some(array) = Host::of(path)?.map(|(host, name)| host.array(&name)).transpose()?.flatten() {
            return Ok(Some(array));
        }
        let what = match std::fs::metadata(path) {
            Err(error) => return Err(Error::io("open", path, error)),
            Ok(metadata) if !metadata.is_dir() => "is a file; expected the directory of an array or an image",
            Ok(_) => "holds neither zarr.json nor .zarray nor info; expected the directory of an array or an image",
        };
        Err(Error::format(path, what))
    }

    /// The path of the first dataset of the image group at `path`.
    fn first_dataset(path: &Path) -> Result<String> {
        if let Some(host) = Host::at(path)? {
            return host.first();
        }
        let attributes = match document::read(&path.join("zarr.json"))? {
            Some(document) => document.pointer("/attributes/ome").cloned().unwrap_or_default(),
            None => document::read(&path.join(".zattrs"))?.unwrap_or_default(),
        };
        let dataset = &attributes["multiscales"][0]["datasets"][0]["path"];
        let Some(dataset) = dataset.as_str() else {
            return Err(Error::format(path, format!("is a group; {}", children(path))));
        };
        // A document must not lead out of its dataset.
        if crate::fs::is_below(dataset) {
            Ok(dataset.to_owned())
        } else {
            Err(Error::format(path, format!("names a dataset {dataset:?} that is not below it")))
        }
    }

    /// The directory of the array.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Elements in each dimension.
    pub fn shape(&self) -> &[u64] {
        &self.metadata.layout.shape
    }

    /// The type of an element.
    pub fn dtype(&self) -> Dtype {
        self.metadata.dtype
    }

    /// The names of the dimensions, if the document has any. A dimension without a name has an empty one.
    pub fn dimension_names(&self) -> Option<&[String]> {
        self.metadata.layout.names.as_deref()
    }

    /// Elements of a chunk in each dimension: the least that can be read at once.
    pub fn chunk_shape(&self) -> &[u64] {
        &self.metadata.layout.chunk_shape
    }

    /// Elements of a shard in each dimension; `None` when each chunk is a file, or a hash deals chunks out to shards.
    pub fn shard_shape(&self) -> Option<&[u64]> {
        let layout = self.layout();
        (layout.has_index() && layout.has_boxes()).then_some(layout.file_shape.as_slice())
    }

    /// How chunks are encoded. Settings that only a writer needs, such as levels, need not be the original ones.
    pub fn codec(&self) -> &Codec {
        &self.metadata.chain.codec
    }

    /// The codecs of a chunk as the document has them, for people: `blosc(cname=lz4, clevel=1, …)`.
    pub fn codecs(&self) -> &[String] {
        &self.metadata.chain.names
    }

    /// The user's attributes: a JSON object.
    pub fn attributes(&self) -> &Value {
        &self.metadata.attributes
    }

    /// Reads the whole array in C order, elements in little-endian byte order.
    ///
    /// # Errors
    ///
    /// As [`read_region`](Self::read_region); also when the array does not fit into memory.
    pub fn read_all(&self) -> Result<Vec<u8>> {
        let bytes = format::bytes(self.shape(), self.dtype()).and_then(|bytes| usize::try_from(bytes).ok());
        let mut out = Vec::new();
        let reserved = bytes.filter(|&bytes| out.try_reserve_exact(bytes).is_ok());
        let Some(bytes) = reserved else {
            return Err(Error::format(&self.path, format!("an array of {:?} does not fit into memory", self.shape())));
        };
        out.resize(bytes, 0);
        self.read_region(&vec![0; self.shape().len()], self.shape(), &mut out)?;
        Ok(out)
    }

    /// Reads the box of `shape` elements from `start` into `out`, in C order, elements in little-endian byte order.
    ///
    /// Chunks are decoded in parallel, on rayon's current pool. A chunk that was never written reads as the fill value.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] when the box is not within the array or `out` is not exactly its size; [`Error::Format`] or
    /// [`Error::Io`] with the file and the chunk when something can't be read or decoded. What `out` holds then is
    /// unspecified.
    pub fn read_region(&self, start: &[u64], shape: &[u64], out: &mut [u8]) -> Result<()> {
        self.check_region(start, shape, out.len())?;
        if out.is_empty() {
            return Ok(());
        }
        if shape.is_empty() {
            // One element is a box of one dimension, too; only its file's name knows the difference.
            return Geometry { array: self, file: &[1], chunk: &[1] }.read(&[0], &[1], out);
        }
        let Layout { file_shape, chunk_shape, .. } = self.layout();
        Geometry { array: self, file: file_shape, chunk: chunk_shape }.read(start, shape, out)
    }

    fn check_region(&self, start: &[u64], shape: &[u64], out_bytes: usize) -> Result<()> {
        let array = self.shape();
        let ends = start.iter().zip(shape).map(|(start, length)| start.checked_add(*length));
        let inside = start.len() == array.len()
            && shape.len() == array.len()
            && ends.zip(array).all(|(end, length)| end.is_some_and(|end| end <= *length));
        if !inside {
            let value = format_args!("{shape:?} from {start:?}").to_string();
            return Err(Error::config("region", value, format!("the array's shape is {array:?}")));
        }
        let expected = format::bytes(shape, self.dtype());
        if expected != Some(out_bytes as u64) {
            let reason = match expected {
                Some(expected) => format!("a region of {shape:?} has {expected} bytes"),
                None => format!("a region of {shape:?} has more than 2^64 bytes"),
            };
            return Err(Error::config("out", format_args!("{out_bytes} bytes"), reason));
        }
        Ok(())
    }

    /// The folder that the names of its files start from.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file that says what the array is like.
    pub(super) fn document(&self) -> &Path {
        &self.document
    }

    /// The path of the file at a position of the grid of files.
    pub(super) fn file_path(&self, position: &[u64]) -> PathBuf {
        self.folder.join(self.layout().file_key(position))
    }

    /// The position of the file with this path below the array, if it is one of the array's.
    pub(super) fn file_position(&self, key: &str) -> Option<Vec<u64>> {
        self.layout().file_position(key).filter(|position| self.layout().has_file(position))
    }

    /// What can go wrong with other readers of this array.
    pub(super) fn caution(&self) -> Option<&'static str> {
        let prototype = self.layout().dialect == Dialect::Zarr2Sharded && self.layout().has_index();
        prototype.then_some(
            "only readers that know the key \"shards\" find its chunks: a plain reader of Zarr v2 passes over the key, takes each \
             shard for a chunk and misreads it",
        )
    }

    pub(super) fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.metadata.layout
    }

    /// Which frames and chunks are where, if the array is of this crate's writer.
    ///
    /// # Errors
    ///
    /// [`Error::Format`] when the writer's order of acquisition does not fit the array.
    pub(super) fn acquisition_map(&self, own: &Provenance) -> Result<AcquisitionMap> {
        AcquisitionMap::new(self.layout(), own).map_err(|reason| Error::format(&self.path, reason))
    }

    /// What says where the chunks lie, if not the names of their files.
    pub(super) fn manifest(&self) -> Option<&Manifest> {
        self.manifest.as_ref()
    }

    /// The index of a shard; of a volume's, only as much of it as tells of the entries in `wanted`, if there are any.
    pub(super) fn read_index(&self, file: &ShardFile, position: &[u64], wanted: Option<&[u64]>) -> Result<Index> {
        Index::read(file, self.layout(), position, wanted)
    }

    pub(super) fn worker(&self) -> Result<Worker> {
        let raw_bytes = self.metadata.chunk_bytes();
        let decoder = Decoder::new(self.codec(), self.dtype().size(), raw_bytes)?;
        Ok(Worker { decoder, partial: None, cut: Vec::new(), encoded: Vec::new(), raw: Vec::new() })
    }

    /// More bytes than any chunk's encoded form has.
    pub(super) fn encoded_bytes_max(&self) -> u64 {
        // No encoder doubles a chunk; without this bound, a sparse file could ask for all of the memory.
        (self.metadata.chunk_bytes() as u64).saturating_mul(2).saturating_add(1 << 20)
    }

    /// Refuses an encoded length that no chunk has.
    pub(super) fn check_encoded(&self, range: Range, path: &Path) -> Result<()> {
        let raw_bytes = self.metadata.chunk_bytes();
        if range.nbytes > self.encoded_bytes_max() {
            let reason = format!("{} encoded bytes for a chunk of {raw_bytes} bytes", range.nbytes);
            return Err(Error::format(path, reason));
        }
        Ok(())
    }

    /// Reads the chunk at a place in the grid of chunks and decodes it into the worker's `raw`, elements in little-endian byte
    /// order.
    pub(super) fn decode(&self, worker: &mut Worker, file: &ShardFile, range: Range, chunk: &[u64]) -> Result<()> {
        let raw_bytes = self.metadata.chunk_bytes();
        self.check_encoded(range, file.path())?;
        if worker.raw.is_empty() {
            let room = memory::resize(&mut worker.raw, raw_bytes);
            room.map_err(|reason| Error::format(file.path(), format!("a chunk that does not fit: {reason}")))?;
        }
        file.read(range, &mut worker.encoded)?;
        match self.expansion(chunk) {
            Some(expansion) => self.decode_cut(worker, &expansion)?,
            None => worker.decoder.decode(&worker.encoded, &mut worker.raw)?,
        }
        if self.metadata.chain.big_endian {
            worker.raw.chunks_exact_mut(self.dtype().size()).for_each(<[u8]>::reverse);
        }
        Ok(())
    }
}

impl Array {
    /// How the stored form of a chunk becomes the array's; `None` where it is it already.
    pub(super) fn expansion(&self, chunk: &[u64]) -> Option<Expansion> {
        let Layout { shape, chunk_shape, .. } = self.layout();
        self.layout().volume().and_then(|volume| volume.expansion(chunk, shape, chunk_shape))
    }

    /// The same array with its files below another folder. `from`, which its folder and document lie below, becomes `to`.
    pub(super) fn moved(&self, from: &Path, to: &Path) -> Self {
        let place = |path: &Path| path.strip_prefix(from).map_or_else(|_| path.to_path_buf(), |below| join(to, below));
        Self::with(&place(&self.path), &place(&self.folder), place(&self.document), self.metadata.clone())
    }

    /// Decodes a chunk that is stored otherwise than as a whole one of the array.
    fn decode_cut(&self, worker: &mut Worker, expansion: &Expansion) -> Result<()> {
        let Worker { partial, cut, encoded, raw, .. } = worker;
        let element = self.dtype().size();
        let bytes = expansion.bytes(element);
        let decoder = match partial {
            Some((known, decoder)) if *known == bytes => decoder,
            other => &mut other.insert((bytes, Decoder::new(self.codec(), element, bytes)?)).1,
        };
        // Never more than a whole chunk, for which there was memory.
        cut.resize(bytes, 0);
        decoder.decode(encoded, cut)?;
        expansion.expand(cut, raw, element);
        Ok(())
    }
}

/// The array with at least one dimension.
#[derive(Clone, Copy)]
struct Geometry<'a> {
    array: &'a Array,
    file: &'a [u64],
    chunk: &'a [u64],
}

/// The chunks of one file that a region needs.
struct Wanted<'out> {
    position: Vec<u64>,
    chunks: Vec<Rows<'out>>,
}

impl Geometry<'_> {
    /// Splits the region where the files end along the first dimension: such bands follow each other in memory.
    fn read(self, start: &[u64], shape: &[u64], out: &mut [u8]) -> Result<()> {
        let row_bytes = out.len() / shape[0] as usize;
        let (mut at, end) = (start[0], start[0] + shape[0]);
        let mut rest = out;
        let mut bands = Vec::new();
        while at < end {
            let next = (at / self.file[0] + 1).saturating_mul(self.file[0]).min(end);
            let (band, tail) = rest.split_at_mut((next - at) as usize * row_bytes);
            bands.push((at, next - at, band));
            (at, rest) = (next, tail);
        }
        let read = |(at, length, band): (u64, u64, &mut [u8])| {
            let (mut start, mut shape) = (start.to_vec(), shape.to_vec());
            (start[0], shape[0]) = (at, length);
            self.read_band(&start, &shape, band)
        };
        on_fitting_threads(self.array.metadata.chunk_bytes(), || bands.into_par_iter().try_for_each(read))
    }

    fn read_band(self, start: &[u64], shape: &[u64], out: &mut [u8]) -> Result<()> {
        let element_bytes = self.array.dtype().size();
        let area = Area { origin: start, extent: shape, chunk: self.chunk, element_bytes };
        let files = self.by_file(area.deal(out));
        files.into_par_iter().try_for_each_init(
            || None,
            |worker, mut wanted| {
                let Some((file, whole)) = self.array.open_file(&wanted.position)? else {
                    wanted.chunks.iter_mut().for_each(|chunk| self.fill(chunk));
                    return Ok(());
                };
                match self.array.layout().has_index() {
                    true => {
                        let entries: Vec<u64> = wanted.chunks.iter().map(|chunk| self.place(&chunk.chunk).1).collect();
                        let index = self.array.read_index(&file, &wanted.position, Some(&entries))?;
                        wanted.chunks.into_par_iter().try_for_each_init(
                            || None,
                            |worker, mut chunk| self.read_sharded(&area, worker, &file, &index, &mut chunk),
                        )
                    }
                    // Without shards, the file is the chunk, or the part of it that a manifest names.
                    false => wanted.chunks.iter_mut().try_for_each(|chunk| {
                        self.read_chunk(&area, worker, &file, whole, chunk)
                            .map_err(|error| at_chunk(error, &file, &chunk.chunk))
                    }),
                }
            },
        )
    }

    /// As [`Array::place`], but of an array that has a dimension.
    fn place(self, chunk: &[u64]) -> (Vec<u64>, u64) {
        if self.array.shape().is_empty() { (vec![0], 0) } else { self.array.layout().file_of(chunk) }
    }

    /// The chunks of each file; in C order of the files.
    fn by_file<'out>(self, chunks: Vec<Rows<'out>>) -> Vec<Wanted<'out>> {
        let mut files: BTreeMap<Vec<u64>, Vec<Rows<'out>>> = BTreeMap::new();
        for chunk in chunks {
            files.entry(self.place(&chunk.chunk).0).or_default().push(chunk);
        }
        files.into_iter().map(|(position, chunks)| Wanted { position, chunks }).collect()
    }

    fn read_sharded(
        self,
        area: &Area<'_>,
        worker: &mut Option<Worker>,
        file: &ShardFile,
        index: &Index,
        chunk: &mut Rows<'_>,
    ) -> Result<()> {
        let entry = index.entry(self.place(&chunk.chunk).1);
        match entry.map_err(|reason| Error::format(file.path(), reason)) {
            Ok(None) => {
                self.fill(chunk);
                Ok(())
            }
            Ok(Some(range)) => self.read_chunk(area, worker, file, range, chunk),
            Err(error) => Err(error),
        }
        .map_err(|error| at_chunk(error, file, &chunk.chunk))
    }

    fn read_chunk(
        self,
        area: &Area<'_>,
        worker: &mut Option<Worker>,
        file: &ShardFile,
        range: Range,
        chunk: &mut Rows<'_>,
    ) -> Result<()> {
        let worker = match worker {
            Some(worker) => worker,
            None => worker.insert(self.array.worker()?),
        };
        self.array.decode(worker, file, range, &chunk.chunk)?;
        area.copy(chunk, &worker.raw);
        Ok(())
    }

    fn fill(self, chunk: &mut Rows<'_>) {
        chunk.rows.iter_mut().for_each(|row| fill_value::row(row, &self.array.metadata.fill));
    }
}

/// Adds to an error the file and the chunk that it is about.
fn at_chunk(error: Error, file: &ShardFile, chunk: &[u64]) -> Error {
    match error {
        Error::Format { path, reason } => Error::Format { path, reason: format!("chunk {chunk:?}: {reason}") },
        Error::Codec { codec, reason } => Error::format(file.path(), format!("chunk {chunk:?}: {codec}: {reason}")),
        other => other,
    }
}

/// `folder/below`, without a slash at the end where there is nothing below.
fn join(folder: &Path, below: &Path) -> PathBuf {
    if below.as_os_str().is_empty() { folder.to_path_buf() } else { folder.join(below) }
}

/// The nodes below a group, for an error message.
fn children(path: &Path) -> String {
    let readable = links::check(path).is_ok().then(|| std::fs::read_dir(path).ok()).flatten();
    let entries = readable.into_iter().flatten().flatten();
    let mut names: Vec<_> = entries
        .filter(|entry| super::has_node(&entry.path()))
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .take(CHILDREN_MAX)
        .collect();
    names.sort();
    let (arrays, groups): (Vec<_>, Vec<_>) =
        names.into_iter().partition(|name| matches!(Array::open_exactly(&path.join(name)), Ok(Some(_))));
    match (arrays.is_empty(), groups.is_empty()) {
        (false, _) => format!("arrays in it: {}", arrays.join(", ")),
        (true, false) => format!("it holds no array, but these: {}", groups.join(", ")),
        (true, true) => "there is nothing in it".to_owned(),
    }
}
