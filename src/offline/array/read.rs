//! Reads a region: which files and chunks it needs, and where their rows go.

use std::collections::BTreeMap;

use rayon::prelude::*;

use super::Array;
use super::decode::{DecodeWorker, StoredChunk};
use super::index::Index;
use super::memory::on_fitting_threads;
use super::region::{Area, Rows};
use super::shard_file::ShardFile;
use crate::error::{Error, Result};
use crate::format::index::Range;
use crate::format::layout::Layout;
use crate::format::{self, fill_value};

impl Array {
    /// Reads the whole array in C order, elements in little-endian byte order.
    ///
    /// # Errors
    ///
    /// As [`read_region`](Self::read_region); also when the array does not fit into memory.
    pub fn read_all(&self) -> Result<Vec<u8>> {
        let bytes = format::bytes(self.shape(), self.dtype()).and_then(|bytes| usize::try_from(bytes).ok());
        let mut out = Vec::new();
        let reserved = bytes.filter(|&bytes| out.try_reserve_exact(bytes).is_ok());
        let Some(bytes) = reserved else {
            return Err(Error::format(&self.path, format!("an array of {:?} does not fit into memory", self.shape())));
        };
        out.resize(bytes, 0);
        self.read_region(&vec![0; self.shape().len()], self.shape(), &mut out)?;
        Ok(out)
    }

    /// Reads the box of `shape` elements from `start` into `out`, in C order, elements in little-endian byte order.
    ///
    /// Chunks are decoded in parallel, on rayon's current pool. A chunk that was never written reads as the fill value.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] when the box is not within the array or `out` is not exactly its size; [`Error::Format`] or
    /// [`Error::Io`] with the file and the chunk when something can't be read or decoded. What `out` holds then is
    /// unspecified. [`Error::Conflict`] when the array was replaced since it was opened, or is gone.
    pub fn read_region(&self, start: &[u64], shape: &[u64], out: &mut [u8]) -> Result<()> {
        self.check_region(start, shape, out.len())?;
        if out.is_empty() {
            return Ok(());
        }
        self.read_box(start, shape, out).map_err(|error| self.unless_changed(error))?;
        self.check_in_place()
    }

    fn read_box(&self, start: &[u64], shape: &[u64], out: &mut [u8]) -> Result<()> {
        if shape.is_empty() {
            // One element is a box of one dimension, too; only its file's name knows the difference.
            return Geometry { array: self, file: &[1], chunk: &[1] }.read(&[0], &[1], out);
        }
        let Layout { file_shape, chunk_shape, .. } = self.layout();
        Geometry { array: self, file: file_shape, chunk: chunk_shape }.read(start, shape, out)
    }

    fn check_region(&self, start: &[u64], shape: &[u64], out_bytes: usize) -> Result<()> {
        self.check_box(start, shape)?;
        let expected = format::bytes(shape, self.dtype());
        if expected != Some(out_bytes as u64) {
            let reason = match expected {
                Some(expected) => format!("a region of {shape:?} has {expected} bytes"),
                None => format!("a region of {shape:?} has more than 2^64 bytes"),
            };
            return Err(Error::config("out", format_args!("{out_bytes} bytes"), reason));
        }
        Ok(())
    }

    /// Refuses a box of `shape` elements from `start` that is not within the array.
    pub(in crate::offline) fn check_box(&self, start: &[u64], shape: &[u64]) -> Result<()> {
        let array = self.shape();
        let ends = start.iter().zip(shape).map(|(start, length)| start.checked_add(*length));
        let inside = start.len() == array.len()
            && shape.len() == array.len()
            && ends.zip(array).all(|(end, length)| end.is_some_and(|end| end <= *length));
        if !inside {
            let value = format!("{shape:?} from {start:?}");
            return Err(Error::config("region", value, format!("the array's shape is {array:?}")));
        }
        Ok(())
    }
}

/// The array with at least one dimension.
#[derive(Clone, Copy)]
struct Geometry<'a> {
    array: &'a Array,
    file: &'a [u64],
    chunk: &'a [u64],
}

