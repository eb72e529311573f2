//! The sharded arrays of a dataset, found by their documents, and what this crate's writer says about them.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use serde_json::Value;

use crate::error::{Error, Refusal, Result};
use crate::format::acquisition_map::AcquisitionMap;
use crate::format::layout::{Files, Layout};
use crate::format::node::NodeFormat;
use crate::format::provenance::{self, Provenance};
use crate::format::{zarr2, zarr3};
use crate::fs::{document, links, look};
use crate::offline::array::index::Index;
use crate::offline::array::shard_file::ShardFile;
use crate::offline::hierarchy::central::{CentralMetadata, ShardedArray, is_dataset};
use crate::offline::hierarchy::walk::{self, Node, NodeKind};
use crate::offline::hierarchy::{GroupAttributes, format_at};

/// One sharded array, whose chunks the store shows.
#[derive(Debug)]
pub(super) struct ArrayView {
    /// What stands before the keys of its chunks: nothing, or a path with a slash at the end.
    pub(super) base: String,
    /// The key of its document.
    pub(super) document: String,
    pub(super) layout: Layout,
    pub(super) owner: Option<ArrayOwner>,
}

/// Where a chunk is: its shard, and its entry in the shard's index.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ChunkAddress {
    pub(super) shard: Vec<u64>,
    pub(super) chunk: u64,
}

/// What this crate's writer says of an array that it made.
#[derive(Debug)]
pub(super) struct ArrayOwner {
    /// The key of the document in which it says so, and where in it.
    pub(super) document: String,
    pub(super) pointer: &'static str,
    pub(super) own: Provenance,
    pub(super) map: Option<AcquisitionMap>,
}

/// All sharded arrays of a dataset.
#[derive(Debug, Default)]
pub(super) struct ArrayViews {
    by_base: BTreeMap<String, ArrayView>,
    bases: HashMap<String, String>,
}

impl ArrayViews {
    /// Looks through the documents of the dataset at `root`.
    pub(super) fn find(root: &Path) -> Result<Self> {
        let mut search = ViewSearch { root, views: Self::default() };
        let nodes = walk::all_nodes(root)?;
        let is_hidden = |node: &&Node| node.name.split('/').any(super::keys::is_hidden);
        nodes.iter().filter(|node| !is_hidden(node)).try_for_each(|node| search.node(node))?;
        Ok(search.views)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &ArrayView> {
        self.by_base.values()
    }

    /// The array whose chunks' keys start so.
    pub(super) fn at(&self, base: &str) -> Option<&ArrayView> {
        self.by_base.get(base)
    }

    /// The array that a key of a chunk or a shard may belong to, and the key below it.
    pub(super) fn above<'k>(&self, key: &'k str) -> impl Iterator<Item = (&ArrayView, &'k str)> {
        let ends = key.match_indices('/').map(|(at, _)| at + 1).chain([0]);
        ends.filter_map(|end| Some((self.by_base.get(&key[..end])?, &key[end..])))
    }

    pub(super) fn of_document(&self, key: &str) -> Option<&ArrayView> {
        self.by_base.get(self.bases.get(key)?)
    }

    fn add(&mut self, view: ArrayView) {
        self.bases.insert(view.document.clone(), view.base.clone());
        self.by_base.insert(view.base.clone(), view);
    }
}

impl ArrayView {
    /// The key of the file of a shard.
    pub(super) fn shard_key(&self, shard: &[u64]) -> String {
        format!("{}{}", self.base, self.layout.file_key(shard))
    }

    /// The open shard at a place and its index; `None` if it is not there. Of an index of which all is wanted, a part
    /// that is broken is an error.
    pub(super) fn open_shard(
        &self,
        root: &Path,
        shard: &[u64],
        chunks: Option<&[u64]>,
    ) -> Result<Option<(ShardFile, Index)>> {
        let Some(file) = ShardFile::open(root.join(self.shard_key(shard)))? else { return Ok(None) };
        let index = Index::read(&file, &self.layout, shard, chunks)?;
        if let Some(reason) = index.broken().next().filter(|_| chunks.is_none()) {
            return Err(Error::format(file.path(), reason));
        }
        Ok(Some((file, index)))
    }

