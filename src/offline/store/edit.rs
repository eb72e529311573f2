//! Changes: what a caller gives new values, or takes away.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::MutexGuard;

use serde_json::{Map, Value};

use super::rewrite::{Changes, Rewrite};
use super::view::{ArrayOwner, ArrayView, ArrayViews};
use super::{Editing, KeyTarget, Ledger, ShardAddress, Store, disk, keys, new_documents};
use crate::config::{Dialect, Placement};
use crate::error::{Error, Result};
use crate::format::node::OF_ZARR2_NODES;
use crate::format::provenance::{ProvenanceMut, Slots};
use crate::format::{self, OF_DATASETS, rules};
use crate::fs::{document, links};
use crate::offline::hierarchy::central::is_dataset;
use crate::sync::Unpoisoned;
use crate::words::quoted;

impl Store {
    /// Gives a key a value.
    ///
    /// # Errors
    ///
    /// As [`set_many`](Self::set_many).
    pub fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        self.set_many(&[(key, value)])
    }

    /// Gives keys their values; of a key that is there twice, the last one counts. Each shard is rebuilt once,
    /// whatever number of its chunks gets values.
    ///
    /// Documents of arrays with shards are taken in the form in which they are shown, and may differ from what is there
    /// in their `shape`, `attributes` and `dimension_names`. Files come first, then shards, in the order of their keys.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] when the store was opened to read, for a chunk outside of the array's shape, for a key that is
    /// almost a chunk's, leads out of the dataset or is a hidden file's, and for a document with which the chunks would
    /// not be what they are, or the dataset could not be read; [`Error::Format`] for a shard whose index is damaged;
    /// [`Error::Io`] when the system refuses something. The first error ends the call: what came before it is done, and
    /// each shard is as it was or as it was to be.
    pub fn set_many(&self, values: &[(&str, &[u8])]) -> Result<()> {
        let mut editing = self.editing()?;
        self.change(&mut editing, values.iter().map(|&(key, value)| (key, Some(Cow::Borrowed(value)))))
    }

    /// Puts bytes into values, each from an offset on. A value becomes longer where they reach beyond its end, with
    /// zeros before an offset behind the end; a key without a value gets one.
    ///
    /// # Errors
    ///
    /// As [`set_many`](Self::set_many).
    pub fn set_partial_values(&self, parts: &[(&str, u64, &[u8])]) -> Result<()> {
        let mut editing = self.editing()?;
        // One value after another of the same key: the second starts from what the first has made.
        let mut values: Vec<(&str, Vec<u8>)> = Vec::new();
        let mut numbers: HashMap<&str, usize> = HashMap::new();
        for &(key, offset, part) in parts {
            let number = *numbers.entry(key).or_insert(values.len());
            if number == values.len() {
                values.push((key, self.get(key)?.unwrap_or_default()));
            }
            overlay(&mut values[number].1, offset, part)
                .ok_or_else(|| Error::config("offset", offset, format!("{key} has no memory for a value so long")))?;
        }
        self.change(&mut editing, values.into_iter().map(|(key, value)| (key, Some(Cow::Owned(value)))))
    }

    /// Takes a key its value, if it has one.
    ///
    /// # Errors
    ///
    /// As [`set_many`](Self::set_many).
    pub fn erase(&self, key: &str) -> Result<()> {
        self.erase_values(&[key])
    }

    /// Takes keys their values. A shard without chunks is removed; another one is rebuilt once.
    ///
    /// # Errors
    ///
    /// As [`set_many`](Self::set_many).
    pub fn erase_values(&self, keys: &[&str]) -> Result<()> {
        let mut editing = self.editing()?;
        self.change(&mut editing, keys.iter().map(|&key| (key, None)))
    }

    /// Takes all keys their values that start with `prefix`, which ends with a slash or is empty. Documents go last, so
    /// that an array that is half gone is still an array. Where the folder is no dataset itself, what lies beside the
    /// datasets in it stays.
    ///
    /// # Errors
    ///
    /// As [`set_many`](Self::set_many); a prefix without a slash at its end is [`Error::Config`].
    pub fn erase_prefix(&self, prefix: &str) -> Result<()> {
        let prefix = keys::check_prefix(prefix)?;
        let mut editing = self.editing()?;
        let views = self.views();
        let lister = self.lister(&views);
        let whole: Vec<&ArrayView> = views.all().filter(|view| view.base.starts_with(prefix)).collect();
        for view in &whole {
            if let Some(owner) = &view.owner {
                self.note_edit(&mut editing, owner)?;
                editing.ledgers.insert(owner.document.clone(), Ledger { pointer: owner.pointer, chunks: Some(0) });
            }
            // All of its shards go, so nobody needs to know what is in them.
            for shard in lister.shards(view)? {
                self.remove(&view.shard_key(&shard))?;
            }
        }
        let mut keys = lister.list_prefix(prefix)?;
        keys.retain(|key| self.is_of_dataset(key));
        let is_document =
            |key: &&String| matches!(self.named(&views, key), Ok(KeyTarget::Document(_) | KeyTarget::File));
        let (files, chunks): (Vec<&String>, Vec<&String>) = keys.iter().partition(is_document);
        self.change(&mut editing, chunks.into_iter().map(|key| (key.as_str(), None)))?;
        // Those above the others come last.
        self.change(&mut editing, files.into_iter().rev().map(|key| (key.as_str(), None)))
    }

    /// Ends the editing: the documents say again how many chunks there are, for
    /// [`Verify`](crate::offline::Verify) to compare.
    ///
    /// A store that is dropped does the same, but nobody hears of its errors. After a kill the documents say nothing of
    /// the number of chunks, and all else is as it should be.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when a document can't be written.
    pub fn finish(mut self) -> Result<()> {
        self.settle()
    }

    fn settle(&mut self) -> Result<()> {
        let Some(editing) = self.editing.take() else { return Ok(()) };
        let Editing { ledgers, _lock } = editing.into_inner().unpoisoned();
        for (key, Ledger { pointer, chunks }) in ledgers {
            if let Some(chunks) = chunks {
                self.speak(&key, pointer, |own| own.set_chunks(chunks))?;
            }
        }
        Ok(())
    }

    fn editing(&self) -> Result<MutexGuard<'_, Editing>> {
        let editing = self.editing.as_ref().ok_or_else(|| {
            Error::config("store", self.root.display(), "was opened to read; Store::edit opens it to write")
        })?;
        Ok(editing.lock().unpoisoned())
    }

    fn change<'k>(
        &self,
        editing: &mut Editing,
        values: impl Iterator<Item = (&'k str, Option<Cow<'k, [u8]>>)>,
    ) -> Result<()> {
        let mut chunks = Vec::new();
        let mut reload = false;
        for (key, value) in values {
            let views = self.views();
            match self.named(&views, key)? {
                KeyTarget::Chunk(..) => chunks.push((key, value)),
                KeyTarget::Document(view) => self.change_document(view, value.as_deref())?,
                KeyTarget::File => match value {
                    Some(value) => {
                        refuse_misspelt(&views, key)?;
                        new_documents::check(&self.root, key, &value)?;
                        if is_document(key) { self.put_document(key, &value)? } else { self.put(key, &value)? }
                    }
                    None => {
                        self.remove(key)?;
                        reload |= is_document(key);
                    }
                },
            }
        }
        if reload {
            self.reload()?;
        }
        let views = self.views();
        let mut shards: BTreeMap<ShardAddress, Changes> = BTreeMap::new();
        for (key, value) in &chunks {
            // The documents that came before may have made something else of it.
            let KeyTarget::Chunk(view, place) = self.named(&views, key)? else {
                let reason = "is a chunk no longer, by a document of the same batch";
                return Err(Error::config("key", key, reason));
            };
            if value.is_some() && !view.covers(&place) {
                let shape = &view.layout.shape;
                return Err(Error::config("key", key, format!("lies outside of the array, whose shape is {shape:?}")));
            }
            shards.entry((&view.base, place.shard)).or_default().insert(place.chunk, value.as_deref());
        }
        for ((base, shard), changes) in &shards {
            if let Some(view) = views.at(base) {
                self.change_shard(editing, view, shard, changes)?;
            }
        }
        Ok(())
    }

    fn change_shard(&self, editing: &mut Editing, view: &ArrayView, shard: &[u64], changes: &Changes) -> Result<()> {
        let Some(mut rewrite) = Rewrite::plan(&self.root, view, shard, changes)? else { return Ok(()) };
        links::stays_below(&self.root, &rewrite.path)?;
        let (before, after) = rewrite.counts();
        if let Some(owner) = &view.owner {
            // Before the shard changes the documents stop saying what will not be so.
            self.note_edit(editing, owner)?;
            let wanted = rewrite.slot_bytes_wanted();
            if let Some((old, wanted)) = rewrite.slots.as_mut().zip(wanted) {
                *old = Slots { placement: Placement::Packed, bytes: wanted, ..*old };
                self.speak(&owner.document, owner.pointer, |own| own.pack_slots(wanted))?;
                self.reload()?;
            }
        }
        rewrite.apply(&self.root, &*self.disk)?;
        if let Some(ledger) = view.owner.as_ref().and_then(|owner| editing.ledgers.get_mut(&owner.document)) {
            let counted = ledger.chunks.zip(before);
            ledger.chunks = counted.map(|(chunks, before)| (chunks + after).saturating_sub(before));
        }
        Ok(())
    }

    /// Lets the writer's attributes say that chunks are not all the writer's any more, and no longer how many there
    /// are.
    fn note_edit(&self, editing: &mut Editing, owner: &ArrayOwner) -> Result<()> {
        if editing.ledgers.contains_key(&owner.document) {
            return Ok(());
        }
        self.speak(&owner.document, owner.pointer, |own| own.begin_edit())?;
        let ledger = Ledger { pointer: owner.pointer, chunks: owner.own.chunks };
        editing.ledgers.insert(owner.document.clone(), ledger);
        Ok(())
    }

    /// Changes the writer's attributes in a document.
    fn speak(&self, key: &str, pointer: &str, change: impl FnOnce(&mut ProvenanceMut<'_>)) -> Result<()> {
        let path = self.root.join(key);
        let Some(before) = document::read(&path)? else { return Ok(()) };
        let mut after = before.clone();
        if let Some(mut own) = ProvenanceMut::at(&mut after, pointer) {
            change(&mut own);
        }
        if after == before { Ok(()) } else { self.put(key, &document::render(&after)) }
    }

    fn change_document(&self, view: &ArrayView, value: Option<&[u8]>) -> Result<()> {
        let Some(value) = value else { return self.remove(&view.document).and_then(|()| self.reload()) };
        let refused = |reason: String| Error::config("key", &view.document, reason);
        let shown = new_documents::parse(&view.document, value)?;
        let stored = document::read(&self.root.join(&view.document))?;
        let Some(stored) = stored else { return self.put_document(&view.document, value) };
        let stored = with_shards(view.layout.dialect, &shown, &stored).map_err(refused)?;
        self.put_document(&view.document, &document::render(&stored))
    }

    /// Puts a document, and the one that was there again if the dataset can't be read with it.
    fn put_document(&self, key: &str, bytes: &[u8]) -> Result<()> {
        let before = document::bytes(&self.root.join(key), document::DOCUMENT_BYTES_MAX)?;
        self.put(key, bytes)?;
        let Err(error) = self.reload() else { return Ok(()) };
        before.map_or_else(|| self.remove(key), |before| self.put(key, &before))?;
        self.reload()?;
        Err(Error::config("key", key, format!("with the new document, the dataset could not be read: {error}")))
    }

    /// Whether a key is that of something in a dataset, be it the folder itself or one in it.
    fn is_of_dataset(&self, key: &str) -> bool {
        let mut folders = key.match_indices('/').map(|(at, _)| &key[..at]);
        is_dataset(&self.root) || folders.any(|folder| is_dataset(self.root.join(folder)))
    }

    fn put(&self, key: &str, bytes: &[u8]) -> Result<()> {
        let path = self.root.join(key);
        links::stays_below(&self.root, &path)?;
        disk::put(&*self.disk, &path, bytes).map_err(|error| Error::io("write", &path, error))
    }

    fn remove(&self, key: &str) -> Result<()> {
        let path = self.root.join(key);
        links::stays_below(&self.root, &path)?;
        disk::remove(&*self.disk, &self.root, &path).map_err(|error| Error::io("remove", &path, error))
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = self.settle();
    }
}

