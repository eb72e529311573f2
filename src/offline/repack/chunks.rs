//! Which chunks a new shard gets, in which order, and where they are now.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::change::{Change, Work};
use super::order::{ChunkOrder, morton};
use super::source_file::SourceFile;
use crate::error::Result;
use crate::format;
use crate::format::index::Range;
use crate::geometry::for_each_position;
use crate::offline::array::Array;
use crate::offline::array::decode::StoredChunk;
use crate::offline::array::shard_file::ShardFile;
use crate::sync::Unpoisoned;

/// A chunk of a new shard and where its bytes are now.
pub(super) struct SourceChunk {
    /// Its place in the grid of chunks.
    pub(super) at: Vec<u64>,
    /// By what the new shard's index knows it.
    pub(super) entry: u64,
    pub(super) file: usize,
    pub(super) range: Range,
}

impl SourceChunk {
    /// Where it is, in the file that was opened for it.
    pub(super) fn stored_in<'a>(&'a self, file: &'a ShardFile) -> StoredChunk<'a> {
        StoredChunk { file, range: self.range, at: &self.at }
    }
}

/// This many files of the source are remembered: more than there are shards in the making on most machines.
const RECENT_MAX: usize = 16;

/// Elements of the source, within the array.
pub(super) struct Region {
    pub(super) start: Vec<u64>,
    pub(super) shape: Vec<u64>,
    pub(super) bytes: usize,
}

impl Change {
    /// The chunks of a new shard that are there, in the order in which they are to follow each other, and their files.
    pub(super) fn items(&self, position: &[u64]) -> Result<(Vec<SourceChunk>, Vec<Arc<SourceFile>>)> {
        let mut files: Vec<Arc<SourceFile>> = Vec::new();
        let mut known: HashMap<Vec<u64>, Option<usize>> = HashMap::new();
        let mut items = Vec::new();
        for at in self.chunks(position)? {
            let (file, entry) = self.source.layout().file_of(&at);
            let number = match known.get(&file) {
                Some(&number) => number,
                None => {
                    let number = self.source_file(&file)?.map(|file| {
                        files.push(file);
                        files.len() - 1
                    });
                    known.insert(file, number);
                    number
                }
            };
            let Some(number) = number else { continue };
            if let Some(range) = files[number].range(entry)? {
                items.push(SourceChunk { entry: self.target.layout().file_of(&at).1, at, file: number, range });
            }
        }
        match self.order {
            ChunkOrder::C => {}
            ChunkOrder::Morton => self.sort_by_morton(position, &mut items, |item| &item.at),
            ChunkOrder::Kept => items.sort_by_key(|item| (item.file, item.range.offset)),
        }
        Ok((items, files))
    }

    /// The file of the source at a position, if it is there.
    fn source_file(&self, position: &[u64]) -> Result<Option<Arc<SourceFile>>> {
        let open = || Ok(SourceFile::open(&self.source, position)?.map(Arc::new));
        if self.target.layout().has_index() || !self.source.layout().has_index() {
            return open();
        }
        let mut recent = self.recent.lock().unpoisoned();
        if let Some((_, file)) = recent.iter().find(|(known, _)| known == position) {
            return Ok(file.clone());
        }
        let file = open()?;
        if recent.len() >= RECENT_MAX {
            recent.remove(0);
        }
        recent.push((position.to_vec(), file.clone()));
        Ok(file)
    }

    /// The chunks of a new shard that lie in the array, by their places in the grid of chunks, in C order.
    fn chunks(&self, position: &[u64]) -> Result<Vec<Vec<u64>>> {
        let mut found = Vec::new();
        if self.target.layout().has_boxes() {
            let (first, counts) = self.target.layout().chunks_of(position);
            for_each_position(&first, &counts, |at| found.push(at.to_vec()));
            return Ok(found);
        }
        let at = |id: u64| self.target.layout().chunk_at(position, id).filter(|at| self.target.layout().has_chunk(at));
        match &self.design {
            Some(design) => found.extend(design.ids(position).iter().filter_map(|&id| at(id))),
            // Where nothing is laid out again, the new shard has what the old one has.
            None => {
                let file = SourceFile::open(&self.source, position)?;
                let index = file.as_ref().and_then(|file| file.index.as_ref());
                found.extend(index.iter().flat_map(|index| index.entries()).filter_map(|(id, _)| at(id)));
            }
        }
        found.sort();
        Ok(found)
    }

