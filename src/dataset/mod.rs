//! The tree that a reader opens: documents, lock, records, and the names of shards.
//!
//! One image at the root:              Several:
//! ```text
//! zarr.json          image group      zarr.json, OME/      collection
//! 0/zarr.json        array            left/zarr.json       image group
//! 0/c/0/0/0          shards           left/0/…
//! records/…          per-frame        left/records/…
//! ```
//!
//! A bare array is alone at its place: `zarr.json` and `c/0/0/0`.
//!
//! Of a plate, the image `B/3/0` is in the group of a well, `B/3`, and that in the one of a row.
//!
//! Documents are written before the first frame, so that a reader can open the dataset from the first second, and
//! replaced as a whole whenever they change.

pub(crate) mod around;
mod attributes;
mod collection;
pub(crate) mod documents;
pub(crate) mod image;
pub(crate) mod records;
mod uuid;

use std::fs::{self, File};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

use around::{Around, Made};
use collection::Collection;
pub(crate) use collection::Unlisted;
use documents::Documents;
use uuid::random_uuid;

use crate::archive_file::{ArchiveFile, check_dialect, is_archive_name, refuse_archive_folder};
use crate::config::{Config, Dialect, Plate, StorageKind};
use crate::error::{Error, Result, caught};
use crate::folder::Folder;
use crate::format::part::{PartMap, Parts};
use crate::format::provenance::hex;
use crate::fs::lost_pages;
use crate::fs::system::{self, FileSystem};
use crate::plan::Plan;
#[cfg(feature = "offline")]
use crate::storage::Archive;
use crate::storage::trial::{self, Expected};
use crate::storage::{ArchiveView, Directory, DiskReserve, OwnStorage, Storage, StorageSpeed};
use crate::sync::Unpoisoned;

/// What all images of a dataset share. It lives as long as the last of them.
#[derive(Debug)]
pub(crate) struct Root {
    location: Location,
    pub(super) uuid: [u8; 16],
    /// Something was acquired or finished: the files stay.
    pub(crate) keep: Arc<AtomicBool>,
    /// On the disk, for all images.
    reserve: Arc<DiskReserve>,
    /// What the images begun so far will have, as far as that is known.
    bytes: AtomicU64,
    /// Of several images, what the collection's documents say.
    collection: Option<Mutex<Collection>>,
    /// Documents of groups around it that were made for it, the outermost first.
    groups: Vec<Made>,
    /// Of one of several writers, what it has of the run; of the run, its parts.
    pub(crate) part: Option<PartMap>,
    pub(crate) parts: Option<Parts>,
}

#[derive(Debug)]
enum Location {
    Folder(Box<Folder>),
    Archive(Box<ArchiveFile>),
    Storage(Arc<OwnStorage>),
}

impl Root {
    /// A dataset of several images.
    pub(crate) fn create(path: &Path, overwrite: bool) -> Result<Self> {
        Self::create_at(path, false, overwrite, true)
    }

    fn create_at(path: &Path, at_key: bool, overwrite: bool, several: bool) -> Result<Self> {
        refuse_archive_folder("path", path)?;
        let uuid = random_uuid().map_err(|e| Error::io("get random bytes for", path, e))?;
        let suffix = &hex(&uuid)[..8];
        let location = match is_archive_name(path) {
            true => Location::Archive(Box::new(ArchiveFile::create(path, overwrite, suffix, uuid)?)),
            false => Location::Folder(Box::new(Folder::create(path, overwrite, at_key, suffix)?)),
        };
        Ok(Self::new(location, uuid, several))
    }

    /// A dataset of one image, perhaps within groups that were looked at.
    pub(crate) fn create_within(path: &Path, around: Option<&Around>, overwrite: bool) -> Result<Self> {
        let place = around.map_or(path, |around| &around.path);
        let mut root = Self::create_at(place, around.is_some(), overwrite, false)?;
        around.map_or(Ok(()), |around| around.make(&mut root.groups)).map(|()| root)
    }

    pub(crate) fn in_storage(storage: Arc<dyn Storage>, several: bool) -> Result<Self> {
        let keep = Arc::default();
        let storage = Arc::new(OwnStorage::new(storage, Arc::clone(&keep))?);
        let uuid = random_uuid().map_err(|e| Error::io("get random bytes for", storage.name(), e))?;
        let mut root = Self::new(Location::Storage(storage), uuid, several);
        root.keep = keep;
        Ok(root)
    }

    fn new(location: Location, uuid: [u8; 16], several: bool) -> Self {
        let (keep, reserve, bytes, groups) = Default::default();
        let collection = several.then(Mutex::default);
        Self { location, uuid, keep, reserve, bytes, collection, groups, part: None, parts: None }
    }

    /// The images in it are known by the uuid of another dataset, of which it is a part.
    pub(crate) fn know_as(&mut self, uuid: [u8; 16]) {
        self.uuid = uuid;
    }

