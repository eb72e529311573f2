//! Manifests: where the chunks of an array lie, when the names of files don't say it.
//!
//! ```json
//! {"0.0.0": {"path": "file:///data/run.ome.zarr/0/c/0/0/0", "offset": 64, "length": 1234}, …}
//! ```
//!
//! Source: zarr-specs, proposal "Manifest storage transformer", "Array metadata" and "Manifest object". Of a chunk only
//! `path` is required: without `offset` it starts where the file does, without `length` it ends there. What the
//! proposal leaves open: a path without a scheme that is not absolute starts from the folder in which the array's
//! document stands; other keys of a chunk are passed over. A manifest is a stranger's word for what is to be read on
//! this machine, so files count only where they stand in its own dataset, or in one beside that; see
//! [`follow_manifests_anywhere`].

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use serde::de::{DeserializeSeed, Error as _, MapAccess, Visitor};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::format::index::Range;
use crate::format::layout::Layout;
use crate::format::manifest::ChunkReference;
use crate::format::zarr3;
use crate::fs::document;
use crate::geometry::{linear, position};
use crate::offline::array::shard_file::ShardFile;
use crate::replaceable::has_document;
use crate::sync::Unpoisoned;
use crate::words::{plain, quoted};

/// Whether manifests may name any file; see [`follow_manifests_anywhere`].
static ANYWHERE: AtomicBool = AtomicBool::new(false);

/// From now on, in this process, manifests may name any file of this machine, not only those of their own dataset and
/// of datasets in the same folder. Only for manifests of people whom you would let choose what you read and pass on.
pub fn follow_manifests_anywhere() {
    ANYWHERE.store(true, Relaxed);
}

/// All manifests of a dataset in one file, as kerchunk's readers open it.
pub(crate) const KERCHUNK: &str = "kerchunk.json";

/// Ten million chunks or so; a larger manifest should be several arrays.
const MANIFEST_BYTES_MAX: u64 = 1 << 30;

/// A manifest that was read. A path that many chunks share is kept once.
pub(crate) struct ChunkManifest {
    /// The folder of the array, where relative paths start.
    folder: PathBuf,
    origin: String,
    paths: Vec<String>,
    /// By the chunk's number in C order of the array's grid of chunks.
    chunks: Vec<(u64, Reference)>,
    /// Folders whose files may be read, as far as that was found out: it takes reading documents.
    near: Mutex<HashSet<PathBuf>>,
}

#[derive(Debug, Clone, Copy)]
struct Reference {
    path: u32,
    part: OpenRange,
}

/// A byte range of a file whose length is not known yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OpenRange {
    offset: u64,
    /// `None`: to the end of the file.
    pub(crate) nbytes: Option<u64>,
}

impl OpenRange {
    /// The range in a file of `len` bytes, if it has one.
    pub(crate) fn within(self, len: u64) -> Option<Range> {
        let rest = len.checked_sub(self.offset)?;
        let nbytes = self.nbytes.unwrap_or(rest);
        (nbytes <= rest).then_some(Range { offset: self.offset, nbytes })
    }
}

