//! Everything after the run: reading and looking at datasets, whoever wrote them. What bytes mean is said once, for the
//! writer as well; tests with readers that others wrote find the mistakes of both.
//!
//! Nothing that is read is trusted: documents have a bounded size, sums are checked, index entries must lie inside
//! their file, and every allocation follows from a size that was checked before.

mod answers;
pub(crate) mod array;
mod axes;
mod describe;
mod export;
#[cfg(fuzzing)]
#[allow(missing_docs)]
pub mod fuzzing;
mod halving;
mod hierarchy;
mod layers;
mod levels;
mod lost;
mod manifest;
mod not_fetched;
mod notes;
mod ome_xml;
mod parts;
mod progress;
mod promises;
mod pyramid;
mod ranges;
mod recover;
mod repack;
mod scan;
mod shared_records;
mod stale;
pub mod store;
mod tasks;
mod unfinished_parts;
mod verify;

#[doc(inline)]
pub use crate::downsample::Method as PyramidMethod;
pub use crate::fs::links::follow_links_anywhere;
pub use array::Array;
pub use array::manifest::follow_manifests_anywhere;
pub use axes::Axis;
pub use describe::{ArrayDescription, Description, Unreadable, describe};
pub use hierarchy::central::is_dataset;
pub(crate) use manifest::check_manifest_place;
pub use manifest::{ManifestOptions, ManifestSummary, WriteManifest, manifest_path};
pub use parts::{FinishParts, FinishPartsOptions, PartFinished, PartState, PartsFinished};
pub use progress::Progress;
pub use pyramid::{Depth, Pyramid, PyramidLevel, PyramidOptions, PyramidSummary};
pub use recover::{ImageRecovered, Recover, RecoverOptions, Recovery, ShardAction, ShardRecovered};
pub use repack::{ChunkOrder, Repack, RepackOptions, RepackSummary, Sharding, SpaceCheck};
pub use store::{ByteRange, Listing, Store};
pub use tasks::{
    FinishTasks, RunTasks, TaskName, TaskOptions, TaskOutcome, TaskPlan, TaskReceipt, TasksReport, TasksSummary,
};
pub use verify::{ArrayVerified, Finding, Severity, Verification, Verify, VerifyOptions};

#[cfg(all(test, not(loom)))]
mod tests;
