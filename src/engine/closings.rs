//! What the closer is given to do, by threads that must not wait for it: it may itself be waiting for the sequencer,
//! which they run.

use std::collections::VecDeque;

use crate::sync::{Mutex, Receiver, Sender, Unpoisoned, bounded};

/// A queue that takes everything at once. What it has no room for lies beside it; for that, and for that alone, memory
/// is taken.
pub(crate) struct Closings<T> {
    queue: Sender<T>,
    beside: Mutex<VecDeque<T>>,
}

impl<T> Closings<T> {
    /// Returns also the closer's end. After each thing that it takes there, it shall ask for what lies
    /// [beside](Self::beside).
    pub(crate) fn new(capacity: usize) -> (Self, Receiver<T>) {
        let (queue, to_close) = bounded(capacity);
        (Self { queue, beside: Mutex::new(VecDeque::new()) }, to_close)
    }

    pub(crate) fn put(&self, thing: T) {
        let Err(unsent) = self.queue.try_send(thing) else { return };
        let mut beside = self.beside.lock().unpoisoned();
        beside.push_back(unsent.into_inner());
        // The closer may have emptied the queue meanwhile, and looked here before. If the queue is full now, it has yet
        // to take something, and looks here after that.
        while let Some(thing) = beside.pop_front() {
            if let Err(unsent) = self.queue.try_send(thing) {
                return beside.push_front(unsent.into_inner());
            }
        }
    }

    /// The oldest thing that the queue had no room for.
    pub(crate) fn beside(&self) -> Option<T> {
        self.beside.lock().unpoisoned().pop_front()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_for_a_closer_that_takes_nothing() {
        let (closings, to_close) = Closings::new(2);
        (0..7).for_each(|thing| closings.put(thing));
        let mut taken = Vec::new();
        while let Ok(thing) = to_close.try_recv() {
            taken.push(thing);
            taken.extend(std::iter::from_fn(|| closings.beside()));
        }
        taken.sort_unstable();
        assert_eq!(taken, [0, 1, 2, 3, 4, 5, 6]);
    }
}

#[cfg(all(test, loom))]
mod loom {
    use super::*;
    use ::loom::sync::Arc;
    use ::loom::thread;

    #[test]
    fn the_closer_gets_everything() {
        let mut model = ::loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let (closings, to_close) = Closings::new(1);
            let closings = Arc::new(closings);
            let shared = closings.clone();
            let thread = thread::spawn(move || [1, 2].into_iter().for_each(|thing| shared.put(thing)));
            closings.put(4);
            let mut sum = 0;
            while sum < 7 {
                // If anything were left beside, this would wait for ever, and loom would say so.
                sum += to_close.recv().unwrap();
                sum += std::iter::from_fn(|| closings.beside()).sum::<u32>();
            }
            thread.join().unwrap();
            assert_eq!(sum, 7);
        });
    }
}
