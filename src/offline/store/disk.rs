//! What the store does to files: each replaced as a whole, by steps small enough to be faked and cut short in tests.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::fs::system::{self, FileExt};
use crate::fs::{attributes, create_new, hidden, take_name};

pub(super) trait Disk: fmt::Debug + Send + Sync {
    /// Begins a file that is to take the name `path`, whose folder is there.
    fn draft(&self, path: &Path) -> io::Result<Box<dyn Draft>>;

    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a folder last.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
}

/// A file in the making. Dropped before it was renamed, it leaves nothing behind.
pub(super) trait Draft {
    /// Starts with all that `from` holds, without reading it; false where the file system can't.
    fn clone_of(&mut self, from: &File) -> io::Result<bool>;

    fn write_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()>;

    /// Copies `len` bytes at `from_at` of another file to `at`.
    fn copy(&mut self, from: &File, from_at: u64, at: u64, len: u64) -> io::Result<()>;

    /// Makes a range read as zeros.
    fn clear(&mut self, at: u64, len: u64) -> io::Result<()>;

    fn set_len(&mut self, len: u64) -> io::Result<()>;

    /// Returns when all of it has reached the device.
    fn sync(&mut self) -> io::Result<()>;

    /// Takes the name, from whatever had it.
    fn rename(&mut self) -> io::Result<()>;
}

/// Replaces a file. Whatever stops it, under the name is the old file or the new one.
pub(super) fn replace(
    disk: &dyn Disk,
    path: &Path,
    fill: impl FnOnce(&mut dyn Draft) -> io::Result<()>,
) -> io::Result<()> {
    create_parents(disk, path)?;
    let mut draft = disk.draft(path)?;
    fill(&mut *draft)?;
    draft.sync()?;
    draft.rename()?;
    drop(draft);
    path.parent().map_or(Ok(()), |parent| disk.sync_folder(parent))
}

pub(super) fn put(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace(disk, path, |draft| draft.write_at(bytes, 0))
}

/// Removes a file, if it is there, and the folders that this leaves empty.
pub(super) fn remove(disk: &dyn Disk, root: &Path, path: &Path) -> io::Result<()> {
    match disk.remove(path) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(()),
        removed => removed?,
    }
    let above = path.ancestors().skip(1).take_while(|above| *above != root && above.starts_with(root));
    // A folder that is not empty can't be removed, and this is the end of it.
    let kept = above.into_iter().find(|above| fs::remove_dir(above).is_err()).unwrap_or(root);
    disk.sync_folder(kept)
}

/// Creates the folders above `path`; each new one is synced into its parent.
fn create_parents(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    let Some(parent) = path.parent().filter(|parent| !parent.is_dir()) else { return Ok(()) };
    create_parents(disk, parent)?;
    fs::create_dir(parent)?;
    parent.parent().map_or(Ok(()), |above| disk.sync_folder(above))
}

#[derive(Debug)]
pub(super) struct Local {
    /// Wait for the device.
    pub(super) sync: bool,
}

struct LocalDraft {
    file: File,
    path: PathBuf,
    partial: PathBuf,
    sync: bool,
    renamed: bool,
}

impl Disk for Local {
    fn draft(&self, path: &Path) -> io::Result<Box<dyn Draft>> {
        let partial = hidden(path, "partial");
        let file = create_new(&partial)?;
        let draft = LocalDraft { file, path: path.to_path_buf(), partial, sync: self.sync, renamed: false };
        if path.exists() {
            attributes::keep(&draft.partial, path)?;
        }
        Ok(Box::new(draft))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        if self.sync { system::sync_folder(path) } else { Ok(()) }
    }
}

impl Draft for LocalDraft {
    fn clone_of(&mut self, from: &File) -> io::Result<bool> {
        // Blocks are shared until one of the files is written to.
        Ok(system::share_blocks(from, &self.file))
    }

    fn write_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, at)
    }

    fn copy(&mut self, mut from: &File, from_at: u64, at: u64, len: u64) -> io::Result<()> {
        from.seek(SeekFrom::Start(from_at))?;
        self.file.seek(SeekFrom::Start(at))?;
        // `io::copy` leaves it to the kernel (copy_file_range), and copies itself where the kernel can't.
        if io::copy(&mut from.take(len), &mut self.file)? == len {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the old file has become shorter"))
    }

    fn clear(&mut self, at: u64, len: u64) -> io::Result<()> {
        if system::punch(&self.file, at, len)? {
            return Ok(());
        }
        // `io::copy` takes 8 KiB a call.
        let zeros = vec![0; len.min(1 << 20) as usize];
        let mut done = 0;
        while done < len {
            let step = (zeros.len() as u64).min(len - done) as usize;
            self.file.write_all_at(&zeros[..step], at + done)?;
            done += step as u64;
        }
        Ok(())
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync(&mut self) -> io::Result<()> {
        if self.sync { self.file.sync_data() } else { Ok(()) }
    }

    fn rename(&mut self) -> io::Result<()> {
        take_name(&self.partial, &self.path)?;
        self.renamed = true;
        Ok(())
    }
}

impl Drop for LocalDraft {
    fn drop(&mut self) {
        if !self.renamed {
            let _ = fs::remove_file(&self.partial);
        }
    }
}
