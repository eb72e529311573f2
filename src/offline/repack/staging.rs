//! The folder in which a new dataset, or new arrays of an old one, come into being.
//!
//! ```text
//! .run.ome.zarr.repack/       hidden, beside the dataset that it will be or be part of
//!     journal.json            what it shall become, of what: by this a later call knows whether it may go on here
//!     plan.json, receipts/    only where tasks make the shards: which plan's they are, in which file that is, and what
//!                             they have made
//!     empty/0/c/…             the same, of levels: shards that hold nothing, which the next level need not wait for
//!     tree/0/c/…              finished shards under their own names, the ones in the making as .name.partial
//!     tree/…                  at the end: everything else, documents last
//! ```

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::listing::FileListing;
use crate::error::{Error, Result};
use crate::format::keys::is_below;
use crate::fs::document;
use crate::fs::links;
use crate::fs::publish_once::{Published, publish_once};
use crate::fs::system;
use crate::fs::{self as os, Lock, look};
use crate::offline::array::Array;
use crate::words::quoted;

const JOURNAL: &str = "journal.json";

/// Whose work stands here, where processes that know nothing of each other make the shards.
const PLAN: &str = "plan.json";

const OF_ONE_CALL: &str = "holds what one call makes, or has left: let that end or go on, or remove the folder";

/// A folder in which each of these says what it has made.
pub(in crate::offline) const RECEIPTS: &str = "receipts";

/// A folder with the names of shards that are no files, because they would hold nothing.
const EMPTY: &str = "empty";

/// What is complete here, and about to get its names in the dataset.
pub(crate) const MARKER: &str = "publish.json";

/// The folder, held by this process.
#[derive(Debug)]
pub(crate) struct Staging {
    path: PathBuf,
    _lock: Lock,
}

impl Staging {
    /// Its name for a dataset.
    pub(in crate::offline) fn beside(dataset: &Path) -> PathBuf {
        os::hidden(dataset, "repack")
    }

    /// Where the array `name` is made.
    pub(crate) fn place(staging: &Path, name: &str) -> PathBuf {
        below(&staging.join("tree"), name)
    }

    /// Opens the folder. What an earlier call left of an array stays if it was to become the same of the same, and if
    /// it is as durable as it shall be: shards that are whole here may be torn after a loss of power, unless that call
    /// waited for them.
    pub(crate) fn open(path: &Path, arrays: &Map<String, Value>, sync: bool) -> Result<Self> {
        check_own(path)?;
        // Links are copied as they are, and what they lead to must not be read behind the copies either.
        links::enter(path);
        let (known, tree) = (known(path)?, path.join("tree"));
        let create = || fs::create_dir_all(&tree).map_err(|error| Error::io("create", &tree, error));
        create()?;
        let staging = Self { path: path.to_path_buf(), _lock: Lock::on_folder(path)? };
        os::remove_links(&tree)?;
        for (name, old) in &known.arrays {
            if arrays.get(name) != Some(old) || sync && !known.synced {
                os::remove_folder(&Self::place(path, name))?;
            }
        }
        create()?;
        let text = json!({"version": 1, "synced": sync, "arrays": arrays}).to_string();
        os::put(&path.join(JOURNAL), text.as_bytes())?;
        // Before any old data go, the new ones have a name that lasts.
        os::sync_folder_of(path)?;
        Ok(staging)
    }

    /// Lets a task of the plan `id`, in the file `tasks`, work in the folder, which needs no lock: others do the same
    /// at the same time. Says whether it may: not once the end of all has begun, which takes no more.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`] when it is another plan's or another call's, [`Error::Exists`] when it is somebody else's.
    pub(in crate::offline) fn join(path: &Path, id: &str, tasks: &Path) -> Result<bool> {
        Self::refuse_plan(path, Some(id))?;
        let is_closed = || path.join(JOURNAL).exists();
        let is_joined = Self::plan(path)?.is_some();
        if is_closed() && !is_joined {
            return Err(Error::conflict(path, OF_ONE_CALL));
        }
        if !is_joined {
            let (tree, plan) = (path.join("tree"), path.join(PLAN));
            fs::create_dir_all(&tree).map_err(|error| Error::io("create", &tree, error))?;
            let is_foreign = look::list(&tree)?.iter().any(|entry| !is_partial_path(entry));
            let text = json!({"version": 1, "plan": id, "tasks": tasks}).to_string();
            let published = put_once(&plan, text.as_bytes())?;
            // Others may have begun since the look for the plan, and an answer that it is not there may be old.
            if (is_foreign || is_closed()) && published == Published::Now {
                fs::remove_file(&plan).map_err(|error| Error::io("remove", &plan, error))?;
                return Err(Error::exists_for_good(path));
            }
            os::sync_folder_of(&plan)?;
            os::sync_folder_of(path)?;
        }
        Self::refuse_plan(path, Some(id)).map(|()| !is_closed())
    }

