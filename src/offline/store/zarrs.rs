//! The store as a storage of the crate `zarrs`: its arrays read and write elements, and never learn of shards.
//!
//! Each write of `zarrs` is a batch of its own here: it writes chunk by chunk, so a region of many chunks makes a shard
//! again as many times. [`Store::set_many`] does it at once.

use zarrs_storage::byte_range::{ByteRange, ByteRangeIterator, InvalidByteRangeError};
use zarrs_storage::{
    Bytes, ListableStorageTraits, MaybeBytes, MaybeBytesIterator, OffsetBytesIterator, ReadableStorageTraits,
    StorageError, StoreKey, StoreKeys, StoreKeysPrefixes, StorePrefix, WritableStorageTraits,
};

use super::Store;
use crate::error::Error;

fn failed(error: Error) -> StorageError {
    match error {
        Error::Io { ref source, .. } => StorageError::IOError(source.clone()),
        Error::Config { field: "store", .. } => StorageError::ReadOnly,
        other => StorageError::Other(other.to_string()),
    }
}

fn range(range: ByteRange) -> super::ByteRange {
    match range {
        ByteRange::FromStart(offset, None) => super::ByteRange::From(offset),
        ByteRange::FromStart(offset, Some(length)) => super::ByteRange::Part { offset, length },
        ByteRange::Suffix(length) => super::ByteRange::Last(length),
    }
}

impl ReadableStorageTraits for Store {
    fn get(&self, key: &StoreKey) -> Result<MaybeBytes, StorageError> {
        Ok(Self::get(self, key.as_str()).map_err(failed)?.map(Bytes::from))
    }

    fn get_partial_many<'a>(
        &'a self,
        key: &StoreKey,
        byte_ranges: ByteRangeIterator<'a>,
    ) -> Result<MaybeBytesIterator<'a>, StorageError> {
        let Some(size) = self.size(key.as_str()).map_err(failed)? else { return Ok(None) };
        let ranges: Vec<ByteRange> = byte_ranges.collect();
        if let Some(wrong) = ranges.iter().find(|wanted| range(**wanted).of(size).is_none()) {
            return Err(InvalidByteRangeError::new(*wrong, size).into());
        }
        let wanted: Vec<_> = ranges.into_iter().map(|wanted| (key.as_str(), range(wanted))).collect();
        let values = self.get_partial_values(&wanted).map_err(failed)?;
        let values: Option<Vec<_>> = values.into_iter().map(|value| value.map(Bytes::from)).collect();
        Ok(values.map(|values| Box::new(values.into_iter().map(Ok)) as Box<_>))
    }

    fn size_key(&self, key: &StoreKey) -> Result<Option<u64>, StorageError> {
        self.size(key.as_str()).map_err(failed)
    }

    fn supports_get_partial(&self) -> bool {
        true
    }
}

impl WritableStorageTraits for Store {
    fn set(&self, key: &StoreKey, value: Bytes) -> Result<(), StorageError> {
        Self::set(self, key.as_str(), &value).map_err(failed)
    }

    fn set_partial_many(&self, key: &StoreKey, offset_values: OffsetBytesIterator) -> Result<(), StorageError> {
        let parts: Vec<(u64, Bytes)> = offset_values.collect();
        let parts: Vec<_> = parts.iter().map(|(offset, value)| (key.as_str(), *offset, &value[..])).collect();
        self.set_partial_values(&parts).map_err(failed)
    }

    fn erase(&self, key: &StoreKey) -> Result<(), StorageError> {
        Self::erase(self, key.as_str()).map_err(failed)
    }

    fn erase_many(&self, keys: &[StoreKey]) -> Result<(), StorageError> {
        let keys: Vec<_> = keys.iter().map(StoreKey::as_str).collect();
        self.erase_values(&keys).map_err(failed)
    }

    fn erase_prefix(&self, prefix: &StorePrefix) -> Result<(), StorageError> {
        Self::erase_prefix(self, prefix.as_str()).map_err(failed)
    }

    /// A part of a chunk costs as much as all of it.
    fn supports_set_partial(&self) -> bool {
        false
    }
}

impl ListableStorageTraits for Store {
    fn list(&self) -> Result<StoreKeys, StorageError> {
        keys(Self::list(self).map_err(failed)?)
    }

    fn list_prefix(&self, prefix: &StorePrefix) -> Result<StoreKeys, StorageError> {
        keys(Self::list_prefix(self, prefix.as_str()).map_err(failed)?)
    }

    fn list_dir(&self, prefix: &StorePrefix) -> Result<StoreKeysPrefixes, StorageError> {
        let listing = Self::list_dir(self, prefix.as_str()).map_err(failed)?;
        let prefixes = listing.prefixes.iter().map(|prefix| Ok(StorePrefix::new(prefix)?));
        Ok(StoreKeysPrefixes::new(keys(listing.keys)?, prefixes.collect::<Result<_, StorageError>>()?))
    }

    fn size_prefix(&self, prefix: &StorePrefix) -> Result<u64, StorageError> {
        let keys = Self::list_prefix(self, prefix.as_str()).map_err(failed)?;
        keys.iter().try_fold(0, |sum, key| Ok(sum + self.size(key).map_err(failed)?.unwrap_or(0)))
    }
}

fn keys(keys: Vec<String>) -> Result<StoreKeys, StorageError> {
    keys.into_iter().map(|key| Ok(StoreKey::new(key)?)).collect()
}
