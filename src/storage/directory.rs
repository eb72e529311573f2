//! A folder of a local file system, with or without memory maps and the page cache.

use std::any::Any;
use std::fs::{self, File};
use std::io;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use super::file::{FileBlob, ParkedFile};
use super::made_folders::MadeFolders;
use super::new_names::NewNames;
use super::reserve::{BALLAST_PAUSE, BALLAST_TRIES, DiskReserve};
use super::seam::{Blob, PUTS_AT_ONCE, Storage};
use super::window::{Access, Window};
use crate::config::StorageKind;
use crate::fs::system::{self, FileExt, FileSystem, is_no_room, is_unsupported};
use crate::fs::{beneath, create_new, hidden, take_name};

/// From this many files on, one sync of the file system costs less than one of each of them, and of their folders.
const MANY_FILES: usize = 32;

/// Keys are paths below a folder.
#[derive(Debug)]
pub(crate) struct Directory {
    root: PathBuf,
    /// Keeps the folder open, where `root` goes by its descriptor.
    held: Option<Arc<File>>,
    /// What errors call `root`.
    path: PathBuf,
    /// Its way is not [`StorageKind::Auto`], which leaves the choice to others.
    access: Access,
    sync: bool,
    reserve: Arc<DiskReserve>,
    new_names: Arc<NewNames>,
    made: Arc<MadeFolders>,
}

impl Directory {
    /// `root` must exist.
    pub(crate) fn open(root: &Path, way: StorageKind, sync: bool) -> io::Result<Self> {
        let file_system = FileSystem::at(root)?;
        let root = root.to_path_buf();
        let (reserve, new_names, made) = Default::default();
        let access = Access { way, file_system, guard_maps: false };
        Ok(Self { path: root.clone(), root, held: None, access, sync, reserve, new_names, made })
    }

    /// Whose `root` goes by the descriptor of a folder, which errors call `path`.
    pub(crate) fn held_by(self, folder: &Arc<File>, path: &Path) -> Self {
        Self { held: Some(folder.clone()), path: path.to_path_buf(), ..self }
    }

    /// With room kept for documents when the disk is full, for all directories that have the same `reserve`. What one
    /// of them syncs for all is synced for each.
    pub(crate) fn with_reserve(self, reserve: Arc<DiskReserve>) -> Self {
        reserve.take_ballast(&self.root, self.held.as_ref());
        Self { new_names: reserve.new_names.clone(), reserve, ..self }
    }

    /// With guarded maps, if the handler is installed: see [`lost_pages`](crate::fs::lost_pages).
    pub(crate) fn with_guard(self, guard_maps: bool) -> Self {
        Self { access: Access { guard_maps, ..self.access }, ..self }
    }

    fn put_once(&self, key: &str, bytes: &[u8]) -> io::Result<()> {
        let path = &self.root.join(key);
        let partial = hidden(path, "partial");
        let (file, _) = self.create_partial(key, &partial)?;
        let write = || {
            system::check_file_limit(bytes.len() as u64)?;
            file.write_all_at(bytes, 0)?;
            if self.sync { file.sync_all() } else { Ok(()) }
        };
        let folder = path.parent().unwrap_or(&self.root);
        let renamed = write().and_then(|()| self.make_name(folder, || take_name(&partial, path)));
        if renamed.is_err() {
            let _ = fs::remove_file(&partial);
        }
        renamed?;
        if self.sync { self.new_names.sync_above(path) } else { Ok(()) }
    }

    /// Puts files so that what is in them reaches the device together, before any of them has its name, and then the
    /// names. After an error, which the caller need not tell, each was replaced or not.
    fn put_many(&self, files: &[(&str, &[u8])]) -> io::Result<()> {
        let root = File::open(&self.root)?;
        let mut written = Vec::new();
        let write = |(key, bytes): &(&str, &[u8])| {
            let path = self.root.join(key);
            let partial = hidden(&path, "partial");
            let (file, _) = self.create_partial(key, &partial)?;
            written.push((partial, path));
            system::check_file_limit(bytes.len() as u64)?;
            file.write_all_at(bytes, 0)
        };
        let rename = |files: &[(PathBuf, PathBuf)]| files.iter().try_for_each(|(from, to)| take_name(from, to));
        let put = files.iter().try_for_each(write).and_then(|()| self.sync_below(&root));
        let put = put.and_then(|()| rename(&written)).and_then(|()| self.sync_below(&root));
        if put.is_err() {
            written.iter().for_each(|(partial, _)| drop(fs::remove_file(partial)));
        }
        put
    }

