//! How the rings of several images share buffers.
//!
//! Each ring has a floor, the buffers that are kept for it, whatever the others do, so that a block of its layers can
//! always become complete. What is beyond all floors is free for whoever asks, but a ring may have no more of it than a
//! multiple of what is still free (a *dynamic threshold*, as switches share the memory for their ports): one fast
//! camera gets nearly all, and the next one that comes still finds something.

use std::sync::{Arc, Weak};

use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use crate::sync::{Mutex, Unpoisoned};

/// A ring gets a buffer beyond its floor as long as it has less than this many times what is free beyond all floors.
const TIMES_FREE: usize = 8;
/// What must be left beyond all floors.
const SURPLUS_MIN: usize = 2;

/// A ring, to which free buffers are told.
pub(super) trait Starving: Send + Sync {
    fn tell_free(&self);
}

/// What rings that share buffers have in common.
pub(super) struct Shares {
    /// Free buffers that are kept for no ring.
    pub(super) surplus: AtomicUsize,
    /// Buffers that are kept for no ring, free or not.
    beyond: AtomicUsize,
    /// Some ring found no buffer, and none has become free since.
    any_starved: AtomicBool,
    /// The rings that did: a plate has hundreds, and one of them waits.
    starving: Mutex<Vec<Weak<dyn Starving>>>,
}

/// One ring's part.
pub(super) struct Share {
    /// Buffers on loan or committed.
    held: AtomicUsize,
    floor: usize,
    limit: usize,
}

impl Shares {
    pub(super) fn new(buffers: usize) -> Self {
        let (any_starved, starving) = (AtomicBool::new(false), Mutex::new(Vec::new()));
        let [surplus, beyond] = [buffers; 2].map(AtomicUsize::new);
        Self { surplus, beyond, any_starved, starving }
    }

    /// Keeps buffers for one ring more; `None` if there are not enough.
    pub(super) fn begin(&self, floor: usize, limit: usize) -> Option<Share> {
        let keep = |surplus: usize| surplus.checked_sub(floor).filter(|&left| left >= SURPLUS_MIN);
        self.surplus.fetch_update(Ordering::AcqRel, Ordering::Relaxed, keep).ok()?;
        self.beyond.fetch_sub(floor, Ordering::Relaxed);
        Some(Share { held: AtomicUsize::new(0), floor, limit: limit.max(floor).max(1) })
    }

    /// A ring found no free buffer, and hears of the next one. `starved`: whether it is among those that hear.
    pub(super) fn starve(&self, ring: &Arc<impl Starving + 'static>, starved: &AtomicBool) {
        let mut starving = self.starving.lock().unpoisoned();
        // With the lock held: where another thread has said so already, the ring is among those that hear.
        if !starved.swap(true, Ordering::Relaxed) {
            let ring = Arc::downgrade(ring);
            starving.push(ring);
        }
        self.any_starved.store(true, Ordering::Relaxed);
    }

    /// A buffer can be had, by a ring that has a right to it.
    pub(super) fn tell_free(&self) {
        // Meets the fence in `Ring::try_again`.
        fence(Ordering::SeqCst);
        if self.any_starved.load(Ordering::Relaxed) && self.any_starved.swap(false, Ordering::Relaxed) {
            let starving = std::mem::take(&mut *self.starving.lock().unpoisoned());
            starving.iter().filter_map(Weak::upgrade).for_each(|ring| ring.tell_free());
        }
    }
}

impl Share {
    pub(super) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// How many of the surplus a ring that holds this many may still have.
    fn allowed(held: usize, surplus: usize) -> bool {
        surplus > 0 && held < surplus.saturating_mul(TIMES_FREE)
    }

    /// How many buffers the ring could take now.
    pub(super) fn left(&self, shares: &Shares) -> usize {
        self.left_of(self.held(), shares.surplus.load(Ordering::Relaxed))
    }

    /// How many buffers the ring can have at most: as long as the others have none beyond their floors.
    pub(super) fn most(&self, shares: &Shares) -> usize {
        self.left_of(0, shares.beyond.load(Ordering::Relaxed))
    }

    /// How many more it could take if it had `held`, and `surplus` were free and kept for no ring.
    fn left_of(&self, held: usize, surplus: usize) -> usize {
        let kept = self.floor.saturating_sub(held);
        // The largest `more` after which it would hold no more than the multiple of what is left.
        let beyond = (surplus * TIMES_FREE).saturating_sub(held.max(self.floor)).div_ceil(TIMES_FREE + 1).min(surplus);
        (kept + beyond).min(self.limit.saturating_sub(held))
    }