    /// The place of the chunk with this key below the array.
    pub(super) fn place(&self, key: &str) -> Option<ChunkAddress> {
        let (shard, chunk) = self.layout.file_of(&self.layout.chunk_position(key)?);
        Some(ChunkAddress { shard, chunk })
    }

    /// Whether a key below the array looks like a chunk's and is none, or lies among the shards, where nothing else is
    /// looked for.
    pub(super) fn is_misspelt(&self, key: &str) -> bool {
        let Files::Grid { keys, .. } = &self.layout.files else { return false };
        let dims = self.layout.shape.len();
        let is_among_shards = key.rfind('/').is_some_and(|end| self.has_folder(&key[..=end]));
        keys.is_misspelt(key, dims) || (is_among_shards && keys.position(key, dims).is_none())
    }

    pub(super) fn covers(&self, place: &ChunkAddress) -> bool {
        self.layout.chunk_at(&place.shard, place.chunk).is_some_and(|chunk| self.layout.has_chunk(&chunk))
    }

    /// Whether there may be shards in a folder below the array: its path, with a slash at the end.
    pub(super) fn has_folder(&self, path: &str) -> bool {
        matches!(&self.layout.files, Files::Grid { keys, .. } if keys.start(path, self.layout.shape.len()).is_some())
    }

    /// Whether a shard can hold chunks whose keys start with these numbers.
    pub(super) fn meets(&self, numbers: &[u64], shard: &[u64]) -> bool {
        let per_shard = self.layout.chunks_per_file();
        numbers.iter().zip(&per_shard).zip(shard).all(|((number, per), shard)| number / per == *shard)
    }

    /// The next parts of the keys that start with whole numbers, each with a slash at the end: of all chunks that a
    /// shard can hold. `None` if what comes next is the end of a key.
    pub(super) fn folders(&self, numbers: &[u64], prefix: &str, shard: &[u64]) -> Option<Vec<String>> {
        let Files::Grid { keys, .. } = &self.layout.files else { return None };
        let lead = keys.lead();
        if lead.ends_with('/') && prefix.is_empty() {
            return Some(vec![lead.to_owned()]);
        }
        let dim = numbers.len();
        if keys.separator != '/' || dim + 1 >= self.layout.shape.len() {
            return None;
        }
        let lead = if prefix.is_empty() { lead } else { "" };
        let per_shard = self.layout.chunks_per_file();
        let from = shard[dim].saturating_mul(per_shard[dim]);
        let to = from.saturating_add(per_shard[dim]);
        Some((from..to).map(|number| format!("{lead}{number}/")).collect())
    }
}

/// A writer's attributes where they may stand: a document, and where in it.
#[derive(Debug, Clone)]
struct WriterAttributes {
    document: String,
    pointer: &'static str,
    value: Value,
}

impl WriterAttributes {
    /// What the writer says there of an array of these dimensions.
    fn owner(self, root: &Path, layout: &Layout) -> Result<Option<ArrayOwner>> {
        let Some(own) = Provenance::parse(&root.join(&self.document), &self.value)? else { return Ok(None) };
        let map = AcquisitionMap::new(layout, &own).ok();
        Ok(Some(ArrayOwner { document: self.document, pointer: self.pointer, own, map }))
    }
}

struct ViewSearch<'a> {
    root: &'a Path,
    views: ArrayViews,
}

