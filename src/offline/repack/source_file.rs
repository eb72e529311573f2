//! A file of an array that is repacked.

use std::path::PathBuf;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::format::index::Range;
use crate::offline::array::Array;
use crate::offline::array::index::Index;

/// A position of the source and the file that was found there, if there was one.
pub(super) type Remembered = (Vec<u64>, Option<Arc<SourceFile>>);

/// A file of the source, and where its chunks lie in it.
#[derive(Debug)]
pub(super) struct SourceFile {
    pub(super) path: PathBuf,
    pub(super) len: u64,
    whole: Range,
    /// None where the file is a chunk, or part of it is.
    pub(super) index: Option<Index>,
}

impl SourceFile {
    pub(super) fn open(source: &Array, position: &[u64]) -> Result<Option<Self>> {
        let Some(file) = source.open_file(position)? else { return Ok(None) };
        let index = source.layout().has_index().then(|| source.read_index(&file, position, None)).transpose()?;
        // Who copies chunks must not leave one out silently.
        if let Some(reason) = index.iter().flat_map(Index::broken).next() {
            return Err(Error::format(file.path(), reason));
        }
        index.iter().try_for_each(|index| index.refuse_overlaps(&file))?;
        Ok(Some(Self { path: file.path().to_path_buf(), len: file.len(), whole: file.whole(), index }))
    }

    pub(super) fn range(&self, entry: u64) -> Result<Option<Range>> {
        let Some(index) = &self.index else { return Ok(Some(self.whole)) };
        index.entry(entry).map_err(|reason| Error::format(&self.path, reason))
    }

    /// Chunks that it names, wherever they belong.
    pub(super) fn chunks(&self) -> usize {
        self.index.as_ref().map_or(1, |index| index.entries().count())
    }
}
