//! How bytes reach a file: one small seam, so that a disk, a memory map, a test and a caller's own device look alike.

mod directory;
mod file;
mod memory;
mod new_names;
mod seam;
pub(crate) mod trial;

pub(crate) use directory::{Directory, DiskReserve};
pub use memory::Memory;
#[cfg(feature = "capi")]
pub(crate) use seam::PUTS_AT_ONCE;
pub(crate) use seam::WRITES_AT_ONCE;
pub use seam::{Blob, Mapped, Storage};
pub(crate) use trial::StorageSpeed;
pub use trial::{StorageTrial, storage_rates};
