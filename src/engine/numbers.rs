//! Which frame numbers were taken.
//!
//! Every number may come once, on any thread, in any order within the window, which is exact: how far the sequencer has
//! got does not matter. Callers claim a number here before the frame is queued, so that a wrong one is refused to the
//! one who gave it. The sequencer gives up here the numbers for which it waits no longer: each number is claimed or
//! given up, and never both, so no frame that was taken comes too late.

use std::ops::Range;

use crate::error::{Error, RefusedNumber, Result};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Backoff, Mutex, Unpoisoned};

pub(crate) struct Numbers {
    /// `taken[n % len]` is for the largest claimed number of that residue its [`mark`].
    taken: Box<[AtomicU64]>,
    /// All numbers below were settled.
    settled_end: AtomicU64,
    /// One past the largest claimed number.
    claimed_end: AtomicU64,
    /// One past the largest number that was given up.
    given_up_end: AtomicU64,
    frames_total: Option<u64>,
    /// How far behind the newest number one may come.
    window: u64,
    /// How far behind it missing numbers are waited for. It only shrinks.
    patience: AtomicU64,
    leap_max: u64,
    /// Held by whoever takes several numbers.
    pictures: Mutex<()>,
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

/// What became of numbers that were to be given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    GivenUp,
    /// Somebody brings one of them.
    Brought,
    /// They are refused from now on, but the mark of one was taken over by a later number: if its frame came before,
    /// that is in the queue, or further.
    Displaced,
}

/// Larger numbers have no mark, and no frame has one.
pub(super) const NUMBERS_END: u64 = 1 << 61;

impl Numbers {
    /// `window`: how many numbers a frame may be behind the newest; `frames`: how many may be on their way at once.
    pub(crate) fn new(window: u64, frames: usize, frames_total: Option<u64>, leap_max: u64) -> Self {
        let len = (2 * (window as usize + frames)).next_power_of_two();
        Self {
            window,
            patience: AtomicU64::new(window),
            leap_max,
            pictures: Mutex::new(()),
            taken: (0..len).map(|_| AtomicU64::new(0)).collect(),
            settled_end: AtomicU64::new(0),
            claimed_end: AtomicU64::new(0),
            given_up_end: AtomicU64::new(0),
            frames_total,
        }
    }

