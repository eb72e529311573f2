//! Which on-disk format: the names of shards and the documents beside them.

pub(crate) mod volume;
pub(crate) mod zarr3;
