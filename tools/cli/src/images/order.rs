//! In which order a stage visits images, and what each of them gets.

use std::ops::Range;

use crate::args::VisitOrder;

/// The images by their numbers, each once in each round of visits.
pub(super) fn visits(images: usize, visits: u64, order: VisitOrder) -> impl Iterator<Item = usize> {
    let mut round: Vec<usize> = (0..images).collect();
    // Always the same, so that two runs can be compared: the generator of MMIX, from a fixed seed.
    let mut state = 7_u64;
    (0..visits).flat_map(move |_| {
        for at in (1..images).rev().filter(|_| order == VisitOrder::Random) {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            round.swap(at, (state >> 33) as usize % (at + 1));
        }
        round.clone()
    })
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
        let all = |images, rounds, order| visits(images, rounds, order).collect::<Vec<_>>();
        assert_eq!(all(3, 2, VisitOrder::Serial), [0, 1, 2, 0, 1, 2]);
        let random = all(50, 3, VisitOrder::Random);
        assert_eq!(random, all(50, 3, VisitOrder::Random));
        assert!(!random[..50].is_sorted() && random[..50] != random[50..100]);
        for round in random.chunks(50) {
            assert!((0..50).all(|image| round.contains(&image)), "{round:?}");
        }
    }

    #[test]
    fn visits_that_are_to_come_take_no_memory() {
        assert_eq!(visits(2, u64::MAX, VisitOrder::Serial).take(3).collect::<Vec<_>>(), [0, 1, 0]);
    }

    #[test]
    fn the_visits_of_an_image_bring_all_of_its_frames() {
        let parts: Vec<_> = (0..3).map(|visit| part(10, visit, 3)).collect();
        assert_eq!(parts, [0..3, 3..6, 6..10]);
        assert_eq!(part(u64::MAX, 1, 2).end, u64::MAX);
    }
}