    /// A shard is whole: who moves data elsewhere while the run goes on may take it. An archive is moved as one file.
    pub(crate) fn note_closed(&self, key: &str) {
        if let Location::Folder(folder) = &self.location {
            folder.note(key);
        }
    }

    /// A run ended because a shard found no room: that of other images shall not take what is left for the documents.
    pub(crate) fn note_full(&self, error: &Error) {
        if let Error::Io { source, .. } = error {
            self.reserve.note(source);
        }
    }

    /// An image of this many bytes is about to begin, or many are; `None`: nobody knows how many.
    pub(crate) fn expect(&self, bytes: Option<u64>) {
        let add = |sum: u64| Some(sum.saturating_add(bytes.unwrap_or(u64::MAX)));
        let _ = self.bytes.fetch_update(Relaxed, Relaxed, add);
    }

    /// What is known beforehand of how a run will write. Many images that are short each are a long run.
    pub(crate) fn expected(&self, plan: &Plan) -> Expected {
        Expected {
            bytes: expected_bytes(plan).map(|bytes| bytes.max(self.bytes.load(Relaxed))),
            slot_bytes: plan.shard.slot_bytes as u64,
            opens_twice: plan.ring.opens_twice,
        }
    }

    /// From now on the files stay, whatever happens.
    pub(crate) fn keep(&self) {
        self.keep.store(true, Relaxed);
    }

    pub(super) fn storage(&self, config: &Config, plan: &Plan) -> Result<(Arc<dyn Storage>, String)> {
        let (folder, path) = match &self.location {
            Location::Storage(storage) => return Ok((storage.clone(), storage.name().to_owned())),
            Location::Folder(folder) => (folder.root(), folder.path()),
            Location::Archive(file) => (file.folder().to_path_buf(), file.path()),
        };
        if config.guard_maps {
            lost_pages::install().map_err(|error| Error::config("guard_maps", true, error.to_string()))?;
        }
        let look = |e| Error::io("look at the file system of", path, e);
        let unsafe_to_map = || {
            Directory::open(&folder, StorageKind::Buffered, config.sync)
                .map(|place| place.file_system().is_unsafe_to_map())
        };
        let (way, reason) = match config.storage {
            StorageKind::Mapped if unsafe_to_map().map_err(look)? => {
                (StorageKind::Buffered, "a map may kill the process on this file system".to_owned())
            }
            StorageKind::Auto => trial::choose(&folder, &self.expected(plan), config.sync).map_err(look)?,
            way => (way, "as configured".to_owned()),
        };
        let storage: Arc<dyn Storage> = match &self.location {
            Location::Archive(file) => {
                let view = ArchiveView::new(file.archive(), way, config.guard_maps, config.sync, &self.reserve);
                Arc::new(view.called(path).with_room(plan.documents_bytes()))
            }
            Location::Folder(held) => {
                let directory = Directory::open(&folder, way, config.sync).map_err(look)?.held_by(held.held(), path);
                Arc::new(directory.with_guard(config.guard_maps).with_reserve(self.reserve.clone()))
            }
            Location::Storage(storage) => storage.clone(),
        };
        let choice = format!("{} ({reason})", storage.name());
        Ok((storage, choice))
    }

    /// Refuses a dialect that its file can't hold.
    pub(super) fn check_dialect(&self, dialect: Dialect) -> Result<()> {
        if matches!(self.location, Location::Archive(_)) { check_dialect(dialect) } else { Ok(()) }
    }

    /// How fast the storage is that a run of this plan will have; `None`: that can't be found out.
    pub(crate) fn storage_speed(&self, config: &Config, plan: &Plan) -> Option<StorageSpeed> {
        let expected = self.expected(plan);
        let folder = match &self.location {
            // Of the caller's own, it may do anything.
            Location::Storage(storage) => {
                return caught(|| Ok(trial::speed_of(storage.inner(), &expected))).ok()?.ok()?;
            }
            Location::Folder(folder) => folder.root(),
            Location::Archive(file) => file.folder().to_path_buf(),
        };
        let way = match config.storage {
            StorageKind::Auto => trial::choose(&folder, &expected, config.sync).ok()?.0,
            way => way,
        };
        trial::speed(&folder, way, &expected, config.sync).ok()?
    }

    /// How many bytes are free on its disk, if shards reserve their room there; `None`: they do not, or nobody knows.
    pub(crate) fn free_for_shards(&self, config: &Config) -> Option<u64> {
        let root = match &self.location {
            Location::Storage(_) => return None,
            Location::Folder(folder) => folder.root(),
            Location::Archive(file) => file.folder().to_path_buf(),
        };
        // In memory, room is reserved for maps alone.
        if config.storage != StorageKind::Mapped && FileSystem::at(&root).ok()?.is_memory() {
            return None;
        }
        let reserves = match &self.location {
            Location::Storage(_) => false,
            Location::Folder(folder) => {
                let place = Directory::open(&root, StorageKind::Buffered, config.sync).ok()?;
                // Its ballast shows whether any can be.
                drop(place.held_by(folder.held(), folder.path()).with_reserve(self.reserve.clone()));
                self.reserve.has_ballast()
            }
            Location::Archive(file) => file.archive().reserves(),
        };
        if reserves { system::free_bytes(&File::open(&root).ok()?).ok()? } else { None }
    }