impl ChunkManifest {
    /// Reads the manifest that the document of the array in `folder` has or names.
    pub(crate) fn open(folder: &Path, value: &Value, layout: &Layout) -> Result<Self> {
        let (grid, array) = (layout.file_grid(), folder.join(zarr3::DOCUMENT));
        let mut table = ManifestReader { grid: &grid, ..ManifestReader::default() };
        let origin = match value {
            Value::Object(_) => {
                let read = (&mut table).deserialize(value);
                read.map_err(|error| Error::format(&array, format!("the manifest: {}", plain(error))))?;
                "inlined".to_owned()
            }
            Value::String(path) => {
                let file = manifest_file(folder, path)?;
                let Some(bytes) = document::bytes(&file, MANIFEST_BYTES_MAX)? else {
                    return Err(Error::format(
                        folder,
                        format!("names the manifest {}, which is not there", quoted(path)),
                    ));
                };
                let mut json = serde_json::Deserializer::from_slice(&bytes);
                let read = (&mut table).deserialize(&mut json).and_then(|()| json.end());
                read.map_err(|error| Error::format(&file, plain(error)))?;
                path.clone()
            }
            other => {
                let other = document::render_line(other);
                return Err(Error::format(
                    array,
                    format!("the manifest is {other}; expected its path or the manifest itself"),
                ));
            }
        };
        let ManifestReader { paths, mut chunks, inlined, .. } = table;
        if let Some(key) = inlined {
            let reason = format!("chunk {} of its manifest: inlined pixels are not read here", quoted(key));
            return Err(Error::unsupported(array, reason));
        }
        chunks.sort_by_key(|(chunk, _)| *chunk);
        if let Some(pair) = chunks.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let position = position(pair[0].0, &grid);
            return Err(Error::format(folder, format!("the manifest names chunk {position:?} twice")));
        }
        Ok(Self { folder: folder.to_path_buf(), origin, paths, chunks, near: Mutex::default() })
    }

    /// The manifest's path as the array's document has it, or `inlined`.
    pub(crate) fn origin(&self) -> &str {
        &self.origin
    }

    /// The positions of the chunks that are there, in C order. Where chunks are shards, these are the shards'.
    pub(crate) fn positions(&self, layout: &Layout) -> Vec<Vec<u64>> {
        let grid = layout.file_grid();
        self.chunks.iter().map(|(chunk, _)| position(*chunk, &grid)).collect()
    }

    /// The parts of every file that chunks take.
    pub(crate) fn ranges_by_path(&self) -> BTreeMap<&str, Vec<OpenRange>> {
        let mut parts: BTreeMap<&str, Vec<OpenRange>> = BTreeMap::new();
        for (_, reference) in &self.chunks {
            parts.entry(&self.paths[reference.path as usize]).or_default().push(reference.part);
        }
        parts
    }

    /// Where a path of the manifest leads on this machine; `None` for another one's.
    pub(crate) fn local(&self, path: &str) -> Option<PathBuf> {
        match path.split_once("://") {
            None => Some(self.folder.join(path)),
            Some(("file", rest)) => {
                let plain = PathBuf::from(rest.strip_prefix("localhost").unwrap_or(rest));
                // Some writers escape what is special in a URL, others don't.
                let unescaped = || unescape(rest).filter(|_| rest.contains('%') && !plain.exists());
                Some(unescaped().map_or_else(|| plain.clone(), PathBuf::from))
            }
            Some(_) => None,
        }
    }

    /// The folders of the arrays whose files it names, as far as these may be read.
    pub(crate) fn arrays(&self) -> HashSet<PathBuf> {
        let (mut found, mut known) = (HashSet::new(), HashSet::new());
        for file in self.paths.iter().filter_map(|path| self.local(path)) {
            // Of many files, most are in folders that others are in: what is above those is known, too.
            let mut above = file.ancestors().skip(1).take_while(|folder| known.insert(folder.to_path_buf()));
            let is_near = |folder: &&Path| folder.canonicalize().is_ok_and(|folder| self.is_near(&folder));
            if let Some(nearest) = above.next().filter(is_near) {
                let array = std::iter::once(nearest).chain(above).find(|folder| has_document(folder));
                found.extend(array.map(Path::to_path_buf));
            }
        }
        found
    }

    /// Refuses a file that stands neither in the manifest's own dataset nor in one beside it.
    pub(crate) fn check_near(&self, path: &str, local: &Path) -> Result<()> {
        // What is not there is told by whoever looks for it.
        let (Ok(folder), Ok(file)) = (self.folder.canonicalize(), local.canonicalize()) else { return Ok(()) };
        if self.is_near(file.parent().unwrap_or(&file)) {
            return Ok(());
        }
        let root = root_of(&folder);
        let reason = format!(
            "the manifest names {path}, which is in no dataset in {}; if you trust it, call \
             follow_manifests_anywhere",
            root.parent().unwrap_or(root).display()
        );
        Err(Error::unsupported(&self.folder, reason))
    }

    /// Whether files in a folder, given as it is without links, may be read.
    fn is_near(&self, of_file: &Path) -> bool {
        let mut near = self.near.lock().unpoisoned();
        if ANYWHERE.load(Relaxed) || near.contains(of_file) {
            return true;
        }
        let Ok(folder) = self.folder.canonicalize() else { return false };
        let root = root_of(&folder);
        let beside =
            root.parent().and_then(|around| Some(around.join(of_file.strip_prefix(around).ok()?.components().next()?)));
        let beside = beside.filter(|beside| beside.is_dir() && has_document(beside));
        let is_near = of_file.starts_with(root) || beside.is_some();
        if is_near {
            near.insert(of_file.to_path_buf());
        }
        is_near
    }

    /// The file that holds the chunk at a position, of which the chunk is meant; `None` for a chunk that was never
    /// written.
    pub(crate) fn open_chunk(&self, position: &[u64], layout: &Layout) -> Result<Option<ShardFile>> {
        let grid = layout.file_grid();
        // An array without dimensions has one chunk, which a reader calls the first of one dimension.
        let wanted = if grid.is_empty() { 0 } else { linear(position, &grid) };
        let Ok(at) = self.chunks.binary_search_by_key(&wanted, |(chunk, _)| *chunk) else { return Ok(None) };
        let reference = self.chunks[at].1;
        let path = &self.paths[reference.path as usize];
        let Some(local) = self.local(path) else {
            let reason = format!("chunk {position:?} is at {path}; only files of this machine are read here");
            return Err(Error::unsupported(&self.folder, reason));
        };
        self.check_near(path, &local)?;
        let Some(file) = ShardFile::open(local)? else {
            let reason = format!("chunk {position:?} should be in {path}, but there is no such file");
            return Err(Error::format(&self.folder, reason));
        };
        let Some(range) = reference.part.within(file.len()) else {
            let reason = format!(
                "chunk {position:?}: the manifest names {:?} bytes from {}, but the file has {}",
                reference.part.nbytes.unwrap_or(0),
                reference.part.offset,
                file.len()
            );
            return Err(Error::format(file.path(), reason));
        };
        Ok(Some(file.with_part(range)))
    }
}

