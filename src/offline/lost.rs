//! Whether an array has the chunks that its writer counted: of one that lost some, no copy may look whole.

use rayon::prelude::*;

use super::array::Array;
use crate::error::{Error, Result};
use crate::format::provenance::ATTRIBUTE;

impl Array {
    /// What to say where the box of `shape` elements from `start` may lack chunks that were written: files of it are
    /// not there, and the array has fewer chunks than its writer counted. They read as the fill value.
    ///
    /// `None` where nothing is lost, or this crate's writer has counted nothing.
    ///
    /// # Errors
    ///
    /// When a folder can't be listed, or an index can't be read.
    pub fn lost_within(&self, start: &[u64], shape: &[u64]) -> Result<Option<String>> {
        if self.counted_chunks().is_none() || (self.layout().has_boxes() && self.has_files_within(start, shape)?) {
            return Ok(None);
        }
        self.lost()
    }

    /// The same of the whole array, and also where files are there and lack chunks.
    pub(super) fn lost(&self) -> Result<Option<String>> {
        let Some(counted) = self.counted_chunks() else { return Ok(None) };
        let positions = self.file_positions()?;
        let named = positions.par_iter().map(|position| self.named_chunks(position));
        let found = named.try_reduce(|| 0, |one, other| Ok(one + other))?;
        let reason = format!("holds {found} chunks, and its writer counted {counted}: files are missing");
        Ok((found < counted).then_some(reason))
    }

    /// How many chunks the array's writer counted, if this crate wrote it and came to its end.
    fn counted_chunks(&self) -> Option<u64> {
        // What a group says is about its image, not about the levels beside that.
        let is_image = self.attributes().get(ATTRIBUTE).is_some() || self.path().ends_with("0");
        // What is no provenance of this crate says nothing of chunks.
        let own = self.provenance().ok().flatten().filter(|own| is_image && (own.complete || own.recovered));
        own.and_then(|own| own.chunks)
    }

    /// Whether all files of a box are there.
    fn has_files_within(&self, start: &[u64], shape: &[u64]) -> Result<bool> {
        let file = &self.layout().file_shape;
        let places = start.iter().zip(shape).zip(file);
        let bounds: Vec<_> = places.map(|((&start, &n), file)| start / file..(start + n).div_ceil(*file)).collect();
        let is_inside = |position: &&Vec<u64>| position.iter().zip(&bounds).all(|(at, bounds)| bounds.contains(at));
        let expected = bounds.iter().map(|bounds| bounds.end - bounds.start).fold(1, u64::saturating_mul);
        Ok(self.file_positions()?.iter().filter(is_inside).count() as u64 == expected)
    }

    /// Chunks that the file at a position names, wherever they belong.
    fn named_chunks(&self, position: &[u64]) -> Result<u64> {
        let Some((file, _)) = self.open_file(position)? else { return Ok(0) };
        if !self.layout().has_index() {
            return Ok(1);
        }
        let index = self.read_index(&file, position, None)?;
        match index.broken().next() {
            Some(reason) => Err(Error::format(file.path(), reason.as_str())),
            None => Ok(index.entries().count() as u64),
        }
    }
}
