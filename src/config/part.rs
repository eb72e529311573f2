//! A part of an acquisition that several processes write, each on its own host.

use serde::{Deserialize, Serialize};

use crate::named::named;

/// Which part of the whole shards an acquisition writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Its number, from 0 on.
    pub index: u32,
    /// How many parts there are, as `create` was told.
    pub of: u32,
    /// How shards are divided among the parts.
    #[serde(default)]
    pub by: PartBy,
}

/// How the shards of an array are divided among several writers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum PartBy {
    /// Rows of shards along the first dimension are dealt out in turn: row b belongs to part b modulo the number of
    /// parts. So no part needs to know when the run ends, and all of them have as much to do at any time.
    #[default]
    Time,
    /// Each part has a band of the frame: columns of shards, or rows where there are fewer columns of shards than
    /// parts. Its frames are that band, and it gets all of them.
    Frame,
}

named!(PartBy, "part", {
    Time => "time",
    Frame => "frame",
});
