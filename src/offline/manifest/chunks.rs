//! Where the chunks of an array lie, from the indexes of its files or from what others have read there.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::format::index::Range;
use crate::geometry::for_each_position;
use crate::offline::answers::{Answers, SeparateFiles};
use crate::offline::array::Array;
use crate::offline::array::files::FileChunks;
use crate::offline::hierarchy::below;
use crate::offline::hierarchy::walk::Node;
use crate::offline::progress::ProgressCounters;

use super::files::key;

/// Files whose indexes are read at once.
const BATCH: usize = 256;

/// The offset and length of each chunk of a shard, in the order of its index.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::offline) struct ShardChunks(Vec<Option<(u64, u64)>>);

impl ShardChunks {
    /// Those of the shard at a position; `None` where there is none.
    pub(in crate::offline) fn read(array: &Array, position: &[u64]) -> Result<Option<Self>> {
        let chunks = array.file_chunks(position)?;
        let range = |range: Option<Range>| range.map(|range| (range.offset, range.nbytes));
        Ok(chunks.map(|chunks| Self(chunks.ranges.into_iter().map(range).collect())))
    }

    /// How many there are.
    pub(in crate::offline) fn count(&self) -> u64 {
        self.0.iter().flatten().count() as u64
    }

    fn of(self, path: PathBuf) -> FileChunks {
        let range = |range: Option<(u64, u64)>| range.map(|(offset, nbytes)| Range { offset, nbytes });
        FileChunks { path, ranges: self.0.into_iter().map(range).collect() }
    }
}

/// The arrays whose shards can be looked at one by one.
pub(super) fn separate_files(root: &Path, nodes: &[Node]) -> Result<Vec<SeparateFiles>> {
    let mut separate = Vec::new();
    for node in nodes {
        let Some(array) = node.array() else { continue };
        let path = if node.name.is_empty() { root.to_path_buf() } else { root.join(&node.name) };
        if SeparateFiles::are_of(array, &path) {
            let files = array.files()?.into_iter().map(|(path, _)| path).collect();
            let (name, document) = (node.name.clone(), array.document().to_path_buf());
            separate.push(SeparateFiles { name, document, said: None, files });
        }
    }
    Ok(separate)
}

/// An array whose chunks are visited.
pub(super) struct Chunks<'a> {
    pub(super) array: &'a Array,
    /// Its path below the root.
    pub(super) name: &'a str,
    pub(super) answers: Option<&'a Answers>,
    pub(super) counters: &'a ProgressCounters,
}

impl Chunks<'_> {
    /// Visits every chunk of the array's grid that was written: its key, its file, its range.
    pub(super) fn each(&self, mut visit: impl FnMut(&str, &Path, Range) -> Result<()>) -> Result<()> {
        let Self { array, counters, .. } = *self;
        let positions = array.file_positions()?;
        let look = |position: &Vec<u64>| counters.go_on().and_then(|()| self.of_file(position));
        for batch in positions.chunks(BATCH) {
            let files: Vec<Option<FileChunks>> = batch.par_iter().map(look).collect::<Result<_>>()?;
            for (position, file) in batch.iter().zip(files) {
                counters.go_on()?;
                let Some(file) = file else { continue };
                let (first, counts) = array.layout().chunks_of(position);
                let mut failed = None;
                for_each_position(&first, &counts, |at| {
                    // The index has the order of dimensions that a transposition around the shard gives it.
                    let (_, entry) = array.layout().file_of(at);
                    if let (Some(range), None) = (file.ranges[entry as usize], &failed) {
                        failed = visit(&key(at), &file.path, range).err();
                    }
                });
                failed.map_or(Ok(()), Err)?;
                counters.done.fetch_add(file.path.metadata().map_or(0, |metadata| metadata.len()), Relaxed);
            }
        }
        Ok(())
    }

    fn of_file(&self, position: &[u64]) -> Result<Option<FileChunks>> {
        let (array, layout) = (self.array, self.array.layout());
        if let Some(answers) = self.answers.filter(|_| array.manifest().is_none() && layout.has_boxes()) {
            let (path, id) = (array.file_path(position), below(self.name, &layout.file_key(position)));
            let all = layout.chunks_per_file().into_iter().fold(1, u64::saturating_mul);
            let read = answers.of::<ShardChunks>(&id, &path)?;
            if let Some((chunks, _)) = read.filter(|(chunks, _)| chunks.0.len() as u64 == all) {
                return Ok(Some(chunks.of(path)));
            }
        }
        array.file_chunks(position)
    }
}
