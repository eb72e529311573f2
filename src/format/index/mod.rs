//! The tables that make a shard readable, one form a family of dialects, encoded and decoded side by side.

pub(crate) mod minishards;
pub(crate) mod table;

/// A byte range of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) offset: u64,
    pub(crate) nbytes: u64,
}

/// The parts of an index, each with its place in the file in the order in which they are to be written, and where the
/// file ends.
#[derive(Debug)]
pub(crate) struct Encoded {
    pub(crate) parts: Vec<(u64, Vec<u8>)>,
    pub(crate) file_end: u64,
}

impl Encoded {
    /// `end`: where the chunks end.
    pub(crate) fn new(parts: Vec<(u64, Vec<u8>)>, end: u64) -> Self {
        let file_end = parts.iter().map(|(at, part)| at + part.len() as u64).max().unwrap_or(0).max(end);
        Self { parts, file_end }
    }
}
