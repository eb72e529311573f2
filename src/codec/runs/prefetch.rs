//! What is read next, asked for while something else is computed.

use super::masks::WORD;

/// The memory that the next block comes from, one address for each word of a mask.
///
/// With each word that is compared one of them is asked for, so that memory brings the next block while this one is
/// computed. Asked for all at once they would wait for each other, and the processor for them.
pub(super) struct PrefetchList(Box<[usize]>);

impl PrefetchList {
    /// For blocks of at most `block_bytes` bytes.
    pub(super) fn new(block_bytes: usize) -> Self {
        Self(vec![0; block_bytes.div_ceil(WORD)].into())
    }

    /// Remembers the pieces of memory that `show` shows.
    pub(super) fn look_at(&mut self, show: impl FnOnce(&mut dyn FnMut(&[u8]))) {
        // To ask for what is in the cache costs nothing.
        let near = self.0.as_ptr() as usize;
        let mut places = self.0.iter_mut();
        show(&mut |piece| {
            let lines = piece.chunks(WORD).map(|line| line.as_ptr() as usize);
            lines.zip(places.by_ref()).for_each(|(line, place)| *place = line);
        });
        places.for_each(|place| *place = near);
    }

    pub(super) fn lines(&self) -> &[usize] {
        &self.0
    }
}
