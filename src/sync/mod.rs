//! The primitives that carry frames between threads, in one place so that loom can stand in for them.
//!
//! In a normal build the queues are `crossbeam-channel`'s; what a camera's thread leaves for others lies in a
//! [`PolledQueue`](polled::PolledQueue). Under `--cfg loom` the queues are locked ones with the same Release/Acquire
//! hand-over, and atomics are loom's, so that the code above this module is what is model-checked.

mod lanes;
#[cfg(loom)]
mod model;
mod polled;
mod primitives;
mod relay;
mod unpoisoned;
mod watchers;

pub(crate) use self::lanes::{Lane, Lanes, Turn};
pub(crate) use self::primitives::{
    Condvar, Mutex, MutexGuard, Receiver, RwLock, RwLockReadGuard, RwLockWriteGuard, Sender, atomic, bounded,
};
pub(crate) use self::relay::Relay;
pub(crate) use self::unpoisoned::Unpoisoned;
pub(crate) use self::watchers::{Pending, Watcher, Watchers, event};

use atomic::{AtomicUsize, Ordering};

/// Lets many threads ask for one piece of work that only one of them may do at a time, without any of them waiting.
///
/// Whoever signals first does the work, for itself and for all who signal meanwhile; the others leave at once. Work
/// that becomes possible before a signal is never missed: either the running thread's pass sees it, or the signal makes
/// it pass once more.
#[derive(Default)]
pub(crate) struct Doorbell {
    signals: AtomicUsize,
}

impl Doorbell {
    /// Runs `work` now, unless another thread is at it; then that thread runs it once more.
    pub(crate) fn ring(&self, mut work: impl FnMut()) {
        // AcqRel: what this thread did before the signal is seen by the thread that takes the signal back below, and
        // what the last worker did is seen by the one that becomes the worker here.
        if self.signals.fetch_add(1, Ordering::AcqRel) > 0 {
            return;
        }
        work();
        self.leave(work);
    }

    /// Runs `first`, and then `work` as often as others signal meanwhile; if another thread is at work, nothing is
    /// done, and the answer is no. Neither may panic.
    pub(crate) fn ring_if_idle(&self, first: impl FnOnce(), work: impl FnMut()) -> bool {
        // AcqRel: as in `ring`.
        if self.signals.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return false;
        }
        first();
        self.leave(work);
        true
    }

    /// Answers the signals that came during a pass, and ends when none did.
    fn leave(&self, mut work: impl FnMut()) {
        let mut seen = 1;
        loop {
            let left = self.signals.fetch_sub(seen, Ordering::AcqRel) - seen;
            if left == 0 {
                return;
            }
            work();
            seen = left;
        }
    }
}

/// Waiting for another thread that is about to do something: first by giving way, then by sleeping. A thread with
/// real-time priority that only gave way would keep the other from the core that they share.
#[derive(Default)]
pub(crate) struct Backoff(u32);

impl Backoff {
    pub(crate) fn wait(&mut self) {
        const BEFORE_SLEEP: u32 = 64;
        self.0 = self.0.saturating_add(1);
        #[cfg(not(loom))]
        match self.0 {
            0..BEFORE_SLEEP => std::thread::yield_now(),
            _ => std::thread::sleep(std::time::Duration::from_micros(50)),
        }
        #[cfg(loom)]
        {
            let _ = BEFORE_SLEEP;
            ::loom::thread::yield_now();
        }
    }
}

/// Admits threads until it is closed; closing waits for those inside.
#[derive(Default)]
pub(crate) struct Gate {
    inside: AtomicUsize,
}

const CLOSED: usize = 1 << (usize::BITS - 1);

