//! The lifecycle of one acquisition: create, acquire, commit, finish, abort.

use std::path::Path;

use crate::config::Config;
use crate::error::{Error, Result};
use crate::stats::{Stats, Summary};

/// A dataset on disk that acquisitions write into: one image at its root, or several named ones.
pub struct Dataset {}

impl Dataset {
    /// Creates a dataset for several images.
    pub fn create(path: impl AsRef<Path>, overwrite: bool) -> Result<Self> {
        let _ = (path, overwrite);
        Err(Error::Ended)
    }

    /// Starts the acquisition of the image `name`.
    pub fn acquisition(&self, name: &str, config: Config) -> Result<Acquisition> {
        let _ = (name, config);
        Err(Error::Ended)
    }
}

/// One running acquisition.
pub struct Acquisition {}

/// What an `append` did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// Frames taken.
    pub frames: u64,
    /// Frames let go because the ring was full.
    pub dropped: u64,
}

/// What the instrument says about one frame.
#[derive(Debug, Clone, Copy, Default)]
pub struct Record {
    /// The device's own time stamp, in whatever unit the device counts.
    pub device_timestamp: Option<u64>,
}

impl Record {
    /// Sets the value of a record field by its place in [`Config::record_fields`].
    pub fn set(&mut self, field: usize, value: f64) {
        let _ = (field, value);
    }
}

/// A frame buffer on loan. Dropping it gives it back unused.
pub struct FrameMut {}

impl FrameMut {
    /// The bytes to fill.
    pub fn bytes(&mut self) -> &mut [u8] {
        &mut []
    }

    /// Hands the frame to the workers.
    pub fn commit(self, number: u64, record: Record) -> Result<()> {
        let _ = (number, record);
        Err(Error::Ended)
    }

    /// Gives the buffer back unused.
    pub fn discard(self) {}
}

impl Acquisition {
    /// Creates the dataset `path` with one image and starts its acquisition.
    pub fn create(path: impl AsRef<Path>, config: Config) -> Result<Self> {
        let _ = (path, config);
        Err(Error::Ended)
    }

    /// Loans a free frame buffer.
    pub fn acquire(&self) -> Result<FrameMut> {
        Err(Error::Ended)
    }

    /// Copies one or several whole frames, which follow each other without gaps, and commits them with the next numbers.
    pub fn append(&self, pixels: &[u8]) -> Result<Appended> {
        let _ = pixels;
        Err(Error::Ended)
    }

    /// Sets a user attribute of the image; it is in the dataset after the next progress or at finish.
    pub fn set_attribute(&self, key: &str, value: serde_json::Value) -> Result<()> {
        let _ = (key, value);
        Err(Error::Ended)
    }

    /// Bytes of one frame.
    pub fn frame_bytes(&self) -> usize {
        0
    }

    /// Counters of this moment.
    pub fn stats(&self) -> Stats {
        Stats::default()
    }

    /// Waits for all frames, closes the shards, completes the documents.
    pub fn finish(self) -> Result<Summary, Box<Unfinished>> {
        Err(Box::new(Unfinished { summary: None, error: Error::Ended }))
    }

    /// Stops at once: frames still in the ring are lost, what is in its slots is closed properly and stays readable.
    pub fn abort(self) {}
}

/// A run that ended with an error: what was saved, and what went wrong first.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{error}")]
pub struct Unfinished {
    /// What the run did all the same.
    pub summary: Option<Summary>,
    /// The first error.
    #[source]
    pub error: Error,
}
