//! Files that recordings lie in, and memory for their frames.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use memmap2::MmapMut;

use crate::failure::Failure;
use shardwright::words::of_system;

/// Opens what is read by places: a pipe would wait for ever.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    if !path.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    File::open(path)
}

/// Fills `bytes` from `offset` of a file on.
pub(crate) fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    file.read_exact_at(bytes, offset)
}

/// Whether links in folders and sets of files may lead anywhere.
static FOLLOW_LINKS: AtomicBool = AtomicBool::new(false);

/// From now on, links may lead anywhere.
pub(crate) fn follow_links_anywhere() {
    FOLLOW_LINKS.store(true, Relaxed);
}

/// Refuses a file to which a link leads out of the folder that the caller named, as the library does with datasets.
pub(crate) fn stays_inside(folder: &Path, file: &Path) -> Result<(), String> {
    let whole = |path: &Path| path.canonicalize().map_err(|error| format!("{}: {}", path.display(), of_system(error)));
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let (end, root) = (whole(file)?, whole(folder)?);
    if FOLLOW_LINKS.load(Relaxed) || end.starts_with(&root) {
        return Ok(());
    }
    Err(format!(
        "{} is, or lies behind, a link out of {} to {}; if you trust it, allow it (--follow-links)",
        file.display(),
        root.display(),
        end.display()
    ))
}

/// The file that another one names, in the same folder or below it. `Err` says why there is none.
pub(crate) fn sibling(path: &Path, name: &str) -> Result<PathBuf, String> {
    let (folder, name) = (path.with_file_name(""), Path::new(name));
    let is_below = name.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if !is_below || name.file_name().is_none() {
        return Err(format!("{} is named, but that is no file beside {}", name.display(), path.display()));
    }
    let file = folder.join(name);
    if !file.is_file() {
        return Err(format!("{} is not there", file.display()));
    }
    stays_inside(&folder, &file).map(|()| file)
}

/// Memory that a copy runs through without many page faults and translations, where the system has such.
pub(crate) fn huge_pages(bytes: usize) -> Result<MmapMut, Failure> {
    let map = MmapMut::map_anon(bytes)
        .map_err(|error| Failure::Run(format!("no memory for {bytes} bytes of frames: {error}")))?;
    #[cfg(target_os = "linux")]
    let _ = map.advise(memmap2::Advice::HugePage);
    Ok(map)
}
