//! The folder of a dataset that is being written: made, locked, and left again.
//!
//! It is held by a descriptor. A working directory that changes, and a folder that is renamed while frames arrive, lead
//! nowhere else; and nothing is removed but what stands in this very folder.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::fs::system::{descriptor_path, open_folder};
use crate::fs::{
    Identity, LOCK_FILE, Lock, absolute, exchange, finish_exchange, hidden, make_folders, remove_empty_folders,
    remove_folder, swap, sync_folder_of,
};
use crate::replaceable::{is_dataset, refuse_consolidated, refuse_level, refuse_part, refuse_within_array};

/// A folder that this process made and locked.
#[derive(Debug)]
pub(crate) struct Folder {
    held: Held,
    /// The folder itself was there before, empty.
    existed: bool,
    /// Folders above it that were made for it, the nearest first.
    parents: Vec<PathBuf>,
    replaced: Option<Replaced>,
    /// Given back last: `None` only then.
    lock: Option<Lock>,
}

/// The dataset that is being replaced, locked.
#[derive(Debug)]
struct Replaced {
    aside: PathBuf,
    held: Held,
    lock: Lock,
}

#[derive(Debug)]
struct Held {
    file: Arc<File>,
    identity: Identity,
    path: PathBuf,
}

impl Folder {
    /// `suffix`: for a name beside `path` that nobody else chooses; `at_key`: it is a node's in a hierarchy.
    pub(crate) fn create(path: &Path, overwrite: bool, at_key: bool, suffix: &str) -> Result<Self> {
        let path = &absolute(path)?;
        // Else a dataset whose name a kill took away would be forgotten beside the new one.
        finish_exchange(path).map_err(|error| named(error, path))?;
        Lock::refuse_within(path)?;
        refuse_within_array("path", path)?;
        refuse_level(path)?;
        refuse_consolidated("path", path)?;
        let occupied = match fs::read_dir(path) {
            Ok(mut entries) => entries.next().is_some(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return Err(refuse_file(path));
            }
            Err(error) => return Err(Error::io("look into", path, error)),
        };
        if occupied { Self::in_place_of(path, overwrite, at_key, suffix) } else { Self::new_at(path) }
    }

    fn new_at(path: &Path) -> Result<Self> {
        let mut parents = make_folders(path).map_err(|error| Error::io("create", path, error))?;
        // Only what was made here may be removed again.
        let existed = !parents.iter().any(|folder| folder == path);
        parents.retain(|folder| folder != path);
        let begun = Held::open(path).and_then(|held| {
            let lock = Lock::take(&held.root())?;
            // Somebody may have moved it between the two, or filled it.
            if !held.identity.is_at(path) {
                return Err(Error::Locked { path: path.to_path_buf() });
            }
            // Who replaces a dataset around this one takes its lock before looking for this one's.
            Lock::refuse_within(path)?;
            if held.has_files()? { Err(Error::exists(path)) } else { Ok((held, lock)) }
        });
        match begun {
            Ok((held, lock)) => Ok(Self { held, existed, parents, replaced: None, lock: Some(lock) }),
            Err(error) => {
                // Each of these only goes if it is empty: another writer may have come in between.
                if !existed {
                    let _ = fs::remove_dir(path);
                }
                remove_empty_folders(&parents);
                Err(named(error, path))
            }
        }
    }

    /// Gives the name of a dataset to a new folder, in one step: at no moment is the name free for others.
    fn in_place_of(path: &Path, overwrite: bool, at_key: bool, suffix: &str) -> Result<Self> {
        let old = Held::open(path)?;
        if !overwrite {
            Lock::look(&old.root()).map_err(|error| named(error, path))?;
        }
        if !is_dataset(&old.root()) {
            let reason =
                "is a folder with files in it, but not a dataset; it is never overwritten, choose another path";
            return Err(Error::conflict(path, reason));
        }
        if !overwrite {
            return Err(Error::exists(path));
        }
        // Who holds it is the only one who may move the folder.
        let old_lock = Lock::take(&old.root()).map_err(|error| named(error, path))?;
        if !old.identity.is_at(path) {
            return Err(Error::Locked { path: path.to_path_buf() });
        }
        Lock::refuse_within(path)?;
        refuse_around(&old)?;
        refuse_part(path, &old.root(), at_key)?;
        let aside = hidden(path, &format!("replaced-{suffix}"));
        fs::create_dir(&aside).map_err(|error| Error::io("create", &aside, error))?;
        let begun = Held::open(&aside).and_then(|held| Ok((Lock::take(&held.root())?, held)));
        let (lock, held) = begun.map_err(|error| {
            let _ = fs::remove_dir(&aside);
            named(error, path)
        })?;
        let new = Self { held, existed: false, parents: Vec::new(), replaced: None, lock: Some(lock) };
        new.take_name(path, Replaced { aside, held: old, lock: old_lock })
    }

    /// Takes the name of the dataset that is to be replaced, which is moved to this folder's own.
    fn take_name(mut self, path: &Path, mut replaced: Replaced) -> Result<Self> {
        let aside = replaced.aside.clone();
        if let Err(error) = exchange(&aside, path) {
            drop(self.lock.take());
            if self.held.identity.is_at(&aside) {
                let _ = fs::remove_dir(&aside);
            }
            return Err(error);
        }
        self.held.path = path.to_path_buf();
        replaced.held.path = aside;
        self.lock.iter_mut().for_each(|lock| lock.moved_to(&self.held.root()));
        replaced.lock.moved_to(&replaced.held.root());
        self.replaced = Some(replaced);
        Ok(self)
    }

