//! A high-throughput acquisition writer for instrument data.

mod acquisition;
pub mod codec;
mod config;
mod dataset;
mod dialect;
mod dtype;
mod engine;
mod error;
mod geometry;
pub mod offline;
mod ome;
mod plan;
mod ring;
mod shard;
mod stats;
mod storage;
mod sync;

pub use acquisition::{Acquisition, Appended, FieldValue, FrameMut, Record, Unfinished};
pub use config::{
    BloscCname, Channel, Codec, Compressor, Config, Dim, DimKind, FrameLayout, IndexLocation, Placement, RecordField,
    RingFull, Shuffle, StorageKind,
};
pub use dataset::Dataset;
pub use dtype::Dtype;
pub use error::{Error, RefusedNumber, Result};
pub use stats::{Stage, StageLatency, Stats, Summary};
pub use storage::{Blob, Memory, Storage};
