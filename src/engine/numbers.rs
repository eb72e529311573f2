//! Which frame numbers were taken.
//!
//! Every number may come once, on any thread, in any order within the window. Callers claim a number here before the
//! frame is queued, so that a wrong one is refused to the one who gave it.

use crate::error::{Error, RefusedNumber, Result};
use crate::sync::Turns;
use crate::sync::atomic::{AtomicU64, Ordering};

pub(crate) struct Numbers {
    /// `taken[n % len]` is for the largest claimed number of that residue what [`Mark`] makes of it.
    taken: Box<[AtomicU64]>,
    /// All numbers below were settled.
    settled_end: AtomicU64,
    /// One past the largest claimed number.
    claimed_end: AtomicU64,
    /// All numbers below were waited for. Far ahead of `settled_end` while frames pile up in a long queue: to look at all of
    /// them again with each commit would take longer than the commit.
    waited_end: AtomicU64,
    frames_total: Option<u64>,
    /// How far behind the newest number one may come. It only shrinks.
    window: AtomicU64,
    leap_max: u64,
}

/// A claimed number and whether its frame is still on its way into the queue, in one word. 0: none was claimed.
struct Mark;

impl Mark {
    fn on_its_way(number: u64) -> u64 {
        2 * (number + 1) + 1
    }

    /// Its frame is in the queue, or was let go and never will be.
    fn sent(number: u64) -> u64 {
        2 * (number + 1)
    }

    /// The number plus one.
    fn end(mark: u64) -> u64 {
        mark / 2
    }
}

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
            waited_end: AtomicU64::new(0),
            frames_total,
        }
    }

    /// Takes `number` for the caller, or says why it can't be had.
    pub(crate) fn claim(&self, number: u64) -> Result<()> {
        let refuse = |why| Err(Error::FrameNumber { number, why });
        if let Some(frames) = self.frames_total.filter(|&frames| number >= frames) {
            return refuse(RefusedNumber::PastEnd { frames });
        }
        let limit = self.claimed_end.load(Ordering::Relaxed).saturating_add(self.leap_max);
        if number > limit {
            return refuse(RefusedNumber::TooFar { limit });
        }
        let place = self.place(number);
        let oldest = self.settled_end.load(Ordering::Relaxed);
        let mut last = place.load(Ordering::Relaxed);
        loop {
            if Mark::end(last) == number + 1 {
                return refuse(RefusedNumber::Duplicate);
            }
            if number < oldest || Mark::end(last) > number {
                return refuse(RefusedNumber::TooLate { oldest: oldest.max(number + 1) });
            }
            // Relaxed: the number alone is claimed; the frame travels through the queue.
            match place.compare_exchange_weak(last, Mark::on_its_way(number), Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => last = now,
            }
        }
        // Release: whoever takes a later number in `claim_next` sees the mark of this one in `wait_for_older`.
        self.claimed_end.fetch_max(number + 1, Ordering::Release);
        Ok(())
    }

    /// The next number for a caller who does not count.
    pub(crate) fn next(&self) -> u64 {
        // Acquire: meets the Release in `claim`.
        self.claimed_end.load(Ordering::Acquire)
    }

    /// Takes the next number for a frame that was let go.
    pub(crate) fn let_go_next(&self) -> Result<()> {
        self.claim_next().map(|number| self.sent(number))
    }

    /// Returns when no claimed frame is on its way that would come too late if `number` arrived before it: a thread can
    /// be put to sleep between the claim and the queue, while others go on for longer than the window. Each waits only
    /// for lower numbers, so they never wait in a circle.
    pub(crate) fn wait_for_older(&self, number: u64) {
        let end = (number + 1).saturating_sub(self.window());
        // Acquire: meets the Release below, so that what another thread has waited for is in the queue for this one, too.
        let waited_end = self.waited_end.load(Ordering::Acquire);
        let settled_end = self.settled_end.load(Ordering::Relaxed);
        let mut oldest = waited_end.max(settled_end).max(end.saturating_sub(self.taken.len() as u64));
        if oldest >= end {
            return;
        }
        let mut turns = Turns::default();
        while oldest < end {
            // Acquire: meets the Release in `sent`, so that the older frame is in the queue before this one.
            if self.is_on_its_way(oldest) {
                turns.wait();
            } else {
                oldest += 1;
            }
        }
        self.waited_end.fetch_max(end, Ordering::Release);
    }

    /// Whether a thread has claimed the number and its frame is not in the queue yet.
    pub(crate) fn is_on_its_way(&self, number: u64) -> bool {
        self.place(number).load(Ordering::Acquire) == Mark::on_its_way(number)
    }

    pub(crate) fn window(&self) -> u64 {
        self.window.load(Ordering::Relaxed)
    }

    /// From now on missing numbers are waited for no longer than this.
    pub(crate) fn shrink_window(&self, to: u64) {
        self.window.fetch_min(to, Ordering::Relaxed);
    }

    /// The frame `number` is in the queue, or will never be.
    pub(crate) fn sent(&self, number: u64) {
        // A later number of the same residue leaves nobody to wait for this one.
        let (from, to) = (Mark::on_its_way(number), Mark::sent(number));
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
    fn a_frame_waits_for_those_that_it_would_make_too_late() {
        let numbers = Numbers::new(3, 4, None, LEAP);
        let done = AtomicU64::new(0);
        let wait = |number| {
            numbers.wait_for_older(number);
            done.store(number, Ordering::Relaxed);
        };
        for number in 0..3 {
            assert_eq!(numbers.claim_next().unwrap(), number);
            // None of them can push another out of the window, wherever that is.
            wait(number);
        }
        numbers.sent(1);
        numbers.let_go_next().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| wait(4));
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert_eq!(done.load(Ordering::Relaxed), 2, "0 is on its way");
            numbers.sent(0);
        });
        numbers.sent(2);
        // 3 was let go, and nobody waits for it.
        wait(100);
    }

    #[test]
    fn nobody_waits_twice_for_the_same_numbers() {
        let numbers = Numbers::new(3, 4, None, LEAP);
        numbers.claim(5).unwrap();
        numbers.wait_for_older(5);
        // Further behind than the window: it may be recorded as missing, and must not hold up anyone.
        numbers.claim(0).unwrap();
        numbers.claim(6).unwrap();
        numbers.wait_for_older(6);
        // 4 comes in time.
        numbers.claim(4).unwrap();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| numbers.wait_for_older(7));
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!waits.is_finished(), "4 is on its way");
            numbers.sent(4);
        });
    }
}