impl Gate {
    /// Enters, unless the gate is closed.
    pub(crate) fn enter(&self) -> Option<Inside<'_>> {
        // Acquire meets the Release of `close`; the matching Release is in `Inside::drop`.
        if self.inside.fetch_add(1, Ordering::Acquire) & CLOSED != 0 {
            self.inside.fetch_sub(1, Ordering::Release);
            return None;
        }
        Some(Inside { gate: self })
    }

    /// Closes the gate and returns when nobody is inside. All that they did is then visible.
    pub(crate) fn close(&self) {
        self.inside.fetch_or(CLOSED, Ordering::AcqRel);
        while self.inside.load(Ordering::Acquire) != CLOSED {
            #[cfg(not(loom))]
            std::thread::yield_now();
            #[cfg(loom)]
            ::loom::thread::yield_now();
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.inside.load(Ordering::Acquire) & CLOSED != 0
    }
}

/// One thread's stay inside a [`Gate`].
pub(crate) struct Inside<'a> {
    gate: &'a Gate,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.gate.inside.fetch_sub(1, Ordering::Release);
    }
}

/// Run with `RUSTFLAGS="--cfg loom" cargo test --release --lib --target-dir target/loom loom`.
#[cfg(all(test, loom))]
mod loom {
    use super::*;
    use ::loom::cell::UnsafeCell;
    use ::loom::sync::Arc;
    use ::loom::thread;
    use atomic::AtomicBool;

    /// Work that two threads must not do at once: loom reports concurrent uses of the cell.
    struct Desk {
        doorbell: Doorbell,
        done: UnsafeCell<usize>,
        wanted: [AtomicBool; 3],
    }

    impl Desk {
        fn new() -> Self {
            let wanted = std::array::from_fn(|_| AtomicBool::new(false));
            Self { doorbell: Doorbell::default(), done: UnsafeCell::new(0), wanted }
        }

        /// Asks for one piece of work. Relaxed: the doorbell must make the request visible to whoever works.
        fn want(&self, which: usize) {
            self.wanted[which].store(true, Ordering::Relaxed);
            self.doorbell.ring(|| self.serve());
        }

        /// The same, but its own work is done at once if nobody is at work.
        fn want_now(&self, which: usize) {
            if !self.doorbell.ring_if_idle(|| self.do_one(), || self.serve()) {
                self.want(which);
            }
        }

        fn serve(&self) {
            for wanted in &self.wanted {
                if wanted.load(Ordering::Relaxed) {
                    wanted.store(false, Ordering::Relaxed);
                    self.do_one();
                }
            }
        }

        #[allow(unsafe_code)]
        fn do_one(&self) {
            // SAFETY: one thread at a time; if not, loom fails the test.
            self.done.with_mut(|done| unsafe { *done += 1 });
        }
    }

    #[allow(unsafe_code)]
    fn three_pieces_of_work_are_done(ask: fn(&Desk, usize)) {
        // Three threads in all orders take minutes; three preemptions suffice for what two threads can do to a third.
        let mut model = ::loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(move || {
            let desk = Arc::new(Desk::new());
            let threads: Vec<_> = (0..2)
                .map(|which| {
                    let desk = desk.clone();
                    thread::spawn(move || ask(&desk, which))
                })
                .collect();
            ask(&desk, 2);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            // SAFETY: all other threads have ended.
            assert_eq!(desk.done.with(|done| unsafe { *done }), 3);
        });
    }

    #[test]
    fn doorbell_loses_no_work_and_lets_one_thread_work() {
        three_pieces_of_work_are_done(Desk::want);
    }

    #[test]
    fn work_that_finds_the_doorbell_idle_is_done_at_once() {
        three_pieces_of_work_are_done(Desk::want_now);
    }

    #[test]
    #[allow(unsafe_code)]
    fn a_closed_gate_has_nobody_inside() {
        ::loom::model(|| {
            let shared = Arc::new((Gate::default(), UnsafeCell::new(0)));
            let other = shared.clone();
            let thread = thread::spawn(move || {
                let Some(_inside) = other.0.enter() else { return false };
                // SAFETY: the only thread that uses the cell while the gate is open; if not, loom fails the test.
                other.1.with_mut(|value| unsafe { *value = 1 });
                true
            });
            shared.0.close();
            // SAFETY: nobody is inside any more, and nobody enters.
            let value = shared.1.with_mut(|value| unsafe { *value });
            assert_eq!(value == 1, thread.join().unwrap());
            assert!(shared.0.enter().is_none());
        });
    }
}