    fn write_once(&self, (key, offset, bytes): &(&str, u64, &[u8]), sync: bool) -> io::Result<()> {
        system::check_file_limit(offset + bytes.len() as u64)?;
        let file = self.open_file(key)?;
        file.write_all_at(bytes, *offset)?;
        if sync { file.sync_data() } else { Ok(()) }
    }

    /// Opens a file that is there, by no link.
    fn open_file(&self, key: &str) -> io::Result<File> {
        let file = beneath::OpenRoot::open(&self.root).and_then(|root| root.open_file(&self.root.join(key)));
        file.map_err(io::Error::other)
    }

    /// Tries again where it needs the room that is kept for documents.
    fn with_ballast(&self, write: impl Fn() -> io::Result<()>) -> io::Result<()> {
        let mut written = write();
        for _ in 0..BALLAST_TRIES {
            match &written {
                Err(error) if is_no_room(error) && self.reserve.give_up_ballast() => {
                    self.reserve.note(error);
                    // Some file systems free in the background.
                    thread::sleep(BALLAST_PAUSE);
                    written = write();
                }
                _ => break,
            }
        }
        written
    }

    /// Does it to all things by several threads: a device that syncs for all of them at once has little more to do than
    /// for one.
    fn each<T: Sync>(&self, things: &[T], work: impl Fn(&T) -> io::Result<()> + Sync) -> io::Result<()> {
        let some = |things: &[T]| things.iter().try_for_each(&work);
        let part = if self.sync { things.len().div_ceil(PUTS_AT_ONCE).max(1) } else { things.len() };
        let (first, others) = things.split_at(part.min(things.len()));
        thread::scope(|scope| {
            let some = &some;
            let spawn =
                |things| thread::Builder::new().name("sw-sync".into()).spawn_scoped(scope, move || some(things));
            let others: Vec<_> = others.chunks(part.max(1)).map(|things| (things, spawn(things))).collect();
            let outcomes = others.into_iter().map(|(things, thread)| match thread {
                Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
                // Without threads to be had, one after the other.
                Err(_) => some(things),
            });
            let first = some(first);
            outcomes.fold(first, io::Result::and)
        })
    }

    /// Makes everything last that was written below `root`.
    fn sync_below(&self, root: &File) -> io::Result<()> {
        let noted = self.new_names.all();
        if self.sync {
            system::sync_file_system(root)?;
        }
        self.new_names.are_synced(&noted);
        Ok(())
    }

    fn make_name(&self, folder: &Path, make: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        if self.sync { self.new_names.make(folder, make) } else { make() }
    }

    /// What a file of it has to sync, beside itself.
    fn new_names_to_sync(&self) -> Option<Arc<NewNames>> {
        self.sync.then(|| self.new_names.clone())
    }

    pub(crate) fn file_system(&self) -> FileSystem {
        self.access.file_system
    }

    /// Makes sure that `len` bytes can be written to a new file.
    fn reserve(&self, file: &File, len: u64) -> io::Result<()> {
        system::check_file_limit(len)?;
        self.reserve.check()?;
        // A reservation that fails half-way would, for a moment, hold all the room that documents need.
        if system::free_bytes(file)?.is_some_and(|free| free < len) {
            return Err(system::no_room());
        }
        if self.access.file_system.is_memory() && self.access.way != StorageKind::Mapped {
            // There, reserving is filling with pages, worst case and all, which costs more than the writes themselves.
            // A write that finds no room is an error, not a signal, so it suffices to look whether there is room now.
            return file.set_len(len);
        }
        match system::reserve(file, len) {
            Err(error) if is_unsupported(&error) && self.access.way != StorageKind::Mapped => file.set_len(len),
            other => other,
        }
    }

