//! A queue of many lanes that are served in turn: whoever puts much into one keeps no other waiting.

use std::sync::Arc;
use std::time::Duration;

use super::polled::PolledQueue;
use super::primitives::atomic::{AtomicBool, Ordering};
use super::primitives::{Receiver, Sender, bounded};

/// The lanes in which things wait, in the order in which they are served.
pub(crate) struct Lanes<T> {
    turns: PolledQueue<Turn<T>>,
}

/// What a thread that serves is to do next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Turn<T> {
    /// [Take](Lane::take) one thing of the lane with this number.
    Lane(u32),
    /// One that goes before all others, and its lane.
    First(u32, T),
    /// Nothing more comes.
    End,
}

pub(crate) struct Lane<T> {
    number: u32,
    lanes: Arc<Lanes<T>>,
    things: (Sender<T>, Receiver<T>),
    /// It waits for its turn. A lane has one turn at most, however much is in it.
    is_listed: AtomicBool,
}

impl<T> Lanes<T> {
    /// For up to `lanes` lanes, and `first` things that go before all others.
    pub(crate) fn new(lanes: usize, first: usize) -> Arc<Self> {
        Arc::new(Self { turns: PolledQueue::new(lanes + 1, first) })
    }

    pub(crate) fn pop(&self) -> Turn<T> {
        self.turns.pop()
    }

    pub(crate) fn pop_within(&self, time: Duration) -> Option<Turn<T>> {
        self.turns.pop_within(time)
    }

    pub(crate) fn wake(&self) {
        self.turns.wake();
    }

    /// Tells one of the threads that serve to end; it shall pass that on.
    pub(crate) fn end(&self) {
        self.turns.push(Turn::End);
    }
}

impl<T> Lane<T> {
    /// A lane for this many things, with a number that no other has.
    pub(crate) fn new(lanes: &Arc<Lanes<T>>, number: u32, capacity: usize) -> Self {
        Self { number, lanes: lanes.clone(), things: bounded(capacity), is_listed: AtomicBool::new(false) }
    }

    /// Waits for nobody and wakes nobody, unless the lane is full.
    pub(crate) fn push_quietly(&self, thing: T) {
        // The receiving end lives as long as this one.
        let _ = self.things.0.send(thing);
        // AcqRel: meets the swap in `take`. Either that one sees the thing, or this one sees that the lane is not
        // listed any more.
        if !self.is_listed.swap(true, Ordering::AcqRel) {
            self.lanes.turns.push_quietly(Turn::Lane(self.number));
        }
    }

    pub(crate) fn push(&self, thing: T) {
        self.push_quietly(thing);
        self.lanes.wake();
    }

    /// Before all that is in any lane.
    pub(crate) fn push_first(&self, thing: T) {
        self.lanes.turns.push_first(Turn::First(self.number, thing));
    }

    pub(crate) fn wake(&self) {
        self.lanes.wake();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.things.1.is_empty()
    }

    /// For whoever has got the lane's turn: the oldest thing. If there are more, the lane waits for another turn behind
    /// all others.
    pub(crate) fn take(&self) -> Option<T> {
        let thing = self.things.1.try_recv().ok();
        if self.is_empty() {
            // AcqRel: as in `push_quietly`.
            self.is_listed.swap(false, Ordering::AcqRel);
            if self.is_empty() || self.is_listed.swap(true, Ordering::AcqRel) {
                return thing;
            }
        }
        self.lanes.turns.push(Turn::Lane(self.number));
        thing
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_served_in_turn_however_much_is_in_one() {
        let lanes = Lanes::new(2, 1);
        let [full, other] = [0, 1].map(|number| Lane::new(&lanes, number, 8));
        (0..5).for_each(|thing| full.push_quietly(thing));
        other.push_quietly(10);
        let serve = || match lanes.pop() {
            Turn::Lane(0) => full.take(),
            Turn::Lane(_) => other.take(),
            Turn::First(lane, thing) => Some(100 * lane + thing),
            Turn::End => None,
        };
        assert_eq!([serve(), serve(), serve()], [Some(0), Some(10), Some(1)]);
        other.push(11);
        full.push_first(7);
        assert_eq!([serve(), serve(), serve(), serve()], [Some(7), Some(2), Some(11), Some(3)]);
        assert_eq!(serve(), Some(4));
        assert_eq!(lanes.pop_within(Duration::ZERO), None);
        lanes.end();
        assert_eq!(serve(), None);
    }
}

#[cfg(all(test, loom))]
mod loom {
    use super::*;
    use ::loom::thread;

    /// A thread that serves gets everything that two others put into lanes, one of them into both.
    #[test]
    fn nothing_stays_in_a_lane_that_nobody_serves() {
        let mut model = ::loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| {
            let lanes = Lanes::new(2, 1);
            let both = Arc::new([0, 1].map(|number| Lane::new(&lanes, number, 4)));
            let pusher = |things: &'static [(usize, u32)]| {
                let both = both.clone();
                thread::spawn(move || things.iter().for_each(|&(lane, thing)| both[lane].push_quietly(thing)))
            };
            let threads = [pusher(&[(0, 1), (1, 2)]), pusher(&[(0, 4)])];
            let mut sum = 0;
            while sum < 7 {
                // If a lane were forgotten, this would wait for ever, and loom would say so.
                if let Turn::Lane(number) = lanes.pop() {
                    sum += both[number as usize].take().unwrap_or(0);
                }
            }
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(sum, 7);
        });
    }
}
