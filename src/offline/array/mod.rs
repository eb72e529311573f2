//! One opened array: its files, their indexes and chunks. Which arrays there are is the business of the hierarchy.

pub(crate) mod chunk_decoder;
pub(crate) mod decode;
pub(crate) mod files;
pub(crate) mod index;
pub(crate) mod manifest;
pub(crate) mod memory;
pub(crate) mod origin;
mod read;
mod region;
pub(crate) mod shard_file;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::Value;

use crate::config::Codec;
use crate::dtype::ElementType;
use crate::error::{Error, Result};
use crate::format::acquisition_map::AcquisitionMap;
use crate::format::layout::Layout;
use crate::format::provenance::Provenance;
use crate::format::{Metadata, zarr3};
use crate::fs::look::FolderStamp;
use index::Index;
use manifest::ChunkManifest;
use origin::{Origin, may_be_of_change};
use shard_file::ShardFile;

/// An array on disk, opened for reading.
///
/// Reads Zarr v3 arrays with a regular grid, with or without the codecs `sharding_indexed` (also shards within shards)
/// and `transpose`; arrays of the Zarr v3 draft of 2022, with or without its sharding storage transformer; Zarr v2
/// arrays, also with the key `shards`; and the scales of Neuroglancer's precomputed volumes in raw encoding, sharded or
/// not.
///
/// A scale is an array of c, z, y, x, or of z, y, x where it has one channel; one that this crate wrote has the
/// dimensions that its writer had. `run/8_8_40` is the scale of that key in the volume `run`, and `run` alone the first
/// one.
///
/// Where an array declares the storage transformer `chunk-manifest-json`, its chunks are read from the local files that
/// the manifest names: those of its own dataset and of datasets in the same folder, and any other once
/// [`follow_manifests_anywhere`](super::follow_manifests_anywhere) was called.
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
    folder: PathBuf,
    document: PathBuf,
    metadata: Metadata,
    manifest: Option<ChunkManifest>,
    /// Of an array that was opened.
    origin: Option<Origin>,
    /// What slot headers must say, once that was asked.
    slots: OnceLock<Option<(Provenance, AcquisitionMap)>>,
}

impl fmt::Debug for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Array").field("path", &self.path).field("metadata", &self.metadata).finish_non_exhaustive()
    }
}

impl Array {
    /// The array that `metadata` describes, without a manifest. Nothing need be there.
    pub(crate) fn with(path: &Path, folder: &Path, document: PathBuf, metadata: Metadata) -> Self {
        Self {
            path: path.to_path_buf(),
            folder: folder.to_path_buf(),
            document,
            metadata,
            manifest: None,
            origin: None,
            slots: OnceLock::new(),
        }
    }

    /// An array at `path` as a Zarr v3 document describes it.
    pub(crate) fn described(path: &Path, document: &Value) -> Result<Self> {
        let file = path.join(zarr3::DOCUMENT);
        let metadata = zarr3::parse(&file, document)?;
        let manifest = metadata
            .manifest
            .as_ref()
            .map(|manifest| ChunkManifest::open(path, manifest, &metadata.layout))
            .transpose()?;
        Ok(Self { manifest, ..Self::with(path, path, file, metadata) })
    }

    /// The same array, of which it is known what stood at its place when it was opened: see [`Origin::new`].
    pub(crate) fn opened_at(
        self,
        folder: &Path,
        stamp: Option<FolderStamp>,
        documents: impl IntoIterator<Item = PathBuf>,
    ) -> Self {
        let mut origin = stamp.map(|stamp| Origin::new(folder, stamp, documents));
        if let (Some(origin), Some(manifest)) = (&mut origin, &self.manifest) {
            manifest.arrays().iter().for_each(|array| origin.add(array));
        }
        Self { origin, ..self }
    }

    /// Refuses what was read of the array if another one has its place by now.
    pub(crate) fn check_in_place(&self) -> Result<()> {
        match self.origin.as_ref().is_some_and(Origin::is_replaced) {
            true => Err(Error::changed(&self.path)),
            false => Ok(()),
        }
    }

    /// Whether that is so, or one of its documents was written since it was opened.
    pub(crate) fn is_changed(&self) -> bool {
        self.origin.as_ref().is_some_and(Origin::is_changed)
    }

    /// The same error, or, where the array is no longer what was opened, that.
    pub(crate) fn unless_changed(&self, error: Error) -> Error {
        if may_be_of_change(&error) && self.is_changed() { Error::changed(&self.path) } else { error }
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
    pub fn dtype(&self) -> ElementType {
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

    /// How elements are compressed. Settings that only a writer needs, such as levels, need not be the original ones.
    pub fn codec(&self) -> &Codec {
        self.metadata.chain.element_codec()
    }

    /// The codecs of a chunk as the document has them, for people: `blosc(cname=lz4, clevel=1, …)`.
    pub fn codecs(&self) -> &[String] {
        &self.metadata.chain.names
    }

    /// The user's attributes: a JSON object.
    pub fn attributes(&self) -> &Value {
        &self.metadata.attributes
    }

    /// The folder that the names of its files start from.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file that says what the array is like.
    pub(crate) fn document(&self) -> &Path {
        &self.document
    }

    /// The path of the file at a position of the grid of files.
    pub(crate) fn file_path(&self, position: &[u64]) -> PathBuf {
        self.folder.join(self.layout().file_key(position))
    }

    /// The position of the file with this path below the array, if it is one of the array's.
    pub(crate) fn file_position(&self, key: &str) -> Option<Vec<u64>> {
        self.layout().file_position(key).filter(|position| self.layout().has_file(position))
    }

    /// What can go wrong with other readers of this array.
    pub(crate) fn caution(&self) -> Option<&'static str> {
        self.layout().rules().caution.filter(|_| self.layout().has_index())
    }

    pub(crate) fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.metadata.layout
    }

    /// Which frames and chunks are where, if the array is of this crate's writer.
    ///
    /// # Errors
    ///
    /// [`Error::Format`] when the writer's order of acquisition does not fit the array.
    pub(crate) fn acquisition_map(&self, own: &Provenance) -> Result<AcquisitionMap> {
        AcquisitionMap::new(self.layout(), own).map_err(|reason| Error::format(&self.path, reason))
    }

    /// The writer's books and which frames are where, where this crate's writer has left slot headers before the
    /// chunks.
    pub(crate) fn slots(&self) -> Option<&(Provenance, AcquisitionMap)> {
        let own = || self.acquisition().filter(|(own, _)| own.slots.is_some() && self.manifest.is_none());
        self.slots.get_or_init(own).as_ref()
    }

    /// What says where the chunks lie, if not the names of their files.
    pub(crate) fn manifest(&self) -> Option<&ChunkManifest> {
        self.manifest.as_ref()
    }

    /// See [`Index::read`].
    pub(crate) fn read_index(&self, file: &ShardFile, position: &[u64], wanted: Option<&[u64]>) -> Result<Index> {
        Index::read(file, self.layout(), position, wanted)
    }

    /// The same array with its files below another folder. `from`, which its folder and document lie below, becomes
    /// `to`.
    pub(crate) fn moved(&self, from: &Path, to: &Path) -> Self {
        let place = |path: &Path| match path.strip_prefix(from) {
            // Joined with nothing, a path would get a slash at its end.
            Ok(below) if below.as_os_str().is_empty() => to.to_path_buf(),
            Ok(below) => to.join(below),
            Err(_) => path.to_path_buf(),
        };
        Self::with(&place(&self.path), &place(&self.folder), place(&self.document), self.metadata.clone())
    }
}
