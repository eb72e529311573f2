//! A shard whose file is closed for a while, though more chunks will come: many images take turns, and not all of their
//! shards may be open.

use std::any::Any;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};

use super::checksum::Checksums;
use super::file::{Shard, ShardPosition};
use super::index_state::OpenIndex;
use super::slot::Entry;
use crate::error::{Contained, Error, Result, caught};
use crate::plan::Plan;
use crate::storage::Storage;

/// All of a shard but its file.
pub(crate) struct ParkedShard {
    storage: Arc<dyn Storage>,
    pub(crate) key: String,
    plan: Arc<Plan>,
    place: ShardPosition,
    entries: Box<[Entry]>,
    checksums: Option<Checksums>,
    tail: AtomicU64,
    grain: u64,
    open_index: Mutex<OpenIndex>,
    poisoned: AtomicBool,
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
        let Self { storage, key, plan, place, entries, checksums, tail, grain, open_index, poisoned, .. } = self;
        Ok(ParkedShard { storage, key, plan, place, entries, checksums, tail, grain, open_index, poisoned, file })
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
        ParkedChunks { key: self.key.clone(), chunks: self.entries.iter().map(Entry::committed).collect() }
    }

    /// Opens the file again, if it is still the same.
    pub(crate) fn reopen(self) -> Result<Shard> {
        let fail = |error: io::Error| Error::io("open again the shard", self.storage.path_of(&self.key), error);
        let blob = Contained::new(caught(|| self.storage.reopen(&self.key, &*self.file).map_err(fail))?);
        let map = blob.map();
        if let Some(map) = map.as_ref().filter(|map| (map.len() as u64) < self.plan.shard.reserve_bytes) {
            let reason = format!("its memory has {} bytes instead of {}", map.len(), self.plan.shard.reserve_bytes);
            return Err(fail(io::Error::new(io::ErrorKind::InvalidInput, reason)));
        }
        let Self { storage, key, plan, place, entries, checksums, tail, grain, open_index, poisoned, .. } = self;
        Ok(Shard { storage, key, plan, place, blob, map, entries, checksums, tail, grain, open_index, poisoned })
    }
}