impl Geometry<'_> {
    /// Splits the region where the files end along the first dimension: such bands follow each other in memory.
    fn read(self, start: &[u64], shape: &[u64], out: &mut [u8]) -> Result<()> {
        let row_bytes = out.len() / shape[0] as usize;
        let (mut at, end) = (start[0], start[0] + shape[0]);
        let mut rest = out;
        let mut bands = Vec::new();
        while at < end {
            let next = (at / self.file[0] + 1).saturating_mul(self.file[0]).min(end);
            let (band, tail) = rest.split_at_mut((next - at) as usize * row_bytes);
            bands.push((at, next - at, band));
            (at, rest) = (next, tail);
        }
        let read = |(at, length, band): (u64, u64, &mut [u8])| {
            let (mut start, mut shape) = (start.to_vec(), shape.to_vec());
            (start[0], shape[0]) = (at, length);
            self.read_band(&start, &shape, band)
        };
        on_fitting_threads(self.array.metadata.chunk_bytes(), || bands.into_par_iter().try_for_each(read))
    }

    fn read_band(self, start: &[u64], shape: &[u64], out: &mut [u8]) -> Result<()> {
        let element_bytes = self.array.dtype().size();
        let area = Area { origin: start, extent: shape, chunk: self.chunk, element_bytes };
        let files = self.by_file(area.deal(out));
        files.into_par_iter().try_for_each_init(
            || None,
            |worker, (position, mut wanted)| {
                let Some(file) = self.array.open_file(&position)? else {
                    wanted.iter_mut().for_each(|chunk| self.fill(chunk));
                    return Ok(());
                };
                match self.array.layout().has_index() {
                    true => {
                        let entries: Vec<u64> = wanted.iter().map(|chunk| self.place(&chunk.chunk).1).collect();
                        let index = self.array.read_index(&file, &position, Some(&entries))?;
                        wanted.into_par_iter().try_for_each_init(
                            || None,
                            |worker, mut chunk| self.read_sharded(&area, worker, &file, &index, &mut chunk),
                        )
                    }
                    // Without shards, the file is the chunk, or the part of it that a manifest names.
                    false => wanted.iter_mut().try_for_each(|chunk| {
                        self.read_chunk(&area, worker, &file, file.whole(), chunk)
                            .map_err(|error| at_chunk(error, &file, &chunk.chunk))
                    }),
                }
            },
        )
    }

    /// The file of a chunk, and its place in that, of an array that has a dimension.
    fn place(self, chunk: &[u64]) -> (Vec<u64>, u64) {
        if self.array.shape().is_empty() { (vec![0], 0) } else { self.array.layout().file_of(chunk) }
    }

    /// The chunks of each file, by the files' positions.
    fn by_file<'out>(self, chunks: Vec<Rows<'out>>) -> BTreeMap<Vec<u64>, Vec<Rows<'out>>> {
        let mut files: BTreeMap<Vec<u64>, Vec<Rows<'out>>> = BTreeMap::new();
        for chunk in chunks {
            files.entry(self.place(&chunk.chunk).0).or_default().push(chunk);
        }
        files
    }

    fn read_sharded(
        self,
        area: &Area<'_>,
        worker: &mut Option<DecodeWorker>,
        file: &ShardFile,
        index: &Index,
        chunk: &mut Rows<'_>,
    ) -> Result<()> {
        match index.entry(self.place(&chunk.chunk).1) {
            Ok(None) => {
                self.fill(chunk);
                Ok(())
            }
            Ok(Some(range)) => self.read_chunk(area, worker, file, range, chunk),
            Err(reason) => Err(Error::format(file.path(), reason)),
        }
        .map_err(|error| at_chunk(error, file, &chunk.chunk))
    }

    fn read_chunk(
        self,
        area: &Area<'_>,
        worker: &mut Option<DecodeWorker>,
        file: &ShardFile,
        range: Range,
        chunk: &mut Rows<'_>,
    ) -> Result<()> {
        let worker = self.array.worker_in(worker)?;
        self.array.decode(worker, StoredChunk { file, range, at: &chunk.chunk })?;
        area.copy(chunk, &worker.raw);
        Ok(())
    }

    fn fill(self, chunk: &mut Rows<'_>) {
        chunk.rows.iter_mut().for_each(|row| fill_value::row(row, &self.array.metadata.fill));
    }
}

/// Adds to an error the file and the chunk that it is about.
fn at_chunk(error: Error, file: &ShardFile, chunk: &[u64]) -> Error {
    match error {
        Error::Format { path, reason } => Error::Format { path, reason: format!("chunk {chunk:?}: {reason}") },
        Error::Codec { codec, reason } => Error::format(file.path(), format!("chunk {chunk:?}: {codec}: {reason}")),
        other => other,
    }
}