/// The folder of the dataset that an array is in.
fn root_of(folder: &Path) -> &Path {
    folder.ancestors().take_while(|above| has_document(above)).last().unwrap_or(folder)
}

/// A document must not lead out of its dataset: the manifest itself stands in or below the array's folder.
fn manifest_file(folder: &Path, path: &str) -> Result<PathBuf> {
    let inside = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    if path.is_empty() || !Path::new(path).components().all(inside) {
        return Err(Error::format(folder, format!("names a manifest {} that is not in its folder", quoted(path))));
    }
    Ok(folder.join(path))
}

/// `%20` and the like as the bytes that they stand for.
fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        if byte != b'%' {
            bytes.push(byte);
            rest = tail;
            continue;
        }
        let digits = std::str::from_utf8(tail.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &tail[2..];
    }
    String::from_utf8(bytes).ok()
}

/// What becomes of a manifest while it is read: entry by entry, since as a tree of values it would take many times its
/// size.
#[derive(Default)]
struct ManifestReader<'a> {
    grid: &'a [u64],
    paths: Vec<String>,
    known: HashMap<String, u32>,
    chunks: Vec<(u64, Reference)>,
    /// The first chunk whose pixels stand in the manifest itself.
    inlined: Option<String>,
}

impl ManifestReader<'_> {
    /// The chunk's number, from a key such as `0.1.2`, `0/1/2` or `c/0/1/2`.
    fn chunk(&self, key: &str) -> Option<u64> {
        let numbers = key.strip_prefix("c/").or_else(|| key.strip_prefix("c.")).unwrap_or(key);
        if self.grid.is_empty() {
            return matches!(numbers, "0" | "c" | "").then_some(0);
        }
        let numbers = numbers.split(['.', '/']).map(|number| number.parse().ok()).collect::<Option<Vec<u64>>>()?;
        let inside = numbers.len() == self.grid.len() && numbers.iter().zip(self.grid).all(|(at, size)| at < size);
        inside.then(|| linear(&numbers, self.grid))
    }

    fn path(&mut self, path: String) -> u32 {
        let number = self.paths.len() as u32;
        *self.known.entry(path).or_insert_with_key(|path| {
            self.paths.push(path.clone());
            number
        })
    }
}

