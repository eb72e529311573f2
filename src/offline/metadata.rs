//! What a document says about an array, checked: every product fits, every chunk divides its file.

use std::path::Path;

use serde_json::Value;

use super::chain::Chain;
use super::shard_file::IndexLayout;
use super::volume::Volume;
use crate::config::{Dialect, IndexLocation};
use crate::dtype::Dtype;
use crate::error::{Error, Result};

pub(super) const DIMENSIONS_MAX: usize = 32;
/// The most bytes that one decoded chunk may have.
pub(super) const CHUNK_BYTES_MAX: u64 = 4 << 30;

/// An array as its document describes it.
#[derive(Debug, Clone)]
pub(super) struct Metadata {
    pub(super) dialect: Dialect,
    pub(super) shape: Vec<u64>,
    pub(super) dtype: Dtype,
    pub(super) names: Option<Vec<String>>,
    /// Elements of one file in each dimension: of a shard, or of a chunk where there are no shards.
    pub(super) file_shape: Vec<u64>,
    /// Elements of one chunk in each dimension.
    pub(super) chunk_shape: Vec<u64>,
    pub(super) sharding: Option<Sharding>,
    pub(super) chain: Chain,
    /// One element, as it lies in memory.
    pub(super) fill: Vec<u8>,
    pub(super) keys: KeyEncoding,
    pub(super) attributes: Value,
    /// The manifest of the storage transformer `chunk-manifest-json`: its path, or the manifest itself.
    pub(super) manifest: Option<Value>,
    /// How the chunks of a precomputed volume are dealt out to files.
    pub(super) volume: Option<Volume>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Sharding {
    pub(super) location: IndexLocation,
    pub(super) checksum: bool,
}

/// How a file's position in the grid becomes its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeyEncoding {
    pub(super) prefix: Prefix,
    pub(super) separator: char,
}

/// What stands before the numbers of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Prefix {
    /// `0/0`.
    Nothing,
    /// `c/0/0`.
    Part,
    /// `c0/0`.
    Letter,
}

impl KeyEncoding {
    /// The path of a file below its array.
    pub(super) fn key(self, position: &[u64]) -> String {
        let numbers: Vec<_> = position.iter().map(u64::to_string).collect();
        let numbers = numbers.join(&self.separator.to_string());
        match (self.prefix, position.is_empty()) {
            (Prefix::Part, true) => "c".to_owned(),
            (Prefix::Part, false) => format!("c{}{numbers}", self.separator),
            (Prefix::Letter, true) => "c0".to_owned(),
            (Prefix::Letter, false) => format!("c{numbers}"),
            (Prefix::Nothing, true) => "0".to_owned(),
            (Prefix::Nothing, false) => numbers,
        }
    }

    /// The position that has this key, if any.
    pub(super) fn position(self, key: &str, dimensions: usize) -> Option<Vec<u64>> {
        let position: Vec<u64> = if dimensions == 0 {
            Vec::new()
        } else {
            let numbers = match self.prefix {
                Prefix::Nothing => key,
                Prefix::Letter => key.strip_prefix('c')?,
                Prefix::Part => key.strip_prefix('c')?.strip_prefix(self.separator)?,
            };
            numbers.split(self.separator).map(|number| number.parse().ok()).collect::<Option<_>>()?
        };
        // Only the one spelling counts: `+1` and `01` parse as well.
        (position.len() == dimensions && self.key(&position) == key).then_some(position)
    }
}

