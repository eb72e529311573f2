//! Whether an array has the chunks that its writer counted, and which of its frames are missing: of an array that lost
//! some, no copy may look whole.

use std::collections::HashSet;
use std::fmt;
use std::ops::Range;

use rayon::prelude::*;

use super::array::Array;
use super::ranges::{Gather, Ranges};
use crate::error::{Error, Result};
use crate::format::acquisition_map::AcquisitionMap;
use crate::format::fill_value;
use crate::format::layout::product;
use crate::format::provenance::{self, Provenance};
use crate::geometry::{cells, for_each_position, linear};
use crate::words::{IS, count, count_that};

/// More frames than this are not looked at one by one.
const FRAMES_MAX: u64 = 1 << 28;

/// The chunks of an array that its writer counted and that are not there.
#[derive(Debug)]
pub(super) struct LostChunks {
    found: u64,
    counted: u64,
    /// What is there, by places in a grid: files or, where all files are there, chunks.
    there: HashSet<Vec<u64>>,
    /// Elements of a cell of that grid.
    cell: Vec<u64>,
    shape: Vec<u64>,
}

impl fmt::Display for LostChunks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&sentence(self.found, self.counted))
    }
}

fn sentence(found: u64, counted: u64) -> String {
    format!("holds {}, and its writer counted {counted}: files are missing", count(found, "chunk"))
}

impl LostChunks {
    pub(super) fn chunks(&self) -> u64 {
        self.counted - self.found
    }

    /// Whether the frame at a place in the outer dimensions may lack some of them. A chunk that held nothing but the
    /// fill value looks the same, if its file is not there.
    fn lacks(&self, outer: &[u64]) -> bool {
        let of_rows = self.shape.iter().zip(&self.cell).skip(outer.len());
        let first: Vec<u64> = outer.iter().zip(&self.cell).map(|(at, cell)| at / cell).collect();
        let counts = of_rows.map(|(shape, cell)| shape.div_ceil(*cell));
        let (origin, counts): (Vec<u64>, Vec<u64>) =
            first.into_iter().map(|at| (at, 1)).chain(counts.map(|count| (0, count))).unzip();
        // Of more cells than there are, some are not there.
        if product(&counts).is_none_or(|cells| cells > self.there.len() as u64) {
            return true;
        }
        let mut lacks = false;
        for_each_position(&origin, &counts, |cell| lacks |= !self.there.contains(cell));
        lacks
    }

    /// Calls `visit` with the place of each frame that may lack some of them.
    fn each_frame(&self, mut visit: impl FnMut(&[u64])) {
        let outer = &self.shape[..self.shape.len().saturating_sub(2)];
        for_each_position(&vec![0; outer.len()], outer, |at| {
            if self.lacks(at) {
                visit(at);
            }
        });
    }

    /// The numbers of the frames that may lack some of them; `None` where they are too many to be told.
    pub(super) fn frames(&self, map: &AcquisitionMap) -> Option<Ranges> {
        let mut frames = Gather::default();
        let count = product(&self.shape[..self.shape.len().saturating_sub(2)]);
        count.is_some_and(|count| count <= FRAMES_MAX).then(|| {
            self.each_frame(|at| map.frame_number(at).into_iter().for_each(|number| frames.add(number)));
            frames.ranges()
        })
    }
}

impl Array {
    /// What to say where the box of `shape` elements from `start` may lack chunks that were written: files of it are
    /// not there, and the array has fewer chunks than its writer counted. They read as the fill value.
    ///
    /// `None` where nothing is lost, or this crate's writer has counted nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] for a box that is not within the array; else when a folder can't be listed, or an index can't
    /// be read.
    pub fn lost_within(&self, start: &[u64], shape: &[u64]) -> Result<Option<String>> {
        self.check_box(start, shape)?;
        if self.counted_chunks().is_none() || (self.layout().has_boxes() && self.has_files_within(start, shape)?) {
            return Ok(None);
        }
        Ok(self.lost()?.map(|lost| lost.to_string()))
    }