    /// The path that messages name.
    pub(crate) fn path(&self) -> &Path {
        &self.held.path
    }

    /// A path to the folder that goes by the descriptor, and so leads to it whatever it is called by now.
    pub(crate) fn root(&self) -> PathBuf {
        self.held.root()
    }

    /// As long as this lives, [`root`](Self::root) leads to the folder.
    pub(crate) fn held(&self) -> &Arc<File> {
        &self.held.file
    }

    /// Adds a line to the lock file, for whoever looks at the folder from outside. Best effort: nothing depends on it.
    pub(crate) fn note(&self, line: &str) {
        self.lock.iter().for_each(|lock| drop(lock.note(line)));
    }

    /// Ends the work on the folder. What nobody filled disappears, and what it was to replace comes back.
    pub(crate) fn leave(&mut self, keep: bool) {
        let path = self.held.path.clone();
        let is_here = self.is_in_place();
        let replaced = self.replaced.take();
        if keep {
            drop(self.lock.take());
            return replaced.into_iter().for_each(Replaced::remove);
        }
        // All of it was made by this process, since the folder was new or empty.
        self.held.clear();
        match replaced {
            Some(replaced) => replaced.put_back(&path, is_here, self.lock.take()),
            None => drop(self.lock.take()),
        }
        // Of a folder with something in it, the system says no.
        if !self.existed && self.held.identity.is_at(&path) {
            let _ = fs::remove_dir(&path);
            remove_empty_folders(&self.parents);
            let _ = sync_folder_of(&path);
        }
    }

    /// Whether another one made room for it, which is there still.
    pub(crate) fn replaces(&self) -> bool {
        self.replaced.is_some()
    }

    /// Whether the folder still has the name that it was made under.
    pub(crate) fn is_in_place(&self) -> bool {
        self.held.identity.is_at(&self.held.path)
    }
}

impl Replaced {
    /// Gives it its name again, if that is still the one of the folder that took it, which is empty by now but for its
    /// lock.
    fn put_back(mut self, path: &Path, is_there: bool, lock: Option<Lock>) {
        if is_there && self.held.identity.is_at(&self.aside) && swap(&self.aside, path).is_ok() {
            if let Some(mut lock) = lock {
                lock.moved_to(&self.aside);
            }
            let _ = fs::remove_dir(&self.aside);
            let _ = sync_folder_of(path);
            self.held.path = path.to_path_buf();
            self.lock.moved_to(&self.held.root());
        }
        drop(self.lock);
    }

    /// What somebody moved away meanwhile is theirs.
    fn remove(self) {
        if self.held.identity.is_at(&self.aside) {
            self.held.clear();
            drop(self.lock);
            let _ = fs::remove_dir(&self.aside);
        }
    }
}

impl Held {
    fn open(path: &Path) -> Result<Self> {
        let open = || -> io::Result<_> {
            let file = open_folder(path)?;
            let identity = Identity::of(&file)?;
            Ok(Self { file: Arc::new(file), identity, path: path.to_path_buf() })
        };
        open().map_err(|error| Error::io("open the folder", path, error))
    }

    /// Whether there is anything in the folder but its lock.
    fn has_files(&self) -> Result<bool> {
        let entries = fs::read_dir(self.root()).map_err(|error| Error::io("look into", &self.path, error))?;
        Ok(entries.flatten().any(|entry| entry.file_name() != LOCK_FILE))
    }

    /// Removes everything in the folder but its lock, whatever the folder is called by now.
    fn clear(&self) {
        let Ok(entries) = fs::read_dir(self.root()) else { return };
        for entry in entries.flatten().filter(|entry| entry.file_name() != LOCK_FILE) {
            // What can't be removed is in nobody's way: it stands under a hidden name, or keeps its folder from going.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let _ = remove_folder(&entry.path());
            } else {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    fn root(&self) -> PathBuf {
        let root = descriptor_path(&self.file);
        // A container may lack /proc.
        let leads_here = fs::metadata(&root).is_ok_and(|metadata| Identity::from(&metadata) == self.identity);
        if leads_here { root } else { self.path.clone() }
    }
}

/// The refusal of a path that is a file, or leads through one.
pub(crate) fn refuse_file(path: &Path) -> Error {
    let is_file = |path: &&Path| fs::metadata(path).is_ok_and(|found| !found.is_dir());
    match path.ancestors().skip(1).find(is_file) {
        Some(file) => Error::conflict(file, format!("is a file, so there can't be {} in it", path.display())),
        None => Error::conflict(path, "is a file; a dataset is a folder, choose another path"),
    }
}

/// Refuses to replace a dataset with another one in it that is being written: its files would go.
fn refuse_around(old: &Held) -> Result<()> {
    let root = old.root();
    Lock::look_below(&root).map_err(|error| match error {
        Error::Locked { path } => {
            Error::Locked { path: path.strip_prefix(&root).map_or(path.clone(), |below| old.path.join(below)) }
        }
        other => other,
    })
}

/// The same error, with the name that the caller knows the folder by.
fn named(error: Error, path: &Path) -> Error {
    match error {
        Error::Locked { .. } => Error::Locked { path: path.to_path_buf() },
        Error::Io { action, source, .. } => Error::Io { action, path: path.to_path_buf(), source },
        other => other,
    }
}
