//! The primitives that carry frames between threads, in one place so that loom can stand in for them.
//!
//! In a normal build the queues are `crossbeam-channel`'s. Under `--cfg loom` they are a locked queue with the same
//! Release/Acquire hand-over, and atomics are loom's, so that the code above this module is what is model-checked.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic;

#[cfg(loom)]
pub(crate) use loom::sync::atomic;

#[cfg(not(loom))]
pub(crate) use crossbeam_channel::{Receiver, Sender, bounded};

#[cfg(not(loom))]
pub(crate) use std::sync::{Mutex, RwLock};

#[cfg(loom)]
pub(crate) use self::model::{Receiver, Sender, bounded};

#[cfg(loom)]
pub(crate) use loom::sync::{Mutex, RwLock};

use atomic::{AtomicUsize, Ordering};

/// Lets many threads ask for one piece of work that only one of them may do at a time, without any of them waiting.
///
/// Whoever signals first does the work, for itself and for all who signal meanwhile; the others leave at once. Work that
/// becomes possible before a signal is never missed: either the running thread's pass sees it, or the signal makes it
/// pass once more.
#[derive(Default)]
pub(crate) struct Doorbell {
    signals: AtomicUsize,
}

impl Doorbell {
    pub(crate) fn new() -> Self {
        Self { signals: AtomicUsize::new(0) }
    }

    /// Runs `work` now, unless another thread is at it; then that thread runs it once more.
    pub(crate) fn ring(&self, mut work: impl FnMut()) {
        // AcqRel: what this thread did before the signal is seen by the thread that takes the signal back below, and
        // what the last worker did is seen by the one that becomes the worker here.
        if self.signals.fetch_add(1, Ordering::AcqRel) > 0 {
            return;
        }
        let mut seen = 1;
        loop {
            work();
            let left = self.signals.fetch_sub(seen, Ordering::AcqRel) - seen;
            if left == 0 {
                return;
            }
            seen = left;
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
    pub(crate) fn new() -> Self {
        Self { inside: AtomicUsize::new(0) }
    }

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
            loom::thread::yield_now();
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

#[cfg(loom)]
mod model {
    use loom::sync::{Arc, Condvar, Mutex};
    use std::collections::VecDeque;

    struct Queue<T> {
        items: Mutex<(VecDeque<T>, usize)>,
        ready: Condvar,
        capacity: usize,
    }

    pub(crate) struct Sender<T>(Arc<Queue<T>>);
    pub(crate) struct Receiver<T>(Arc<Queue<T>>);

    #[derive(Debug, PartialEq, Eq)]
    pub(crate) enum TryRecvError {
        Empty,
        Disconnected,
    }

    pub(crate) fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
        let queue = Arc::new(Queue { items: Mutex::new((VecDeque::new(), 1)), ready: Condvar::new(), capacity });
        (Sender(queue.clone()), Receiver(queue))
    }

    impl<T> Sender<T> {
        pub(crate) fn try_send(&self, item: T) -> Result<(), T> {
            let mut items = self.0.items.lock().unwrap();
            if items.0.len() == self.0.capacity {
                return Err(item);
            }
            items.0.push_back(item);
            self.0.ready.notify_one();
            Ok(())
        }
    }

    impl<T> Clone for Sender<T> {
        fn clone(&self) -> Self {
            self.0.items.lock().unwrap().1 += 1;
            Self(self.0.clone())
        }
    }

    impl<T> Drop for Sender<T> {
        fn drop(&mut self) {
            self.0.items.lock().unwrap().1 -= 1;
            self.0.ready.notify_all();
        }
    }

    impl<T> Clone for Receiver<T> {
        fn clone(&self) -> Self {
            Self(self.0.clone())
        }
    }

    impl<T> Receiver<T> {
        pub(crate) fn try_recv(&self) -> Result<T, TryRecvError> {
            let mut items = self.0.items.lock().unwrap();
            match items.0.pop_front() {
                Some(item) => Ok(item),
                None if items.1 == 0 => Err(TryRecvError::Disconnected),
                None => Err(TryRecvError::Empty),
            }
        }

        pub(crate) fn recv(&self) -> Result<T, TryRecvError> {
            let mut items = self.0.items.lock().unwrap();
            loop {
                if let Some(item) = items.0.pop_front() {
                    return Ok(item);
                }
                if items.1 == 0 {
                    return Err(TryRecvError::Disconnected);
                }
                items = self.0.ready.wait(items).unwrap();
            }
        }

        pub(crate) fn len(&self) -> usize {
            self.0.items.lock().unwrap().0.len()
        }
    }
}
