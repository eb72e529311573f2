//! The sharded arrays of a dataset, found by their documents, and what this crate's writer says about them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::config::Dialect;
use crate::error::{Error, Refusal, Result};
use crate::format::acquisition_map::AcquisitionMap;
use crate::format::layout::{Files, Layout};
use crate::format::provenance::{ATTRIBUTE, Provenance};
use crate::format::{self, precomputed, zarr2, zarr3, zarr3_draft};
use crate::fs::{Identity, document, links};

const DEPTH_MAX: usize = 32;
const NODES_MAX: usize = 1 << 16;
const DOCUMENTS: [&str; 4] = ["zarr.json", ".zarray", ".zgroup", "info"];

/// One sharded array, whose chunks the store shows.
#[derive(Debug)]
pub(super) struct View {
    /// What stands before the keys of its chunks: nothing, or a path with a slash at the end.
    pub(super) base: String,
    /// The key of its document.
    pub(super) document: String,
    pub(super) layout: Layout,
    pub(super) owner: Option<Owner>,
}

/// Where a chunk is: its shard, and its entry in the shard's index.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ChunkAddress {
    pub(super) shard: Vec<u64>,
    pub(super) chunk: u64,
}

/// What this crate's writer says of an array that it made.
#[derive(Debug)]
pub(super) struct Owner {
    /// The key of the document in which it says so, and where in it.
    pub(super) document: String,
    pub(super) pointer: &'static str,
    pub(super) own: Provenance,
    pub(super) places: Option<AcquisitionMap>,
}

/// All sharded arrays of a dataset.
#[derive(Debug, Default)]
pub(super) struct Views {
    by_base: BTreeMap<String, View>,
    bases: HashMap<String, String>,
}

impl Views {
    /// Looks through the documents of the dataset at `root`.
    pub(super) fn find(root: &Path) -> Result<Self> {
        let mut search = Search { root, visited: HashSet::new(), nodes: 0, views: Self::default() };
        search.node("", None, 0)?;
        Ok(search.views)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &View> {
        self.by_base.values()
    }

    /// The array whose chunks' keys start so.
    pub(super) fn at(&self, base: &str) -> Option<&View> {
        self.by_base.get(base)
    }

    /// The array that a key of a chunk or a shard may belong to, and the key below it.
    pub(super) fn above<'k>(&self, key: &'k str) -> impl Iterator<Item = (&View, &'k str)> {
        let ends = key.match_indices('/').map(|(at, _)| at + 1).chain([0]);
        ends.filter_map(|end| Some((self.by_base.get(&key[..end])?, &key[end..])))
    }

    /// The array that has this document.
    pub(super) fn of_document(&self, key: &str) -> Option<&View> {
        self.by_base.get(self.bases.get(key)?)
    }

    fn add(&mut self, view: View) {
        self.bases.insert(view.document.clone(), view.base.clone());
        self.by_base.insert(view.base.clone(), view);
    }
}

impl View {
    /// The place of the chunk with this key below the array.
    pub(super) fn place(&self, key: &str) -> Option<ChunkAddress> {
        let (shard, chunk) = self.layout.file_of(&self.layout.chunk_position(key)?);
        Some(ChunkAddress { shard, chunk })
    }

    /// Whether the array has a chunk at this place.
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
struct Attributes {
    document: String,
    pointer: &'static str,
    value: Value,
}

impl Attributes {
    /// What the writer says there of an array of these dimensions.
    fn owner(&self, root: &Path, layout: &Layout) -> Result<Option<Owner>> {
        let Some(own) = Provenance::parse(&root.join(&self.document), &self.value)? else { return Ok(None) };
        let places = AcquisitionMap::new(layout, &own).ok();
        Ok(Some(Owner { document: self.document.clone(), pointer: self.pointer, own, places }))
    }
}

const IN_ZARR_JSON: &str = "/attributes/shardwright";
const IN_ZATTRS: &str = "/shardwright";

struct Search<'a> {
    root: &'a Path,
    visited: HashSet<Identity>,
    nodes: usize,
    views: Views,
}

