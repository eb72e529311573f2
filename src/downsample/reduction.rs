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
        match *sorted {
            [a, b, c, d] => mode_of_4([a, b, c, d]),
            [a, b, c, d, e, f, g, h] => mode_of_8([a, b, c, d, e, f, g, h]),
            _ => unreachable!("one or two planes"),
        }
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

/// Of sorted pixels: the first that is equal to the next one.
#[inline(always)]
fn mode_of_4<P: Pixel>([a, b, c, d]: [P; 4]) -> P {
    let mode = if same(c, d) { c } else { a };
    let mode = if same(b, c) { b } else { mode };
    if same(a, b) { a } else { mode }
}

/// Of sorted pixels: the first of the longest run. Runs of two are looked for, then of three, then of four, each time
/// from the end. The first four places where a run of four may start share one pixel, as those of shorter runs do by
/// threes and twos. Longer runs are found as four: beside them there is no other of four.
#[inline(always)]
fn mode_of_8<P: Pixel>(x: [P; 8]) -> P {
    let two: [bool; 7] = [
        same(x[0], x[1]),
        same(x[1], x[2]),
        same(x[2], x[3]),
        same(x[3], x[4]),
        same(x[4], x[5]),
        same(x[5], x[6]),
        same(x[6], x[7]),
    ];
    let three = [two[0] & two[1], two[1] & two[2], two[2] & two[3], two[3] & two[4], two[4] & two[5], two[5] & two[6]];
    let four = [three[0] & two[2], three[1] & two[3], three[2] & two[4], three[3] & two[5], three[4] & two[6]];
    let mode = if two[6] { x[6] } else { x[0] };
    let mode = if two[4] | two[5] { x[5] } else { mode };
    let mode = if two[2] | two[3] { x[3] } else { mode };
    let mode = if two[0] | two[1] { x[1] } else { mode };
    let mode = if three[3] | three[4] | three[5] { x[5] } else { mode };
    let mode = if three[0] | three[1] | three[2] { x[2] } else { mode };
    let mode = if four[4] { x[4] } else { mode };
    if four[0] | four[1] | four[2] | four[3] { x[3] } else { mode }
}

/// NaNs are all one value.
#[inline(always)]
fn same<P: Pixel>(first: P, second: P) -> bool {
    (first == second) | (first.is_nan() & second.is_nan())
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
