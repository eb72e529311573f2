//! A file of an array that is repacked.

use std::path::PathBuf;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::format::index::Range;
use crate::offline::array::Array;
use crate::offline::array::index::Index;
use crate::offline::array::shard_file::ShardFile;

/// A position of the source and the file that was found there, if there was one.
pub(super) type Remembered = (Vec<u64>, Option<Arc<SourceFile>>);

/// A file of the source, and where its chunks lie in it.
#[derive(Debug)]
pub(super) struct SourceFile {
    pub(super) path: PathBuf,
    pub(super) len: u64,
    /// It is opened again for its chunks, and must be the same then: see [`ShardFile::stamp`].
    stamp: (u64, (i64, i64)),
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
        let (path, len, stamp, whole) = (file.path().to_path_buf(), file.len(), file.stamp(), file.whole());
        Ok(Some(Self { path, len, stamp, whole, index }))
    }

    /// Opens it again. Another one that has its name by now is not the one whose index was read.
    pub(super) fn open_again(&self, source: &Array) -> Result<ShardFile> {
        let file = source.open_path(self.path.clone())?;
        file.filter(|file| file.stamp() == self.stamp).ok_or_else(|| Error::changed(&self.path))
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

#[cfg(all(test, not(miri)))]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

    #[test]
    fn another_file_of_its_name_is_not_taken_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let document = json!({
            "zarr_format": 3, "node_type": "array", "shape": [4], "data_type": "uint8", "fill_value": 0,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
            "chunk_key_encoding": {"name": "default"}, "codecs": [{"name": "bytes"}], "attributes": {},
        });
        fs::write(folder.path().join("zarr.json"), document.to_string()).unwrap();
        fs::create_dir(folder.path().join("c")).unwrap();
        let chunk = folder.path().join("c/0");
        fs::write(&chunk, "1234").unwrap();
        let array = Array::open(folder.path()).unwrap();
        let file = SourceFile::open(&array, &[0]).unwrap().unwrap();
        assert_eq!(file.open_again(&array).unwrap().len(), 4);
        // As long as the first one.
        std::thread::sleep(std::time::Duration::from_millis(20));
        fs::write(folder.path().join("new"), "5678").unwrap();
        fs::rename(folder.path().join("new"), &chunk).unwrap();
        let told = file.open_again(&array).unwrap_err();
        assert!(matches!(told, Error::Conflict { .. }), "{told}");
        fs::remove_file(&chunk).unwrap();
        assert!(file.open_again(&array).unwrap_err().to_string().contains("changed while it was read"));
    }
}
