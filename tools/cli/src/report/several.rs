//! What only a run of several images has to say.

use std::ops::Range;
use std::time::Duration;

use serde::Serialize;
use shardwright::LevelSummary;
use shardwright::words::count;

use crate::machine::ProcessUse;

/// All images, and what they share.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Several {
    pub(crate) images: Vec<ImageRow>,
    /// How many rings they have, each of which several may share.
    rings: usize,
    /// How long it took to create the dataset with all images, before the first frame.
    seconds_to_begin: f64,
    #[serde(flatten)]
    pub(crate) process: ProcessUse,
}

/// What of an image may differ from what the others are.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ImageRow {
    pub(crate) path: String,
    pub(crate) shape: Vec<u64>,
    pub(crate) levels: Vec<LevelSummary>,
    pub(crate) frames_written: u64,
    pub(crate) frames_missing: u64,
    pub(crate) frames_dropped: u64,
    pub(crate) missing: Vec<Range<u64>>,
}

impl Several {
    pub(crate) fn new(begun_in: Duration, rings: usize) -> Self {
        let (images, process) = (Vec::new(), ProcessUse::default());
        Self { images, rings, seconds_to_begin: begun_in.as_secs_f64(), process }
    }

    /// The lines of a table for people.
    pub(super) fn lines(&self) -> Vec<(&'static str, String)> {
        let (images, rings) = (count(self.images.len(), "image"), count(self.rings, "ring"));
        let mut lines = vec![("images", format!("{images} on {rings}, begun in {:.3} s", self.seconds_to_begin))];
        if let (Some(threads), Some(files)) = (self.process.threads, self.process.open_files) {
            let (threads, files) = (count(threads, "thread"), count(files, "open file"));
            lines.push(("process", format!("{threads} and {files} at most")));
        }
        lines
    }
}
