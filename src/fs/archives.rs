//! Archives that paths lead into: `run.ozx/0/zarr.json` is a file in the archive `run.ozx`.
//!
//! Only a path that the system itself finds no file under is looked at in this way, so a dataset in a folder pays
//! nothing for it, and an archive in a dataset is a file like any other.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;

use super::system::FileExt;
use crate::format::zarr3::DOCUMENT;
use crate::format::zip::directory::{COMMENT_BYTES_MAX, Directory, END64_BYTES, Named};
use crate::format::zip::local::{self, Kind, PAGE, WRITTEN_AT_ONCE};
use crate::format::zip::parse::{DirectoryRange, Entry, TAIL_BYTES_MAX, Tail, end64, tail};
use crate::format::zip::{Modified, crc32};

/// The entries of an archive by their names, and where its directory begins.
type Listed = (BTreeMap<String, Entry>, u64);

/// What the directory of an archive lists, or why it has none that is read here.
pub(crate) fn directory(file: &File, len: u64) -> io::Result<Result<Listed, String>> {
    let mut last = vec![0; len.min(TAIL_BYTES_MAX) as usize];
    let last_at = len - last.len() as u64;
    file.read_exact_at(&mut last, last_at)?;
    let place = match tail(&last, len) {
        Ok(Tail::Directory(place)) => place,
        Ok(Tail::End64(at)) => {
            let mut bytes = [0; END64_BYTES];
            file.read_exact_at(&mut bytes, at)?;
            match end64(&bytes, at) {
                Ok(place) => place,
                Err(reason) => return Ok(Err(reason)),
            }
        }
        Err(reason) => return Ok(Err(reason)),
    };
    let DirectoryRange { at, bytes, .. } = place;
    let mut directory = vec![0; bytes as usize];
    file.read_exact_at(&mut directory, at)?;
    Ok(place.entries(&directory).map(|entries| (entries, at)))
}

/// Whether a writer began with an archive and did no more: the file is empty, or holds the first documents, whole or
/// cut off, and no directory that names the root's. No frame has come by then.
pub(crate) fn is_begun(file: &File, len: u64) -> io::Result<bool> {
    if len == 0 || !holds_first_documents(file, len)? {
        return Ok(len == 0);
    }
    Ok(directory(file, len)?.map_or(true, |(entries, _)| !entries.contains_key(DOCUMENT)))
}

/// Whether there is nothing but the entries of this crate's writer that came first, all of them documents, and what may
/// be of the directories behind them. Documents of many images have one before the root's document comes.
fn holds_first_documents(file: &File, len: u64) -> io::Result<bool> {
    let (mut at, mut serials, mut archive) = (0, 0, WRITTEN_AT_ONCE);
    loop {
        let (mut names, mut has_root, first_at) = (Directory::default(), false, at);
        while let Some(local::Header { name, content, origin, bytes }) = header_at(file, at, len)? {
            if serials == 0 {
                archive = origin.archive;
            }
            serials += 1;
            let follows = origin.archive == archive && origin.serial == serials && origin.kind == Kind::Whole;
            let next = at.checked_add(bytes).and_then(|data_at| data_at.checked_add(origin.room));
            let Some(next) = next.filter(|next| follows && next.is_multiple_of(PAGE)) else { return Ok(false) };
            names.add(&Named { name: &name, content, modified: Modified::now(), header_at: at });
            has_root |= name == DOCUMENT;
            at = next;
        }
        if at == first_at || archive == WRITTEN_AT_ONCE {
            return Ok(false);
        }
        // Without the root's document, there is no comment.
        let comment = if has_root { COMMENT_BYTES_MAX } else { 0 };
        let directory_end = at + ((names.len("") + comment) as u64).next_multiple_of(PAGE);
        if len <= directory_end || has_root {
            return Ok(len <= directory_end);
        }
        at = directory_end;
    }
}

/// The header of this crate's at a place, which has no more than a page.
fn header_at(file: &File, at: u64, len: u64) -> io::Result<Option<local::Header>> {
    let mut bytes = vec![0; len.saturating_sub(at).min(PAGE) as usize];
    file.read_exact_at(&mut bytes, at)?;
    Ok(local::decode(&bytes))
}

