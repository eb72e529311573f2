//! A high-throughput acquisition writer for instrument data.

mod acquisition;
pub mod codec;
mod config;
mod dtype;
mod error;
pub mod offline;
// The acquisition writes these documents.
#[allow(dead_code)]
mod ome;
mod stats;
mod storage;

pub use acquisition::{Acquisition, Appended, Dataset, FrameMut, Record, Unfinished};
pub use config::{
    BloscCname, Channel, Codec, Compressor, Config, Dim, DimKind, FrameLayout, IndexLocation, Placement, RecordField,
    RingFull, Shuffle, StorageKind,
};
pub use dtype::Dtype;
pub use error::{Error, RefusedNumber, Result};
pub use stats::{Stage, StageLatency, Stats, Summary};
pub use storage::{Blob, Storage};
