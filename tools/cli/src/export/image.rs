//! What is exported, and what takes its pixels.

use std::fs::File;
use std::io::{BufWriter, Write};

use shardwright::offline::Axis;
use shardwright::{Channel, ElementType};

use crate::failure::{Failure, Fault};
use shardwright::words::of_system;

/// What is exported: a box of an array and what is known of its dimensions.
pub(super) struct ExportedRegion {
    pub(super) start: Vec<u64>,
    pub(super) shape: Vec<u64>,
    pub(super) dtype: ElementType,
    pub(super) axes: Vec<Axis>,
    /// Names were given, not guessed.
    pub(super) named: bool,
    /// The image's name.
    pub(super) name: Option<String>,
    /// As many as the whole array has, or none.
    pub(super) channels: Vec<Channel>,
}

impl ExportedRegion {
    pub(super) fn bytes(&self) -> u64 {
        self.shape.iter().fold(self.dtype.size() as u64, |bytes, &length| bytes.saturating_mul(length))
    }
}

/// Takes the pixels of an image, in C order, little-endian, in pieces of any length.
pub(super) trait PixelSink {
    fn take(&mut self, bytes: &[u8]) -> Result<(), Failure>;

    /// Writes what is left.
    fn finish(self: Box<Self>) -> Result<(), Failure>;
}

pub(super) fn broken(error: &(dyn std::error::Error + 'static)) -> Failure {
    let io = std::iter::successors(Some(error), |error| error.source()).find_map(|error| error.downcast_ref());
    let fault = io.map_or(Fault::Failed, Fault::of_io);
    Failure::Known {
        fault,
        message: format!("can't be written: {}; nothing was left behind", of_system(error)),
        path: None,
    }
}

pub(super) fn flushed(mut file: BufWriter<File>) -> Result<(), Failure> {
    file.flush().map_err(|error| broken(&error))
}