    /// Makes the folder of an array whose shards tasks make; not those around, which may have been removed since the
    /// task has joined, because the result is there.
    pub(in crate::offline) fn make_place(path: &Path, array: &Path) -> Result<()> {
        os::folders_below(&path.join("tree"), array)
    }

    /// Notes that the file with this name below the tree is not made, because it would hold nothing. A task that reads
    /// it must not wait for it.
    pub(in crate::offline) fn put_empty(path: &Path, name: &str) -> Result<()> {
        let place = path.join(EMPTY).join(name);
        let failed = |error| Error::io("create", &place, error);
        place.parent().map_or(Ok(()), |folder| os::folders_below(path, folder))?;
        match os::create_new(&place) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(failed(error)),
            _ => Ok(()),
        }
    }

    /// Whether the file with this name below the tree is there; `None` where it is neither that nor known to be empty.
    pub(in crate::offline) fn is_made(path: &Path, name: &str) -> Result<Option<bool>> {
        if look::exists(&Self::place(path, name))? {
            return Ok(Some(true));
        }
        Ok(look::exists(&path.join(EMPTY).join(name))?.then_some(false))
    }

    /// Removes what a task of the plan `id` has made after the result was there.
    pub(in crate::offline) fn leave(path: &Path, id: &str) {
        if !path.join(JOURNAL).exists() && Self::plan(path).is_ok_and(|plan| plan.as_deref() == Some(id)) {
            let _ = os::remove_folder(path);
        }
        Self::sweep(path);
    }

    /// What is in the way of the file with this name below the tree, because somebody put it there: a link, there or
    /// above, or what is no folder, or no file.
    fn planted(path: &Path, name: &str) -> Result<Option<PathBuf>> {
        let (mut place, mut names) = (path.join("tree"), name.split('/').peekable());
        // As a rule, there is nothing of the kind.
        if system::has_no_links(&place.join(name)) && place.join(name).is_file() {
            return Ok(None);
        }
        while let Some(next) = names.next() {
            place.push(next);
            let is_last = names.peek().is_none();
            match fs::symlink_metadata(&place) {
                Ok(found) if is_last && found.is_file() || !is_last && found.is_dir() => {}
                Ok(_) => return Ok(Some(place)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(Error::io("look at", place, error)),
            }
        }
        Ok(None)
    }

    /// Refuses to make or to read a file where something else was put. Nothing is removed: another process may have
    /// made the file in this moment.
    pub(in crate::offline) fn refuse_planted(path: &Path, name: &str) -> Result<()> {
        let reason = "is a link, or something else that no task has made, in the place of a shard; `finish` removes it";
        Self::planted(path, name)?.map_or(Ok(()), |planted| Err(Error::conflict(planted, reason)))
    }

    /// Removes what is in the way of a file, and says whether something was. The caller holds the folder.
    pub(in crate::offline) fn remove_planted(path: &Path, name: &str) -> Result<bool> {
        let Some(planted) = Self::planted(path, name)? else { return Ok(false) };
        let is_folder = fs::symlink_metadata(&planted).is_ok_and(|metadata| metadata.is_dir());
        match if is_folder { os::remove_folder(&planted) } else { remove_file(&planted) } {
            // Several files may be behind it.
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(true),
            removed => removed.map(|()| true),
        }
    }

    /// Holds the folder while its shards are looked at; `None` where there is no folder.
    pub(in crate::offline) fn hold(path: &Path) -> Result<Option<Lock>> {
        check_own(path)?;
        if path.is_dir() { Lock::on_folder(path).map(Some) } else { Ok(None) }
    }

    /// Lets tasks work in the folder again, where a call that was to make the result was killed. The caller holds it.
    pub(in crate::offline) fn reopen(path: &Path) -> Result<()> {
        let journal = path.join(JOURNAL);
        if journal.exists() && Self::plan(path)?.is_none() {
            return Err(Error::conflict(path, OF_ONE_CALL));
        }
        match fs::remove_file(&journal) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", journal, error)),
            _ => Ok(()),
        }
    }

    /// Refuses a folder that holds the shards of a plan, unless that is `own`.
    pub(in crate::offline) fn refuse_plan(path: &Path, own: Option<&str>) -> Result<()> {
        let Some(plan) = Self::plan(path)?.filter(|plan| Some(&**plan) != own) else { return Ok(()) };
        let known = document::read(&path.join(PLAN))?.unwrap_or_default();
        let tasks = known["tasks"].as_str();
        let how = match tasks {
            Some(tasks) if is_plan(Path::new(tasks), &plan) => {
                format!(" ({tasks}): `finish` that, or remove the folder to give it up")
            }
            Some(tasks) => format!(" ({tasks}, which has gone or is another by now): remove the folder to give it up"),
            None => ": `finish` that, or remove the folder to give it up".to_owned(),
        };
        let of = if own.is_some() { "another plan" } else { "a plan" };
        Err(Error::conflict(path, format!("holds shards of {of}, {plan}{how}")))
    }

    /// The plan whose tasks work there.
    pub(in crate::offline) fn plan(path: &Path) -> Result<Option<String>> {
        check_own(path)?;
        let known = document::read(&path.join(PLAN))?;
        Ok(known.and_then(|known| known.get("plan")?.as_str().map(str::to_owned)))
    }

    /// Makes what tasks have left the work of one call, which goes on from there.
    pub(in crate::offline) fn adopt(path: &Path, arrays: &Map<String, Value>, sync: bool) -> Result<()> {
        check_own(path)?;
        fs::create_dir_all(path).map_err(|error| Error::io("create", path, error))?;
        let text = json!({"version": 1, "synced": sync, "arrays": arrays}).to_string();
        os::put(&path.join(JOURNAL), text.as_bytes())
    }

    /// Whether an earlier call has left it.
    pub(in crate::offline) fn is_left(path: &Path) -> Result<bool> {
        check_own(path)?;
        Ok(!known(path)?.arrays.is_empty() || Self::plan(path)?.is_some())
    }

    /// Removes the folder if there is nothing in it: a call was killed in the moment between its last file and itself.
    /// The dataset is complete then, as if the kill had come later.
    pub(crate) fn sweep(path: &Path) {
        // Of a folder with something in it, the system says no.
        let _ = fs::remove_dir(path);
    }

    /// Removes what an earlier call left, if any.
    pub(super) fn discard(path: &Path) -> Result<()> {
        check_own(path)?;
        known(path)?;
        if !path.is_dir() {
            return Ok(());
        }
        let lock = Lock::on_folder(path)?;
        Self { path: path.to_path_buf(), _lock: lock }.finish()
    }

    /// Removes the folder and what is in it. The documents go last, the journal before the marker: whenever the call
    /// is killed, the next one knows what is left for its own, and what is published for complete.
    pub(crate) fn finish(self) -> Result<()> {
        let journal = self.path.join(JOURNAL);
        let mut others = look::list(&self.path)?;
        others.retain(|entry| *entry != journal && !entry.ends_with(MARKER));
        for entry in others.into_iter().chain([journal]) {
            if entry.is_dir() && !entry.is_symlink() {
                os::remove_folder(&entry)?;
                continue;
            }
            match fs::remove_file(&entry) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(Error::io("remove", entry, error)),
                _ => {}
            }
        }
        os::remove_folder(&self.path)
    }

    pub(super) fn tree(&self) -> PathBuf {
        self.path.join("tree")
    }
}

