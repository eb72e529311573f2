//! What becomes of the pixels that are reduced to one.

use super::pixel::Pixel;

/// Reduces 4 or 8 pixels to one: four of a plane, upper row first.
///
/// None of them tells a pixel from two that are equal, so that an edge that has no neighbour counts twice.
pub(super) trait Reduction {
    fn reduce<P: Pixel, const PLANES: usize>(planes: [[P; 4]; PLANES]) -> P;
}

pub(super) struct Mean;
pub(super) struct Min;
pub(super) struct Max;
pub(super) struct Decimate;
pub(super) struct Mode;
pub(super) struct Median;

impl Reduction for Mean {
    #[inline(always)]
    fn reduce<P: Pixel, const PLANES: usize>(planes: [[P; 4]; PLANES]) -> P {
        P::mean(&planes)
    }
}

impl Reduction for Min {
    #[inline(always)]
    fn reduce<P: Pixel, const PLANES: usize>(planes: [[P; 4]; PLANES]) -> P {
        fold(planes, |least, pixel| pixel < least)
    }
}

impl Reduction for Max {
    #[inline(always)]
    fn reduce<P: Pixel, const PLANES: usize>(planes: [[P; 4]; PLANES]) -> P {
        fold(planes, |greatest, pixel| pixel > greatest)
    }
}

impl Reduction for Decimate {
    #[inline(always)]
    fn reduce<P: Pixel, const PLANES: usize>(planes: [[P; 4]; PLANES]) -> P {
        planes[0][0]
    }
}

impl Reduction for Mode {
    #[inline(always)]
    fn reduce<P: Pixel, const PLANES: usize>(mut planes: [[P; 4]; PLANES]) -> P {
        let sorted = sort(planes.as_flattened_mut());
        let (mut mode, mut longest, mut run) = (sorted[0], 1_u8, 1_u8);
        for i in 1..sorted.len() {
            let is_equal = sorted[i] == sorted[i - 1] || sorted[i].is_nan() && sorted[i - 1].is_nan();
            run = if is_equal { run + 1 } else { 1 };
            // Not at a tie: what comes first is smaller.
            mode = if run > longest { sorted[i] } else { mode };
            longest = longest.max(run);
        }
        mode
    }
}

impl Reduction for Median {
    #[inline(always)]
    fn reduce<P: Pixel, const PLANES: usize>(mut planes: [[P; 4]; PLANES]) -> P {
        let sorted = sort(planes.as_flattened_mut());
        let (half, last) = (sorted.len() / 2, sorted[sorted.len() - 1]);
        if last.is_nan() { last } else { sorted[half - 1].middle(sorted[half]) }
    }
}

/// The pixel that is before all others, or a NaN.
#[inline(always)]
fn fold<P: Pixel, const PLANES: usize>(planes: [[P; 4]; PLANES], is_before: impl Fn(P, P) -> bool) -> P {
    let mut first = planes[0][0];
    for &pixel in &planes.as_flattened()[1..] {
        first = if is_before(first, pixel) || pixel.is_nan() { pixel } else { first };
    }
    first
}

/// Sorts 4 or 8 pixels, NaNs last, by Batcher's odd-even merge sort, which has no branch that depends on them.
#[inline(always)]
fn sort<P: Pixel>(pixels: &mut [P]) -> &[P] {
    const FOUR: [(usize, usize); 5] = [(0, 1), (2, 3), (0, 2), (1, 3), (1, 2)];
    const MERGE: [(usize, usize); 9] = [(0, 4), (1, 5), (2, 6), (3, 7), (2, 4), (3, 5), (1, 2), (3, 4), (5, 6)];
    for half in pixels.chunks_exact_mut(4) {
        FOUR.iter().for_each(|&(a, b)| order(half, a, b));
    }
    if pixels.len() == 8 {
        MERGE.iter().for_each(|&(a, b)| order(pixels, a, b));
    }
    pixels
}

#[inline(always)]
fn order<P: Pixel>(pixels: &mut [P], a: usize, b: usize) {
    let (first, second) = (pixels[a], pixels[b]);
    let swapped = second < first || first.is_nan();
    pixels[a] = if swapped { second } else { first };
    pixels[b] = if swapped { first } else { second };
}
