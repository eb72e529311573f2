//! An array and what it becomes: what there is to do, which new shards there are, how much memory one takes.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::design::Design;
use super::options::RepackOptions;
use super::order::ChunkOrder;
use super::source_file::Remembered;
use super::transcoder::Transcoder;
use crate::config::Codec;
use crate::error::{Error, Result};
use crate::format;
use crate::format::Metadata;
use crate::format::layout::product;
use crate::geometry::{cells, for_each_position};
use crate::offline::array::Array;
use crate::offline::array::decode::DecodeWorker;
use crate::offline::halving::Halving;
use crate::sync::Unpoisoned;
use crate::words::{IS, count, of_number};

/// More shards than this are not made only to be empty.
const EMPTY_SHARDS_MAX: u64 = 1 << 24;

#[derive(Debug)]
pub(crate) struct Change {
    pub(super) source: Array,
    /// Described by the new document; its files are the new ones.
    pub(super) target: Array,
    /// How the writer would lay it out, in a dialect other than Zarr v3.
    pub(super) design: Option<Design>,
    /// What chunks are encoded with, if they are encoded again.
    pub(super) codec: Codec,
    pub(super) work: Work,
    /// The source is twice as large, and reduced on the way: what is cut are boxes of its pixels, halved.
    pub(super) halving: Option<Halving>,
    /// Copied chunks lose the checksum behind them.
    pub(super) unseal: bool,
    pub(super) order: ChunkOrder,
    pub(super) sync: bool,
    /// Share the blocks of shards that only change their places, where the file system can.
    pub(super) reflink: bool,
    pub(super) publishing: Publishing,
    /// The threads for all that can be done side by side.
    pub(super) pool: Arc<rayon::ThreadPool>,
    /// Encoders and decoders that no thread uses at the moment.
    pub(super) idle: Idle<Transcoder>,
    /// The same, of rooms for encoded bytes.
    pub(super) idle_rooms: Idle<Vec<u8>>,
    /// The same, of what decodes chunks only to see that it can.
    pub(super) idle_workers: Idle<DecodeWorker>,
    /// Files of the source that were looked at last, by their positions, where several new files are made of each.
    pub(super) recent: Mutex<Vec<Remembered>>,
}

/// What has to be done to the pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// Encoded bytes are copied as they are, but perhaps for a checksum behind them.
    Copy,
    /// Each chunk is decoded and encoded again.
    Recode,
    /// Chunks are cut again.
    Reshape,
}

/// How a finished file gets its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Publishing {
    /// Nobody else makes it: it takes the place of what is there.
    #[default]
    Alone,
    /// Others may make the same one at the same time: the first has the name.
    Once,
}

/// Things that take a while to make, and are used by one thread after another.
pub(super) struct Idle<T>(Mutex<Vec<T>>);

impl<T> Default for Idle<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> fmt::Debug for Idle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Idle").finish_non_exhaustive()
    }
}

impl<T> Idle<T> {
    pub(super) fn take(&self) -> Option<T> {
        self.0.lock().unpoisoned().pop()
    }

    pub(super) fn give_back(&self, thing: T) {
        self.0.lock().unpoisoned().push(thing);
    }
}

impl Change {
    pub(super) fn new(
        source: Array,
        target: Array,
        design: Option<Design>,
        options: &RepackOptions,
        pool: Arc<rayon::ThreadPool>,
    ) -> Result<Self> {
        let (from, to) = (source.metadata(), target.metadata());
        let unseal = from.chain.codec.checksum && !to.chain.codec.checksum;
        let work = work(from, to, unseal);
        let codec = match (&options.codec, &design) {
            (Some(codec), _) => codec.clone(),
            (None, Some(design)) => design.codec.clone(),
            // Of the source, a checksum may have no place in the new format.
            (None, None) => target.codec().clone(),
        };
        let (order, sync, reflink) = (options.order, options.sync, options.reflink);
        let (idle, idle_rooms, idle_workers, recent) = Default::default();
        let halving = None;
        let change = Self {
            source,
            target,
            design,
            codec,
            work,
            halving,
            unseal,
            order,
            sync,
            reflink,
            publishing: Publishing::default(),
            pool,
            idle,
            idle_rooms,
            idle_workers,
            recent,
        };
        if work != Work::Copy {
            // A level that doesn't exist is refused before anything is written.
            change.idle.give_back(Transcoder::new(&change.source, &change.target, &change.codec)?);
        }
        Ok(change)
    }