/// The CRC-32 of a part of a file, which is read for it.
pub(crate) fn crc32_at(file: &File, at: u64, len: u64) -> io::Result<u32> {
    const STEP_BYTES: u64 = 1 << 20;
    let (mut crc, mut at, end) = (0, at, at + len);
    let mut bytes = vec![0; STEP_BYTES.min(len) as usize];
    while at < end {
        let piece = &mut bytes[..STEP_BYTES.min(end - at) as usize];
        file.read_exact_at(piece, at)?;
        crc = crc32::append(crc, piece);
        at += piece.len() as u64;
    }
    Ok(crc)
}

#[cfg(feature = "offline")]
pub(crate) use paths::*;

#[cfg(feature = "offline")]
mod paths {
    use std::collections::HashMap;
    use std::fs::{self, File};
    use std::io;
    use std::path::{Path, PathBuf};
    use std::sync::{Arc, Mutex};

    use super::{BTreeMap, Entry, FileExt, crc32_at, directory, header_at};
    use crate::error::{Error, Result};
    use crate::format::zip::Content;
    use crate::format::zip::local::{FIXED_BYTES, NAME_BYTES_MAX};
    use crate::format::zip::parse::data_at;
    use crate::fs::identity::Identity;
    use crate::sync::Unpoisoned;

    /// What is said of an entry that has another CRC-32.
    pub(crate) const CHANGED: &str = "is not what its archive has a checksum of";
    /// Archives that stay open for the next look.
    const KEPT_MAX: usize = 16;
    /// Names of which it is told what is wrong with the archive, rather than that there is no dataset.
    const EXTENSIONS: [&str; 2] = ["ozx", "zip"];

    static KEPT: Mutex<Vec<Kept>> = Mutex::new(Vec::new());

    struct Kept {
        path: PathBuf,
        stamp: Stamp,
        archive: Arc<OpenArchive>,
        /// It is shown whatever the file says of itself.
        pinned: bool,
    }

