//! Chunks of a shard that is being filled, for whoever looks at it meanwhile.

use super::file::Shard;
use crate::error::Result;

impl Shard {
    /// Reads an encoded chunk; false if there is none.
    pub(crate) fn read_chunk(&self, chunk: usize, encoded: &mut Vec<u8>) -> Result<bool> {
        let Some((offset, nbytes)) = self.entries[chunk].committed() else { return Ok(false) };
        encoded.resize(nbytes as usize, 0);
        self.blob.read_at(offset, encoded).map_err(self.failed("read a chunk of shard"))?;
        Ok(true)
    }
}