impl<'de> DeserializeSeed<'de> for &mut ManifestReader<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut ManifestReader<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a key for each chunk")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            let Some(chunk) = self.chunk(&key) else {
                let reason = format!("{} is no chunk of a grid of {:?}", quoted(key), self.grid);
                return Err(A::Error::custom(reason));
            };
            let ChunkReference { path, offset, length } =
                map.next_value().map_err(|error| A::Error::custom(format!("chunk {}: {error}", quoted(&key))))?;
            let Some(path) = path else {
                self.inlined.get_or_insert(key);
                continue;
            };
            let part = OpenRange { offset, nbytes: length };
            let path = self.path(path);
            self.chunks.push((chunk, Reference { path, part }));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;
    use crate::offline::array::Array;

    #[test]
    fn keys_of_every_spelling_name_a_chunk_of_the_grid() {
        let table = ManifestReader { grid: &[2, 3], ..ManifestReader::default() };
        for key in ["1.2", "1/2", "c/1/2", "c.1.2"] {
            assert_eq!(table.chunk(key), Some(5), "{key}");
        }
        for key in ["", "1", "2.0", "1.2.0", "1.x", "-1.0", "c"] {
            assert_eq!(table.chunk(key), None, "{key}");
        }
    }

    #[test]
    fn arrays_are_looked_for_where_files_may_be_read() {
        let sent = tempfile::tempdir().unwrap();
        let place = |name: &str| sent.path().canonicalize().unwrap().join(name);
        let document = |chunks: u64, manifest: Value| {
            let regular = json!({"name": "regular", "configuration": {"chunk_shape": [1]}});
            let keys = json!({"name": "default", "configuration": {"separator": "/"}});
            let transformer = json!({"name": "chunk-manifest-json", "configuration": {"manifest": manifest}});
            json!({
                "zarr_format": 3, "node_type": "array", "shape": [chunks], "data_type": "uint8", "fill_value": 0,
                "chunk_grid": regular, "chunk_key_encoding": keys, "codecs": [{"name": "bytes"}],
                "storage_transformers": [transformer], "attributes": {},
            })
        };
        for name in ["in/a/c", "in/b/c", "out/c/c"] {
            fs::create_dir_all(place(name)).unwrap();
            fs::write(place(name).join("../zarr.json"), document(1, json!({})).to_string()).unwrap();
        }
        let files = ["in/a/c/0", "in/b/c/0", "out/c/c/0", "out/c/gone/0"].map(|name| place(name).display().to_string());
        let named = files.iter().enumerate().map(|(at, path)| (at.to_string(), json!({"path": path})));
        let array = Array::described(&place("in/a"), &document(4, Value::Object(named.collect()))).unwrap();
        assert_eq!(array.manifest().unwrap().arrays(), ["in/a", "in/b"].map(place).into());
    }

    #[test]
    fn parts_end_where_their_file_does() {
        let part = |offset, nbytes| OpenRange { offset, nbytes }.within(100);
        assert_eq!(part(0, None), Some(Range { offset: 0, nbytes: 100 }));
        assert_eq!(part(90, Some(10)), Some(Range { offset: 90, nbytes: 10 }));
        assert_eq!(part(90, Some(11)), None);
        assert_eq!(part(u64::MAX, Some(u64::MAX)), None);
        assert_eq!(part(101, None), None);
    }

    #[test]
    fn escapes_are_bytes() {
        assert_eq!(unescape("/a%20b/%C2%B5m").as_deref(), Some("/a b/µm"));
        assert_eq!(unescape("/a%2"), None);
        assert_eq!(unescape("/a%zz"), None);
    }
}