    /// By which a file is known to be what it was. It grows with each directory that its writer writes.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    struct Stamp {
        identity: Identity,
        len: u64,
    }

    impl Stamp {
        fn of(metadata: &fs::Metadata) -> Self {
            Self { identity: Identity::from(metadata), len: metadata.len() }
        }
    }

    #[derive(Debug)]
    pub(crate) struct OpenArchive {
        pub(crate) file: Arc<File>,
        pub(crate) entries: BTreeMap<String, Entry>,
        /// Where entries end at the latest.
        pub(crate) end: u64,
        /// Of entries, by the places of their headers, whether they are what the archive has a checksum of; `None`:
        /// nobody has read them for that.
        compared: Mutex<HashMap<u64, Arc<Mutex<Option<bool>>>>>,
    }

    impl OpenArchive {
        pub(crate) fn new(file: File, entries: BTreeMap<String, Entry>, end: u64) -> Self {
            Self { file: Arc::new(file), entries, end, compared: Mutex::default() }
        }
    }

    #[derive(Debug, Clone)]
    pub(crate) struct InArchive {
        archive: Arc<OpenArchive>,
        /// Of the archive itself.
        pub(crate) root: PathBuf,
        /// The name in the archive; empty for its root.
        pub(crate) key: String,
    }

    /// A file in an archive: a range of it.
    #[derive(Debug)]
    pub(crate) struct Part {
        pub(crate) file: Arc<File>,
        pub(crate) at: u64,
        pub(crate) entry: Entry,
    }

    /// The CRC-32 that an archive has of an entry, which is stored as it is.
    #[derive(Debug)]
    pub(crate) struct EntryChecksum {
        archive: Arc<OpenArchive>,
        at: u64,
        entry: Entry,
    }

    impl EntryChecksum {
        /// Whether it is this one.
        pub(crate) fn is(&self, crc32: u32) -> bool {
            self.entry.content.crc32 == crc32
        }

        /// Whether it is that of the entry's bytes, which are read for it once, whoever asks meanwhile, as long as the
        /// archive is open.
        pub(crate) fn holds(&self) -> io::Result<bool> {
            let known = self.archive.compared.lock().unpoisoned().entry(self.entry.header_at).or_default().clone();
            let mut known = known.lock().unpoisoned();
            if let Some(holds) = *known {
                return Ok(holds);
            }
            let holds = self.is(crc32_at(&self.archive.file, self.at, self.entry.content.len)?);
            *known = Some(holds);
            Ok(holds)
        }

        /// Whether it is a shard's that was written live. While its writer is at work, or after a kill, the checksum
        /// may be that of an earlier state; headers vouch for its chunks.
        pub(crate) fn is_of_live_shard(&self) -> io::Result<bool> {
            let header = header_at(&self.archive.file, self.entry.header_at, self.archive.end)?;
            Ok(header.is_some_and(|header| header.origin.kind.is_shard()))
        }
    }

    /// Where in an archive a path leads; `None` where no part of it is one.
    ///
    /// # Errors
    ///
    /// When an archive can't be read, or says what no OME-Zarr would.
    pub(crate) fn find(path: &Path) -> Result<Option<InArchive>> {
        for above in path.ancestors() {
            let Ok(metadata) = fs::metadata(above) else { continue };
            if !metadata.is_file() {
                return Ok(None);
            }
            let Some(archive) = open(above, Stamp::of(&metadata))? else { return Ok(None) };
            let below = path.strip_prefix(above).unwrap_or(path);
            let Some(parts) = below.iter().map(|part| part.to_str()).collect::<Option<Vec<_>>>() else {
                return Ok(None);
            };
            return Ok(Some(InArchive { archive, root: above.to_path_buf(), key: parts.join("/") }));
        }
        Ok(None)
    }

    fn open(path: &Path, stamp: Stamp) -> Result<Option<Arc<OpenArchive>>> {
        let kept = || KEPT.lock().unpoisoned();
        if let Some(known) = kept().iter().find(|kept| kept.path == path && (kept.pinned || kept.stamp == stamp)) {
            return Ok(Some(known.archive.clone()));
        }
        let file = File::open(path).map_err(|error| Error::io("open", path, error))?;
        // It may have become longer meanwhile.
        let stamp =
            file.metadata().map(|found| Stamp::of(&found)).map_err(|error| Error::io("look at", path, error))?;
        let found = directory(&file, stamp.len).map_err(|error| Error::io("read", path, error))?;
        let (entries, end) = match found {
            Ok(found) => found,
            Err(reason) if is_called_archive(path) => {
                return Err(Error::format(path, format!("{reason}; see recover, if shardwright was writing it")));
            }
            Err(_) => return Ok(None),
        };
        let archive = Arc::new(OpenArchive::new(file, entries, end));
        let mut kept = kept();
        kept.retain(|kept| kept.path != path || kept.pinned);
        while kept.len() >= KEPT_MAX {
            let Some(oldest) = kept.iter().position(|kept| !kept.pinned) else { break };
            kept.remove(oldest);
        }
        kept.push(Kept { path: path.to_path_buf(), stamp, archive: archive.clone(), pinned: false });
        Ok(Some(archive))
    }

    fn is_called_archive(path: &Path) -> bool {
        path.extension().is_some_and(|found| EXTENSIONS.iter().any(|known| found.eq_ignore_ascii_case(known)))
    }

    /// As long as this lives, the archive at a path is shown as its owner sees it.
    #[derive(Debug)]
    pub(crate) struct Pin(PathBuf);

    /// Shows `archive` at `path`, whatever the file says that it holds.
    pub(crate) fn pin(path: &Path, archive: OpenArchive) -> Result<Pin> {
        let metadata = archive.file.metadata().map_err(|error| Error::io("look at", path, error))?;
        let kept =
            Kept { path: path.to_path_buf(), stamp: Stamp::of(&metadata), archive: Arc::new(archive), pinned: true };
        let mut all = KEPT.lock().unpoisoned();
        all.retain(|kept| kept.path != path);
        all.insert(0, kept);
        Ok(Pin(path.to_path_buf()))
    }

    impl Drop for Pin {
        fn drop(&mut self) {
            KEPT.lock().unpoisoned().retain(|kept| kept.path != self.0);
        }
    }

    impl InArchive {
        /// The file that stands where a folder around this would.
        pub(crate) fn file_above(&self) -> Option<PathBuf> {
            let mut above = self.key.match_indices('/').map(|(at, _)| &self.key[..at]);
            above.find(|above| self.archive.entries.contains_key(*above)).map(|above| self.root.join(above))
        }

        pub(crate) fn identity(&self) -> std::io::Result<Identity> {
            Identity::of(&self.archive.file)
        }

        /// Of the archive.
        pub(crate) fn metadata(&self) -> std::io::Result<fs::Metadata> {
            self.archive.file.metadata()
        }

        pub(crate) fn is_file(&self) -> bool {
            self.archive.entries.contains_key(&self.key)
        }

        pub(crate) fn is_folder(&self) -> bool {
            self.key.is_empty() || self.below().next().is_some()
        }

        pub(crate) fn len(&self) -> Option<u64> {
            self.archive.entries.get(&self.key).map(|entry| entry.content.len)
        }

        /// The names of all files below a folder, from the folder on.
        fn below(&self) -> impl Iterator<Item = &str> {
            let prefix = if self.key.is_empty() { String::new() } else { format!("{}/", self.key) };
            let start = prefix.len();
            let names = self.archive.entries.range(prefix.clone()..).map(|(name, _)| name.as_str());
            names.take_while(move |name| name.starts_with(&prefix)).map(move |name| &name[start..])
        }

        /// The names of all files of the archive, and what they hold.
        pub(crate) fn contents(&self) -> impl Iterator<Item = (&str, Content)> {
            self.archive.entries.iter().map(|(name, entry)| (name.as_str(), entry.content))
        }

        pub(crate) fn names(&self) -> Vec<&str> {
            let mut names: Vec<_> = self.below().map(|name| name.split('/').next().unwrap_or(name)).collect();
            names.dedup();
            // Between the files of a folder, its neighbours may stand: `a`, `a.b`, `a/c`.
            names.sort_unstable();
            names.dedup();
            names
        }

        /// The file's bytes, which may be compressed; `None` where there is no file.
        pub(crate) fn open(&self) -> Result<Option<Part>> {
            let OpenArchive { file, entries, end, .. } = &*self.archive;
            let Some(entry) = entries.get(&self.key) else { return Ok(None) };
            let mut header = vec![0; (FIXED_BYTES + self.key.len()).min(FIXED_BYTES + 4 * NAME_BYTES_MAX)];
            let read = file.read_exact_at(&mut header, entry.header_at);
            read.map_err(|error| Error::io("read", &self.root, error))?;
            let at = data_at(&header, &self.key, entry, *end).map_err(|reason| Error::format(&self.root, reason))?;
            Ok(Some(Part { file: file.clone(), at, entry: *entry }))
        }

        /// The checksum of a part of the archive.
        pub(crate) fn checksum(&self, part: &Part) -> EntryChecksum {
            EntryChecksum { archive: self.archive.clone(), at: part.at, entry: part.entry }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        /// Other threads of the process may look at as many archives as they like meanwhile.
        #[test]
        fn what_its_owner_shows_stays_shown_while_others_are_opened() {
            let folder = tempfile::tempdir().unwrap();
            let path = |number: usize| folder.path().join(format!("{number}.ozx"));
            fs::write(path(0), "cut off").unwrap();
            let file = File::open(path(0)).unwrap();
            let shown = pin(&path(0), OpenArchive::new(file, BTreeMap::new(), 0)).unwrap();
            for other in 1..=2 * KEPT_MAX {
                fs::write(path(other), [&b"PK\x05\x06"[..], &[0; 18]].concat()).unwrap();
                assert!(find(&path(other)).unwrap().is_some());
            }
            assert!(find(&path(0)).unwrap().is_some());
            drop(shown);
            find(&path(0)).unwrap_err();
        }
    }
}
