//! How bytes reach a file: one small seam, so that a disk, a memory map, a test and a caller's own device look alike.

mod archive;
mod directory;
mod file;
mod made_folders;
mod memory;
mod new_names;
mod own;
mod reserve;
mod seam;
pub(crate) mod trial;
mod window;

#[cfg(feature = "offline")]
pub(crate) use archive::FoundEntry;
pub(crate) use archive::{Archive, ArchiveView};
pub(crate) use directory::Directory;
pub use memory::Memory;
pub(crate) use own::OwnStorage;
pub(crate) use reserve::DiskReserve;
#[cfg(feature = "capi")]
pub(crate) use seam::PUTS_AT_ONCE;
pub(crate) use seam::WRITES_AT_ONCE;
pub use seam::{Blob, Mapped, Storage};
pub(crate) use trial::StorageSpeed;
pub use trial::{StorageTrial, storage_rates};