#[derive(Debug, Default)]
struct Journal {
    arrays: Map<String, Value>,
    /// Shards had reached the device before they got their names.
    synced: bool,
}

/// Refuses what can't be a folder of ours: a link that was put there would have us work elsewhere.
fn check_own(path: &Path) -> Result<()> {
    let own = ["tree", JOURNAL, MARKER, PLAN, EMPTY, RECEIPTS].map(|name| path.join(name));
    for path in own.iter().map(PathBuf::as_path).chain([path]) {
        if fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink()) {
            return Err(Error::conflict(path, "is a link in the way of repack, which would work there; remove it"));
        }
    }
    Ok(())
}

/// What the journal in a folder says. A folder without one is not ours.
fn known(path: &Path) -> Result<Journal> {
    let foreign = || Error::exists_for_good(path);
    let Some(journal) = document::read(&path.join(JOURNAL))? else {
        // A call that was killed at its very start leaves no more than an empty tree, at its very end the marker.
        let is_foreign =
            path.exists() && !path.join(PLAN).exists() && look::list(path)?.iter().any(|entry| is_not_empty(entry));
        return if is_foreign { Err(foreign()) } else { Ok(Journal::default()) };
    };
    let arrays = journal.get("arrays").and_then(Value::as_object).cloned().ok_or_else(foreign)?;
    // Its names are folders that will be removed.
    if let Some(name) = arrays.keys().find(|name| !name.is_empty() && !is_below(name)) {
        return Err(Error::format(path, format!("its journal names {}, which is not below it", quoted(name))));
    }
    Ok(Journal { arrays, synced: journal.get("synced") == Some(&Value::Bool(true)) })
}

