//! Work that many threads ask for and one at a time does, none of them for long.

use super::primitives::atomic::{AtomicBool, AtomicUsize, Ordering};

// Far more than happens while threads ask now and then.
const PASSES_MAX: usize = 8;
/// In the count of signals: nobody is at work, and some is left.
const LEFT: usize = 1 << (usize::BITS - 1);

/// As a [`Doorbell`](super::Doorbell), but whoever works may stop before all is done, and does after some passes: with
/// many threads that ask all the time, the first of them would work for all others and never return.
///
/// What is left is taken up by the next that asks. In case nobody does, somebody is called, who
/// [`answers`](Self::answer) when it has time. So between a signal and the work for it there is always somebody who is
/// bound to come.
#[derive(Default)]
pub(crate) struct Relay {
    /// Signals that nobody has answered, and [`LEFT`]. Above 0 without that: a thread is at work.
    signals: AtomicUsize,
    /// Somebody was called and has not answered yet.
    called: AtomicBool,
}

impl Relay {
    /// Does `work`, which returns whether it left some, unless another thread is at it; then that one does it once
    /// more. True: the caller must call somebody who answers.
    #[must_use]
    pub(crate) fn ring(&self, work: impl FnMut() -> bool) -> bool {
        // AcqRel: what this thread did before is seen by whoever takes the signal back, and what the last worker did by
        // the one that becomes the worker here.
        match self.signals.fetch_add(1, Ordering::AcqRel) {
            0 => self.serve(1, work),
            before if before & LEFT != 0 => self.take_up(work),
            _ => false,
        }
    }

    /// For whoever was called: goes on with what is left, unless somebody has.
    #[must_use]
    pub(crate) fn answer(&self, work: impl FnMut() -> bool) -> bool {
        // AcqRel: meets the swap in `serve`. Either that one sees that the call was answered and calls again, or this
        // thread sees that work was left.
        self.called.swap(false, Ordering::AcqRel);
        self.take_up(work)
    }

    fn take_up(&self, work: impl FnMut() -> bool) -> bool {
        // AcqRel: as in `ring`. Of those who find work left, one takes it up; the others' signals came before that.
        let before = self.signals.fetch_and(!LEFT, Ordering::AcqRel);
        before & LEFT != 0 && self.serve(before & !LEFT, work)
    }

    /// Answers `seen` signals, and those that come meanwhile.
    fn serve(&self, mut seen: usize, mut work: impl FnMut() -> bool) -> bool {
        for _ in 0..PASSES_MAX {
            if work() {
                break;
            }
            let left = self.signals.fetch_sub(seen, Ordering::AcqRel) - seen;
            if left == 0 {
                return false;
            }
            seen = left;
        }
        // There are signals: some of `seen` at least. Release: whoever takes up sees what this thread did.
        self.signals.fetch_or(LEFT, Ordering::AcqRel);
        !self.called.swap(true, Ordering::AcqRel)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn what_one_leaves_the_next_takes_up_or_whoever_was_called() {
        let relay = Relay::default();
        let left = Cell::new(4);
        let work = || {
            left.set(left.get() - 1);
            left.get() > 0
        };
        assert!(relay.ring(work), "somebody must come");
        assert_eq!(left.get(), 3);
        assert!(!relay.ring(work), "who was called has not come yet");
        assert_eq!(left.get(), 2);
        assert!(relay.answer(work));
        assert!(!relay.answer(work));
        assert_eq!(left.get(), 0);
        // Nothing is left, and who comes late finds nothing to do.
        assert!(!relay.answer(|| unreachable!()));
        left.set(1);
        assert!(!relay.ring(work));
    }

    #[test]
    fn nobody_works_for_the_others_for_ever() {
        let relay = Relay::default();
        let passes = Cell::new(0);
        // With each pass another thread asks again, as far as the relay can tell.
        let work = || {
            passes.set(passes.get() + 1);
            assert!(!relay.ring(|| unreachable!("one at a time")));
            false
        };
        assert!(relay.ring(work));
        assert_eq!(passes.get(), PASSES_MAX);
        assert!(!relay.answer(|| false));
    }
}

#[cfg(all(test, loom))]
mod loom {
    use super::*;
    use ::loom::cell::UnsafeCell;
    use ::loom::sync::Arc;
    use ::loom::thread;

    /// Work of which one piece is done at a time: loom reports concurrent uses of the cell.
    struct Desk {
        relay: Relay,
        done: UnsafeCell<usize>,
        wanted: [AtomicBool; 3],
        calls: AtomicUsize,
    }

    impl Desk {
        /// Relaxed: the relay must make the request visible to whoever works.
        fn want(&self, which: usize) {
            self.wanted[which].store(true, Ordering::Relaxed);
            if self.relay.ring(|| self.do_one()) {
                self.calls.fetch_add(1, Ordering::AcqRel);
            }
        }

        /// Does the first piece that is wanted. True: there is another.
        #[allow(unsafe_code)]
        fn do_one(&self) -> bool {
            let mut wanted = self.wanted.iter().filter(|wanted| wanted.load(Ordering::Relaxed));
            if let Some(first) = wanted.next() {
                first.store(false, Ordering::Relaxed);
                // SAFETY: one thread at a time; if not, loom fails the test.
                self.done.with_mut(|done| unsafe { *done += 1 });
            }
            wanted.next().is_some()
        }

        /// Answers the calls that there are.
        fn answer(&self) {
            while self.calls.load(Ordering::Acquire) > 0 {
                self.calls.fetch_sub(1, Ordering::AcqRel);
                if self.relay.answer(|| self.do_one()) {
                    self.calls.fetch_add(1, Ordering::AcqRel);
                }
            }
        }
    }

    #[test]
    #[allow(unsafe_code)]
    fn nothing_is_lost_between_those_who_leave_work_and_those_who_take_it_up() {
        let mut model = ::loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let desk = Arc::new(Desk {
                relay: Relay::default(),
                done: UnsafeCell::new(0),
                wanted: std::array::from_fn(|_| AtomicBool::new(false)),
                calls: AtomicUsize::new(0),
            });
            let other = |which: usize| {
                let desk = desk.clone();
                thread::spawn(move || desk.want(which))
            };
            let threads = [other(0), other(1)];
            desk.want(2);
            // Whoever is called may come at any time.
            desk.answer();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            desk.answer();
            // SAFETY: all other threads have ended.
            assert_eq!(desk.done.with(|done| unsafe { *done }), 3);
            assert_eq!(desk.relay.signals.load(Ordering::Acquire), 0);
        });
    }
}