    /// Takes `number` for the caller, or says why it can't be had.
    pub(crate) fn claim(&self, number: u64) -> Result<()> {
        let refuse = |why| Err(Error::FrameNumber { number, why });
        if let Some(frames) = self.frames_total.filter(|&frames| number >= frames) {
            return refuse(RefusedNumber::PastEnd { frames });
        }
        let limit = self.next().saturating_add(self.leap_max).min(NUMBERS_END - 1);
        if number > limit {
            return refuse(RefusedNumber::TooFar { limit });
        }
        let place = self.place(number);
        // Refused here by the window, whatever the sequencer has got to: what is taken shall not depend on that.
        let in_window = self.claimed_end().saturating_sub(self.window + 1);
        let oldest = self.settled_end.load(Ordering::Relaxed).max(in_window);
        let mut last = place.load(Ordering::Relaxed);
        let mut backoff = Backoff::default();
        loop {
            if claimed(last) == Some(number) {
                return refuse(RefusedNumber::Duplicate);
            }
            if number < oldest || end_of(last) > number {
                return refuse(RefusedNumber::TooLate { oldest: oldest.max(number + 1) });
            }
            // Without its mark that frame could be given up. Its thread is about to queue it, and waits for nobody.
            if last % 4 == ON_ITS_WAY {
                backoff.wait();
                // Acquire: meets the Release in `sent`.
                last = place.load(Ordering::Acquire);
                continue;
            }
            // The frame itself travels through the queue. Acquire: meets the Release in `sent`; a frame of whose mark
            // this takes the place is in the queue by now. Release: meets the Acquire of whoever finds this mark
            // instead of that one, in `give_up`, and then looks for that frame in the queue.
            match place.compare_exchange_weak(last, mark(number, ON_ITS_WAY), Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => last = now,
            }
        }
        self.claimed_end.fetch_max(number + 1, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn claimed_end(&self) -> u64 {
        self.claimed_end.load(Ordering::Relaxed)
    }

    /// The next number for a caller who does not count.
    pub(crate) fn next(&self) -> u64 {
        self.claimed_end().max(self.given_up_end.load(Ordering::Relaxed))
    }

    /// Refuses the next number if the array has no place for it.
    pub(crate) fn check_next(&self) -> Result<()> {
        let number = self.next();
        match self.frames_total.filter(|&frames| number >= frames) {
            Some(frames) => Err(Error::FrameNumber { number, why: RefusedNumber::PastEnd { frames } }),
            None => Ok(()),
        }
    }

    /// Takes the next numbers for frames of one buffer that were let go.
    pub(crate) fn let_go_next(&self, frames: u64) -> Result<()> {
        let first = self.claim_for(None, frames)?;
        (first..first + frames).for_each(|number| self.let_go(number));
        Ok(())
    }

    /// Waits for a number no longer, unless somebody brings it.
    pub(crate) fn give_up(&self, number: u64) -> Outcome {
        let place = self.place(number);
        // Acquire: meets the Release in `claim`.
        let mut last = place.load(Ordering::Acquire);
        while end_of(last) <= number {
            // Relaxed: as in `claim`, the word alone decides.
            match place.compare_exchange_weak(last, mark(number, GIVEN_UP), Ordering::Relaxed, Ordering::Acquire) {
                Ok(_) => {
                    self.note_given_up(number);
                    return Outcome::GivenUp;
                }
                Err(now) => last = now,
            }
        }
        match end_of(last) - 1 > number {
            true => Outcome::Displaced,
            false if claimed(last).is_some() => Outcome::Brought,
            false => Outcome::GivenUp,
        }
    }

    /// As [`give_up`](Self::give_up) for a range of any length; some may be given up if somebody brings another.
    pub(crate) fn give_up_range(&self, numbers: Range<u64>) -> Outcome {
        let is_claimed =
            |place: &AtomicU64| claimed(place.load(Ordering::Relaxed)).is_some_and(|number| numbers.contains(&number));
        if self.taken.iter().any(is_claimed) {
            return Outcome::Brought;
        }
        let mut is_displaced = false;
        // The largest of a residue stands for all of it.
        let from = numbers.start.max(numbers.end.saturating_sub(self.taken.len() as u64));
        for number in from..numbers.end {
            let replace = |before: u64| {
                let is_claimed = claimed(before).is_some_and(|claimed| numbers.contains(&claimed));
                (!is_claimed).then(|| before.max(mark(number, GIVEN_UP)))
            };
            // Acquire: as in `give_up`.
            match self.place(number).fetch_update(Ordering::Relaxed, Ordering::Acquire, replace) {
                Ok(before) => is_displaced |= end_of(before) > numbers.end,
                Err(_) => return Outcome::Brought,
            }
            self.note_given_up(number);
        }
        if is_displaced { Outcome::Displaced } else { Outcome::GivenUp }
    }

    /// Whoever does not count goes on behind it.
    fn note_given_up(&self, number: u64) {
        self.given_up_end.fetch_max(number + 1, Ordering::Relaxed);
    }

    /// A claimed number whose frame never reaches a layer.
    pub(crate) fn let_go(&self, number: u64) {
        let place = self.place(number);
        for from in [mark(number, ON_ITS_WAY), mark(number, SENT)] {
            let _ = place.compare_exchange(from, mark(number, GIVEN_UP), Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// How far behind the newest number missing ones are waited for.
    pub(crate) fn patience(&self) -> u64 {
        self.patience.load(Ordering::Relaxed)
    }

    /// From now on missing numbers are waited for no longer than this.
    pub(crate) fn shrink_patience(&self, to: u64) {
        self.patience.fetch_min(to, Ordering::Relaxed);
    }

    /// Whether somebody has claimed a number, and its frame is not in the queue yet.
    pub(crate) fn is_on_its_way(&self, number: u64) -> bool {
        number < self.claimed_end() && self.place(number).load(Ordering::Acquire) == mark(number, ON_ITS_WAY)
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
        let mut backoff = Backoff::default();
        loop {
            let number = self.next();
            match self.claim(number) {
                // Another thread was faster, and is about to move one of the ends on.
                Err(Error::FrameNumber { why: RefusedNumber::Duplicate | RefusedNumber::TooLate { .. }, .. }) => {
                    backoff.wait();
                }
                other => return other.map(|()| number),
            }
        }
    }

    /// Takes the numbers of the frames of one buffer, from `number` on, or the next ones; returns the first.
    pub(crate) fn claim_for(&self, number: Option<u64>, frames: u64) -> Result<u64> {
        match number {
            Some(number) if frames == 1 => return self.claim(number).map(|()| number),
            None if frames == 1 => return self.claim_next(),
            Some(number) if !number.is_multiple_of(frames) => {
                return Err(Error::FrameNumber { number, why: RefusedNumber::NotFirst });
            }
            _ => {}
        }
        // Those of another picture must not push the rest of these out of the window.
        let _alone = self.pictures.lock().unpoisoned();
        if let Some(number) = number {
            return self.claim_all(number, frames).map(|()| number);
        }
        let mut backoff = Backoff::default();
        loop {
            let first = self.next().next_multiple_of(frames);
            match self.claim_all(first, frames) {
                // They were given up just now.
                Err(Error::FrameNumber { why: RefusedNumber::TooLate { .. }, .. }) => backoff.wait(),
                other => return other.map(|()| first),
            }
        }
    }

    fn claim_all(&self, first: u64, frames: u64) -> Result<()> {
        self.claim(first)?;
        for number in first + 1..first + frames {
            if let Err(error) = self.claim(number) {
                // A picture comes as a whole, or not at all.
                (first..number).for_each(|number| self.let_go(number));
                return Err(error);
            }
        }
        Ok(())
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
        assert_eq!(why(numbers.claim(9)), RefusedNumber::TooLate { oldest: 17 });
        // 12 has the residue of 20, which is claimed.
        assert!(matches!(why(numbers.claim(12)), RefusedNumber::TooLate { .. }));
        assert_eq!(why(numbers.claim(u64::MAX - 1)), RefusedNumber::TooFar { limit: 21 + LEAP });
        numbers.claim(19).unwrap();
    }

    #[test]
    fn a_number_is_taken_or_given_up() {
        let numbers = Numbers::new(3, 4, None, LEAP);
        numbers.claim(2).unwrap();
        assert_eq!([0, 1].map(|number| numbers.give_up(number)), [Outcome::GivenUp; 2]);
        assert_eq!(numbers.give_up(2), Outcome::Brought, "it is on its way");
        assert_eq!(why(numbers.claim(1)), RefusedNumber::TooLate { oldest: 2 });
        numbers.sent(2);
        assert_eq!(numbers.give_up(2), Outcome::Brought, "it is in the queue");
        numbers.let_go(2);
        assert_eq!(numbers.give_up(2), Outcome::GivenUp);
        numbers.let_go_next(1).unwrap();
        assert_eq!(numbers.give_up(3), Outcome::GivenUp);
    }

    #[test]
    fn a_long_range_is_given_up_but_for_what_is_taken() {
        let numbers = Numbers::new(3, 4, None, LEAP);
        numbers.claim(100).unwrap();
        assert_eq!(numbers.give_up_range(0..500), Outcome::Brought);
        // 84 has the residue of 100.
        assert_eq!(numbers.give_up_range(0..100), Outcome::Displaced);
        for number in [0, 1, 50, 84, 99] {
            assert!(numbers.claim(number).is_err(), "{number}");
        }
        assert_eq!(numbers.give_up_range(101..1000), Outcome::GivenUp);
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

    #[test]
    fn the_window_is_exact() {
        let numbers = Numbers::new(3, 1, None, LEAP);
        numbers.claim(10).unwrap();
        assert_eq!(why(numbers.claim(6)), RefusedNumber::TooLate { oldest: 7 });
        numbers.claim(7).unwrap();
    }

    #[test]
    fn who_does_not_count_goes_on_behind_what_was_given_up() {
        let numbers = Numbers::new(3, 4, None, LEAP);
        numbers.claim(0).unwrap();
        assert_eq!([1, 2].map(|number| numbers.give_up(number)), [Outcome::GivenUp; 2]);
        assert_eq!(numbers.next(), 3);
        assert_eq!(numbers.give_up_range(3..90), Outcome::GivenUp);
        assert_eq!(numbers.next(), 90);
        // The frames that came tell how many there are.
        assert_eq!(numbers.claimed_end(), 1);
        assert_eq!(numbers.claim_next().unwrap(), 90);
    }

    #[test]
    fn a_later_number_that_takes_a_mark_is_told_of() {
        let numbers = Numbers::new(3, 4, None, LEAP);
        numbers.claim(0).unwrap();
        numbers.sent(0);
        numbers.claim(16).unwrap();
        assert_eq!(numbers.give_up(0), Outcome::Displaced);
        assert_eq!(numbers.give_up_range(0..9), Outcome::Displaced);
    }
}