    /// The frames that are missing, wholly or in part, as ranges of their places: these are counted in C order of all
    /// dimensions but the last two. Missing are those that never came, as this crate's writer says, and those that lack
    /// chunks which it counted; of other writers' arrays nothing is known.
    ///
    /// # Errors
    ///
    /// When a folder can't be listed, or a file can't be read.
    pub fn missing_frames(&self) -> Result<Vec<Range<u64>>> {
        let outer = &self.shape()[..self.shape().len().saturating_sub(2)];
        let room = product(outer).filter(|&frames| frames <= FRAMES_MAX);
        let mut missing = Gather::default();
        if let (Some((own, map)), Some(room)) = (self.acquisition(), room) {
            let ended = own.frames.filter(|_| own.complete || own.recovered);
            let never_came = ended.zip(own.planned).map(|(frames, planned)| frames..planned);
            for range in own.missing.iter().cloned().chain(never_came) {
                let positions = (range.start..range.end.min(room)).filter_map(|number| map.frame_position(number));
                positions.for_each(|at| missing.add(linear(&at, outer)));
            }
        }
        match self.lost() {
            Ok(Some(lost)) if room.is_some() => lost.each_frame(|at| missing.add(linear(at, outer))),
            Ok(Some(_)) => missing.add_range(0..u64::MAX),
            // A damaged index is told by whoever reads the shard.
            Ok(None) | Err(Error::Format { .. } | Error::Unsupported { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(missing.ranges().iter().cloned().collect())
    }

    /// The chunks that the array's writer counted and that are not there, be it for files that are not, or for files
    /// that lack them.
    pub(super) fn lost(&self) -> Result<Option<LostChunks>> {
        let Some(counted) = self.counted_chunks() else { return Ok(None) };
        let files = self.file_positions()?;
        let named = files.par_iter().map(|position| self.named_chunks(position));
        let found = named.try_reduce(|| 0, |one, other| Ok(one + other))?;
        if found >= counted {
            return Ok(None);
        }
        let layout = self.layout();
        let lacks_files =
            layout.has_boxes() && product(&layout.file_grid()).is_none_or(|count| count > files.len() as u64);
        let (there, cell) = if lacks_files {
            (files.into_iter().collect(), layout.file_shape.clone())
        } else {
            (self.all_chunk_positions()?.into_iter().flatten().collect(), layout.chunk_shape.clone())
        };
        Ok(Some(LostChunks { found, counted, there, cell, shape: self.shape().to_vec() }))
    }

    /// What there is of an array whose writer did not finish, which has counted nothing; `None` of any other.
    pub(super) fn left_unfinished(&self) -> Result<Option<LostChunks>> {
        if !self.image_provenance().is_some_and(|own| !own.complete && !own.recovered) {
            return Ok(None);
        }
        let there: HashSet<Vec<u64>> = self.all_chunk_positions()?.into_iter().flatten().collect();
        let (found, cell) = (there.len() as u64, self.layout().chunk_shape.clone());
        Ok(Some(LostChunks { found, counted: found, there, cell, shape: self.shape().to_vec() }))
    }

    /// What [`lost`](Self::lost) says where the array holds `found` chunks.
    pub(super) fn lost_of(&self, found: u64) -> Option<String> {
        self.counted_chunks().filter(|&counted| found < counted).map(|counted| sentence(found, counted))
    }

    /// Whether the array is the image that its writer's attributes are about, rather than a level or records beside it.
    pub(super) fn is_image(&self) -> bool {
        provenance::own(self.attributes()).is_some() || self.path().ends_with("0")
    }

    /// What this crate's writer says of the array, if it is the writer's image.
    pub(super) fn image_provenance(&self) -> Option<Provenance> {
        // What is no provenance of this crate says nothing of frames.
        if self.is_image() { self.provenance().ok().flatten() } else { None }
    }

    /// The same, and which frames are where in it.
    pub(super) fn acquisition(&self) -> Option<(Provenance, AcquisitionMap)> {
        let own = self.image_provenance()?;
        let map = self.acquisition_map(&own).ok()?;
        Some((own, map))
    }

    /// How many chunks the array's writer counted, if this crate wrote it and came to its end. A volume, and what was
    /// repacked from one, have that number without being known for this writer's own.
    pub(super) fn counted_chunks(&self) -> Option<u64> {
        if !self.is_image() {
            return None;
        }
        let (_, attributes) = self.said().ok().flatten()?;
        provenance::counted_chunks(&attributes)
    }

    fn has_files_within(&self, start: &[u64], shape: &[u64]) -> Result<bool> {
        let (first, counts) = cells(start, shape, &self.layout().file_shape);
        let is_inside = |position: &&Vec<u64>| {
            position
                .iter()
                .zip(first.iter().zip(&counts))
                .all(|(at, (first, count))| (*first..first + count).contains(at))
        };
        let expected = counts.iter().copied().fold(1, u64::saturating_mul);
        Ok(self.file_positions()?.iter().filter(is_inside).count() as u64 == expected)
    }

    /// Chunks that the file at a position names, wherever they belong.
    fn named_chunks(&self, position: &[u64]) -> Result<u64> {
        let Some(file) = self.open_file(position)? else { return Ok(0) };
        if !self.layout().has_index() {
            return Ok(1);
        }
        let index = self.read_index(&file, position, None)?;
        match index.broken().next() {
            Some(reason) => Err(Error::format(file.path(), reason.as_str())),
            None => Ok(index.entries().count() as u64),
        }
    }

    /// Refuses a format without words for the bits of a NaN, where chunks are not there and read as such a one.
    pub(super) fn refuse_without_bits(&self, format: &str) -> Result<()> {
        let (metadata, layout) = (self.metadata(), self.layout());
        if fill_value::is_as_told(metadata.dtype, &metadata.fill) {
            return Ok(());
        }
        let there = self.all_chunk_positions()?.into_iter().flatten().filter(|place| layout.has_chunk(place)).count();
        let absent = product(&layout.chunk_grid()).map_or(u64::MAX, |all| all.saturating_sub(there as u64));
        if absent == 0 {
            return Ok(());
        }
        let reason = format!(
            "its fill value is a NaN with bits of its own, for which {format} has no words, and {} not there, whose \
             pixels would read as a plain one; zarr3 has words for them",
            count_that(absent, "chunk", IS)
        );
        Err(Error::unsupported(self.path(), reason))
    }

    /// The places of all chunks that are there, file by file.
    pub(super) fn all_chunk_positions(&self) -> Result<Vec<Vec<Vec<u64>>>> {
        self.file_positions()?.par_iter().map(|position| self.chunk_positions(position)).collect()
    }

    /// The places of the chunks that the file at a position names, in the grid of chunks.
    pub(super) fn chunk_positions(&self, position: &[u64]) -> Result<Vec<Vec<u64>>> {
        let Some(file) = self.open_file(position)? else { return Ok(Vec::new()) };
        if !self.layout().has_index() {
            return Ok(vec![position.to_vec()]);
        }
        let index = self.read_index(&file, position, None)?;
        Ok(index.entries().filter_map(|(entry, _)| self.layout().chunk_at(position, entry)).collect())
    }
}
