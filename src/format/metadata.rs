//! What the document of an array says, whatever its form.

use std::path::Path;

use serde_json::Value;

use super::codecs::Chain;
use super::layout::{Layout, product};
use crate::dtype::ElementType;
use crate::error::{Error, Result};

/// The most bytes that one decoded chunk may have.
pub(crate) const CHUNK_BYTES_MAX: u64 = 4 << 30;

#[derive(Debug, Clone)]
pub(crate) struct Metadata {
    pub(crate) layout: Layout,
    pub(crate) dtype: ElementType,
    pub(crate) chain: Chain,
    /// One element, in little-endian byte order.
    pub(crate) fill: Vec<u8>,
    /// The document says `null` for it, as those of Zarr v2 may: what was never written reads as anything.
    pub(crate) is_fill_undefined: bool,
    pub(crate) attributes: Value,
    /// The manifest of the storage transformer `chunk-manifest-json`: its path, or the manifest itself.
    pub(crate) manifest: Option<Value>,
}

impl Metadata {
    /// Checks what a parser of the document at `path` took over as it stood.
    pub(crate) fn check(self, path: &Path) -> Result<Self> {
        // Limits of this reader: the array may be right.
        let refused = |reason: String| Err(Error::unsupported(path, reason));
        let Self { layout, dtype, .. } = &self;
        if bytes(&layout.chunk_shape, *dtype).is_none_or(|bytes| bytes > CHUNK_BYTES_MAX) {
            let chunk = &layout.chunk_shape;
            return refused(format!("chunks of {chunk:?} are over {CHUNK_BYTES_MAX} bytes; smaller ones are read"));
        }
        if product(&layout.shape).is_none() {
            return refused(format!("shape {:?} has more than 2^64 elements; fewer are read", layout.shape));
        }
        Ok(self)
    }

    pub(crate) fn chunk_bytes(&self) -> usize {
        let bytes = bytes(&self.layout.chunk_shape, self.dtype);
        bytes.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(usize::MAX)
    }
}

/// The bytes of a box of elements, if a `u64` holds their number.
pub(crate) fn bytes(shape: &[u64], dtype: ElementType) -> Option<u64> {
    product(shape)?.checked_mul(dtype.size() as u64)
}
