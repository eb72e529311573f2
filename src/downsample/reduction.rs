//! What becomes of the pixels that are reduced to one.

use super::pixel::Pixel;
use super::value::Value;

/// Reduces 4 or 8 pixels to one: four of a plane, upper row first.
///
/// None of them tells a pixel from two that are equal, so that an edge that has no neighbour counts twice.
pub(super) trait Reduction {
    fn reduce<P: Pixel, const PLANES: usize>(planes: [[P; 4]; PLANES]) -> P;
}

/// A reduction that does no more than compare, which vectors of pixels can do as well as pixels.
pub(super) trait Selection {
    fn select<V: Value, const PLANES: usize>(planes: [[V; 4]; PLANES]) -> V;
}

impl<S: Selection> Reduction for S {
    #[inline(always)]
    fn reduce<P: Pixel, const PLANES: usize>(planes: [[P; 4]; PLANES]) -> P {
        S::select(planes)
    }
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

impl Selection for Mode {
    #[inline(always)]
    fn select<V: Value, const PLANES: usize>(mut planes: [[V; 4]; PLANES]) -> V {
        let sorted = sort(planes.as_flattened_mut());
        if PLANES == 1 { mode_of_4(sorted) } else { mode_of_8(sorted) }
    }
}

impl Selection for Median {
    #[inline(always)]
    fn select<V: Value, const PLANES: usize>(mut planes: [[V; 4]; PLANES]) -> V {
        let values = planes.as_flattened_mut();
        nearly_sort(values);
        let (half, last) = (values.len() / 2, values[values.len() - 1]);
        V::middle(values[half - 1], values[half]).unless_nan(last)
    }
}

/// Of sorted values: the first that is equal to the next one.
#[inline(always)]
fn mode_of_4<V: Value>(x: &[V]) -> V {
    let mode = V::pick(V::same(x[2], x[3]), x[2], x[0]);
    let mode = V::pick(V::same(x[1], x[2]), x[1], mode);
    V::pick(V::same(x[0], x[1]), x[0], mode)
}

/// Of sorted values: the first of the longest run. Runs of two are looked for, then of three, then of four, each time
/// from the end. The first four places where a run of four may start share one value, as those of shorter runs do by
/// threes and twos. Longer runs are found as four: beside them there is no other of four.
#[inline(always)]
fn mode_of_8<V: Value>(x: &[V]) -> V {
    let two = |at: usize| V::same(x[at], x[at + 1]);
    let two = [two(0), two(1), two(2), two(3), two(4), two(5), two(6)];
    let mode = V::pick(two[6], x[6], x[0]);
    let mode = V::pick(two[4] | two[5], x[5], mode);
    let mode = V::pick(two[2] | two[3], x[3], mode);
    let mode = V::pick(two[0] | two[1], x[1], mode);
    let three = [two[0] & two[1], two[1] & two[2], two[2] & two[3], two[3] & two[4], two[4] & two[5], two[5] & two[6]];
    let (either_02, either_24) = (three[0] | three[2], three[2] | three[4]);
    let mode = V::pick(three[3] | three[4] | three[5], x[5], mode);
    let mode = V::pick(either_02 | three[1], x[2], mode);
    let mode = V::pick(three[4] & three[5], x[4], mode);
    V::pick((either_02 & three[1]) | (either_24 & three[3]), x[3], mode)
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

type Pairs<const COUNT: usize> = [(usize, usize); COUNT];

/// Sorts 4 or 8 values, NaNs last, by Batcher's odd-even merge sort, which has no branch that depends on them.
#[inline(always)]
fn sort<V: Value>(values: &mut [V]) -> &[V] {
    const LAST: Pairs<3> = [(1, 2), (3, 4), (5, 6)];
    nearly_sort(values);
    order(values, if values.len() == 8 { &LAST } else { &LAST[..1] });
    values
}

/// Sorts all but the pairs between the first value and the last, which may each be the wrong way round.
#[inline(always)]
fn nearly_sort<V: Value>(values: &mut [V]) {
    const FOUR: Pairs<4> = [(0, 1), (2, 3), (0, 2), (1, 3)];
    const MERGE: Pairs<6> = [(0, 4), (1, 5), (2, 6), (3, 7), (2, 4), (3, 5)];
    if values.len() == 4 {
        return order(values, &FOUR);
    }
    order(&mut values[..4], &FOUR);
    order(&mut values[..4], &[(1, 2)]);
    order(&mut values[4..], &FOUR);
    order(&mut values[4..], &[(1, 2)]);
    order(values, &MERGE);
}

/// Puts pairs of values in order, one after the other.
#[inline(always)]
fn order<V: Value>(values: &mut [V], pairs: &[(usize, usize)]) {
    pairs.iter().for_each(|&(a, b)| (values[a], values[b]) = V::ordered(values[a], values[b]));
}