/// Whether a key is that of a document that may say which arrays there are.
fn is_document(key: &str) -> bool {
    key.ends_with(".json") || OF_DATASETS.iter().chain(&OF_ZARR2_NODES).any(|name| key.ends_with(name))
}

/// Refuses a key under which no reader would look for the chunk that is meant.
fn refuse_misspelt(views: &ArrayViews, key: &str) -> Result<()> {
    let found = views.above(key).find(|(view, below)| view.is_misspelt(below));
    let Some((ArrayView { base, layout, .. }, _)) = found else { return Ok(()) };
    let dims = layout.shape.len();
    let first = layout.chunk_key(&vec![0; dims]);
    let reason = format!(
        "is no key of a chunk: these have {dims} numbers without signs and without zeros before them, as {base}{first} \
         has"
    );
    Err(Error::config("key", quoted(key), reason))
}

/// Puts `part` into `value` at `offset`; `None` if there is no memory for it.
fn overlay(value: &mut Vec<u8>, offset: u64, part: &[u8]) -> Option<()> {
    let offset = usize::try_from(offset).ok()?;
    let end = offset.checked_add(part.len())?;
    if end > value.len() {
        value.try_reserve(end - value.len()).ok()?;
        value.resize(end, 0);
    }
    value[offset..end].copy_from_slice(part);
    Some(())
}

/// The document that `shown` becomes with the shards of `stored`.
///
/// # Errors
///
/// When the chunks would not be what they are.
fn with_shards(dialect: Dialect, shown: &Value, stored: &Value) -> Result<Value, String> {
    let free = rules(dialect).free_fields;
    let mut result = stored.clone();
    let mut kept = format::without_shards(dialect, stored);
    for key in free {
        for document in [&mut result, &mut kept] {
            match (shown.get(key), document.as_object_mut()) {
                (Some(value), Some(document)) => drop(document.insert((*key).to_owned(), value.clone())),
                (None, Some(document)) => drop(document.shift_remove(*key)),
                _ => {}
            }
        }
    }
    if kept == *shown {
        return Ok(result);
    }
    let keys = [shown, &kept].into_iter().filter_map(Value::as_object).flat_map(Map::keys).map(String::as_str);
    let other: Vec<_> = keys.filter(|key| shown.get(key) != kept.get(key)).collect();
    let free = free.join(", ");
    Err(format!("the new document differs in {}; of a sharded array only {free} may", other.join(", ")))
}
