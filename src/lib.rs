//! A high-throughput acquisition writer for instrument data: camera frames in, finished Zarr shards out.
//!
//! Frames are loaned from a ring of page-aligned buffers, filled in place, and committed under their number. Worker
//! threads cut them into tiles, encode these in parallel and write each into a slot of its own in a preallocated shard,
//! without waiting for each other. A finalizer creates shards ahead of need and closes full ones. The result is a Zarr
//! v3 dataset with the `sharding_indexed` codec and OME-Zarr 0.5 metadata, which readers can open from the first second
//! on.
//!
//! ```no_run
//! use shardwright::{Acquisition, Config, Dim, Record};
//! # fn camera_fill(_: &mut [u8]) {}
//!
//! let config = Config { dims: vec![Dim::time(None), Dim::y(2048), Dim::x(2048)], ..Config::default() };
//! let acquisition = Acquisition::create("run.ome.zarr", config)?;
//! for number in 0..1000 {
//!     let mut frame = acquisition.acquire()?;
//!     camera_fill(&mut frame);
//!     frame.commit(number, Record::default())?;
//! }
//! println!("{} frames written", acquisition.finish()?.frames_written);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`Acquisition`]: one run of one image. [`Dataset`]: several images at once.
//! - [`Config`]: dimensions, chunks, shards, codec, ring, policies; everything has a default but the dimensions.
//! - [`Storage`]: where the files go, if not into a folder.
//! - [`Dialect`]: the on-disk formats. [`guide::formats`]: what stands in their files, byte by byte.
#![cfg_attr(feature = "offline", doc = "- [`offline`]: reading datasets back.")]
//!
//! What a program may want to know of a run while it goes on is told to its `tracing` subscriber. One that panics loses
//! that line, and nothing else.
//!
//! # Features
//!
//! | feature | what it adds |
//! |---|---|
//! | `offline` (default) | the module `offline`: to read, check, recover and change finished datasets |
//! | `zarrs` | `offline::Store` as a storage of the crate `zarrs`: the traits of `zarrs_storage` 0.4; with `offline` |
//! | `capi` | the C interface of `include/shardwright.h` |
//! | `toml` | configurations of the C interface and of the command may be TOML, too |
//!
//! # Words
//!
//! A *layer* is the frames that one row of chunks needs: as many as a chunk is deep. A *tile* is a rectangle of a
//! layer; its encoded form is a *chunk*. A *slot* is the byte range in a shard that one chunk may fill.

// What reads the headers of slots, and other parts of the formats, stands beside what writes them.
#![cfg_attr(not(feature = "offline"), allow(dead_code))]

mod acquisition;
mod aligned_memory;
mod archive_file;
#[doc(hidden)]
pub mod codec;
mod config;
mod dataset;
#[doc(hidden)]
pub mod downsample;
mod dtype;
mod engine;
mod error;
mod events;
#[cfg(feature = "capi")]
pub mod ffi;
mod fnv;
mod folder;
mod format;
mod frame;
mod fs;
mod geometry;
mod json;
mod manifest;
mod named;
#[cfg(feature = "offline")]
pub mod offline;
mod ome;
#[doc(hidden)]
pub mod pixels;
mod plan;
mod processor;
mod record;
mod replaceable;
mod ring;
mod shard;
mod stats;
mod storage;
mod sync;
#[doc(hidden)]
pub mod words;

pub mod guide;

/// The examples of the README are compiled as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use acquisition::Acquisition;
pub use acquisition::append::Appended;
pub use acquisition::dataset::Dataset;
pub use acquisition::end::Unfinished;
pub use acquisition::parts::create_parts;
pub use aligned_memory::RingBuffers;
#[doc(hidden)]
pub use archive_file::refuse_archive_folder;
pub use config::{
    BloscCname, Channel, Codec, Compressor, Config, Depth, Dialect, Dim, DimKind, Downsampling, FillValue, FrameLayout,
    ImageLabel, IndexLocation, LabelColor, LabelProperties, ManifestForm, OmeVersion, Part, PartBy, PixelFormat,
    Placement, Plate, PlateAcquisition, RecordField, RingFull, Shuffle, StorageKind, Volume, VolumeHash,
};
pub use downsample::Method as PyramidMethod;
pub use dtype::{Dtype, Element, ElementType};
pub use error::{Error, ErrorKind, RefusedNumber, Result};
pub use events::{EventHandle, Events};
pub use frame::{FrameMut, FrameView, Uncommitted};
#[doc(hidden)]
pub use fs::OutputFile;
#[doc(hidden)]
pub use ome::units;
pub use pixels::{Flip, Orientation, Roi};
pub use record::{FieldValue, Record};
pub use stats::{LevelSummary, Stage, StageLatency, Stats, Summary};
pub use storage::{Blob, Mapped, Memory, Storage, StorageTrial, storage_rates};
