//! A shard that is being written, chunk after chunk, and its index.

use std::fs::File;
use std::iter;
use std::path::Path;
use std::sync::Arc;

use rayon::prelude::*;

use super::change::Change;
use super::chunks::{SourceChunk, SourceFiles};
use super::source_file::SourceFile;
use super::transcoder::EncodedChunk;
use crate::error::{Error, Result};
use crate::format::index::Range;
use crate::fs::system::FileExt;
use crate::geometry::for_each_position;
use crate::offline::progress::Tally;

#[derive(Debug, Clone, Copy)]
pub(super) struct WrittenChunk {
    /// By what the index knows it.
    pub(super) entry: u64,
    pub(super) range: Range,
    pub(super) digest: u32,
}

pub(super) struct ShardWriter<'a> {
    change: &'a Change,
    path: &'a Path,
    file: File,
    end: u64,
    pub(super) written: Vec<WrittenChunk>,
    tally: &'a Tally<'a>,
}

impl<'a> ShardWriter<'a> {
    pub(super) fn new(change: &'a Change, path: &'a Path, file: File, tally: &'a Tally<'a>) -> Self {
        Self { change, path, file, end: change.target.layout().head_bytes(), written: Vec::new(), tally }
    }

    /// Copies chunks, or encodes them again.
    pub(super) fn items(
        &mut self,
        items: &[SourceChunk],
        files: &[Arc<SourceFile>],
        chunks_at_once: usize,
    ) -> Result<()> {
        let change = self.change;
        let mut rooms: Vec<_> =
            iter::repeat_with(EncodedChunk::default).take(chunks_at_once.min(items.len())).collect();
        for batch in items.chunks(chunks_at_once) {
            let opened = SourceFiles::new(&change.source, files);
            let fetch = |(item, encoded_chunk): (&SourceChunk, &mut EncodedChunk)| {
                self.tally.counters.go_on()?;
                let file = opened.get(item.file)?;
                encoded_chunk.entry = item.entry;
                let fetched = change.fetch(item.stored_in(&file), encoded_chunk);
                opened.give_back(item.file, file);
                self.tally.read(item.range.nbytes);
                fetched.map_err(|error| about(error, &files[item.file].path, &item.at))
            };
            change.pool.install(|| batch.par_iter().zip(rooms.par_iter_mut()).try_for_each(fetch))?;
            self.write(&rooms[..batch.len()])?;
        }
        Ok(())
    }

    /// Cuts new chunks out of boxes of the source.
    pub(super) fn reshaped(&mut self, position: &[u64], chunks_at_once: usize) -> Result<()> {
        let change = self.change;
        let mut rooms: Vec<_> = iter::repeat_with(EncodedChunk::default).take(chunks_at_once).collect();
        let (mut pixels, mut whole) = (Vec::new(), Vec::new());
        for (first, counts) in change.boxes(position, chunks_at_once as u64)? {
            let region = change.region(&first, &counts);
            pixels.resize(region.bytes, 0);
            let read = || match &change.halving {
                None => change.source.read_region(&region.start, &region.shape, &mut pixels),
                Some(halving) => halving.read(&change.source, &region.start, &region.shape, &mut pixels, &mut whole),
            };
            change.pool.install(read)?;
            let mut places = Vec::new();
            for_each_position(&first, &counts, |place| places.push(place.to_vec()));
            let make = |(at, encoded_chunk): (&Vec<u64>, &mut EncodedChunk)| {
                self.tally.counters.go_on()?;
                encoded_chunk.entry = change.target.layout().file_of(at).1;
                change.cut(&region, &pixels, at, encoded_chunk).map_err(|error| about(error, self.path, at))
            };
            change.pool.install(|| places.par_iter().zip(rooms.par_iter_mut()).try_for_each(make))?;
            self.write(&rooms[..places.len()])?;
            self.tally.read(region.bytes as u64);
        }
        Ok(())
    }

    fn write(&mut self, encoded_chunks: &[EncodedChunk]) -> Result<()> {
        for encoded_chunk in encoded_chunks.iter().filter(|encoded_chunk| encoded_chunk.used > 0) {
            let bytes = &encoded_chunk.room[..encoded_chunk.used];
            self.file.write_all_at(bytes, self.end).map_err(|error| Error::io("write", self.path, error))?;
            let range = Range { offset: self.end, nbytes: bytes.len() as u64 };
            self.written.push(WrittenChunk { entry: encoded_chunk.entry, range, digest: encoded_chunk.digest });
            self.end += range.nbytes;
        }
        self.tally.pixels(encoded_chunks.len() as u64 * self.change.target.metadata().chunk_bytes() as u64);
        Ok(())
    }

    /// Writes the index; everything is on the device then.
    pub(super) fn finish(self) -> Result<Vec<WrittenChunk>> {
        let failed = |error: std::io::Error| Error::io("write", self.path, error);
        let entries = self.written.iter().map(|chunk| (chunk.entry, (chunk.range.offset, chunk.range.nbytes)));
        let index = self.change.target.layout().encode_index(entries, self.end)?;
        for (at, part) in index.parts() {
            self.file.write_all_at(part, at).map_err(failed)?;
        }
        if self.change.sync {
            self.file.sync_data().map_err(failed)?;
        }
        Ok(self.written)
    }
}

/// Adds to an error about a chunk which file and which chunk it is about.
pub(super) fn about(error: Error, path: &Path, at: &[u64]) -> Error {
    match error {
        Error::Codec { codec, reason } => Error::format(path, format!("chunk {at:?}: {codec}: {reason}")),
        other => other,
    }
}
