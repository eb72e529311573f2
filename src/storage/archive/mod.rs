//! A dataset in one file: a ZIP archive that grows while frames come.
//!
//! ```text
//! | documents | shard | documents | shard | … | directory, end |          at each moment
//! ```
//!
//! Every part begins on a page. The room of a shard, whose size has a bound that is known, is got when it is created,
//! or before, with the directory of that moment behind it: whatever makes the file longer is one growth that ends with
//! a whole directory, and is as long as that at least. So readers can open the archive while it is written, and after a
//! kill. A document is replaced by another entry of its name, which the next directory names; the room of the old one
//! is used again when no recent directory needs it.
//!
//! A directory is written where a folder's documents would be: at the start, when a checkpoint or the end has brought
//! them up to date. It says of an open shard what the last checkpoint of that shard made of it. Its CRC-32 there is the
//! one of that moment; a closed shard's is right for good.

mod blob;
mod file;
#[cfg(feature = "offline")]
mod resume;
mod settle;
mod space;
mod table;
mod view;

pub(crate) use file::Archive;
#[cfg(feature = "offline")]
pub(crate) use resume::FoundEntry;
pub(crate) use view::ArchiveView;
