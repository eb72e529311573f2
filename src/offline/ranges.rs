//! Sets of frame numbers as ranges that go up and don't touch.

use std::ops::Range;

/// A set of numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Ranges(Vec<Range<u64>>);

impl From<Range<u64>> for Ranges {
    fn from(range: Range<u64>) -> Self {
        Self::new(std::iter::once(range).collect())
    }
}

impl Ranges {
    /// The union of ranges in any order.
    pub(super) fn new(mut ranges: Vec<Range<u64>>) -> Self {
        ranges.retain(|range| range.start < range.end);
        ranges.sort_by_key(|range| range.start);
        let mut union: Vec<Range<u64>> = Vec::new();
        for range in ranges {
            match union.last_mut().filter(|last| range.start <= last.end) {
                Some(last) => last.end = last.end.max(range.end),
                None => union.push(range),
            }
        }
        Self(union)
    }

    pub(super) fn union(&self, other: &Self) -> Self {
        Self::new(self.0.iter().chain(&other.0).cloned().collect())
    }

    /// The numbers that are not in `other`.
    pub(super) fn minus(&self, other: &Self) -> Self {
        let mut left = Vec::new();
        let mut others = other.0.iter().peekable();
        for range in &self.0 {
            let mut start = range.start;
            while others.next_if(|other| other.end <= start).is_some() {}
            // The last one may reach into the next range, so it is only looked at.
            let mut ahead = others.clone();
            while let Some(other) = ahead.next_if(|other| other.start < range.end) {
                left.push(start..other.start.max(start));
                start = start.max(other.end);
            }
            left.push(start..range.end.max(start));
        }
        Self::new(left)
    }

    pub(super) fn and(&self, other: &Self) -> Self {
        self.minus(&self.minus(other))
    }

    pub(super) fn count(&self) -> u64 {
        self.0.iter().fold(0, |count, range| count.saturating_add(range.end - range.start))
    }

    /// How many of a range's numbers are in it.
    pub(super) fn count_within(&self, range: Range<u64>) -> u64 {
        self.within(range).map(|range| range.end - range.start).sum()
    }

    /// Those of a range's numbers that are in it.
    pub(super) fn within(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let from = self.0.partition_point(|known| known.end <= range.start);
        let touching = self.0[from..].iter().take_while(move |known| known.start < range.end);
        touching.map(move |known| known.start.max(range.start)..known.end.min(range.end))
    }

    pub(super) fn contains(&self, number: u64) -> bool {
        let at = self.0.partition_point(|range| range.end <= number);
        self.0.get(at).is_some_and(|range| range.start <= number)
    }

    /// The ranges, in ascending order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Range<u64>> {
        self.0.iter()
    }
}

/// Gathers numbers that mostly follow each other, in as much memory as they have ranges.
#[derive(Debug, Default)]
pub(super) struct Gather {
    ranges: Vec<Range<u64>>,
    /// How many ranges there were when they were last merged.
    merged: usize,
}

/// So few ranges are not worth merging.
const MERGED_MIN: usize = 1 << 10;

impl Gather {
    pub(super) fn add(&mut self, number: u64) {
        self.add_range(number..number.saturating_add(1));
    }

    pub(super) fn add_range(&mut self, range: Range<u64>) {
        match self.ranges.last_mut().filter(|last| last.end == range.start) {
            Some(last) => last.end = range.end,
            None => {
                // Numbers that come in another order, as those of several dimensions do, leave ranges that touch.
                if self.ranges.len() >= 2 * self.merged.max(MERGED_MIN) {
                    self.ranges = Ranges::new(std::mem::take(&mut self.ranges)).0;
                    self.merged = self.ranges.len();
                }
                self.ranges.push(range);
            }
        }
    }

    pub(super) fn extend(&mut self, other: &Self) {
        other.ranges.iter().for_each(|range| self.add_range(range.clone()));
    }

    pub(super) fn ranges(self) -> Ranges {
        Ranges::new(self.ranges)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn numbers(ranges: &Ranges) -> BTreeSet<u64> {
        ranges.0.iter().cloned().flatten().collect()
    }

    fn ranges() -> impl Strategy<Value = Vec<Range<u64>>> {
        prop::collection::vec((0u64..40, 0u64..8).prop_map(|(start, length)| start..start + length), 0..8)
    }

    proptest! {
        #[test]
        fn ranges_are_sets(a in ranges(), b in ranges()) {
            let (a, b) = (Ranges::new(a), Ranges::new(b));
            for range in b.iter().cloned().chain([0..0, 7..40]) {
                let within = a.and(&Ranges::from(range.clone()));
                prop_assert_eq!(a.count_within(range.clone()), within.count());
                prop_assert_eq!(a.within(range).collect::<Vec<_>>(), within.0);
            }
            let (x, y) = (numbers(&a), numbers(&b));
            prop_assert_eq!(numbers(&a.union(&b)), x.union(&y).copied().collect::<BTreeSet<_>>());
            prop_assert_eq!(numbers(&a.minus(&b)), x.difference(&y).copied().collect::<BTreeSet<_>>());
            prop_assert_eq!(numbers(&a.and(&b)), x.intersection(&y).copied().collect::<BTreeSet<_>>());
            prop_assert_eq!(a.count(), x.len() as u64);
            let mut gather = Gather::default();
            x.iter().for_each(|&number| gather.add(number));
            prop_assert_eq!(gather.ranges(), a.clone());
            for number in 0..50 {
                prop_assert_eq!(a.contains(number), x.contains(&number));
            }
        }
    }

    #[test]
    fn numbers_in_any_order_take_no_more_memory_than_their_ranges() {
        let mut gather = Gather::default();
        for start in 0..2 {
            (start..200_000).step_by(2).for_each(|number| gather.add(number));
        }
        // All odd and all even ones: the second half closes the gaps of the first.
        assert!(gather.ranges.capacity() < 400_000);
        assert_eq!(gather.ranges(), Ranges::from(0..200_000));
        let mut gather = Gather::default();
        for number in 0..1 << 20 {
            gather.add(number ^ 1);
            assert!(gather.ranges.len() <= 2 * MERGED_MIN, "{number}");
        }
        assert_eq!(gather.ranges(), Ranges::from(0..1 << 20));
    }
}
