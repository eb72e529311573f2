//! The tables that make a shard readable, one form a family of dialects, encoded and decoded side by side.

pub(crate) mod minishards;
pub(crate) mod table;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) offset: u64,
    pub(crate) nbytes: u64,
}

/// An index that was put together: its parts before and behind the chunks.
#[derive(Debug, Default)]
pub(crate) struct Encoded {
    pub(crate) head: Vec<u8>,
    pub(crate) tail: Vec<u8>,
    pub(crate) tail_at: u64,
}

impl Encoded {
    /// Its parts with their places in the file. What the head points at has to be there before it.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (u64, &[u8])> {
        [(self.tail_at, &self.tail[..]), (0, &self.head[..])].into_iter().filter(|(_, part)| !part.is_empty())
    }

    /// Where the file ends, if no chunk ends behind the place of the tail.
    pub(crate) fn file_end(&self) -> u64 {
        (self.tail_at + self.tail.len() as u64).max(self.head.len() as u64)
    }
}