impl Metadata {
    /// Checks what the parsers of documents took over as it stood.
    pub(super) fn check(self, path: &Path) -> Result<Self> {
        let dimensions = self.shape.len();
        let refused = |reason: String| Err(Error::format(path, reason));
        if dimensions > DIMENSIONS_MAX {
            return refused(format!("{dimensions} dimensions; at most {DIMENSIONS_MAX} are read"));
        }
        for (what, shape) in [("chunk_shape", &self.chunk_shape), ("the shape of a file", &self.file_shape)] {
            if shape.len() != dimensions || shape.contains(&0) {
                return refused(format!("{what} is {shape:?}; expected {dimensions} numbers above 0"));
            }
        }
        if self.file_shape.iter().zip(&self.chunk_shape).any(|(file, chunk)| file % chunk != 0) {
            return refused(format!("chunks of {:?} don't divide shards of {:?}", self.chunk_shape, self.file_shape));
        }
        if self.names.as_ref().is_some_and(|names| names.len() != dimensions) {
            return refused(format!("dimension_names has not {dimensions} entries"));
        }
        match bytes(&self.chunk_shape, self.dtype) {
            Some(bytes) if bytes <= CHUNK_BYTES_MAX => {}
            _ => return refused(format!("chunks of {:?} are over {CHUNK_BYTES_MAX} bytes", self.chunk_shape)),
        }
        if product(&self.shape).is_none() {
            return refused(format!("shape {:?} has more than 2^64 elements", self.shape));
        }
        self.index_layout(path)?;
        Ok(self)
    }

    /// How the table of a shard looks; `None` without shards, and for volumes, whose shards have no table.
    pub(super) fn index_layout(&self, path: &Path) -> Result<Option<IndexLayout>> {
        let (Some(sharding), None) = (self.sharding, &self.volume) else { return Ok(None) };
        let chunks = product(&self.chunks_per_file());
        let layout = chunks.and_then(|chunks| IndexLayout::new(chunks, sharding.location, sharding.checksum));
        layout.map(Some).ok_or_else(|| {
            let reason = format!("shards of {:?} hold too many chunks of {:?}", self.file_shape, self.chunk_shape);
            Error::format(path, reason)
        })
    }

    pub(super) fn chunks_per_file(&self) -> Vec<u64> {
        self.file_shape.iter().zip(&self.chunk_shape).map(|(file, chunk)| file / chunk).collect()
    }

    /// Bytes of one decoded chunk.
    pub(super) fn chunk_bytes(&self) -> usize {
        bytes(&self.chunk_shape, self.dtype).and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(usize::MAX)
    }
}

/// The number of elements, if a `u64` holds it.
pub(super) fn product(shape: &[u64]) -> Option<u64> {
    // A zero anywhere makes the array empty, whatever the other lengths would give.
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1u64, |product, &length| product.checked_mul(length))
}

pub(super) fn bytes(shape: &[u64], dtype: Dtype) -> Option<u64> {
    product(shape)?.checked_mul(dtype.size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_back() {
        let cases = [
            (KeyEncoding { prefix: Prefix::Part, separator: '/' }, "c/0/12", "c"),
            (KeyEncoding { prefix: Prefix::Part, separator: '.' }, "c.0.12", "c"),
            (KeyEncoding { prefix: Prefix::Letter, separator: '/' }, "c0/12", "c0"),
            (KeyEncoding { prefix: Prefix::Letter, separator: '.' }, "c0.12", "c0"),
            (KeyEncoding { prefix: Prefix::Nothing, separator: '.' }, "0.12", "0"),
            (KeyEncoding { prefix: Prefix::Nothing, separator: '/' }, "0/12", "0"),
        ];
        for (keys, key, scalar) in cases {
            assert_eq!(keys.key(&[0, 12]), key);
            assert_eq!(keys.position(key, 2), Some(vec![0, 12]));
            assert_eq!(keys.key(&[]), scalar);
            assert_eq!(keys.position(scalar, 0), Some(vec![]));
            assert_eq!(keys.position(&format!("{key}.tmp"), 2), None);
            assert_eq!(keys.position(&key.replace("12", "012"), 2), None);
            assert_eq!(keys.position(&key.replace("12", "+1"), 2), None);
            assert_eq!(keys.position(key, 3), None);
        }
    }
}
