//! A disk that writes down what is done to it, and what it holds after a loss of power.
//!
//! What a sync of a file covered is there; of what was written to it later, each page may be there or not. What a sync
//! of a folder covered are its names; of later ones, each name may be what it was after any of its changes. A cut may
//! come after every operation.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::offline::store::disk::{Disk, Draft, Local};

const PAGE: u64 = 4096;

#[derive(Debug, Clone)]
pub(super) enum Op {
    Began,
    Done,
    /// A file with this number, and so on.
    Created(usize),
    /// Shares blocks with what it was cloned of, which costs no write.
    Cloned(usize, Vec<u8>),
    /// At a place.
    Written(usize, u64, Vec<u8>),
    /// To a length.
    Cut(usize, u64),
    Synced(usize),
    Renamed(usize, PathBuf),
    Removed(PathBuf),
    FolderSynced(PathBuf),
}

#[derive(Debug, Clone)]
pub(super) struct PowerLog {
    ops: Arc<Mutex<Vec<Op>>>,
    /// Whether files can be clones of others.
    shares: bool,
}

impl PowerLog {
    pub(super) fn new(shares: bool) -> Self {
        Self { ops: Arc::default(), shares }
    }

    pub(super) fn note(&self, op: Op) {
        self.ops.lock().unwrap().push(op);
    }

    pub(super) fn ops(&self) -> Vec<Op> {
        self.ops.lock().unwrap().clone()
    }
}

const DISK: Local = Local { sync: false };

impl Disk for PowerLog {
    fn draft(&self, path: &Path) -> io::Result<Box<dyn Draft>> {
        let draft = DISK.draft(path)?;
        let id = self.ops.lock().unwrap().len();
        self.note(Op::Created(id));
        Ok(Box::new(LoggedDraft { draft, id, path: path.to_path_buf(), log: self.clone() }))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        DISK.remove(path)?;
        self.note(Op::Removed(path.to_path_buf()));
        Ok(())
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.note(Op::FolderSynced(path.to_path_buf()));
        Ok(())
    }
}

struct LoggedDraft {
    draft: Box<dyn Draft>,
    id: usize,
    path: PathBuf,
    log: PowerLog,
}

impl Draft for LoggedDraft {
    fn clone_of(&mut self, from: &File) -> io::Result<bool> {
        if !self.log.shares {
            return Ok(false);
        }
        let len = from.metadata()?.len();
        self.draft.copy(from, 0, 0, len)?;
        let mut bytes = vec![0; len as usize];
        from.read_exact_at(&mut bytes, 0)?;
        self.log.note(Op::Cloned(self.id, bytes));
        Ok(true)
    }

    fn write_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.draft.write_at(bytes, at)?;
        self.log.note(Op::Written(self.id, at, bytes.to_vec()));
        Ok(())
    }

    fn copy(&mut self, from: &File, from_at: u64, at: u64, len: u64) -> io::Result<()> {
        self.draft.copy(from, from_at, at, len)?;
        let mut bytes = vec![0; len as usize];
        from.read_exact_at(&mut bytes, from_at)?;
        self.log.note(Op::Written(self.id, at, bytes));
        Ok(())
    }

    fn clear(&mut self, at: u64, len: u64) -> io::Result<()> {
        self.draft.clear(at, len)?;
        self.log.note(Op::Written(self.id, at, vec![0; len as usize]));
        Ok(())
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.draft.set_len(len)?;
        self.log.note(Op::Cut(self.id, len));
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.log.note(Op::Synced(self.id));
        Ok(())
    }

    fn rename(&mut self) -> io::Result<()> {
        self.draft.rename()?;
        self.log.note(Op::Renamed(self.id, self.path.clone()));
        Ok(())
    }
}

/// Makes `place` hold what a disk holds that held `before` and lost its power after `ops`.
pub(super) fn restore(before: &Path, place: &Path, ops: &[Op], coin: &mut impl FnMut() -> bool) {
    copy(before, place);
    let contents = contents(ops, coin);
    for (path, id) in names(ops, coin) {
        let root = path.ancestors().find(|above| above.file_name().is_some_and(|name| name == "run.zarr")).unwrap();
        let path = place.join(path.strip_prefix(root).unwrap());
        match id {
            Some(id) => {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, &contents[&id]).unwrap();
            }
            None => drop(fs::remove_file(path)),
        }
    }
}

/// What each new file holds.
fn contents(ops: &[Op], coin: &mut impl FnMut() -> bool) -> HashMap<usize, Vec<u8>> {
    let of_sync = |op: &Op| if let Op::Synced(id) = op { Some(*id) } else { None };
    let synced: HashMap<usize, usize> =
        ops.iter().enumerate().filter_map(|(number, op)| Some((of_sync(op)?, number))).collect();
    let mut contents: HashMap<usize, Vec<u8>> = HashMap::new();
    for (number, op) in ops.iter().enumerate() {
        let mut reaches = |id: &usize| synced.get(id).is_some_and(|&end| number < end) || coin();
        match op {
            Op::Created(id) => drop(contents.insert(*id, Vec::new())),
            Op::Cloned(id, bytes) if reaches(id) => contents.get_mut(id).unwrap().clone_from(bytes),
            Op::Cut(id, len) if reaches(id) => contents.get_mut(id).unwrap().resize(*len as usize, 0),
            Op::Written(id, at, bytes) => {
                let file = contents.get_mut(id).unwrap();
                let mut from = 0;
                while from < bytes.len() {
                    let until = (from + (PAGE - (at + from as u64) % PAGE) as usize).min(bytes.len());
                    if reaches(id) {
                        let (start, end) = (*at as usize + from, *at as usize + until);
                        file.resize(file.len().max(end), 0);
                        file[start..end].copy_from_slice(&bytes[from..until]);
                    }
                    from = until;
                }
            }
            _ => {}
        }
    }
    contents
}

/// Which file each name that changed leads to.
fn names(ops: &[Op], coin: &mut impl FnMut() -> bool) -> BTreeMap<PathBuf, Option<usize>> {
    let mut synced: HashMap<&Path, usize> = HashMap::new();
    for (number, op) in ops.iter().enumerate() {
        if let Op::FolderSynced(path) = op {
            synced.insert(path, number);
        }
    }
    let mut names = BTreeMap::new();
    let mut stopped: Vec<&Path> = Vec::new();
    for (number, op) in ops.iter().enumerate() {
        let (path, id) = match op {
            Op::Renamed(id, path) => (path, Some(*id)),
            Op::Removed(path) => (path, None),
            _ => continue,
        };
        // A folder that became empty went itself, and the one above it was synced.
        let is_synced = path.ancestors().skip(1).any(|above| synced.get(above).is_some_and(|&end| number < end));
        // What came after a change that did not reach the device did not either.
        if is_synced || (!stopped.contains(&path.as_path()) && coin()) {
            names.insert(path.clone(), id);
        } else {
            stopped.push(path);
        }
    }
    names
}

/// Makes `to` a copy of the folder `from`.
pub(super) fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let copied = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &copied);
        } else {
            fs::copy(&path, &copied).unwrap();
        }
    }
}
