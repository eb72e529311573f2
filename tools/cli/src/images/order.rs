//! In which order a stage visits images, and what each of them gets.

use std::ops::Range;

use crate::args::VisitOrder;

/// The images by their numbers, each as often as there are visits.
pub(super) fn visits(images: usize, visits: u64, order: VisitOrder) -> Vec<usize> {
    let mut all: Vec<usize> = (0..visits).flat_map(|_| 0..images).collect();
    if order == VisitOrder::Random {
        // Always the same, so that two runs can be compared: the generator of MMIX, from a fixed seed.
        let mut state = 7_u64;
        for at in (1..all.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            all.swap(at, (state >> 33) as usize % (at + 1));
        }
    }
    all
}

/// The frames of an image that it gets at one of its visits.
pub(super) fn part(total: u64, visit: u64, visits: u64) -> Range<u64> {
    let until = |visit: u64| (u128::from(total) * u128::from(visit) / u128::from(visits)) as u64;
    until(visit)..until(visit + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_image_is_visited_as_often() {
        assert_eq!(visits(3, 2, VisitOrder::Serial), [0, 1, 2, 0, 1, 2]);
        let random = visits(50, 3, VisitOrder::Random);
        assert_eq!(random, visits(50, 3, VisitOrder::Random));
        assert!(!random.is_sorted() && random[..50] != (0..50).collect::<Vec<_>>());
        assert!((0..50).all(|image| random.iter().filter(|&&at| at == image).count() == 3));
    }

    #[test]
    fn the_visits_of_an_image_bring_all_of_its_frames() {
        let parts: Vec<_> = (0..3).map(|visit| part(10, visit, 3)).collect();
        assert_eq!(parts, [0..3, 3..6, 6..10]);
        assert_eq!(part(u64::MAX, 1, 2).end, u64::MAX);
    }
}
