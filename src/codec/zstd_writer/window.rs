//! Where the most frequent bytes are, for look-ups of 64 values at once.
// Not all vectors need to know how wide it is, and other processors have none.
#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]

use super::weights::{BITS_MAX, Lengths};

/// Bytes from `first` on, as many as a look-up of vectors knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) first: u8,
    pub(super) width: Width,
}

/// How many bytes a window has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    Narrow,
    Wide,
}

impl Width {
    const fn bytes(self) -> usize {
        match self {
            Self::Narrow => 64,
            Self::Wide => 128,
        }
    }
}

/// Of this many bytes, one may lie outside of a narrow window. Each of these costs a longer look-up of all that are
/// looked up with it, and a wrong guess of the processor.
const OUTSIDE: u32 = 64;
/// All bytes, in units of the longest code.
const ALL: u32 = 1 << BITS_MAX;

impl Window {
    /// The narrow window, if it has nearly all bytes, or the wide one that has the most. How often bytes are expected
    /// is what the lengths of a complete code say.
    pub(super) fn of(lengths: &Lengths) -> Self {
        let narrow = best(lengths, Width::Narrow);
        let (window, inside) = if (ALL - narrow.1) * OUTSIDE <= ALL { narrow } else { best(lengths, Width::Wide) };
        debug_assert!(inside <= ALL);
        window
    }
}

/// The first of the windows that have the most of all bytes, and how many those are.
fn best(lengths: &Lengths, width: Width) -> (Window, u32) {
    let share = |length: u8| if length > 0 { ALL >> length } else { 0 };
    let mut inside: u32 = lengths[..width.bytes()].iter().map(|length| share(*length)).sum();
    let mut best = (0, inside);
    for (before, (out, into)) in lengths.iter().zip(&lengths[width.bytes()..]).enumerate() {
        inside = inside - share(*out) + share(*into);
        if inside > best.1 {
            best = (before + 1, inside);
        }
    }
    (Window { first: best.0 as u8, width }, best.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A complete code whose bytes from `first` on have this many bits.
    fn lengths(first: usize, bits: &[u8]) -> Lengths {
        let mut lengths = [0; 256];
        lengths[first..first + bits.len()].copy_from_slice(bits);
        lengths
    }

    #[test]
    fn the_narrow_window_has_nearly_all() {
        for first in [0, 1, 100, 191, 192, 220, 240] {
            let window = Window::of(&lengths(first, &[4; 16]));
            assert_eq!(window.width, Width::Narrow);
            let within = usize::from(window.first)..usize::from(window.first) + 64;
            assert!(within.contains(&first) && within.contains(&(first + 15)) && within.end <= 256, "{window:?}");
        }
        // Two bytes of 2048 lie far away.
        let mut far = lengths(100, &[5; 31]);
        far[131..].fill(0);
        (131..136).zip([6, 7, 8, 9, 10]).for_each(|(byte, bits)| far[byte] = bits);
        (far[0], far[255]) = (11, 11);
        assert_eq!(Window::of(&far), Window { first: 72, width: Width::Narrow });
    }

    #[test]
    fn the_wide_window_has_the_most() {
        let mut two = lengths(10, &[5; 16]);
        two[100..116].fill(5);
        assert_eq!(Window::of(&two), Window { first: 0, width: Width::Wide });
        two[116..132].copy_from_slice(&[5; 16]);
        two[10..26].fill(0);
        assert_eq!(Window::of(&two), Window { first: 68, width: Width::Narrow });
        let flat = [8; 256];
        assert_eq!(Window::of(&flat), Window { first: 0, width: Width::Wide });
    }
}