    /// Takes the right to a buffer, if the ring may have one.
    ///
    /// AcqRel throughout: whoever takes a right that another gave back finds the buffer in the queue.
    pub(super) fn take(&self, shares: &Shares) -> bool {
        let mut held = self.held.load(Ordering::Relaxed);
        loop {
            if held >= self.limit {
                return false;
            }
            let is_beyond = held >= self.floor;
            if is_beyond {
                let take = |surplus: usize| Self::allowed(held, surplus).then(|| surplus - 1);
                if shares.surplus.fetch_update(Ordering::AcqRel, Ordering::Relaxed, take).is_err() {
                    return false;
                }
            }
            match self.held.compare_exchange_weak(held, held + 1, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => {
                    held = now;
                    shares.surplus.fetch_add(usize::from(is_beyond), Ordering::AcqRel);
                }
            }
        }
    }

    /// Gives the right to a buffer back, which is in the queue again.
    pub(super) fn give_back(&self, shares: &Shares) {
        if self.held.fetch_sub(1, Ordering::AcqRel) > self.floor {
            shares.surplus.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// The ring holds nothing and wants nothing any more.
    pub(super) fn end(&self, shares: &Shares) {
        // Loans and viewers keep their ring; what a run that broke off left is lost to all of them.
        let held = self.held();
        shares.surplus.fetch_add(self.floor.saturating_sub(held), Ordering::AcqRel);
        shares.beyond.fetch_add(self.floor, Ordering::Relaxed);
        shares.beyond.fetch_sub(held, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_ring_gets_nearly_all_and_another_still_finds_some() {
        let shares = Shares::new(100);
        let [fast, slow] = [0, 4].map(|floor| shares.begin(floor, 1000).unwrap());
        let most = fast.most(&shares);
        let mut taken = 0;
        while fast.take(&shares) {
            taken += 1;
            assert!(fast.left(&shares) <= 100 - taken);
        }
        assert!((80..96).contains(&taken), "{taken}");
        assert_eq!((taken, fast.left(&shares)), (most, 0));
        // What is kept for it, and of the rest as much as there is.
        let slow_gets = std::iter::repeat_with(|| slow.take(&shares)).take_while(|&took| took).count();
        assert!(slow_gets >= 4 + (96 - taken) * 8 / 10, "{slow_gets} beside {taken}");
        (0..taken).for_each(|_| fast.give_back(&shares));
        (0..slow_gets).for_each(|_| slow.give_back(&shares));
        slow.end(&shares);
        assert_eq!(shares.surplus.load(Ordering::Relaxed), 100);
        assert!(fast.most(&shares) > most && fast.most(&shares) == fast.left(&shares));
    }

    /// Counts what it is told.
    struct Told(AtomicBool, AtomicUsize);

    impl Starving for Told {
        fn tell_free(&self) {
            self.0.store(false, Ordering::Relaxed);
            self.1.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn who_found_no_buffer_is_told_once_and_nobody_else() {
        let shares = Shares::new(100);
        let rings = [0, 1, 2].map(|_| Arc::new(Told(AtomicBool::new(false), AtomicUsize::new(0))));
        let told = || rings.each_ref().map(|ring| ring.1.load(Ordering::Relaxed));
        shares.tell_free();
        assert_eq!(told(), [0, 0, 0]);
        // Those who ask again before a buffer is free are told once.
        [1, 1, 2, 1].iter().for_each(|&at| shares.starve(&rings[at], &rings[at].0));
        shares.tell_free();
        shares.tell_free();
        assert_eq!(told(), [0, 1, 1]);
        shares.starve(&rings[1], &rings[1].0);
        shares.tell_free();
        assert_eq!(told(), [0, 2, 1]);
    }

    #[test]
    fn what_is_kept_for_one_is_never_anothers() {
        let shares = Shares::new(12);
        let one = shares.begin(6, 12).unwrap();
        let other = shares.begin(4, 12).unwrap();
        assert!(shares.begin(1, 12).is_none(), "two stay for whoever asks");
        assert_eq!((one.most(&shares), other.most(&shares)), (8, 6));
        while one.take(&shares) {}
        assert_eq!((one.held(), other.left(&shares)), (8, 4));
        assert_eq!((0..9).filter(|_| other.take(&shares)).count(), 4);
        one.give_back(&shares);
        assert!(one.take(&shares) || other.take(&shares));
    }
}
