//! A queue into which a thread that must never wait can put things without waking anybody.

use std::time::{Duration, Instant};

use super::primitives::{Condvar, Mutex, MutexGuard, Receiver, Sender, bounded};
use super::unpoisoned::Unpoisoned;

// A thread that waits looks again when it has waited for a quarter longer, so a look comes late by no more than that
// part of the time since the last thing came, and a camera that pauses costs next to nothing.
const LOOKS_AFTER: u32 = 4;
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(10);

/// A bounded queue for several threads at both ends. Whoever takes with a limit in time is the only one that takes.
///
/// Waking a thread is a call into the kernel, which takes longer than everything else a commit does; with a host or a
/// scheduler that is busy, some hundred microseconds. So of the threads that wait, one *watches*: it looks by itself
/// from time to time. What came by [`push_quietly`](Self::push_quietly) it finds then, after a quarter of the time it
/// has waited, 1 to 10 ms.
pub(crate) struct PolledQueue<T> {
    push: Sender<T>,
    things: Receiver<T>,
    /// What goes before all others.
    first: (Sender<T>, Receiver<T>),
    asleep: Mutex<Asleep>,
    came: Condvar,
}

struct Asleep {
    threads: usize,
    /// Whether one of them looks by itself. If none does, one has been woken that will.
    watched: bool,
}

impl<T> PolledQueue<T> {
    /// `first`: how many things may go before all others.
    pub(crate) fn new(capacity: usize, first: usize) -> Self {
        let (push, things) = bounded(capacity);
        Self {
            push,
            things,
            first: bounded(first),
            asleep: Mutex::new(Asleep { threads: 0, watched: false }),
            came: Condvar::new(),
        }
    }

    /// Waits for nobody and wakes nobody, unless the queue is full.
    pub(crate) fn push_quietly(&self, thing: T) {
        // The receiving end lives as long as this one.
        let _ = self.push.send(thing);
    }

    pub(crate) fn push(&self, thing: T) {
        self.push_quietly(thing);
        self.wake();
    }

    /// Before all that came by other calls.
    pub(crate) fn push_first(&self, thing: T) {
        let _ = self.first.0.send(thing);
        self.wake();
    }

    /// Whoever waits shall look now.
    pub(crate) fn wake(&self) {
        // Whoever is not counted yet looks once more before it sleeps.
        if self.asleep.lock().unpoisoned().threads > 0 {
            self.came.notify_one();
        }
    }

    fn try_pop(&self) -> Option<T> {
        self.first.1.try_recv().or_else(|_| self.things.try_recv()).ok()
    }

    /// The oldest thing, as soon as there is one.
    pub(crate) fn pop(&self) -> T {
        loop {
            if let Some(thing) = self.pop_within(Duration::MAX) {
                return thing;
            }
        }
    }

    /// The oldest thing, if there is one within this time, which may end somewhat later.
    pub(crate) fn pop_within(&self, time: Duration) -> Option<T> {
        if let Some(thing) = self.try_pop() {
            return Some(thing);
        }
        let since = Instant::now();
        let mut asleep = self.asleep.lock().unpoisoned();
        let thing = loop {
            if let Some(thing) = self.try_pop() {
                break Some(thing);
            }
            if time != Duration::MAX && since.elapsed() >= time {
                break None;
            }
            asleep.threads += 1;
            if asleep.watched {
                asleep = self.came.wait(asleep).unpoisoned();
            } else {
                asleep.watched = true;
                let pause = (since.elapsed() / LOOKS_AFTER).clamp(PAUSE_MIN, PAUSE_MAX);
                asleep = self.pause(asleep, pause.min(time.max(PAUSE_MIN)));
                asleep.watched = false;
            }
            asleep.threads -= 1;
        };
        let watch_is_free = asleep.threads > 0 && !asleep.watched;
        drop(asleep);
        if watch_is_free {
            self.came.notify_one();
        }
        thing
    }