impl Search<'_> {
    fn read(&self, key: &str) -> Result<Option<Value>> {
        document::read(&self.root.join(key))
    }

    /// Looks at the folder `base`, whose group above has these attributes.
    fn node(&mut self, base: &str, above: Option<&Attributes>, depth: usize) -> Result<()> {
        let path = self.root.join(base);
        let metadata = fs::metadata(&path).map_err(|error| Error::io("look at", &path, error))?;
        self.nodes += 1;
        if depth > DEPTH_MAX || self.nodes > NODES_MAX {
            let reason = format!("the tree is deeper than {DEPTH_MAX} or has more than {NODES_MAX} nodes");
            return Err(Error::format(&path, reason));
        }
        // A symbolic link may lead back up.
        if !self.visited.insert(Identity::from(&metadata)) {
            return Ok(());
        }
        let mut here = None;
        let key = format!("{base}zarr.json");
        if let Some(document) = self.read(&key)? {
            if zarr3_draft::is_entry(&document) {
                self.draft(base)?;
            }
            let value = document.get("attributes").cloned().unwrap_or_default();
            here = Some(Attributes { document: key.clone(), pointer: IN_ZARR_JSON, value });
            if document["node_type"] == "array" {
                let is_image = base == "0/" || base.ends_with("/0/");
                self.array(base, key, above.filter(|_| is_image), Dialect::Zarr3, &document, zarr3::layout)?;
            }
        }
        let key = format!("{base}.zarray");
        if let Some(document) = self.read(&key)? {
            let attributes = format!("{base}.zattrs");
            let value = self.read(&attributes)?.unwrap_or_default();
            let own = Attributes { document: attributes, pointer: IN_ZATTRS, value };
            let layout = |document: &Value| zarr2::layout(document, &own.value);
            self.array(base, key, Some(&own), Dialect::Zarr2Sharded, &document, layout)?;
        }
        let key = format!("{base}info");
        if let Some(info) = self.info(&key)? {
            self.scales(base, &key, &info)?;
        }
        for child in folders(&path)? {
            let has_document = DOCUMENTS.iter().any(|name| path.join(&child).join(name).is_file());
            if has_document {
                self.node(&format!("{base}{child}/"), here.as_ref(), depth + 1)?;
            }
        }
        Ok(())
    }

    /// Adds an array if it has shards. `parse`: what tells its grids.
    ///
    /// # Errors
    ///
    /// [`Error::Format`] when it has shards of which chunks can't be told: to take a shard for a chunk would be worse.
    fn array(
        &mut self,
        base: &str,
        key: String,
        attributes: Option<&Attributes>,
        dialect: Dialect,
        document: &Value,
        parse: impl Fn(&Value) -> Result<Layout, Refusal>,
    ) -> Result<()> {
        if !format::has_shards(dialect, document) {
            return Ok(());
        }
        let layout = parse(document).map_err(|reason| Error::format(self.root.join(&key), reason))?;
        let attributes = attributes.filter(|attributes| attributes.value.get(ATTRIBUTE).is_some());
        let owner = attributes.map(|attributes| attributes.owner(self.root, &layout)).transpose()?.flatten();
        self.views.add(View { base: base.to_owned(), document: key, layout, owner });
        Ok(())
    }

    /// The document of a volume. Other files may have its name.
    fn info(&self, key: &str) -> Result<Option<Value>> {
        match self.read(key) {
            Err(Error::Format { .. }) => Ok(None),
            read => Ok(read?.filter(precomputed::is_info)),
        }
    }

    /// The scales of a volume, of which the writer made the first.
    fn scales(&mut self, base: &str, key: &str, info: &Value) -> Result<()> {
        let path = self.root.join(key);
        for (number, scale) in precomputed::keys(&path, info)?.into_iter().enumerate() {
            let layout = precomputed::parse(&path, info, &scale)?.layout;
            if !layout.has_index() {
                continue;
            }
            let attributes = Attributes { document: key.to_owned(), pointer: IN_ZATTRS, value: info.clone() };
            let owner = if number == 0 { attributes.owner(self.root, &layout)? } else { None };
            let (base, document) = (format!("{base}{scale}/"), key.to_owned());
            self.views.add(View { base, document, layout, owner });
        }
        Ok(())
    }

    /// The arrays of a hierarchy of the draft of 2022, whose documents are all below `meta/root`.
    fn draft(&mut self, base: &str) -> Result<()> {
        let mut todo = vec![String::new()];
        while let Some(name) = todo.pop() {
            let folder = format!("{base}meta/root{name}");
            self.nodes += 1;
            if self.nodes > NODES_MAX || name.split('/').count() > DEPTH_MAX {
                return Err(Error::format(self.root.join(folder), "the tree is too large"));
            }
            let group = format!("{folder}.group.json");
            let attributes = self.read(&group)?.map(|document| Attributes {
                value: document.get("attributes").cloned().unwrap_or_default(),
                document: group,
                pointer: IN_ZARR_JSON,
            });
            if name.is_empty() {
                self.draft_array(base, "", None)?;
            }
            let path = self.root.join(&folder);
            for entry in files(&path)?.iter().filter_map(|entry| entry.strip_suffix(".array.json")) {
                let above = attributes.as_ref().filter(|_| entry == "0");
                self.draft_array(base, &format!("{name}/{entry}"), above)?;
            }
            todo.extend(folders(&path)?.iter().map(|child| format!("{name}/{child}")));
        }
        Ok(())
    }

    fn draft_array(&mut self, base: &str, name: &str, above: Option<&Attributes>) -> Result<()> {
        let key = format!("{base}meta/root{name}.array.json");
        let Some(document) = self.read(&key)? else { return Ok(()) };
        let chunks = format!("{base}data/root{name}/");
        self.array(&chunks, key, above, Dialect::Zarr3Transformer, &document, zarr3_draft::layout)
    }
}

fn list(path: &Path, is_folder: bool) -> Result<Vec<String>> {
    links::check(path).map_err(|reason| Error::format(path, reason))?;
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::io("list", path, error)),
        Ok(entries) => entries,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| Error::io("list", path, error))?;
        // What is not text is no key.
        let Ok(name) = entry.file_name().into_string() else { continue };
        let kind = fs::metadata(entry.path());
        // What is hidden is work in progress, but for the documents of Zarr v2.
        if !super::keys::is_hidden(&name)
            && kind.is_ok_and(|kind| if is_folder { kind.is_dir() } else { kind.is_file() })
        {
            found.push(name);
        }
    }
    found.sort();
    Ok(found)
}

/// The names of the folders in a folder; none if it is not there.
pub(super) fn folders(path: &Path) -> Result<Vec<String>> {
    list(path, true)
}

/// The names of the files in a folder that are part of the dataset.
pub(super) fn files(path: &Path) -> Result<Vec<String>> {
    list(path, false)
}