impl ViewSearch<'_> {
    fn read(&self, key: &str) -> Result<Option<Value>> {
        document::read(&self.root.join(key))
    }

    /// Looks at the documents of a node. Of arrays, no more is read than their grids: whatever their codecs are, their
    /// chunks are passed on as they are stored.
    fn node(&mut self, node: &Node) -> Result<()> {
        if let NodeKind::Unreadable(error @ Error::Io { .. }) = &node.kind {
            return Err(error.clone());
        }
        let base = if node.name.is_empty() { String::new() } else { format!("{}/", node.name) };
        match format_at(&node.path) {
            Some(NodeFormat::Zarr3) => self.zarr3_node(&node.name, base)?,
            Some(NodeFormat::Zarr2) => self.zarr2_array(base)?,
            None => {}
        }
        let Some(central) = CentralMetadata::at(&node.path)? else { return Ok(()) };
        central.arrays.iter().try_for_each(|name| self.central_array(&central, name))
    }

    fn zarr3_node(&mut self, name: &str, base: String) -> Result<()> {
        let key = zarr3::document_at(name);
        let Some(document) = self.read(&key)?.filter(|document| document["node_type"] == "array") else {
            return Ok(());
        };
        // A level of a pyramid speaks for itself.
        let own = zarr3_attributes(key.clone(), &document);
        let own = Some(own).filter(|own| provenance::own(&own.value).is_some());
        let owner = match (own, name.rsplit_once('/').unwrap_or(("", name))) {
            (None, (group, "0")) => {
                let key = zarr3::document_at(group);
                self.read(&key)?.map(|document| zarr3_attributes(key, &document))
            }
            (own, _) => own,
        };
        self.add(base, key, zarr3::sharded_layout(&document), owner)
    }

    fn zarr2_array(&mut self, base: String) -> Result<()> {
        let [key, attributes] = [zarr2::ARRAY, zarr2::ATTRIBUTES].map(|document| format!("{base}{document}"));
        let Some(document) = self.read(&key)? else { return Ok(()) };
        let value = self.read(&attributes)?.unwrap_or_default();
        let own = WriterAttributes { document: attributes, pointer: NodeFormat::Zarr2.attributes().1, value };
        self.add(base, key, zarr2::sharded_layout(&document, &own.value), Some(own))
    }

    fn central_array(&mut self, central: &CentralMetadata, name: &str) -> Result<()> {
        let Some(ShardedArray { layout, folder, document, group }) = central.sharded(name)? else { return Ok(()) };
        let root = self.root;
        let key = |path: &Path| path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned();
        let attributes = group.map(|GroupAttributes { document, pointer, attributes, .. }| WriterAttributes {
            document: key(&document),
            pointer,
            value: attributes,
        });
        self.add(key(&folder) + "/", key(&document), Ok(Some(layout)), attributes)
    }

    /// Adds an array if it has shards, by what its document says of them.
    ///
    /// # Errors
    ///
    /// [`Error::Format`] when it has shards of which chunks can't be told: to take a shard for a chunk would be worse.
    fn add(
        &mut self,
        base: String,
        document: String,
        layout: Result<Option<Layout>, Refusal>,
        attributes: Option<WriterAttributes>,
    ) -> Result<()> {
        let layout = layout.map_err(|reason| Error::format(self.root.join(&document), reason))?;
        let Some(layout) = layout else { return Ok(()) };
        let owner = attributes.map(|attributes| attributes.owner(self.root, &layout)).transpose()?.flatten();
        self.views.add(ArrayView { base, document, layout, owner });
        Ok(())
    }
}

/// What the document of a node of Zarr v3 has for attributes.
fn zarr3_attributes(key: String, document: &Value) -> WriterAttributes {
    let value = document.get("attributes").cloned().unwrap_or_default();
    WriterAttributes { document: key, pointer: NodeFormat::Zarr3.attributes().1, value }
}

/// The names of the files in a folder that are part of the dataset, and of the folders in it; none if it is not there.
/// Whoever reads a file is told of a link that leads nowhere, and of a pipe.
pub(super) fn listed(path: &Path) -> Result<(Vec<String>, Vec<String>)> {
    let (mut files, mut folders) = (Vec::new(), Vec::new());
    if !look::is_folder(path) {
        return links::refuse_dangling(path).map(|()| (files, folders));
    }
    for entry in look::list(path)? {
        // What is not text is no key, and what is hidden is work in progress, but for the documents of Zarr v2.
        let Some(name) = entry.file_name().and_then(|name| name.to_str()) else { continue };
        if !super::keys::is_hidden(name) {
            let found = if look::is_folder_for_sure(&entry)? { &mut folders } else { &mut files };
            found.push(name.to_owned());
        }
    }
    files.sort();
    folders.sort();
    Ok((files, folders))
}

/// Refuses a folder in which there is something, and no dataset: it is somebody's who does not know of this store.
pub(super) fn refuse_no_dataset(root: &Path) -> Result<()> {
    let is_empty = || listed(root).map(|(files, folders)| files.is_empty() && folders.is_empty());
    if is_dataset(root) || is_empty()? || !walk::all_nodes(root)?.is_empty() {
        return Ok(());
    }
    let reason = "is a folder with files in it, and no dataset; expected one, or an empty folder";
    Err(Error::not_found(root, reason))
}
