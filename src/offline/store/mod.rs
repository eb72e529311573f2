//! Editing: a finished dataset as a store of keys and values in which no shard is to be seen.
//!
//! The keys are those that the dataset would have without shards: of documents, records and all other files as they
//! are, but for hidden ones, and of every single chunk. This is the abstract store interface that the sharding storage
//! transformer 1.0 describes under "API implementation", over every format with shards:
//!
//! | format | the array's document | keys of chunks |
//! |---|---|---|
//! | Zarr v3, codec `sharding_indexed` | `0/zarr.json`: the chunk's shape as grid, the inner codecs | `0/c/96/18` |
//! | Zarr v3 draft, storage transformer | `meta/root/0.array.json` without the transformer | `data/root/0/c96/18` |
//! | Zarr v2, prototype with `shards` | `.zarray` without `shards` | `96/18` or `96.18` |
//! | Neuroglancer's precomputed volume | `info` without `sharding` | `8_8_40/0-64_0-64_0-16`, as stored |
//!
//! # What a power cut leaves
//!
//! Every change makes a new file under a hidden name beside the old one, waits for the device, renames, and waits for
//! the name. So at any moment, whatever is killed or cut, each shard is the old one or the new one, as a whole: all
//! other chunks are readable, and all chunks of one batch in one shard are old together or new together. Readers that
//! have opened the old file go on with the old file.
//!
//! The specification allows two cheaper ways, and both are left out because they can tear a shard:
//!
//! - To replace a chunk in place, or to write it into a gap and then the index over the index. A write is not one step:
//!   the device may have done half of it. A torn index, which most formats have no checksum for, spoils every chunk of
//!   the shard.
//! - To append the chunk with a new index behind it. Readers take the last bytes of a file for the index, so from the
//!   first byte appended until the last they find garbage there; a reader beside the writer does, and after a power cut
//!   all do.
//!
//! The price is that each batch copies the shard. The kernel does it (`copy_file_range`), holes stay holes, and where
//! slots are fixed and the file system can share blocks (Btrfs, XFS, bcachefs), only what is new is written. It is one
//! batch for each call: so [`Store::set_many`] rather than many times [`Store::set`].
//!
//! # What verify and recover say
//!
//! In datasets of this crate's writer, new chunks get slot headers like the others, in the slots where the others
//! stand; of a chunk that was there before, its frame numbers stay. [`Verify`](super::Verify) and
//! [`Recover`](super::Recover) vouch for them as for all others. The writer's attributes get `"edited": true`. A
//! chunk that is larger than the dataset's slots makes these `packed`, which is what they are called when they have no
//! size of their own.

mod disk;
mod edit;
mod keys;
mod list;
mod new_documents;
mod rewrite;
mod view;
#[cfg(feature = "zarrs")]
mod zarrs;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, RwLock};

use crate::error::{Error, Result};
use crate::format;
use crate::format::index::Range;
use crate::format::zarr3;
use crate::fs::{Lock, document, links, look};
use crate::offline::array::index::Index;
use crate::offline::array::shard_file::ShardFile;
use crate::offline::unfinished_parts::refuse_unfinished_parts;
use crate::sync::Unpoisoned;
use disk::{Disk, Local};
use list::Lister;
pub use list::Listing;
use view::{ArrayView, ArrayViews, ChunkAddress};

/// A dataset as keys and values, one for each document and each chunk, whether or not chunks share shards.
///
/// The [module's documentation](self) says which keys there are and what becomes of a dataset whose editor is killed.
///
/// ```no_run
/// use shardwright::offline::Store;
///
/// let store = Store::edit("run.ome.zarr")?;
/// let chunk = store.get("0/c/17/0/0")?.expect("a chunk that is there");
/// store.set_many(&[("0/c/18/0/0", &chunk), ("0/c/19/0/0", &chunk)])?;
/// store.erase("0/c/17/0/0")?;
/// store.finish()?;
/// # Ok::<(), shardwright::Error>(())
/// ```
#[derive(Debug)]
pub struct Store {
    root: PathBuf,
    disk: Box<dyn Disk>,
    views: RwLock<Arc<ArrayViews>>,
    editing: Option<Mutex<Editing>>,
}

/// What only the one writer of a dataset has.
#[derive(Debug)]
struct Editing {
    /// By the documents in which this crate's writer speaks of its images.
    ledgers: HashMap<String, Ledger>,
    _lock: Lock,
}

/// How many chunks an image has, for those who count.
#[derive(Debug)]
struct Ledger {
    pointer: &'static str,
    /// `None`: its writer did not say.
    chunks: Option<u64>,
}

/// Which bytes of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ByteRange {
    /// All of them.
    #[default]
    All,
    /// Those from an offset to the end.
    From(u64),
    /// A number of them from an offset on.
    Part {
        /// The first byte.
        offset: u64,
        /// How many.
        length: u64,
    },
    /// A number of them at the end.
    Last(u64),
}

