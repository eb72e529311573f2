//! Room on the disk that is left for documents when it is full.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::new_names::NewNames;
use crate::fs::system::{self, is_no_room};

// After a kill it is one of the unfinished files that may be removed.
const BALLAST_FILE: &str = ".shardwright.ballast.partial";
pub(super) const BALLAST_BYTES: u64 = 1 << 20;
pub(super) const BALLAST_TRIES: u32 = 20;
pub(super) const BALLAST_PAUSE: Duration = Duration::from_millis(20);

/// What storages on the same disk share: how much room there is left for which of them, and what is yet to be synced.
#[derive(Debug, Default)]
pub(crate) struct DiskReserve {
    ballast: OnceLock<Option<Ballast>>,
    /// The error with which a document, or a shard that frames waited for, found no room. No shard is begun any more:
    /// what is left, and what the ballast gives, is for the documents.
    full: OnceLock<io::ErrorKind>,
    pub(super) new_names: Arc<NewNames>,
}

impl DiskReserve {
    /// Remembers that there is none left, if that is what `error` says.
    pub(crate) fn note(&self, error: &io::Error) {
        if is_no_room(error) {
            self.full.get_or_init(|| error.kind());
        }
    }

    /// Fails, with the same error, once there was none left. Whoever has used up a quota shall not look for a full
    /// disk.
    pub(super) fn check(&self) -> io::Result<()> {
        self.full.get().map_or(Ok(()), |kind| Err(system::no_room_of(*kind)))
    }

    /// Keeps room for the documents of a dataset, beside them, if nobody has done so.
    pub(super) fn take_ballast(&self, root: &Path, held: Option<&Arc<File>>) {
        self.ballast.get_or_init(|| Ballast::load(root, held.cloned()));
    }

    /// Whether there is such room: then others can be reserved, too.
    pub(crate) fn has_ballast(&self) -> bool {
        self.ballast.get().is_some_and(Option::is_some)
    }

    /// Gives that room up; false if there is none.
    pub(super) fn give_up_ballast(&self) -> bool {
        let ballast = self.ballast.get().and_then(Option::as_ref);
        ballast.inspect(|ballast| drop(fs::remove_file(&ballast.path))).is_some()
    }
}

/// Room on the disk that is given up when it is full, so that documents and records can tell what is in the
/// shards: those that are there by then are worth nothing to a reader whose document does not know of them.
#[derive(Debug)]
struct Ballast {
    path: PathBuf,
    _held: Option<Arc<File>>,
}

impl Ballast {
    /// Best effort.
    fn load(root: &Path, held: Option<Arc<File>>) -> Option<Self> {
        system::check_file_limit(BALLAST_BYTES).ok()?;
        let path = root.join(BALLAST_FILE);
        let file = OpenOptions::new().write(true).create_new(true).open(&path).ok()?;
        let ballast = Self { path, _held: held };
        system::reserve(&file, BALLAST_BYTES).ok().map(|()| ballast)
    }
}

impl Drop for Ballast {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}
