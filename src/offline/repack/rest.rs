//! What is taken along as it is: the files that are no shards of arrays that change.

use std::collections::HashSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use super::change::Change;
use super::jobs::ArrayJob;
use super::refusal::NAMES_MAX;
use super::shard::{copy_range, same_bytes};
use crate::error::{Error, Result};
use crate::format::keys::RECORDS;
use crate::format::zarr3;
use crate::fs::look::{self, DEPTH_MAX};
use crate::fs::{self as os, LOCK_FILE};
use crate::fs::{links, system};
use crate::offline::array::Array;
use crate::offline::array::shard_file::ShardFile;
use crate::offline::hierarchy::RECEIPT;
use crate::words::{IS, count, of_number};

/// What is copied of a dataset or an array, and what is not.
pub(super) struct Rest<'a> {
    /// The dataset or array, by its path without links.
    pub(super) root: &'a Path,
    /// The folder that becomes the copy.
    pub(super) to: PathBuf,
    pub(super) jobs: &'a [ArrayJob],
    pub(super) left: &'a [PathBuf],
    /// The folder of records that stand at the root of the copy.
    pub(super) records: Option<&'a Path>,
    /// Links in the places of what arrays have, whose copies would lead to something else: see [`Rest::is_right`].
    pub(super) followed: &'a HashSet<PathBuf>,
    pub(super) sync: bool,
}

