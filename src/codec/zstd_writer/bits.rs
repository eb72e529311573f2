//! Bitstreams that are read from their end.

/// Writes bits that a decoder reads backwards: what is put last is read first.
pub(super) struct BackwardBits<'a> {
    target: &'a mut [u8],
    at: usize,
    held: u64,
    count: u32,
    overflow: bool,
}

impl<'a> BackwardBits<'a> {
    pub(super) fn new(target: &'a mut [u8]) -> Self {
        Self { target, at: 0, held: 0, count: 0, overflow: false }
    }

    /// Puts the lowest `bits` bits of `value`, at most 32; those above must be zero.
    #[inline]
    pub(super) fn put(&mut self, value: u64, bits: u32) {
        debug_assert!(bits <= 32 && value >> bits == 0);
        self.held |= value << self.count;
        self.count += bits;
        if self.count >= 32 {
            self.flush();
        }
    }

    /// Moves whole bytes to the target.
    fn flush(&mut self) {
        let whole = (self.count / 8) as usize;
        match self.target.get_mut(self.at..self.at + whole) {
            Some(room) => room.copy_from_slice(&self.held.to_le_bytes()[..whole]),
            None => self.overflow = true,
        }
        self.at += whole;
        self.held = self.held.checked_shr(8 * whole as u32).unwrap_or(0);
        self.count %= 8;
    }

    /// Ends the stream with the bit that tells a decoder where it begins, and returns its bytes. `None`: they did not
    /// fit.
    pub(super) fn finish(mut self) -> Option<usize> {
        self.put(1, 1);
        self.count = self.count.next_multiple_of(8);
        self.flush();
        (!self.overflow).then_some(self.at)
    }
}