fn remove_file(path: &Path) -> Result<()> {
    fs::remove_file(path).map_err(|error| Error::io("remove", path, error))
}

/// Writes a small file, unless it is there.
fn put_once(path: &Path, bytes: &[u8]) -> Result<Published> {
    let failed = |error: io::Error| Error::io("write", path, error);
    let partial = os::hidden(path, &format!("{:016x}.partial", system::random_number().map_err(failed)?));
    let published = fs::write(&partial, bytes).and_then(|()| publish_once(&partial, path));
    if !matches!(published, Ok(Published::Now)) {
        let _ = fs::remove_file(&partial);
    }
    published.map_err(failed)
}

/// Whether a file is that of the tasks of a plan.
fn is_plan(tasks: &Path, plan: &str) -> bool {
    const LINE_BYTES_MAX: u64 = 1 << 20;
    let mut line = Vec::new();
    let read = |file| BufReader::new(file).take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
    let is_read = tasks.is_file() && File::open(tasks).and_then(read).is_ok();
    is_read && serde_json::from_slice::<Value>(&line).is_ok_and(|header| header["id"] == plan)
}

fn is_partial_path(path: &Path) -> bool {
    path.file_name().is_some_and(|name| os::is_partial(&name.to_string_lossy()))
}

fn is_not_empty(path: &Path) -> bool {
    let own = path.file_name().is_some_and(|name| name == MARKER || name.to_string_lossy().starts_with(".journal"));
    !own && !fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

/// `folder/name`, or the folder itself for the root.
pub(crate) fn below(folder: &Path, name: &str) -> PathBuf {
    if name.is_empty() { folder.to_path_buf() } else { folder.join(name) }
}

/// Whether a link stands on the way to a node of the dataset at `root`.
pub(crate) fn is_behind_link(root: &Path, name: &str) -> bool {
    let mut path = root.to_path_buf();
    name.split('/').filter(|part| !part.is_empty()).any(|part| {
        path.push(part);
        path.is_symlink()
    })
}

/// By what an array is known to be the same in a later call: what it is read from, as [`FileListing`] tells it.
pub(crate) fn fingerprint(array: &Array) -> Result<String> {
    let mut listing = FileListing::default();
    array.files()?.iter().try_for_each(|(path, _)| listing.add(path))?;
    listing.add_references(array)?;
    Ok(listing.fingerprint())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_killed_while_it_removes_its_folder_leaves_what_the_next_call_knows_for_its_own() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join(".i.zarr.pyramid");
        for left in [&[JOURNAL, MARKER][..], &[MARKER], &[]] {
            drop(Staging::open(&path, &Map::new(), true).unwrap());
            fs::write(path.join(MARKER), "{}").unwrap();
            os::remove_folder(&path.join("tree")).unwrap();
            for name in [JOURNAL, MARKER].iter().filter(|name| !left.contains(name)) {
                fs::remove_file(path.join(name)).unwrap();
            }
            Staging::open(&path, &Map::new(), true).unwrap().finish().unwrap();
            assert!(!path.exists(), "{left:?}");
        }
        fs::create_dir(&path).unwrap();
        fs::write(path.join("notes.txt"), "somebody's").unwrap();
        assert!(matches!(Staging::open(&path, &Map::new(), true), Err(Error::Exists { .. })));
    }
}
