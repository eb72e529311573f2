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

    pub(super) fn into_vec(self) -> Vec<Range<u64>> {
        self.0
    }
}

/// Gathers numbers that mostly follow each other.
#[derive(Debug, Default)]
pub(super) struct Gather(Vec<Range<u64>>);

impl Gather {
    pub(super) fn add(&mut self, number: u64) {
        match self.0.last_mut().filter(|last| last.end == number) {
            Some(last) => last.end += 1,
            None => self.0.push(number..number.saturating_add(1)),
        }
    }

    pub(super) fn ranges(self) -> Ranges {
        Ranges::new(self.0)
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
            let (x, y) = (numbers(&a), numbers(&b));
            prop_assert_eq!(numbers(&a.union(&b)), x.union(&y).copied().collect::<BTreeSet<_>>());
            prop_assert_eq!(numbers(&a.minus(&b)), x.difference(&y).copied().collect::<BTreeSet<_>>());
            prop_assert_eq!(numbers(&a.and(&b)), x.intersection(&y).copied().collect::<BTreeSet<_>>());
            prop_assert_eq!(a.count(), x.len() as u64);
            let mut gather = Gather::default();
            x.iter().for_each(|&number| gather.add(number));
            prop_assert_eq!(gather.ranges(), a);
        }
    }
}
