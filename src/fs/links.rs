//! Links in what is read: those that lead out of what the caller named are not followed, unless the caller allows it.
//!
//! A dataset that somebody sent may hold links to any file of this machine, whose bytes would then land in a copy or an
//! export. Links that stay below what was named are fine, and so is a name that is a link itself.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf, absolute};
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::system::{has_no_links, is_loop};
use crate::error::{Error, Refusal, Result};
use crate::sync::Unpoisoned;

/// Why what is no part of the dataset itself is not changed.
pub(super) const BEHIND_A_LINK: &str =
    "is a symbolic link or behind one; only what is in the dataset itself is changed";

/// Whether links may lead anywhere.
static ANYWHERE: AtomicBool = AtomicBool::new(false);
/// What callers named, none of them below another.
static ROOTS: RwLock<BTreeSet<PathBuf>> = RwLock::new(BTreeSet::new());

/// From now on, in this process, links in datasets may lead anywhere. Only for datasets of people whom you would let
/// choose what you read and pass on, or whose links you know.
#[cfg(feature = "offline")]
pub fn follow_links_anywhere() {
    ANYWHERE.store(true, Relaxed);
}

/// A caller named `root`: what is read below it stays below it.
pub(crate) fn enter(root: &Path) {
    let Ok(root) = absolute(root) else { return };
    if root_of(&root).is_none() {
        let mut roots = ROOTS.write().unpoisoned();
        roots.retain(|known| !known.starts_with(&root));
        roots.insert(root);
    }
}

fn root_of(path: &Path) -> Option<PathBuf> {
    let roots = ROOTS.read().unpoisoned();
    path.ancestors().find(|above| roots.contains(*above)).map(Path::to_path_buf)
}

/// Refuses a file or folder to which a link leads out of what a caller named.
pub(crate) fn check(path: &Path) -> Result<(), Refusal> {
    // As a rule there is no link, above or below; a look at the path alone opens no file.
    if are_followed() || has_no_links(path) {
        return Ok(());
    }
    let root = absolute(path).ok().and_then(|path| root_of(&path));
    root.map_or(Ok(()), |root| refuse_out_of(&root, path))
}

/// Refuses a file in a folder that nobody named, if a link leads to it out of that folder.
pub(crate) fn check_within(root: &Path, path: &Path) -> Result<()> {
    let root = if root.as_os_str().is_empty() { Path::new(".") } else { root };
    refuse_out_of(root, path).map_err(|reason| Error::format(path, reason))
}

fn refuse_out_of(root: &Path, path: &Path) -> Result<(), Refusal> {
    // What is not there is told by whoever looks for it.
    let (Ok(root), Ok(file)) = (root.canonicalize(), path.canonicalize()) else { return Ok(()) };
    if are_followed() || file.starts_with(&root) {
        return Ok(());
    }
    Err(Refusal::Unsupported(format!(
        "is, or lies behind, a link out of {} to {}; if you trust it, call follow_links_anywhere",
        root.display(),
        file.display()
    )))
}

/// Whether an error says that nothing is there, be it because links lead round and round.
pub(crate) fn leads_nowhere(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || is_loop(error)
}

/// What a link stands for was written once, and may come back: git-annex and DataLad leave links to what was not
/// fetched.
pub(crate) fn refuse_dangling(path: &Path) -> Result<()> {
    let exists = |path: &&Path| std::fs::symlink_metadata(path).is_ok();
    match path.ancestors().find(exists).filter(|nearest| nearest.is_symlink() && !nearest.exists()) {
        Some(link) => Err(Error::format(
            link,
            "is a link to something that is not here; fetch that (git annex get, datalad get), or remove the link \
             where nothing was ever written",
        )),
        None => Ok(()),
    }
}

pub(crate) fn are_followed() -> bool {
    ANYWHERE.load(Relaxed)
}

/// Refuses to change what only a symbolic link makes part of the folder `root`, which is named without links.
pub(crate) fn stays_below(root: &Path, path: &Path) -> Result<()> {
    let above = path.ancestors().skip(1).find_map(|above| above.canonicalize().ok());
    let is_link = path.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink());
    if is_link || !above.is_some_and(|above| above.starts_with(root)) {
        return Err(Error::format(path, BEHIND_A_LINK));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "miri has no openat2")]
    fn links_may_not_lead_out_of_what_was_named() {
        let folder = tempfile::tempdir().unwrap();
        let (inside, outside) = (folder.path().join("inside"), folder.path().join("outside"));
        fs::create_dir_all(inside.join("deep")).unwrap();
        fs::create_dir_all(&outside).unwrap();
        fs::write(outside.join("file"), "secret").unwrap();
        fs::write(inside.join("deep/file"), "own").unwrap();
        symlink(outside.join("file"), inside.join("out")).unwrap();
        symlink(&outside, inside.join("folder")).unwrap();
        symlink("deep/file", inside.join("in")).unwrap();
        symlink("nowhere", inside.join("dangling")).unwrap();
        let named = folder.path().join("named");
        symlink(&inside, &named).unwrap();
        for root in [&inside, &named] {
            enter(root);
            for good in ["deep/file", "in", "dangling", "absent", ""] {
                assert_eq!(check(&root.join(good)), Ok(()), "{good}");
            }
            for bad in ["out", "folder/file", "folder"] {
                let reason = check(&root.join(bad)).unwrap_err().to_string();
                assert!(reason.contains("outside") && reason.contains("follow_links_anywhere"), "{reason}");
            }
        }
    }
}