    /// Creates a file under construction, and the folders above it, of which it returns those that were not there.
    fn create_partial(&self, key: &str, partial: &Path) -> io::Result<(File, Vec<PathBuf>)> {
        let _kept = self.made.keep_empty();
        let folders = self.make_parents(key)?;
        Ok((create_new(partial)?, folders))
    }

    /// Opens what else the way of writing needs of a file of `len` bytes.
    fn equip(&self, blob: &mut FileBlob, len: u64) -> io::Result<()> {
        let direct = || system::open_direct(&blob.partial).map(Arc::new);
        blob.window = Window::open(blob.file().clone(), None, 0, len, self.access, direct)?;
        Ok(())
    }

    /// Makes the folders above `key`, and returns those that were not there. What somebody put there during the run,
    /// such as a link to elsewhere, is not followed.
    fn make_parents(&self, key: &str) -> io::Result<Vec<PathBuf>> {
        let mut made = Vec::new();
        let mut folder = self.root.clone();
        for part in Path::new(key).parent().into_iter().flat_map(Path::components) {
            let above = folder.clone();
            folder.push(part);
            match fs::symlink_metadata(&folder) {
                Ok(found) if found.is_dir() => continue,
                Ok(_) => {
                    let reason = format!("{} is a link or a file, where a folder should be", folder.display());
                    return Err(io::Error::new(io::ErrorKind::NotADirectory, reason));
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            match self.make_name(&above, || fs::create_dir(&folder)) {
                Ok(()) => made.push(folder.clone()),
                // Another thread was faster.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Ok(made)
    }
}

impl Storage for Directory {
    fn name(&self) -> &'static str {
        self.access.way.name()
    }

    fn path_of(&self, key: &str) -> PathBuf {
        self.path.join(key)
    }

    fn create(&self, key: &str, len: u64) -> io::Result<Box<dyn Blob>> {
        let path = self.root.join(key);
        let partial = hidden(&path, "partial");
        let (file, folders) = self.create_partial(key, &partial)?;
        self.made.add(folders);
        // From here on a failure drops the blob, which removes the file: a failed fallocate may have taken half the
        // disk.
        let mut blob = FileBlob::new(file, path, partial, len, self.new_names_to_sync());
        (blob.held, blob.made) = (self.held.clone(), Some(self.made.clone()));
        // A shard that is made ahead of need may fail and be tried again when there is room.
        self.reserve(blob.file(), len)?;
        self.equip(&mut blob, len)?;
        Ok(Box::new(blob))
    }

    fn sync_all(&self) -> Option<io::Result<()>> {
        self.sync.then(|| File::open(&self.root).and_then(|root| self.sync_below(&root)))
    }

    fn parks(&self) -> bool {
        true
    }

    fn opens_twice(&self) -> bool {
        self.access.way == StorageKind::Direct && !self.access.file_system.is_memory()
    }

    fn reopen(&self, key: &str, parked: &(dyn Any + Send + Sync)) -> io::Result<Box<dyn Blob>> {
        let unknown = || io::Error::new(io::ErrorKind::InvalidInput, "it was not parked here");
        let parked = parked.downcast_ref::<ParkedFile>().ok_or_else(unknown)?;
        let mut blob = FileBlob::again(self.open_file(key)?, self.root.join(key), parked, self.new_names_to_sync())?;
        blob.held = self.held.clone();
        self.equip(&mut blob, parked.len)?;
        Ok(Box::new(blob))
    }

    fn put(&self, key: &str, bytes: &[u8]) -> io::Result<()> {
        self.with_ballast(|| self.put_once(key, bytes))
    }

    /// Where they are many, the whole file system is synced.
    fn put_all(&self, files: &[(&str, &[u8])]) -> io::Result<()> {
        if files.len() >= MANY_FILES && self.put_many(files).is_ok() {
            return Ok(());
        }
        self.each(files, |(key, bytes)| self.put(key, bytes))
    }

    fn writes_within(&self) -> bool {
        true
    }

    /// As [`put_all`](Self::put_all).
    fn write_within(&self, writes: &[(&str, u64, &[u8])]) -> io::Result<()> {
        let write = |write: &(&str, u64, &[u8]), sync: bool| self.with_ballast(|| self.write_once(write, sync));
        let together = || {
            let root = File::open(&self.root)?;
            writes.iter().try_for_each(|one| write(one, false)).and_then(|()| self.sync_below(&root))
        };
        if writes.len() >= MANY_FILES && together().is_ok() {
            return Ok(());
        }
        self.each(writes, |one| write(one, self.sync))
    }

    fn remove(&self, key: &str) -> io::Result<()> {
        let path = self.root.join(key);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => self.made.remove_empty(&path),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that one thread has found may be removed by another one before there is a file in it.
    #[test]
    #[cfg_attr(miri, ignore = "miri has no statfs")]
    fn files_are_created_while_others_are_given_up_in_the_same_folders() {
        let folder = tempfile::tempdir().unwrap();
        let directory = Directory::open(folder.path(), StorageKind::Buffered, false).unwrap();
        let create_and_drop = |thread: usize| {
            for turn in 0..2000 {
                let made = directory.create(&format!("c/{}/0/{thread}", turn % 2), 8);
                drop(made.unwrap_or_else(|error| panic!("turn {turn} of thread {thread}: {error}")));
            }
        };
        thread::scope(|scope| (0..4).for_each(|thread| drop(scope.spawn(move || create_and_drop(thread)))));
        assert!(!folder.path().join("c").exists());
    }

    #[test]
    #[cfg_attr(miri, ignore = "miri has no statfs")]
    fn files_put_together_are_all_there_or_the_error_is() {
        for (sync, count) in [(false, 9), (true, 9), (true, MANY_FILES)] {
            let folder = tempfile::tempdir().unwrap();
            let directory = Directory::open(folder.path(), StorageKind::Buffered, sync).unwrap();
            let keys: Vec<_> = (0..count).map(|at| format!("a/{at}/c")).collect();
            let files: Vec<_> = keys.iter().map(|key| (key.as_str(), key.as_bytes())).collect();
            directory.put_all(&files).unwrap();
            directory.put_all(&[]).unwrap();
            assert!(keys.iter().all(|key| fs::read(folder.path().join(key)).unwrap() == key.as_bytes()));
            // Nothing takes a folder's place.
            for at in [0, 3, 8] {
                fs::remove_file(folder.path().join(&keys[at])).unwrap();
                fs::create_dir(folder.path().join(&keys[at])).unwrap();
                assert!(directory.put_all(&files).is_err(), "{at}");
                fs::remove_dir(folder.path().join(&keys[at])).unwrap();
                directory.put_all(&files).unwrap();
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "miri has no statfs")]
    fn writes_within_files_are_all_there_or_the_error_is() {
        for (sync, count) in [(false, 3), (true, 3), (true, MANY_FILES)] {
            let folder = tempfile::tempdir().unwrap();
            let directory = Directory::open(folder.path(), StorageKind::Buffered, sync).unwrap();
            let keys: Vec<_> = (0..count).map(|at| format!("a/{at}")).collect();
            let writes: Vec<_> = keys.iter().map(|key| (key.as_str(), 6, key.as_bytes())).collect();
            assert!(directory.write_within(&writes).is_err(), "there is no file");
            directory.put_all(&keys.iter().map(|key| (key.as_str(), &b"four"[..])).collect::<Vec<_>>()).unwrap();
            directory.write_within(&writes).unwrap();
            directory.write_within(&[("a/0", 0, b"F")]).unwrap();
            let expected = |key: &String| {
                let first = if key == "a/0" { b'F' } else { b'f' };
                [&[first], &b"our\0\0"[..], key.as_bytes()].concat()
            };
            assert!(keys.iter().all(|key| fs::read(folder.path().join(key)).unwrap() == expected(key)));
            // Nothing is written through a link.
            let outside = folder.path().join("outside");
            fs::write(&outside, "mine").unwrap();
            fs::remove_file(folder.path().join("a/1")).unwrap();
            std::os::unix::fs::symlink(&outside, folder.path().join("a/1")).unwrap();
            assert!(directory.write_within(&writes).is_err() && fs::read(outside).unwrap() == b"mine");
        }
    }
}
