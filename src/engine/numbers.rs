//! Which frame numbers were taken.
//!
//! Every number may come once, on any thread, in any order within the window. Callers claim a number here before the
//! frame is queued, so that a wrong one is refused to the one who gave it. The sequencer gives up here the numbers for
//! which it waits no longer: each number is claimed or given up, and never both, so no frame that was taken comes too
//! late.

use std::ops::Range;

use crate::error::{Error, RefusedNumber, Result};
use crate::sync::Turns;
use crate::sync::atomic::{AtomicU64, Ordering};

pub(crate) struct Numbers {
    /// `taken[n % len]` is for the largest claimed number of that residue its [`mark`].
    taken: Box<[AtomicU64]>,
    /// All numbers below were settled.
    settled_end: AtomicU64,
    /// One past the largest claimed number.
    claimed_end: AtomicU64,
    frames_total: Option<u64>,
    /// How far behind the newest number one may come. It only shrinks.
    window: AtomicU64,
    leap_max: u64,
}

/// A number and what became of it, in one word. 0: no number.
fn mark(number: u64, fate: u64) -> u64 {
    4 * (number + 1) + fate
}

/// Nobody will bring it any more.
const GIVEN_UP: u64 = 0;
/// Its frame is about to be queued.
const ON_ITS_WAY: u64 = 1;
/// Its frame is in the queue, or further.
const SENT: u64 = 2;

/// The number of a mark, plus one.
fn end_of(mark: u64) -> u64 {
    mark / 4
}

/// The number of a mark, if somebody brings or has brought it.
fn claimed(mark: u64) -> Option<u64> {
    (mark % 4 != GIVEN_UP).then(|| mark / 4 - 1)
}

/// Larger numbers have no mark.
const NUMBERS_END: u64 = 1 << 61;