impl Rest<'_> {
    pub(super) fn changes(&self) -> impl Iterator<Item = &Change> {
        self.jobs.iter().map(|job| &job.change)
    }

    /// Copies everything that is no shard of an array that changes, and no document that is rewritten, nor in `left`.
    pub(super) fn copy(&self) -> Result<()> {
        self.folder(self.root, &self.to, 0)?;
        self.records.map_or(Ok(()), |records| self.folder(records, &self.to.join(RECORDS), 1))
    }

    /// A folder appears only for what goes into it: where one held chunks, which some writers leave when the last one
    /// goes, a new shard may be.
    fn folder(&self, from: &Path, to: &Path, depth: usize) -> Result<()> {
        let failed = |error: std::io::Error| Error::io("copy to", to, error);
        let create = || fs::create_dir_all(to).map_err(failed);
        let entries = look::list(from)?;
        if entries.is_empty() && !self.is_of_changed_chunks(from) {
            create()?;
        }
        for entry in entries {
            let Some(name) = entry.file_name() else { continue };
            let copied = to.join(name);
            match self.fate(&entry, &copied)? {
                Fate::Left | Fate::Odd | Fate::Taken => {}
                Fate::Folder if depth >= DEPTH_MAX => {
                    return Err(Error::format(entry, format!("the tree is deeper than {DEPTH_MAX}")));
                }
                Fate::Folder => self.folder(&entry, &copied, depth + 1)?,
                Fate::Link => {
                    create()?;
                    let _ = fs::remove_file(&copied);
                    let leads = self.lead(&entry, depth).map_err(failed)?;
                    system::symlink(leads, &copied).map_err(failed)?;
                }
                Fate::File => {
                    create()?;
                    copy_file(&entry, &copied, self.sync)?;
                }
            }
        }
        if self.sync && to.is_dir() { os::sync_folder_of(&to.join(zarr3::DOCUMENT)) } else { Ok(()) }
    }

    /// Refuses links that the copy would have, for an archive, which can't hold any.
    pub(super) fn refuse_links(&self) -> Result<()> {
        self.visit(self.root, &self.to, 0, &mut |entry, fate| match fate {
            Fate::Link => {
                Err(Error::unsupported(entry, "is a link, which an archive can't hold; repack into a folder"))
            }
            _ => Ok(()),
        })
    }

    /// What the copy has not, though it is nothing of the dataset's own, as sentences.
    pub(super) fn notes(&self) -> Result<Vec<String>> {
        let (mut notes, mut taken) = (Vec::new(), Vec::new());
        self.visit(self.root, &self.to, 0, &mut |entry, fate| {
            match fate {
                Fate::Odd => notes.push(format!("{} is neither a file nor a folder, and is left out", entry.display())),
                Fate::Taken => taken.push(entry.display().to_string()),
                Fate::Left | Fate::Folder | Fate::Link | Fate::File => {}
            }
            Ok(())
        })?;
        notes.extend(note_of_taken(&taken));
        Ok(notes)
    }

    /// Tells `visit` what becomes of all in a folder that is no folder itself in the copy.
    fn visit(
        &self,
        folder: &Path,
        to: &Path,
        depth: usize,
        visit: &mut dyn FnMut(PathBuf, Fate) -> Result<()>,
    ) -> Result<()> {
        for entry in if depth > DEPTH_MAX { Vec::new() } else { look::list(folder)? } {
            let copied = to.join(entry.file_name().unwrap_or_default());
            match self.fate(&entry, &copied)? {
                Fate::Folder => self.visit(&entry, &copied, depth + 1, visit)?,
                fate => visit(entry, fate)?,
            }
        }
        Ok(())
    }

    /// What becomes of a file or folder of the dataset, which would be `copied`.
    fn fate(&self, entry: &Path, copied: &Path) -> Result<Fate> {
        let text = entry.file_name().unwrap_or_default().to_string_lossy();
        let is_left =
            self.left.iter().any(|left| left == entry) || self.records.is_some_and(|records| records == entry);
        if is_left || text == LOCK_FILE || text == RECEIPT || os::is_partial(&text) {
            return Ok(Fate::Left);
        }
        let is_folder = match entry.is_symlink() {
            true => look::is_folder(entry),
            false => look::is_folder_for_sure(entry)?,
        };
        let is_link = entry.is_symlink() && !(is_folder && self.is_around_change(entry));
        let stays_folder = is_folder && !is_link;
        if !stays_folder && self.changes().any(|change| is_rebuilt(change, entry)) {
            // Also where a link leads to a shard: the new shard stands there already.
            return Ok(Fate::Left);
        }
        if self.is_taken(entry, copied, stays_folder) {
            return Ok(Fate::Taken);
        }
        if stays_folder {
            return Ok(Fate::Folder);
        }
        Ok(match is_link && !self.is_followed(entry) {
            true => Fate::Link,
            false if is_folder => Fate::Folder,
            false if look::is_file(entry) => Fate::File,
            false => Fate::Odd,
        })
    }

    /// Whether a copy would stand in a place that means something in the result: that of a chunk, a shard or a
    /// document, or of a folder of these, which only a folder can be.
    fn is_taken(&self, entry: &Path, copied: &Path, stays_folder: bool) -> bool {
        let holds_some = || self.is_around_change(entry);
        let is_of_records = self.records.is_some() && copied == self.to.join(RECORDS);
        is_of_records
            || self.changes().any(|change| {
                let designed = change.design.iter().flat_map(|design| &design.documents);
                let mut documents = designed.map(|(key, _)| self.to.join(key));
                let document = change.target.document();
                copied == document
                    || (!stays_folder && document.starts_with(copied))
                    || documents.any(|document| document == copied)
                    || (is_of_files(&change.target, copied, stays_folder)
                        && !is_kept_beyond(change, entry)
                        // What becomes of the chunks in it is asked for each.
                        && !(stays_folder && holds_some()))
            })
    }

    /// Whether what a link leads to goes along: it may not be where the copy is, or the link be read otherwise there.
    fn is_followed(&self, link: &Path) -> bool {
        let (Ok(end), Some(Ok(folder))) = (link.canonicalize(), link.parent().map(Path::canonicalize)) else {
            return false;
        };
        let is_inner = end.starts_with(self.root) && folder.starts_with(self.root);
        let is_meant = self.followed.contains(link) || (links::are_followed() && !is_inner);
        // One that leads back up would never end.
        is_meant && !folder.starts_with(&end)
    }

    /// Whether the copy of a link leads to a copy of what the link leads to: not where that lies outside, becomes
    /// something else or is left out, nor by a way that the copy has not.
    pub(super) fn is_right(&self, link: &Path) -> bool {
        let (Some(folder), Ok(leads), Ok(end)) = (link.parent(), fs::read_link(link), link.canonicalize()) else {
            return false;
        };
        let is_among = |place: &Path| end.starts_with(place) || link.starts_with(place);
        let is_copied = end.starts_with(self.root)
            && !self.changes().any(|change| end.starts_with(change.source.folder()))
            && !self.left.iter().any(|left| end.starts_with(left))
            && !self.records.is_some_and(is_among);
        // Behind another link, it may be copied to another place.
        let is_in_its_place = folder.canonicalize().is_ok_and(|real| real == folder);
        let up = leads.components().take_while(|part| *part == Component::ParentDir).count();
        let way: PathBuf = leads.components().skip(up).collect();
        let depth = folder.strip_prefix(self.root).map_or(0, |below| below.components().count());
        let is_way_within = || up <= depth && folder.ancestors().nth(up).is_some_and(|above| above.join(&way) == end);
        is_copied && is_in_its_place && (leads.is_absolute() || is_way_within())
    }

    /// Whether a link to a folder leads to arrays that change, or to chunks of one: what they become stands in a folder
    /// of that name.
    fn is_around_change(&self, link: &Path) -> bool {
        self.changes().any(|change| change.source.path().starts_with(link)) || self.is_of_changed_chunks(link)
    }

    /// Whether chunks of an array that changes stand in a folder, or would.
    fn is_of_changed_chunks(&self, folder: &Path) -> bool {
        self.changes().any(|change| {
            let key = folder.strip_prefix(change.source.folder());
            key.is_ok_and(|key| is_of_chunks(&change.source, key))
        })
    }

    /// Where the copy of a link leads: into the copy, if the link leads into the dataset by a way from outside of it.
    fn lead(&self, link: &Path, depth: usize) -> std::io::Result<PathBuf> {
        let leads = fs::read_link(link)?;
        let within = leaves(&leads, depth).then(|| link.canonicalize().ok()).flatten();
        let within = within.and_then(|end| Some(end.strip_prefix(self.root).ok()?.to_path_buf()));
        Ok(within.map_or(leads, |below| PathBuf::from("../".repeat(depth)).join(below)))
    }
}