    /// A level of a pyramid, made of the one before.
    pub(crate) fn halved(
        source: Array,
        target: Array,
        halving: Halving,
        sync: bool,
        pool: Arc<rayon::ThreadPool>,
    ) -> Result<Self> {
        let options = RepackOptions { sync, codec: Some(target.codec().clone()), ..RepackOptions::default() };
        let change = Self::new(source, target, None, &options, pool)?;
        Ok(Self { work: Work::Reshape, unseal: false, halving: Some(halving), ..change })
    }

    /// An array whose shards others may make at the same time.
    pub(in crate::offline) fn of_task(
        source: Array,
        target: Array,
        options: &RepackOptions,
        pool: Arc<rayon::ThreadPool>,
    ) -> Result<Self> {
        Ok(Self::new(source, target, None, options, pool)?.made_once())
    }

    /// The same, whose shards others may make at the same time.
    pub(in crate::offline) fn made_once(self) -> Self {
        Self { publishing: Publishing::Once, ..self }
    }

    pub(in crate::offline) fn codec(&self) -> &Codec {
        &self.codec
    }

    pub(in crate::offline) fn target(&self) -> &Array {
        &self.target
    }

    pub(in crate::offline) fn source(&self) -> &Array {
        &self.source
    }

    pub(in crate::offline) fn source_key(&self, position: &[u64]) -> String {
        self.source.layout().file_key(position)
    }

    pub(in crate::offline) fn target_key(&self, position: &[u64]) -> String {
        self.target.layout().file_key(position)
    }

    pub(in crate::offline) fn target_path(&self, position: &[u64]) -> PathBuf {
        self.target.file_path(position)
    }

    /// The position of the new shard with this key, if there is one.
    pub(in crate::offline) fn target_position(&self, key: &str) -> Option<Vec<u64>> {
        self.target.file_position(key)
    }

    pub(in crate::offline) fn source_path(&self, position: &[u64]) -> PathBuf {
        self.source.file_path(position)
    }

    pub(in crate::offline) fn source_document(&self) -> &Path {
        self.source.document()
    }

    /// Bytes that one thread needs at most while it decodes and encodes.
    pub(super) fn thread_bytes(&self) -> u64 {
        match self.work {
            Work::Copy if self.source.metadata().chain.codec.checksum => 0,
            // What nothing else vouches for is decoded.
            Work::Copy => 2 * self.source.metadata().chunk_bytes() as u64,
            _ => {
                // Where elements are packed otherwise, a chunk is once more in memory.
                let times = if self.source.metadata().chain.is_plain() { 2 } else { 4 };
                times * self.source.metadata().chunk_bytes() as u64 + 3 * self.target.metadata().chunk_bytes() as u64
            }
        }
    }

    /// Bytes that one chunk on its way needs.
    pub(super) fn parcel_bytes(&self) -> u64 {
        let raw = self.target.metadata().chunk_bytes() as u64;
        match self.work {
            // As far as the reader of chunks believes an index.
            Work::Copy | Work::Recode => raw + raw / 8 + 4096,
            Work::Reshape => (2 + self.halving.as_ref().map_or(0, Halving::reduction)) * raw + raw / 8 + 4096,
        }
    }

    /// Whether a file beyond the array's shape would be one of the new array's, if that became as large again.
    /// Otherwise it would stand for other chunks, or be of another codec or format.
    pub(super) fn keeps_beyond(&self) -> bool {
        self.source.layout().rules().is_tree && is_same(&self.source, &self.target)
    }

    /// What to say of such files that are not taken along.
    pub(super) fn note_of_beyond(&self) -> Result<Option<String>> {
        let beyond = if self.keeps_beyond() { 0 } else { self.source.files_beyond()? };
        let note = || {
            let (files, are) = (count(beyond, "file"), of_number(&beyond, IS));
            let they = of_number(&beyond, ["it is", "they are"]);
            format!("{files} beyond the array's shape {are} left out: {they} of what it was before")
        };
        Ok((beyond > 0).then(note))
    }

    pub(super) fn keeps_empty(&self) -> bool {
        self.design.as_ref().is_some_and(|design| design.plan.shard.keep_empty)
    }

