//! What can be compared and chosen from, whether one pixel or many.

use std::ops::{BitAnd, BitOr};

use super::pixel::Pixel;

/// A pixel, or as many as a vector holds, each by itself.
pub(super) trait Value: Copy {
    type Mask: Copy + BitAnd<Output = Self::Mask> + BitOr<Output = Self::Mask>;

    /// The lesser one first, NaNs last.
    fn ordered(first: Self, second: Self) -> (Self, Self);
    /// Whether they are equal. NaNs are all one value.
    fn same(first: Self, second: Self) -> Self::Mask;
    fn pick(mask: Self::Mask, then: Self, otherwise: Self) -> Self;
    /// The mean of two, rounded as that of more.
    fn middle(first: Self, second: Self) -> Self;
    /// This one, or the other where that is a NaN.
    fn unless_nan(self, other: Self) -> Self;
}

impl<P: Pixel> Value for P {
    type Mask = bool;

    #[inline(always)]
    fn ordered(first: Self, second: Self) -> (Self, Self) {
        let swapped = second < first || first.is_nan();
        (if swapped { second } else { first }, if swapped { first } else { second })
    }

    #[inline(always)]
    fn same(first: Self, second: Self) -> bool {
        (first == second) | (first.is_nan() & second.is_nan())
    }

    #[inline(always)]
    fn pick(mask: bool, then: Self, otherwise: Self) -> Self {
        if mask { then } else { otherwise }
    }

    #[inline(always)]
    fn middle(first: Self, second: Self) -> Self {
        P::middle(first, second)
    }

    #[inline(always)]
    fn unless_nan(self, other: Self) -> Self {
        if other.is_nan() { other } else { self }
    }
}