/// Whether a way goes through what is above the folder that it starts so far below.
fn leaves(way: &Path, below: usize) -> bool {
    let mut depth = Some(below);
    for part in way.components() {
        depth = match part {
            Component::ParentDir => depth.and_then(|depth| depth.checked_sub(1)),
            Component::Normal(_) => depth.map(|depth| depth + 1),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => depth,
        };
    }
    way.is_absolute() || depth.is_none()
}

enum Fate {
    /// It is not copied, or made again.
    Left,
    Folder,
    Link,
    File,
    /// A pipe or a socket, of which there is nothing to copy.
    Odd,
    /// Something else stands in its place.
    Taken,
}

/// Copies a document of the dataset at `from` to the same place in the one at `to`.
pub(super) fn copy_document(document: &Path, from: &Path, to: &Path) -> Result<()> {
    let Ok(name) = document.strip_prefix(from) else { return Ok(()) };
    let copied = to.join(name);
    if let Some(folder) = copied.parent() {
        fs::create_dir_all(folder).map_err(|error| Error::io("create", folder, error))?;
    }
    copy_file(document, &copied, true)
}

fn is_rebuilt(change: &Change, file: &Path) -> bool {
    let array = &change.source;
    if file == array.document() {
        return true;
    }
    let Ok(key) = file.strip_prefix(array.folder()) else { return false };
    let key = key.to_string_lossy();
    let of_manifest = array.manifest().is_some_and(|manifest| manifest.origin().trim_start_matches("./") == key);
    let is_shard =
        array.file_position(&key).is_some() || (!change.keeps_beyond() && array.layout().file_position(&key).is_some());
    of_manifest || is_shard
}

/// Whether a file is a shard beyond the array's shape that goes along.
fn is_kept_beyond(change: &Change, file: &Path) -> bool {
    let key = file.strip_prefix(change.source.folder());
    change.keeps_beyond() && key.is_ok_and(|key| change.source.layout().file_position(&key.to_string_lossy()).is_some())
}