impl ByteRange {
    /// Where the bytes stand in a value of `size` bytes; `None` if they reach beyond it.
    fn of(self, size: u64) -> Option<Range> {
        let range = match self {
            Self::All => Range { offset: 0, nbytes: size },
            Self::From(offset) => Range { offset, nbytes: size.checked_sub(offset)? },
            Self::Part { offset, length } => Range { offset, nbytes: length },
            Self::Last(nbytes) => Range { offset: size.checked_sub(nbytes)?, nbytes },
        };
        (range.offset.checked_add(range.nbytes)? <= size).then_some(range)
    }
}

/// A shard: the array's base, and which of its shards.
type ShardAddress<'v> = (&'v str, Vec<u64>);

enum KeyTarget<'v> {
    /// A chunk in a shard.
    Chunk(&'v ArrayView, ChunkAddress),
    /// The document of an array with shards.
    Document(&'v ArrayView),
    /// A file as it is.
    File,
}

/// The value of a key that names no chunk.
enum Shown {
    File(ShardFile),
    Bytes(Vec<u8>),
}

impl Store {
    /// Opens a dataset to read. No lock is taken: several readers, one editor and a running acquisition get along.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when there is nothing, [`Error::NotFound`] for a file; [`Error::Format`] when a document in it is
    /// broken, or its array has shards whose chunks can't be told apart.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        look::refuse_archive(path)?;
        let root = path.canonicalize().map_err(|error| Error::io("open", path, error))?;
        if !root.is_dir() {
            return Err(look::no_root(&root));
        }
        links::enter(&root);
        let views = ArrayViews::find(&root)?;
        Ok(Self { root, disk: Box::new(Local { sync: true }), views: RwLock::new(Arc::new(views)), editing: None })
    }

    /// Opens a dataset to read and to write, as its one writer until the store is dropped.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open); [`Error::NotFound`] for a folder without a dataset, unless it is empty: a dataset may
    /// begin there. [`Error::Locked`] while an acquisition or another editor has the dataset; [`Error::Unfinished`]
    /// when its writer did not finish: chunks that only [`Recover`](super::Recover) finds would be lost;
    /// [`Error::Config`] when the folder is only a part of a dataset.
    pub fn edit(path: impl AsRef<Path>) -> Result<Self> {
        let mut store = Self::open(path)?;
        let root = &store.root;
        if let Some(above) = root.parent().filter(|above| crate::offline::hierarchy::has_node(above)) {
            let reason = format!("is a part of {}; open that, because it has the lock", above.display());
            return Err(Error::config("path", root.display(), reason));
        }
        view::refuse_no_dataset(root)?;
        let lock = Lock::take(root)?;
        Lock::look_below(root)?;
        // A writer may have ended in between.
        store.reload()?;
        refuse_unfinished_parts(root)?;
        for owner in store.views().all().filter_map(|view| view.owner.as_ref()) {
            if !owner.own.complete && !owner.own.recovered {
                let reason = "its writer did not finish, and to edit a shard would remove what a recovery may still \
                              find; recover it first";
                return Err(Error::unfinished(root, reason));
            }
        }
        store.editing = Some(Mutex::new(Editing { ledgers: HashMap::new(), _lock: lock }));
        Ok(store)
    }

    /// Does not wait for the device. A power cut may then leave files empty; a kill does not.
    #[must_use]
    pub fn without_sync(mut self) -> Self {
        self.disk = Box::new(Local { sync: false });
        self
    }

    /// The dataset's folder.
    pub fn path(&self) -> &Path {
        &self.root
    }

    fn views(&self) -> Arc<ArrayViews> {
        self.views.read().unpoisoned().clone()
    }

    /// Documents say which arrays have shards.
    fn reload(&self) -> Result<()> {
        let views = Arc::new(ArrayViews::find(&self.root)?);
        *self.views.write().unpoisoned() = views;
        Ok(())
    }

    fn named<'v>(&self, views: &'v ArrayViews, key: &str) -> Result<KeyTarget<'v>> {
        keys::check(key)?;
        if let Some(view) = views.of_document(key) {
            return Ok(KeyTarget::Document(view));
        }
        let chunk = views.above(key).find_map(|(view, below)| Some((view, view.place(below)?)));
        Ok(chunk.map_or(KeyTarget::File, |(view, place)| KeyTarget::Chunk(view, place)))
    }

    /// The value of a key; `None` if it has none.
    ///
    /// # Errors
    ///
    /// As [`get_partial_values`](Self::get_partial_values).
    pub fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.get_partial_values(&[(key, ByteRange::All)])?.pop().flatten())
    }

    /// Parts of the values of several keys; `None` for a key that has no value.
    ///
    /// Each shard is opened once and its index read once, so all chunks of one shard come from one state of it.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] for a range that reaches beyond its value and for a key that leads out of the dataset;
    /// [`Error::Format`] for a shard with a damaged index; [`Error::Io`] when the system refuses something.
    pub fn get_partial_values(&self, wanted: &[(&str, ByteRange)]) -> Result<Vec<Option<Vec<u8>>>> {
        let views = self.views();
        let mut values = vec![None; wanted.len()];
        let mut of_shards: BTreeMap<ShardAddress, Vec<(usize, u64)>> = BTreeMap::new();
        for (number, (key, range)) in wanted.iter().enumerate() {
            match self.named(&views, key)? {
                KeyTarget::Chunk(view, place) => {
                    of_shards.entry((&view.base, place.shard)).or_default().push((number, place.chunk));
                }
                named => match self.shown(key, &named)? {
                    None => {}
                    Some(Shown::File(file)) => values[number] = Some(file.bytes(resolve(key, *range, file.len())?)?),
                    Some(Shown::Bytes(bytes)) => {
                        let range = resolve(key, *range, bytes.len() as u64)?;
                        values[number] = Some(bytes[range.offset as usize..][..range.nbytes as usize].to_vec());
                    }
                },
            }
        }
        for ((base, shard), chunks) in of_shards {
            let Some(view) = views.at(base) else { continue };
            let ids: Vec<u64> = chunks.iter().map(|(_, chunk)| *chunk).collect();
            let Some((file, index)) = view.open_shard(&self.root, &shard, Some(&ids))? else { continue };
            for (number, chunk) in chunks {
                let (key, range) = wanted[number];
                let Some(stored) = entry(&file, &index, chunk)? else { continue };
                let part = resolve(key, range, stored.nbytes)?;
                let part = Range { offset: stored.offset + part.offset, nbytes: part.nbytes };
                values[number] = Some(file.bytes(part)?);
            }
        }
        Ok(values)
    }

    /// The length of a value in bytes; `None` if the key has none.
    ///
    /// # Errors
    ///
    /// As [`get_partial_values`](Self::get_partial_values).
    pub fn size(&self, key: &str) -> Result<Option<u64>> {
        let views = self.views();
        match self.named(&views, key)? {
            KeyTarget::Chunk(view, place) => {
                let opened = view.open_shard(&self.root, &place.shard, Some(&[place.chunk]))?;
                let Some((file, index)) = opened else { return Ok(None) };
                Ok(entry(&file, &index, place.chunk)?.map(|range| range.nbytes))
            }
            named => Ok(self.shown(key, &named)?.map(|shown| match shown {
                Shown::File(file) => file.len(),
                Shown::Bytes(bytes) => bytes.len() as u64,
            })),
        }
    }

    fn shown(&self, key: &str, named: &KeyTarget<'_>) -> Result<Option<Shown>> {
        let path = self.root.join(key);
        let is_node = key.rsplit('/').next() == Some(zarr3::DOCUMENT);
        let document = if is_node || matches!(named, KeyTarget::Document(_)) { document::read(&path)? } else { None };
        let shown = match (named, document) {
            (KeyTarget::Document(_), None) => return Ok(None),
            (KeyTarget::Document(view), Some(document)) => format::without_shards(view.layout.dialect, &document),
            // What a group has consolidated describes arrays with shards; without it, readers look at the arrays.
            (_, Some(mut document)) if format::consolidated::of(&document).is_some() => {
                format::consolidated::take(&mut document);
                document
            }
            _ if look::is_folder(&path) => return Ok(None),
            _ => return Ok(ShardFile::open(path)?.map(Shown::File)),
        };
        Ok(Some(Shown::Bytes(document::render(&shown))))
    }

    /// All keys, in order.
    ///
    /// # Errors
    ///
    /// [`Error::Format`] for a shard with a damaged index; [`Error::Io`] when the system refuses something.
    pub fn list(&self) -> Result<Vec<String>> {
        self.list_prefix("")
    }

    /// All keys that start with `prefix`, in order; it ends with a slash or is empty. Reads the index of each shard
    /// that may hold such a key.
    ///
    /// # Errors
    ///
    /// As [`list`](Self::list); a prefix without a slash at its end is [`Error::Config`].
    pub fn list_prefix(&self, prefix: &str) -> Result<Vec<String>> {
        let prefix = keys::check_prefix(prefix)?;
        self.lister(&self.views()).list_prefix(prefix)
    }

    /// The keys right below `prefix`, and the prefixes of those further below.
    ///
    /// Indexes are read only for whole keys. A prefix that only chunks can have is listed for all chunks of the shards
    /// that are there, so it may turn out to hold nothing (sharding storage transformer 1.0, note at `list_dir`).
    ///
    /// # Errors
    ///
    /// As [`list_prefix`](Self::list_prefix).
    pub fn list_dir(&self, prefix: &str) -> Result<Listing> {
        let prefix = keys::check_prefix(prefix)?;
        self.lister(&self.views()).list_dir(prefix)
    }

    fn lister<'a>(&'a self, views: &'a ArrayViews) -> Lister<'a> {
        Lister { root: &self.root, views }
    }
}

fn resolve(key: &str, range: ByteRange, size: u64) -> Result<Range> {
    let beyond = || Error::config("range", format_args!("{range:?}"), format!("{key} has {size} bytes"));
    range.of(size).ok_or_else(beyond)
}

fn entry(file: &ShardFile, index: &Index, chunk: u64) -> Result<Option<Range>> {
    index.entry(chunk).map_err(|reason| Error::format(file.path(), format!("chunk {chunk}: {reason}")))
}

#[cfg(all(test, not(loom)))]
mod tests;