    /// Whether it is in a storage of the caller's own, of which nobody knows the paths.
    pub(crate) fn is_in_storage(&self) -> bool {
        matches!(self.location, Location::Storage(_))
    }

    /// Whether the dataset's path still leads to it.
    pub(crate) fn is_in_place(&self) -> bool {
        match &self.location {
            Location::Folder(folder) => folder.is_in_place(),
            Location::Archive(file) => file.is_in_place(),
            Location::Storage(_) => true,
        }
    }

    /// Whether there is a dataset that this one takes the place of, unless nothing comes of it.
    pub(crate) fn replaces(&self) -> bool {
        match &self.location {
            Location::Folder(folder) => folder.replaces(),
            Location::Archive(file) => file.replaces(),
            Location::Storage(_) => false,
        }
    }

    pub(crate) fn has_several(&self) -> bool {
        self.collection.is_some()
    }

    #[cfg(feature = "offline")]
    pub(crate) fn folder(&self) -> Option<&Path> {
        match &self.location {
            Location::Folder(folder) => Some(folder.path()),
            Location::Archive(_) | Location::Storage(_) => None,
        }
    }

    #[cfg(feature = "offline")]
    pub(crate) fn archive(&self) -> Option<&Archive> {
        if let Location::Archive(file) = &self.location { Some(file.archive()) } else { None }
    }

    pub(crate) fn path(&self) -> &Path {
        match &self.location {
            Location::Folder(folder) => folder.path(),
            Location::Archive(file) => file.path(),
            Location::Storage(storage) => Path::new(storage.name()),
        }
    }

    /// By which the dataset is known among all that there are now: a storage of the caller's own by itself, whose
    /// functions know nothing else.
    #[cfg(feature = "capi")]
    pub(crate) fn identity(&self) -> usize {
        match &self.location {
            Location::Storage(storage) => std::ptr::from_ref(storage.inner()).addr(),
            Location::Folder(_) | Location::Archive(_) => std::ptr::from_ref(self).addr(),
        }
    }

    fn collection(&self) -> Option<MutexGuard<'_, Collection>> {
        self.collection.as_ref().map(|collection| collection.lock().unpoisoned())
    }

    /// The wells that images are in from now on.
    pub(crate) fn set_plate(&self, plate: Plate) -> Result<()> {
        self.collection().map_or(Ok(()), |mut collection| collection.set_plate(plate))
    }

    pub(crate) fn plate(&self) -> Option<Plate> {
        self.collection()?.plate.clone()
    }

    pub(crate) fn is_kept(&self) -> bool {
        self.keep.load(Relaxed)
    }

    pub(crate) fn config_of(&self, name: &str) -> Option<Config> {
        self.collection()?.config(name).cloned()
    }

    pub(crate) fn write_collection(&self, to: &mut Documents) -> Result<()> {
        // Locked until it is written: an older list must not come later.
        self.collection().map_or(Ok(()), |mut collection| collection.write(to))
    }

    /// Removes documents that went with an image that is listed no more, unless another one has come that needs them.
    pub(super) fn remove_unneeded(&self, storage: &dyn Storage, documents: &[String]) {
        let Some(collection) = self.collection() else { return };
        for key in documents.iter().filter(|key| !collection.needs(key)) {
            let _ = caught(|| Ok(storage.remove(key)));
        }
    }

    /// Nothing is there any more of an image that is listed no more, but perhaps empty folders, which go.
    pub(super) fn forget(&self, name: &str) {
        let Some(mut collection) = self.collection() else { return };
        if let Location::Folder(folder) = &self.location {
            remove_empty(&folder.root(), name);
        }
        collection.forget(name);
    }
}

/// Removes the empty folders in the one of an image, and those around it.
fn remove_empty(root: &Path, name: &str) {
    fn remove(folder: &Path) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            // Not what a link leads to.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                remove(&entry.path());
            }
        }
        let _ = fs::remove_dir(folder);
    }
    remove(&root.join(name));
    let around = Path::new(name).ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
    around.for_each(|folder| drop(fs::remove_dir(root.join(folder))));
}

/// Bytes of an image, if it is known how many frames it will have.
pub(crate) fn expected_bytes(plan: &Plan) -> Option<u64> {
    plan.frames_total.map(|frames| frames.saturating_mul(plan.frame.array_bytes as u64))
}

impl Drop for Root {
    fn drop(&mut self) {
        // While the lock still keeps others away.
        self.reserve = Arc::default();
        match &mut self.location {
            Location::Folder(folder) => folder.leave(self.keep.load(Relaxed)),
            Location::Archive(file) => file.leave(self.keep.load(Relaxed)),
            Location::Storage(storage) => storage.leave(),
        }
        if !self.keep.load(Relaxed) {
            self.groups.iter().rev().for_each(Made::remove);
        }
    }
}