    #[cfg(not(loom))]
    fn pause<'a>(&self, asleep: MutexGuard<'a, Asleep>, time: Duration) -> MutexGuard<'a, Asleep> {
        self.came.wait_timeout(asleep, time).unpoisoned().0
    }

    /// A model has no clock: the time may be up at any moment.
    #[cfg(loom)]
    fn pause<'a>(&'a self, asleep: MutexGuard<'a, Asleep>, _time: Duration) -> MutexGuard<'a, Asleep> {
        drop(asleep);
        ::loom::thread::yield_now();
        self.asleep.lock().unpoisoned()
    }

    #[cfg(all(test, loom))]
    fn is_empty(&self) -> bool {
        self.first.1.is_empty() && self.things.is_empty()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::thread;

    /// Takes things in `threads` threads until each has got `0`; what they got, in all.
    fn take_all(queue: &Arc<PolledQueue<u64>>, threads: usize, push: impl FnOnce()) -> u64 {
        let take = |_| {
            let queue = queue.clone();
            thread::spawn(move || std::iter::repeat_with(|| queue.pop()).take_while(|&thing| thing > 0).sum::<u64>())
        };
        let threads: Vec<_> = (0..threads).map(take).collect();
        push();
        threads.iter().for_each(|_| queue.push(0));
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    }

    #[test]
    fn everything_arrives_once() {
        let things = if cfg!(miri) { 20 } else { 10_000 };
        let queue = Arc::new(PolledQueue::new(64, 1));
        let push = || {
            (1..=things).for_each(|thing| if thing % 3 == 0 { queue.push(thing) } else { queue.push_quietly(thing) })
        };
        assert_eq!(take_all(&queue, 3, push), things * (things + 1) / 2);
    }

    #[test]
    fn what_nobody_is_woken_for_is_found_all_the_same() {
        let queue = Arc::new(PolledQueue::new(4, 1));
        let shared = queue.clone();
        let found = thread::spawn(move || (shared.pop(), Instant::now()));
        // It sleeps by now.
        thread::sleep(Duration::from_millis(20));
        let left = Instant::now();
        queue.push_quietly(7);
        let (thing, at) = found.join().unwrap();
        assert_eq!(thing, 7);
        // 10 ms at most, but a machine that is busy comes on top.
        assert!(at - left < Duration::from_secs(2), "{:?}", at - left);
    }

    #[test]
    fn whoever_leaves_the_watch_has_it_taken_over() {
        let queue = Arc::new(PolledQueue::new(4, 1));
        let (takes, taken) = std::sync::mpsc::channel();
        for _ in 0..3 {
            let (queue, takes) = (queue.clone(), takes.clone());
            thread::spawn(move || takes.send(queue.pop()));
        }
        for thing in 0..3 {
            // All who are left sleep by now.
            thread::sleep(Duration::from_millis(30));
            queue.push_quietly(thing);
            assert_eq!(taken.recv_timeout(Duration::from_secs(60)), Ok(thing));
        }
    }
}

#[cfg(all(test, loom))]
mod loom {
    use super::*;
    use ::loom::sync::Arc;
    use ::loom::thread;

    /// Two threads take a thing each.
    fn both_are_taken(push: fn(&PolledQueue<u32>, u32)) {
        let mut model = ::loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(move || {
            let queue = Arc::new(PolledQueue::new(2, 1));
            let take = |_| {
                let queue = queue.clone();
                thread::spawn(move || queue.pop())
            };
            let threads = [0, 1].map(take);
            push(&queue, 1);
            push(&queue, 2);
            assert_eq!(threads.map(|thread| thread.join().unwrap()).iter().sum::<u32>(), 3);
            assert!(queue.is_empty());
        });
    }

    #[test]
    fn nobody_sleeps_on_while_something_is_there() {
        both_are_taken(PolledQueue::push);
    }

    #[test]
    fn nobody_sleeps_on_while_nobody_wakes() {
        both_are_taken(PolledQueue::push_quietly);
    }
}