impl Numbers {
    /// `window`: how many numbers a frame may be behind the newest; `frames`: how many may be on their way at once.
    pub(crate) fn new(window: u64, frames: usize, frames_total: Option<u64>, leap_max: u64) -> Self {
        let len = (2 * (window as usize + frames)).next_power_of_two();
        Self {
            window: AtomicU64::new(window),
            leap_max,
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
        let limit = self.claimed_end.load(Ordering::Relaxed).saturating_add(self.leap_max).min(NUMBERS_END - 1);
        if number > limit {
            return refuse(RefusedNumber::TooFar { limit });
        }
        let place = self.place(number);
        let oldest = self.settled_end.load(Ordering::Relaxed);
        let mut last = place.load(Ordering::Relaxed);
        let mut turns = Turns::default();
        loop {
            if claimed(last) == Some(number) {
                return refuse(RefusedNumber::Duplicate);
            }
            if number < oldest || end_of(last) > number {
                return refuse(RefusedNumber::TooLate { oldest: oldest.max(number + 1) });
            }
            // Without its mark that frame could be given up. Its thread is about to queue it, and waits for nobody.
            if last % 4 == ON_ITS_WAY {
                turns.wait();
                // Acquire: meets the Release in `sent`.
                last = place.load(Ordering::Acquire);
                continue;
            }
            // Relaxed: the number alone is claimed; the frame travels through the queue.
            match place.compare_exchange_weak(last, mark(number, ON_ITS_WAY), Ordering::Relaxed, Ordering::Relaxed) {
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

    /// Takes the next number for a frame that was let go.
    pub(crate) fn let_go_next(&self) -> Result<()> {
        self.claim_next().map(|number| self.let_go(number))
    }

    /// Waits for a number no longer; false if somebody brings it.
    pub(crate) fn give_up(&self, number: u64) -> bool {
        let place = self.place(number);
        let mut last = place.load(Ordering::Relaxed);
        while end_of(last) <= number {
            // Relaxed: as in `claim`, the word alone decides.
            match place.compare_exchange_weak(last, mark(number, GIVEN_UP), Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => last = now,
            }
        }
        // A larger one of its residue was taken, so this one is refused.
        claimed(last) != Some(number)
    }

    /// As [`give_up`](Self::give_up) for a range of any length; false if somebody brings one of them. Others may be
    /// given up by then.
    pub(crate) fn give_up_range(&self, numbers: Range<u64>) -> bool {
        let is_claimed =
            |place: &AtomicU64| claimed(place.load(Ordering::Relaxed)).is_some_and(|number| numbers.contains(&number));
        if self.taken.iter().any(is_claimed) {
            return false;
        }
        // The largest of a residue stands for all of it.
        let from = numbers.start.max(numbers.end.saturating_sub(self.taken.len() as u64));
        (from..numbers.end).all(|number| {
            let replace = |before: u64| {
                let is_claimed = claimed(before).is_some_and(|claimed| numbers.contains(&claimed));
                (!is_claimed).then(|| before.max(mark(number, GIVEN_UP)))
            };
            self.place(number).fetch_update(Ordering::Relaxed, Ordering::Relaxed, replace).is_ok()
        })
    }

    /// A claimed number whose frame never reaches a layer.
    pub(crate) fn let_go(&self, number: u64) {
        let place = self.place(number);
        for from in [mark(number, ON_ITS_WAY), mark(number, SENT)] {
            let _ = place.compare_exchange(from, mark(number, GIVEN_UP), Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    pub(crate) fn window(&self) -> u64 {
        self.window.load(Ordering::Relaxed)
    }

    /// From now on missing numbers are waited for no longer than this.
    pub(crate) fn shrink_window(&self, to: u64) {
        self.window.fetch_min(to, Ordering::Relaxed);
    }

    /// The frame `number` is in the queue.
    pub(crate) fn sent(&self, number: u64) {
        // It may have been let go by now.
        let (from, to) = (mark(number, ON_ITS_WAY), mark(number, SENT));
        // Release: whoever takes a later number of the same residue queues its frame behind this one.
        let _ = self.place(number).compare_exchange(from, to, Ordering::Release, Ordering::Relaxed);
    }

    fn place(&self, number: u64) -> &AtomicU64 {
        &self.taken[number as usize & (self.taken.len() - 1)]
    }

    /// Takes the next number for a caller who does not count.
    pub(crate) fn claim_next(&self) -> Result<u64> {
        let mut turns = Turns::default();
        loop {
            let number = self.next();
            match self.claim(number) {
                // Another thread was faster; it is about to move the end on.
                Err(Error::FrameNumber { why: RefusedNumber::Duplicate | RefusedNumber::TooLate { .. }, .. }) => {
                    turns.wait();
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

    const LEAP: u64 = 1000;

    fn why(result: Result<()>) -> RefusedNumber {
        match result {
            Err(Error::FrameNumber { why, .. }) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_number_is_taken_once() {
        let numbers = Numbers::new(3, 1, Some(100), LEAP);
        for number in [3, 0, 2, 1] {
            numbers.claim(number).unwrap();
        }
        assert_eq!(why(numbers.claim(2)), RefusedNumber::Duplicate);
        assert_eq!(why(numbers.claim(100)), RefusedNumber::PastEnd { frames: 100 });
        assert_eq!(numbers.next(), 4);
    }

    #[test]
    fn settled_numbers_come_too_late_and_leaps_have_an_end() {
        let numbers = Numbers::new(3, 1, None, LEAP);
        numbers.claim(0).unwrap();
        numbers.claim(20).unwrap();
        numbers.settle(16);
        assert_eq!(why(numbers.claim(9)), RefusedNumber::TooLate { oldest: 16 });
        // 12 has the residue of 20, which is claimed.
        assert!(matches!(why(numbers.claim(12)), RefusedNumber::TooLate { .. }));
        assert_eq!(why(numbers.claim(u64::MAX - 1)), RefusedNumber::TooFar { limit: 21 + LEAP });
        numbers.claim(19).unwrap();
    }

    #[test]
    fn a_number_is_taken_or_given_up() {
        let numbers = Numbers::new(3, 4, None, LEAP);
        numbers.claim(2).unwrap();
        assert!(numbers.give_up(0) && numbers.give_up(1));
        assert!(!numbers.give_up(2), "it is on its way");
        assert_eq!(why(numbers.claim(1)), RefusedNumber::TooLate { oldest: 2 });
        numbers.sent(2);
        assert!(!numbers.give_up(2), "it is in the queue");
        numbers.let_go(2);
        assert!(numbers.give_up(2));
        numbers.let_go_next().unwrap();
        assert!(numbers.give_up(3));
    }

    #[test]
    fn a_long_range_is_given_up_but_for_what_is_taken() {
        let numbers = Numbers::new(3, 4, None, LEAP);
        numbers.claim(100).unwrap();
        assert!(!numbers.give_up_range(0..500));
        assert!(numbers.give_up_range(0..100));
        for number in [0, 1, 50, 84, 99] {
            assert!(numbers.claim(number).is_err(), "{number}");
        }
        assert!(numbers.give_up_range(101..1000));
        assert!(numbers.claim(999).is_err());
        numbers.claim(1000).unwrap();
    }

    #[test]
    fn a_later_number_of_the_same_residue_waits_for_an_older_frame() {
        let numbers = Numbers::new(3, 4, None, LEAP);
        numbers.claim(0).unwrap();
        std::thread::scope(|scope| {
            let later = scope.spawn(|| numbers.claim(16));
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!later.is_finished(), "0 is on its way");
            numbers.sent(0);
            later.join().unwrap().unwrap();
        });
    }
}
