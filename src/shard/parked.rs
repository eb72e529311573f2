//! A shard whose file is closed for a while, though more chunks will come: many images take turns, and not all of their
//! shards may be open.

use std::any::Any;
use std::io;
use std::sync::Arc;

use super::file::{Shard, ShardState};
use crate::error::{Contained, Error, Result, caught};
use crate::storage::{Blob, Mapped};

/// A shard without its file.
pub(crate) struct ParkedShard {
    state: ShardState,
    file: ParkedFile,
}

/// By which a storage knows a file again.
pub(crate) type ParkedFile = Arc<dyn Any + Send + Sync>;

impl Shard {
    /// Makes what is committed durable, unless it `is_synced`, and says by what the file is known again when it is
    /// closed; `None` if it has to stay open. Nobody else may use it.
    ///
    /// The file that is opened later is told of no error of the device that this one would have been told of, so
    /// nothing may be left here that is not synced.
    pub(crate) fn parked_file(&self, is_synced: bool) -> Option<ParkedFile> {
        let park = || {
            if !is_synced {
                self.sync().map_err(self.failed("sync shard"))?;
            }
            Ok(self.blob.park())
        };
        caught(park).ok().flatten()
    }

    /// Closes the file, which is known again by `file`.
    pub(crate) fn park(self, file: ParkedFile) -> ParkedShard {
        ParkedShard { state: self.state, file }
    }
}

/// The file of a shard that is open again.
pub(crate) struct ReopenedFile {
    blob: Contained<dyn Blob>,
    map: Option<Mapped>,
}

/// Where the chunks of a shard are in its file, whatever the index there says by now.
#[cfg(feature = "offline")]
pub(crate) struct ParkedChunks {
    pub(crate) key: String,
    /// Offset and length of those that are stored.
    pub(crate) chunks: Vec<Option<(u64, u64)>>,
}

impl ParkedShard {
    #[cfg(feature = "offline")]
    pub(crate) fn chunks(&self) -> ParkedChunks {
        let chunks = self.state.entries.iter().map(|entry| entry.committed()).collect();
        ParkedChunks { key: self.state.key.clone(), chunks }
    }

    /// Opens the file again, if it is still the same.
    pub(crate) fn open(&self) -> Result<ReopenedFile> {
        let Self { state, file } = self;
        let fail = |error: io::Error| Error::io("open again the shard", state.storage.path_of(&state.key), error);
        let blob = Contained::new(caught(|| state.storage.reopen(&state.key, &**file).map_err(fail))?);
        let map = blob.map();
        if let Some(map) = map.as_ref().filter(|map| (map.len() as u64) < state.plan.shard.reserve_bytes) {
            let reason = format!("its memory has {} bytes instead of {}", map.len(), state.plan.shard.reserve_bytes);
            return Err(fail(io::Error::new(io::ErrorKind::InvalidInput, reason)));
        }
        Ok(ReopenedFile { blob, map })
    }

    /// The shard, with its file.
    pub(crate) fn with(self, file: ReopenedFile) -> Shard {
        let ReopenedFile { blob, map } = file;
        Shard { state: self.state, blob, map }
    }
}
