//! Everything after the run: reading and looking at datasets. Knows nothing of the engine that writes them, so that a
//! mistake there can't hide behind the same mistake here.
//!
//! Nothing that is read is trusted: documents have a bounded size, sums are checked, index entries must lie inside
//! their file, and every allocation follows from a size that was checked before.

mod describe;
mod export;
#[cfg(fuzzing)]
#[allow(missing_docs)]
pub mod fuzzing;
mod hosted;
mod index;
mod layers;
mod leftovers;
mod manifest;
mod manifest_writer;
mod memory;
mod nodes;
mod places;
mod ranges;
mod reader;
mod recover;
mod region;
mod repack;
mod scan;
mod shard_file;
pub mod store;
mod tree;
mod verify;

pub use crate::fs::links::follow_links_anywhere;
pub use describe::{ArrayDescription, Description, describe};
pub use export::Axis;
pub use manifest::follow_manifests_anywhere;
pub(crate) use manifest_writer::check_manifest_place;
pub use manifest_writer::{ManifestOptions, ManifestSummary, manifest_path, write_manifest};
pub use reader::Array;
pub use recover::{ImageRecovered, Recovery, ShardAction, ShardRecovered, recover};
pub use repack::{ChunkOrder, Repack, RepackHeadway, RepackOptions, RepackSummary};
pub use store::{ByteRange, Listing, Store};
pub use verify::{ArrayVerified, Finding, Severity, Verification, verify};

use std::path::Path;

/// Whether there is a group or an array at `path`, readable or not.
fn has_node(path: &Path) -> bool {
    ["zarr.json", ".zarray", ".zgroup"].iter().any(|name| path.join(name).is_file())
}

#[cfg(all(test, not(loom)))]
mod tests;
