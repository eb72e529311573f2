//! Which of the numbers in a window that moves are marked.

/// One bit a number.
pub(super) struct Window {
    bits: Box<[u64]>,
}

impl Window {
    pub(super) fn new(numbers: u64) -> Self {
        Self { bits: vec![0; numbers.next_power_of_two().max(64) as usize / 64].into() }
    }

    fn place(&self, number: u64) -> (usize, u64) {
        ((number / 64) as usize & (self.bits.len() - 1), 1 << (number % 64))
    }

    pub(super) fn set(&mut self, number: u64) {
        let (word, bit) = self.place(number);
        self.bits[word] |= bit;
    }

    /// Whether the number, of which there are places from `start` on, has its bit set.
    #[cfg(feature = "offline")]
    pub(super) fn has(&self, number: u64, start: u64) -> bool {
        let (word, bit) = self.place(number);
        number - start < 64 * self.bits.len() as u64 && self.bits[word] & bit != 0
    }

    /// Whether the number's bit was set; it is clear afterwards.
    pub(super) fn take(&mut self, number: u64) -> bool {
        let (word, bit) = self.place(number);
        let was = self.bits[word] & bit != 0;
        self.bits[word] &= !bit;
        was
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_forgets_what_was_taken() {
        let mut window = Window::new(100);
        window.set(130);
        assert!(!window.take(3));
        assert!(window.take(130));
        assert!(!window.take(130));
        window.set(130 + 128);
        assert!(window.take(258));
    }
}