    /// Boxes of chunks that together are a new shard's, first chunk and counts of each, of at most `most` chunks: in C
    /// order large ones, so that each old chunk is decoded about once; otherwise chunk by chunk.
    pub(super) fn boxes(&self, position: &[u64], most: u64) -> Result<Vec<(Vec<u64>, Vec<u64>)>> {
        let ones = vec![1; self.target.shape().len()];
        if self.target.layout().has_boxes() && self.order != ChunkOrder::Morton {
            let (first, counts) = self.target.layout().chunks_of(position);
            return Ok(crate::offline::export::Pieces::new(&first, &counts, &ones, most).collect());
        }
        let mut chunks = self.chunks(position)?;
        if self.order == ChunkOrder::Morton {
            self.sort_by_morton(position, &mut chunks, |at| at);
        }
        Ok(chunks.into_iter().map(|at| (at, ones.clone())).collect())
    }

    /// Sorts along a Z-order curve that starts with the shard, or with the array where shards are no boxes.
    fn sort_by_morton<T>(&self, position: &[u64], things: &mut [T], at: impl Fn(&T) -> &Vec<u64>) {
        let first = if self.target.layout().has_boxes() {
            self.target.layout().chunks_of(position).0
        } else {
            vec![0; self.target.shape().len()]
        };
        let inside = |thing: &T| -> Vec<u64> { at(thing).iter().zip(&first).map(|(at, first)| at - first).collect() };
        things.sort_by(|a, b| morton(&inside(a), &inside(b)));
    }

    /// The elements of a box of chunks, without those beyond the array's edge.
    pub(super) fn region(&self, first: &[u64], counts: &[u64]) -> Region {
        let (start, shape) = self.target.layout().elements_of(first, counts);
        let bytes = format::bytes(&shape, self.target.dtype()).unwrap_or(u64::MAX) as usize;
        Region { start, shape, bytes }
    }

    /// Whether a shard that is to be copied is one of the source's and has its chunks in order and without gaps.
    pub(super) fn is_tidy(&self, position: &[u64], items: &[SourceChunk], files: &[Arc<SourceFile>]) -> bool {
        let [file] = files else { return false };
        let SourceFile { path, len, index: Some(index), .. } = &**file else { return false };
        let as_it_is = self.work == Work::Copy
            && !self.unseal
            && self.source.layout().has_shards_as(self.target.layout())
            && *path == self.source.file_path(position);
        // Chunks beyond the edge would stand between the others, or behind them.
        if !as_it_is || files[0].chunks() != items.len() {
            return false;
        }
        let head_bytes = self.target.layout().head_bytes();
        let mut end = head_bytes;
        let follow = items.iter().all(|item| {
            let follows = item.range.offset == end;
            end += item.range.nbytes;
            follows
        });
        let index_bytes: u64 = index.parts().iter().map(|part| part.nbytes).sum();
        follow && *len == end - head_bytes + index_bytes
    }
}

/// Files that were opened for a batch of chunks: not all of them at once, and not again for each chunk.
pub(super) struct SourceFiles<'a> {
    source: &'a Array,
    files: &'a [Arc<SourceFile>],
    open: Mutex<Vec<(usize, ShardFile)>>,
}

impl<'a> SourceFiles<'a> {
    pub(super) fn new(source: &'a Array, files: &'a [Arc<SourceFile>]) -> Self {
        Self { source, files, open: Mutex::default() }
    }

    pub(super) fn get(&self, number: usize) -> Result<ShardFile> {
        let mut open = self.open.lock().unpoisoned();
        if let Some(at) = open.iter().position(|(known, _)| *known == number) {
            return Ok(open.swap_remove(at).1);
        }
        drop(open);
        self.files[number].open_again(self.source)
    }

    pub(super) fn give_back(&self, number: usize, file: ShardFile) {
        self.open.lock().unpoisoned().push((number, file));
    }
}
