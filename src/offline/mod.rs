//! Everything after the run: reading and looking at datasets. Knows nothing of the engine that writes them, so that a
//! mistake there can't hide behind the same mistake here.
//!
//! Nothing that is read is trusted: documents have a bounded size, sums are checked, index entries must lie inside
//! their file, and every allocation follows from a size that was checked before.

mod chain;
mod describe;
mod document;
mod export;
mod fill;
mod manifest;
mod manifest_writer;
mod metadata;
mod places;
mod publish;
mod reader;
mod region;
mod repack;
mod shard_file;
mod tree;
mod zarr2;
mod zarr3;

pub use describe::{ArrayDescription, Description, describe};
pub use export::Axis;
pub use manifest_writer::{ManifestOptions, ManifestSummary, write_manifest};
pub use reader::Array;
pub use repack::{ChunkOrder, Repack, RepackHeadway, RepackOptions, RepackSummary};

#[cfg(all(test, not(loom)))]
mod tests;