/// Whether a path is that of a chunk or a shard of an array, or within it, or, but for folders, that of a folder of
/// these.
fn is_of_files(array: &Array, path: &Path, is_folder: bool) -> bool {
    let Ok(key) = path.strip_prefix(array.folder()) else { return !is_folder && array.folder().starts_with(path) };
    let is_file = |key: &Path| array.layout().file_position(&key.to_string_lossy()).is_some();
    key.ancestors().any(is_file) || (!is_folder && (key.as_os_str().is_empty() || is_of_chunks(array, key)))
}

/// That these are not copied: see [`Rest::is_taken`].
fn note_of_taken(paths: &[String]) -> Option<String> {
    let listed = paths[..paths.len().min(NAMES_MAX)].join(", ");
    let more = match paths.len().saturating_sub(NAMES_MAX) {
        0 => String::new(),
        more => format!(" and {}", count(more, "other")),
    };
    let [are, each] = [IS, ["it", "each"]].map(|words| of_number(&paths.len(), words));
    let note = || {
        format!(
            "{listed}{more} {are} left out: in the result, {each} would stand in the place of a chunk, a shard, a \
             folder of these, or a document"
        )
    };
    (!paths.is_empty()).then(note)
}

/// Whether a folder of this path in that of an array holds chunks of it.
fn is_of_chunks(array: &Array, folder: &Path) -> bool {
    let first = array.layout().file_key(&vec![0; array.shape().len()]);
    let (folder, above) = (folder.to_string_lossy(), folder.components().count());
    let within: Vec<&str> = first.split('/').skip(above).collect();
    above > 0 && !within.is_empty() && array.layout().file_position(&format!("{folder}/{}", within.join("/"))).is_some()
}

fn copy_file(from: &Path, to: &Path, sync: bool) -> Result<()> {
    let gone = || Error::conflict(from, "has gone while it was copied");
    let source = ShardFile::open(from.to_path_buf())?.ok_or_else(gone)?;
    source.check_whole_entry()?;
    copy_of(&source, to, sync).map_err(|error| if is_of_change(&source, &error) { Error::changed(from) } else { error })
}

fn copy_of(source: &ShardFile, to: &Path, sync: bool) -> Result<()> {
    let failed = |error: std::io::Error| Error::io("copy to", to, error);
    let copy = os::create_new(to).map_err(failed)?;
    copy_range(source, &copy, to)?;
    if let Ok(permissions) = fs::metadata(source.path()).map(|metadata| metadata.permissions()) {
        copy.set_permissions(permissions).map_err(failed)?;
    }
    if sync {
        copy.sync_data().map_err(failed)?;
    }
    let gone = || Error::conflict(to, "has gone while it was written");
    same_bytes(source, &ShardFile::open(to.to_path_buf())?.ok_or_else(gone)?)
}

/// Whether a copy failed because somebody wrote to its source since that was opened.
fn is_of_change(source: &ShardFile, error: &Error) -> bool {
    let is_shorter = matches!(error, Error::Io { source, .. } if source.kind() == ErrorKind::UnexpectedEof);
    let stamp = || ShardFile::open(source.path().to_path_buf()).ok().flatten().map(|file| file.stamp());
    is_shorter || stamp().is_some_and(|now| now != source.stamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "miri has no files of its own")]
    fn a_file_that_is_written_to_while_it_is_copied_is_told_of() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        for changed in ["123", "123456789"] {
            fs::write(&from, "12345").unwrap();
            let source = ShardFile::open(from.clone()).unwrap().unwrap();
            fs::write(&from, changed).unwrap();
            let failed = || Error::format(&to, "reads back otherwise");
            let error = copy_of(&source, &to, false).err().unwrap_or_else(failed);
            assert!(is_of_change(&source, &error), "{error}");
            fs::remove_file(&to).unwrap();
        }
        let source = ShardFile::open(from.clone()).unwrap().unwrap();
        assert!(!is_of_change(&source, &Error::format(&to, "reads back otherwise")));
        copy_of(&source, &to, false).unwrap();
    }
}
