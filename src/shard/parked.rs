//! A shard whose file is closed for a while, though more chunks will come: many images take turns, and not all of their
//! shards may be open.

use std::any::Any;
use std::io;
use std::sync::Arc;

use super::file::{Shard, ShardState};
use crate::error::{Contained, Error, Result, caught};

/// A shard without its file.
pub(crate) struct ParkedShard {
    state: ShardState,
    /// By which the storage knows the file again.
    file: Arc<dyn Any + Send + Sync>,
}

impl Shard {
    /// Makes what is committed durable, unless it `is_synced`, and closes the file; gives the shard back if it has to
    /// stay open. Nobody else may use it.
    ///
    /// The file that is opened later is told of no error of the device that this one would have been told of, so
    /// nothing may be left here that is not synced.
    pub(crate) fn park(self, is_synced: bool) -> std::result::Result<ParkedShard, Box<Self>> {
        let park = || {
            if !is_synced {
                self.sync().map_err(self.failed("sync shard"))?;
            }
            Ok(self.blob.park())
        };
        let Ok(Some(file)) = caught(park) else { return Err(Box::new(self)) };
        Ok(ParkedShard { state: self.state, file })
    }
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
    pub(crate) fn reopen(self) -> Result<Shard> {
        let Self { state, file } = self;
        let fail = |error: io::Error| Error::io("open again the shard", state.storage.path_of(&state.key), error);
        let blob = Contained::new(caught(|| state.storage.reopen(&state.key, &*file).map_err(fail))?);
        let map = blob.map();
        if let Some(map) = map.as_ref().filter(|map| (map.len() as u64) < state.plan.shard.reserve_bytes) {
            let reason = format!("its memory has {} bytes instead of {}", map.len(), state.plan.shard.reserve_bytes);
            return Err(fail(io::Error::new(io::ErrorKind::InvalidInput, reason)));
        }
        Ok(Shard { state, blob, map })
    }
}
