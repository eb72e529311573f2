//! What a recovery tells.

use std::ops::Range;
use std::path::PathBuf;

use serde::Serialize;

use crate::named::named;

/// What a recovery found, and what it did or would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Recovery {
    /// Whether the changes were made, rather than only found.
    pub applied: bool,
    /// The images that this crate's writer made.
    pub images: Vec<ImageRecovered>,
    /// Documents that change, and files of frame numbers, below the root; and a word of an archive's directory, if that
    /// changes.
    pub documents: Vec<String>,
    /// Files that a writer had begun and not given their name, below the root. They are removed.
    pub partial: Vec<String>,
    /// Datasets beside this one that it was to replace. They stay.
    pub replaced: Vec<PathBuf>,
    /// What to do about these, as sentences.
    pub notes: Vec<String>,
}

/// What becomes of one image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ImageRecovered {
    /// The path of its array below the root.
    pub path: String,
    /// The array's shape as the document had it.
    pub shape_before: Vec<u64>,
    /// The array's shape.
    pub shape: Vec<u64>,
    /// One past the highest frame number that is known of, or past the last place of its stack or volume, if it lies in
    /// one.
    pub frames: u64,
    /// How many frames below that are missing, wholly or in part.
    pub frames_missing: u64,
    /// Their numbers, as the first 10,000 ranges.
    pub missing: Vec<Range<u64>>,
    /// Of a level of a pyramid, how many frames it lacked that level 0 has: they are made of the level before, and not
    /// missing any more.
    pub frames_made: u64,
    /// Of a level that lacks frames which level 0 has, and can't get them here, what to do, as a sentence.
    pub behind: Option<String>,
    /// Chunks whose header and payload agree. All of them are readable afterwards, and nothing else.
    pub chunks: u64,
    /// How many of these no index named.
    pub chunks_salvaged: u64,
    /// Chunks that an index named, but whose header and payload don't agree.
    pub chunks_dropped: u64,
    /// Whole chunks of a level of a pyramid that an index named, but whose frames level 0 lacks: of a run that did not
    /// come to its end, no level has more than level 0.
    pub chunks_ahead: u64,
    /// Chunks that were begun and never finished, or damaged since.
    pub chunks_torn: u64,
    /// What is lost of an image whose writer came to its end, as a sentence: nothing brings it back.
    pub lost: Option<String>,
    /// Shards that change or could not be dealt with.
    pub shards: Vec<ShardRecovered>,
}

/// What becomes of one shard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ShardRecovered {
    /// The file, below the root.
    pub path: String,
    /// What becomes of it.
    pub action: ShardAction,
    /// Chunks that the index named before; `None` if it was unreadable.
    pub chunks_before: Option<u64>,
    /// Chunks that it names.
    pub chunks: u64,
    /// Why, where that is not plain.
    pub reason: Option<String>,
}

/// What becomes of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShardAction {
    /// It gets a new index, and the space that is not needed is given back.
    NewIndex,
    /// It is removed: nothing was ever committed to it, or nothing is left of it, which the reason says then.
    Remove,
    /// It can't be dealt with, and stays as it is.
    Leave,
}

named!(ShardAction, "action", {
    NewIndex => "new-index",
    Remove => "remove",
    Leave => "leave",
});

impl Recovery {
    /// Whether anything had to be changed.
    pub fn is_needed(&self) -> bool {
        let changes = |image: &ImageRecovered| image.shards.iter().any(|shard| shard.action != ShardAction::Leave);
        let makes = |image: &ImageRecovered| changes(image) || image.frames_made > 0;
        !self.documents.is_empty() || !self.partial.is_empty() || self.images.iter().any(makes)
    }
}
