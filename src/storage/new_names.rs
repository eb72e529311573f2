//! Folders that have new names which may not be on the device yet. They are synced when somebody is to rely on what
//! is below them, once for all files that came meanwhile: a shard begins without waiting for that.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use crate::fs::system::sync_folder;
use crate::sync::Unpoisoned;

#[derive(Debug, Default)]
pub(super) struct NewNames(Mutex<BTreeMap<PathBuf, u64>>);

/// Folders, and which of their new names were there.
pub(super) type Noted = Vec<(PathBuf, u64)>;

impl NewNames {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<PathBuf, u64>> {
        self.0.lock().unpoisoned()
    }

    /// Makes a name in `folder`. Under the lock, so that nobody finds the name and does not find it noted.
    pub(super) fn make(&self, folder: &Path, make: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut folders = self.lock();
        let made = make();
        *folders.entry(folder.to_path_buf()).or_default() += 1;
        made
    }

    /// Syncs the folders above `path` that need it.
    pub(super) fn sync_above(&self, path: &Path) -> io::Result<()> {
        let above: Noted = {
            let folders = self.lock();
            let noted = |folder: &Path| folders.get_key_value(folder).map(|(folder, names)| (folder.clone(), *names));
            path.ancestors().filter_map(noted).collect()
        };
        above.iter().try_for_each(|(folder, _)| sync_folder(folder))?;
        self.are_synced(&above);
        Ok(())
    }

    /// All folders that need it by now.
    pub(super) fn all(&self) -> Noted {
        self.lock().iter().map(|(folder, names)| (folder.clone(), *names)).collect()
    }

    /// Somebody synced these folders after they were `noted`. What got another name meanwhile stays.
    pub(super) fn are_synced(&self, noted: &[(PathBuf, u64)]) {
        let mut folders = self.lock();
        for (folder, names) in noted {
            if folders.get(folder) == Some(names) {
                folders.remove(folder);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "miri can't sync a folder")]
    fn a_folder_stays_noted_until_all_its_names_are_synced() {
        let root = tempfile::tempdir().unwrap();
        let (names, inner) = (NewNames::default(), root.path().join("a"));
        let folders = || names.all().into_iter().map(|(folder, _)| folder).collect::<Vec<_>>();
        names.make(root.path(), || std::fs::create_dir(&inner)).unwrap();
        names.make(&inner, || std::fs::write(inner.join("b"), "")).unwrap();
        let noted = names.all();
        names.make(&inner, || std::fs::write(inner.join("c"), "")).unwrap();
        names.are_synced(&noted);
        assert_eq!(folders(), [inner.as_path()]);
        names.sync_above(&root.path().join("other/b")).unwrap();
        assert_eq!(folders(), [inner.as_path()]);
        names.sync_above(&inner.join("b")).unwrap();
        assert!(folders().is_empty());
        // A failure leaves it noted: the next one tries again.
        names.make(&inner, || Err(io::Error::other("no"))).unwrap_err();
        std::fs::remove_dir_all(&inner).unwrap();
        names.sync_above(&inner.join("b")).unwrap_err();
        assert_eq!(folders(), [inner.as_path()]);
    }
}