    /// Pixels of a new shard, in bytes; of one that is no box, as many as of each other.
    pub(crate) fn pixel_bytes(&self, position: &[u64]) -> u64 {
        let metadata = self.target.metadata();
        if !metadata.layout.has_boxes() {
            let all = format::bytes(&metadata.layout.shape, metadata.dtype).unwrap_or(u64::MAX);
            return all / metadata.layout.dealt_shards().max(1);
        }
        let (first, counts) = metadata.layout.chunks_of(position);
        format::bytes(&metadata.layout.elements_of(&first, &counts).1, metadata.dtype).unwrap_or(u64::MAX)
    }

    /// The positions of the source whose files a new shard is made of, be they there or not. Only of boxes.
    pub(in crate::offline) fn sources_of(&self, position: &[u64]) -> Vec<Vec<u64>> {
        let (from, to) = (self.source.layout(), self.target.layout());
        let (first, counts) = to.chunks_of(position);
        let (mut start, mut shape) = to.elements_of(&first, &counts);
        if let Some(halving) = &self.halving {
            (start, shape) = (halving.doubled(&start), halving.doubled(&shape));
        }
        let (first, counts) = cells(&start, &shape, &from.file_shape);
        let mut found = Vec::new();
        for_each_position(&first, &counts, |at| found.push(at.to_vec()));
        found
    }

    /// The positions of the new shards that may hold something, or must be there.
    pub(crate) fn positions(&self) -> Result<Vec<Vec<u64>>> {
        self.positions_of(self.source.file_positions()?)
    }

    /// The same where these files of the source are there.
    pub(in crate::offline) fn positions_of(&self, positions: Vec<Vec<u64>>) -> Result<Vec<Vec<u64>>> {
        let (from, to) = (self.source.layout(), self.target.layout());
        let as_they_are = self.work == Work::Copy && from.has_shards_as(to);
        if as_they_are && !self.keeps_empty() {
            return Ok(positions);
        }
        if !to.has_boxes() {
            return Ok((0..to.dealt_shards()).map(|shard| vec![shard]).collect());
        }
        let grid = to.file_grid();
        let mut found = BTreeSet::new();
        let mut add = |first: &[u64], counts: &[u64]| {
            for_each_position(first, counts, |at| {
                found.insert(at.to_vec());
            });
        };
        let origin = vec![0; grid.len()];
        if self.keeps_empty() {
            if product(&grid).is_none_or(|count| count > EMPTY_SHARDS_MAX) {
                let reason = "every shard of this dialect is a file, and these are too many; choose larger ones";
                return Err(Error::config("shard", format_args!("{:?}", to.file_shape), reason));
            }
            add(&origin, &grid);
            return Ok(found.into_iter().collect());
        }
        let to_file = self.halving.as_ref().map_or_else(|| to.file_shape.clone(), |by| by.doubled(&to.file_shape));
        for position in positions {
            // Shards that are no boxes hold chunks from anywhere.
            let position = if position.len() == grid.len() { position } else { origin.clone() };
            let (first, counts) = from.chunks_of(&position);
            let (start, shape) = from.elements_of(&first, &counts);
            let (first, counts) = cells(&start, &shape, &to_file);
            add(&first, &counts);
        }
        let mut found: Vec<_> = found.into_iter().collect();
        if self.work != Work::Reshape && !to.has_index() {
            // Files that are a chunk each come one shard of the source after another, whose index is read once.
            found.sort_by_cached_key(|chunk| from.file_of(chunk).0);
        }
        Ok(found)
    }
}

fn work(from: &Metadata, to: &Metadata, unseal: bool) -> Work {
    let chain = &from.chain.document[..];
    let chain = if unseal { chain.split_last().map_or(chain, |(_, before)| before) } else { chain };
    match () {
        () if !from.layout.is_cut_as(&to.layout) => Work::Reshape,
        () if chain == to.chain.document => Work::Copy,
        () if to.layout.rules().cuts_chunks => Work::Reshape,
        () => Work::Recode,
    }
}

/// Whether an array is cut and encoded as another already.
pub(super) fn is_same(from: &Array, to: &Array) -> bool {
    let (from, to) = (from.metadata(), to.metadata());
    let is_laid_out_so = from.layout.has_shards_as(&to.layout) || from.layout.has_chunk_files_as(&to.layout);
    is_laid_out_so && from.chain.document == to.chain.document
}
