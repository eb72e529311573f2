//! Which frame numbers were taken.
//!
//! Every number may come once, on any thread, in any order within the window. Callers claim a number here before the
//! frame is queued, so that a wrong one is refused to the one who gave it.

use crate::error::{Error, RefusedNumber, Result};
use crate::plan::LEAP_MAX;
use crate::sync::atomic::{AtomicU64, Ordering};

pub(crate) struct Numbers {
    /// `taken[n % len]` is the largest claimed number of that residue, plus one.
    taken: Box<[AtomicU64]>,
    /// All numbers below were settled.
    settled_end: AtomicU64,
    /// One past the largest claimed number.
    claimed_end: AtomicU64,
    frames_total: Option<u64>,
}

impl Numbers {
    /// `unsettled_max`: how many numbers may be claimed and not settled at once.
    pub(crate) fn new(unsettled_max: usize, frames_total: Option<u64>) -> Self {
        let len = (2 * unsettled_max).next_power_of_two();
        Self {
            taken: (0..len).map(|_| AtomicU64::new(0)).collect(),
            settled_end: AtomicU64::new(0),
            claimed_end: AtomicU64::new(0),
            frames_total,
        }
    }

    /// Takes `number` for the caller, or says why it can't be had.
    pub(crate) fn claim(&self, number: u64) -> Result<()> {
        let refuse = |why| Err(Error::FrameNumber { number, why });
        if let Some(frames) = self.frames_total.filter(|&frames| number >= frames) {
            return refuse(RefusedNumber::PastEnd { frames });
        }
        let limit = self.claimed_end.load(Ordering::Relaxed) + LEAP_MAX;
        if number > limit {
            return refuse(RefusedNumber::TooFar { limit });
        }
        let place = &self.taken[number as usize & (self.taken.len() - 1)];
        let oldest = self.settled_end.load(Ordering::Relaxed);
        let mut last = place.load(Ordering::Relaxed);
        loop {
            if last == number + 1 {
                return refuse(RefusedNumber::Duplicate);
            }
            if number < oldest || last > number {
                return refuse(RefusedNumber::TooLate { oldest: oldest.max(number + 1) });
            }
            // Relaxed: the number alone is claimed; the frame travels through the queue.
            match place.compare_exchange_weak(last, number + 1, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => last = now,
            }
        }
        self.claimed_end.fetch_max(number + 1, Ordering::Relaxed);
        Ok(())
    }

    /// The next number for a caller who does not count.
    pub(crate) fn next(&self) -> u64 {
        self.claimed_end.load(Ordering::Relaxed)
    }

    /// Takes the next number for a caller who does not count, be it for a frame or for one that was let go.
    pub(crate) fn claim_next(&self) -> Result<u64> {
        loop {
            let number = self.next();
            match self.claim(number) {
                // Another thread was faster; it is about to move the end on.
                Err(Error::FrameNumber { why: RefusedNumber::Duplicate | RefusedNumber::TooLate { .. }, .. }) => {
                    std::thread::yield_now();
                }
                other => return other.map(|()| number),
            }
        }
    }

    /// Everything below `end` is settled: such numbers come too late.
    pub(crate) fn settle(&self, end: u64) {
        self.settled_end.store(end, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(result: Result<()>) -> RefusedNumber {
        match result {
            Err(Error::FrameNumber { why, .. }) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_number_is_taken_once() {
        let numbers = Numbers::new(4, Some(100));
        for number in [3, 0, 2, 1] {
            numbers.claim(number).unwrap();
        }
        assert_eq!(why(numbers.claim(2)), RefusedNumber::Duplicate);
        assert_eq!(why(numbers.claim(100)), RefusedNumber::PastEnd { frames: 100 });
        assert_eq!(numbers.next(), 4);
    }

    #[test]
    fn settled_numbers_come_too_late_and_leaps_have_an_end() {
        let numbers = Numbers::new(4, None);
        numbers.claim(0).unwrap();
        numbers.claim(20).unwrap();
        numbers.settle(16);
        assert_eq!(why(numbers.claim(9)), RefusedNumber::TooLate { oldest: 16 });
        // 12 has the residue of 20, which is claimed.
        assert!(matches!(why(numbers.claim(12)), RefusedNumber::TooLate { .. }));
        assert_eq!(why(numbers.claim(u64::MAX - 1)), RefusedNumber::TooFar { limit: 21 + LEAP_MAX });
        numbers.claim(19).unwrap();
    }
}
